//! How many true values are each of a list, from reports that are filters of them: COUNT(*) grouped
//! by a column of RAPPOR's reports.
//!
//! The release is grouped by the reports' cohorts. In each it counts the reports, and for each bit
//! the reports in which it is set. The values of the list are estimated from all of these together,
//! once they are released.

pub mod decode;

use std::sync::Arc;

use sqlparser::ast;

use super::best_case::{BestCase, Expected, dot, plus, three_digits, total_of};
use super::bounded::{BitMeasures, Bounded, Bounds, Counts, Layout, TextRead, ValuesRead};
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::unbounded::{Calls, Clamped, ComparisonKind, Facts, Unbounded};
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue};
use super::{Bound, BoundedOperation, Output, reported};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{Expr, Interval, Operation};
use crate::policy::{Dictionary, Scalar};
use crate::refusal::Refusal;
use decode::CohortCounts;

/// The statistic as the query writes it.
pub(super) struct UnboundedDictionary<'o> {
    /// The column of filters.
    pub report: &'o Expr,
    pub of: &'o Arc<Dictionary>,
}

/// A count of reports, and one of each bit. The release has only rows with a report.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedDictionary {
    report: Expr,
    of: Arc<Dictionary>,
}

impl<'o> Unbounded<'o> for UnboundedDictionary<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        if !bounds.is_read_once(self.report) {
            return Err(reported::may_repeat());
        }
        Ok(BoundedOperation::Dictionary(BoundedDictionary {
            report: self.report.clone(),
            of: Arc::clone(self.of),
        })
        .into())
    }

    fn sql(&self, _calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        Err(reported::within_unit())
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
        Err(reported::within_unit())
    }
}

impl BoundedDictionary {
    /// Whether each bit of a report is set.
    fn bits(&self) -> Vec<Expr> {
        let number = |number: u32| Expr::literal(Some(Scalar::Int(number.into())), Type::Int4);
        let all = self.of.rappor.bits;
        let bit = |place: u32| {
            let arguments = vec![self.report.clone(), number(place), number(all)];
            Expr::call(Function::ReportBit, arguments, Type::Bool)
        };
        (0..all).map(bit).collect()
    }

    /// Its value where no row is asked: no value of the list is shown.
    pub(super) fn over_no_rows(&self) -> Output {
        Output::Dictionary(DictionaryOutput {
            of: Arc::clone(&self.of),
            counts: None,
        })
    }
}

impl Bounded for BoundedDictionary {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(vec![&self.report])
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        None
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfAllRows
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Presence
    }

    fn lay_out(&self, _filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        Ok(Output::Dictionary(DictionaryOutput {
            of: Arc::clone(&self.of),
            counts: Some(layout.bits(&self.bits())),
        }))
    }
}

/// The number of true values that is shown for each value of the list that some have.
///
/// # Guarantee
/// Post-processing of released counts: it costs nothing more.
///
/// # Requires
/// Reports were made with the declared odds, independently of each other. Each counts once.
///
/// # Reference
/// Erlingsson, Pihur, Korolova 2014, section 4.
#[derive(Debug, Clone, PartialEq)]
pub struct DictionaryOutput {
    of: Arc<Dictionary>,
    /// `None` where no row can be.
    counts: Option<BitMeasures>,
}

impl DictionaryOutput {
    pub fn dictionary(&self) -> &Arc<Dictionary> {
        &self.of
    }

    /// The released counts of one cohort. `None` where one is not known.
    pub fn cohort(&self, number: u32, group: &dyn Group) -> Option<CohortCounts> {
        let bits = self.counts.as_ref()?;
        let reports = group.part(bits.rows)?;
        let channel = self.of.rappor.channel();
        let cell = |bit: &MeasureId| {
            let counted = group.part(*bit)?;
            let set = match bits.is_centred {
                true => counted.plus(0.5 - channel.miss(), &reports, 1.0),
                false => counted.plus(-channel.miss(), &reports, 1.0),
            };
            Some(set.scale(1.0 / channel.gain()))
        };
        let cells = bits.bits.iter().map(cell).collect::<Option<Vec<_>>>()?;
        let variance = cells.iter().map(|cell| cell.error().powi(2)).sum::<f64>();
        Some(CohortCounts {
            number,
            reports: reports.value.max(0.0),
            noise: variance / cells.len().max(1) as f64,
            cells: cells.iter().map(|cell| cell.value).collect(),
        })
    }
}

impl OutputValue for DictionaryOutput {
    fn name(&self) -> &'static str {
        "counts decoded from reports"
    }

    fn measures(&self) -> Vec<MeasureId> {
        let Some(bits) = &self.counts else {
            return Vec::new();
        };
        [&[bits.rows], bits.bits.as_slice()].concat()
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::FromAnswer
    }

    fn sql(&self, columns: &dyn Columns) -> ast::Expr {
        columns.fitted_value()
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn divisor(&self) -> Option<Divisor> {
        None
    }

    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        group.decoded_value()
    }

    /// The number of one value that all have, evenly in all cohorts.
    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        let bits = self.counts.as_ref()?;
        let (rows, channel) = (best.rows(), self.of.rappor.channel());
        let counted = best.noise(*bits.bits.first()?)?;
        let centre = if bits.is_centred { 0.5 } else { 0.0 };
        let more = plus(&counted, centre - channel.miss(), &best.noise(bits.rows)?);
        let cell = dot(&more, &more) / channel.gain().powi(2);
        let of_reports = [0.0, rows].map(|with| channel.variance(rows, with));
        let noise = cell * f64::from(self.of.rappor.cohorts);
        let whole = noise + of_reports[0].min(of_reports[1]);
        let error = best.z() * (whole / f64::from(self.of.rappor.hashes)).sqrt();
        Some(total_of(error, "count", (0.0, rows)))
    }

    fn estimator(&self) -> Option<String> {
        let channel = self.of.rappor.channel();
        Some(format!(
            "least squares, over {} listed values and all cohorts, of (set bits - reports × {}) / \
                {}",
            self.of.values.len(),
            three_digits(channel.miss()),
            three_digits(channel.gain())
        ))
    }
}
