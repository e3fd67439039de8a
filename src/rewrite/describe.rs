//! A release in words, a line each: the labelled tree, keys, sensitivity and noise. EXPLAIN,
//! `pgveil explain` and the golden files show it.

mod by_period;
mod cautions;
mod choice;
mod facts;
mod index;
mod look;
mod reports;

use num_bigint::BigUint;

pub use choice::{choice_noise, known_range, rank_error, ranks_of};
pub use facts::facts;
pub use look::{chosen_noise, times_clip};

use reports::{estimators, join_alike};

use super::emit::sql::scalar_text;
use super::vector::coordinate::{Coordinate, Mask, PRESENCE};
use super::vector::standard_deviation::product_step;
use super::{Price, ReleasePlan, decimal};
use crate::analyze::{Analyzed, AnalyzedRelease, KeyRule, NoRow, NoRowReason, UnitGroups};
use crate::ir::grouping::numbers;
use crate::ir::{ColumnId, End, Expr, JoinKind, KeyId, Node, Relation, Window};
use crate::mechanism::{Calibrated, Norm, SummedValues};
use crate::policy::{Policy, Scalar};
use crate::rewrite::CoordinateId;

/// Everything a reader needs to judge the release's privacy, in order.
pub fn describe(
    release: &AnalyzedRelease,
    analyzed: &Analyzed,
    policy: &Policy,
    plan: &ReleasePlan,
) -> Vec<String> {
    let words = Words { analyzed, policy };
    let unit = &policy.privacy.unit;
    let mut lines = vec![format!(
        "Release: one answer for all groups, per {unit} {}",
        words.columns(&release.lineage.units)
    )];
    lines.extend(keys(release, plan, unit));
    words.tree(&release.input, 1, &mut lines);
    let bounded = &by_period::bounded_subject(release, unit);
    lines.push(rows(release, plan, bounded));
    lines.extend(estimators(plan));
    lines.extend((plan.facts().cautions.iter()).map(|caution| format!("  Caution: {caution}")));
    match plan.no_row() {
        Some(because) => lines.push(format!("  Free: no row can match, as {because}")),
        None if plan.statements().is_empty() => {
            lines.push("  Free: the keys are listed in the policy".to_owned());
        }
        None => {}
    }
    if let Some(price) = plan.price() {
        lines.extend(by_period::together(release, unit));
        lines.extend(words.noise(plan, price, bounded));
    }
    for choice in plan.choices() {
        lines.extend(words.choice(choice, unit));
    }
    lines
}

/// Why no row can match: `income_band has no value '50-74k'; perhaps '50-74K'`.
pub fn no_row(no_row: &NoRow, policy: &Policy) -> String {
    let NoRow {
        table,
        position,
        because,
    } = no_row;
    let name = &policy.tables[table.0].columns[position.0].name;
    let shown = |value: &Scalar| match value {
        Scalar::Text(text) => format!("'{}'", text.replace('\'', "''")),
        other => scalar_text(other),
    };
    match because {
        NoRowReason::Unlisted { constant, like } => {
            let like = like
                .as_ref()
                .map_or(String::new(), |like| format!("; perhaps {}", shown(like)));
            format!("{name} has no value {}{like}", shown(constant))
        }
        NoRowReason::Outside(lower, upper) => format!(
            "values of {name} outside [{}, {}] count as the nearer bound",
            shown(lower),
            shown(upper)
        ),
        NoRowReason::Contradiction => format!("no value of {name} meets the conditions"),
    }
}

fn keys(release: &AnalyzedRelease, plan: &ReleasePlan, unit: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for ((_, rule), text) in release.keys.iter().zip(&release.key_texts) {
        lines.push(match rule {
            KeyRule::Domain(values) if plan.dictionary().is_some() => {
                format!("  Key {text}: decoded from all of {} cohorts", values.len())
            }
            KeyRule::Domain(values) => format!(
                "  Key {text}: {} values known without the data, all shown, also where no row is",
                values.len()
            ),
            KeyRule::Threshold => format!("  Key {text}: shown where enough units have it"),
        });
    }
    let names = |keys: &mut dyn Iterator<Item = KeyId>| {
        let names: Vec<&str> = keys.map(|key| release.key_texts[key.0].as_str()).collect();
        names.join(", ")
    };
    for tuples in &release.tuples {
        lines.push(format!(
            "  Keys {}: together {} combinations, those of the public table's rows",
            names(&mut tuples.keys.iter().copied()),
            tuples.rows.len()
        ));
    }
    if !release.sets.is_empty() {
        let sets: Vec<String> = release
            .sets
            .iter()
            .map(|set| format!("({})", names(&mut set.keys())))
            .collect();
        let effects = plan.price().and_then(|price| price.effects.as_ref());
        let form = match effects {
            Some(by) => format!(
                "measured as {} effects, from which all of them are computed: they agree",
                by.effects.measured_effects().len()
            ),
            None => format!("each counts towards what one {unit} adds"),
        };
        lines.push(format!("  Grouping sets: {}; {form}", sets.join(", ")));
    }
    lines
}

/// How many rows of a unit count, and the source of that number.
fn rows(release: &AnalyzedRelease, plan: &ReleasePlan, unit: &str) -> String {
    let within_clip = plan.price().is_some_and(|price| price.within_clip);
    let rows_per_unit = release.lineage.rows_per_unit;
    if release.one_row_per_unit {
        return if crate::analyze::only_scan(&release.input).is_some() {
            format!("  Rows: one per {unit} (primary key); one pass")
        } else {
            format!("  Rows: one per {unit} (grouped by it); one pass")
        };
    }
    if within_clip {
        return format!(
            "  Rows: one per {unit} in a group (unique key over listed values); one pass"
        );
    }
    // The number for one grouping set; with several, each is counted.
    let in_group = match release.unit_groups.as_slice() {
        [UnitGroups { groups, rows, .. }] if *rows < rows_per_unit && *groups < rows_per_unit => {
            format!(", {rows} in a group, in {groups} groups")
        }
        [UnitGroups { rows, .. }] if *rows < rows_per_unit => {
            format!(", {rows} in a group")
        }
        [UnitGroups { groups, .. }] if *groups < rows_per_unit && *groups > 1 => {
            format!(", in {groups} groups")
        }
        _ => String::new(),
    };
    let form = if plan.groups_are_columns {
        format!(" as one row per {unit}, with columns for each group")
    } else {
        String::new()
    };
    format!("  Rows: at most {rows_per_unit} per {unit}{in_group}; clipped{form}")
}

struct Words<'a> {
    analyzed: &'a Analyzed,
    policy: &'a Policy,
}

impl Words<'_> {
    fn columns(&self, ids: &[ColumnId]) -> String {
        ids.iter()
            .map(|id| self.column(*id))
            .collect::<Vec<_>>()
            .join(" = ")
    }

    fn column(&self, id: ColumnId) -> String {
        let info = &self.analyzed.columns()[id.0 as usize];
        match info.origin {
            Some((table, _)) => format!("{}.{}", self.policy.tables[table.0].name, info.name),
            None => info.name.clone(),
        }
    }

    /// The relation tree: a line for each node, inputs indented below it.
    fn tree(&self, relation: &Relation, depth: usize, lines: &mut Vec<String>) {
        lines.push(format!("{}{}", "  ".repeat(depth), self.node(relation)));
        match relation {
            Relation::Filter {
                input: _,
                predicate,
            } => self.subqueries(predicate, depth, lines),
            Relation::Project { input: _, columns } => columns
                .iter()
                .for_each(|(_, expr)| self.subqueries(expr, depth, lines)),
            Relation::Scan(_)
            | Relation::Constants(_)
            | Relation::Join { .. }
            | Relation::Window { .. }
            | Relation::Bounded { .. }
            | Relation::Union { .. }
            | Relation::Group { .. } => {}
        }
        for input in relation.inputs() {
            self.tree(input, depth + 1, lines);
        }
    }

    fn node(&self, relation: &Relation) -> String {
        let unit = &self.policy.privacy.unit;
        match relation {
            Relation::Scan(scan) => {
                let table = &self.policy.tables[scan.table.0];
                let label = match &table.protection {
                    crate::policy::Protection::Public => "public".to_owned(),
                    crate::policy::Protection::Private(of) => {
                        format!("private, at most {} rows per {unit}", of.rows_per_unit)
                    }
                };
                format!("Scan {}.{} ({label})", table.schema, table.name)
            }
            Relation::Constants(rows) => {
                let names = self.names(rows.columns.iter());
                format!("Constants {names} (released before)")
            }
            Relation::Filter {
                input: _,
                predicate,
            } => format!("Filter on {}", self.columns_of(predicate)),
            Relation::Project { input: _, columns } => {
                format!("Compute {}", self.names(columns.iter().map(|(id, _)| id)))
            }
            Relation::Join { kind, on, .. } => {
                let kind = match kind {
                    JoinKind::Inner => "Join",
                    JoinKind::Left => "Left join",
                };
                let on = on
                    .as_ref()
                    .map(|e| format!(" on {}", self.columns_of(e)))
                    .unwrap_or_default();
                format!("{kind}{on}")
            }
            Relation::Window { input: _, columns } => format!(
                "Window within each {unit}: {} by {}",
                columns.len(),
                self.partitions(columns)
            ),
            Relation::Bounded {
                input: _,
                unit: _,
                rows,
            } => format!("At most {rows} rows of each {unit}"),
            Relation::Union { columns: _, arms } => format!("Union of {} relations", arms.len()),
            Relation::Group {
                input: _,
                keys,
                aggregates,
            } => {
                let keys = self.names(keys.iter());
                if aggregates.is_empty() {
                    return format!("Group within each {unit} by {keys}");
                }
                let aggregates = self.names(aggregates.iter().map(|(id, _)| id));
                format!("Group within each {unit} by {keys}: {aggregates}")
            }
        }
    }

    fn names<'i>(&self, ids: impl Iterator<Item = &'i ColumnId>) -> String {
        ids.map(|id| self.column(*id))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn partitions(&self, columns: &[(ColumnId, Window)]) -> String {
        let of = |window: &Window| {
            let keys: Vec<String> = window
                .partition
                .iter()
                .map(|e| self.columns_of(e))
                .collect();
            keys.join(", ")
        };
        let all: Vec<String> = columns.iter().map(|(_, window)| of(window)).collect();
        all.join("; ")
    }

    /// The subqueries of an expression.
    fn subqueries(&self, expr: &Expr, depth: usize, lines: &mut Vec<String>) {
        for relation in expr.own_relations() {
            lines.push(format!("{}Where a row exists in", "  ".repeat(depth + 1)));
            self.tree(relation, depth + 2, lines);
        }
    }

    fn columns_of(&self, expr: &Expr) -> String {
        let columns = expr.free_columns();
        if columns.is_empty() {
            "a constant".to_owned()
        } else {
            columns
                .iter()
                .map(|id| self.column(*id))
                .collect::<Vec<_>>()
                .join(", ")
        }
    }

    fn noise(&self, plan: &ReleasePlan, price: &Price, unit: &str) -> Vec<String> {
        let norm = price.norm().name();
        let what = match price.effects {
            Some(_) => "the groups of all keys",
            None => "the vector",
        };
        let mut lines = match &price.look {
            Some(look) => look::describe_look(look, unit),
            None => vec![format!(
                "  Sensitivity: one {unit} moves {what} by at most {} ({norm}, in units of one \
                    row's largest value)",
                sensitivity(plan, price)
            )],
        };
        for (i, (coordinate, calibrated)) in
            plan.coordinates().iter().zip(&price.calibrated).enumerate()
        {
            let deviation =
                look::deviation(price, coordinate, CoordinateId(i)).unwrap_or_else(|| {
                    let largest = deviation_of(coordinate, calibrated);
                    by_set(plan, price, largest).unwrap_or_else(|| significant(largest))
                });
            lines.push(format!(
                "  v{i}: {}: {} noise, standard deviation {deviation}",
                self.coordinate(coordinate),
                price.mechanism.name(),
            ));
        }
        if plan.dictionary().is_some() {
            lines = join_alike(lines);
        }
        if let Some((presence, _)) = price.threshold {
            let tau = threshold_units(plan, price, presence);
            let shared = match plan.coordinates()[presence] {
                Coordinate::Presence => format!(
                    "; a {unit} in t groups counts 1 / {} in each",
                    match price.mechanism.norm() {
                        Norm::L2 => "sqrt(t)",
                        Norm::L1 => "t",
                    }
                ),
                _ => String::new(),
            };
            lines.push(format!(
                "  Threshold: a group is shown where the noisy number of units \
                (v{}) is at least {tau:.1}{shared}",
                presence.0
            ));
        }
        if let Some(groups) = price.groups_per_unit {
            lines.push(format!(
                "  Groups: at most {groups} per {unit}, kept by hash"
            ));
        }
        lines
    }

    fn coordinate(&self, coordinate: &Coordinate) -> String {
        let masked = |mask: &Mask| {
            let filter = mask
                .filter
                .as_ref()
                .map(|f| format!(" where {}", self.columns_of(f)))
                .unwrap_or_default();
            let not_null = mask
                .not_null
                .as_ref()
                .map(|v| format!(" with {}", self.columns_of(v)))
                .unwrap_or_default();
            format!("{filter}{not_null}")
        };
        match coordinate {
            Coordinate::Rows { mask } => format!("rows{}", masked(mask)),
            Coordinate::Flags { filter } => {
                format!("flags of {}, centred", self.columns_of(filter))
            }
            Coordinate::Units { mask } => format!("units present{}", masked(mask)),
            Coordinate::Presence => "units present, each shared among its groups".to_owned(),
            Coordinate::DistanceFromEnd {
                filter: _,
                value,
                fixed_point,
                end,
            } => {
                let from = match end {
                    End::Least => format!("above {}", fixed_point.bounds.lo),
                    End::Greatest => format!("below {}", fixed_point.bounds.hi),
                };
                format!(
                    "sum of {} clipped to [{}, {}], {from}",
                    self.value(value),
                    fixed_point.bounds.lo,
                    fixed_point.bounds.hi
                )
            }
            Coordinate::Nulls { filter: _, value } => {
                format!("rows without {}", self.columns_of(value))
            }
            Coordinate::Values {
                filter: _,
                value,
                fixed_point,
                centred,
            } => {
                let centred = if *centred { ", centred" } else { "" };
                format!(
                    "sum of {} clipped to [{}, {}]{centred}",
                    self.value(value),
                    fixed_point.bounds.lo,
                    fixed_point.bounds.hi
                )
            }
            Coordinate::SquareComplement {
                filter: _,
                value,
                fixed_point: _,
            } => format!(
                "sum of how far the squares of {} are below their largest",
                self.value(value)
            ),
            Coordinate::Products { filter: _, y, x } => self.products(&y.0, &x.0),
        }
    }

    fn products(&self, y: &Expr, x: &Expr) -> String {
        match y == x {
            true => format!("sum of squares of {}", self.value(y)),
            false => format!("sum of products of {} and {}", self.value(y), self.value(x)),
        }
    }

    fn value(&self, value: &Expr) -> String {
        match &value.node {
            Node::Column(id) => self.column(*id),
            Node::Literal(_)
            | Node::Constant(_)
            | Node::Call { .. }
            | Node::Cast(_)
            | Node::Case { .. }
            | Node::Exists { .. } => {
                format!("an expression of {}", self.columns_of(value))
            }
        }
    }
}

/// The clip in units of one row's largest value. Weights are about 2^scale over a coordinate's
/// magnitude, so the scale is that unit.
fn sensitivity(plan: &ReleasePlan, price: &Price) -> String {
    let scale = plan
        .coordinates()
        .iter()
        .zip(&price.weights)
        .map(|(c, w)| w * c.magnitude())
        .min()
        .unwrap_or_else(|| BigUint::from(1u8));
    decimal(&price.clip, &scale)
}

/// The standard deviation of a coordinate's noise, in the unit of its value.
fn deviation_of(coordinate: &Coordinate, calibrated: &Calibrated) -> f64 {
    let steps = calibrated.noise.standard_deviation() / 2f64.powi(calibrated.refine as i32);
    steps * step_of(coordinate)
}

/// The standard deviation in each grouping set, in their order, where they have different ones.
fn by_set(plan: &ReleasePlan, price: &Price, largest: f64) -> Option<String> {
    let effects = &price.effects.as_ref()?.effects;
    let sets = numbers(plan.sets());
    let widest = effects.largest_variance(&sets);
    let of_set = |set: &Vec<usize>| {
        let variance = effects.variance(set, |_| SummedValues::Ranges);
        significant(largest * (variance / widest).sqrt())
    };
    let of_sets: Vec<String> = sets.iter().map(of_set).collect();
    let of_what = match effects.ranges() {
        [] => "",
        _ => " over all ranges",
    };
    Some(format!("by set {}{of_what}", of_sets.join(", ")))
}

/// One step of a coordinate's grid, in the unit of its value.
fn step_of(coordinate: &Coordinate) -> f64 {
    match coordinate {
        Coordinate::Values {
            fixed_point,
            centred,
            ..
        } => fixed_point.step.size() * if *centred { 0.5 } else { 1.0 },
        Coordinate::SquareComplement {
            filter: _,
            value: _,
            fixed_point,
        } => product_step(fixed_point, fixed_point),
        Coordinate::Products {
            filter: _,
            y: (_, y),
            x: (_, x),
        } => product_step(y, x),
        Coordinate::DistanceFromEnd { fixed_point, .. } => fixed_point.step.size(),
        Coordinate::Rows { .. } | Coordinate::Nulls { .. } | Coordinate::Units { .. } => 1.0,
        Coordinate::Presence => 1.0 / PRESENCE as f64,
        Coordinate::Flags { .. } => 0.5,
    }
}

pub(in crate::rewrite) fn threshold_units(
    plan: &ReleasePlan,
    price: &Price,
    presence: CoordinateId,
) -> f64 {
    let one = plan.coordinates()[presence].magnitude() as f64;
    price.threshold.map_or(0.0, |(_, pass_at)| {
        pass_at as f64 / 2f64.powi(price.calibrated[presence.0].refine as i32) / one
    })
}

/// Four significant digits.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    format!("{value:.digits$}")
}
