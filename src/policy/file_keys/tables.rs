//! What the policy shows of the database.

use super::shape::{KeyShape, PolicyKey, key, required_key};

pub(super) const KEYS: &[PolicyKey] = &[
    required_key(
        "tables",
        KeyShape::Named,
        "Which tables are shown, by schema.table. A table that is not listed does not exist for \
            analysts.",
        "tables: {shop.products: public}",
    ),
    key(
        "tables.*",
        KeyShape::WordsOrMap(&["public"]),
        "",
        "public: every row can be read, exactly and free. A map: a private table.",
        "shop.products: public",
    ),
    required_key(
        "tables.*.unit",
        KeyShape::TextOrMap,
        "The column that names the unit, or the path to it.",
        "unit: customer_id",
    ),
    required_key(
        "tables.*.unit.path",
        KeyShape::List,
        "Steps along foreign keys to the unit.",
        "path: [order_id -> shop.orders.order_id, customer_id -> shop.customers.customer_id]",
    ),
    required_key(
        "tables.*.unit.path.-",
        KeyShape::Text,
        "A foreign key to a unique column: column -> schema.table.column.",
        "order_id -> shop.orders.order_id",
    ),
    key(
        "tables.*.unit.trusted_path",
        KeyShape::Truth,
        "false",
        "true: the steps need no foreign key. This replaces a proof by your word: if it is \
            wrong, one unit's rows may count as another's.",
        "trusted_path: true",
    ),
    key(
        "tables.*.rows_per_unit",
        KeyShape::CountOrAuto(1, 1_000_000),
        "limits.rows_per_unit",
        "The most rows that one unit contributes; rows beyond it are clipped. auto leaves it to \
            `pgveil bounds`.",
        "rows_per_unit: 20",
    ),
    key(
        "tables.*.periods",
        KeyShape::Map,
        "none",
        "Questions by time buy each period once, when it is over.",
        "periods: {column: visited_at, by: day, from: 2026-01-01, close_after: 2d}",
    ),
    required_key(
        "tables.*.periods.column",
        KeyShape::Text,
        "The moment of a row: a column of the table, a date or a timestamp.",
        "column: visited_at",
    ),
    required_key(
        "tables.*.periods.by",
        KeyShape::Words(&["hour", "day", "week", "month"]),
        "How long a period is. Periods begin in UTC, weeks on Mondays.",
        "by: day",
    ),
    required_key(
        "tables.*.periods.from",
        KeyShape::Text,
        "When the first period begins, in UTC. Another date begins anew: periods are bought again.",
        "from: 2026-01-01",
    ),
    required_key(
        "tables.*.periods.close_after",
        KeyShape::Text,
        "How long after its end a period is closed, and may be bought: 90min, 36h or 2d.",
        "close_after: 2d",
    ),
    key(
        "tables.*.holdout",
        KeyShape::Map,
        "none",
        "The table is a holdout: pgveil.holdout() says whether means over its rows agree with \
            means that analysts have from other rows, for one charge until one does not.",
        "holdout: {rows: 50000, tolerance: 0.04, scale: 0.0013, overflows: 30}",
    ),
    required_key(
        "tables.*.holdout.rows",
        KeyShape::Count(1, 1_000_000_000),
        "How many rows the table has. The number becomes public.",
        "rows: 50000",
    ),
    required_key(
        "tables.*.holdout.tolerance",
        KeyShape::Number,
        "How far a mean may be from the analyst's and still agree with it. At most 1.",
        "tolerance: 0.04",
    ),
    required_key(
        "tables.*.holdout.scale",
        KeyShape::Number,
        "The scale of the noise in a mean that is shown. Opening the holdout costs epsilon \
            2 rows_per_unit / (scale rows). At most 1.",
        "scale: 0.0013",
    ),
    required_key(
        "tables.*.holdout.overflows",
        KeyShape::Count(1, 1_000_000),
        "How often each role may open it, for ever: it ends with the first mean that does not \
            agree.",
        "overflows: 30",
    ),
    key(
        "tables.*.periods.per_unit",
        KeyShape::Count(1, 9_000),
        "none",
        "One price covers a horizon of periods, of which at most this many of each unit count: its \
            first ones. Needs horizon and append_only.",
        "per_unit: 30",
    ),
    key(
        "tables.*.periods.horizon",
        KeyShape::Count(1, 9_000),
        "none",
        "How many periods one price covers, from the first one on; the next horizon has its own \
            price.",
        "horizon: 366",
    ),
    key(
        "tables.*.periods.rows",
        KeyShape::Count(1, 1_000_000),
        "rows_per_unit",
        "The most rows that one unit contributes to one period, with per_unit; rows beyond it are \
            clipped.",
        "rows: 50",
    ),
    key(
        "tables.*.periods.answers",
        KeyShape::Words(&["periods", "totals"]),
        "periods",
        "totals: noise is drawn for running totals, with per_unit, where they have less noise so; \
            single periods have more. periods: each has its own noise.",
        "answers: totals",
    ),
    key(
        "tables.*.periods.append_only",
        KeyShape::Truth,
        "false",
        "true: rows of the table are neither changed nor deleted. per_unit rests on this word: if \
            it is wrong, a unit may count in more periods than were paid for.",
        "append_only: true",
    ),
    key(
        "tables.*.unique",
        KeyShape::List,
        "none",
        "Columns that each identify a row, where no unique key of the database says so. Joins on \
            them add the equality of the unit. If it is wrong, answers lack rows; the guarantee \
            holds all the same.",
        "unique: [order_id]",
    ),
    key(
        "tables.*.unique.-",
        KeyShape::Text,
        "",
        "A column of the table.",
        "order_id",
    ),
    key(
        "tables.*.append_only",
        KeyShape::Truth,
        "false",
        "true: rows of the table are neither changed nor deleted. Wanted of each table that says \
            whose rows those of a table with per_unit are.",
        "append_only: true",
    ),
    key(
        "tables.*.constraints",
        KeyShape::Words(&["shown", "refused"]),
        "refused",
        "Of a table that a role writes. shown: who writes may learn, free, from broken unique \
            keys and foreign keys, and from triggers, which rows are there. Else a table that has \
            them is not written.",
        "constraints: shown",
    ),
    key(
        "tables.*.other_columns",
        KeyShape::Words(&["visible", "hidden"]),
        "hidden",
        "visible: columns that are not listed may be used, without bounds or values; also those \
            that the table gets later, from the next start or reload on.",
        "other_columns: visible",
    ),
    key(
        "tables.*.columns",
        KeyShape::Named,
        "none",
        "What is known of the columns.",
        "columns: {price: {bounds: [0, 500]}}",
    ),
    key(
        "tables.*.columns.*",
        KeyShape::WordsOrMap(&["hidden", "visible"]),
        "",
        "hidden: the column does not exist. visible: for conditions, and as a key by threshold. \
            A map: exactly one of bounds, values, domain and visible.",
        "price: {bounds: [0, 500]}",
    ),
    key(
        "tables.*.columns.*.bounds",
        KeyShape::Bounds,
        "",
        "Values are clipped to this range. auto leaves an end to `pgveil bounds`. Never take \
            bounds from the data.",
        "bounds: [0, 500]",
    ),
    key(
        "tables.*.columns.*.unit_total",
        KeyShape::Number,
        "none",
        "The most that one unit's values in this table add up to, without their signs. Sums are \
            clipped to it; a unit beyond it is cut, never trusted.",
        "unit_total: 20000",
    ),
    key(
        "tables.*.columns.*.values",
        KeyShape::Values,
        "",
        "The values that groups are listed by.",
        "values: [north, south]",
    ),
    key(
        "tables.*.columns.*.domain",
        KeyShape::Text,
        "",
        "The same, read from a column of a public table.",
        "domain: shop.products.product_id",
    ),
    key(
        "tables.*.columns.*.visible",
        KeyShape::Truth,
        "",
        "true: for conditions, and as a key by threshold. false: hidden.",
        "visible: true",
    ),
    key(
        "tables.*.columns.*.collected",
        KeyShape::Map,
        "none",
        "The values were randomised before they were stored: how. Counts, sums and averages are \
            estimated from them. Values, domain or bounds are then those of the true values.",
        "collected: {mechanism: krr, epsilon: 1}",
    ),
    required_key(
        "tables.*.columns.*.collected.mechanism",
        KeyShape::Words(&["coin", "krr", "unary", "mean", "rappor"]),
        "coin: of two values, a coin decides whether the true one is stored. krr: of a list, the \
            true one is the likeliest. unary: a boolean a value. mean: one bit for a number. \
            rappor: the bits of a filter, for long lists.",
        "mechanism: krr",
    ),
    key(
        "tables.*.columns.*.collected.epsilon",
        KeyShape::Number,
        "",
        "Of krr, unary and mean: what a report costs its person. At most 50.",
        "epsilon: 1",
    ),
    key(
        "tables.*.columns.*.collected.truth",
        KeyShape::Text,
        "",
        "Of coin: the probability that the true value is stored, whatever it is.",
        "truth: 1/2",
    ),
    key(
        "tables.*.columns.*.collected.yes",
        KeyShape::Text,
        "",
        "Of coin: the probability that the second value is stored where the coin does not tell \
            the truth.",
        "yes: 1/2",
    ),
    key(
        "tables.*.columns.*.collected.one",
        KeyShape::Text,
        "",
        "Of unary, in place of epsilon: the probability that the true value's bit is set.",
        "one: 1/2",
    ),
    key(
        "tables.*.columns.*.collected.zero",
        KeyShape::Text,
        "",
        "Of unary, in place of epsilon: the probability that another value's bit is set.",
        "zero: 1/4",
    ),
    key(
        "tables.*.columns.*.collected.bits",
        KeyShape::Count(1, 256),
        "",
        "Of rappor: the bits of a report, at most 256. The column is bit(bits) or bit varying.",
        "bits: 128",
    ),
    key(
        "tables.*.columns.*.collected.hashes",
        KeyShape::Count(1, 16),
        "",
        "Of rappor: how many bits a value sets, at most 16.",
        "hashes: 2",
    ),
    key(
        "tables.*.columns.*.collected.cohorts",
        KeyShape::Count(1, 8192),
        "",
        "Of rappor: the number of cohorts. Cohorts times bits are at most 8,192.",
        "cohorts: 64",
    ),
    key(
        "tables.*.columns.*.collected.f",
        KeyShape::Text,
        "",
        "Of rappor: the probability that a permanent bit is a coin.",
        "f: 1/2",
    ),
    key(
        "tables.*.columns.*.collected.p",
        KeyShape::Text,
        "",
        "Of rappor: the probability that a bit is set where the permanent one is clear.",
        "p: 1/2",
    ),
    key(
        "tables.*.columns.*.collected.q",
        KeyShape::Text,
        "",
        "Of rappor: the probability that a bit is set where the permanent one is set. Above p.",
        "q: 3/4",
    ),
    key(
        "tables.*.columns.*.collected.cohort",
        KeyShape::Text,
        "",
        "Of rappor: the integer column of the same table with each report's cohort, from 0. It \
            must be visible, without values or bounds.",
        "cohort: page_cohort",
    ),
    key(
        "tables.*.columns.*.local",
        KeyShape::Map,
        "none",
        "As collected, where pgveil itself randomises the values that roles write, on the way to \
            the database. NULL is refused unless the column has nullable: true.",
        "local: {mechanism: krr, epsilon: 1}",
    ),
    required_key(
        "tables.*.columns.*.local.mechanism",
        KeyShape::Words(&["coin", "krr", "unary", "mean", "rappor"]),
        "As collected.mechanism. rappor needs local.secret.",
        "mechanism: krr",
    ),
    key(
        "tables.*.columns.*.local.epsilon",
        KeyShape::Number,
        "",
        "Of krr, unary and mean: the most that a report costs its person. At most 20.",
        "epsilon: 1",
    ),
    key(
        "tables.*.columns.*.local.truth",
        KeyShape::Text,
        "",
        "Of coin, as collected.truth; below 1.",
        "truth: 1/2",
    ),
    key(
        "tables.*.columns.*.local.yes",
        KeyShape::Text,
        "",
        "Of coin, as collected.yes; above 0 and below 1.",
        "yes: 1/2",
    ),
    key(
        "tables.*.columns.*.local.one",
        KeyShape::Text,
        "",
        "Of unary, in place of epsilon, as collected.one; below 1.",
        "one: 1/2",
    ),
    key(
        "tables.*.columns.*.local.zero",
        KeyShape::Text,
        "",
        "Of unary, in place of epsilon, as collected.zero; above 0.",
        "zero: 1/4",
    ),
    key(
        "tables.*.columns.*.local.bits",
        KeyShape::Count(1, 256),
        "",
        "Of rappor, as collected.bits.",
        "bits: 128",
    ),
    key(
        "tables.*.columns.*.local.hashes",
        KeyShape::Count(1, 16),
        "",
        "Of rappor, as collected.hashes.",
        "hashes: 2",
    ),
    key(
        "tables.*.columns.*.local.cohorts",
        KeyShape::Count(1, 8192),
        "",
        "Of rappor, as collected.cohorts.",
        "cohorts: 64",
    ),
    key(
        "tables.*.columns.*.local.f",
        KeyShape::Text,
        "",
        "Of rappor, as collected.f; above 0.",
        "f: 1/2",
    ),
    key(
        "tables.*.columns.*.local.p",
        KeyShape::Text,
        "",
        "Of rappor, as collected.p.",
        "p: 1/2",
    ),
    key(
        "tables.*.columns.*.local.q",
        KeyShape::Text,
        "",
        "Of rappor, as collected.q.",
        "q: 3/4",
    ),
    key(
        "tables.*.columns.*.local.cohort",
        KeyShape::Text,
        "",
        "Of rappor, as collected.cohort. pgveil writes the cohort of the row's unit there.",
        "cohort: page_cohort",
    ),
    key(
        "tables.*.columns.*.nullable",
        KeyShape::Truth,
        "",
        "false: check makes sure that the catalog has a valid NOT NULL constraint. true, of a \
            column with local: NULL may be written, as it is; it says that there is no report.",
        "nullable: false",
    ),
    key(
        "tables.*.columns.*.complete",
        KeyShape::Truth,
        "false",
        "true: no other value than the listed ones occurs.",
        "complete: true",
    ),
    key(
        "tables.*.columns.*.also",
        KeyShape::Names,
        "",
        "Further columns for which all of this holds, each for itself.",
        "also: [q2, q3, q4]",
    ),
];
