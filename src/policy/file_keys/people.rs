//! The people of a policy: roles and operators.

use super::shape::{KeyShape, PolicyKey, key, required_key};

pub(super) const KEYS: &[PolicyKey] = &[
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
        KeyShape::WordsOrMap(&["none"]),
        "What the role may spend, at most the owner's. none: it asks nothing about tables, and \
            only writes.",
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
        "roles.-.writes",
        KeyShape::List,
        "none",
        "The private tables that the role may INSERT into; each has columns with `local`.",
        "writes: [survey.answers]",
    ),
    required_key(
        "roles.-.writes.-",
        KeyShape::Text,
        "A table, as schema.table.",
        "survey.answers",
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
        "local",
        KeyShape::Map,
        "none",
        "How reports of columns with `local` are made. Needed where a role writes.",
        "local: {secret: ${PGVEIL_LOCAL_SECRET}}",
    ),
    key(
        "local.secret",
        KeyShape::Text,
        "none",
        "The key of memoised reports, of at least 32 bytes: the same value of the same unit has \
            the same report for ever. Keep it apart from the database, and never change it.",
        "secret: ${PGVEIL_LOCAL_SECRET}",
    ),
    key(
        "local.memo",
        KeyShape::Truth,
        "true",
        "false: every report is drawn anew, and the epsilons of a unit's reports add up.",
        "memo: true",
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
];
