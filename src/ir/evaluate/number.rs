//! Arithmetic on constants: exact decimals of at most thirty digits, and float8 where it is sure to
//! agree.

use std::cmp::Ordering;

use super::{NotEvaluable, Value};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::integer_range;
use crate::policy::Scalar;

/// Most digits of an exact decimal.
const DIGITS_MAX: u32 = 30;

/// `mantissa · 10^-scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Decimal {
    mantissa: i128,
    scale: u32,
}

impl Decimal {
    pub(super) fn of(value: &Scalar) -> Result<Self, NotEvaluable> {
        match value {
            Scalar::Int(value) => Ok(Self {
                mantissa: i128::from(*value),
                scale: 0,
            }),
            Scalar::Decimal(text) => {
                let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
                let digits = format!("{whole}{fraction}");
                if digits.len() > DIGITS_MAX as usize {
                    return Err(NotEvaluable);
                }
                let scale = u32::try_from(fraction.len()).map_err(|_| NotEvaluable)?;
                Ok(Self {
                    mantissa: digits.parse().map_err(|_| NotEvaluable)?,
                    scale,
                })
            }
            _ => Err(NotEvaluable),
        }
    }

    /// Its text without trailing zeros after the point.
    pub(super) fn scalar(self) -> Scalar {
        let (mut mantissa, mut scale) = (self.mantissa, self.scale);
        while scale > 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            scale -= 1;
        }
        let sign = if mantissa < 0 { "-" } else { "" };
        let digits = format!(
            "{:0>width$}",
            mantissa.unsigned_abs(),
            width = scale as usize + 1
        );
        let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
        Scalar::Decimal(if fraction.is_empty() {
            format!("{sign}{whole}")
        } else {
            format!("{sign}{whole}.{fraction}")
        })
    }

    fn at_scale(self, scale: u32) -> Result<i128, NotEvaluable> {
        let factor = 10i128
            .checked_pow(scale - self.scale.min(scale))
            .ok_or(NotEvaluable)?;
        self.mantissa.checked_mul(factor).ok_or(NotEvaluable)
    }

    fn align(self, other: Self) -> Result<(i128, i128, u32), NotEvaluable> {
        let scale = self.scale.max(other.scale);
        Ok((self.at_scale(scale)?, other.at_scale(scale)?, scale))
    }

    pub(super) fn order(&self, other: &Self) -> Result<Ordering, NotEvaluable> {
        let (a, b, _) = self.align(*other)?;
        Ok(a.cmp(&b))
    }

    pub(super) fn is_whole(self) -> bool {
        self.whole().is_some()
    }

    /// Its value, if it is an integer of eight bytes.
    pub(super) fn whole(self) -> Option<i64> {
        let unit = 10i128.checked_pow(self.scale)?;
        if self.mantissa % unit == 0 {
            i64::try_from(self.mantissa / unit).ok()
        } else {
            None
        }
    }

    /// Rounded to `places` after the point (before it, if negative), halves away from zero.
    pub(super) fn round_to(self, places: i64) -> Result<Self, NotEvaluable> {
        self.cut(places, |quotient, rest, unit| {
            if rest.abs() * 2 >= unit {
                quotient + rest.signum()
            } else {
                quotient
            }
        })
    }

    fn cut(
        self,
        places: i64,
        adjust: impl Fn(i128, i128, i128) -> i128,
    ) -> Result<Self, NotEvaluable> {
        let drop = i64::from(self.scale) - places;
        if drop <= 0 {
            return Ok(self);
        }
        let unit = u32::try_from(drop)
            .ok()
            .filter(|d| *d < DIGITS_MAX)
            .and_then(|d| 10i128.checked_pow(d))
            .ok_or(NotEvaluable)?;
        let kept = adjust(self.mantissa / unit, self.mantissa % unit, unit);
        if places >= 0 {
            return Ok(Self {
                mantissa: kept,
                scale: u32::try_from(places).map_err(|_| NotEvaluable)?,
            });
        }
        let factor = u32::try_from(-places)
            .ok()
            .and_then(|p| 10i128.checked_pow(p))
            .ok_or(NotEvaluable)?;
        Ok(Self {
            mantissa: kept.checked_mul(factor).ok_or(NotEvaluable)?,
            scale: 0,
        })
    }

    /// The quotient where it ends within the digits that PostgreSQL keeps: eight after the point of
    /// a number below ten million.
    fn divided_by(self, divisor: Self) -> Result<Self, NotEvaluable> {
        const PLACES: u32 = 8;
        let (a, b, _) = self.align(divisor)?;
        let scaled = a.checked_mul(10i128.pow(PLACES)).ok_or(NotEvaluable)?;
        if scaled % b != 0 || (scaled / b).abs() > 10i128.pow(PLACES + 7) {
            return Err(NotEvaluable);
        }
        Ok(Self {
            mantissa: scaled / b,
            scale: PLACES,
        })
    }
}

/// The value as float8, where that is exact enough to agree with PostgreSQL: at most 15 digits.
fn float(value: &Scalar) -> Result<f64, NotEvaluable> {
    match value {
        Scalar::Int(value) if value.unsigned_abs() < 1 << 50 => Ok(*value as f64),
        Scalar::Decimal(text) if text.bytes().filter(u8::is_ascii_digit).count() <= 15 => {
            text.parse().map_err(|_| NotEvaluable)
        }
        _ => Err(NotEvaluable),
    }
}

/// A float8 as PostgreSQL prints it (shortest form), where no exponent is needed.
///
/// # Errors
/// Where one is.
pub fn float_text(value: f64) -> Result<String, NotEvaluable> {
    if value == 0.0 {
        return Ok("0".to_owned());
    }
    if (1e-4..1e15).contains(&value.abs()) {
        Ok(value.to_string())
    } else {
        Err(NotEvaluable)
    }
}

pub(super) fn arithmetic(
    function: Function,
    values: &[&Scalar],
    result: &Type,
) -> Result<Value, NotEvaluable> {
    match result {
        Type::Float8 => of_floats(function, values),
        Type::Numeric(_) => of_decimals(function, values),
        _ => of_integers(function, values, result),
    }
}

fn of_floats(function: Function, values: &[&Scalar]) -> Result<Value, NotEvaluable> {
    use Function as F;
    let a = float(values[0])?;
    let b = values.get(1).map_or(Ok(0.0), |v| float(v))?;
    let value = match function {
        F::Add => a + b,
        F::Subtract => a - b,
        F::Multiply => a * b,
        F::Divide if b == 0.0 => return Ok(None),
        F::Divide => a / b,
        F::Negate => -a,
        F::Abs => a.abs(),
        F::Sign if a == 0.0 => 0.0,
        F::Sign => a.signum(),
        _ => return Err(NotEvaluable),
    };
    Ok(Some(Scalar::Decimal(float_text(value)?)))
}

fn of_decimals(function: Function, values: &[&Scalar]) -> Result<Value, NotEvaluable> {
    use Function as F;
    let a = Decimal::of(values[0])?;
    let b = values.get(1).map_or(
        Ok(Decimal {
            mantissa: 1,
            scale: 0,
        }),
        |v| Decimal::of(v),
    )?;
    let (left, right, scale) = a.align(b)?;
    let of = |mantissa: Option<i128>, scale| {
        mantissa
            .map(|mantissa| Decimal { mantissa, scale })
            .ok_or(NotEvaluable)
    };
    let value = match function {
        F::Add => of(left.checked_add(right), scale)?,
        F::Subtract => of(left.checked_sub(right), scale)?,
        F::Multiply => of(a.mantissa.checked_mul(b.mantissa), a.scale + b.scale)?,
        F::Divide | F::Modulo if b.mantissa == 0 => return Ok(None),
        F::Divide => a.divided_by(b)?,
        F::Modulo => of(left.checked_rem(right), scale)?,
        F::Negate => of(a.mantissa.checked_neg(), a.scale)?,
        F::Abs => of(a.mantissa.checked_abs(), a.scale)?,
        F::Sign => Decimal {
            mantissa: a.mantissa.signum(),
            scale: 0,
        },
        _ => return Err(NotEvaluable),
    };
    Ok(Some(value.scalar()))
}

fn of_integers(
    function: Function,
    values: &[&Scalar],
    result: &Type,
) -> Result<Value, NotEvaluable> {
    use Function as F;
    let Some((lower, upper)) = integer_range(result) else {
        return Err(NotEvaluable);
    };
    let integer = |value: &Scalar| match value {
        Scalar::Int(value) => Ok(*value),
        _ => Err(NotEvaluable),
    };
    let a = integer(values[0])?;
    let b = values.get(1).map_or(Ok(0), |v| integer(v))?;
    let value = match function {
        F::Add => a.checked_add(b),
        F::Subtract => a.checked_sub(b),
        F::Multiply => a.checked_mul(b),
        F::Divide | F::Modulo if b == 0 => return Ok(None),
        F::Divide => a.checked_div(b),
        F::Modulo => a.checked_rem(b),
        F::Negate => a.checked_neg(),
        F::Abs => a.checked_abs(),
        _ => None,
    };
    value
        .filter(|v| (lower..=upper).contains(v))
        .map(|v| Some(Scalar::Int(v)))
        .ok_or(NotEvaluable)
}

pub(super) fn round(
    function: Function,
    values: &[&Scalar],
    result: &Type,
) -> Result<Value, NotEvaluable> {
    use Function as F;
    if *result == Type::Float8 {
        let value = float(values[0])?;
        let rounded = match function {
            F::Floor => value.floor(),
            F::Ceiling => value.ceil(),
            F::Truncate => value.trunc(),
            _ => value.round_ties_even(),
        };
        return Ok(Some(Scalar::Decimal(float_text(rounded)?)));
    }
    let places = match values.get(1) {
        Some(Scalar::Int(places)) => *places,
        Some(_) => return Err(NotEvaluable),
        None => 0,
    };
    let value = Decimal::of(values[0])?;
    let rounded = match function {
        F::Floor => value.cut(
            0,
            |quotient, rest, _| if rest < 0 { quotient - 1 } else { quotient },
        ),
        F::Ceiling => value.cut(
            0,
            |quotient, rest, _| if rest > 0 { quotient + 1 } else { quotient },
        ),
        F::Truncate | F::TruncateTo => value.cut(places, |quotient, _, _| quotient),
        _ => value.round_to(places),
    };
    Ok(Some(rounded?.scalar()))
}
