//! Generates values of a column: ordinary ones and extreme ones.

use crate::catalog::Type;
use crate::policy::{Column, ColumnBounds, Scalar};
use crate::rewrite::emit::sql::scalar_text;

/// Number of steps that ordinary values take through a range.
const STEPS: i64 = 8;

/// An ordinary value; some rows hold NULL, NaN or a value below the bounds.
pub fn ordinary(column: &Column, index: usize) -> Option<String> {
    if index % 9 == 5 && !column.not_null {
        return None;
    }
    if let Some(values) = listed_values(column) {
        return Some(scalar_text(&values[index % values.len()]));
    }
    match &column.bounds {
        Some(_)
            if index % 9 == 6
                && matches!(
                    column.data_type,
                    Type::Float4 | Type::Float8 | Type::Numeric(None)
                ) =>
        {
            Some("NaN".to_owned())
        }
        Some(bounds) if index % 9 == 4 => beyond(&column.data_type, bounds, -1),
        Some(bounds) => Some(between(bounds, (index as i64) % STEPS)),
        None => distinct(&column.data_type, (index % 3) as i64),
    }
}

/// A value above the upper bound; without a bound, a value that no ordinary row has.
pub fn extreme(column: &Column) -> Option<String> {
    if let Some(values) = listed_values(column) {
        return values.first().map(scalar_text);
    }
    match &column.bounds {
        Some(bounds) => beyond(&column.data_type, bounds, 1),
        None => distinct(&column.data_type, 7_777),
    }
}

/// The listed values, where there are any.
pub fn listed_values(column: &Column) -> Option<&[Scalar]> {
    column.domain.as_deref().filter(|values| !values.is_empty())
}

/// A distinct value for each number up to some thousands, as PostgreSQL reads it. `None` for types
/// that are not known here.
pub fn distinct(data_type: &Type, number: i64) -> Option<String> {
    Some(match data_type {
        Type::Bool => (number % 2 == 1).to_string(),
        Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Numeric(None)
        | Type::Float4
        | Type::Float8 => number.to_string(),
        Type::Numeric(Some((precision, scale))) => {
            let whole = u32::try_from(i32::from(*precision) - i32::from(*scale))
                .unwrap_or(0)
                .min(9);
            (number % 10i64.pow(whole)).to_string()
        }
        Type::Text | Type::Varchar(None) | Type::Char(None) => format!("v{number}"),
        Type::Varchar(Some(length)) | Type::Char(Some(length)) => {
            number.to_string().chars().take(*length as usize).collect()
        }
        Type::Uuid => format!("00000000-0000-4000-8000-{number:012}"),
        Type::Date => scalar_text(&Scalar::Date(i32::try_from(number).ok()?)),
        Type::Timestamp | Type::Timestamptz => scalar_text(&Scalar::Timestamp(number * 60_000_000)),
        Type::Interval => format!("{number} minutes"),
        Type::Time => format!("{:02}:{:02}", number / 60 % 24, number % 60),
        Type::Enum(made) => made
            .labels
            .get(usize::try_from(number).ok()? % made.labels.len().max(1))?
            .clone(),
        Type::Other { oid: _, name } => match name.as_str() {
            "jsonb" | "json" | "tsvector" => "{}".to_owned(),
            "bytea" => "\\x00".to_owned(),
            "inet" | "cidr" => "10.0.0.1".to_owned(),
            array if array.ends_with("[]") => "{}".to_owned(),
            _ => return None,
        },
    })
}

/// A value within the bounds, this many steps above the lower one.
fn between(bounds: &ColumnBounds, step: i64) -> String {
    let part = |lower: i64, upper: i64| {
        i64::try_from(
            i128::from(lower)
                + (i128::from(upper) - i128::from(lower)) * i128::from(step)
                    / i128::from(STEPS - 1),
        )
    };
    let made = match (&bounds.lower, &bounds.upper) {
        (Scalar::Int(lower), Scalar::Int(upper)) => part(*lower, *upper).map(Scalar::Int),
        (Scalar::Timestamp(lower), Scalar::Timestamp(upper)) => {
            part(*lower, *upper).map(Scalar::Timestamp)
        }
        (Scalar::Date(lower), Scalar::Date(upper)) => part(i64::from(*lower), i64::from(*upper))
            .and_then(i32::try_from)
            .map(Scalar::Date),
        (lower, _) => Ok(lower.clone()),
    };
    if let (Scalar::Decimal(lower), Scalar::Decimal(upper)) = (&bounds.lower, &bounds.upper)
        && let (Ok(low), Ok(high)) = (lower.parse::<f64>(), upper.parse::<f64>())
        && 0 < step
        && step < STEPS - 1
    {
        return format!(
            "{:.2}",
            low + (high - low) * step as f64 / (STEPS - 1) as f64
        );
    }
    if step == STEPS - 1 {
        scalar_text(&bounds.upper)
    } else {
        scalar_text(&made.unwrap_or_else(|_| bounds.lower.clone()))
    }
}

/// A value outside the bounds by their whole width, or by as much as the type allows: above for 1,
/// below for -1.
fn beyond(data_type: &Type, bounds: &ColumnBounds, direction: i64) -> Option<String> {
    let infinite = |word: &str| {
        Some(if direction > 0 {
            word.to_owned()
        } else {
            format!("-{word}")
        })
    };
    let end = if direction > 0 {
        &bounds.upper
    } else {
        &bounds.lower
    };
    match (data_type, &bounds.lower, &bounds.upper) {
        (Type::Date | Type::Timestamp | Type::Timestamptz, ..) => infinite("infinity"),
        (Type::Float4 | Type::Float8, ..) => infinite("Infinity"),
        (_, Scalar::Int(lower), Scalar::Int(upper)) => {
            let (least, most) = match data_type {
                Type::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
                Type::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
                _ => (i64::MIN, i64::MAX),
            };
            let from = if direction > 0 { *upper } else { *lower };
            let range = upper.saturating_sub(*lower).saturating_mul(direction);
            Some(from.saturating_add(range).clamp(least, most).to_string())
        }
        // Number of digits that fit before the decimals.
        (Type::Numeric(Some((precision, scale))), ..) => {
            let digits = usize::try_from(i32::from(*precision) - i32::from(*scale)).unwrap_or(0);
            if digits == 0 {
                Some(scalar_text(end))
            } else {
                infinite(&"9".repeat(digits))
            }
        }
        (Type::Numeric(None), ..) => infinite("1e30"),
        _ => Some(scalar_text(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(data_type: Type, bounds: Option<(Scalar, Scalar)>) -> Column {
        let bounds = bounds.map(|(lower, upper)| ColumnBounds { lower, upper });
        Column {
            bounds,
            ..Column::plain("c", data_type)
        }
    }

    #[test]
    fn ordinary_values_lie_within_and_below_and_extreme_ones_above() {
        let age = column(Type::Int2, Some((Scalar::Int(18), Scalar::Int(100))));
        let found: Vec<i64> = (0..18)
            .map(|index| ordinary(&age, index).unwrap().parse().unwrap())
            .collect();
        assert!(
            found.contains(&18)
                && found.contains(&100)
                && found.contains(&-64)
                && found.iter().all(|age| *age <= 100),
            "{found:?}"
        );
        assert_eq!(extreme(&age).as_deref(), Some("182"));
        let most = column(Type::Int2, Some((Scalar::Int(-32000), Scalar::Int(32000))));
        assert_eq!(extreme(&most).as_deref(), Some("32767"));
        let price = column(
            Type::Numeric(Some((6, 2))),
            Some((
                Scalar::Decimal("0".to_owned()),
                Scalar::Decimal("99.5".to_owned()),
            )),
        );
        assert_eq!(
            (extreme(&price).as_deref(), ordinary(&price, 4).as_deref()),
            (Some("9999"), Some("-9999"))
        );
        assert_eq!(ordinary(&price, 1).as_deref(), Some("14.21"));
        let day = column(Type::Date, Some((Scalar::Date(0), Scalar::Date(70))));
        assert_eq!(
            (ordinary(&day, 1).as_deref(), extreme(&day).as_deref()),
            (Some("2000-01-11"), Some("infinity"))
        );
    }
}
