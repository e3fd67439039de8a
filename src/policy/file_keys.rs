//! Every key of the policy file: its place, its values, its meaning. `pgveil policy schema` and
//! `pgveil policy explain` are made from this table; a test holds it to what the reader asks for,
//! and docs/policy.md to it.

mod shape;

use super::session_settings::SESSION_SETTINGS;
pub use shape::{KeyShape, PolicyKey};
use shape::{key, required_key};

/// The keys, each below its parent.
pub static KEYS: &[PolicyKey] = &[
    required_key(
        "version",
        KeyShape::Count(1, 1),
        "The version of the format.",
        "version: 1",
    ),
    key(
        "database",
        KeyShape::Map,
        "DATABASE_URL",
        "Where the data are.",
        "database: {url: ${DATABASE_URL}}",
    ),
    required_key(
        "database.url",
        KeyShape::Text,
        "The database; its role needs SELECT on tables that the policy shows, and nothing else.",
        "url: ${DATABASE_URL}",
    ),
    key(
        "ledger",
        KeyShape::Map,
        "",
        "What has been spent, for ever. `pgveil serve` needs it.",
        "ledger: {url: ${PGVEIL_LEDGER}}",
    ),
    required_key(
        "ledger.url",
        KeyShape::Text,
        "A SQLite file of one proxy, or a PostgreSQL that several share. Never restore it to an \
            older state: that gives budget back.",
        "url: sqlite:///var/lib/pgveil/ledger.db",
    ),
    key(
        "ledger.witness",
        KeyShape::TextOrTexts,
        "no witness",
        "Says how far the ledger has come, from another disk: a small file, a row in another \
            PostgreSQL, or a list of such. A ledger that is behind one is an older copy, and not \
            opened.",
        "witness: file:///srv/witness/pgveil.witness",
    ),
    key(
        "ledger.same_disk",
        KeyShape::Truth,
        "false",
        "Whether a witness may lie on the ledger's disk or server. Whoever sets that back sets \
            both back.",
        "same_disk: true",
    ),
    key(
        "shadow",
        KeyShape::Map,
        "pgveil starts one itself",
        "An empty PostgreSQL for types, catalogs and outer queries.",
        "shadow: {url: ${SHADOW_URL}}",
    ),
    required_key(
        "shadow.url",
        KeyShape::Text,
        "A second server of the same major version and locale, with an empty database.",
        "url: ${SHADOW_URL}",
    ),
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
    required_key(
        "roles",
        KeyShape::List,
        "Who may ask, and what each may spend.",
        "roles: [{name: analyst, password: …, budget: {epsilon: 3, delta: 1e-7}}]",
    ),
    required_key(
        "roles.-",
        KeyShape::Map,
        "A role.",
        "{name: analyst, password: …, budget: {epsilon: 3, delta: 1e-7}}",
    ),
    required_key(
        "roles.-.name",
        KeyShape::Text,
        "The user name that clients log in with; at most 63 bytes.",
        "name: analyst",
    ),
    required_key(
        "roles.-.password",
        KeyShape::Text,
        "A SCRAM-SHA-256 verifier, as `pgveil password` makes it; never the password itself.",
        "password: SCRAM-SHA-256$…",
    ),
    required_key(
        "roles.-.budget",
        KeyShape::Map,
        "What the role may spend, at most the owner's.",
        "budget: {epsilon: 3, delta: 1e-7, renew: never}",
    ),
    required_key(
        "roles.-.budget.epsilon",
        KeyShape::Number,
        "The role's epsilon.",
        "epsilon: 3",
    ),
    key(
        "roles.-.budget.delta",
        KeyShape::Share,
        "0 under accounting: pure, else required",
        "The role's delta.",
        "delta: 1e-7",
    ),
    key(
        "roles.-.budget.renew",
        KeyShape::Words(&["never", "weekly", "monthly"]),
        "never",
        "When the budget renews. Periods add up, to the owner's total at most.",
        "renew: never",
    ),
    key(
        "roles.-.certificate",
        KeyShape::Words(&["optional", "required"]),
        "optional",
        "Whether the client must show a certificate made out to the role's name, with the \
            password.",
        "certificate: required",
    ),
    key(
        "roles.-.reuse",
        KeyShape::Words(&["always", "chosen"]),
        "chosen",
        "always: the same question always gets its stored answer. chosen: the session's \
            pgveil.reuse decides.",
        "reuse: always",
    ),
    key(
        "roles.-.settings",
        KeyShape::Map,
        "none",
        "What the role's sessions start with: the settings without `pgveil.`, and search_path.",
        "settings: {epsilon: 0.5, notices: cost}",
    ),
    key(
        "roles.-.settings.search_path",
        KeyShape::Text,
        "\"$user\", public",
        "The schemas of names without one.",
        "search_path: \"sales, public\"",
    ),
    key(
        "operators",
        KeyShape::List,
        "none",
        "Who watches the proxy, or acts for the data's owner. Operators ask nothing about data.",
        "operators: [{name: olga, password: …, may: [watch, own]}]",
    ),
    required_key(
        "operators.-",
        KeyShape::Map,
        "An operator. The name is no role's.",
        "{name: olga, password: …, may: [watch]}",
    ),
    required_key(
        "operators.-.name",
        KeyShape::Text,
        "The name that the operator logs in with; at most 63 bytes, and no role's.",
        "name: olga",
    ),
    required_key(
        "operators.-.password",
        KeyShape::Text,
        "A SCRAM-SHA-256 verifier, as `pgveil password` makes it; never the password itself.",
        "password: SCRAM-SHA-256$…",
    ),
    required_key(
        "operators.-.may",
        KeyShape::List,
        "[watch]: sessions, health. [watch, own]: also budgets, statements, policy, freezes.",
        "may: [watch, own]",
    ),
    required_key(
        "operators.-.may.-",
        KeyShape::Words(&["watch", "own"]),
        "A right.",
        "watch",
    ),
    key(
        "operators.-.certificate",
        KeyShape::Words(&["optional", "required"]),
        "optional",
        "Whether the operator must show a certificate made out to this name, with the password.",
        "certificate: required",
    ),
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
        "tables.*.columns.*.nullable",
        KeyShape::Truth,
        "",
        "false: check makes sure that the catalog has a valid NOT NULL constraint.",
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
        KeyShape::Names,
        "Columns that its groups have, and that questions may ask by. All of their values are \
            known: complete lists, truth values, whole numbers and dates with bounds.",
        "keys: [race, birth_year, college_graduate]",
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
        "The sets of keys that questions may use together: `all 2` is every pair, and a list of \
            lists names each set.",
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
        "In place of epsilon: the standard error of a count, where it is largest.",
        "error: 20",
    ),
    key(
        "summaries.*.roles",
        KeyShape::Names,
        "all",
        "The roles that may receive it.",
        "roles: [analyst]",
    ),
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
        "limits.statement_timeout",
        KeyShape::Time,
        "60s",
        "How long the database may work on one statement.",
        "statement_timeout: 60s",
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
        KeyShape::Words(&["refused", "empty"]),
        "refused",
        "empty: a preview of private rows answers its columns and no row, with a notice.",
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

/// The settings that a role's `settings` may hold, apart from `search_path`, with what they mean.
pub fn settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    SESSION_SETTINGS
        .iter()
        .filter_map(|setting| Some((setting.name.strip_prefix("pgveil.")?, setting.description)))
}
