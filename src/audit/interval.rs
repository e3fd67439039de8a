//! Bounds of a probability from a number of hits: Clopper and Pearson's exact interval.

/// Bisections of [0, 1]: past the precision of f64.
const STEPS: u32 = 60;
/// Exceeds the errors of `lgamma` and of the sums below, for up to 10^8 trials.
const MARGIN: f64 = 1e-7;
/// Terms below this share of their sum add nothing.
const NEGLIGIBLE: f64 = 1e-17;

/// The largest probability of a hit for which this few hits still occur with probability `alarm`.
/// It is above the true probability except with probability `alarm`.
///
/// # Requires
/// `hits <= trials`; independent trials with one probability; `alarm` in (0, 1), chosen before the
/// trials.
///
/// # Reference
/// Clopper, Pearson 1934.
pub fn upper(hits: u64, trials: u64, alarm: f64) -> f64 {
    if hits >= trials {
        return 1.0;
    }
    let (mut low, mut high) = (hits as f64 / trials as f64, 1.0);
    for _ in 0..STEPS {
        let middle = 0.5 * (low + high);
        if at_most(hits, trials, middle) * (1.0 + MARGIN) > alarm {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The smallest probability of a hit for which this many hits still occur with probability `alarm`;
/// otherwise as [`upper`].
pub fn lower(hits: u64, trials: u64, alarm: f64) -> f64 {
    1.0 - upper(trials.saturating_sub(hits), trials, alarm)
}

/// P(Binomial(n, p) <= k), for p above k / n: the terms fall from k downwards.
fn at_most(hits: u64, trials: u64, chance: f64) -> f64 {
    let (k, n) = (hits as f64, trials as f64);
    if chance >= 1.0 {
        return 0.0;
    }
    let log = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
        + k * chance.ln()
        + (n - k) * (-chance).ln_1p();
    let (mut term, mut sum) = (1.0, 0.0);
    let odds = (1.0 - chance) / chance;
    for at in (0..=hits).rev() {
        sum += term;
        term *= at as f64 / (trials - at + 1) as f64 * odds;
        if term < NEGLIGIBLE * sum {
            break;
        }
    }
    (log.exp() * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 2e-6, "{found} is not {wanted}");
    }

    /// No hit and every hit have closed forms; five of ten is scipy's `beta.ppf(0.975, 6, 5)`.
    #[test]
    fn bounds_are_clopper_and_pearsons() {
        for (trials, alarm) in [(10, 0.025), (500, 1e-6), (100_000, 1e-3)] {
            close(
                upper(0, trials, alarm),
                1.0 - alarm.powf(1.0 / trials as f64),
            );
            close(
                lower(trials, trials, alarm),
                alarm.powf(1.0 / trials as f64),
            );
        }
        close(upper(5, 10, 0.025), 0.812_913_9);
        close(lower(5, 10, 0.025), 0.187_086_1);
        close(upper(1, 10, 0.05), 0.394_163_3);
        assert_eq!((upper(7, 7, 0.1), lower(0, 7, 0.1)), (1.0, 0.0));
    }

    #[test]
    fn bounds_hold_the_frequency_between_them_and_narrow() {
        for (hits, trials) in [(1, 50), (25, 50), (4_000, 10_000), (9_999, 10_000)] {
            let share = hits as f64 / trials as f64;
            let (low, high) = (lower(hits, trials, 1e-4), upper(hits, trials, 1e-4));
            assert!(low < share && share < high, "{low} {share} {high}");
            assert!(upper(hits, trials, 1e-2) < high && lower(hits, trials, 1e-2) > low);
            // The tail beyond each bound is the alarm.
            close(at_most(hits, trials, high), 1e-4);
        }
    }
}
