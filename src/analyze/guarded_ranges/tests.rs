//! Tests against exact fractions: a proof about decimals holds for the decimals, not for the
//! float8s near them.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Pow, Zero};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::analyze::guarded_ranges::*;

const NUMERIC: Type = Type::Numeric(None);

fn exact(value: f64) -> BigRational {
    BigRational::from_float(value).unwrap()
}

fn holds(range: Interval, value: &BigRational) -> bool {
    let above = range.lo == f64::NEG_INFINITY || exact(range.lo) <= *value;
    above && (range.hi == f64::INFINITY || *value <= exact(range.hi))
}

/// `digits` with the point this many places from the right, as a constant and as a fraction.
fn decimal(digits: i64, places: u32) -> (Scalar, BigRational) {
    let padded = format!(
        "{:0>width$}",
        digits.unsigned_abs(),
        width = places as usize + 1
    );
    let (whole, fraction) = padded.split_at(padded.len() - places as usize);
    let sign = if digits < 0 { "-" } else { "" };
    let point = if places == 0 { "" } else { "." };
    let text = format!("{sign}{whole}{point}{fraction}");
    (
        Scalar::Decimal(text),
        BigRational::new(digits.into(), Pow::pow(BigInt::from(10), places)),
    )
}

fn operation() -> impl Strategy<Value = Function> {
    prop::sample::select(vec![
        Function::Add,
        Function::Subtract,
        Function::Multiply,
        Function::Divide,
    ])
}

/// Few digits, many digits, and those next to powers of two and ten, where sums cancel.
fn digits() -> impl Strategy<Value = i64> {
    let near = (
        prop::sample::select(vec![0, 10i64.pow(15), 10i64.pow(18), 1 << 53, 1 << 62]),
        -3i64..=3,
    )
        .prop_map(|(at, by)| at + by);
    prop_oneof![-1000i64..1000, any::<i64>(), near]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    #[test]
    fn chains_of_decimals_lie_where_they_are_proved_to(
        first in (digits(), 0u32..25),
        rest in prop::collection::vec((operation(), digits(), 0u32..25), 1..6),
    ) {
        let (constant, mut value) = decimal(first.0, first.1);
        let mut range = of_constant(&constant, &NUMERIC);
        prop_assert!(holds(range, &value));
        for (function, digits, places) in rest {
            let (constant, operand) = decimal(digits, places);
            if function == Function::Divide && operand.is_zero() {
                continue;
            }
            range = of_call(function, &[range, of_constant(&constant, &NUMERIC)], &NUMERIC);
            value = match function {
                Function::Add => value + operand,
                Function::Subtract => value - operand,
                Function::Multiply => value * operand,
                _ => value / operand,
            };
            prop_assert!(holds(range, &value), "{range:?} does not hold {value}");
        }
    }

    #[test]
    fn decimals_rounded_to_digits_lie_where_they_are_proved_to(
        digits in digits(),
        places in 0u32..20,
        scale in 0i16..20,
    ) {
        let (constant, value) = decimal(digits, places);
        let rounded = Type::Numeric(Some((60, scale)));
        let range = of_cast(of_constant(&constant, &NUMERIC), &NUMERIC, &rounded);
        let unit = BigRational::from(Pow::pow(BigInt::from(10), scale.unsigned_abs()));
        let rounded = (value.clone() * &unit).round() / &unit;
        prop_assert!(holds(range, &rounded), "{range:?} does not hold {rounded}");
        let to = Interval::point(scale.into());
        let truncated = (value * &unit).trunc() / unit;
        for (function, value) in [(Function::RoundTo, rounded), (Function::TruncateTo, truncated)] {
            let range = of_call(function, &[of_constant(&constant, &NUMERIC), to], &NUMERIC);
            prop_assert!(holds(range, &value), "{function:?}: {range:?} does not hold {value}");
        }
    }

    #[test]
    fn integers_lie_where_they_are_proved_to(a in digits(), b in digits(), c in digits()) {
        let of = |value: i64| of_constant(&Scalar::Int(value), &Type::Int8);
        let turned = of_call(Function::BitNot, &[of(a)], &Type::Int8);
        let sum = of_call(Function::Add, &[turned, of(b)], &Type::Int8);
        let product = of_call(Function::Multiply, &[sum, of(c)], &Type::Int8);
        let value = BigInt::from(!a) + b;
        prop_assert!(holds(sum, &value.clone().into()) && holds(product, &(value * c).into()));
        if b != 0 {
            let quotient = of_call(Function::Divide, &[of(a), of(b)], &Type::Int8);
            prop_assert!(holds(quotient, &(BigInt::from(a) / b).into()), "{quotient:?}");
            let rest = of_call(Function::Modulo, &[of(a), of(b)], &Type::Int8);
            prop_assert!(holds(rest, &(BigInt::from(a) % b).into()), "{rest:?}");
        }
    }

    #[test]
    fn instants_lie_where_they_are_proved_to(
        micros in -63_082_281_600_000_000i64..252_455_615_999_999_999,
        near in -3i64..=3,
    ) {
        let before_midnight = micros / MICROS_PER_DAY * MICROS_PER_DAY - 1;
        for micros in [micros, -946_684_800_000_000 + near, before_midnight] {
            let range = of_constant(&Scalar::Timestamp(micros), &Type::Timestamp);
            let day = of_cast(range, &Type::Timestamp, &Type::Date);
            prop_assert!(day.contains(micros.div_euclid(MICROS_PER_DAY) as f64));
            let since_1970 = BigInt::from(micros) + 946_684_800_000_000i64;
            let seconds = BigRational::new(since_1970, BigInt::from(1_000_000));
            let epoch = of_field("epoch", range, &Type::Timestamp);
            prop_assert!(holds(epoch, &seconds), "{epoch:?} does not hold {seconds}");
        }
    }

    #[test]
    fn reals_lie_where_they_are_proved_to(a in any::<i32>(), b in -20_000_000i32..20_000_000) {
        let of = |value: i32| of_constant(&Scalar::Int(value.into()), &Type::Float4);
        let (x, y) = (a as f32, b as f32);
        for (function, value) in [
            (Function::Add, x + y),
            (Function::Subtract, x - y),
            (Function::Multiply, x * y),
        ] {
            let range = of_call(function, &[of(a), of(b)], &Type::Float4);
            prop_assert!(range.contains(value.into()), "{function:?}: {range:?} does not hold \
                {value}");
        }
    }
}

#[test]
fn ends_stand_where_they_are_exact() {
    let of = |function, a: (f64, f64), b: (f64, f64)| {
        of_call(
            function,
            &[Interval::new(a.0, a.1), Interval::new(b.0, b.1)],
            &NUMERIC,
        )
    };
    assert_eq!(
        of(Function::Multiply, (0.0, 100.0), (-3.0, 7.0)),
        Interval::new(-300.0, 700.0)
    );
    assert_eq!(
        of(Function::Subtract, (0.0, 100.0), (1.0, 1.0)),
        Interval::new(-1.0, 99.0)
    );
    assert_eq!(
        of_constant(&Scalar::Decimal("12.00".to_owned()), &NUMERIC),
        Interval::point(12.0)
    );
    assert_eq!(
        of_constant(&Scalar::Decimal("0.1".to_owned()), &Type::Float8),
        Interval::point(0.1)
    );
    assert!(of_constant(&Scalar::Decimal("0.1".to_owned()), &NUMERIC).lo < 0.1);
    // 23 digits: the float8 next to 10^23 is below it.
    assert!(
        interval::beyond_digits(23) as u128 >= 10u128.pow(23)
            && interval::beyond_digits(30) as u128 >= 10u128.pow(30)
    );
    assert!(interval::beyond_digits(2) == 100.0 && interval::beyond_digits(-2) == 0.01);
    let day = Interval::new(0.0, 1.0);
    assert_eq!(
        of_call(
            Function::DatePlusDays,
            &[of_type(&Type::Date), day],
            &Type::Date
        ),
        of_type(&Type::Date)
    );
}
