//! The standard normal law, accurate far into its tails.
//!
//! Relative error of [`sf`] against the exact value, for |x| <= 37: below 1e-15 (1 + x)^2, from one
//! rounding of the argument (condition number x^2) and libm's erfc (fdlibm, under one unit in the
//! last place). Callers add their own margin on the unsafe side.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// P(N <= x).
pub fn cdf(x: f64) -> f64 {
    sf(-x)
}

/// P(N > x); keeps its relative accuracy for large x, where 1 - cdf has none.
pub(super) fn sf(x: f64) -> f64 {
    0.5 * libm::erfc(x * FRAC_1_SQRT_2)
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// The x with P(N > x) = `p`: positive for p < 1/2. Infinite at 0 and 1, NaN outside [0, 1].
///
/// Relative error below 1e-12 for p in [1e-300, 1/2]; below 1e-300 an upper bound.
pub fn isf(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        f64::NAN
    } else if p > 0.5 {
        // Exact: 1 - p for p in [1/2, 1].
        -isf(1.0 - p)
    } else if p > 0.25 {
        // Exact: 1/2 - p, and doubling.
        centred_quantile(2.0 * (0.5 - p))
    } else if p < 1e-300 {
        // P(N > x) <= exp(-x^2 / 2) / 2; infinite at p = 0.
        (-2.0 * (2.0 * p).ln()).sqrt()
    } else {
        tail_quantile(p)
    }
}

/// The x with P(N <= x) = `p`.
pub fn quantile(p: f64) -> f64 {
    -isf(p)
}

/// The x >= 0 with P(|N| <= x) = `u`, for 0 <= u < 1; keeps its relative accuracy for u near 0.
pub(super) fn centred_quantile(u: f64) -> f64 {
    if u > 0.5 {
        return isf(0.5 * (1.0 - u));
    }
    // Newton on erf(x / sqrt 2) = u; the start lies below the root by under 10 %, and the
    // convergence is quadratic.
    let mut x = u * (PI / 2.0).sqrt();
    for _ in 0..6 {
        x += (u - libm::erf(x * FRAC_1_SQRT_2)) / (2.0 * density(x));
    }
    x
}

/// Newton on ln P(N > x) = ln p, a concave function of slope -density / sf: quadratic from the
/// start of Abramowitz and Stegun 26.2.23 (error 4.5e-4).
fn tail_quantile(p: f64) -> f64 {
    let log = p.ln();
    let t = (-2.0 * log).sqrt();
    let mut x = t
        - (2.515517 + 0.802853 * t + 0.010328 * t * t)
            / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for _ in 0..4 {
        let tail = sf(x);
        x += (tail.ln() - log) * tail / density(x);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(actual: f64, expected: f64, tolerance: f64) {
        assert!(
            (actual / expected - 1.0).abs() < tolerance,
            "{actual:e} is not {expected:e}"
        );
    }

    /// Laplace's continued fraction x + 1/(x + 2/(x + 3/...)) of density / sf: shares nothing with
    /// erfc.
    fn tail_by_fraction(x: f64) -> f64 {
        density(x) / (1..4000).rev().fold(x, |rest, n| x + f64::from(n) / rest)
    }

    #[test]
    fn tails_agree_with_the_continued_fraction() {
        for tenth in 10..370 {
            let x = f64::from(tenth) / 10.0;
            close(sf(x), tail_by_fraction(x), 1e-12);
            close(cdf(-x), tail_by_fraction(x), 1e-12);
        }
    }

    #[test]
    fn known_values_to_all_digits() {
        close(cdf(1.0), 0.841_344_746_068_542_9, 1e-15);
        close(sf(5.0), 2.866_515_718_791_939e-7, 1e-14);
        close(isf(0.025), 1.959_963_984_540_054, 1e-14);
        close(isf(1e-9), 5.997_807_015_007_686, 1e-13);
        close(quantile(0.975), 1.959_963_984_540_054, 1e-14);
        assert_eq!(isf(0.5), 0.0);
    }

    #[test]
    fn quantiles_invert_the_tails() {
        for exponent in 1..300 {
            let p = 10f64.powi(-exponent);
            let x = isf(p);
            // A relative error e of x is one of x^2 e of p.
            close(sf(x), p, 1e-13 * (1.0 + x * x));
        }
        for hundredth in 1..100 {
            let p = f64::from(hundredth) / 100.0;
            close(cdf(quantile(p)), p, 1e-14);
        }
        for exponent in 1..60 {
            let u = 0.5f64.powi(exponent);
            close(libm::erf(centred_quantile(u) * FRAC_1_SQRT_2), u, 1e-14);
        }
    }

    #[test]
    fn the_ends_are_infinite_and_the_outside_is_nan() {
        assert_eq!(isf(0.0), f64::INFINITY);
        assert_eq!(isf(1.0), f64::NEG_INFINITY);
        assert!(isf(-0.1).is_nan() && isf(1.1).is_nan() && isf(f64::NAN).is_nan());
        assert!(isf(1e-310) > isf(1e-299));
    }
}
