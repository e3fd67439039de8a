//! How far a released value may be from the exact value over the clipped rows. Computed from the
//! law of the noise and the released measures alone.

mod choices;
mod cuts;
mod value;

use super::estimate::Estimate;
use crate::analyze::interval::Interval;
use crate::analyze::{Dispersion, Joint};
use crate::catalog::Type;
use crate::ir::{Formula, Moment, Quantifier, Statistic, VarianceKind as Kind};
pub use crate::mechanism::quantile_95;
use crate::mechanism::{Mechanism, Noise, normal};
use crate::policy::Scalar;
use crate::release::{Cut, NoiseRecord, ReleasedTable};
use crate::rewrite::{Centred, ChoiceKind, Measure, Output, ReleasePlan, measure_noise};
use choices::Chosen;
use cuts::Tail;
pub use cuts::share_cut;
pub use value::value_and_error;

/// Standard error, and an interval that holds the exact clipped value in at least 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// `None` where only the interval is known.
    pub error: Option<f64>,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// With the digits that mean something: four of the error, outward. What is exact stays.
    pub fn rounded(self) -> Self {
        let Self { error, low, high } = self;
        let scale = error.unwrap_or((high - low) / 2.0);
        let Some(digits) = digits_of(scale) else {
            return self;
        };
        Self {
            error: error.map(|error| -below(-error, digits)),
            low: below(low, digits),
            high: -below(-high, digits),
        }
    }

    pub fn of(&self, statistic: Statistic) -> Option<f64> {
        match statistic {
            Statistic::StandardError => self.error,
            Statistic::Low => Some(self.low),
            Statistic::High => Some(self.high),
        }
    }
}

/// How many decimals show four digits of a number; fewer than none for large numbers. `None` where
/// there is nothing to round by.
fn digits_of(scale: f64) -> Option<i32> {
    let is_of_use = scale.is_finite() && scale > 1e-300;
    is_of_use.then(|| 3 - scale.log10().floor() as i32)
}

/// The next number below that has this many decimals. Powers of ten up to 10^22 are exact, so that
/// it is the double nearest to the decimal, and prints as that.
fn below(value: f64, digits: i32) -> f64 {
    if digits.abs() > 22 {
        return value;
    }
    let power = 10f64.powi(digits.abs());
    let rounded = if digits < 0 {
        (value / power).floor() * power
    } else {
        (value * power).floor() / power
    };
    // More digits than a double has: it stays.
    if rounded <= value && rounded.is_finite() {
        rounded
    } else {
        value
    }
}

/// A quotient by fewer rows than this many standard errors of their number says nothing: it is
/// NULL, and so is its error.
const ROWS_MIN: f64 = 3.0;

/// The least rows of a sample that has a spread. The error of fewer is not known, only bounds.
const ROWS_OF_SAMPLE: f64 = 2.0;

/// The spread of arithmetic over the aggregates of one group; `None` where it is not known. The
/// interval covers noise, and what clips that were chosen from a look cut as far as the look shows.
/// It does not cover what declared bounds cut off.
///
/// - Counts and sums have the noise's standard error. What is computed from them has an error by
///   the delta method over the noise's independent draws. Quotients have intervals by Fieller
///   (1954).
/// - The error of a chosen value (a percentile, MIN, MAX) is one of ranks, which are not released.
///   The ends of its interval are drawn too. Its standard error is that of the rank, times the
///   distance in values per rank between those ends. An extreme has one drawn end, towards the
///   middle; the other is the end of the range.
pub fn spread(
    release: &ReleasePlan,
    formula: &Formula,
    table: &ReleasedTable,
    group: usize,
) -> Option<Spread> {
    let row = Row::new(release, table.measures.get(group)?, table, group);
    if let Formula::Aggregate(at) = formula
        && let Some((
            Output::Choice {
                choice,
                draws,
                is_array: false,
            },
            _,
        )) = release.outputs().get(*at)
        && let [draw] = draws.as_slice()
    {
        return row
            .chosen(*choice, *draw)
            .map(|Chosen { spread, .. }| spread);
    }
    let Known {
        estimate,
        is_integer: _,
    } = row.formula(formula)?;
    let known = Spread {
        error: Some(estimate.error()),
        low: estimate.low,
        high: estimate.high,
    };
    (!estimate.error().is_nan() && !known.low.is_nan() && !known.high.is_nan()).then_some(known)
}

/// Whether a group's noisy number of rows is so small that an average, a spread or a correlation of
/// them says nothing. Such a value is NULL. Of no noise, only groups without a row are.
pub fn has_few(
    release: &ReleasePlan,
    output: &Output,
    table: &ReleasedTable,
    group: usize,
) -> bool {
    let row = table
        .measures
        .get(group)
        .map(|measures| Row::new(release, measures, table, group));
    row.and_then(|row| row.rows(output))
        .is_some_and(|rows| are_few(&rows))
}

/// Standard errors to each side, for the noise with the heaviest tail in the release.
fn widest(release: &ReleasePlan, drawn: Option<&NoiseRecord>) -> f64 {
    let vector = drawn
        .map(NoiseRecord::mechanism)
        .or(release.price().map(|price| price.mechanism));
    let choices = release
        .choices()
        .iter()
        .filter_map(|choice| match &choice.kind {
            ChoiceKind::Count {
                calibrated,
                weights: _,
                clip: _,
            } => calibrated.first().map(|c| match c.noise {
                Noise::Laplace { .. } => Mechanism::Laplace,
                Noise::Gaussian { .. } => Mechanism::Gaussian,
            }),
            ChoiceKind::Choice { .. } => None,
        });
    vector
        .into_iter()
        .chain(choices)
        .map(quantile_95)
        .fold(quantile_95(Mechanism::Gaussian), f64::max)
}

struct Known {
    estimate: Estimate,
    is_integer: bool,
}

/// One group.
struct Row<'r> {
    release: &'r ReleasePlan,
    measures: &'r [String],
    /// The noise of these values; without a record they have the plan's.
    drawn: Option<&'r NoiseRecord>,
    /// What limits on rows that a look chose cut, by choice.
    row_cuts: &'r [(usize, Cut)],
    group: usize,
    /// How many groups the table has.
    groups: usize,
    z: f64,
}

/// Too few for a ratio with them to say anything.
fn are_few(rows: &Estimate) -> bool {
    rows.value <= ROWS_MIN * rows.error()
}

impl<'r> Row<'r> {
    fn new(
        release: &'r ReleasePlan,
        measures: &'r [String],
        table: &'r ReleasedTable,
        group: usize,
    ) -> Self {
        let drawn = table.drawn.as_ref();
        Row {
            release,
            measures,
            drawn,
            row_cuts: &table.row_cuts,
            group,
            groups: table.measures.len(),
            z: widest(release, drawn),
        }
    }

    /// The noisy number of rows, or of distinct values, that a quotient is over.
    fn rows(&self, output: &Output) -> Option<Estimate> {
        match output {
            Output::Average { count, .. }
            | Output::Dispersion { count, .. }
            | Output::Joint { count, .. } => self.part(*count),
            Output::Distinct {
                choice,
                range: _,
                moment: Moment::Mean | Moment::Spread(_),
            } => self.distinct_rows(*choice),
            Output::Distinct {
                choice: _,
                range: _,
                moment: Moment::Sum,
            }
            | Output::Measure(_)
            | Output::Truth { .. }
            | Output::OfNoRow(_)
            | Output::Choice { .. } => None,
        }
    }

    fn formula(&self, formula: &Formula) -> Option<Known> {
        let both =
            |a: &Formula, b: &Formula, join: &dyn Fn(&Estimate, &Estimate) -> Option<Estimate>| {
                let (a, b) = (self.formula(a)?, self.formula(b)?);
                Some(Known {
                    estimate: join(&a.estimate, &b.estimate)?,
                    is_integer: a.is_integer && b.is_integer,
                })
            };
        let mapped = |of: &Formula, map: &dyn Fn(Estimate) -> Estimate| {
            let Known {
                estimate,
                is_integer,
            } = self.formula(of)?;
            Some(Known {
                estimate: map(estimate),
                is_integer,
            })
        };
        match formula {
            Formula::Aggregate(at) => {
                let (output, data_type) = self.release.outputs().get(*at)?;
                let is_integer = matches!(data_type, Type::Int2 | Type::Int4 | Type::Int8);
                Some(Known {
                    estimate: self.output(output)?,
                    is_integer,
                })
            }
            Formula::Number { value, is_integer } => Some(Known {
                estimate: Estimate::exact(*value),
                is_integer: *is_integer,
            }),
            Formula::Negated(of) => mapped(of, &|e| e.scaled(-1.0)),
            Formula::Sum(a, b) => both(a, b, &|a, b| Some(a.plus(1.0, b, self.z))),
            Formula::Difference(a, b) => both(a, b, &|a, b| Some(a.plus(-1.0, b, self.z))),
            Formula::Product(a, b) => both(a, b, &|a, b| Some(a.times(b, self.z))),
            Formula::Quotient(a, b) => {
                let Known {
                    estimate,
                    is_integer,
                } = both(a, b, &|a, b| a.over(b, self.z))?;
                Some(Known {
                    estimate: if is_integer {
                        estimate.mapped(f64::trunc)
                    } else {
                        estimate
                    },
                    is_integer,
                })
            }
            Formula::Root(of) => mapped(of, &Estimate::root).map(|known| Known {
                is_integer: false,
                ..known
            }),
            Formula::Rounded(of, decimals) => {
                let unit = 10f64.powi(*decimals);
                mapped(of, &|e| e.mapped(|v| (v * unit).round() / unit))
            }
            Formula::Real(of) => mapped(of, &|e| e).map(|known| Known {
                is_integer: false,
                ..known
            }),
        }
    }

    fn output(&self, output: &Output) -> Option<Estimate> {
        let rows = self.rows(output);
        if rows.is_some_and(|rows| are_few(&rows)) {
            return None;
        }
        match output {
            Output::Measure(at) => {
                let found = self.total(*at)?;
                let is_count = matches!(self.release.measures()[*at], Measure::Count(_));
                Some(if is_count {
                    found.within(0.0, f64::INFINITY)
                } else {
                    found
                })
            }
            Output::Average { sum, count, range } => self.average(*sum, *count, *range),
            Output::Dispersion {
                count,
                sum,
                squares,
                range,
                kind,
            } => {
                let value = Centred {
                    sum: *sum,
                    squares: *squares,
                    range: *range,
                };
                let rows = self.part(*count)?;
                let variance = self.variance(&rows, value)?;
                Some(dispersion(&rows, variance, *range, *kind, self.z))
            }
            Output::Joint {
                count,
                y,
                x,
                products,
                kind,
            } => {
                let rows = self.part(*count)?;
                if rows.value < ROWS_OF_SAMPLE {
                    Some(joint_bounds(*y, *x, *kind))
                } else {
                    self.joint(&rows, *y, *x, *products, *kind)
                }
            }
            Output::Truth { count, of } => Some(truth(&self.part(*count)?, *of)),
            Output::OfNoRow(value) => match value.as_ref()? {
                Scalar::Bool(value) => Some(Estimate::exact(f64::from(u8::from(*value)))),
                _ => Some(Estimate::exact(0.0)),
            },
            Output::Choice {
                choice,
                draws,
                is_array: false,
            } if draws.len() == 1 => self.quantile(*choice, draws[0]),
            Output::Choice {
                choice,
                draws: _,
                is_array: _,
            } => self.count(*choice),
            Output::Distinct {
                choice,
                range,
                moment,
            } => self.distinct(*choice, *range, *moment),
        }
    }

    /// A count or a sum that is shown.
    fn total(&self, at: usize) -> Option<Estimate> {
        self.measure(at, Tail::Heavy)
    }

    /// One that something is computed from. What a heavy tail of units adds to both parts of an
    /// average moves it little.
    fn part(&self, at: usize) -> Option<Estimate> {
        self.measure(at, Tail::Light)
    }

    fn measure(&self, at: usize, tail: Tail) -> Option<Estimate> {
        let value = self.measures.get(at)?.parse().ok()?;
        let measure = self.release.measures().get(at)?;
        let noise = match self.drawn {
            Some(drawn) => drawn.noise(measure, self.group),
            None => measure_noise(self.release, measure)?,
        };
        let (lower, higher) = self.drawn.map_or((0.0, 0.0), |drawn| {
            cuts::of(
                self.release,
                measure,
                (value, tail),
                (drawn, self.group, self.groups),
            )
        });
        Some(Estimate::new(value, noise, self.z).cut_by(lower, higher))
    }

    /// An average is the centre plus a quotient: the sum's distance from the centre over the rows.
    fn average(&self, sum: usize, count: usize, range: Interval) -> Option<Estimate> {
        let Measure::Sum {
            values: _,
            count: centred_on,
            fixed_point,
        } = &self.release.measures()[sum]
        else {
            return None;
        };
        let centre = if centred_on.is_some() {
            fixed_point.centre_twice() as f64 * fixed_point.step.size() / 2.0
        } else {
            0.0
        };
        let rows = self.part(count)?;
        let apart = self.part(sum)?.plus(-centre, &rows, self.z);
        Some(
            apart
                .over(&rows, self.z)?
                .shifted(centre)
                .within(range.lo, range.hi),
        )
    }

    /// The mean of products minus the product of the means.
    fn about_means(
        &self,
        rows: &Estimate,
        products: &Estimate,
        (y, x): (&Estimate, &Estimate),
    ) -> Option<Estimate> {
        let mean = |sum: &Estimate| sum.over(rows, self.z);
        Some(mean(products)?.plus(-1.0, &mean(y)?.times(&mean(x)?, self.z), self.z))
    }

    fn moment(&self, rows: &Estimate, products: usize, (y, x): (usize, usize)) -> Option<Estimate> {
        self.about_means(
            rows,
            &self.part(products)?,
            (&self.part(y)?, &self.part(x)?),
        )
    }

    fn variance(&self, rows: &Estimate, value: Centred) -> Option<Estimate> {
        Some(
            self.moment(rows, value.squares, (value.sum, value.sum))?
                .within(0.0, half(value.range).powi(2)),
        )
    }

    fn joint(
        &self,
        rows: &Estimate,
        y: Centred,
        x: Centred,
        products: usize,
        kind: Joint,
    ) -> Option<Estimate> {
        let most = half(y.range) * half(x.range);
        let together = self
            .moment(rows, products, (y.sum, x.sum))?
            .within(-most, most);
        let (y_spread, x_spread) = (self.variance(rows, y)?, self.variance(rows, x)?);
        let slope = || together.over(&x_spread, self.z);
        // A quotient by a variance that may be zero is not known.
        let correlation = || {
            let both = y_spread.times(&x_spread, self.z);
            let is_sure = y_spread.low > 0.0 && x_spread.low > 0.0;
            match is_sure {
                true => together
                    .over(&both.root(), self.z)
                    .map(|e| Estimate::exact(0.0).plus(1.0, &e, self.z).within(-1.0, 1.0)),
                false => Some(Estimate::bounded(-1.0, 1.0)),
            }
        };
        match kind {
            Joint::CovariancePopulation => Some(together),
            Joint::CovarianceSample => Some(together.scaled(rows.value / (rows.value - 1.0))),
            Joint::Products => Some(together.times(rows, self.z)),
            Joint::Correlation => correlation(),
            Joint::Slope => slope(),
            Joint::Intercept => {
                let mean = |value: Centred| {
                    Some(
                        self.part(value.sum)?
                            .over(rows, self.z)?
                            .shifted(middle(value.range)),
                    )
                };
                let slope = slope()?;
                let found = mean(y)?.plus(-1.0, &slope.times(&mean(x)?, self.z), self.z);
                let is_known = slope.low.is_finite();
                Some(if is_known {
                    found
                } else {
                    found.between(f64::NEG_INFINITY, f64::INFINITY)
                })
            }
            Joint::Determination => correlation().map(|r| {
                let (low, high) = (r.low.abs().min(r.high.abs()), r.low.abs().max(r.high.abs()));
                let least = if r.low <= 0.0 && r.high >= 0.0 {
                    0.0
                } else {
                    low * low
                };
                r.times(&r, self.z).between(least, high * high)
            }),
        }
    }
}

fn dispersion(
    rows: &Estimate,
    variance: Estimate,
    range: Interval,
    kind: Dispersion,
    z: f64,
) -> Estimate {
    let most = half(range).powi(2);
    let is_one = rows.value < ROWS_OF_SAMPLE;
    let population = if is_one {
        Estimate::bounded(0.0, most)
    } else {
        variance
    };
    // The variance of a sample of two rows is twice that of a population.
    let sample = |e: Estimate| {
        if is_one {
            e.scaled(2.0)
        } else {
            e.scaled(rows.value / (rows.value - 1.0))
        }
    };
    match kind {
        Dispersion::Squares => population
            .times(&rows.clone().within(0.0, f64::INFINITY), z)
            .within(0.0, most * rows.high.max(0.0)),
        Dispersion::Spread(Kind::VariancePopulation) => population,
        Dispersion::Spread(Kind::VarianceSample) => sample(population),
        Dispersion::Spread(Kind::DeviationPopulation) => population.root(),
        Dispersion::Spread(Kind::DeviationSample) => sample(population).root(),
    }
}

fn joint_bounds(y: Centred, x: Centred, kind: Joint) -> Estimate {
    let most = half(y.range) * half(x.range);
    match kind {
        Joint::CovariancePopulation => Estimate::bounded(-most, most),
        Joint::CovarianceSample => Estimate::bounded(-2.0 * most, 2.0 * most),
        Joint::Correlation => Estimate::bounded(-1.0, 1.0),
        Joint::Determination => Estimate::bounded(0.0, 1.0),
        Joint::Products | Joint::Slope | Joint::Intercept => {
            Estimate::bounded(-most, most).between(f64::NEG_INFINITY, f64::INFINITY)
        }
    }
}

/// BOOL_AND and BOOL_OR, 1 for true: whether no row (All) or some row (Any) was counted. The error
/// is that of a coin with the probability that the normal law gives to some row.
fn truth(rows: &Estimate, of: Quantifier) -> Estimate {
    let chance = normal::cdf((rows.value - 0.5) / rows.error().max(f64::MIN_POSITIVE));
    let some = |rows: f64| f64::from(u8::from(rows >= 0.5));
    let (low, high) = (some(rows.low), some(rows.high));
    let error = (chance * (1.0 - chance)).max(0.0).sqrt();
    let (value, low, high) = match of {
        Quantifier::Any => (chance, low, high),
        Quantifier::All => (1.0 - chance, 1.0 - high, 1.0 - low),
    };
    Estimate::new(value, vec![error], 1.0).between(low, high)
}

fn half(range: Interval) -> f64 {
    (range.hi - range.lo) / 2.0
}

fn middle(range: Interval) -> f64 {
    range.lo + half(range)
}

#[cfg(test)]
mod tests;
