//! The errors of a plan's aggregates before it is run: as it would be bought, and as the role holds
//! it.

use super::notice::three_digits;
use crate::aggregates::{ChoiceId, DrawId, Foreseen, MeasureId, Output};
use crate::finish::quantile_95;
use crate::ledger::Balance;
use crate::mechanism::{Loss, Mechanism};
use crate::release::{NoiseRecord, ReleasedTable};
use crate::rewrite::{ChoiceKind, ReleasePlan, measure_deviation, ranks_of, times_clip};

/// Half of the 95 % interval of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Within {
    Known(f64),
    /// The error differs from group to group.
    Between {
        least: f64,
        most: f64,
    },
    /// A look chooses the clip, and the error is `times` the clip: `half` with the largest clip.
    AtMost {
        half: f64,
        times: f64,
    },
    /// The error is this number divided by the number of rows, for values near the middle of their
    /// range.
    OverRows(f64),
    /// A chosen value is off by ranks.
    Ranks(f64),
    /// A look chooses how many rows of a unit count; with the largest limit it is this.
    RanksAtMost(f64),
    /// In some groups a look saw too few units, and the value is NULL: the error in the others.
    /// Where it is `over_rows`, it is divided by the number of rows.
    WhereSeen {
        least: f64,
        most: f64,
        over_rows: bool,
    },
    /// The error follows from the answer, and is not known before.
    Unknown,
    /// A look saw too few units, and the value is NULL.
    Null,
}

/// The errors of groups, from the least to the largest.
fn between(least: f64, most: f64) -> Within {
    match three_digits(least) == three_digits(most) {
        true => Within::Known(most),
        false => Within::Between { least, most },
    }
}

impl Within {
    /// The error of groups that have these; `None` without a group.
    fn over(halves: impl Iterator<Item = f64>) -> Option<Self> {
        let ends = halves.map(|half| (half, half));
        let (least, most) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some(between(least, most))
    }

    /// The error of groups that a look saw enough of, while others have no value.
    fn where_seen(self) -> Self {
        let (least, most, over_rows) = match self {
            Self::Known(half) => (half, half, false),
            Self::OverRows(half) => (half, half, true),
            Self::Between { least, most } => (least, most, false),
            other => return other,
        };
        Self::WhereSeen {
            least,
            most,
            over_rows,
        }
    }

    pub fn text(self) -> String {
        match self {
            Self::Known(half) => format!("±{}", three_digits(half)),
            Self::Between { least, most } => {
                format!("±{} to ±{}", three_digits(least), three_digits(most))
            }
            Self::WhereSeen {
                least,
                most,
                over_rows,
            } => {
                let known = match over_rows {
                    true => Self::OverRows(most).text(),
                    false => between(least, most).text(),
                };
                format!("{known} where a look saw enough")
            }
            Self::AtMost { half, times } => format!(
                "at most ±{} (±{} times the clip that a look chooses)",
                three_digits(half),
                three_digits(times)
            ),
            Self::OverRows(half) => format!("±{} / rows", three_digits(half)),
            Self::Ranks(ranks) => format!("±{} ranks", three_digits(ranks)),
            Self::RanksAtMost(ranks) => format!("at most ±{} ranks", three_digits(ranks)),
            Self::Unknown => "± what the answer says".to_owned(),
            Self::Null => "NULL, as a look saw too few units".to_owned(),
        }
    }

    /// The number, and the unit or condition that goes with it.
    pub fn parts(self) -> (Option<f64>, &'static str) {
        match self {
            Self::Known(half) => (Some(half), "known"),
            Self::Between {
                least: _,
                most: half,
            }
            | Self::AtMost { half, times: _ } => (Some(half), "at most"),
            Self::WhereSeen {
                least: _,
                most,
                over_rows,
            } => match over_rows {
                true => (Some(most), "over rows where seen"),
                false => (Some(most), "at most where seen"),
            },
            Self::OverRows(half) => (Some(half), "over rows"),
            Self::Ranks(ranks) => (Some(ranks), "ranks"),
            Self::RanksAtMost(ranks) => (Some(ranks), "ranks at most"),
            Self::Unknown => (None, "unknown"),
            Self::Null => (None, "null"),
        }
    }
}

/// How many to one the odds are at most: no less than they are.
pub(super) fn odds_text(odds: f64) -> String {
    if odds.is_infinite() {
        return format!("{odds}");
    }
    let digits = if odds < 1e6 { 3 } else { 1 };
    let unit = 10f64.powi(odds.log10().floor() as i32 + 1 - digits);
    // What doubles round off is no more.
    let up = (odds / unit * (1.0 - 1e-12)).ceil() * unit;
    match digits {
        3 => three_digits(up),
        _ => format!("{up:.0e}"),
    }
}

/// Each aggregate's name and error: of an answer that the role holds, and otherwise of one that it
/// would buy.
pub(super) fn expected_errors(
    release: &ReleasePlan,
    held: Option<&ReleasedTable>,
) -> Vec<(&'static str, Within)> {
    let of_held = |output: &Output| within_held(release, output, held?);
    let outputs = release.outputs().iter();
    outputs
        .map(|(output, _)| {
            let within = of_held(output).unwrap_or_else(|| within(release, output));
            (output.name(), within)
        })
        .collect()
}

/// The error of an aggregate by the noise that the answer was drawn with, which is not always the
/// plan's. `None` where nothing but the plan says it.
///
/// # Guarantee
/// It depends on the record of the noise alone, not on the released values.
fn within_held(release: &ReleasePlan, output: &Output, table: &ReleasedTable) -> Option<Within> {
    let drawn = table.drawn.as_ref()?;
    let groups = table.measures.len();
    let is_missing = |group: &usize| {
        let mut measures = output.measures().into_iter();
        measures.any(|at| drawn.unseen(release.measure(at), *group).is_some())
    };
    let missing = match drawn.leaves_out() {
        true => (0..groups).filter(is_missing).count(),
        false => 0,
    };
    if groups > 0 && missing == groups {
        return Some(Within::Null);
    }
    let within = within_seen(release, output, (table, drawn))?;
    Some(match missing {
        0 => within,
        _ => within.where_seen(),
    })
}

/// The error in the groups that were drawn.
fn within_seen(
    release: &ReleasePlan,
    output: &Output,
    (table, drawn): (&ReleasedTable, &NoiseRecord),
) -> Option<Within> {
    let groups = table.measures.len();
    let noise = |at: MeasureId, group| drawn.noise(release.measure(at), group);
    let is_seen = |at: MeasureId, group| drawn.unseen(release.measure(at), group).is_none();
    let wide = quantile_95(drawn.mechanism());
    let half =
        |noise: &mut dyn Iterator<Item = f64>| wide * noise.map(|n| n * n).sum::<f64>().sqrt();
    match output.foreseen() {
        Foreseen::Measure(at) => {
            let seen = (0..groups).filter(|group| is_seen(at, *group));
            let halves = seen.map(|group| half(&mut noise(at, group).into_iter()));
            Within::over(halves)
        }
        Foreseen::OverRows { sum, count, range } => {
            let middle = range.lo + (range.hi - range.lo) / 2.0;
            let seen = (0..groups).filter(|group| is_seen(sum, *group) && is_seen(count, *group));
            let halves = seen.map(|group| {
                let (sum, count) = (noise(sum, group), noise(count, group));
                debug_assert_eq!(sum.len(), count.len(), "one part for each draw");
                let both = sum.into_iter().zip(count);
                half(&mut both.map(|(sum, count)| sum - middle * count))
            });
            halves.reduce(f64::max).map(Within::OverRows)
        }
        Foreseen::Choice { .. } | Foreseen::DistinctValues { .. } | Foreseen::Exact => None,
        Foreseen::FromAnswer | Foreseen::Fitted | Foreseen::Chance => None,
    }
}

fn within(release: &ReleasePlan, output: &Output) -> Within {
    let wide = release.price().map(|price| quantile_95(price.mechanism));
    match output.foreseen() {
        Foreseen::Measure(at) => {
            let Some(wide) = wide else {
                return Within::Unknown;
            };
            let measure = release.measure(at);
            if let Some((times, most)) = times_clip(release, measure) {
                let times = times * wide;
                return Within::AtMost {
                    half: times * most,
                    times,
                };
            }
            measure_deviation(release, measure)
                .map_or(Within::Unknown, |deviation| Within::Known(deviation * wide))
        }
        Foreseen::OverRows { sum, count, range } => {
            let of = |at: MeasureId| measure_deviation(release, release.measure(at));
            let half = (range.hi - range.lo) / 2.0;
            match (of(count), of(sum), wide) {
                (Some(count), Some(_), Some(wide)) => Within::OverRows(half * count * wide),
                _ => Within::Unknown,
            }
        }
        Foreseen::Choice {
            choice,
            draws,
            is_array: _,
        } => error_of_choice(release, choice, draws),
        Foreseen::Exact => Within::Known(0.0),
        Foreseen::FromAnswer
        | Foreseen::Fitted
        | Foreseen::Chance
        | Foreseen::DistinctValues { .. } => Within::Unknown,
    }
}

fn error_of_choice(release: &ReleasePlan, choice: ChoiceId, draws: &[DrawId]) -> Within {
    let Some(choice) = release.choices().get(choice.0) else {
        return Within::Unknown;
    };
    match &choice.kind {
        ChoiceKind::Count { calibrated, .. } => {
            let count = calibrated.first().filter(|_| draws.is_empty());
            count.map_or(Within::Unknown, |count| {
                let deviation = count.noise.standard_deviation() / 2f64.powi(count.refine as i32);
                // The wider law of the two.
                Within::Known(deviation * quantile_95(Mechanism::Laplace))
            })
        }
        ChoiceKind::Choice { .. } => {
            let within = match choice.look {
                Some(_) => Within::RanksAtMost,
                None => Within::Ranks,
            };
            let ranks = draws.iter().filter_map(|draw| ranks_of(choice, *draw));
            ranks.reduce(f64::max).map_or(Within::Unknown, within)
        }
    }
}

/// Three digits; a tenth at most.
pub fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent >= 10.0 {
        format!("{percent:.1} %")
    } else {
        format!("{} %", three_digits(percent))
    }
}

/// The fraction of the role's budget that is left after a loss; `None` where the loss does not fit.
/// The owner's total has no part in it.
pub fn after(balance: &Balance, loss: Loss) -> Option<f64> {
    if !balance.cap.admits(&balance.spent, &loss) {
        return None;
    }
    let spent = balance.spent.compose(loss)?;
    Some(
        Balance {
            spent,
            ..balance.clone()
        }
        .fraction_left(),
    )
}

#[cfg(test)]
mod tests {
    use super::odds_text;

    #[test]
    fn odds_are_rounded_up() {
        let shown = [
            3f64.ln().exp(),
            20.0855,
            7.3891,
            1.2214,
            2_980.96,
            2.1e6,
            1e6,
        ];
        assert_eq!(
            shown.map(odds_text),
            ["3.00", "20.1", "7.39", "1.23", "2990", "3e6", "1e6"]
        );
        assert_eq!(odds_text(f64::INFINITY), "inf");
    }
}
