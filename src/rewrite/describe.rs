//! A release in words, a line each: the labelled tree, keys, sensitivity and noise. EXPLAIN,
//! `pgveil explain` and the golden files show it.

mod facts;
mod part;

use num_bigint::BigUint;

pub use facts::{Facts, Summed, facts};
pub use part::part_noise;

use super::vector::coordinates::{Coordinate, Mask, PRESENCE};
use super::vector::standard_deviation::product_step;
use super::{Price, ReleasePlan, decimal};
use crate::analyze::{Analyzed, AnalyzedRelease, KeyRule};
use crate::ir::{ColumnId, End, Expr, JoinKind, Node, Relation};
use crate::mechanism::{Calibrated, Mechanism};
use crate::policy::Policy;

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
    for ((_, rule), text) in release.keys.iter().zip(&release.key_texts) {
        lines.push(match rule {
            KeyRule::Domain(values) => format!(
                "  Key {text}: {} values known without the data, all shown",
                values.len()
            ),
            KeyRule::Threshold => format!("  Key {text}: shown where enough units have it"),
        });
    }
    for tuples in &release.tuples {
        let names: Vec<&str> = tuples
            .keys
            .iter()
            .map(|at| release.key_texts[*at].as_str())
            .collect();
        lines.push(format!(
            "  Keys {}: together {} combinations, those of the public table's rows",
            names.join(", "),
            tuples.rows.len()
        ));
    }
    if !release.sets.is_empty() {
        let set = |set: &Vec<usize>| {
            format!(
                "({})",
                set.iter()
                    .map(|at| release.key_texts[*at].as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        };
        let sets: Vec<String> = release.sets.iter().map(set).collect();
        lines.push(format!(
            "  Grouping sets: {}; each counts towards what one {unit} adds",
            sets.join(", ")
        ));
    }
    words.tree(&release.input, 1, &mut lines);
    let within_clip = plan.price().is_some_and(|price| price.within_clip);
    lines.push(
        match (release.one_row_per_unit, release.one_row_per_group) {
            (true, _) if crate::analyze::only_scan(&release.input).is_some() => format!(
                "  Rows: one \
            per {unit} (primary key); one pass"
            ),
            (true, _) => format!("  Rows: one per {unit} (grouped by it); one pass"),
            (false, _) if within_clip => format!(
                "  Rows: one per {unit} in a group (unique key over \
            listed values); one pass"
            ),
            (false, true) => {
                format!(
                    "  Rows: at most {} per {unit}, one in a group (unique key chooses the clip); \
                clipped",
                    release.lineage.rows_per_unit
                )
            }
            (false, false) => format!(
                "  Rows: at most {} per {unit}; clipped",
                release.lineage.rows_per_unit
            ),
        },
    );
    lines.extend(cautions(release, plan, unit));
    if plan.statements().is_empty() {
        lines.push("  Free: the keys are listed in the policy".to_owned());
    }
    if let Some(price) = plan.price() {
        lines.extend(words.noise(plan, price, unit));
    }
    for part in plan.parts() {
        lines.extend(words.part(part, unit));
    }
    lines
}

/// Where answers are likely to come out too low, by public facts: said in notices too.
pub const CAUTION: &str = "Caution: ";

fn cautions(release: &AnalyzedRelease, plan: &ReleasePlan, unit: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if !release.one_row_per_unit && !release.one_row_per_group && release.lineage.rows_per_unit == 1
    {
        lines.push(format!(
            "  {CAUTION}a {unit} with more than one row counts as one, and no key \
            says that there is none"
        ));
    }
    if release.is_thresholded() {
        let kept = plan
            .price()
            .and_then(|price| price.groups_per_unit)
            .map_or(String::new(), |groups| {
                format!(", and a {unit} counts in at most {groups}")
            });
        lines.push(format!(
            "  {CAUTION}groups of few are not shown{kept}: sums over the shown \
            groups come out too low"
        ));
    }
    lines
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

    fn tree(&self, relation: &Relation, depth: usize, lines: &mut Vec<String>) {
        let indent = "  ".repeat(depth);
        match relation {
            Relation::Scan(scan) => {
                let table = &self.policy.tables[scan.table.0];
                let label = match &table.protection {
                    crate::policy::Protection::Public => "public".to_owned(),
                    crate::policy::Protection::Private(unit) => {
                        format!(
                            "private, at most {} rows per {}",
                            unit.rows_per_unit, self.policy.privacy.unit
                        )
                    }
                };
                lines.push(format!(
                    "{indent}Scan {}.{} ({label})",
                    table.schema, table.name
                ));
            }
            Relation::Constants(rows) => {
                let names: Vec<String> = rows.columns.iter().map(|id| self.column(*id)).collect();
                lines.push(format!(
                    "{indent}Constants {} (released before)",
                    names.join(", ")
                ));
            }
            Relation::Filter { input, predicate } => {
                lines.push(format!("{indent}Filter on {}", self.columns_of(predicate)));
                self.subqueries(predicate, depth, lines);
                self.tree(input, depth + 1, lines);
            }
            Relation::Project { input, columns } => {
                let names: Vec<String> = columns.iter().map(|(id, _)| self.column(*id)).collect();
                lines.push(format!("{indent}Compute {}", names.join(", ")));
                columns
                    .iter()
                    .for_each(|(_, expr)| self.subqueries(expr, depth, lines));
                self.tree(input, depth + 1, lines);
            }
            Relation::Join {
                kind,
                left,
                right,
                on,
            } => {
                let kind = match kind {
                    JoinKind::Inner => "Join",
                    JoinKind::Left => "Left join",
                };
                let on = on
                    .as_ref()
                    .map(|e| format!(" on {}", self.columns_of(e)))
                    .unwrap_or_default();
                lines.push(format!("{indent}{kind}{on}"));
                self.tree(left, depth + 1, lines);
                self.tree(right, depth + 1, lines);
            }
            Relation::Window { input, columns } => {
                let unit = &self.policy.privacy.unit;
                let partitions: Vec<String> = columns
                    .iter()
                    .map(|(_, w)| {
                        w.partition
                            .iter()
                            .map(|e| self.columns_of(e))
                            .collect::<Vec<_>>()
                            .join(", ")
                    })
                    .collect();
                lines.push(format!(
                    "{indent}Window within each {unit}: {} by {}",
                    columns.len(),
                    partitions.join("; ")
                ));
                self.tree(input, depth + 1, lines);
            }
            Relation::Bounded {
                input,
                unit: _,
                rows,
            } => {
                lines.push(format!(
                    "{indent}At most {rows} rows of each {}",
                    self.policy.privacy.unit
                ));
                self.tree(input, depth + 1, lines);
            }
            Relation::Union { columns: _, arms } => {
                lines.push(format!("{indent}Union of {} relations", arms.len()));
                arms.iter()
                    .for_each(|(arm, _)| self.tree(arm, depth + 1, lines));
            }
            Relation::Group {
                input,
                keys,
                aggregates,
            } => {
                let unit = &self.policy.privacy.unit;
                let keys: Vec<String> = keys.iter().map(|id| self.column(*id)).collect();
                let made: Vec<String> = aggregates.iter().map(|(id, _)| self.column(*id)).collect();
                let made = if made.is_empty() {
                    String::new()
                } else {
                    format!(": {}", made.join(", "))
                };
                lines.push(format!(
                    "{indent}Group within each {unit} by {}{made}",
                    keys.join(", ")
                ));
                self.tree(input, depth + 1, lines);
            }
        }
    }

    /// Each subquery of an expression, beside the rows that it is asked of.
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
        let mut lines = Vec::new();
        let norm = match price.mechanism {
            Mechanism::Gaussian => "L2",
            Mechanism::Laplace => "L1",
        };
        lines.push(format!(
            "  Sensitivity: one {unit} moves the vector by at most {} ({norm}, in units of one \
                row's largest value)",
            sensitivity(plan, price)
        ));
        for (i, (coordinate, calibrated)) in
            plan.coordinates().iter().zip(&price.calibrated).enumerate()
        {
            let deviation = deviation_of(coordinate, calibrated);
            lines.push(format!(
                "  v{i}: {}: {:?} noise, standard deviation {}",
                self.partial(coordinate),
                price.mechanism,
                significant(deviation)
            ));
        }
        if let Some((presence, _)) = price.threshold {
            let tau = threshold_units(plan, price, presence);
            let shared = match plan.coordinates()[presence] {
                Coordinate::Presence => format!(
                    "; a {unit} in t groups counts 1 / {} in each",
                    if norm == "L2" { "sqrt(t)" } else { "t" }
                ),
                _ => String::new(),
            };
            lines.push(format!(
                "  Threshold: a group is shown where the noisy number of units \
                (v{presence}) is at least {tau:.1}{shared}"
            ));
        }
        if let Some(groups) = price.groups_per_unit {
            lines.push(format!(
                "  Groups: at most {groups} per {unit}, kept by hash"
            ));
        }
        lines
    }

    fn partial(&self, partial: &Coordinate) -> String {
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
        match partial {
            Coordinate::Rows { mask } => format!("rows{}", masked(mask)),
            Coordinate::Flags { filter } => {
                format!("flags of {}, centred", self.columns_of(filter))
            }
            Coordinate::Units { mask } => format!("units present{}", masked(mask)),
            Coordinate::Presence => "units present, each shared among its groups".to_owned(),
            Coordinate::Share {
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
            Coordinate::Lacks {
                filter: _,
                value,
                fixed_point: _,
            } => format!("sum of what the squares of {} lack", self.value(value)),
            Coordinate::Products {
                filter: _,
                y: (y, _),
                x: (x, _),
            } => format!("sum of products of {} and {}", self.value(y), self.value(x)),
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
/// magnitude: the scale is the unit in which it is read aloud.
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
    let step = match coordinate {
        Coordinate::Values {
            fixed_point,
            centred,
            ..
        } => fixed_point.step.size() * if *centred { 0.5 } else { 1.0 },
        Coordinate::Lacks {
            filter: _,
            value: _,
            fixed_point,
        } => product_step(fixed_point, fixed_point),
        Coordinate::Products {
            filter: _,
            y: (_, y),
            x: (_, x),
        } => product_step(y, x),
        Coordinate::Share { fixed_point, .. } => fixed_point.step.size(),
        Coordinate::Rows { .. } | Coordinate::Nulls { .. } | Coordinate::Units { .. } => 1.0,
        Coordinate::Presence => 1.0 / PRESENCE as f64,
        Coordinate::Flags { .. } => 0.5,
    };
    calibrated.noise.standard_deviation() / 2f64.powi(calibrated.refine as i32) * step
}

fn threshold_units(plan: &ReleasePlan, price: &Price, presence: usize) -> f64 {
    let one = plan.coordinates()[presence].magnitude() as f64;
    price.threshold.map_or(0.0, |(_, pass_at)| {
        pass_at as f64 / 2f64.powi(price.calibrated[presence].refine as i32) / one
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
