//! Answers of a summary, corrected by answers that were bought where it was far off. This is
//! post-processing: it reads released values alone.

use super::rollup::Rollup;
use super::{PrintedKey, ReleasedTable};
use crate::aggregates::MeasureId;
use crate::analyze::PlanningEffort;
use crate::rewrite::{CoordinateDigest, Measure, ReleasePlan};

/// The most corrections of one summary.
const CORRECTIONS_MAX: usize = 64;

/// The most groups of the summary that a corrected answer or a correction sums.
const GROUPS_MAX: usize = 10_000;

/// The only measure of a sum without groups.
const ONLY_MEASURE: MeasureId = MeasureId(0);

/// The corrections of one summary, in the order in which they were bought.
///
/// The summary's groups are an estimate of the exact ones, whose error has a known covariance V.
/// Each bought answer of error s adds one row w: it moves the estimate by V w (a - w x) / (w V w +
/// s²), and lowers V by V w w V / (w V w + s²), so that sums of groups that have something in
/// common with w become more exact too. V itself is never built: of each question only its
/// covariances with the corrections are needed.
///
/// # Reference
/// Hardt and Rothblum 2010, "A multiplicative weights mechanism for privacy-preserving data
/// analysis", whose update this takes the place of: the estimate with the least variance, of
/// Gauss and Markov.
#[derive(Debug, Default)]
pub struct Corrections {
    all: Vec<Correction>,
}

#[derive(Debug)]
struct Correction {
    asked: Asked,
    /// Its covariances with the earlier corrections, each with the estimate of that time.
    before: Vec<f64>,
    /// The variance of `off`.
    spread: f64,
    /// By how much the bought answer was above the estimate of that time.
    off: f64,
}

/// A sum of groups of a summary.
#[derive(Debug)]
struct Asked {
    /// What is summed.
    total: CoordinateDigest,
    groups: Vec<PrintedKey>,
    /// The summary's own value, and its variance.
    value: f64,
    variance: f64,
    /// The variance of one group.
    of_one: f64,
}

/// A corrected value.
struct Estimate {
    value: f64,
    variance: f64,
    /// Its covariances with the corrections.
    moves: Vec<f64>,
}

impl Corrections {
    /// The answer that was read off `summary`, corrected. It stays as it is where it has groups or
    /// several measures, or where correcting it is much work.
    ///
    /// # Guarantee
    /// Post-processing of released values: those of the summary, and of the answers that were
    /// added.
    pub fn correct(
        &self,
        made: Rollup,
        (summary, release): (&ReleasedTable, &ReleasePlan),
    ) -> Rollup {
        let asked = match self.all.is_empty() {
            true => None,
            false => Asked::of(&made, summary, release),
        };
        let Some((asked, estimate)) = asked.and_then(|asked| {
            let estimate = self.estimate(&asked, summary)?;
            Some((asked, estimate))
        }) else {
            return made;
        };
        let left = (estimate.variance / asked.variance).sqrt();
        let mut made = made;
        if let Some(shown) = made
            .table
            .measures
            .first_mut()
            .and_then(|row| row.first_mut())
        {
            let is_count = matches!(release.measure(ONLY_MEASURE), Measure::Count(_));
            let value = match is_count {
                true => estimate.value.max(0.0),
                false => estimate.value,
            };
            let decimals = shown.split_once('.').map_or(0, |(_, after)| after.len());
            *shown = format!("{value:.decimals$}");
        }
        made.table.drawn = made.table.drawn.map(|drawn| drawn.with_left(left));
        made.worse *= left;
        made
    }

    /// Adds an answer that was bought: its value and its standard deviation. `made` is what the
    /// summary alone says. False, and nothing is added, where it has groups or several measures,
    /// where there are too many, or where adding it is much work.
    pub fn add(
        &mut self,
        made: &Rollup,
        (summary, release): (&ReleasedTable, &ReleasePlan),
        (value, deviation): (f64, f64),
    ) -> bool {
        let asked = Asked::of(made, summary, release);
        let Some(asked) = asked.filter(|_| self.all.len() < CORRECTIONS_MAX) else {
            return false;
        };
        let Some(estimate) = self.estimate(&asked, summary) else {
            return false;
        };
        let correction = Correction {
            asked,
            before: estimate.moves,
            spread: estimate.variance + deviation * deviation,
            off: value - estimate.value,
        };
        let is_finite = correction.spread.is_finite() && correction.off.is_finite();
        if is_finite {
            self.all.push(correction);
        }
        is_finite
    }

    /// `None` where it is much work.
    fn estimate(&self, asked: &Asked, summary: &ReleasedTable) -> Option<Estimate> {
        let effort = &PlanningEffort::small();
        let drawn = summary.drawn.as_ref()?;
        let (mut value, mut variance) = (asked.value, asked.variance);
        let mut moves: Vec<f64> = Vec::with_capacity(self.all.len());
        for correction in &self.all {
            let own = match correction.asked.total == asked.total {
                true => drawn.covariance(&asked.groups, &correction.asked.groups, effort)?,
                false => 0.0,
            };
            let earlier = moves.iter().zip(&correction.before).zip(&self.all);
            let known: f64 = earlier
                .map(|((moved, before), earlier)| moved * before / earlier.spread)
                .sum();
            let moved = own * asked.of_one - known;
            value += moved * correction.off / correction.spread;
            variance -= moved * moved / correction.spread;
            moves.push(moved);
        }
        // Rounding may take it below zero.
        let variance = variance.max(asked.variance * f64::EPSILON);
        (value.is_finite() && variance.is_finite()).then_some(Estimate {
            value,
            variance,
            moves,
        })
    }
}

impl Asked {
    /// The sum that was read off a summary; `None` where it has groups or several measures, or
    /// where a filter picks the summary's groups.
    fn of(made: &Rollup, summary: &ReleasedTable, release: &ReleasePlan) -> Option<Self> {
        let ([row], [members], [measure]) = (
            made.table.measures.as_slice(),
            made.members.as_slice(),
            release.measures(),
        ) else {
            return None;
        };
        let [total] = release.family()?.coordinates.as_slice() else {
            return None;
        };
        if members.len() > GROUPS_MAX {
            return None;
        }
        let drawn = made.table.drawn.as_ref()?;
        if drawn.picks_by_filters() {
            return None;
        }
        let groups = members.iter().map(|at| summary.keys.get(*at).cloned());
        let asked = Self {
            total: (*total)?,
            groups: groups.collect::<Option<_>>()?,
            value: row.first()?.parse().ok()?,
            variance: drawn.deviation(measure).powi(2),
            of_one: drawn.deviation_of_one(measure).powi(2),
        };
        (asked.variance > 0.0).then_some(asked)
    }
}
