//! Stage 3: Query → [`Analyzed`]: labels, lineage, key rules and ranges; refuses what cannot be bounded.

pub mod interval;
mod keys;
mod label;
mod parts;
mod preserved;
mod range;
mod rows;
mod step;

pub use keys::KeyRule;
pub use label::{Label, Lineage, only_scan, unit_of};
pub use range::cast as cast_range;

use crate::policy::{Policy, Wishes};
use crate::refusal::{Refusal, sqlstate};
use crate::resolve::catalogue::Function;
use crate::resolve::{Aggregate, ColumnId, ColumnInfo, Distinct, Expr, Node, Operation, Query, Relation, Release, TableId};
use interval::Interval;
use range::Ranges;
use rows::{always_true, computed_columns, grouped_by_unit, holds_unique_key, null_extended, scanned_tables};

/// A query whose every release has a lineage, ruled keys and bounded aggregates.
#[derive(Debug, Clone, PartialEq)]
pub struct Analyzed {
    query: Query,
    releases: Vec<AnalyzedRelease>,
    columns: Vec<ColumnInfo>,
}

impl Analyzed {
    pub fn query(&self) -> &Query {
        &self.query
    }

    pub fn releases(&self) -> &[AnalyzedRelease] {
        &self.releases
    }

    /// Every column of the query's relations, those of joined-in paths included.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AnalyzedRelease {
    /// With paths to the unit joined in.
    pub input: Relation,
    pub lineage: Lineage,
    pub keys: Vec<(Expr, KeyRule)>,
    /// As the analyst wrote each key, for EXPLAIN.
    pub key_texts: Vec<String>,
    pub aggregates: Vec<BoundedAggregate>,
    /// The unit is the whole primary key of the one table read, or the rows were grouped by it alone: at most one row a unit, without any clip.
    pub one_row_per_unit: bool,
    /// At most one row of a unit in each group, by a unique key (chooses a clip, replaces none).
    pub one_row_per_group: bool,
    /// Columns computed by derived tables.
    pub computed: Vec<(ColumnId, Expr)>,
    pub tables: Vec<TableId>,
}

/// An aggregate over rows, with what its argument's values are clipped to.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedAggregate {
    pub filter: Option<Expr>,
    pub operation: BoundedOperation,
    pub data_type: crate::catalog::Type,
}

#[derive(Debug, Clone, PartialEq)]
pub enum BoundedOperation {
    CountRows,
    /// Rows where the expression is not NULL; `nullable` false makes it a count of rows.
    Count {
        argument: Expr,
        nullable: bool,
    },
    CountUnits,
    Sum {
        argument: Expr,
        range: Interval,
        nullable: bool,
    },
    Average {
        argument: Expr,
        range: Interval,
        nullable: bool,
    },
}

/// Labels every release, rules its keys and bounds its aggregates.
///
/// # Errors
/// 0A000 where no sound bound is known; 54000 for too many groups. Every text depends on the SQL and the policy only.
pub fn analyze(query: Query, policy: &Policy, wishes: &Wishes) -> Result<Analyzed, Refusal> {
    let mut columns = query.columns().to_vec();
    let mut releases = Vec::new();
    for release in query.releases() {
        releases.push(analyze_release(release, policy, wishes, &mut columns)?);
    }
    Ok(Analyzed { query, releases, columns })
}

fn analyze_release(release: &Release, policy: &Policy, wishes: &Wishes, columns: &mut Vec<ColumnInfo>) -> Result<AnalyzedRelease, Refusal> {
    let over_matches = preserved::over_matches(release, policy)?;
    let keeps_public_rows = over_matches.is_some();
    let release = over_matches.as_ref().unwrap_or(release);
    // Numbers of joined-in scans follow those of the statement's own.
    let scans = 1000;
    let mut labels = label::Labels { policy, columns, scans, opaque: Vec::new() };
    let (input, label) = labels.label(release.input.clone(), &[])?;
    let opaque = labels.opaque;
    let Label::Private(mut lineage) = label else {
        return Err(Refusal::new(sqlstate::INTERNAL_ERROR, "a release without a private table"));
    };
    // A bound on rows chooses the clip, so a narrower one is as sound.
    lineage.rows_per_unit = wishes.rows_per_unit.map_or(lineage.rows_per_unit, |most| lineage.rows_per_unit.min(most.into()));
    let computed = computed_columns(&input);
    let null_extended = null_extended(&input, false);
    let always = always_true(&input);
    let inlined: Vec<Expr> = always.iter().map(|c| inline(c, &computed)).collect();

    let mut keys = Vec::new();
    for key in &release.keys {
        let expr = inline(&key.expr, &computed);
        let ruled = keys::Keys { choice: wishes.keys, policy, columns, null_extended: &null_extended, conditions: inlined.iter().collect() };
        let rule = ruled.rule(&expr)?;
        if keeps_public_rows {
            preserved::check_rule(&rule)?;
        }
        keys.push((key.expr.clone(), rule));
    }
    keys::cells(&keys.iter().map(|(_, rule)| rule.clone()).collect::<Vec<_>>(), policy.limits.groups)?;

    let ranges = |extra: Option<&'_ Expr>| -> Vec<Expr> { inlined.iter().cloned().chain(extra.map(|e| inline(e, &computed))).collect() };
    let mut aggregates = Vec::new();
    for aggregate in &release.aggregates {
        let conditions: Vec<Expr> = ranges(aggregate.filter.as_ref());
        let conditions: Vec<&Expr> = conditions.iter().flat_map(Expr::conjuncts).collect();
        let ranges = Ranges { policy, columns, computed: &computed, opaque: &opaque, conditions, excluded: Vec::new() };
        let nullable = Nullability { columns, computed: &computed, null_extended: &null_extended };
        aggregates.push(bound(aggregate, &ranges, &nullable, &lineage, policy)?);
    }
    let tables = scanned_tables(&input);
    let scan = only_scan(&input);
    let is_keyed = scan.is_some_and(|s| unit_of(&policy.tables[s.table.0]).is_some_and(|u| u.is_primary_key && u.path.is_empty()));
    let one_row_per_unit = is_keyed || grouped_by_unit(&input, &lineage);
    let one_row_per_group =
        one_row_per_unit || holds_unique_key(&input, policy, |id| lineage.units.contains(&id) || keys.iter().any(|(e, _)| e.as_column() == Some(id)));
    let key_texts = release.keys.iter().map(|k| k.text.clone()).collect();
    Ok(AnalyzedRelease { input, lineage, keys, key_texts, aggregates, one_row_per_unit, one_row_per_group, computed, tables })
}

/// Bounds one aggregate.
fn bound(
    aggregate: &Aggregate,
    ranges: &Ranges<'_>,
    nullability: &Nullability<'_>,
    lineage: &Lineage,
    policy: &Policy,
) -> Result<BoundedAggregate, Refusal> {
    let Aggregate { operation, filter, data_type } = aggregate;
    let mut filter = filter.clone();
    let operation = match operation {
        Operation::CountRows => BoundedOperation::CountRows,
        Operation::Count(argument) => BoundedOperation::Count { argument: argument.clone(), nullable: nullability.may_be_null(argument) },
        Operation::Distinct(Distinct::Value(argument)) => {
            let (unit, condition) = counted_unit(argument, lineage, policy)?;
            debug_assert!(lineage.units.contains(&unit));
            if let Some(condition) = condition {
                filter = Expr::and(filter.into_iter().chain([condition]).collect());
            }
            BoundedOperation::CountUnits
        }
        Operation::Sum(argument) => {
            BoundedOperation::Sum { argument: argument.clone(), range: finite(argument, ranges, "SUM")?, nullable: nullability.may_be_null(argument) }
        }
        Operation::Average(argument) => BoundedOperation::Average {
            argument: argument.clone(),
            range: finite(argument, ranges, "AVG")?,
            nullable: nullability.may_be_null(argument),
        },
        Operation::Distinct(Distinct::Row(_)) => return Err(unbounded("COUNT(DISTINCT …) of a row")),
        Operation::Variance { .. } => return Err(unbounded("VARIANCE and STDDEV")),
        Operation::Paired { .. } => return Err(unbounded("a statistic of pairs")),
        Operation::Extreme { .. } => return Err(unbounded("MIN and MAX")),
        Operation::Quantile { .. } => return Err(unbounded("PERCENTILE_CONT and PERCENTILE_DISC")),
        Operation::Mode(_) => return Err(unbounded("MODE()")),
        Operation::Truth { .. } => return Err(unbounded("BOOL_AND and BOOL_OR")),
    };
    Ok(BoundedAggregate { filter, operation, data_type: data_type.clone() })
}

fn unbounded(what: &str) -> Refusal {
    Refusal::unsupported(what).hint("COUNT, SUM and AVG are answered.")
}

/// COUNT(DISTINCT unit), also as COUNT(DISTINCT CASE WHEN condition THEN unit END).
fn counted_unit(argument: &Expr, lineage: &Lineage, policy: &Policy) -> Result<(ColumnId, Option<Expr>), Refusal> {
    let is_unit = |e: &Expr| e.as_column().filter(|id| lineage.units.contains(id));
    if let Some(id) = is_unit(argument) {
        return Ok((id, None));
    }
    if let Node::Case { branches, otherwise } = &argument.node
        && let [(condition, result)] = branches.as_slice()
        && otherwise.as_ref().is_none_or(|e| e.node == Node::Literal(None))
        && let Some(id) = is_unit(result)
    {
        return Ok((id, Some(condition.clone())));
    }
    let unit = &policy.privacy.unit;
    Err(Refusal::unsupported(format!("COUNT(DISTINCT …) of anything but the column that identifies the {unit}"))
        .hint("COUNT(*) is answered, and COUNT(DISTINCT …) of that column; GROUP BY shows the values themselves."))
}

fn finite(argument: &Expr, ranges: &Ranges<'_>, name: &str) -> Result<Interval, Refusal> {
    let range = ranges.of(argument);
    if !range.is_finite() {
        return Err(Refusal::unsupported(format!("{name} of a value whose range is not known"))
            .hint("Clamp it inline, as in SUM(LEAST(GREATEST(x, 0), 100)), add a condition such as WHERE x BETWEEN 0 AND 100, or ask the data owner to declare bounds."));
    }
    Ok(range)
}

/// Whether an expression may be NULL, by the catalog's NOT NULL, joins and the expression's own shape.
struct Nullability<'a> {
    columns: &'a [ColumnInfo],
    computed: &'a [(ColumnId, Expr)],
    null_extended: &'a [ColumnId],
}

impl Nullability<'_> {
    /// True unless proved otherwise: only bare columns, constants and arithmetic that keeps NOT NULL are proved.
    fn may_be_null(&self, expr: &Expr) -> bool {
        match &expr.node {
            Node::Column(id) => match self.computed.iter().find(|(c, _)| c == id) {
                Some((_, definition)) => self.null_extended.contains(id) || self.may_be_null(definition),
                None => self.columns[id.0 as usize].nullable || self.null_extended.contains(id),
            },
            Node::Literal(value) => value.is_none(),
            Node::Constant(_) => true,
            Node::Exists { .. } => false,
            Node::Cast(inner) => keys::reads_text(inner, &expr.data_type) || self.may_be_null(inner),
            Node::Case { branches, otherwise } => {
                otherwise.as_ref().is_none_or(|e| self.may_be_null(e)) || branches.iter().any(|(_, r)| self.may_be_null(r))
            }
            Node::Call { function, arguments } => match function {
                Function::Add | Function::Subtract | Function::Multiply | Function::Negate | Function::Abs => {
                    arguments.iter().any(|a| self.may_be_null(a))
                }
                Function::Coalesce => arguments.iter().all(|a| self.may_be_null(a)),
                _ => true,
            },
        }
    }
}

/// Replaces computed columns by their definitions, to the ground.
pub fn inline(expr: &Expr, computed: &[(ColumnId, Expr)]) -> Expr {
    let node = match &expr.node {
        Node::Column(id) => match computed.iter().find(|(c, _)| c == id) {
            Some((_, definition)) => return inline(definition, computed),
            None => Node::Column(*id),
        },
        Node::Literal(value) => Node::Literal(value.clone()),
        Node::Constant(id) => Node::Constant(*id),
        // Conditions say nothing more of it.
        Node::Exists { .. } => expr.node.clone(),
        Node::Cast(inner) => Node::Cast(Box::new(inline(inner, computed))),
        Node::Case { branches, otherwise } => Node::Case {
            branches: branches.iter().map(|(c, r)| (inline(c, computed), inline(r, computed))).collect(),
            otherwise: otherwise.as_ref().map(|e| Box::new(inline(e, computed))),
        },
        Node::Call { function, arguments } => Node::Call { function: *function, arguments: arguments.iter().map(|a| inline(a, computed)).collect() },
    };
    Expr { node, data_type: expr.data_type.clone() }
}
