//! What the measured pairs of keys say of pairs that no set of a summary has.
//!
//! # Guarantee
//! Post-processing of released values: nothing here reads a row of the database.

use std::collections::{BTreeSet, VecDeque};

use super::cells::{CELLS_MAX, TargetShares};
use crate::mechanism::{KeyTree, NoisyPair};
use crate::policy::{SummaryKey, combinations};

/// The most combinations of values of all such pairs together.
const ALL_CELLS_MAX: usize = 1 << 20;

/// The ways along measured pairs: a tree of them for all keys that they join.
struct MeasuredPaths {
    /// The next key on the way to the root of its tree.
    up: Vec<Option<usize>>,
    depth: Vec<usize>,
    /// Whether there is another way to the next key, or nothing is known of the two together.
    is_unsure: Vec<bool>,
}

/// The pairs of keys that no set of the summary has, and of which the measured pairs say what rows
/// are to have: those that one path joins, or none. Where measured pairs close a circle, a tree
/// would leave one of them out, and contradict it. `known` has the pairs whose counts are used,
/// `sizes` the number of values of each key. The smallest pairs come first, as many as have no more
/// than 2^20 combinations together.
pub fn other_pairs(
    subsets: &BTreeSet<Vec<SummaryKey>>,
    known: &[&Vec<SummaryKey>],
    sizes: &[usize],
) -> Vec<Vec<SummaryKey>> {
    let pairs = subsets.iter().filter_map(|set| two(set));
    let known: Vec<[usize; 2]> = known.iter().filter_map(|set| two(set)).collect();
    let paths = MeasuredPaths::of(&pairs.collect::<Vec<_>>(), &known, sizes.len());
    let keys: Vec<SummaryKey> = SummaryKey::all(sizes.len()).collect();
    let others = combinations(&keys, 2, usize::MAX).unwrap_or_default();
    let with_cells = |pair: Vec<SummaryKey>| {
        let [first, second] = two(&pair)?;
        let cells = sizes[first].checked_mul(sizes[second])?;
        // The sums along a path are by the smaller key, and by each of those between them.
        let smaller = sizes[first].min(sizes[second]);
        let is_small = |key: &usize| sizes[*key].saturating_mul(smaller) <= CELLS_MAX;
        let way = paths.between(first, second)?;
        let is_wanted = !subsets.contains(&pair) && cells <= CELLS_MAX && way.iter().all(is_small);
        is_wanted.then_some((cells, pair))
    };
    let mut others: Vec<(usize, Vec<SummaryKey>)> =
        others.into_iter().filter_map(with_cells).collect();
    others.sort();
    let mut all = 0;
    let fits = |(cells, _): &(usize, Vec<SummaryKey>)| {
        all += cells;
        all <= ALL_CELLS_MAX
    };
    let fitting = others.into_iter().take_while(fits);
    fitting.map(|(_, pair)| pair).collect()
}

/// What the measured pairs tell of others: along the strongest of them that close no circle.
///
/// Rows that are drawn key by key depend on each other there too, and by chance too.
pub fn by_tree(
    pairs: &[Vec<SummaryKey>],
    measured: &[TargetShares],
    alone: &[Vec<f64>],
) -> Vec<TargetShares> {
    let mut tree = KeyTree::of(alone);
    let known = measured.iter().filter_map(|target| {
        Some(NoisyPair {
            keys: two(&target.keys)?,
            counts: target.shares.clone(),
            // What noise may have made of it is left out already.
            noise: 0.0,
        })
    });
    tree.add(known.collect());
    let target = |pair: &Vec<SummaryKey>| {
        let keys: Vec<usize> = pair.iter().map(|key| key.0).collect();
        TargetShares {
            keys: pair.clone(),
            shares: tree.counts(&keys),
        }
    };
    pairs.iter().map(target).collect()
}

fn two(keys: &[SummaryKey]) -> Option<[usize; 2]> {
    match keys {
        [first, second] => Some([first.0, second.0]),
        _ => None,
    }
}

impl MeasuredPaths {
    fn of(pairs: &[[usize; 2]], known: &[[usize; 2]], keys: usize) -> Self {
        let mut linked = vec![Vec::new(); keys];
        for [first, second] in pairs {
            linked[*first].push(*second);
            linked[*second].push(*first);
        }
        let mut paths = Self {
            up: vec![None; keys],
            depth: vec![0; keys],
            is_unsure: vec![false; keys],
        };
        let mut is_found = vec![false; keys];
        for root in 0..keys {
            let mut next = VecDeque::from([(root, None)]);
            while let Some((key, from)) = next.pop_front() {
                if is_found[key] {
                    continue;
                }
                is_found[key] = true;
                paths.up[key] = from;
                paths.depth[key] = from.map_or(0, |from: usize| paths.depth[from] + 1);
                next.extend(linked[key].iter().map(|other| (*other, Some(key))));
            }
        }
        for pair in pairs {
            let [first, second] = *pair;
            let is_link = paths.up[first] == Some(second) || paths.up[second] == Some(first);
            if is_link && known.contains(pair) {
                continue;
            }
            // A pair that closes a circle, or a link of which nothing is known.
            let way = paths.links(first, second).unwrap_or_default();
            way.into_iter().for_each(|key| paths.is_unsure[key] = true);
        }
        paths
    }

    /// The keys whose links up are the way from one key to another; `None` if there is no way.
    fn links(&self, first: usize, second: usize) -> Option<Vec<usize>> {
        let (mut one, mut other) = (first, second);
        let mut way = Vec::new();
        while one != other {
            if self.depth[one] < self.depth[other] {
                (one, other) = (other, one);
            }
            way.push(one);
            one = self.up[one]?;
        }
        Some(way)
    }

    /// All keys between two that one path joins, none where no path does; `None` where several do.
    fn between(&self, first: usize, second: usize) -> Option<Vec<usize>> {
        let Some(way) = self.links(first, second) else {
            return Some(Vec::new());
        };
        if way.iter().any(|key| self.is_unsure[*key]) {
            return None;
        }
        let ends = [first, second];
        let up = way.iter().filter_map(|key| self.up[*key]);
        let all = way.iter().copied().chain(up);
        Some(all.filter(|key| !ends.contains(key)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    use super::*;
    use crate::synthetic::{KeyModel, Marginal, NoisyMarginals, NoisyQuantity, Quantity, draw};

    fn others(measured: &[[usize; 2]], sizes: &[usize]) -> Vec<[usize; 2]> {
        let subsets = measured.iter().map(|pair| pair.map(SummaryKey).to_vec());
        let subsets: BTreeSet<Vec<SummaryKey>> = subsets.collect();
        let is_known = |pair: &&Vec<SummaryKey>| {
            pair.iter().map(|key| sizes[key.0]).product::<usize>() <= CELLS_MAX
        };
        let known: Vec<&Vec<SummaryKey>> = subsets.iter().filter(is_known).collect();
        let found = other_pairs(&subsets, &known, sizes);
        found.iter().map(|pair| two(pair).unwrap()).collect()
    }

    #[test]
    fn pairs_that_several_paths_join_are_left_out() {
        // A circle of three, a chain on it, and a key by itself.
        let measured = [[0, 1], [0, 2], [1, 2], [2, 3], [3, 4]];
        let found = others(&measured, &[2; 6]);
        assert_eq!(found, [[0, 5], [1, 5], [2, 4], [2, 5], [3, 5], [4, 5]]);
        // A longer circle: no pair in it.
        let found = others(&[[0, 1], [1, 2], [2, 3], [0, 3]], &[2; 4]);
        assert_eq!(found, [[0usize; 2]; 0]);
        // Nothing is known of the first pair: it is too large.
        let found = others(&[[0, 1], [1, 2], [2, 3]], &[2, 200_000, 1, 1]);
        assert_eq!(found, [[1, 3]]);
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
        // The sums along the path would be large.
        assert_eq!(others(&[[0, 1], [1, 2]], &[500, 520, 500]), [[0, 2]]);
        assert_eq!(
            others(&[[0, 1], [1, 2]], &[500, 530, 500]),
            [[0usize; 2]; 0]
        );
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
