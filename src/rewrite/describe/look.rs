//! Clips that a look chooses, in words.

use num_traits::ToPrimitive;

use super::{significant, step_of};
use crate::rewrite::vector::coordinate::Coordinate;
use crate::rewrite::vector::standard_deviation::measure_terms;
use crate::rewrite::{CoordinateId, Look, Measure, Price, ReleasePlan};

/// The price of the look and that of the answer, in words.
pub(super) fn describe_look(look: &Look, unit: &str) -> Vec<String> {
    let (first, second) = (look.first.mu_squared, look.second.mu_squared);
    let share = first.to_f64() / (first.to_f64() + second.to_f64());
    vec![
        format!(
            "  Look: noisy counts of units by how much each {unit} adds are paid first ({:.0} % of \
                mu^2); each clip is chosen from them",
            100.0 * share
        ),
        format!(
            "  Sensitivity: one {unit} moves the sums that are clipped together by at most their \
                clip (L2 over all groups)"
        ),
    ]
}

/// A coordinate's noise as a multiple of its block's clip, and the largest clip, in steps of the
/// coordinate.
struct Scale {
    times: f64,
    ceiling: f64,
    is_chosen: bool,
}

impl Scale {
    fn of(look: &Look, coordinate: CoordinateId) -> Option<Self> {
        let (block, place) = look.place(coordinate)?;
        Some(Self {
            times: 1.0 / block.mu.to_f64(),
            ceiling: block.bins.ceiling().to_f64()? / block.weights[place].to_f64()?,
            is_chosen: block.bins.has_choice(),
        })
    }

    /// `8.06 times the clip, which is at most 120`, where a look chooses the clip.
    fn text(&self, step: f64) -> Option<String> {
        self.is_chosen.then(|| {
            format!(
                "{} times the clip, which is at most {}",
                significant(self.times),
                significant(self.ceiling * step)
            )
        })
    }
}

/// The standard deviation of a coordinate whose clip a look chooses.
pub(super) fn deviation(
    price: &Price,
    coordinate: &Coordinate,
    at: CoordinateId,
) -> Option<String> {
    Scale::of(price.look.as_ref()?, at)?.text(step_of(coordinate))
}

/// A measure's standard deviation as a multiple of the clip that a look chooses, and the largest
/// clip in the measure's unit. `None` where the clip is known.
pub fn times_clip(plan: &ReleasePlan, measure: &Measure) -> Option<(f64, f64)> {
    let [(coordinate, factor)] = measure_terms(measure)[..] else {
        return None;
    };
    let scale = Scale::of(plan.look()?, coordinate).filter(|scale| scale.is_chosen)?;
    Some((scale.times, scale.ceiling * factor.abs()))
}

/// The noise of a measure whose clip a look chooses: `standard deviation 8.06 times the clip …`.
pub fn chosen_noise(plan: &ReleasePlan, measure: &Measure) -> Option<String> {
    let look = plan.look()?;
    let [(coordinate, _)] = measure_terms(measure)[..] else {
        return Some("it follows the clips that a look chooses".to_owned());
    };
    let scale = Scale::of(look, coordinate)?;
    let step = step_of(&plan.coordinates()[coordinate]);
    Some(match scale.text(step) {
        Some(text) => format!("standard deviation {text}; a look chooses it"),
        None => {
            let known = scale.times * scale.ceiling * step;
            format!("standard deviation {}", significant(known))
        }
    })
}
