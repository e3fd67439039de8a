//! Periods of a table: every fault is reported where it stands.

use std::time::Duration;

use super::*;
use crate::calendar::iso;
use crate::calendar::period::PeriodLength;
use crate::policy::{ColumnPosition, Periods};

/// Visits with a moment, a day and a kind; `periods` is the map below `periods:`.
async fn checked(periods: &str) -> Result<Checked, Vec<String>> {
    let mut catalog = catalog();
    catalog.tables[1].columns.extend([
        column("seen", Type::Timestamptz),
        column("day", Type::Date),
        column("kind", Type::Text),
        column("hidden", Type::Timestamp),
    ]);
    let text = format!(
        "version: 1
privacy: {{unit: p, budget: {{epsilon: 1, delta: 1e-6}}, per_query: {{epsilon: 0.5}}}}
roles: [{{name: a, \
password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {{epsilon: 1, delta: 1e-6}}}}]
tables:
  s.codes: public
  s.people:
    unit: id
    periods: {periods}
    columns: {{seen: visible, day: visible, kind: visible}}"
    );
    let shown = |errors: Vec<crate::policy::PolicyError>| -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    };
    let file = File::parse("p.yaml", &text, |_| None).map_err(shown)?;
    let rows = Rows(Ok(Vec::new()));
    check(&file, &catalog, &rows).await.map_err(shown)
}

const GOOD: &str = "{column: seen, by: week, from: 2026-01-05, close_after: 36h}";

#[tokio::test]
async fn periods_have_the_place_of_their_column() {
    let checked = checked(GOOD).await.unwrap();
    let mut tables = checked.policy.tables.iter();
    let table = tables.find(|table| table.name == "people").unwrap();
    let at = table.columns.iter().position(|c| c.name == "seen").unwrap();
    let from = iso::timestamp("2026-01-05", iso::Zone::Refused).unwrap();
    assert_eq!(
        table.periods,
        Some(Periods {
            column: ColumnPosition(at),
            length: PeriodLength::Week,
            from: PeriodLength::Week.period_of(from),
            close_after: Duration::from_secs(36 * 3_600),
            prepaid: None,
        })
    );
}

/// What is written in place of what, and the error that follows.
const FAULTS: [((&str, &str), &str); 25] = [
    (
        ("column: seen, ", ""),
        "8:14: periods of table s.people has no \"column\"; write `column: visited_at`",
    ),
    (
        ("by: week, ", ""),
        "8:14: periods of table s.people has no \"by\"; write `by: day`",
    ),
    (
        (", close_after: 36h", ""),
        "8:14: periods of table s.people has no \"close_after\"",
    ),
    (
        ("seen", "shoe"),
        "8:23: column \"shoe\" does not exist in s.people",
    ),
    (
        ("seen", "hidden"),
        "8:23: column \"hidden\" of the periods of s.people is hidden",
    ),
    (
        ("seen", "kind"),
        "8:23: column \"kind\" of the periods of s.people must be a date or a timestamp, not text",
    ),
    (
        ("seen", "s.people.seen"),
        "8:23: column of periods of table s.people must be a column of the table itself",
    ),
    (
        ("week", "fortnight"),
        "8:33: by of periods of table s.people must be hour, day, week or month, not \"fortnight\"",
    ),
    (
        ("seen, by: week", "day, by: hour"),
        "8:32: column \"day\" is a date, which has no hours; write `by: day`",
    ),
    (
        ("2026-01-05", "2026-01-06"),
        "8:45: from of periods of table s.people must be the beginning of a week: 2026-01-05, or",
    ),
    (
        ("2026-01-05", "yesterday"),
        "8:45: from of periods of table s.people must be a date such as 2026-01-01, in UTC, not",
    ),
    (
        ("36h", "soon"),
        "8:70: close_after of periods of table s.people must be a time such as 90min, 36h or 2d",
    ),
    (("36h", "367d"), "8:70: close_after of periods of table"),
    (("36h", "-2d"), "8:70: close_after of periods of table"),
    (
        ("36h", "36h, arrived: seen"),
        "8:75: \"arrived\" is not offered yet; each period has its own answer",
    ),
    (
        ("36h", "36h, answers: totals"),
        "8:84: answers of periods of table s.people goes with per_unit, the most periods",
    ),
    (
        (
            "36h",
            "36h, answers: sums, per_unit: 3, horizon: 9, append_only: true",
        ),
        "8:84: answers of periods of table s.people must be periods or totals, not \"sums\"",
    ),
    (
        (
            "36h",
            "36h, answers: totals, per_unit: 3, horizon: 1001, append_only: true",
        ),
        "8:84: answers of periods of table s.people: a horizon with running totals has at most \
            1000 periods, not 1001",
    ),
    (
        ("36h", "36h, per_unit: 3, append_only: true"),
        "8:85: per_unit of periods of table s.people needs a horizon, the number of periods",
    ),
    (
        ("36h", "36h, per_unit: 3, horizon: 52"),
        "8:85: per_unit of periods of table s.people needs `append_only: true`: you promise that",
    ),
    (
        ("36h", "36h, per_unit: 3, horizon: 52, append_only: false"),
        "8:114: per_unit of periods of table s.people needs `append_only: true`: you promise that",
    ),
    (
        ("36h", "36h, horizon: 52"),
        "8:84: horizon of periods of table s.people goes with per_unit, the most periods of a unit",
    ),
    (
        ("36h", "36h, append_only: true"),
        "8:88: append_only of periods of table s.people goes with per_unit",
    ),
    (
        ("36h", "36h, per_unit: 0, horizon: 52, append_only: true"),
        "8:85: per_unit of periods of table s.people must be a whole number from 1 to 9000",
    ),
    (
        ("36h", "36h, length: 3"),
        "8:75: periods of table s.people has no key \"length\"; its keys are column, by, from,",
    ),
];

#[tokio::test]
async fn faults_are_reported_where_they_stand() {
    for ((from, to), wanted) in FAULTS {
        let text = GOOD.replacen(from, to, 1);
        let found = checked(&text).await.unwrap_err();
        assert_eq!(found.len(), 1, "{text}\n{found:#?}");
        assert!(
            found[0].starts_with(&format!("p.yaml:{wanted}")),
            "{text}\nfound  {}\nwanted p.yaml:{wanted}",
            found[0]
        );
    }
}

/// Declaring periods changes no other answer; data of another version have the same periods.
#[tokio::test]
async fn the_versions_of_a_policy_leave_them_out() {
    use crate::policy::{digest, undated_digest};
    let with = checked(GOOD).await.unwrap().policy;
    let mut without = with.clone();
    without
        .tables
        .iter_mut()
        .for_each(|table| table.periods = None);
    assert_eq!(digest(&with), digest(&without));
    let mut newer = with.clone();
    newer.privacy.data_version = "another".to_owned();
    assert_ne!(digest(&with), digest(&newer));
    assert_eq!(undated_digest(&with), undated_digest(&newer));
    newer.limits.rows_per_unit += 1;
    assert_ne!(undated_digest(&with), undated_digest(&newer));
}

/// Lines of visits of people, whose moments have prepaid periods.
async fn prepaid(path: &str, visits: &str, lines_lie: catalog::Distribution) -> Vec<String> {
    let mut catalog = catalog();
    let of = |oid, name, other| {
        let columns = vec![column("number", Type::Int8), column(other, Type::Int8)];
        table(oid, name, columns)
    };
    let mut lines = of(4, "lines", "of");
    lines.columns.push(column("seen", Type::Date));
    lines.distribution = lines_lie;
    catalog.tables.extend([of(3, "visits", "uid"), lines]);
    let text = format!(
        "version: 1
privacy: {{unit: p, budget: {{epsilon: 1, delta: 1e-6}}}}
roles: [{{name: a, \
password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {{epsilon: 1, delta: 1e-6}}}}]
tables:
  s.people: {{unit: id}}
  s.visits: {{unit: {{path: [uid -> s.people.id], trusted_path: true}}, rows_per_unit: 2{visits}}}
  s.lines:
    unit: {{path: [{path}], trusted_path: true}}
    rows_per_unit: 2
    periods:
      {{column: seen, by: day, from: 2026-01-01, close_after: 2d, per_unit: 3, horizon: 90,
      append_only: true}}
    columns: {{seen: visible}}"
    );
    let file = File::parse("p.yaml", &text, |_| None).unwrap();
    errors(&file, &catalog, Rows(Ok(Vec::new()))).await
}

/// Every table that is read to find whose a row is has to keep its rows. One whose unit the foreign
/// key holds is not read.
#[tokio::test]
async fn tables_on_the_path_of_prepaid_periods_are_append_only() {
    let local = || catalog::Distribution::Local;
    let (short, long) = (
        "of -> s.people.id",
        "of -> s.visits.number, uid -> s.people.id",
    );
    assert_eq!(prepaid(short, "", local()).await, [""; 0]);
    assert_eq!(prepaid(long, ", append_only: true", local()).await, [""; 0]);
    for visits in ["", ", append_only: false"] {
        let found = prepaid(long, visits, local()).await;
        assert!(
            matches!(
                found.as_slice(),
                [one] if one.starts_with("p.yaml:11:76: per_unit of the periods of s.lines needs \
                    `append_only: true` of s.visits too")
            ),
            "{found:?}"
        );
    }
    let found = prepaid(short, "", catalog::Distribution::Single).await;
    assert!(
        found
            .iter()
            .any(|one| one.contains("is not offered where s.lines is distributed")),
        "{found:?}"
    );
}
