//! The values of single made-up columns: from lists, within bounds and bins, and around means.

use std::collections::HashMap;

use rand::{Rng, RngExt};

use super::law::ValueLaw;
use crate::catalog::{Type, TypeDefinition, UserType, oid_of};
use crate::ir::literal::as_number;
use crate::ir::sql::scalar_text;
use crate::policy::{Column, Scalar};
use crate::rewrite::key_text;

/// Whether the type has a value for each of that many numbers.
pub(super) fn has_numbers(data_type: &Type, rows: usize) -> bool {
    let digits = rows.to_string().len() as u64;
    match data_type {
        Type::Int2 => i16::try_from(rows).is_ok(),
        Type::Int4 => i32::try_from(rows).is_ok(),
        Type::Int8 | Type::Float8 | Type::Text | Type::Uuid => true,
        Type::Float4 => rows < 1 << 24,
        Type::Numeric(None) | Type::Varchar(None) | Type::Char(None) => true,
        Type::Numeric(Some((precision, scale))) => {
            i64::from(*precision) - i64::from(*scale).max(0) >= digits as i64 && *scale >= 0
        }
        Type::Varchar(Some(length)) | Type::Char(Some(length)) => u64::from(*length) >= digits,
        Type::Bool | Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval => false,
        Type::Time | Type::Enum(_) | Type::Other { .. } => false,
    }
}

pub(super) fn number_rows(data_type: &Type, rows: usize) -> Vec<Option<String>> {
    (1..=rows)
        .map(|number| Some(number_text(data_type, number)))
        .collect()
}

/// The value of a type that stands for a number.
pub(super) fn number_text(data_type: &Type, number: usize) -> String {
    let long = format!("unit-{number:06}");
    match data_type {
        // Version 8: a UUID that its maker defines.
        Type::Uuid => format!("00000000-0000-8000-8000-{number:012x}"),
        Type::Text | Type::Varchar(None) | Type::Char(None) => long,
        Type::Varchar(Some(most)) | Type::Char(Some(most)) if long.len() <= *most as usize => long,
        _ => number.to_string(),
    }
}

/// The values that the policy or the type lists.
pub(super) fn list_values(column: &Column) -> Vec<String> {
    match (&column.domain, &column.data_type) {
        (Some(values), data_type) => values
            .iter()
            .map(|value| key_text(value, data_type))
            .collect(),
        (None, Type::Bool) => vec!["false".to_owned(), "true".to_owned()],
        (None, Type::Enum(made)) => made.labels.clone(),
        (None, _) => Vec::new(),
    }
}

/// The bounds of a column on the line of numbers: the policy's, or those of a small type.
pub(super) fn bounds(column: &Column) -> Option<(f64, f64)> {
    let Some(bounds) = &column.bounds else {
        let is_small = column.data_type == Type::Int2;
        return is_small.then_some((f64::from(i16::MIN), f64::from(i16::MAX)));
    };
    Some((as_number(&bounds.lower)?, as_number(&bounds.upper)?))
}

/// Whether the column, or the domain that it is of, is NOT NULL.
pub(super) fn is_filled(column: &Column, types: &[UserType]) -> bool {
    let declared = column.declared.as_ref().map(oid_of);
    let is_filled = |made: &UserType| {
        Some(made.oid) == declared
            && matches!(
                made.definition,
                TypeDefinition::Domain { not_null: true, .. }
            )
    };
    column.not_null || types.iter().any(is_filled)
}

/// Whether a made-up number of another column is a value of this type.
pub(super) fn fits(data_type: &Type, value: &str) -> bool {
    let is_whole = value.bytes().all(|b| b.is_ascii_digit());
    match data_type {
        Type::Int2 => value.parse::<i16>().is_ok(),
        Type::Int4 => value.parse::<i32>().is_ok(),
        Type::Int8 | Type::Numeric(None) | Type::Float8 => is_whole,
        Type::Text | Type::Varchar(None) | Type::Char(None) => true,
        Type::Varchar(Some(most)) | Type::Char(Some(most)) => value.len() <= *most as usize,
        Type::Uuid => value.len() == number_text(&Type::Uuid, 0).len(),
        Type::Numeric(Some(_)) => {
            is_whole
                && value
                    .parse()
                    .is_ok_and(|number| has_numbers(data_type, number))
        }
        Type::Float4 => value.parse().is_ok_and(|number: u32| number < 1 << 24),
        Type::Bool | Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval => false,
        Type::Time | Type::Enum(_) | Type::Other { .. } => false,
    }
}

/// A value of the type, the same for every row; `None` where none is known.
pub(super) fn constant(data_type: &Type) -> Option<String> {
    let text = match data_type {
        Type::Bool => "false",
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8 => {
            "0"
        }
        Type::Uuid => "00000000-0000-8000-8000-000000000000",
        Type::Date | Type::Timestamp => "2000-01-01",
        Type::Timestamptz => "2000-01-01 00:00:00+00",
        Type::Interval | Type::Time => "00:00:00",
        Type::Enum(made) => made.labels.first()?,
        Type::Text | Type::Varchar(_) | Type::Char(_) => "",
        Type::Other { .. } => return None,
    };
    Some(text.to_owned())
}

/// A value of the column's list, or between its bounds, for each mean.
pub(super) fn around(
    column: &Column,
    means: &[Option<f64>],
    random: &mut impl Rng,
) -> Vec<Option<String>> {
    let list = column.domain.as_ref().map(|values| {
        let numbers = values.iter().filter_map(as_number).collect::<Vec<_>>();
        (numbers, list_values(column))
    });
    let list = list.filter(|(numbers, texts)| !texts.is_empty() && numbers.len() == texts.len());
    let mut laws: HashMap<u64, ValueLaw> = HashMap::new();
    let mut value = |mean: f64| {
        let law = laws.entry(mean.to_bits()).or_insert_with(|| match &list {
            Some((numbers, _)) => ValueLaw::on_list(numbers, mean),
            None => {
                let (low, high) = bounds(column).unwrap_or((mean, mean));
                ValueLaw::on_interval(low, high, mean)
            }
        });
        let drawn = law.draw(random);
        match &list {
            Some((_, texts)) => texts[drawn as usize].clone(),
            None => text(column, drawn, random),
        }
    };
    means.iter().map(|mean| mean.map(&mut value)).collect()
}

/// A value within the column's bounds.
pub(super) fn between(column: &Column, random: &mut impl Rng) -> Option<String> {
    let (low, high) = bounds(column)?;
    let number = match &column.data_type {
        Type::Numeric(_) | Type::Float4 | Type::Float8 => {
            low + (high - low) * random.random::<f64>()
        }
        _ => random.random_range(low as i64..=high as i64) as f64,
    };
    Some(text(column, number, random))
}

/// A value of a bin, from its lower edge to its upper one, which it may have or not.
pub(super) fn within(
    column: &Column,
    (lower, upper, has_upper): (&Scalar, &Scalar, bool),
    random: &mut impl Rng,
) -> Option<String> {
    let (low, high) = (as_number(lower)?, as_number(upper)?);
    let mut whole = |low: i64, high: i64| {
        let last = high.saturating_sub(i64::from(!has_upper)).max(low);
        random.random_range(low..=last)
    };
    Some(match (&column.data_type, lower, upper) {
        (_, Scalar::Int(low), Scalar::Int(high)) => whole(*low, *high).to_string(),
        (_, Scalar::Date(low), Scalar::Date(high)) => {
            let day = whole(i64::from(*low), i64::from(*high));
            scalar_text(&Scalar::Date(i32::try_from(day).ok()?))
        }
        (data_type, Scalar::Timestamp(low), Scalar::Timestamp(high)) => {
            let micros = whole(*low, *high);
            let second = micros - micros.rem_euclid(1_000_000);
            let text = scalar_text(&Scalar::Timestamp(second.max(*low)));
            let is_zoned = *data_type == Type::Timestamptz;
            text + if is_zoned { "+00" } else { "" }
        }
        (data_type, ..) => {
            // Negative for a numeric of tens or hundreds.
            let decimals = match data_type {
                Type::Numeric(Some((_, scale))) => i32::from(*scale),
                _ => (3.0 - (high - low).log10()).ceil().clamp(2.0, 12.0) as i32,
            };
            let drawn = low + (high - low) * random.random::<f64>();
            let (units, shown) = (10f64.powi(decimals), decimals.max(0) as usize);
            let text = format!("{:.shown$}", (drawn * units).floor() / units);
            let is_inside = text.parse().is_ok_and(|value| low <= value && value < high);
            if is_inside { text } else { scalar_text(lower) }
        }
    })
}

/// A number as a value of the column's type. What falls between two values becomes one of them at
/// random, so that the mean is kept.
fn text(column: &Column, number: f64, random: &mut impl Rng) -> String {
    let mut round = |number: f64| (number + random.random::<f64>()).floor();
    let (low, high) = bounds(column).unwrap_or((number, number));
    let mut with_decimals = |decimals: usize| {
        let units = 10f64.powi(decimals as i32);
        let rounded = (round(number * units) / units).clamp(low, high);
        let text = format!("{rounded:.decimals$}");
        // -0 and 0 are one value of a key.
        match text.strip_prefix('-') {
            Some(digits) if digits.bytes().all(|b| b == b'0' || b == b'.') => digits.to_owned(),
            _ => text,
        }
    };
    match &column.data_type {
        Type::Numeric(Some((_, scale))) => with_decimals(usize::try_from(*scale).unwrap_or(0)),
        Type::Numeric(None) | Type::Float4 | Type::Float8 => {
            // A thousand values within the bounds.
            let digits = 3.0 - (high - low).max(1e-9).log10();
            with_decimals(digits.ceil().clamp(2.0, 12.0) as usize)
        }
        Type::Date => scalar_text(&Scalar::Date(round(number).clamp(low, high) as i32)),
        Type::Timestamp | Type::Timestamptz => {
            let second = (number / 1e6).floor() * 1e6;
            let text = scalar_text(&Scalar::Timestamp(second.clamp(low, high) as i64));
            let is_zoned = column.data_type == Type::Timestamptz;
            text + if is_zoned { "+00" } else { "" }
        }
        Type::Int2 | Type::Int4 | Type::Int8 => with_decimals(0),
        Type::Bool | Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid => with_decimals(0),
        Type::Interval | Type::Time | Type::Enum(_) | Type::Other { .. } => with_decimals(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_types() {
        assert!(has_numbers(&Type::Int2, 32_767) && !has_numbers(&Type::Int2, 32_768));
        assert!(has_numbers(&Type::Char(Some(3)), 999) && !has_numbers(&Type::Char(Some(3)), 1000));
        assert!(has_numbers(&Type::Numeric(Some((5, 2))), 999));
        assert!(!has_numbers(&Type::Numeric(Some((5, 2))), 1000));
        assert!(!has_numbers(&Type::Date, 1));
        assert_eq!(number_text(&Type::Char(Some(3)), 7), "7");
        assert_eq!(number_text(&Type::Varchar(Some(20)), 7), "unit-000007");
        assert!(fits(&Type::Int4, "17") && !fits(&Type::Int4, "unit-000017"));
        assert!(!fits(&Type::Date, "17") && !fits(&Type::Varchar(Some(3)), "unit-000017"));
        let uuid = number_text(&Type::Uuid, 255);
        assert_eq!(uuid, "00000000-0000-8000-8000-0000000000ff");
    }
}
