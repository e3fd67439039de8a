//! Key paths: the row that a path joins in for its unit may be one that the question reads itself.

use super::outer_query::rich;
use crate::fixture::{Veil, without_units};
use pgveil::policy::SessionSettings;

const SCHEMA: &str = "
CREATE SCHEMA s;
CREATE TABLE s.person (id int PRIMARY KEY, age int NOT NULL);
CREATE TABLE s.visit (id int PRIMARY KEY, pid int NOT NULL REFERENCES s.person, day int NOT NULL,
    k int NOT NULL, l int NOT NULL, UNIQUE (k, l));
CREATE TABLE s.item (id int PRIMARY KEY, vid int NOT NULL REFERENCES s.visit, price numeric(6,2),
    kind char(6) NOT NULL);
INSERT INTO s.person SELECT n, 20 + n % 50 FROM generate_series(1, 300) n;
INSERT INTO s.visit SELECT n, 1 + n % 300, n % 7, n / 30, n % 30 FROM generate_series(1, 900) n;
INSERT INTO s.item SELECT n, 1 + n * 7 % 800,
    CASE WHEN n % 5 > 0 THEN n % 90 / 10.0 END, (ARRAY['tea', 'coffee', 'cake'])[1 + n % 3]
    FROM generate_series(1, 2000) n;
";

const TABLES: &str = "  s.person: {unit: id, columns: {age: {bounds: [0, 99]}}}
  s.visit: {unit: {path: [pid -> s.person.id]}, rows_per_unit: 10, other_columns: visible,
    columns: {day: {bounds: [0, 6]}}}
  s.item: {unit: {path: [vid -> s.visit.id, pid -> s.person.id]},
    rows_per_unit: 40, other_columns: visible, columns: {price: {bounds: [0, 10]},
    kind: {values: [tea, coffee, cake], complete: true}}}
";

async fn visits() -> Veil {
    let policy = without_units(&std::fs::read_to_string("policies/demo.yaml").unwrap());
    let (head, _) = policy.split_once("\ntables:").unwrap();
    let limits = "limits: {groups_per_unit: 100, rows_per_unit: 100, groups: 10000, failures: 10, \
        statement_timeout: 60s, connections: 4}\n";
    let yaml = rich(format!("{head}\ntables:\n{TABLES}{limits}"));
    Veil::over(
        async |client| client.batch_execute(SCHEMA).await.unwrap(),
        &yaml,
        Veil::silent(),
    )
    .await
}

/// Each with the number of times that its statement reads s.visit. A bound on rows stands between
/// the two sides of some.
const QUESTIONS: [(&str, usize); 25] = [
    ("SELECT count(*), sum(price) FROM s.item", 1),
    (
        "SELECT count(*), sum(price) FROM s.item i JOIN s.visit v ON v.id = i.vid",
        1,
    ),
    (
        "SELECT kind, count(*), sum(price) FROM s.visit v JOIN s.item i ON vid = v.id \
            WHERE day > 3 AND kind IN ('tea', 'cake') GROUP BY kind ORDER BY kind",
        1,
    ),
    (
        "SELECT count(*), sum(age) FROM s.item i, s.visit v, s.person p WHERE p.id = \
            v.pid AND v.id = i.vid",
        1,
    ),
    (
        "SELECT count(*), count(i.id), sum(price) FROM s.visit v LEFT JOIN s.item i ON \
            i.vid = v.id AND price > 3",
        1,
    ),
    (
        "SELECT count(*) FILTER (WHERE i.vid IS NULL) FROM s.visit v LEFT JOIN s.item i \
            ON i.vid = v.id",
        1,
    ),
    (
        "SELECT count(*), count(v.id) FROM s.item i LEFT JOIN s.visit v ON i.vid = v.id \
            AND day > 3",
        2,
    ),
    (
        "SELECT count(*) FROM s.visit v WHERE EXISTS (SELECT FROM s.item i WHERE i.vid \
            = v.id AND price > 5)",
        1,
    ),
    (
        "SELECT count(*) FROM s.visit v WHERE NOT EXISTS (SELECT FROM s.item i WHERE \
            i.vid = v.id)",
        1,
    ),
    (
        "SELECT count(*) FROM s.visit v WHERE id IN (SELECT vid FROM s.item WHERE price \
            > 5)",
        1,
    ),
    (
        "SELECT count(*) FROM s.item i WHERE EXISTS (SELECT FROM s.item j WHERE j.vid = \
            i.vid AND j.price > i.price)",
        2,
    ),
    (
        "SELECT count(*), round(sum(n), 1) FROM (SELECT v.pid, sum(price) AS n FROM \
            s.visit v JOIN s.item i ON i.vid = v.id GROUP BY v.pid) t",
        1,
    ),
    (
        "SELECT count(*), sum(n) FROM (SELECT v.id, count(*) AS n FROM s.visit v JOIN \
            s.item i ON i.vid = v.id GROUP BY v.id, v.pid) t",
        1,
    ),
    (
        "SELECT count(*) FROM (SELECT vid, price * 2 AS p FROM s.item) i JOIN s.visit v \
            ON v.id = vid WHERE p > 4",
        1,
    ),
    (
        "SELECT count(*) FROM s.visit v JOIN s.visit w ON w.id = v.id JOIN s.item i ON \
            i.vid = w.id",
        2,
    ),
    (
        "SELECT count(*) FROM s.visit v JOIN s.visit w ON w.k = v.k AND w.l = v.l JOIN \
            s.item i ON i.vid = w.id WHERE w.pid = v.pid",
        2,
    ),
    (
        "SELECT count(*) FROM s.item i JOIN s.visit v ON v.id = i.vid JOIN s.visit w ON \
            w.pid = v.pid AND w.day > v.day",
        2,
    ),
    (
        "SELECT count(*) FROM s.item i JOIN s.item j ON j.vid = i.vid AND j.id > i.id",
        2,
    ),
    // A subquery below reads the path's row where that of the question is not at hand.
    (
        "SELECT f, count(*) FROM (SELECT vid, vid IN (SELECT id FROM s.visit WHERE day > 3) AS f \
            FROM s.item) i JOIN s.visit v ON v.id = i.vid GROUP BY f ORDER BY f",
        3,
    ),
    (
        "WITH i AS (SELECT vid, CASE WHEN EXISTS (SELECT FROM s.visit w WHERE w.id = vid AND day \
            > 3) THEN 1 ELSE 0 END AS f FROM s.item) SELECT count(*), sum(f) FROM s.visit v JOIN \
            i ON v.id = i.vid",
        // The column stands in the SQL twice.
        4,
    ),
    (
        "SELECT count(*), count(x.vid) FROM s.visit v LEFT JOIN (SELECT vid FROM s.item WHERE vid \
            IN (SELECT id FROM s.visit WHERE day > 3)) x ON x.vid = v.id",
        3,
    ),
    (
        "SELECT count(*) FROM s.visit v WHERE EXISTS (SELECT FROM (SELECT vid, vid IN (SELECT id \
            FROM s.visit WHERE day > 3) AS f FROM s.item) i WHERE i.vid = v.id AND f)",
        3,
    ),
    (
        "SELECT count(*), count(x.f) FROM s.visit v LEFT JOIN (SELECT vid, vid IN (SELECT id FROM \
            s.visit WHERE day > 3) AS f FROM s.item) x ON x.vid = v.id AND f",
        3,
    ),
    (
        "SELECT f, count(*) FROM (SELECT i.vid, i.vid IN (SELECT id FROM s.visit WHERE day > 3) \
            AS f FROM s.item i JOIN s.visit w ON w.id = i.vid) i JOIN s.visit v ON v.id = i.vid \
            GROUP BY f ORDER BY f",
        3,
    ),
    // The row that a path's row is read from is itself left out.
    (
        "SELECT count(*), count(x.id) FROM s.item i JOIN s.visit v ON v.id = i.vid LEFT JOIN \
            s.person x ON x.id = v.pid AND x.age > 30 JOIN s.item j ON j.id = i.id AND \
            j.vid = i.vid",
        1,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_read_once_and_answers_stay() {
    let veil = visits().await;
    let mut other = Vec::new();
    for (sql, times) in QUESTIONS {
        veil.answers_as_postgresql(&Veil::requester(), &[sql]).await;
        let plan = veil
            .explained(
                SessionSettings::default(),
                &format!("EXPLAIN VERBOSE {sql}"),
            )
            .await
            .join("\n");
        let statements = plan.lines().filter(|line| line.contains("SQL: "));
        let read = |line: &str| line.matches("\"s\".\"visit\"").count();
        let emitted: usize = statements.map(read).sum();
        if emitted != times {
            other.push(format!("{emitted}, not {times}: {sql}\n{plan}"));
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
}
