//! Adds up the rows of a stream: what the database would do with windows and several levels of
//! groups, in hash tables and in one reading.
//!
//! The tables hold what each unit adds to each of its groups. If they become too large, only units
//! with one value of a bit of their hash are kept, and the statement is read once more for the
//! others. So memory is limited by a number, whatever the tables hold, and nothing is written to a
//! disk. The sums of all readings add up, because a unit is in one reading whole.

mod distinct;
mod group_key;
mod integers;
mod length;
mod postgres_hash;
mod results;
mod row_bins;
mod unit_bins;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use zeroize::Zeroize;

use self::group_key::{KnownGroups, UnitPart};
use self::results::Results;
use super::TextRows;
use crate::rewrite::{Cell, CellReading, Column, Fold, FoldResult};

/// What a table entry takes in addition to its key.
const ENTRY_BYTES: usize = 48;

/// Why rows cannot be added up here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoldError {
    /// A row's columns are not those of the fold.
    UnlikeRow,
    /// There are more groups than the memory holds.
    TooManyGroups,
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

/// What the tables of one statement may take, in bytes. What the result takes is limited by the
/// groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldMemory {
    /// Units, and what they add. Past it, the units are read in several readings.
    pub units: usize,
    /// The keys of groups, and values that are counted. Past it, [`FoldError::TooManyGroups`].
    pub groups: usize,
}

/// The tables of one statement.
pub struct Folding {
    fold: Fold,
    memory: FoldMemory,
    hasher: RandomState,
    part: Part,
    /// Parts that are still to be read.
    rest: Vec<Part>,
    units: HashMap<Box<[u8]>, u32>,
    groups: KnownGroups,
    /// The place of a unit and group in `integers`.
    places: HashMap<(u32, u32), u32>,
    /// One for each cell, for each unit and group.
    integers: Vec<i64>,
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
    /// Before the first row.
    pub fn new(fold: Fold, memory: FoldMemory) -> Self {
        let keys = match fold.result {
            FoldResult::Bins { .. } => fold.groups.len(),
            FoldResult::Distinct { keys, .. } | FoldResult::RowBins { keys, .. } => keys,
        };
        Self {
            results: Results::new(&fold.result),
            groups: KnownGroups::new(fold.groups.clone(), keys),
            fold,
            memory,
            hasher: RandomState::new(),
            part: Part::ALL,
            rest: Vec::new(),
            units: HashMap::new(),
            places: HashMap::new(),
            integers: Vec::new(),
            unit_bytes: 0,
        }
    }

    /// One row, by the binary forms of its columns.
    ///
    /// # Errors
    /// [`FoldError`]; what was added is of no use then.
    pub fn add<'r>(
        &mut self,
        mut column: impl FnMut(usize) -> Option<&'r [u8]>,
    ) -> Result<(), FoldError> {
        // The statement leaves out rows of nobody.
        let unit = column(0).ok_or(FoldError::UnlikeRow)?;
        if self.part.bits > 0 && !self.part.contains(self.hasher.hash_one(unit)) {
            return Ok(());
        }
        let unit = self.unit(unit);
        let group = self.groups.number(|at| column(at + 1))?;
        let width = self.fold.cells.len();
        let next = self.places.len() as u32;
        let place = *self.places.entry((unit, group)).or_insert(next);
        if place == next {
            self.integers.resize(self.integers.len() + width, 0);
        }
        let integers = &mut self.integers[place as usize * width..][..width];
        let mut read = 1 + self.fold.groups.len();
        for (cell, sum) in self.fold.cells.iter().zip(integers) {
            let value = if cell.reading.has_column() {
                read += 1;
                column(read - 1)
            } else {
                None
            };
            add_cell(*cell, value, sum)?;
        }
        if self.bytes() > self.memory.units {
            self.halve();
        }
        if self.groups.bytes() > self.memory.groups {
            return Err(FoldError::TooManyGroups);
        }
        Ok(())
    }

    fn unit(&mut self, unit: &[u8]) -> u32 {
        if let Some(number) = self.units.get(unit) {
            return *number;
        }
        let number = self.units.len() as u32;
        self.unit_bytes += unit.len() + ENTRY_BYTES;
        self.units.insert(unit.into(), number);
        number
    }

    fn bytes(&self) -> usize {
        let each = ENTRY_BYTES + size_of::<i64>() * self.fold.cells.len();
        self.unit_bytes + self.places.len() * each
    }

    /// Leaves half of the units to another reading. A single unit is kept, however large it is.
    fn halve(&mut self) {
        if self.units.len() < 2 || self.part.bits == 63 {
            return;
        }
        let [kept, later] = self.part.halves();
        self.part = kept;
        self.rest.push(later);
        let width = self.fold.cells.len();
        let old = std::mem::take(&mut self.units);
        let mut numbers = vec![None; old.len()];
        self.unit_bytes = 0;
        for (unit, number) in old {
            if kept.contains(self.hasher.hash_one(&*unit)) {
                numbers[number as usize] = Some(self.units.len() as u32);
                self.unit_bytes += unit.len() + ENTRY_BYTES;
                self.units.insert(unit, self.units.len() as u32);
            } else {
                let mut unit = unit;
                unit.zeroize();
            }
        }
        let places = std::mem::take(&mut self.places);
        let mut old = std::mem::take(&mut self.integers);
        for ((unit, group), place) in places {
            if let Some(unit) = numbers[unit as usize] {
                self.places.insert((unit, group), self.places.len() as u32);
                let integers = &old[place as usize * width..][..width];
                self.integers.extend_from_slice(integers);
            }
        }
        old.zeroize();
    }

    /// Adds what the units of this reading make to the result. Whether the statement has to be read
    /// once more, for other units.
    pub fn end_reading(&mut self) -> bool {
        let by_unit = self.by_unit();
        let width = self.fold.cells.len();
        let mut at = 0;
        while at < by_unit.len() {
            let unit = by_unit[at].0;
            let end = at + by_unit[at..].iter().take_while(|of| of.0 == unit).count();
            let parts = by_unit[at..end].iter().map(|(_, group, place)| {
                let integers = &self.integers[*place as usize * width..][..width];
                (*group, integers)
            });
            let parts: Vec<UnitPart<'_>> = parts.collect();
            self.results.add_unit(&self.fold, &self.groups, &parts);
            at = end;
        }
        self.forget_units();
        let next = self.rest.pop();
        self.part = next.unwrap_or(Part::ALL);
        next.is_some()
    }

    /// Units, groups and places, in the order of units.
    fn by_unit(&self) -> Vec<(u32, u32, u32)> {
        let places = self.places.iter();
        let mut all: Vec<_> = places.map(|((u, g), place)| (*u, *g, *place)).collect();
        all.sort_unstable();
        all
    }

    fn forget_units(&mut self) {
        for (mut unit, _) in self.units.drain() {
            unit.zeroize();
        }
        self.places.clear();
        self.integers.zeroize();
        self.unit_bytes = 0;
    }

    /// The rows of the aggregating statement.
    pub fn rows(&self) -> TextRows {
        self.results.rows(&self.fold, &self.groups)
    }
}

/// Adds what a row adds to one integer. The sum stays within eight bytes: a row adds less than
/// 2^40.
fn add_cell(cell: Cell, value: Option<&[u8]>, sum: &mut i64) -> Result<(), FoldError> {
    let holds = || match value {
        None | Some([0]) => Ok(false),
        Some([1]) => Ok(true),
        Some(_) => Err(FoldError::UnlikeRow),
    };
    let added = match cell.reading {
        CellReading::AnyRow => {
            *sum = 1;
            return Ok(());
        }
        CellReading::AnyCondition => {
            *sum |= i64::from(holds()?);
            return Ok(());
        }
        CellReading::EveryRow => 1,
        CellReading::Condition => i64::from(holds()?),
        CellReading::Sign => 2 * i64::from(holds()?) - 1,
        CellReading::Integer => match value {
            None => 0,
            Some(bytes) => integers::read(bytes)?,
        },
    };
    *sum = sum.saturating_add(added);
    Ok(())
}

/// What one unit adds to each of its groups, each within its bound.
fn clamp(cell: Cell, sum: i64) -> i64 {
    let most = i64::try_from(cell.most).unwrap_or(i64::MAX);
    sum.clamp(-most, most)
}

/// A column's text; `None` is NULL.
fn text(column: Column, bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| match column {
        Column::Integer => integers::read(bytes).map_or_else(|_| String::new(), |n| n.to_string()),
        Column::Bytes => String::from_utf8_lossy(bytes).into_owned(),
    })
}
