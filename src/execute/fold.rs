//! Adds up the rows of a stream: what the database would do with windows and several levels of
//! groups, in hash tables and in one reading.
//!
//! The tables hold what each unit adds to each of its groups. If they become too large, only units
//! with one value of a bit of their hash are kept, and the statement is read once more for the
//! others. The sums of all readings add up, because a unit is in one reading whole. Nothing is
//! written to a disk.
//!
//! # Time
//! How often a statement is read is a step: one row more may add a reading. So the size at which
//! the tables count as too large is drawn anew for each statement, between half of it and all. A
//! unit whose rows take a share p of half the size then adds a reading with probability p, or about
//! that where there are several; one with more rows than the size adds up to four. Tables that
//! grow in memory take some tens of milliseconds at certain sizes, as the database's do.

mod distinct;
mod group_key;
mod integers;
mod length;
mod pair_digest;
mod postgres_hash;
mod results;
mod row;
mod row_bins;
mod unit_bins;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use foldhash::fast::RandomState as QuickState;
use rand::RngExt;
use zeroize::Zeroize;

use self::results::Results;
use super::TextRows;
use crate::rewrite::{CellReading, Fold};

/// About what an entry of a table takes, in addition to its integers.
const ENTRY_BYTES: usize = 48;

/// The most halvings of units: a statement is read at most 2^4 times. Past it the tables grow: then
/// a few units have most of the rows.
const HALVINGS: u32 = 4;

/// The most bytes of all tables of a statement, with the groups and values. Past it the statement
/// fails: pgveil would take the memory of all sessions.
const TABLES_MAX: usize = 4 << 30;

/// Why rows are not added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoldError {
    /// A row's columns are not those of the fold.
    UnlikeRow,
    /// The tables would take more than [`TABLES_MAX`].
    TooLarge,
}

/// The units whose hash begins with these bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    bits: u32,
    value: u64,
}

impl Part {
    const ALL: Self = Self { bits: 0, value: 0 };

    fn contains(self, hash: u64) -> bool {
        self.bits == 0 || hash >> (64 - self.bits) == self.value
    }

    fn halves(self) -> [Self; 2] {
        [0, 1].map(|bit| Self {
            bits: self.bits + 1,
            value: self.value * 2 + bit,
        })
    }
}

/// The tables of one statement.
pub struct Folding {
    fold: Fold,
    /// From how many bytes on the tables of units count as too large.
    units_max: usize,
    hasher: RandomState,
    part: Part,
    /// Parts that are still to be read.
    rest: Vec<Part>,
    units: HashMap<Box<[u8]>, u32, QuickState>,
    /// The place of a unit and group in `sums`.
    places: HashMap<(u32, u32), u32, QuickState>,
    /// One for each cell, for each unit and group; two for a wide one, the low half first.
    sums: Vec<u64>,
    /// How many of them one unit and group has.
    words: usize,
    /// What the keys of units take.
    unit_bytes: usize,
    results: Results,
}

impl Drop for Folding {
    fn drop(&mut self) {
        self.forget_units();
    }
}

impl Folding {
    /// Before the first row. The tables of units take about `units_max` bytes, or half of it.
    pub fn new(fold: Fold, units_max: usize) -> Self {
        let share = rand::rng().random_range(0.5..1.0);
        Self {
            results: Results::new(&fold),
            words: fold.cells.iter().map(|cell| words(cell.reading)).sum(),
            fold,
            units_max: (units_max as f64 * share) as usize,
            hasher: RandomState::new(),
            part: Part::ALL,
            rest: Vec::new(),
            units: HashMap::default(),
            places: HashMap::default(),
            sums: Vec::new(),
            unit_bytes: 0,
        }
    }

    /// One row, by the binary forms of its columns.
    ///
    /// # Errors
    /// [`FoldError`]: where a column is missing or is not of its type, and past [`TABLES_MAX`].
    pub fn add<'r>(
        &mut self,
        mut column: impl FnMut(usize) -> Option<&'r [u8]>,
    ) -> Result<(), FoldError> {
        // The statement leaves out rows of nobody.
        let unit = column(0).ok_or(FoldError::UnlikeRow)?;
        if self.part.bits > 0 && !self.part.contains(self.hasher.hash_one(unit)) {
            return Ok(());
        }
        let unit = self.unit(unit)?;
        let columns = &self.fold.groups;
        let group = self.results.group(columns, |at| column(at + 1))?;
        let next = u32::try_from(self.places.len()).map_err(|_| FoldError::TooLarge)?;
        let place = *self.places.entry((unit, group)).or_insert(next);
        if place == next {
            self.sums.resize(self.sums.len() + self.words, 0);
            if self.bytes() + self.results.bytes() > TABLES_MAX {
                return Err(FoldError::TooLarge);
            }
        }
        let mut sums = &mut self.sums[place as usize * self.words..][..self.words];
        let mut read = 1 + columns.len();
        for cell in &self.fold.cells {
            let value = if cell.reading.has_column() {
                read += 1;
                column(read - 1)
            } else {
                None
            };
            let (own, others) = sums.split_at_mut(words(cell.reading));
            add_to(cell.reading, value, own)?;
            sums = others;
        }
        Ok(())
    }

    fn unit(&mut self, unit: &[u8]) -> Result<u32, FoldError> {
        if let Some(number) = self.units.get(unit) {
            return Ok(*number);
        }
        let number = u32::try_from(self.units.len()).map_err(|_| FoldError::TooLarge)?;
        self.unit_bytes += unit.len() + ENTRY_BYTES;
        self.units.insert(unit.into(), number);
        Ok(number)
    }

    /// Whether half of the units are to be left to another reading.
    pub fn is_too_large(&self) -> bool {
        self.bytes() > self.units_max && self.part.bits < HALVINGS
    }

    /// About what the tables of units take.
    fn bytes(&self) -> usize {
        let each = ENTRY_BYTES + size_of::<u64>() * self.words;
        self.unit_bytes + self.places.len() * each
    }

    /// Leaves half of the units to another reading.
    pub fn halve(&mut self) {
        let [kept, later] = self.part.halves();
        self.part = kept;
        self.rest.push(later);
        let old = std::mem::take(&mut self.units);
        let mut numbers = vec![None; old.len()];
        self.unit_bytes = 0;
        for (mut unit, number) in old {
            if kept.contains(self.hasher.hash_one(&*unit)) {
                numbers[number as usize] = Some(self.units.len() as u32);
                self.unit_bytes += unit.len() + ENTRY_BYTES;
                self.units.insert(unit, self.units.len() as u32);
            } else {
                unit.zeroize();
            }
        }
        let places = std::mem::take(&mut self.places);
        let mut old = std::mem::take(&mut self.sums);
        for ((unit, group), place) in places {
            if let Some(unit) = numbers[unit as usize] {
                self.places.insert((unit, group), self.places.len() as u32);
                let sums = &old[place as usize * self.words..][..self.words];
                self.sums.extend_from_slice(sums);
            }
        }
        old.zeroize();
    }

    /// Adds what the units of this reading make to the result. Whether the statement has to be read
    /// once more, for other units.
    ///
    /// # Guarantee
    /// What a unit makes is a function of the set of its rows. Each unit is in one reading.
    pub fn end_reading(&mut self) -> bool {
        let (ends, by_unit) = self.by_unit();
        let (mut start, mut groups, mut integers) = (0, Vec::new(), Vec::new());
        for end in ends {
            groups.clear();
            integers.clear();
            for (group, place) in &by_unit[start..end] {
                let sums = &self.sums[*place as usize * self.words..][..self.words];
                groups.push(*group);
                add_integers(&self.fold, sums, &mut integers);
            }
            self.results.add_unit(&groups, &mut integers);
            start = end;
        }
        integers.zeroize();
        self.forget_units();
        let next = self.rest.pop();
        self.part = next.unwrap_or(Part::ALL);
        next.is_some()
    }

    /// Groups and places, one unit's after another's; and where each unit's end.
    fn by_unit(&self) -> (Vec<usize>, Vec<(u32, u32)>) {
        let mut next = vec![0; self.units.len() + 1];
        for (unit, _) in self.places.keys() {
            next[*unit as usize + 1] += 1;
        }
        for at in 1..next.len() {
            next[at] += next[at - 1];
        }
        let mut all = vec![(0, 0); self.places.len()];
        for ((unit, group), place) in &self.places {
            let at = &mut next[*unit as usize];
            all[*at] = (*group, *place);
            *at += 1;
        }
        // Each has come to where the next one begins.
        next.pop();
        (next, all)
    }

    fn forget_units(&mut self) {
        for (mut unit, _) in self.units.drain() {
            unit.zeroize();
        }
        self.places.clear();
        self.sums.zeroize();
        self.unit_bytes = 0;
    }

    /// The rows of the aggregating statement.
    pub fn rows(&mut self) -> TextRows {
        self.results.take_rows()
    }
}

/// How many words a sum takes.
fn words(reading: CellReading) -> usize {
    match reading {
        CellReading::WideInteger => 2,
        CellReading::EveryRow
        | CellReading::AnyRow
        | CellReading::Condition
        | CellReading::AnyCondition
        | CellReading::Sign
        | CellReading::Integer => 1,
    }
}

/// Adds what a row adds to one sum. Four billion rows of one unit and group fit: a row adds less
/// than 2^31 to a sum of one word.
fn add_to(reading: CellReading, value: Option<&[u8]>, sum: &mut [u64]) -> Result<(), FoldError> {
    let holds = || match value {
        None | Some([0]) => Ok(false),
        Some([1]) => Ok(true),
        Some(_) => Err(FoldError::UnlikeRow),
    };
    let added = match reading {
        CellReading::AnyRow => {
            sum[0] = 1;
            return Ok(());
        }
        CellReading::AnyCondition => {
            sum[0] |= u64::from(holds()?);
            return Ok(());
        }
        CellReading::EveryRow => 1,
        CellReading::Condition => i64::from(holds()?),
        CellReading::Sign => 2 * i64::from(holds()?) - 1,
        CellReading::Integer | CellReading::WideInteger => match value {
            None => 0,
            Some(bytes) => integers::read(bytes)?,
        },
    };
    let after = sum_of(sum) + i128::from(added);
    for (word, at) in sum.iter_mut().zip([0, 64]) {
        *word = (after >> at) as u64;
    }
    Ok(())
}

/// A sum of one word or two.
fn sum_of(words: &[u64]) -> i128 {
    match *words {
        [low, high] => (i128::from(high as i64) << 64) | i128::from(low),
        [one] => i128::from(one as i64),
        _ => 0,
    }
}

/// The integers of one unit and group, each within its bound.
fn add_integers(fold: &Fold, mut sums: &[u64], integers: &mut Vec<i64>) {
    for cell in &fold.cells {
        let (own, others) = sums.split_at(words(cell.reading));
        let most = i128::from(cell.most);
        integers.push(sum_of(own).clamp(-most, most) as i64);
        sums = others;
    }
}

#[cfg(test)]
mod tests;
