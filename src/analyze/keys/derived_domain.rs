//! Parts of a group key that take whole steps, listed by their range: `floor(x / 10)`,
//! `extract(hour FROM t)`, `date_trunc('day', t)` over values whose own list is too long, or not
//! known.

use super::Keys;
use super::time_conditions::may_hold_within;
use crate::analyze::interval::{Interval, MICROS_PER_DAY};
use crate::analyze::range::Ranges;
use crate::catalog::Type;
use crate::ir::evaluate::evaluate;
use crate::ir::functions::Function;
use crate::ir::literal::integer_range;
use crate::ir::{ColumnId, Expr, Node};
use crate::policy::Scalar;

/// Most values of one part. More are released by threshold: a list of them would be mostly noise.
const STEPS_MAX: f64 = 10_000.0;

/// Most steps of time between the first and the last of those that conditions leave.
const SPAN_MAX: f64 = 50_000.0;

/// Values of a column, or of a part that stands as one.
pub(in crate::analyze) type Listed = (ColumnId, Vec<Option<Scalar>>);

impl Keys<'_> {
    /// The expression with a separate column for each part that takes steps, the largest parts
    /// first.
    ///
    /// # Guarantee
    /// The values of a part depend on its range, and so on the statement and the policy alone
    /// ([`Ranges::of`]).
    pub(in crate::analyze) fn split_steps(&self, expr: &Expr) -> (Expr, Vec<Listed>) {
        let mut parts: Vec<(Expr, Listed)> = Vec::new();
        let replaced = self.replace_steps(expr, &mut parts);
        (
            replaced,
            parts.into_iter().map(|(_, listed)| listed).collect(),
        )
    }

    fn replace_steps(&self, expr: &Expr, parts: &mut Vec<(Expr, Listed)>) -> Expr {
        if let Some((_, (id, _))) = parts.iter().find(|(part, _)| part == expr) {
            return Expr::column(*id, expr.data_type.clone());
        }
        if let Some(values) = self.steps(expr) {
            let id = ColumnId(u32::MAX - parts.len() as u32);
            parts.push((expr.clone(), (id, values)));
            return Expr::column(id, expr.data_type.clone());
        }
        let node = match &expr.node {
            Node::Column(_) | Node::Literal(_) | Node::Constant(_) | Node::Exists { .. } => {
                expr.node.clone()
            }
            Node::Cast(inner) => Node::Cast(Box::new(self.replace_steps(inner, parts))),
            Node::Case {
                branches,
                otherwise,
            } => Node::Case {
                branches: branches
                    .iter()
                    .map(|(c, r)| (self.replace_steps(c, parts), self.replace_steps(r, parts)))
                    .collect(),
                otherwise: otherwise
                    .as_ref()
                    .map(|e| Box::new(self.replace_steps(e, parts))),
            },
            Node::Call {
                function,
                arguments,
            } => Node::Call {
                function: *function,
                arguments: arguments
                    .iter()
                    .map(|a| self.replace_steps(a, parts))
                    .collect(),
            },
        };
        Expr {
            node,
            data_type: expr.data_type.clone(),
        }
    }

    /// Every value that one part may have, where it takes steps and they are few.
    fn steps(&self, expr: &Expr) -> Option<Vec<Option<Scalar>>> {
        if expr.columns().is_empty() || !takes_steps(expr) {
            return None;
        }
        let range = self.range(expr);
        let mut values: Vec<Option<Scalar>> = match &expr.data_type {
            // Values past the type are clamped to it: then there is no list.
            Type::Int2 | Type::Int4 | Type::Int8 => {
                let (lower, upper) = integer_range(&expr.data_type)?;
                integers(range)
                    .filter(|all| *all.start() >= lower && *all.end() <= upper)?
                    .map(|n| Some(Scalar::Int(n)))
                    .collect()
            }
            Type::Numeric(_) | Type::Float8 => integers(range)?
                .map(|n| Some(Scalar::Decimal(n.to_string())))
                .collect(),
            Type::Date => integers(range)?
                .map(|n| i32::try_from(n).ok().map(Scalar::Date))
                .collect(),
            Type::Timestamp | Type::Timestamptz => self.instants(expr)?,
            _ => return None,
        };
        if self.may_be_null(expr) {
            values.push(None);
        }
        Some(values)
    }

    /// The range of an expression for rows that meet the conditions, each of which reads one
    /// column. Comparisons of two columns are left out: they compare stored values, which the
    /// bounds do not limit.
    pub(in crate::analyze) fn range(&self, expr: &Expr) -> Interval {
        Ranges {
            policy: self.policy,
            columns: self.columns,
            computed: self.computed,
            opaque: &[],
            conditions: self
                .conditions
                .iter()
                .copied()
                .filter(|condition| condition.columns().len() <= 1)
                .collect(),
            excluded: Vec::new(),
        }
        .of(expr)
    }

    /// The first instants of the hours, days or longer spans that a truncated timestamp may lie in.
    fn instants(&self, expr: &Expr) -> Option<Vec<Option<Scalar>>> {
        let Node::Call {
            function: Function::DateTrunc,
            arguments,
        } = &expr.node
        else {
            return None;
        };
        let [field, operand] = arguments.as_slice() else {
            return None;
        };
        let Some(Scalar::Text(name)) = field.as_literal() else {
            return None;
        };
        let step = match name.as_str() {
            "hour" => MICROS_PER_DAY / 24,
            "day" | "week" | "month" | "quarter" | "year" => MICROS_PER_DAY,
            _ => return None,
        } as f64;
        let range = self.range(operand);
        let hull = Interval::new(range.lo / step, range.hi / step);
        let steps = self.steps_asked_for(operand, step as i64, integers_within(hull, SPAN_MAX)?)?;
        let mut found: Vec<Option<Scalar>> = Vec::new();
        for at in steps {
            let instant = Expr::literal(
                Some(Scalar::Timestamp(at.checked_mul(step as i64)?)),
                operand.data_type.clone(),
            );
            let truncated = Expr::call(
                Function::DateTrunc,
                vec![field.clone(), instant],
                expr.data_type.clone(),
            );
            let value = evaluate(&truncated, &[]).ok()?;
            if found.last() != Some(&value) {
                found.push(value);
            }
        }
        Some(found)
    }

    /// The steps of time in which the conditions on the operand may hold, where they are few.
    fn steps_asked_for(
        &self,
        operand: &Expr,
        step: i64,
        hull: std::ops::RangeInclusive<i64>,
    ) -> Option<Vec<i64>> {
        let conditions = operand.as_column().map_or(Vec::new(), |id| self.about(id));
        let count = usize::try_from(hull.end() - hull.start()).ok()?;
        self.effort.spend(count, conditions.iter().copied())?;
        let is_asked_for = |at: &i64| {
            operand.as_column().is_none_or(|id| {
                let first = at.saturating_mul(step);
                may_hold_within(&conditions, id, [first, first.saturating_add(step - 1)])
            })
        };
        let asked_for: Vec<i64> = hull.filter(is_asked_for).collect();
        (asked_for.len() as f64 <= STEPS_MAX).then_some(asked_for)
    }
}

/// Calls whose values are whole numbers, days or truncated instants. A bare column lists its own
/// values.
fn takes_steps(expr: &Expr) -> bool {
    let is_integer = matches!(expr.data_type, Type::Int2 | Type::Int4 | Type::Int8);
    match &expr.node {
        Node::Call {
            function:
                Function::Floor
                | Function::Ceiling
                | Function::Round
                | Function::Truncate
                | Function::DateTrunc,
            ..
        } => true,
        Node::Call {
            function: Function::Extract | Function::DatePart,
            arguments,
        } => {
            let fraction =
                |field: &str| matches!(field, "second" | "millisecond" | "epoch" | "microsecond");
            match arguments.first().and_then(Expr::as_literal) {
                Some(Scalar::Text(field)) => !fraction(field),
                _ => false,
            }
        }
        Node::Call { .. } => is_integer,
        Node::Cast(inner) => {
            let is_number = matches!(
                inner.data_type,
                Type::Numeric(_) | Type::Float4 | Type::Float8
            );
            let is_instant = matches!(inner.data_type, Type::Timestamp | Type::Timestamptz);
            (is_integer && is_number) || (expr.data_type == Type::Date && is_instant)
        }
        Node::Column(_)
        | Node::Literal(_)
        | Node::Constant(_)
        | Node::Case { .. }
        | Node::Exists { .. } => false,
    }
}

/// The whole numbers of a range, one more on either side where rounding may reach it.
pub(in crate::analyze) fn integers(range: Interval) -> Option<std::ops::RangeInclusive<i64>> {
    integers_within(range, STEPS_MAX)
}

/// The whole numbers of a range, where they are fewer than this.
fn integers_within(range: Interval, most: f64) -> Option<std::ops::RangeInclusive<i64>> {
    let (lo, hi) = (range.lo.floor(), range.hi.ceil());
    let few = range.is_finite() && hi - lo < most && lo.abs().max(hi.abs()) < 9e15;
    few.then_some(lo as i64..=hi as i64)
}
