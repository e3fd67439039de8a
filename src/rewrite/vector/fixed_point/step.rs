//! The step of a grid: the distance between two neighbouring values.

use super::{MAGNITUDE_MAX, SPREAD_MAX};
use crate::analyze::interval::Interval;
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::integer_range;
use crate::ir::{ColumnInfo, Expr, Node};
use crate::policy::Scalar;

/// The grid's step, in the value's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridStep {
    /// 10^-n: exact for integers (n = 0) and for numerics of n decimals.
    Decimal(u32),
    /// 2^-k; k may be negative.
    Binary(i32),
}

impl GridStep {
    /// The step's size in the value's unit.
    pub fn size(self) -> f64 {
        match self {
            Self::Decimal(n) => 10f64.powi(-(n as i32)),
            Self::Binary(k) => 2f64.powi(-k),
        }
    }

    /// How many decimals a multiple of the step may have; `None` for binary steps.
    pub fn decimals(self) -> Option<u32> {
        match self {
            Self::Decimal(n) => Some(n),
            Self::Binary(_) => None,
        }
    }

    /// An interval that holds every integer that PostgreSQL computes for the clipped values. Its
    /// rounding is monotone; but a bound that it reads from decimal text may differ a little from
    /// the float8 here, and numerics round halves away from zero.
    pub(super) fn span(self, bounds: Interval, data_type: &Type) -> (i64, i64) {
        match self {
            Self::Decimal(n) => {
                let exact = |v: f64| n == 0 && v.fract() == 0.0;
                let scaled = |v: f64| v * 10f64.powi(n as i32);
                let doubt = |v: f64| {
                    if exact(v) {
                        0.0
                    } else {
                        scaled(v).abs() * 2f64.powi(-50)
                    }
                };
                (
                    (scaled(bounds.lo) - doubt(bounds.lo)).round() as i64,
                    (scaled(bounds.hi) + doubt(bounds.hi)).round() as i64,
                )
            }
            Self::Binary(k) => {
                let nearest = |v: f64| (v * 2f64.powi(k) + 0.5).floor() as i64;
                // PostgreSQL does the same operations on float8.
                let doubt = if matches!(data_type, Type::Float4 | Type::Float8) {
                    0
                } else {
                    2
                };
                (nearest(bounds.lo) - doubt, nearest(bounds.hi) + doubt)
            }
        }
    }
}

pub(super) fn fits(bounds: Interval, step: GridStep) -> bool {
    let GridStep::Decimal(n) = step else {
        return false;
    };
    let unit = 10f64.powi(n as i32);
    (bounds.hi - bounds.lo) * unit <= SPREAD_MAX && bounds.magnitude() * unit <= MAGNITUDE_MAX
}

/// How many decimals a value of the expression may have, where that is certain.
pub(super) fn decimals(expr: &Expr, columns: &[ColumnInfo]) -> Option<u32> {
    if integer_range(&expr.data_type).is_some() {
        return Some(0);
    }
    if !matches!(expr.data_type, Type::Numeric(_)) {
        return None;
    }
    match &expr.node {
        Node::Column(id) => declared_decimals(&columns[id.0 as usize].data_type),
        Node::Literal(Some(Scalar::Decimal(text))) => Some(
            text.split_once('.')
                .map_or(0, |(_, fraction)| fraction.len() as u32),
        ),
        Node::Literal(_) => Some(0),
        Node::Constant(_) | Node::Exists { .. } => None,
        Node::Cast(inner) => {
            declared_decimals(&expr.data_type).or_else(|| decimals(inner, columns))
        }
        Node::Case {
            branches,
            otherwise,
        } => {
            let results = branches.iter().map(|(_, r)| r).chain(otherwise.as_deref());
            results
                .map(|r| decimals(r, columns))
                .try_fold(0, |most, d| d.map(|d| most.max(d)))
        }
        Node::Call {
            function,
            arguments,
        } => {
            let mut each = arguments.iter().map(|a| decimals(a, columns));
            match function {
                Function::Add
                | Function::Subtract
                | Function::Coalesce
                | Function::Greatest
                | Function::Least
                | Function::Negate
                | Function::Abs => each.try_fold(0, |most, d| d.map(|d| most.max(d))),
                Function::Multiply => each.try_fold(0, |sum, d| d.map(|d| sum + d)),
                Function::Round | Function::Truncate if arguments.len() == 2 => {
                    match arguments[1].as_literal() {
                        Some(Scalar::Int(digits)) => u32::try_from(*digits).ok().or(Some(0)),
                        _ => None,
                    }
                }
                Function::Round | Function::Floor | Function::Ceiling | Function::Truncate => {
                    Some(0)
                }
                _ => None,
            }
        }
    }
    .filter(|d| *d <= 15)
}

fn declared_decimals(data_type: &Type) -> Option<u32> {
    match data_type {
        Type::Numeric(Some((_, scale))) => u32::try_from(*scale).ok(),
        _ => None,
    }
}
