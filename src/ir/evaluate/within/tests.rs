//! What is decided for a span holds for each of its values.

use super::*;
use Function as F;

const ID: ColumnId = ColumnId(0);

fn int(value: i64) -> Expr {
    Expr::literal(Some(Scalar::Int(value)), Type::Int4)
}

fn decimal(text: &str, data_type: Type) -> Expr {
    Expr::literal(Some(Scalar::Decimal(text.to_owned())), data_type)
}

fn call(function: Function, arguments: Vec<Expr>, data_type: Type) -> Expr {
    Expr::call(function, arguments, data_type)
}

/// The value of an expression of one column in `[first, end)` or `[first, end]`.
fn of(expr: &Expr, first: Scalar, end: Scalar, has_end: bool) -> Result<Value, NotEvaluable> {
    let span = ValueSpan {
        first,
        end,
        has_end,
    };
    evaluate_within(expr, &[(ID, KnownValue::Within(span))])
}

fn truth_of(value: bool) -> Result<Value, NotEvaluable> {
    Ok(Some(Scalar::Bool(value)))
}

/// Expressions of one integer column, some of which are no monotone functions of it.
fn number(seed: &mut u64, depth: u64) -> Expr {
    let column = || Expr::column(ID, Type::Int4);
    let next = |seed: &mut u64, below: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) % below
    };
    if depth == 0 {
        return column();
    }
    let constant = int(next(seed, 7) as i64 - 2);
    let inner = number(seed, depth - 1);
    let (function, arguments) = match next(seed, 9) {
        0 => (F::Add, vec![constant, inner]),
        1 => (F::Subtract, vec![inner, constant]),
        2 => (F::Subtract, vec![constant, inner]),
        3 => (F::Multiply, vec![inner, constant]),
        4 => (F::Divide, vec![inner, constant]),
        5 => (F::Modulo, vec![inner, constant]),
        6 => (F::Abs, vec![inner]),
        7 => (F::Greatest, vec![inner, constant]),
        _ => (F::Thresholds, vec![inner, int(2), int(5)]),
    };
    call(function, arguments, Type::Int4)
}

fn condition(seed: &mut u64, depth: u64) -> Expr {
    let of = |seed: &mut u64| condition(seed, depth - 1);
    let pick = |seed: &mut u64, below: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
        (*seed >> 33) % below
    };
    let (function, arguments) = match pick(seed, if depth == 0 { 7 } else { 11 }) {
        7 => (F::Not, vec![of(seed)]),
        8 => (F::And, vec![of(seed), of(seed)]),
        9 => (F::Or, vec![of(seed), of(seed)]),
        10 => (F::IsTrue, vec![of(seed)]),
        at => {
            let comparisons = [
                F::Less,
                F::LessOrEqual,
                F::Greater,
                F::GreaterOrEqual,
                F::Equal,
                F::NotEqual,
                F::In,
            ];
            let constant = int(pick(seed, 12) as i64 - 1);
            let subject = number(seed, depth.min(2));
            let both = match pick(seed, 2) {
                0 => vec![subject, constant],
                _ => vec![constant, subject],
            };
            (comparisons[at as usize], both)
        }
    };
    call(function, arguments, Type::Bool)
}

/// Where a value is returned for a span, each value in it has that value.
#[test]
fn what_a_span_has_each_of_its_values_has() {
    let (mut decided, mut undecided) = (0, 0);
    for round in 0..40_000u64 {
        let mut seed = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let expr = match round % 2 {
            0 => condition(&mut seed, round / 2 % 3),
            _ => number(&mut seed, 1 + round / 2 % 3),
        };
        let (first, end) = (round as i64 % 7, round as i64 % 7 + round as i64 % 5);
        let Ok(value) = of(&expr, Scalar::Int(first), Scalar::Int(end), true) else {
            undecided += 1;
            continue;
        };
        decided += 1;
        for at in first..=end {
            let one = evaluate(&expr, &[(ID, Some(Scalar::Int(at)))]);
            assert_eq!(
                one,
                Ok(value.clone()),
                "{expr:?} at {at} of {first} to {end}"
            );
        }
    }
    assert!(
        decided > 8_000 && undecided > 2_000,
        "{decided} {undecided}"
    );
}

#[test]
fn an_end_that_is_left_out_is_not_reached() {
    let ends = || {
        (
            Scalar::Decimal("20".to_owned()),
            Scalar::Decimal("35".to_owned()),
        )
    };
    let numeric = Type::Numeric(Some((6, 2)));
    let column = || Expr::column(ID, numeric.clone());
    let wide = || Expr {
        node: Node::Cast(Box::new(column())),
        data_type: Type::Numeric(None),
    };
    for (function, constant, open, closed) in [
        (F::Less, "35", Some(true), None),
        (F::Less, "35.00", Some(true), None),
        (F::Less, "34.99", None, None),
        (F::Less, "20", Some(false), Some(false)),
        (F::LessOrEqual, "35", Some(true), Some(true)),
        (F::LessOrEqual, "20", None, None),
        (F::GreaterOrEqual, "35", Some(false), None),
        (F::GreaterOrEqual, "20", Some(true), Some(true)),
        (F::Greater, "20", None, None),
        (F::Greater, "19.99", Some(true), Some(true)),
        (F::Equal, "35", Some(false), None),
        (F::Equal, "20", None, None),
        (F::NotEqual, "35.01", Some(true), Some(true)),
    ] {
        for subject in [column(), wide()] {
            let both = vec![subject, decimal(constant, Type::Numeric(None))];
            let expr = call(function, both, Type::Bool);
            for (has_end, wanted) in [(false, open), (true, closed)] {
                let (first, end) = ends();
                let found = of(&expr, first, end, has_end).ok().flatten();
                let wanted = wanted.map(Scalar::Bool);
                assert_eq!(found, wanted, "{function:?} {constant} {has_end}");
            }
        }
    }
}

/// 0.1 and 0.10000000000000000001 are one float.
#[test]
fn floats_are_compared_as_floats() {
    let column = Expr::column(ID, Type::Float8);
    let near = decimal("0.10000000000000000001", Type::Float8);
    let (first, end) = (
        Scalar::Decimal("0.1".to_owned()),
        Scalar::Decimal("0.5".to_owned()),
    );
    let compared = |function, other: Expr| {
        let expr = call(function, vec![column.clone(), other], Type::Bool);
        of(&expr, first.clone(), end.clone(), false)
    };
    assert_eq!(compared(F::GreaterOrEqual, near.clone()), truth_of(true));
    assert_eq!(compared(F::Less, near.clone()), truth_of(false));
    assert_eq!(compared(F::Greater, near.clone()), Err(NotEvaluable));
    assert_eq!(compared(F::LessOrEqual, near), Err(NotEvaluable));
    for unbounded in ["Infinity", "-Infinity", "NaN"] {
        let constant = decimal(unbounded, Type::Float8);
        assert_eq!(
            compared(F::Less, constant),
            Err(NotEvaluable),
            "{unbounded}"
        );
    }
}

#[test]
fn an_unknown_side_does_not_hide_a_known_one() {
    let column = || Expr::column(ID, Type::Int4);
    let less = |limit| call(F::Less, vec![column(), int(limit)], Type::Bool);
    let null = || Expr::literal(None, Type::Bool);
    let whole = |expr: &Expr| of(expr, Scalar::Int(0), Scalar::Int(9), true);
    let both = |function, a, b| call(function, vec![a, b], Type::Bool);
    assert_eq!(whole(&less(5)), Err(NotEvaluable));
    assert_eq!(whole(&both(F::And, less(5), less(0))), truth_of(false));
    assert_eq!(whole(&both(F::Or, less(5), less(10))), truth_of(true));
    assert_eq!(whole(&both(F::And, less(5), null())), Err(NotEvaluable));
    assert_eq!(whole(&both(F::Or, less(10), null())), truth_of(true));
    assert_eq!(whole(&both(F::And, less(10), null())), Ok(None));
    let case = Expr {
        node: Node::Case {
            branches: vec![(less(5), int(1)), (less(10), int(2))],
            otherwise: None,
        },
        data_type: Type::Int4,
    };
    assert_eq!(whole(&case), Err(NotEvaluable));
    let upper = of(&case, Scalar::Int(5), Scalar::Int(9), true);
    assert_eq!(upper, Ok(Some(Scalar::Int(2))));
    let is_null = call(F::IsNull, vec![column()], Type::Bool);
    assert_eq!(whole(&is_null), truth_of(false));
    let in_list = |items: &[i64]| {
        let items = items.iter().map(|item| int(*item));
        let arguments = std::iter::once(column()).chain(items).collect();
        whole(&call(F::In, arguments, Type::Bool))
    };
    assert_eq!(in_list(&[10, -1]), truth_of(false));
    assert_eq!(in_list(&[10, 3]), Err(NotEvaluable));
}

#[test]
fn years_of_days_in_one_year_are_that_year() {
    let day = |text: &str| Scalar::Date(crate::ir::literal::date(text).unwrap());
    let column = Expr::column(ID, Type::Date);
    let field = |field: &str| Expr::literal(Some(Scalar::Text(field.to_owned())), Type::Text);
    let part = |name: &str, last: &str| {
        let arguments = vec![field(name), column.clone()];
        let expr = call(F::Extract, arguments, Type::Numeric(None));
        of(&expr, day("1990-01-01"), day(last), true)
    };
    let year = || Ok(Some(Scalar::Decimal("1990".to_owned())));
    assert_eq!(part("year", "1990-12-31"), year());
    assert_eq!(part("year", "1991-01-01"), Err(NotEvaluable));
    // Equal at both ends, and other values in between.
    assert_eq!(part("month", "1991-01-01"), Err(NotEvaluable));
}
