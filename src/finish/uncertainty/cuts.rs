//! What clips that a look chose took from a measure, by the noisy numbers of that look.

use crate::release::NoiseRecord;
use crate::rewrite::{Measure, ReleasePlan, measure_terms};

/// Which end of the estimate of what is cut is wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cuts {
    /// None: the noise alone.
    Left,
    /// The likeliest.
    Likely,
    /// The furthest that the interval has to hold, with this many standard deviations of the noise
    /// and of the estimate together.
    Surely(f64),
}

/// What is cut on one side: the likeliest, and how much more it may be.
#[derive(Default)]
struct Side {
    likely: f64,
    more: f64,
}

impl Side {
    /// By how much it moves the end of an interval that has this much of noise. Noise and the
    /// estimate's error are independent, so their squares add up.
    fn with_noise(&self, noise: f64) -> f64 {
        self.likely + noise.hypot(self.more) - noise
    }
}

/// By how much lower, and higher, the exact value of a measure may be in one of this many groups.
/// Sums of one sign are only ever too near to zero.
///
/// A unit's length is the Euclidean one, over all groups that were drawn. What a sum of s of them
/// lacks of it is at most the root of s times as much (Cauchy-Schwarz).
pub(super) fn of(
    release: &ReleasePlan,
    measure: &Measure,
    (value, noise, cuts): (f64, &[f64], Cuts),
    (drawn, group, groups): (&NoiseRecord, usize, usize),
) -> (f64, f64) {
    let deviations = match cuts {
        Cuts::Left => return (0.0, 0.0),
        Cuts::Likely => 0.0,
        Cuts::Surely(deviations) => deviations,
    };
    let root = (drawn.summed_in(group) as f64).sqrt();
    let terms = measure_terms(measure);
    let (mut lower, mut higher) = (Side::default(), Side::default());
    for (coordinate, factor) in &terms {
        let Some(cut) = drawn.cut(*coordinate) else {
            continue;
        };
        let (least, most) = release.coordinates()[*coordinate].range();
        // Of several terms, a group's own part in each is not known.
        let groups = if terms.len() > 1 { 1 } else { groups };
        let place = (value, groups, root * factor.abs());
        let likely = cut.of_group(cut.length, place);
        let more = cut.of_group(cut.most(deviations), place) - likely;
        let add = |side: &mut Side| {
            side.likely += likely;
            side.more += more;
        };
        // Where the exact coordinate is further from zero, in the measure's own direction.
        if (most > 0 && *factor > 0.0) || (least < 0 && *factor < 0.0) {
            add(&mut higher);
        }
        if (least < 0 && *factor > 0.0) || (most > 0 && *factor < 0.0) {
            add(&mut lower);
        }
    }
    let noise = deviations * noise.iter().map(|part| part * part).sum::<f64>().sqrt();
    (lower.with_noise(noise), higher.with_noise(noise))
}
