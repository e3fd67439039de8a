//! Knows which tables, columns, keys and types the backing PostgreSQL has. A snapshot: plain data, read once and on reload.

use serde::{Deserialize, Serialize};

/// A PostgreSQL type as the resolver tells types apart.
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
    /// `char(n)`.
    Char(u32),
    Uuid,
    Date,
    Timestamp,
    Timestamptz,
    Interval,
    /// Any other type, by OID and the name `format_type` prints.
    Other {
        oid: u32,
        name: String,
    },
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
    /// A generated column that is virtual, or any other column whose value is not stored.
    pub is_virtual: bool,
}

/// A unique or primary key that PostgreSQL enforces for every row: valid, immediate, not partial, over plain columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueKey {
    pub columns: Vec<String>,
    pub primary: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    pub columns: Vec<String>,
    pub schema: String,
    pub table: String,
    pub referenced: Vec<String>,
}

/// pg_class.relkind, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
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
    pub kind: Kind,
    pub columns: Vec<Column>,
    pub unique_keys: Vec<UniqueKey>,
    pub foreign_keys: Vec<ForeignKey>,
    /// Has inheritance children that are not declarative partitions, or is such a child, so that keys of the parent prove nothing.
    pub inherits: bool,
    pub row_security: bool,
    pub has_rules: bool,
    /// Whether the connected role may SELECT it, and whether it may do anything else to it.
    pub selectable: bool,
    pub writable: bool,
    /// Digest of the catalog rows that this description was read from; re-read by a release before it runs.
    pub fingerprint: String,
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
    /// Every user table, view and so on outside pg_catalog and information_schema.
    pub tables: Vec<Table>,
}

impl Catalog {
    pub fn table(&self, schema: &str, name: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.schema == schema && t.name == name)
    }
}
