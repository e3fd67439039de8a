use super::{expect_error_within, half_of_quotient, total_of as total};
use crate::ir::Interval;

#[test]
fn a_total_is_useless_where_noise_is_more_than_a_quarter_of_it() {
    assert_eq!(total(15.0, "count", (0.0, 60.0)).useless, None);
    assert_eq!(
        total(15.1, "count", (0.0, 60.0)).useless.as_deref(),
        Some("would be ±15.10 for a count of at most 60")
    );
    // The farther end counts.
    assert_eq!(total(250.0, "sum", (-1000.0, 10.0)).useless, None);
    assert_eq!(
        total(250.5, "sum", (-1000.0, 10.0)).useless.as_deref(),
        Some("would be ±250 for a sum between -1000 and 10")
    );
}

#[test]
fn a_bounded_answer_is_useless_where_its_interval_is_its_range() {
    let range = Interval::new(0.0, 6000.0);
    assert_eq!(
        expect_error_within(2999.0, "an average", range).useless,
        None
    );
    assert_eq!(
        expect_error_within(3000.0, "an average", range)
            .error
            .as_deref(),
        Some("±3000")
    );
    for error in [3000.0, 1e9, f64::INFINITY] {
        assert_eq!(
            expect_error_within(error, "an average", range)
                .useless
                .as_deref(),
            Some("would be ±3000 for an average between 0 and 6000")
        );
    }
    assert_eq!(
        expect_error_within(f64::INFINITY, "an average", range).error,
        None
    );
    // Nothing can hide what is known.
    let point = Interval::point(1.0);
    assert_eq!(expect_error_within(0.0, "an average", point).useless, None);
}

/// Fieller's interval: near the delta method's where rows are many, infinite where the count may be
/// zero, wider where the noises are shared.
#[test]
fn a_quotient_by_few_rows_is_not_known() {
    let z = 2.0;
    let of = |rows| half_of_quotient(&[10.0, 0.0], &[0.0, 5.0], rows, z);
    assert!((of(1e6) / (z * 10.0 / 1e6) - 1.0).abs() < 1e-6);
    assert_eq!(of(10.0), f64::INFINITY);
    assert!(of(10.1).is_finite() && of(10.1) > of(20.0));
    let shared = half_of_quotient(&[10.0, 0.0], &[5.0, 0.0], 20.0, z);
    assert!(shared > of(20.0), "{shared}");
}
