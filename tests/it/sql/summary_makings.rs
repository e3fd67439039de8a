//! Makings of summaries: what receives one, how long it serves, what it costs next to answers that
//! are bought, and that no making shows a value of a real row.

use pgveil::engine::{Service, SummaryQuestion};
use pgveil::parse::{Query, Statement, parse};
use pgveil::policy::Reuse;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tokio_util::sync::CancellationToken;

use super::outer_query::rich;
use super::summaries::{declared, make, session, spent, with_reuse};
use crate::fixture::{Stream, Veil, rows_of};

const BY_RACE: &str = "SELECT race, count(*) FROM nls.women GROUP BY race";

fn noise(seed: u64) -> Stream {
    Stream(ChaCha20Rng::seed_from_u64(seed))
}

fn query(sql: &str) -> Query {
    let statements = parse(sql).unwrap();
    match statements.as_slice() {
        [Statement::Query(query)] => query.clone(),
        [Statement::Explain(query, _)] => query.clone(),
        _ => panic!("one query is wanted: {sql}"),
    }
}

/// Parse and Describe, EXPLAIN, views and previews show what a summary would answer, and receive
/// none. The question itself does.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_a_question_receives_a_summary() {
    let with_previews = |yaml| format!("{}previews: synthetic\n", declared(rich(yaml)));
    let veil = Veil::demo(with_previews, None).await;
    make(&veil, &veil.engine, &mut noise(1)).await.unwrap();
    let role = session("colleague");
    // The process has its values in memory from here on, for a role that holds it.
    veil.rows_as(&session("analyst"), BY_RACE).await.unwrap();
    let held = "SELECT held, made FROM pgveil.summaries";
    let explained = format!("EXPLAIN {BY_RACE}");
    let statements = parse(&explained).unwrap();
    let [Statement::Explain(_, format)] = statements.as_slice() else {
        panic!("one EXPLAIN is wanted");
    };
    for _ in 0..2 {
        let described = veil.engine.describe(&role, &query(BY_RACE), &[]).await;
        assert_eq!(described.unwrap().columns.len(), 2);
        let bound = "SELECT count(*) FROM nls.women WHERE race = $1";
        let described = veil.engine.describe(&role, &query(bound), &[]).await;
        assert_eq!(described.unwrap().parameters.len(), 1);
        let by_race = query(BY_RACE);
        let cancel = CancellationToken::new();
        let lines = veil
            .engine
            .explain(&role, &by_race, &[], &[], *format, cancel);
        let lines = lines.await.unwrap().join("\n");
        assert!(lines.contains("Summary: women answers it"), "{lines}");
        let preview = veil.ask_as(&role, "SELECT * FROM nls.women LIMIT 9").await;
        assert!(preview.unwrap().rows.is_empty());
        let buys_nothing = with_reuse("colleague", Reuse::Summary);
        let refused = veil.rows_as(&buys_nothing, BY_RACE).await;
        assert_eq!(refused.unwrap_err().report().reason.id(), "not-held");
        assert_eq!(veil.rows_as(&role, held).await.unwrap(), ["f|t"]);
        assert_eq!(spent(&veil.engine, "colleague").await, 0.0);
    }
    veil.rows_as(&role, BY_RACE).await.unwrap();
    assert_eq!(veil.rows_as(&role, held).await.unwrap(), ["t|t"]);
    assert!(spent(&veil.engine, "colleague").await > 0.0);
}

/// A summary belongs to one version of the data. Under another one it was not made, and answers
/// nothing, for a role that holds it too; under its own it goes on answering.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_of_one_version_of_the_data() {
    let veil = Veil::demo(|yaml| declared(rich(yaml)), None).await;
    make(&veil, &veil.engine, &mut noise(2)).await.unwrap();
    let role = session("analyst");
    let first = veil.rows_as(&role, BY_RACE).await.unwrap();
    let later = |yaml: String| {
        let edited = yaml.replace("data_version: \"1988\"", "data_version: \"1989\"");
        assert_ne!(edited, yaml);
        edited
    };
    let other = veil.proxy_with(&veil.ledger, later).await;
    let held = "SELECT held, made FROM pgveil.summaries";
    assert_eq!(rows_of(&other, &role, held).await.unwrap(), ["f|f"]);
    let refused = rows_of(&other, &with_reuse("analyst", Reuse::Summary), BY_RACE).await;
    assert_eq!(refused.unwrap_err().report().reason.id(), "not-held");
    let before = spent(&other, "analyst").await;
    let bought = rows_of(&other, &role, BY_RACE).await.unwrap();
    assert_ne!(bought, first);
    assert!(spent(&other, "analyst").await > before, "it is bought");
    // Made again, it is another one, with its own price.
    let before = spent(&other, "analyst").await;
    make(&veil, &other, &mut noise(3)).await.unwrap();
    assert!(spent(&other, "analyst").await > before);
    assert_eq!(rows_of(&other, &role, held).await.unwrap(), ["t|t"]);
    let before = spent(&veil.engine, "analyst").await;
    assert_eq!(veil.rows_as(&role, BY_RACE).await.unwrap(), first);
    assert_eq!(spent(&veil.engine, "analyst").await, before);
}

/// All pairs of four columns, and the sets within them. For the price of the summary a role can buy
/// seven counts that are as exact as its least exact set, and no eighth one.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_costs_seven_answers_like_its_own() {
    let of_four = |yaml: String| {
        let yaml = declared(rich(yaml)).replace("    measures: [years_of_school]\n", "");
        yaml.replace(
            "keys: [race, birth_year, college_graduate]",
            "keys: [race, birth_year, years_of_school, college_graduate]",
        )
    };
    let veil = Veil::demo(of_four, None).await;
    make(&veil, &veil.engine, &mut noise(4)).await.unwrap();
    let price = spent(&veil.engine, "analyst").await;
    let summary = &veil.engine.policy().summaries[0];
    let question = SummaryQuestion::new(veil.engine.policy(), summary).unwrap();
    // Three races, 14 years, 20 numbers of years with NULL, two values.
    let of_sets = [
        3 * 14,
        3 * 20,
        3 * 2,
        14 * 20,
        14 * 2,
        20 * 2,
        3,
        14,
        20,
        2,
        1,
    ];
    assert_eq!(question.groups(), of_sets.iter().sum::<u64>());
    let error = question.errors().into_iter().fold(0.0, f64::max);
    assert!((7.0..8.0).contains(&(error * error * price)), "{error}");
    let mut exact = with_reuse("colleague", Reuse::Exact);
    let wanted = format!("{error:.3}");
    let settings = &mut exact.session_settings;
    settings.set("pgveil.target_error", &wanted).unwrap();
    let mut paid = Vec::new();
    for year in 1942..1950 {
        let sql = format!("SELECT count(*) FROM nls.women WHERE birth_year < {year}");
        veil.rows_as(&exact, &sql).await.unwrap();
        paid.push(spent(&veil.engine, "colleague").await);
    }
    assert!(paid[6] < price && paid[7] > price, "{paid:?} {price}");
}

/// One row that breaks every promise of the policy among rows that keep them.
const CLINIC: &str = "CREATE SCHEMA \"Clinic East\";
    CREATE TYPE \"Clinic East\".ward AS ENUM ('north', 'south');
    CREATE TABLE \"Clinic East\".\"Visits\" (patient int NOT NULL, \"Ward\" \"Clinic East\".ward,
        kind char(3) NOT NULL, seen date, \"Minutes\" numeric(8, 2), \"Score\" int, note text,
        hidden text);
    INSERT INTO \"Clinic East\".\"Visits\" SELECT g % 500,
        (ARRAY['north', 'south', NULL])[1 + g % 3]::\"Clinic East\".ward,
        (ARRAY['a', 'b'])[1 + g % 2], date '2001-02-03' + g % 100, g % 60, g % 7, 'note', 'h'
        FROM generate_series(1, 3000) g;
    INSERT INTO \"Clinic East\".\"Visits\" VALUES (987654321, 'north', 'zzz', '1987-06-05',
        -8765.43, 765432, 'canary', 'canary');";

const POLICY: &str = "version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${PGVEIL_LEDGER}\"}
privacy:
  unit: patient
  budget: {epsilon: 1000000, delta: 1e-3}
  per_query: {epsilon: 0.5, max_epsilon: 20}
previews: synthetic
roles:
  - {name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 900000, delta: 1e-4}}
tables:
  Clinic East.Visits:
    unit: patient
    rows_per_unit: 6
    columns:
      Ward: {values: [north, south], complete: true}
      kind: {values: [a, b], complete: true}
      seen: {bounds: [2001-01-01, 2001-12-31]}
      Minutes: {bounds: [0, 60]}
      Score: {bounds: [0, 10]}
      note: visible
summaries:
  visits:
    of: Clinic East.Visits
    keys: {Ward: values, kind: values, Minutes: {bins: [0, 20, 40, 60]}}
    measures: [Score]
    marginals: all 2
    epsilon: 2
";

/// A hundred makings of a summary, each with its own noise: no preview has a value that stands in a
/// row alone. Rows are made up of lists, bounds and noisy numbers, so that no run can fail by
/// chance.
#[tokio::test(flavor = "multi_thread")]
async fn no_making_shows_a_value_of_a_row() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(CLINIC).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let analyst = session("analyst");
    let all = "SELECT * FROM \"Clinic East\".\"Visits\"";
    let mut shown = Vec::new();
    for seed in 0..100 {
        make(&veil, &veil.engine, &mut noise(seed)).await.unwrap();
        let answer = veil.ask_as(&analyst, all).await.unwrap();
        assert_eq!(answer.rows.len(), 1_000, "{:?}", answer.notices);
        let names: Vec<&str> = answer.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), 7, "{names:?}");
        let rows = format!("{:?}", answer.rows);
        for canary in [
            "987654321",
            "zzz",
            "1987",
            "8765",
            "765432",
            "canary",
            "note",
        ] {
            assert!(!rows.contains(canary), "making {seed} shows {canary}");
        }
        shown.push(rows);
    }
    // The rows are those of the making, whoever makes them up.
    let last = veil.rows_as(&analyst, all).await.unwrap();
    let other = veil.proxy(&veil.ledger).await;
    assert_eq!(rows_of(&other, &analyst, all).await.unwrap(), last);
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), 100, "each making has its own rows");
}
