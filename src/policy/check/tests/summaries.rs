//! Summaries: every fault is reported where it stands.

use super::*;
use crate::policy::{ColumnPosition, KeySet, Scalar, SummaryKey};

/// People with an age, a city, a wage and a flag; `summary` is that of a map below `summaries:`.
async fn checked(summary: &str) -> Result<Checked, Vec<String>> {
    checked_in(summary, |text| text).await
}

async fn checked_in(
    summary: &str,
    edit: impl Fn(String) -> String,
) -> Result<Checked, Vec<String>> {
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
    let file = File::parse("p.yaml", &edit(text), |_| None).map_err(shown)?;
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
    let name = |at: &ColumnPosition| table.columns[at.0].name.clone();
    let measures: Vec<String> = summary.measures.iter().map(name).collect();
    assert_eq!(
        summary.key_names(&checked.policy),
        ["city", "age", "member"]
    );
    assert_eq!(measures, ["wage"]);
    let set = |keys: &[usize]| KeySet::new(keys.iter().copied().map(SummaryKey).collect());
    assert_eq!(summary.marginals, [set(&[0, 1]), set(&[2])]);
    assert_eq!(summary.roles, ["a"]);
}

/// Whole numbers, bins and lists that ascend have ranges; lists in another order do not.
#[tokio::test]
async fn ranges_follow_the_order_of_values() {
    let summary = "all: {of: s.people, keys: {city: values, age: ranges, wage: {bins: [0, 3, 9], \
        ranges: true}}, marginals: all 1, epsilon: 0.5}";
    let found = checked(summary).await.unwrap().policy;
    let ranges: Vec<bool> = found.summaries[0]
        .keys
        .iter()
        .map(|key| key.has_ranges)
        .collect();
    assert_eq!(ranges, [false, true, true]);
    let listed = |list: &'static str| {
        move |text: String| {
            let to = format!("age: {{values: {list}, complete: true}}");
            text.replace("age: {bounds: [0, 99]}", &to)
        }
    };
    let summary = "w: {of: s.people, keys: {age: ranges}, marginals: all 1, epsilon: 0.5}";
    assert!(checked_in(summary, listed("[3, 7, 20]")).await.is_ok());
    let fault = checked_in(summary, listed("[3, 20, 7]")).await.unwrap_err();
    let wanted = "9:33: key \"age\" of summary \"w\" has no ranges, since its listed values do not";
    assert!(fault[0].contains(wanted), "{fault:?}");
    let pure = |text: String| {
        let text = text.replace(", delta: 1e-6", "");
        text.replace("per_query:", "accounting: pure, per_query:")
    };
    let fault = checked_in(summary, pure).await.unwrap_err();
    let wanted = "key \"age\" of summary \"w\" has no ranges under pure accounting";
    assert!(
        fault.iter().any(|fault| fault.contains(wanted)),
        "{fault:?}"
    );
}

/// What is written in place of what, and the error that follows.
const FAULTS: [((&str, &str), &str); 38] = [
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
        ("city, age]", "city, people.city]"),
        "9:34: key \"people.city\" of summary \"w\" is the column of another key",
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
        (
            "[city, age], marginals: all 1",
            "{city: values, age: ranges}, marginals: auto",
        ),
        "9:47: key \"age\" of summary \"w\" has no ranges with `marginals: auto`, since",
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
        ("[city, age]", "{city: ranges, age: ranges}"),
        "9:34: key \"city\" of summary \"w\" has no ranges, since its values are no whole numbers",
    ),
    (
        ("[city, age]", "{age: ranges, member: ranges}"),
        "9:49: key \"member\" of summary \"w\" has no ranges, since",
    ),
    (
        (
            "[city, age]",
            "{city: values, age: {bins: [0, 50, 99], ranges: yes}}",
        ),
        "9:75: ranges of key \"age\" must be true or false, not \"yes\"",
    ),
    (
        ("[city, age]", "{city: values, age: {ranges: true}}"),
        "9:47: key \"age\" has no \"bins\"",
    ),
    (
        ("[city, age]", "{city: values, age: bins}"),
        "9:47: key \"age\" must be `values`, `ranges` or `{bins: [lowest, edge, highest]}`",
    ),
    (
        ("[city, age]", "{city: values, age: {edges: [0, 9]}}"),
        "9:47: key \"age\" has no \"bins\"",
    ),
    (
        ("[city, age]", "{city: {bins: [a, b, c]}, age: values}"),
        "9:41: key \"city\" of summary \"w\" is no number, date or timestamp",
    ),
    (
        ("[city, age]", "{city: values, age: {bins: [0, 99]}}"),
        "9:54: bins of key \"age\" of summary \"w\" must be 2 to 1000",
    ),
    (
        (
            "[city, age]",
            "{city: values, age: {bins: [0, 20, 20, 99]}}",
        ),
        "9:62: bins of key \"age\" of summary \"w\" must ascend; \"20\" does not",
    ),
    (
        ("[city, age]", "{city: values, age: {bins: [0, 20.5, 99]}}"),
        "9:58: an edge of column \"age\" (integer) must be",
    ),
    (
        ("[city, age]", "{city: values, age: {bins: [1, 20, 99]}}"),
        "9:54: bins of key \"age\" of summary \"w\" must begin and end at the bounds",
    ),
    (
        ("[city, age]", "{city: values, id: {bins: [0, 20, 99]}}"),
        "9:53: key \"id\" of summary \"w\" has no bounds",
    ),
    (
        ("[city, age]", "[city, codes.kind]"),
        "9:34: \"codes.kind\" is no column of s.people, or of a table on its path to the unit",
    ),
    (
        ("[city, age]", "{city: values, city: values}"),
        "9:42: key \"city\" is given twice",
    ),
    (
        ("[city, age]", "[city, rows(s.codes)]"),
        "9:34: key \"rows(s.codes)\" of summary \"w\" ",
    ),
    (
        ("[city, age]", "{city: values, age: {max: 3}}"),
        "9:53: key \"age\" of summary \"w\" has a max, but is no number of rows",
    ),
    (
        ("[city, age]", "{city: values, rows(s.codes): {max: 0}}"),
        "9:63: max of key \"rows(s.codes)\" must be a whole number from 1 to 1000",
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

#[tokio::test]
async fn bins_count_as_groups() {
    let summary = "w: {of: s.people, keys: {age: {bins: [0, 18, 65, 99]}, wage: {bins: [0, 0.5, \
        9]}, city: values}, marginals: all 3, epsilon: 0.5}";
    let checked = checked(summary).await.unwrap();
    let keys = &checked.policy.summaries[0].keys;
    let bins: Vec<Option<usize>> = keys.iter().map(|key| key.bins()).collect();
    assert_eq!(bins, [Some(3), Some(2), None]);
    let edge = |text: &str| Scalar::Decimal(text.to_owned());
    assert_eq!(keys[1].bin(0), Some((&edge("0"), &edge("0.5"), false)));
    assert_eq!(keys[1].bin(1), Some((&edge("0.5"), &edge("9"), true)));
    assert_eq!(keys[1].bin(2), None);
}
