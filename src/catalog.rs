//! The tables, columns, keys and types of the backing PostgreSQL: a snapshot of plain data, read at
//! start and on reload.

mod check_constraints;
mod citus;
mod fingerprint;
mod index;
mod key;
mod load;
mod row_digest;
mod server;
mod type_of;
mod write_login;
mod written_constraints;

pub use citus::{Distribution, Hash, is_citus};
pub use fingerprint::{FINGERPRINT_SQL, TableFingerprint, fingerprints, fingerprints_prepared};
pub use index::Index;
pub use key::{Equality, UniqueKey};
pub use load::load;
pub use row_digest::{Content, PRINTED};
pub use server::BackendServer;
pub use type_of::{element_of, oid_of};
pub use write_login::{
    database_identity, excess_of_write_login, indexes_that_refuse, lack_of_write_login,
    made_by_database,
};
pub use written_constraints::{checks_that_refuse, what_inserts_show};

use serde::{Deserialize, Serialize};

/// Why the backend's catalog, or a public domain in it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The backend refused a query or the connection broke.
    #[error("reading the catalog of the database failed: {0}")]
    Backend(#[from] tokio_postgres::Error),
    /// The server is older than pgveil supports.
    #[error("PostgreSQL {0} is too old: pgveil needs version 12 or later")]
    TooOld(String),
}

/// A PostgreSQL type, as far as the resolver distinguishes types.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    Bool,
    Int2,
    Int4,
    Int8,
    /// `numeric(precision, scale)` where declared.
    Numeric(Option<(u16, i16)>),
    Float4,
    Float8,
    Text,
    /// `varchar(n)` where declared.
    Varchar(Option<u32>),
    /// `char(n)`, or `bpchar` without a length: comparisons ignore trailing blanks.
    Char(Option<u32>),
    Uuid,
    Date,
    Timestamp,
    Timestamptz,
    Interval,
    /// Without time zone.
    Time,
    Enum(Box<Enum>),
    /// Any other type, by OID and the name `format_type` prints.
    Other {
        oid: u32,
        name: String,
    },
}

impl Type {
    /// A numeric without precision and scale; any other type unchanged.
    pub fn without_digits(&self) -> Self {
        if matches!(self, Self::Numeric(_)) {
            Self::Numeric(None)
        } else {
            self.clone()
        }
    }

    /// An integer, a numeric or a float.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Int2 | Self::Int4 | Self::Int8 | Self::Numeric(_) | Self::Float4 | Self::Float8
        )
    }

    /// Text, `varchar` or `char`.
    pub fn is_string(&self) -> bool {
        matches!(self, Self::Text | Self::Varchar(_) | Self::Char(_))
    }

    /// A text as a column of this type stores it: `char(n)` fills it with blanks.
    pub fn as_stored(&self, text: String) -> String {
        let missing = match self {
            Self::Char(Some(length)) => (*length as usize).saturating_sub(text.chars().count()),
            _ => 0,
        };
        if missing == 0 {
            return text;
        }
        // It may be a true value, of which nothing stays behind.
        let text = zeroize::Zeroizing::new(text);
        let mut stored = String::with_capacity(text.len() + missing);
        stored.push_str(&text);
        stored.extend(std::iter::repeat_n(' ', missing));
        stored
    }
}

/// A type made by CREATE TYPE … AS ENUM.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Enum {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// In their order.
    pub labels: Vec<String>,
}

/// A collation that is not the database's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collation {
    pub schema: String,
    pub name: String,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    /// pg_attribute.attnum.
    pub number: i16,
    pub data_type: Type,
    pub not_null: bool,
    /// False for citext-like and non-deterministic collations: two spellings may then be equal.
    pub deterministic_collation: bool,
    /// `None` for the database's own, and for types without one.
    #[serde(default)]
    pub collation: Option<Collation>,
    /// A generated column that is virtual, or any other column whose value is not stored.
    pub is_virtual: bool,
    /// The type is a domain (CREATE DOMAIN) over another type; `data_type` is then `Other`.
    pub is_domain: bool,
    /// The built-in type that the domain is over, where it is one that expressions may have.
    pub over: Option<Type>,
    /// Whether the connected role may SELECT this column, by a right on the table or on the column.
    pub selectable: bool,
    /// The values that CHECK constraints allow.
    #[serde(default)]
    pub allowed: Allowed,
}

/// Lower and upper limits and lists of a column by a valid CHECK, as PostgreSQL prints them. They
/// are used to warn the owner and to propose a policy, and prove nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    pub lower: Vec<String>,
    pub upper: Vec<String>,
    /// The list of the shortest `IN (…)`; empty where there is none.
    #[serde(default)]
    pub values: Vec<String>,
}

/// A validated foreign key, deferrable or not. No bound rests on it. It says which joins are
/// answered, and that they find the rows they should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    pub columns: Vec<String>,
    pub schema: String,
    pub table: String,
    pub referenced: Vec<String>,
    /// The columns of the key that may be NULL. A row with NULL in one of them refers to no row.
    /// Empty under MATCH FULL, where then all of them are NULL.
    #[serde(default)]
    pub nullable: Vec<String>,
}

/// pg_class.relkind, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelationKind {
    Ordinary,
    Partitioned,
    Foreign,
    View,
    MaterializedView,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub kind: RelationKind,
    pub columns: Vec<Column>,
    pub unique_keys: Vec<UniqueKey>,
    pub foreign_keys: Vec<ForeignKey>,
    #[serde(default)]
    pub indexes: Vec<Index>,
    /// Has inheritance children that are not declarative partitions, or is such a child, so that
    /// keys of the parent prove nothing.
    pub inherits: bool,
    /// Direct parents by inheritance or partitioning, by OID.
    pub parents: Vec<u32>,
    #[serde(default)]
    pub distribution: Distribution,
    pub row_security: bool,
    pub has_rules: bool,
    /// Whether the connected role may SELECT it (or at least one column of it), and whether it may
    /// do anything else to it.
    pub selectable: bool,
    pub writable: bool,
    /// Digest of the catalog rows that this description was read from; re-read by a release before
    /// it runs.
    pub fingerprint: TableFingerprint,
}

impl Table {
    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Whether these columns identify a row under these comparisons.
    pub fn is_unique(&self, columns: &[&str], equality: &Equality) -> bool {
        self.unique_keys
            .iter()
            .any(|key| key.is_within(columns, equality))
    }
}

/// A type that is not built into PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserType {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// The OID of its array type, or 0.
    pub array: u32,
    pub definition: TypeDefinition,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TypeDefinition {
    /// Its labels, in their order.
    Enum(Vec<String>),
    /// Over a built-in type, as `format_type` prints it. Its conditions are not read.
    Domain { base: String, not_null: bool },
    /// Any other type: a composite or range type, a type of an extension, or a domain over one of
    /// these. A value can only be tested for NULL.
    Opaque,
}

/// A right that a role which only reads tables does not need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnneededRight {
    Superuser,
    /// BYPASSRLS.
    PassRowSecurity,
    /// CREATEROLE.
    MakeRoles,
    /// CREATEDB.
    MakeDatabases,
    /// REPLICATION: reads every row of the server, changes too.
    Replicate,
    /// A member of this role that PostgreSQL defines (`pg_read_server_files`).
    Predefined(String),
    /// May SET ROLE to this role, whose rights it does not inherit.
    Become(String),
    /// May create schemas in the database.
    MakeSchemas,
    /// May create objects in this schema.
    MakeObjects(String),
}

/// The backend's schema at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// `server_version` as the backend reports it, for example `15.18`.
    pub server_version: String,
    /// `server_version_num`, for example 150018.
    pub server_version_num: u32,
    pub server_encoding: String,
    pub database: String,
    /// The connected role's rights beyond reading tables.
    pub powers: Vec<UnneededRight>,
    /// Every user table, view and so on outside pg_catalog and information_schema.
    pub tables: Vec<Table>,
    /// Enums, and domains over built-in types.
    pub types: Vec<UserType>,
}

impl Catalog {
    pub fn table(&self, schema: &str, name: &str) -> Option<&Table> {
        self.tables
            .iter()
            .find(|t| t.schema == schema && t.name == name)
    }

    /// The table of this OID.
    pub fn table_by_oid(&self, oid: u32) -> Option<&Table> {
        self.tables.iter().find(|t| t.oid == oid)
    }
}
