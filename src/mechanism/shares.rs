//! Noisy counts as counts that could be, and their shares.

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

/// The numbers, none below 0, as shares of their sum; equal shares where all are 0.
pub fn shares(values: &[f64]) -> Vec<f64> {
    let sum: f64 = values.iter().sum();
    let equal = 1.0 / values.len().max(1) as f64;
    let share = |value: &f64| if sum > 0.0 { value / sum } else { equal };
    values.iter().map(share).collect()
}

/// The shares of the combinations of two independent keys; the second varies fastest.
pub fn products(first: &[f64], second: &[f64]) -> Vec<f64> {
    let with_second = |share: &f64| {
        let share = *share;
        second.iter().map(move |other| share * other)
    };
    first.iter().flat_map(with_second).collect()
}

/// The shares among the first of these cells, none below 0; where they have none, those that are
/// had otherwise, as many as there are cells.
pub fn conditional<'c>(cells: impl Iterator<Item = &'c f64>, otherwise: &[f64]) -> Vec<f64> {
    let own: Vec<f64> = cells.take(otherwise.len()).copied().collect();
    match own.iter().any(|cell| *cell > 0.0) {
        true => shares(&own),
        false => otherwise.to_vec(),
    }
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
