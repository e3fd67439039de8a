//! Regressions over keys of a summary that has all pairs of them: the moments are sums of its
//! groups, free, and errors are those of what the groups' noise makes of them.

use pgveil::engine::Requester;
use pgveil::policy::{Reuse, SessionSettings};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::regression::fields;
use super::summaries::{make, spent, with_reuse};
use crate::fixture::{Silent, Stream, Veil};

const POLICY: &str = "
version: 1
database: {url: '${DATABASE_URL}'}
ledger: {url: '${PGVEIL_LEDGER}'}
privacy:
  unit: person
  budget: {epsilon: 10000000, delta: 1e-3}
  per_query: {epsilon: 0.5, max_epsilon: 5000}
  data_version: '1'
roles:
  - name: analyst
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: {epsilon: 9000000, delta: 1e-4}
  - name: reference
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: {epsilon: 9000000, delta: 1e-4}
tables:
  Lab East.Surveys:
    unit: id
    columns:
      Visits: {values: [0, 1, 2, 3, 4], complete: true}
      smoker: {values: [0, 1], complete: true}
      score: {values: [0, 1, 2, 3, 4, 5, 6], complete: true}
      letter: {values: [a, b, c], complete: true}
      age: {bounds: [0, 90]}
summaries:
  surveys:
    of: Lab East.Surveys
    keys: [Visits, smoker, score, letter]
    marginals: all 2
    epsilon: EPSILON
limits: {groups: 1000, failures: 10, statement_timeout: 60s, connections: 4}
";

const SCHEMA: &str = "CREATE SCHEMA \"Lab East\";
CREATE TABLE \"Lab East\".\"Surveys\" (id int PRIMARY KEY, \"Visits\" int NOT NULL,
smoker smallint NOT NULL, score bigint NOT NULL, letter text NOT NULL, age int NOT NULL);
INSERT INTO \"Lab East\".\"Surveys\"
SELECT n, v, s, (v + 2 * s + n / 13 % 3) % 7, (ARRAY['a', 'b', 'c'])[1 + n / 3 % 3], n % 90
FROM generate_series(1, 6000) AS n, LATERAL (SELECT n % 5 AS v, n / 7 % 2 AS s) AS f;";

const FIT: &str = "SELECT (pgveil.linregr(score, ARRAY[1, \"Visits\", smoker])).* FROM \
    \"Lab East\".\"Surveys\"";

async fn surveys(epsilon: &str) -> Veil {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    Veil::over(fill, &POLICY.replace("EPSILON", epsilon), Veil::silent()).await
}

/// A session of the analyst, who has received the newest summary.
async fn received(veil: &Veil) -> Requester {
    let requester = with_reuse("analyst", Reuse::On);
    let sql = "SELECT smoker, count(*) FROM \"Lab East\".\"Surveys\" GROUP BY smoker";
    veil.rows_as(&requester, sql).await.unwrap();
    requester
}

async fn fitted(veil: &Veil, requester: &Requester, sql: &str) -> Vec<Vec<f64>> {
    let rows = veil.rows_as(requester, sql).await;
    fields(&rows.unwrap_or_else(|error| panic!("{sql}: {error:?}"))[0])
}

/// Without noise it is the fit of the rows, whatever follows from keys; what needs more than two
/// keys at once, or another column, is bought.
#[tokio::test(flavor = "multi_thread")]
async fn fits_over_keys_are_free() {
    let veil = surveys("5000").await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let requester = received(&veil).await;
    // What the analyst bought would be shown again.
    let mut fresh = with_reuse("reference", Reuse::Exact);
    fresh.session_settings.epsilon = Some(5000.0);
    let of = |what: &str| format!("SELECT {what} FROM \"Lab East\".\"Surveys\"");
    let free = [
        FIT.to_owned(),
        of("(pgveil.linregr(score, ARRAY[1, \"Visits\", smoker, \
            CASE WHEN letter = 'b' THEN 1 ELSE 0 END])).coef"),
        of("(pgveil.linregr(score, ARRAY[1, 2 * \"Visits\"])).coef"),
        of("(pgveil.pca(ARRAY[score, \"Visits\", smoker])).variance"),
    ];
    for sql in &free {
        let before = spent(&veil.engine, "analyst").await;
        let found = fitted(&veil, &requester, sql).await;
        assert_eq!(
            spent(&veil.engine, "analyst").await,
            before,
            "{sql} was bought"
        );
        let wanted = fitted(&veil, &fresh, sql).await;
        for (found, wanted) in found[0].iter().zip(&wanted[0]) {
            assert!((found - wanted).abs() < 1e-6, "{sql}: {found} {wanted}");
        }
    }
    let plan = veil
        .explained(requester.session_settings, &format!("EXPLAIN {FIT}"))
        .await;
    let plan = plan.join("\n");
    assert!(
        plan.contains("surveys") && plan.contains("Cost now: nothing"),
        "{plan}"
    );
    // What is no finite number is not summed up.
    for number in ["NaN", "Infinity"] {
        let sql = of(&format!(
            "(pgveil.linregr(score, ARRAY[1, CASE WHEN letter = 'b' THEN '{number}'::float8 ELSE \
                1 END])).coef"
        ));
        let before = spent(&veil.engine, "analyst").await;
        let answer = veil.rows_as(&requester, &sql).await;
        let is_free = spent(&veil.engine, "analyst").await == before;
        assert!(answer.is_err() || !is_free, "{sql}: {answer:?}");
    }
    let filtered =
        of("(pgveil.linregr(score, ARRAY[1, \"Visits\"]) FILTER (WHERE letter = 'a')).coef");
    let bought = [
        of("(pgveil.linregr(score, ARRAY[1, age])).coef"),
        of("(pgveil.linregr(score, ARRAY[1, smoker]) FILTER (WHERE letter = 'a')).coef"),
        FIT.to_owned() + " WHERE letter = 'a'",
    ];
    for sql in &bought {
        let before = spent(&veil.engine, "analyst").await;
        fitted(&veil, &requester, sql).await;
        assert!(
            spent(&veil.engine, "analyst").await > before,
            "{sql} was free"
        );
    }
    // The last one has all moments of fewer features under the same condition.
    let before = spent(&veil.engine, "analyst").await;
    let found = fitted(&veil, &requester, &filtered).await;
    assert_eq!(spent(&veil.engine, "analyst").await, before);
    let wanted = fitted(&veil, &fresh, &filtered).await;
    for (found, wanted) in found[0].iter().zip(&wanted[0]) {
        assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
    }
}

/// A coefficient is within 1.96 of its stated errors of noise as often as that says, over many
/// makings of the summary.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_noise_hold_as_often_as_they_say() {
    const MAKINGS: u64 = 200;
    let veil = surveys("1").await;
    let mut fresh = with_reuse("reference", Reuse::Exact);
    fresh.session_settings.epsilon = Some(5000.0);
    let wanted = fitted(&veil, &fresh, FIT).await;
    let (mut held, mut squares, mut all) = (0, 0.0, 0);
    for seed in 0..MAKINGS {
        let mut noise = Stream(ChaCha20Rng::seed_from_u64(seed));
        make(&veil, &veil.engine, &mut noise).await.unwrap();
        let mut requester = received(&veil).await;
        requester.session_settings.reuse = Reuse::Summary;
        let found = fitted(&veil, &requester, FIT).await;
        for at in 0..3 {
            let off = (found[0][at] - wanted[0][at]) / found[2][at];
            held += usize::from(off.abs() < 1.96);
            squares += off * off;
            all += 1;
        }
        assert_eq!(found[6], [0.0], "no coefficient is shrunk: {found:?}");
    }
    let share = held as f64 / f64::from(all);
    println!(
        "{share} of {all} held, of mean square {}",
        squares / f64::from(all)
    );
    assert!((0.93..=0.97).contains(&share), "{share}");
}

/// What a summary lacks for a fit is named: a key, keys that are in no set together, or a fit of
/// all rows where groups are asked for.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_summary_lacks_for_a_fit_is_named() {
    let veil = surveys("5000").await;
    let asking = with_reuse("analyst", Reuse::Summary);
    let of = |what: &str| format!("SELECT {what} FROM \"Lab East\".\"Surveys\"");
    let three = "surveys has no set of keys with smoker, score and letter together";
    let by_letter = "surveys fits to all rows together alone: leave out GROUP BY";
    let fit = "(pgveil.linregr(score, ARRAY[1, smoker])).coef";
    let lacks = [
        (
            of("(pgveil.linregr(score, ARRAY[1, age])).coef"),
            "surveys has no key age",
        ),
        (
            of("(pgveil.linregr(score, ARRAY[1, smoker]) FILTER (WHERE letter = 'a')).coef"),
            three,
        ),
        (of(fit) + " WHERE letter = 'a'", three),
        (
            of("(pgveil.pca(ARRAY[score, smoker])).variance") + " WHERE letter <> 'a'",
            three,
        ),
        (
            of(
                "(pgveil.linregr(score, ARRAY[1, CASE WHEN letter = 'b' AND smoker = 1 THEN 1 ELSE \
                0 END])).coef",
            ),
            three,
        ),
        (
            of(&format!("letter, {fit}")) + " GROUP BY letter",
            by_letter,
        ),
    ];
    for made in [false, true] {
        if made {
            make(&veil, &veil.engine, &mut Silent).await.unwrap();
        }
        for (sql, lack) in &lacks {
            let refused = veil.rows_as(&asking, sql).await.unwrap_err().report();
            assert_eq!(refused.reason.id(), "not-held", "{sql}");
            let detail = refused.detail.unwrap();
            assert!(
                detail.ends_with(&format!("Summary {lack}.")),
                "{sql}: {detail}"
            );
            let lines = veil
                .explained(SessionSettings::default(), &format!("EXPLAIN {sql}"))
                .await;
            assert!(lines.contains(&format!("Summary: {lack}")), "{lines:#?}");
        }
    }
    // What it answers, it does not lack.
    let lines = veil
        .explained(SessionSettings::default(), &format!("EXPLAIN {FIT}"))
        .await;
    let is_lack = |line: &&String| line.starts_with("Summary: surveys");
    assert_eq!(lines.iter().find(is_lack), None, "{lines:#?}");
}
