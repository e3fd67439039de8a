//! The interface between an aggregate's value and the stages.

use sqlparser::ast;

use super::best_case::{BestCase, Expected};
use super::choice_id::ChoiceId;
use super::draw_id::DrawId;
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::model::Model;
use super::released_column::ReleasedColumn;
use crate::ir::Interval;
use crate::policy::RecordField;

/// The released value of an aggregate.
pub trait OutputValue {
    /// Its name in EXPLAIN.
    fn name(&self) -> &'static str;

    /// The measures that it is computed from.
    fn measures(&self) -> Vec<MeasureId>;

    /// Its error, as far as it is known before the draw.
    fn foreseen(&self) -> Foreseen<'_>;

    /// Its value over one row of measures, in PostgreSQL's own arithmetic. Whatever the noise made
    /// of a measure, there is a value or NULL, never an error.
    fn sql(&self, columns: &dyn Columns) -> ast::Expr;

    /// Whether noise may carry it past the ends of its type.
    fn is_unbounded(&self) -> bool;

    /// The divisor of a quotient, which is NULL where the divisor is too small. `None` for other
    /// values.
    fn divisor(&self) -> Option<Divisor>;

    /// Its value in one group, with its error; `None` where the error is not known.
    fn estimate(&self, group: &dyn Group) -> Option<Estimate>;

    /// What the noise leaves of it in the best case.
    fn best(&self, best: &dyn BestCase) -> Option<Expected>;

    /// How it is computed from reports of values that were randomised before they were stored;
    /// `None` where it is no estimate from reports.
    fn estimator(&self) -> Option<String> {
        None
    }

    /// The standard error of an estimate from reports: that of the reports, and next to it what it
    /// would be of values that were not randomised. `noise`: the standard deviation of the noise in
    /// one count. `None` where it is no estimate from reports.
    fn error_from_reports(&self, _noise: f64) -> Option<String> {
        None
    }

    /// The model that it is a field of, where it is computed here and not by SQL.
    fn model_field(&self) -> Option<(&Model, &'static RecordField)> {
        None
    }
}

/// A noisy number that something is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divisor {
    /// A measure: the number of rows.
    Rows(MeasureId),
    /// The number of distinct values that a choice counts.
    DistinctValues(ChoiceId),
}

impl Divisor {
    pub(super) fn estimate(self, group: &dyn Group) -> Option<Estimate> {
        match self {
            Self::Rows(measure) => group.part(measure),
            Self::DistinctValues(choice) => group.distinct_count(choice),
        }
    }
}

/// An aggregate's error, as far as it is known before the draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Foreseen<'a> {
    /// The noise of one measure.
    Measure(MeasureId),
    /// Half of the range times the noise of the number of rows, over that number.
    OverRows {
        sum: MeasureId,
        count: MeasureId,
        range: Interval,
    },
    /// The error follows from the released counts and sums.
    FromAnswer,
    /// The answer has the error, in separate fields.
    Fitted,
    /// True or false: whether it is wrong is a matter of chance.
    Chance,
    /// The noise of a choice's count and sum of distinct values.
    DistinctValues { choice: ChoiceId },
    /// The noise of what a choice counts, or the ranks of what it draws.
    Choice {
        choice: ChoiceId,
        draws: &'a [DrawId],
        is_array: bool,
    },
    /// The value has no error.
    Exact,
}

/// The columns of released measures, as SQL sees them.
pub trait Columns {
    /// The standard deviation of a measure's noise.
    fn deviation(&self, measure: MeasureId) -> f64;

    /// The first column of a choice.
    fn first_of(&self, choice: ChoiceId) -> ReleasedColumn;

    /// The column of a value that is computed here.
    fn fitted_value(&self) -> ast::Expr;
}

/// The released measures of one group, with their noise.
pub trait Group {
    /// How many standard errors an interval reaches to each side.
    fn z(&self) -> f64;

    /// A count or sum that is shown itself.
    fn total(&self, measure: MeasureId) -> Option<Estimate>;

    /// A count or sum that something is computed from.
    fn part(&self, measure: MeasureId) -> Option<Estimate>;

    /// A sum or a number of rows, of which a mean is computed: units that the look does not show
    /// add to both.
    fn of_mean(&self, measure: MeasureId) -> Option<Estimate>;

    /// A sum of these rows' values, each as its distance from the value that the sum is counted
    /// from, of which a mean is computed.
    fn distances(&self, sum: MeasureId, rows: MeasureId) -> Option<Estimate>;

    /// The value that a sum's distances are counted from.
    fn centre(&self, sum: MeasureId) -> Option<f64>;

    /// The noisy number of distinct values that a choice counts.
    fn distinct_count(&self, choice: ChoiceId) -> Option<Estimate>;

    /// A choice's facts about its distinct values.
    fn distinct_values(&self, choice: ChoiceId) -> Option<DistinctValues>;

    /// The value that this group stands for, where it is decoded from all groups of the release.
    fn decoded_value(&self) -> Option<Estimate>;

    /// A value that a choice draws.
    fn drawn_value(&self, choice: ChoiceId, draw: DrawId) -> Option<Estimate>;
}

/// The noisy count, sum and squares of distinct values.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctValues {
    pub count: Estimate,
    pub sum: Estimate,
    /// The sum of squared distances from the centre, where squares are asked for.
    pub squares: Option<Estimate>,
    /// The middle of `ends`.
    pub centre: f64,
    pub ends: Interval,
}

/// The least rows of a sample that has a spread. The error of fewer is not known, only bounds.
pub(super) const ROWS_OF_SAMPLE: f64 = 2.0;

pub(super) fn half(range: Interval) -> f64 {
    (range.hi - range.lo) / 2.0
}

pub(super) fn middle(range: Interval) -> f64 {
    range.lo + half(range)
}
