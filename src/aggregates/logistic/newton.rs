//! Newton's step of a logistic regression, from noisy sums of the gradient and of the second
//! derivatives. Post-processing: all of it is computed from what is released.

use crate::aggregates::field_value::FieldValue;
use crate::aggregates::measure_id::MeasureId;
use crate::aggregates::moments::{Noisy, Scale};
use crate::aggregates::symmetric_matrix::Symmetric;
use crate::policy::{FieldKind, LogisticField as Field, RecordField};

/// What a step adds to the coefficients of scaled columns. No client can ask it.
pub static STEP: RecordField = RecordField {
    name: "step",
    kind: FieldKind::Numbers,
    in_words: "step of the coefficients",
};

/// What a step adds to the coefficients of columns as they are written.
pub static COEFFICIENTS: RecordField = RecordField {
    name: "coef",
    kind: FieldKind::Numbers,
    in_words: "coefficients",
};

/// How many steps there are. Step `t` has a share of `2^t` in the statement's mu².
pub const STEPS: usize = 6;
/// The variance of the noise of one step over that of the next: mu² doubles from step to step.
pub const BEFORE: f64 = 2.0;
/// `BEFORE` under pure accounting, where epsilon doubles from step to step.
pub const BEFORE_UNDER_EPSILON: f64 = 4.0;
/// The longest step, in scaled columns: the curvature is only right nearby.
const LENGTH_MAX: f64 = 2.0;

/// The measures of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct NewtonSums {
    pub count: MeasureId,
    pub gradient: Vec<MeasureId>,
    /// The lower half, row by row.
    pub curvature: Vec<MeasureId>,
}

/// Which step it is, and how coefficients come back from scaled columns.
#[derive(Debug, Clone, PartialEq)]
pub struct NewtonStep {
    /// From 0.
    pub at: usize,
    /// The variance of the noise of the step before, in that of this one.
    pub before: f64,
    /// The scale of each column; `None` for the constant.
    pub scales: Vec<Option<Scale>>,
    /// The constant's number.
    pub constants: Vec<Option<f64>>,
}

impl NewtonStep {
    /// How much of the last step is gone. The step before has `before` times the noise's variance:
    /// in their mean, weighed by the inverses of their variances, the last one has this share.
    fn share(&self) -> f64 {
        self.before / (1.0 + self.before)
    }

    /// The variance that the noise of all steps leaves in one direction: that of the last step's
    /// gradient is `variance`, its curvature is raised to at least `least`, and both were larger
    /// before. A step forgets what is before it, but where its curvature is raised: there it goes a
    /// part of the way only.
    fn noise_left(&self, variance: f64, curvature: f64, least: f64) -> f64 {
        let curvature = curvature.max(0.0);
        (0..STEPS).rev().fold(0.0, |left, later| {
            let times = self.before.powi(later as i32);
            let raised = curvature.max(least * times.sqrt());
            let way = if later == 0 { self.share() } else { 1.0 };
            let forgotten = way * curvature / raised;
            (1.0 - forgotten).powi(2) * left + way * way * variance * times / (raised * raised)
        })
    }
}

/// What is shown of the last step; of an earlier one, `coef` is what it adds to the coefficients.
#[derive(Debug, Clone, PartialEq)]
pub struct LogisticFit {
    pub coef: Vec<f64>,
    /// The coefficients in scaled columns.
    pub step: Vec<f64>,
    /// Standard errors of sampling and noise together.
    pub std_err: Vec<f64>,
    /// Standard errors of the noise alone.
    pub noise_err: Vec<f64>,
    /// Whether this is the last step, and the curvature was raised to what the noise leaves of it,
    /// or the step was cut. Steps before are corrected by those after them.
    pub is_held: bool,
}

impl LogisticFit {
    pub fn part(&self, field: &RecordField) -> Option<FieldValue<'_>> {
        if *field == STEP {
            return Some(FieldValue::Numbers(&self.step));
        }
        match Field::by_name(field.name)? {
            Field::Coef => Some(FieldValue::Numbers(&self.coef)),
            Field::StdErr => Some(FieldValue::Numbers(&self.std_err)),
            Field::NoiseErr => Some(FieldValue::Numbers(&self.noise_err)),
            Field::NumRows => None,
            Field::NumIterations => Some(FieldValue::Number(STEPS as f64)),
        }
    }
}

impl NewtonSums {
    pub fn all(&self) -> Vec<MeasureId> {
        let sums = self.gradient.iter().chain(&self.curvature).copied();
        std::iter::once(self.count).chain(sums).collect()
    }
}

/// The step from these sums, of which `measure` gives the measures.
///
/// Eigenvalues of the curvature are at least twice the size that a matrix of the noise alone has,
/// so that noise makes no step long. The last step goes two thirds of the way (four fifths under
/// pure accounting): that is the mean of the last two coefficients, weighed by the inverses of
/// their variances.
///
/// `None` where a number is too large for `f64`.
pub fn fit(
    sums: &NewtonSums,
    step: &NewtonStep,
    measure: &dyn Fn(MeasureId) -> Option<Noisy>,
) -> Option<LogisticFit> {
    let each = |ids: &[MeasureId]| {
        ids.iter()
            .map(|id| measure(*id))
            .collect::<Option<Vec<_>>>()
    };
    solve(&each(&sums.gradient)?, &each(&sums.curvature)?, step)
}

fn solve(gradient: &[Noisy], curvature: &[Noisy], step: &NewtonStep) -> Option<LogisticFit> {
    let size = gradient.len();
    let entry = |i: usize, j: usize| {
        let (row, column) = (i.max(j), i.min(j));
        &curvature[row * (row + 1) / 2 + column]
    };
    let whole = (0..size).flat_map(|i| (0..size).map(move |j| (i, j)));
    let variance: f64 = whole.map(|(i, j)| entry(i, j).variance()).sum();
    let least = 2.0 * variance.sqrt() / (size as f64).sqrt();
    let pairs = Symmetric::new(size, |i, j| entry(i, j).value).eigen()?;
    let raised = pairs.iter().any(|(value, _)| *value < least);
    let value = |value: f64| value.max(least);
    if pairs.iter().any(|(own, _)| value(*own) <= 0.0) {
        return None;
    }
    let inverse = Symmetric::new(size, |i, j| {
        let of = |(own, vector): &(f64, Vec<f64>)| vector[i] * vector[j] / value(*own);
        pairs.iter().map(of).sum()
    });
    let moved = inverse.times(gradient);
    let length = moved.iter().map(|x| x.value * x.value).sum::<f64>().sqrt();
    let cut = if length > LENGTH_MAX {
        LENGTH_MAX / length
    } else {
        1.0
    };
    let is_last = step.at + 1 == STEPS;
    let way = if is_last { cut * step.share() } else { cut };
    let back = back(step);
    let coef: Vec<f64> = back
        .iter()
        .map(|row| row.iter().zip(&moved).map(|(a, x)| a * x.value * way).sum())
        .collect();
    let left = pairs.iter().map(|(own, vector)| {
        let mut along = Noisy::zero();
        let each = vector.iter().zip(gradient);
        each.for_each(|(part, gradient)| along.add(*part, gradient));
        (step.noise_left(along.variance(), *own, least), vector)
    });
    let left: Vec<(f64, &Vec<f64>)> = left.collect();
    let noise = Symmetric::new(size, |i, j| {
        let of = |(left, vector): &(f64, &Vec<f64>)| left * vector[i] * vector[j];
        left.iter().map(of).sum()
    });
    let noise_err: Vec<f64> = back
        .iter()
        .map(|row| noise.form(row, row).max(0.0).sqrt())
        .collect();
    let std_err: Vec<f64> = back
        .iter()
        .zip(&noise_err)
        .map(|(row, noise)| (inverse.form(row, row) + noise * noise).sqrt())
        .collect();
    let is_finite = coef.iter().chain(&std_err).all(|x| x.is_finite());
    is_finite.then_some(LogisticFit {
        coef,
        step: moved.iter().map(|x| x.value * way).collect(),
        std_err,
        noise_err,
        is_held: is_last && (raised || cut < 1.0),
    })
}

/// Coefficients of the columns as they are written, in terms of those of scaled columns.
fn back(step: &NewtonStep) -> Vec<Vec<f64>> {
    let size = step.scales.len();
    let mut back = vec![vec![0.0; size]; size];
    for (at, scale) in step.scales.iter().enumerate() {
        if let Some(scale) = scale {
            back[at][at] = 1.0 / scale.half;
        }
    }
    let constant = step.constants.iter().enumerate();
    for (at, number) in constant.filter_map(|(at, c)| c.map(|number| (at, number))) {
        back[at][at] = 1.0 / number;
        for (other, scale) in step.scales.iter().enumerate() {
            if let Some(Scale { middle, half }) = scale {
                back[at][other] = -middle / half / number;
            }
        }
    }
    back
}

#[cfg(test)]
mod tests;
