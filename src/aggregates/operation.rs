//! From the call to what is bounded: each operation names its file here.

use super::bounded::{Bounds, Ranks, exact};
use super::dispersion::Dispersion;
use super::{
    Bound, BoundedOperation, average, count, dispersion, distinct_count, distinct_moment, joint,
    mode, ranked, sum, truth,
};
use crate::ir::{Fractions, Operation};
use crate::refusal::Refusal;

/// Bounds an operation.
///
/// # Guarantee
/// The range that is kept is a clip for every row's argument, whatever the row holds: it decides
/// accuracy and noise, never whether there is a clip. Conditions that the operation implies
/// (complete pairs, rows that are false or true) are returned with it.
///
/// # Requires
/// `bounds.range` is where the values lie as far as is known; it need not hold for every row.
///
/// # Errors
/// 0A000 where no range is known, or where the aggregate has no sound answer.
pub fn bound(operation: &Operation, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
    use BoundedOperation as B;
    Ok(match operation {
        Operation::CountRows => B::Count(count::Asked::Rows).into(),
        Operation::Count(value) => B::Count(count::bound(value, bounds)).into(),
        Operation::Distinct(values) => distinct_count::bound(values, bounds)?,
        Operation::Sum(value) => B::Sum(sum::Asked(bounds.summand(value, "SUM")?)).into(),
        Operation::Average(value) => {
            B::Average(average::Asked(bounds.summand(value, "AVG")?)).into()
        }
        Operation::Unlike { value, moment } => {
            B::DistinctMoment(distinct_moment::bound(value, *moment, bounds)?).into()
        }
        Operation::Variance { value, kind } => B::Dispersion(dispersion::Asked {
            summand: bounds.summand(value, "VARIANCE or STDDEV")?,
            kind: Dispersion::Spread(*kind),
        })
        .into(),
        Operation::Paired { y, x, kind } => joint::bound(y, x, *kind, bounds)?,
        Operation::Truth { value, of } => truth::bound(value, *of),
        Operation::Extreme { value, end } => B::Ranked(ranked::bound(
            value,
            Ranks::End(*end),
            "MIN or MAX",
            bounds,
        )?)
        .into(),
        Operation::Quantile {
            value,
            fractions,
            continuous,
            descending,
        } => {
            let ranks = Ranks::Fractions(ordered(fractions, *descending));
            B::Ranked(if *continuous {
                ranked::bound(exact(value), ranks, "PERCENTILE_CONT", bounds)?
            } else {
                ranked::bound(value, ranks, "PERCENTILE_DISC", bounds)?
            })
            .into()
        }
        Operation::Mode {
            value,
            descending: _,
        } => B::Mode(mode::bound(value, bounds)?).into(),
    })
}

fn ordered(fractions: &Fractions, descending: bool) -> Fractions {
    if descending {
        fractions.turned()
    } else {
        fractions.clone()
    }
}
