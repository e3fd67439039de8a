//! The noise of measures, known without the data: linear combinations of independent draws.

use super::coordinate::{Coordinate, Count, Measure};
use super::coordinate_id::CoordinateId;
use super::rotation::made_of;
use crate::rewrite::{FixedPoint, ReleasePlan};

/// The part of each coordinate's noise in a measure: signed standard deviations in the measure's
/// unit. The draws are independent; two measures of one group share some. `None` where a look
/// decides how much noise there is.
pub fn measure_noise(plan: &ReleasePlan, measure: &Measure) -> Option<Vec<f64>> {
    let price = plan.price().filter(|price| price.look.is_none())?;
    let mut noise = vec![0.0; price.calibrated.len()];
    for (coordinate, factor) in measure_terms(measure) {
        let (drawn, divisor) = made_of(plan.coordinates(), coordinate);
        for (at, times) in drawn {
            if let (Some(sum), Some(calibrated)) = (noise.get_mut(at.0), price.calibrated.get(at.0))
            {
                *sum += factor * times as f64 / divisor as f64
                    * calibrated.noise.standard_deviation()
                    / 2f64.powi(calibrated.refine as i32);
            }
        }
    }
    Some(noise)
}

/// How often a measure holds each coordinate, in steps of the coordinate's base grid.
pub fn measure_terms(measure: &Measure) -> Vec<(CoordinateId, f64)> {
    let mut terms = Vec::new();
    let mut add = |coordinate: CoordinateId, factor: f64| terms.push((coordinate, factor));
    match measure {
        Measure::Count(count) => add_count(count, 1.0, &mut add),
        Measure::Sum {
            values,
            count: Some(count),
            fixed_point,
        } => {
            add(*values, fixed_point.step.size() / 2.0);
            add_count(
                count,
                fixed_point.centre_twice() as f64 * fixed_point.step.size() / 2.0,
                &mut add,
            );
        }
        Measure::Sum {
            values,
            count: None,
            fixed_point,
        } => add(*values, fixed_point.step.size()),
        Measure::Centred {
            values,
            fixed_point,
        } => add(*values, fixed_point.step.size() / 2.0),
        Measure::Squares {
            lacks,
            count,
            fixed_point,
        } => {
            let most = (fixed_point.ends().hi - fixed_point.ends().lo) / 2.0;
            add(*lacks, -product_step(fixed_point, fixed_point));
            add_count(count, most * most, &mut add);
        }
        Measure::Products { products, y, x } => add(*products, product_step(y, x)),
    }
    terms
}

/// The released coordinates that a measure is computed from.
pub fn drawn_for(coordinates: &[Coordinate], measure: &Measure) -> Vec<CoordinateId> {
    let terms = measure_terms(measure).into_iter();
    terms
        .flat_map(|(at, _)| made_of(coordinates, at).0)
        .map(|(at, _)| at)
        .collect()
}

/// A number of rows, `factor` times.
fn add_count(count: &Count, factor: f64, add: &mut impl FnMut(CoordinateId, f64)) {
    match count.all {
        Some(all) => {
            add(count.rows, factor / 2.0);
            add(all, factor / 2.0);
        }
        None => add(count.rows, factor),
    }
    if let Some(nulls) = count.nulls {
        add(nulls, -factor);
    }
}

/// Standard deviation of a measure's noise, in the measure's own unit.
pub fn measure_deviation(plan: &ReleasePlan, measure: &Measure) -> Option<f64> {
    measure_noise(plan, measure).map(|noise| noise.iter().map(|n| n * n).sum::<f64>().sqrt())
}

/// The value of one step of a product's coordinate.
pub fn product_step(y: &FixedPoint, x: &FixedPoint) -> f64 {
    y.divisor_with(x) as f64 * y.step.size() * x.step.size() / 4.0
}
