use super::super::estimate::Estimate;
use super::quantile_95;
use super::truth;
use crate::ir::Quantifier;
use crate::mechanism::Mechanism;

#[test]
fn the_laplace_quantile_leaves_a_twentieth_outside() {
    let (b, half) = (
        1.0,
        quantile_95(Mechanism::Laplace) * std::f64::consts::SQRT_2,
    );
    assert!(((-half / b).exp() - 0.05f64).abs() < 1e-12);
}

#[test]
fn a_flag_is_known_where_the_count_is_far_from_none() {
    let ends = |rows: f64, of| {
        let found = truth(&Estimate::new(rows, vec![10.0], 1.96), of);
        (found.low, found.high)
    };
    assert_eq!(ends(100.0, Quantifier::Any), (1.0, 1.0));
    assert_eq!(ends(100.0, Quantifier::All), (0.0, 0.0));
    assert_eq!(ends(5.0, Quantifier::Any), (0.0, 1.0));
    assert_eq!(ends(-50.0, Quantifier::All), (1.0, 1.0));
    assert!(truth(&Estimate::new(0.5, vec![10.0], 1.96), Quantifier::Any).error() > 0.49);
}
