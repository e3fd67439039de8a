//! Names of aggregates: the file of each, and the file of its DISTINCT form.

use super::call::{Call, Resolved, form};
use super::{
    average, bool_and_or, count, distinct_count, logistic, mode, order_statistics, pair_statistics,
    principal_components, regression, sum, variance,
};
use crate::ir::{End, Moment, Operation, PairStatistic, Quantifier, VarianceKind as V};
use crate::refusal::{Refusal, reason};

/// One name.
struct Named {
    name: &'static str,
    call: fn(&dyn Call) -> Resolved,
    distinct: OfDistinct,
    takes_order: bool,
    counts: Option<Counted>,
}

/// What a count counts. Over no row it is 0, while other aggregates are NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Rows, or values of one argument that are not NULL.
    Rows,
    /// Pairs of values that are not NULL.
    Pairs,
}

/// The aggregate that another one becomes with DISTINCT.
enum OfDistinct {
    /// Another aggregate.
    Other(fn(&dyn Call) -> Resolved),
    /// A moment of distinct values; its type is that of the aggregate.
    Moment(Moment),
    /// The same aggregate.
    Same,
    Refused,
    /// Not offered. Wrong arguments are reported first.
    Unknown,
}

const fn plain(name: &'static str, call: fn(&dyn Call) -> Resolved, distinct: OfDistinct) -> Named {
    Named {
        name,
        call,
        distinct,
        takes_order: false,
        counts: None,
    }
}

const fn counting(counts: Counted, named: Named) -> Named {
    Named {
        counts: Some(counts),
        ..named
    }
}

const fn spread(name: &'static str, call: fn(&dyn Call) -> Resolved, kind: V) -> Named {
    plain(name, call, OfDistinct::Moment(Moment::Spread(kind)))
}

const fn ordered_set(name: &'static str, call: fn(&dyn Call) -> Resolved) -> Named {
    Named {
        name,
        call,
        distinct: OfDistinct::Unknown,
        takes_order: true,
        counts: None,
    }
}

const fn of_pairs(name: &'static str, call: fn(&dyn Call) -> Resolved) -> Named {
    plain(name, call, OfDistinct::Refused)
}

/// The table of names. A name of PostgreSQL's that is not here has no private answer.
static NAMES: [Named; 32] = {
    use OfDistinct as D;
    [
        counting(
            Counted::Rows,
            plain("count", count::call, D::Other(distinct_count::call)),
        ),
        plain("sum", sum::call, D::Moment(Moment::Sum)),
        plain("avg", average::call, D::Moment(Moment::Mean)),
        spread(
            "var_pop",
            |c| variance::call(c, V::VariancePopulation),
            V::VariancePopulation,
        ),
        spread(
            "var_samp",
            |c| variance::call(c, V::VarianceSample),
            V::VarianceSample,
        ),
        spread(
            "variance",
            |c| variance::call(c, V::VarianceSample),
            V::VarianceSample,
        ),
        spread(
            "stddev_pop",
            |c| variance::call(c, V::DeviationPopulation),
            V::DeviationPopulation,
        ),
        spread(
            "stddev_samp",
            |c| variance::call(c, V::DeviationSample),
            V::DeviationSample,
        ),
        spread(
            "stddev",
            |c| variance::call(c, V::DeviationSample),
            V::DeviationSample,
        ),
        // The least and the greatest are the same with duplicates and without.
        plain("min", |c| order_statistics::end(c, End::Least), D::Same),
        plain("max", |c| order_statistics::end(c, End::Greatest), D::Same),
        plain(
            "bool_and",
            |c| bool_and_or::call(c, Quantifier::All),
            D::Same,
        ),
        plain("every", |c| bool_and_or::call(c, Quantifier::All), D::Same),
        plain(
            "bool_or",
            |c| bool_and_or::call(c, Quantifier::Any),
            D::Same,
        ),
        ordered_set("percentile_cont", |c| order_statistics::quantile(c, true)),
        ordered_set("percentile_disc", |c| order_statistics::quantile(c, false)),
        ordered_set("mode", mode::call),
        of_pairs("covar_pop", |c| {
            pair_statistics::call(c, PairStatistic::CovariancePopulation)
        }),
        of_pairs("covar_samp", |c| {
            pair_statistics::call(c, PairStatistic::CovarianceSample)
        }),
        of_pairs("corr", |c| {
            pair_statistics::call(c, PairStatistic::Correlation)
        }),
        counting(
            Counted::Pairs,
            of_pairs("regr_count", |c| {
                pair_statistics::call(c, PairStatistic::Count)
            }),
        ),
        of_pairs("regr_avgx", |c| {
            pair_statistics::call(c, PairStatistic::AverageX)
        }),
        of_pairs("regr_avgy", |c| {
            pair_statistics::call(c, PairStatistic::AverageY)
        }),
        of_pairs("regr_sxx", |c| {
            pair_statistics::call(c, PairStatistic::SquaresX)
        }),
        of_pairs("regr_syy", |c| {
            pair_statistics::call(c, PairStatistic::SquaresY)
        }),
        of_pairs("regr_sxy", |c| {
            pair_statistics::call(c, PairStatistic::Products)
        }),
        of_pairs("regr_slope", |c| {
            pair_statistics::call(c, PairStatistic::Slope)
        }),
        of_pairs("regr_intercept", |c| {
            pair_statistics::call(c, PairStatistic::Intercept)
        }),
        of_pairs("regr_r2", |c| {
            pair_statistics::call(c, PairStatistic::Determination)
        }),
        plain(regression::NAME, regression::call, OfDistinct::Refused),
        plain(logistic::NAME, logistic::call, OfDistinct::Refused),
        plain(
            principal_components::NAME,
            principal_components::call,
            OfDistinct::Refused,
        ),
    ]
};

/// What the aggregate of this name counts; `None` if it is no count.
pub fn what_is_counted(name: &str) -> Option<Counted> {
    NAMES.iter().find(|named| named.name == name)?.counts
}

/// Whether an aggregate of this name is answered.
pub fn is_aggregate(name: &str) -> bool {
    NAMES.iter().any(|named| named.name == name)
}

/// What a call computes.
///
/// # Errors
/// 42883 for argument types that PostgreSQL has no such aggregate for, 0A000 for forms without a
/// known sound answer.
pub fn call(call: &dyn Call) -> Resolved {
    let name = call.name();
    let named = NAMES.iter().find(|named| named.name == name);
    let takes_order = named.is_some_and(|named| named.takes_order);
    if call.is_ordered() && (call.is_distinct() || !takes_order) {
        return Err(form(name));
    }
    let named = named.ok_or_else(|| refuse_unanswered(name))?;
    if !call.is_distinct() {
        return (named.call)(call);
    }
    match named.distinct {
        OfDistinct::Other(other) => other(call),
        OfDistinct::Same => (named.call)(call),
        OfDistinct::Moment(moment) => {
            let (operation, data_type) = (named.call)(call)?;
            let [value] = operation.arguments()[..] else {
                return Err(form(name));
            };
            let value = value.clone();
            Ok((Operation::DistinctMoment { value, moment }, data_type))
        }
        OfDistinct::Refused => Err(Refusal::unsupported(
            reason::DISTINCT_AGGREGATE,
            format!("{name}(DISTINCT …)"),
        )
        .hint("DISTINCT is supported in COUNT, SUM, AVG, VARIANCE and STDDEV.")),
        OfDistinct::Unknown => {
            (named.call)(call)?;
            Err(form(name))
        }
    }
}

fn refuse_unanswered(name: &str) -> Refusal {
    Refusal::unsupported(
        reason::UNSUPPORTED_AGGREGATE,
        format!("the aggregate {name}()"),
    )
    .hint(
        "Supported aggregates are COUNT, SUM, AVG, VARIANCE, STDDEV, COVAR, CORR, \
                REGR, MIN, MAX, PERCENTILE_CONT, PERCENTILE_DISC, MODE, BOOL_AND and \
                BOOL_OR.",
    )
}
