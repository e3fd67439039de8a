//! Texts under other collations than the database's: ordered, searched and distinguished as
//! PostgreSQL does, or refused.

use pgveil::refusal::Refusal;

use crate::fixture::Veil;

const POLICY: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 100000, delta: 1e-3}, per_query: {epsilon: 1, \
    max_epsilon: 1}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90000, delta: 1e-4}}]
tables:
  public.people: {unit: id, other_columns: visible}
  public.towns: public
";

/// English sorts `apple`, `Banana`, `Éclair`, `zoo`; bytes sort `Banana`, `apple`, `zoo`, `Éclair`.
async fn collated() -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        let schema = "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', \
            deterministic = false);
             CREATE COLLATION numbered (provider = icu, locale = 'und-u-kn');
             CREATE TABLE people (id int PRIMARY KEY, a text COLLATE \"en-x-icu\", b text \
             COLLATE \"en-x-icu\", c text COLLATE \"C\", d text,
                 l text COLLATE loose, n varchar COLLATE numbered, ta text[] COLLATE \"en-x-icu\");
             CREATE TABLE towns (code text COLLATE \"en-x-icu\" PRIMARY KEY, number text COLLATE \
             numbered);
             INSERT INTO people SELECT g, w, w, w, w, w, 'n' || (9 + g % 3), ARRAY[w, 'q']
                 FROM (SELECT g, (ARRAY['apple', 'Banana', 'Éclair', 'zoo', 'zoo'])[1 + g % 5] AS \
                 w \
                 FROM generate_series(1, 6000) g) q;
             INSERT INTO towns VALUES ('apple', 'n9'), ('Banana', 'n10'), ('Éclair', 'n11');";
        client.batch_execute(schema).await.unwrap();
    };
    Veil::over(fill, POLICY, Veil::silent()).await
}

/// Every answer is PostgreSQL's.
async fn alike(veil: &Veil, questions: impl IntoIterator<Item = &str>) {
    let mut differing = Vec::new();
    for sql in questions {
        let wanted = veil.direct(sql).await;
        match veil.rows_as(&Veil::requester(), sql).await {
            Ok(rows) if rows == wanted => {}
            Ok(rows) => differing.push(format!("{sql}: {rows:?}, not {wanted:?}")),
            Err(error) => differing.push(format!("{sql}: {:?}", error.report())),
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_compared_under_their_own_collation() {
    let veil = collated().await;
    let conditions = [
        "a < 'B'",
        "a < 'B' OR b = 'nix'",
        "a < 'B' OR d = 'nix'",
        "CASE WHEN a < 'B' THEN b ELSE 'k' END = 'apple'",
        "greatest(a, 'b') = 'b' OR b = 'nix'",
        "lower(c) = 'éclair' OR d = 'nix'",
        "lower(a) = 'éclair' OR d = 'nix'",
        "c ILIKE 'é%'",
        "a ILIKE 'é%'",
        "a ~* '^é'",
        "c ~* '^é'",
        "c ~ '^[[:alpha:]]+$'",
        "a ~ '^[[:alpha:]]+$'",
        "a SIMILAR TO 'É%' OR b < 'B'",
        "regexp_replace(a, '[[:alpha:]]', '') < 'b'",
        "replace(d, 'x', 'y') < a",
        "replace(d, 'zoo', 'Coo') < a",
        "d < a OR a < d OR a < 'B'",
        "ta[1] < 'B'",
        "a = ANY (ta)",
        "a IN ('apple', 'zoo') AND b <> 'zoo'",
        "a LIKE 'É%' OR position('oo' IN b) > 0",
        "l = 'APPLE'",
        "n < 'n10'",
        "length(a || c) > 10",
    ];
    let questions =
        conditions.map(|condition| format!("SELECT count(*) FROM people WHERE {condition}"));
    let steps = [
        "SELECT count(*) FROM (SELECT id, max(y) AS m FROM (SELECT id, a AS y FROM people UNION \
            ALL \
            SELECT id, 'B' FROM people) u GROUP BY id) g WHERE m = 'B'",
        "SELECT count(*) FROM (SELECT id, n, count(*) FROM (SELECT id, count(DISTINCT (a, c)) AS n \
            FROM people GROUP BY id) q GROUP BY id, n) g WHERE n = 1",
        "SELECT count(*) FROM (SELECT id, min(a) AS m FROM people GROUP BY id) g WHERE m < 'B'",
        "SELECT count(*) FROM (SELECT replace(d, 'x', 'y') AS x, a FROM people) q WHERE x < 'B' \
            AND \
            a < 'B' OR x < a",
        "SELECT count(*) FROM (SELECT id, x, row_number() OVER (PARTITION BY id ORDER BY x) AS r \
            FROM (SELECT id, a AS x FROM people UNION ALL SELECT id, 'B' FROM people) u) w WHERE r \
            = 1 AND x = 'B'",
    ];
    alike(&veil, questions.iter().map(String::as_str).chain(steps)).await;
}

/// Keys of every kind of index next to columns of every kind of collation; `apple` and `APPLE` are
/// one text to some and two to others. The shadow lacks the database's own collation for shown
/// columns, so those tables are private.
async fn keyed() -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        let schema = "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', \
            deterministic = false);
             CREATE COLLATION looser (provider = icu, locale = 'und-u-ks-level1', deterministic = \
             false);
             CREATE TABLE people (id int PRIMARY KEY, d text, l text COLLATE loose, r text COLLATE \
             looser);
             CREATE TABLE strict (code text PRIMARY KEY, n int);
             CREATE TABLE folded (code text, n int); CREATE UNIQUE INDEX ON folded (code COLLATE \
             loose);
             CREATE TABLE loosely (id int NOT NULL REFERENCES people, code text COLLATE loose NOT \
             NULL, n int, UNIQUE (id, code));
             CREATE TABLE bytewise (id int NOT NULL REFERENCES people, code text COLLATE loose NOT \
             NULL, n int);
             CREATE UNIQUE INDEX ON bytewise (id, code COLLATE \"C\");
             INSERT INTO people SELECT g, w, w, w FROM (SELECT g, (ARRAY['apple', 'APPLE', 'pear', \
             'Pear', 'plum'])[1 + g % 5] AS w FROM generate_series(1, 500) g) q;
             INSERT INTO strict VALUES ('apple', 1), ('APPLE', 2), ('pear', 3); INSERT INTO folded \
             VALUES ('apple', 1), ('pear', 3);
             INSERT INTO loosely SELECT id, f.code, f.n FROM people, folded f; INSERT INTO \
             bytewise \
             SELECT id, s.code, s.n FROM people, strict s;";
        client.batch_execute(schema).await.unwrap();
    };
    let private = |name: &str| {
        format!(
            "  public.{name}: {{unit: {{path: [id -> public.people.id]}}, other_columns: visible, \
                rows_per_unit: 3}}\n"
        )
    };
    let public = "  public.strict: public\n  public.folded: public\n";
    let tables = POLICY.replace("  public.towns: public\n", public)
        + &private("loosely")
        + &private("bytewise");
    Veil::over(fill, &tables, Veil::silent()).await
}

/// A key proves nothing by a comparison that is less strict than its index: rows would be cut, and
/// a subquery that finds two rows be answered.
#[tokio::test(flavor = "multi_thread")]
async fn keys_tell_rows_apart_by_comparisons_as_strict_as_their_index() {
    let veil = keyed().await;
    let tables = [
        ("strict", ""),
        ("folded", ""),
        ("loosely", "g.id = p.id AND "),
        ("bytewise", "g.id = p.id AND "),
    ];
    // PostgreSQL finds no collation for two that are not deterministic.
    let has_one =
        |table: &str, column: &str| !(column == "r" && ["loosely", "bytewise"].contains(&table));
    let columns = |table: &'static str| {
        ["d", "l", "r"]
            .into_iter()
            .filter(move |column| has_one(table, column))
    };
    let joins = tables.into_iter().flat_map(|(table, unit)| {
        columns(table).flat_map(move |column| {
            let join = format!("FROM people p JOIN {table} g ON {unit}g.code = p.{column}");
            [
                format!("SELECT count(*) {join}"),
                format!(
                    "SELECT g.n, count(*) {join} GROUP BY g.n HAVING count(*) > 0 ORDER BY g.n"
                ),
            ]
        })
    });
    let joins: Vec<String> = joins.collect();
    let again =
        "SELECT count(*) FROM bytewise a JOIN bytewise b ON b.id = a.id AND b.code = a.code";
    alike(&veil, joins.iter().map(String::as_str).chain([again])).await;

    let mut found = Vec::new();
    for (table, unit) in tables {
        for column in ["d", "l", "r", "l || ''"] {
            let reported = veil
                .ask(&format!(
                    "SELECT count(*) FROM people p WHERE (SELECT g.n FROM {table} g \
                    WHERE {unit}g.code = p.{column}) = 1"
                ))
                .await;
            match reported.map_err(|error| error.report()) {
                Ok(_) => found.push(format!("{table} {column}")),
                Err(reported) => assert!(
                    reported.message.contains("may return more than one row")
                        || reported.message.contains("of different collations"),
                    "{table} {column}: {reported:?}"
                ),
            }
        }
    }
    assert_eq!(
        found,
        [
            "strict d",
            "folded d",
            "folded l",
            "folded l || ''",
            "loosely d",
            "loosely l",
            "loosely l || ''"
        ]
    );
}

/// Above the cut, too.
#[tokio::test(flavor = "multi_thread")]
async fn released_texts_are_ordered_by_their_own_collation() {
    let veil = collated().await;
    let questions = [
        "SELECT a, count(*) FROM people GROUP BY a ORDER BY a",
        "SELECT a, count(*) FROM people GROUP BY a ORDER BY 1 DESC",
        "SELECT c, count(*) FROM people GROUP BY c ORDER BY c",
        "SELECT upper(a) AS w, count(*) FROM people GROUP BY 1 ORDER BY w",
        "SELECT a, count(*) FROM people GROUP BY a HAVING a < 'C' ORDER BY a",
        "SELECT max(w), min(w) FROM (SELECT a AS w, count(*) FROM people GROUP BY a) q",
        "SELECT a, count(*) FROM people GROUP BY a ORDER BY a COLLATE \"C\"",
        "SELECT n, count(*) FROM people WHERE n <> 'n9' OR id < 500 GROUP BY n ORDER BY count(*), \
            n \
            COLLATE \"C\"",
        "SELECT code FROM towns ORDER BY code",
    ];
    alike(&veil, questions).await;
    let shown = veil
        .rows_as(
            &Veil::requester(),
            "SELECT n, count(*) FROM people GROUP BY n",
        )
        .await
        .unwrap();
    assert_eq!(shown.len(), 3, "{shown:?}");
}

/// The local shadow has the database's locale: in this machine's locale neither `É` nor the order
/// would be PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn released_texts_are_ordered_and_folded_in_the_databases_locale() {
    let fill = async |client: &tokio_postgres::Client| {
        let schema = "CREATE TABLE people (id int PRIMARY KEY, d text);
             CREATE TABLE towns (code text PRIMARY KEY);
             INSERT INTO people SELECT g, (ARRAY['apple', 'Banana', 'Éclair', 'zoo', 'zoo'])[1 + g \
             % 5] FROM generate_series(1, 6000) g;
             INSERT INTO towns VALUES ('apple'), ('Banana'), ('Éclair'), ('zoo');";
        client.batch_execute(schema).await.unwrap();
    };
    let veil = Veil::over_database(
        "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'",
        fill,
        POLICY,
        Veil::silent(),
    )
    .await;
    let questions = [
        "SELECT d, count(*) FROM people GROUP BY d ORDER BY d",
        "SELECT d, count(*) FROM people GROUP BY d ORDER BY upper(d) DESC",
        "SELECT lower(d), count(*) FROM people GROUP BY d ORDER BY 1",
        "SELECT initcap(d), count(*) FROM people GROUP BY d HAVING d ILIKE 'é%' OR d < 'b' ORDER \
            BY \
            1",
        "SELECT max(d), min(d) FROM (SELECT d, count(*) FROM people GROUP BY d) q",
        "SELECT count(*) FROM people WHERE d > 'Éb' OR lower(d) = 'banana'",
        "SELECT code, upper(code) FROM towns WHERE code < 'f' ORDER BY code",
        "SELECT upper('éa'), 'b' < 'É', 'a' < 'B'",
    ];
    alike(&veil, questions).await;
}

/// PostgreSQL raises its error at the first row that meets both: wherever such an expression
/// stands, it is found.
#[tokio::test(flavor = "multi_thread")]
async fn unlike_collations_are_found_wherever_they_meet() {
    let veil = collated().await;
    let mut otherwise = Vec::new();
    for sql in [
        "SELECT count(*) FILTER (WHERE a < c) FROM people",
        "SELECT count(CASE WHEN a < c THEN 1 END) FROM people",
        "SELECT count(*) FROM people WHERE CASE WHEN id > 1 THEN a ELSE c END < 'B'",
        "SELECT count(*) FROM people WHERE CASE WHEN id > 1 THEN a WHEN id > 2 THEN c END < 'B'",
        "SELECT count(o.id) FROM people o LEFT JOIN people p ON p.id = o.id AND p.a < o.c",
        "SELECT count(*) FROM people o WHERE EXISTS (SELECT 1 FROM people p WHERE p.id = o.id AND \
            p.a < o.c)",
        "SELECT count(*) FROM people o WHERE EXISTS (SELECT 1 FROM (SELECT id FROM people WHERE a \
            < \
            c) p WHERE p.id = o.id)",
        "SELECT count(*) FROM (SELECT id, a || c AS k, count(*) FROM people GROUP BY id, a || c) q",
        "SELECT count(*) FROM (SELECT DISTINCT id, a || c AS k FROM people) q",
        "SELECT count(*) FROM (SELECT id, min(a) AS m, min(c) AS k FROM people GROUP BY id) g \
            WHERE \
            m < k",
        "SELECT count(*) FROM (SELECT id, max(a || c) AS m FROM people GROUP BY id) g WHERE m IS \
            NOT NULL",
        "SELECT count(*) FROM (SELECT id, count(DISTINCT a || c) AS n FROM people GROUP BY id) g \
            WHERE n > 0",
        "SELECT count(*) FROM (SELECT id, count(*) FILTER (WHERE a < c) AS n FROM people GROUP BY \
            id) g WHERE n > 0",
        "SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY id, a || c ORDER BY id) \
            AS r FROM people) w WHERE r = 1",
        "SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY id ORDER BY a || c) AS r \
            FROM people) w WHERE r = 1",
        "SELECT count(*) FROM (SELECT id, c, lag(a) OVER (PARTITION BY id ORDER BY id) AS m FROM \
            people) w WHERE m < c",
        "SELECT count(*) FROM (SELECT id, c, first_value(a) OVER (PARTITION BY id ORDER BY id) AS \
            m \
            FROM people) w WHERE m < c",
        "SELECT count(*) FROM (SELECT id, c, max(a) OVER (PARTITION BY id) AS m FROM people) w \
            WHERE m < c",
    ] {
        let reported = veil.ask(sql).await.err().map(|error| error.report());
        let is_ours = |reported: &Refusal| {
            reported.sqlstate == "0A000"
                && reported.message.contains("texts of different collations")
        };
        // Keys and orders are refused by PostgreSQL's own parser in the shadow, before anything is
        // planned.
        if !reported
            .as_ref()
            .is_some_and(|reported| is_ours(reported) || reported.sqlstate == "42P21")
        {
            otherwise.push(format!("{sql}: {reported:?}"));
        }
    }
    assert!(otherwise.is_empty(), "{otherwise:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_collation_is_refused() {
    let veil = collated().await;
    let mut otherwise = Vec::new();
    for (sql, message) in [
        (
            "SELECT count(*) FROM people WHERE a < c",
            "texts of different collations",
        ),
        (
            "SELECT count(*) FROM people WHERE a = c",
            "texts of different collations",
        ),
        (
            "SELECT count(*) FROM people WHERE a = c || '' OR b < 'B'",
            "texts of different collations",
        ),
        (
            "SELECT count(*) FROM people WHERE lower(coalesce(a, c)) = 'a'",
            "texts of different collations",
        ),
        (
            "SELECT count(*) FROM people WHERE c = ANY (ta)",
            "texts of different collations",
        ),
        (
            "SELECT count(*) FROM (SELECT id, a || c AS w FROM people) q WHERE lower(w) = 'a'",
            "texts of different collations",
        ),
        (
            "SELECT count(*) FROM (SELECT id, a AS y FROM people UNION ALL SELECT id, c FROM \
                people) u WHERE y = 'B'",
            "texts of different collations",
        ),
        (
            "SELECT count(*) FROM people WHERE l LIKE 'a%'",
            "a search in a column",
        ),
        (
            "SELECT count(*) FROM people WHERE l ~ 'a'",
            "a search in a column",
        ),
        (
            "SELECT count(*) FROM people WHERE position('p' IN l) > 0",
            "a search in a column",
        ),
        (
            "SELECT count(*) FROM people WHERE replace(l, 'p', 'q') = 'a'",
            "a search in a column",
        ),
        (
            "SELECT n, count(*) FROM people GROUP BY n ORDER BY n",
            "order released texts",
        ),
        (
            "SELECT n, count(*) FROM people GROUP BY n ORDER BY 1",
            "order released texts",
        ),
        (
            "SELECT max(n) FROM (SELECT n, count(*) FROM people GROUP BY n) q",
            "order released texts",
        ),
        (
            "SELECT n, n AS m, count(*) FROM people GROUP BY n ORDER BY m",
            "order released texts",
        ),
        (
            "SELECT n, count(*) FROM people GROUP BY n ORDER BY n, 2",
            "order released texts",
        ),
        (
            "SELECT n, count(*) FROM people GROUP BY n UNION SELECT 'x', 1",
            "order released texts",
        ),
        (
            "SELECT n, count(*) FROM people GROUP BY n ORDER BY (1)",
            "order released texts",
        ),
        (
            "SELECT b, c, count(*) FROM people GROUP BY b, c HAVING b < c",
            "released texts of different collations",
        ),
        (
            "SELECT count(*) FROM (SELECT a, count(*) FROM people GROUP BY a) q JOIN (SELECT c, \
                count(*) FROM people GROUP BY c) r ON q.a = r.c",
            "released texts of different collations",
        ),
        (
            "SELECT count(*) FROM people WHERE d < (SELECT max(a) FROM (SELECT a, count(*) FROM \
                people GROUP BY a) q)",
            "order or match released texts",
        ),
    ] {
        let reported = veil.ask(sql).await.err().map(|error| error.report());
        if !reported.as_ref().is_some_and(|reported| {
            reported.sqlstate == "0A000"
                && reported.message.contains(message)
                && reported.hint.is_some()
        }) {
            otherwise.push(format!("{sql}: {reported:?}"));
        }
    }
    assert!(otherwise.is_empty(), "{otherwise:#?}");
    let sqlstate = async |sql: &str| {
        veil.ask(sql)
            .await
            .err()
            .map(|error| error.report().sqlstate)
    };
    for sql in [
        "SELECT a || c, count(*) FROM people GROUP BY 1",
        "SELECT count(DISTINCT a || c) FROM people",
    ] {
        assert_eq!(
            sqlstate(sql).await.as_deref(),
            Some("42P21"),
            "as PostgreSQL has it: {sql}"
        );
    }
    assert_eq!(
        sqlstate("SELECT number FROM towns").await.as_deref(),
        Some("42703"),
        "the shadow has no such collation"
    );
}
