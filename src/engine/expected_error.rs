//! The errors of a plan's aggregates before it is run, and a plan in one line of words.

use super::notice::three_digits;
use crate::aggregates::{ChoiceId, DrawId, Foreseen, MeasureId, Output};
use crate::analyze::KeyRule;
use crate::finish::quantile_95;
use crate::ledger::Balance;
use crate::mechanism::{Loss, Mechanism};
use crate::rewrite::{ChoiceKind, Plan, ReleasePlan, measure_deviation, ranks_of, times_clip};

/// Half of the 95 % interval of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Within {
    Known(f64),
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
    /// The error follows from the answer, and is not known before.
    Unknown,
}

impl Within {
    pub fn text(self) -> String {
        match self {
            Self::Known(half) => format!("±{}", three_digits(half)),
            Self::AtMost { half, times } => format!(
                "at most ±{} (±{} times the clip that a look chooses)",
                three_digits(half),
                three_digits(times)
            ),
            Self::OverRows(half) => format!("±{} / rows", three_digits(half)),
            Self::Ranks(ranks) => format!("±{} ranks", three_digits(ranks)),
            Self::RanksAtMost(ranks) => format!("at most ±{} ranks", three_digits(ranks)),
            Self::Unknown => "± what the answer says".to_owned(),
        }
    }

    /// The number, and the unit or condition that goes with it.
    pub fn parts(self) -> (Option<f64>, &'static str) {
        match self {
            Self::Known(half) => (Some(half), "known"),
            Self::AtMost { half, times: _ } => (Some(half), "at most"),
            Self::OverRows(half) => (Some(half), "over rows"),
            Self::Ranks(ranks) => (Some(ranks), "ranks"),
            Self::RanksAtMost(ranks) => (Some(ranks), "ranks at most"),
            Self::Unknown => (None, "unknown"),
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

/// Each aggregate's name and error.
pub fn expected_errors(release: &ReleasePlan) -> Vec<(&'static str, Within)> {
    let outputs = release.outputs().iter();
    outputs
        .map(|(output, _)| (output.name(), within(release, output)))
        .collect()
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

/// Each aggregate of a plan, and its expected error.
pub fn errors_of(plan: &Plan) -> Vec<(String, Within)> {
    let several = plan.releases().len() > 1;
    let releases = plan.releases().iter().enumerate();
    releases
        .flat_map(|(at, release)| {
            expected_errors(release)
                .into_iter()
                .map(move |(name, within)| {
                    let name = match several {
                        true => format!("{}: {name}", at + 1),
                        false => name.to_owned(),
                    };
                    (name, within)
                })
        })
        .collect()
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

/// `±14.2 on each of 3 groups; 3.48 % of your budget; 96.5 % left after`. `loss` is what is not
/// paid for yet.
pub fn in_words(plan: &Plan, loss: &Loss, balance: &Balance) -> String {
    if plan.releases().is_empty() {
        return "exact: no private row is read; free".to_owned();
    }
    let left = balance.fraction_left();
    let price = match after(balance, *loss) {
        _ if loss.is_zero() && plan.loss().is_zero() => {
            format!("free; {} of your budget left", percent(left))
        }
        _ if loss.is_zero() => {
            format!(
                "free, as it was paid for; {} of your budget left",
                percent(left)
            )
        }
        Some(after) => format!(
            "{} of your budget; {} left after",
            percent(left - after),
            percent(after)
        ),
        None => format!(
            "it costs more than is left of your budget, {}",
            percent(left)
        ),
    };
    const SHOWN: usize = 3;
    // Steps of a fit that lead to another one show nothing themselves.
    let leads_on = |release: &ReleasePlan| release.outputs().iter().any(|(o, _)| o.leads_on());
    let releases = plan.releases().iter().filter(|release| !leads_on(release));
    let releases: Vec<&ReleasePlan> = releases.collect();
    let mut answers: Vec<String> = releases.iter().take(SHOWN).map(|r| of_release(r)).collect();
    if let Some(more) = releases.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        answers.push(format!("{more} more releases"));
    }
    format!("{}; {price}", answers.join(" and "))
}

fn of_release(release: &ReleasePlan) -> String {
    if release.no_row().is_some() {
        return "exact: no row can match".to_owned();
    }
    const SHOWN: usize = 6;
    let all = expected_errors(release);
    let answer = match all.as_slice() {
        [] => "the keys of groups".to_owned(),
        [(_, one)] => one.text(),
        several => {
            let shown = several.iter().take(SHOWN);
            let mut parts: Vec<String> = shown
                .map(|(name, within)| format!("{name} {}", within.text()))
                .collect();
            if let Some(more) = several.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                parts.push(format!("{more} more"));
            }
            parts.join(", ")
        }
    };
    let is_listed = |(_, rule): &(_, KeyRule)| matches!(rule, KeyRule::Domain(_));
    let groups = release.keys();
    let of = match (groups.is_empty(), groups.iter().all(is_listed)) {
        (true, _) => return answer,
        (false, true) => format!("each of {} groups", release.listed_groups()),
        (false, false) => "each group that enough units have".to_owned(),
    };
    if all.is_empty() {
        let of = of
            .trim_start_matches("each of ")
            .replace("each group", "groups");
        return format!("the keys of {of}");
    }
    format!("{answer} on {of}")
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
