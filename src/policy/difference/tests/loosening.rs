//! Changes that let somebody learn more without looking like it.

use super::*;

fn kinds(difference: &Difference) -> [usize; 3] {
    let Difference {
        loosens,
        tightens,
        changes,
        costs: _,
    } = difference;
    [loosens.len(), tightens.len(), changes.len()]
}

/// Changes that let somebody else in, or show something else.
#[test]
fn another_database_password_or_witness_loosens() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let database = between("${DATABASE_URL}", "postgresql://h/other");
    assert!(database.loosens[0].starts_with("another database:"));
    assert_eq!(kinds(&database), [1, 0, 0]);
    let shadow = format!("shadow: {{url: 'postgresql://h/s'}}\n{demo}");
    let shadow = Difference::between(&file(&demo), &file(&shadow));
    assert_eq!(kinds(&shadow), [0, 0, 1], "{shadow:?}");
    let line = demo.lines().find(|line| line.contains("password:"));
    let verifier = "SCRAM-SHA-256$4097:gbbMr9UM5psF6g3GUvH1xQ==$\
        S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";
    let password = between(line.unwrap(), &format!("    password: {verifier}"));
    let line = "whoever knows the new password may ask as role analyst";
    assert_eq!(password.loosens, [line]);
    let (mut none, mut one, mut other) = (file(&demo), file(&demo), file(&demo));
    let witness = |path: &str| crate::policy::WitnessAddress {
        place: crate::policy::WitnessPlace::File(path.into()),
        same_disk: false,
    };
    none.ledger_witnesses = Vec::new();
    one.ledger_witnesses = vec![witness("/a")];
    other.ledger_witnesses = vec![witness("/b")];
    let (mut both, mut near) = (file(&demo), file(&demo));
    both.ledger_witnesses = vec![witness("/a"), witness("/b")];
    near.ledger_witnesses = vec![crate::policy::WitnessAddress {
        same_disk: true,
        ..witness("/a")
    }];
    assert_eq!(kinds(&Difference::between(&one, &both)), [0, 1, 0]);
    assert_eq!(kinds(&Difference::between(&both, &one)), [1, 0, 0]);
    assert_eq!(kinds(&Difference::between(&one, &near)), [1, 0, 0]);
    assert_eq!(kinds(&Difference::between(&near, &one)), [0, 0, 1]);
    assert_eq!(kinds(&Difference::between(&one, &one)), [0, 0, 0]);
    assert_eq!(kinds(&Difference::between(&none, &one)), [0, 1, 0]);
    assert_eq!(kinds(&Difference::between(&one, &none)), [1, 0, 0]);
    assert_eq!(kinds(&Difference::between(&one, &other)), [1, 0, 0]);
}

#[test]
fn a_rule_for_a_visible_column_loosens() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let column = "birth_year: {bounds: [1941, 1954]}";
    let with = |rule: &str| file(&demo.replacen(column, &format!("birth_year: {rule}"), 1));
    for rule in [
        "{bounds: [1941, 1954]}",
        "{bounds: auto}",
        "{values: [1941]}",
        "{domain: nls.industries.industry_code}",
    ] {
        let there = Difference::between(&with("visible"), &with(rule));
        assert_eq!(kinds(&there), [1, 0, 0], "{there:?}");
        let back = Difference::between(&with(rule), &with("visible"));
        assert_eq!(kinds(&back), [0, 1, 0], "{back:?}");
    }
    let longer = Difference::between(&with("{values: [a, b]}"), &with("{values: [b, c]}"));
    assert!(longer.loosens[0].ends_with(": c becomes readable"));
    let shorter = Difference::between(&with("{values: [a, b]}"), &with("{values: [b]}"));
    assert_eq!(kinds(&shorter), [0, 0, 1]);
    // Both truth values are all there are.
    let (both, said) = (
        "{values: [false, true]}",
        "{values: [false, true], complete: true}",
    );
    assert!(Difference::between(&with(both), &with(said)).is_empty());
    let one = Difference::between(&with("{values: [true]}"), &with(both));
    assert!(
        one.loosens
            .iter()
            .any(|line| line.contains(" is complete: ")),
        "{one:?}"
    );
}

#[test]
fn a_longer_timeout_loosens_where_times_are_rounded() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let with = |quantum: &str, time: &str| {
        let limits = format!("{quantum}limits:\n  statement_timeout: {time}");
        let demo: Vec<&str> = demo
            .lines()
            .filter(|line| !line.contains("statement_timeout"))
            .collect();
        file(&demo.join("\n").replacen("limits:", &limits, 1))
    };
    let quantum = "timing: {quantum: 100ms}\n";
    let there = Difference::between(&with(quantum, "20s"), &with(quantum, "40s"));
    assert_eq!(
        there.loosens,
        ["limits.statement_timeout rises from 20s to 40s"]
    );
    let back = Difference::between(&with(quantum, "40s"), &with(quantum, "20s"));
    assert_eq!(kinds(&back), [0, 1, 0]);
    let without = Difference::between(&with("", "20s"), &with("", "40s"));
    assert_eq!(
        without.changes,
        ["limits.statement_timeout is 40s, not 20s"]
    );
}

/// The unit and the column that leads to it may be used without a rule.
#[test]
fn a_visible_unit_is_no_change() {
    for from in ["birth_year: {bounds", "    columns:\n"] {
        let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
        let interviews = demo.find("nls.interviews:").unwrap();
        let columns = interviews + demo[interviews..].find("    columns:\n").unwrap();
        let mut changed = demo.clone();
        if from.starts_with(' ') {
            changed.insert_str(
                columns + "    columns:\n".len(),
                "      woman_id: visible\n",
            );
        } else {
            changed = demo.replacen(from, &format!("woman_id: visible\n      {from}"), 1);
        }
        let difference = Difference::between(&file(&demo), &file(&changed));
        assert!(difference.is_empty(), "{difference:?}");
    }
}

#[test]
fn searches_of_a_new_table_are_due() {
    let rule = "{unit: a, rows_per_unit: auto, columns: {b: {bounds: auto}}}";
    let new = format!("  nls.more: {rule}\n  nls.industries: public");
    let difference = between("  nls.industries: public", &new);
    let due = difference
        .costs
        .iter()
        .filter(|line| line.contains("a search is due"));
    assert_eq!(due.count(), 2, "{difference:?}");
    let private = format!("  nls.industries: {rule}");
    let difference = between("  nls.industries: public", &private);
    let due = difference
        .costs
        .iter()
        .filter(|line| line.contains("a search is due"));
    assert_eq!(due.count(), 2, "{difference:?}");
}

/// Who never gets fresh noise gets it once stored answers go.
#[test]
fn a_change_of_meaning_loosens_where_answers_are_always_reused() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let demo = demo.replacen("renew: never}", "renew: never}\n    reuse: always", 1);
    let changed = demo.replacen("[1941, 1954]", "[1940, 1954]", 1);
    let difference = Difference::between(&file(&demo), &file(&changed));
    assert!(difference.loosens[0].ends_with("once more with fresh noise"));
    assert_eq!(kinds(&difference), [1, 0, 1], "{difference:?}");
}

#[test]
fn control_characters_are_escaped() {
    let unit = between("unit: woman", "unit: \"a\\e[2Jb\"");
    assert!(unit.changes[0].contains("\\u{1b}"), "{unit:?}");
}

/// Operators read no row, but see statements and can stop them.
#[test]
fn another_operator_or_right_loosens() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let verifier = |letter: &str| {
        let keys = format!("{}=", letter.repeat(43));
        format!("SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==${keys}:{keys}")
    };
    let with = |rest: &str, letter: &str| {
        let operator = format!("{{name: olga, password: {}, {rest}}}", verifier(letter));
        file(&format!("operators: [{operator}]\n{demo}"))
    };
    let (none, watch) = (file(&demo), with("may: [watch]", "A"));
    let own = with("may: [watch, own]", "A");
    let certified = with("may: [watch], certificate: required", "A");
    for (old, new, wanted) in [
        (&none, &watch, "operator olga is new, and may watch"),
        (
            &watch,
            &own,
            "operator olga may watch and act for the owner now",
        ),
        (
            &certified,
            &watch,
            "operator olga needs no certificate any more",
        ),
        (
            &watch,
            &with("may: [watch]", "E"),
            "whoever knows the new password may act as operator olga",
        ),
    ] {
        let there = Difference::between(old, new);
        assert_eq!(
            (there.loosens.as_slice(), kinds(&there)),
            (&[wanted.to_owned()][..], [1, 0, 0])
        );
    }
    for (old, new) in [(&watch, &none), (&own, &watch), (&watch, &certified)] {
        assert_eq!(kinds(&Difference::between(old, new)), [0, 1, 0]);
    }
}
