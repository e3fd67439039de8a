//! Laws in rational numbers, for tests: every probability is held between two multiples of 2^-192,
//! rounded outwards, so that a bound that is met here is met without an error of rounding.

use num_bigint::BigInt;
use num_rational::BigRational;

use super::Fixed;

const DIGITS: u32 = 192;

/// At least `low` and at most `high`, in units of 2^-192.
#[derive(Clone)]
pub struct Between {
    pub low: BigInt,
    pub high: BigInt,
}

fn one() -> BigInt {
    BigInt::from(1) << DIGITS
}

pub fn whole(value: i128) -> BigRational {
    BigRational::from_integer(BigInt::from(value))
}

pub fn rational(epsilon: Fixed) -> BigRational {
    BigRational::new(BigInt::from(epsilon.0), BigInt::from(1u128 << Fixed::BITS))
}

impl Between {
    fn of(low: &BigRational, high: &BigRational) -> Self {
        let scale = BigRational::from_integer(one());
        Self {
            low: (low * &scale).floor().to_integer(),
            high: (high * &scale).ceil().to_integer(),
        }
    }

    pub fn nothing() -> Self {
        Self::of(&whole(0), &whole(0))
    }

    pub fn times(&self, other: &Self) -> Self {
        Self {
            low: (&self.low * &other.low) >> DIGITS,
            high: ((&self.high * &other.high) >> DIGITS) + 1,
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.low += &other.low;
        self.high += &other.high;
    }

    /// What is missing to 1.
    pub fn rest(&self) -> Self {
        Self {
            low: one() - &self.high,
            high: one() - &self.low,
        }
    }

    /// 1 / (1 + x).
    fn half(&self) -> Self {
        let square = one() << DIGITS;
        Self {
            low: &square / (one() + &self.high),
            high: &square / (one() + &self.low) + 1,
        }
    }

    /// Whether the number is certainly at most `e^exponent` times the other: `limit` is
    /// `e^-exponent`.
    pub fn is_within(&self, other: &Self, limit: &Self) -> bool {
        &self.high * &limit.high <= &other.low << DIGITS
    }

    /// Whether the number is certainly more than `e^exponent` times the other.
    pub fn is_beyond(&self, other: &Self, limit: &Self) -> bool {
        &self.low * &limit.low > &other.high << DIGITS
    }
}

/// `e^-x` for `x` from 0 to 3, between two partial sums of its series.
pub fn exp_of_minus(x: &BigRational) -> Between {
    assert!(*x >= whole(0) && *x <= whole(3));
    let (mut sum, mut term) = (whole(1), whole(1));
    let mut before = sum.clone();
    for number in 1..=70 {
        term = term * x / whole(-number);
        before = sum.clone();
        sum += &term;
    }
    // From the fourth term on each is smaller than the one before, of the other sign.
    match before < sum {
        true => Between::of(&before, &sum),
        false => Between::of(&sum, &before),
    }
}

/// Discrete Laplace noise.
pub struct RationalLaw {
    /// Powers of the factor by which its probabilities fall from number to number.
    powers: Vec<Between>,
    half: Between,
}

impl RationalLaw {
    pub fn new(scale: &BigRational, reach: usize) -> Self {
        let ratio = exp_of_minus(&scale.recip());
        let mut powers = vec![Between::of(&whole(1), &whole(1))];
        for at in 0..reach {
            powers.push(powers[at].times(&ratio));
        }
        Self {
            half: ratio.half(),
            powers,
        }
    }

    pub fn at(&self, number: i128) -> Between {
        let power = &self.powers[number.unsigned_abs() as usize];
        power.times(&self.powers[1].rest()).times(&self.half)
    }

    pub fn at_least(&self, number: i128) -> Between {
        let beyond = |far: i128| self.powers[far as usize].times(&self.half);
        match number > 0 {
            true => beyond(number),
            false => beyond(1 - number).rest(),
        }
    }
}
