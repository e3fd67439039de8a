use super::listed_values::{VALUES_MAX, between};
use super::*;
use crate::policy::ColumnBounds;

#[test]
fn ranges_are_listed_up_to_the_limit() {
    let most = VALUES_MAX as i64;
    let whole = |lo: i64, hi: i64| {
        between(
            &ColumnBounds {
                lower: Scalar::Int(lo),
                upper: Scalar::Int(hi),
            },
            &Type::Int8,
        )
        .map(|values| values.len())
    };
    assert_eq!((whole(3, 3), whole(-2, 2)), (Some(1), Some(5)));
    assert_eq!((whole(1, most), whole(0, most)), (Some(VALUES_MAX), None));
    assert_eq!((whole(i64::MIN, i64::MAX), whole(2, 1)), (None, None));
    let days = |lo: i32, hi: i32| {
        between(
            &ColumnBounds {
                lower: Scalar::Date(lo),
                upper: Scalar::Date(hi),
            },
            &Type::Date,
        )
        .map(|values| values.len())
    };
    assert_eq!(
        (
            days(0, 365),
            days(1, VALUES_MAX as i32),
            days(0, VALUES_MAX as i32)
        ),
        (Some(366), Some(VALUES_MAX), None)
    );
    assert_eq!(
        between(
            &ColumnBounds {
                lower: Scalar::Int(0),
                upper: Scalar::Int(1)
            },
            &Type::Text
        ),
        None
    );
}

#[test]
fn cells_are_counted_up_to_the_limit() {
    let key = |values: usize| {
        (
            Expr::literal(None, Type::Int4),
            KeyRule::Domain(vec![None; values]),
        )
    };
    let rules = [
        key(3),
        key(4),
        (Expr::literal(None, Type::Text), KeyRule::Threshold),
    ];
    let set = |keys: &[usize]| GroupingSet::new(keys.iter().copied().map(KeyId).collect());
    let of = |sets: &[GroupingSet], limit| {
        cells(sets, &rules, &[], limit).map_err(|refusal| refusal.sqlstate)
    };
    assert_eq!(of(&[set(&[0, 1, 2])], 12), Ok(12));
    assert_eq!(of(&[set(&[0, 1, 2])], 11), Err("54000".to_owned()));
    assert_eq!(of(&[set(&[0, 1]), set(&[0]), set(&[])], 16), Ok(16));
    assert_eq!(
        of(&[set(&[0, 1]), set(&[0]), set(&[])], 15),
        Err("54000".to_owned())
    );
    let together = KeyCombinations {
        keys: vec![KeyId(0), KeyId(1)],
        rows: (0..5).map(|n| vec![Some(Scalar::Int(n)), None]).collect(),
    };
    assert_eq!(
        cells(&[set(&[0, 1])], &rules, std::slice::from_ref(&together), 5).ok(),
        Some(5)
    );
    assert_eq!(
        (grouping_sets(&[], 2), grouping_sets(&[set(&[1])], 2)),
        (vec![set(&[0, 1])], vec![set(&[1])])
    );
}

#[test]
fn equal_numbers_are_one_value() {
    let decimals = |texts: &[&str], data_type: &Type| {
        let values = texts
            .iter()
            .map(|text| Some(Scalar::Decimal((*text).to_owned())))
            .collect();
        let text = |value: Option<Scalar>| {
            if let Some(Scalar::Decimal(text)) = value {
                text
            } else {
                panic!("a number")
            }
        };
        canonical(values, data_type).map(|values| values.into_iter().map(text).collect::<Vec<_>>())
    };
    let numeric = decimals(
        &["1.50", "1.5", "100", "0.00", "-0", "0", "10.0"],
        &Type::Numeric(None),
    );
    assert_eq!(numeric.unwrap(), ["1.5", "100", "0", "10"]);
    assert_eq!(
        decimals(&["1.50", "1.5", "100"], &Type::Float8).unwrap(),
        ["1.5", "100"]
    );
}
