//! The error of an answer that an analyst can query: a standard error, an end of a confidence
//! interval, or what clips took.

use super::KeyId;
use super::aggregate_id::AggregateId;
use crate::policy::STATISTICS;

/// A statistic about a value's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    StandardError,
    /// Ends of an interval that holds the clipped answer in at least 95 of 100 cases.
    Low,
    High,
    /// The amount that chosen clips took from the answer, as far as a look shows.
    LowBy,
}

impl Statistic {
    pub const ALL: [Self; STATISTICS.len()] =
        [Self::StandardError, Self::Low, Self::High, Self::LowBy];

    /// The function's name in the schema `pgveil`.
    pub fn name(self) -> &'static str {
        STATISTICS[self as usize]
    }
}

/// Arithmetic over the aggregates of one group.
#[derive(Debug, Clone, PartialEq)]
pub enum Formula {
    Aggregate(AggregateId),
    Number {
        value: f64,
        is_integer: bool,
    },
    Negated(Box<Formula>),
    Sum(Box<Formula>, Box<Formula>),
    Difference(Box<Formula>, Box<Formula>),
    Product(Box<Formula>, Box<Formula>),
    /// The quotient of two integers is truncated, as in PostgreSQL.
    Quotient(Box<Formula>, Box<Formula>),
    Root(Box<Formula>),
    Exponential(Box<Formula>),
    /// Rounded to this many decimals.
    Rounded(Box<Formula>, i32),
    /// A cast to a type with fractions.
    Real(Box<Formula>),
    /// The sum of an aggregate over the groups up to this one by a key, of those that have equal
    /// values of some other keys. It is never a part of another formula: it shares noise with the
    /// aggregates of its group.
    RunningTotal {
        of: AggregateId,
        order: KeyId,
        partition: Vec<KeyId>,
    },
}

impl Formula {
    /// The aggregates that it reads.
    pub fn aggregates(&self) -> Vec<AggregateId> {
        match self {
            Self::Aggregate(at) | Self::RunningTotal { of: at, .. } => vec![*at],
            Self::Number { .. } => Vec::new(),
            Self::Negated(of) | Self::Root(of) | Self::Exponential(of) => of.aggregates(),
            Self::Rounded(of, _) | Self::Real(of) => of.aggregates(),
            Self::Sum(a, b)
            | Self::Difference(a, b)
            | Self::Product(a, b)
            | Self::Quotient(a, b) => [a.aggregates(), b.aggregates()].concat(),
        }
    }

    /// The formula over other aggregates.
    pub fn over(&self, other: &impl Fn(AggregateId) -> AggregateId) -> Self {
        let one = |of: &Formula| Box::new(of.over(other));
        match self {
            Self::Aggregate(at) => Self::Aggregate(other(*at)),
            Self::Number { .. } => self.clone(),
            Self::Negated(of) => Self::Negated(one(of)),
            Self::Sum(a, b) => Self::Sum(one(a), one(b)),
            Self::Difference(a, b) => Self::Difference(one(a), one(b)),
            Self::Product(a, b) => Self::Product(one(a), one(b)),
            Self::Quotient(a, b) => Self::Quotient(one(a), one(b)),
            Self::Root(of) => Self::Root(one(of)),
            Self::Exponential(of) => Self::Exponential(one(of)),
            Self::Rounded(of, decimals) => Self::Rounded(one(of), *decimals),
            Self::Real(of) => Self::Real(one(of)),
            Self::RunningTotal {
                of,
                order,
                partition,
            } => Self::RunningTotal {
                of: other(*of),
                order: *order,
                partition: partition.clone(),
            },
        }
    }
}

/// One such column of a release.
#[derive(Debug, Clone, PartialEq)]
pub struct Uncertainty {
    pub formula: Formula,
    pub statistic: Statistic,
}
