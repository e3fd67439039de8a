//! `pgveil.stderr(…)`, `pgveil.ci_low(…)`, `pgveil.ci_high(…)` and `pgveil.low_by(…)` of
//! aggregates and of arithmetic over aggregates. They are columns of their release, computed from
//! released values.

use sqlparser::ast;

use crate::catalog::Type;
use crate::ir::{AggregateId, Formula, Statistic, Uncertainty};
use crate::parse::FunctionCall;
use crate::policy::{FieldKind, VIEW_SCHEMA};
use crate::refusal::{Refusal, reason};
use crate::resolve::expression::known_type;
use crate::resolve::syntax::{aggregate_name, name_of, names_of, record_called, record_field};

impl Uncertainty {
    /// The name of its column in the outer query, if it is the `at`-th of its release.
    pub fn column(&self, at: usize) -> String {
        format!("{}{at}", self.statistic.name())
    }
}

fn statistic(function: &ast::Function) -> Option<Statistic> {
    match names_of(&function.name).ok()?.as_slice() {
        [schema, name] if schema == VIEW_SCHEMA => Statistic::ALL
            .into_iter()
            .find(|statistic| statistic.name() == name),
        _ => None,
    }
}

/// The uncertainty that a call asks for. `number` numbers its aggregates. `None` for other
/// expressions.
///
/// # Errors
/// 0A000 for anything but arithmetic over aggregates.
pub(in crate::resolve) fn uncertainty_of_call(
    expr: &ast::Expr,
    number: &mut Number<'_>,
) -> Result<Option<Uncertainty>, Refusal> {
    let ast::Expr::Function(function) = expr else {
        return Ok(None);
    };
    let Some(statistic) = statistic(function) else {
        return Ok(None);
    };
    let unknown = || elsewhere(&function.name.to_string());
    let arguments = plain_arguments(function).unwrap_or_default();
    let [argument] = arguments.as_slice() else {
        return Err(unknown());
    };
    let mut aggregates = 0;
    let mut counted = |function: &ast::Function, field: Option<&ast::Ident>| {
        aggregates += 1;
        number(function, field)
    };
    let formula = formula(argument, 0, &mut counted)?
        .filter(|_| aggregates > 0)
        .ok_or_else(unknown)?;
    Ok(Some(Uncertainty { formula, statistic }))
}

/// The statistic that a call asks for, and the call's argument; `None` for other expressions.
pub(in crate::resolve) fn statistic_of(expr: &ast::Expr) -> Option<(Statistic, &ast::Expr)> {
    let ast::Expr::Function(function) = expr else {
        return None;
    };
    let statistic = statistic(function)?;
    match plain_arguments(function)?.as_slice() {
        [argument] => Some((statistic, argument)),
        _ => None,
    }
}

/// Numbers an aggregate call, or a field of the record that it gives.
type Number<'n> =
    dyn FnMut(&ast::Function, Option<&ast::Ident>) -> Result<AggregateId, Refusal> + 'n;

/// Deepest arithmetic. The walk is recursive, on the thread's stack.
const DEPTH_MAX: usize = 100;

/// `None` for an expression whose error is not known.
fn formula(
    expr: &ast::Expr,
    depth: usize,
    number: &mut Number<'_>,
) -> Result<Option<Formula>, Refusal> {
    use ast::BinaryOperator as B;
    if depth > DEPTH_MAX {
        return Ok(None);
    }
    let mut one =
        |expr: &ast::Expr| Ok::<_, Refusal>(formula(expr, depth + 1, number)?.map(Box::new));
    Ok(match expr {
        ast::Expr::Nested(inner) => formula(inner, depth + 1, number)?,
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Number(text, false),
            span: _,
        }) => constant(text),
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Plus,
            expr,
        } => formula(expr, depth + 1, number)?,
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } => one(expr)?.map(Formula::Negated),
        ast::Expr::BinaryOp {
            left,
            op: op @ (B::Plus | B::Minus | B::Multiply | B::Divide),
            right,
        } => {
            let (Some(left), Some(right)) = (one(left)?, one(right)?) else {
                return Ok(None);
            };
            Some(match op {
                B::Plus => Formula::Sum(left, right),
                B::Minus => Formula::Difference(left, right),
                B::Multiply => Formula::Product(left, right),
                _ => Formula::Quotient(left, right),
            })
        }
        ast::Expr::Cast {
            kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
            expr,
            data_type,
            format: None,
        } => match known_type(data_type) {
            Some(Type::Float8 | Type::Numeric(None)) => one(expr)?.map(Formula::Real),
            _ => None,
        },
        ast::Expr::Function(function) if aggregate_name(function).is_some() => {
            Some(Formula::Aggregate(number(function, None)?))
        }
        ast::Expr::CompoundFieldAccess { .. } => match record_field(expr) {
            Some((function, field, [])) if counts_rows(function, field) => {
                Some(Formula::Aggregate(number(function, Some(field))?))
            }
            _ => None,
        },
        ast::Expr::Function(function) => formula_of_call(function, depth + 1, number)?,
        _ => None,
    })
}

/// Whether a field of a record is the number of rows: the other fields have errors in the record.
fn counts_rows(function: &ast::Function, field: &ast::Ident) -> bool {
    let of = record_called(function).zip(name_of(field).ok());
    of.and_then(|(record, name)| record.field(&name))
        .is_some_and(|field| field.kind == FieldKind::Rows)
}

/// Functions whose result has a known error. NULLIF and COALESCE choose a value where there is
/// none.
fn formula_of_call(
    function: &ast::Function,
    depth: usize,
    number: &mut Number<'_>,
) -> Result<Option<Formula>, Refusal> {
    let (Ok(names), Some(arguments)) = (names_of(&function.name), plain_arguments(function)) else {
        return Ok(None);
    };
    let [name] = names.as_slice() else {
        return Ok(None);
    };
    let mut one = |expr: &ast::Expr| Ok::<_, Refusal>(formula(expr, depth, number)?.map(Box::new));
    Ok(match (name.as_str(), arguments.as_slice()) {
        ("sqrt", [of]) => one(of)?.map(Formula::Root),
        ("exp", [of]) => one(of)?.map(Formula::Exponential),
        ("round", [of]) => one(of)?.map(|of| Formula::Rounded(of, 0)),
        ("round", [of, digits]) => match number_of(digits) {
            Some(digits) if digits.fract() == 0.0 && digits.abs() <= 100.0 => {
                one(of)?.map(|of| Formula::Rounded(of, digits as i32))
            }
            _ => None,
        },
        ("nullif" | "coalesce", [of, other]) if number_of(other) == Some(0.0) => {
            formula(of, depth, number)?
        }
        _ => None,
    })
}

fn number_of(expr: &ast::Expr) -> Option<f64> {
    match expr {
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Number(text, false),
            span: _,
        }) => text.parse().ok(),
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } if !matches!(&**expr, ast::Expr::UnaryOp { .. }) => number_of(expr).map(|n| -n),
        _ => None,
    }
}

fn constant(text: &str) -> Option<Formula> {
    let value: f64 = text.parse().ok()?;
    Some(Formula::Number {
        value,
        is_integer: text.bytes().all(|b| b.is_ascii_digit()),
    })
}

/// The arguments of a call that has expressions as arguments and no other clause.
fn plain_arguments(function: &ast::Function) -> Option<Vec<&ast::Expr>> {
    FunctionCall::of(function)
        .filter(FunctionCall::is_plain)
        .and_then(|call| call.expressions())
}

/// 0A000 for one of these functions without an aggregate of private rows; `None` for other names.
pub(in crate::resolve) fn refuse_without_aggregate(names: &[String]) -> Option<Refusal> {
    matches!(names, [schema, _] if schema == VIEW_SCHEMA).then(|| elsewhere(&names.join(".")))
}

fn elsewhere(name: &str) -> Refusal {
    Refusal::new(
        reason::UNCERTAINTY_ARGUMENT,
        format!("{name}() takes an aggregate over private rows, or arithmetic on such aggregates"),
    )
    .detail(
        "The functions are pgveil.stderr(), pgveil.ci_low(), pgveil.ci_high() and \
            pgveil.low_by(). Arithmetic is +, -, *, /, sqrt(), exp(), round(), NULLIF and \
            COALESCE with 0, and casts to numeric or float8.",
    )
    .hint(
        "Repeat the aggregate inside it, as in SELECT avg(x), pgveil.stderr(avg(x)) \
                FROM the private table.",
    )
}
