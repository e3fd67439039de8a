use super::{ErrorInterval, quantile_95};
use crate::mechanism::Mechanism;

#[test]
fn the_laplace_quantile_leaves_a_twentieth_outside() {
    let (b, half) = (
        1.0,
        quantile_95(Mechanism::Laplace) * std::f64::consts::SQRT_2,
    );
    assert!(((-half / b).exp() - 0.05f64).abs() < 1e-12);
}

/// Rounded outward at four digits of the error. Exact values and infinite ends stay.
#[test]
fn ends_are_rounded_outward() {
    let rounded = |error: Option<f64>, low: f64, high: f64| {
        let low_by = None;
        let found = ErrorInterval {
            error,
            low,
            high,
            low_by,
        }
        .round_outward();
        (found.error, found.low, found.high)
    };
    assert_eq!(
        rounded(Some(8.996_012), 3_307.368_787_954_7, 3_342.61),
        (Some(8.997), 3_307.368, 3_342.61)
    );
    assert_eq!(
        rounded(Some(0.012_344), -0.000_03, 0.100_001),
        (Some(0.012_35), -0.000_03, 0.100_01)
    );
    assert_eq!(
        rounded(Some(4_654_321.0), -99.0, 9_123_456.7),
        (Some(4_655_000.0), -1000.0, 9_124_000.0)
    );
    assert_eq!(rounded(None, 2.000_04, 4.0), (None, 2.0, 4.0));
    assert_eq!(rounded(Some(0.0), 1.0 / 3.0, 1.0 / 3.0).1, 1.0 / 3.0);
    let ends = (f64::NEG_INFINITY, f64::INFINITY);
    let (_, low, high) = rounded(Some(2.5), ends.0, ends.1);
    assert_eq!((low, high), ends);
    for exponent in -200..200 {
        let (error, low) = (1.234_567_8 * 10f64.powi(exponent), 9.876_543_2);
        let (now, below, above) = rounded(Some(error), low, low + error);
        assert!(
            now >= Some(error) && below <= low && above >= low + error,
            "{exponent}"
        );
    }
}

/// What clips took is rounded to the nearest, at four digits of the error.
#[test]
fn what_is_cut_is_rounded_to_the_nearest() {
    let rounded = |error: f64, low_by: f64| {
        let spread = ErrorInterval {
            error: Some(error),
            low: 0.0,
            high: 1.0,
            low_by: Some(low_by),
        };
        spread.round_outward().low_by
    };
    assert_eq!(rounded(8.996_012, 0.123_56), Some(0.124));
    assert_eq!(rounded(8.996_012, -0.123_46), Some(-0.123));
    assert_eq!(rounded(4_654_321.0, 1_234_567.0), Some(1_235_000.0));
    let zero = rounded(4_654_321.0, -3.0).unwrap();
    assert!(zero == 0.0 && zero.is_sign_positive());
}
