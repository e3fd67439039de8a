//! Labels: which rows belong to exactly one privacy unit, and which columns are that unit. A join
//! that cannot prove it is refused.

mod group;
mod join;
mod points;
mod subquery;
mod union;
mod window;

use points::{references, unique_columns};

use super::bounded_rows::{BoundedRows, bound, filter};
use super::fanout::FanOut;
use super::inline;
use super::interval::Interval;
use super::join_matches::ColumnTypes;
use super::join_order::reorder;
use super::lineage::{Label, Lineage};
use super::planning_effort::PlanningEffort;
use super::range::Ranges;
use super::row_facts::always_true;
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, ColumnInfo, Expr, JoinKind, Relation, Scan, ScanId, TableId};
use crate::policy::{ColumnPosition, Policy, Protection, Table};
use crate::refusal::{Refusal, TextPosition, reason};

/// Bounds on the rows of one unit are counted up to here.
const ROWS_MAX: u64 = 1 << 32;

/// Labels relations. It adds the scans of key paths, and so columns.
pub struct Labels<'a> {
    pub policy: &'a Policy,
    pub columns: &'a mut Vec<ColumnInfo>,
    /// The number of the next scan of a key path.
    pub scans: ScanId,
    /// The ranges of columns that grouping, windows and unions within a unit compute.
    pub opaque: Vec<(ColumnId, Interval)>,
    /// Public rows that each private row is paired with.
    pub fan_outs: Vec<FanOut>,
    /// Conditions that were pushed below a bound on rows, and need not be repeated above it.
    pub sunk: Vec<Expr>,
    /// Whether some subquery reads several rows of a unit for each of several outer rows of the
    /// same unit.
    pub is_crossed: bool,
    pub effort: &'a PlanningEffort,
}

impl Labels<'_> {
    /// The relation with key paths joined in and unit equalities made explicit, and its label.
    /// `above` holds conditions that apply to every row of it.
    ///
    /// # Guarantee
    /// - [`Label::Public`]: the rows depend on public tables and released rows alone.
    /// - [`Label::Private`]: every row belongs to exactly one unit, which each of the lineage's
    ///   `units` holds, never NULL. The rows of one unit depend on that unit's private rows and on
    ///   public rows alone: two private sides meet only where their units are equal, a subquery
    ///   over private rows is tied to the unit of the row around it, and no group, window or bound
    ///   holds rows of two units. So the relations over two neighbouring databases differ in the
    ///   rows of the one unit, and in nothing else.
    /// - Rows that belong to no unit are left out at their scan.
    ///
    /// # Requires
    /// The policy was checked against the catalog: each step of a key path refers to a unique
    /// column, and the unit's column has a deterministic collation. With `trusted_path` the owner
    /// vouches that the path's values are there; uniqueness is checked all the same. The catalog's
    /// fingerprint is checked in the transaction that runs the statement.
    ///
    /// # Reference
    /// The unit of privacy is all rows of one unit: user-level differential privacy, as in Wilson
    /// et al. 2020 (arXiv 1909.01917), where joins must be on the unit's identifier.
    ///
    /// # Errors
    /// 0A000 where two private sides are joined on something else than their unit.
    pub fn label(
        &mut self,
        relation: Relation,
        above: &[Expr],
    ) -> Result<(Relation, Label), Refusal> {
        match relation {
            Relation::Scan(scan) => self.scan(scan),
            Relation::Constants(_) => Ok((relation, Label::Public)),
            Relation::Filter { input, predicate } => {
                let mut conditions = above.to_vec();
                conditions.extend(predicate.conjuncts().into_iter().cloned());
                let (input, label) = self.label(*input, &conditions)?;
                let conjuncts = self.left_of(predicate.conjuncts().into_iter().cloned().collect());
                let conjuncts = conjuncts
                    .into_iter()
                    .map(|c| self.label_subqueries(c, (&label, Some(&input))))
                    .collect::<Result<Vec<_>, _>>()?;
                self.leave(above);
                let (input, label, conjuncts) = self.asked_of(input, label, conjuncts);
                Ok((filter(input, conjuncts), label))
            }
            Relation::Project { input, columns } => {
                let (input, label) = self.label(*input, above)?;
                let computed = columns.into_iter().map(|(id, expr)| {
                    Ok((id, self.label_subqueries(expr, (&label, Some(&input)))?))
                });
                let columns = computed.collect::<Result<_, Refusal>>()?;
                let (input, label, _) = self.asked_of(input, label, Vec::new());
                Ok((
                    Relation::Project {
                        input: Box::new(input),
                        columns,
                    },
                    label,
                ))
            }
            Relation::Join { .. } => match reorder(relation, above) {
                Relation::Join {
                    kind,
                    left,
                    right,
                    on,
                } => self.join(kind, *left, *right, on, above),
                other => self.label(other, above),
            },
            Relation::Group {
                input,
                keys,
                aggregates,
            } => self.group(*input, keys, aggregates),
            Relation::Window { input, columns } => self.window(*input, columns),
            Relation::Union { columns, arms } => self.union(columns, arms),
            // A bound is placed again where one is needed.
            Relation::Bounded {
                input,
                unit: _,
                rows: _,
            } => self.label(*input, above),
        }
    }

    fn scan(&mut self, scan: Scan) -> Result<(Relation, Label), Refusal> {
        let policy = self.policy;
        let table = &policy.tables[scan.table.0];
        let Protection::Private(unit) = &table.protection else {
            return Ok((Relation::Scan(scan), Label::Public));
        };
        let mut points = unique_columns(policy, scan.table, &scan.columns);
        points.extend(references(policy, scan.table, &scan.columns));
        let mut last = (scan.table, scan.columns.clone());
        let mut relation = Relation::Scan(scan);
        let mut unit_column = None;
        for (at, step) in unit.path.iter().enumerate() {
            let own = find(&policy.tables[last.0.0], &step.column, &last.1)?;
            let target = policy
                .tables
                .iter()
                .position(|t| t.schema == step.schema && t.name == step.table)
                .map(TableId);
            let target = target.ok_or_else(|| broken_path(table))?;
            let position = position(&policy.tables[target.0], &step.referenced)?;
            points.push((own, target, ColumnPosition(position)));
            if at + 1 == unit.path.len() && step.referenced == unit.column {
                // The foreign key holds the unit's own value: the table it refers to is not read.
                unit_column = Some(own);
                break;
            }
            let (joined, columns) = self.hidden_scan(target);
            let on = equal(&policy.tables[target.0], own, columns[position], position);
            relation = Relation::Join {
                kind: JoinKind::Inner,
                left: Box::new(relation),
                right: Box::new(joined),
                on: Some(on),
            };
            points.extend(unique_columns(policy, target, &columns));
            points.extend(references(policy, target, &columns));
            last = (target, columns);
        }
        let unit_column = match unit_column {
            Some(column) => column,
            None => find(&policy.tables[last.0.0], &unit.column, &last.1)?,
        };
        // At the scan itself: an outer join or a window above must never see rows that belong to no
        // unit.
        let is_somebodys = Expr::call(
            Function::IsNotNull,
            vec![Expr::column(unit_column, unit.data_type.clone())],
            Type::Bool,
        );
        let relation = Relation::Filter {
            input: Box::new(relation),
            predicate: is_somebodys,
        };
        let (data_type, rows_per_unit) = (unit.data_type.clone(), u64::from(unit.rows_per_unit));
        let rows_enforced = (unit.is_primary_key && unit.path.is_empty()).then_some(1);
        let lineage = Lineage {
            units: vec![unit_column],
            data_type,
            rows_per_unit,
            rows_enforced,
            is_multiplied: false,
            points,
        };
        Ok((relation, Label::Private(lineage)))
    }

    fn hidden_scan(&mut self, table: TableId) -> (Relation, Vec<ColumnId>) {
        let number = self.scans.take();
        let mut ids = Vec::new();
        for (position, column) in self.policy.tables[table.0].columns.iter().enumerate() {
            ids.push(ColumnId(self.columns.len() as u32));
            self.columns.push(ColumnInfo {
                name: column.name.clone(),
                data_type: column.data_type.clone(),
                nullable: !column.not_null,
                origin: Some((table, ColumnPosition(position))),
            });
        }
        (
            Relation::Scan(Scan {
                table,
                columns: ids.clone(),
                number,
                place: TextPosition::default(),
            }),
            ids,
        )
    }

    /// The ranges of values over rows that meet the conditions.
    fn ranges<'b>(
        &'b self,
        computed: &'b [(ColumnId, Expr)],
        conditions: Vec<&'b Expr>,
    ) -> Ranges<'b> {
        Ranges {
            policy: self.policy,
            columns: self.columns,
            computed,
            opaque: &self.opaque,
            conditions,
            excluded: Vec::new(),
        }
    }

    fn schema(&self) -> ColumnTypes<'_> {
        ColumnTypes {
            policy: self.policy,
            columns: self.columns,
        }
    }
}

/// The conditions that hold for every row of the relation, over scanned columns.
fn inlined_conditions(relation: &Relation, computed: &[(ColumnId, Expr)]) -> Vec<Expr> {
    always_true(relation)
        .iter()
        .map(|condition| inline(condition, computed))
        .collect()
}

fn equal(table: &Table, own: ColumnId, other: ColumnId, position: usize) -> Expr {
    let data_type = table.columns[position].data_type.clone();
    Expr::call(
        Function::Equal,
        vec![
            Expr::column(own, data_type.clone()),
            Expr::column(other, data_type),
        ],
        Type::Bool,
    )
}

fn position(table: &Table, column: &str) -> Result<usize, Refusal> {
    table
        .columns
        .iter()
        .position(|c| c.name == column)
        .ok_or_else(|| broken_path(table))
}

fn find(table: &Table, column: &str, ids: &[ColumnId]) -> Result<ColumnId, Refusal> {
    Ok(ids[position(table, column)?])
}

fn broken_path(table: &Table) -> Refusal {
    Refusal::new(
        reason::INTERNAL_ERROR,
        format!(
            "the policy's path from {}.{} to its unit is incomplete",
            table.schema, table.name
        ),
    )
}

impl Labels<'_> {
    /// The conditions that were not pushed below a bound.
    pub(super) fn left_of(&self, conditions: Vec<Expr>) -> Vec<Expr> {
        conditions
            .into_iter()
            .filter(|condition| !self.sunk.contains(condition))
            .collect()
    }

    /// Forgets the conditions below a bound, except those that also come from above.
    pub(super) fn leave(&mut self, above: &[Expr]) {
        self.sunk.retain(|condition| above.contains(condition));
    }

    /// Bounds the rows if a subquery reads several rows of a unit for each of them.
    pub(super) fn asked_of(
        &mut self,
        input: Relation,
        label: Label,
        conditions: Vec<Expr>,
    ) -> (Relation, Label, Vec<Expr>) {
        match label {
            Label::Private(lineage) if std::mem::take(&mut self.is_crossed) => {
                let BoundedRows {
                    relation,
                    lineage,
                    sunk,
                } = bound(input, lineage, &conditions);
                (
                    relation,
                    Label::Private(lineage),
                    conditions
                        .into_iter()
                        .filter(|condition| !sunk.contains(condition))
                        .collect(),
                )
            }
            label => (input, label, conditions),
        }
    }
}
