//! What the noise leaves of one group that holds all units.

use super::{Expected, end, shown, whole};
use crate::analyze::Joint;
use crate::analyze::interval::Interval;
use crate::ir::Moment;
use crate::mechanism::{Mechanism, Noise, quantile_95};
use crate::rewrite::{
    Centred, ChoiceKind, ChoicePlan, Coordinate, Degree, Measure, ReleasePlan, Subject,
    measure_noise,
};

/// An answer is useless where its noise is more than this part of the most that it can be.
const PART: f64 = 4.0;
/// Averages and the like of fewer rows than this many standard errors of their number are NULL.
const ROWS_MIN: f64 = 3.0;
/// Values are taken to spread over their range as a normal law does within three standard
/// deviations: the policy's bounds are seldom tighter, and often wider.
const SPREADS_IN_HALF: f64 = 3.0;

/// One group that holds all units, each with the most rows that count.
pub(super) struct BestCase<'a> {
    release: &'a ReleasePlan,
    units: f64,
    rows: f64,
    /// Half the width of a 95 % interval of the vector, in standard errors.
    z: f64,
}

/// Half the width of the 95 % interval of a quotient by `rows`, where the numerator less the
/// quotient times the rows has these independent noises, and the rows have `of_rows`. Infinite
/// where there may be no row.
///
/// # Reference
/// Fieller 1954, "Some problems in interval estimation", section 3.
pub(super) fn half_of_quotient(noise: &[f64], of_rows: &[f64], rows: f64, z: f64) -> f64 {
    let (own, both) = (dot(noise, noise), dot(noise, of_rows));
    let lead = rows * rows - z * z * dot(of_rows, of_rows);
    if lead <= 0.0 {
        return f64::INFINITY;
    }
    (z.powi(4) * both * both + lead * z * z * own).sqrt() / lead
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `a + factor * b`.
fn plus(a: &[f64], factor: f64, b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + factor * b).collect()
}

fn half(range: Interval) -> f64 {
    (range.hi - range.lo) / 2.0
}

/// Known within this much.
fn within(error: f64, useless: Option<String>) -> Expected {
    Expected {
        error: error.is_finite().then(|| format!("±{}", shown(error))),
        useless,
    }
}

impl<'a> BestCase<'a> {
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

    fn noise(&self, measure: usize) -> Option<Vec<f64>> {
        measure_noise(self.release, self.release.measures().get(measure)?)
    }

    /// A count or a sum.
    pub fn measured(&self, at: usize) -> Option<Expected> {
        let noise = self.noise(at)?;
        let error = self.z * dot(&noise, &noise).sqrt();
        let (what, least, most) = match self.release.measures().get(at)? {
            Measure::Count(count) => {
                let is_of_units = matches!(
                    self.release.coordinates().get(count.rows),
                    Some(Coordinate::Units { .. })
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
        Some(total(error, what, (least, most)))
    }

    /// The message where the rows are so few that their quotient is NULL.
    fn few(&self, of_rows: &[f64], rows: f64, z: f64) -> Option<Expected> {
        let error = dot(of_rows, of_rows).sqrt();
        (rows <= ROWS_MIN * error).then(|| {
            within(
                f64::INFINITY,
                Some(format!(
                    "would be NULL: about {} rows are too few for noise of ±{} in their number",
                    whole(rows),
                    shown(z * error)
                )),
            )
        })
    }

    pub fn average(&self, sum: usize, count: usize, range: Interval) -> Option<Expected> {
        let (sum, count) = (self.noise(sum)?, self.noise(count)?);
        if let Some(few) = self.few(&count, self.rows, self.z) {
            return Some(few);
        }
        let apart = plus(&sum, -(range.lo + half(range)), &count);
        let error = half_of_quotient(&apart, &count, self.rows, self.z);
        Some(bounded(error, "an average", range))
    }

    /// The interval of a variance of values that spread over `range` as they usually do: its
    /// middle, and half its width.
    fn variance(&self, count: &[f64], squares: usize, range: Interval) -> Option<(f64, f64)> {
        let variance = (half(range) / SPREADS_IN_HALF).powi(2);
        let apart = plus(&self.noise(squares)?, -variance, count);
        let error = half_of_quotient(&apart, count, self.rows, self.z);
        Some((variance, error))
    }

    /// A variance or standard deviation; without a name the sum of squares that it is made of.
    pub fn dispersion(
        &self,
        count: usize,
        squares: usize,
        range: Interval,
        name: Option<&str>,
    ) -> Option<Expected> {
        let count = self.noise(count)?;
        if let Some(few) = self.few(&count, self.rows, self.z) {
            return Some(few);
        }
        let (variance, error) = self.variance(&count, squares, range)?;
        let most = half(range).powi(2);
        let (least, greatest) = ((variance - error).max(0.0), (variance + error).min(most));
        let (what, ends, width) = match name {
            Some("standard deviation") => (
                "a standard deviation",
                most.sqrt(),
                greatest.sqrt() - least.sqrt(),
            ),
            Some(_) => ("a variance", most, greatest - least),
            None => (
                "a sum of squares",
                most * self.rows,
                (greatest - least) * self.rows,
            ),
        };
        Some(bounded(width / 2.0, what, Interval::new(0.0, ends)))
    }

    pub fn joint(
        &self,
        count: usize,
        (y, x): (Centred, Centred),
        products: usize,
        kind: Joint,
    ) -> Option<Expected> {
        let count = self.noise(count)?;
        if let Some(few) = self.few(&count, self.rows, self.z) {
            return Some(few);
        }
        let (y_variance, y_error) = self.variance(&count, y.squares, y.range)?;
        let (x_variance, x_error) = self.variance(&count, x.squares, x.range)?;
        let most = half(y.range) * half(x.range);
        let error = half_of_quotient(&self.noise(products)?, &count, self.rows, self.z).min(most);
        // A quotient by a variance that may be zero is not known.
        let is_x_known = x_variance > x_error;
        let correlation = if is_x_known && y_variance > y_error {
            (error / (y_variance * x_variance).sqrt()).min(1.0)
        } else {
            1.0
        };
        let any = |what: &str| {
            let predicate =
                format!("could be any {what}: the noise hides how far its x values lie apart");
            within(f64::INFINITY, (!is_x_known).then_some(predicate))
        };
        Some(match kind {
            Joint::Correlation => bounded(correlation, "a correlation", Interval::new(-1.0, 1.0)),
            Joint::Determination => bounded(
                correlation.powi(2) / 2.0,
                "a coefficient of determination",
                Interval::new(0.0, 1.0),
            ),
            Joint::CovariancePopulation | Joint::CovarianceSample => {
                bounded(error, "a covariance", Interval::new(-most, most))
            }
            Joint::Products => bounded(
                error * self.rows,
                "a sum of products",
                Interval::new(-most * self.rows, most * self.rows),
            ),
            Joint::Slope => any("slope"),
            Joint::Intercept => any("intercept"),
        })
    }

    /// BOOL_AND or BOOL_OR, which rests on whether there is any row.
    pub fn truth(&self, count: usize) -> Option<Expected> {
        let count = self.noise(count)?;
        let error = self.z * dot(&count, &count).sqrt();
        let is_hidden = error >= self.rows - 0.5;
        Some(within(
            f64::INFINITY,
            is_hidden.then(|| {
                format!(
                    "would be true or false by chance: noise of ±{} hides about {} rows",
                    shown(error),
                    whole(self.rows)
                )
            }),
        ))
    }

    /// The rank of a chosen value, or how much rarer than the most frequent one it is.
    pub fn ranks(&self, error: f64, is_frequency: bool) -> Expected {
        let (ranks, rows) = (whole(error.ceil()), whole(self.rows));
        let is_hidden = error > self.rows / PART;
        let predicate = if is_frequency {
            format!("may be {ranks} rows rarer than the most frequent value, of about {rows} rows")
        } else {
            format!("may be {ranks} ranks off, of about {rows} rows")
        };
        let what = if is_frequency { "rows" } else { "ranks" };
        Expected {
            error: Some(format!("±{ranks} {what}")),
            useless: is_hidden.then_some(predicate),
        }
    }

    /// The noise of a count of distinct values and of their sum, and how many there are at most.
    fn distinct(&self, choice: &ChoicePlan) -> Option<Distinct> {
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
        let z = quantile_95(match calibrated.first()?.noise {
            Noise::Laplace { .. } => Mechanism::Laplace,
            Noise::Gaussian { .. } => Mechanism::Gaussian,
        });
        let step = degree.fixed_point().map_or(0.0, |grid| grid.step.size());
        let centre = degree
            .fixed_point()
            .map_or(0.0, |grid| grid.centre_twice() as f64 * step / 2.0);
        Some(Distinct {
            count: drawn(0),
            // About the middle of the range.
            apart: drawn(Degree::SUM) * step / 2.0,
            centre,
            most: self.units * per_unit_max.in_group.max(1) as f64,
            z,
        })
    }

    pub fn distinct_count(&self, choice: &ChoicePlan) -> Option<Expected> {
        let Distinct { count, most, z, .. } = self.distinct(choice)?;
        Some(total(z * count, "count", (0.0, most)))
    }

    /// A sum, a mean or a spread of distinct values.
    pub fn distinct_moment(
        &self,
        choice: &ChoicePlan,
        range: Interval,
        moment: Moment,
    ) -> Option<Expected> {
        let Distinct {
            count,
            apart,
            centre,
            most,
            z,
        } = self.distinct(choice)?;
        match moment {
            Moment::Sum => {
                let error = z * apart.hypot(count * centre);
                let (least, greatest) = (range.lo.min(0.0) * most, range.hi.max(0.0) * most);
                Some(total(error, "sum", (least, greatest)))
            }
            Moment::Mean | Moment::Spread(_) => {
                if let Some(few) = self.few(&[count], most, z) {
                    return Some(few);
                }
                let error = half_of_quotient(&[apart, 0.0], &[0.0, count], most, z);
                match moment {
                    Moment::Mean => Some(bounded(error, "an average", range)),
                    Moment::Sum | Moment::Spread(_) => None,
                }
            }
        }
    }
}

/// The noise of distinct values, as standard deviations.
struct Distinct {
    count: f64,
    apart: f64,
    centre: f64,
    most: f64,
    z: f64,
}

/// A total within these ends: useless where the error exceeds a quarter of it.
pub(super) fn total(error: f64, what: &str, (least, most): (f64, f64)) -> Expected {
    let is_hidden = error > most.max(-least) / PART;
    let predicate = || {
        let ends = if least < 0.0 {
            format!("between {} and {}", end(least), end(most))
        } else {
            format!("of at most {}", end(most))
        };
        format!("would be ±{} for a {what} {ends}", shown(error))
    };
    within(error, is_hidden.then(predicate))
}

/// An answer within a range: useless where its interval is as wide.
pub(super) fn bounded(error: f64, what: &str, range: Interval) -> Expected {
    let most = half(range);
    // Half of a range that is computed may be a rounding less than half of the same range.
    let is_hidden = most > 0.0 && error >= most * (1.0 - 1e-9);
    let predicate = || {
        format!(
            "would be ±{} for {what} between {} and {}",
            shown(most),
            end(range.lo),
            end(range.hi)
        )
    };
    within(error, is_hidden.then(predicate))
}

#[cfg(test)]
mod tests;
