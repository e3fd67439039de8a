//! What the noise leaves of one group that holds all units.

use super::choice_id::ChoiceId;
use super::draw_id::DrawId;
use super::measure_id::MeasureId;
use crate::ir::Interval;

/// An answer is useless where its noise is more than this part of the most that it can be.
pub const PART: f64 = 4.0;
/// Averages and the like of fewer rows than this many standard errors of their number are NULL.
const ROWS_MIN: f64 = 3.0;

/// What the noise leaves of an aggregate in the best case.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// `±12.3` or `±12 ranks`, where that is known.
    pub error: Option<String>,
    /// The words after `this answer`, where it is useless.
    pub useless: Option<String>,
}

/// One group that holds all units, each with the most rows that count.
pub trait BestCase {
    /// How many rows there are.
    fn rows(&self) -> f64;

    /// Half the width of a 95 % interval of the vector, in standard errors.
    fn z(&self) -> f64;

    /// What each draw adds to a measure, in standard deviations.
    fn noise(&self, measure: MeasureId) -> Option<Vec<f64>>;

    /// A count or a sum.
    fn total(&self, measure: MeasureId) -> Option<Expected>;

    /// The noise of a choice's distinct values.
    fn distinct(&self, choice: ChoiceId) -> Option<DistinctNoise>;

    /// Values at ranks. For an array, the best value counts.
    fn ranks(&self, choice: ChoiceId, draws: &[DrawId]) -> Option<Expected>;
}

/// The noise of distinct values, as standard deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DistinctNoise {
    pub count: f64,
    /// Noise of the sum of distances from the middle of the range.
    pub apart: f64,
    /// The middle of the range.
    pub centre: f64,
    /// How many values there are at most.
    pub most: f64,
    pub z: f64,
}

/// Half the width of the 95 % interval of a quotient by `rows`. `noise`: the independent noises of
/// the numerator minus the quotient times the rows. `of_rows`: those of the number of rows.
/// Infinite where there may be no row.
///
/// # Reference
/// Fieller 1954, "Some problems in interval estimation", section 3.
pub(super) fn half_of_quotient(noise: &[f64], of_rows: &[f64], rows: f64, z: f64) -> f64 {
    let (own, both) = (dot(noise, noise), dot(noise, of_rows));
    let lead = rows * rows - z * z * dot(of_rows, of_rows);
    if lead <= 0.0 {
        return f64::INFINITY;
    }
    (z.powi(4) * both * both + lead * z * z * own).sqrt() / lead
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `a + factor * b`.
pub(super) fn plus(a: &[f64], factor: f64, b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + factor * b).collect()
}

/// Known within this much.
pub(super) fn expect_error(error: f64, useless: Option<String>) -> Expected {
    Expected {
        error: error
            .is_finite()
            .then(|| format!("±{}", three_digits(error))),
        useless,
    }
}

/// The message where the rows are so few that their quotient is NULL.
pub(super) fn few(of_rows: &[f64], rows: f64, z: f64) -> Option<Expected> {
    let error = dot(of_rows, of_rows).sqrt();
    (rows <= ROWS_MIN * error).then(|| {
        expect_error(
            f64::INFINITY,
            Some(format!(
                "would be NULL: about {} rows are too few for noise of ±{} in their number",
                rounded_text(rows),
                three_digits(z * error)
            )),
        )
    })
}

/// A total within these ends: useless where the error exceeds a quarter of it.
pub fn total_of(error: f64, what: &str, (least, most): (f64, f64)) -> Expected {
    let is_hidden = error > most.max(-least) / PART;
    let predicate = || {
        let ends = if least < 0.0 {
            format!("between {} and {}", end(least), end(most))
        } else {
            format!("of at most {}", end(most))
        };
        format!("would be ±{} for a {what} {ends}", three_digits(error))
    };
    expect_error(error, is_hidden.then(predicate))
}

/// An answer within a range: useless where its interval is as wide.
pub(super) fn expect_error_within(error: f64, what: &str, range: Interval) -> Expected {
    let most = (range.hi - range.lo) / 2.0;
    // Rounding can make half of a computed range slightly smaller than the exact half.
    let is_hidden = most > 0.0 && error >= most * (1.0 - 1e-9);
    let predicate = || {
        format!(
            "would be ±{} for {what} between {} and {}",
            three_digits(most),
            end(range.lo),
            end(range.hi)
        )
    };
    expect_error(error, is_hidden.then(predicate))
}

/// A number of units or rows, without decimals.
pub fn rounded_text(value: f64) -> String {
    format!("{value:.0}")
}

/// The end of a range.
fn end(value: f64) -> String {
    if value.fract() == 0.0 {
        rounded_text(value)
    } else {
        three_digits(value)
    }
}

/// Three digits or more.
pub fn three_digits(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value == 0.0 || value.abs() >= 1.0 {
        2
    } else {
        (2 - value.abs().log10().floor() as i32).clamp(2, 12) as usize
    };
    format!("{value:.digits$}")
}

/// As [`three_digits`], and not below the number but for what doubles round off.
pub fn up_to_three_digits(value: f64) -> String {
    let near = three_digits(value);
    let digits = near.split_once('.').map_or(0, |(_, part)| part.len());
    let unit = 10f64.powi(-(digits as i32));
    let up = (value * (1.0 - 1e-12) / unit).ceil() * unit;
    format!("{up:.digits$}")
}

#[cfg(test)]
mod tests;
