//! Columns whose values were randomised before they were stored.

use super::*;
use crate::mechanism::Randomiser;

fn with(collected: &str) -> String {
    let text = lines().join("\n");
    text.replace(
        "{age: {bounds: [0, 120]}}",
        &format!("{{age: {{bounds: [0, 120], collected: {collected}}}}}"),
    )
}

#[test]
fn odds_are_decimals_or_fractions() {
    for (collected, wanted) in [
        (
            "{mechanism: coin, truth: 1/4, yes: 0.5}",
            Randomiser::Coin {
                truth: 0.25,
                yes: 0.5,
            },
        ),
        (
            "{mechanism: krr, epsilon: 2}",
            Randomiser::KRr { epsilon: 2.0 },
        ),
        (
            "{mechanism: unary, one: 3/4, zero: 0}",
            Randomiser::Unary {
                one: 0.75,
                zero: 0.0,
            },
        ),
        (
            "{mechanism: unary, epsilon: 1}",
            Randomiser::optimised_unary(1.0),
        ),
        (
            "{mechanism: mean, epsilon: 1}",
            Randomiser::Mean { epsilon: 1.0 },
        ),
    ] {
        let file = parse(&with(collected)).unwrap();
        let Some(TableRule::Private { columns, .. }) = file.tables.first().map(|t| t.rule.clone())
        else {
            panic!("private")
        };
        let ColumnRule::Collected { randomiser, .. } = &columns[0].rule else {
            panic!("{collected}")
        };
        assert_eq!(*randomiser, wanted);
    }
}

#[test]
fn other_odds_are_errors() {
    for (collected, wanted) in [
        ("{epsilon: 1}", "has no \"mechanism\""),
        (
            "{mechanism: rappor}",
            "must be coin, krr, unary or mean, not \"rappor\"",
        ),
        (
            "{mechanism: coin, truth: 1/2}",
            "must have truth: 1/2 and yes: 1/2, and no other odds",
        ),
        (
            "{mechanism: coin, truth: 0, yes: 1/2}",
            "must be a number above 0 to 1",
        ),
        (
            "{mechanism: coin, truth: 3/2, yes: 1/2}",
            "must be a number above 0 to 1",
        ),
        (
            "{mechanism: coin, truth: 1/0, yes: 1/2}",
            "must be a number above 0 to 1",
        ),
        (
            "{mechanism: krr, epsilon: 51}",
            "a number above 0 and at most 50",
        ),
        (
            "{mechanism: krr, epsilon: 1, truth: 1/2}",
            "must have epsilon: 1, and no other odds",
        ),
        (
            "{mechanism: unary, one: 1/4, zero: 1/4}",
            "must be above zero",
        ),
        (
            "{mechanism: unary, one: 1/4}",
            "must have epsilon: 1, or one: 3/4 and zero: 1/4",
        ),
        (
            "{mechanism: mean, epsilon: 1, size: 3}",
            "has no key \"size\"",
        ),
        ("krr", "must be"),
    ] {
        let found = errors(&with(collected)).join("\n");
        assert!(found.contains(wanted), "{collected}: {found}");
    }
}
