//! Public tables that change after they were loaded: an answer that mixes the old lists with the
//! new rows says so.

use pgveil::policy::{Notices, SessionSettings};
use pgveil::shadow::Requester;

use crate::fixture::Veil;

const POLICY: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 100000, delta: 1e-3}, per_query: {epsilon: 1, \
    max_epsilon: 1}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90000, delta: 1e-4}}]
tables:
  public.people: \
  {unit: id, columns: {region: {domain: public.regions.code}, age: {bounds: [0, 100]}}}
  public.regions: public
  public.codes: public
  public.calm: public
";

/// Names of the tables that the answer warns of.
async fn warned(veil: &Veil, sql: &str) -> Vec<String> {
    let requester = Requester {
        session_settings: SessionSettings {
            notices: Notices::Off,
            ..Veil::fresh().session_settings
        },
        ..Veil::requester()
    };
    let answer = veil
        .ask_as(&requester, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
    assert!(
        answer.notices.is_empty()
            && answer
                .warnings
                .iter()
                .all(|w| w.hint.as_ref().is_some_and(|hint| hint.contains("reload"))),
        "{answer:?}"
    );
    let name = |message: &str| {
        message
            .strip_prefix("public table public.")
            .and_then(|rest| rest.strip_suffix(" has changed since it was loaded"))
            .map(str::to_owned)
    };
    answer
        .warnings
        .iter()
        .map(|warning| name(&warning.message).unwrap_or_else(|| panic!("{warning:?}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_tell_that_a_public_table_has_changed() {
    let fill = async |client: &tokio_postgres::Client| {
        let schema = "CREATE TABLE regions (code text PRIMARY KEY, name text, n int, since \
            timestamptz DEFAULT '2020-01-01 00:00+00');
             CREATE TABLE codes (k int, v int); CREATE TABLE calm (k int PRIMARY KEY, at date \
             DEFAULT '2020-02-03', big float8 DEFAULT 1e20);
             CREATE TABLE people (id int PRIMARY KEY, region text REFERENCES regions, age int);
             INSERT INTO regions VALUES ('a', 'Alpha', 1), ('b', 'Beta', 2), ('c', 'Gamma', 3);
             INSERT INTO codes SELECT 3, g FROM generate_series(1, 10) g; INSERT INTO calm SELECT \
             generate_series(1, 5);
             INSERT INTO people SELECT g, (ARRAY['a', 'b', 'c'])[1 + g % 3], g % 90 FROM \
             generate_series(1, 3000) g";
        client.batch_execute(schema).await.unwrap();
    };
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let by_name =
        "SELECT g.name, count(*) FROM regions g JOIN people p ON p.region = g.code GROUP BY g.name";
    let joined = "SELECT sum(g.n), count(*) FROM people p JOIN regions g ON p.region = g.code";
    let by_key = "SELECT region, count(*) FROM people GROUP BY region";
    let within = "SELECT count(*) FROM people WHERE region IN (SELECT code FROM regions)";
    let calm = "SELECT count(*) FROM people p JOIN calm c ON c.k = p.age";
    let plain = "SELECT count(*), avg(age) FROM people";
    let shown = "SELECT code, n FROM regions";
    for sql in [by_name, joined, by_key, within, calm, plain, shown] {
        assert_eq!(warned(&veil, sql).await, [""; 0], "{sql}");
    }
    veil.client
        .batch_execute(
            "SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'; SET extra_float_digits = 0",
        )
        .await
        .unwrap();
    assert_eq!(veil.engine.changed_contents(true).await.unwrap(), [""; 0]);

    // The first reader finds it: here the question's own snapshot.
    veil.client
        .batch_execute(
            "UPDATE regions SET n = 100000, name = 'ALPHA!' WHERE code = 'a'; INSERT \
            INTO regions VALUES ('q', 'Quu', 7)",
        )
        .await
        .unwrap();
    for sql in [by_name, joined, by_key, within] {
        assert_eq!(warned(&veil, sql).await, ["regions"], "{sql}");
    }
    assert_eq!(warned(&veil, shown).await, ["regions"], "the copy is old");
    for sql in [calm, plain] {
        assert_eq!(warned(&veil, sql).await, [""; 0], "{sql}");
    }
    // Or the proxy itself, which checks now and then.
    veil.client
        .batch_execute("DELETE FROM codes WHERE v = 10")
        .await
        .unwrap();
    assert_eq!(
        warned(&veil, "SELECT count(*) FROM codes").await,
        [""; 0],
        "not looked at yet: the copy's own rows"
    );
    assert_eq!(
        veil.engine.changed_contents(false).await.unwrap(),
        ["public.regions", "public.codes"]
    );
    assert_eq!(warned(&veil, "SELECT count(*) FROM codes").await, ["codes"]);
    assert_eq!(
        warned(
            &veil,
            "SELECT c.v, q.n FROM codes c, (SELECT count(*) AS n FROM people) q"
        )
        .await,
        ["codes"]
    );

    // The table is again as it was loaded.
    veil.client
        .batch_execute(
            "UPDATE regions SET n = 1, name = 'Alpha' WHERE code = 'a'; DELETE \
        FROM regions WHERE code = 'q'",
        )
        .await
        .unwrap();
    assert_eq!(warned(&veil, by_name).await, [""; 0]);
    // A reload loads the present rows.
    let reloaded = veil.by_way_of(veil.server.config()).await;
    assert_eq!(reloaded.changed_contents(true).await.unwrap(), [""; 0]);
}

/// Large tables are looked at by the proxy alone.
#[tokio::test(flavor = "multi_thread")]
async fn large_public_tables_are_looked_at_now_and_then() {
    let fill = async |client: &tokio_postgres::Client| {
        let schema = "CREATE TABLE regions (code text PRIMARY KEY); INSERT INTO regions VALUES \
            ('a');
             CREATE TABLE calm (k int); CREATE TABLE codes (k int, v int); INSERT INTO codes \
             SELECT \
             g, g % 5 FROM generate_series(1, 20000) g;
             CREATE TABLE people (id int PRIMARY KEY, region text, age int); INSERT INTO people \
             SELECT g, 'a', g % 90 FROM generate_series(1, 300) g";
        client.batch_execute(schema).await.unwrap();
    };
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let sql = "SELECT c.v, count(*) FROM people p JOIN codes c ON c.k = p.id GROUP BY c.v";
    assert_eq!(warned(&veil, sql).await, [""; 0]);
    veil.client
        .batch_execute("UPDATE codes SET v = 9 WHERE v = 4")
        .await
        .unwrap();
    assert_eq!(veil.engine.changed_contents(false).await.unwrap(), [""; 0]);
    assert_eq!(
        veil.engine.changed_contents(true).await.unwrap(),
        ["public.codes"]
    );
    assert_eq!(warned(&veil, sql).await, ["codes"]);
}
