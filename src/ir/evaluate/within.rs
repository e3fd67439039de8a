//! Evaluates an expression of columns of which some are only known to lie between two values.

use std::cmp::Ordering;

use super::cast::cast;
use super::{NotEvaluable, Value, compare, connect, evaluate, truth};
use crate::catalog::Type;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::Function;
use crate::ir::literal::{integer_range, is_beyond};
use crate::ir::relation::ColumnId;
use crate::policy::Scalar;

/// What is known of a column's value.
#[derive(Debug, Clone, PartialEq)]
pub enum KnownValue {
    /// The value; `None` is NULL.
    Value(Option<Scalar>),
    /// A value of this span, so no NULL.
    Within(ValueSpan),
}

/// Values of one type from `first` on, up to `end`.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSpan {
    pub first: Scalar,
    pub end: Scalar,
    /// Whether `end` itself is one of them.
    pub has_end: bool,
}

/// Evaluates an expression, where its value is the same whatever the values within the spans are.
///
/// # Guarantee
/// For all values of the columns that are as `known` says, the expression has the value that is
/// returned, as [`evaluate`] means it. A comparison with a span is decided by the span's ends. A
/// function of a span is evaluated at both ends: it never falls between them
/// ([`is_monotone`]), so where its values there are equal, those in between are the same.
///
/// # Errors
/// If the value differs within a span, or if neither is certain.
pub fn evaluate_within(
    expr: &Expr,
    known: &[(ColumnId, KnownValue)],
) -> Result<Value, NotEvaluable> {
    let value = |(id, known): &(ColumnId, KnownValue)| match known {
        KnownValue::Value(value) => Some((*id, value.clone())),
        KnownValue::Within(_) => None,
    };
    let values: Vec<(ColumnId, Value)> = known.iter().filter_map(value).collect();
    let span = |(id, known): &(ColumnId, KnownValue)| match known {
        KnownValue::Value(_) => None,
        KnownValue::Within(span) => Some((*id, span.clone())),
    };
    let spans: Vec<(ColumnId, ValueSpan)> = known.iter().filter_map(span).collect();
    Evaluation { values, spans }.value(expr)
}

struct Evaluation {
    values: Vec<(ColumnId, Value)>,
    spans: Vec<(ColumnId, ValueSpan)>,
}

/// The least and the greatest value of an expression that reads one span.
struct Ends {
    low: Scalar,
    high: Scalar,
    /// Whether the expression may have the greatest value, and not only come near it.
    has_high: bool,
    /// Whether its values are floats, which are compared as floats.
    is_float: bool,
}

impl Evaluation {
    fn value(&self, expr: &Expr) -> Result<Value, NotEvaluable> {
        if !self.reads_span(expr) {
            return evaluate(expr, &self.values);
        }
        match &expr.node {
            Node::Literal(_) | Node::Constant(_) | Node::Exists { .. } => Err(NotEvaluable),
            Node::Column(_) => self.of_one_value(expr),
            Node::Case {
                branches,
                otherwise,
            } => {
                for (condition, result) in branches {
                    if self.value(condition)? == Some(Scalar::Bool(true)) {
                        return self.value(result);
                    }
                }
                let otherwise = otherwise.as_ref();
                otherwise.map_or(Ok(None), |otherwise| self.value(otherwise))
            }
            Node::Cast(inner) => self.of_one_value(expr).or_else(|_| {
                let inner_value = self.value(inner)?;
                cast(inner_value, &inner.data_type, &expr.data_type)
            }),
            Node::Call {
                function,
                arguments,
            } => self.call(*function, arguments, expr),
        }
    }

    fn reads_span(&self, expr: &Expr) -> bool {
        let mut found = false;
        expr.walk(&mut |e| {
            found |= e
                .as_column()
                .is_some_and(|id| self.spans.iter().any(|(spanned, _)| *spanned == id));
        });
        found
    }

    fn call(
        &self,
        function: Function,
        arguments: &[Expr],
        expr: &Expr,
    ) -> Result<Value, NotEvaluable> {
        use Function as F;
        match (function, arguments) {
            (F::And, _) => self.connect(arguments, false),
            (F::Or, _) => self.connect(arguments, true),
            // No value of a span is NULL.
            (F::IsNull | F::IsNotNull, [column]) if column.as_column().is_some() => {
                Ok(Some(Scalar::Bool(function == F::IsNotNull)))
            }
            (F::In, [subject, items @ ..]) => {
                let equal = |item: &Expr| self.compare(F::Equal, subject, item);
                let equal: Vec<Option<Value>> = items.iter().map(|i| equal(i).ok()).collect();
                absorb(&equal, true)
            }
            (F::Thresholds, [subject, limits @ ..]) => {
                let mut reached = 0;
                for limit in limits {
                    let is_reached = self.compare(F::GreaterOrEqual, subject, limit)?;
                    let Some(is_reached) = is_reached else {
                        return Ok(None);
                    };
                    reached += i64::from(is_reached == Scalar::Bool(true));
                }
                Ok(Some(Scalar::Int(reached)))
            }
            (
                F::Equal | F::NotEqual | F::Less | F::LessOrEqual | F::Greater | F::GreaterOrEqual,
                [left, right],
            ) => self.compare(function, left, right),
            _ => self.of_one_value(expr).or_else(|_| {
                let literal = |argument: &Expr| {
                    let value = self.value(argument)?;
                    Ok(Expr::literal(value, argument.data_type.clone()))
                };
                let literals = arguments.iter().map(literal).collect::<Result<_, _>>()?;
                evaluate(&Expr::call(function, literals, expr.data_type.clone()), &[])
            }),
        }
    }

    fn connect(&self, arguments: &[Expr], absorbing: bool) -> Result<Value, NotEvaluable> {
        let values: Vec<Option<Value>> = arguments.iter().map(|a| self.value(a).ok()).collect();
        absorb(&values, absorbing)
    }

    /// A comparison of an expression that reads a span with one that does not.
    fn compare(
        &self,
        function: Function,
        left: &Expr,
        right: &Expr,
    ) -> Result<Value, NotEvaluable> {
        let (function, subject, constant) = match (self.reads_span(left), self.reads_span(right)) {
            (true, false) => (function, left, right),
            (false, true) => (mirror(function), right, left),
            (true, true) => return Err(NotEvaluable),
            (false, false) => {
                let both = vec![left.clone(), right.clone()];
                return evaluate(&Expr::call(function, both, Type::Bool), &self.values);
            }
        };
        let Ok(ends) = self.ends(subject) else {
            return self.of_values(function, subject, constant);
        };
        let Some(constant) = evaluate(constant, &self.values)? else {
            return Ok(None);
        };
        if is_beyond(&constant) {
            return Err(NotEvaluable);
        }
        let low = ends.order(&ends.low, &constant)?;
        let high = ends.order(&ends.high, &constant)?;
        let all_less = high.is_lt() || high.is_eq() && !ends.has_high;
        let all_greater = low.is_gt();
        let (all_at_most, all_at_least) = (high.is_le(), low.is_ge());
        let known = match function {
            Function::Less => decide(all_less, all_at_least),
            Function::GreaterOrEqual => decide(all_at_least, all_less),
            Function::LessOrEqual => decide(all_at_most, all_greater),
            Function::Greater => decide(all_greater, all_at_most),
            Function::Equal => decide(all_at_most && all_at_least, all_less || all_greater),
            Function::NotEqual => decide(all_less || all_greater, all_at_most && all_at_least),
            _ => None,
        };
        known
            .map(|known| Some(Scalar::Bool(known)))
            .ok_or(NotEvaluable)
    }

    /// A comparison whose sides have one value each.
    fn of_values(
        &self,
        function: Function,
        left: &Expr,
        right: &Expr,
    ) -> Result<Value, NotEvaluable> {
        let literal = |side: &Expr| {
            let value = self.value(side)?;
            Ok::<_, NotEvaluable>(Expr::literal(value, side.data_type.clone()))
        };
        let both = vec![literal(left)?, literal(right)?];
        evaluate(&Expr::call(function, both, Type::Bool), &[])
    }

    /// The value of a monotone expression that is the same at both ends.
    fn of_one_value(&self, expr: &Expr) -> Result<Value, NotEvaluable> {
        let ends = self.ends(expr)?;
        let is_one = ends.has_high && !ends.is_float && ends.low == ends.high;
        is_one.then_some(Some(ends.low)).ok_or(NotEvaluable)
    }

    /// The ends of an expression that reads one span once, and grows with it.
    fn ends(&self, expr: &Expr) -> Result<Ends, NotEvaluable> {
        match &expr.node {
            Node::Column(id) => {
                let found = self.spans.iter().find(|(spanned, _)| spanned == id);
                let (_, span) = found.ok_or(NotEvaluable)?;
                Ok(Ends {
                    low: span.first.clone(),
                    high: span.end.clone(),
                    has_high: span.has_end,
                    is_float: is_float(&expr.data_type),
                })
            }
            Node::Cast(inner) => {
                let ends = self.ends(inner)?;
                let (from, to) = (&inner.data_type, &expr.data_type);
                if keeps_values(from, to) {
                    return Ok(ends);
                }
                let is_float = is_float(to);
                let exact = ends
                    .exact()
                    .filter(|_| grows(from, to))
                    .ok_or(NotEvaluable)?;
                let of = |end: Scalar| cast(Some(end), from, to)?.ok_or(NotEvaluable);
                Ok(Ends {
                    low: of(exact.low)?,
                    high: of(exact.high)?,
                    has_high: true,
                    is_float,
                })
            }
            Node::Call {
                function,
                arguments,
            } => {
                let read = |argument: &Expr| self.reads_span(argument);
                let at = arguments.iter().position(read).ok_or(NotEvaluable)?;
                let of = |argument: &Expr| {
                    let value = evaluate(argument, &self.values)?;
                    Ok(Expr::literal(value, argument.data_type.clone()))
                };
                let others = arguments
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != at);
                let mut literals = others
                    .map(|(_, other)| of(other))
                    .collect::<Result<Vec<Expr>, NotEvaluable>>()?;
                if !is_monotone(*function, (at, &arguments[at]), &literals, &expr.data_type) {
                    return Err(NotEvaluable);
                }
                let ends = self.ends(&arguments[at])?.exact().ok_or(NotEvaluable)?;
                literals.insert(at, arguments[at].clone());
                let mut of = |end: Scalar| {
                    literals[at] = Expr::literal(Some(end), arguments[at].data_type.clone());
                    let call = Expr::call(*function, literals.clone(), expr.data_type.clone());
                    evaluate(&call, &[])?.ok_or(NotEvaluable)
                };
                Ok(Ends {
                    low: of(ends.low)?,
                    high: of(ends.high)?,
                    has_high: true,
                    is_float: false,
                })
            }
            Node::Literal(_) | Node::Constant(_) | Node::Case { .. } | Node::Exists { .. } => {
                Err(NotEvaluable)
            }
        }
    }
}

impl Ends {
    /// Itself, where both ends are values that it has, and no floats.
    fn exact(self) -> Option<Self> {
        (self.has_high && !self.is_float).then_some(self)
    }

    /// An end next to a constant. Floats are compared as PostgreSQL reads them, not as the decimals
    /// that are written.
    fn order(&self, end: &Scalar, constant: &Scalar) -> Result<Ordering, NotEvaluable> {
        if !self.is_float {
            return compare(end, constant, false);
        }
        let read = |value: &Scalar| match value {
            Scalar::Decimal(text) => text.parse::<f64>().map_err(|_| NotEvaluable),
            Scalar::Int(value) if value.unsigned_abs() < 1 << 50 => Ok(*value as f64),
            _ => Err(NotEvaluable),
        };
        read(end)?.partial_cmp(&read(constant)?).ok_or(NotEvaluable)
    }
}

/// AND (absorbing false) or OR (absorbing true), where some values are not known.
fn absorb(values: &[Option<Value>], absorbing: bool) -> Result<Value, NotEvaluable> {
    let known: Vec<Value> = values.iter().flatten().cloned().collect();
    for value in &known {
        if truth(value)? == Some(absorbing) {
            return Ok(Some(Scalar::Bool(absorbing)));
        }
    }
    if known.len() < values.len() {
        return Err(NotEvaluable);
    }
    Ok(connect(&known, absorbing)?.map(Scalar::Bool))
}

fn decide(is_true: bool, is_false: bool) -> Option<bool> {
    match (is_true, is_false) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

/// The comparison with its sides exchanged.
fn mirror(function: Function) -> Function {
    match function {
        Function::Less => Function::Greater,
        Function::LessOrEqual => Function::GreaterOrEqual,
        Function::Greater => Function::Less,
        Function::GreaterOrEqual => Function::LessOrEqual,
        other => other,
    }
}

fn is_float(data_type: &Type) -> bool {
    matches!(data_type, Type::Float4 | Type::Float8)
}

/// Whether a cast changes no value, whatever it is.
fn keeps_values(from: &Type, to: &Type) -> bool {
    let is_wider = match (integer_range(from), integer_range(to)) {
        (Some((low, high)), Some((least, most))) => least <= low && high <= most,
        _ => false,
    };
    is_wider
        || from == to
        || matches!(
            (from, to),
            (Type::Numeric(_), Type::Numeric(None)) | (Type::Float4, Type::Float8)
        )
}

/// Whether a cast of a larger value never gives a smaller one.
fn grows(from: &Type, to: &Type) -> bool {
    match to {
        Type::Numeric(None) | Type::Float8 => integer_range(from).is_some(),
        Type::Timestamp => *from == Type::Date,
        Type::Date => *from == Type::Timestamp,
        _ => false,
    }
}

/// Whether a function of integers, dates or timestamps never falls while this argument grows and
/// the other ones, which are literals, stay.
fn is_monotone(
    function: Function,
    (at, argument): (usize, &Expr),
    others: &[Expr],
    result: &Type,
) -> bool {
    use Function as F;
    let is_whole = |data_type: &Type| integer_range(data_type).is_some();
    let is_exact = |data_type: &Type| is_whole(data_type) || *data_type == Type::Numeric(None);
    let all_whole = is_whole(result) && others.iter().all(|other| is_whole(&other.data_type));
    let is_positive = || {
        matches!(others, [other] if
        matches!(other.as_literal(), Some(Scalar::Int(value)) if *value > 0))
    };
    let field = || match others.first().and_then(Expr::as_literal) {
        Some(Scalar::Text(field)) => field.as_str(),
        _ => "",
    };
    let is_local = matches!(argument.data_type, Type::Date | Type::Timestamp);
    match function {
        F::Add => is_exact(result),
        F::Subtract => at == 0 && is_exact(result),
        F::Multiply => all_whole && is_positive(),
        F::Divide => at == 0 && all_whole && is_positive(),
        F::Floor | F::Ceiling | F::Round | F::Truncate => is_exact(result),
        F::DatePlusDays | F::DateMinusDays => at == 0 && argument.data_type == Type::Date,
        F::DateTrunc => at == 1 && is_local,
        F::Extract | F::DatePart => {
            let fields = ["year", "isoyear", "decade", "century", "millennium"];
            at == 1 && is_local && fields.contains(&field())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
