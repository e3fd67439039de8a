//! Summaries: every fault is reported where it stands.

use super::*;
use crate::policy::{ColumnPosition, KeySet, SummaryKey};

/// People with an age, a city, a wage and a flag; `summary` is that of a map below `summaries:`.
async fn checked(summary: &str) -> Result<Checked, Vec<String>> {
    let mut catalog = catalog();
    catalog.tables[1].columns.extend([
        column("age", Type::Int4),
        column("city", Type::Text),
        column("land", Type::Text),
        column("wage", Type::Float8),
        column("member", Type::Bool),
    ]);
    let text = format!(
        "version: 1
privacy: {{unit: p, budget: {{epsilon: 1, delta: 1e-6}}, per_query: {{epsilon: 0.5}}}}
roles: [{{name: a, \
password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {{epsilon: 1, delta: 1e-6}}}}]
tables:
  s.codes: public
  s.people: {{unit: id, columns: {{age: {{bounds: [0, 99]}}, city: {{values: [x, y], complete: \
         true}}, land: {{values: [u, v]}}, wage: {{bounds: [0, 9]}}, member: visible}}}}
limits: {{groups: 399}}
summaries:
  {summary}"
    );
    let shown = |errors: Vec<crate::policy::PolicyError>| -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    };
    let file = File::parse("p.yaml", &text, |_| None).map_err(shown)?;
    let rows = Rows(Ok(Vec::new()));
    check(&file, &catalog, &rows).await.map_err(shown)
}

#[tokio::test]
async fn a_summary_has_the_places_of_its_columns() {
    let summary = "all: {of: s.people, keys: [city, age, member], measures: [wage], \
        marginals: [[age, city], [city], [member]], epsilon: 0.5}";
    let checked = checked(summary).await.unwrap();
    let [summary] = checked.policy.summaries.as_slice() else {
        panic!("one summary")
    };
    let table = &checked.policy.tables[summary.table];
    let names = |places: &[ColumnPosition]| -> Vec<String> {
        places
            .iter()
            .map(|at| table.columns[at.0].name.clone())
            .collect()
    };
    assert_eq!(names(&summary.keys), ["city", "age", "member"]);
    assert_eq!(names(&summary.measures), ["wage"]);
    let set = |keys: &[usize]| KeySet::new(keys.iter().copied().map(SummaryKey).collect());
    assert_eq!(summary.marginals, [set(&[0, 1]), set(&[2])]);
    assert_eq!(summary.roles, ["a"]);
}

/// What is written in place of what, and the error that follows.
const FAULTS: [((&str, &str), &str); 19] = [
    (
        ("s.people", "s.nobody"),
        "9:11: summary \"w\": the policy shows no table s.nobody",
    ),
    (
        ("s.people", "s.codes"),
        "9:11: summary \"w\": s.codes is public",
    ),
    (
        ("s.people", "people"),
        "9:11: of in summary \"w\" must be schema.table",
    ),
    (
        ("[city, age]", "[city, shoe]"),
        "9:34: column \"shoe\" does not exist in s.people",
    ),
    (
        ("[city, age]", "[city, price]"),
        "9:34: column \"price\" of s.people is hidden",
    ),
    (
        ("[city, age]", "[city, land]"),
        "9:34: key \"land\" of summary \"w\" may have values",
    ),
    (
        ("[city, age]", "[city, wage]"),
        "9:34: key \"wage\" of summary \"w\" has no known values",
    ),
    (
        ("[city, age]", "[city, city]"),
        "9:34: keys of summary \"w\" name \"city\" twice",
    ),
    (
        ("all 1", "all 3"),
        "9:51: summary \"w\" has 2 keys, so there are no sets of 3",
    ),
    (
        ("all 1", "every 2"),
        "9:51: marginals of summary \"w\" must be `all 2`",
    ),
    (
        ("all 1, epsilon: 0.5", "auto, error: 20"),
        "9:64: summary \"w\" must say `epsilon` in place of `error`",
    ),
    (
        ("[city, age], marginals: all 1", "[city], marginals: auto"),
        "9:46: summary \"w\" has one key, so there are no sets to select from",
    ),
    (
        ("all 1", "[[city]]"),
        "9:34: key \"age\" of summary \"w\" is in no marginal",
    ),
    (
        ("all 1", "[[city, wage]]"),
        "9:51: \"wage\" in marginals is no key of summary \"w\"",
    ),
    (
        ("0.5", "0.9"),
        "9:67: epsilon of summary \"w\" is above what one query may spend (0.5)",
    ),
    (
        ("0.5", "0.5, roles: [b]"),
        "9:80: \"b\" in roles of summary \"w\" is no role",
    ),
    (
        ("0.5", "0.5, measures: [city]"),
        "9:83: measure \"city\" of summary \"w\" has no bounds",
    ),
    (
        ("0.5", "0.5, error: 20"),
        "9:6: summary \"w\" must say either its price",
    ),
    (
        (", epsilon: 0.5", ""),
        "9:6: summary \"w\" must say either its price",
    ),
];

#[tokio::test]
async fn each_fault_of_a_summary_is_reported_at_its_place() {
    let whole = "of: s.people, keys: [city, age], marginals: all 1, epsilon: 0.5";
    for ((from, to), wanted) in FAULTS {
        let summary = format!("w: {{{}}}", whole.replace(from, to));
        let found = checked(&summary).await.err().unwrap_or_default();
        assert!(
            found
                .first()
                .is_some_and(|error| error.starts_with(&format!("p.yaml:{wanted}"))),
            "{summary}: {found:?}, not {wanted}"
        );
    }
    let wide = "w: {of: s.people, keys: [id, city], marginals: all 2, epsilon: 0.5}";
    assert!(checked(wide).await.is_err());
}

#[tokio::test]
async fn sets_are_selected_where_there_are_some() {
    let summary = "w: {of: s.people, keys: [city, member], marginals: auto, epsilon: 0.5}";
    let checked_one = checked(summary).await.unwrap();
    let [one] = checked_one.policy.summaries.as_slice() else {
        panic!("one summary")
    };
    assert!(one.is_auto && one.marginals.is_empty());
    // Both keys together have more groups than an answer may have.
    let wide = summary.replace("[city, member]", "[age, city]");
    let wide = wide.replace("[age, city]", "[age, id]");
    assert!(checked(&wide).await.is_err());
}

#[tokio::test]
async fn too_many_groups_are_refused() {
    let summary = "w: {of: s.people, keys: [age, city, member], marginals: all 3, epsilon: 0.5}";
    let found = checked(summary).await.err().unwrap_or_default();
    let wanted = "p.yaml:9:3: summary \"w\" has 400 groups, more than limits.groups (399); leave \
        out keys (\"age\" has the most values) or marginals";
    assert_eq!(found, [wanted]);
    let fewer = summary.replace("all 3", "[[age, city], [member]]");
    assert!(checked(&fewer).await.is_ok());
}
