//! Noisy integers back to counts and sums: exact rational arithmetic, rounded once.
//! Post-processing.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::Signed;
use num_traits::ToPrimitive;

use crate::aggregates::{Foreseen, MeasureId};
use crate::catalog::Type;
use crate::mechanism::Calibrated;
use crate::rewrite::{
    CoordinateId, Count, Degree, GridStep, Measure, ReleasePlan, measure_deviation,
};

/// The measures of one group as decimal text, from its noisy coordinates in steps of their base
/// grids, in the plain layout ([`crate::rewrite::made_of`]).
pub fn measures(release: &ReleasePlan, of: impl Fn(CoordinateId) -> Rational) -> Vec<String> {
    measures_with(release, of, BigInt::ZERO)
}

/// The measures of a running total. Its counts may be below zero, so that differences of totals add
/// up.
pub fn measures_of_total(
    release: &ReleasePlan,
    of: impl Fn(CoordinateId) -> Rational,
) -> Vec<String> {
    measures_with(release, of, BigInt::from(-COUNT_MAX))
}

/// The difference of two measures of one kind, which have the same number of decimals.
pub fn difference(later: &str, earlier: &str) -> String {
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let most = decimals(later).max(decimals(earlier));
    let units = |text: &str| {
        let digits: String = text.chars().filter(|c| *c != '.').collect();
        let units: BigInt = digits.parse().unwrap_or_default();
        units * power_of_ten((most - decimals(text)) as u32)
    };
    let difference = Rational {
        numerator: units(later) - units(earlier),
        denominator: power_of_ten(most as u32),
    };
    difference.round(most as u32)
}

/// Counts are within this, so that the difference of two is a bigint.
const COUNT_MAX: i64 = i64::MAX / 2;

fn measures_with(
    release: &ReleasePlan,
    of: impl Fn(CoordinateId) -> Rational,
    least: BigInt,
) -> Vec<String> {
    release
        .measures()
        .iter()
        .enumerate()
        .map(|(at, measure)| match measure {
            Measure::Count(count) => shown_count(noisy_count(*count, &of), &least),
            Measure::Sum {
                values,
                count,
                fixed_point,
            } => {
                let total = match count {
                    // The sum of 2 q - (lower + upper) over the counted rows, plus their number
                    // times lower + upper.
                    Some(count) => of(*values)
                        .plus(
                            &BigInt::from(fixed_point.centre_twice()),
                            &noisy_count(*count, &of),
                        )
                        .halve(),
                    None => of(*values),
                };
                total
                    .times(fixed_point.step)
                    .round(decimals(release, MeasureId(at), measure))
            }
            Measure::Centred {
                values,
                fixed_point,
            } => of(*values).halve().times(fixed_point.step).round(decimals(
                release,
                MeasureId(at),
                measure,
            )),
            // The sum of squares is n H^2 minus their distances from the maximum.
            Measure::Squares {
                lacks,
                count,
                fixed_point,
            } => {
                let most = BigInt::from(fixed_point.spread()).pow(2);
                let lacked =
                    of(*lacks).scale(&-BigInt::from(fixed_point.divisor_with(fixed_point)));
                let total = lacked
                    .plus(&most, &noisy_count(*count, &of))
                    .halve()
                    .halve();
                total
                    .times(fixed_point.step)
                    .times(fixed_point.step)
                    .round(decimals(release, MeasureId(at), measure))
            }
            Measure::Products { products, y, x } => {
                let total = of(*products)
                    .scale(&BigInt::from(y.divisor_with(x)))
                    .halve()
                    .halve();
                total
                    .times(y.step)
                    .times(x.step)
                    .round(decimals(release, MeasureId(at), measure))
            }
        })
        .collect()
}

/// The columns of a choice's distinct values, from their noisy integers.
pub fn distinct(noisy: &[(i128, &Calibrated)], degree: &Degree) -> Option<Vec<String>> {
    let of = |at: usize| {
        noisy
            .get(at)
            .map(|(value, c)| Rational::binary(BigInt::from(*value), c.refine))
    };
    let deviation = |at: usize| {
        noisy.get(at).map_or(0.0, |(_, c)| {
            c.noise.standard_deviation() / 2f64.powi(c.refine as i32)
        })
    };
    let count = of(0)?;
    let count = round_div(&count.numerator, &count.denominator);
    let mut shown = vec![shown_count(count.clone(), &BigInt::ZERO)];
    let Some(fixed_point) = degree.fixed_point() else {
        return Some(shown);
    };
    let (exact, step) = (fixed_point.step.decimals(), fixed_point.step.size());
    let total = of(1)?
        .plus(&BigInt::from(fixed_point.centre_twice()), &count)
        .halve()
        .times(fixed_point.step);
    shown.push(total.round(exact.unwrap_or_else(|| below_noise(6.0, deviation(1) * step / 2.0))));
    if let Degree::Squares(_) = degree {
        let spread = deviation(1) * step / 2.0;
        shown.push(
            of(1)?
                .halve()
                .times(fixed_point.step)
                .round(exact.map_or_else(|| below_noise(12.0, spread), |n| n + 1)),
        );
        let divisor = fixed_point.divisor_with(fixed_point);
        let most = BigInt::from(fixed_point.spread()).pow(2);
        let total = of(2)?
            .scale(&-BigInt::from(divisor))
            .plus(&most, &count)
            .halve()
            .halve()
            .times(fixed_point.step)
            .times(fixed_point.step);
        let spread = deviation(2) * divisor as f64 * step * step / 4.0;
        shown.push(total.round(exact.map_or_else(|| below_noise(12.0, spread), |n| 2 * n + 2)));
    }
    Some(shown)
}

/// A count as text, clamped to what counts may be, since noise may be larger.
fn shown_count(count: BigInt, least: &BigInt) -> String {
    let most = match least.is_negative() {
        true => COUNT_MAX,
        false => i64::MAX,
    };
    count.clamp(least.clone(), BigInt::from(most)).to_string()
}

/// The noisy count, rounded to an integer; may be negative.
pub fn noisy_count(count: Count, of: &impl Fn(CoordinateId) -> Rational) -> BigInt {
    let rows = match count.all {
        Some(all) => of(count.rows).add(&of(all)).halve(),
        None => of(count.rows),
    };
    let rest = match count.nulls {
        Some(nulls) => rows.minus(&of(nulls)),
        None => rows,
    };
    round_div(&rest.numerator, &rest.denominator)
}

/// Decimals that a sum is kept with: all that its grid has where that is decimal, else well
/// below the noise.
fn decimals(release: &ReleasePlan, id: MeasureId, measure: &Measure) -> u32 {
    let integer = release
        .outputs()
        .iter()
        .any(|(output, t)| output.foreseen() == Foreseen::Measure(id) && *t == Type::Int8);
    let exact = match measure {
        Measure::Count(_) => Some(0),
        Measure::Sum { .. } if integer => Some(0),
        Measure::Sum {
            values: _,
            count: _,
            fixed_point,
        } => fixed_point.step.decimals(),
        // Halves of a step.
        Measure::Centred {
            values: _,
            fixed_point,
        } => fixed_point.step.decimals().map(|n| n + 1),
        Measure::Squares {
            lacks: _,
            count: _,
            fixed_point,
        } => fixed_point.step.decimals().map(|n| 2 * n + 2),
        Measure::Products { products: _, y, x } => y
            .step
            .decimals()
            .zip(x.step.decimals())
            .map(|(y, x)| y + x + 2),
    };
    // Variances are differences of such numbers, and deviations their roots, so more digits are
    // kept.
    let digits = if matches!(measure, Measure::Sum { .. }) {
        6.0
    } else {
        12.0
    };
    exact.unwrap_or_else(|| below_noise(digits, measure_deviation(release, measure).unwrap_or(1.0)))
}

/// Decimals that leave this many digits of a noise's standard deviation.
fn below_noise(digits: f64, deviation: f64) -> u32 {
    let deviation = if deviation > 0.0 { deviation } else { 1e-12 };
    (digits - deviation.log10().floor()).clamp(0.0, 320.0) as u32
}

/// A fraction; the denominator is positive.
pub struct Rational {
    numerator: BigInt,
    denominator: BigInt,
}

impl Rational {
    /// An integer in units of 2^-halvings.
    pub fn binary(numerator: BigInt, halvings: u32) -> Self {
        Self {
            numerator,
            denominator: power_of_two(halvings),
        }
    }

    /// The sum of the terms, each times its factor, over the divisor.
    pub fn combine(terms: impl IntoIterator<Item = (Self, i64)>, divisor: u64) -> Self {
        let none = Self::binary(BigInt::ZERO, 0);
        let sum = terms
            .into_iter()
            .map(|(value, times)| value.scale(&BigInt::from(times)))
            .fold(none, |a, b| a.add(&b));
        Self {
            denominator: sum.denominator * divisor,
            ..sum
        }
    }

    /// The fraction over a positive integer.
    pub fn over(self, divisor: &BigInt) -> Self {
        Self {
            denominator: self.denominator * divisor,
            ..self
        }
    }

    /// Infinite or NaN where its parts are too large.
    pub fn to_f64(&self) -> f64 {
        let part = |part: &BigInt| part.to_f64().unwrap_or(f64::INFINITY);
        part(&self.numerator) / part(&self.denominator)
    }

    fn add(&self, other: &Self) -> Self {
        Self {
            numerator: &self.numerator * &other.denominator + &other.numerator * &self.denominator,
            denominator: &self.denominator * &other.denominator,
        }
    }

    fn minus(&self, other: &Self) -> Self {
        Self {
            numerator: &self.numerator * &other.denominator - &other.numerator * &self.denominator,
            denominator: &self.denominator * &other.denominator,
        }
    }

    /// `self + factor * count`.
    fn plus(self, factor: &BigInt, count: &BigInt) -> Self {
        Self {
            numerator: self.numerator + factor * count * &self.denominator,
            denominator: self.denominator,
        }
    }

    fn scale(self, factor: &BigInt) -> Self {
        Self {
            numerator: self.numerator * factor,
            ..self
        }
    }

    fn halve(self) -> Self {
        Self {
            denominator: self.denominator * 2,
            ..self
        }
    }

    fn times(self, step: GridStep) -> Self {
        match step {
            GridStep::Decimal(n) => Self {
                denominator: self.denominator * power_of_ten(n),
                ..self
            },
            GridStep::Binary(k) if k >= 0 => Self {
                denominator: self.denominator * power_of_two(k.unsigned_abs()),
                ..self
            },
            GridStep::Binary(k) => Self {
                numerator: self.numerator * power_of_two(k.unsigned_abs()),
                ..self
            },
        }
    }

    fn round(&self, decimals: u32) -> String {
        let units = round_div(
            &(&self.numerator * power_of_ten(decimals)),
            &self.denominator,
        );
        if decimals == 0 {
            return units.to_string();
        }
        let sign = if units.is_negative() { "-" } else { "" };
        let digits = format!(
            "{:0>width$}",
            units.magnitude().to_string(),
            width = decimals as usize + 1
        );
        let (whole, fraction) = digits.split_at(digits.len() - decimals as usize);
        format!("{sign}{whole}.{fraction}")
    }
}

fn power_of_two(exponent: u32) -> BigInt {
    BigInt::from(1) << exponent
}

fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// Nearest integer, halves upwards. The denominator is positive.
fn round_div(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let doubled: BigInt = numerator * 2 + denominator;
    doubled.div_floor(&(denominator * 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::interval::Interval;
    use crate::rewrite::FixedPoint;

    fn binary(numerator: i64, halvings: u32) -> Rational {
        Rational::binary(BigInt::from(numerator), halvings)
    }

    fn text(value: Rational) -> String {
        value.round(3)
    }

    #[test]
    fn fractions_are_exact() {
        assert_eq!(text(binary(-5, 1)), "-2.500");
        assert_eq!(text(binary(3, 0).add(&binary(1, 2))), "3.250");
        assert_eq!(text(binary(3, 0).minus(&binary(1, 2))), "2.750");
        assert_eq!(
            text(binary(3, 1).plus(&BigInt::from(4), &BigInt::from(-5))),
            "-18.500"
        );
        assert_eq!(text(binary(3, 1).scale(&BigInt::from(-3))), "-4.500");
        assert_eq!(text(binary(3, 1).halve()), "0.750");
        assert_eq!(
            text(Rational::combine(
                [(binary(3, 1), 2), (binary(1, 0), -1)],
                4
            )),
            "0.500"
        );
        assert_eq!(text(Rational::combine([], 4)), "0.000");
        let steps = [
            GridStep::Decimal(0),
            GridStep::Decimal(2),
            GridStep::Binary(0),
            GridStep::Binary(3),
            GridStep::Binary(-3),
        ];
        assert_eq!(
            steps.map(|step| text(binary(250, 0).times(step))),
            ["250.000", "2.500", "250.000", "31.250", "2000.000"]
        );
    }

    #[test]
    fn rounding_is_to_the_nearest_and_halves_go_up() {
        assert_eq!(
            [5, -5, 3, -3, 7].map(|n| binary(n, 1).round(0)),
            ["3", "-2", "2", "-1", "4"]
        );
        assert_eq!(
            [1, -1].map(|n| binary(n, 5).round(4)),
            ["0.0313", "-0.0312"]
        );
        assert_eq!([1, -1].map(|n| binary(n, 5).round(2)), ["0.03", "-0.03"]);
        assert_eq!([3, -3].map(|n| binary(n, 20).round(1)), ["0.0", "0.0"]);
        assert_eq!(binary(12_345, 0).round(2), "12345.00");
    }

    #[test]
    fn differences_keep_the_decimals() {
        let difference = |a, b| super::difference(a, b);
        assert_eq!(difference("5", "7"), "-2");
        assert_eq!(difference("-0.25", "0.50"), "-0.75");
        assert_eq!(difference("10.00", "9.95"), "0.05");
        assert_eq!(difference("0.00", "0.00"), "0.00");
        assert_eq!(difference("3", "0.5"), "2.5");
    }

    #[test]
    fn decimals_leave_digits_of_the_noise() {
        assert_eq!(
            [1.0, 9.9, 10.0, 1000.0, 1e6, 1e7, 0.01, 0.0].map(|d| below_noise(6.0, d)),
            [6, 6, 5, 3, 0, 0, 8, 18]
        );
    }

    /// Three and four of 0 to 10, counted, summed and squared about the middle: PostgreSQL's own
    /// results, since the noise here is zero.
    #[test]
    fn distinct_values_are_decoded_from_their_integers() {
        let calibrated = crate::mechanism::laplace(
            &1u32.into(),
            &1u32.into(),
            crate::mechanism::Fixed::round_down(0.5),
        )
        .unwrap();
        let fixed_point = |step| FixedPoint {
            step,
            lower: 0,
            upper: 10,
            bounds: Interval::new(0.0, 10.0),
        };
        let of = |integers: &[i128], degree: &Degree| {
            let noisy: Vec<(i128, &Calibrated)> = integers
                .iter()
                .map(|n| (n << calibrated.refine, &calibrated))
                .collect();
            distinct(&noisy, degree).unwrap()
        };
        assert_eq!(of(&[2], &Degree::Count), ["2"]);
        assert_eq!(of(&[-2], &Degree::Count), ["0"]);
        // 2 q - 10 are -4 and -2; what their squares lack of 100 is 84 and 96.
        assert_eq!(
            of(&[2, -6], &Degree::Sum(fixed_point(GridStep::Decimal(0)))),
            ["2", "7"]
        );
        assert_eq!(
            of(&[2, -6], &Degree::Sum(fixed_point(GridStep::Decimal(1)))),
            ["2", "0.7"]
        );
        assert_eq!(
            of(
                &[2, -6, 180],
                &Degree::Squares(fixed_point(GridStep::Decimal(0)))
            ),
            ["2", "7", "-3.0", "5.00"]
        );
        assert_eq!(
            of(
                &[2, -6, 180],
                &Degree::Squares(fixed_point(GridStep::Decimal(1)))
            ),
            ["2", "0.7", "-0.30", "0.0500"]
        );
        // In steps of four: digits by the noise, whose deviation is 2.8 units, halved.
        let binary = of(
            &[2, -6, 180],
            &Degree::Squares(fixed_point(GridStep::Binary(-2))),
        );
        assert_eq!(
            binary,
            ["2", "28.000000", "-12.000000000000", "80.00000000000"]
        );
        assert!(distinct(&[], &Degree::Count).is_none());
    }
}
