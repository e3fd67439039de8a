//! Ranges that conditions leave.

use super::{Ranges, same_value};
use crate::analyze::interval::Interval;
use crate::ir::functions::Function;
use crate::ir::{Expr, Node};

/// What is known about a condition: that it is true (or false), or only that it is not false (or
/// not true). A comparison with NULL is unknown, and says nothing about its other side.
#[derive(Clone, Copy)]
pub(super) enum Truth {
    Known,
    MayBeUnknown,
}

impl Truth {
    /// Whether a comparison with this side says something about its other side.
    fn says_something_with(self, side: &Expr) -> bool {
        matches!(self, Self::Known) || side.as_literal().is_some()
    }
}

impl Ranges<'_> {
    /// The range that one condition gives to an expression that it compares with a constant.
    pub(super) fn narrow(&self, expr: &Expr, condition: &Expr, truth: Truth) -> Interval {
        let Node::Call {
            function,
            arguments,
        } = &condition.node
        else {
            return Interval::ALL;
        };
        match (function, arguments.as_slice()) {
            (Function::And, all) => all.iter().fold(Interval::ALL, |range, c| {
                range.meet(self.narrow(expr, c, truth))
            }),
            (Function::Or, any) => any
                .iter()
                .map(|c| self.narrow(expr, c, truth))
                .reduce(Interval::hull)
                .unwrap_or(Interval::ALL),
            (Function::IsTrue, [condition]) => self.narrow(expr, condition, Truth::Known),
            (Function::IsFalse, [condition]) => self.outside(expr, condition, Truth::Known),
            (Function::Not, [condition]) => self.outside(expr, condition, truth),
            (Function::In, [subject, list @ ..]) if same_value(subject, expr) => {
                let values = list
                    .iter()
                    .map(|e| self.constant(e).filter(|_| truth.says_something_with(e)))
                    .collect::<Option<Vec<_>>>();
                values
                    .and_then(|values| values.into_iter().reduce(Interval::hull))
                    .unwrap_or(Interval::ALL)
            }
            (function, [left, right]) => {
                self.narrow_by_comparison(expr, *function, left, right, truth)
            }
            _ => Interval::ALL,
        }
    }

    /// The range that follows from a condition that does not hold.
    pub(super) fn outside(&self, expr: &Expr, condition: &Expr, truth: Truth) -> Interval {
        let Node::Call {
            function,
            arguments,
        } = &condition.node
        else {
            return Interval::ALL;
        };
        match (function, arguments.as_slice()) {
            (Function::Or, any) => any.iter().fold(Interval::ALL, |range, c| {
                range.meet(self.outside(expr, c, truth))
            }),
            (Function::And, all) => all
                .iter()
                .map(|c| self.outside(expr, c, truth))
                .reduce(Interval::hull)
                .unwrap_or(Interval::ALL),
            (Function::IsTrue, [condition]) => self.outside(expr, condition, Truth::MayBeUnknown),
            (Function::Not, [condition]) => self.narrow(expr, condition, truth),
            (function, [left, right]) => {
                self.narrow_by_comparison(expr, negate(*function), left, right, truth)
            }
            _ => Interval::ALL,
        }
    }

    fn narrow_by_comparison(
        &self,
        expr: &Expr,
        function: Function,
        left: &Expr,
        right: &Expr,
        truth: Truth,
    ) -> Interval {
        let other = |side: &Expr| {
            if truth.says_something_with(side) {
                self.other(side)
            } else {
                Interval::ALL
            }
        };
        if same_value(left, expr) {
            return comparison_range(function, other(right));
        }
        if same_value(right, expr) {
            return comparison_range(swap_sides(function), other(left));
        }
        Interval::ALL
    }
}

fn comparison_range(function: Function, constant: Interval) -> Interval {
    match function {
        Function::Equal | Function::IsNotDistinctFrom => constant,
        Function::Less | Function::LessOrEqual => Interval::new(f64::NEG_INFINITY, constant.hi),
        Function::Greater | Function::GreaterOrEqual => Interval::new(constant.lo, f64::INFINITY),
        _ => Interval::ALL,
    }
}

/// The comparison that holds where this one is false.
fn negate(function: Function) -> Function {
    match function {
        Function::Less => Function::GreaterOrEqual,
        Function::LessOrEqual => Function::Greater,
        Function::Greater => Function::LessOrEqual,
        Function::GreaterOrEqual => Function::Less,
        Function::NotEqual => Function::Equal,
        // Nothing is known of a value that is not equal.
        _ => Function::NotEqual,
    }
}

fn swap_sides(function: Function) -> Function {
    match function {
        Function::Less => Function::Greater,
        Function::LessOrEqual => Function::GreaterOrEqual,
        Function::Greater => Function::Less,
        Function::GreaterOrEqual => Function::LessOrEqual,
        other => other,
    }
}
