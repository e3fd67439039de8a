//! Operands and results brought to one type.

use super::{Constants, char_padding};
use crate::catalog::Type;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::Function;
use crate::ir::literal::{coerce, common_type, is_unknown, type_name, unknown};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// A comparison, its operands brought to one type.
///
/// # Errors
/// 42883 and 0A000 if there is no such comparison, or it depends on the session's time zone.
pub fn compare(
    constants: &Constants,
    function: Function,
    left: Expr,
    right: Expr,
    symbol: &str,
) -> Result<Expr, Refusal> {
    constants.require_one_zone([&left.data_type, &right.data_type], symbol)?;
    let operands = unify(
        char_padding::comparison_operands(vec![left, right])?,
        symbol,
    )?;
    Ok(Expr::call(function, operands, Type::Bool))
}

pub(super) fn merge(function: Function, arguments: Vec<Expr>, name: &str) -> Result<Expr, Refusal> {
    let arguments = unify_branches(arguments, name)?;
    let data_type = of_all(&arguments)
        .ok_or_else(|| Refusal::new(reason::SYNTAX_ERROR, format!("{name} needs arguments")))?;
    Ok(Expr::call(function, arguments, data_type))
}

/// The type that holds any of these values of one type: a constant among them may have more digits
/// or characters than the others.
pub(super) fn of_all(values: &[Expr]) -> Option<Type> {
    let first = values.first()?.data_type.clone();
    let is_written = |e: &Expr| e.as_literal().is_some();
    Some(match first {
        Type::Numeric(_) if values.iter().any(is_written) => Type::Numeric(None),
        Type::Varchar(_) if values.iter().any(is_written) => Type::Varchar(None),
        _ => first,
    })
}

/// Casts all to their common type. Integers of different width are cast too: widening cannot fail.
pub(super) fn unify(exprs: Vec<Expr>, place: &str) -> Result<Vec<Expr>, Refusal> {
    let mut common = unknown();
    for expr in &exprs {
        common = common_type(&common, &expr.data_type).ok_or_else(|| {
            let (a, b) = (type_name(&common), type_name(&expr.data_type));
            Refusal::unsupported(
                reason::INCOMPARABLE_TYPES,
                format!("{place} between {a} and {b}"),
            )
            .hint("Cast one side so that both have the same type.")
        })?;
    }
    if is_unknown(&common) {
        common = Type::Text;
    }
    // A constant is as long as it is written.
    let is_written = |e: &Expr| is_unknown(&e.data_type) && e.node != Node::Literal(None);
    if matches!(common, Type::Char(_)) && exprs.iter().any(is_written) {
        common = Type::Char(None);
    }
    exprs.into_iter().map(|e| coerce(e, &common)).collect()
}

/// Casts values of which one is chosen to their common type. Constants next to a real become reals,
/// where an operator would compare both as double precision.
pub(super) fn unify_branches(exprs: Vec<Expr>, place: &str) -> Result<Vec<Expr>, Refusal> {
    let has = |data_type: Type| exprs.iter().any(|e| e.data_type == data_type);
    if !has(Type::Float4) || has(Type::Float8) {
        return unify(exprs, place);
    }
    let as_real = |expr: Expr| {
        let text = match (&expr.node, &expr.data_type) {
            (Node::Literal(Some(Scalar::Int(value))), _) => value.to_string(),
            (Node::Literal(Some(Scalar::Decimal(text))), Type::Numeric(_)) => text.clone(),
            _ => return expr,
        };
        // The value as it is stored: 16777217 is no real, and 1e-50 would be none.
        match text.parse::<f32>() {
            Ok(real) if real.is_finite() && (real != 0.0 || parses_as_zero(&text)) => {
                Expr::literal(Some(Scalar::Decimal(real.to_string())), Type::Float4)
            }
            _ => expr,
        }
    };
    unify(exprs.into_iter().map(as_real).collect(), place)
}

fn parses_as_zero(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(|number| number == 0.0)
}
