//! Types as written, literals, and which casts there are.

use sqlparser::ast::{self, UnaryOperator};

use crate::catalog::Type;
use crate::ir::expression::{Expr, Node};
use crate::ir::literal::{coerce, is_unknown, number_constant, parse, type_name, unknown};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};
use crate::resolve::syntax::names_of;

/// An explicit cast, where it can be made total.
///
/// # Errors
/// 0A000 for other pairs of types; PostgreSQL's own for a constant that the type does not read.
pub fn cast(expr: Expr, to: &Type) -> Result<Expr, Refusal> {
    use Type::{
        Bool, Char, Date, Enum, Float4, Float8, Int2, Int4, Int8, Interval, Numeric, Text, Time,
        Timestamp, Timestamptz, Uuid, Varchar,
    };
    if matches!(to, Enum(_)) {
        return label(expr, to);
    }
    if is_unknown(&expr.data_type) {
        return Ok(coerce(expr, to)?.cast(to.clone()));
    }
    let allowed = match (&expr.data_type, to) {
        (from, to) if from == to => true,
        (
            Int2 | Int4 | Int8 | Numeric(_) | Float4 | Float8,
            Int2 | Int4 | Int8 | Numeric(_) | Float4 | Float8,
        ) => true,
        (Int4, Bool) | (Bool, Int4) => true,
        (Date | Timestamp | Timestamptz, Date | Timestamp | Timestamptz) => true,
        (
            Bool | Int2 | Int4 | Int8 | Numeric(_) | Float4 | Float8 | Text | Varchar(_) | Char(_)
            | Uuid,
            Text | Varchar(None) | Char(None),
        ) => true,
        (
            Date | Timestamp | Timestamptz | Interval | Time | Enum(_),
            Text | Varchar(None) | Char(None),
        ) => true,
        (Timestamp | Timestamptz, Time) => true,
        (
            Text | Varchar(_) | Char(_),
            Bool | Int2 | Int4 | Int8 | Numeric(_) | Float8 | Date | Timestamp | Timestamptz | Uuid,
        ) => true,
        _ => false,
    };
    if !allowed {
        return Err(Refusal::unsupported(
            reason::UNSUPPORTED_CAST,
            format!(
                "a cast from {} to {}",
                type_name(&expr.data_type),
                type_name(to)
            ),
        ));
    }
    // What a type reads is a text without the blanks at its end.
    let expr = if matches!(expr.data_type, Char(_)) && !to.is_string() {
        coerce(expr, &Text)?
    } else {
        expr
    };
    coerce(expr, to)
}

pub(super) fn literal(value: &ast::Value) -> Result<Expr, Refusal> {
    match value {
        ast::Value::Number(text, false) => number_constant(text),
        ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
            Ok(Expr::literal(Some(Scalar::Text(text.clone())), unknown()))
        }
        ast::Value::DollarQuotedString(ast::DollarQuotedString { value, tag: _ }) => {
            Ok(Expr::literal(Some(Scalar::Text(value.clone())), unknown()))
        }
        ast::Value::Boolean(value) => Ok(Expr::literal(Some(Scalar::Bool(*value)), Type::Bool)),
        ast::Value::Null => Ok(Expr::literal(None, unknown())),
        ast::Value::Placeholder(name) => Err(Refusal::new(
            reason::UNKNOWN_PARAMETER,
            format!("there is no parameter {name}"),
        )),
        other => Err(Refusal::unsupported(
            reason::UNSUPPORTED_CONSTANT,
            format!("the literal {other}"),
        )),
    }
}

/// The type that a cast names, if an expression over private rows may have it.
pub fn known_type(data_type: &ast::DataType) -> Option<Type> {
    use ast::{CharacterLength as L, DataType as D, ExactNumberInfo as N, TimezoneInfo as Z};
    let numeric = |info: &N| match info {
        N::None => Some(Type::Numeric(None)),
        N::Precision(p) => u16::try_from(*p)
            .ok()
            .filter(|p| (1..=1000).contains(p))
            .map(|p| Type::Numeric(Some((p, 0)))),
        N::PrecisionAndScale(p, s) => match (u16::try_from(*p), i16::try_from(*s)) {
            (Ok(p), Ok(s)) if (1..=1000).contains(&p) && s >= 0 && s <= p as i16 => {
                Some(Type::Numeric(Some((p, s))))
            }
            _ => None,
        },
    };
    match data_type {
        D::Bool | D::Boolean => Some(Type::Bool),
        D::SmallInt(None) | D::Int2(None) => Some(Type::Int2),
        D::Int(None) | D::Integer(None) | D::Int4(None) => Some(Type::Int4),
        D::BigInt(None) | D::Int8(None) => Some(Type::Int8),
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => numeric(info),
        D::Real | D::Float4 => Some(Type::Float4),
        D::DoublePrecision | D::Float8 | D::Float(N::None) => Some(Type::Float8),
        D::Float(N::Precision(p)) if (1..=53).contains(p) => {
            Some(if *p <= 24 { Type::Float4 } else { Type::Float8 })
        }
        D::Text => Some(Type::Text),
        D::Varchar(None) | D::CharacterVarying(None) | D::CharVarying(None) => {
            Some(Type::Varchar(None))
        }
        D::Varchar(Some(L::IntegerLength { length, unit: None }))
        | D::CharacterVarying(Some(L::IntegerLength { length, unit: None })) => {
            u32::try_from(*length)
                .ok()
                .filter(|n| (1..=10_485_760).contains(n))
                .map(|n| Type::Varchar(Some(n)))
        }
        D::Char(None) | D::Character(None) => Some(Type::Char(Some(1))),
        D::Char(Some(L::IntegerLength { length, unit: None }))
        | D::Character(Some(L::IntegerLength { length, unit: None })) => u32::try_from(*length)
            .ok()
            .filter(|n| (1..=10_485_760).contains(n))
            .map(|n| Type::Char(Some(n))),
        D::Custom(name, modifiers) if modifiers.is_empty() && is_bpchar(name) => {
            Some(Type::Char(None))
        }
        D::Date => Some(Type::Date),
        D::Timestamp(None, Z::None | Z::WithoutTimeZone) => Some(Type::Timestamp),
        D::Timestamp(None, Z::WithTimeZone | Z::Tz) => Some(Type::Timestamptz),
        D::Interval {
            fields: None,
            precision: None,
        } => Some(Type::Interval),
        D::Time(None, Z::None | Z::WithoutTimeZone) => Some(Type::Time),
        D::Uuid => Some(Type::Uuid),
        _ => None,
    }
}

fn is_bpchar(name: &ast::ObjectName) -> bool {
    names_of(name).is_ok_and(|names| {
        matches!(
            names.iter().map(String::as_str).collect::<Vec<_>>()[..],
            ["bpchar"] | ["pg_catalog", "bpchar"]
        )
    })
}

/// The type of a function that is named as a type is: `date(x)` means `x::date`.
pub(super) fn type_named(name: &str) -> Option<Type> {
    match name {
        "date" => Some(Type::Date),
        "int2" => Some(Type::Int2),
        "int4" => Some(Type::Int4),
        "int8" => Some(Type::Int8),
        "float4" => Some(Type::Float4),
        "float8" => Some(Type::Float8),
        "numeric" => Some(Type::Numeric(None)),
        "text" => Some(Type::Text),
        "timestamptz" => Some(Type::Timestamptz),
        _ => None,
    }
}

/// What to call a construct in a refusal. Names only, never text of the client.
pub fn construct(expr: &ast::Expr) -> &'static str {
    use ast::Expr as E;
    match expr {
        E::SimilarTo { .. } => "SIMILAR TO",
        E::RLike { .. } => "RLIKE",
        E::AnyOp { .. } => "ANY",
        E::AllOp { .. } => "ALL",
        E::AtTimeZone { .. } => "AT TIME ZONE",
        E::Overlay { .. } => "OVERLAY",
        E::Collate { .. } => "COLLATE",
        E::Interval(_) => "this form of interval",
        E::Array(_) => "an array constructor",
        E::Tuple(_) => "a row value",
        E::GroupingSets(_) | E::Cube(_) | E::Rollup(_) => "GROUPING SETS",
        E::JsonAccess { .. } => "a JSON path",
        E::CompoundFieldAccess { .. } => "a field or subscript",
        E::Cast { .. } => "this form of cast",
        E::Trim { .. } => "this form of TRIM",
        E::Substring { .. } => "this form of SUBSTRING",
        E::Wildcard(_) | E::QualifiedWildcard(..) => "a whole row",
        _ => "this expression",
    }
}

pub(super) fn operator_refused(operator: impl std::fmt::Display) -> Refusal {
    Refusal::unsupported(reason::UNSUPPORTED_OPERATOR, format!("operator {operator}"))
}

/// The last operand follows its own prefix operator.
pub(super) fn ends_in_prefix(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::UnaryOp { op, expr: _ } => {
            !matches!(op, UnaryOperator::Minus | UnaryOperator::Plus)
        }
        ast::Expr::BinaryOp {
            left: _,
            op: _,
            right,
        } => ends_in_prefix(right),
        _ => false,
    }
}

/// A constant as a label of an enum, or a value that has the type already. Of other texts the cast
/// could fail.
///
/// # Errors
/// 22P02 for a text that is no label; 0A000 for what is no constant.
fn label(expr: Expr, to: &Type) -> Result<Expr, Refusal> {
    if expr.data_type == *to || is_unknown(&expr.data_type) {
        return coerce(expr, to);
    }
    match (&expr.data_type, &expr.node) {
        (Type::Text | Type::Varchar(_), Node::Literal(Some(Scalar::Text(text)))) => {
            Ok(Expr::literal(Some(parse(text, to)?), to.clone()))
        }
        (Type::Text | Type::Varchar(_), Node::Literal(None)) => Ok(Expr::literal(None, to.clone())),
        (from, _) => Err(Refusal::unsupported(
            reason::UNSUPPORTED_CAST,
            format!("a cast from {} to {}", type_name(from), type_name(to)),
        )),
    }
}
