//! Columns of enums, domains, jsonb, arrays and times of the day, from the socket's side: without
//! noise PostgreSQL's own rows.

use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::fixture::Veil;
use crate::wire::socket::{Socket, bind, execute, message, parse, startup, sync};

const SCHEMA: &str = "
    CREATE SCHEMA shop; CREATE TYPE shop.\"State of it\" AS ENUM ('paid', 'open', \
    'it''s \"odd\"'); \
    CREATE DOMAIN shop.city AS text CHECK (value <> '');
    CREATE DOMAIN shop.price AS numeric(10,2) CHECK (value >= 0); CREATE DOMAIN shop.width AS \
    float8; CREATE DOMAIN shop.term AS interval;
    CREATE TABLE shop.buyers (id int PRIMARY KEY);
    CREATE TABLE shop.orders (id int PRIMARY KEY, buyer int NOT NULL REFERENCES shop.buyers, state \
    shop.\"State of it\", city shop.city, price shop.price, data jsonb,
        tags text[], at time NOT NULL, width shop.width, term shop.term);
    INSERT INTO shop.buyers SELECT generate_series(1, 400);
    INSERT INTO shop.orders SELECT g, g, (enum_range(NULL::shop.\"State of it\"))[1 + g % 2], \
    (ARRAY['Lyon', 'Lima'])[1 + g % 2], g % 50,
        jsonb_build_object('shop', 's' || g % 3, 'lines', jsonb_build_array(g, g % 5)), ARRAY['t' \
        || g % 4, 'all'], time '08:00' + g % 10 * interval '1 hour'
    FROM generate_series(1, 400) g";
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
  shop.buyers: {unit: id}
  shop.orders: \
  {unit: {path: [buyer -> shop.buyers.id]}, rows_per_unit: 1, other_columns: visible, columns: \
  {price: {bounds: [0, 100]}}}
";

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_other_types_are_answered() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let questions = [
        "SELECT state, count(*), avg(price) FROM shop.orders GROUP BY state HAVING count(*) > 0 \
            ORDER BY state",
        "SELECT state::text || '!', count(*) FROM shop.orders WHERE state IN ('open', \
            'it''s \"odd\"') GROUP BY 1 HAVING count(*) > 0",
        "SELECT city, sum(price), round(avg(price * 2), 4) FROM shop.orders WHERE city <> 'x' \
            GROUP \
            BY city ORDER BY city",
        "SELECT city, state, count(*) FROM shop.orders WHERE state = 'paid' GROUP BY GROUPING SETS \
            ((city), (city, state)) HAVING count(*) > 0 ORDER BY 1, 2",
        "SELECT data ->> 'shop' AS s, count(*) FROM shop.orders GROUP BY 1 ORDER BY 1",
        "SELECT sum(greatest(least((data -> 'lines' ->> 1)::int, 10), 0)) FROM shop.orders WHERE \
            data ->> 'shop' = 's1'",
        "SELECT count(*), count(*) FILTER (WHERE 't1' = ANY (tags)), avg(cardinality(tags)) FROM \
            shop.orders",
        "SELECT tags[1], count(*) FROM shop.orders GROUP BY 1 ORDER BY 1",
        "SELECT at, count(*) FROM shop.orders WHERE at BETWEEN '09:00' AND '16:30' GROUP BY at \
            ORDER BY at",
        "SELECT extract(hour FROM at) AS h, count(*) FROM shop.orders GROUP BY 1 HAVING count(*) > \
            0 ORDER BY 1",
        "SELECT state, n, count(*) FROM (SELECT buyer, state, count(*) AS n FROM shop.orders GROUP \
            BY buyer, state) q GROUP BY 1, 2 HAVING count(*) > 0 ORDER BY 1, 2",
        "SELECT count(DISTINCT state), count(DISTINCT city), mode() WITHIN GROUP (ORDER BY state) \
            FROM shop.orders WHERE state = 'paid'",
        "SELECT count(*) FROM shop.orders WHERE state IN (SELECT state FROM shop.orders GROUP BY \
            state HAVING count(*) > 100)",
        "SELECT max(price), count(city) FROM shop.orders WHERE price BETWEEN SYMMETRIC 30 AND 30",
    ];
    veil.answers_as_postgresql(&Veil::requester(), &questions)
        .await;
    for sql in [
        "SELECT count(*) FROM shop.orders WHERE state = 'lost'",
        "SELECT count(*) FROM shop.orders WHERE state = 'lost'::shop.\"State of it\"",
        "SELECT count(*) FROM shop.orders WHERE state = CAST('Paid'::text AS shop.\"State of it\")",
        "SELECT count(*) FROM shop.orders WHERE at > 'noon'",
    ] {
        let error = veil
            .ask(sql)
            .await
            .err()
            .unwrap_or_else(|| panic!("{sql} was answered"))
            .report();
        assert!(
            ["22P02", "22007"].contains(&error.sqlstate.as_str()),
            "{sql}: {error:?}"
        );
    }
}

/// Drivers cast constants to enums with and without the schema: a text, a parameter and a list. A
/// statement can name neither other types of the database nor a type whose columns are hidden.
#[tokio::test(flavor = "multi_thread")]
async fn constants_are_cast_to_enums_that_are_shown() {
    let more = "; CREATE TYPE shop.kind AS ENUM ('paid'); CREATE SCHEMA other; CREATE TYPE \
        other.\"State of it\" AS ENUM ('paid');
        ALTER TABLE shop.buyers ADD kind shop.kind; ALTER DATABASE nls SET search_path = other, \
        shop";
    let fill = async |client: &tokio_postgres::Client| {
        client
            .batch_execute(&format!("{SCHEMA}{more}"))
            .await
            .unwrap()
    };
    let veil = Veil::over_settings(fill, POLICY, Veil::silent()).await;
    let requester = pgveil::engine::Requester {
        search_path: vec!["shop".to_owned()],
        ..Veil::requester()
    };
    veil.client
        .batch_execute("SET search_path = shop")
        .await
        .unwrap();
    let questions = [
        "SELECT count(*) FROM orders WHERE state = 'paid'::\"State of it\"",
        "SELECT count(*) FROM orders WHERE state <> CAST('paid' AS shop.\"State of it\") AND city \
            = \
            'Lyon'",
        "SELECT count(*) FROM orders WHERE \"shop\".\"orders\".\"state\" = CAST('open'::text \
            AS \"shop\".\"State of it\")",
        "SELECT count(*) FROM orders WHERE state IN (CAST('open'::text AS \"State of it\"), \
            CAST('paid'::varchar AS \"State of it\"))",
        "SELECT count(*) FROM orders WHERE state = ANY (ARRAY['paid', 'open']::\"State of it\"[])",
        "SELECT count(*) FROM orders WHERE state = ANY ('{paid,open}'::shop.\"State of it\"[])",
        "SELECT count(*) FROM orders WHERE state = NULL::\"State of it\"",
        "SELECT count(*) FROM orders WHERE state::shop.\"State of it\" = 'paid'",
        "SELECT sum(CASE WHEN state = 'paid'::shop.\"State of it\" THEN price ELSE 0 END), \
            count(*) \
            FILTER (WHERE state >= 'open'::\"State of it\") FROM orders",
        "SELECT coalesce(state, 'paid'::\"State of it\") AS s, count(*) FROM orders GROUP BY 1 \
            HAVING count(*) > 0 ORDER BY 1",
    ];
    veil.answers_as_postgresql(&requester, &questions).await;
    for (sql, states) in [
        (
            "SELECT count(*) FROM orders WHERE state = 'paid'::other.\"State of it\"",
            &["3F000"][..],
        ),
        (
            "SELECT count(*) FROM shop.buyers WHERE 'paid'::shop.kind IS NOT NULL",
            &["0A000", "42704"],
        ),
        (
            "SELECT count(*) FROM orders WHERE state = city::\"State of it\"",
            &["0A000"],
        ),
        (
            "SELECT count(*) FROM orders WHERE state = 5::\"State of it\"",
            &["0A000", "42846"],
        ),
        (
            "SELECT count(*) FROM orders WHERE state = 'lost'::\"State of it\"",
            &["22P02"],
        ),
    ] {
        let error = veil
            .ask_as(&requester, sql)
            .await
            .err()
            .unwrap_or_else(|| panic!("{sql} was answered"))
            .report();
        assert!(
            states.contains(&error.sqlstate.as_str()),
            "{sql}: {error:?}"
        );
    }
}

/// Also with blanks around them, and as PostgreSQL itself prints them.
#[tokio::test(flavor = "multi_thread")]
async fn texts_are_read_as_postgresql_reads_them() {
    let texts = [
        "2020-01-05",
        " 2020-01-05\t",
        "2020-01-05 10:00",
        "\n2020-01-05T10:00:00.5 ",
        "2020-01-05 10:00+00",
        "2020-01-05 10:00:00.25-08",
        "2020-01-05 23:59:59+0530",
        "2020-01-05T00:30+14:45",
        "2020-01-05T10:00Z",
        "9999-12-31 23:59:59+00",
        "0001-01-01 00:00:00",
    ];
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
        client
            .batch_execute("ALTER TABLE shop.buyers ADD w text, ADD at timestamptz")
            .await
            .unwrap();
        let texts = texts.map(|text| format!("'{text}'")).join(", ");
        let set = format!(
            "UPDATE shop.buyers SET w = (ARRAY[{texts}])[1 + id % 11], at = timestamptz \
                '2020-01-05 \
                10:00+00' + id * interval '1.5 s'"
        );
        client.batch_execute(&set).await.unwrap();
    };
    let policy = POLICY.replace(
        "shop.buyers: {unit: id}",
        "shop.buyers: {unit: id, other_columns: visible}",
    );
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    let mut questions =
        vec!["SELECT count(*) FROM shop.buyers WHERE at::text::timestamptz = at".to_owned()];
    for of in ["date", "timestamp", "timestamptz"] {
        questions.push(format!("SELECT count(w::{of}) FROM shop.buyers"));
        for text in texts {
            questions.push(format!(
                "SELECT count(*) FROM shop.buyers WHERE w::{of} = '{text}'"
            ));
        }
    }
    veil.answers_as_postgresql(
        &Veil::requester(),
        &questions.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await;
}

/// If an enum's labels change places, a question in the same words is another one: no earlier
/// answer is shown for it.
#[tokio::test(flavor = "multi_thread")]
async fn labels_that_change_places_make_another_policy() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let version = async || veil.proxy(&veil.ledger).await.policy().version.clone();
    assert_eq!(version().await, veil.engine.policy().version);
    let rename = |from: &str, to: &str| {
        format!("ALTER TYPE shop.\"State of it\" RENAME VALUE '{from}' TO '{to}'")
    };
    for (from, to) in [("paid", "neither"), ("open", "paid"), ("neither", "open")] {
        veil.client.batch_execute(&rename(from, to)).await.unwrap();
    }
    assert_ne!(version().await, veil.engine.policy().version);
}

/// A value as its bytes on the wire.
#[derive(Debug)]
struct Raw(Vec<u8>);

impl ToSql for Raw {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Questions with one parameter: its text, and its bytes in binary.
const ASKED: [(&str, &str, &[u8]); 6] = [
    (
        "SELECT count(*) FROM shop.orders WHERE state = $1",
        "open",
        b"open",
    ),
    (
        "SELECT count(*) FROM shop.orders WHERE state <> $1",
        "it's \"odd\"",
        b"it's \"odd\"",
    ),
    (
        "SELECT count(*) FROM shop.orders WHERE $1 = state AND city = 'Lyon'",
        "paid",
        b"paid",
    ),
    (
        "SELECT count(*) FROM shop.orders WHERE city = $1",
        "Lyon",
        b"Lyon",
    ),
    // 12.50 in four digits of ten thousand: two of them, the first of weight 0, no sign, a scale of
    // 2.
    (
        "SELECT count(*) FROM shop.orders WHERE price > $1",
        "12.50",
        &[0, 2, 0, 0, 0, 0, 0, 2, 0, 12, 0x13, 0x88],
    ),
    (
        "SELECT state, count(*) FROM shop.orders WHERE price < $1 GROUP BY state HAVING count(*) > \
            0 ORDER BY 1",
        "30",
        &[0, 1, 0, 0, 0, 0, 0, 0, 0, 30],
    ),
];

pub async fn serve(veil: &Veil) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(pgveil::wire::serve(
        listener,
        None,
        veil.engine.clone(),
        tokio_util::sync::CancellationToken::new(),
    ));
    address
}

pub async fn log_in(address: std::net::SocketAddr) -> Socket {
    let mut socket = Socket::open(address).await;
    socket
        .send(&startup(&[("user", "analyst"), ("database", "nls")]))
        .await;
    socket.authenticate("analyst", None).await;
    socket.until_ready().await;
    socket
}

/// Parameters that are compared with enums and domains, as text and in binary.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_enums_and_domains_are_bound() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let address = serve(&veil).await;
    let config = format!(
        "host=127.0.0.1 port={} user=analyst password=analyst dbname=nls sslmode=disable",
        address.port()
    );
    let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut socket = log_in(address).await;
    for (sql, text, binary) in ASKED {
        let wanted = veil
            .direct(&sql.replace("$1", &format!("'{}'", text.replace('\'', "''"))))
            .await;
        let rows = client
            .query(sql, &[&Raw(binary.to_vec())])
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        assert_eq!(rows.len(), wanted.len(), "{sql}");
        if let [row] = rows.as_slice()
            && let Ok(count) = row.try_get::<_, i64>(0)
        {
            assert_eq!([count.to_string()], *wanted, "{sql}");
        }
        socket
            .send(
                &[
                    parse("", sql),
                    bind("", "", &[text], &[]),
                    execute("", 0),
                    sync(),
                ]
                .concat(),
            )
            .await;
        let replies = socket.until_ready().await;
        let rows: Vec<String> = replies
            .iter()
            .filter(|reply| reply.kind == b'D')
            .map(|row| {
                row.values()
                    .into_iter()
                    .map(|value| value.unwrap_or("∅".to_owned()))
                    .collect::<Vec<_>>()
                    .join("|")
            })
            .collect();
        assert_eq!(rows, wanted, "{sql}: {replies:?}");
    }
    // An unknown label is refused before anything is charged.
    let paid = veil.spent().await;
    assert!(
        client
            .query(ASKED[0].0, &[&Raw(b"lost".to_vec())])
            .await
            .is_err()
    );
    assert_eq!(veil.spent().await, paid);
}

/// A type, and an expression for a parameter of it.
const EXECUTED: [(&str, &str); 17] = [
    ("text", "'2020-01-02'::date::text"),
    ("text", "(0.1::float8 + 0.2::float8)::text"),
    (
        "text",
        "'2020-06-01 12:00+00'::timestamptz::text || '-1 day 02:03'::interval",
    ),
    ("text", "'a''b'"),
    ("text", "NULL"),
    ("varchar", "'x' || 1"),
    ("bool", "1 < 2"),
    ("smallint", "-7"),
    ("int", "1 + 1"),
    ("bigint", "9000000000"),
    ("float8", "0.1::float8 + 0.2::float8"),
    ("real", "1 / 3.0"),
    ("numeric", "1 / 3.0"),
    ("date", "'03/04/2020'"),
    ("timestamp", "'2020-01-02 03:04:05.678'"),
    ("timestamptz", "'2020-06-01 12:00+00'"),
    ("interval", "'-1 day 02:03'"),
];

/// A query with one parameter of an inferred type, and an expression for it.
const INFERRED: [(&str, &str); 7] = [
    (
        "SELECT $1::daterange",
        "daterange('2020-02-01', '2020-03-04')",
    ),
    (
        "SELECT $1::tstzrange",
        "tstzrange('2020-06-01 12:00+00', NULL)",
    ),
    (
        "SELECT lower($1::tsrange)",
        "tsrange('2020-02-01 12:00', NULL)",
    ),
    (
        "SELECT $1::interval[]",
        "ARRAY['-1 year 2 mons'::interval, '1 day']",
    ),
    ("SELECT $1::text", "current_schema() || 1"),
    ("SELECT $1::timetz", "'12:00+05:30'"),
    ("SELECT $1::bytea", "'\\x5c00'::bytea"),
];

/// The values of an SQL EXECUTE are computed, and arrive, as in PostgreSQL under the same settings.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_execute_are_postgresqls() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let mut socket = log_in(serve(&veil).await).await;
    for settings in [
        "SET DateStyle = 'German'",
        "SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Kolkata'",
        "SET extra_float_digits = 0; SET IntervalStyle = 'sql_standard'; SET bytea_output = \
            'escape'",
    ] {
        for (data_type, value) in EXECUTED {
            let sql = format!(
                "{settings}; PREPARE p ({data_type}) AS SELECT $1; EXECUTE p ({value}); DEALLOCATE \
                    p; RESET ALL"
            );
            let row = socket
                .ask(&sql)
                .await
                .into_iter()
                .find(|reply| reply.kind == b'D');
            let found = row.map(|row| row.values().remove(0).unwrap_or("∅".to_owned()));
            assert_eq!(found.as_slice(), veil.direct(&sql).await, "{sql}");
        }
        for (query, value) in INFERRED {
            let sql = format!(
                "{settings}; PREPARE p AS {query}; EXECUTE p ({value}); DEALLOCATE p; RESET ALL"
            );
            let replies = socket.ask(&sql).await;
            let row = replies
                .iter()
                .find(|reply| reply.kind == b'D')
                .unwrap_or_else(|| panic!("{sql}: {replies:?}"));
            assert_eq!(row.values(), [veil.direct(&sql).await.pop()], "{sql}");
        }
    }
    let sql = "SET IntervalStyle = 'sql_standard'; PREPARE p (interval) AS SELECT $1; EXPLAIN \
        VERBOSE EXECUTE p ('-1 day 02:03'); DEALLOCATE p; RESET ALL";
    assert!(
        socket.ask(sql).await.iter().any(|reply| reply.kind == b'D'
            && format!("{:?}", reply.values()).contains("-1 days -02:03:00")),
        "{sql}"
    );
    // A domain is named by a client's Parse alone, by its number.
    for (domain, query, value, wanted) in [
        (
            "width",
            "SELECT $1 = 0.1::float8 + 0.2::float8",
            "0.1::float8 + 0.2::float8",
            "t",
        ),
        (
            "term",
            "SELECT $1::interval",
            "'-1 day 02:03'::interval + '1 year'",
            "+1-0 -1 -2:03:00",
        ),
        ("price", "SELECT $1 > 0.333", "1 / 3.0", "f"),
    ] {
        let oid: u32 = socket
            .value(&format!(
                "SELECT oid FROM pg_catalog.pg_type WHERE typname = '{domain}'"
            ))
            .await
            .parse()
            .unwrap();
        let typed = [
            format!("d\0{query}\0").as_bytes(),
            &[0, 1],
            &oid.to_be_bytes(),
        ]
        .concat();
        socket.send(&[message(b'P', &typed), sync()].concat()).await;
        socket.until_ready().await;
        let sql = format!(
            "SET extra_float_digits = 0; SET IntervalStyle = 'sql_standard'; EXECUTE d ({value}); \
                DEALLOCATE d; RESET ALL"
        );
        let replies = socket.ask(&sql).await;
        let row = replies
            .iter()
            .find(|reply| reply.kind == b'D')
            .unwrap_or_else(|| panic!("{sql}: {replies:?}"));
        assert_eq!(row.values(), [Some(wanted.to_owned())], "{sql}");
    }
    // The error for an unknown label has its position.
    let sql = "PREPARE w AS SELECT count(*) FROM shop.orders WHERE state = $1 OR state = $2; \
        EXECUTE w ('open', 'lost')";
    let replies = socket.ask(sql).await;
    let error = replies.iter().find(|reply| reply.kind == b'E').unwrap();
    let place = sql.find("'lost'").unwrap() + 1;
    assert_eq!(
        (error.field(b'C'), error.field(b'P')),
        ("22P02".to_owned(), place.to_string()),
        "{error:?}"
    );
    // The label of an enum is no value of it before it is bound.
    let sql = "PREPARE p AS SELECT count(*) FROM shop.orders WHERE state = $1; EXECUTE p ('op' || \
        'en'); DEALLOCATE p";
    let row = socket
        .ask(sql)
        .await
        .into_iter()
        .find(|reply| reply.kind == b'D');
    assert_eq!(
        row.map(|row| row.values().remove(0)),
        Some(
            veil.direct("SELECT count(*) FROM shop.orders WHERE state = 'open'")
                .await
                .pop()
        )
    );
}

/// An expression that returns or reads many rows is not a value.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_execute_are_one_row() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let mut socket = log_in(serve(&veil).await).await;
    let prepare = "PREPARE p (int) AS SELECT $1";
    socket.ask(prepare).await;
    veil.client.batch_execute(prepare).await.unwrap();
    for value in [
        "generate_series(1, 2)",
        "1 + generate_series(1, 0)",
        "count(*)",
        "sum(1) OVER ()",
        "unnest(ARRAY[1])",
        "grouping(1)",
        "max(max(1))",
        "sum(DISTINCT 1) OVER ()",
        "date_part('fortnight', now())::int",
        "ntile(1) OVER (RANGE 1 PRECEDING)",
    ] {
        for execute in ["EXECUTE", "EXPLAIN EXECUTE"] {
            let sql = format!("{execute} p ({value})");
            let replies = socket.ask(&sql).await;
            let error = replies
                .iter()
                .find(|reply| reply.kind == b'E')
                .unwrap_or_else(|| panic!("{sql}: {replies:?}"));
            let wanted = veil.client.batch_execute(&sql).await.unwrap_err();
            let wanted = wanted.as_db_error().unwrap();
            let place = match wanted.position() {
                Some(tokio_postgres::error::ErrorPosition::Original(place)) => place.to_string(),
                _ => String::new(),
            };
            assert_eq!(
                [b'C', b'M', b'P'].map(|field| error.field(field)),
                [wanted.code().code(), wanted.message(), &place],
                "{sql}"
            );
        }
    }
    assert_eq!(socket.value("EXECUTE p (1 + 1)").await, "2");
}

/// A text is read when it is bound, whatever is set before its portal is executed.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_parameters_are_read_at_bind() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let mut socket = log_in(serve(&veil).await).await;
    let run = |sql: &str| [parse("", sql), bind("", "", &[], &[]), execute("", 0)].concat();
    for (before, after, sql, text, wanted) in [
        (
            "SET DateStyle = 'ISO, MDY'",
            "SET DateStyle = 'ISO, DMY'",
            "SELECT $1::date",
            "03/04/2020",
            "2020-03-04",
        ),
        (
            "SET TimeZone = 'UTC'",
            "SET TimeZone = 'Asia/Tokyo'",
            "SELECT $1::timestamptz",
            "2020-01-01 00:00",
            "2020-01-01 09:00:00+09",
        ),
        (
            "SET IntervalStyle = 'sql_standard'",
            "RESET IntervalStyle",
            "SELECT $1::interval",
            "-1 year 2 mons",
            "-1 years -2 mons",
        ),
        (
            "SET IntervalStyle = 'sql_standard'",
            "RESET IntervalStyle",
            "SELECT $1::text",
            "-1 year 2 mons",
            "-1 year 2 mons",
        ),
        (
            "SET DateStyle = 'ISO, MDY'",
            "SET DateStyle = 'ISO, DMY'",
            "SELECT count(*) FROM shop.orders WHERE $1::date = date '2020-03-04'",
            "03/04/2020",
            "400",
        ),
    ] {
        let bound = [
            run(before),
            parse("q", sql),
            bind("p", "q", &[text], &[]),
            run(after),
            execute("p", 0),
            message(b'C', b"Sq\0"),
            run("RESET ALL"),
            sync(),
        ];
        socket.send(&bound.concat()).await;
        let replies = socket.until_ready().await;
        let row = replies
            .iter()
            .find(|reply| reply.kind == b'D')
            .unwrap_or_else(|| panic!("{sql}: {replies:?}"));
        assert_eq!(row.values(), [Some(wanted.to_owned())], "{sql}");
    }
}

/// More than a row has columns, under settings that read and print differently.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_may_be_many() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let mut socket = log_in(serve(&veil).await).await;
    let numbers: Vec<String> = (0..2500).map(|n| n.to_string()).collect();
    let texts: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let list = (1..=texts.len())
        .map(|n| format!("${n}"))
        .collect::<Vec<_>>()
        .join(", ");
    for setting in ["RESET DateStyle", "SET DateStyle = 'SQL, DMY'"] {
        let set = [parse("", setting), bind("", "", &[], &[]), execute("", 0)].concat();
        let asked = [
            parse(
                "",
                &format!("SELECT count(*) FROM shop.orders WHERE id IN ({list})"),
            ),
            bind("", "", &texts, &[]),
            execute("", 0),
            sync(),
        ];
        socket.send(&[set, asked.concat()].concat()).await;
        let replies = socket.until_ready().await;
        let row = replies
            .iter()
            .find(|reply| reply.kind == b'D')
            .unwrap_or_else(|| panic!("{setting}: {replies:?}"));
        assert_eq!(row.values(), [Some("400".to_owned())]);
    }
}

/// Bounds that real cannot hold: no stored value within them is another for them.
#[tokio::test(flavor = "multi_thread")]
async fn reals_at_their_bounds_are_what_they_are() {
    let policy = "version: 1
privacy: {unit: person, budget: {epsilon: 100000, delta: 1e-3}, per_query: {epsilon: 1, \
    max_epsilon: 1}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90000, delta: 1e-4}}]
tables: {public.people: {unit: id, columns: {f4: {bounds: [-0.7, 0.1]}, f8: {bounds: [-1, 1]}}}}
";
    let fill = async |client: &tokio_postgres::Client| {
        let schema = "CREATE TABLE people (id int PRIMARY KEY, f4 real, f8 float8);
             INSERT INTO people SELECT g, v, v FROM (SELECT g, (ARRAY[0.1, -0.7, 0.05, 0.0625, \
             NULL])[1 + g % 5] AS v FROM generate_series(1, 500) g) q;
             INSERT INTO people SELECT -g, f4, f4::float8 FROM (SELECT g, (ARRAY[0.1, -0.7, 0.3 - \
             0.25])[1 + g % 3]::real AS f4 FROM generate_series(1, 300) g) q";
        client.batch_execute(schema).await.unwrap();
    };
    let veil = Veil::over(fill, policy, Veil::silent()).await;
    let conditions = [
        "f4 = f8",
        "f4 <> f8",
        "f4 > f8",
        "f4 <= f8",
        "f4 = 0.1::real",
        "f4 = 0.1",
        "f4 < 0.1",
        "f4 >= -0.7",
        "f4 = '-0.7'",
        "f4::text = '0.1'",
    ];
    let more = [
        "f4 + f4 = 0.2::real",
        "f4 * f8 < 0.01",
        "abs(f4) > 0.7",
        "f4 = f8::real",
        "f4 BETWEEN -0.7::real AND 0.1::real",
        "f4::numeric = 0.1",
        "f4::numeric(3, 2) = 0.05",
        "f4::numeric(2, 1) = 0.1",
    ];
    let lists = [
        "f4 IN (0.1, 0.05)",
        "f4 NOT IN (0.1, -0.7, 1)",
        "f4 IN (0.1)",
        "f4 IN (0.1, 0.05::float8)",
        "f4 IN (0.1, '0.05', f8)",
        "f4 IN (0.1, f8)",
    ];
    let questions: Vec<String> = conditions
        .iter()
        .chain(&more)
        .chain(&lists)
        .map(|condition| format!("SELECT count(*) FROM people WHERE {condition}"))
        .collect();
    let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
    veil.answers_as_postgresql(&Veil::requester(), &questions)
        .await;
}
