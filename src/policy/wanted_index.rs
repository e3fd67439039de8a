//! The index from which a private table's rows come unit by unit. The advice follows from the
//! schema and the policy alone: no statistics, which depend on rows.

use super::{Column, Protection, Table};
use crate::catalog::Type;

/// The most columns of an index that is advised: more are a copy of the table.
const COLUMNS_MAX: usize = 8;

/// The longest text that it carries, in characters: PostgreSQL refuses rows whose index entry is
/// longer than a third of a page.
const LENGTH_MAX: u32 = 100;

/// The most listed and bounded columns of the index that is advised without a question.
const LISTED_MAX: usize = 2;
const BOUNDED_MAX: usize = 4;

/// An index that a table lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedIndex {
    pub schema: String,
    pub table: String,
    /// The unit's column first.
    pub keys: Vec<String>,
    pub included: Vec<String>,
}

impl Table {
    /// The column by which rows belong to units, where a unit may have several and the column is
    /// this table's own.
    pub fn unit_column(&self) -> Option<&str> {
        let Protection::Private(unit) = &self.protection else {
            return None;
        };
        match unit.path.as_slice() {
            [] => (!unit.is_primary_key).then_some(unit.column.as_str()),
            [step] => Some(&step.column),
            _ => None,
        }
    }

    /// The index from which a statement that groups rows by the unit and by these keys reads all
    /// that it needs. `None` where the table has it, and where it would be large.
    pub fn wanted_index(&self, keys: &[&str], others: &[&str]) -> Option<WantedIndex> {
        let unit = self.unit_column()?;
        let mut columns: Vec<String> = Vec::new();
        let mut add = |names: &[&str]| {
            for name in names {
                if !columns.iter().any(|column| column == name) {
                    columns.push((*name).to_owned());
                }
            }
            columns.len()
        };
        add(&[unit]);
        let sorted = add(keys);
        add(others);
        let has_room = columns.len() <= COLUMNS_MAX && columns.iter().all(|c| self.is_narrow(c));
        if !has_room || self.indexes.iter().any(|index| index.covers(&columns)) {
            return None;
        }
        let included = columns.split_off(sorted);
        Some(WantedIndex {
            schema: self.schema.clone(),
            table: self.name.clone(),
            keys: columns,
            included,
        })
    }

    /// The index for sums of this table's bounded columns by its listed ones, where no index is
    /// sorted by the unit.
    pub fn usual_index(&self) -> Option<WantedIndex> {
        let unit = self.unit_column()?;
        let leads = |columns: &[String]| columns.first().is_some_and(|first| first == unit);
        if self.indexes.iter().any(|index| leads(&index.columns)) {
            return None;
        }
        let others = || self.columns.iter().filter(|column| column.name != unit);
        let keys = self.names(others().filter(|c| c.domain.is_some()), LISTED_MAX);
        let is_bounded = |c: &&Column| c.bounds.is_some() && c.domain.is_none();
        let values = self.names(others().filter(is_bounded), BOUNDED_MAX);
        self.wanted_index(&keys, &values)
    }

    /// The first of these columns that an index may carry.
    fn names<'t>(&'t self, of: impl Iterator<Item = &'t Column>, most: usize) -> Vec<&'t str> {
        let names = of.map(|column| column.name.as_str());
        names
            .filter(|name| self.is_narrow(name))
            .take(most)
            .collect()
    }

    /// Whether an index may carry the column.
    fn is_narrow(&self, name: &str) -> bool {
        let column = self.columns.iter().find(|column| column.name == name);
        column.is_some_and(|column| match column.data_type {
            Type::Varchar(Some(length)) | Type::Char(Some(length)) => length <= LENGTH_MAX,
            Type::Text | Type::Varchar(None) | Type::Char(None) => false,
            Type::Numeric(digits) => digits.is_some(),
            Type::Bool | Type::Int2 | Type::Int4 | Type::Int8 => true,
            Type::Float4 | Type::Float8 | Type::Uuid | Type::Enum(_) => true,
            Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Time => true,
            Type::Other { .. } => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Index, TableFingerprint};
    use crate::policy::{ColumnBounds, Scalar, Unit, UnitStep};

    fn orders() -> Table {
        let step = UnitStep {
            column: "customer".to_owned(),
            schema: "s".to_owned(),
            table: "customer".to_owned(),
            referenced: "id".to_owned(),
        };
        let unit = Unit {
            path: vec![step],
            column: "id".to_owned(),
            data_type: Type::Int4,
            is_primary_key: false,
            rows_per_unit: 9,
        };
        let whole = ColumnBounds {
            lower: Scalar::Int(0),
            upper: Scalar::Int(9),
        };
        let status = Column {
            domain: Some(vec![Scalar::Text("F".to_owned())]),
            ..Column::plain("status", Type::Char(Some(1)))
        };
        let price = Column {
            bounds: Some(whole),
            ..Column::plain("price", Type::Numeric(Some((9, 2))))
        };
        Table {
            oid: 1,
            schema: "s".to_owned(),
            name: "orders".to_owned(),
            protection: Protection::Private(unit),
            columns: vec![
                Column::plain("id", Type::Int4),
                Column::plain("customer", Type::Int4),
                status,
                price,
                Column::plain("comment", Type::Text),
            ],
            unique_keys: Vec::new(),
            foreign_keys: Vec::new(),
            claimed_unique: Vec::new(),
            indexes: Vec::new(),
            fingerprint: TableFingerprint::default(),
            listing: None,
            content: None,
            lists_from: Vec::new(),
            periods: None,
            holdout: None,
        }
    }

    fn with(columns: &[&str]) -> Table {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        Table {
            indexes: vec![Index { columns }],
            ..orders()
        }
    }

    #[test]
    fn it_leads_with_the_unit_and_has_every_column() {
        let wanted = orders().wanted_index(&["status"], &["price", "status", "customer"]);
        let wanted = wanted.unwrap();
        assert_eq!(wanted.keys, ["customer", "status"]);
        assert_eq!(wanted.included, ["price"]);
        assert_eq!(orders().usual_index(), Some(wanted));
    }

    #[test]
    fn nothing_is_advised_that_is_there_or_too_large() {
        let asked = |table: &Table| table.wanted_index(&["status"], &["price"]);
        assert_eq!(asked(&with(&["customer", "id", "price", "status"])), None);
        for lacks in [&["customer", "price"][..], &["price", "customer", "status"]] {
            assert!(asked(&with(lacks)).is_some(), "{lacks:?}");
        }
        assert_eq!(with(&["customer"]).usual_index(), None);
        assert!(with(&["status", "customer"]).usual_index().is_some());
        assert_eq!(orders().wanted_index(&["comment"], &[]), None);
    }

    #[test]
    fn a_table_of_one_row_a_unit_wants_none() {
        let mut table = orders();
        table.protection = Protection::Public;
        assert_eq!(table.usual_index(), None);
        let Protection::Private(unit) = orders().protection else {
            panic!("it is private")
        };
        table.protection = Protection::Private(Unit {
            path: Vec::new(),
            is_primary_key: true,
            ..unit
        });
        assert_eq!(table.wanted_index(&[], &["price"]), None);
    }
}
