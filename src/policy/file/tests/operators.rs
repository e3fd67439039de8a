//! Who watches.

use super::*;
use crate::policy::{Certificate, Rights};

/// The base with operators in place of its first line.
fn with(operators: &str) -> String {
    let mut lines = lines();
    lines[0] = format!("version: 1\noperators: {operators}");
    lines.join("\n")
}

fn operator(name: &str, rest: &str) -> String {
    format!("{{name: {name}, password: {VERIFIER}, {rest}}}")
}

#[test]
fn operators_watch_or_own() {
    let watch = operator("wim", "may: [watch]");
    let own = operator("olga", "may: [own, watch], certificate: required");
    let file = parse(&with(&format!("[{watch}, {own}]"))).unwrap();
    let shown: Vec<_> = file
        .operators
        .iter()
        .map(|o| (o.name.as_str(), o.rights, o.certificate))
        .collect();
    assert_eq!(
        shown,
        [
            ("wim", Rights::Watch, Certificate::Optional),
            ("olga", Rights::Own, Certificate::Required)
        ]
    );
    assert_eq!(parse(&lines().join("\n")).unwrap().operators, []);
}

#[test]
fn what_is_no_operator_is_refused() {
    let twice = operator("wim", "may: [watch]");
    for (operators, wanted) in [
        (
            format!("[{}]", operator("ann", "may: [watch]")),
            "\"ann\" is a role; an operator needs another name",
        ),
        (
            format!("[{twice}, {twice}]"),
            "operator \"wim\" is given twice",
        ),
        (
            format!("[{}]", operator("wim", "may: [own]")),
            "may must be [watch]",
        ),
        (
            format!("[{}]", operator("wim", "may: []")),
            "may must be [watch]",
        ),
        (
            format!("[{}]", operator("wim", "may: [watch, grant]")),
            "may must be [watch]",
        ),
        (
            "[{name: wim, password: hunter2, may: [watch]}]".to_owned(),
            "the password of operator \"wim\" must be a SCRAM-SHA-256 verifier",
        ),
        (
            format!("[{}]", operator("wim", "may: [watch], budget: 1")),
            "an operator has no key \"budget\"",
        ),
        (
            format!("[{{name: wim, password: {VERIFIER}}}]"),
            "an operator has no \"may\"",
        ),
    ] {
        let found = errors(&with(&operators));
        assert!(
            found.len() == 1 && found[0].contains(wanted),
            "{operators}: {found:#?}"
        );
        assert!(!found[0].contains("hunter2"), "{found:#?}");
    }
}
