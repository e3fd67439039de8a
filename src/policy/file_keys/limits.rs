//! Limits, and what answers, times and records show.

use super::shape::{KeyShape, PolicyKey, key, required_key};

pub(super) const KEYS: &[PolicyKey] = &[
    key(
        "limits",
        KeyShape::Map,
        "",
        "Upper limits on groups, rows, failures, time and connections.",
        "limits: {failures: 10}",
    ),
    key(
        "limits.groups_per_unit",
        KeyShape::Count(1, 1_000_000),
        "20",
        "The most groups of one answer that one unit is counted in, where keys are found by \
            threshold.",
        "groups_per_unit: 20",
    ),
    key(
        "limits.rows_per_unit",
        KeyShape::Count(1, 1_000_000),
        "1000",
        "The most rows of one unit where a table does not say, or where a join multiplies rows.",
        "rows_per_unit: 1000",
    ),
    key(
        "limits.groups",
        KeyShape::Count(1, 10_000_000),
        "100000",
        "The most groups of one answer, and the most values of one column.",
        "groups: 100000",
    ),
    key(
        "limits.mirror_rows",
        KeyShape::Count(0, 1_000_000_000),
        "1000000",
        "Public tables of at most this many rows are copied into the shadow.",
        "mirror_rows: 1000000",
    ),
    key(
        "limits.failures",
        KeyShape::Count(0, 1_000_000),
        "10",
        "How many failed queries a role may cause before it may ask no more.",
        "failures: 10",
    ),
    key(
        "limits.monitor_questions",
        KeyShape::Count(0, 1_000_000),
        "0",
        "The most questions that a monitor or a holdout answers for one charge. With 0 there are \
            none.",
        "monitor_questions: 1000",
    ),
    key(
        "limits.statement_timeout",
        KeyShape::Time,
        "60s",
        "How long the database may work on one statement.",
        "statement_timeout: 60s",
    ),
    key(
        "limits.stream_rows",
        KeyShape::Truth,
        "true",
        "Whether pgveil reads single rows and adds them up itself where that is usually quicker. \
            With false the database adds them up, and sums alone leave it.",
        "stream_rows: false",
    ),
    key(
        "limits.connections",
        KeyShape::Count(1, 100_000),
        "200",
        "Clients at a time.",
        "connections: 200",
    ),
    key(
        "limits.connections_per_role",
        KeyShape::Count(1, 100_000),
        "100000",
        "Clients of one role at a time.",
        "connections_per_role: 50",
    ),
    key(
        "limits.connections_per_address",
        KeyShape::Count(1, 100_000),
        "100000",
        "Clients of one address at a time.",
        "connections_per_address: 50",
    ),
    key(
        "timing",
        KeyShape::Map,
        "",
        "Hides how long an answer took.",
        "timing: {quantum: 100ms}",
    ),
    required_key(
        "timing.quantum",
        KeyShape::Time,
        "Answers about private rows come at multiples of this time.",
        "quantum: 100ms",
    ),
    key(
        "time_grain",
        KeyShape::Time,
        "none",
        "now() is rounded down to it in conditions on private rows.",
        "time_grain: 1h",
    ),
    key(
        "previews",
        KeyShape::Words(&["refused", "empty", "synthetic"]),
        "refused",
        "empty: a preview of private rows answers its columns and no row; synthetic: made-up rows \
            of a summary that the role has received.",
        "previews: empty",
    ),
    key(
        "record",
        KeyShape::Map,
        "",
        "What the record of statements has apart from digests.",
        "record: {shape: true}",
    ),
    required_key(
        "record.shape",
        KeyShape::Truth,
        "true: also the statement, without constants and names that the policy does not show.",
        "shape: true",
    ),
];
