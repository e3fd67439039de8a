//! What reports say of true values that were randomised before they were stored: how many rows have
//! one of some values, and the sum and mean of numbers. Estimates from released counts of reports.

use std::sync::Arc;

use sqlparser::ast::{self, BinaryOperator as B};

use super::arithmetic::{above, float_literal, measure, ratio, when};
use super::best_case::{
    BestCase, Expected, dot, expect_error, few, half_of_quotient, plus, rounded_text, three_digits,
    total_of, up_to_three_digits,
};
use super::bounded::{Bounded, Bounds, Counts, Layout, TextRead, ValuesRead};
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::unbounded::{Calls, Clamped, ComparisonKind, Facts, Unbounded};
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue};
use super::{Bound, BoundedOperation, Output};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, Expr, Interval, Operation, ReportStatistic, sql};
use crate::mechanism::OneBit;
use crate::policy::{Collected, Scalar};
use crate::refusal::{Refusal, reason};

/// The statistic as the query writes it.
pub(super) struct UnboundedReport<'o> {
    /// The column of reports.
    pub report: &'o Expr,
    pub reports: &'o [Scalar],
    /// The reports that are counted.
    pub counted: &'o [Scalar],
    pub statistic: &'o ReportStatistic,
}

/// Two counts of rows: of those with a report, and of those with one of some reports.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedReport {
    report: Expr,
    of_all: Expr,
    of_counted: Expr,
    statistic: ReportStatistic,
}

/// How many true values are among those at these places of the column's list. `None` where its
/// reports do not say.
/// Of filters, the operation counts all values of their list.
pub fn count_from_reports(report: Expr, how: &Collected, places: &[usize]) -> Option<Operation> {
    if let Some(of) = &how.dictionary {
        let of = Arc::clone(of);
        return Some(Operation::Dictionary { report, of });
    }
    let channel = how.randomiser.channel(places, how.reports.len())?;
    Some(Operation::Report {
        report,
        reports: how.reports.clone(),
        counted: places.iter().map(|at| how.reports[*at].clone()).collect(),
        statistic: ReportStatistic::Count(channel),
    })
}

impl Operation {
    /// The column of a SUM or AVG of a bare column.
    pub fn summed_column(&self) -> Option<ColumnId> {
        match self {
            Self::Sum(value) | Self::Average(value) => value.as_column(),
            _ => None,
        }
    }

    /// A SUM or AVG of a column's true numbers, from their reports. `None` of others.
    pub fn number_from_reports(&self, how: &Collected) -> Option<Self> {
        let bit = how.one_bit?;
        let (report, statistic) = match self {
            Self::Sum(value) => (value, ReportStatistic::Sum(bit)),
            Self::Average(value) => (value, ReportStatistic::Average(bit)),
            _ => return None,
        };
        Some(Self::Report {
            report: report.clone(),
            reports: how.reports.clone(),
            counted: how.reports[1..].to_vec(),
            statistic,
        })
    }

    /// Whether the operation counts the rows that have a report of this column, or all rows.
    pub fn counts_reports(&self, report: ColumnId) -> bool {
        match self {
            Self::CountRows => true,
            Self::Count(value) => value.as_column() == Some(report),
            _ => false,
        }
    }

    /// The bare column that it may read though it holds reports: an estimate is made of them, or
    /// only their number is counted, which was not randomised.
    pub fn read_reports(&self) -> Option<ColumnId> {
        match self {
            Self::Report { report, .. } | Self::Dictionary { report, of: _ } => report.as_column(),
            Self::Count(report) => report.as_column(),
            _ => None,
        }
    }

    /// The column of filters that the operation decodes.
    pub fn decoded_report(&self) -> Option<&Expr> {
        match self {
            Self::Dictionary { report, of: _ } => Some(report),
            _ => None,
        }
    }
}

impl UnboundedReport<'_> {
    fn among(&self, values: &[Scalar]) -> Expr {
        let data_type = &self.report.data_type;
        let values = values
            .iter()
            .map(|value| Expr::literal(Some(value.clone()), data_type.clone()));
        let arguments = std::iter::once(self.report.clone()).chain(values);
        Expr::call(Function::In, arguments.collect(), Type::Bool)
    }
}

impl<'o> Unbounded<'o> for UnboundedReport<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        if !bounds.is_read_once(self.report) {
            return Err(may_repeat());
        }
        let bounded = BoundedReport {
            report: self.report.clone(),
            of_all: self.among(self.reports),
            of_counted: self.among(self.counted),
            statistic: self.statistic.clone(),
        };
        Ok(BoundedOperation::Report(bounded).into())
    }

    fn sql(&self, _calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        Err(within_unit())
    }

    fn range(&self, rows: f64, _may_be_empty: bool, _of: &dyn Fn(&Expr) -> Interval) -> Interval {
        Interval::new(-rows, rows)
    }

    fn facts(&self) -> Facts<'o> {
        Facts {
            compares: ComparisonKind::Equality,
            ..Facts::of_all_values(Clamped::Rows)
        }
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Err(within_unit())
    }
}

/// The refusal of reports that may count several times.
pub(super) fn may_repeat() -> Refusal {
    Refusal::new(
        reason::COLLECTED_VALUE,
        "a collected column cannot be used in a join that may repeat its reports",
    )
    .detail("The error of the estimate is known only where each report counts once.")
    .hint("Join tables by a unique key, or count in a query of the collected table alone.")
}

/// The refusal of a collected column within the rows of one unit: only a release can estimate one.
pub(super) fn within_unit() -> Refusal {
    Refusal::unsupported(
        reason::COLLECTED_VALUE,
        "a collected column within the rows of one unit",
    )
}

impl BoundedReport {
    /// The condition on reports first: a row meets that of one value alone.
    fn filter(condition: &Expr, filter: &Option<Expr>) -> Option<Expr> {
        Expr::and(std::iter::once(condition).chain(filter).cloned().collect())
    }

    fn filters(&self, filter: &Option<Expr>) -> [Option<Expr>; 2] {
        [&self.of_all, &self.of_counted].map(|condition| Self::filter(condition, filter))
    }
}

impl Bounded for BoundedReport {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(vec![&self.report])
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        match self.statistic {
            ReportStatistic::Count(_) | ReportStatistic::Sum(_) => Some(Scalar::Int(0)),
            ReportStatistic::Average(_) => None,
        }
    }

    fn counts(&self) -> Counts<'_> {
        Counts::Nothing
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn own_filters(&self, filter: &Option<Expr>) -> Vec<Expr> {
        self.filters(filter).into_iter().flatten().collect()
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let [reports, counted] = self.filters(filter).map(|filter| layout.rows(&filter));
        Ok(Output::Report(ReportOutput {
            reports,
            counted,
            statistic: self.statistic.clone(),
        }))
    }
}

/// The estimate that is shown. It is right on average, and may lie past what is possible.
///
/// # Guarantee
/// Post-processing of two released counts: it costs nothing more.
///
/// # Requires
/// Reports were made with the declared odds, independently of each other. Each counts once.
///
/// # Reference
/// Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency estimation",
/// section 3, for counts; [`OneBit`] for numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportOutput {
    reports: MeasureId,
    counted: MeasureId,
    statistic: ReportStatistic,
}

impl ReportOutput {
    /// The counts as the estimate reads them.
    fn of(&self, read: impl Fn(MeasureId) -> Option<Estimate>) -> Option<(Estimate, Estimate)> {
        Some((read(self.reports)?, read(self.counted)?))
    }
}

impl OutputValue for ReportOutput {
    fn name(&self) -> &'static str {
        match self.statistic {
            ReportStatistic::Count(_) => "count from reports",
            ReportStatistic::Sum(_) => "sum from reports",
            ReportStatistic::Average(_) => "average from reports",
        }
    }

    fn measures(&self) -> Vec<MeasureId> {
        vec![self.reports, self.counted]
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::FromAnswer
    }

    fn sql(&self, _columns: &dyn Columns) -> ast::Expr {
        let numeric = |at| sql::cast(measure(at), &Type::Numeric(None));
        let (reports, counted) = (numeric(self.reports), numeric(self.counted));
        match &self.statistic {
            ReportStatistic::Count(channel) => {
                let by_chance = times(float_literal(channel.miss()), reports);
                let more = sql::binary(counted, B::Minus, by_chance);
                sql::binary(sql::nest(more), B::Divide, float_literal(channel.gain()))
            }
            ReportStatistic::Sum(bit) => sum_of(
                times(float_literal(bit.clear), reports),
                times(float_literal(bit.width()), counted),
            ),
            ReportStatistic::Average(bit) => {
                let share = ratio(counted, reports.clone());
                let mean = sum_of(
                    float_literal(bit.clear),
                    times(float_literal(bit.width()), share),
                );
                when(above(reports, "0"), mean)
            }
        }
    }

    fn is_unbounded(&self) -> bool {
        true
    }

    fn divisor(&self) -> Option<Divisor> {
        match self.statistic {
            ReportStatistic::Count(_) | ReportStatistic::Sum(_) => None,
            ReportStatistic::Average(_) => Some(Divisor::Rows(self.reports)),
        }
    }

    /// The error of both randomisations: of the noise in the counts, and of the reports given the
    /// true values.
    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        let z = group.z();
        match &self.statistic {
            ReportStatistic::Count(channel) => {
                let (reports, counted) = self.of(|at| group.total(at))?;
                let noisy = counted
                    .plus(-channel.miss(), &reports, z)
                    .scale(1.0 / channel.gain());
                let variance = channel.variance(reports.value, noisy.value);
                Some(noisy.with_variance(variance, z))
            }
            ReportStatistic::Sum(bit) => {
                let (reports, counted) = self.of(|at| group.total(at))?;
                let clear = reports.scale(bit.clear);
                let rows = self.of(|at| group.total(at))?.0.value.max(0.0);
                let noisy = counted.scale(bit.width()).plus(1.0, &clear, z);
                Some(noisy.with_variance(rows * bit.variance(), z))
            }
            ReportStatistic::Average(bit) => {
                let (reports, counted) = self.of(|at| group.of_mean(at))?;
                let rows = reports.value.max(1.0);
                let share = counted.over(&reports, z)?;
                let noisy = share.scale(bit.width()).shift(bit.clear);
                Some(noisy.with_variance(bit.variance() / rows, z))
            }
        }
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        let (rows, z) = (best.rows(), best.z());
        let (reports, counted) = (best.noise(self.reports)?, best.noise(self.counted)?);
        let both = |noise: &[f64], variance: f64| z * (dot(noise, noise) + variance).sqrt();
        Some(match &self.statistic {
            ReportStatistic::Count(channel) => {
                let noise = plus(&counted, -channel.miss(), &reports);
                let noise: Vec<f64> = noise.iter().map(|n| n / channel.gain()).collect();
                let of_reports = channel
                    .variance(rows, 0.0)
                    .min(channel.variance(rows, rows));
                total_of(both(&noise, of_reports), "count", (0.0, rows))
            }
            ReportStatistic::Sum(bit) => {
                let counted: Vec<f64> = counted.iter().map(|n| n * bit.width()).collect();
                let noise = plus(&counted, bit.clear, &reports);
                let error = both(&noise, rows * bit.variance());
                let middle = bit.clear + bit.width() / 2.0;
                let most = rows * (middle.abs() + bit.width() / 2.0);
                total_of(error, "sum", (-most, most))
            }
            ReportStatistic::Average(bit) => {
                if let Some(few) = few(&reports, rows, z) {
                    return Some(few);
                }
                let apart = plus(&counted, -0.5, &reports);
                let noise = bit.width() * half_of_quotient(&apart, &reports, rows, z);
                let error = noise.hypot(z * (bit.variance() / rows).sqrt());
                expect_average(error, bit, rows)
            }
        })
    }

    fn estimator(&self) -> Option<String> {
        let words = |part: &str, number: f64| format!("{part} {}", three_digits(number));
        Some(match &self.statistic {
            ReportStatistic::Count(channel) => format!(
                "(reports of it - {}) / {}",
                words("reports ×", channel.miss()),
                three_digits(channel.gain())
            ),
            ReportStatistic::Sum(bit) => format!(
                "{} + {}",
                words("reports ×", bit.clear),
                words("set bits ×", bit.width())
            ),
            ReportStatistic::Average(bit) => format!(
                "{} + {}",
                three_digits(bit.clear),
                words("share of set bits ×", bit.width())
            ),
        })
    }

    fn error_from_reports(&self, noise: f64) -> Option<String> {
        let of_reports = |variance: f64| up_to_three_digits(variance.sqrt());
        Some(match &self.statistic {
            ReportStatistic::Count(channel) => {
                let both = noise * (1.0 + channel.miss().powi(2)).sqrt() / channel.gain();
                format!(
                    "at most {} × √n from n reports and {} from the noise; of values that were not \
                        randomised it would be at most {}, from the noise alone",
                    // It is linear in the share of those who have the value.
                    of_reports(channel.variance(1.0, 0.0).max(channel.variance(1.0, 1.0))),
                    three_digits(both),
                    three_digits(noise)
                )
            }
            ReportStatistic::Sum(bit) => format!(
                "at most {} × √n from n reports, and that of the noise; of values that were not \
                    randomised it would be that of the noise alone",
                of_reports(bit.variance())
            ),
            ReportStatistic::Average(bit) => format!(
                "at most {} / √n from n reports, and that of the noise; of values that were not \
                    randomised it would be that of the noise alone",
                of_reports(bit.variance())
            ),
        })
    }
}

/// A mean whose interval is as wide as a report's whole reach is useless.
fn expect_average(error: f64, bit: &OneBit, rows: f64) -> Expected {
    let reach = bit.width() / 2.0;
    let useless = (error >= reach).then(|| {
        format!(
            "would be ±{} for an average of about {} reports",
            three_digits(error),
            rounded_text(rows)
        )
    });
    expect_error(error, useless)
}

fn times(a: ast::Expr, b: ast::Expr) -> ast::Expr {
    sql::nest(sql::binary(a, B::Multiply, b))
}

fn sum_of(a: ast::Expr, b: ast::Expr) -> ast::Expr {
    sql::nest(sql::binary(a, B::Plus, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Randomiser;

    /// Reports of a value that all have may have a larger error than those of one that nobody has.
    #[test]
    fn the_error_of_reports_is_the_most_that_it_may_be() {
        let said = |randomiser: Randomiser| {
            let channel = randomiser.channel(&[1], 2).unwrap();
            let output = ReportOutput {
                reports: MeasureId(0),
                counted: MeasureId(1),
                statistic: ReportStatistic::Count(channel),
            };
            (output.error_from_reports(1.0).unwrap(), channel)
        };
        let (text, channel) = said(Randomiser::optimised_unary(4.0));
        assert!(text.starts_with("at most 1.04 × √n "), "{text}");
        // Where half have the value it is 0.759, and where nobody has it 0.276.
        let of = |share: f64| channel.variance(1.0, share).sqrt();
        assert!(of(0.0) < 0.28 && of(0.5) > 0.75 && of(1.0) < 1.04);
        // Of few others it is the least where all have it.
        let (text, channel) = said(Randomiser::Unary {
            one: 0.9,
            zero: 0.3,
        });
        assert!(channel.variance(1.0, 0.0) > channel.variance(1.0, 1.0));
        assert!(text.starts_with("at most 0.764 × √n "), "{text}");
    }
}
