//! Columns whose values pgveil randomises, and those that were randomised elsewhere.

use super::*;

/// The difference of two files with these entries for a column, in a table that roles write or not.
fn between_columns(old: &str, new: &str, is_written: bool) -> Difference {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let with = |entry: &str| {
        let table = format!(
            "  nls.industries: public\n  nls.more: {{unit: a, columns: {{group: visible, other: \
                visible, b: {entry}}}}}"
        );
        let text = demo.replacen("  nls.industries: public", &table, 1);
        let mut file = file(&text);
        if is_written {
            file.writes = vec![vec![crate::policy::error::At {
                place: file.tables[0].place,
                value: crate::policy::TableName {
                    schema: "nls".to_owned(),
                    name: "more".to_owned(),
                },
            }]];
        }
        file
    };
    Difference::between(&with(old), &with(new))
}

const COIN: &str = "{values: [x, y], local: {mechanism: coin, truth: 1/2, yes: 1/2}}";
const FILTER: &str = "{values: [x, y], local: {mechanism: rappor, bits: 16, hashes: 2, cohorts: 4, \
    f: 1/2, p: 1/2, q: 3/4, cohort: group}}";

/// Whoever takes pgveil's randomisation away stores the truth.
#[test]
fn true_values_that_are_stored_loosen() {
    let collected = COIN.replace("local", "collected");
    let truth = "true values of nls.more.b are stored as they are written".to_owned();
    for new in [collected.as_str(), "visible", "hidden", "{values: [x, y]}"] {
        let there = between_columns(COIN, new, true);
        assert!(there.loosens.contains(&truth), "{new}: {there:?}");
        let back = between_columns(new, COIN, true);
        let safe =
            |line: &String| line.contains("nls.more.b are randomised before they are stored");
        assert!(back.tightens.iter().any(safe), "{new}: {back:?}");
        assert!(!back.loosens.contains(&truth), "{new}: {back:?}");
    }
    // What is read is the same, so that stored answers stay.
    let there = between_columns(COIN, &collected, true);
    assert_eq!(there.loosens, [truth]);
    assert!(
        there.costs.is_empty() && there.changes.is_empty(),
        "{there:?}"
    );
    // Nobody writes it.
    let there = between_columns(COIN, &collected, false);
    let line = "reports of nls.more.b are made elsewhere, not by pgveil";
    assert_eq!(there.changes, [line]);
    assert!(there.loosens.is_empty(), "{there:?}");
    let back = between_columns(&collected, COIN, false);
    assert_eq!(
        back.changes,
        ["reports of nls.more.b are made by pgveil, not elsewhere"]
    );
    let shown = between_columns("visible", COIN, true);
    let named = |line: &String| line.contains("is randomised on the way by coin");
    assert!(shown.loosens.iter().any(named), "{shown:?}");
}

/// Other numbers give second reports, and those that are stored are read by them.
#[test]
fn other_numbers_of_reports_are_named() {
    let second = |entry: &str, from: &str, to: &str| {
        assert!(entry.contains(from), "{from}");
        let found = between_columns(entry, &entry.replace(from, to), true);
        let said = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
        let twice = "reports of nls.more.b are made in another way: a value that is written again";
        let wrong = "reports of nls.more.b that are stored were made with other p and q";
        (said(&found.loosens, twice), said(&found.changes, wrong))
    };
    for (from, to) in [
        ("f: 1/2", "f: 1/4"),
        ("bits: 16", "bits: 32"),
        ("hashes: 2", "hashes: 3"),
        ("cohorts: 4", "cohorts: 8"),
        ("cohort: group", "cohort: other"),
    ] {
        assert_eq!(second(FILTER, from, to), (true, false), "{to}");
    }
    for (from, to) in [("p: 1/2", "p: 1/4"), ("q: 3/4", "q: 7/8")] {
        assert_eq!(second(FILTER, from, to), (false, true), "{to}");
    }
    // Its permanent bits do not depend on the list.
    assert_eq!(second(FILTER, "[x, y]", "[x, y, z]"), (false, false));
    for (from, to) in [("truth: 1/2", "truth: 1/4"), ("[x, y]", "[y, x]")] {
        assert_eq!(second(COIN, from, to), (true, false), "{to}");
    }
}
