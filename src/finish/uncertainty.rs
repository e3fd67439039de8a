//! How far a released value may be from the exact one of the clipped rows: from the plan's noise and the released measures alone.

use crate::mechanism::Mechanism;
use crate::resolve::Statistic;
use crate::rewrite::{Measure, Output, ReleasePlan, count_deviation, measure_deviation, values_deviation};

/// Standard error, and an interval that holds the exact clipped value in at least 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub error: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    pub fn of(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::StandardError => self.error,
            Statistic::Low => self.low,
            Statistic::High => self.high,
        }
    }
}

/// An average of fewer rows than this many standard errors of their number is known by its bounds only.
const ROWS_MIN: f64 = 3.0;

/// Half the width of a 95 % interval, in standard errors. A Laplace tail is e^(-x / b) with b = error / sqrt 2; sums of such noises are closer to normal.
pub fn quantile_95(mechanism: Mechanism) -> f64 {
    match mechanism {
        Mechanism::Gaussian => 1.959_964,
        Mechanism::Laplace => 20f64.ln() / std::f64::consts::SQRT_2,
    }
}

/// The spread of one aggregate in one group; `None` where none is known for this kind of aggregate. The interval is about noise: what clipping to
/// bounds cut off is not in it.
///
/// A count or a sum has the noise's own standard error. An average A / N of a centred sum A and a number of rows N, with independent errors a and n, has by the delta
/// method the error sqrt(a^2 + (A / N)^2 n^2) / N; its interval is Fieller's, all t with (A - t N)^2 <= z^2 (a^2 + t^2 n^2), within the value's range.
///
/// # Reference
/// Fieller 1954, "Some problems in interval estimation", section 3.
pub fn spread(release: &ReleasePlan, output: &Output, measures: &[String]) -> Option<Spread> {
    let z = quantile_95(release.price()?.mechanism);
    let value = |at: usize| measures.get(at).and_then(|text| text.parse::<f64>().ok());
    match output {
        Output::Measure(at) => {
            let measure = release.measures().get(*at)?;
            let (value, error) = (value(*at)?, measure_deviation(release, measure)?);
            let least = match measure {
                Measure::Count(_) => 0.0,
                Measure::Sum { .. } | Measure::Centred { .. } | Measure::Squares { .. } | Measure::Products { .. } => f64::NEG_INFINITY,
            };
            Some(Spread { error, low: (value - z * error).max(least), high: value + z * error })
        }
        Output::Average { sum, count, range } => {
            let (Measure::Sum { values, count: centred_on, lattice }, Measure::Count(counted)) =
                (&release.measures()[*sum], &release.measures()[*count])
            else {
                return None;
            };
            let centre = if centred_on.is_some() { (lattice.bounds.lo + lattice.bounds.hi) / 2.0 } else { 0.0 };
            let rows = Noisy { value: value(*count)?, error: count_deviation(release, counted)? };
            let total =
                Noisy { value: value(*sum)? - centre * rows.value, error: values_deviation(release, *values, lattice, centred_on.is_some())? };
            Some(average(total, rows, centre, (range.lo, range.hi), z))
        }
        Output::Dispersion { .. } | Output::Joint { .. } | Output::Truth { .. } | Output::Part { .. } | Output::Unlike { .. } => None,
    }
}

#[derive(Debug, Clone, Copy)]
struct Noisy {
    value: f64,
    error: f64,
}

fn average(total: Noisy, rows: Noisy, centre: f64, (lo, hi): (f64, f64), z: f64) -> Spread {
    if rows.value <= ROWS_MIN * rows.error {
        return Spread { error: (hi - lo) / 2.0, low: lo, high: hi };
    }
    let ratio = total.value / rows.value;
    let error = total.error.hypot(ratio * rows.error) / rows.value;
    let (a, n) = (z * total.error, z * rows.error);
    let lead = rows.value * rows.value - n * n;
    let root = (rows.value * a).powi(2) + (total.value * n).powi(2) - (a * n).powi(2);
    let (middle, half) = (total.value * rows.value / lead, root.max(0.0).sqrt() / lead);
    let end = |t: f64| (centre + t).clamp(lo, hi);
    Spread { error: error.min((hi - lo) / 2.0), low: end(middle - half), high: end(middle + half) }
}

#[cfg(test)]
mod tests {
    use super::{Noisy, average, quantile_95};
    use crate::mechanism::Mechanism;

    #[test]
    fn the_laplace_quantile_leaves_a_twentieth_outside() {
        let (b, half) = (1.0, quantile_95(Mechanism::Laplace) * std::f64::consts::SQRT_2);
        assert!(((-half / b).exp() - 0.05f64).abs() < 1e-12);
    }

    #[test]
    fn an_average_of_many_rows_has_the_error_of_the_delta_method() {
        let found = average(Noisy { value: 20_000.0, error: 100.0 }, Noisy { value: 10_000.0, error: 10.0 }, 15.0, (0.0, 30.0), 1.96);
        assert!((found.error - 100f64.hypot(20.0) / 10_000.0).abs() < 1e-12);
        assert!((found.low - (17.0 - 1.96 * found.error)).abs() < 1e-4 && (found.high - (17.0 + 1.96 * found.error)).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn an_average_of_few_rows_is_known_by_its_bounds() {
        for rows in [-5.0, 0.0, 29.0] {
            let found = average(Noisy { value: 3.0, error: 100.0 }, Noisy { value: rows, error: 10.0 }, 15.0, (0.0, 30.0), 1.96);
            assert_eq!((found.error, found.low, found.high), (15.0, 0.0, 30.0), "{rows}");
        }
    }

    /// Fieller's interval covers, where the delta method's normal one is off.
    #[test]
    fn the_interval_covers_as_promised() {
        let (total, rows, a, n, z) = (600.0, 200.0, 120.0, 40.0, 1.959_964);
        let (mut covered, mut asked) = (0u32, 0u32);
        // A grid of standard normal quantiles stands for the draws.
        let quantiles: Vec<f64> = (0..200).map(|i| crate::mechanism::normal::quantile((f64::from(i) + 0.5) / 200.0)).collect();
        for x in &quantiles {
            for y in &quantiles {
                let found = average(Noisy { value: total + a * x, error: a }, Noisy { value: rows + n * y, error: n }, 0.0, (-1e6, 1e6), z);
                asked += 1;
                covered += u32::from((found.low..=found.high).contains(&(total / rows)));
            }
        }
        let share = f64::from(covered) / f64::from(asked);
        assert!((0.945..=0.97).contains(&share), "{share}");
    }
}
