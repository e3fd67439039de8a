//! Widened questions: they have the asked one's price and noise, and one unit moves the bought
//! release by no more than that allows.

use pgveil::mechanism::Accounting;
use pgveil::policy::SessionSettings;

use super::bound::within;
use super::world::World;

/// Also rows that break the policy's declarations: a region that is not listed, NULL, and scores
/// out of bounds.
const SCHEMA: &str = "
CREATE SCHEMA w;
CREATE TABLE w.people (id int PRIMARY KEY, region text, grade int NOT NULL, town text, score int);
CREATE TABLE w.visits (id int PRIMARY KEY, person int NOT NULL REFERENCES w.people, kind text, \
amount int);
INSERT INTO w.people SELECT g, (ARRAY['n', 's', 'e', NULL, 'zz'])[1 + g % 5], 1 + g % 2, \
(ARRAY['x', 'y', 'z'])[1 + g % 3], CASE WHEN g = 7 THEN 2147483647 ELSE g END \
FROM generate_series(1, 20) AS g;
INSERT INTO w.visits SELECT g, 1 + g % 13, (ARRAY['a', 'b'])[1 + g % 2], g * 100000 \
FROM generate_series(1, 90) AS g;";

const POLICY: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
roles: [{name: ann, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 3, delta: 1e-7}}]
tables:
  w.people:
    unit: id
    columns:
      region: {values: [n, s, e], complete: true}
      grade: {values: [1, 2], complete: true}
      town: {values: [x, y]}
      score: {bounds: [0, 50]}
  w.visits:
    unit: {path: [person -> w.people.id]}
    rows_per_unit: 4
    columns:
      kind: {values: [a, b], complete: true}
      amount: {bounds: [0, 1000]}
";

#[tokio::test(flavor = "multi_thread")]
async fn widened_questions_have_one_price_and_stay_within_it() {
    let world = World::with(SCHEMA, POLICY).await;
    for (sql, groups) in [
        (
            "SELECT count(*), sum(score) FROM people WHERE region = 'n'",
            4,
        ),
        (
            "SELECT count(*) FROM people WHERE 's' = region AND score > 3",
            4,
        ),
        (
            "SELECT region, avg(score) FROM people WHERE region IN ('n', 'e') GROUP BY region",
            4,
        ),
        (
            "SELECT grade, count(*) FROM people WHERE region = 'zz' OR grade = 2 GROUP BY 1",
            0,
        ),
        (
            "SELECT count(*) FROM people WHERE region = 'n' AND grade = 2",
            8,
        ),
        (
            "SELECT count(*) FROM people WHERE region = 'n' AND town = 'x'",
            4,
        ),
        (
            "SELECT sum(amount) FROM visits JOIN people ON visits.person = people.id WHERE region \
                = 's' AND kind = 'a'",
            4,
        ),
    ] {
        for accounting in [Accounting::Gdp, Accounting::Pure] {
            let plan = world.plan_under(sql, accounting, 1.0).unwrap();
            let Some(wide) = plan.bought_instead() else {
                assert_eq!(groups, 0, "{sql} is not widened");
                continue;
            };
            assert_eq!(wide.groups(), groups, "{sql}");
            assert_eq!(wide.plan.loss(), plan.loss(), "{sql}");
            let (asked, bought) = (&plan.releases()[0], &wide.plan.releases()[0]);
            // To the last bit: clip, weights, noise and all else that it is made of.
            assert_eq!(
                format!("{:?}", asked.price()),
                format!("{:?}", bought.price())
            );
            assert_ne!(asked.question(), bought.question());
            let text = bought.sql().unwrap();
            for kept in ["score", "town", "amount", "kind"] {
                let is_asked = asked.sql().unwrap().matches(&format!("\"{kept}\"")).count();
                assert_eq!(
                    text.matches(&format!("\"{kept}\"")).count(),
                    is_asked,
                    "{text}"
                );
            }
            let whole = world.run(text, bought.vector_keys()).await.unwrap();
            for unit in 1..=20 {
                let delete = format!(
                    "BEGIN; DELETE FROM w.visits WHERE person = {unit}; DELETE FROM w.people \
                        WHERE id = {unit};"
                );
                world.client.batch_execute(&delete).await.unwrap();
                let rest = world.run(text, bought.vector_keys()).await.unwrap();
                world.back().await;
                within(bought.price().unwrap(), bought, &whole, &rest)
                    .unwrap_or_else(|fault| panic!("without {unit}: {fault}\n{sql}\n{text}"));
            }
        }
    }
}

/// Questions that are not widened: they would cost more, have more noise, or rest on a list that is
/// not complete.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_is_widened() {
    let world = World::with(SCHEMA, POLICY).await;
    let fixed = SessionSettings::with_fixed_clips();
    let plan = |sql: &str, settings| {
        let plan = world.plan_with(sql, Accounting::Gdp, 1.0, settings);
        plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"))
    };
    for sql in [
        // A unit's rows are in several groups.
        "SELECT count(*) FROM visits WHERE kind = 'a'",
        // Others than the listed ones occur.
        "SELECT count(*) FROM people WHERE town = 'x'",
        // The sum of two groups has more noise than one.
        "SELECT count(*) FROM people WHERE region IN ('n', 's')",
        // Not listed, or no list at all.
        "SELECT count(*) FROM people WHERE region = 'zz'",
        "SELECT count(*) FROM people WHERE score = 3",
        "SELECT count(*) FROM people WHERE region > 'n'",
        "SELECT count(*) FROM people WHERE region = 'n' AND region = 's'",
        // Choices have their own statements.
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY score) FROM people WHERE region = 'n'",
        // Two releases share the statement's epsilon.
        "SELECT (SELECT count(*) FROM people WHERE region = 'n'), (SELECT count(*) FROM people)",
        "SELECT town, count(*) FROM people WHERE region = 'n' GROUP BY ROLLUP (town)",
        // Below a grouping by unit the column is not there.
        "SELECT avg(n) FROM (SELECT person, count(*) AS n FROM visits JOIN people ON \
            visits.person = people.id WHERE region = 'n' GROUP BY person) AS s",
    ] {
        assert!(plan(sql, fixed).bought_instead().is_none(), "{sql}");
    }
    let asked = "SELECT count(*) FROM people WHERE region = 'n'";
    assert!(plan(asked, fixed).bought_instead().is_some());
    for (name, value) in [
        ("pgveil.widen", "off"),
        ("pgveil.reuse", "exact"),
        ("pgveil.target_error", "100"),
        ("pgveil.max_groups_per_unit", "1"),
        ("pgveil.keys", "threshold"),
    ] {
        let mut settings = fixed;
        settings.set(name, value).unwrap();
        assert!(
            plan(asked, settings).bought_instead().is_none(),
            "{name} = {value}"
        );
    }
}
