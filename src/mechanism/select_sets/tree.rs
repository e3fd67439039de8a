//! What noisy counts of single keys, and of pairs of them, say of any set of keys.
//!
//! The pairs that depend most on each other link the keys, as far as they close no circle. A key
//! depends on the others through its links alone; keys that no link leads to are independent.
//!
//! # Guarantee
//! Post-processing: all of this is a function of noisy counts.
//!
//! # Reference
//! Chow, Liu 1968 (doi 10.1109/TIT.1968.1054142) for the tree; Pearl 1988, chapter 4, for the sums
//! along its links.

use crate::mechanism::{conditional, products, project, shares};

/// How often the shares of a pair are fitted to those of its keys.
pub(super) const PASSES: usize = 8;

/// The noisy counts of two keys.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisyPair {
    pub keys: [usize; 2],
    /// The second key varies fastest.
    pub counts: Vec<f64>,
    /// The expected noise of all counts together.
    pub noise: f64,
}

/// Keys, and how they depend on each other.
#[derive(Debug, Clone)]
pub struct KeyTree {
    /// The share of each value among those of its key.
    shares: Vec<Vec<f64>>,
    /// The sum of all counts.
    whole: f64,
    /// Each pair that was measured, with its shares, and how far they are from independent ones.
    pairs: Vec<([usize; 2], Vec<f64>, f64)>,
    /// For each key, those that it is linked with.
    links: Vec<Vec<TreeLink>>,
}

/// The way from one key to another.
#[derive(Debug, Clone)]
struct TreeLink {
    to: usize,
    /// For each value of the first key, the share of each value of the other.
    given: Vec<Vec<f64>>,
}

/// What a part of the tree says of the wanted keys in it.
struct Beyond {
    /// The wanted keys, with that of the part's own end first if it is one.
    keys: Vec<usize>,
    is_end_wanted: bool,
    /// For each value of the end, the share of each combination of the other wanted keys.
    cells: Vec<Vec<f64>>,
}

impl KeyTree {
    /// Independent keys with these noisy counts.
    pub fn of(noisy: &[Vec<f64>]) -> Self {
        let sum = |counts: &Vec<f64>| counts.iter().sum::<f64>().max(0.0);
        let whole = noisy.iter().map(sum).sum::<f64>() / noisy.len().max(1) as f64;
        let nearest = |counts: &Vec<f64>| shares(&project(counts, whole));
        Self {
            whole,
            shares: noisy.iter().map(nearest).collect(),
            pairs: Vec::new(),
            links: vec![Vec::new(); noisy.len()],
        }
    }

    /// Takes notice of pairs. The counts of each are between what was measured and what independent
    /// keys would have: the more noise there is next to their distance, the nearer to the latter.
    pub fn add(&mut self, pairs: Vec<NoisyPair>) {
        for NoisyPair {
            keys: [first, second],
            counts,
            noise,
        } in pairs
        {
            let independent = products(&self.shares[first], &self.shares[second]);
            // Counts below 0 take from the others: as zeros they would leave noise above 0 alone.
            let mut measured = shares(&project(&counts, self.whole));
            // Before the distance is taken, or the noise of the single keys would be part of it.
            fit(&mut measured, &self.shares[first], &self.shares[second]);
            let both = measured.iter().zip(&independent);
            let apart: f64 = both.map(|(own, share)| (own - share).abs()).sum();
            let distance = apart * self.whole;
            // Noise and dependence add up in squares.
            let kept = match distance > noise {
                true => 1.0 - (noise / distance).powi(2),
                false => 0.0,
            };
            let both = measured.iter().zip(&independent);
            let mut mixed: Vec<f64> = both
                .map(|(own, share)| kept * own + (1.0 - kept) * share)
                .collect();
            // Values that no measured count above 0 has.
            fit(&mut mixed, &self.shares[first], &self.shares[second]);
            self.pairs
                .push(([first, second], mixed, kept.sqrt() * distance));
        }
        self.link();
    }

    /// Links the keys anew: by the strongest pair first, as far as its keys are in separate trees.
    fn link(&mut self) {
        self.pairs.sort_by(|a, b| b.2.total_cmp(&a.2));
        let mut tree: Vec<usize> = (0..self.shares.len()).collect();
        let mut links = vec![Vec::new(); self.shares.len()];
        for ([first, second], both, strength) in &self.pairs {
            let (from, into) = (tree[*first], tree[*second]);
            if from == into || *strength <= 0.0 {
                continue;
            }
            tree.iter_mut()
                .for_each(|own| *own = if *own == from { into } else { *own });
            let [rows, columns] = [first, second].map(|key| &self.shares[*key]);
            let of_row = |row: usize| conditional(both[row * columns.len()..].iter(), columns);
            let of_column =
                |column: usize| conditional(both[column..].iter().step_by(columns.len()), rows);
            links[*first].push(TreeLink {
                to: *second,
                given: (0..rows.len()).map(of_row).collect(),
            });
            links[*second].push(TreeLink {
                to: *first,
                given: (0..columns.len()).map(of_column).collect(),
            });
        }
        self.links = links;
    }

    /// The counts of a set of keys, none of them twice; the last key varies fastest.
    pub fn counts(&self, keys: &[usize]) -> Vec<f64> {
        let mut order: Vec<usize> = Vec::new();
        let mut cells = vec![self.whole];
        // From the key of most values on, so that what is added up on the way is small.
        let size = |key: &usize| self.shares[*key].len();
        while let Some(root) = keys
            .iter()
            .filter(|key| !order.contains(key))
            .copied()
            .max_by_key(size)
        {
            let Some(part) = self.beyond((root, None), keys) else {
                break;
            };
            cells = products(&cells, &part.mix(&self.shares[root]));
            order.extend(part.keys);
        }
        self.in_order(&cells, &order, keys)
    }

    /// What the tree says of the wanted keys on this side of a link, from its end `key` on.
    fn beyond(&self, (key, from): (usize, Option<usize>), wanted: &[usize]) -> Option<Beyond> {
        let others = self.links[key].iter().filter(|link| Some(link.to) != from);
        let part = |link: &'_ TreeLink| {
            let beyond = self.beyond((link.to, Some(key)), wanted)?;
            let own = link.given.iter().map(|given| beyond.mix(given));
            Some((own.collect::<Vec<_>>(), beyond.keys))
        };
        let parts: Vec<(Vec<Vec<f64>>, Vec<usize>)> = others.filter_map(part).collect();
        let is_end_wanted = wanted.contains(&key);
        if parts.is_empty() && !is_end_wanted {
            return None;
        }
        let mut keys: Vec<usize> = is_end_wanted.then_some(key).into_iter().collect();
        let mut cells = vec![vec![1.0]; self.shares[key].len()];
        for (own, more) in parts {
            for (cells, own) in cells.iter_mut().zip(own) {
                *cells = products(cells, &own);
            }
            keys.extend(more);
        }
        Some(Beyond {
            keys,
            is_end_wanted,
            cells,
        })
    }

    /// Cells of keys in one order, in another.
    fn in_order(&self, cells: &[f64], order: &[usize], wanted: &[usize]) -> Vec<f64> {
        let size = |key: &usize| self.shares[*key].len();
        let step = |key: &usize| {
            let after = order.iter().skip_while(|other| *other != key).skip(1);
            after.map(size).product::<usize>()
        };
        let mut places = vec![0];
        for key in wanted {
            let (size, step) = (size(key), step(key));
            let longer = places.iter();
            let longer = longer.flat_map(|place| (0..size).map(move |value| place + value * step));
            places = longer.collect();
        }
        places.into_iter().map(|place| cells[place]).collect()
    }
}

impl Beyond {
    /// The share of each combination of the wanted keys, given those of the end's values.
    fn mix(&self, of_end: &[f64]) -> Vec<f64> {
        let each = of_end.iter().zip(&self.cells);
        let weighted = each.map(|(share, cells)| cells.iter().map(move |cell| share * cell));
        if self.is_end_wanted {
            return weighted.flatten().collect();
        }
        let mut sums = vec![0.0; self.cells.first().map_or(0, Vec::len)];
        for own in weighted {
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        sums
    }
}

/// Fits the shares of a pair to those of each of its keys.
fn fit(both: &mut [f64], rows: &[f64], columns: &[f64]) {
    let by = |wanted: f64, sum: f64| if sum > 0.0 { wanted / sum } else { 1.0 };
    for _ in 0..PASSES {
        for (own, wanted) in both.chunks_mut(columns.len()).zip(rows) {
            let factor = by(*wanted, own.iter().sum());
            own.iter_mut().for_each(|cell| *cell *= factor);
        }
        for (column, wanted) in columns.iter().enumerate() {
            let of_column = || (column..).step_by(columns.len()).take(rows.len());
            let factor = by(*wanted, of_column().map(|at| both[at]).sum());
            of_column().for_each(|at| both[at] *= factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::testing::Seeded;
    use crate::mechanism::{Noise, Sampler};

    fn pair(keys: [usize; 2], counts: &[f64], noise: f64) -> NoisyPair {
        NoisyPair {
            keys,
            counts: counts.to_vec(),
            noise,
        }
    }

    fn near(found: &[f64], wanted: &[f64]) {
        assert_eq!(found.len(), wanted.len());
        let mut both = found.iter().zip(wanted);
        let is_near = both.all(|(found, wanted)| (found - wanted).abs() < 1e-6);
        assert!(is_near, "{found:?} is not {wanted:?}");
    }

    /// A chain 2 - 0 - 1 - 3 of keys of two and three values, and a key by itself.
    fn chain() -> (KeyTree, Vec<f64>) {
        let sizes = [2, 3, 2, 2, 2];
        let first = [0.25, 0.75];
        let second = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]];
        let third = [[0.9, 0.1], [0.4, 0.6]];
        let fourth = [[0.7, 0.3], [0.5, 0.5], [0.1, 0.9]];
        let alone = [0.35, 0.65];
        let mut all = Vec::new();
        for code in 0..sizes.iter().product::<usize>() {
            let [a, b, c, d, e] = [
                code / 24,
                code / 8 % 3,
                code / 4 % 2,
                code / 2 % 2,
                code % 2,
            ];
            all.push(1000.0 * first[a] * second[a][b] * third[a][c] * fourth[b][d] * alone[e]);
        }
        let of = |keys: &[usize]| of_all(&all, &sizes, keys);
        let singles: Vec<Vec<f64>> = (0..5).map(|key| of(&[key])).collect();
        let mut tree = KeyTree::of(&singles);
        let links = [[0, 1], [0, 2], [1, 3]];
        tree.add(links.map(|keys| pair(keys, &of(&keys), 0.0)).into());
        (tree, all)
    }

    fn of_all(all: &[f64], sizes: &[usize], keys: &[usize]) -> Vec<f64> {
        let mut found = vec![0.0; keys.iter().map(|key| sizes[*key]).product()];
        for (code, count) in all.iter().enumerate() {
            let value = |key: usize| code / sizes[key + 1..].iter().product::<usize>() % sizes[key];
            let place = keys
                .iter()
                .fold(0, |at, key| at * sizes[*key] + value(*key));
            found[place] += count;
        }
        found
    }

    #[test]
    fn a_tree_of_pairs_tells_every_set_of_its_keys() {
        let (tree, all) = chain();
        let sizes = [2, 3, 2, 2, 2];
        for chosen in 1..32usize {
            let keys: Vec<usize> = (0..5).filter(|key| chosen >> key & 1 == 1).collect();
            near(&tree.counts(&keys), &of_all(&all, &sizes, &keys));
        }
        near(&tree.counts(&[3, 0, 2]), &of_all(&all, &sizes, &[3, 0, 2]));
    }

    #[test]
    fn the_weakest_pair_of_a_circle_links_nothing() {
        let (mut tree, all) = chain();
        let sizes = [2, 3, 2, 2, 2];
        // Of the ends of the chain: as the chain tells, with noise that is next to nothing.
        let ends = of_all(&all, &sizes, &[2, 3]);
        tree.add(vec![pair([2, 3], &ends, 1e-9)]);
        assert!(tree.links[2].iter().all(|link| link.to == 0));
        near(&tree.counts(&[2, 3]), &ends);
        // A stronger one takes its place.
        let equal = [300.0, 0.0, 0.0, 700.0];
        let mut other = KeyTree::of(&[vec![300.0, 700.0], vec![300.0, 700.0], vec![300.0, 700.0]]);
        let weak = [180.0, 120.0, 120.0, 580.0];
        other.add(vec![pair([0, 1], &weak, 0.0), pair([1, 2], &weak, 0.0)]);
        other.add(vec![pair([0, 2], &equal, 0.0)]);
        near(&other.counts(&[0, 2]), &equal);
        assert_eq!(other.links.iter().map(Vec::len).sum::<usize>(), 4);
    }

    #[test]
    fn what_noise_may_have_made_of_a_pair_is_left_out() {
        let singles = [vec![500.0, 500.0], vec![500.0, 500.0]];
        let counts = |noise: f64| {
            let mut tree = KeyTree::of(&singles);
            tree.add(vec![pair([0, 1], &[260.0, 240.0, 240.0, 260.0], noise)]);
            tree.counts(&[0, 1])
        };
        near(&counts(40.0), &[250.0; 4]);
        near(&counts(41.0), &[250.0; 4]);
        near(&counts(0.0), &[260.0, 240.0, 240.0, 260.0]);
        // Half the distance is noise: a quarter of its square.
        near(&counts(20.0), &[257.5, 242.5, 242.5, 257.5]);
    }

    fn noisy(counts: &[f64], sigma: u64, random: &mut Seeded) -> Vec<f64> {
        let mut add = |count: &f64| {
            let drawn = random.sample(&Noise::Gaussian { sigma }).unwrap();
            count + drawn as f64
        };
        counts.iter().map(&mut add).collect()
    }

    fn expected(sigma: u64, cells: usize) -> f64 {
        sigma as f64 * cells as f64 * std::f64::consts::FRAC_2_PI.sqrt()
    }

    /// The noise of single keys is in the shares that a pair is compared with, and no dependence.
    #[test]
    fn the_noise_of_single_keys_makes_no_dependence() {
        let mut random = Seeded::new(31);
        let (rows, size) = (48_000.0, 8usize);
        let noise = expected(40, size * size);
        let mut strength = 0.0;
        for _ in 0..40 {
            let mut alone = || noisy(&vec![rows / size as f64; size], 160, &mut random);
            let mut tree = KeyTree::of(&[alone(), alone()]);
            let cells = vec![rows / (size * size) as f64; size * size];
            tree.add(vec![pair([0, 1], &noisy(&cells, 40, &mut random), noise)]);
            strength += tree.pairs[0].2 / noise / 40.0;
        }
        assert!(strength < 0.15, "{strength}");
    }

    /// Two keys that are always equal: where no row is, noise leaves little.
    #[test]
    fn noise_above_zero_is_not_left_alone() {
        let mut random = Seeded::new(32);
        let (rows, size) = (48_842.0, 20usize);
        let mut cells = vec![0.0; size * size];
        (0..size).for_each(|value| cells[value * (size + 1)] = rows / size as f64);
        let counts = noisy(&cells, 53, &mut random);
        let single = vec![rows / size as f64; size];
        let mut tree = KeyTree::of(&[single.clone(), single]);
        tree.add(vec![pair([0, 1], &counts, expected(53, size * size))]);
        let found = tree.counts(&[0, 1]);
        let equal: f64 = (0..size).map(|value| found[value * (size + 1)]).sum();
        // The positive half of the noise alone is 8,000 rows.
        assert!(rows - equal < 0.08 * rows, "{}", rows - equal);
    }

    #[test]
    fn counts_below_zero_are_none() {
        let mut tree = KeyTree::of(&[vec![-5.0, -1.0], vec![3.0, 0.0]]);
        near(&tree.counts(&[0, 1]), &[0.0, 0.0, 1.5, 0.0]);
        tree.add(vec![pair([0, 1], &[-1.0, -1.0, -2.0, -9.0], 0.5)]);
        assert!(
            tree.counts(&[0, 1])
                .iter()
                .all(|count| count.is_finite() && *count >= 0.0)
        );
    }
}
