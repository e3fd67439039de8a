//! The relations `pgveil.*` that an analyst may read: the limits on queries, and the spending so
//! far. Their rows are facts of the policy, the session and the role's own account; none comes from
//! a private table.

use crate::catalog::Type;

/// The schema of the views, in the shadow and in the analyst's eyes.
pub const SCHEMA: &str = "pgveil";

/// One of the views: its name and its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub kind: ViewKind,
    pub name: &'static str,
    pub columns: &'static [(&'static str, Type)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ViewKind {
    /// The role's account: one row.
    Budget,
    /// The role's debits, newest first.
    History,
    Tables,
    Columns,
    Settings,
    /// How far off a count, a sum and an average of each private table are, and how many of them
    /// the role's budget holds.
    Worth,
    /// The guarantee for units that act together, from the role's budget and from its spending.
    GroupPrivacy,
    /// What the guarantee of `GroupPrivacy` means, in words.
    Meaning,
    /// The summaries that the role may receive.
    Summaries,
    /// The role's monitors in this process.
    Monitors,
    /// The holdouts, with what the role has opened of them.
    Holdouts,
    /// The tables with periods, and the horizons that the role has paid for.
    Periods,
}

/// The functions of an aggregate's error: its standard error, the ends of its interval, and what
/// clips took.
pub const STATISTICS: [&str; 4] = ["stderr", "ci_low", "ci_high", "low_by"];

/// Every view.
pub static VIEWS: [View; 12] = [
    View {
        kind: ViewKind::Budget,
        name: "budget",
        columns: &[
            ("role", Type::Text),
            ("accounting", Type::Text),
            ("epsilon", Type::Float8),
            ("delta", Type::Float8),
            ("fraction_left", Type::Float8),
            ("epsilon_spent", Type::Float8),
            ("mu_spent", Type::Float8),
            ("rho_spent", Type::Float8),
            ("delta_spent", Type::Float8),
            ("queries_failed", Type::Int4),
            ("queries_failed_max", Type::Int4),
            ("renew", Type::Text),
            ("renews_at", Type::Timestamptz),
            ("epsilon_granted", Type::Float8),
            ("delta_granted", Type::Float8),
            ("frozen", Type::Bool),
            ("epsilon_lifetime", Type::Float8),
            ("mu_lifetime", Type::Float8),
            ("rho_lifetime", Type::Float8),
            ("delta_lifetime", Type::Float8),
        ],
    },
    View {
        kind: ViewKind::History,
        name: "history",
        columns: &[
            ("asked_at", Type::Timestamptz),
            ("epsilon", Type::Float8),
            ("mu", Type::Float8),
            ("rho", Type::Float8),
            ("delta", Type::Float8),
            ("plan", Type::Text),
        ],
    },
    View {
        kind: ViewKind::Tables,
        name: "tables",
        columns: &[
            ("table_schema", Type::Text),
            ("table_name", Type::Text),
            ("is_private", Type::Bool),
            ("unit", Type::Text),
            ("unit_column", Type::Text),
            ("unit_path", Type::Text),
            ("rows_per_unit", Type::Int4),
        ],
    },
    View {
        kind: ViewKind::Columns,
        name: "columns",
        columns: &[
            ("table_schema", Type::Text),
            ("table_name", Type::Text),
            ("column_name", Type::Text),
            ("ordinal_position", Type::Int4),
            ("data_type", Type::Text),
            ("is_nullable", Type::Bool),
            ("lower_bound", Type::Text),
            ("upper_bound", Type::Text),
            ("unit_total", Type::Float8),
            ("ceiling", Type::Float8),
            ("values_known", Type::Int4),
            ("known_values", Type::Text),
            ("may_be_summed", Type::Bool),
            ("group_by", Type::Text),
            ("local", Type::Text),
            ("summarized_by", Type::Text),
        ],
    },
    View {
        kind: ViewKind::Settings,
        name: "settings",
        columns: &[
            ("name", Type::Text),
            ("setting", Type::Text),
            ("at_most", Type::Text),
            ("description", Type::Text),
        ],
    },
    View {
        kind: ViewKind::Worth,
        name: "worth",
        columns: &[
            ("table_schema", Type::Text),
            ("table_name", Type::Text),
            ("column_name", Type::Text),
            ("aggregate", Type::Text),
            ("epsilon", Type::Float8),
            ("error_95", Type::Float8),
            ("error_units", Type::Float8),
            ("clip", Type::Text),
            ("is_useless", Type::Bool),
            ("answers", Type::Int8),
            ("answers_left", Type::Int8),
            ("advice", Type::Text),
        ],
    },
    View {
        kind: ViewKind::GroupPrivacy,
        name: "group_privacy",
        columns: &[
            ("account", Type::Text),
            ("k", Type::Int4),
            ("epsilon", Type::Float8),
            ("mu", Type::Float8),
            ("epsilon_at_delta", Type::Float8),
            ("delta", Type::Float8),
            ("odds", Type::Float8),
            ("from_1_percent", Type::Float8),
            ("from_50_percent", Type::Float8),
            ("power_at_5_percent", Type::Float8),
        ],
    },
    View {
        kind: ViewKind::Meaning,
        name: "meaning",
        columns: &[("line", Type::Text)],
    },
    View {
        kind: ViewKind::Summaries,
        name: "summaries",
        columns: &[
            ("summary_name", Type::Text),
            ("table_schema", Type::Text),
            ("table_name", Type::Text),
            ("keys", Type::Text),
            ("measures", Type::Text),
            ("marginals", Type::Text),
            ("groups", Type::Int8),
            ("standard_error", Type::Float8),
            ("value_error", Type::Float8),
            ("prefix_error", Type::Float8),
            ("epsilon", Type::Float8),
            ("mu", Type::Float8),
            ("held", Type::Bool),
            ("made", Type::Bool),
        ],
    },
    View {
        kind: ViewKind::Monitors,
        name: "monitors",
        columns: &[
            ("monitor_name", Type::Text),
            ("epsilon", Type::Float8),
            ("opened_at", Type::Timestamptz),
            ("asked", Type::Int8),
            ("last_answer", Type::Bool),
            ("is_open", Type::Bool),
        ],
    },
    View {
        kind: ViewKind::Holdouts,
        name: "holdouts",
        columns: &[
            ("table_schema", Type::Text),
            ("table_name", Type::Text),
            ("rows", Type::Int8),
            ("tolerance", Type::Float8),
            ("scale", Type::Float8),
            ("epsilon", Type::Float8),
            ("overflows", Type::Int8),
            ("opened", Type::Int8),
            ("opened_at", Type::Timestamptz),
            ("asked", Type::Int8),
            ("is_open", Type::Bool),
        ],
    },
    View {
        kind: ViewKind::Periods,
        name: "periods",
        columns: &[
            ("table_schema", Type::Text),
            ("table_name", Type::Text),
            ("period", Type::Text),
            ("since", Type::Timestamptz),
            ("closed_to", Type::Timestamptz),
            ("periods_per_unit", Type::Int8),
            ("horizon", Type::Int8),
            ("question", Type::Text),
            ("horizon_end", Type::Timestamptz),
            ("drawn_to", Type::Timestamptz),
            ("mu", Type::Float8),
        ],
    },
];

/// The view of this name.
pub fn view(name: &str) -> Option<&'static View> {
    VIEWS.iter().find(|view| view.name == name)
}

impl ViewKind {
    pub fn view(self) -> &'static View {
        &VIEWS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::VIEWS;

    #[test]
    fn each_kind_finds_its_view() {
        for view in &VIEWS {
            assert_eq!(view.kind.view(), view);
        }
    }
}
