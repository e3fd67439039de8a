//! Limits of arguments that must be constants.

use super::{LENGTH_MAX, REPEAT_MAX};
use crate::calendar::MICROS_PER_DAY;
use crate::catalog::Type;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::{Function, Overload, ParameterType};
use crate::ir::literal::in_calendar;
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};
use crate::resolve::expression::{pattern, zone};

/// Arguments that must be constants are constants, within limits where the function cannot fail.
pub(super) fn check_constants(entry: &Overload, arguments: &mut [Expr]) -> Result<(), Refusal> {
    check_kinds(entry, arguments)?;
    use Function as F;
    match entry.function {
        F::DateTrunc | F::DatePart | F::Extract => {
            let operand = arguments
                .get(1)
                .map_or(Type::Timestamp, |a| a.data_type.clone());
            let field = zone::field(&text(entry, arguments, 0)?, entry.function, &operand)?;
            arguments[0] = Expr::literal(Some(Scalar::Text(field)), Type::Text);
            Ok(())
        }
        F::AtZone => {
            let zone = zone::zone(&text(entry, arguments, 0)?)?;
            arguments[0] = Expr::literal(Some(Scalar::Text(zone)), Type::Text);
            Ok(())
        }
        F::DateBin => check_bin(arguments),
        F::SubstringMatching | F::SubstringWhole | F::CountMatching => {
            pattern::regex(&text(entry, arguments, 1)?)
        }
        F::ReplaceMatching => {
            pattern::regex(&text(entry, arguments, 1)?)?;
            let flags = if arguments.len() < 4 {
                String::new()
            } else {
                text(entry, arguments, 3)?
            };
            check_replacement(&text(entry, arguments, 2)?, &flags)
        }
        F::Formatted => zone::format(&text(entry, arguments, 1)?, &arguments[0].data_type),
        F::LogBase | F::Power => check_powers(entry, arguments),
        F::WidthBucket => check_histogram(arguments),
        _ => check_lengths(entry, arguments),
    }
}

/// Places in a text and lengths of results.
fn check_lengths(entry: &Overload, arguments: &[Expr]) -> Result<(), Refusal> {
    let name = entry.name;
    let integer = |at: usize| match arguments.get(at).and_then(Expr::as_literal) {
        Some(Scalar::Int(value)) => Some(*value),
        _ => None,
    };
    let length = |at| text(entry, arguments, at).map(|text| text.len());
    use Function as F;
    match entry.function {
        F::Overlay | F::OverlayFor
            if integer(2).is_none_or(|at| at < 1)
                || (arguments.len() > 3 && integer(3).is_none_or(|length| length < 0)) =>
        {
            Err(Refusal::new(
                reason::CONSTANT_OUT_OF_LIMITS,
                "overlay() must start at the first character or later, with a length that is \
                    not negative",
            ))
        }
        F::SplitPart if integer(2).is_none_or(|at| at < 1) => Err(Refusal::new(
            reason::INVALID_ARGUMENT,
            "field position must be greater than zero",
        )),
        F::Repeat if integer(1).is_none_or(|times| times > REPEAT_MAX) => Err(Refusal::new(
            reason::CONSTANT_OUT_OF_LIMITS,
            format!("the length in {name}() is too large"),
        )),
        F::PadLeft | F::PadRight if integer(1).is_none_or(|length| length > LENGTH_MAX) => {
            Err(Refusal::new(
                reason::CONSTANT_OUT_OF_LIMITS,
                format!("the length in {name}() is too large"),
            ))
        }
        F::Replace | F::Translate if length(1)?.max(length(2)?) > 100 => Err(Refusal::new(
            reason::CONSTANT_OUT_OF_LIMITS,
            format!("a constant in {name}() is too long"),
        )),
        F::SubstringFor if integer(2).is_some_and(|length| length < 0) => Err(Refusal::new(
            reason::NEGATIVE_LENGTH,
            "negative substring length not allowed",
        )),
        _ => Ok(()),
    }
}

/// The argument at this place, a constant text.
fn text(entry: &Overload, arguments: &[Expr], at: usize) -> Result<String, Refusal> {
    match arguments.get(at).and_then(Expr::as_literal) {
        Some(Scalar::Text(text)) => Ok(text.clone()),
        _ => Err(Refusal::new(
            reason::CONSTANT_REQUIRED,
            format!("the text argument of {}() must be a constant", entry.name),
        )),
    }
}

/// Each argument that must be a constant is one; counts are within limits.
pub(super) fn check_kinds(entry: &Overload, arguments: &[Expr]) -> Result<(), Refusal> {
    let name = entry.name;
    for (kind, argument) in entry.arguments.iter().zip(arguments.iter()) {
        if kind.is_constant() && argument.as_literal().is_none() {
            return Err(Refusal::new(
                reason::CONSTANT_REQUIRED,
                format!("this argument of {name}() must be a constant"),
            ));
        }
        if let (ParameterType::ConstantInt, Some(Scalar::Int(value))) =
            (kind, argument.as_literal())
            && !(-1000..=100_000).contains(value)
        {
            return Err(Refusal::new(
                reason::CONSTANT_OUT_OF_LIMITS,
                format!("this argument of {name}() must be from -1000 to 100000"),
            ));
        }
    }
    Ok(())
}

pub(super) fn check_replacement(replacement: &str, flags: &str) -> Result<(), Refusal> {
    if flags.chars().all(|c| matches!(c, 'g' | 'i')) && replacement.len() <= 100 {
        return Ok(());
    }
    Err(Refusal::new(
        reason::UNSUPPORTED_PATTERN,
        "regexp_replace() takes the flags g and i and a replacement of at most 100 bytes",
    ))
}

/// A base or an exponent is a constant, so that the other can be held where the result stays in
/// range.
pub(super) fn check_powers(entry: &Overload, arguments: &[Expr]) -> Result<(), Refusal> {
    let constant = |at: usize| match arguments.get(at).map(|a| &a.node) {
        Some(Node::Literal(Some(Scalar::Decimal(text)))) => text.parse::<f64>().ok(),
        _ => None,
    };
    let is_base = |base: f64| (1e-6..=0.9).contains(&base) || (1.1..=1e6).contains(&base);
    let fits = match (entry.function, constant(0), constant(1)) {
        (Function::LogBase, Some(base), _) => is_base(base),
        (Function::LogBase, None, _) => false,
        (_, _, Some(exponent)) => {
            exponent.abs() <= 32.0 && (exponent == 0.0 || exponent.abs() >= 0.01)
        }
        (_, Some(base), None) => is_base(base),
        (_, None, None) => false,
    };
    if fits {
        return Ok(());
    }
    let (message, hint) = match entry.function {
        Function::LogBase => (
            "the base of log() must be a constant within limits",
            "Give a constant base from 1.1 to 1000000.",
        ),
        _ => (
            "a power needs a constant base or exponent within limits",
            "Give a constant exponent from -32 to 32, or a constant base from 1.1 to 1000000.",
        ),
    };
    Err(Refusal::new(reason::CONSTANT_OUT_OF_LIMITS, message).hint(hint))
}

/// A step of a fixed length, from a constant origin.
pub(super) fn check_bin(arguments: &[Expr]) -> Result<(), Refusal> {
    let step = match arguments.first().and_then(Expr::as_literal) {
        Some(Scalar::Interval {
            months: 0,
            days,
            micros,
        }) => i128::from(*days) * i128::from(MICROS_PER_DAY) + i128::from(*micros),
        _ => 0,
    };
    // From the year 1, so long a step back is still within PostgreSQL's own calendar.
    let longest = 4000 * 365 * i128::from(MICROS_PER_DAY);
    let is_in_calendar = |origin: &Expr| match origin.as_literal() {
        Some(Scalar::Timestamp(micros)) => in_calendar(*micros),
        _ => false,
    };
    if (1..=longest).contains(&step) && arguments.get(2).is_some_and(is_in_calendar) {
        return Ok(());
    }
    Err(Refusal::new(
        reason::CONSTANT_OUT_OF_LIMITS,
        "the stride and origin of date_bin() must be constants within limits",
    )
    .hint(
        "Write a positive stride of at most 4000 years without months, and an origin \
                in the years 1 to 9999.",
    ))
}

pub(super) fn check_histogram(arguments: &[Expr]) -> Result<(), Refusal> {
    let constant = |at: usize| arguments.get(at).and_then(Expr::as_literal);
    match (constant(1), constant(2), constant(3)) {
        (Some(Scalar::Decimal(lower)), Some(Scalar::Decimal(upper)), Some(Scalar::Int(count))) => {
            let (lower, upper) = (
                lower.parse::<f64>().unwrap_or(f64::NAN),
                upper.parse::<f64>().unwrap_or(f64::NAN),
            );
            if lower < upper
                && upper - lower > 1e-9
                && (1..=100_000).contains(count)
                && lower.abs().max(upper.abs()) < 1e30
            {
                return Ok(());
            }
            Err(Refusal::new(
                reason::CONSTANT_OUT_OF_LIMITS,
                "the limits of width_bucket() are out of range",
            )
            .hint("Write a lower limit, a higher limit and a count from 1 to 100000."))
        }
        _ => Err(Refusal::new(
            reason::CONSTANT_REQUIRED,
            "the limits and the count of width_bucket() must be constants",
        )),
    }
}
