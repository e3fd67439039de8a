//! Noisy counts as counts that could be.

/// The nearest numbers, in squares, that are >= 0 and add up to `total`.
///
/// # Reference
/// Duchi et al.: "Efficient Projections onto the L1-Ball", ICML 2008, figure 1.
pub fn project(values: &[f64], total: f64) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let (mut sum, mut threshold) = (0.0, 0.0);
    for (at, value) in sorted.iter().enumerate() {
        sum += value;
        let above = (sum - total) / (at + 1) as f64;
        if above >= *value && at > 0 {
            break;
        }
        threshold = above;
    }
    values
        .iter()
        .map(|value| (value - threshold).max(0.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projection_is_not_negative_and_keeps_the_total() {
        assert_eq!(project(&[3.0, 1.0, -2.0], 3.0), [2.5, 0.5, 0.0]);
        assert_eq!(project(&[1.0, 1.0], 4.0), [2.0, 2.0]);
        assert_eq!(project(&[5.0, -5.0], 0.0), [0.0, 0.0]);
    }
}
