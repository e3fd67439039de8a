//! The error that a new answer would have, next to that of sums of a finer one.

use std::collections::HashSet;

use num_traits::ToPrimitive;

use super::{Grain, sum_rows, value};
use crate::release::{NoiseRecord, PrintedKey};
use crate::rewrite::{Measure, ReleasePlan, Total, measure_deviation, measure_terms};

/// The standard deviation of a measure in a new answer. A look would choose its clip: it is guessed
/// as the finer answer's, times the share of the finer answer's values that the release reads.
/// `None` where the finer answer has no such clip.
pub(super) fn if_bought(
    release: &ReleasePlan,
    measure: &Measure,
    finer: &NoiseRecord,
    shares: &[f64],
) -> Option<f64> {
    let Some(look) = release.look() else {
        return measure_deviation(release, measure);
    };
    if finer.unseen(measure, 0).is_some() {
        return Some(finer.deviation(measure));
    }
    let mut variance = 0.0;
    for (coordinate, factor) in measure_terms(measure) {
        let (block, place) = look.place(coordinate)?;
        let clip = if block.bins.has_choice() {
            finer.cut(coordinate, 0)?.clip * shares.get(coordinate.0)?
        } else {
            block.bins.ceiling().to_f64()? / block.weights[place].to_f64()?
        };
        variance += (factor * clip / block.mu.to_f64()).powi(2);
    }
    Some(variance.sqrt())
}

/// For each coordinate: the Euclidean length of its noisy values over the finer groups that the
/// release adds up, as a share of that over all groups that it read. If units are spread as their
/// sum is, their lengths shrink by as much, and so would the clip of a new answer.
pub(super) fn shares(
    grain: &Grain,
    totals: &[&Total],
    (members, read): (&[(PrintedKey, Vec<usize>)], &[usize]),
) -> Option<Vec<f64>> {
    let picked: HashSet<usize> = members
        .iter()
        .flat_map(|(_, rows)| rows.iter().copied())
        .collect();
    if picked.len() == read.len() {
        return Some(vec![1.0; totals.len()]);
    }
    let mut sums = vec![(0.0, 0.0); totals.len()];
    for row in read {
        let noisy = sum_rows(grain, &[*row])?;
        for (total, (of_picked, of_all)) in totals.iter().zip(&mut sums) {
            let size = value(grain, total, &noisy).to_f64().powi(2);
            *of_all += size;
            *of_picked += if picked.contains(row) { size } else { 0.0 };
        }
    }
    let share = |(of_picked, of_all): (f64, f64)| match of_all > 0.0 {
        true => (of_picked / of_all).sqrt(),
        false => 1.0,
    };
    Some(sums.into_iter().map(share).collect())
}
