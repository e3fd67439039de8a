//! Choices whose limit on a unit's rows is chosen from a look: first the noisy numbers of units by
//! their rows, then the rows as the chosen limit weighs them.

use std::collections::HashMap;

use zeroize::{Zeroize, Zeroizing};

use super::super::look::{ClipBias, DrawnSums, choose, clips, noisy};
use super::super::{Error, PrintedKey};
use super::WEIGHT_MAX;
use crate::execute::TextRows;
use crate::mechanism::Sampler;
use crate::rewrite::{BinNumber, Bins, CandidateId, ChoicePlan, ROW_WEIGHT, RowsLook};

/// A choice at its chosen limit.
pub struct Limited {
    pub choice: ChoicePlan,
    /// Keys, candidate and weight, as a statement without a look returns them.
    pub rows: Zeroizing<TextRows>,
    /// The rows that the limit cuts, as far as the look shows; `None` where it shows too few units
    /// to choose, and the largest limit is taken.
    pub cut: Option<ClipBias>,
}

/// Draws the number of units in each bin, and takes the limit that is best by these numbers, for
/// this many groups.
///
/// # Guarantee
/// The draws cost at most the look's part of the price: a unit's first row is in one bin. The limit
/// is a function of what was drawn. One unit weighs at most the limit times [`ROW_WEIGHT`],
/// measured as the bins measure length: by the root of the sum of squares over groups, or by the
/// sum. For all its rows are in one bin, and all of them have the bin's factor ([`Bins::factor`]).
///
/// # Requires
/// `rows` came from the choice's statement, and no group is left out of them.
///
/// # Reference
/// `docs/look.md`.
///
/// # Errors
/// [`Error::Noise`] where nothing can be drawn.
pub fn draw_limit(
    (choice, look): (&ChoicePlan, &RowsLook),
    rows: &TextRows,
    (keys, groups): (usize, usize),
    sampler: &mut dyn Sampler,
) -> Result<Limited, Error> {
    let units = units(rows, keys, &look.bins);
    let histogram = noisy(&units, &look.bins, look.counts, sampler)?;
    let sums = DrawnSums {
        cells: groups.max(1) as f64,
        noise: choice.ranks_per_row() / choice.moved_by_lost_rows(),
    };
    let chosen = choose(&histogram, &clips(&look.bins), sums).ok();
    let candidate = chosen.map_or(CandidateId::CEILING, |chosen| chosen.candidate);
    let cut = chosen.map(|chosen| chosen.cut);
    let lost = cut.map_or(0.0, |cut| cut.rows);
    Ok(Limited {
        choice: choice.limited_to(look, candidate, lost),
        rows: weigh(rows, keys, (&look.bins, candidate)),
        cut,
    })
}

/// The exact number of units in each bin. Which of a unit's rows is the first is not determined,
/// but one is, and it is in the unit's bin.
fn units(rows: &TextRows, keys: usize, bins: &Bins) -> Zeroizing<Vec<i128>> {
    let mut units = Zeroizing::new(vec![0i128; bins.numbers()]);
    for row in rows {
        if let Some(BinRow {
            number, units: own, ..
        }) = BinRow::of(row, keys)
            && let Some(units) = units.get_mut(number.0)
        {
            *units = units.saturating_add(own);
        }
    }
    units
}

/// The rows of each group and candidate, each weighed by its bin's factor.
fn weigh(
    rows: &TextRows,
    keys: usize,
    (bins, candidate): (&Bins, CandidateId),
) -> Zeroizing<TextRows> {
    let refine = ROW_WEIGHT.ilog2();
    let mut weights: HashMap<&[Option<String>], u128> = HashMap::new();
    for row in rows {
        let Some(bin_row) = BinRow::of(row, keys) else {
            continue;
        };
        let factor = bins
            .factor(candidate, bin_row.number, refine)
            .unsigned_abs();
        // Clamped like the weights, bin by bin: a clamp never makes the difference of two sums
        // larger.
        let weight = bin_row.rows.saturating_mul(factor).min(WEIGHT_MAX);
        let known = weights.entry(&row[..=keys]).or_default();
        *known = known.saturating_add(weight).min(WEIGHT_MAX);
    }
    let rows = weights.drain().map(|(place, mut weight)| {
        let mut row: PrintedKey = place.to_vec();
        row.push(Some(weight.to_string()));
        weight.zeroize();
        row
    });
    Zeroizing::new(rows.collect())
}

/// The numbers of a row of a bin, which follow its keys and candidate.
struct BinRow {
    number: BinNumber,
    rows: u128,
    units: i128,
}

impl BinRow {
    fn of(row: &PrintedKey, keys: usize) -> Option<Self> {
        let [number, rows, units] = row.get(keys + 1..)? else {
            return None;
        };
        Some(Self {
            number: number.as_deref()?.parse().ok()?,
            rows: rows.as_deref()?.parse().unwrap_or(WEIGHT_MAX),
            units: units.as_deref()?.parse().ok()?,
        })
    }
}
