//! Aggregates: the operation, its expressions, its filter, and PostgreSQL's result type.

use std::sync::Arc;

use super::expression::Expr;
use crate::catalog::Type;
use crate::mechanism::{Channel, OneBit};
use crate::policy::{Dictionary, RecordField, Scalar};
use crate::refusal::TextPosition;

/// The operation of an aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    CountRows,
    /// Rows where the expression is not NULL.
    Count(Expr),
    Distinct(Distinct),
    /// SUM(DISTINCT …) and the like: each value once.
    DistinctMoment {
        value: Expr,
        moment: Moment,
    },
    Sum(Expr),
    Average(Expr),
    Variance {
        value: Expr,
        kind: VarianceKind,
    },
    /// Over pairs where neither value is NULL; both are cast to float8.
    PairStatistic {
        y: Expr,
        x: Expr,
        kind: PairStatistic,
    },
    /// A field of a linear regression, over rows where no value is NULL; all are cast to float8.
    Regression {
        y: Expr,
        features: Vec<Expr>,
        /// The penalty on the sum of the coefficients' sizes; 0 for least squares alone.
        l1: f64,
        field: &'static RecordField,
    },
    /// A step of a logistic regression, over rows where no value is NULL. The features are cast to
    /// float8, and y is 0 or 1.
    Newton {
        y: Expr,
        features: Vec<Expr>,
        /// The coefficients that the steps before have found; none before the first step.
        at: Vec<Expr>,
        /// From 0.
        step: usize,
        field: &'static RecordField,
    },
    /// A field of the principal components of these values, over rows where no value is NULL; all
    /// are cast to float8.
    Components {
        values: Vec<Expr>,
        /// How many are shown.
        shown: usize,
        field: &'static RecordField,
    },
    /// What reports say of the true values: over rows with one of `reports`.
    Report {
        /// The column, whose values were randomised before they were stored.
        report: Expr,
        reports: Vec<Scalar>,
        /// Which of `reports` are counted.
        counted: Vec<Scalar>,
        statistic: ReportStatistic,
    },
    /// How many true values are each of a list, from reports that are filters of them.
    Dictionary {
        /// The column of filters.
        report: Expr,
        of: Arc<Dictionary>,
    },
    /// MIN and MAX.
    Extreme {
        value: Expr,
        end: End,
    },
    /// PERCENTILE_CONT and PERCENTILE_DISC.
    Quantile {
        value: Expr,
        fractions: Fractions,
        continuous: bool,
        descending: bool,
    },
    /// MODE() WITHIN GROUP: among equally frequent values, the first in this order.
    Mode {
        value: Expr,
        descending: bool,
    },
    /// BOOL_AND (EVERY) and BOOL_OR of a boolean.
    BoolAndOr {
        value: Expr,
        of: Quantifier,
    },
}

/// What is computed from counts of reports.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportStatistic {
    /// How many true values are among some.
    Count(Channel),
    /// The sum of true numbers, each of which was reported by one bit.
    Sum(OneBit),
    Average(OneBit),
}

/// Values that COUNT(DISTINCT …) distinguishes.
#[derive(Debug, Clone, PartialEq)]
pub enum Distinct {
    /// NULL is not counted.
    Value(Expr),
    /// `(a, b)`: counted even if it contains NULL.
    Row(Vec<Expr>),
}

impl Distinct {
    /// Each value.
    pub fn values(&self) -> &[Expr] {
        match self {
            Self::Value(value) => std::slice::from_ref(value),
            Self::Row(values) => values,
        }
    }
}

/// The statistic of distinct values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Sum,
    Mean,
    Spread(VarianceKind),
}

/// Variance or standard deviation, of the population or of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VarianceKind {
    VariancePopulation,
    VarianceSample,
    DeviationPopulation,
    DeviationSample,
}

/// Statistics of pairs (y, x).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairStatistic {
    CovariancePopulation,
    CovarianceSample,
    Correlation,
    Count,
    AverageX,
    AverageY,
    SquaresX,
    SquaresY,
    Products,
    Slope,
    Intercept,
    Determination,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    Least,
    Greatest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantifier {
    All,
    Any,
}

/// Which quantiles: one, or an array. Fractions are in millionths (rounded), counted from the start
/// of the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fractions {
    One(u32),
    Array(Vec<u32>),
}

/// Whole of a fraction.
pub(crate) const MILLIONTHS: u32 = 1_000_000;

impl Fractions {
    /// The fractions counted from the other end of the order.
    pub fn from_other_end(&self) -> Self {
        match self {
            Self::One(fraction) => Self::One(MILLIONTHS - fraction),
            Self::Array(fractions) => {
                Self::Array(fractions.iter().map(|f| MILLIONTHS - f).collect())
            }
        }
    }

    /// Each fraction, in millionths.
    pub fn all(&self) -> &[u32] {
        match self {
            Self::One(fraction) => std::slice::from_ref(fraction),
            Self::Array(fractions) => fractions,
        }
    }
}

impl Operation {
    /// Every expression that it reads, except the filter.
    pub fn arguments(&self) -> Vec<&Expr> {
        match self {
            Self::CountRows => Vec::new(),
            Self::Count(value) | Self::Sum(value) | Self::Average(value) => vec![value],
            Self::Mode {
                value,
                descending: _,
            }
            | Self::DistinctMoment { value, moment: _ } => vec![value],
            Self::Report {
                report,
                reports: _,
                counted: _,
                statistic: _,
            } => vec![report],
            Self::Dictionary { report, of: _ } => vec![report],
            Self::Distinct(values) => values.values().iter().collect(),
            Self::Variance { value, kind: _ }
            | Self::Extreme { value, end: _ }
            | Self::BoolAndOr { value, of: _ } => vec![value],
            Self::Quantile {
                value,
                fractions: _,
                continuous: _,
                descending: _,
            } => vec![value],
            Self::PairStatistic { y, x, kind: _ } => vec![y, x],
            Self::Regression {
                y,
                features,
                l1: _,
                field: _,
            } => std::iter::once(y).chain(features).collect(),
            Self::Newton {
                y,
                features,
                at,
                step: _,
                field: _,
            } => std::iter::once(y).chain(features).chain(at).collect(),
            Self::Components {
                values,
                shown: _,
                field: _,
            } => values.iter().collect(),
        }
    }

    /// The operation with each of its expressions replaced.
    ///
    /// # Errors
    /// Those of `map`.
    pub fn try_map<E>(self, map: &mut impl FnMut(Expr) -> Result<Expr, E>) -> Result<Self, E> {
        Ok(match self {
            Self::CountRows => Self::CountRows,
            Self::Count(value) => Self::Count(map(value)?),
            Self::Distinct(Distinct::Value(value)) => Self::Distinct(Distinct::Value(map(value)?)),
            Self::Distinct(Distinct::Row(values)) => {
                let values = values.into_iter().map(map).collect::<Result<_, E>>()?;
                Self::Distinct(Distinct::Row(values))
            }
            Self::DistinctMoment { value, moment } => Self::DistinctMoment {
                value: map(value)?,
                moment,
            },
            Self::Sum(value) => Self::Sum(map(value)?),
            Self::Average(value) => Self::Average(map(value)?),
            Self::Variance { value, kind } => Self::Variance {
                value: map(value)?,
                kind,
            },
            Self::PairStatistic { y, x, kind } => Self::PairStatistic {
                y: map(y)?,
                x: map(x)?,
                kind,
            },
            record @ (Self::Regression { .. } | Self::Newton { .. } | Self::Components { .. }) => {
                record.try_map_record(map)?
            }
            Self::Report {
                report,
                reports,
                counted,
                statistic,
            } => Self::Report {
                report: map(report)?,
                reports,
                counted,
                statistic,
            },
            Self::Dictionary { report, of } => Self::Dictionary {
                report: map(report)?,
                of,
            },
            Self::Extreme { value, end } => Self::Extreme {
                value: map(value)?,
                end,
            },
            Self::Quantile {
                value,
                fractions,
                continuous,
                descending,
            } => Self::Quantile {
                value: map(value)?,
                fractions,
                continuous,
                descending,
            },
            Self::Mode { value, descending } => Self::Mode {
                value: map(value)?,
                descending,
            },
            Self::BoolAndOr { value, of } => Self::BoolAndOr {
                value: map(value)?,
                of,
            },
        })
    }

    /// [`Self::try_map`] of an aggregate that gives a record.
    fn try_map_record<E>(self, map: &mut impl FnMut(Expr) -> Result<Expr, E>) -> Result<Self, E> {
        Ok(match self {
            Self::Regression {
                y,
                features,
                l1,
                field,
            } => Self::Regression {
                y: map(y)?,
                features: each(features, map)?,
                l1,
                field,
            },
            Self::Newton {
                y,
                features,
                at,
                step,
                field,
            } => Self::Newton {
                y: map(y)?,
                features: each(features, map)?,
                at: each(at, map)?,
                step,
                field,
            },
            Self::Components {
                values,
                shown,
                field,
            } => Self::Components {
                values: each(values, map)?,
                shown,
                field,
            },
            other => other,
        })
    }
}

fn each<E>(
    values: Vec<Expr>,
    map: &mut impl FnMut(Expr) -> Result<Expr, E>,
) -> Result<Vec<Expr>, E> {
    values.into_iter().map(map).collect()
}

/// One aggregate of a release, with its FILTER.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    pub operation: Operation,
    pub filter: Option<Expr>,
    /// PostgreSQL's result type.
    pub data_type: Type,
    pub place: TextPosition,
}

impl Aggregate {
    /// Every expression that it reads, including its FILTER.
    pub fn reads(&self) -> Vec<&Expr> {
        let Self {
            operation,
            filter,
            data_type: _,
            place: _,
        } = self;
        operation.arguments().into_iter().chain(filter).collect()
    }
}
