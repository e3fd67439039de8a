//! How one unit's rows are grouped by the keys of a release.

use super::{Attribute, Cardinalities, Cardinality, Count};
use crate::analyze::{KeyCombinations, KeyRule};
use crate::ir::{ColumnId, Expr, GroupingSet, Relation};

/// How one unit's rows are grouped. These numbers choose clips, and replace none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitGroups {
    /// The most groups that hold a row of the unit.
    pub groups: u64,
    /// The most rows of the unit in one group.
    pub rows: u64,
    /// Whether `rows` is 1 by unique keys of the catalog and by grouping alone, without a count
    /// that the policy declares.
    pub is_keyed: bool,
}

impl Cardinality<'_> {
    /// Whether each row of the scan that has the column is in at most one row here.
    pub fn is_read_once(&self, column: ColumnId) -> bool {
        let mut scans = self.row_columns.iter();
        scans
            .find(|each| each.columns.contains(&column))
            .is_some_and(|each| self.determines(&[each.row], &self.rows))
    }

    /// How one unit's rows are grouped by these attributes.
    pub(super) fn grouped_by(&self, keys: &[Attribute]) -> UnitGroups {
        UnitGroups {
            groups: self.most(&[], keys),
            rows: self.most(keys, &self.rows),
            is_keyed: self.determines(keys, &self.rows),
        }
    }
}

/// The rows of a release with its group keys.
pub(in crate::analyze) struct GroupedRows<'a> {
    cardinalities: Cardinalities<'a>,
    rows: Cardinality<'a>,
    keys: Vec<Attribute>,
}

impl<'a> GroupedRows<'a> {
    /// The rows with their keys. `keys` have their listed values, `tuples` the combinations that
    /// occur.
    pub fn new(
        cardinalities: Cardinalities<'a>,
        input: &'a Relation,
        keys: &[(Expr, KeyRule)],
        tuples: &[KeyCombinations],
    ) -> Self {
        let mut rows = cardinalities.of(input);
        let mut key = |(expr, rule): &(Expr, KeyRule)| {
            let key = cardinalities.value(&mut rows, expr);
            if let KeyRule::Domain(values) = rule {
                rows.counts.push(Count {
                    of: vec![key],
                    most: values.len() as u64,
                });
            }
            key
        };
        let keys: Vec<Attribute> = keys.iter().map(&mut key).collect();
        rows.counts.extend(tuples.iter().map(|tuples| Count {
            of: tuples.keys.iter().map(|key| keys[key.0]).collect(),
            most: tuples.rows.len() as u64,
        }));
        Self {
            cardinalities,
            rows,
            keys,
        }
    }

    /// The most rows of one unit.
    pub fn rows_per_unit(&self) -> u64 {
        self.rows.most(&[], &self.rows.rows)
    }

    /// How one unit's rows are grouped by these keys.
    pub fn grouped_by(&self, set: &GroupingSet) -> UnitGroups {
        let keys: Vec<Attribute> = set.keys().map(|key| self.keys[key.0]).collect();
        self.rows.grouped_by(&keys)
    }

    /// Whether each row of the table that has the column is in at most one row of the release.
    pub fn is_read_once(&self, column: ColumnId) -> bool {
        self.rows.is_read_once(column)
    }

    /// Whether the unit has one row, by keys of the catalog and by grouping alone.
    pub fn is_one_row(&self) -> bool {
        self.rows.determines(&[], &self.rows.rows)
    }

    /// The most combinations of group keys and values that one unit's rows have.
    pub fn combinations(&self, values: &[Expr]) -> u64 {
        let (rows, values) = self.with(values);
        rows.most(&[], &[self.keys.as_slice(), &values].concat())
    }

    /// The most combinations of values that one unit's rows have in one group.
    pub fn combinations_in_group(&self, values: &[Expr]) -> u64 {
        let (rows, values) = self.with(values);
        rows.most(&self.keys, &values)
    }

    fn with(&self, values: &[Expr]) -> (Cardinality<'a>, Vec<Attribute>) {
        let mut rows = self.rows.clone();
        let values = values
            .iter()
            .map(|expr| self.cardinalities.value(&mut rows, expr))
            .collect();
        (rows, values)
    }
}
