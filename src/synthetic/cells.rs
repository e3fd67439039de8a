//! What is done with the noisy numbers of combinations of keys.

use std::f64::consts::PI;

use super::marginals::Cells;
use crate::policy::SummaryKey;

/// The most combinations of values of keys that are looked at together.
pub const CELLS_MAX: usize = 1 << 18;

/// The shares that rows are to have of the values of one key, or of the combinations of two.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetShares {
    /// Ascending.
    pub keys: Vec<SummaryKey>,
    /// One for each combination, that of the last key varying fastest. They add up to 1.
    pub shares: Vec<f64>,
}

/// The expected sum of the absolute noise of all cells.
pub fn expected_noise(cells: &Cells) -> f64 {
    let deviations = (0..cells.values.len()).map(|cell| cells.deviation(cell));
    (2.0 / PI).sqrt() * deviations.sum::<f64>()
}

/// What a distance would be without its noise: both add up in squares.
pub fn without_noise(distance: f64, noise: f64) -> f64 {
    (distance * distance - noise * noise).max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_taken_off_in_squares() {
        assert_eq!(without_noise(5.0, 4.0), 3.0);
        assert_eq!(without_noise(4.0, 5.0), 0.0);
    }
}
