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

/// What writers may learn of a table's rows matters where somebody writes it. It changes no answer.
#[test]
fn constraints_that_show_rows_loosen() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let with = |rule: &str, is_written: bool| {
        let place = "    rows_per_unit: 15 ";
        let mut file = file(&demo.replacen(place, &format!("{rule}{place}"), 1));
        let value = crate::policy::TableName {
            schema: "nls".to_owned(),
            name: "interviews".to_owned(),
        };
        let place = file.tables[0].place;
        if is_written {
            file.writes = vec![vec![crate::policy::error::At { place, value }]];
        }
        file
    };
    let (refused, shown) = (with("", true), with("    constraints: shown\n", true));
    let there = Difference::between(&refused, &shown);
    let line = "who writes nls.interviews may learn from its constraints and triggers which rows \
        are there, free";
    assert_eq!(there.loosens, [line]);
    assert!(there.costs.is_empty() && there.changes.is_empty());
    let back = Difference::between(&shown, &refused);
    assert!(back.loosens.is_empty());
    let line = "nls.interviews is not written while constraints or triggers could show its rows";
    assert_eq!(back.tightens, [line]);
    let shown = with("    constraints: shown\n", false);
    let there = Difference::between(&with("", false), &shown);
    assert!(there.loosens.is_empty() && there.tightens.is_empty());
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

const MEAN: &str = "{bounds: [0, 200000], local: {mechanism: mean, epsilon: 1}}";

/// Another spelling of the same numbers is no other way to make reports.
#[test]
fn another_spelling_changes_nothing() {
    for (entry, from, to) in [
        (MEAN, "[0, 200000]", "[0.0, 2e5]"),
        (MEAN, "[0, 200000]", "['-0', '200000.00']"),
        (MEAN, "epsilon: 1", "epsilon: 1.0"),
        (COIN, "truth: 1/2, yes: 1/2", "yes: 0.5, truth: 2/4"),
        (COIN, "[x, y]", "['x', \"y\"]"),
        (FILTER, "f: 1/2, p: 1/2, q: 3/4", "q: 0.75, p: 0.5, f: 2/4"),
        (FILTER, "cohort: group", "cohort: 'group'"),
    ] {
        assert!(entry.contains(from), "{from}");
        let found = between_columns(entry, &entry.replace(from, to), true);
        assert!(
            found.loosens.is_empty() && found.tightens.is_empty(),
            "{to}: {found:?}"
        );
    }
    // What is another number is said.
    for to in ["[0, 200001]", "[1, 200000]", "[0, 2e6]"] {
        let found = between_columns(MEAN, &MEAN.replace("[0, 200000]", to), true);
        let twice = |line: &String| line.contains("are made in another way");
        assert!(found.loosens.iter().any(twice), "{to}: {found:?}");
    }
    let unary = "{visible: true, local: {mechanism: unary, epsilon: 1}}";
    let odds = "one: 1/2, zero: 0.2689414213699951";
    let found = between_columns(unary, &unary.replace("epsilon: 1", odds), true);
    assert!(found.loosens.is_empty(), "{found:?}");
}

/// NULL is no report; bits of one value exclude each other.
#[test]
fn what_is_not_randomised_is_named() {
    let with_null = COIN.replace("{values", "{nullable: true, values");
    let line = "NULL is written into nls.more.b as it is: who gives no value is known";
    assert_eq!(between_columns(COIN, &with_null, true).loosens, [line]);
    let back = between_columns(&with_null, COIN, true);
    assert!(
        back.loosens.is_empty() && back.tightens.len() == 1,
        "{back:?}"
    );
    let one = "{visible: true, also: [c, d], local: {mechanism: unary, epsilon: 1}}";
    let two = "{visible: true, also: [d], local: {mechanism: unary, epsilon: 1}}, c: {visible: \
        true, local: {mechanism: unary, epsilon: 1}}";
    let apart = between_columns(one, two, true);
    let said = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
    assert!(
        said(&apart.loosens, "nls.more.b and c may both be true")
            && said(&apart.loosens, "nls.more.d and c may both be true")
            && !said(&apart.loosens, "nls.more.b and d"),
        "{apart:?}"
    );
    let together = between_columns(two, one, true);
    assert!(
        together.loosens.is_empty()
            && said(&together.tightens, "nls.more.c and d may not both be true"),
        "{together:?}"
    );
}
