//! Holdouts of tables: every fault is reported where it stands, and what noise alone would show.

use super::*;
use crate::policy::{Holdout, digest};

/// A table of one row a person; `of_table` is what it says in addition to its unit.
async fn checked(of_table: &str, limits: &str) -> Result<Checked, Vec<String>> {
    let text = format!(
        "version: 1
privacy: {{unit: p, budget: {{epsilon: 1, delta: 1e-6}}, per_query: {{epsilon: 0.5}}}}
roles: [{{name: a, \
password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {{epsilon: 1, delta: 1e-6}}}}]
limits: {limits}
tables:
  s.codes: public
  s.people:
    unit: price
    {of_table}
    columns: {{price: visible}}"
    );
    let shown = |errors: Vec<crate::policy::PolicyError>| -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    };
    let mut catalog = catalog();
    let at = catalog.tables.iter().position(|t| t.name == "people");
    let people = &mut catalog.tables[at.unwrap()];
    people.columns[1].data_type = Type::Int8;
    let file = File::parse("p.yaml", &text, |_| None).map_err(shown)?;
    let rows = Rows(Ok(Vec::new()));
    check(&file, &catalog, &rows).await.map_err(shown)
}

const LIMITS: &str = "{monitor_questions: 1000}";

fn of_table(holdout: &str, rows: &str) -> String {
    format!("holdout: {holdout}\n    rows_per_unit: {rows}")
}

const GOOD: &str = "{rows: 50000, tolerance: 0.04, scale: 0.0013, overflows: 30}";

#[tokio::test]
async fn a_holdout_is_what_the_file_says() {
    let checked = checked(&of_table(GOOD, "2"), LIMITS).await.unwrap();
    let mut tables = checked.policy.tables.iter();
    let table = tables.find(|table| table.name == "people").unwrap();
    let wanted = Holdout {
        rows: 50_000,
        tolerance: 0.04,
        scale: 0.0013,
        overflows: 30,
    };
    assert_eq!(table.holdout, Some(wanted));
    let of_holdout = |warning: &&PolicyError| warning.message.contains("holdout");
    assert_eq!(checked.warnings.iter().filter(of_holdout).count(), 0);
    // It changes no other answer.
    let mut without = checked.policy.clone();
    without
        .tables
        .iter_mut()
        .for_each(|table| table.holdout = None);
    assert_eq!(digest(&checked.policy), digest(&without));
}

#[tokio::test]
async fn noise_that_shows_means_by_itself_is_warned_of() {
    // At 1,853 rows of noise in a hundred questions: 2,000 rows are enough, and 1,800 are not.
    for (tolerance, is_warned) in [("0.04", false), ("0.036", true)] {
        let holdout = GOOD.replace("0.04", tolerance);
        let checked = checked(&of_table(&holdout, "1"), LIMITS).await.unwrap();
        let wanted = "p.yaml:9:14: the holdout s.people: of 100 questions whose means agree \
            exactly, more than 5 % will show one that does not, by noise alone; tolerance 0.0371 \
            would be enough, or a smaller scale, which costs more";
        let warned: Vec<String> = checked.warnings.iter().map(ToString::to_string).collect();
        let is_there = warned.iter().any(|warning| warning == wanted);
        assert_eq!(is_there, is_warned, "{warned:#?}");
    }
}

/// What is written in place of what, the rows of a unit, the limits, and the error that follows.
type Fault = (
    (&'static str, &'static str),
    &'static str,
    &'static str,
    &'static str,
);

const FAULTS: [Fault; 11] = [
    (
        ("rows: 50000, ", ""),
        "1",
        LIMITS,
        "9:14: holdout of table s.people has no \"rows\"; write `rows: 50000`",
    ),
    (
        ("tolerance: 0.04, ", ""),
        "1",
        LIMITS,
        "9:14: holdout of table s.people has no \"tolerance\"; write `tolerance: 0.04`",
    ),
    (
        ("0.04", "1.5"),
        "1",
        LIMITS,
        "9:39: tolerance of holdout of table s.people must be a number above 0 and at most 1,",
    ),
    (
        ("0.0013", "0"),
        "1",
        LIMITS,
        "9:52: scale of holdout of table s.people must be a number above 0 and at most 1,",
    ),
    (
        ("30", "0"),
        "1",
        LIMITS,
        "9:71: overflows of holdout of table s.people must be a whole number from 1 to 1000000",
    ),
    (
        ("50000", "many"),
        "1",
        LIMITS,
        "9:21: rows of holdout of table s.people must be a whole number from 1 to 1000000000",
    ),
    (
        ("overflows: 30", "overflows: 30, version: 2"),
        "1",
        LIMITS,
        "9:75: holdout of table s.people has no key \"version\"; its keys are rows, tolerance,",
    ),
    (
        ("", ""),
        "auto",
        LIMITS,
        "9:14: the holdout s.people needs a number as its rows_per_unit, which its price is of",
    ),
    (
        ("", ""),
        "1",
        "{}",
        "9:14: the holdout s.people needs limits.monitor_questions, the most questions that",
    ),
    (
        ("", ""),
        "100",
        LIMITS,
        "9:14: the holdout s.people costs epsilon 3.08 each time that a role opens it: 2 \
                rows_per_unit / (scale rows), more than per_query.max_epsilon (0.5)",
    ),
    (
        ("0.0013", "0.9"),
        "1",
        LIMITS,
        "9:14: the holdout s.people costs epsilon 0.0000445 each time that a role opens it: 2 \
                rows_per_unit / (scale rows), less than per_query.min_epsilon (0.005)",
    ),
];

#[tokio::test]
async fn faults_are_reported_where_they_stand() {
    for ((from, to), rows, limits, wanted) in FAULTS {
        let holdout = GOOD.replacen(from, to, 1);
        let found = checked(&of_table(&holdout, rows), limits)
            .await
            .unwrap_err();
        assert_eq!(found.len(), 1, "{holdout}\n{found:#?}");
        assert!(
            found[0].starts_with(&format!("p.yaml:{wanted}")),
            "{holdout}\nfound  {}\nwanted p.yaml:{wanted}",
            found[0]
        );
    }
}
