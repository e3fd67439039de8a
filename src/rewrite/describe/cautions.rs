//! Warnings that an answer may be off by more than its noise, from public facts.

use std::collections::BTreeSet;

use super::by_period::bounded_subject;
use super::{Words, threshold_units};
use crate::aggregates::Clamped;
use crate::analyze::AnalyzedRelease;
use crate::ir::{ColumnId, Expr, Operation, Relation, WindowFunction};
use crate::policy::{Column, Protection, Scalar};
use crate::rewrite::emit::sql::scalar_text;
use crate::rewrite::vector::coordinate::Coordinate;
use crate::rewrite::{ChoicePlan, ReleasePlan, Subject};

/// The most parts that one line lists.
const LISTED_MAX: usize = 6;

/// The cautions of a release, one sentence each.
pub(super) fn cautions(
    release: &AnalyzedRelease,
    words: &Words<'_>,
    plan: &ReleasePlan,
    is_looked_at: bool,
) -> Vec<String> {
    let unit = &words.policy.privacy.unit;
    let mut lines = Vec::new();
    if plan.no_row().is_some() {
        return lines;
    }
    let mut cut = rows_cut(release, plan, &bounded_subject(release, unit));
    let has_rows_cut = !cut.is_empty();
    let mut values = Vec::new();
    Values { release, words }.add(plan, &mut values);
    cut.extend(values.iter().map(ToString::to_string));
    if !cut.is_empty() {
        let rest = cut.len().saturating_sub(LISTED_MAX);
        cut.truncate(LISTED_MAX);
        if rest > 0 {
            cut.push(format!("and {rest} more"));
        }
        let covered = match plan.look() {
            Some(_) => "intervals cover noise and what chosen clips cut, not what else is cut",
            None => "intervals cover noise alone, not what is cut",
        };
        lines.push(format!("{covered}: {}", cut.join(", ")));
    }
    if has_rows_cut && is_looked_at {
        lines.push(
            "how many units that cuts is not known: SET pgveil.clip = auto looks first, and tells \
                about how many"
                .to_owned(),
        );
    }
    if release.is_thresholded() {
        lines.push(describe_hidden(plan, unit));
    }
    if has_rows_that_depend(release, plan) {
        lines.push(format!(
            "std_err takes the rows of a {unit} for independent, and is too small where they are \
                alike: noise_err is right"
        ));
    }
    lines
}

/// Whether errors of sampling are shown although one unit may have several rows in a group.
fn has_rows_that_depend(release: &AnalyzedRelease, plan: &ReleasePlan) -> bool {
    let outputs = plan.outputs().iter();
    let has_errors = outputs
        .filter_map(|(output, _)| output.model_field())
        .any(|(model, field)| model.has_sampling_error(field));
    let in_group = release.unit_groups.iter().map(|of_unit| of_unit.rows).max();
    let rows = in_group.unwrap_or(release.lineage.rows_per_unit);
    has_errors && !release.one_row_per_unit && rows > 1
}

/// Which groups a threshold hides.
fn describe_hidden(plan: &ReleasePlan, unit: &str) -> String {
    let price = plan.price();
    let few = price
        .and_then(|price| price.threshold.map(|(at, _)| (price, at)))
        .map_or("few units".to_owned(), |(price, at)| {
            let least = threshold_units(plan, price, at).ceil();
            let shared = match plan.coordinates()[at] {
                Coordinate::Presence => format!(" (a {unit} in several groups counts less)"),
                _ => String::new(),
            };
            format!("fewer than about {least:.0} units{shared}")
        });
    let kept = price
        .and_then(|price| price.groups_per_unit)
        .map_or(String::new(), |groups| {
            format!(", and a {unit} counts in at most {groups}")
        });
    format!(
        "groups of {few} are not shown{kept}: totals over the shown groups leave the others out"
    )
}

/// Whether a clip or an emitted bound may cut rows of a unit.
pub(super) fn may_cut_rows(release: &AnalyzedRelease, plan: &ReleasePlan) -> bool {
    !rows_cut(release, plan, "").is_empty()
}

/// The numbers of a unit's rows from which a clip or an emitted bound may cut some.
fn rows_cut(release: &AnalyzedRelease, plan: &ReleasePlan, unit: &str) -> Vec<String> {
    let rows_per_unit = release.lineage.rows_per_unit;
    let is_enforced = release
        .lineage
        .rows_enforced
        .is_some_and(|rows| rows <= rows_per_unit);
    let mut limits = BTreeSet::new();
    bounds_on_rows(&release.input, &mut limits);
    let mut cut = Vec::new();
    let is_clipped = plan.price().is_some_and(|price| !price.within_clip);
    let is_keyed = release.unit_groups.iter().all(|of_unit| of_unit.is_keyed);
    match plan.price().filter(|_| is_clipped && !is_enforced) {
        // Nothing is cut.
        Some(_) if release.one_row_by_keys => {}
        Some(price) if release.cells.is_some_and(|cells| cells <= price.groups) => {}
        Some(price) if is_keyed => {
            cut.push(past("groups", price.groups, unit));
        }
        Some(_) => {
            limits.insert(rows_per_unit);
            let in_group = release.unit_groups.iter().map(|groups| groups.rows).max();
            if let Some(rows) = in_group.filter(|rows| *rows < rows_per_unit) {
                cut.push(format!("{} in a group", past("rows", rows, unit)));
            }
        }
        None => {}
    }
    let is_cut = |choice: &ChoicePlan| match &choice.question.subject {
        Subject::Value { .. } => true,
        // A lower number is the number of all possible values.
        Subject::Distinct {
            values: _,
            per_unit_max,
            degree: _,
        } => per_unit_max.in_all >= rows_per_unit,
    };
    if !release.one_row_per_unit && !is_enforced && plan.choices().iter().any(is_cut) {
        limits.insert(rows_per_unit);
    }
    cut.extend(limits.into_iter().map(|rows| past("rows", rows, unit)));
    if plan.price().is_some_and(|price| price.is_by_total) {
        cut.push(format!("values of a {unit} past the policy's unit_total"));
    }
    cut
}

fn past(what: &str, most: u64, unit: &str) -> String {
    match most {
        1 => format!("{what} of a {unit} past the first"),
        most => format!("{what} of a {unit} past {most}"),
    }
}

fn bounds_on_rows(relation: &Relation, limits: &mut BTreeSet<u64>) {
    if let Relation::Bounded {
        input: _,
        unit: _,
        rows,
    } = relation
    {
        limits.insert(*rows);
    }
    for input in relation.inputs() {
        bounds_on_rows(input, limits);
    }
    for expr in relation.expressions() {
        for relation in expr.own_relations() {
            bounds_on_rows(relation, limits);
        }
    }
}

/// The values below one end and above the other.
#[derive(Debug, Clone)]
struct CutValues {
    lower: Option<Scalar>,
    upper: Option<Scalar>,
}

impl PartialEq for CutValues {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |a: &Option<Scalar>, b: &Option<Scalar>| match (a, b) {
            (Some(a), Some(b)) => a == b || number(a).is_some_and(|value| number(b) == Some(value)),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same(&self.lower, &other.lower) && is_same(&self.upper, &other.upper)
    }
}

impl std::fmt::Display for CutValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (
            self.lower.as_ref().map(scalar_text),
            self.upper.as_ref().map(scalar_text),
        ) {
            (Some(lower), Some(upper)) => write!(f, "outside [{lower}, {upper}]"),
            (Some(lower), None) => write!(f, "below {lower}"),
            (None, Some(upper)) => write!(f, "above {upper}"),
            (None, None) => Ok(()),
        }
    }
}

/// The values of a column that are cut.
#[derive(Debug, PartialEq)]
struct ColumnCut {
    column: String,
    values: CutValues,
}

impl std::fmt::Display for ColumnCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.column, self.values)
    }
}

/// The values that are clamped.
struct Values<'a> {
    release: &'a AnalyzedRelease,
    words: &'a Words<'a>,
}

impl Values<'_> {
    fn add(&self, plan: &ReleasePlan, cut: &mut Vec<ColumnCut>) {
        let coordinates = plan.coordinates().iter().flat_map(summed_values);
        let choices = plan.choices().iter().filter_map(chosen_value);
        for (value, ends) in coordinates.chain(choices) {
            self.add_value(value, Some(ends), cut);
        }
    }

    /// Adds the cut of a value that is clamped to these ends; `None` within an expression.
    fn add_value(&self, value: &Expr, ends: Option<(f64, f64)>, cut: &mut Vec<ColumnCut>) {
        match value.as_column() {
            Some(id) => self.add_column(id, ends, cut),
            None => {
                for id in value.free_columns() {
                    self.add_column(id, None, cut);
                }
            }
        }
    }

    fn add_column(&self, id: ColumnId, ends: Option<(f64, f64)>, cut: &mut Vec<ColumnCut>) {
        if let Some((_, definition)) = self.release.computed.iter().find(|(made, _)| *made == id) {
            return self.add_value(definition, ends, cut);
        }
        let part = match self.words.analyzed.columns()[id.0 as usize].origin {
            Some((table, position)) => {
                let table = &self.words.policy.tables[table.0];
                let is_private = matches!(table.protection, Protection::Private(_));
                Some(&table.columns[position.0])
                    .filter(|_| is_private)
                    .and_then(|column| outside(column, ends))
            }
            None => self.add_made(&self.release.input, id, ends, cut),
        };
        let part = part.map(|values| ColumnCut {
            column: self.words.column(id),
            values,
        });
        cut.extend(part.filter(|part| !cut.contains(part)));
    }

    /// For a column that is computed within a unit: adds the cuts of the values that it is computed
    /// from, and returns the cut of the computed value itself.
    fn add_made(
        &self,
        relation: &Relation,
        id: ColumnId,
        ends: Option<(f64, f64)>,
        cut: &mut Vec<ColumnCut>,
    ) -> Option<CutValues> {
        let own = ends.map(|(lo, hi)| CutValues {
            lower: Some(Scalar::Decimal(lo.to_string())),
            upper: Some(Scalar::Decimal(hi.to_string())),
        });
        match relation {
            Relation::Group {
                input: _,
                keys: _,
                aggregates,
            } => {
                if let Some((_, aggregate)) = aggregates.iter().find(|(made, _)| *made == id) {
                    return self.add_operation(&aggregate.operation, own, cut);
                }
            }
            Relation::Window { input: _, columns } => {
                if let Some((_, window)) = columns.iter().find(|(made, _)| *made == id) {
                    return match &window.ranked {
                        WindowFunction::LagLead { value, offset: _ }
                        | WindowFunction::NthValue { value, place: _ } => {
                            self.add_value(value, None, cut);
                            None
                        }
                        WindowFunction::Aggregate(aggregate) => {
                            self.add_operation(&aggregate.operation, own, cut)
                        }
                        WindowFunction::RowNumber
                        | WindowFunction::Rank
                        | WindowFunction::DenseRank => own,
                        WindowFunction::PercentRank
                        | WindowFunction::CumeDist
                        | WindowFunction::Ntile(_) => None,
                    };
                }
            }
            Relation::Union { columns, arms } => {
                if let Some(at) = columns.iter().position(|made| *made == id) {
                    for (_, made) in arms {
                        self.add_column(made[at], None, cut);
                    }
                    return None;
                }
            }
            Relation::Scan(_)
            | Relation::Constants(_)
            | Relation::Filter { .. }
            | Relation::Project { .. }
            | Relation::Join { .. }
            | Relation::Bounded { .. } => {}
        }
        let inputs = relation.inputs().into_iter();
        inputs
            .filter_map(|input| self.add_made(input, id, ends, cut))
            .next()
    }

    /// Sums and counts are clamped to what the most rows of a unit can add up to; other aggregates
    /// lie where their values do.
    fn add_operation(
        &self,
        operation: &Operation,
        own: Option<CutValues>,
        cut: &mut Vec<ColumnCut>,
    ) -> Option<CutValues> {
        let is_sum = match operation.facts().clamped {
            Clamped::Rows => return own,
            Clamped::Sums => true,
            Clamped::Values => false,
        };
        for value in operation.arguments() {
            self.add_value(value, None, cut);
        }
        // Over one row a sum lies where its value does.
        own.filter(|own| is_sum && !cut.iter().any(|part| part.values == *own))
    }
}

/// Values that a coordinate sums, and the ends that they are clamped to.
fn summed_values(coordinate: &Coordinate) -> Vec<(&Expr, (f64, f64))> {
    match coordinate {
        Coordinate::Values {
            filter: _,
            value,
            fixed_point,
            centred: _,
        }
        | Coordinate::DistanceFromEnd {
            filter: _,
            value,
            fixed_point,
            end: _,
        }
        | Coordinate::SquareComplement {
            filter: _,
            value,
            fixed_point,
        } => vec![(value, (fixed_point.bounds.lo, fixed_point.bounds.hi))],
        Coordinate::Products { filter: _, y, x } => [y, x]
            .map(|(value, fixed_point)| (value, (fixed_point.bounds.lo, fixed_point.bounds.hi)))
            .into(),
        Coordinate::Rows { .. }
        | Coordinate::Flags { .. }
        | Coordinate::Nulls { .. }
        | Coordinate::Units { .. }
        | Coordinate::Presence => Vec::new(),
    }
}

/// The value that a choice chooses or counts, and its ends.
fn chosen_value(choice: &ChoicePlan) -> Option<(&Expr, (f64, f64))> {
    match &choice.question.subject {
        Subject::Value { value, candidates } => Some((value, candidates.ends()?)),
        Subject::Distinct {
            values: crate::ir::Distinct::Value(value),
            per_unit_max: _,
            degree,
        } => degree
            .fixed_point()
            .map(|fixed_point| (value, (fixed_point.bounds.lo, fixed_point.bounds.hi))),
        Subject::Distinct { .. } => None,
    }
}

/// Where the policy's bounds or list cut values of the column. If `ends` are narrower on a side, a
/// condition of the query narrowed them, and that side is not cut. `None` where the policy declares
/// nothing, or says that no other value occurs.
fn outside(column: &Column, ends: Option<(f64, f64)>) -> Option<CutValues> {
    let (lower, upper) = match (&column.bounds, &column.domain) {
        (Some(bounds), _) => (bounds.lower.clone(), bounds.upper.clone()),
        (None, Some(values)) if !column.is_complete => {
            let mut numbers: Vec<(f64, &Scalar)> = values
                .iter()
                .map(|value| Some((number(value)?, value)))
                .collect::<Option<_>>()?;
            numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
            (numbers.first()?.1.clone(), numbers.last()?.1.clone())
        }
        (None, _) => return None,
    };
    let (is_below, is_above) = match (ends, number(&lower), number(&upper)) {
        (Some((lo, hi)), Some(lower), Some(upper)) => (lo <= lower, hi >= upper),
        _ => (true, true),
    };
    (is_below || is_above).then(|| CutValues {
        lower: Some(lower).filter(|_| is_below),
        upper: Some(upper).filter(|_| is_above),
    })
}

fn number(value: &Scalar) -> Option<f64> {
    match value {
        Scalar::Int(value) => Some(*value as f64),
        Scalar::Decimal(text) => text.parse().ok(),
        Scalar::Bool(_) | Scalar::Date(_) | Scalar::Timestamp(_) => None,
        Scalar::Text(_) | Scalar::Interval { .. } => None,
    }
}
