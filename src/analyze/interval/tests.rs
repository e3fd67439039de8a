//! An interval holds whatever a function gives of values within its arguments' intervals.

use crate::analyze::interval::*;

type Of = fn(f64, f64) -> f64;

const WHOLE: [f64; 7] = [-7.0, -2.0, 0.0, 1.0, 3.0, 4.0, 6.0];
const BROKEN: [f64; 8] = [-7.0, -2.0, -0.5, 0.0, 0.3, 1.0, 2.5, 6.0];

fn of_whole(op: fn(i64, i64) -> i64, x: f64, y: f64) -> f64 {
    op(x as i64, y as i64) as f64
}

/// What PostgreSQL computes; NaN and infinities where it has no answer.
const OF_NUMBERS: [(Function, Of); 33] = [
    (Function::Add, |x, y| x + y),
    (Function::Subtract, |x, y| x - y),
    (Function::Multiply, |x, y| x * y),
    (Function::Divide, |x, y| x / y),
    (Function::Quotient, |x, y| (x / y).trunc()),
    (Function::Modulo, |x, y| x % y),
    (Function::Negate, |x, _| -x),
    (Function::Abs, |x, _| x.abs()),
    (
        Function::Sign,
        |x, _| if x == 0.0 { 0.0 } else { x.signum() },
    ),
    (Function::Floor, |x, _| x.floor()),
    (Function::Ceiling, |x, _| x.ceil()),
    (Function::Round, |x, _| x.round()),
    (Function::Truncate, |x, _| x.trunc()),
    (Function::SquareRoot, |x, _| x.sqrt()),
    (Function::CubeRoot, |x, _| x.cbrt()),
    (Function::NaturalLog, |x, _| x.ln()),
    (Function::Log10, |x, _| x.log10()),
    (Function::LogBase, |x, y| y.ln() / x.ln()),
    (Function::Exponential, |x, _| x.exp()),
    (Function::Power, |x, y| x.powf(y)),
    (Function::Sine, |x, _| x.sin()),
    (Function::ArcCosine, |x, _| x.acos()),
    (Function::ArcTangent2, |x, y| x.atan2(y)),
    (Function::Degrees, |x, _| x.to_degrees()),
    (Function::Radians, |x, _| x.to_radians()),
    (Function::Sinh, |x, _| x.sinh()),
    (Function::Cosh, |x, _| x.cosh()),
    (Function::Tanh, |x, _| x.tanh()),
    (Function::ArcSinh, |x, _| x.asinh()),
    (Function::ArcCosh, |x, _| x.acosh()),
    (Function::NegateInterval, |x, _| -x),
    (Function::AddIntervals, |x, y| x + y),
    (Function::SubtractIntervals, |x, y| x - y),
];

const OF_INTEGERS: [(Function, Of); 11] = [
    (Function::Divide, |x, y| (x / y).trunc()),
    (Function::Modulo, |x, y| x % y),
    (Function::BitAnd, |x, y| of_whole(|x, y| x & y, x, y)),
    (Function::BitOr, |x, y| of_whole(|x, y| x | y, x, y)),
    (Function::BitXor, |x, y| of_whole(|x, y| x ^ y, x, y)),
    (Function::BitNot, |x, _| of_whole(|x, _| !x, x, 0.0)),
    (Function::ShiftRight, |x, y| {
        of_whole(|x, y| x >> y.clamp(0, 31), x, y)
    }),
    (Function::Gcd, |x, y| of_whole(num_integer::gcd, x, y)),
    (Function::Lcm, |x, y| of_whole(num_integer::lcm, x, y)),
    (Function::DatePlusDays, |x, y| x + y),
    (Function::DateMinusDays, |x, y| x - y),
];

fn intervals(ends: &[f64]) -> Vec<Interval> {
    let pairs = ends
        .iter()
        .enumerate()
        .flat_map(|(at, lo)| ends[at..].iter().map(|hi| Interval::new(*lo, *hi)));
    pairs.collect()
}

fn holds(functions: &[(Function, Of)], ends: &[f64], result: &Type) {
    for (function, of) in functions {
        for a in intervals(ends) {
            for b in intervals(ends) {
                let found = apply(*function, &[a, b], result);
                for x in ends.iter().filter(|x| a.contains(**x)) {
                    for y in ends.iter().filter(|y| b.contains(**y)) {
                        let value = of(*x, *y);
                        let margin = value.abs() * 1e-12;
                        let is_held = found.lo - margin <= value && value <= found.hi + margin;
                        assert!(
                            is_held || !value.is_finite(),
                            "{function:?} of {x} in {a:?} and {y} in {b:?}: {value} is not in \
                                {found:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn intervals_hold_what_functions_give() {
    holds(&OF_NUMBERS, &BROKEN, &Type::Float8);
    holds(&OF_INTEGERS, &WHOLE, &Type::Int4);
    // Dates far within their years.
    holds(&OF_INTEGERS[9..], &WHOLE, &Type::Date);
}

#[test]
fn intervals_are_narrow_where_no_end_is_negative() {
    let whole = |lo: f64, hi: f64| Interval::new(lo, hi);
    let of = |function, a, b| apply(function, &[a, b], &Type::Int4);
    assert_eq!(
        of(Function::ShiftRight, whole(0.0, 6.0), whole(0.0, 3.0)),
        whole(0.0, 6.0)
    );
    assert_eq!(
        of(Function::BitAnd, whole(0.0, 6.0), whole(0.0, 3.0)),
        whole(0.0, 3.0)
    );
    assert_eq!(
        of(Function::BitOr, whole(0.0, 4.0), whole(0.0, 3.0)),
        whole(0.0, 8.0)
    );
    assert_eq!(
        of(Function::Modulo, whole(0.0, 100.0), whole(1.0, 7.0)),
        whole(0.0, 6.0)
    );
    assert_eq!(
        of(Function::Modulo, whole(-100.0, -1.0), whole(1.0, 7.0)),
        whole(-6.0, 0.0)
    );
    assert_eq!(
        of(Function::Modulo, whole(-3.0, 2.0), whole(1.0, 7.0)),
        whole(-3.0, 3.0)
    );
}

#[test]
fn large_integers_are_held() {
    let most = 2f64.powi(60);
    let joined = apply(
        Function::BitOr,
        &[Interval::new(0.0, most), Interval::new(0.0, most)],
        &Type::Int8,
    );
    assert!(
        joined.contains(((1i64 << 60) | ((1i64 << 60) - 1)) as f64),
        "{joined:?}"
    );
    let constant = of_constant(&Scalar::Int(9_007_199_254_740_993));
    assert!(
        constant.hi > 9_007_199_254_740_993.0
            && of_constant(&Scalar::Int(1 << 60)) == Interval::point(most),
        "{constant:?}"
    );
    assert!(of_constant(&Scalar::Decimal("99.99".to_owned())) == Interval::point(99.99));
    let far = of_constant(&Scalar::Decimal("9007199254740993.5".to_owned()));
    assert!(
        far.lo <= 9_007_199_254_740_992.0 && far.hi >= 9_007_199_254_740_994.0,
        "{far:?}"
    );
}

#[test]
fn a_clamp_moves_what_lies_outside_to_its_limit() {
    let limit = Interval::new(-10.0, 10.0);
    assert_eq!(
        Interval::new(20.0, 30.0).clamp_to(limit),
        Interval::point(10.0)
    );
    assert_eq!(
        Interval::new(-30.0, 3.0).clamp_to(limit),
        Interval::new(-10.0, 3.0)
    );
    assert_eq!(Interval::ALL.clamp_to(limit), limit);
}

#[test]
fn fields_of_dates_are_held() {
    let new_year = Interval::point(0.0);
    for data_type in [Type::Date, Type::Timestamp] {
        assert!(
            date_part("isoyear", new_year, &data_type).contains(1999.0),
            "2000-01-01 is of the ISO year 1999"
        );
        assert_eq!(
            date_part("year", new_year, &data_type),
            Interval::point(2000.0)
        );
    }
    let next_day = [(Type::Date, 1.0), (Type::Timestamp, MICROS_PER_DAY as f64)];
    for (data_type, at) in next_day {
        let epoch = date_part("epoch", Interval::point(at), &data_type);
        assert!(
            epoch.contains(946_771_200.0) && epoch.hi - epoch.lo < 1.0,
            "{epoch:?}"
        );
    }
}

#[test]
fn spans_of_time_are_held() {
    let (hour, day) = (3.6e9, MICROS_PER_DAY as f64);
    let of = |months, days, micros| {
        of_constant(&Scalar::Interval {
            months,
            days,
            micros,
        })
    };
    // A day has 23 to 25 hours, a month 28 to 31 days.
    assert_eq!(
        of(0, 3, 5),
        Interval::new(69.0 * hour + 5.0, 75.0 * hour + 5.0)
    );
    assert_eq!(of(0, -3, 0), Interval::new(-75.0 * hour, -69.0 * hour));
    assert_eq!(of(2, 0, 0), Interval::new(1288.0 * hour, 1550.0 * hour));
    assert_eq!(of(1, -1, 0), Interval::new(-769.0 * hour, 769.0 * hour));
    let sum = apply(
        Function::SubtractIntervals,
        &[of(0, 40, 0), of(1, 0, 0)],
        &Type::Interval,
    );
    assert!(
        date_part("day", sum, &Type::Interval).contains(40.0),
        "{sum:?}"
    );
    let part = |field, lo: f64, hi: f64| date_part(field, Interval::new(lo, hi), &Type::Interval);
    assert_eq!(part("year", 0.0, 800.0 * day), Interval::new(0.0, 3.0));
    assert_eq!(part("year", -361.0 * day, -day), Interval::new(-2.0, 0.0));
    assert_eq!(part("day", 0.0, 46.0 * hour), Interval::new(0.0, 2.0));
    assert_eq!(part("hour", -hour, 2.5 * hour), Interval::new(-1.0, 3.0));
    assert_eq!(part("epoch", -2e6, 3e6), Interval::new(-2.0, 3.0));
    assert_eq!(
        apply(
            Function::AtZone,
            &[Interval::ALL, Interval::new(0.0, 5.0)],
            &Type::Timestamp
        ),
        Interval::new(-day, 5.0 + day)
    );
    assert_eq!(
        apply(
            Function::AtTime,
            &[Interval::new(-1.0, 3.0), Interval::ALL],
            &Type::Timestamp
        ),
        Interval::new(-day, 4.0 * day)
    );
}

#[test]
fn rounding_to_digits_is_held() {
    for function in [Function::RoundTo, Function::TruncateTo] {
        let of = |lo: f64, hi: f64, digits: f64| {
            apply(
                function,
                &[Interval::new(lo, hi), Interval::point(digits)],
                &Type::Numeric(None),
            )
        };
        assert_eq!(of(-151.0, 149.0, -2.0), Interval::new(-200.0, 200.0));
        assert_eq!(of(-2.0, 7.0, 0.0), Interval::new(-2.0, 7.0));
        let tenths = of(0.24, 0.26, 1.0);
        assert!(
            tenths.contains(0.2)
                && tenths.contains(0.3)
                && !tenths.contains(0.1)
                && !tenths.contains(0.4),
            "{tenths:?}"
        );
    }
}
