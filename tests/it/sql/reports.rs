//! Columns whose values were randomised before they were stored: estimates from their reports.

use std::fmt::Write;

use pgveil::engine::{MakeSampler, Requester};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::fixture::{Veil, streams};

const POLICY: &str = "
version: 1
database: {url: '${DATABASE_URL}'}
ledger: {url: '${PGVEIL_LEDGER}'}
privacy:
  unit: person
  budget: {epsilon: 10000000, delta: 1e-3}
  per_query: {epsilon: 5000, max_epsilon: 5000, min_epsilon: 0.1}
roles:
  - name: analyst
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: {epsilon: 9000000, delta: 1e-4}
tables:
  Survey.Answers:
    unit: Person
    rows_per_unit: 4
    columns:
      Wave: {bounds: [1, 400]}
      Region: {values: [north, south], complete: true}
      Smoked: {values: [no, yes], collected: COIN}
      Illness: {values: [flu, cold, 'none of these'], complete: true, collected: KRR}
      Letter: {values: [a, bcd], collected: KRR}
      Tea: {visible: true, collected: UNARY, also: [Coffee]}
      Income: {bounds: [1000, 5000], collected: MEAN}
limits: {groups: 10000, failures: 10, statement_timeout: 60s, connections: 4}
";

fn policy(coin: &str, krr: &str, unary: &str, mean: &str) -> String {
    POLICY
        .replace("COIN", &format!("{{mechanism: coin, {coin}}}"))
        .replace("KRR", &format!("{{mechanism: krr, {krr}}}"))
        .replace("UNARY", &format!("{{mechanism: unary, {unary}}}"))
        .replace("MEAN", &format!("{{mechanism: mean, {mean}}}"))
}

/// Odds of a survey that randomises nothing.
fn truthful() -> String {
    let nothing = "epsilon: 50";
    policy("truth: 1, yes: 0.5", nothing, "one: 1, zero: 0", nothing)
}

const SCHEMA: &str = "
CREATE SCHEMA \"Survey\";
CREATE TYPE \"Survey\".\"Kind\" AS ENUM ('none of these', 'cold', 'flu');
CREATE TABLE \"Survey\".\"Answers\" (\"Person\" int NOT NULL, \"Wave\" int NOT NULL,
\"Region\" text NOT NULL,
\"Smoked\" varchar(8), \"Illness\" \"Survey\".\"Kind\", \"Letter\" char(5), \"Tea\" bool NOT NULL,
\"Coffee\" bool, \"Income\" int);
";

/// Four rows a person, some without some reports.
const TRUE_ROWS: &str = "
INSERT INTO \"Survey\".\"Answers\" SELECT n % 50, 1 + n % 3, CASE n % 4 WHEN 0 THEN 'north' ELSE
'south' END, CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN 'yes' ELSE 'no' END, (ARRAY['flu', 'cold',
'none of these'])[1 + n % 7 % 3]::\"Survey\".\"Kind\", CASE n % 3 WHEN 0 THEN 'a' ELSE 'bcd' END,
n % 3 = 1, CASE n % 7 WHEN 0 THEN NULL ELSE n % 7 < 3 END, CASE n % 11 WHEN 0 THEN NULL ELSE
(n % 11 < 4)::int END FROM generate_series(1, 200) n;
";

async fn survey(rows: &str, yaml: &str, sampler: Option<MakeSampler>) -> Veil {
    let sql = format!("{SCHEMA}{rows}");
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(&sql).await.unwrap();
    Veil::over(fill, yaml, sampler).await
}

fn requester(epsilon: f64) -> Requester {
    Requester {
        session_settings: Veil::session_settings(epsilon),
        search_path: vec!["Survey".to_owned(), "public".to_owned()],
        ..Veil::requester()
    }
}

/// Counts by value, in groups, and under conditions of every form. Without randomisation and
/// without noise they are PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn estimates_of_what_was_not_randomised_are_postgresqls() {
    let veil = survey(TRUE_ROWS, &truthful(), Veil::silent()).await;
    veil.client
        .batch_execute("SET search_path = \"Survey\", public")
        .await
        .unwrap();
    let from = "FROM \"Answers\"";
    let questions = [
        format!("SELECT count(*) {from} WHERE \"Smoked\" = 'yes'"),
        format!("SELECT count(*) {from} WHERE \"Smoked\" <> 'yes' AND \"Region\" = 'south'"),
        format!("SELECT count(\"Smoked\"), count(*) {from} WHERE \"Smoked\" IS NOT NULL"),
        format!("SELECT count(*) FILTER (WHERE \"Smoked\" LIKE 'y%'), count(*) {from}"),
        format!("SELECT count(*) {from} WHERE NOT (\"Illness\" = 'flu' OR \"Illness\" = 'cold')"),
        format!("SELECT count(*) {from} WHERE \"Illness\" IN ('flu', 'cold')"),
        format!("SELECT \"Illness\", count(*) {from} GROUP BY \"Illness\" ORDER BY \"Illness\""),
        format!(
            "SELECT \"Illness\"::text || '!' AS i, count(*) * 2 {from} GROUP BY \"Illness\" \
            HAVING count(*) > 60 ORDER BY 1 DESC"
        ),
        format!("SELECT \"Letter\", count(*) {from} GROUP BY 1 ORDER BY 2, 1"),
        format!("SELECT count(*) {from} WHERE \"Letter\" = 'bcd'"),
        format!(
            "SELECT \"Region\", \"Illness\", count(*), count(*) FILTER (WHERE \"Wave\" > 1) \
            {from} GROUP BY \"Region\", \"Illness\" ORDER BY 1, 2"
        ),
        format!(
            "SELECT \"Tea\", count(*) {from} WHERE \"Region\" = 'north' GROUP BY \"Tea\" ORDER \
            BY 1"
        ),
        format!(
            "SELECT count(*) FILTER (WHERE \"Tea\"), count(*) FILTER (WHERE NOT \"Coffee\"), \
            count(*) FILTER (WHERE \"Coffee\" IS TRUE) {from}"
        ),
        format!(
            "SELECT \"Smoked\", count(*) FROM (SELECT \"Smoked\", \"Wave\" {from} WHERE \"Wave\" \
            < 3) s WHERE \"Smoked\" IN ('no', 'yes') GROUP BY \"Smoked\" ORDER BY 1"
        ),
        format!(
            "SELECT count(*) > 20 AS many {from} WHERE \"Smoked\" = 'yes' GROUP BY \"Region\" \
            ORDER BY \"Region\""
        ),
        format!(
            "SELECT count(*) FROM (SELECT * {from} WHERE \"Smoked\" = 'no') s WHERE \"Wave\" = 2"
        ),
        format!(
            "WITH a AS (SELECT \"Letter\" AS l, count(*) AS n {from} GROUP BY \"Letter\") \
            SELECT l, n FROM a WHERE n > 100 ORDER BY l"
        ),
    ];
    let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
    veil.answers_as_postgresql(&requester(5000.0), &questions)
        .await;
}

/// A number's one bit is at the ends of its bounds where nothing is randomised.
#[tokio::test(flavor = "multi_thread")]
async fn sums_and_averages_of_bits_that_were_not_randomised_are_those_of_the_ends() {
    let veil = survey(TRUE_ROWS, &truthful(), Veil::silent()).await;
    let of = |value: &str| {
        format!(
            "SELECT \"Region\", sum({value}), round(avg({value}), 6) FROM \"Survey\".\"Answers\" \
                WHERE \"Wave\" < 3 GROUP BY 1 ORDER BY 1"
        )
    };
    let found = veil.rows_as(&requester(5000.0), &of("\"Income\"")).await;
    let wanted = veil.direct(&of("1000 + 4000 * \"Income\"")).await;
    assert_eq!(found.unwrap(), wanted);
}

/// Waves of the simulation, and persons in each.
const WAVES: usize = 400;
const PERSONS: usize = 250;

/// The reports of a survey with these odds, from true values that are known: how many of each wave
/// smoked, had the flu and drank tea, and the sum of their incomes.
fn simulated(odds: &Odds) -> (String, Vec<[f64; 4]>) {
    let mut random = ChaCha20Rng::seed_from_u64(20261129);
    let mut bern = |p: f64| random.random_bool(p);
    let mut rows = String::from("INSERT INTO \"Survey\".\"Answers\" VALUES ");
    let mut truth = Vec::new();
    for wave in 0..WAVES {
        let mut of_wave = [0.0; 4];
        for person in 0..PERSONS {
            let smokes = person % 10 < 3;
            let illness = person % 3;
            let drinks = person % 20 == 0;
            let income = 1000.0 + 4000.0 * (person as f64 / PERSONS as f64).powi(2);
            of_wave[0] += f64::from(u8::from(smokes));
            of_wave[1] += f64::from(u8::from(illness == 0));
            of_wave[2] += f64::from(u8::from(drinks));
            of_wave[3] += income;
            let said = if bern(odds.truth) {
                smokes
            } else {
                bern(odds.yes)
            };
            // The list is flu, cold, none; others are equally likely.
            let kept = bern(odds.kept);
            let other = 1 + usize::from(bern(0.5));
            let said_ill = if kept { illness } else { (illness + other) % 3 };
            let tea = bern(if drinks { odds.one } else { odds.zero });
            let t = (income - 3000.0) / 2000.0;
            let bit = bern((1.0 + t * odds.c) / 2.0);
            let comma = if rows.ends_with(' ') { "" } else { ", " };
            write!(
                rows,
                "{comma}({}, {}, 'north', '{}', '{}', 'a', {tea}, NULL, {})",
                wave * PERSONS + person,
                wave + 1,
                if said { "yes" } else { "no" },
                ["flu", "cold", "none of these"][said_ill],
                i32::from(bit)
            )
            .unwrap();
        }
        truth.push(of_wave);
    }
    (rows, truth)
}

struct Odds {
    truth: f64,
    yes: f64,
    kept: f64,
    one: f64,
    zero: f64,
    c: f64,
}

/// Reports and noise of a fixed seed. Estimates are right on average: the mean of 400 is within
/// five of its standard errors. Each interval holds the true number in at least 88 of 100
/// waves, where 95 are promised: by chance it would be fewer once in a hundred million runs.
#[tokio::test(flavor = "multi_thread")]
async fn estimates_are_right_on_average_and_as_exact_as_they_say() {
    let e = 1f64.exp();
    let odds = Odds {
        truth: 0.5,
        yes: 0.5,
        kept: e / (e + 2.0),
        one: 0.5,
        zero: 1.0 / (e + 1.0),
        c: (e - 1.0) / (e + 1.0),
    };
    let yaml = policy(
        "truth: 1/2, yes: 1/2",
        "epsilon: 1",
        "epsilon: 1",
        "epsilon: 1",
    );
    let (rows, truth) = simulated(&odds);
    let veil = survey(&rows, &yaml, Some(streams())).await;
    let estimates = [
        ("count(*) FILTER (WHERE \"Smoked\" = 'yes')", true),
        ("count(*) FILTER (WHERE \"Illness\" = 'flu')", true),
        ("count(*) FILTER (WHERE \"Tea\")", true),
        ("sum(\"Income\")", true),
    ];
    // Without much noise the reports' own error is all; with it, both are.
    for epsilon in [5000.0, 1.0] {
        for (at, (estimate, _)) in estimates.iter().enumerate() {
            let sql = format!(
                "SELECT {estimate}, pgveil.stderr({estimate}), pgveil.ci_low({estimate}), \
                    pgveil.ci_high({estimate}) FROM \"Answers\" GROUP BY \"Wave\" ORDER BY \
                    \"Wave\""
            );
            let rows = veil.rows_as(&requester(epsilon), &sql).await.unwrap();
            assert_eq!(rows.len(), WAVES);
            let (mut off, mut variance, mut covered) = (0.0, 0.0, 0);
            for (row, truth) in rows.iter().zip(&truth) {
                let fields: Vec<f64> = row.split('|').map(|f| f.parse().unwrap()).collect();
                off += fields[0] - truth[at];
                variance += fields[1].powi(2);
                covered += usize::from((fields[2]..=fields[3]).contains(&truth[at]));
            }
            assert!(
                off.abs() <= 5.0 * variance.sqrt(),
                "{estimate} at {epsilon}: {off}, ±{}",
                variance.sqrt()
            );
            assert!(
                covered * 100 >= 88 * WAVES,
                "{estimate} at {epsilon}: {covered} of {WAVES}"
            );
        }
    }
}

/// The error that is shown is that of the reports, where noise is small: for a coin of halves, of n
/// reports is sqrt(3 n) / 2, whatever was reported.
#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_reports_is_shown() {
    let yaml = policy(
        "truth: 1/2, yes: 1/2",
        "epsilon: 1",
        "epsilon: 1",
        "epsilon: 1",
    );
    let veil = survey(TRUE_ROWS, &yaml, Veil::silent()).await;
    let sql = "SELECT pgveil.stderr(count(*)) FROM \"Answers\" GROUP BY \"Smoked\"";
    let rows = veil.rows_as(&requester(5000.0), sql).await.unwrap();
    // 160 of the rows have a report.
    let wanted = (3.0 * 160f64).sqrt() / 2.0;
    for row in &rows {
        let error: f64 = row.parse().unwrap();
        assert!((error / wanted - 1.0).abs() < 0.01, "{row} {wanted}");
    }
    // A share has an error; what two estimates have to do with each other is not known.
    let sql = "SELECT pgveil.stderr(count(*) FILTER (WHERE \"Smoked\" = 'yes')::float8 / \
        count(*)), \
        pgveil.stderr(count(*) FILTER (WHERE \"Smoked\" = 'yes') + count(*) FILTER (WHERE \
        \"Smoked\" = 'no')) FROM \"Answers\"";
    let rows = veil.rows_as(&requester(5000.0), sql).await.unwrap();
    let (share, both) = rows[0].split_once('|').unwrap();
    let share: f64 = share.parse().unwrap();
    assert!((share / (wanted / 200.0) - 1.0).abs() < 0.01, "{share}");
    assert_eq!(both, "∅");
}

/// Where all have a value, the error is that of reports of it; where nobody has it, that of reports
/// of others. Of optimised unary encoding the former is larger.
#[tokio::test(flavor = "multi_thread")]
async fn the_error_depends_on_how_many_have_the_value() {
    let yaml = policy(
        "truth: 1/2, yes: 1/2",
        "epsilon: 1",
        "epsilon: 1",
        "epsilon: 1",
    );
    let (reports, hit, miss) = (200.0, 0.5, 1.0 / (1.0 + 1f64.exp()));
    for (set, with, odds) in [(100, 200.0, hit), (54, 0.0, miss)] {
        let rows = format!(
            "INSERT INTO \"Survey\".\"Answers\" (\"Person\", \"Wave\", \"Region\", \"Tea\") SELECT \
                n % 50, 1, 'north', n <= {set} FROM generate_series(1, 200) n;"
        );
        let veil = survey(&rows, &yaml, Veil::silent()).await;
        let count = "count(*) FILTER (WHERE \"Tea\")";
        let sql = format!("SELECT {count}, pgveil.stderr({count}) FROM \"Answers\"");
        let found = veil.rows_as(&requester(5000.0), &sql).await.unwrap();
        let (estimate, error) = found[0].split_once('|').unwrap();
        let (estimate, error): (f64, f64) = (estimate.parse().unwrap(), error.parse().unwrap());
        assert!((estimate - with).abs() <= 1.0, "{estimate} {with}");
        let wanted = (reports * odds * (1.0 - odds)).sqrt() / (hit - miss);
        assert!((error / wanted - 1.0).abs() < 0.01, "{error} {wanted}");
    }
}

/// Two estimates from the same reports are consistent, and cost as one answer.
#[tokio::test(flavor = "multi_thread")]
async fn all_values_add_up_to_the_number_of_reports() {
    let yaml = policy(
        "truth: 1/2, yes: 1/3",
        "epsilon: 1",
        "epsilon: 1",
        "epsilon: 1",
    );
    let veil = survey(TRUE_ROWS, &yaml, Veil::silent()).await;
    let sql = "SELECT sum(n)::int - max(reports)::int FROM (SELECT \"Illness\", count(*) AS n, 0 \
        AS \
        reports FROM \"Answers\" GROUP BY \"Illness\" UNION ALL SELECT NULL, 0, count(\"Illness\") \
        FROM \"Answers\") s";
    let rows = veil.rows_as(&requester(5000.0), sql).await.unwrap();
    let off: i32 = rows[0].parse().unwrap();
    // Each of the three is rounded.
    assert!(off.abs() <= 2, "{off}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_the_view_tell_how() {
    let yaml = policy(
        "truth: 1/2, yes: 1/2",
        "epsilon: 1",
        "epsilon: 1",
        "epsilon: 1",
    );
    let veil = survey(TRUE_ROWS, &yaml, Veil::silent()).await;
    let sql = "EXPLAIN SELECT count(*) FROM \"Survey\".\"Answers\" WHERE \"Smoked\" = 'yes'";
    let plan = veil.explained(Veil::session_settings(1.0), sql).await;
    assert!(
        plan.iter().any(|line| line.contains("count from reports")),
        "{plan:#?}"
    );
    let sql = "SELECT column_name, known_values, may_be_summed, group_by, local FROM \
        pgveil.columns \
        WHERE local IS NOT NULL ORDER BY ordinal_position";
    assert_eq!(
        veil.rows_as(&Veil::requester(), sql).await.unwrap(),
        [
            "Smoked|[\"no\",\"yes\"]|f|listed|coin, epsilon 1.10",
            "Illness|[\"flu\",\"cold\",\"none of these\"]|f|listed|krr, epsilon 1.00",
            "Letter|[\"a\",\"bcd\"]|f|listed|krr, epsilon 1.00",
            "Tea|[\"false\",\"true\"]|f|listed|unary, epsilon 1.00",
            "Coffee|[\"false\",\"true\"]|f|listed|unary, epsilon 1.00",
            "Income|∅|t|∅|mean, epsilon 1.00, 0 stands for -1328 and 1 for 7328",
        ]
    );
}

/// The SQL that docs/local.md has for public reports gives pgveil's own estimate and error of the
/// same reports.
#[tokio::test(flavor = "multi_thread")]
async fn the_arithmetic_for_public_reports_is_pgveils() {
    let page = std::fs::read_to_string("docs/local.md").unwrap();
    let (_, section) = page.split_once("\n## Public reports\n").unwrap();
    let (_, block) = section.split_once("```sql\n").unwrap();
    let (sql, _) = block.split_once("\n```").unwrap();
    let yaml = policy(
        "truth: 1/2, yes: 1/2",
        "epsilon: 1",
        "epsilon: 1",
        "epsilon: 1",
    );
    let rows = "INSERT INTO \"Survey\".\"Answers\" SELECT n, 1, 'north', CASE WHEN n % 8 = 0 THEN \
        NULL WHEN n % 5 < 2 THEN 'yes' ELSE 'no' END, 'flu', 'a', true, true, 1 FROM \
        generate_series(1, 4000) n; CREATE SCHEMA survey; CREATE VIEW survey.open_answers AS \
        SELECT \"Smoked\" AS smoked FROM \"Survey\".\"Answers\"";
    let veil = survey(rows, &yaml, Veil::silent()).await;
    let open: Vec<f64> = veil.direct(sql).await[0]
        .split('|')
        .map(|value| value.parse().unwrap())
        .collect();
    let asked =
        "SELECT count(*), pgveil.stderr(count(*)) FROM \"Answers\" WHERE \"Smoked\" = 'yes'";
    let shown = veil.rows_as(&requester(5000.0), asked).await.unwrap();
    let shown: Vec<f64> = shown[0].split('|').map(|v| v.parse().unwrap()).collect();
    // 1,400 of 3,500 reports.
    assert_eq!(open[0], 1050.0);
    assert!((open[0] - shown[0]).abs() < 1.0, "{open:?} {shown:?}");
    assert!(
        (open[1] / shown[1] - 1.0).abs() < 0.01,
        "{open:?} {shown:?}"
    );
}

/// Each aggregate decides the conditions on reports, so they are counted over the whole statement.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_reports_are_limited_for_the_whole_statement() {
    let veil = survey("", &truthful(), Veil::silent()).await;
    let list = vec!["'a'"; 200].join(", ");
    let counted = |times: usize| {
        let counts = vec!["count(*)"; times].join(", ");
        format!("SELECT {counts} FROM \"Survey\".\"Answers\" WHERE \"Letter\" IN ({list})")
    };
    assert!(veil.ask_as(&requester(5000.0), &counted(3)).await.is_ok());
    let refused = veil.ask_as(&requester(5000.0), &counted(600)).await;
    let refused = refused.unwrap_err().report();
    assert!(
        refused.message.contains("conditions of this length"),
        "{refused:?}"
    );
}
