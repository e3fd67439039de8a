//! Labels: which rows belong to exactly one privacy unit, and by which columns. Joins that cannot
//! prove it are refused.

use super::bounded_rows::{Bounded, bounded, filtered, is_quadratic};
use super::fanout::FanOut;
use super::inline;
use super::interval::Interval;
use super::join_matches::{Schema, at_most_one, with_common};
use super::join_order::{of_sides, ordered};
use super::per_unit::{check_aggregate, check_key, check_shown, range};
use super::range::Ranges;
use super::row_facts::{always_true, computed_columns, holds_unique_key};
use crate::catalog::{Equality, Type};
use crate::ir::functions::Function;
use crate::ir::{
    Aggregate, ColumnId, ColumnInfo, Expr, JoinKind, Node, Operation, Relation, Scan, TableId,
    Window, WindowFunction,
};
use crate::policy::{Policy, Protection, Table, Unit};
use crate::refusal::{Refusal, sqlstate};

/// Rows of one unit are counted up to here.
const ROWS_MAX: u64 = 1 << 32;

/// Whose rows a relation holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Label {
    /// No private row behind it.
    Public,
    /// Every row belongs to exactly one unit.
    Private(Lineage),
}

/// How rows belong to units.
#[derive(Debug, Clone, PartialEq)]
pub struct Lineage {
    /// Columns that *are* the unit here: NOT NULL, of one type with a deterministic collation.
    /// Never empty.
    pub units: Vec<ColumnId>,
    pub data_type: Type,
    /// Rows one unit may contribute before the clip; a clip enforces it, whatever the tables hold.
    pub rows_per_unit: u64,
    /// Rows that one unit has here by construction, whatever the tables hold; `None` where nothing
    /// bounds them.
    pub rows_enforced: Option<u64>,
    /// A row may stand beside any number of public rows.
    pub is_multiplied: bool,
    /// Columns that hold the value of a unique column of a private table (that column itself, or a
    /// foreign key along the path to the unit), so that equal values belong to one unit: (column
    /// here, table, position there).
    pub(super) points: Vec<(ColumnId, TableId, usize)>,
}

/// Labels relations; joins in the rest of a key path, so columns may be added.
pub struct Labels<'a> {
    pub policy: &'a Policy,
    pub columns: &'a mut Vec<ColumnInfo>,
    pub scans: usize,
    /// Where the columns that per-unit steps make lie.
    pub opaque: Vec<(ColumnId, Interval)>,
    /// Public rows that stand beside each private one.
    pub beside: Vec<FanOut>,
    /// Conditions that stand below a bound by now.
    pub sunk: Vec<Expr>,
    /// A subquery reads several rows of a unit for each of several rows of the same unit around it.
    pub is_crossed: bool,
}

impl Labels<'_> {
    /// The relation with key paths joined in and unit equalities made explicit, and its label.
    /// `above` holds conditions that apply to every row of it.
    ///
    /// # Errors
    /// 0A000 where two private sides are joined otherwise than on their unit.
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
                    .map(|c| self.embedded(c, (&label, Some(&input))))
                    .collect::<Result<Vec<_>, _>>()?;
                self.leave(above);
                let (input, label, conjuncts) = self.asked_of(input, label, conjuncts);
                Ok((filtered(input, conjuncts), label))
            }
            Relation::Project { input, columns } => {
                let (input, label) = self.label(*input, above)?;
                let computed = columns
                    .into_iter()
                    .map(|(id, expr)| Ok((id, self.embedded(expr, (&label, Some(&input)))?)));
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
            Relation::Join { .. } => match ordered(relation, above) {
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
            // Bounded anew where need be.
            Relation::Bounded {
                input,
                unit: _,
                rows: _,
            } => self.label(*input, above),
        }
    }

    /// Windows within one unit: the unit is added to every partition that it is not in.
    fn window(
        &mut self,
        input: Relation,
        columns: Vec<(ColumnId, Window)>,
    ) -> Result<(Relation, Label), Refusal> {
        let (input, label) = self.label(input, &[])?;
        let Label::Private(lineage) = label else {
            return Err(Refusal::unsupported(
                "a window over rows of public tables beside private rows",
            ));
        };
        let is_quadratic = columns.iter().any(|(_, window)| is_quadratic(window));
        let whole = |relation, lineage| Bounded {
            relation,
            lineage,
            sunk: Vec::new(),
        };
        let Bounded {
            relation: input,
            lineage,
            sunk: _,
        } = if is_quadratic {
            bounded(input, lineage, &[])
        } else {
            whole(input, lineage)
        };
        let computed = computed_columns(&input);
        let always: Vec<Expr> = always_true(&input)
            .iter()
            .map(|c| inline(c, &computed))
            .collect();
        let mut tied = Vec::new();
        for (id, mut window) in columns {
            if !window
                .partition
                .iter()
                .any(|e| e.as_column().is_some_and(|c| lineage.units.contains(&c)))
            {
                window
                    .partition
                    .insert(0, Expr::column(lineage.units[0], lineage.data_type.clone()));
            }
            let conditions = always.iter().flat_map(Expr::conjuncts).collect();
            let ranges = Ranges {
                policy: self.policy,
                columns: self.columns,
                computed: &computed,
                opaque: &self.opaque,
                conditions,
                excluded: Vec::new(),
            };
            let rows = lineage.rows_per_unit;
            if let WindowFunction::Neighbour { value, offset: _ }
            | WindowFunction::Placed { value, place: _ } = &window.ranked
            {
                check_shown(&inline(value, &computed), self.policy, self.columns)?;
            }
            let within = match &window.ranked {
                WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank => {
                    Interval::new(1.0, rows as f64)
                }
                WindowFunction::Tile(count) => Interval::new(1.0, *count as f64),
                WindowFunction::PercentRank | WindowFunction::Share => Interval::new(0.0, 1.0),
                WindowFunction::Neighbour { value, offset: _ }
                | WindowFunction::Placed { value, place: _ } => ranges.of(value),
                WindowFunction::Aggregate(aggregate) => {
                    check_aggregate(aggregate, &computed, self.policy, self.columns)
                        .map_err(|refusal| refusal.within(|| aggregate.place.0))?;
                    let within = range(aggregate, rows, &ranges);
                    // A frame may hold nobody.
                    let counts =
                        aggregate.operation == Operation::CountRows && window.frame.is_some();
                    if counts {
                        within.hull(Interval::point(0.0))
                    } else {
                        within
                    }
                }
            };
            self.opaque.push((id, within));
            tied.push((id, window));
        }
        Ok((
            Relation::Window {
                input: Box::new(input),
                columns: tied,
            },
            Label::Private(lineage),
        ))
    }

    /// UNION ALL: a hidden column of every arm's unit is carried along, whatever the arms show.
    fn union(
        &mut self,
        columns: Vec<ColumnId>,
        arms: Vec<(Relation, Vec<ColumnId>)>,
    ) -> Result<(Relation, Label), Refusal> {
        let mut columns = columns;
        let mut labelled: Vec<(Relation, Vec<ColumnId>)> = Vec::new();
        let mut lineages: Vec<Lineage> = Vec::new();
        for (arm, mut ids) in arms {
            let (arm, label) = self.label(arm, &[])?;
            let Label::Private(lineage) = label else {
                return Err(
                    Refusal::unsupported("UNION of private rows with public ones")
                        .hint("Aggregate each side by itself and unite the results."),
                );
            };
            if lineages
                .first()
                .is_some_and(|first| first.data_type != lineage.data_type)
            {
                let unit = &self.policy.privacy.unit;
                return Err(Refusal::new(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    format!(
                        "the branches of this UNION identify the {unit} by columns of different \
                            types"
                    ),
                ));
            }
            for id in &ids {
                let computed = computed_columns(&arm);
                let info = &self.columns[id.0 as usize];
                if info.data_type.is_string() {
                    check_key(
                        &inline(&Expr::column(*id, info.data_type.clone()), &computed),
                        self.policy,
                        self.columns,
                    )?;
                }
            }
            ids.push(lineage.units[0]);
            labelled.push((arm, ids));
            lineages.push(lineage);
        }
        let Some(first) = lineages.first() else {
            return Err(Refusal::unsupported("UNION of nothing"));
        };
        let data_type = first.data_type.clone();
        let hidden = ColumnId(self.columns.len() as u32);
        self.columns.push(ColumnInfo {
            name: self.policy.privacy.unit.clone(),
            data_type: data_type.clone(),
            nullable: false,
            origin: None,
        });
        columns.push(hidden);
        for (at, column) in columns.iter().enumerate() {
            let each = labelled.iter().map(|(arm, ids)| {
                let computed = computed_columns(arm);
                let always: Vec<Expr> = always_true(arm)
                    .iter()
                    .map(|c| inline(c, &computed))
                    .collect();
                let conditions = always.iter().flat_map(Expr::conjuncts).collect();
                let value =
                    Expr::column(ids[at], self.columns[ids[at].0 as usize].data_type.clone());
                Ranges {
                    policy: self.policy,
                    columns: self.columns,
                    computed: &computed,
                    opaque: &self.opaque,
                    conditions,
                    excluded: Vec::new(),
                }
                .of(&value)
            });
            let range = each.reduce(Interval::hull).unwrap_or(Interval::ALL);
            self.opaque.push((*column, range));
        }
        let shown = |at: usize| {
            labelled
                .iter()
                .zip(&lineages)
                .all(|((_, ids), lineage)| lineage.units.contains(&ids[at]))
        };
        let units = (0..columns.len())
            .rev()
            .filter(|at| shown(*at))
            .map(|at| columns[at])
            .collect();
        let rows_per_unit = lineages
            .iter()
            .fold(0u64, |sum, l| sum.saturating_add(l.rows_per_unit))
            .min(ROWS_MAX);
        let is_multiplied = lineages.iter().any(|lineage| lineage.is_multiplied);
        let rows_enforced = lineages
            .iter()
            .try_fold(0u64, |sum, l| Some(sum.saturating_add(l.rows_enforced?)));
        let lineage = Lineage {
            units,
            data_type,
            rows_per_unit,
            rows_enforced,
            is_multiplied,
            points: Vec::new(),
        };
        Ok((
            Relation::Union {
                columns,
                arms: labelled,
            },
            Label::Private(lineage),
        ))
    }

    /// An expression whose subqueries are labelled too: each reads public rows, or rows of the very
    /// unit of the row that it stands in.
    fn embedded(
        &mut self,
        expr: Expr,
        around: (&Label, Option<&Relation>),
    ) -> Result<Expr, Refusal> {
        let Expr { node, data_type } = expr;
        let mut boxed = |e: Box<Expr>| self.embedded(*e, around).map(Box::new);
        let node = match node {
            Node::Column(_) | Node::Literal(_) | Node::Constant(_) => node,
            Node::Call {
                function,
                arguments,
            } => Node::Call {
                function,
                arguments: arguments
                    .into_iter()
                    .map(|a| self.embedded(a, around))
                    .collect::<Result<_, _>>()?,
            },
            Node::Cast(inner) => Node::Cast(boxed(inner)?),
            Node::Case {
                branches,
                otherwise,
            } => {
                let otherwise = otherwise.map(&mut boxed).transpose()?;
                let branches = branches
                    .into_iter()
                    .map(|(c, r)| Ok((self.embedded(c, around)?, self.embedded(r, around)?)));
                Node::Case {
                    branches: branches.collect::<Result<_, Refusal>>()?,
                    otherwise,
                }
            }
            Node::Exists {
                relation,
                condition,
            } => self.exists(*relation, condition.as_deref(), around)?,
        };
        Ok(Expr { node, data_type })
    }

    /// A subquery within one unit: bounded, as the rows around it, where several rows of it stand
    /// for each of several around.
    fn exists(
        &mut self,
        relation: Relation,
        condition: Option<&Expr>,
        around: (&Label, Option<&Relation>),
    ) -> Result<Node, Refusal> {
        let conditions = with_common(
            condition
                .into_iter()
                .flat_map(|c| c.conjuncts().into_iter().cloned())
                .collect(),
        );
        let outside = std::mem::take(&mut self.is_crossed);
        let (relation, inner) = self.label(relation, &[])?;
        if let (Label::Private(_), Label::Public) = (around.0, &inner) {
            self.beside.extend(FanOut::of(&relation, &conditions));
        }
        let (joint, equality) = self.tied(around.0, inner.clone(), &conditions)?;
        let conditions: Vec<Expr> = conditions
            .into_iter()
            .chain(equality)
            .map(|c| self.embedded(c, (&joint, None)))
            .collect::<Result<_, _>>()?;
        let (relation, conditions) = match (around, inner) {
            ((Label::Private(outer), rows), Label::Private(lineage)) => {
                let finds_one = at_most_one(self.schema(), &relation, &lineage.units, &conditions);
                let is_found_once = || {
                    rows.is_some_and(|rows| {
                        at_most_one(self.schema(), rows, &outer.units, &conditions)
                    })
                };
                self.is_crossed |= !finds_one && !is_found_once();
                if self.is_crossed {
                    let Bounded {
                        relation,
                        lineage: _,
                        sunk,
                    } = bounded(relation, lineage, &conditions);
                    (
                        relation,
                        conditions
                            .into_iter()
                            .filter(|condition| !sunk.contains(condition))
                            .collect(),
                    )
                } else {
                    (relation, conditions)
                }
            }
            ((Label::Private(_) | Label::Public, _), _) => (relation, conditions),
        };
        self.is_crossed |= outside;
        Ok(Node::Exists {
            relation: Box::new(relation),
            condition: Expr::and(conditions).map(Box::new),
        })
    }

    /// What the row around and a row of the subquery belong to together, and the units' equality
    /// where only a key was equated.
    fn tied(
        &self,
        around: &Label,
        inner: Label,
        conditions: &[Expr],
    ) -> Result<(Label, Option<Expr>), Refusal> {
        match (around, inner) {
            (around, Label::Public) => Ok((around.clone(), None)),
            (Label::Public, Label::Private(_)) => Err(Refusal::unsupported(
                "a condition on rows of a public table that reads private rows",
            )
            .hint("Join the tables and aggregate the private one.")),
            (Label::Private(a), Label::Private(b)) => {
                let all: Vec<Expr> = conditions.to_vec();
                let equality = self
                    .same_unit(a, &b, &all)
                    .map_err(|refusal| self.untied(refusal))?;
                Ok((
                    Label::Private(merge(JoinKind::Inner, a.clone(), b)),
                    equality,
                ))
            }
        }
    }

    fn untied(&self, refusal: Refusal) -> Refusal {
        let unit = &self.policy.privacy.unit;
        Refusal::new(
            &refusal.sqlstate,
            format!(
                "a subquery over private rows that is not tied to \
            the {unit} of the row around it is not supported"
            ),
        )
        .detail(format!(
            "Whether a row is kept would depend on the rows of another {unit}."
        ))
        .hint(format!(
            "Add a condition to the subquery that equates the {unit} of both, as in \
                WHERE a.id = b.id."
        ))
    }

    /// Groups within one unit: the unit is added to the keys where it is not among them, so that no
    /// group can hold rows of two.
    fn group(
        &mut self,
        input: Relation,
        keys: Vec<ColumnId>,
        aggregates: Vec<(ColumnId, Aggregate)>,
    ) -> Result<(Relation, Label), Refusal> {
        let mut keys = keys;
        let (input, label) = self.label(input, &[])?;
        let Label::Private(lineage) = label else {
            return Ok((
                Relation::Group {
                    input: Box::new(input),
                    keys,
                    aggregates,
                },
                Label::Public,
            ));
        };
        let mut units: Vec<ColumnId> = lineage
            .units
            .iter()
            .copied()
            .filter(|id| keys.contains(id))
            .collect();
        if units.is_empty() {
            units.push(lineage.units[0]);
            keys.insert(0, lineage.units[0]);
        }
        let computed = computed_columns(&input);
        for key in keys.iter().filter(|key| !units.contains(key)) {
            let expr = Expr::column(*key, self.columns[key.0 as usize].data_type.clone());
            check_key(&inline(&expr, &computed), self.policy, self.columns)?;
        }
        let rows = if holds_unique_key(&input, self.policy, |id| keys.contains(&id)) {
            1
        } else {
            lineage.rows_per_unit
        };
        let always: Vec<Expr> = always_true(&input)
            .iter()
            .map(|c| inline(c, &computed))
            .collect();
        for (id, aggregate) in &aggregates {
            check_aggregate(aggregate, &computed, self.policy, self.columns)?;
            let filter = aggregate.filter.as_ref().map(|f| inline(f, &computed));
            let conditions = always
                .iter()
                .chain(&filter)
                .flat_map(Expr::conjuncts)
                .collect();
            let ranges = Ranges {
                policy: self.policy,
                columns: self.columns,
                computed: &computed,
                opaque: &self.opaque,
                conditions,
                excluded: Vec::new(),
            };
            let range = range(aggregate, rows, &ranges);
            self.opaque.push((*id, range));
        }
        let rows_per_unit = if keys.iter().all(|key| units.contains(key)) {
            1
        } else {
            lineage.rows_per_unit
        };
        let rows_enforced = if rows_per_unit == 1 {
            Some(1)
        } else {
            lineage.rows_enforced
        };
        let points = lineage
            .points
            .into_iter()
            .filter(|(id, ..)| keys.contains(id))
            .collect();
        let lineage = Lineage {
            units,
            data_type: lineage.data_type,
            rows_per_unit,
            rows_enforced,
            is_multiplied: lineage.is_multiplied,
            points,
        };
        Ok((
            Relation::Group {
                input: Box::new(input),
                keys,
                aggregates,
            },
            Label::Private(lineage),
        ))
    }

    fn scan(&mut self, scan: Scan) -> Result<(Relation, Label), Refusal> {
        let policy = self.policy;
        let table = &policy.tables[scan.table.0];
        let Protection::Private(unit) = &table.protection else {
            return Ok((Relation::Scan(scan), Label::Public));
        };
        let mut points = unique_columns(policy, scan.table, &scan.columns);
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
            points.push((own, target, position));
            if at + 1 == unit.path.len() && step.referenced == unit.column {
                // The foreign key holds the unit's own value: no need to read the table it points
                // to.
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
            last = (target, columns);
        }
        let unit_column = match unit_column {
            Some(column) => column,
            None => find(&policy.tables[last.0.0], &unit.column, &last.1)?,
        };
        // At the scan itself: an outer join or a window above must never see rows that belong to
        // nobody.
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
        let number = self.scans;
        self.scans += 1;
        let mut ids = Vec::new();
        for (position, column) in self.policy.tables[table.0].columns.iter().enumerate() {
            ids.push(ColumnId(self.columns.len() as u32));
            self.columns.push(ColumnInfo {
                name: column.name.clone(),
                data_type: column.data_type.clone(),
                nullable: !column.not_null,
                origin: Some((table, position)),
            });
        }
        (
            Relation::Scan(Scan {
                table,
                columns: ids.clone(),
                number,
            }),
            ids,
        )
    }

    fn join(
        &mut self,
        kind: JoinKind,
        left: Relation,
        right: Relation,
        on: Option<Expr>,
        above: &[Expr],
    ) -> Result<(Relation, Label), Refusal> {
        let on_conjuncts: Vec<Expr> = on
            .iter()
            .flat_map(|e| e.conjuncts().into_iter().cloned())
            .collect();
        // Of FROM's own joins ON is WHERE, or is refused before: this one ties a scalar subquery.
        if on_conjuncts.iter().any(|c| !c.relations().is_empty()) {
            return Err(Refusal::unsupported(
                "a scalar subquery with a subquery inside it that refers to a query around both",
            )
            .hint(
                "Write the inner one beside it, as in CASE WHEN EXISTS (…) THEN (SELECT …) END.",
            ));
        }
        let (inner_conditions, right_above): (Vec<Expr>, &[Expr]) = match kind {
            JoinKind::Inner => (above.iter().chain(&on_conjuncts).cloned().collect(), above),
            // WHERE above an outer join does not hold for the null-extended side's own rows.
            JoinKind::Left => (on_conjuncts.clone(), &[]),
        };
        let given = inner_conditions.len();
        let inner_conditions = with_common(inner_conditions);
        let (left, left_label) = self.label(left, above)?;
        let (right, right_label) = self.label(right, right_above)?;
        // A column of a third relation has no one value for each row of either side.
        let joining = of_sides(&inner_conditions, [&left, &right]);
        let mut sunk = Vec::new();
        let (left, right, label, equality) = match (left_label, right_label) {
            (Label::Public, Label::Public) => (left, right, Label::Public, None),
            (Label::Private(lineage), Label::Public) => {
                let lineage = self.fan_out(lineage, &right, &joining);
                (left, right, Label::Private(lineage), None)
            }
            (Label::Public, Label::Private(lineage)) => match kind {
                JoinKind::Inner => {
                    let lineage = self.fan_out(lineage, &left, &joining);
                    (left, right, Label::Private(lineage), None)
                }
                JoinKind::Left => {
                    return Err(Refusal::unsupported(
                        "an outer join that keeps every row of a public table",
                    )
                    .hint("Write the private table on the preserved side, or use an inner join."));
                }
            },
            (Label::Private(a), Label::Private(b)) => {
                let equality = self.same_unit(&a, &b, &joining)?;
                let of_left = if kind == JoinKind::Inner {
                    &joining
                } else {
                    above
                };
                let met = self.met(kind, (left, a, of_left), (right, b), &joining);
                sunk = met.sunk;
                (met.left, met.right, Label::Private(met.lineage), equality)
            }
        };
        let common = inner_conditions[given..]
            .iter()
            .filter(|c| is_between(c, &left, &right));
        let kept = self
            .left_of(on_conjuncts.clone())
            .into_iter()
            .filter(|condition| !sunk.contains(condition));
        let on = Expr::and(kept.chain(common.cloned()).chain(equality).collect());
        self.leave(above);
        Ok((
            Relation::Join {
                kind,
                left: Box::new(left),
                right: Box::new(right),
                on,
            },
            label,
        ))
    }

    fn schema(&self) -> Schema<'_> {
        Schema {
            policy: self.policy,
            columns: self.columns,
        }
    }

    /// Two sides of one unit. Where both may have several rows of a unit for one pair, both are
    /// bounded, and what their product is bounds the pairs.
    fn met(
        &mut self,
        kind: JoinKind,
        left: (Relation, Lineage, &[Expr]),
        right: (Relation, Lineage),
        conditions: &[Expr],
    ) -> JoinedSides {
        let ((left, a, of_left), (right, b)) = (left, right);
        let finds_one = at_most_one(self.schema(), &right, &b.units, conditions);
        let is_found_once = at_most_one(self.schema(), &left, &a.units, conditions);
        let product = |a: u64, b: u64| a.saturating_mul(b).min(ROWS_MAX);
        // Rows of the left side that find none are kept.
        let sum = |a: u64, b: u64| a.saturating_add(b).min(product(a, b));
        let both = |of: &dyn Fn(u64, u64) -> u64, a: &Lineage, b: &Lineage| {
            (
                of(a.rows_per_unit, b.rows_per_unit),
                a.rows_enforced.zip(b.rows_enforced).map(|(a, b)| of(a, b)),
            )
        };
        let mut sunk = Vec::new();
        let (left, right, a, b, (rows_per_unit, rows_enforced)) =
            match (kind, finds_one, is_found_once) {
                (_, true, _) => {
                    let rows = (a.rows_per_unit, a.rows_enforced);
                    (left, right, a, b, rows)
                }
                (JoinKind::Inner, false, true) => {
                    let rows = (b.rows_per_unit, b.rows_enforced);
                    (left, right, a, b, rows)
                }
                (JoinKind::Left, false, true) => {
                    let rows = both(&sum, &a, &b);
                    (left, right, a, b, rows)
                }
                (JoinKind::Inner | JoinKind::Left, false, false) => {
                    let (left, right) = (bounded(left, a, of_left), bounded(right, b, conditions));
                    // What holds above an outer join is no condition of the side that may be
                    // missing.
                    let of_above = if kind == JoinKind::Inner {
                        [left.sunk, right.sunk.clone()].concat()
                    } else {
                        left.sunk
                    };
                    self.sunk.extend(of_above);
                    sunk = right.sunk;
                    let rows = both(&product, &left.lineage, &right.lineage);
                    (
                        left.relation,
                        right.relation,
                        left.lineage,
                        right.lineage,
                        rows,
                    )
                }
            };
        JoinedSides {
            left,
            right,
            lineage: Lineage {
                rows_per_unit,
                rows_enforced,
                ..merge(kind, a, b)
            },
            sunk,
        }
    }

    /// Private rows beside public ones: at most one match each where the public side is unique on
    /// the join columns, else the policy's own limit.
    fn fan_out(&mut self, lineage: Lineage, public: &Relation, conditions: &[Expr]) -> Lineage {
        let unique = at_most_one(self.schema(), public, &[], conditions);
        self.beside.extend(FanOut::of(public, conditions));
        let rows_per_unit = if unique {
            lineage.rows_per_unit
        } else {
            lineage
                .rows_per_unit
                .max(u64::from(self.policy.limits.rows_per_unit))
        };
        let rows_enforced = lineage.rows_enforced.filter(|_| unique);
        Lineage {
            rows_per_unit,
            rows_enforced,
            is_multiplied: lineage.is_multiplied || !unique,
            ..lineage
        }
    }

    /// Proves that joined rows share their unit: by equality of the unit itself, or of a key on the
    /// path to it (then the unit's equality is added).
    fn same_unit(
        &self,
        a: &Lineage,
        b: &Lineage,
        conditions: &[Expr],
    ) -> Result<Option<Expr>, Refusal> {
        let same_type = a.data_type == b.data_type;
        let pairs = conditions.iter().filter_map(equated);
        for (x, y) in pairs {
            let direct = (a.units.contains(&x) && b.units.contains(&y))
                || (a.units.contains(&y) && b.units.contains(&x));
            if direct && same_type {
                return Ok(None);
            }
            if same_type && (share_point(a, b, x, y) || share_point(a, b, y, x)) {
                let unit =
                    |lineage: &Lineage| Expr::column(lineage.units[0], lineage.data_type.clone());
                return Ok(Some(Expr::call(
                    Function::Equal,
                    vec![unit(a), unit(b)],
                    Type::Bool,
                )));
            }
        }
        let unit = &self.policy.privacy.unit;
        Err(Refusal::unsupported(format!(
            "a join of private tables that does not equate the {unit} \
            they belong to"
        ))
        .detail("Rows of two units would meet in one row, and no bound would hold for either.")
        .hint(format!(
            "Join on the column that identifies the {unit}, or along the foreign key \
                that leads to it."
        )))
    }
}

/// Two sides of one unit, as they are joined.
struct JoinedSides {
    left: Relation,
    right: Relation,
    lineage: Lineage,
    /// Conditions of ON that stand below the right side's bound.
    sunk: Vec<Expr>,
}

/// It reads columns of both sides, and of nothing else.
fn is_between(condition: &Expr, left: &Relation, right: &Relation) -> bool {
    let (left, right, columns) = (
        left.made_at_any_depth(),
        right.made_at_any_depth(),
        condition.columns(),
    );
    let are_known = columns
        .iter()
        .all(|id| left.contains(id) || right.contains(id));
    are_known
        && columns.iter().any(|id| left.contains(id))
        && columns.iter().any(|id| right.contains(id))
        && condition.relations().is_empty()
}

/// `x` here and `y` there hold the value of one unique column: their rows belong to the unit of the
/// row that it names.
fn share_point(a: &Lineage, b: &Lineage, x: ColumnId, y: ColumnId) -> bool {
    a.points
        .iter()
        .any(|(id, table, position)| *id == x && b.points.contains(&(y, *table, *position)))
}

/// A scan's columns that are each a unique key.
fn unique_columns(
    policy: &Policy,
    table: TableId,
    columns: &[ColumnId],
) -> Vec<(ColumnId, TableId, usize)> {
    let named = policy.tables[table.0]
        .columns
        .iter()
        .zip(columns)
        .enumerate();
    let is_unique = |name: &str| {
        policy.tables[table.0]
            .unique_keys
            .iter()
            .any(|key| key.is_within(&[name], &Equality::Own))
    };
    named
        .filter(|(_, (column, _))| is_unique(&column.name))
        .map(|(position, (_, id))| (*id, table, position))
        .collect()
}

fn merge(kind: JoinKind, a: Lineage, b: Lineage) -> Lineage {
    let rows_per_unit = a
        .rows_per_unit
        .saturating_mul(b.rows_per_unit)
        .min(ROWS_MAX);
    let is_multiplied = a.is_multiplied || b.is_multiplied;
    match kind {
        JoinKind::Inner => {
            let (units, points) = ([a.units, b.units].concat(), [a.points, b.points].concat());
            Lineage {
                units,
                data_type: a.data_type,
                rows_per_unit,
                rows_enforced: None,
                is_multiplied,
                points,
            }
        }
        // The null-extended side's columns are the unit no longer.
        JoinKind::Left => Lineage {
            rows_per_unit,
            rows_enforced: None,
            is_multiplied,
            ..a
        },
    }
}

/// The two bare columns a condition equates.
fn equated(condition: &Expr) -> Option<(ColumnId, ColumnId)> {
    match &condition.node {
        crate::ir::Node::Call {
            function: Function::Equal,
            arguments,
        } => match arguments.as_slice() {
            [a, b] if a.data_type == b.data_type => Some((a.as_column()?, b.as_column()?)),
            _ => None,
        },
        _ => None,
    }
}

/// The one scan under filters and projections.
pub fn only_scan(relation: &Relation) -> Option<&Scan> {
    match relation {
        Relation::Scan(scan) => Some(scan),
        Relation::Filter {
            input,
            predicate: _,
        }
        | Relation::Project { input, columns: _ } => only_scan(input),
        Relation::Join { .. }
        | Relation::Group { .. }
        | Relation::Window { .. }
        | Relation::Union { .. }
        | Relation::Constants(_) => None,
        Relation::Bounded { .. } => None,
    }
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
        crate::refusal::sqlstate::INTERNAL_ERROR,
        format!(
            "the policy's path from {}.{} to its unit is incomplete",
            table.schema, table.name
        ),
    )
}

/// The unit of a private table.
pub fn unit_of(table: &Table) -> Option<&Unit> {
    match &table.protection {
        Protection::Private(unit) => Some(unit),
        Protection::Public => None,
    }
}
