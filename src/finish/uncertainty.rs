//! The error of a released value against the exact value over the clipped rows. Computed from the
//! law of the noise and the released measures alone.

mod choices;
mod clip_bias;
mod running_total;
mod value;

use crate::aggregates::{
    ChoiceId, CohortCounts, DecodedValue, DictionaryOutput, DistinctValues, DrawId, Estimate, Fit,
    Foreseen, Group, MeasureId, Model, Noisy, Output, ReleasedColumn,
};
use crate::catalog::Type;
use crate::ir::{AggregateId, Formula, Statistic};
use crate::mechanism::Mechanism;
pub use crate::mechanism::quantile_95;
use crate::release::{ClipBias, NoiseRecord, ReleasedTable};
use crate::rewrite::{ChoiceKind, Measure, ReleasePlan, measure_noise};
use choices::ChosenValue;
use clip_bias::ClipBiasPart;
pub use value::value_and_error;

/// Standard error, and an interval that holds the exact clipped value in at least 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorInterval {
    /// `None` where only the interval is known.
    pub error: Option<f64>,
    pub low: f64,
    pub high: f64,
    /// By how much the exact value is higher because chosen clips cut it, as far as a look shows;
    /// negative where it is lower. `None` where that is not known.
    pub low_by: Option<f64>,
}

impl ErrorInterval {
    /// Rounded to four significant digits of the error, the error and the interval outward. Exact
    /// values stay.
    pub fn round_outward(self) -> Self {
        let Self {
            error,
            low,
            high,
            low_by,
        } = self;
        let scale = error.unwrap_or((high - low) / 2.0);
        let Some(digits) = digits_of(scale) else {
            return self;
        };
        Self {
            error: error.map(|error| -below(-error, digits)),
            low: below(low, digits),
            high: -below(-high, digits),
            low_by: low_by.map(|by| nearest(by, digits)),
        }
    }

    pub fn of(&self, statistic: Statistic) -> Option<f64> {
        match statistic {
            Statistic::StandardError => self.error,
            Statistic::Low => Some(self.low),
            Statistic::High => Some(self.high),
            Statistic::LowBy => self.low_by,
        }
    }
}

/// How many decimals show four digits of a number; negative for large numbers. `None` where there
/// is nothing to round by.
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

/// The nearest number that has this many decimals.
fn nearest(value: f64, digits: i32) -> f64 {
    let (down, up) = (below(value, digits), -below(-value, digits));
    // Zero has no sign.
    0.0 + if value - down < up - value { down } else { up }
}

/// A quotient by fewer rows than this many standard errors of their number says nothing: it is
/// NULL, and so is its error.
const ROWS_MIN: f64 = 3.0;

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
) -> Option<ErrorInterval> {
    let row = Row::new(release, table.measures.get(group)?, table, group);
    row.spread(formula)
}

/// The fit of a model in one group. The model says its errors.
pub fn fit(
    release: &ReleasePlan,
    model: &Model,
    table: &ReleasedTable,
    group: usize,
) -> Option<Fit> {
    let row = Row::new(release, table.measures.get(group)?, table, group);
    model.fit(&|measure| {
        let part = row.part(measure)?;
        Some(Noisy {
            value: part.value,
            noise: part.draws().to_vec(),
        })
    })
}

/// As [`spread`], of a value that is decoded from all groups.
pub fn spread_decoded(
    release: &ReleasePlan,
    formula: &Formula,
    (table, value): (&ReleasedTable, &DecodedValue),
) -> Option<ErrorInterval> {
    let row = Row::new(release, &[], table, 0);
    // Values are chosen to be shown, which all that is computed from them has to allow for.
    let row = Row {
        decoded: Some(value),
        z: row.z.max(value.reach),
        ..row
    };
    row.spread(formula)
}

/// The counts of each cohort that values are decoded from.
pub fn cohorts(
    release: &ReleasePlan,
    output: &DictionaryOutput,
    table: &ReleasedTable,
) -> Vec<CohortCounts> {
    let groups = table.keys.iter().zip(&table.measures).enumerate();
    let of_group = groups.filter_map(|(group, (key, measures))| {
        let number = key.first()?.as_ref()?.parse().ok()?;
        (number < output.dictionary().rappor.cohorts).then_some(())?;
        output.cohort(number, &Row::new(release, measures, table, group))
    });
    of_group.collect()
}

/// How much lower and higher the intervals of a table's groups reach for what clips cut, in the
/// group where that is most.
pub fn reach_of_cuts(
    release: &ReleasePlan,
    formula: &Formula,
    table: &ReleasedTable,
) -> Option<(f64, f64)> {
    let groups = table.measures.iter().enumerate();
    let of_each = groups.filter_map(|(group, measures)| {
        let row = Row::new(release, measures, table, group);
        let with = row.spread(formula)?;
        let without = Row {
            has_cuts: false,
            ..row
        };
        let without = without.spread(formula)?;
        Some((without.low - with.low, with.high - without.high))
    });
    of_each.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
}

impl Row<'_> {
    fn spread(&self, formula: &Formula) -> Option<ErrorInterval> {
        if let Formula::Aggregate(at) = formula
            && let Some((output, _)) = self.release.output(*at)
            && let Foreseen::Choice {
                choice,
                draws: [draw],
                is_array: false,
            } = output.foreseen()
        {
            let chosen = self.chosen_value(choice, *draw);
            return chosen.map(|ChosenValue { spread, .. }| spread);
        }
        // How the errors of several estimates from the same reports go together is not known.
        let reads_reports = |at: &AggregateId| {
            let output = self.release.output(*at);
            output.is_some_and(|(output, _)| output.estimator().is_some())
        };
        if formula
            .aggregates()
            .iter()
            .filter(|at| reads_reports(at))
            .count()
            > 1
        {
            return None;
        }
        let Known {
            estimate,
            is_integer: _,
        } = self.formula(formula)?;
        // The interval has room for what is cut; never more than that is stated.
        let uncut = estimate.uncut.filter(|uncut| !uncut.is_nan());
        let uncut = uncut.map(|uncut| uncut.max(estimate.low).min(estimate.high));
        let known = ErrorInterval {
            error: Some(estimate.error()),
            low: estimate.low,
            high: estimate.high,
            low_by: uncut.map(|uncut| uncut - estimate.value),
        };
        (!estimate.error().is_nan() && !known.low.is_nan() && !known.high.is_nan()).then_some(known)
    }
}

/// Whether a group's noisy number of rows is so small that an average, a spread or a correlation of
/// them says nothing. Such a value is NULL. Without noise, that holds only for groups without a
/// row.
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
    row.and_then(|row| output.rows(&row))
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
            } => calibrated.first().map(|c| c.noise.mechanism()),
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

impl Known {
    /// The value as one of a type with fractions.
    fn into_real(self) -> Self {
        Self {
            is_integer: false,
            ..self
        }
    }
}

/// One group.
struct Row<'r> {
    release: &'r ReleasePlan,
    table: &'r ReleasedTable,
    measures: &'r [String],
    /// The noise of these values; without a record they have the plan's.
    drawn: Option<&'r NoiseRecord>,
    /// For each choice whose limit on rows a look chose: the rows that the limit cuts.
    row_cuts: &'r [(ChoiceId, ClipBias)],
    /// Whether intervals include what clips cut.
    has_cuts: bool,
    /// The value that stands for the group, where it is decoded from all groups.
    decoded: Option<&'r DecodedValue>,
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
            table,
            measures,
            drawn,
            row_cuts: &table.row_cuts,
            has_cuts: true,
            decoded: None,
            group,
            groups: table.measures.len(),
            z: widest(release, drawn),
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
                let (output, data_type) = self.release.output(*at)?;
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
            Formula::Negated(of) => mapped(of, &|e| e.scale(-1.0)),
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
                        estimate.map(f64::trunc)
                    } else {
                        estimate
                    },
                    is_integer,
                })
            }
            Formula::Root(of) => mapped(of, &Estimate::root).map(Known::into_real),
            Formula::Exponential(of) => mapped(of, &Estimate::exponential).map(Known::into_real),
            Formula::Rounded(of, decimals) => {
                let unit = 10f64.powi(*decimals);
                mapped(of, &|e| e.map(|v| (v * unit).round() / unit))
            }
            Formula::Real(of) => mapped(of, &|e| e).map(Known::into_real),
            Formula::RunningTotal {
                of,
                order,
                partition,
            } => Some(Known {
                estimate: self.running_total(*of, (*order, partition))?,
                is_integer: false,
            }),
        }
    }

    fn output(&self, output: &Output) -> Option<Estimate> {
        if output.rows(self).is_some_and(|rows| are_few(&rows)) {
            return None;
        }
        output.estimate(self)
    }

    /// A value of the group, as text.
    fn released_text(&self, ReleasedColumn(at): ReleasedColumn) -> Option<&str> {
        self.measures.get(at).map(String::as_str)
    }

    fn measure(&self, id: MeasureId, bias: ClipBiasPart) -> Option<Estimate> {
        self.estimate_measure(self.release.measure(id), self.value(id)?, bias)
    }

    fn value(&self, id: MeasureId) -> Option<f64> {
        self.released_text(id.into())?.parse().ok()
    }

    fn estimate_measure(
        &self,
        measure: &Measure,
        value: f64,
        bias: ClipBiasPart,
    ) -> Option<Estimate> {
        let is_unseen = |drawn: &NoiseRecord| drawn.unseen(measure, self.group).is_some();
        if self.drawn.is_some_and(is_unseen) {
            return None;
        }
        let noise = match self.drawn {
            Some(drawn) => drawn.noise(measure, self.group),
            None => measure_noise(self.release, measure)?,
        };
        let bias = if self.has_cuts {
            bias
        } else {
            ClipBiasPart::Excluded
        };
        let (lower, higher) = self.drawn.map_or((0.0, 0.0), |drawn| {
            clip_bias::bias_of_measure(
                self.release,
                measure,
                (value, &noise, bias),
                (drawn, self.group, self.groups),
            )
        });
        let uncut = self.drawn.and_then(|drawn| {
            let of = (drawn, self.group);
            clip_bias::without_cuts(self.release, measure, value, of)
        });
        Some(
            Estimate::new(value, noise, self.z)
                .cut_by(lower, higher)
                .without_cuts(uncut),
        )
    }
}

impl Group for Row<'_> {
    fn z(&self) -> f64 {
        self.z
    }

    fn total(&self, measure: MeasureId) -> Option<Estimate> {
        self.measure(measure, ClipBiasPart::UpperBound(self.z))
    }

    fn part(&self, measure: MeasureId) -> Option<Estimate> {
        self.measure(measure, ClipBiasPart::Likeliest)
    }

    fn of_mean(&self, measure: MeasureId) -> Option<Estimate> {
        self.measure(measure, ClipBiasPart::ForMean(self.z))
    }

    fn distances(&self, sum: MeasureId, rows: MeasureId) -> Option<Estimate> {
        let Measure::Sum {
            values,
            count: Some(_),
            fixed_point,
        } = self.release.measure(sum)
        else {
            return self.of_mean(sum);
        };
        let distances = Measure::Centred {
            values: *values,
            fixed_point: fixed_point.clone(),
        };
        let value = self.value(sum)? - self.centre(sum)? * self.value(rows)?;
        self.estimate_measure(&distances, value, ClipBiasPart::ForMean(self.z))
    }

    fn centre(&self, sum: MeasureId) -> Option<f64> {
        let Measure::Sum {
            values: _,
            count,
            fixed_point,
        } = self.release.measure(sum)
        else {
            return None;
        };
        Some(if count.is_some() {
            fixed_point.centre_twice() as f64 * fixed_point.step.size() / 2.0
        } else {
            0.0
        })
    }

    fn distinct_count(&self, choice: ChoiceId) -> Option<Estimate> {
        self.distinct_rows(choice)
    }

    fn distinct_values(&self, choice: ChoiceId) -> Option<DistinctValues> {
        self.distinct(choice)
    }

    fn decoded_value(&self) -> Option<Estimate> {
        let DecodedValue {
            place: _,
            count,
            error,
            reach: _,
        } = self.decoded?;
        // It reaches as far as the row's other values do.
        Some(Estimate::new(*count, vec![*error], self.z))
    }

    fn drawn_value(&self, choice: ChoiceId, draw: DrawId) -> Option<Estimate> {
        self.quantile(choice, draw)
    }
}

#[cfg(test)]
mod tests;
