//! What clips that a look chose took from a measure, by the noisy numbers of that look.

use crate::release::NoiseRecord;
use crate::rewrite::{Measure, ReleasePlan, measure_terms};

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
        let of = |length: f64| root * length * factor.abs();
        // Of several terms, a group's own part in each is not known.
        let moved = if groups == 1 || terms.len() > 1 {
            of(match tail {
                Tail::Light => cut.length,
                Tail::Heavy => cut.length + cut.tail,
            })
        } else {
            cut.of_group(value, groups, of(1.0))
        };
        // Where the exact coordinate is further from zero, in the measure's own direction.
        let grows = (most > 0 && *factor > 0.0) || (least < 0 && *factor < 0.0);
        let falls = (least < 0 && *factor > 0.0) || (most > 0 && *factor < 0.0);
        sides.0 += if falls { moved } else { 0.0 };
        sides.1 += if grows { moved } else { 0.0 };
    }
    sides
}
