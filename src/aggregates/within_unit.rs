//! What an operation is over the rows of one unit, where no noise is added: GROUP BY, windows and
//! subqueries within a unit.

use crate::ir::{Distinct, Expr, Interval, Moment, Operation, Paired, VarianceKind};

/// What its results are clamped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clamped {
    /// A number of rows.
    Rows,
    /// What the most rows of a unit can add up to.
    Sums,
    /// It lies where its values do.
    Values,
}

impl Operation {
    /// PERCENTILE and MODE: an order of its own, and no window.
    pub fn is_ordered_set(&self) -> bool {
        matches!(self, Self::Quantile { .. } | Self::Mode { .. })
    }

    /// Whether it is a number of rows or values: 0 of no row.
    pub fn is_count(&self) -> bool {
        self.clamped() == Clamped::Rows
            || matches!(
                self,
                Self::Paired {
                    kind: Paired::Count,
                    ..
                }
            )
    }

    /// Whether a row in which one of its arguments is NULL adds nothing.
    pub fn skips_nulls(&self) -> bool {
        !matches!(self, Self::CountRows | Self::Distinct(Distinct::Row(_)))
    }

    /// What its results are clamped to.
    pub fn clamped(&self) -> Clamped {
        match self {
            Self::CountRows | Self::Count(_) | Self::Distinct(_) => Clamped::Rows,
            Self::Sum(_) | Self::Unlike { .. } => Clamped::Sums,
            Self::Paired { y: _, x: _, kind } => match kind {
                Paired::SquaresX | Paired::SquaresY | Paired::Products => Clamped::Sums,
                Paired::Slope | Paired::Intercept => Clamped::Sums,
                Paired::Count | Paired::AverageX | Paired::AverageY => Clamped::Values,
                Paired::CovariancePopulation | Paired::CovarianceSample => Clamped::Values,
                Paired::Correlation | Paired::Determination => Clamped::Values,
            },
            Self::Average(_) | Self::Variance { .. } | Self::Extreme { .. } => Clamped::Values,
            Self::Quantile { .. } | Self::Mode { .. } | Self::Truth { .. } => Clamped::Values,
        }
    }

    /// Where its results lie over the at most `rows` rows of one unit, whose values lie where
    /// `of` says.
    ///
    /// # Guarantee
    /// It chooses clips only: each result is clamped to it where it is added up.
    pub fn range_within_unit(
        &self,
        rows: f64,
        is_filtered: bool,
        of: &dyn Fn(&Expr) -> Interval,
    ) -> Interval {
        match self {
            // A group without rows does not exist.
            Self::CountRows if !is_filtered => Interval::new(1.0, rows),
            Self::CountRows | Self::Count(_) | Self::Distinct(_) => Interval::new(0.0, rows),
            Self::Sum(value)
            | Self::Unlike {
                value,
                moment: Moment::Sum,
            } => sum_of(of(value), rows),
            Self::Average(value)
            | Self::Unlike {
                value,
                moment: Moment::Mean,
            }
            | Self::Extreme { value, end: _ } => of(value),
            Self::Quantile { value, .. }
            | Self::Mode {
                value,
                descending: _,
            } => of(value),
            Self::Variance { value, kind }
            | Self::Unlike {
                value,
                moment: Moment::Spread(kind),
            } => {
                let variance = Interval::new(0.0, most_variance(of(value)));
                match kind {
                    VarianceKind::VariancePopulation => variance,
                    // n / (n - 1) of it, from two rows on.
                    VarianceKind::VarianceSample => Interval::new(0.0, 2.0 * variance.hi),
                    VarianceKind::DeviationPopulation => Interval::new(0.0, variance.hi.sqrt()),
                    VarianceKind::DeviationSample => Interval::new(0.0, (2.0 * variance.hi).sqrt()),
                }
            }
            Self::Paired { y, x, kind } => paired(of(y), of(x), rows, *kind),
            Self::Truth { .. } => Interval::ALL,
        }
    }
}

fn sum_of(one: Interval, rows: f64) -> Interval {
    Interval::new(
        if one.lo < 0.0 { one.lo * rows } else { one.lo },
        if one.hi > 0.0 { one.hi * rows } else { one.hi },
    )
}

/// Values within an interval have at most this variance: a quarter of its width squared (Popoviciu
/// 1935).
fn most_variance(one: Interval) -> f64 {
    let spread = one.hi - one.lo;
    spread * spread / 4.0
}

/// Where a statistic of pairs lies; a slope may be anything.
fn paired(y: Interval, x: Interval, rows: f64, kind: Paired) -> Interval {
    // |cov(y, x)|^2 <= var(y) var(x).
    let most = (most_variance(y) * most_variance(x)).sqrt();
    // Nothing is known of a product of none with anything.
    let most = if most.is_nan() { f64::INFINITY } else { most };
    match kind {
        Paired::CovariancePopulation => Interval::new(-most, most),
        Paired::CovarianceSample => Interval::new(-2.0 * most, 2.0 * most),
        Paired::Correlation => Interval::new(-1.0, 1.0),
        Paired::Determination => Interval::new(0.0, 1.0),
        Paired::Count => Interval::new(0.0, rows),
        Paired::AverageX => x,
        Paired::AverageY => y,
        Paired::SquaresX => Interval::new(0.0, rows * most_variance(x)),
        Paired::SquaresY => Interval::new(0.0, rows * most_variance(y)),
        Paired::Products => Interval::new(-rows * most, rows * most),
        Paired::Slope | Paired::Intercept => Interval::ALL,
    }
}
