//! Summaries that are made once for several roles.

use super::shape::{KeyShape, PolicyKey, key, required_key};

pub(super) const KEYS: &[PolicyKey] = &[
    key(
        "summaries",
        KeyShape::Named,
        "none",
        "Counts and sums of private tables that are released once, by `pgveil summarize`, and \
            then answer questions.",
        "summaries: {women: {of: nls.women, keys: [race, birth_year], marginals: all 2, epsilon: \
            0.5}}",
    ),
    key(
        "summaries.*",
        KeyShape::Map,
        "",
        "A summary, by its name.",
        "women: {of: nls.women, keys: [race, birth_year], marginals: all 2, epsilon: 0.5}",
    ),
    required_key(
        "summaries.*.of",
        KeyShape::Text,
        "Its private table.",
        "of: nls.women",
    ),
    required_key(
        "summaries.*.keys",
        KeyShape::NamesOrNamed,
        "Columns that its groups have, and that questions may ask by; those of tables on the path \
            to the unit as table.column. All of their values are \
            known: complete lists, truth values, whole numbers and dates with bounds. In a summary \
            of the units' own table, rows(schema.table) is the number of rows that a unit has in a \
            table whose path leads there. A map says of each key what its groups are.",
        "keys: {race: values, hours: {bins: [0, 20, 35, 45, 100]}}",
    ),
    key(
        "summaries.*.keys.*",
        KeyShape::WordsOrMap(&["values", "ranges"]),
        "values",
        "values: a group for each value. ranges: the same groups, and less noise in sums over \
            ranges of them; of whole numbers, dates and enums. A map: groups of values.",
        "birth_year: ranges",
    ),
    key(
        "summaries.*.keys.*.ranges",
        KeyShape::Truth,
        "false",
        "Less noise in sums over ranges of bins, or of numbers of rows.",
        "hours: {bins: [0, 20, 35, 45, 100], ranges: true}",
    ),
    key(
        "summaries.*.keys.*.bins",
        KeyShape::Values,
        "none",
        "From the lower bound of the column to its upper bound: where each bin begins, and where \
            the last one ends. Of a number of rows from 0 to its highest.",
        "bins: [0, 20, 35, 45, 100]",
    ),
    key(
        "summaries.*.keys.*.max",
        KeyShape::Count(1, 1_000),
        "rows_per_unit of the table",
        "Of a number of rows: a group for each number up to this; more rows count as this many.",
        "max: 30",
    ),
    key(
        "summaries.*.measures",
        KeyShape::Names,
        "none",
        "Columns with bounds whose sums and averages it answers. Rows are always counted.",
        "measures: [years_of_school]",
    ),
    required_key(
        "summaries.*.marginals",
        KeyShape::Marginals,
        "The sets of keys that questions may use together: `all 2` is every pair, a list of lists \
            names each set, and with `auto` pgveil selects them from the data, privately.",
        "marginals: all 2",
    ),
    key(
        "summaries.*.epsilon",
        KeyShape::Number,
        "by error",
        "What it costs: the owner when it is made, and each role once, at the first question that \
            it answers. At most what one query may spend.",
        "epsilon: 0.5",
    ),
    key(
        "summaries.*.error",
        KeyShape::Number,
        "by epsilon",
        "In place of epsilon: the standard error of a count, where it is largest. With ranges, the \
            root of the mean square over all of them.",
        "error: 20",
    ),
    key(
        "summaries.*.roles",
        KeyShape::Names,
        "all",
        "The roles that may receive it.",
        "roles: [analyst]",
    ),
];
