//! SUM, AVG, VARIANCE and STDDEV of DISTINCT values.

use sqlparser::ast;

use super::Output;
use super::arithmetic::measure;
use super::average::mean;
use super::best_case::{
    BestCase, DistinctNoise, Expected, bounded, few, half_of_quotient, total_of,
};
use super::bounded::{Bounded, Bounds, Centred, Counts, Layout, PairLimits, TextRead};
use super::dispersion::{Dispersion, about_mean, about_means, spread};
use super::estimate::Estimate;
use super::value::{Columns, DistinctValues, Foreseen, Group, Value, half};
use crate::ir::{Distinct, Expr, Interval, Moment};
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// Columns of a choice's distinct values, after their count.
pub const SUM: usize = 1;
pub const CENTRED: usize = 2;
pub const SQUARES: usize = 3;

/// Whose moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub value: Expr,
    pub range: Interval,
    pub per_unit_max: PairLimits,
    pub moment: Moment,
}

pub(super) fn bound(value: &Expr, moment: Moment, bounds: &dyn Bounds) -> Result<Asked, Refusal> {
    let name = match moment {
        Moment::Sum => "SUM(DISTINCT …)",
        Moment::Mean => "AVG(DISTINCT …)",
        Moment::Spread(_) => "VARIANCE or STDDEV(DISTINCT …)",
    };
    let per_unit_max = bounds.pair_limits(&Distinct::Value(value.clone()), name)?;
    Ok(Asked {
        value: value.clone(),
        range: bounds.finite(value, name)?,
        per_unit_max,
        moment,
    })
}

impl Bounded for Asked {
    fn arguments(&self) -> Vec<&Expr> {
        vec![&self.value]
    }

    fn of_no_row(&self) -> Option<Scalar> {
        match self.moment {
            Moment::Sum => Some(Scalar::Int(0)),
            Moment::Mean | Moment::Spread(_) => None,
        }
    }

    fn counts(&self) -> Counts<'_> {
        Counts::Nothing
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let with_squares = matches!(self.moment, Moment::Spread(_));
        let value = (&self.value, self.range);
        let (choice, range) =
            layout.distinct_sum(value, self.per_unit_max, filter, with_squares)?;
        Ok(Output::Distinct(Shown {
            choice,
            range,
            moment: self.moment,
        }))
    }
}

/// The value that is shown: of a choice's distinct values, which lie within the range.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub choice: usize,
    pub range: Interval,
    pub moment: Moment,
}

impl Value for Shown {
    fn name(&self) -> &'static str {
        "distinct values"
    }

    fn measures(&self) -> Vec<usize> {
        Vec::new()
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::DistinctValues {
            choice: self.choice,
        }
    }

    fn sql(&self, columns: &dyn Columns) -> ast::Expr {
        let first = columns.first_of(self.choice);
        match self.moment {
            Moment::Sum => measure(first + SUM),
            Moment::Mean => mean(measure(first + SUM), measure(first), self.range),
            Moment::Spread(kind) => {
                let value = Centred {
                    sum: first + CENTRED,
                    squares: first + SQUARES,
                    range: self.range,
                };
                about_mean(measure(first), value, Dispersion::Spread(kind))
            }
        }
    }

    fn is_unbounded(&self) -> bool {
        matches!(self.moment, Moment::Sum)
    }

    fn needs_rows(&self) -> bool {
        !matches!(self.moment, Moment::Sum)
    }

    fn rows(&self, group: &dyn Group) -> Option<Estimate> {
        match self.moment {
            Moment::Mean | Moment::Spread(_) => group.distinct_count(self.choice),
            Moment::Sum => None,
        }
    }

    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        let DistinctValues {
            count,
            sum,
            squares,
            centre,
            ends,
        } = group.distinct_values(self.choice)?;
        let z = group.z();
        let apart = sum.plus(-centre, &count, z);
        match self.moment {
            Moment::Sum => Some(sum),
            Moment::Mean => Some(
                apart
                    .over(&count, z)?
                    .shifted(centre)
                    .within(self.range.lo, self.range.hi),
            ),
            Moment::Spread(kind) => {
                let most = half(ends).powi(2);
                let variance =
                    about_means(&count, &squares?, (&apart, &apart), z)?.within(0.0, most);
                let kind = Dispersion::Spread(kind);
                Some(spread(&count, variance, most, kind, z))
            }
        }
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        let DistinctNoise {
            count,
            apart,
            centre,
            most,
            z,
        } = best.distinct(self.choice)?;
        let range = self.range;
        match self.moment {
            Moment::Sum => {
                let error = z * apart.hypot(count * centre);
                let (least, greatest) = (range.lo.min(0.0) * most, range.hi.max(0.0) * most);
                Some(total_of(error, "sum", (least, greatest)))
            }
            Moment::Mean | Moment::Spread(_) => {
                if let Some(few) = few(&[count], most, z) {
                    return Some(few);
                }
                let error = half_of_quotient(&[apart, 0.0], &[0.0, count], most, z);
                match self.moment {
                    Moment::Mean => Some(bounded(error, "an average", range)),
                    Moment::Sum | Moment::Spread(_) => None,
                }
            }
        }
    }
}
