//! Public rows that a private row finds by an equality: how many share a value bounds the time.

use pgveil::policy::Reuse;

use crate::fixture::Veil;

/// Towns of many stops and of few: one district has all the stops of the crowd.
const SCHEMA: &str = "
    CREATE SCHEMA city;
    CREATE TABLE city.riders (id int PRIMARY KEY, district int NOT NULL, home text NOT NULL);
    INSERT INTO city.riders SELECT g, g % 40, 'street ' || g FROM generate_series(1, 400) g;
    CREATE TABLE city.crowd (district int, line int NOT NULL, label text NOT NULL);
    INSERT INTO city.crowd SELECT CASE WHEN g <= 9000 THEN 7 ELSE g % 40 END, g, 'stop ' || g
    FROM generate_series(1, 10000) g;
    CREATE TABLE city.spread (district int, line int NOT NULL, label text NOT NULL);
    INSERT INTO city.spread SELECT g % 1000, g, 'stop ' || g FROM generate_series(1, 10000) g;
    INSERT INTO city.spread SELECT NULL, g, 'nowhere' FROM generate_series(1, 9000) g;
    CREATE TABLE city.lines (line int PRIMARY KEY, kind int NOT NULL);
    INSERT INTO city.lines SELECT g, g % 3 FROM generate_series(1, 10000) g";

const POLICY: &str = "\
version: 1
database:
  url: ${DATABASE_URL}
ledger:
  url: ${PGVEIL_LEDGER}
privacy: {unit: rider, budget: {epsilon: 90000, delta: 1e-3}, per_query: {epsilon: 8, max_epsilon: \
    8}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90000, delta: 1e-3}}]
tables:
  city.crowd: public
  city.spread: public
  city.lines: public
  city.riders:
    unit: id
    columns:
      district: {bounds: [0, 40]}
      home: visible
";

/// A condition that takes about a millisecond for a pair.
const EXPENSIVE: &str = "regexp_count(r.home, '[a-h]') > s.line";

#[tokio::test(flavor = "multi_thread")]
async fn equal_public_rows_are_weighed_by_their_largest_number() {
    let veil = Veil::over(
        async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap(),
        POLICY,
        Veil::silent(),
    )
    .await;
    let spent = veil.spent().await;
    let join = |table: &str, on: &str| {
        format!("SELECT count(*) FROM city.riders r JOIN city.{table} s ON {on} AND {EXPENSIVE}")
    };
    let refused = [
        join("crowd", "s.district = r.district"),
        join("crowd", "s.district = r.district + 0"),
        join("crowd", "abs(s.district) = r.district"),
        join("spread", "s.district <= r.district"),
        format!(
            "SELECT count(*) FROM city.riders r WHERE EXISTS (SELECT 1 FROM city.crowd s WHERE \
                s.district = r.district AND {EXPENSIVE})"
        ),
        // The key of the second table finds one row for each of the crowd's.
        format!(
            "SELECT l.kind, count(*) FROM city.riders r JOIN city.crowd s ON \
                s.district = r.district JOIN city.lines l ON l.line = s.line \
                WHERE {EXPENSIVE} GROUP BY l.kind"
        ),
        // PostgreSQL tries the other condition first, where the equality takes longer.
        format!(
            "SELECT count(*) FROM city.riders r WHERE r.id < 0 OR EXISTS (SELECT 1 FROM \
                city.spread s WHERE s.district = abs(abs(r.district + 0 + 0)) AND {EXPENSIVE})"
        ),
        // Public rows that public rows meet, for each private row.
        "SELECT count(*) FROM city.riders r WHERE r.id < 0 OR EXISTS (SELECT 1 FROM city.crowd s \
            WHERE s.district = r.district AND EXISTS (SELECT 1 FROM city.spread t WHERE \
            length(lower(s.label)) > t.line + 100))"
            .into(),
        // Groups that are computed again for each private row.
        "SELECT count(*) FROM city.riders r WHERE r.id < 0 OR EXISTS (SELECT 1 FROM city.crowd s \
            WHERE s.district = r.district GROUP BY s.district HAVING \
            max(regexp_count(s.label, '[a-h]')) > 5)"
            .into(),
    ];
    let mut bought = Veil::requester();
    bought.session_settings.reuse = Reuse::Off;
    for (at, sql) in refused.iter().enumerate() {
        let requester = if at == 0 {
            bought.clone()
        } else {
            Veil::requester()
        };
        let refusal = veil
            .ask_as(&requester, sql)
            .await
            .map(|_| sql)
            .expect_err("is refused")
            .report();
        assert_eq!(refusal.sqlstate, "54001", "{sql}: {refusal:?}");
        let is_of_pairs = refusal.message.contains("joined to all the public rows");
        assert!(is_of_pairs, "{sql}: {refusal:?}");
    }
    assert_eq!(veil.spent().await, spent, "a refusal is free");
    for sql in [
        join("spread", "s.district = r.district"),
        // The crowd's lines are all distinct, together with the district or alone.
        join("crowd", "s.district = r.district AND s.line = r.id"),
        format!(
            "SELECT l.kind, count(*) FROM city.riders r JOIN city.spread s ON \
                s.district = r.district JOIN city.lines l ON l.line = s.line \
                WHERE {EXPENSIVE} GROUP BY l.kind"
        ),
        "SELECT count(*) FROM city.riders r JOIN city.crowd s ON s.district = r.district".into(),
    ] {
        let answer = veil.ask(&sql).await;
        assert!(answer.is_ok(), "{sql}: {:?}", answer.err());
    }
}
