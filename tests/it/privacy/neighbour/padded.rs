//! Units that a padded text names, in tables without a foreign key, with NaN, infinities, NULLs and
//! duplicates in bounded columns.

use pgveil::mechanism::Accounting;
use pgveil::rewrite::Plan;

use super::bound::within;
use super::world::World;

const SCHEMA: &str = "
    CREATE SCHEMA w;
    CREATE TABLE w.clients (id char(4) PRIMARY KEY, kind char(3), x float8, y real, d date, ts \
    timestamp, tz timestamptz, n int);
    CREATE TABLE w.calls (no int, id char(4) NOT NULL, kind char(3), x float8, y real, d date, ts \
    timestamp, tz timestamptz, n int, UNIQUE (id, no));
    CREATE TABLE w.mails (id char(4) NOT NULL, kind char(3), x float8, y real, d date, ts \
    timestamp, tz timestamptz, n int);
    CREATE TABLE w.kinds (code char(3) PRIMARY KEY, name text);
    INSERT INTO w.kinds VALUES ('a', 'first'), ('b', 'second');";

const POLICY: &str = "\
version: 1
privacy: {unit: client, budget: {epsilon: 8, delta: 1e-6}}
limits: {groups_per_unit: 3, rows_per_unit: 6}
roles: [{name: ann, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 3, delta: 1e-7}}]
tables:
  w.clients: {unit: id, other_columns: visible, columns: {RULES}}
  w.calls: {unit: id, rows_per_unit: 4, other_columns: visible, columns: {RULES}}
  w.mails: {unit: id, rows_per_unit: 2, other_columns: visible, columns: {RULES}}
  w.kinds: public
";

const RULES: &str = "x: {bounds: [-1.5, 100.25]}, y: {bounds: [0, 0.1]}, n: {bounds: [0, 9]}, \
    kind: \
    {values: [a, b]}, d: {bounds: [2000-01-01, 2001-12-31]}, \
     ts: {bounds: [\"2000-01-01\", \"2000-03-31\"]}, tz: \
     {bounds: [\"2000-01-01T00:00:00Z\", \"2000-03-31T00:00:00Z\"]}";

/// Six units, one of blanks alone; the first has 300 calls and as many mails.
const ROWS: &str = "
    CREATE TABLE w.hostile AS SELECT g, (ARRAY['a', 'b', 'c', NULL])[1 + g % 4]::char(3) AS kind,
        (ARRAY['NaN', 'Infinity', '-Infinity', '-0', '1e308', NULL, '100.25', '5e-324'])[1 + g % \
        8]::float8 AS x,
        (ARRAY['NaN', 'Infinity', '-Infinity', '3e38', '0.1', NULL, '1e-45'])[1 + g % 7]::real AS y,
        (ARRAY['infinity', '-infinity', '4713-01-01 BC', '5874897-12-31', NULL, '2001-12-31'])[1 + \
        g % 6]::date AS d,
        (ARRAY['infinity', '-infinity', '294276-12-31', NULL, '2000-03-31 00:00:01'])[1 + g % \
        5]::timestamp AS ts,
        (ARRAY['-infinity', 'infinity', NULL, '2000-02-01 00:00+00', '4713-01-02 BC'])[1 + g % \
        5]::timestamptz AS tz,
        (ARRAY[0, 9, -2147483648, 2147483647, NULL])[1 + g % 5] AS n FROM generate_series(1, 300) g;
    INSERT INTO w.clients SELECT 'u' || g, kind, x, y, d, ts, tz, n FROM w.hostile WHERE g < 6;
    INSERT INTO w.clients VALUES ('', 'a', 'NaN', 'NaN', 'infinity', 'infinity', 'infinity', 9);
    INSERT INTO w.calls SELECT g, CASE WHEN g % 300 < 290 THEN 'u1' ELSE 'u' || g % 7 END, kind, \
    x, \
    y, d, ts, tz, n FROM w.hostile;
    INSERT INTO w.calls SELECT -g, '  ', kind, x, y, d, ts, tz, n FROM w.hostile WHERE g < 9;
    INSERT INTO w.mails SELECT (ARRAY['u1', 'u1 ', 'u1   ', 'u2 ', '', ' '])[1 + g % 6]::bpchar, \
    kind, x, y, d, ts, tz, n FROM w.hostile;";

const ASKED: &[&str] = &[
    "SELECT count(*), sum(x), sum(y), sum(n), avg(x), count(DISTINCT id) FROM calls",
    "SELECT kind, count(*), sum(x), avg(n) FROM calls GROUP BY kind",
    "SELECT count(*), stddev(x), var_pop(y), corr(x, y), regr_slope(n, x) FROM calls",
    "SELECT avg(d - date '2000-01-01'), sum(extract(day FROM ts)), sum(extract(hour FROM tz)) FROM \
        calls",
    "SELECT date_trunc('month', d), count(*), sum(n) FROM calls GROUP BY 1",
    "SELECT extract(year FROM ts), count(*) FROM calls GROUP BY 1",
    "SELECT count(*) FROM calls WHERE x = 'NaN' OR y > 0.05 OR d = 'infinity' OR ts < '2000-02-01' \
        OR tz = '-infinity'",
    "SELECT kind, count(DISTINCT n), count(DISTINCT id) FROM calls GROUP BY kind",
    "SELECT count(*), sum(n) FROM mails",
    "SELECT kind, count(*), sum(x) FROM mails GROUP BY kind",
    "SELECT count(DISTINCT id), count(*) FROM mails WHERE x > 0 OR x IS NULL",
    "SELECT sum(least(c, 5)), count(*) FROM (SELECT id, count(*) AS c FROM mails GROUP BY id) g",
    "SELECT sum(least(c, 5)), sum(x) FROM (SELECT id, count(*) AS c, avg(x) AS x FROM calls GROUP \
        BY id) g",
    "SELECT c.kind, count(*), sum(l.x) FROM clients c JOIN calls l ON l.id = c.id GROUP BY c.kind",
    "SELECT count(*), count(l.n), sum(l.n) FROM clients c LEFT JOIN calls l ON l.id = c.id AND l.x \
        > 0",
    "SELECT count(*), sum(a.n) FROM calls a JOIN calls b ON a.id = b.id AND a.n <= b.n",
    "SELECT count(*), sum(b.x) FROM calls a LEFT JOIN calls b ON a.id = b.id AND b.kind = 'a' AND \
        a.no < b.no WHERE a.kind = 'a' OR a.n > 3",
    "SELECT count(*) FROM calls a JOIN calls b USING (id, no)",
    "SELECT count(*), sum(a.n) FROM mails a JOIN mails b ON a.id = b.id",
    "SELECT count(*) FROM mails m WHERE EXISTS (SELECT 1 FROM mails o WHERE o.id = m.id AND o.n > \
        m.n)",
    "SELECT count(*) FROM clients c WHERE c.id IN (SELECT id FROM calls WHERE y > 0) AND c.x < 5",
    "SELECT sum(least(r, 9)) FROM (SELECT row_number() OVER (PARTITION BY id ORDER BY x, no) AS r \
        FROM calls) g",
    "SELECT sum(least(greatest(m, 0), 9)) FROM (SELECT max(n) OVER (PARTITION BY id ORDER BY d, n \
        ROWS 2 PRECEDING) AS m FROM mails) g",
    "SELECT count(*), sum(n) FROM (SELECT id, n FROM calls UNION ALL SELECT id, n FROM calls) u",
    "SELECT k.name, count(*), sum(l.n) FROM calls l JOIN kinds k ON k.code = l.kind GROUP BY \
        k.name",
    "SELECT count(*) FROM calls l, kinds k WHERE l.kind = k.code OR l.n > 3",
    "SELECT a.kind, count(*) FROM calls a JOIN calls b ON a.id = b.id JOIN clients c ON c.id = \
        b.id \
        WHERE a.kind = b.kind AND c.kind = a.kind GROUP BY a.kind",
    "SELECT count(*), bool_or(x > 5), bool_and(n > 0) FROM calls",
    "SELECT count(*) FROM calls WHERE id = 'u1' OR id LIKE 'u2%' OR length(id) = 0",
];

/// The bound for each unit, and silence where there is nobody.
async fn holds(world: &World, sql: &str, plan: &Plan) {
    for release in plan.releases() {
        let (Some(text), Some(price)) = (release.sql(), release.price()) else {
            continue;
        };
        let whole = world
            .run(text, release.vector_keys())
            .await
            .unwrap_or_else(|fault| panic!("{sql}\n{fault}"));
        for unit in ["u1", "u2", "u5", ""] {
            without(world, &format!("= '{unit}'::bpchar")).await;
            let rest = world.run(text, release.vector_keys()).await;
            world.back().await;
            within(price, release, &whole, &rest.unwrap())
                .unwrap_or_else(|fault| panic!("{sql}\nwithout {unit:?}: {fault}\n{text}"));
        }
        without(world, "IS NOT NULL").await;
        let none = world.run(text, release.vector_keys()).await;
        world.back().await;
        assert!(
            none.unwrap()
                .values()
                .flatten()
                .all(|value| *value == 0.into()),
            "{sql}"
        );
    }
}

async fn without(world: &World, unit: &str) {
    let delete = format!(
        "BEGIN; DELETE FROM w.clients WHERE id {unit}; DELETE FROM w.calls WHERE id {unit}; DELETE \
            FROM w.mails WHERE id {unit}"
    );
    world.client.batch_execute(&delete).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn padded_units_are_bounded() {
    let world = World::with(SCHEMA, &POLICY.replace("RULES", RULES)).await;
    world.client.batch_execute(ROWS).await.unwrap();
    let mut refused = Vec::new();
    for sql in ASKED {
        for accounting in [Accounting::Gdp, Accounting::Pure] {
            match world.plan_under(sql, accounting, 1.0) {
                Ok(plan) => holds(&world, sql, &plan).await,
                Err(refusal) => refused.push(format!("{sql}\n{refusal}")),
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
