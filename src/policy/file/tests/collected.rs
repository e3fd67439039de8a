//! Columns whose values were randomised before they were stored.

use super::*;
use crate::mechanism::{Randomiser, Rappor};

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
        (
            "{mechanism: rappor, bits: 128, hashes: 2, cohorts: 64, f: 1/2, p: 0.5, q: 3/4, \
             cohort: c}",
            Randomiser::Rappor(Rappor {
                bits: 128,
                hashes: 2,
                cohorts: 64,
                f: 0.5,
                p: 0.5,
                q: 0.75,
            }),
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
            "{mechanism: laplace}",
            "must be coin, krr, unary, mean or rappor, not \"laplace\"",
        ),
        ("{mechanism: rappor}", "has no \"bits\""),
        (
            "{mechanism: rappor, bits: 128, hashes: 2, cohorts: 64, f: 1/2, p: 0.5, q: 0.500001, \
             cohort: c}",
            "must have (1 - f)(q - p) of at least 0.000001, not 5.0e-7",
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

#[test]
fn numbers_of_filters_go_together() {
    let good = "{mechanism: rappor, bits: 128, hashes: 2, cohorts: 64, f: 1/2, p: 1/2, q: 3/4, \
        cohort: c}";
    assert!(parse(&with(good)).is_ok());
    for (old, new, wanted) in [
        ("bits: 128", "bits: 512", "a whole number from 1 to 256"),
        ("bits: 128", "bits: 2", "must have more bits than hashes"),
        ("hashes: 2", "hashes: 17", "a whole number from 1 to 16"),
        (
            "cohorts: 64",
            "cohorts: 65",
            "at most 8192 cohorts times bits, not 8320",
        ),
        ("q: 3/4", "q: 1/2", "must have q above p"),
        ("f: 1/2", "f: 1", "must have f below 1"),
        ("f: 1/2", "f: 2", "a number from 0 to 1"),
        (", cohort: c", "", "has no \"cohort\""),
        ("p: 1/2", "epsilon: 1", "has no \"p\""),
    ] {
        let found = errors(&with(&good.replace(old, new))).join("\n");
        assert!(found.contains(wanted), "{new}: {found}");
    }
}
