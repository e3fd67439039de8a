//! Columns of filters (RAPPOR's reports): their bits are decoded to the values of a list.

use std::fmt::Write;

use pgveil::aggregates::{CohortCounts, decode};
use pgveil::engine::Requester;
use pgveil::mechanism::{Randomness, Rappor};
use pgveil::policy::{ClipChoice, SessionSettings};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use crate::fixture::{Stream, Veil, streams};

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
  Traffic.\"Page Views\":
    unit: Visitor
    rows_per_unit: 5
    columns:
      Day: {bounds: [1, 30]}
      Group: visible
      Page:
        values: LIST
        collected: {mechanism: rappor, bits: 32, hashes: 2, cohorts: 16, ODDS, cohort: Group}
limits: {groups: 10000, failures: 10, statement_timeout: 60s, connections: 4}
";

const SCHEMA: &str = "
CREATE SCHEMA \"Traffic\";
CREATE TABLE \"Traffic\".\"Page Views\" (\"Visitor\" int NOT NULL, \"Day\" int NOT NULL, \"Group\"
smallint, \"Page\" bit(32));
";

/// The pages that somebody has seen, with the number of views; of the last ones none is listed.
const VIEWS: [(&str, usize); 6] = [
    ("/", 6_000),
    ("/search?q=it's", 4_000),
    ("/Überblick", 3_000),
    ("/cart", 2_000),
    ("/help", 1_000),
    ("other", 4_000),
];
/// Listed pages that nobody has seen.
const UNSEEN: usize = 25;

fn listed() -> Vec<String> {
    let seen = VIEWS[..5].iter().map(|(page, _)| (*page).to_owned());
    seen.chain((0..UNSEEN).map(|number| format!("/unseen/{number}")))
        .collect()
}

fn rappor(f: f64, p: f64, q: f64) -> Rappor {
    Rappor {
        bits: 32,
        hashes: 2,
        cohorts: 16,
        f,
        p,
        q,
    }
}

/// The reports of all views, five a visitor, as rows.
fn reports(rappor: &Rappor) -> String {
    let mut random = Stream(ChaCha20Rng::seed_from_u64(20_261_129));
    let mut rows = String::from("INSERT INTO \"Traffic\".\"Page Views\" VALUES ");
    let mut number = 0;
    for (page, views) in VIEWS {
        for view in 0..views {
            let page = match page {
                "other" => format!("/other/{}", view % 40),
                page => page.to_owned(),
            };
            let cohort = (random.next_u64().unwrap() % u64::from(rappor.cohorts)) as u32;
            let kept = rappor
                .permanent((cohort, page.as_str()), |_| random.next_u64())
                .unwrap();
            let report = rappor.report(&kept, &mut random).unwrap();
            let bits: String = report
                .iter()
                .map(|bit| if *bit { '1' } else { '0' })
                .collect();
            let comma = if number == 0 { "" } else { ", " };
            // Visitors see several pages.
            let visitor = number * 7 % 4_000;
            let day = 1 + number % 30;
            write!(rows, "{comma}({visitor}, {day}, {cohort}, B'{bits}')").unwrap();
            number += 1;
        }
    }
    rows
}

fn policy(odds: &str) -> String {
    let quoted: Vec<String> = listed()
        .iter()
        .map(|page| format!("'{}'", page.replace('\'', "''")))
        .collect();
    let list = format!("[{}]", quoted.join(", "));
    POLICY.replace("ODDS", odds).replace("LIST", &list)
}

const ODDS: &str = "f: 1/4, p: 1/4, q: 3/4";

async fn traffic(rows: &str, odds: &str, sampler: Option<pgveil::engine::MakeSampler>) -> Veil {
    let sql = format!("{SCHEMA}{rows}");
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(&sql).await.unwrap();
    Veil::over(fill, &policy(odds), sampler).await
}

fn requester(epsilon: f64) -> Requester {
    Requester {
        session_settings: Veil::session_settings(epsilon),
        search_path: vec!["Traffic".to_owned(), "public".to_owned()],
        ..Veil::requester()
    }
}

/// The pages and counts that the exact bits of the table decode to.
async fn decoded_directly(veil: &Veil, rappor: Rappor, condition: &str) -> Vec<(String, f64)> {
    let bits: Vec<String> = (0..32)
        .map(|bit| format!("count(*) FILTER (WHERE get_bit(\"Page\", {bit}) = 1)"))
        .collect();
    let sql = format!(
        "SELECT \"Group\", count(*), {} FROM \"Traffic\".\"Page Views\" WHERE \"Page\" IS NOT NULL \
            AND \"Group\" BETWEEN 0 AND 15 AND {condition} GROUP BY 1",
        bits.join(", ")
    );
    let channel = rappor.channel();
    let cohort = |row: &String| {
        let numbers: Vec<f64> = row.split('|').map(|text| text.parse().unwrap()).collect();
        let cell = |set: &f64| (set - channel.miss() * numbers[1]) / channel.gain();
        CohortCounts {
            number: numbers[0] as u32,
            reports: numbers[1],
            cells: numbers[2..].iter().map(cell).collect(),
            noise: 0.0,
        }
    };
    let cohorts: Vec<CohortCounts> = veil.direct(&sql).await.iter().map(cohort).collect();
    let dictionary = veil.engine.policy().tables[0]
        .columns
        .iter()
        .find_map(|column| column.collected.as_ref()?.dictionary.clone())
        .unwrap();
    let page = |place: usize| dictionary.values[place].clone();
    let shown = decode(&dictionary, &cohorts).shown.into_iter();
    shown
        .map(|value| (page(value.place), value.count))
        .collect()
}

fn page_and_count(row: &str) -> (String, f64) {
    let (page, count) = row.split_once('|').unwrap();
    (page.to_owned(), count.parse().unwrap())
}

/// Without noise, an answer is what the exact counts of bits decode to. Reports that are missing,
/// and cohorts that do not exist, count nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn without_noise_the_exact_bits_are_decoded() {
    let rappor = rappor(0.25, 0.25, 0.75);
    let rows = reports(&rappor)
        + ", (1, 1, 3, NULL), (2, 1, NULL, B'11111111111111111111111111111111'), (3, 1, 16, \
            B'11111111111111111111111111111111'), (4, 2, -1, NULL)";
    let veil = traffic(&rows, ODDS, Veil::silent()).await;
    for (condition, written) in [("true", ""), ("\"Day\" <= 20", " WHERE \"Day\" <= 20")] {
        let sql =
            format!("SELECT \"Page\", count(*) FROM \"Page Views\"{written} GROUP BY \"Page\"");
        let found = veil.rows_as(&requester(5000.0), &sql).await.unwrap();
        let wanted = decoded_directly(&veil, rappor, condition).await;
        assert!(wanted.len() >= 4, "{wanted:?}");
        assert_eq!(found.len(), wanted.len(), "{found:?} {wanted:?}");
        for (row, (page, count)) in found.iter().zip(&wanted) {
            let (found, number) = page_and_count(row);
            assert_eq!(found, *page);
            assert!((number - count).abs() <= 1.0, "{row} {count}");
        }
    }
    // The rest of SQL is that of the outer query.
    let sql = "SELECT upper(p), n > 5000, e < 1000 FROM (SELECT \"Page\" AS p, count(\"Page\") \
        AS n, pgveil.stderr(count(*)) AS e FROM \"Page Views\" GROUP BY \"Page\" HAVING count(*) > \
        1500 ORDER BY count(*) DESC LIMIT 2) s WHERE p LIKE '/%'";
    let found = veil.rows_as(&requester(5000.0), sql).await.unwrap();
    assert_eq!(found, ["/|t|t", "/SEARCH?Q=IT'S|f|t"]);
    for sql in [
        "SELECT \"Page\", count(*) FROM \"Page Views\" WHERE false GROUP BY \"Page\"",
        "SELECT n FROM (SELECT \"Page\", count(*) AS n FROM \"Page Views\" WHERE \"Day\" > 40 \
            GROUP BY \"Page\") s",
    ] {
        let found = veil.rows_as(&requester(5000.0), sql).await.unwrap();
        assert!(found.is_empty(), "{sql} {found:?}");
    }
}

/// With noise, under clips of each kind: frequent pages are found, and their intervals hold. Asked
/// again, the answer is the same and free.
#[tokio::test(flavor = "multi_thread")]
async fn frequent_values_are_found_under_noise() {
    let veil = traffic(&reports(&rappor(0.25, 0.25, 0.75)), ODDS, Some(streams())).await;
    let sql = "SELECT \"Page\", count(*), pgveil.ci_low(count(*)), pgveil.ci_high(count(*)), \
        pgveil.stderr(count(*)), pgveil.stderr(count(*) / 1000.0) FROM \"Page Views\" GROUP BY \
        \"Page\" ORDER BY 2 DESC";
    for (epsilon, clip, least) in [
        (1.0, ClipChoice::Fixed, 2),
        (20.0, ClipChoice::Auto, 4),
        (5000.0, ClipChoice::Fixed, 5),
    ] {
        let requester = Requester {
            session_settings: SessionSettings {
                clip,
                ..Veil::session_settings(epsilon)
            },
            ..requester(epsilon)
        };
        let spent = veil.spent().await;
        let found = veil.rows_as(&requester, sql).await.unwrap();
        let paid = veil.spent().await;
        assert!(paid > spent);
        assert!(found.len() >= least, "{epsilon}: {found:?}");
        for row in &found {
            let fields: Vec<&str> = row.split('|').collect();
            let numbers: Vec<f64> = fields[1..]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
            let (_, views) = VIEWS[..5]
                .iter()
                .find(|(page, _)| *page == fields[0])
                .unwrap_or_else(|| panic!("{epsilon}: nobody has seen {row}"));
            let views = *views as f64;
            // One interval in twenty misses: these are of fixed seeds.
            let error = numbers[3];
            assert!(
                (numbers[0] - views).abs() <= 3.5 * error,
                "{epsilon}: {row}"
            );
            assert!(numbers[1] < numbers[0] && numbers[0] < numbers[2], "{row}");
            assert!((numbers[4] * 1000.0 / error - 1.0).abs() < 0.01, "{row}");
        }
        assert_eq!(veil.rows_as(&requester, sql).await.unwrap(), found);
        assert_eq!(veil.spent().await, paid);
    }
    let answer = veil.ask_as(&requester(5000.0), sql).await.unwrap();
    let decoded = answer
        .notices
        .iter()
        .find(|line| line.contains("decoded from reports"));
    let decoded = decoded.unwrap_or_else(|| panic!("{:?}", answer.notices));
    assert!(
        decoded.contains("5 of 30 listed values")
            && decoded.contains("the other 25 are absent")
            && decoded.contains("what up to 5 reports of one unit share"),
        "{decoded}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_shows_both_epsilons() {
    let veil = traffic("", ODDS, Veil::silent()).await;
    let sql = "SELECT column_name, data_type, may_be_summed, group_by, local FROM pgveil.columns \
        WHERE column_name IN ('Page', 'Group') ORDER BY ordinal_position";
    // 2 · 2 ln 7, and 2 ln (0.6875 · 0.6875 / 0.3125²).
    assert_eq!(
        veil.rows_as(&Veil::requester(), sql).await.unwrap(),
        [
            "Group|smallint|t|listed|∅",
            "Page|text|f|listed|rappor, epsilon 7.78 of all reports of a value, 3.15 of one",
        ]
    );
    let sql = "EXPLAIN SELECT \"Page\", count(*) FROM \"Traffic\".\"Page Views\" GROUP BY \"Page\"";
    let plan = veil.explained(Veil::session_settings(1.0), sql).await;
    let estimate = "least squares, over 30 listed values and all cohorts";
    assert!(plan.iter().any(|line| line.contains(estimate)), "{plan:#?}");
    // One line for the bits.
    assert!(
        plan.iter().any(|line| line.contains("v1 to v32: flags of")),
        "{plan:#?}"
    );
}
