//! How many rows one unit has in a relation, how many groups they form, and how many of them share
//! a group: by functional dependencies, and by counts that are declared or emitted.
//!
//! Each scan has an unseen row number. Two rows of a relation are one if the row numbers of all
//! their scans agree. If some attributes determine these numbers, a unit has at most as many rows
//! as those attributes have combinations of values.
//!
//! These numbers choose clips, and never replace one: some rest on what the policy declares, so a
//! unit may exceed them. Such a unit is clipped.

mod conditions;
mod grouped;
mod left_join;
mod search;
mod values;

use std::cell::Cell;

pub(super) use grouped::GroupedRows;
pub use grouped::UnitGroups;

use super::interval::Interval;
use super::planning_effort::PlanningEffort;
use crate::catalog::Equality;
use crate::ir::{
    ColumnId, ColumnInfo, ConstantRows, Expr, JoinKind, Relation, Scan, Window, WindowFunction,
};
use crate::policy::{Policy, Protection};
use conditions::equated_columns;

/// Something that has one value in each row of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Attribute {
    Column(ColumnId),
    /// A row number, whether an outer join found a row, or the value of a key.
    Unseen(u32),
}

/// Rows of one unit that agree in all of `by` agree in `determined`.
#[derive(Debug, Clone)]
struct Dependency {
    by: Vec<Attribute>,
    determined: Attribute,
}

/// The columns of the row that `row` numbers.
#[derive(Debug, Clone, Copy)]
struct RowColumns<'a> {
    row: Attribute,
    columns: &'a [ColumnId],
}

/// One unit's rows hold at most this many combinations of these attributes.
#[derive(Debug, Clone)]
struct Count {
    of: Vec<Attribute>,
    most: u64,
}

/// A unique key that identifies a row once none of `nullable` can be NULL.
#[derive(Debug, Clone)]
struct NullableKey {
    columns: Vec<ColumnId>,
    nullable: Vec<ColumnId>,
    row: Attribute,
}

/// The dependencies and counts of one unit's rows in a relation.
#[derive(Debug, Clone)]
pub(super) struct Cardinality<'a> {
    /// The attributes that identify a row.
    rows: Vec<Attribute>,
    dependencies: Vec<Dependency>,
    row_columns: Vec<RowColumns<'a>>,
    counts: Vec<Count>,
    nullable_keys: Vec<NullableKey>,
    /// Whether the relation reads no private table.
    is_public: bool,
    effort: &'a PlanningEffort,
}

/// The sources of cardinalities.
pub(super) struct Cardinalities<'a> {
    policy: &'a Policy,
    columns: &'a [ColumnInfo],
    /// The ranges of columns that steps within a unit compute.
    opaque: &'a [(ColumnId, Interval)],
    effort: &'a PlanningEffort,
    unseen: Cell<u32>,
}

impl<'a> Cardinalities<'a> {
    pub fn new(
        policy: &'a Policy,
        columns: &'a [ColumnInfo],
        opaque: &'a [(ColumnId, Interval)],
        effort: &'a PlanningEffort,
    ) -> Self {
        Self {
            policy,
            columns,
            opaque,
            effort,
            unseen: Cell::new(0),
        }
    }

    /// The cardinality of a labelled relation.
    ///
    /// # Guarantee
    /// If the tables hold what the catalog and the policy say, every dependency and every count
    /// holds for the rows of each unit. By induction over the relation: Armstrong's rules are
    /// sound for each unit's rows, and each case below says what it rests on. Nothing private
    /// rests on it.
    ///
    /// # Requires
    /// Key paths are joined in, and groups and windows are within one unit.
    ///
    /// # Reference
    /// Armstrong 1974, "Dependency structures of data base relationships". Number of tuples by
    /// dependencies: Gottlob, Lee, Valiant and Valiant 2009, "Size and treewidth bounds for
    /// conjunctive queries", of which this is the case of a product.
    pub fn of(&self, relation: &'a Relation) -> Cardinality<'a> {
        match relation {
            Relation::Scan(scan) => self.scan(scan),
            Relation::Constants(rows) => self.constants(rows),
            Relation::Filter { input, predicate } => {
                let mut rows = self.of(input);
                self.meet(&mut rows, &predicate.conjuncts());
                rows
            }
            Relation::Project { input, columns } => {
                let mut rows = self.of(input);
                for (id, expr) in columns {
                    self.compute(&mut rows, Attribute::Column(*id), expr);
                }
                rows
            }
            Relation::Join {
                kind: JoinKind::Inner,
                left,
                right,
                on,
            } => {
                let mut rows = self.join(self.of(left), self.of(right));
                let conditions: Vec<&Expr> = on.iter().flat_map(Expr::conjuncts).collect();
                self.meet(&mut rows, &conditions);
                rows
            }
            Relation::Join {
                kind: JoinKind::Left,
                left,
                right,
                on,
            } => {
                let conditions: Vec<&Expr> = on.iter().flat_map(Expr::conjuncts).collect();
                self.left_join(self.of(left), (self.of(right), right), &conditions)
            }
            Relation::Group {
                input,
                keys,
                aggregates,
            } => self.group(input, keys, aggregates.iter().map(|(id, _)| *id)),
            Relation::Window { input, columns } => {
                let mut rows = self.of(input);
                columns
                    .iter()
                    .for_each(|(id, window)| self.window(&mut rows, *id, window));
                rows
            }
            Relation::Union { columns, arms } => self.union(columns, arms),
            // The emitted statement enforces this bound.
            Relation::Bounded {
                input,
                unit: _,
                rows: most,
            } => {
                let mut rows = self.of(input);
                rows.counts.push(Count {
                    of: rows.rows.clone(),
                    most: *most,
                });
                rows
            }
        }
    }

    fn unseen(&self) -> Attribute {
        self.unseen.set(self.unseen.get() + 1);
        Attribute::Unseen(self.unseen.get())
    }

    /// The pairs of two relations' rows. Where public rows multiply one unit's, the policy's limit
    /// holds for the pairs, unless the unit may have more rows anyway.
    fn join(&self, left: Cardinality<'a>, right: Cardinality<'a>) -> Cardinality<'a> {
        let of = [left.rows.clone(), right.rows.clone()].concat();
        let private = match (left.is_public, right.is_public) {
            (false, true) => Some(left.most(&[], &left.rows)),
            (true, false) => Some(right.most(&[], &right.rows)),
            (true, true) | (false, false) => None,
        };
        let paired = private.map(|rows| Count {
            of: of.clone(),
            most: rows.max(self.public_rows()),
        });
        let counts = [left.counts, right.counts, paired.into_iter().collect()].concat();
        Cardinality {
            rows: of,
            dependencies: [left.dependencies, right.dependencies].concat(),
            row_columns: [left.row_columns, right.row_columns].concat(),
            counts,
            nullable_keys: [left.nullable_keys, right.nullable_keys].concat(),
            is_public: left.is_public && right.is_public,
            effort: self.effort,
        }
    }

    /// The most rows of one unit where public rows multiply them.
    fn public_rows(&self) -> u64 {
        u64::from(self.policy.limits.rows_per_unit)
    }

    fn one(&self, columns: &'a [ColumnId], most: u64, is_public: bool) -> Cardinality<'a> {
        let row = self.unseen();
        Cardinality {
            rows: vec![row],
            dependencies: Vec::new(),
            row_columns: vec![RowColumns { row, columns }],
            counts: vec![Count {
                of: vec![row],
                most,
            }],
            nullable_keys: Vec::new(),
            is_public,
            effort: self.effort,
        }
    }

    /// Rows by the policy's `rows_per_unit`, keys by the catalog. One unit has one value of the
    /// column that is the unit.
    fn scan(&self, scan: &'a Scan) -> Cardinality<'a> {
        let table = &self.policy.tables[scan.table.0];
        let at = |name: &str| table.columns.iter().position(|c| c.name == name);
        let (most, unit) = match &table.protection {
            Protection::Public => (self.public_rows(), None),
            Protection::Private(unit) => {
                let own = match unit.path.as_slice() {
                    [] => Some(unit.column.as_str()),
                    [step] if step.referenced == unit.column => Some(step.column.as_str()),
                    _ => None,
                };
                (u64::from(unit.rows_per_unit), own)
            }
        };
        let is_public = table.protection == Protection::Public;
        let mut rows = self.one(&scan.columns, most, is_public);
        let row = rows.rows[0];
        rows.dependencies
            .extend(unit.and_then(at).map(|at| Dependency {
                by: Vec::new(),
                determined: Attribute::Column(scan.columns[at]),
            }));
        for key in &table.unique_keys {
            let places = key.names().map(at).collect::<Option<Vec<_>>>();
            let is_own = key.tells_apart(|_| Some(Equality::Own));
            let Some(places) = places.filter(|_| is_own) else {
                continue;
            };
            let of = |place: &usize| scan.columns[*place];
            let nullable = places.iter().filter(|at| !table.columns[**at].not_null);
            rows.nullable_keys.push(NullableKey {
                columns: places.iter().map(of).collect(),
                nullable: nullable.map(of).collect(),
                row,
            });
        }
        rows.note_keys(&[]);
        rows
    }

    /// Released rows: unique by construction.
    fn constants(&self, constants: &'a ConstantRows) -> Cardinality<'a> {
        let mut rows = self.one(&constants.columns, self.public_rows(), true);
        let determined = rows.rows[0];
        rows.dependencies
            .extend(constants.unique.as_ref().map(|unique| Dependency {
                by: unique.iter().copied().map(Attribute::Column).collect(),
                determined,
            }));
        rows
    }

    /// Adds an attribute that is computed from the row alone.
    fn compute(&self, rows: &mut Cardinality<'a>, made: Attribute, expr: &Expr) {
        if self.is_function(expr) {
            rows.dependencies.push(Dependency {
                by: columns_of(expr),
                determined: made,
            });
        } else {
            rows.determine(made);
        }
        rows.dependencies
            .extend(expr.as_column().map(|source| Dependency {
                by: vec![made],
                determined: Attribute::Column(source),
            }));
    }

    /// A window's value belongs to its row. The row's number within a partition identifies it.
    fn window(&self, rows: &mut Cardinality<'a>, id: ColumnId, window: &Window) {
        rows.determine(Attribute::Column(id));
        let numbers = matches!(window.ranked, WindowFunction::RowNumber);
        if numbers && window.partition.iter().all(|e| self.is_function(e)) {
            let mut by: Vec<Attribute> = window.partition.iter().flat_map(columns_of).collect();
            by.push(Attribute::Column(id));
            for determined in rows.rows.clone() {
                rows.dependencies.push(Dependency {
                    by: by.clone(),
                    determined,
                });
            }
        }
    }

    /// One row for each combination of the keys. One row of the input stands for each group, so
    /// that all dependencies and counts of the input still hold.
    fn group(
        &self,
        input: &'a Relation,
        keys: &[ColumnId],
        aggregates: impl Iterator<Item = ColumnId>,
    ) -> Cardinality<'a> {
        let (mut rows, keys) = self.group_rows(input, keys);
        let row = self.unseen();
        rows.counts.push(Count {
            of: vec![row],
            most: rows.most(&[], &keys),
        });
        rows.dependencies.push(Dependency {
            by: keys.clone(),
            determined: row,
        });
        let made = aggregates.map(Attribute::Column).chain(keys);
        rows.dependencies.extend(made.map(|determined| Dependency {
            by: vec![row],
            determined,
        }));
        rows.rows = vec![row];
        rows
    }

    /// The rows from which groups are made, with counts of the keys' values where these are known.
    fn group_rows(
        &self,
        input: &'a Relation,
        keys: &[ColumnId],
    ) -> (Cardinality<'a>, Vec<Attribute>) {
        let mut rows = self.of(input);
        for count in self.values(input, keys) {
            let is_known = |known: &Count| known.of == count.of && known.most <= count.most;
            if !rows.counts.iter().any(is_known) {
                rows.counts.push(count);
            }
        }
        let keys = keys.iter().copied().map(Attribute::Column).collect();
        (rows, keys)
    }

    /// For one unit: the most groups by these keys, and the most rows in one of them.
    pub fn unit_groups(&self, input: &'a Relation, keys: &[ColumnId]) -> UnitGroups {
        let (rows, keys) = self.group_rows(input, keys);
        rows.grouped_by(&keys)
    }

    /// The most rows of one unit in a partition, for each window.
    pub fn partitions(&self, input: &'a Relation, windows: &[&Window]) -> Vec<u64> {
        let rows = self.of(input);
        let mut known: Vec<(&[Expr], u64)> = Vec::new();
        let mut most = Vec::new();
        for window in windows {
            let partition = window.partition.as_slice();
            let found = known.iter().find(|(other, _)| *other == partition);
            let own = match found {
                Some((_, own)) => *own,
                None => {
                    let own = self.rows_with(rows.clone(), partition);
                    known.push((partition, own));
                    own
                }
            };
            most.push(own);
        }
        most
    }

    /// The most rows of one unit that agree in these expressions.
    fn rows_with(&self, mut rows: Cardinality<'a>, known: &[Expr]) -> u64 {
        // The dependencies are copied already.
        let _ = self.effort.take(rows.dependencies.len() as u64);
        let known: Vec<Attribute> = known
            .iter()
            .map(|expr| self.value(&mut rows, expr))
            .collect();
        rows.most(&known, &rows.rows)
    }

    /// The rows of all arms. The last column is the unit.
    fn union(
        &self,
        columns: &'a [ColumnId],
        arms: &'a [(Relation, Vec<ColumnId>)],
    ) -> Cardinality<'a> {
        let most = arms.iter().fold(0u64, |sum, (arm, _)| {
            let rows = self.of(arm);
            sum.saturating_add(rows.most(&[], &rows.rows))
        });
        let mut rows = self.one(columns, most, false);
        rows.dependencies
            .extend(columns.last().map(|unit| Dependency {
                by: Vec::new(),
                determined: Attribute::Column(*unit),
            }));
        rows
    }

    /// The value of an expression.
    fn value(&self, rows: &mut Cardinality<'a>, expr: &Expr) -> Attribute {
        let value = self.unseen();
        self.compute(rows, value, expr);
        value
    }
}

fn columns_of(expr: &Expr) -> Vec<Attribute> {
    expr.columns().into_iter().map(Attribute::Column).collect()
}

impl<'a> Cardinality<'a> {
    /// Keys of which no column can be NULL identify their rows; `present` holds more columns that
    /// cannot be NULL.
    fn note_keys(&mut self, present: &[ColumnId]) {
        let mut left = Vec::new();
        for mut key in std::mem::take(&mut self.nullable_keys) {
            key.nullable.retain(|id| !present.contains(id));
            if key.nullable.is_empty() {
                self.dependencies.push(Dependency {
                    by: key.columns.into_iter().map(Attribute::Column).collect(),
                    determined: key.row,
                });
            } else {
                left.push(key);
            }
        }
        self.nullable_keys = left;
    }

    /// Notes that a row determines the attribute.
    fn determine(&mut self, determined: Attribute) {
        self.dependencies.push(Dependency {
            by: self.rows.clone(),
            determined,
        });
    }
}

#[cfg(test)]
mod tests;
