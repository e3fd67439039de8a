//! The bits that the pattern of a rare event among many questions may reveal: a failure of the
//! database, a refusal by the total.

/// The most bits that are revealed by which of `questions` questions an event happens to, where it
/// happens to at most `most` of them.
///
/// # Guarantee
///
/// There are sum over i <= most of C(questions, i) such patterns, and no other. The result is the
/// logarithm of their number, up to the rounding of floats. It is at most most log2(e questions /
/// most). That an event did not happen is information too: k events among N questions are more than
/// k bits.
pub fn bits(questions: u64, most: u32) -> f64 {
    let (mut term, mut sum) = (0f64, 0f64);
    for i in 1..=u64::from(most).min(questions) {
        term += ((questions - i + 1) as f64).log2() - (i as f64).log2();
        // log2(2^a + 2^b)
        let (high, low) = if term > sum { (term, sum) } else { (sum, term) };
        sum = high + (low - high).exp2().ln_1p() / std::f64::consts::LN_2;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::bits;

    #[test]
    fn patterns_are_counted() {
        for (questions, most, patterns) in [
            (0, 3, 1.0),
            (5, 0, 1.0),
            (7, 1, 8.0),
            (4, 2, 11.0),
            (5, 9, 32.0),
            (10, 10, 1024.0f64),
        ] {
            assert!(
                (bits(questions, most) - patterns.log2()).abs() < 1e-12,
                "{questions} {most}"
            );
        }
        // One in a thousand is ten bits and not one.
        for (questions, most, wanted) in [
            (1_000, 1, 10.0),
            (1_000, 10, 77.8),
            (10_000, 1, 13.3),
            (10_000, 10, 111.1),
            (1_000_000, 10, 177.5),
        ] {
            let found = bits(questions, most);
            assert!((found - wanted).abs() < 0.05, "{questions} {most}: {found}");
            assert!(
                found
                    <= f64::from(most)
                        * (std::f64::consts::E * questions as f64 / f64::from(most)).log2()
                        + 0.01
            );
        }
    }
}
