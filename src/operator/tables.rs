//! The tables and commands of operators: the one list behind the admin database, its help and
//! docs/operations.md. Columns are only ever added.

use std::fmt::Write;

use crate::policy::Rights;

/// A table of SHOW.
#[derive(Debug, PartialEq)]
pub struct ShowTable {
    pub name: &'static str,
    pub rights: Rights,
    pub says: &'static str,
    /// Names and meanings.
    pub columns: &'static [(&'static str, &'static str)],
}

/// A command that changes something.
#[derive(Debug, PartialEq)]
pub struct ActCommand {
    pub form: &'static str,
    pub rights: Rights,
    pub says: &'static str,
}

const fn show_table(
    name: &'static str,
    rights: Rights,
    says: &'static str,
    columns: &'static [(&'static str, &'static str)],
) -> ShowTable {
    ShowTable {
        name,
        rights,
        says,
        columns,
    }
}

/// Each SHOW.
pub static SHOWN: [ShowTable; 13] = [
    show_table(
        "HELP",
        Rights::Watch,
        "these commands",
        &[
            ("command", "as it is written"),
            ("may", "the right that it needs"),
            ("meaning", "what it shows or does"),
        ],
    ),
    show_table(
        "VERSION",
        Rights::Watch,
        "versions, and since when the process runs",
        &[("name", "of what"), ("value", "its version, or the time")],
    ),
    show_table(
        "ROLES",
        Rights::Watch,
        "who may ask",
        &[
            ("role", "its name"),
            ("sessions", "open now"),
            ("certificate", "whether its clients must show one"),
        ],
    ),
    show_table(
        "ACCOUNTS",
        Rights::Own,
        "what each account has spent and has left",
        &[
            ("account", "the role; (owner) for the total of all"),
            ("left", "the share of the budget that is left, from 0 to 1"),
            (
                "epsilon_spent",
                "in its whole life; empty without a pure bound",
            ),
            ("mu_spent", "in its whole life"),
            ("delta_spent", "in its whole life"),
            ("failures", "counted for the role"),
            ("renews", "the day on which the budget renews"),
            ("state", "open, frozen, or refused by the total"),
        ],
    ),
    show_table(
        "SESSIONS",
        Rights::Watch,
        "open sessions, never what they ask",
        &[
            (
                "id",
                "the number that KILL takes; pg_backend_pid() in the session",
            ),
            ("role", "who logged in"),
            ("kind", "role or operator"),
            ("address", "where the client is"),
            ("application", "what the client calls itself"),
            ("tls", "whether the connection is encrypted"),
            ("since", "the login, UTC"),
            ("state", "idle, idle in transaction, or running"),
            ("statements", "how many the session has asked"),
        ],
    ),
    show_table(
        "POOLS",
        Rights::Watch,
        "connections to the database and to the shadow",
        &[
            ("pool", "which server"),
            ("used", "connections in use"),
            ("size", "the most there are"),
        ],
    ),
    show_table(
        "LEDGER",
        Rights::Watch,
        "the ledger's identity, height, format and last backup",
        &[("name", "of what"), ("value", "its value")],
    ),
    show_table(
        "POLICY",
        Rights::Watch,
        "the policy in force, by its digest",
        &[("name", "of what"), ("value", "its value")],
    ),
    show_table(
        "SEARCHES",
        Rights::Own,
        "what the policy leaves to searches",
        &[("search", "its table, and column"), ("state", "found")],
    ),
    show_table(
        "STATS",
        Rights::Watch,
        "counters of metrics, without times",
        &[
            ("name", "of the metric"),
            ("labels", "as in /metrics"),
            ("value", "the count"),
        ],
    ),
    show_table(
        "TABLES",
        Rights::Own,
        "tables of the policy",
        &[
            ("table", "schema and name"),
            ("kind", "private or public"),
            (
                "changed",
                "whether its definition has changed since the policy was loaded",
            ),
        ],
    ),
    show_table(
        "CERTIFICATES",
        Rights::Watch,
        "the certificate file of --tls-cert, as it is now",
        &[
            ("file", "its path"),
            ("not_after", "when it ends, UTC"),
            ("days", "how many days are left"),
        ],
    ),
    show_table(
        "ACTS",
        Rights::Watch,
        "the newest hundred acts and policies in force, newest first",
        &[
            ("time", "UTC"),
            ("who", "the operator, or the user of a command"),
            (
                "act",
                "kill, drain, reload, freeze, unfreeze, grant, audit; policy for one in force",
            ),
            ("target", "what it was done to; of a policy its digest"),
            ("why", "the reason; of a policy start or reload"),
            ("via", "wire, console or command"),
            ("address", "from where"),
        ],
    ),
];

/// The commands that change something.
pub static ACTS: [ActCommand; 4] = [
    ActCommand {
        form: "RELOAD",
        rights: Rights::Watch,
        says: "reads the policy and the certificates again, as SIGHUP does",
    },
    ActCommand {
        form: "DRAIN",
        rights: Rights::Watch,
        says: "takes no more connections, lets running statements end, and stops, as SIGTERM does",
    },
    ActCommand {
        form: "KILL id",
        rights: Rights::Watch,
        says: "ends a session; what was charged stays charged",
    },
    ActCommand {
        form: "FREEZE role 'why'",
        rights: Rights::Own,
        says: "stops charges to a role (ALL: to every role) until `pgveil budget unfreeze`",
    },
];

/// How a right is written in the policy.
pub fn right(rights: Rights) -> &'static str {
    match rights {
        Rights::Watch => "watch",
        Rights::Own => "own",
    }
}

/// The list as docs/operations.md has it.
pub fn reference() -> String {
    let mut text = String::from("| command | may | what it shows or does | columns |\n");
    text += "|---|---|---|---|\n";
    for shown in &SHOWN {
        let columns: Vec<String> = shown
            .columns
            .iter()
            .map(|(name, says)| format!("`{name}`: {says}"))
            .collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `SHOW {}` | `{}` | {} | {} |",
            shown.name,
            right(shown.rights),
            shown.says,
            columns.join("; ")
        );
    }
    for ActCommand { form, rights, says } in &ACTS {
        let _ = writeln!(text, "| `{form}` | `{}` | {says} | |", right(*rights));
    }
    text
}
