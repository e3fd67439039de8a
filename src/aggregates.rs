//! Aggregates, a file each: its names and types, its bounds, its coordinates or choice, its value
//! from released measures, its error, and its words.
//!
//! | a file says | by | for |
//! |---|---|---|
//! | its names, arguments and PostgreSQL's result type | `NAMES`, over [`call::Call`] | `resolve` |
//! | what bounds it | `Unbounded…`, over [`Bounds`] | `analyze` |
//! | what it is over the rows of one unit | `Unbounded…`, over [`Calls`] | `resolve` to `rewrite` |
//! | which measures or choice it takes | `Bounded…`, over [`Layout`] | `rewrite` |
//! | its value, as PostgreSQL computes it | `…Output`, over [`Columns`] | `finish` |
//! | its standard error and interval | `…Output`, over [`Group`] | `finish` |
//! | its error before it is drawn | `…Output`, as [`Foreseen`] | `rewrite`, `engine` |
//! | whether noise leaves anything of it | `…Output`, over [`BestCase`] | `rewrite` |
//! | its name in words | `…Output` | `engine` |
//!
//! The stages see [`BoundedOperation`], [`Output`] and the traits alone: they never ask which
//! aggregate it is. What a stage offers to an aggregate is a trait, so that imports point one way.
//! The table below registers an aggregate: its names, its operations, what they become once they
//! are bounded, and its value if no other aggregate has the same.
//!
//! Aggregates that are arithmetic over others, such as `pgveil.geomean`, are no files: they are
//! written out in [`crate::parse`].

mod arithmetic;
pub mod average;
mod best_case;
pub mod bool_and_or;
pub mod bounded;
pub mod call;
mod choice_id;
pub mod choice_value;
pub mod count;
mod dictionary;
mod distinct_count;
pub mod distinct_moment;
mod draw_id;
mod empty_input;
pub mod estimate;
mod field_value;
mod logistic;
mod measure_id;
mod mode;
mod model;
mod moments;
mod names;
mod operation;
mod order_statistics;
pub mod pair_statistics;
mod principal_components;
mod record;
mod regression;
mod released_column;
mod reported;
pub mod single_measure;
mod sum;
mod symmetric_matrix;
mod unbounded;
mod value;
pub mod variance;

use sqlparser::ast;

pub use best_case::{
    BestCase, DistinctNoise, Expected, PART, rounded_text, three_digits, total_of,
};
use bounded::Bounded;
pub use bounded::{
    BitMeasures, Bounds, Centred, Counts, Layout, PairLimits, Pairs, Ranks, Summand, TextRead,
};
pub use choice_id::ChoiceId;
pub use dictionary::DictionaryOutput;
pub use dictionary::decode::{CohortCounts, Decoded, DecodedValue, decode};
pub use draw_id::DrawId;
pub use estimate::Estimate;
pub use field_value::FieldValue;
pub use logistic::newton::{
    COEFFICIENTS as NEWTON_COEFFICIENTS, STEP as NEWTON_STEP, STEPS as NEWTON_STEPS,
};
pub use measure_id::MeasureId;
pub use model::{Fit, FitCaution, Model};
pub use moments::Noisy;
use names::AggregateName;
pub use names::{Counted, call as resolve_call, is_aggregate, what_is_counted};
pub use pair_statistics::JointStatistic;
pub use record::within_unit;
pub use released_column::ReleasedColumn;
pub use reported::count_from_reports;
pub use single_measure::CountOrSum;
use unbounded::Unbounded;
pub use unbounded::{Calls, Clamped, ComparisonKind, Facts, Ties};
use value::OutputValue;
pub use value::{Columns, DistinctValues, Foreseen, Group};
pub use variance::Dispersion;

use crate::catalog::Type;
use crate::ir::{Expr, Interval, Operation};
use crate::policy::RecordField;
use crate::refusal::Refusal;

/// Makes of the table of aggregates what the stages see: [`BoundedOperation`], [`Output`], the
/// names, and what each [`Operation`] is in its file.
macro_rules! aggregates {
    (
        aggregates {
            $(
                $(#[$about:meta])*
                $name:ident {
                    $(names: $names:expr,)?
                    operations: { $($operation:pat => $unbounded:expr,)* },
                    bounded: $file:ident::$bounded:ident,
                    $(output: $output_file:ident::$output:ident,)?
                }
            )*
        }
        outputs of several {
            $($(#[$shared_about:meta])* $shared:ident: $shared_file:ident::$shared_output:ident,)*
        }
    ) => {
        /// An aggregate with what its argument's values are clipped to.
        #[derive(Debug, Clone, PartialEq)]
        pub enum BoundedOperation {
            $($(#[$about])* $name($file::$bounded),)*
        }

        impl BoundedOperation {
            fn of(&self) -> &dyn Bounded {
                match self {
                    $(Self::$name(of) => of,)*
                }
            }
        }

        /// The value that is shown, in terms of measures and choices.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Output {
            $($($name($output_file::$output),)?)*
            $($(#[$shared_about])* $shared($shared_file::$shared_output),)*
        }

        impl Output {
            fn of(&self) -> &dyn OutputValue {
                match self {
                    $($(Self::$name(of) => {
                        let of: &$output_file::$output = of;
                        of
                    })?)*
                    $(Self::$shared(of) => of,)*
                }
            }
        }

        impl Operation {
            /// What its file says of it. This is the only match on operations outside `ir`.
            fn as_unbounded(&self) -> Box<dyn Unbounded<'_> + '_> {
                match self {
                    $($($operation => Box::new($unbounded),)*)*
                }
            }
        }

        /// The names that each file answers to.
        static NAMES: &[&[AggregateName]] = &[$($($names,)?)*];
    };
}

aggregates! {
    aggregates {
        /// Rows, values that are not NULL, or units.
        Count {
            names: count::NAMES,
            operations: {
                Operation::CountRows => count::UnboundedCount(None),
                Operation::Count(value) => count::UnboundedCount(Some(value)),
            },
            bounded: count::BoundedCount,
        }
        Sum {
            names: sum::NAMES,
            operations: { Operation::Sum(value) => sum::UnboundedSum(value), },
            bounded: sum::BoundedSum,
        }
        Average {
            names: average::NAMES,
            operations: { Operation::Average(value) => average::UnboundedAverage(value), },
            bounded: average::BoundedAverage,
            output: average::AverageOutput,
        }
        /// Variances, standard deviations, sums of squares.
        Variance {
            names: variance::NAMES,
            operations: {
                Operation::Variance { value, kind } => {
                    variance::UnboundedVariance { value, kind: *kind }
                },
            },
            bounded: variance::BoundedVariance,
            output: variance::VarianceOutput,
        }
        /// Statistics of pairs.
        PairStatistic {
            names: pair_statistics::NAMES,
            operations: {
                Operation::PairStatistic { y, x, kind } => {
                    pair_statistics::UnboundedPairStatistic { y, x, kind: *kind }
                },
            },
            bounded: pair_statistics::BoundedPairStatistic,
            output: pair_statistics::PairStatisticOutput,
        }
        Regression {
            names: regression::NAMES,
            operations: {
                Operation::Regression { y, features, l1, field } => {
                    regression::UnboundedRegression { y, features, l1: *l1, field }
                },
            },
            bounded: regression::BoundedRegression,
        }
        /// A step of a logistic regression.
        Newton {
            names: logistic::NAMES,
            operations: {
                Operation::Newton { y, features, at, step, field } => {
                    logistic::UnboundedStep { y, features, at, step: *step, field }
                },
            },
            bounded: logistic::BoundedStep,
        }
        /// Principal components.
        Components {
            names: principal_components::NAMES,
            operations: {
                Operation::Components { values, shown, field } => {
                    principal_components::UnboundedComponents { values, shown: *shown, field }
                },
            },
            bounded: principal_components::BoundedComponents,
        }
        /// Counts, sums and means from reports of randomised values.
        Report {
            operations: {
                Operation::Report { report, reports, counted, statistic } => {
                    reported::UnboundedReport { report, reports, counted, statistic }
                },
            },
            bounded: reported::BoundedReport,
            output: reported::ReportOutput,
        }
        /// Counts of listed values, from reports that are filters of them.
        Dictionary {
            operations: {
                Operation::Dictionary { report, of } => {
                    dictionary::UnboundedDictionary { report, of }
                },
            },
            bounded: dictionary::BoundedDictionary,
            output: dictionary::DictionaryOutput,
        }
        /// BOOL_AND and BOOL_OR.
        BoolAndOr {
            names: bool_and_or::NAMES,
            operations: {
                Operation::BoolAndOr { value, of } => {
                    bool_and_or::UnboundedBool { value, of: *of }
                },
            },
            bounded: bool_and_or::BoundedBool,
            output: bool_and_or::BoolOutput,
        }
        /// The number of distinct values.
        DistinctCount {
            operations: {
                Operation::Distinct(values) => distinct_count::UnboundedDistinctCount(values),
            },
            bounded: distinct_count::BoundedDistinctCount,
        }
        /// The sum, the mean or the spread of distinct values.
        DistinctMoment {
            operations: {
                Operation::DistinctMoment { value, moment } => {
                    distinct_moment::UnboundedDistinctMoment { value, moment: *moment }
                },
            },
            bounded: distinct_moment::BoundedDistinctMoment,
            output: distinct_moment::DistinctMomentOutput,
        }
        /// MIN, MAX and percentiles.
        OrderStatistic {
            names: order_statistics::NAMES,
            operations: {
                Operation::Extreme { value, end } => {
                    order_statistics::UnboundedExtreme { value, end: *end }
                },
                Operation::Quantile { value, fractions, continuous, descending } => {
                    order_statistics::UnboundedQuantile {
                        value,
                        fractions,
                        continuous: *continuous,
                        descending: *descending,
                    }
                },
            },
            bounded: order_statistics::BoundedOrderStatistic,
        }
        Mode {
            names: mode::NAMES,
            operations: {
                Operation::Mode { value, descending } => {
                    mode::UnboundedMode { value, descending: *descending }
                },
            },
            bounded: mode::BoundedMode,
        }
    }
    outputs of several {
        /// A count or a sum: one measure.
        SingleMeasure: single_measure::SingleMeasureOutput,
        /// A field of a record that is computed here.
        Record: record::RecordOutput,
        /// A number of distinct values, or values that a choice chooses.
        Choice: choice_value::ChoiceOutput,
        /// The value of the aggregate over no rows; it needs no release.
        EmptyInput: empty_input::EmptyInputOutput,
    }
}

/// A bounded operation, and the conditions that it implies: they become part of the filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    pub operation: BoundedOperation,
    pub conditions: Vec<Expr>,
}

impl From<BoundedOperation> for Bound {
    fn from(operation: BoundedOperation) -> Self {
        Self {
            operation,
            conditions: Vec::new(),
        }
    }
}

/// An aggregate over rows, with what its argument's values are clipped to.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedAggregate {
    pub filter: Option<Expr>,
    pub operation: BoundedOperation,
    pub data_type: Type,
}

impl BoundedOperation {
    /// Every expression that it reads, without the filter.
    pub fn arguments(&self) -> Vec<&Expr> {
        self.of().reads().values()
    }

    /// The range to which the values of its one argument are clipped, where they are summed.
    pub fn range(&self) -> Option<Interval> {
        self.of().reads().range()
    }

    /// Its value of no row, where there is no noise.
    pub fn value_over_no_rows(&self) -> Output {
        if let Self::Dictionary(of) = self {
            return of.over_no_rows();
        }
        Output::EmptyInput(empty_input::EmptyInputOutput(
            self.of().value_over_no_rows(),
        ))
    }

    /// Which numbers of rows it takes.
    pub fn counts(&self) -> Counts<'_> {
        self.of().counts()
    }

    /// How many parts of a statement's budget it gets, where it is one of the steps that have all
    /// parts together.
    pub fn parts(&self) -> Option<u32> {
        self.of().parts()
    }

    /// Expressions that many of its summands mention, to be computed once a row: first those of
    /// columns, then those that mention the ones before, and so on.
    pub fn computed_once(&self) -> &[Vec<Expr>] {
        self.of().computed_once()
    }

    /// The conditions of rows that it counts itself, where it counts others than those of its
    /// filter.
    pub fn own_filters(&self, filter: &Option<Expr>) -> Vec<Expr> {
        self.of().own_filters(filter)
    }

    /// How it reads a text.
    pub fn reads_text(&self) -> TextRead {
        self.of().reads_text()
    }

    /// Lays it out as coordinates of the vector, or asks a choice.
    ///
    /// # Errors
    /// 0A000 for a value whose range has no fixed-point grid.
    pub fn lay_out(
        &self,
        filter: &Option<Expr>,
        layout: &mut dyn Layout,
    ) -> Result<Output, Refusal> {
        self.of().lay_out(filter, layout)
    }
}

impl Output {
    /// Its name in EXPLAIN.
    pub fn name(&self) -> &'static str {
        self.of().name()
    }

    /// The measures that it is computed from.
    pub fn measures(&self) -> Vec<MeasureId> {
        self.of().measures()
    }

    /// Its error, as far as it is known before the draw.
    pub fn foreseen(&self) -> Foreseen<'_> {
        self.of().foreseen()
    }

    /// Its value over one row of measures, as SQL.
    pub fn sql(&self, columns: &dyn Columns) -> ast::Expr {
        self.of().sql(columns)
    }

    /// Whether noise may carry it past the ends of its type.
    pub fn is_unbounded(&self) -> bool {
        self.of().is_unbounded()
    }

    /// Whether the value is a quotient by a number of rows: NULL where they are too few.
    pub fn needs_rows(&self) -> bool {
        self.of().divisor().is_some()
    }

    /// The noisy number of rows, or of distinct values, that it is a quotient by.
    pub fn rows(&self, group: &dyn Group) -> Option<Estimate> {
        self.of().divisor()?.estimate(group)
    }

    /// Its value in one group, with its error; `None` where the error is not known.
    pub fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        self.of().estimate(group)
    }

    /// What the noise leaves of it in the best case.
    pub fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        self.of().best(best)
    }

    /// How it is computed from reports of values that were randomised before they were stored;
    /// `None` where it is no estimate from reports.
    pub fn estimator(&self) -> Option<String> {
        self.of().estimator()
    }

    /// Its standard error, where it is an estimate from reports, next to that of values that
    /// were not randomised. `noise`: the standard deviation of the noise in one count.
    pub fn error_from_reports(&self, noise: f64) -> Option<String> {
        self.of().error_from_reports(noise)
    }

    /// The model that it is a field of, where it is computed here and not by SQL.
    pub fn model_field(&self) -> Option<(&Model, &'static RecordField)> {
        self.of().model_field()
    }

    /// The values that are decoded from all groups together, where it is such a count.
    pub fn as_dictionary(&self) -> Option<&DictionaryOutput> {
        match self {
            Self::Dictionary(of) => Some(of),
            _ => None,
        }
    }

    /// The sums of a likelihood's gradient, where it is a step of a logistic regression.
    pub fn gradient(&self) -> Option<&[MeasureId]> {
        match self.of().model_field()?.0 {
            Model::Newton { sums, step: _ } => Some(&sums.gradient),
            Model::Regression { .. } | Model::Components { .. } => None,
        }
    }

    /// Whether the value is of a step of a logistic regression that another one follows.
    pub fn leads_on(&self) -> bool {
        let fitted = self.of().model_field().map(|(model, _)| model);
        matches!(fitted, Some(Model::Newton { sums: _, step }) if step.at + 1 < NEWTON_STEPS)
    }

    /// Says that the steps of a logistic regression share a pure epsilon, and not mu².
    pub fn share_epsilon(&mut self) {
        if let Self::Record(shown) = self {
            shown.share_epsilon();
        }
    }

    /// Whether the value is a count of rows, units or values of the vector.
    pub fn is_count(&self) -> bool {
        matches!(
            self,
            Self::SingleMeasure(single_measure::SingleMeasureOutput {
                measure: _,
                kind: CountOrSum::Count
            })
        )
    }
}
