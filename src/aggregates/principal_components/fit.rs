//! Principal components of noisy moments, and their errors of noise. Post-processing: all of it is
//! computed from what is released.

use crate::aggregates::field_value::FieldValue;
use crate::aggregates::moments::{Moments, Noisy};
use crate::aggregates::symmetric_matrix::Symmetric;
use crate::policy::ComponentsField as Field;

/// What is shown of one group, the component of the greatest variance first.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentsFit {
    /// The variance along each component, in products of the values' units. It is 0 where noise
    /// made it negative.
    pub variance: Vec<f64>,
    pub noise_err: Vec<f64>,
    /// The direction of each component: a vector of length 1 whose largest entry is positive.
    pub loadings: Vec<Vec<f64>>,
    /// The standard errors of `loadings`. An error of 1, the largest, means that nothing is known.
    pub loadings_err: Vec<Vec<f64>>,
    /// Each component's share of the total variance; `None` where the total is not above 0.
    pub proportion: Option<Vec<f64>>,
    /// The mean of each value.
    pub mean: Vec<f64>,
    /// How many of the components shown have a variance that noise made 0 or less.
    pub lost: usize,
}

impl ComponentsFit {
    /// A field; `None` where it is NULL, and for the number of rows, which is a count.
    pub fn part(&self, field: Field) -> Option<FieldValue<'_>> {
        match field {
            Field::Variance => Some(FieldValue::Numbers(&self.variance)),
            Field::NoiseErr => Some(FieldValue::Numbers(&self.noise_err)),
            Field::Loadings => Some(FieldValue::Rows(&self.loadings)),
            Field::LoadingsErr => Some(FieldValue::Rows(&self.loadings_err)),
            Field::Proportion => self.proportion.as_deref().map(FieldValue::Numbers),
            Field::Mean => Some(FieldValue::Numbers(&self.mean)),
            Field::NumRows => None,
        }
    }
}

/// The first `shown` eigenvectors of the sample's covariances, with errors of noise to first order.
///
/// `None` where there are no two rows, where nothing varies, or where a number is too large or too
/// small for `f64`.
///
/// # Reference
/// Jolliffe 2002, "Principal Component Analysis", section 1.1. Stewart and Sun 1990, "Matrix
/// Perturbation Theory", section V.2: how eigenvalues and eigenvectors move.
pub fn fit(moments: &Moments, shown: usize) -> Option<ComponentsFit> {
    let size = moments.scales.len();
    let rows = moments.rows();
    if rows.value <= 1.0 {
        return None;
    }
    let covariances: Vec<Vec<Noisy>> = (0..size)
        .map(|i| (0..size).map(|j| covariance(moments, i, j)).collect())
        .collect();
    let mut pairs = Symmetric::new(size, |i, j| covariances[i][j].value).eigen()?;
    pairs.reverse();
    let whole: f64 = pairs.iter().map(|(value, _)| value.max(0.0)).sum();
    let is_moved = covariances.iter().flatten().any(|of| of.variance() > 0.0);
    if whole <= 0.0 && !is_moved {
        return None;
    }
    let mut fit = ComponentsFit {
        variance: Vec::new(),
        noise_err: Vec::new(),
        loadings: Vec::new(),
        loadings_err: Vec::new(),
        proportion: (whole > 0.0).then(Vec::new),
        mean: (0..size).map(|i| mean(moments, i)).collect(),
        lost: 0,
    };
    for (at, (value, vector)) in pairs.iter().take(shown).enumerate() {
        let moved: Vec<Noisy> = covariances.iter().map(|row| combine(row, vector)).collect();
        fit.lost += usize::from(*value <= 0.0);
        fit.variance.push(value.max(0.0));
        fit.noise_err
            .push(combine(&moved, vector).variance().sqrt());
        let sign = sign(vector);
        fit.loadings
            .push(vector.iter().map(|part| sign * part).collect());
        fit.loadings_err.push(direction_errors(&pairs, at, &moved));
        if let Some(proportion) = &mut fit.proportion {
            proportion.push(value.max(0.0) / whole);
        }
    }
    let rows = fit.loadings.iter().chain(&fit.loadings_err).flatten();
    let numbers = fit.variance.iter().chain(&fit.noise_err).chain(&fit.mean);
    let is_finite = numbers
        .chain(rows)
        .chain(fit.proportion.iter().flatten())
        .all(|x| x.is_finite());
    is_finite.then_some(fit)
}

/// The covariance of a sample's values `i` and `j`, as VAR_SAMP and COVAR_SAMP have it.
fn covariance(moments: &Moments, i: usize, j: usize) -> Noisy {
    let rows = moments.rows();
    let (of_i, of_j) = (moments.sum(i + 1, 0), moments.sum(j + 1, 0));
    let means = (of_i.value / rows.value, of_j.value / rows.value);
    let mut sum = moments.sum(i + 1, j + 1).clone();
    sum.add(-means.1, of_i);
    sum.add(-means.0, of_j);
    sum.add(means.0 * means.1, rows);
    let freedom = rows.value - 1.0;
    let mut of_rows = rows.clone();
    of_rows.value = 0.0;
    let shrinks = sum.value / freedom;
    sum.add(-shrinks, &of_rows);
    sum.scale(moments.scales[i].half * moments.scales[j].half / freedom)
}

fn mean(moments: &Moments, i: usize) -> f64 {
    let scale = moments.scales[i];
    scale.middle + scale.half * moments.sum(i + 1, 0).value / moments.rows().value
}

/// `Σ factors_i x_i`.
fn combine(x: &[Noisy], factors: &[f64]) -> Noisy {
    let mut sum = Noisy::zero();
    x.iter()
        .zip(factors)
        .for_each(|(x, factor)| sum.add(*factor, x));
    sum
}

/// Makes the part of the greatest size positive: a direction and its opposite are the same.
fn sign(vector: &[f64]) -> f64 {
    let size = |part: &&f64| part.abs();
    let first = vector
        .iter()
        .fold(None, |most: Option<&f64>, part| match most {
            Some(most) if size(&most) >= size(&part) => Some(most),
            _ => Some(part),
        });
    first.map_or(1.0, |part| 1.0f64.copysign(*part))
}

/// The errors of one component's direction, by the covariances' noise along it. The nearer the
/// variance of another component, the more the noise turns it towards that.
///
/// A turn by a small angle t adds t times the other direction, and takes t^2 / 2 of the component's
/// own entries. The second effect matters for an entry near 1. Its standard error is taken to be
/// the variance of t: then t^2 / 2 is outside a 95 % interval about once in twenty times.
fn direction_errors(pairs: &[(f64, Vec<f64>)], at: usize, moved: &[Noisy]) -> Vec<f64> {
    let mut turns = vec![Noisy::zero(); moved.len()];
    let mut angles = 0.0;
    for (other, (value, vector)) in pairs.iter().enumerate() {
        if other == at {
            continue;
        }
        let towards = combine(moved, vector);
        let apart = pairs[at].0 - value;
        angles += towards.variance() / (apart * apart);
        for (turn, part) in turns.iter_mut().zip(vector) {
            turn.add(part / apart, &towards);
        }
    }
    let of_each = turns.iter().zip(&pairs[at].1);
    let error = |(turn, part): (&Noisy, &f64)| {
        let own = part * angles;
        // `min` takes what is no number for 1: of two components of one variance nothing is known.
        (turn.variance() + own * own).sqrt().min(1.0)
    };
    of_each.map(error).collect()
}

#[cfg(test)]
mod tests;
