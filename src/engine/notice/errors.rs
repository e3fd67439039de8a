//! The errors of aggregates, in words: of a plan, and of an answer.

use super::number_text;
use crate::aggregates::{DrawId, Fit, FitCaution, Foreseen, MeasureId, Output};
use crate::analyze::KeyRule;
use crate::catalog::Type;
use crate::engine::draw_release::saw;
use crate::finish::{Fits, groups_unseen, has_few, quantile_95, reach_of_cuts, spread};
use crate::ir::{AggregateId, Formula, ReleaseId};
use crate::release::{ClipBias, NoiseRecord, ReleasedTable, TooFew};
use crate::rewrite::{
    CoordinateId, Degree, ReleasePlan, choice_noise, chosen_noise, measure_deviation, measure_terms,
};

/// How a line on the noise of an aggregate begins.
fn prefix(at: AggregateId) -> String {
    format!("noise of aggregate {}:", at.ordinal())
}

/// An aggregate that a look left out.
pub(super) struct LeftOutAggregate {
    at: AggregateId,
    /// Whether no group has it.
    is_whole: bool,
    pub line: String,
}

/// The aggregates that a look left out, each with a line that says why.
pub(super) fn left_out(
    release: &ReleasePlan,
    table: Option<&ReleasedTable>,
) -> Vec<LeftOutAggregate> {
    let outputs = AggregateId::with_numbers(release.outputs());
    let line = |(at, (output, _)): (AggregateId, &(Output, Type))| {
        let table = table?;
        let unseen = groups_unseen(release, table, output);
        let (_, few) = unseen.first()?;
        let groups: usize = unseen.iter().map(|(groups, _)| groups).sum();
        let is_whole = groups >= table.measures.len();
        let place = match groups {
            _ if is_whole => String::new(),
            1 => " in 1 group".to_owned(),
            groups => format!(" in {groups} groups"),
        };
        let line = format!("{} NULL{place}: {}", prefix(at), not_drawn(*few));
        Some(LeftOutAggregate { at, is_whole, line })
    };
    outputs.filter_map(line).collect()
}

/// The noise of every aggregate: half of the 95 % interval. Where it depends on released values,
/// over the released groups.
pub(super) fn noise_released(
    release: &ReleasePlan,
    table: Option<&ReleasedTable>,
    of: (ReleaseId, &Fits),
) -> Vec<String> {
    let drawn = table.and_then(|table| table.drawn.as_ref());
    let mut lines = noise(release, drawn);
    let left_out = left_out(release, table);
    for (at, (output, _)) in AggregateId::with_numbers(release.outputs()) {
        let prefix = prefix(at);
        let left = left_out.iter().find(|left| left.at == at);
        if let Some(left) = left.filter(|left| left.is_whole) {
            set(&mut lines, &prefix, left.line.clone());
            continue;
        }
        let groups = table
            .into_iter()
            .flat_map(|table| (0..table.measures.len()).map(move |group| (table, group)));
        let halves = groups
            .filter_map(|(table, group)| spread(release, &Formula::Aggregate(at), table, group))
            .map(|s| (s.high - s.low) / 2.0);
        let (least, most) = halves.fold((f64::INFINITY, 0f64), |(least, most), half| {
            (least.min(half), most.max(half))
        });
        let depends = match output.foreseen() {
            Foreseen::OverRows { .. } | Foreseen::FromAnswer | Foreseen::Chance => true,
            Foreseen::DistinctValues { .. } => true,
            Foreseen::Measure(_) | Foreseen::Choice { .. } | Foreseen::Exact => false,
            Foreseen::Fitted => false,
        };
        if depends && least.is_finite() {
            let within = match (number_text(least) == number_text(most), most.is_finite()) {
                (true, _) => format!("within ±{}", number_text(least)),
                (false, true) => format!(
                    "within ±{} to ±{}, by group",
                    number_text(least),
                    number_text(most)
                ),
                (false, false) => {
                    format!(
                        "within ±{} or more, unknown in some groups",
                        number_text(least)
                    )
                }
            };
            let line = format!("{prefix} 95 % {within}");
            set(&mut lines, &prefix, line);
        }
        let remark = table
            .filter(|_| !is_fitted_before(release, at))
            .and_then(|table| {
                too_small(release, output, table)
                    .or_else(|| may_be_empty(release, at, table))
                    .or_else(|| fits(release, output, table, of))
            });
        if let Some(remark) = remark {
            let line = lines
                .iter()
                .find(|line| line.starts_with(&prefix) && least.is_finite())
                .map_or(format!("{prefix} {remark}"), |line| {
                    format!("{line}; {remark}")
                });
            set(&mut lines, &prefix, line);
        }
        lines.extend(left.map(|left| left.line.clone()));
        lines.extend(
            table
                .into_iter()
                .flat_map(|t| cuts(release, (at, output), t)),
        );
    }
    lines
}

/// The cuts of chosen clips and limits from an aggregate, a line each.
fn cuts(
    release: &ReleasePlan,
    (at, output): (AggregateId, &Output),
    table: &ReleasedTable,
) -> Vec<String> {
    let number = at.ordinal();
    let clip = what_is_cut(release, at, table);
    let clip = clip.map(|cut| format!("clip of aggregate {number}: {cut}"));
    let rows = rows_cut(output, table).map(|cut| format!("rows of aggregate {number}: {cut}"));
    clip.into_iter().chain(rows).collect()
}

/// Why a look left an aggregate out, and what to write instead.
fn not_drawn(few: TooFew) -> String {
    format!(
        "{}, so it is not drawn, and what it would have cost makes the others more accurate; ask \
            for it alone over more rows or at a larger pgveil.epsilon, or SET pgveil.clip = fixed",
        saw(few)
    )
}

/// The amount that a clip chosen from a look cuts from an aggregate, as far as the look shows, and
/// the part of its intervals that covers this.
fn what_is_cut(release: &ReleasePlan, at: AggregateId, table: &ReleasedTable) -> Option<String> {
    let (output, _) = release.output(at)?;
    let measures = match output.foreseen() {
        Foreseen::Measure(sum) | Foreseen::OverRows { sum, .. } => vec![sum],
        Foreseen::FromAnswer => output.measures(),
        Foreseen::Chance | Foreseen::DistinctValues { .. } => return None,
        Foreseen::Choice { .. } | Foreseen::Exact | Foreseen::Fitted => return None,
    };
    let drawn = table.drawn.as_ref()?;
    let measures = measures.iter().map(|at| release.measure(*at));
    let terms: Vec<(CoordinateId, f64)> = measures.flat_map(measure_terms).collect();
    let cuts = terms.iter().flat_map(|(at, _)| drawn.cuts(*at));
    // If there are several clips, the one that cuts most.
    let share = |cut: &&ClipBias| cut.length / cut.whole.max(f64::MIN_POSITIVE);
    let cut = cuts.max_by(|one, other| share(one).total_cmp(&share(other)))?;
    // The clip is the longest that there is.
    if cut.units_error == 0.0 && cut.beyond == 0.0 {
        return None;
    }
    let most = match terms.as_slice() {
        [(_, factor)] => number_text(cut.clip * factor.abs()),
        // One clip bounds values and rows together, or each has its own.
        _ => "the clip".to_owned(),
    };
    let of_answers = match drawn.answers_joined() {
        1 => String::new(),
        answers => format!("where it cuts most of the {answers} answers that this is made of, "),
    };
    let line = format!(
        "{of_answers}about {:.0} (±{:.0}) of {:.0} units add more than {most} and count as that \
            much",
        cut.units,
        1.96 * cut.units_error,
        cut.of,
    );
    let reach = match reach_of_cuts(release, &Formula::Aggregate(at), table) {
        Some((lower, higher)) if lower > 0.0 && higher > 0.0 => format!(
            "; for that its interval reaches up to {} lower and {} higher",
            number_text(lower),
            number_text(higher)
        ),
        Some((lower, _)) if lower > 0.0 => {
            format!(
                "; for that its interval reaches up to {} lower",
                number_text(lower)
            )
        }
        Some((_, higher)) => {
            format!(
                "; for that its interval reaches up to {} higher",
                number_text(higher)
            )
        }
        None => String::new(),
    };
    let exceeded = match cut.beyond {
        beyond if beyond > 0.0 => format!(
            "; about {beyond:.0} of them add more than the policy's limits allow, and what they \
                add past the limits is in no interval"
        ),
        _ => String::new(),
    };
    let hidden = cut.hidden.map_or(String::new(), |hidden| {
        format!(
            "; up to {hidden:.0} units that add far more than all others would not show, and it \
                allows for {:.0} of them",
            cut.hidden_allowed()
        )
    });
    Some(line + &reach + &hidden + &exceeded)
}

/// The rows that a limit chosen from a look cuts from a chosen value.
fn rows_cut(output: &Output, table: &ReleasedTable) -> Option<String> {
    let Foreseen::Choice { choice, .. } = output.foreseen() else {
        return None;
    };
    let mut cuts = table.row_cuts.iter();
    let (_, cut) = cuts.find(|(at, _)| *at == choice)?;
    Some(format!(
        "about {:.0} (±{:.0}) of {:.0} units have more than {}, and weigh as much as that; the \
            ends of its interval allow for {} rows that this takes away",
        cut.units,
        1.96 * cut.units_error,
        cut.of,
        number_text(cut.clip),
        number_text(cut.rows)
    ))
}

fn set(lines: &mut Vec<String>, prefix: &str, line: String) {
    match lines.iter_mut().find(|line| line.starts_with(prefix)) {
        Some(known) => *known = line,
        None => lines.push(line),
    }
}

/// How many listed groups have a noisy count that fits a group without rows.
fn may_be_empty(release: &ReleasePlan, at: AggregateId, table: &ReleasedTable) -> Option<String> {
    let is_count = release.output(at)?.0.is_count();
    let is_listed = |(_, rule): &(_, KeyRule)| matches!(rule, KeyRule::Domain(_));
    if !is_count || !release.keys().iter().any(is_listed) {
        return None;
    }
    let groups = (0..table.measures.len())
        .filter_map(|group| spread(release, &Formula::Aggregate(at), table, group))
        .filter(|spread| spread.low <= 0.0)
        .count();
    match groups {
        0 => None,
        1 => Some("1 group may have no row".to_owned()),
        groups => Some(format!("{groups} groups may have no row")),
    }
}

/// How many groups have too few rows for the aggregate, which is NULL there.
fn too_small(release: &ReleasePlan, output: &Output, table: &ReleasedTable) -> Option<String> {
    let groups = table.measures.len();
    let small = (0..groups)
        .filter(|group| output.needs_rows() && has_few(release, output, table, *group))
        .count();
    match small {
        0 => None,
        _ if release.keys().is_empty() => Some("NULL: too few rows".to_owned()),
        1 => Some("NULL in 1 group with too few rows".to_owned()),
        small => Some(format!("NULL in {small} groups with too few rows")),
    }
}

/// Whether an earlier aggregate is a field of the same record.
fn is_fitted_before(release: &ReleasePlan, at: AggregateId) -> bool {
    let fitted = |(output, _): &(Output, _)| output.model_field().map(|(model, _)| model.clone());
    let own = release.output(at).and_then(fitted);
    own.is_some()
        && release.outputs()[..at.0]
            .iter()
            .any(|other| fitted(other) == own)
}

/// The number of groups in which a record is not determined; and the effect of noise on records.
pub(super) fn fits(
    release: &ReleasePlan,
    output: &Output,
    table: &ReleasedTable,
    (id, fits): (ReleaseId, &Fits),
) -> Option<String> {
    let (model, _) = output.model_field()?;
    let of_groups = fits.of(id, model).iter().enumerate();
    let fits: Vec<&Option<Fit>> = of_groups
        .filter(|(group, _)| !has_few(release, output, table, *group))
        .map(|(_, fit)| fit)
        .collect();
    let in_groups = |found: usize| match found {
        _ if release.keys().is_empty() => String::new(),
        1 => " in 1 group".to_owned(),
        found => format!(" in {found} groups"),
    };
    let singular = fits.iter().filter(|fit| fit.is_none()).count();
    let none = (singular > 0)
        .then(|| format!("NULL{}, {}", in_groups(singular), model.why_undetermined()));
    let less = model
        .remark(fits.iter().copied().flatten())
        .map(|(groups, remark)| match remark {
            FitCaution::Shrunk(most) => format!(
                "a penalty of {} shrinks the coefficients{}, as the noise hides how the features \
                    differ",
                number_text(most),
                in_groups(groups)
            ),
            FitCaution::Held => format!(
                "the noise is so large{} that the last step was cut: coefficients are nearer to 0 \
                    than they should be",
                in_groups(groups)
            ),
            FitCaution::Lost => format!(
                "the noise hides the variance of the last components{}, which is shown as 0",
                in_groups(groups)
            ),
        });
    let remarks: Vec<String> = none.into_iter().chain(less).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

/// A line for each aggregate: the standard deviation of its noise, and what that means. `drawn` is
/// the noise of an answer; without it, the plan's noise is described.
pub(in crate::engine) fn noise(release: &ReleasePlan, drawn: Option<&NoiseRecord>) -> Vec<String> {
    let mut lines = Vec::new();
    let mechanism = drawn
        .map(NoiseRecord::mechanism)
        .or(release.price().map(|price| price.mechanism));
    let deviation_of = |measure: MeasureId| {
        let measure = release.measure(measure);
        drawn.map_or_else(
            || measure_deviation(release, measure),
            |drawn| Some(drawn.deviation(measure)),
        )
    };
    for (at, (output, _)) in AggregateId::with_numbers(release.outputs()) {
        let number = at.ordinal();
        let line = match output.foreseen() {
            Foreseen::Measure(measure) if drawn.is_none() && release.look().is_some() => {
                chosen_noise(release, release.measure(measure))
                    .map(|noise| format!("noise of aggregate {number}: {noise}"))
            }
            Foreseen::Measure(measure) => {
                deviation_of(measure)
                    .zip(mechanism)
                    .map(|(deviation, mechanism)| {
                        let half = deviation * quantile_95(mechanism);
                        format!(
                            "noise of aggregate {number}: standard deviation {}, 95 % within ±{}",
                            number_text(deviation),
                            number_text(half)
                        )
                    })
            }
            Foreseen::OverRows { sum, count, range } => deviation_of(count)
                .zip(deviation_of(sum))
                .map(|(count, _)| {
                    let half = (range.hi - range.lo) / 2.0;
                    format!(
                        "noise of aggregate {number}: an average of n rows has standard deviation \
                        about \
                        {} / n for values near the middle of [{}, {}]",
                        number_text(half * count),
                        range.lo,
                        range.hi
                    )
                }),
            Foreseen::FromAnswer | Foreseen::Chance | Foreseen::Exact => None,
            Foreseen::Fitted => None,
            Foreseen::DistinctValues { choice } => Some(format!(
                "noise of aggregate {number}: {}",
                choice_noise(release.choice(choice), &[DrawId(Degree::SUM)])
            )),
            Foreseen::Choice {
                choice,
                draws,
                is_array: _,
            } => Some(format!(
                "noise of aggregate {number}: {}",
                choice_noise(release.choice(choice), draws)
            )),
        };
        lines.extend(line);
    }
    lines
}
