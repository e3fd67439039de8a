//! char(n), from the socket's side: blanks at the end as PostgreSQL has them, in every place that
//! takes a text.

use crate::fixture::Veil;

const SCHEMA: &str = "
    CREATE SCHEMA \"Shop\"; CREATE DOMAIN \"Shop\".mark AS char(4);
    CREATE TABLE \"Shop\".nations (code char(5) PRIMARY KEY, name char(25) NOT NULL, region \
    varchar(10) NOT NULL);
    INSERT INTO \"Shop\".nations VALUES ('FR', 'FRANCE', 'EUROPE'), ('DE', 'GERMANY', 'EUROPE'), \
    ('PE', 'PERU', 'AMERICA');
    CREATE TABLE \"Shop\".\"Buyers\" (\"Code\" char(8) PRIMARY KEY, segment char(10) NOT NULL, \
    flag \
    char, nation char(5) NOT NULL REFERENCES \"Shop\".nations,
        town char(12), short varchar(12) NOT NULL, long text NOT NULL, free bpchar NOT NULL, \
        mark \"Shop\".mark, n int NOT NULL);
    INSERT INTO \"Shop\".\"Buyers\" SELECT 'B' || g, (ARRAY['AUTO', 'BUILDING', 'HOUSE'])[1 + g % \
    3], (ARRAY['A', 'N', NULL])[1 + g % 3],
        (ARRAY['FR', 'DE', 'PE'])[1 + g / 2 % 3], (ARRAY['Lyon', 'Köln', 'El Puerto'])[1 + g % 3], \
        (ARRAY['Lyon  ', 'Köln', 'El Puerto'])[1 + g % 3],
        (ARRAY['Lyon', 'Köln ', 'Nice'])[1 + g % 3], (ARRAY['x', 'y '])[1 + g % 2], (ARRAY['m1', \
        'm2'])[1 + g % 2], g
    FROM generate_series(1, 600) g;
    CREATE TABLE \"Shop\".orders (id int PRIMARY KEY, buyer char(8) NOT NULL \
    REFERENCES \"Shop\".\"Buyers\", mode char(10) NOT NULL, price numeric(10,2) NOT NULL);
    INSERT INTO \"Shop\".orders SELECT g, 'B' || 1 + g % 600, (ARRAY['AIR', 'REG AIR', 'SHIP'])[1 \
    + \
    g % 3], g % 50 FROM generate_series(1, 1200) g";

const POLICY: &str = "\
version: 1
database:
  url: ${DATABASE_URL}
ledger:
  url: ${PGVEIL_LEDGER}
privacy: {unit: buyer, budget: {epsilon: 90000, delta: 1e-3}, per_query: {epsilon: 8, max_epsilon: \
    8}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90000, delta: 1e-3}}]
tables:
  Shop.nations: public
  Shop.Buyers:
    unit: Code
    other_columns: visible
    columns:
      segment: {values: [AUTO, BUILDING, 'HOUSE ']}
      flag: {values: [A, N]}
      nation: {domain: Shop.nations.code}
      n: {bounds: [0, 1000]}
  Shop.orders: \
  {unit: {path: [buyer -> Shop.Buyers.Code]}, rows_per_unit: 2, columns: {mode: {values: [AIR, REG \
  AIR, SHIP]}, price: {bounds: [0, 50]}}}
";

async fn shop() -> Veil {
    Veil::over(
        async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap(),
        POLICY,
        Veil::silent(),
    )
    .await
}

/// Asks all questions, and expects PostgreSQL's own rows for each.
async fn alike(veil: &Veil, questions: impl IntoIterator<Item = String>) {
    let mut different = Vec::new();
    for sql in questions {
        let wanted = veil.direct(&sql).await;
        match veil.rows_as(&Veil::requester(), &sql).await {
            Ok(rows) if rows == wanted => {}
            Ok(rows) => different.push(format!("{sql}: {rows:?}, not {wanted:?}")),
            Err(error) => different.push(format!("{sql}: {error} {:?}", error.report())),
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

/// Keys: printed with their blanks, listed or not.
const KEYS: [&str; 26] = [
    "segment",
    "flag",
    "nation",
    "town",
    "free || ''",
    "mark",
    "\"Code\" = 'B7 '",
    "segment || '|'",
    "concat(segment, '|')",
    "concat(town, '|')",
    "upper(town)",
    "length(town)",
    "octet_length(town)",
    "substring(segment FROM 1 FOR 5) || '|'",
    "segment::text",
    "segment::varchar",
    "segment::char(4)",
    "town::char(2)",
    "long::char(6)",
    "coalesce(flag, '-')",
    "coalesce(flag, 'none')",
    "CASE WHEN segment = 'AUTO' THEN segment ELSE 'other' END",
    "CASE WHEN n > 300 THEN segment END",
    "nullif(segment, 'AUTO ')",
    "CASE town WHEN 'Lyon  ' THEN 'l' ELSE 'k' END",
    "rpad(town, 6, '.')",
];

/// Each compares with the rules of char, varchar or text.
const CONDITIONS: [&str; 43] = [
    "segment = 'AUTO'",
    "segment = 'AUTO   '",
    "segment = 'AUTO   '::text",
    "segment = 'AUTO   '::varchar",
    "segment = 'AUTO'::char(20)",
    "segment <> 'AUTO '",
    "segment IN ('AUTO ', 'HOUSE')",
    "segment NOT IN ('AUTO ')",
    "segment = ANY (ARRAY['AUTO', 'HOUSE '])",
    "segment <> ALL (ARRAY['AUTO', 'HOUSE '])",
    "segment = ANY (ARRAY['AUTO', 'HOUSE ']::char(10)[])",
    "segment = ANY ('{AUTO,\"HOUSE \"}'::text[])",
    "town = 'Lyon '",
    "town = short",
    "short = town",
    "town = long",
    "long = town",
    "town = segment",
    "town IN (short, segment)",
    "town IS DISTINCT FROM 'Lyon'",
    "town BETWEEN 'K' AND 'Lyon  '",
    "town > 'L'",
    "(segment, nation) = ('AUTO', 'FR')",
    "free = 'x  '",
    "free = 'y'",
    "mark = 'm1'",
    "mark LIKE 'm1'",
    "town LIKE 'Lyon'",
    "town LIKE 'Lyon%'",
    "town LIKE 'Lyon        '",
    "town NOT LIKE '%n'",
    "town ILIKE 'lyon%'",
    "town SIMILAR TO '(Lyon|Köln) +'",
    "town ~ 'n$'",
    "town ~ '^Lyon +$'",
    "regexp_like(town, 'n$')",
    "starts_with(town, 'Lyon ')",
    "position(' ' IN town) > 0",
    "left(segment, 1) = 'A'",
    "trim(town) = 'Lyon'",
    "flag IS NULL OR flag = 'A '",
    "coalesce(flag, 'Z') = 'Z '",
    "lower(segment) = 'auto'",
];

#[tokio::test(flavor = "multi_thread")]
async fn char_is_answered_as_postgresql_does() {
    let veil = shop().await;
    let keys = KEYS.map(|key| {
        format!(
            "SELECT {key} AS k, count(*), sum(n) \
        FROM \"Shop\".\"Buyers\" \
        GROUP BY 1 HAVING count(*) > 0 ORDER BY 2, 1"
        )
    });
    let conditions = CONDITIONS.map(|condition| {
        format!("SELECT count(*), count(*) FILTER (WHERE {condition}) FROM \"Shop\".\"Buyers\"")
    });
    let others = [
        // Joins along the unit, and with a public table by a key of char.
        "SELECT b.segment, o.mode, count(*), sum(price) FROM \"Shop\".orders o \
            JOIN \"Shop\".\"Buyers\" b ON o.buyer = b.\"Code\" GROUP BY 1, 2 HAVING count(*) > 0 \
            ORDER BY 1, 2",
        "SELECT c.name, count(*) FROM \"Shop\".\"Buyers\" b JOIN \"Shop\".nations c ON b.nation = \
            c.code GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
        "SELECT name, count(*) FROM \"Shop\".\"Buyers\" b JOIN \"Shop\".nations c ON c.code = \
            b.nation WHERE c.name IN ('FRANCE', 'PERU ') GROUP BY 1 HAVING count(*) > 0 ORDER BY 1 \
            DESC",
        "SELECT count(*) FROM \"Shop\".\"Buyers\" JOIN \"Shop\".nations ON nation = code WHERE \
            region = 'EUROPE' AND name LIKE 'GER%'",
        // Subqueries.
        "SELECT count(*) FROM \"Shop\".\"Buyers\" WHERE nation IN (SELECT code \
            FROM \"Shop\".nations WHERE region = 'EUROPE')",
        "SELECT count(*) FROM \"Shop\".\"Buyers\" b WHERE EXISTS (SELECT 1 FROM \"Shop\".nations c \
            WHERE c.code = b.nation AND c.name = 'PERU')",
        "SELECT count(*) FROM \"Shop\".\"Buyers\" b WHERE EXISTS (SELECT 1 FROM \"Shop\".orders o \
            WHERE o.buyer = b.\"Code\" AND o.mode = 'AIR')",
        "SELECT count(*) FROM \"Shop\".\"Buyers\" WHERE segment IN (SELECT segment \
            FROM \"Shop\".\"Buyers\" GROUP BY segment HAVING count(*) > 10)",
        "SELECT count(*) FROM \"Shop\".\"Buyers\" WHERE town IN (SELECT town \
            FROM \"Shop\".\"Buyers\" GROUP BY town HAVING count(*) > 10)",
        "SELECT count(*) FROM \"Shop\".\"Buyers\" WHERE long IN (SELECT town \
            FROM \"Shop\".\"Buyers\" GROUP BY town HAVING count(*) > 10)",
        "SELECT segment, count(*) FROM \"Shop\".\"Buyers\" WHERE segment = (SELECT mode \
            FROM \"Shop\".orders GROUP BY mode ORDER BY count(*) DESC, mode LIMIT 1) OR n > 0 \
            GROUP \
            BY 1 HAVING count(*) > 0 ORDER BY 1",
        // Within one unit.
        "SELECT mode, n, count(*) FROM (SELECT buyer, mode, count(*) AS n FROM \"Shop\".orders \
            GROUP BY buyer, mode) q GROUP BY 1, 2 HAVING count(*) > 0 ORDER BY 1, 2",
        "SELECT first, count(*) FROM (SELECT buyer, min(mode) AS first FROM \"Shop\".orders GROUP \
            BY buyer) q GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
        "SELECT last, count(*) FROM (SELECT buyer, lag(mode) OVER (PARTITION BY buyer ORDER BY \
            price) AS last FROM \"Shop\".orders) q GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
        "SELECT count(*) FROM (SELECT DISTINCT buyer, mode FROM \"Shop\".orders) q",
        // Distinct, modes, sets, unions and the outer query.
        "SELECT count(DISTINCT segment), count(DISTINCT town), count(DISTINCT flag), \
            count(DISTINCT \"Code\") FROM \"Shop\".\"Buyers\"",
        "SELECT mode() WITHIN GROUP (ORDER BY segment) FROM \"Shop\".\"Buyers\" WHERE n % 3 = 0",
        "SELECT DISTINCT segment FROM \"Shop\".\"Buyers\" ORDER BY 1",
        "SELECT segment, flag, count(*) FROM \"Shop\".\"Buyers\" GROUP BY ROLLUP (segment, flag) \
            HAVING count(*) > 0 ORDER BY 1, 2, 3",
        "SELECT segment || '!' || count(*), rank() OVER (ORDER BY segment) \
            FROM \"Shop\".\"Buyers\" \
            GROUP BY segment HAVING count(*) > 0 AND segment <> 'AUTO ' ORDER BY 2",
        "SELECT k, count(*) FROM (SELECT \"Code\", segment AS k FROM \"Shop\".\"Buyers\" UNION ALL \
            SELECT buyer, mode FROM \"Shop\".orders) q GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
        "SELECT * FROM \"Shop\".nations WHERE code = 'FR ' ORDER BY name",
        // Named by the query itself.
        "SELECT town, count(*) FROM \"Shop\".\"Buyers\" WHERE town IN ('Lyon', 'Köln ') GROUP BY \
            town ORDER BY 1",
        "SELECT free, count(*) FROM \"Shop\".\"Buyers\" WHERE free = 'x ' GROUP BY free ORDER BY 1",
        "SELECT town, count(*) FROM \"Shop\".\"Buyers\" WHERE town IN ('Lyon', 'longer than \
            twelve', 'longer than t') GROUP BY town ORDER BY 1",
        // The catalogs.
        "SELECT column_name, data_type, character_maximum_length FROM information_schema.columns \
            WHERE table_name = 'Buyers' AND column_name <> 'mark' ORDER BY ordinal_position",
    ];
    alike(
        &veil,
        keys.into_iter()
            .chain(conditions)
            .chain(others.map(str::to_owned)),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_and_parameters_of_char_are_postgresqls() {
    let veil = shop().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(pgveil::wire::serve(
        listener,
        None,
        veil.engine.clone(),
        tokio_util::sync::CancellationToken::new(),
    ));
    let config = format!(
        "host=127.0.0.1 port={port} user=analyst password=analyst dbname=nls sslmode=disable"
    );
    let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    for key in KEYS
        .into_iter()
        .chain(["min(segment)", "mode() WITHIN GROUP (ORDER BY segment)"])
    {
        let grouped = if key.contains('(') && (key.starts_with("min") || key.starts_with("mode()"))
        {
            ""
        } else {
            " GROUP BY 1"
        };
        let sql = format!("SELECT {key} AS k FROM \"Shop\".\"Buyers\"{grouped}");
        let wanted = veil.client.prepare(&sql).await.unwrap();
        // A refused query has no type.
        let Ok(found) = client.prepare(&sql).await else {
            continue;
        };
        let shape = |of: &tokio_postgres::Statement| {
            of.columns()
                .iter()
                .map(|c| (c.type_().oid(), c.type_modifier()))
                .collect::<Vec<_>>()
        };
        // A domain is shown as its base type.
        if key != "mark" {
            assert_eq!(shape(&found), shape(&wanted), "{sql}");
        }
    }
    for (condition, value) in [
        ("segment = $1", "AUTO  "),
        ("$1 = town", "Lyon"),
        ("town LIKE $1", "Lyon%"),
        ("segment IN ($1, 'HOUSE')", "BUILDING"),
        ("flag = $1", "N"),
    ] {
        let sql = format!("SELECT count(*) FROM \"Shop\".\"Buyers\" WHERE {condition}");
        let (asked, direct) = (
            client.prepare(&sql).await.unwrap(),
            veil.client.prepare(&sql).await.unwrap(),
        );
        assert_eq!(asked.params(), direct.params(), "{sql}");
        let count = |rows: Vec<tokio_postgres::Row>| rows[0].get::<_, i64>(0);
        assert_eq!(
            count(client.query(&asked, &[&value]).await.unwrap()),
            count(veil.client.query(&direct, &[&value]).await.unwrap()),
            "{sql}"
        );
    }
}

/// A query without a sound or exact answer is refused, whatever the rows hold.
#[tokio::test(flavor = "multi_thread")]
async fn char_of_unknown_blanks_is_refused() {
    let veil = shop().await;
    for (sql, why) in [
        (
            "SELECT count(*) FROM \"Shop\".\"Buyers\" WHERE free LIKE 'x%'",
            "the number of trailing blanks of a bpchar value is unknown",
        ),
        (
            "SELECT concat(free, '|'), count(*) FROM \"Shop\".\"Buyers\" GROUP BY 1",
            "the number of trailing blanks of a bpchar value is unknown",
        ),
        (
            "SELECT count(*) FROM \"Shop\".\"Buyers\" b JOIN \"Shop\".orders o ON b.segment = \
                o.mode",
            "must equate the buyer they belong to",
        ),
        (
            "SELECT count(*) FROM \"Shop\".\"Buyers\" WHERE segment = 1",
            "character",
        ),
    ] {
        let report = veil
            .ask(sql)
            .await
            .err()
            .unwrap_or_else(|| panic!("{sql} was answered"))
            .report();
        assert!(report.message.contains(why), "{sql}: {report:?}");
    }
}
