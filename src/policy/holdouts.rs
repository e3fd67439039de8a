//! The holdout of a table: how exactly a role may compare means over its rows with its values,
//! and how often it may see that they differ.

use crate::mechanism::{CalibrationError, Fixed, SumDirection, check_epoch, margin};

/// What the owner declares of a private table that is a holdout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Holdout {
    /// How many rows the table has. Public, and never counted.
    pub rows: u32,
    /// How far a mean may be from the analyst's value and still agree with it, in (0, 1].
    pub tolerance: f64,
    /// The scale of the noise in a mean that is shown, in (0, 1].
    pub scale: f64,
    /// The most times that a role may open it, for ever.
    pub overflows: u32,
}

impl Holdout {
    /// What the verdicts of one epoch cost, and its answer once more: one unit moves a sum by at
    /// most `rows_per_unit`, whatever value it is compared with.
    pub fn epsilon(&self, rows_per_unit: u32) -> Fixed {
        Fixed::round_down(f64::from(rows_per_unit) / (self.scale * f64::from(self.rows)))
    }

    /// What one epoch costs, verdicts and answer together.
    pub fn epsilon_of_epoch(&self, rows_per_unit: u32) -> f64 {
        2.0 * self.epsilon(rows_per_unit).to_f64()
    }

    /// How far a mean has to be from the analyst's value, so that of this many questions at that
    /// distance all are answered with the value, but for a chance of 5 %. Below zero: none is far
    /// enough.
    pub fn agrees_within(&self, questions: u32) -> f64 {
        let epsilon = self.epsilon(1).to_f64();
        self.tolerance - margin(epsilon, SumDirection::Either, questions) / f64::from(self.rows)
    }

    /// # Errors
    /// [`CalibrationError`] where no noise of a supported size is as small, or as large.
    pub fn check_noise(&self, rows_per_unit: u32) -> Result<(), CalibrationError> {
        check_epoch(self.epsilon(rows_per_unit))
    }
}

/// A price or a tolerance in three digits, rounded up.
pub fn three_digits(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10f64.powi(value.log10().floor() as i32 - 2);
    let digits = (value / unit - 1e-9).ceil();
    format!("{digits}e{}", value.log10().floor() as i32 - 2)
        .parse()
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of the design: epsilon 0.031 for an opening, and 1,856 of 2,000 rows taken by
    /// noise in a hundred questions.
    #[test]
    fn the_price_is_twice_a_unit_over_the_scale() {
        let holdout = Holdout {
            rows: 50_000,
            tolerance: 0.04,
            scale: 0.0013,
            overflows: 30,
        };
        let of_one = holdout.epsilon_of_epoch(1);
        assert!((of_one - 2.0 / 65.0).abs() < 1e-9, "{of_one}");
        let of_three = holdout.epsilon_of_epoch(3);
        assert!((of_three - 6.0 / 65.0).abs() < 1e-9, "{of_three}");
        let rows = (0.04 - holdout.agrees_within(100)) * 50_000.0;
        assert!((rows - 1856.0).abs() < 5.0, "{rows}");
        let finer = Holdout {
            scale: 0.0004,
            ..holdout
        };
        for (questions, wanted) in [(100, 571.0), (1_000, 755.0)] {
            let rows = (0.04 - finer.agrees_within(questions)) * 50_000.0;
            assert!((rows - wanted).abs() < 5.0, "{questions}: {rows}");
        }
        assert!(holdout.check_noise(1).is_ok());
    }
}
