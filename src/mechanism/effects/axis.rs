//! The axis of one key: what an effect has of the key, and how sums of its values are computed from
//! that.
//!
//! Of a key of n values without ranges an effect has n I - J (J is all ones).
//!
//! Of a key with ranges there is an effect for each *level*. Level l parts the values, in their
//! order, into runs of 2^l. Of each run it has one row: the values of the run's first half less
//! those of its second half. So a range of values needs but two rows of each level, those in which
//! it begins and ends; all others have it whole or not at all. These are the rows of Haar.
//!
//! The last run may be shorter. If its second half has no value, there is no row. If it has r of
//! 2^(l-1) = h values, the row is r / g on the first half and -h / g on the second one, where g is
//! their greatest common divisor, and all other rows of the level are multiplied by h / g. So every
//! row sums up to zero over the values that the key has, as n I - J does, and no entry of a level
//! is larger than h / g. Rows of one level are apart; a row of a lower level is within one half of
//! a run, where the higher row is constant. So all rows are orthogonal, to each other and to the
//! row of ones, and as there are n - 1 of them, they are all there is.

use std::collections::BTreeSet;
use std::iter::Sum;
use std::ops::{Mul, Range, Sub};

use num_bigint::{BigInt, BigUint};
use num_integer::Integer;

use super::SummedValues;

/// A key's values, and how they are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyAxis {
    /// The number of values; at least one.
    pub size: usize,
    pub has_ranges: bool,
}

/// What is added up: exact integers, or weights.
pub(super) trait AxisNumber:
    Copy + Sum + Sub<Output = Self> + Mul<Output = Self> + From<u32>
{
}

impl AxisNumber for i128 {}

impl AxisNumber for f64 {}

/// A row of a level: `left` on the values from `first` to before `middle`, minus `right` from there
/// to before `end`, and zero on the others.
#[derive(Debug, Clone, Copy)]
struct Halves {
    first: usize,
    middle: usize,
    end: usize,
    left: u32,
    right: u32,
}

impl Halves {
    fn entry(&self, value: usize) -> f64 {
        match value < self.middle {
            true => f64::from(self.left),
            false => -f64::from(self.right),
        }
    }

    /// The sum of the row up to before a value.
    fn sum_up_to(&self, value: usize) -> f64 {
        match value {
            value if value <= self.first || value >= self.end => 0.0,
            value if value <= self.middle => (value - self.first) as f64 * f64::from(self.left),
            value => (self.end - value) as f64 * f64::from(self.right),
        }
    }

    fn squared_length(&self) -> u128 {
        let (left, right) = (self.middle - self.first, self.end - self.middle);
        let squared = |entry: u32| u128::from(entry) * u128::from(entry);
        left as u128 * squared(self.left) + right as u128 * squared(self.right)
    }

    fn absolute_length(&self) -> u128 {
        2 * (self.middle - self.first) as u128 * u128::from(self.left)
    }
}

impl KeyAxis {
    /// How many effects of other keys there are with the key, for one without.
    pub fn levels(&self) -> u32 {
        match self.has_ranges {
            true => self.size.next_power_of_two().trailing_zeros(),
            false => u32::from(self.size > 1),
        }
    }

    /// How many integers an effect has along the axis. Level 0 is an effect without the key.
    pub fn rows(&self, level: u32) -> usize {
        match (level, self.has_ranges) {
            (0, _) => 1,
            (_, false) => self.size,
            (_, true) => {
                let half = 1 << (level - 1);
                self.size.saturating_sub(half).div_ceil(2 * half)
            }
        }
    }

    fn halves(&self, level: u32, row: usize) -> Halves {
        let half = 1usize << (level - 1);
        let last = self.rows(level).saturating_sub(1) * 2 * half + half;
        let last = half.min(self.size - last);
        let common = half.gcd(&last);
        let first = row * 2 * half;
        let end = self.size.min(first + 2 * half);
        let scale = (half / common) as u32;
        Halves {
            first,
            middle: first + half,
            end,
            left: match end - first == 2 * half {
                true => scale,
                false => (last / common) as u32,
            },
            right: scale,
        }
    }

    fn all_halves(&self, level: u32) -> impl Iterator<Item = Halves> + '_ {
        (0..self.rows(level)).map(move |row| self.halves(level, row))
    }

    /// The squared length of the longest column of a level.
    pub fn squared_length(&self, level: u32) -> BigUint {
        match (level, self.has_ranges) {
            (0, _) => 1u8.into(),
            (_, false) => BigUint::from(self.size) * (self.size - 1),
            (_, true) => BigUint::from(self.halves(level, 0).right).pow(2),
        }
    }

    /// The squared entries of the columns of all levels, each once. Each level has one row at most
    /// in a column.
    pub fn columns(&self) -> BTreeSet<Vec<u128>> {
        let size = self.size as u128;
        let column = |value: usize| {
            let entry = |level| match level {
                0 => 1,
                _ => self.squared_entry(level, value),
            };
            (0..=self.levels()).map(entry).collect()
        };
        match (self.has_ranges, self.levels()) {
            (true, _) => (0..self.size).map(column).collect(),
            (false, 0) => BTreeSet::from([vec![1]]),
            (false, _) => BTreeSet::from([vec![1, size * (size - 1)]]),
        }
    }

    /// The squared entry of a value in a level of a key with ranges.
    fn squared_entry(&self, level: u32, value: usize) -> u128 {
        let row = value >> level;
        if row >= self.rows(level) {
            return 0;
        }
        let row = self.halves(level, row);
        let entry = if value < row.middle {
            row.left
        } else {
            row.right
        };
        u128::from(entry).pow(2)
    }

    /// What the effects of each level cost, where their weights are best for all ranges of the key
    /// and for the total: the mean of the columns' squared entries, over those columns that are the
    /// longest then. Where all columns are alike, it is their squared entry.
    ///
    /// # Reference
    /// Silvey, Titterington, Torsney 1978, "An algorithm for optimal designs on a finite design
    /// space": shares of the columns, multiplied by how long each is.
    pub fn costs(&self) -> Vec<f64> {
        const ROUNDS: usize = 300;
        let columns: Vec<Vec<f64>> = self
            .columns()
            .into_iter()
            .map(|column| column.into_iter().map(|entry| entry as f64).collect())
            .collect();
        let mut parts = self.parts(&SummedValues::Ranges);
        parts[0] += 1.0;
        let mean = |shares: &[f64]| -> Vec<f64> {
            let of_level = |level| {
                let both = shares.iter().zip(&columns);
                both.map(|(share, column): (&f64, &Vec<f64>)| share * column[level])
                    .sum()
            };
            (0..parts.len()).map(of_level).collect()
        };
        let mut shares = vec![1.0 / columns.len() as f64; columns.len()];
        if columns.len() == 1 {
            return mean(&shares);
        }
        for _ in 0..ROUNDS {
            let costs = mean(&shares);
            let length = |column: &Vec<f64>| -> f64 {
                let levels = column.iter().zip(parts.iter().zip(&costs));
                levels
                    .map(|(entry, (part, cost))| entry * (part / cost).sqrt())
                    .sum()
            };
            let lengths: Vec<f64> = columns.iter().map(length).collect();
            let both = shares.iter().zip(&lengths);
            let whole: f64 = both.map(|(share, length)| share * length).sum();
            for (share, length) in shares.iter_mut().zip(lengths) {
                *share *= length / whole;
            }
        }
        mean(&shares)
    }

    /// A bound of what the entries of a row add up to without their signs.
    pub fn absolute_length(&self) -> u128 {
        let size = self.size as u128;
        match self.has_ranges {
            false => 2 * size,
            true => (1..=self.levels())
                .flat_map(|level| self.all_halves(level))
                .map(|row| row.absolute_length())
                .fold(size, u128::max),
        }
    }

    /// The integers of a level from those of the key's values, each for `inner` combinations of
    /// later keys' values.
    pub fn measure<T: AxisNumber>(&self, level: u32, values: &[T], inner: usize) -> Vec<T> {
        let mut measured = Vec::with_capacity(values.len() / self.size * self.rows(level));
        for outer in values.chunks(self.size * inner) {
            let sum = |steps: Range<usize>, at: usize| -> T {
                steps.map(|step| outer[step * inner + at]).sum()
            };
            if self.has_ranges {
                for row in self.all_halves(level) {
                    measured.extend((0..inner).map(|at| {
                        let left = sum(row.first..row.middle, at) * T::from(row.left);
                        left - sum(row.middle..row.end, at) * T::from(row.right)
                    }));
                }
                continue;
            }
            let first = measured.len();
            measured.extend(outer.iter().map(|value| *value * T::from(self.size as u32)));
            for at in 0..inner {
                let sum = sum(0..self.size, at);
                for place in (0..self.size).map(|step| first + step * inner + at) {
                    measured[place] = measured[place] - sum;
                }
            }
        }
        measured
    }

    /// The sums over the axis.
    pub fn add_up<T: AxisNumber>(&self, values: &[T], inner: usize) -> Vec<T> {
        let mut sums = Vec::with_capacity(values.len() / self.size);
        for outer in values.chunks(self.size * inner) {
            let sum = |at| -> T { (0..self.size).map(|step| outer[step * inner + at]).sum() };
            sums.extend((0..inner).map(sum));
        }
        sums
    }

    /// What w' B' is divided by, row by row of a level.
    fn divisors(&self, level: u32) -> Vec<f64> {
        match (level, self.has_ranges) {
            (0, _) => vec![self.size as f64],
            (_, false) => vec![(self.size as f64).powi(2); self.size],
            (_, true) => self
                .all_halves(level)
                .map(|row| row.squared_length() as f64)
                .collect(),
        }
    }

    /// What each integer of a level counts in a sum with these weights.
    pub fn estimate(&self, level: u32, weights: &[f64], inner: usize) -> Vec<f64> {
        let mut counted = match level {
            0 => self.add_up(weights, inner),
            _ => self.measure(level, weights, inner),
        };
        let divisors = self.divisors(level);
        for (at, value) in counted.iter_mut().enumerate() {
            *value /= divisors[at / inner % divisors.len()];
        }
        counted
    }

    /// For each level the sum of squares of what its integers count in a sum over values.
    pub fn parts(&self, summed: &SummedValues) -> Vec<f64> {
        let levels = 0..=self.levels();
        if !self.has_ranges {
            let number = match summed {
                SummedValues::Number(number) => *number,
                SummedValues::Places(places) => places.len(),
                SummedValues::Prefixes | SummedValues::Ranges => 1,
            };
            let (size, number) = (self.size as f64, number as f64);
            let part = |level| match level {
                0 => number * number / (size * size),
                _ => number * (size - number) / (size * size * size),
            };
            return levels.map(part).collect();
        }
        let part = |level| match level {
            0 => self.part_of_total(summed),
            _ => self.part_of_level(level, summed),
        };
        levels.map(part).collect()
    }

    fn part_of_total(&self, summed: &SummedValues) -> f64 {
        let size = self.size as f64;
        let squares = match summed {
            SummedValues::Number(number) => (*number as f64).powi(2),
            SummedValues::Places(places) => (places.len() as f64).powi(2),
            // The means of the squares of their lengths.
            SummedValues::Prefixes => (size + 1.0) * (2.0 * size + 1.0) / 6.0,
            SummedValues::Ranges => (size + 1.0) * (size + 2.0) / 6.0,
        };
        squares / (size * size)
    }

    fn part_of_level(&self, level: u32, summed: &SummedValues) -> f64 {
        if let SummedValues::Places(places) = summed {
            return self.part_of_places(level, places);
        }
        let size = self.size as f64;
        let of_row = |row: Halves| {
            // Up to the end of the row, and up to before its beginning, the sum is zero.
            let sums = || (row.first + 1..row.end).map(|value| row.sum_up_to(value));
            let squares: f64 = sums().map(|sum| sum * sum).sum();
            let mean = match summed {
                SummedValues::Number(number) => {
                    let first = row.first.saturating_sub(*number);
                    let firsts = first..row.end.min(self.size + 1 - number);
                    let part = |first| row.sum_up_to(first + number) - row.sum_up_to(first);
                    let squares = firsts.map(|first| part(first).powi(2));
                    squares.sum::<f64>() / (size + 1.0 - *number as f64)
                }
                SummedValues::Prefixes => squares / size,
                // Of each pair of places one range begins and ends there.
                SummedValues::Places(_) | SummedValues::Ranges => {
                    let whole = sums().sum::<f64>().powi(2);
                    ((size + 1.0) * squares - whole) / (size * (size + 1.0) / 2.0)
                }
            };
            mean / (row.squared_length() as f64).powi(2)
        };
        self.all_halves(level).map(of_row).sum()
    }

    fn part_of_places(&self, level: u32, places: &[usize]) -> f64 {
        let counted = self.counts(level, places);
        counted.map(|(_, count)| count * count).sum()
    }

    /// What the integers of a level of a key with ranges count in a sum over values at places that
    /// ascend: by row, without rows that have none of the values.
    fn counts(&self, level: u32, places: &[usize]) -> impl Iterator<Item = (usize, f64)> {
        let of_rows = places.chunk_by(move |one, other| one >> level == other >> level);
        of_rows.filter_map(move |own| {
            let row = own.first()? >> level;
            let halves = (row < self.rows(level)).then(|| self.halves(level, row))?;
            let sum: f64 = own.iter().map(|place| halves.entry(*place)).sum();
            Some((row, sum / halves.squared_length() as f64))
        })
    }

    /// For each level the sum of products of what its integers count in two sums, each over values
    /// at places that ascend. Of one sum with itself they are [`Self::parts`].
    pub fn products(&self, one: &[usize], other: &[usize]) -> Vec<f64> {
        let size = self.size as f64;
        let both = one.len() as f64 * other.len() as f64;
        let product = |level| {
            if !self.has_ranges {
                let shared = one.iter().filter(|at| other.binary_search(at).is_ok());
                return (size * shared.count() as f64 - both) / size.powi(3);
            }
            let mut others = self.counts(level, other).peekable();
            let of_row = |(row, count): (usize, f64)| {
                while others.next_if(|(other, _)| *other < row).is_some() {}
                let found = others.next_if(|(other, _)| *other == row);
                found.map_or(0.0, |(_, other)| count * other)
            };
            self.counts(level, one).map(of_row).sum()
        };
        let of_levels = (1..=self.levels()).map(product);
        std::iter::once(both / (size * size))
            .chain(of_levels)
            .collect()
    }

    /// The steps that [`Self::parts`] and [`Self::products`] take of this many places.
    pub fn work_of(&self, places: usize) -> u64 {
        match self.has_ranges {
            true => u64::from(self.levels()).saturating_mul(1 + places as u64),
            false => 1,
        }
    }

    /// What the values' integers are divided by.
    pub fn divisor(&self) -> BigUint {
        if !self.has_ranges {
            return BigUint::from(self.size).pow(2);
        }
        let mut all = BigUint::from(self.size);
        for level in 1..=self.levels() {
            // All rows but the last one are alike.
            for row in [0, self.rows(level) - 1] {
                let row = self.halves(level, row);
                for entry in [row.left, row.right] {
                    let squared = BigUint::from(row.squared_length());
                    let own = &squared / squared.gcd(&entry.into());
                    all = all.lcm(&own);
                }
            }
        }
        all
    }

    /// The integers of the key's values, times [`Self::divisor`]. The axis has the integer without
    /// the key first, t, and then those of its levels, y: for n I - J that is n t + (n I - J) y.
    pub fn undo(&self, values: &[BigInt], inner: usize) -> Vec<BigInt> {
        match self.has_ranges {
            true => self.undo_ranges(values, inner),
            false => self.undo_values(values, inner),
        }
    }

    fn undo_values(&self, values: &[BigInt], inner: usize) -> Vec<BigInt> {
        let mut all = Vec::with_capacity(values.len());
        for outer in values.chunks((self.size + 1) * inner) {
            let (lacking, having) = outer.split_at(inner);
            let common: Vec<BigInt> = (0..inner)
                .map(|at| {
                    let steps = 0..self.size;
                    let sum: BigInt = steps.map(|step| &having[step * inner + at]).sum();
                    &lacking[at] * self.size - sum
                })
                .collect();
            let own = having.iter().zip(common.iter().cycle());
            all.extend(own.map(|(own, common)| own * self.size + common));
        }
        all
    }

    fn undo_ranges(&self, values: &[BigInt], inner: usize) -> Vec<BigInt> {
        let divisor = BigInt::from(self.divisor());
        let rows: Vec<(Halves, BigInt, BigInt)> = (1..=self.levels())
            .flat_map(|level| self.all_halves(level))
            .map(|row| {
                let times = |entry: u32| &divisor * entry / BigInt::from(row.squared_length());
                (row, times(row.left), times(row.right))
            })
            .collect();
        let of_total = &divisor / self.size;
        let mut all = Vec::with_capacity(values.len());
        for outer in values.chunks((rows.len() + 1) * inner) {
            let first = all.len();
            let (totals, measured) = outer.split_at(inner);
            let each = (0..self.size).flat_map(|_| totals);
            all.extend(each.map(|total| total * &of_total));
            for ((row, left, right), integers) in rows.iter().zip(measured.chunks(inner)) {
                for (at, integer) in integers.iter().enumerate() {
                    let (more, less) = (integer * left, integer * right);
                    let place = |step: usize| first + step * inner + at;
                    for step in row.first..row.middle {
                        all[place(step)] += &more;
                    }
                    for step in row.middle..row.end {
                        all[place(step)] -= &less;
                    }
                }
            }
        }
        all
    }
}
