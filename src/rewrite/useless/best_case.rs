//! What the noise of a plan leaves of one group that holds all units.

use crate::aggregates::{
    self, ChoiceId, DistinctNoise, DrawId, Expected, MeasureId, rounded_text, total_of,
};
use crate::ir::Interval;
use crate::mechanism::{Mechanism, quantile_95};
use crate::rewrite::describe::rank_error;
use crate::rewrite::{
    ChoiceKind, Coordinate, Degree, Measure, ReleasePlan, Subject, Target, measure_noise,
};

/// One group that holds all units, each with the most rows that count.
pub(super) struct PlannedBestCase<'a> {
    release: &'a ReleasePlan,
    units: f64,
    rows: f64,
    /// Half the width of a 95 % interval of the vector, in standard errors.
    z: f64,
}

impl<'a> PlannedBestCase<'a> {
    pub fn new(release: &'a ReleasePlan, units: u64) -> Self {
        let mechanism = release
            .price()
            .map_or(Mechanism::Gaussian, |price| price.mechanism);
        Self {
            release,
            units: units as f64,
            rows: units as f64 * release.facts().rows_in_group.max(1) as f64,
            z: quantile_95(mechanism),
        }
    }

    /// The rank of a chosen value, or how much rarer than the most frequent one it is.
    fn at_rank(&self, error: f64, is_frequency: bool) -> Expected {
        let (ranks, rows) = (rounded_text(error.ceil()), rounded_text(self.rows));
        let is_hidden = error > self.rows / aggregates::PART;
        let predicate = if is_frequency {
            format!(
                "may have {ranks} rows fewer than the most frequent value, of about {rows} rows"
            )
        } else {
            format!("may be {ranks} ranks off, of about {rows} rows")
        };
        let what = if is_frequency { "rows" } else { "ranks" };
        Expected {
            error: Some(format!("±{ranks} {what}")),
            useless: is_hidden.then_some(predicate),
        }
    }
}

impl aggregates::BestCase for PlannedBestCase<'_> {
    fn rows(&self) -> f64 {
        self.rows
    }

    fn z(&self) -> f64 {
        self.z
    }

    fn noise(&self, measure: MeasureId) -> Option<Vec<f64>> {
        measure_noise(self.release, self.release.measure(measure))
    }

    fn total(&self, measure: MeasureId) -> Option<Expected> {
        let noise = self.noise(measure)?;
        let error = self.z * noise.iter().map(|n| n * n).sum::<f64>().sqrt();
        let (what, least, most) = match self.release.measure(measure) {
            Measure::Count(count) => {
                let is_of_units = matches!(
                    self.release.coordinates()[count.rows],
                    Coordinate::Units { .. }
                );
                let most = if is_of_units { self.units } else { self.rows };
                ("count", 0.0, most)
            }
            Measure::Sum {
                values: _,
                count: _,
                fixed_point,
            } => {
                let Interval { lo, hi } = fixed_point.bounds;
                ("sum", lo.min(0.0) * self.rows, hi.max(0.0) * self.rows)
            }
            Measure::Centred { .. } | Measure::Squares { .. } | Measure::Products { .. } => {
                return None;
            }
        };
        Some(total_of(error, what, (least, most)))
    }

    fn distinct(&self, choice: ChoiceId) -> Option<DistinctNoise> {
        let choice = self.release.choice(choice);
        let (
            ChoiceKind::Count { calibrated, .. },
            Subject::Distinct {
                values: _,
                per_unit_max,
                degree,
            },
        ) = (&choice.kind, &choice.question.subject)
        else {
            return None;
        };
        let drawn = |at: usize| {
            calibrated.get(at).map_or(0.0, |c| {
                c.noise.standard_deviation() / 2f64.powi(c.refine as i32)
            })
        };
        let z = quantile_95(calibrated.first()?.noise.mechanism());
        let step = degree.fixed_point().map_or(0.0, |grid| grid.step.size());
        let centre = degree
            .fixed_point()
            .map_or(0.0, |grid| grid.centre_twice() as f64 * step / 2.0);
        Some(DistinctNoise {
            count: drawn(0),
            // About the middle of the range.
            apart: drawn(Degree::SUM) * step / 2.0,
            centre,
            most: self.units * per_unit_max.in_group.max(1) as f64,
            z,
        })
    }

    fn ranks(&self, choice: ChoiceId, draws: &[DrawId]) -> Option<Expected> {
        let choice = self.release.choice(choice);
        let ChoiceKind::Choice { draws: all, .. } = &choice.kind else {
            return None;
        };
        let errors = draws.iter().filter_map(|draw| {
            let target = choice.question.targets.get(draw.0)?;
            Some((rank_error(choice, target, all.get(draw.0)?)?, target))
        });
        let (error, target) = errors.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(self.at_rank(error, matches!(target, Target::MostFrequent)))
    }
}
