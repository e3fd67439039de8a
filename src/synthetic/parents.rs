//! Which row of another made-up table each made-up row belongs to.
//!
//! # Guarantee
//! Post-processing of released values: nothing here reads a row of the database.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt};

use super::marginals::{NoisyMarginals, Quantity};
use super::model::KeyModel;
use super::sample::divide;
use crate::mechanism::{project, shares};
use crate::policy::{Column, Scalar, SummaryColumn, SummaryKey, compare_scalars, parse_scalar};

/// How many rows are tried for an exchange, or to be copied, before a row is given up.
const TRIES: usize = 100;

/// After this many parents in a row that have all that could be exchanged or copied, the remaining
/// rows of their kind are given up.
const FULL_MAX: usize = 50;

/// For each made-up value of a column, the code of the key that has it; `None` where the key has
/// not all of them. `values` are the key's as PostgreSQL prints them, or the numbers of its bins.
pub fn codes(
    column: &Column,
    (key, values): (&SummaryColumn, &[Option<String>]),
    made: &[Option<String>],
) -> Option<Vec<usize>> {
    let mut known: HashMap<&Option<String>, usize> = HashMap::new();
    let code = |value: &Option<String>| -> Option<usize> {
        let (Some(bins), Some(text)) = (key.bins(), value) else {
            return values.iter().position(|own| own == value);
        };
        let number = parse_scalar(&column.data_type, text).ok()?;
        let is_in = |bin: &usize| {
            let (lower, upper, has_upper) = key.bin(*bin)?;
            let above = compare_scalars(lower, &number)? != Ordering::Greater;
            let below = match compare_scalars(&number, upper)? {
                Ordering::Less => true,
                Ordering::Equal => has_upper,
                Ordering::Greater => false,
            };
            Some(above && below)
        };
        let bin = (0..bins).find(|bin| is_in(bin) == Some(true))?;
        let number = Some(bin.to_string());
        values.iter().position(|own| *own == number)
    };
    let mut all = Vec::with_capacity(made.len());
    for value in made {
        let found = match known.get(value) {
            Some(found) => *found,
            None => code(value)?,
        };
        known.insert(value, found);
        all.push(found);
    }
    Some(all)
}

/// How many rows are shared out among parents.
#[derive(Debug, Clone, Copy)]
pub enum RowsWanted<'a> {
    /// A number of rows, among all parents.
    Together(usize),
    /// To the parents of each unit as many as the unit has. A unit without parents gets none.
    OfUnits {
        /// The unit of each parent, by its place among `numbers`.
        units: &'a [usize],
        numbers: &'a [usize],
    },
}

/// How many rows belong to each parent, whose known keys have these codes: as many as the model
/// expects by these keys, and within them the same number for each, rounded down or up.
pub fn number_of_each(
    (model, sizes): (&KeyModel, &[usize]),
    codes: &[Vec<usize>],
    wanted: RowsWanted<'_>,
    random: &mut impl Rng,
) -> Vec<usize> {
    let mut alike: HashMap<&[usize], usize> = HashMap::new();
    for own in codes {
        *alike.entry(own).or_default() += 1;
    }
    let likelihood = |(own, count): (&[usize], usize)| {
        let all = model.likelihood(own, sizes);
        (own.to_vec(), all / count as f64)
    };
    let likely: HashMap<Vec<usize>, f64> = alike.into_iter().map(likelihood).collect();
    let mut order: Vec<usize> = (0..codes.len()).collect();
    order.shuffle(random);
    let groups: Vec<(usize, Vec<usize>)> = match wanted {
        RowsWanted::Together(rows) => vec![(rows, order)],
        RowsWanted::OfUnits { units, numbers } => {
            let mut groups: Vec<(usize, Vec<usize>)> =
                numbers.iter().map(|number| (*number, Vec::new())).collect();
            order
                .iter()
                .for_each(|parent| groups[units[*parent]].1.push(*parent));
            groups
        }
    };
    let mut found = vec![0; codes.len()];
    for (rows, parents) in groups
        .into_iter()
        .filter(|(_, parents)| !parents.is_empty())
    {
        let weight = |parent: &usize| likely.get(&codes[*parent]).copied().unwrap_or(0.0);
        let weights: Vec<f64> = parents.iter().map(weight).collect();
        let divided = divide(rows, &shares(&weights), random);
        parents
            .iter()
            .zip(divided)
            .for_each(|(parent, number)| found[*parent] = number);
    }
    found
}

/// How many rows of another table made-up rows have, by a key that is a number of rows: within a
/// bin each number as often.
pub fn numbers_of_rows(
    (key, values): (&SummaryColumn, &[Option<String>]),
    codes: &[usize],
    random: &mut impl Rng,
) -> Vec<usize> {
    let mut number = |code: &usize| {
        let (low, high) = numbers_within(key, values, *code);
        random.random_range(low..=high)
    };
    codes.iter().map(&mut number).collect()
}

/// The mean of a key that is a number of rows, as the summary has it.
pub fn mean_rows(
    marginals: &NoisyMarginals,
    (at, key): (SummaryKey, &SummaryColumn),
) -> Option<f64> {
    let rows = marginals.estimate(&[], Quantity::Rows)?.values[0].max(0.0);
    let measured = marginals.estimate(&[at], Quantity::Rows)?;
    let shares = shares(&project(&measured.values, rows));
    let middle = |code| {
        let (low, high) = numbers_within(key, &marginals.values[at.0], code);
        low.midpoint(high) as f64
    };
    Some(
        shares
            .iter()
            .enumerate()
            .map(|(code, share)| share * middle(code))
            .sum(),
    )
}

/// The least and the most rows that a value of a key means.
fn numbers_within(key: &SummaryColumn, values: &[Option<String>], code: usize) -> (usize, usize) {
    let shown = values.get(code).and_then(Option::as_ref);
    let number = shown.and_then(|text| text.parse().ok()).unwrap_or(0);
    let Some((Scalar::Int(low), Scalar::Int(high), has_high)) = key.bin(number) else {
        return (number, number);
    };
    let end = |edge: i64| usize::try_from(edge).unwrap_or(0);
    let (low, high) = (end(*low), end(*high - i64::from(!has_high)));
    (low, high.max(low))
}

/// Each parent as often as it has rows.
pub fn repeat(numbers: &[usize]) -> Vec<usize> {
    let each = numbers.iter().enumerate();
    each.flat_map(|(parent, number)| std::iter::repeat_n(parent, *number))
        .collect()
}

/// Rows with their parents, while a row of a parent may repeat what a unique key has once.
pub struct Belonging<'a> {
    /// The parent of each row.
    pub parents: &'a mut [usize],
    /// For each row, the codes of the keys that are known by its parent: rows that agree in them
    /// may change their parents.
    pub known: &'a [Vec<usize>],
    /// For each unique key with the parent, what each row has in its other columns; `None` where
    /// that is not compared.
    pub others: Vec<Vec<Option<usize>>>,
}

impl Belonging<'_> {
    /// Exchanges the parents of rows that repeat a key with those of others, where neither repeats
    /// one then. Where no such row is found, it becomes a copy of one that does not repeat the key.
    /// Returns the rows that are copies, each with the row that it is a copy of, in their order.
    /// Some may still repeat a key.
    pub fn settle(&mut self, random: &mut impl Rng) -> Vec<(usize, usize)> {
        if self.others.is_empty() {
            return Vec::new();
        }
        let mut alike: BTreeMap<&[usize], Vec<usize>> = BTreeMap::new();
        for (row, codes) in self.known.iter().enumerate() {
            alike.entry(codes).or_default().push(row);
        }
        let mut counts: HashMap<Place, usize> = HashMap::new();
        for row in 0..self.parents.len() {
            self.places(row, self.parents[row])
                .for_each(|at| *counts.entry(at).or_default() += 1);
        }
        let mut copies = Vec::new();
        for own in alike.into_values() {
            self.settle_alike(&own, (&mut counts, &mut copies), random);
        }
        copies
    }

    /// Settles rows that agree in the known keys among each other.
    fn settle_alike(
        &mut self,
        alike: &[usize],
        (counts, copies): (&mut HashMap<Place, usize>, &mut Vec<(usize, usize)>),
        random: &mut impl Rng,
    ) {
        // What is free for none of a parent's rows stays so.
        let mut full = HashSet::new();
        let mut full_in_turn = 0;
        for row in alike {
            let parent = self.parents[*row];
            if full.contains(&parent) || !self.repeats(*row, counts) {
                continue;
            }
            if !self.exchange(*row, alike, counts, random) {
                let Some(copy) = self.copy(*row, alike, counts, random) else {
                    full.insert(parent);
                    full_in_turn += 1;
                    if full_in_turn == FULL_MAX {
                        return;
                    }
                    continue;
                };
                copies.push(copy);
            }
            full_in_turn = 0;
        }
    }

    /// What a row has in each key, with this parent.
    fn places(&self, row: usize, parent: usize) -> impl Iterator<Item = Place> + '_ {
        let keys = self.others.iter().enumerate();
        keys.filter_map(move |(key, others)| Some((parent, key, others[row]?)))
    }

    fn repeats(&self, row: usize, counts: &HashMap<Place, usize>) -> bool {
        self.places(row, self.parents[row])
            .any(|at| counts.get(&at).is_some_and(|n| *n > 1))
    }

    /// Whether no row of this parent has what the row has.
    fn is_free(&self, row: usize, parent: usize, counts: &HashMap<Place, usize>) -> bool {
        self.places(row, parent)
            .all(|at| counts.get(&at).is_none_or(|n| *n == 0))
    }

    fn exchange(
        &mut self,
        row: usize,
        alike: &[usize],
        counts: &mut HashMap<Place, usize>,
        random: &mut impl Rng,
    ) -> bool {
        for _ in 0..TRIES {
            let other = alike[random.random_range(0..alike.len())];
            let (from, to) = (self.parents[row], self.parents[other]);
            let fits = self.is_free(row, to, counts) && self.is_free(other, from, counts);
            if from == to || !fits {
                continue;
            }
            for (moved, parent, by) in [
                (row, from, -1),
                (other, to, -1),
                (row, to, 1),
                (other, from, 1),
            ] {
                let places: Vec<Place> = self.places(moved, parent).collect();
                places.into_iter().for_each(|at| add(counts, at, by));
            }
            self.parents.swap(row, other);
            return true;
        }
        false
    }

    fn copy(
        &mut self,
        row: usize,
        alike: &[usize],
        counts: &mut HashMap<Place, usize>,
        random: &mut impl Rng,
    ) -> Option<(usize, usize)> {
        let parent = self.parents[row];
        let mut tried = (0..TRIES).filter_map(|_| alike.choose(random).copied());
        let from = tried.find(|other| self.is_free(*other, parent, counts))?;
        let places: Vec<Place> = self.places(row, parent).collect();
        places.into_iter().for_each(|at| add(counts, at, -1));
        for others in &mut self.others {
            others[row] = others[from];
        }
        let places: Vec<Place> = self.places(row, parent).collect();
        places.into_iter().for_each(|at| add(counts, at, 1));
        Some((row, from))
    }
}

/// A parent, a unique key, and what a row has in the key's other columns.
type Place = (usize, usize, usize);

fn add(counts: &mut HashMap<Place, usize>, at: Place, by: isize) {
    let count = counts.entry(at).or_default();
    *count = count.saturating_add_signed(by);
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    use super::*;
    use crate::policy::KeySource;
    use crate::synthetic::model::Step;

    #[test]
    fn rows_are_shared_out_by_known_keys_and_evenly_within_them() {
        // Two thirds of the rows belong to the first kind of parents, which are three of seven.
        let model = KeyModel {
            given: vec![Step {
                key: SummaryKey(0),
                given: vec![],
                shares: vec![vec![2.0 / 3.0, 1.0 / 3.0, 0.0]],
            }],
            steps: Vec::new(),
            targets: Vec::new(),
            others: Vec::new(),
            means: Vec::new(),
            rows: 99.0,
        };
        let codes: Vec<Vec<usize>> = [0, 1, 0, 1, 1, 0, 1].map(|code| vec![code]).to_vec();
        for seed in 0..50 {
            let mut random = ChaCha20Rng::seed_from_u64(seed);
            let numbers = number_of_each(
                (&model, &[3]),
                &codes,
                RowsWanted::Together(99),
                &mut random,
            );
            assert_eq!(numbers.iter().sum::<usize>(), 99);
            for (own, number) in codes.iter().zip(numbers) {
                let wanted = if own[0] == 0 { 22.0 } else { 33.0 / 4.0 };
                assert!((number as f64 - wanted).abs() <= 1.0, "{number} {wanted}");
            }
            // No row of the summary has the keys of any parent.
            let ten = RowsWanted::Together(10);
            let none = number_of_each((&model, &[3]), &vec![vec![2]; 4], ten, &mut random);
            assert!(
                none.iter().all(|number| (2..=3).contains(number)),
                "{none:?}"
            );
            // The first unit has the parents 0 and 1, the second 2 to 6, the third none.
            let of_units = RowsWanted::OfUnits {
                units: &[0, 0, 1, 1, 1, 1, 1],
                numbers: &[3, 0, 8],
            };
            let found = number_of_each((&model, &[3]), &codes, of_units, &mut random);
            assert_eq!(found[..2].iter().sum::<usize>(), 3);
            assert_eq!(found[2..], [0; 5]);
        }
    }

    #[test]
    fn numbers_of_rows_are_those_of_their_bin() {
        let mut key = SummaryColumn {
            steps: 0,
            table: 0,
            source: KeySource::Rows { most: 9 },
            edges: [0, 1, 5, 9].map(Scalar::Int).to_vec(),
            has_ranges: false,
        };
        let values: Vec<Option<String>> = (0..3).map(|bin| Some(bin.to_string())).collect();
        let mut random = ChaCha20Rng::seed_from_u64(1);
        let mut drawn = |key: &SummaryColumn, code: usize| {
            let found = numbers_of_rows((key, &values), &[code; 200], &mut random);
            (found.iter().min().copied(), found.iter().max().copied())
        };
        assert_eq!(drawn(&key, 0), (Some(0), Some(0)));
        assert_eq!(drawn(&key, 1), (Some(1), Some(4)));
        assert_eq!(drawn(&key, 2), (Some(5), Some(9)));
        key.edges.clear();
        assert_eq!(drawn(&key, 2), (Some(2), Some(2)));
    }

    /// Rows of values of one key: three in four parents each, by two kinds of parents.
    fn settled(values: &[usize], seed: u64) -> (usize, Vec<(usize, usize)>) {
        let mut random = ChaCha20Rng::seed_from_u64(seed);
        let rows = values.len();
        let mut parents: Vec<usize> = (0..rows).map(|row| row / 3).collect();
        let before = parents.clone();
        let known: Vec<Vec<usize>> = parents.iter().map(|parent| vec![parent % 2]).collect();
        let mut belonging = Belonging {
            parents: &mut parents,
            known: &known,
            others: vec![values.iter().map(|value| Some(*value)).collect()],
        };
        let copies = belonging.settle(&mut random);
        let others = belonging.others.remove(0);
        // Each parent has as many rows as before, of the same kind.
        let sorted = |parents: &[usize]| {
            let mut sorted = parents.to_vec();
            sorted.sort_unstable();
            sorted
        };
        assert_eq!(sorted(&parents), sorted(&before));
        for (parent, known) in parents.iter().zip(&known) {
            assert_eq!(parent % 2, known[0]);
        }
        let all: HashSet<(usize, Option<usize>)> = parents.iter().copied().zip(others).collect();
        (rows - all.len(), copies)
    }

    #[test]
    fn no_parent_has_a_value_of_a_key_twice() {
        for seed in 0..50 {
            // As many as there are places for: each of three values for 20 parents of each kind.
            let even: Vec<usize> = (0..120).map(|row| (row / 6 * 3 + row % 3) / 20).collect();
            assert_eq!(settled(&even, seed).0, 0);
            // Of the first value there are more than parents, so that some become others.
            let most = (0..120).map(|row| if row % 5 < 2 { 0 } else { row % 3 });
            let (repeated, copies) = settled(&most.collect::<Vec<_>>(), seed);
            assert_eq!(repeated, 0);
            assert!(!copies.is_empty());
        }
        // Two values for three rows of a parent: one of them is too many.
        let few: Vec<usize> = (0..120).map(|row| row % 2).collect();
        assert_eq!(settled(&few, 1).0, 40);
    }

    #[test]
    fn a_parent_that_has_everything_leaves_the_others_to_settle() {
        // The first of 21 parents has 60 rows of five values, the others three of one each.
        let mut parents: Vec<usize> = (0..120_usize).map(|row| row.max(57) / 3 - 19).collect();
        let value = |row: usize| Some(if row < 60 { row % 5 } else { 0 });
        let mut belonging = Belonging {
            parents: &mut parents,
            known: &vec![Vec::new(); 120],
            others: vec![(0..120).map(value).collect()],
        };
        belonging.settle(&mut ChaCha20Rng::seed_from_u64(1));
        let others = belonging.others.remove(0);
        let all: HashSet<(usize, Option<usize>)> = parents.into_iter().zip(others).collect();
        assert_eq!(all.len(), 5 + 60);
    }

    #[test]
    fn rows_that_are_not_compared_stay() {
        let mut parents = vec![0, 0, 0];
        let mut belonging = Belonging {
            parents: &mut parents,
            known: &[vec![], vec![], vec![]],
            others: vec![vec![None, None, None]],
        };
        let copies = belonging.settle(&mut ChaCha20Rng::seed_from_u64(1));
        assert_eq!(copies, []);
    }
}
