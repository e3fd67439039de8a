//! The exponential function by integers, so that odds are the same on every machine: the platforms'
//! own functions differ in the last digit.

/// Binary digits after the point.
const DIGITS: u32 = 62;
const ONE: u128 = 1 << DIGITS;
/// The largest argument.
const MOST: f64 = 700.0;

/// `e^x` for `x` from 0 to 700, with a relative error of at most 2^-50, to either side; not a
/// number elsewhere. Callers keep a margin.
pub(super) fn exp(x: f64) -> f64 {
    if !(0.0..=MOST).contains(&x) {
        return f64::NAN;
    }
    let whole = x.floor();
    let part = ((x - whole) * ONE as f64) as u128;
    let e = series(ONE);
    let (mut made, mut power) = (series(part), 0u32);
    for _ in 0..whole as u32 {
        made = (made * e) >> DIGITS;
        while made >= 1 << 64 {
            made >>= 1;
            power += 1;
        }
    }
    let power_of_two = |power: i64| f64::from_bits(((1023 + power) as u64) << 52);
    made as f64 * power_of_two(i64::from(power) - i64::from(DIGITS))
}

/// The Taylor series at a part of [`ONE`].
fn series(part: u128) -> u128 {
    let (mut sum, mut term) = (ONE, ONE);
    for number in 1..=30 {
        term = ((term * part) >> DIGITS) / number;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential_function() {
        for at in 0..7000 {
            let x = f64::from(at) / 10.0;
            let off = (exp(x) / x.exp() - 1.0).abs();
            assert!(off < 1e-15, "{x}: {off}");
        }
        // These bits are those of every machine.
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(1.0), std::f64::consts::E);
        assert!(exp(-1.0).is_nan() && exp(f64::INFINITY).is_nan());
    }
}
