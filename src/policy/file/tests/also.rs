//! Columns that share an entry.

use super::*;

/// Written once or for each: the same policy.
#[test]
fn columns_of_which_the_same_is_said_share_an_entry() {
    let columns = |text: &str| {
        let text = lines()
            .join("\n")
            .replace("{age: {bounds: [0, 120]}}", text);
        let file = parse(&text).unwrap();
        let Some(TableRule::Private { columns, .. }) = file.tables.first().map(|t| t.rule.clone())
        else {
            panic!("private")
        };
        (columns, file)
    };
    let (shared, short) = columns(
        "{q1: {values: [1, 2], complete: true, also: [q2, \"q 3\"]}, \
         a: {visible: true, also: [b]}, c: {visible: false, also: [d]}, \
          e: {bounds: auto, also: []}}",
    );
    let (each, long) = columns(
        "{q1: {values: [1, 2], complete: true}, q2: {values: [1, 2], complete: true}, \
         q 3: {values: [1, 2], complete: true}, a: visible, b: visible, c: hidden, d: hidden, \
         e: {bounds: auto}}",
    );
    let entries = |columns: &[ColumnEntry]| -> Vec<(String, bool)> {
        let one = |entry: &ColumnEntry| (entry.name.clone(), entry.complete.is_some());
        columns.iter().map(one).collect()
    };
    assert_eq!(entries(&shared), entries(&each));
    assert!(crate::policy::Difference::between(&long, &short).is_empty());
    // Each stands where it is written.
    assert_eq!(
        (shared[2].place.line, shared[1].place != shared[2].place),
        (6, true)
    );
    for (also, wanted) in [
        (
            "[age]",
            "6:65: column \"age\" of table s.people is given twice",
        ),
        (
            "[b, b]",
            "6:68: column \"b\" of table s.people is given twice",
        ),
        (
            "b",
            "6:64: also of column \"age\" must be a list such as [first, second], not",
        ),
        (
            "[[b]]",
            "6:65: also of column \"age\" must be a list of columns, not",
        ),
    ] {
        let line = format!(
            "  s.people: {{unit: id, columns: {{age: {{bounds: [0, 120], also: {also}}}}}}}"
        );
        refused(6, &line, &[wanted]);
    }
    for total in ["0", "-3", "\"9\"", "many", "1e31"] {
        let line = format!(
            "  s.people: {{unit: id, columns: {{age: {{bounds: [0, 120], unit_total: {total}}}}}}}"
        );
        let wanted = "6:70: unit_total of column \"age\" must be a number above 0 and at most";
        refused(6, &line, &[wanted]);
    }
    refused(
        6,
        "  s.people: {unit: id, columns: {age: {also: [b]}}}",
        &["6:39: column \"age\" must say exactly one of bounds, values, domain and visible"],
    );
}
