//! The plan of a sum that a monitor compares with a threshold.

use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use sqlparser::ast;

use super::plan::Plan;
use super::vector::coordinate::{Coordinate, Count, Measure};
use super::vector::fixed_point::GridStep;
use super::{ReleasePlan, UnpaidPart};
use crate::aggregates::Foreseen;
use crate::ir::{AggregateId, ReleaseId, aggregate_column, release_alias};
use crate::mechanism::{
    Calibrated, CalibrationError, Fixed, HoldoutNoise, Norm, SumDirection, ThresholdQuestion,
    holdout_noise,
};
use crate::refusal::{Refusal, reason};

/// The only release of a plan for a monitor.
const ONLY: ReleaseId = ReleaseId(0);

/// A plan of one sum, without groups, whose noisy integer is compared with a threshold.
pub struct MonitoredSum<'p> {
    plan: &'p Plan,
    /// Which way the sum moves where a unit is added.
    pub direction: SumDirection,
    step: GridStep,
    noise: Calibrated,
    /// How far one unit moves the sum, in whole steps of its refined grid.
    sensitivity: BigUint,
}

impl<'p> MonitoredSum<'p> {
    /// # Guarantee
    /// One unit moves the integer of the statement, in steps of its refined grid, by at most the
    /// question's sensitivity, and in the direction alone: it is the floor of 2^refine C / F for
    /// the clip C and the weight F of the only coordinate. The noise is Laplace noise for that clip
    /// and weight.
    ///
    /// # Requires
    /// The plan is priced under pure accounting at the epsilon of a question of the epoch.
    ///
    /// # Errors
    /// 0A000 where the plan is not one of a single COUNT or SUM of private rows.
    pub fn of(plan: &'p Plan) -> Result<Self, Refusal> {
        let found = match plan.releases() {
            [release] if is_shown_as_it_is(plan) => of_release(release),
            _ => None,
        };
        let (direction, step, noise, sensitivity) = found.ok_or_else(other_form)?;
        Ok(Self {
            plan,
            direction,
            step,
            noise,
            sensitivity,
        })
    }

    pub fn plan(&self) -> &'p Plan {
        self.plan
    }

    pub fn release(&self) -> ReleaseId {
        ONLY
    }

    /// The part of the plan that a question runs, which is all of it.
    pub fn part(&self) -> UnpaidPart<'p> {
        self.plan.part(|_| true)
    }

    pub fn noise(&self) -> &Calibrated {
        &self.noise
    }

    /// How far one unit moves the sum at most, in the sum's unit.
    pub fn unit_moves(&self) -> f64 {
        let steps: f64 = self.sensitivity.to_string().parse().unwrap_or(f64::MAX);
        steps * 2f64.powi(-(self.noise.refine as i32)) * self.step.size()
    }

    /// The question whether the sum is at least this fraction.
    pub fn question(&self, (numerator, denominator): &(BigInt, BigInt)) -> ThresholdQuestion {
        let refined = numerator << self.noise.refine;
        let threshold = match self.step {
            GridStep::Decimal(decimals) => (
                refined * BigInt::from(10).pow(decimals),
                denominator.clone(),
            ),
            GridStep::Binary(halvings) if halvings >= 0 => {
                (refined << halvings, denominator.clone())
            }
            GridStep::Binary(halvings) => (refined, denominator << halvings.unsigned_abs()),
        };
        ThresholdQuestion {
            threshold,
            sensitivity: BigInt::from(self.sensitivity.clone()),
        }
    }
}

impl MonitoredSum<'_> {
    /// The question whether a sum over a holdout is at least this fraction away from zero, and its
    /// noise.
    ///
    /// # Guarantee
    /// The sensitivity is that of `rows_per_unit` rows of values from -1 to 1, whatever value they
    /// are compared with, or of this plan's clip if that is more.
    ///
    /// # Errors
    /// [`CalibrationError`].
    pub fn holdout_question(
        &self,
        threshold: &(BigInt, BigInt),
        (rows_per_unit, epsilon): (u32, Fixed),
    ) -> Result<(ThresholdQuestion, HoldoutNoise), CalibrationError> {
        let asked = self.question(threshold);
        let (steps, parts) = self.question(&(rows_per_unit.into(), 1.into())).threshold;
        let of_rows = steps.magnitude().div_ceil(parts.magnitude());
        let sensitivity = of_rows.max(self.sensitivity.clone());
        let noise = holdout_noise(&sensitivity, epsilon)?;
        let asked = ThresholdQuestion {
            sensitivity: sensitivity.into(),
            ..asked
        };
        Ok((asked, noise))
    }

    /// The question whether the sum is at least this far from a value.
    pub fn question_of_distance(&self, distance: f64) -> ThresholdQuestion {
        ThresholdQuestion {
            threshold: (self.steps(distance).into(), 1.into()),
            sensitivity: BigInt::from(self.sensitivity.clone()),
        }
    }

    /// A number in the sum's unit, in steps of its refined grid, rounded.
    pub fn steps(&self, value: f64) -> i128 {
        let refined = value / self.step.size() * 2f64.powi(self.noise.refine as i32);
        refined.round() as i128
    }

    /// A sum on the refined grid, in the sum's unit.
    pub fn value(&self, refined: i128) -> f64 {
        refined as f64 * 2f64.powi(-(self.noise.refine as i32)) * self.step.size()
    }
}

fn of_release(release: &ReleasePlan) -> Option<(SumDirection, GridStep, Calibrated, BigUint)> {
    let price = release.price()?;
    let [coordinate] = release.coordinates() else {
        return None;
    };
    let ([measure], [weight], [noise]) = (
        release.measures(),
        price.weights.as_slice(),
        price.calibrated.as_slice(),
    ) else {
        return None;
    };
    let [(output, _)] = release.outputs() else {
        return None;
    };
    let is_plain = release.keys().is_empty()
        && release.sets().is_empty()
        && release.choices().is_empty()
        && release.constants().is_empty()
        && !release.statements().is_empty();
    let is_priced = price.look.is_none()
        && price.effects.is_none()
        && price.threshold.is_none()
        && price.mechanism.norm() == Norm::L1;
    let is_measure = matches!(output.foreseen(), Foreseen::Measure(_));
    if !is_plain || !is_priced || !is_measure {
        return None;
    }
    let (direction, step) = direction(coordinate, measure)?;
    let sensitivity = (&price.clip << noise.refine) / weight;
    Some((direction, step, *noise, sensitivity))
}

/// Which way the sum of a coordinate moves where rows are added.
fn direction(coordinate: &Coordinate, measure: &Measure) -> Option<(SumDirection, GridStep)> {
    match (coordinate, measure) {
        (
            Coordinate::Rows { .. } | Coordinate::Units { .. },
            Measure::Count(Count {
                rows: _,
                all: None,
                nulls: None,
            }),
        ) => Some((SumDirection::Up, GridStep::Decimal(0))),
        (
            Coordinate::Values {
                filter: _,
                value: _,
                fixed_point,
                centred: false,
            },
            Measure::Sum {
                values: _,
                count: None,
                fixed_point: _,
            },
        ) => {
            // The value is clipped to these bounds before it is scaled and rounded, which change no
            // sign. The grid's own ends may lie a step outside.
            let bounds = fixed_point.bounds;
            let direction = match (bounds.lo >= 0.0, bounds.hi <= 0.0) {
                (true, _) => SumDirection::Up,
                (false, true) => SumDirection::Down,
                (false, false) => SumDirection::Either,
            };
            Some((direction, fixed_point.step))
        }
        _ => None,
    }
}

/// Whether the answer is the release's only value, without arithmetic on it.
fn is_shown_as_it_is(plan: &Plan) -> bool {
    let ast::SetExpr::Select(select) = &*plan.outer().body else {
        return false;
    };
    let value = format!(
        "\"{}\".\"{}\"",
        release_alias(ONLY),
        aggregate_column(AggregateId(0))
    );
    let is_value = match select.projection.as_slice() {
        [
            ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, alias: _ },
        ] => expr.to_string() == value,
        _ => false,
    };
    let is_release = match select.from.as_slice() {
        [table] => table.to_string() == format!("\"{}\"", release_alias(ONLY)),
        _ => false,
    };
    is_value
        && is_release
        && select.selection.is_none()
        && select.having.is_none()
        && plan.outer().with.is_none()
        && plan.outer().limit_clause.is_none()
}

fn other_form() -> Refusal {
    Refusal::unsupported(reason::MONITOR_FORM, "this question to a monitor")
        .detail(
            "A monitor compares one COUNT or SUM of private rows, without groups, with a constant.",
        )
        .hint("Write SELECT pgveil.above(count(*), 1000) FROM … WHERE …, of a private table.")
}
