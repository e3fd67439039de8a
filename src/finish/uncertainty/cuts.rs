//! What clips that a look chose took from a measure, by the noisy numbers of that look.

use crate::release::{Cut, NoiseRecord};
use crate::rewrite::{Measure, ReleasePlan, measure_terms};

/// How many times a group's share of what is cut may exceed the mean.
const UNEVEN: f64 = 1.5;

/// The most of all lengths that counts as cut: past it the histogram says too little.
const SHARE_MAX: f64 = 0.5;

/// How units are taken to go on beyond every length that the look could see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    Light,
    Heavy,
}

/// By how much lower, and higher, the exact value of a measure may be in one of this many groups.
/// Sums of one sign are only ever too near to zero.
///
/// A unit's length is the Euclidean one, over all groups that were drawn. What a sum of s of them
/// lacks of it is at most the root of s times as much (Cauchy-Schwarz).
pub(super) fn of(
    release: &ReleasePlan,
    measure: &Measure,
    (value, tail): (f64, Tail),
    (drawn, group, groups): (&NoiseRecord, usize, usize),
) -> (f64, f64) {
    let root = (drawn.summed_in(group) as f64).sqrt();
    let terms = measure_terms(measure);
    let mut sides = (0.0, 0.0);
    for (coordinate, factor) in &terms {
        let Some(cut) = drawn.cut(*coordinate) else {
            continue;
        };
        let (least, most) = release.coordinates()[*coordinate].range();
        let is_mixed = least < 0 && most > 0;
        let of = |length: f64| root * length * factor.abs();
        // Of several terms, a group's own part in each is not known.
        let moved = if groups == 1 || terms.len() > 1 {
            of(match tail {
                Tail::Light => cut.length,
                Tail::Heavy => cut.length + cut.tail,
            })
        } else {
            let share = share_cut(cut);
            let own = UNEVEN * value.abs() * share / (1.0 - share);
            if is_mixed {
                own.max(of(cut.length) / (groups as f64).sqrt())
            } else {
                own
            }
        };
        // Where the exact coordinate is further from zero, in the measure's own direction.
        let grows = (most > 0 && *factor > 0.0) || (least < 0 && *factor < 0.0);
        let falls = (least < 0 && *factor > 0.0) || (most > 0 && *factor < 0.0);
        sides.0 += if falls { moved } else { 0.0 };
        sides.1 += if grows { moved } else { 0.0 };
    }
    sides
}

/// The share of all lengths that is cut, at most.
pub fn share_cut(cut: &Cut) -> f64 {
    if cut.whole > 0.0 {
        (cut.length / cut.whole).clamp(0.0, SHARE_MAX)
    } else {
        SHARE_MAX
    }
}
