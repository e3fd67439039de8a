//! Constants and types, as PostgreSQL reads them.

use sqlparser::ast;

use super::{cast, name, null, number_literal, text_literal, value};
use crate::calendar::{MICROS_PER_DAY, civil_from_days};
use crate::catalog::Type;
use crate::ir::literal::interval_text;
use crate::policy::Scalar;

/// A constant of a type, written so that PostgreSQL reads exactly that type.
pub fn constant(constant: Option<&Scalar>, to: &Type) -> ast::Expr {
    let Some(scalar) = constant else {
        return cast(null(), to);
    };
    match (scalar, to) {
        (Scalar::Bool(v), _) => value(ast::Value::Boolean(*v)),
        (Scalar::Int(v), Type::Int4) if *v > i64::from(i32::MIN) => number_literal(&v.to_string()),
        (Scalar::Timestamp(_), Type::Timestamptz) => {
            cast(text_literal(&in_utc(&scalar_text(scalar))), to)
        }
        (scalar, to) => cast(text_literal(&scalar_text(scalar)), to),
    }
}

/// The text of an instant with its zone. The zone stands before `BC`, and infinity has no zone.
fn in_utc(text: &str) -> String {
    match text.strip_suffix(" BC") {
        Some(instant) => format!("{instant}+00 BC"),
        None if text.ends_with("infinity") => text.to_owned(),
        None => format!("{text}+00"),
    }
}

/// The canonical text of a constant: what PostgreSQL prints for it under ISO settings and UTC.
pub fn scalar_text(scalar: &Scalar) -> String {
    let mut text = String::new();
    // A string takes all that is written.
    let _ = write_scalar(scalar, &mut text);
    text
}

/// Writes the text of [`scalar_text`], and keeps no part of it elsewhere in memory.
pub fn write_scalar(scalar: &Scalar, out: &mut impl std::fmt::Write) -> std::fmt::Result {
    match scalar {
        Scalar::Bool(v) => write!(out, "{v}"),
        Scalar::Int(v) => write!(out, "{v}"),
        Scalar::Decimal(v) | Scalar::Text(v) => out.write_str(v),
        Scalar::Interval {
            months,
            days,
            micros,
        } => out.write_str(&interval_text(*months, *days, *micros)),
        Scalar::Date(i32::MAX) | Scalar::Timestamp(i64::MAX) => out.write_str("infinity"),
        Scalar::Date(i32::MIN) | Scalar::Timestamp(i64::MIN) => out.write_str("-infinity"),
        Scalar::Date(days) => {
            let era = write_date(*days, out)?;
            out.write_str(era)
        }
        Scalar::Timestamp(micros) => {
            let (days, time) = (
                micros.div_euclid(MICROS_PER_DAY),
                micros.rem_euclid(MICROS_PER_DAY),
            );
            let era = write_date(i32::try_from(days).unwrap_or(i32::MAX), out)?;
            let (seconds, mut fraction) = (time / 1_000_000, time % 1_000_000);
            write!(
                out,
                " {:02}:{:02}:{:02}",
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60
            )?;
            if fraction != 0 {
                let mut digits = 6;
                while fraction % 10 == 0 {
                    (fraction, digits) = (fraction / 10, digits - 1);
                }
                write!(out, ".{fraction:0digits$}")?;
            }
            out.write_str(era)
        }
    }
}

/// Writes the date; the suffix for years before the year 1.
fn write_date(days: i32, out: &mut impl std::fmt::Write) -> Result<&'static str, std::fmt::Error> {
    let (year, month, day) = civil_from_days(days);
    let (year, era) = if year > 0 {
        (year, "")
    } else {
        (1 - year, " BC")
    };
    write!(out, "{year:04}-{month:02}-{day:02}")?;
    Ok(era)
}

/// A type as a cast names it.
pub fn data_type(data_type: &Type) -> ast::DataType {
    use ast::{DataType as D, ExactNumberInfo as N, TimezoneInfo as Z};
    match data_type {
        Type::Bool => D::Boolean,
        Type::Int2 => D::SmallInt(None),
        Type::Int4 => D::Integer(None),
        Type::Int8 => D::BigInt(None),
        Type::Numeric(None) => D::Numeric(N::None),
        Type::Numeric(Some((precision, scale))) => D::Numeric(N::PrecisionAndScale(
            u64::from(*precision),
            i64::from(*scale),
        )),
        Type::Float4 => D::Real,
        Type::Float8 => D::DoublePrecision,
        Type::Text => D::Text,
        Type::Varchar(_) => D::CharacterVarying(None),
        Type::Char(None) => D::Custom(name(&["bpchar"]), Vec::new()),
        Type::Char(Some(length)) => D::Character(Some(ast::CharacterLength::IntegerLength {
            length: u64::from(*length),
            unit: None,
        })),
        Type::Uuid => D::Uuid,
        Type::Date => D::Date,
        Type::Timestamp => D::Timestamp(None, Z::None),
        Type::Timestamptz => D::Timestamp(None, Z::WithTimeZone),
        Type::Interval => D::Interval {
            fields: None,
            precision: None,
        },
        Type::Time => D::Time(None, Z::None),
        Type::Enum(made) => D::Custom(name(&[&made.schema, &made.name]), Vec::new()),
        Type::Other {
            oid: _,
            name: type_name,
        } => D::Custom(name(&[type_name]), Vec::new()),
    }
}
