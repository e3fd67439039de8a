//! How many rows one unit has in a relation, how many groups they form, and how many of them share
//! a group: by functional dependencies, and by counts that are declared or emitted.
//!
//! Each scan has an unseen row number. Two rows of a relation are one if the row numbers of all
//! their scans agree. If some attributes determine these numbers, a unit has at most as many rows
//! as those attributes have combinations of values.
//!
//! These numbers choose clips, and never replace one: some rest on what the policy declares, so a
//! unit may exceed them. Such a unit is clipped.

mod grouped;
mod search;
mod values;

use std::cell::Cell;

pub(super) use grouped::GroupedRows;
pub use grouped::UnitGroups;

use super::interval::Interval;
use super::join_matches;
use super::row_facts::equated_apart;
use crate::catalog::Equality;
use crate::ir::equality;
use crate::ir::functions::Function;
use crate::ir::{
    ColumnId, ColumnInfo, ConstantRows, Expr, JoinKind, Node, Relation, Scan, Window,
    WindowFunction,
};
use crate::policy::{Policy, Protection};

/// What a row of a relation has one value of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Attribute {
    Column(ColumnId),
    /// A row number, whether an outer join found a row, or the value of a key.
    Unseen(u32),
}

/// Rows of one unit that agree in all of `by` agree in `told`.
#[derive(Debug, Clone)]
struct Dependency {
    by: Vec<Attribute>,
    told: Attribute,
}

/// The columns of the row that `row` numbers.
#[derive(Debug, Clone, Copy)]
struct RowColumns<'a> {
    row: Attribute,
    columns: &'a [ColumnId],
}

/// One unit's rows hold at most so many combinations of these attributes.
#[derive(Debug, Clone)]
struct Count {
    of: Vec<Attribute>,
    most: u64,
    /// A row of a public table: the policy's limit holds for all of them together.
    is_public: bool,
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
    /// They identify a row.
    rows: Vec<Attribute>,
    dependencies: Vec<Dependency>,
    row_columns: Vec<RowColumns<'a>>,
    counts: Vec<Count>,
    nullable_keys: Vec<NullableKey>,
    /// `limits.rows_per_unit`, for rows that public tables multiply.
    public_rows: u64,
}

/// What cardinalities are derived from.
pub(super) struct Cardinalities<'a> {
    policy: &'a Policy,
    columns: &'a [ColumnInfo],
    /// The ranges of columns that steps within a unit compute.
    opaque: &'a [(ColumnId, Interval)],
    unseen: Cell<u32>,
}

impl<'a> Cardinalities<'a> {
    pub fn new(
        policy: &'a Policy,
        columns: &'a [ColumnInfo],
        opaque: &'a [(ColumnId, Interval)],
    ) -> Self {
        Self {
            policy,
            columns,
            opaque,
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
                columns
                    .iter()
                    .for_each(|(id, expr)| self.compute(&mut rows, *id, expr));
                rows
            }
            Relation::Join {
                kind: JoinKind::Inner,
                left,
                right,
                on,
            } => {
                let mut rows = self.of(left).beside(self.of(right));
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
            // Emitted.
            Relation::Bounded {
                input,
                unit: _,
                rows: most,
            } => {
                let mut rows = self.of(input);
                rows.counts.push(Count {
                    of: rows.rows.clone(),
                    most: *most,
                    is_public: false,
                });
                rows
            }
        }
    }

    fn unseen(&self) -> Attribute {
        self.unseen.set(self.unseen.get() + 1);
        Attribute::Unseen(self.unseen.get())
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
                is_public,
            }],
            nullable_keys: Vec::new(),
            public_rows: u64::from(self.policy.limits.rows_per_unit),
        }
    }

    /// Rows by the policy's `rows_per_unit`, keys by the catalog. One unit has one value of the
    /// column that is the unit.
    fn scan(&self, scan: &'a Scan) -> Cardinality<'a> {
        let table = &self.policy.tables[scan.table.0];
        let at = |name: &str| table.columns.iter().position(|c| c.name == name);
        let (most, unit) = match &table.protection {
            Protection::Public => (1, None),
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
                told: Attribute::Column(scan.columns[at]),
            }));
        for key in &table.unique_keys {
            let Some(places) = key.names().map(at).collect::<Option<Vec<_>>>() else {
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
        let mut rows = self.one(&constants.columns, 1, true);
        let told = rows.rows[0];
        rows.dependencies
            .extend(constants.unique.as_ref().map(|unique| Dependency {
                by: unique.iter().copied().map(Attribute::Column).collect(),
                told,
            }));
        rows
    }

    /// Adds what conditions say that hold for every row. Equality is strict: no equated column is
    /// NULL.
    fn meet(&self, rows: &mut Cardinality<'a>, conditions: &[&Expr]) {
        let mut present = Vec::new();
        for condition in conditions {
            for (column, other) in condition.equated_columns() {
                present.push(column);
                rows.dependencies
                    .extend(self.equated(column, other).map(|by| Dependency {
                        by,
                        told: Attribute::Column(column),
                    }));
            }
            let Node::Call {
                function,
                arguments,
            } = &condition.node
            else {
                continue;
            };
            match (function, arguments.as_slice()) {
                (Function::IsNotNull, [value]) => present.extend(value.as_column()),
                (Function::In, [value, list @ ..])
                    if list.iter().all(|e| e.as_literal().is_some()) =>
                {
                    rows.counts.extend(value.as_column().map(|column| Count {
                        of: vec![Attribute::Column(column)],
                        most: list.len() as u64,
                        is_public: false,
                    }));
                }
                _ => {}
            }
        }
        rows.note_keys(&present);
    }

    /// What determines a column that equals the expression; `None` where equal values may differ.
    fn equated(&self, column: ColumnId, other: &Expr) -> Option<Vec<Attribute>> {
        let is_exact = equality(column, other, self.policy, self.columns) == Some(Equality::Exact);
        (is_exact && self.is_function(other)).then(|| columns_of(other))
    }

    /// Whether equal columns give the expression one value.
    fn is_function(&self, expr: &Expr) -> bool {
        let is_one_spelling =
            |id: &ColumnId| join_matches::is_one_spelling(&self.columns[id.0 as usize].data_type);
        expr.relations().is_empty()
            && (expr.as_column().is_some() || expr.columns().iter().all(is_one_spelling))
    }

    /// A column that is computed from the row alone.
    fn compute(&self, rows: &mut Cardinality<'a>, id: ColumnId, expr: &Expr) {
        let made = Attribute::Column(id);
        if self.is_function(expr) {
            rows.dependencies.push(Dependency {
                by: columns_of(expr),
                told: made,
            });
        } else {
            rows.determine(made);
        }
        rows.dependencies
            .extend(expr.as_column().map(|source| Dependency {
                by: vec![made],
                told: Attribute::Column(source),
            }));
    }

    /// A window's value belongs to its row. The row's number within a partition identifies it.
    fn window(&self, rows: &mut Cardinality<'a>, id: ColumnId, window: &Window) {
        rows.determine(Attribute::Column(id));
        let numbers = matches!(window.ranked, WindowFunction::RowNumber);
        if numbers && window.partition.iter().all(|e| self.is_function(e)) {
            let mut by: Vec<Attribute> = window.partition.iter().flat_map(columns_of).collect();
            by.push(Attribute::Column(id));
            for told in rows.rows.clone() {
                rows.dependencies.push(Dependency {
                    by: by.clone(),
                    told,
                });
            }
        }
    }

    /// Each row of the left side, with the rows that it finds, or with NULLs.
    ///
    /// What holds on the right side holds of the rows that are found: each dependency there also
    /// needs whether one was found. ON determines what is found only together with *every* left
    /// column that it reads, since these decide whether anything is.
    fn left_join(
        &self,
        left: Cardinality<'a>,
        (mut right, side): (Cardinality<'a>, &'a Relation),
        conditions: &[&Expr],
    ) -> Cardinality<'a> {
        let own = side.made_at_any_depth();
        let equated: Vec<(ColumnId, &Expr)> = conditions
            .iter()
            .flat_map(|condition| equated_apart(condition, &own))
            .filter(|(column, other)| self.equated(*column, other).is_some())
            .collect();
        let fixed: Vec<ColumnId> = equated.iter().map(|(column, _)| *column).collect();
        right.note_keys(&fixed);
        let known: Vec<Attribute> = fixed.into_iter().map(Attribute::Column).collect();
        let finds_one = right.determines(&known, &right.rows);
        let decides: Vec<Attribute> = conditions
            .iter()
            .flat_map(|condition| condition.columns())
            .filter(|id| !own.contains(id))
            .map(Attribute::Column)
            .collect();
        let is_plain = conditions
            .iter()
            .all(|condition| self.is_function(condition));
        let is_found = self.unseen();
        for dependency in &mut right.dependencies {
            dependency.by.push(is_found);
        }
        for row in right.rows.clone() {
            right.dependencies.push(Dependency {
                by: vec![row],
                told: is_found,
            });
            if finds_one && is_plain {
                right.dependencies.push(Dependency {
                    by: decides.clone(),
                    told: row,
                });
            }
        }
        for count in &mut right.counts {
            count.most = count.most.saturating_add(1);
        }
        right.nullable_keys.clear();
        left.beside(right)
    }

    /// One row for each combination of the keys. One row of the input stands for each group, so
    /// that all dependencies and counts of the input still hold.
    fn group(
        &self,
        input: &'a Relation,
        keys: &[ColumnId],
        aggregates: impl Iterator<Item = ColumnId>,
    ) -> Cardinality<'a> {
        let (mut rows, keys) = self.keyed(input, keys);
        let row = self.unseen();
        rows.counts.push(Count {
            of: vec![row],
            most: rows.most(&[], &keys),
            is_public: false,
        });
        rows.dependencies.push(Dependency {
            by: keys.clone(),
            told: row,
        });
        let made = aggregates.map(Attribute::Column).chain(keys);
        rows.dependencies.extend(made.map(|told| Dependency {
            by: vec![row],
            told,
        }));
        rows.rows = vec![row];
        rows
    }

    /// The rows that a group is made of, with what is known of the number of its keys' values.
    fn keyed(&self, input: &'a Relation, keys: &[ColumnId]) -> (Cardinality<'a>, Vec<Attribute>) {
        let mut rows = self.of(input);
        rows.counts.extend(self.values(input, keys));
        let keys = keys.iter().copied().map(Attribute::Column).collect();
        (rows, keys)
    }

    /// Of one unit: the most groups by these keys, and the most rows in one of them.
    pub fn grouped(&self, input: &'a Relation, keys: &[ColumnId]) -> UnitGroups {
        let (rows, keys) = self.keyed(input, keys);
        UnitGroups {
            groups: rows.most(&[], &keys),
            rows: rows.most(&keys, &rows.rows),
            is_keyed: rows.determines(&keys, &rows.rows),
        }
    }

    /// The most rows of one unit that agree in these expressions.
    pub fn rows_with(&self, input: &'a Relation, known: &[Expr]) -> u64 {
        let mut rows = self.of(input);
        let known: Vec<Attribute> = known
            .iter()
            .map(|expr| self.value(&mut rows, expr, None))
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
                told: Attribute::Column(*unit),
            }));
        rows
    }

    /// The value of an expression, of which so many are listed.
    fn value(&self, rows: &mut Cardinality<'a>, expr: &Expr, listed: Option<u64>) -> Attribute {
        let key = self.unseen();
        if self.is_function(expr) {
            rows.dependencies.push(Dependency {
                by: columns_of(expr),
                told: key,
            });
        } else {
            rows.determine(key);
        }
        rows.dependencies
            .extend(expr.as_column().map(|column| Dependency {
                by: vec![key],
                told: Attribute::Column(column),
            }));
        rows.counts.extend(listed.map(|most| Count {
            of: vec![key],
            most,
            is_public: false,
        }));
        key
    }
}

fn columns_of(expr: &Expr) -> Vec<Attribute> {
    expr.columns().into_iter().map(Attribute::Column).collect()
}

impl<'a> Cardinality<'a> {
    /// The pairs of two relations' rows.
    fn beside(self, other: Self) -> Self {
        Self {
            rows: [self.rows, other.rows].concat(),
            dependencies: [self.dependencies, other.dependencies].concat(),
            row_columns: [self.row_columns, other.row_columns].concat(),
            counts: [self.counts, other.counts].concat(),
            nullable_keys: [self.nullable_keys, other.nullable_keys].concat(),
            public_rows: self.public_rows,
        }
    }

    /// Keys of which no column can be NULL identify their rows; `present` holds more columns that
    /// cannot be NULL.
    fn note_keys(&mut self, present: &[ColumnId]) {
        let mut left = Vec::new();
        for mut key in std::mem::take(&mut self.nullable_keys) {
            key.nullable.retain(|id| !present.contains(id));
            if key.nullable.is_empty() {
                self.dependencies.push(Dependency {
                    by: key.columns.into_iter().map(Attribute::Column).collect(),
                    told: key.row,
                });
            } else {
                left.push(key);
            }
        }
        self.nullable_keys = left;
    }

    /// The row has one value of it.
    fn determine(&mut self, told: Attribute) {
        self.dependencies.push(Dependency {
            by: self.rows.clone(),
            told,
        });
    }
}

#[cfg(test)]
mod tests;
