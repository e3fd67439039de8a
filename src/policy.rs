//! Turns the YAML of the data owner into checked units, bounds, domains and budgets.

mod auto_bounds;
mod check;
mod column_position;
mod dictionary;
mod difference;
mod error;
mod file;
mod file_keys;
mod holdouts;
mod periods;
mod record_aggregates;
mod scalar;
mod schema;
mod search_path;
mod secret;
mod session_settings;
mod summaries;
mod target_error;
mod unlisted_columns;
mod version;
mod views;
mod wanted_index;
mod writing;
pub(crate) mod yaml;

pub use auto_bounds::{AutoBound, Finding, ROWS_MAX, Search};
pub use check::{Checked, DomainReader, check, family, read_value, unfit};
pub use column_position::ColumnPosition;
pub use dictionary::{Dictionary, FITTED_MAX, ROUNDS_MAX};
pub use difference::Difference;
pub use error::{At, Location, PolicyError};
pub use file::{
    Certified, ColumnEntry, ColumnRule, File, FileDigest, KeyEntry, Literal, LocalRule, PathStep,
    RowsRule, SummaryEntry, TableEntry, TableRule, UnitRule, names, time_of,
};
pub use file_keys::{KEYS, KeyShape, PolicyKey};
pub use holdouts::Holdout;
pub use periods::{Horizon, Periods, Prepaid, PrepaidAnswers};
pub use record_aggregates::{
    ComponentsField, FieldKind, LogisticField, RECORD_AGGREGATES, RecordAggregate, RecordField,
    RegressionField,
};
pub use scalar::{
    compare as compare_scalars, is_listable, is_ordered, numeric_holds, parse as parse_scalar,
};
pub use schema::{explain as explain_key, key_names, schema};
pub use search_path::{path_names, path_of, schemas};
pub use secret::Secret;
pub use session_settings::{
    Ceilings, ClipChoice, Hints, KeyChoice, Notices, OpenPeriods, Reuse, SESSION_SETTINGS,
    SessionSetting, SessionSettings, UselessMode, Widen, unknown as unknown_setting,
};
pub use summaries::{
    Accuracy, BIN_SCALE_MAX, KEY_STEPS_MAX, KeySet, KeySource, Marginals, SelectedSets, Summary,
    SummaryColumn, SummaryKey, SummaryMeasure, candidate_sets, combinations, path_to_unit, rounds,
    with_subsets,
};
pub use target_error::{StatementAggregate, TargetError, TargetErrors};
pub use unlisted_columns::{Unlisted, find_unlisted, newly_shown};
pub use version::{digest, undated_digest};
pub use views::{SCHEMA as VIEW_SCHEMA, STATISTICS, VIEWS, View, ViewKind, view};
pub use wanted_index::WantedIndex;
pub use writing::{
    Local, TableName, ValuePlaces, Writing, WrittenCohorts, WrittenColumn, WrittenFilter,
    WrittenTable,
};

use std::sync::Arc;

use crate::catalog::{
    Collation, Content, ForeignKey, Index, TableFingerprint, Type, UniqueKey, UserType,
};
use crate::mechanism::{Cap, CapError, Fixed, OneBit, Randomiser};

/// The largest epsilon of a budget, of a grant, or of one query. It keeps every sum of losses far
/// below the range of [`Fixed`].
pub const EPSILON_MAX: f64 = 1e9;

/// A total privacy budget, or a share of one: what the owner wrote, in the field's usual pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Above 0, and at most [`EPSILON_MAX`].
    pub epsilon: f64,
    /// In (0, 1) for `gdp` and `zcdp`; 0 is allowed for `pure`.
    pub delta: f64,
}

pub use crate::mechanism::Accounting;

/// What an account of this budget may spend, everything rounded down.
///
/// # Errors
/// Where the budget leaves nothing to spend.
pub fn cap(budget: Budget, threshold_share: f64, accounting: Accounting) -> Result<Cap, CapError> {
    let fixed = Fixed::round_down;
    Cap::new(
        fixed(budget.epsilon),
        fixed(budget.delta),
        fixed(threshold_share),
        accounting,
    )
}

/// When a role's budget renews: at 00:00 UTC on Mondays, or on the first of the month. Earlier
/// answers stay known, so the losses of periods add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Renew {
    #[default]
    Never,
    Weekly,
    Monthly,
}

impl Renew {
    /// The name in policies and ledgers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Privacy {
    /// A word for one person or thing that is protected, used in messages.
    pub unit: String,
    /// The owner's total, over every role, for ever.
    pub budget: Budget,
    /// Epsilon of one query where the analyst sets none, and the most one may set.
    pub epsilon_default: f64,
    pub epsilon_max: f64,
    /// The least one may spend: with the budgets it bounds how many questions there are.
    pub epsilon_min: f64,
    pub accounting: Accounting,
    /// Share of delta kept for keys released by threshold, in (0, 1).
    pub threshold_share: f64,
    /// The operator's declaration of which data this is; part of the reuse key.
    pub data_version: String,
    /// About how many units there are, a public statement of the owner; > 0.
    pub units: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Role {
    pub name: String,
    /// `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`.
    pub verifier: Secret,
    pub certificate: Certificate,
    pub budget: Budget,
    /// Whether the role may ask about tables. `false`: its budget is `none`, and it only writes.
    pub asks: bool,
    /// The tables that it may write.
    pub writes: Vec<TableName>,
    pub renew: Renew,
    pub reuse: RoleReuse,
    /// The settings that its sessions start with.
    pub session_settings: SessionSettings,
    /// The search_path that its sessions start with, where the policy says it.
    pub search_path: Option<String>,
}

/// Who watches the proxy or acts for the data's owner. Operators ask no question about data.
#[derive(Debug, Clone, PartialEq)]
pub struct Operator {
    pub name: String,
    /// The verifier of the password, of the same form as a role's.
    pub verifier: Secret,
    pub certificate: Certificate,
    pub rights: Rights,
}

/// An operator's rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Sessions and health.
    Watch,
    /// Also budgets, statements and the policy; freeze.
    Own,
}

impl Rights {
    /// An operator's rights, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Own => "watch and act for the owner",
        }
    }
}

/// The answer to a statement that shows rows of a private table and asks for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Previews {
    /// 42501, with the remedy.
    Refused,
    /// The right columns, no row, and a notice: for tools that give up on a table whose preview
    /// fails.
    Empty,
    /// Rows made up from a summary that the role holds; as `Empty` where it holds none.
    Synthetic,
}

/// Whether a role's sessions show a certificate in addition to the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certificate {
    Optional,
    /// One of the operator's authorities, made out to the role's name.
    Required,
}

/// Whether a role may buy an answer that it holds again, with fresh noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleReuse {
    /// The session decides.
    Chosen,
    /// Never: the same question always gets the same answer.
    Always,
}

/// Bounds of a column as decimal text, exactly as PostgreSQL will read them; `lower < upper` is
/// checked in the column's type.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnBounds {
    pub lower: Scalar,
    pub upper: Scalar,
}

/// A constant of a column's type.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    /// A finite decimal: digits without exponent, as PostgreSQL's numeric prints them.
    Decimal(String),
    Text(String),
    /// ISO date (years 0001 to 9999), as days since 2000-01-01.
    Date(i32),
    /// Timestamp without or with time zone (UTC), as microseconds since 2000-01-01.
    Timestamp(i64),
    /// A constant of a query only: its parts, which PostgreSQL keeps apart.
    Interval {
        months: i32,
        days: i32,
        micros: i64,
    },
}

/// One column that the analyst may name.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub data_type: Type,
    /// The domain (CREATE DOMAIN) that the column is declared of; `data_type` is then the type
    /// beneath it.
    pub declared: Option<Type>,
    /// NOT NULL in the catalog.
    pub not_null: bool,
    pub deterministic_collation: bool,
    /// `None` for the database's own, and for types without one.
    pub collation: Option<Collation>,
    pub bounds: Option<ColumnBounds>,
    /// The most that one unit's values in this table add up to, without their signs, each clipped
    /// to `bounds` first. Chooses clips: a unit beyond it is clipped, never trusted.
    pub unit_total: Option<f64>,
    /// The closed list of values (policy `values:`, or read from the public table of `domain:`), in
    /// the order they are shown.
    pub domain: Option<Vec<Scalar>>,
    /// Whether the column holds no value but NULL and those of the list: both booleans are listed,
    /// or the owner says so. It decides which roll-ups are allowed. Values outside the list are
    /// left out of groups in any case.
    pub is_complete: bool,
    /// The least and the greatest value of a public table's column: chooses clips, lists nothing.
    pub extent: Option<ColumnBounds>,
    /// How the stored values were randomised before they were stored. Then no other key says
    /// anything of them.
    pub collected: Option<Collected>,
}

#[cfg(test)]
impl Column {
    /// A column of this type that is NOT NULL, and of which nothing more is known.
    pub fn plain(name: &str, data_type: Type) -> Self {
        Self {
            name: name.to_owned(),
            data_type,
            declared: None,
            not_null: true,
            deterministic_collation: true,
            collation: None,
            bounds: None,
            unit_total: None,
            domain: None,
            is_complete: false,
            extent: None,
            collected: None,
        }
    }
}

/// What is known of a column whose values were randomised before they were stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    pub randomiser: Randomiser,
    /// The values that are stored: a list in its order, or a clear and a set bit. None where
    /// there is a dictionary.
    pub reports: Vec<Scalar>,
    /// The numbers that the two bits stand for, where they are of a number.
    pub one_bit: Option<OneBit>,
    /// The values that reports are decoded to, where reports are filters.
    pub dictionary: Option<Arc<Dictionary>>,
}

/// One step of the path from a private table to the table that carries the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitStep {
    pub column: String,
    pub schema: String,
    pub table: String,
    /// A unique column of that table.
    pub referenced: String,
}

/// How the rows of a private table belong to privacy units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Steps from this table to the one that carries the unit; empty where this table carries it.
    pub path: Vec<UnitStep>,
    /// The column that *is* the unit, in the last table of the path (or in this one).
    pub column: String,
    pub data_type: Type,
    /// The unit is the whole, valid, NOT NULL primary key of this ordinary table: exactly one row a
    /// unit, proved.
    pub is_primary_key: bool,
    /// Most rows one unit contributes; more are scaled down, never trusted. `None`:
    /// `limits.rows_per_unit`.
    pub rows_per_unit: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protection {
    Public,
    Private(Unit),
}

/// One table the policy shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub protection: Protection,
    /// Visible columns in the table's order. The unit column and the columns of its path are among
    /// them.
    pub columns: Vec<Column>,
    pub unique_keys: Vec<UniqueKey>,
    /// The foreign keys of the catalog, also towards tables and columns that the policy does not
    /// show.
    pub foreign_keys: Vec<ForeignKey>,
    /// Columns that each identify a row of a private table, by the owner's word (`unique:`). They
    /// say which joins are answered; no bound rests on them.
    pub claimed_unique: Vec<ColumnPosition>,
    /// The indexes that EXPLAIN and `check` need not advise.
    pub indexes: Vec<Index>,
    pub fingerprint: TableFingerprint,
    /// The rows of a public table that has few.
    pub listing: Option<Listing>,
    /// The rows of a public table when its lists were read.
    pub content: Option<Content>,
    /// The public tables, by schema and name, that `domain:` takes the values of columns from.
    pub lists_from: Vec<(String, String)>,
    /// The periods of a private table whose rows are asked about by time.
    pub periods: Option<Periods>,
    /// What the owner declares of a private table that is a holdout.
    pub holdout: Option<Holdout>,
}

/// Rows of a public table, in its columns with listed values.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    pub columns: Vec<ColumnPosition>,
    /// Parallel to `columns`; no row twice, `None` is NULL.
    pub rows: Vec<Vec<Option<Scalar>>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub groups_per_unit: u32,
    pub rows_per_unit: u32,
    pub groups: u32,
    pub mirror_rows: u64,
    pub failures: u32,
    /// The most questions of one epoch of a monitor or a holdout; 0: there are none.
    pub monitor_questions: u32,
    pub statement_timeout: std::time::Duration,
    /// Whether single rows may be read from the database and added up here.
    pub stream_rows: bool,
    pub connections: u32,
    pub connections_per_role: u32,
    pub connections_per_address: u32,
}

/// Where a witness of the ledger is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessAddress {
    pub place: WitnessPlace,
    /// Whether the witness may be on the ledger's own disk or server. Setting that back sets both
    /// back.
    pub same_disk: bool,
}

/// The place of a witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WitnessPlace {
    File(std::path::PathBuf),
    /// A PostgreSQL, by its URL.
    Server(Secret),
}

/// A checked policy: every fact in it agrees with the catalog it was checked against.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Digest of the policy's meaning; changes whenever an answer could.
    pub version: String,
    pub database_url: Option<Secret>,
    pub ledger_url: Option<Secret>,
    pub shadow_url: Option<Secret>,
    pub privacy: Privacy,
    pub roles: Vec<Role>,
    pub operators: Vec<Operator>,
    pub tables: Vec<Table>,
    /// The searches that the owner left to pgveil.
    pub searches: Vec<Search>,
    /// What the owner releases once, for questions to be answered from.
    pub summaries: Vec<Summary>,
    /// Enums and domains of the columns shown.
    pub types: Vec<UserType>,
    pub limits: Limits,
    pub previews: Previews,
    /// Whether the shape of each statement is recorded.
    pub records_shape: bool,
    /// What the time of answers about private rows is rounded up to. At most a day.
    pub quantum: Option<std::time::Duration>,
    /// What `now()` is rounded down to in conditions on private rows, so that a moving window is
    /// one question for that long. At most a day.
    pub time_grain: Option<std::time::Duration>,
    /// The tables that roles write, where there are such roles.
    pub writing: Option<Writing>,
}

impl Policy {
    pub fn table(&self, schema: &str, name: &str) -> Option<&Table> {
        self.tables
            .iter()
            .find(|t| t.schema == schema && t.name == name)
    }

    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|r| r.name == name)
    }

    /// The first role that asks, not only writes.
    pub fn asking_role(&self) -> Option<&Role> {
        self.roles.iter().find(|role| role.asks)
    }

    pub fn operator(&self, name: &str) -> Option<&Operator> {
        self.operators.iter().find(|o| o.name == name)
    }

    /// Most rows of a unit that any query counts, but for joins that multiply them. What was found
    /// by search is left out: only roles that have paid for it may see it.
    pub fn rows_per_unit_max(&self) -> u32 {
        let is_searched = |at: usize| {
            self.searches
                .iter()
                .any(|search| search.table == at && search.sought == AutoBound::Rows)
        };
        let own =
            self.tables
                .iter()
                .enumerate()
                .filter_map(|(at, table)| match &table.protection {
                    Protection::Private(unit) if !is_searched(at) => Some(unit.rows_per_unit),
                    Protection::Private(_) | Protection::Public => None,
                });
        own.max().unwrap_or(0).max(self.limits.rows_per_unit)
    }
}
