//! The choices of a release in words.

use super::{Words, significant};
use crate::aggregates::{DrawId, PairLimits};
use crate::ir::{Distinct, End, Expr};
use crate::mechanism::{Calibrated, Exponential};
use crate::rewrite::{Candidates, ChoiceKind, ChoicePlan, Degree, Halving, Side, Subject, Target};

impl Words<'_> {
    pub(super) fn choice(&self, choice: &ChoicePlan, unit: &str) -> Vec<String> {
        let filter = choice
            .question
            .filter
            .as_ref()
            .map(|f| format!(" where {}", self.columns_of(f)))
            .unwrap_or_default();
        match (&choice.question.subject, &choice.kind) {
            (
                Subject::Distinct {
                    values,
                    per_unit_max,
                    degree,
                },
                ChoiceKind::Count { .. },
            ) => {
                let values = match values {
                    Distinct::Value(value) => self.value(value),
                    Distinct::Row(values) => values
                        .iter()
                        .map(|v: &Expr| self.value(v))
                        .collect::<Vec<_>>()
                        .join(", "),
                };
                let mut lines = vec![format!(
                    "  Part: unlike values of {values}{filter}, of each {unit} at \
                    most {}, kept by hash",
                    pairs(*per_unit_max)
                )];
                if let Some(fixed_point) = degree.fixed_point() {
                    let (lo, hi) = (fixed_point.bounds.lo, fixed_point.bounds.hi);
                    lines.push(format!(
                        "    counted, and summed within [{lo}, {hi}] from the middle"
                    ));
                }
                lines.extend(
                    count_noise(choice).map(|(name, noise)| format!("    {name}: {noise}")),
                );
                lines
            }
            (
                Subject::Value { value, candidates },
                ChoiceKind::Choice {
                    draws,
                    halving,
                    weight_max: _,
                    row_weight: _,
                },
            ) => {
                let known = match candidates {
                    Candidates::Grid(grid) => {
                        format!("{} grid points, {} apart", grid.points, grid.spacing())
                    }
                    Candidates::Listed(values) => format!("{} listed values", values.len()),
                };
                let mut lines = vec![format!(
                    "  Part: a value of {}{filter} out of {known}; rows of one \
                    {unit} over the bound weigh less",
                    self.value(value)
                )];
                lines.extend(look_line(choice));
                lines.extend(draw_lines(choice, draws, halving.is_some(), unit));
                lines
            }
            (Subject::Distinct { .. }, ChoiceKind::Choice { .. })
            | (Subject::Value { .. }, ChoiceKind::Count { .. }) => Vec::new(),
        }
    }
}

/// How the bound on rows is chosen.
fn look_line(choice: &ChoicePlan) -> Option<String> {
    let most = choice.look.as_ref()?.bins.ceiling();
    Some(format!(
        "    the bound: chosen from a look, at most {most} rows; errors are those of the largest"
    ))
}

/// The mechanism and error of each draw.
fn draw_lines(
    choice: &ChoicePlan,
    draws: &[Exponential],
    is_halved: bool,
    unit: &str,
) -> Vec<String> {
    let mut lines = Vec::new();
    if is_halved {
        let fractions = choice.question.fractions().len();
        lines.push(format!(
            "    {fractions} ranks chosen together, the middle one first: {} draws a {unit}",
            Halving::levels(fractions)
        ));
    }
    for (target, draw) in choice.question.targets.iter().zip(draws) {
        lines.push(format!(
            "    {}: exponential mechanism, eta {:.4}, {}",
            target_words(target),
            eta(draw),
            error(choice, target, draw)
        ));
    }
    lines
}

fn target_words(target: &Target) -> String {
    match target {
        Target::Fraction(millionths) => {
            format!("the value at {} of all rows", f64::from(*millionths) / 1e6)
        }
        Target::End(End::Least) => {
            "a value near the least (a private quantile, not the minimum)".to_owned()
        }
        Target::End(End::Greatest) => {
            "a value near the greatest (a private quantile, not the maximum)".to_owned()
        }
        Target::MostFrequent => "the most frequent value".to_owned(),
        Target::Beyond(millionths, side) => {
            let end = match side {
                Side::Low => "lower",
                Side::High => "upper",
            };
            format!(
                "the {end} end of an interval of the value at {} of all rows",
                f64::from(*millionths) / 1e6
            )
        }
    }
}

/// How far off a choice's output may be.
pub fn choice_noise(choice: &ChoicePlan, draws: &[DrawId]) -> String {
    match &choice.kind {
        ChoiceKind::Count { .. } => {
            match (count_noise(choice).collect::<Vec<_>>().as_slice(), draws) {
                ([(_, count), ..], []) => count.clone(),
                (both, _) => both
                    .iter()
                    .map(|(name, noise)| format!("{name} {noise}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            }
        }
        ChoiceKind::Choice {
            draws: all,
            halving: _,
            weight_max: _,
            row_weight: _,
        } => {
            let one = |draw: &DrawId| choice.question.targets.get(draw.0).zip(all.get(draw.0));
            let each = draws.iter().filter_map(one).map(|(target, draw)| {
                format!("{}, {}", target_words(target), error(choice, target, draw))
            });
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// The noise of a count of distinct values, and of their sum: half of that on
/// `2 q - (lower + upper)`, and the count's noise times the middle.
fn count_noise(choice: &ChoicePlan) -> impl Iterator<Item = (&'static str, String)> {
    let (calibrated, fixed_point) = match (&choice.kind, &choice.question.subject) {
        (
            ChoiceKind::Count {
                calibrated,
                weights: _,
                clip: _,
            },
            Subject::Distinct {
                values: _,
                per_unit_max: _,
                degree,
            },
        ) => (&calibrated[..], degree.fixed_point()),
        _ => (&[][..], None),
    };
    let of = |at: usize| calibrated.get(at).map_or(0.0, deviation);
    let sum = fixed_point.map(|l| {
        (of(Degree::SUM) / 2.0).hypot(of(0) * l.centre_twice() as f64 / 2.0) * l.step.size()
    });
    let each = [Some(("count", of(0))), sum.map(|sum| ("sum", sum))];
    each.into_iter().flatten().map(|(name, deviation)| {
        (
            name,
            format!("standard deviation {}", significant(deviation)),
        )
    })
}

fn deviation(calibrated: &Calibrated) -> f64 {
    calibrated.noise.standard_deviation() / 2f64.powi(calibrated.refine as i32)
}

/// [`rank_error`] of one of a choice's draws.
pub fn ranks_of(choice: &ChoicePlan, draw: DrawId) -> Option<f64> {
    let ChoiceKind::Choice { draws, .. } = &choice.kind else {
        return None;
    };
    let target = choice.question.targets.get(draw.0)?;
    rank_error(choice, target, draws.get(draw.0)?)
}

fn eta(draw: &Exponential) -> f64 {
    draw.eta as f64 / (1u64 << 30) as f64
}

/// The error in ranks that a draw exceeds in at most 1 of 20 cases. For a most frequent value: how
/// many rows rarer the drawn value is. `None` for a draw that is not itself an answer.
///
/// In 19 of 20 draws the penalty is below ln(20 candidates) widths over eta (McSherry, Talwar 2007,
/// Theorem 6).
pub fn rank_error(choice: &ChoicePlan, target: &Target, draw: &Exponential) -> Option<f64> {
    let (
        ChoiceKind::Choice {
            draws: _,
            halving,
            weight_max,
            row_weight,
        },
        Subject::Value {
            value: _,
            candidates,
        },
    ) = (&choice.kind, &choice.question.subject)
    else {
        return None;
    };
    let spread = target.spread() as f64 / target.ratio().1 as f64;
    let weights = spread * *weight_max as f64 * (20.0 * candidates.count() as f64).ln() / eta(draw);
    // One row weighs this much.
    let rows = weights / *row_weight as f64;
    let together = |millionths: &u32| {
        let mut fractions = choice.question.fractions();
        fractions.sort_unstable();
        let at = fractions
            .iter()
            .position(|f| f == millionths)
            .filter(|_| halving.is_some())?;
        // The levels share the chance of 1/20. The pieces of a value count as one candidate,
        // although ranks within a value of thousands of rows differ: hence `about`.
        let chance = 20.0 * f64::from(Halving::levels(fractions.len())) * candidates.count() as f64;
        Some(
            Halving::reach(&fractions)[at] * *weight_max as f64 * chance.ln()
                / eta(draw)
                / *row_weight as f64,
        )
    };
    match target {
        Target::MostFrequent => Some(rows),
        Target::Beyond(..) => None,
        Target::Fraction(millionths) => Some(together(millionths).unwrap_or(rows)),
        Target::End(_) => Some(2.0 * rows),
    }
}

/// The range that the values of a choice lie in, whatever the data are.
pub fn known_range(candidates: &Candidates) -> Option<(String, String)> {
    match candidates {
        Candidates::Grid(grid) => Some((
            candidates.edge(0, Side::Low),
            candidates.edge(grid.points - 1, Side::High),
        )),
        Candidates::Listed(_) => None,
    }
}

fn error(choice: &ChoicePlan, target: &Target, draw: &Exponential) -> String {
    let (
        ChoiceKind::Choice {
            draws: _,
            halving,
            weight_max: _,
            row_weight,
        },
        Subject::Value {
            value: _,
            candidates,
        },
    ) = (&choice.kind, &choice.question.subject)
    else {
        return String::new();
    };
    let ranks = rank_error(choice, target, draw).map_or(String::new(), significant);
    let within = match choice.look {
        Some(_) => "at most",
        None => "within",
    };
    match target {
        Target::MostFrequent => format!("in 95 % of draws at most {ranks} rows rarer than it"),
        Target::Beyond(..) => {
            format!(
                "aimed {} ranks past it",
                significant(
                    target.reach(draw, candidates.count(), *row_weight) / *row_weight as f64
                )
            )
        }
        Target::Fraction(_) if halving.is_some() => {
            format!("in 95 % of draws {within} about {ranks} ranks")
        }
        Target::Fraction(_) => format!("in 95 % of draws {within} {ranks} ranks"),
        Target::End(_) => {
            let known = known_range(candidates).map_or(String::new(), |(least, greatest)| {
                format!("; whatever the data, the answer lies from {least} to {greatest}")
            });
            format!("in 95 % of draws {within} {ranks} ranks of it{known}")
        }
    }
}

#[cfg(test)]
mod tests;

fn pairs(PairLimits { in_all, in_group }: PairLimits) -> String {
    if in_group < in_all {
        format!("{in_all}, {in_group} in a group")
    } else {
        in_all.to_string()
    }
}
