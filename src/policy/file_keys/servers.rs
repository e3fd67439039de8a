//! The version of the format, and the servers: the database, the ledger and the shadow.

use super::shape::{KeyShape, PolicyKey, key, required_key};

pub(super) const KEYS: &[PolicyKey] = &[
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
        "database.write_url",
        KeyShape::Text,
        "none",
        "A login that may INSERT into the tables that roles write, and nothing else: the start \
            proves it. Needed where a role writes.",
        "write_url: ${DATABASE_WRITE_URL}",
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
];
