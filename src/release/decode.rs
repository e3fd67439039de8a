//! Noisy integers back to counts and sums: exact rational arithmetic, rounded once. Post-processing.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::Signed;

use crate::catalog::Type;
use crate::mechanism::Calibrated;
use crate::rewrite::{Count, Degree, Measure, Output, ReleasePlan, Step, measure_deviation};

/// The measures of one group, as decimal text, of its noisy coordinates in units of their base lattices.
pub fn measures(release: &ReleasePlan, of: impl Fn(usize) -> Rational) -> Vec<String> {
    release
        .measures()
        .iter()
        .enumerate()
        .map(|(at, measure)| match measure {
            Measure::Count(count) => counted(*count, &of).max(BigInt::ZERO).to_string(),
            Measure::Sum { values, count, lattice } => {
                let total = match count {
                    // The sum of 2 q - (lower + upper) over the counted rows, and the rows' own share of the centre.
                    Some(count) => of(*values).plus(&BigInt::from(lattice.centre_twice()), &counted(*count, &of)).halved(),
                    None => of(*values),
                };
                total.times(lattice.step).rounded(decimals(release, at, measure))
            }
            Measure::Centred { values, lattice } => of(*values).halved().times(lattice.step).rounded(decimals(release, at, measure)),
            // The squares' sum is n H^2 less what they lack.
            Measure::Squares { lacks, count, lattice } => {
                let most = BigInt::from(lattice.spread()).pow(2);
                let lacked = of(*lacks).scaled(&-BigInt::from(lattice.divisor_with(lattice)));
                let total = lacked.plus(&most, &counted(*count, &of)).halved().halved();
                total.times(lattice.step).times(lattice.step).rounded(decimals(release, at, measure))
            }
            Measure::Products { products, y, x } => {
                let total = of(*products).scaled(&BigInt::from(y.divisor_with(x))).halved().halved();
                total.times(y.step).times(x.step).rounded(decimals(release, at, measure))
            }
        })
        .collect()
}

/// The columns of unlike values from their noisy integers.
pub fn unlike(noisy: &[(i128, &Calibrated)], degree: &Degree) -> Option<Vec<String>> {
    let of = |at: usize| noisy.get(at).map(|(value, c)| Rational::binary(BigInt::from(*value), c.refine));
    let deviation = |at: usize| noisy.get(at).map_or(0.0, |(_, c)| c.noise.standard_deviation() / 2f64.powi(c.refine as i32));
    let count = of(0)?;
    let count = round_div(&count.numerator, &count.denominator);
    let mut shown = vec![count.clone().max(BigInt::ZERO).to_string()];
    let Some(lattice) = degree.lattice() else { return Some(shown) };
    let (exact, step) = (lattice.step.decimals(), lattice.step.size());
    let total = of(1)?.plus(&BigInt::from(lattice.centre_twice()), &count).halved().times(lattice.step);
    shown.push(total.rounded(exact.unwrap_or_else(|| below_noise(6.0, deviation(1) * step / 2.0))));
    if let Degree::Squares(_) = degree {
        let spread = deviation(1) * step / 2.0;
        shown.push(of(1)?.halved().times(lattice.step).rounded(exact.map_or_else(|| below_noise(12.0, spread), |n| n + 1)));
        let divisor = lattice.divisor_with(lattice);
        let most = BigInt::from(lattice.spread()).pow(2);
        let total = of(2)?.scaled(&-BigInt::from(divisor)).plus(&most, &count).halved().halved().times(lattice.step).times(lattice.step);
        let spread = deviation(2) * divisor as f64 * step * step / 4.0;
        shown.push(total.rounded(exact.map_or_else(|| below_noise(12.0, spread), |n| 2 * n + 2)));
    }
    Some(shown)
}

/// The noisy count, rounded to an integer; may be negative.
fn counted(count: Count, of: &impl Fn(usize) -> Rational) -> BigInt {
    let rows = match count.all {
        Some(all) => of(count.rows).add(&of(all)).halved(),
        None => of(count.rows),
    };
    let rest = match count.nulls {
        Some(nulls) => rows.minus(&of(nulls)),
        None => rows,
    };
    round_div(&rest.numerator, &rest.denominator)
}

/// Decimals that a sum is kept with: all that its lattice has where that is decimal, else well below the noise.
fn decimals(release: &ReleasePlan, at: usize, measure: &Measure) -> u32 {
    let integer = release.outputs().iter().any(|(output, t)| matches!(output, Output::Measure(m) if *m == at) && *t == Type::Int8);
    let exact = match measure {
        Measure::Count(_) => Some(0),
        Measure::Sum { .. } if integer => Some(0),
        Measure::Sum { values: _, count: _, lattice } => lattice.step.decimals(),
        // Halves of a lattice unit.
        Measure::Centred { values: _, lattice } => lattice.step.decimals().map(|n| n + 1),
        Measure::Squares { lacks: _, count: _, lattice } => lattice.step.decimals().map(|n| 2 * n + 2),
        Measure::Products { products: _, y, x } => y.step.decimals().zip(x.step.decimals()).map(|(y, x)| y + x + 2),
    };
    // Differences of squares are taken of these, and roots of the differences.
    let digits = if matches!(measure, Measure::Sum { .. }) { 6.0 } else { 12.0 };
    exact.unwrap_or_else(|| below_noise(digits, measure_deviation(release, measure).unwrap_or(1.0)))
}

/// Decimals that leave so many digits of a noise's standard deviation.
fn below_noise(digits: f64, deviation: f64) -> u32 {
    (digits - deviation.max(1e-12).log10().floor()).clamp(0.0, 18.0) as u32
}

/// A fraction; the denominator is positive.
pub struct Rational {
    numerator: BigInt,
    denominator: BigInt,
}

impl Rational {
    /// An integer in units of 2^-halvings.
    pub fn binary(numerator: BigInt, halvings: u32) -> Self {
        Self { numerator, denominator: power_of_two(halvings) }
    }

    pub fn add(&self, other: &Self) -> Self {
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
        Self { numerator: self.numerator + factor * count * &self.denominator, denominator: self.denominator }
    }

    fn scaled(self, factor: &BigInt) -> Self {
        Self { numerator: self.numerator * factor, ..self }
    }

    fn halved(self) -> Self {
        Self { denominator: self.denominator * 2, ..self }
    }

    fn times(self, step: Step) -> Self {
        match step {
            Step::Decimal(n) => Self { denominator: self.denominator * power_of_ten(n), ..self },
            Step::Binary(k) if k >= 0 => Self { denominator: self.denominator * power_of_two(k.unsigned_abs()), ..self },
            Step::Binary(k) => Self { numerator: self.numerator * power_of_two(k.unsigned_abs()), ..self },
        }
    }

    fn rounded(&self, decimals: u32) -> String {
        let units = round_div(&(&self.numerator * power_of_ten(decimals)), &self.denominator);
        if decimals == 0 {
            return units.to_string();
        }
        let sign = if units.is_negative() { "-" } else { "" };
        let digits = format!("{:0>width$}", units.magnitude().to_string(), width = decimals as usize + 1);
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
