//! What the measured pairs of keys say of pairs that no set of a summary has.
//!
//! # Guarantee
//! Post-processing of released values: nothing here reads a row of the database.

use std::collections::BTreeSet;

use super::cells::{CELLS_MAX, TargetShares};
use crate::mechanism::{conditional, products};
use crate::policy::{SummaryKey, combinations};

/// The most combinations of values of all such pairs together.
const ALL_CELLS_MAX: usize = 1 << 20;

/// The most products that are added up on the way from one key to another.
const PRODUCTS_MAX: usize = 1 << 28;

/// The pairs of keys that no set of the summary has, the smallest first: as many as have no more
/// than 2^20 combinations together. `sizes` has the number of values of each key.
pub fn other_pairs(subsets: &BTreeSet<Vec<SummaryKey>>, sizes: &[usize]) -> Vec<[SummaryKey; 2]> {
    let keys: Vec<SummaryKey> = SummaryKey::all(sizes.len()).collect();
    let all = combinations(&keys, 2, usize::MAX).unwrap_or_default();
    let with_cells = |pair: Vec<SummaryKey>| {
        let [first, second] = two(&pair)?;
        let cells = first.pick(sizes).checked_mul(*second.pick(sizes))?;
        let is_wanted = !subsets.contains(&pair) && cells <= CELLS_MAX;
        is_wanted.then_some((cells, [first, second]))
    };
    let mut others: Vec<(usize, [SummaryKey; 2])> =
        all.into_iter().filter_map(with_cells).collect();
    others.sort();
    let mut all = 0;
    let fits = |(cells, _): &(usize, [SummaryKey; 2])| {
        all += cells;
        all <= ALL_CELLS_MAX
    };
    let fitting = others.into_iter().take_while(fits);
    fitting.map(|(_, pair)| pair).collect()
}

/// What the measured pairs tell of others: the dependence along the path of them on which most of
/// it is left, or none where no path joins the keys. There is no target for keys that are joined by
/// sets whose counts are not used, and by no others. `alone` has the shares of each key's values.
pub fn targets_by_paths(
    others: &[[SummaryKey; 2]],
    subsets: &BTreeSet<Vec<SummaryKey>>,
    measured: &[TargetShares],
    alone: &[Vec<f64>],
) -> Vec<TargetShares> {
    let known = measured.iter().filter_map(|target| two(&target.keys));
    let known = Joined::of(known, alone.len());
    let joined = Joined::of(subsets.iter().filter_map(|set| two(set)), alone.len());
    let paths = StrongestPaths::of(measured, alone);
    let target = |pair: &[SummaryKey; 2]| {
        let is_unsure = joined.has(*pair) && !known.has(*pair);
        let shares = match paths.between(*pair) {
            _ if is_unsure => None,
            Some(path) => along(&path, measured, alone),
            None => {
                let [first, second] = pair.map(|key| key.pick(alone));
                Some(products(first, second))
            }
        };
        Some(TargetShares {
            keys: pair.to_vec(),
            shares: shares?,
        })
    };
    others.iter().filter_map(target).collect()
}

fn two(keys: &[SummaryKey]) -> Option<[SummaryKey; 2]> {
    keys.try_into().ok()
}

/// Which keys pairs join, directly or through others.
struct Joined(Vec<usize>);

impl Joined {
    fn of(pairs: impl Iterator<Item = [SummaryKey; 2]>, keys: usize) -> Self {
        let mut group: Vec<usize> = (0..keys).collect();
        for pair in pairs {
            let [from, into] = pair.map(|key| *key.pick(&group));
            let moved = group.iter_mut().filter(|own| **own == from);
            moved.for_each(|own| *own = into);
        }
        Self(group)
    }

    fn has(&self, pair: [SummaryKey; 2]) -> bool {
        let [first, second] = pair.map(|key| *key.pick(&self.0));
        first == second
    }
}

/// For each two keys, the path of measured pairs on which most of their dependence is left: the
/// product of the pairs' own, each the distance of its shares from independent ones. For keys of
/// two values that are equally frequent, that product is what is left.
struct StrongestPaths {
    /// The next key on the way from one to another, if there is a way.
    next: Vec<Vec<Option<SummaryKey>>>,
}

impl StrongestPaths {
    fn of(measured: &[TargetShares], alone: &[Vec<f64>]) -> Self {
        let keys = alone.len();
        let mut left = vec![vec![0.0f64; keys]; keys];
        let mut next = vec![vec![None; keys]; keys];
        for target in measured {
            let Some([first, second]) = two(&target.keys) else {
                continue;
            };
            let [one, other] = [first, second].map(|key| key.pick(alone));
            let independent = products(one, other);
            let both = target.shares.iter().zip(&independent);
            let distance: f64 = both.map(|(own, share)| (own - share).abs()).sum();
            // Also where noise hides the whole dependence there is a way.
            let distance = distance.clamp(1e-9, 1.0);
            for (from, to) in [(first, second), (second, first)] {
                left[from.0][to.0] = distance;
                next[from.0][to.0] = Some(to);
            }
        }
        for middle in 0..keys {
            for from in 0..keys {
                for to in 0..keys {
                    let through = left[from][middle] * left[middle][to];
                    if from != to && through > left[from][to] {
                        left[from][to] = through;
                        next[from][to] = next[from][middle];
                    }
                }
            }
        }
        Self { next }
    }

    /// All keys on the way from the first to the second, with both.
    fn between(&self, [first, second]: [SummaryKey; 2]) -> Option<Vec<SummaryKey>> {
        let mut path = vec![first];
        let mut at = first;
        while at != second {
            at = self.next[at.0][second.0]?;
            path.push(at);
        }
        Some(path)
    }
}

/// The shares of the combinations of a path's ends, where each key depends on those before it by
/// the one before alone; `None` where that is too much work.
fn along(path: &[SummaryKey], measured: &[TargetShares], alone: &[Vec<f64>]) -> Option<Vec<f64>> {
    let [first, last] = [path.first()?, path.last()?].map(|key| key.pick(alone).len());
    if first > last {
        // From the key of fewer values on, what is added up on the way is small.
        let back: Vec<SummaryKey> = path.iter().rev().copied().collect();
        let turned = along(&back, measured, alone)?;
        let of_value = |value: usize| turned[value..].iter().step_by(first);
        return Some((0..first).flat_map(of_value).copied().collect());
    }
    let mut steps = path.windows(2).filter_map(two);
    // For each value of the first key, the shares of the values of the key that is reached.
    let [from, to] = steps.next()?;
    let weighted = |(share, row): (&f64, Vec<f64>)| row.iter().map(|own| share * own).collect();
    let rows = conditional_shares([from, to], measured, alone)?;
    let mut rows: Vec<Vec<f64>> = from.pick(alone).iter().zip(rows).map(weighted).collect();
    for [from, to] in steps {
        let after = to.pick(alone).len();
        if first * from.pick(alone).len() * after > PRODUCTS_MAX || first * after > CELLS_MAX {
            return None;
        }
        let given = conditional_shares([from, to], measured, alone)?;
        let reached = |row: &Vec<f64>| {
            let mut sums = vec![0.0; after];
            for (share, given) in row.iter().zip(&given) {
                let both = sums.iter_mut().zip(given);
                both.for_each(|(sum, given)| *sum += share * given);
            }
            sums
        };
        rows = rows.iter().map(reached).collect();
    }
    Some(rows.into_iter().flatten().collect())
}

/// For each value of one key of a measured pair, the shares of the other's values.
fn conditional_shares(
    [from, to]: [SummaryKey; 2],
    measured: &[TargetShares],
    alone: &[Vec<f64>],
) -> Option<Vec<Vec<f64>>> {
    let is_it = |target: &&TargetShares| {
        let keys = two(&target.keys);
        keys == Some([from, to]) || keys == Some([to, from])
    };
    let target = measured.iter().find(is_it)?;
    let (values, others) = (from.pick(alone).len(), to.pick(alone));
    let is_first = target.keys.first() == Some(&from);
    let (by_value, by_other) = match is_first {
        true => (others.len(), 1),
        false => (1, values),
    };
    let of_value = |value: usize| {
        let own = target.shares[value * by_value..].iter();
        conditional(own.step_by(by_other), others)
    };
    Some((0..values).map(of_value).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    use super::*;
    use crate::synthetic::{KeyModel, Marginal, NoisyMarginals, NoisyQuantity, Quantity, draw};

    /// The pairs that have a target, where keys have equally frequent values and these pairs
    /// are measured.
    fn others(measured: &[[usize; 2]], sizes: &[usize]) -> Vec<[usize; 2]> {
        let subsets = measured.iter().map(|pair| pair.map(SummaryKey).to_vec());
        let subsets: BTreeSet<Vec<SummaryKey>> = subsets.collect();
        let alone = sizes.iter().map(|size| vec![1.0 / *size as f64; *size]);
        let alone: Vec<Vec<f64>> = alone.collect();
        let target = |pair: &Vec<SummaryKey>| {
            let [first, second] = two(pair)?.map(|key| key.pick(&alone));
            let cells = first.len() * second.len();
            (cells <= CELLS_MAX).then(|| TargetShares {
                keys: pair.clone(),
                shares: products(first, second),
            })
        };
        let known: Vec<TargetShares> = subsets.iter().filter_map(target).collect();
        let found = targets_by_paths(&other_pairs(&subsets, sizes), &subsets, &known, &alone);
        let keys = found.iter().map(|target| two(&target.keys).unwrap());
        keys.map(|pair| pair.map(|key| key.0)).collect()
    }

    #[test]
    fn keys_that_unused_sets_join_have_no_target() {
        let measured = [[0, 1], [0, 2], [1, 2], [2, 3]];
        let found = others(&measured, &[2; 5]);
        assert_eq!(found, [[0, 3], [0, 4], [1, 3], [1, 4], [2, 4], [3, 4]]);
        // Nothing is known of the first pair: it is too large.
        let found = others(&[[0, 1], [1, 2], [2, 3]], &[2, 200_000, 1, 1]);
        assert_eq!(found, [[1, 3]]);
        assert_eq!(others(&[[0, 1], [1, 2]], &[500, 520, 500]), [[0, 2]]);
        assert_eq!(
            others(&[[0, 1], [1, 2]], &[500, 530, 500]),
            [[0usize; 2]; 0]
        );
    }

    /// Keys of two values: a way of three strong pairs, and one of two weak ones.
    #[test]
    fn the_strongest_path_is_taken() {
        let target = |(keys, both): ([usize; 2], f64)| TargetShares {
            keys: keys.map(SummaryKey).to_vec(),
            shares: [1.0, -1.0, -1.0, 1.0]
                .map(|sign| (1.0 + sign * both) / 4.0)
                .to_vec(),
        };
        let pairs = [
            ([0, 1], 0.9),
            ([1, 2], 0.9),
            ([2, 3], 0.9),
            ([0, 4], 0.5),
            ([3, 4], 0.5),
        ];
        let (measured, alone) = (pairs.map(target), vec![vec![0.5; 2]; 5]);
        let paths = StrongestPaths::of(&measured, &alone);
        let found = paths.between([0, 3].map(SummaryKey)).unwrap();
        assert_eq!(found, [0, 1, 2, 3].map(SummaryKey));
        let shares = along(&found, &measured, &alone).unwrap();
        for (share, sign) in shares.iter().zip([1.0, -1.0, -1.0, 1.0]) {
            let wanted = (1.0 + sign * 0.9f64.powi(3)) / 4.0;
            assert!((share - wanted).abs() < 1e-12, "{shares:?}");
        }
    }

    #[test]
    fn their_combinations_are_limited() {
        // A star: 171 pairs of leaves, of 2^18 combinations each, but for three smaller ones.
        let leaves: Vec<[usize; 2]> = (1..20).map(|leaf| [0, leaf]).collect();
        let sizes = [vec![10, 8, 8, 8], vec![512; 16]].concat();
        let found = others(&leaves, &sizes);
        assert_eq!(found[..3], [[1, 2], [1, 3], [2, 3]]);
        let cells = |[first, second]: &[usize; 2]| sizes[*first] * sizes[*second];
        let all: usize = found.iter().map(cells).sum();
        assert!(all <= ALL_CELLS_MAX && all > ALL_CELLS_MAX / 2, "{all}");
    }

    /// Keys of two values, three of which close a circle; the last depends on one of them alone.
    #[test]
    fn no_measured_pair_is_contradicted() {
        let rows = 20_000.0;
        let set = |(keys, both): ([usize; 2], f64)| {
            let cell = |sign: f64| rows * (1.0 + sign * both) / 4.0;
            Marginal {
                keys: keys.map(SummaryKey).to_vec(),
                quantities: HashMap::from([(
                    Quantity::Rows,
                    NoisyQuantity {
                        values: [1.0, -1.0, -1.0, 1.0].map(cell).to_vec(),
                        noise: vec![1e-9],
                    },
                )]),
            }
        };
        let measured = [([0, 1], 0.6), ([1, 2], 0.6), ([0, 2], 0.5), ([2, 3], 0.9)];
        let values = || (0..2).map(|at| Some(at.to_string())).collect();
        let marginals = NoisyMarginals {
            values: (0..4).map(|_| values()).collect(),
            sets: measured.map(set).into(),
            measures: 0,
            shared: None,
        };
        let model = KeyModel::of(&marginals).unwrap();
        let mut random = ChaCha20Rng::seed_from_u64(1);
        let sample = draw(&model, &[2; 4], 20_000, &mut random);
        let found = |first: usize, second: usize| {
            let both = sample.keys[first].iter().zip(&sample.keys[second]);
            let equal = both.filter(|(one, other)| one == other).count();
            equal as f64 / 10_000.0 - 1.0
        };
        let wanted = [([0, 2], 0.5), ([2, 3], 0.9), ([0, 3], 0.45), ([1, 3], 0.54)];
        for ([first, second], wanted) in wanted {
            let found = found(first, second);
            assert!((found - wanted).abs() < 0.02, "{first} {second}: {found}");
        }
    }
}
