//! What is protected, and what may be spent.

use super::shape::{KeyShape, PolicyKey, key, required_key};

pub(super) const KEYS: &[PolicyKey] = &[
    required_key(
        "privacy",
        KeyShape::Map,
        "The privacy unit, the owner's budget, the price of a query.",
        "privacy: {unit: customer, budget: {epsilon: 8, delta: 1e-6}}",
    ),
    required_key(
        "privacy.unit",
        KeyShape::Text,
        "A word for what is protected; it appears in messages.",
        "unit: customer",
    ),
    required_key(
        "privacy.budget",
        KeyShape::Map,
        "The most that all roles together may ever learn. It is never renewed.",
        "budget: {epsilon: 8, delta: 1e-6}",
    ),
    required_key(
        "privacy.budget.epsilon",
        KeyShape::Number,
        "The owner's epsilon: how close answers with and without one unit stay.",
        "epsilon: 8",
    ),
    key(
        "privacy.budget.delta",
        KeyShape::Share,
        "0 under accounting: pure, else required",
        "The owner's delta: the chance that epsilon does not bound.",
        "delta: 1e-6",
    ),
    key(
        "privacy.budget.renew",
        KeyShape::Words(&["never"]),
        "never",
        "The owner's budget is never renewed.",
        "renew: never",
    ),
    key(
        "privacy.per_query",
        KeyShape::Map,
        "{epsilon: 0.1, max_epsilon: 1}",
        "What one query may spend.",
        "per_query: {epsilon: 0.1, max_epsilon: 1}",
    ),
    required_key(
        "privacy.per_query.epsilon",
        KeyShape::Number,
        "What a query spends unless the session says otherwise.",
        "epsilon: 0.1",
    ),
    key(
        "privacy.per_query.max_epsilon",
        KeyShape::Number,
        "its epsilon",
        "The most that a query may spend.",
        "max_epsilon: 1",
    ),
    key(
        "privacy.per_query.min_epsilon",
        KeyShape::Number,
        "a hundredth of its epsilon",
        "The least that a query may spend; with the budgets it bounds how many questions there \
            are.",
        "min_epsilon: 0.001",
    ),
    key(
        "privacy.accounting",
        KeyShape::Words(&["gdp", "zcdp", "pure"]),
        "gdp",
        "How the losses of many queries add up.",
        "accounting: gdp",
    ),
    key(
        "privacy.threshold_share",
        KeyShape::Share,
        "0.005",
        "The part of delta kept for group keys without declared values; fixed when the ledger \
            opens.",
        "threshold_share: 0.005",
    ),
    key(
        "privacy.units",
        KeyShape::Count(1, 1_000_000_000_000),
        "unknown",
        "About how many units there are, by what is publicly known: questions whose answers \
            noise would hide are then refused free.",
        "units: 2500",
    ),
    key(
        "privacy.data_version",
        KeyShape::Text,
        "\"1\"",
        "A label for the data; change it when they change. Stored answers are of one version.",
        "data_version: \"2026-11\"",
    ),
];
