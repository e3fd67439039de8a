//! Reads a constant by the type of its column, exactly: no number passes through a float.

use std::cmp::Ordering;

use zeroize::Zeroizing;

use super::{ColumnBounds, Scalar};
use crate::calendar::iso;
use crate::catalog::Type;

/// The constant that `text` means in a column of this type, or what would be accepted.
pub fn parse(data_type: &Type, text: &str) -> Result<Scalar, String> {
    match data_type {
        Type::Bool => match text {
            "true" => Ok(Scalar::Bool(true)),
            "false" => Ok(Scalar::Bool(false)),
            _ => Err("true or false".to_owned()),
        },
        Type::Int2 => integer(text, i64::from(i16::MIN), i64::from(i16::MAX)),
        Type::Int4 => integer(text, i64::from(i32::MIN), i64::from(i32::MAX)),
        Type::Int8 => integer(text, i64::MIN, i64::MAX),
        Type::Numeric(limit) => numeric(text, *limit),
        Type::Float4 => float(text, f64::from(f32::MAX)),
        Type::Float8 => float(text, FLOAT8_MAX),
        Type::Text => string(text, None),
        Type::Varchar(length) => string(text, *length),
        // Blanks at the end are stored, however they are written.
        Type::Char(length) => match string(text.trim_end_matches(' '), *length)? {
            Scalar::Text(text) => Ok(Scalar::Text(data_type.as_stored(text))),
            other => Ok(other),
        },
        Type::Uuid => uuid(text)
            .map(Scalar::Text)
            .ok_or_else(|| "a UUID of 32 hexadecimal digits".to_owned()),
        Type::Date => iso::date(text).map(Scalar::Date).ok_or_else(|| {
            "an ISO date from 0001-01-01 to 9999-12-31, such as 1988-12-31".to_owned()
        }),
        Type::Timestamp => iso::timestamp(text, iso::Zone::Refused)
            .map(Scalar::Timestamp)
            .ok_or_else(|| {
                "an ISO date and time without a zone, such as \"1988-12-31 23:59:59\"".to_owned()
            }),
        Type::Timestamptz => iso::timestamp(text, iso::Zone::Offset)
            .map(Scalar::Timestamp)
            .ok_or_else(|| {
                "an ISO date and time, in UTC or with an offset, such as \"1988-12-31 23:59:59+00\""
                    .to_owned()
            }),
        Type::Enum(made) if made.labels.iter().any(|label| label == text) => {
            Ok(Scalar::Text(text.to_owned()))
        }
        Type::Enum(made) => Err(format!("one of {}", made.labels.join(", "))),
        Type::Interval | Type::Time | Type::Other { .. } => Err(format!(
            "of another type: constants of type {data_type} are not offered"
        )),
    }
}

/// Whether bounds make sense for the type: numbers, dates and timestamps.
pub fn is_ordered(data_type: &Type) -> bool {
    match data_type {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8 => {
            true
        }
        Type::Date | Type::Timestamp | Type::Timestamptz => true,
        Type::Bool
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(_)
        | Type::Uuid
        | Type::Interval => false,
        Type::Time | Type::Enum(_) | Type::Other { .. } => false,
    }
}

/// The bounds as the type holds them: reals are rounded outward, so that no stored value that was
/// within the bounds is past them.
pub fn outward(data_type: &Type, lower: Scalar, upper: Scalar) -> ColumnBounds {
    let rounded = |bound: Scalar, is_past: fn(f64, f64) -> bool, further: fn(f32) -> f32| {
        let Some(value) = number(&bound).filter(|_| *data_type == Type::Float4) else {
            return bound;
        };
        let near = value as f32;
        let held = if is_past(f64::from(near), value) || !further(near).is_finite() {
            near
        } else {
            further(near)
        };
        Scalar::Decimal((f64::from(held) + 0.0).to_string())
    };
    let (lower, upper) = (
        rounded(lower, |near, value| near <= value, f32::next_down),
        rounded(upper, |near, value| near >= value, f32::next_up),
    );
    ColumnBounds { lower, upper }
}

fn number(bound: &Scalar) -> Option<f64> {
    let Scalar::Decimal(text) = bound else {
        return None;
    };
    text.parse().ok()
}

/// Whether a closed list of values can be declared for the type.
pub fn is_listable(data_type: &Type) -> bool {
    !matches!(data_type, Type::Interval | Type::Time | Type::Other { .. })
}

/// Whether two columns hold the same sort of constants, so that one may be the domain of the other.
pub fn is_alike(a: &Type, b: &Type) -> bool {
    let integer = |t: &Type| matches!(t, Type::Int2 | Type::Int4 | Type::Int8);
    let numeric = |t: &Type| matches!(t, Type::Numeric(_));
    a == b
        || (integer(a) && integer(b))
        || (a.is_string() && b.is_string())
        || (numeric(a) && numeric(b))
}

/// The order of constants of one type; text by its bytes. Constants of different types have none.
pub fn compare(a: &Scalar, b: &Scalar) -> Option<Ordering> {
    match (a, b) {
        (Scalar::Bool(a), Scalar::Bool(b)) => Some(a.cmp(b)),
        (Scalar::Int(a), Scalar::Int(b)) | (Scalar::Timestamp(a), Scalar::Timestamp(b)) => {
            Some(a.cmp(b))
        }
        (Scalar::Decimal(a), Scalar::Decimal(b)) => Some(compare_decimal(a, b)),
        (Scalar::Text(a), Scalar::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Scalar::Date(a), Scalar::Date(b)) => Some(a.cmp(b)),
        (
            Scalar::Bool(_)
            | Scalar::Int(_)
            | Scalar::Decimal(_)
            | Scalar::Text(_)
            | Scalar::Date(_)
            | Scalar::Timestamp(_)
            | Scalar::Interval { .. },
            _,
        ) => None,
    }
}

fn integer(text: &str, min: i64, max: i64) -> Result<Scalar, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<i64>() {
        Ok(n) if whole && (min..=max).contains(&n) => Ok(Scalar::Int(n)),
        _ => Err(format!("a whole number from {min} to {max}")),
    }
}

/// The widest decimal a policy may write; PostgreSQL's own limit is far above.
const DIGITS_MAX: usize = 400;

/// Most decimals of a numeric: those that a row's keeps where it is computed with.
const DECIMALS_MAX: usize = 60;

/// The widest float8 that a policy may write: where computations over rows are held, so that no
/// product of theirs leaves the type at either end.
const FLOAT8_MAX: f64 = 1e100;

fn numeric(text: &str, limit: Option<(u16, i16)>) -> Result<Scalar, String> {
    let plain = decimal(text).ok_or_else(|| "a finite decimal number, such as 12.5".to_owned())?;
    if plain
        .split_once('.')
        .is_some_and(|(_, fraction)| fraction.len() > DECIMALS_MAX)
    {
        return Err(format!("a number of at most {DECIMALS_MAX} decimals"));
    }
    match limit {
        Some((precision, scale)) if !numeric_holds(precision, scale, &plain) => {
            Err(format!("a number that fits numeric({precision},{scale})"))
        }
        Some(_) | None => Ok(Scalar::Decimal(text_of(plain))),
    }
}

/// Whether a numeric of this precision and scale is the decimal itself. PostgreSQL would round one
/// that has digits past the scale, which may be negative.
pub fn numeric_holds(precision: u16, scale: i16, decimal: &str) -> bool {
    let unsigned = decimal.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let (whole, fraction) = (
        whole.trim_start_matches('0'),
        fraction.trim_end_matches('0'),
    );
    let zeros = |digits: &mut dyn Iterator<Item = u8>, wanted: i32| {
        digits.take_while(|b| *b == b'0').count() as i32 >= wanted
    };
    let (precision, scale) = (i32::from(precision), i32::from(scale));
    let room = precision - scale;
    let fits = whole.len() as i32 <= room.max(0)
        && (fraction.is_empty() || zeros(&mut fraction.bytes(), -room));
    fits && fraction.len() as i32 <= scale.max(0)
        && (whole.is_empty() || zeros(&mut whole.bytes().rev(), -scale))
}

fn float(text: &str, max: f64) -> Result<Scalar, String> {
    let plain = decimal(text).ok_or_else(|| "a finite number, such as 12.5".to_owned())?;
    match plain.parse::<f64>() {
        Ok(x) if x.abs() <= max => Ok(Scalar::Decimal(text_of(plain))),
        _ => Err(format!("a number of magnitude {max:e} at most")),
    }
}

/// A decimal as PostgreSQL prints it, without exponent, leading zeros, trailing fractional zeros or
/// negative zero. What it is made of is overwritten, since it may be a true value.
fn decimal(text: &str) -> Option<Zeroizing<String>> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let digits =
        |s: &str| !s.is_empty() && s.len() <= DIGITS_MAX && s.bytes().all(|b| b.is_ascii_digit());
    let is_far = usize::try_from(exponent.unsigned_abs()).ok()? > DIGITS_MAX;
    if !digits(whole) || !digits(fraction) || is_far {
        return None;
    }
    // Longer than it becomes, so that nothing is left behind as it grows.
    let room = whole.len() + fraction.len() + 2 * DIGITS_MAX + 4;
    let mut all = Zeroizing::new(String::with_capacity(room));
    all.push_str(whole);
    all.push_str(fraction);
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let zeros = usize::try_from(1 - point).unwrap_or(0);
    all.insert_str(0, &"0".repeat(zeros));
    let point = usize::try_from(point.max(1)).ok()?;
    while all.len() < point {
        all.push('0');
    }
    let (whole, fraction) = all.split_at(point);
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let mut plain = Zeroizing::new(String::with_capacity(whole.len() + fraction.len() + 2));
    if negative && (whole, fraction) != ("0", "") {
        plain.push('-');
    }
    plain.push_str(whole);
    if !fraction.is_empty() {
        plain.push('.');
        plain.push_str(fraction);
    }
    Some(plain)
}

/// The text itself, which its holder overwrites.
fn text_of(mut text: Zeroizing<String>) -> String {
    std::mem::take(&mut *text)
}

/// Compares two decimals in the canonical form of `decimal`.
fn compare_decimal(a: &str, b: &str) -> Ordering {
    match (a.strip_prefix('-'), b.strip_prefix('-')) {
        (Some(a), Some(b)) => compare_unsigned(b, a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => compare_unsigned(a, b),
    }
}

fn compare_unsigned(a: &str, b: &str) -> Ordering {
    let (a, a_fraction) = a.split_once('.').unwrap_or((a, ""));
    let (b, b_fraction) = b.split_once('.').unwrap_or((b, ""));
    a.len()
        .cmp(&b.len())
        .then_with(|| a.cmp(b))
        .then_with(|| a_fraction.cmp(b_fraction))
}

fn string(text: &str, length: Option<u32>) -> Result<Scalar, String> {
    if text.contains('\0') {
        return Err("text without zero bytes".to_owned());
    }
    match length {
        Some(n) if text.chars().count() > n as usize => {
            Err(format!("text of at most {n} characters"))
        }
        _ => Ok(Scalar::Text(text.to_owned())),
    }
}

/// The lower-case form with hyphens that PostgreSQL prints.
fn uuid(text: &str) -> Option<String> {
    let mut hex = Zeroizing::new(String::with_capacity(text.len()));
    hex.extend(text.chars().filter(|c| *c != '-'));
    hex.make_ascii_lowercase();
    let hyphens: Vec<usize> = text.match_indices('-').map(|(i, _)| i).collect();
    if hex.len() != 32
        || !hex.bytes().all(|b| b.is_ascii_hexdigit())
        || !(hyphens.is_empty() || hyphens == [8, 13, 18, 23])
    {
        return None;
    }
    let mut printed = String::with_capacity(36);
    for part in [0..8, 8..12, 12..16, 16..20, 20..32] {
        if part.start > 0 {
            printed.push('-');
        }
        printed.push_str(&hex[part]);
    }
    Some(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<String> {
        decimal(text).map(text_of)
    }

    #[test]
    fn a_numeric_holds_what_postgresql_would_not_round() {
        for (precision, scale, held, other) in [
            (5, 2, "999.99 0 -0.01 100", "1000 0.001 -1000"),
            (6, -2, "100 99999900 0 -1200", "150 256 0.5 100000000 1"),
            (3, 5, "0.00999 -0.00001 0", "0.01 0.5 1 0.000001"),
            (3, 0, "999", "1000 0.5"),
        ] {
            for text in held.split(' ') {
                assert!(
                    numeric_holds(precision, scale, text),
                    "{text} in numeric({precision},{scale})"
                );
            }
            for text in other.split(' ') {
                assert!(
                    !numeric_holds(precision, scale, text),
                    "{text} in numeric({precision},{scale})"
                );
            }
        }
    }

    #[test]
    fn float8s_lie_where_computations_are_held() {
        assert_eq!(
            parse(&Type::Float8, "1e100"),
            Ok(Scalar::Decimal(format!("1{}", "0".repeat(100))))
        );
        assert_eq!(
            parse(&Type::Float8, "1.1e100"),
            Err("a number of magnitude 1e100 at most".to_owned())
        );
    }

    #[test]
    fn decimals_are_canonical() {
        for (text, wanted) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.00", "0"),
            ("007.50", "7.5"),
            ("1e3", "1000"),
            ("1.25e1", "12.5"),
            ("1.25e-3", "0.00125"),
            ("-2E-1", "-0.2"),
            ("100", "100"),
            ("10e-1", "1"),
        ] {
            assert_eq!(number(text).as_deref(), Some(wanted), "{text}");
        }
        for text in [
            "",
            "-",
            ".",
            "1.",
            ".5",
            "NaN",
            "inf",
            "1e",
            "0x10",
            "1_000",
            "1e401",
            "1e-401",
            "1e2147483647",
            "1e-2147483648",
            "+1",
            "٣",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn decimals_compare_as_numbers() {
        let ordered = [
            "-100", "-20", "-3", "-0.5", "0", "0.05", "0.5", "3", "20", "100", "100.01",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare_decimal(a, b), i.cmp(&j), "{a} {b}");
            }
        }
    }

    #[test]
    fn constants_stay_within_their_type() {
        assert_eq!(parse(&Type::Int2, "32767"), Ok(Scalar::Int(32767)));
        assert!(parse(&Type::Int2, "32768").is_err());
        assert!(parse(&Type::Int4, "1.5").is_err());
        assert!(parse(&Type::Int4, "+5").is_err());
        assert_eq!(
            parse(&Type::Numeric(Some((5, 2))), "999.99"),
            Ok(Scalar::Decimal("999.99".to_owned()))
        );
        assert!(parse(&Type::Numeric(Some((5, 2))), "1000").is_err());
        assert!(parse(&Type::Numeric(Some((5, 2))), "0.001").is_err());
        assert_eq!(
            parse(&Type::Numeric(Some((2, 2))), "0.99"),
            Ok(Scalar::Decimal("0.99".to_owned()))
        );
        assert!(parse(&Type::Float4, "1e39").is_err());
        assert!(parse(&Type::Float8, "NaN").is_err());
        assert!(parse(&Type::Varchar(Some(2)), "abc").is_err());
        assert_eq!(
            parse(&Type::Uuid, "A0EEBC999C0B4EF8BB6D6BB9BD380A11"),
            Ok(Scalar::Text(
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11".to_owned()
            ))
        );
        assert!(parse(&Type::Uuid, "a0ee-bc999c0b4ef8bb6d6bb9bd380a11").is_err());
        assert!(parse(&Type::Interval, "1 day").is_err());
    }

    #[test]
    fn bounds_of_reals_are_rounded_outward() {
        let of = |data_type: &Type, lower: &str, upper: &str| {
            let ColumnBounds { lower, upper } = outward(
                data_type,
                parse(data_type, lower).unwrap(),
                parse(data_type, upper).unwrap(),
            );
            [lower, upper].map(|bound| super::number(&bound).unwrap())
        };
        // 0.1::real is above 0.1, 0.7::real below 0.7.
        let (tenth, seventh) = (f64::from(0.1f32), f64::from(0.7f32));
        assert!(tenth > 0.1 && seventh < 0.7);
        assert_eq!(
            of(&Type::Float4, "0.1", "0.7"),
            [f64::from(0.1f32.next_down()), f64::from(0.7f32.next_up())]
        );
        assert_eq!(
            of(&Type::Float4, "0.7", "1.1"),
            [seventh, f64::from(1.1f32)]
        );
        assert_eq!(
            of(&Type::Float4, "-0.1", "-0.05"),
            [-tenth, f64::from((-0.05f32).next_up())]
        );
        assert_eq!(of(&Type::Float4, "0", "16777217"), [0.0, 16_777_218.0]);
        let greatest = f64::from(f32::MAX);
        assert_eq!(
            of(
                &Type::Float4,
                &(-greatest).to_string(),
                &greatest.to_string()
            ),
            [-greatest, greatest]
        );
        assert_eq!(of(&Type::Float8, "0.1", "0.7"), [0.1, 0.7]);
    }
}
