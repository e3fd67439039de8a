//! Names of aggregates: what a call by each computes, and what its DISTINCT form does.

use super::NAMES;
use super::call::{Call, Resolved, form};
use crate::ir::{Moment, Operation};
use crate::refusal::{Refusal, reason};

/// One name of an aggregate.
pub(super) struct AggregateName {
    name: &'static str,
    call: OfCall,
    distinct: DistinctForm,
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
pub(super) enum DistinctForm {
    /// Another aggregate.
    Other(OfCall),
    /// A moment of distinct values; its type is that of the aggregate.
    Moment(Moment),
    /// DISTINCT changes nothing.
    Same,
    Refused,
    /// Not offered. Wrong arguments are reported first.
    Unknown,
}

type OfCall = fn(&dyn Call) -> Resolved;

impl AggregateName {
    pub(super) const fn new(name: &'static str, call: OfCall, distinct: DistinctForm) -> Self {
        Self {
            name,
            call,
            distinct,
            takes_order: false,
            counts: None,
        }
    }

    /// A name that takes WITHIN GROUP.
    pub(super) const fn ordered_set(name: &'static str, call: OfCall) -> Self {
        Self {
            takes_order: true,
            ..Self::new(name, call, DistinctForm::Unknown)
        }
    }

    /// Marks a name whose aggregate counts rows or pairs.
    pub(super) const fn counting(self, counts: Counted) -> Self {
        Self {
            counts: Some(counts),
            ..self
        }
    }
}

/// The aggregate of this name. A name of PostgreSQL's that no file has gets no private answer.
fn by_name(name: &str) -> Option<&'static AggregateName> {
    NAMES
        .iter()
        .flat_map(|names| names.iter())
        .find(|named| named.name == name)
}

/// What the aggregate of this name counts; `None` if it is no count.
pub fn what_is_counted(name: &str) -> Option<Counted> {
    by_name(name)?.counts
}

/// Whether an aggregate of this name is answered.
pub fn is_aggregate(name: &str) -> bool {
    by_name(name).is_some()
}

/// What a call computes.
///
/// # Errors
/// 42883 for argument types that PostgreSQL has no such aggregate for, 0A000 for forms without a
/// known sound answer.
pub fn call(call: &dyn Call) -> Resolved {
    let name = call.name();
    let named = by_name(name);
    let takes_order = named.is_some_and(|named| named.takes_order);
    if call.is_ordered() && (call.is_distinct() || !takes_order) {
        return Err(form(name));
    }
    let named = named.ok_or_else(|| refuse_unanswered(name))?;
    if !call.is_distinct() {
        return (named.call)(call);
    }
    match named.distinct {
        DistinctForm::Other(other) => other(call),
        DistinctForm::Same => (named.call)(call),
        DistinctForm::Moment(moment) => {
            let (operation, data_type) = (named.call)(call)?;
            let [value] = operation.arguments()[..] else {
                return Err(form(name));
            };
            let value = value.clone();
            Ok((Operation::DistinctMoment { value, moment }, data_type))
        }
        DistinctForm::Refused => Err(Refusal::unsupported(
            reason::DISTINCT_AGGREGATE,
            format!("{name}(DISTINCT …)"),
        )
        .hint("DISTINCT is supported in COUNT, SUM, AVG, VARIANCE and STDDEV.")),
        DistinctForm::Unknown => {
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
