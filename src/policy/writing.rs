//! What roles may write: tables with columns that are randomised on the way.

use std::collections::HashMap;
use std::fmt;

use super::{Policy, Protection, Scalar, Secret, Table};
use crate::catalog::{Type, oid_of};
use crate::mechanism::{Odds, Randomiser, Rappor};

/// The tables that roles write, and how they are reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Writing {
    /// A login that may insert into these tables, and nothing else.
    pub url: Secret,
    /// The key of memoised reports; `None`: every report is drawn anew.
    pub secret: Option<Secret>,
    pub tables: Vec<WrittenTable>,
}

impl Policy {
    /// The tables, by OID, that may be known row by row.
    pub fn public_tables(&self) -> Vec<u32> {
        let is_public = |table: &&Table| matches!(table.protection, Protection::Public);
        let public = self.tables.iter().filter(is_public);
        public.map(|table| table.oid).collect()
    }
}

/// One table that roles write.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenTable {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// The column that is the unit.
    pub unit: String,
    /// All columns of the table, also those that the policy does not show.
    pub columns: Vec<WrittenColumn>,
    /// Columns that have the cohort of a row's unit. pgveil writes them.
    pub cohorts: Vec<WrittenCohorts>,
    /// Whether the owner lets those who write learn from constraints which rows are there.
    pub shows_constraints: bool,
}

/// A column of cohorts, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenCohorts {
    pub column: String,
    pub cohorts: u32,
}

/// One column of such a table.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenColumn {
    pub name: String,
    /// The type, or the one beneath a domain.
    pub data_type: Type,
    /// How its values are randomised; `None`: they are written as they are.
    pub local: Option<Local>,
}

/// How the values of a column are randomised on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Local {
    /// The mechanism and its numbers, as the policy declares them.
    pub randomiser: Randomiser,
    pub odds: Odds,
    /// The values of its list, in its order; a clear and a set bit.
    pub values: Vec<Scalar>,
    /// Where each of them is.
    pub places: ValuePlaces,
    /// How a report is made, where it is a filter's bits.
    pub filter: Option<WrittenFilter>,
    /// The bounds of its numbers, where a report is a bit of a number.
    pub bounds: Option<(f64, f64)>,
    /// Whether NULL may be written. It is no report, and says that there is none.
    pub may_be_null: bool,
    /// Columns of one number were declared together: of their values at most one is true.
    pub group: usize,
}

/// How the bits of a value are made.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenFilter {
    pub rappor: Rappor,
    /// The column of the same table that has the unit's cohort.
    pub cohort: String,
}

/// The first OID that is not PostgreSQL's own.
const OIDS_OF_USERS: u32 = 16_384;
/// `text`
const TEXT: u32 = 25;

impl WrittenColumn {
    /// Whether its type is one that PostgreSQL does not come with.
    pub fn is_of_users(&self) -> bool {
        oid_of(&self.data_type) >= OIDS_OF_USERS
    }

    /// The type of its true values. Where reports are the bits of a filter, these are texts.
    pub fn true_type(&self) -> &Type {
        match &self.local {
            Some(Local {
                filter: Some(_), ..
            }) => &Type::Text,
            _ => &self.data_type,
        }
    }

    /// The type of its parameters, as clients hear it. A type that PostgreSQL does not come with
    /// has another OID in the catalogs that clients see, so its values are texts.
    pub fn parameter(&self) -> u32 {
        match self.is_of_users() {
            true => TEXT,
            false => oid_of(self.true_type()),
        }
    }
}

/// The places of a list's values. Finding one takes as long as finding any other of
/// its length.
#[derive(Debug, Clone, PartialEq)]
pub struct ValuePlaces(HashMap<Vec<u8>, usize>);

impl ValuePlaces {
    /// The places of values of one type.
    pub fn of(values: &[Scalar]) -> Self {
        let mut places = HashMap::with_capacity(values.len());
        for (place, value) in values.iter().enumerate() {
            with_bytes(value, |bytes| {
                places.entry(bytes.to_owned()).or_insert(place);
            });
        }
        Self(places)
    }

    /// The place of a value of this type.
    pub fn find(&self, value: &Scalar) -> Option<usize> {
        with_bytes(value, |bytes| self.0.get(bytes).copied())
    }
}

/// Bytes that only this value of its type has.
fn with_bytes<T>(value: &Scalar, then: impl FnOnce(&[u8]) -> T) -> T {
    match value {
        Scalar::Text(text) | Scalar::Decimal(text) => then(text.as_bytes()),
        Scalar::Bool(value) => then(&[u8::from(*value)]),
        Scalar::Int(value) | Scalar::Timestamp(value) => then(&value.to_be_bytes()),
        Scalar::Date(value) => then(&value.to_be_bytes()),
        Scalar::Interval {
            months,
            days,
            micros,
        } => {
            let parts = [i64::from(*months), i64::from(*days), *micros];
            then(&parts.map(i64::to_be_bytes).concat())
        }
    }
}

impl Local {
    /// The bytes of the longest report as text, whatever the true value is.
    pub fn report_bytes(&self) -> usize {
        if let Some(filter) = &self.filter {
            return filter.rappor.bits as usize;
        }
        let texts = self.values.iter().map(|value| match value {
            Scalar::Text(text) | Scalar::Decimal(text) => text.len(),
            // The longest of these is a time with its zone.
            Scalar::Bool(_)
            | Scalar::Int(_)
            | Scalar::Date(_)
            | Scalar::Timestamp(_)
            | Scalar::Interval { .. } => 40,
        });
        texts.max().unwrap_or(0)
    }
}

impl WrittenTable {
    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&WrittenColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Whether the column has the cohort of a row's unit.
    pub fn has_cohorts(&self, name: &str) -> bool {
        self.cohorts.iter().any(|of| of.column == name)
    }
}

/// The name of a table, as messages show it.
impl fmt::Display for WrittenTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

impl Writing {
    /// The table of this name.
    pub fn table(&self, schema: &str, name: &str) -> Option<&WrittenTable> {
        let mut tables = self.tables.iter();
        tables.find(|table| (table.schema.as_str(), table.name.as_str()) == (schema, name))
    }
}

/// A table that a role may write, by schema and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    pub schema: String,
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}
