//! The settings a session knows, with PostgreSQL's names and defaults.

use crate::policy::{SESSION_SETTINGS, SessionSetting};

/// The values that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingKind {
    /// Fixed by the server.
    Preset,
    Encoding,
    Bool,
    Integer {
        min: i64,
        max: i64,
    },
    /// Milliseconds, with PostgreSQL's units.
    Duration,
    /// One of these words.
    Choice(&'static [&'static str]),
    DateStyle,
    TimeZone,
    SearchPath,
    /// Kept and cut to 63 bytes, non-printing characters replaced.
    Name,
    /// Kept as it is: no effect here.
    Text,
    /// One of the settings `pgveil.*`: [`crate::policy::SessionSettings`] reads them.
    Session,
}

#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) kind: SettingKind,
    pub(super) default: &'static str,
    /// Whether clients hear of it by ParameterStatus.
    pub(super) reported: bool,
    pub(super) description: &'static str,
}

const LEVELS: SettingKind = SettingKind::Choice(&[
    "serializable",
    "repeatable read",
    "read committed",
    "read uncommitted",
]);
const MESSAGES: SettingKind = SettingKind::Choice(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error",
]);

const fn reported_setting(
    name: &'static str,
    kind: SettingKind,
    default: &'static str,
    description: &'static str,
) -> Known {
    Known {
        name,
        kind,
        default,
        reported: true,
        description,
    }
}

const fn quiet(
    name: &'static str,
    kind: SettingKind,
    default: &'static str,
    description: &'static str,
) -> Known {
    Known {
        name,
        kind,
        default,
        reported: false,
        description,
    }
}

/// PostgreSQL's, then `pgveil.*`.
pub(super) static KNOWN: [Known; POSTGRESQL.len() + SESSION_SETTINGS.len()] = {
    let mut all = [POSTGRESQL[0]; POSTGRESQL.len() + SESSION_SETTINGS.len()];
    let mut at = 1;
    while at < all.len() {
        all[at] = match at < POSTGRESQL.len() {
            true => POSTGRESQL[at],
            false => session(&SESSION_SETTINGS[at - POSTGRESQL.len()]),
        };
        at += 1;
    }
    all
};

const fn session(setting: &SessionSetting) -> Known {
    quiet(
        setting.name,
        SettingKind::Session,
        setting.default,
        setting.description,
    )
}

const POSTGRESQL: &[Known] = &[
    reported_setting(
        "server_version",
        SettingKind::Preset,
        "",
        "Shows the server version.",
    ),
    reported_setting(
        "server_encoding",
        SettingKind::Preset,
        "UTF8",
        "Shows the server (database) character set encoding.",
    ),
    reported_setting(
        "client_encoding",
        SettingKind::Encoding,
        "UTF8",
        "Sets the client's character set encoding.",
    ),
    reported_setting(
        "application_name",
        SettingKind::Name,
        "",
        "Sets the application name to be reported in logs.",
    ),
    reported_setting(
        "is_superuser",
        SettingKind::Preset,
        "off",
        "Shows whether the current user is a superuser.",
    ),
    reported_setting(
        "session_authorization",
        SettingKind::Preset,
        "",
        "Shows the session user name.",
    ),
    reported_setting(
        "DateStyle",
        SettingKind::DateStyle,
        "ISO, MDY",
        "Sets the display format for date and time values.",
    ),
    reported_setting(
        "IntervalStyle",
        SettingKind::Choice(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "postgres",
        "Sets the display format for interval values.",
    ),
    reported_setting(
        "TimeZone",
        SettingKind::TimeZone,
        "UTC",
        "Sets the time zone for displaying and interpreting time stamps.",
    ),
    reported_setting(
        "integer_datetimes",
        SettingKind::Preset,
        "on",
        "Shows whether datetimes are integer based.",
    ),
    reported_setting(
        "standard_conforming_strings",
        SettingKind::Choice(&["on"]),
        "on",
        "Causes '...' strings to treat backslashes literally.",
    ),
    reported_setting(
        "in_hot_standby",
        SettingKind::Preset,
        "off",
        "Shows whether hot standby is currently active.",
    ),
    reported_setting(
        "default_transaction_read_only",
        SettingKind::Bool,
        "off",
        "Sets the default read-only status of new transactions.",
    ),
    reported_setting(
        "search_path",
        SettingKind::SearchPath,
        "\"$user\", public",
        "Sets the schema search order for names that are not schema-qualified.",
    ),
    reported_setting(
        "scram_iterations",
        SettingKind::Preset,
        "4096",
        "Shows the iteration count of SCRAM verifiers.",
    ),
    quiet(
        "backslash_quote",
        SettingKind::Choice(&["safe_encoding", "off"]),
        "safe_encoding",
        "Sets whether \\' is allowed in string literals.",
    ),
    quiet(
        "block_size",
        SettingKind::Preset,
        "8192",
        "Shows the size of a disk block.",
    ),
    quiet(
        "bytea_output",
        SettingKind::Choice(&["hex", "escape"]),
        "hex",
        "Sets the output format for bytea.",
    ),
    quiet(
        "check_function_bodies",
        SettingKind::Bool,
        "on",
        "No effect: nothing is created here.",
    ),
    quiet(
        "client_min_messages",
        MESSAGES,
        "notice",
        "Sets the message levels that are sent to the client.",
    ),
    quiet(
        "default_table_access_method",
        SettingKind::Text,
        "heap",
        "No effect: nothing is created here.",
    ),
    quiet(
        "default_tablespace",
        SettingKind::Text,
        "",
        "No effect: nothing is created here.",
    ),
    quiet(
        "default_text_search_config",
        SettingKind::Text,
        "pg_catalog.english",
        "No effect here.",
    ),
    quiet(
        "default_transaction_deferrable",
        SettingKind::Bool,
        "off",
        "Sets the default deferrable status of new transactions.",
    ),
    quiet(
        "default_transaction_isolation",
        LEVELS,
        "read committed",
        "Sets the isolation level of each new transaction.",
    ),
    quiet("enable_seqscan", SettingKind::Bool, "on", "No effect here."),
    quiet(
        "escape_string_warning",
        SettingKind::Bool,
        "on",
        "No effect here.",
    ),
    quiet(
        "extra_float_digits",
        SettingKind::Integer { min: -15, max: 3 },
        "1",
        "Sets the number of digits displayed for floating-point values.",
    ),
    quiet(
        "idle_in_transaction_session_timeout",
        SettingKind::Duration,
        "0",
        "Sets how long a client may be silent within a transaction.",
    ),
    quiet(
        "idle_session_timeout",
        SettingKind::Duration,
        "0",
        "Sets how long a client may be silent outside a transaction.",
    ),
    quiet("jit", SettingKind::Bool, "on", "No effect here."),
    quiet(
        "lc_collate",
        SettingKind::Preset,
        "C.UTF-8",
        "Shows the collation order locale.",
    ),
    quiet(
        "lc_ctype",
        SettingKind::Preset,
        "C.UTF-8",
        "Shows the character classification locale.",
    ),
    quiet("lc_messages", SettingKind::Text, "C", "No effect here."),
    quiet("lc_monetary", SettingKind::Text, "C", "No effect here."),
    quiet("lc_numeric", SettingKind::Text, "C", "No effect here."),
    quiet("lc_time", SettingKind::Text, "C", "No effect here."),
    quiet(
        "lock_timeout",
        SettingKind::Duration,
        "0",
        "No effect: nothing is locked here.",
    ),
    quiet(
        "max_identifier_length",
        SettingKind::Preset,
        "63",
        "Shows the maximum identifier length.",
    ),
    quiet(
        "max_index_keys",
        SettingKind::Preset,
        "32",
        "Shows the maximum number of index keys.",
    ),
    quiet(
        "max_parallel_workers_per_gather",
        SettingKind::Integer { min: 0, max: 1024 },
        "2",
        "No effect here.",
    ),
    quiet(
        "password_encryption",
        SettingKind::Preset,
        "scram-sha-256",
        "Shows how passwords are stored.",
    ),
    quiet(
        "plan_cache_mode",
        SettingKind::Choice(&["auto", "force_generic_plan", "force_custom_plan"]),
        "auto",
        "No effect here.",
    ),
    quiet(
        "quote_all_identifiers",
        SettingKind::Choice(&["off"]),
        "off",
        "When generating SQL fragments, quote all identifiers.",
    ),
    quiet(
        "role",
        SettingKind::Preset,
        "none",
        "Shows the current role.",
    ),
    quiet("row_security", SettingKind::Bool, "on", "No effect here."),
    quiet(
        "server_version_num",
        SettingKind::Preset,
        "",
        "Shows the server version as an integer.",
    ),
    quiet(
        "statement_timeout",
        SettingKind::Duration,
        "0",
        "Sets how long the client waits for a statement.",
    ),
    quiet(
        "synchronize_seqscans",
        SettingKind::Bool,
        "on",
        "No effect here.",
    ),
    quiet(
        "synchronous_commit",
        SettingKind::Text,
        "on",
        "No effect here.",
    ),
    quiet(
        "transaction_deferrable",
        SettingKind::Bool,
        "off",
        "Whether the current transaction is deferrable.",
    ),
    quiet(
        "transaction_isolation",
        LEVELS,
        "read committed",
        "Sets the current transaction's isolation level.",
    ),
    quiet(
        "transaction_read_only",
        SettingKind::Bool,
        "off",
        "Sets the current transaction's read-only status.",
    ),
    quiet(
        "transaction_timeout",
        SettingKind::Duration,
        "0",
        "No effect here.",
    ),
    quiet("work_mem", SettingKind::Text, "4MB", "No effect here."),
    quiet(
        "xmloption",
        SettingKind::Choice(&["content", "document"]),
        "content",
        "No effect here.",
    ),
];
