//! The noise of a released table, kept with it, so that replays and roll-ups report the error of
//! the values that they show.

use serde::{Deserialize, Serialize};

use super::Cut;
use crate::mechanism::{Mechanism, Noise, quantile_95};
use crate::rewrite::{Measure, ReleasePlan, Total, made_of, measure_terms};

/// The noise drawn for each group of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseRecord {
    /// Each with the bits that its grid was refined by.
    draws: Vec<(Noise, u32)>,
    /// For each coordinate of the plain layout: the multiple of each draw in it, in steps of the
    /// draw's base grid, and a common divisor. Whole numbers are read back exactly.
    terms: Vec<(Vec<(usize, i64)>, u64)>,
    /// For each group, of how many noisy groups it is the sum. Empty where every group is one.
    #[serde(skip)]
    summed: Vec<usize>,
    /// The amounts that clips chosen from a look cut, by coordinate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cuts: Vec<(usize, Cut)>,
}

impl NoiseRecord {
    /// One draw for each released coordinate; `None` without a vector.
    pub fn of(release: &ReleasePlan) -> Option<Self> {
        let draws: Vec<(Noise, u32)> = release
            .price()?
            .calibrated
            .iter()
            .map(|c| (c.noise, c.refine))
            .collect();
        let terms = (0..draws.len())
            .map(|at| made_of(release.coordinates(), at))
            .collect();
        Some(Self {
            terms,
            draws,
            summed: Vec::new(),
            cuts: Vec::new(),
        })
    }

    /// The record with the amounts that the chosen clips cut.
    pub(super) fn cut_by(self, cuts: Vec<(usize, Cut)>) -> Self {
        Self { cuts, ..self }
    }

    /// The amount that a clip chosen from a look cut from a coordinate.
    pub fn cut(&self, coordinate: usize) -> Option<&Cut> {
        let mut cuts = self.cuts.iter();
        cuts.find_map(|(at, cut)| (*at == coordinate).then_some(cut))
    }

    /// Whether some clip was chosen from a look.
    pub fn is_cut(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// The noise of coordinates that are sums of these, over groups that are sums of these groups.
    /// `None` where one coordinate would have to state what is cut from several.
    pub(super) fn added_up(&self, totals: &[&Total], summed: Vec<usize>) -> Option<Self> {
        let mut cuts = Vec::new();
        for (at, total) in totals.iter().enumerate() {
            match total.terms.as_slice() {
                [(coordinate, times)] if *times > 0 => {
                    let scale = total.divisor as f64 / *times as f64;
                    cuts.extend(self.cut(*coordinate).map(|cut| (at, cut.in_steps(scale))));
                }
                terms if terms.iter().any(|(at, _)| self.cut(*at).is_some()) => return None,
                _ => {}
            }
        }
        Some(Self {
            draws: self.draws.clone(),
            terms: totals
                .iter()
                .map(|total| (total.terms.clone(), total.divisor))
                .collect(),
            summed,
            cuts,
        })
    }

    /// The mechanism with the heaviest tail among the draws.
    pub fn mechanism(&self) -> Mechanism {
        let drawn = self.draws.iter().map(|(noise, _)| noise.mechanism());
        let heavier = |a, b| match quantile_95(a) > quantile_95(b) {
            true => a,
            false => b,
        };
        drawn.fold(Mechanism::Gaussian, heavier)
    }

    /// What each draw adds to a measure of a group: signed standard deviations in the measure's
    /// unit. Measures of one group share draws.
    pub fn noise(&self, measure: &Measure, group: usize) -> Vec<f64> {
        let root = (self.summed_in(group) as f64).sqrt();
        let mut noise = vec![0.0; self.draws.len()];
        for (coordinate, factor) in measure_terms(measure) {
            let Some((terms, divisor)) = self.terms.get(coordinate) else {
                continue;
            };
            for (draw, times) in terms {
                if let (Some(sum), Some((law, refined))) =
                    (noise.get_mut(*draw), self.draws.get(*draw))
                {
                    *sum += root * factor * *times as f64 / *divisor as f64
                        * law.standard_deviation()
                        / 2f64.powi(*refined as i32);
                }
            }
        }
        noise
    }

    /// The standard deviation of a measure's noise, in the measure's unit, in the group where it is
    /// largest.
    pub fn deviation(&self, measure: &Measure) -> f64 {
        let widest = (0..self.summed.len())
            .max_by_key(|group| self.summed[*group])
            .unwrap_or(0);
        self.noise(measure, widest)
            .iter()
            .map(|n| n * n)
            .sum::<f64>()
            .sqrt()
    }

    /// How many noisy groups a group is the sum of.
    pub fn summed_in(&self, group: usize) -> usize {
        self.summed.get(group).copied().unwrap_or(1)
    }

    /// The most groups that a group is the sum of.
    pub fn summed(&self) -> usize {
        self.summed.iter().copied().max().unwrap_or(1)
    }
}
