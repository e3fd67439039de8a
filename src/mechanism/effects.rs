//! Grouping sets measured by effects: integers from which the groups of every set are computed, so
//! that the sets agree with each other and share the noise better than if each had its own.
//!
//! Each row is in one *cell*: a combination of one value of each key. Key i has n_i values, and x
//! holds a sum for each cell. For a set A of keys the *effect* of A is y_A = B_A x, where B_A is
//! the Kronecker product of n_i I - J for each key in A (J is all ones) and of a row of ones for
//! each other key. The effect of no key is the total; that of one key says how far n_i times the
//! sum of each value is from the total; that of two keys is their interaction.
//!
//! As (n I - J) 1 = 0, different effects are orthogonal: B_A B_C' = 0. As (n I - J)^2 / n^2 + J / n
//! = I, together they are all there is: the sum over A of B_A' B_A / k_A is I, for k_A = the
//! product of n_i^2 over keys in A and of n_i over the others. Each column of B_A has the squared
//! length c_A = the product of n_i (n_i - 1) over keys in A.
//!
//! That treats the values of a key as categories: a sum over m of them has the more noise the
//! larger m is. Where ranges of a key's values are asked for, the effects of the key are those of
//! its *levels* instead ([`axis`]), whose matrices B_l have the same properties: they are
//! orthogonal to each other and to the row of ones, together they are all there is, and the rows
//! that a range needs are few. A then has a level for each of its keys. In what follows k_A is a
//! number for each row.
//!
//! Let w pick the cells of a group of the set W. Then w' B_A' = 0 unless A is within W, so the
//! group's sum is that of w' B_A' y_A / k_A over the effects within W. It is a linear function of
//! the effects, and so are the sums of groups: a group of (a) is the sum of those of (a, b) over b,
//! also of noisy effects, exactly.
//!
//! # Reference
//!
//! Xiao, He, Zhang, Kifer 2023 (arXiv 2305.08175), with integers in place of their orthonormal
//! rows. The reference values of the tests were computed by an independent program.

mod axis;
mod variances;

use std::collections::BTreeSet;

use num_bigint::{BigInt, BigUint};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use axis::KeyAxis;
pub use variances::SummedValues;

/// The most effects of one release.
pub const EFFECTS_MAX: usize = 1024;
/// Bits of the largest weight.
const WEIGHT_BITS: i32 = 32;
/// The most products of which the longest column of all effects is found.
const PRODUCTS_MAX: usize = 200_000;
/// The level of a key without ranges, and the lowest of one with ranges.
const LOWEST: u32 = 1;

/// The effect of some keys, and its share of the privacy: its noise is that of the whole vector
/// divided by `weight`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Ascending.
    keys: Vec<usize>,
    /// The level of each of its keys. Empty where all are the lowest, as without ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    levels: Vec<u32>,
    weight: u64,
}

/// The effects that grouping sets are computed from.
///
/// Sets, effects and sizes name a key by one number alone, its place in `sizes`; cells are numbered
/// within one function. So the numbers are bare, as stored answers keep them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// The number of values of each key; at least one.
    sizes: Vec<usize>,
    /// The keys of which ranges are asked for, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ranges: Vec<usize>,
    measured: Vec<Effect>,
}

/// The keys of an effect, each with its level.
type KeyLevels = Vec<(usize, u32)>;

impl Effect {
    fn new(keys: &KeyLevels) -> Self {
        let levels = keys.iter().map(|(_, level)| *level);
        let is_lowest = keys.iter().all(|(_, level)| *level == LOWEST);
        Self {
            keys: keys.iter().map(|(key, _)| *key).collect(),
            levels: if is_lowest {
                Vec::new()
            } else {
                levels.collect()
            },
            weight: 1,
        }
    }

    /// How many times its integers count in the vector that noise hides.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Its keys, each with its level.
    fn levels(&self) -> impl DoubleEndedIterator<Item = (usize, u32)> + '_ {
        let level = |at| self.levels.get(at).copied().unwrap_or(LOWEST);
        let keys = self.keys.iter().enumerate();
        keys.map(move |(at, key)| (*key, level(at)))
    }

    /// The level of a key; 0 where the effect lacks it.
    fn level(&self, key: usize) -> u32 {
        let found = self.levels().find(|(own, _)| *own == key);
        found.map_or(0, |(_, level)| level)
    }

    fn is_within(&self, set: &[usize]) -> bool {
        self.keys.iter().all(|at| set.contains(at))
    }
}

impl Effects {
    /// The effects of these sets of keys, with the weights by which the sum of the variances of one
    /// group of each set is least. `None` where a key has no value, or where there are too many.
    /// For keys with ranges, `ranges`, it is the mean variance of all ranges.
    ///
    /// With v_A the sum over the sets W around A of |B_A w|^2 / k_A^2, noise of variance t_A^2
    /// costs the sum of c_A / t_A^2 and gives the sets the sum of v_A t_A^2. For a given cost that
    /// is least where t_A^2 is proportional to the root of c_A / v_A (Lagrange). Where columns of
    /// one effect are not equally long, [`KeyAxis::costs`] takes the place of c_A, key by key.
    ///
    /// # Guarantee
    /// None: any positive weights are as private, since [`Self::clip`] is computed from them.
    ///
    /// # Requires
    /// The keys of `ranges` ascend.
    pub fn new(sizes: Vec<usize>, ranges: Vec<usize>, sets: &[Vec<usize>]) -> Option<Self> {
        let mut cells = 1usize;
        for size in &sizes {
            cells = cells.checked_mul(*size)?;
        }
        if cells == 0 {
            return None;
        }
        let mut effects = Self {
            sizes,
            ranges,
            measured: Vec::new(),
        };
        let mut all = BTreeSet::new();
        for set in sets {
            all.extend(effects.within(set)?);
            if all.len() > EFFECTS_MAX {
                return None;
            }
        }
        effects.measured = all.iter().map(Effect::new).collect();
        let shares = effects.shares(sets);
        let largest = shares.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (effect, share) in effects.measured.iter_mut().zip(shares) {
            effect.weight = ((share / largest) * 2f64.powi(WEIGHT_BITS)).max(1.0) as u64;
        }
        Some(effects)
    }

    /// The effects within a set; `None` where there are too many. A key with one value has none.
    fn within(&self, set: &[usize]) -> Option<Vec<KeyLevels>> {
        let mut all: Vec<KeyLevels> = vec![Vec::new()];
        for key in set {
            let levels = LOWEST..=self.axis(*key).levels();
            for at in 0..all.len() {
                for level in levels.clone() {
                    let mut longer = all[at].clone();
                    longer.push((*key, level));
                    all.push(longer);
                }
                if all.len() > EFFECTS_MAX {
                    return None;
                }
            }
        }
        Some(all)
    }

    /// The best weight of each effect, up to a factor that all have in common.
    fn shares(&self, sets: &[Vec<usize>]) -> Vec<f64> {
        let axes = || (0..self.sizes.len()).map(|at| self.axis(at));
        let parts: Vec<Vec<f64>> = axes()
            .map(|axis| axis.parts(&SummedValues::Ranges))
            .collect();
        let costs: Vec<Vec<f64>> = axes().map(|axis| axis.costs()).collect();
        let share = |effect: &Effect| {
            let around = sets.iter().filter(|set| effect.is_within(set));
            let variance: f64 = around
                .map(|set| effect.part(set, |key, level| parts[key][level]))
                .sum();
            let levels = effect.levels();
            let cost: f64 = levels
                .map(|(key, level)| costs[key][level as usize])
                .product();
            (variance / cost).sqrt().sqrt()
        };
        self.measured.iter().map(share).collect()
    }

    fn axis(&self, key: usize) -> KeyAxis {
        KeyAxis {
            size: self.sizes[key],
            has_ranges: self.ranges.contains(&key),
        }
    }

    pub fn measured_effects(&self) -> &[Effect] {
        &self.measured
    }

    /// The number of values of each key.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The keys of which ranges are asked for.
    pub fn ranges(&self) -> &[usize] {
        &self.ranges
    }

    pub fn cells(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The number of groups of a set.
    pub fn groups_in(&self, set: &[usize]) -> usize {
        set.iter().map(|at| self.sizes[*at]).product()
    }

    /// The number of integers of an effect.
    pub fn integers_in(&self, effect: &Effect) -> usize {
        let rows = |(key, level)| self.axis(key).rows(level);
        effect.levels().map(rows).product()
    }

    /// c_A: the squared length of what one row adds to the effect, or of the most that any adds.
    fn squared_length(&self, effect: &Effect) -> BigUint {
        let of_key = |(key, level)| self.axis(key).squared_length(level);
        effect.levels().map(of_key).product()
    }

    /// The bound of all effects together, each times its weight, if what one unit adds to the cells
    /// is within `clip`.
    ///
    /// # Guarantee
    /// Let g_A be the weights. If the cells that one unit adds have the L1 norm `clip`, or the L2
    /// norm `clip` and all are zero but one for each coordinate, the L2 norm of all g_A B_A x
    /// together is at most the result. Both as integers, and with each coordinate weighed alike in
    /// both norms.
    ///
    /// Proof. The columns of one cell in all B_A, weighed and joined, have a length; let r be the
    /// largest of any cell, or more. The vector of a coordinate with cells x is a sum of x_i times
    /// such columns, no longer than r |x|_1 (triangle inequality). Of several coordinates, which
    /// lie in orthogonal places, the L2 norm is at most r times the root of the sum of |x_j|_1^2:
    /// that is at most the sum of |x_j|_1, the L1 norm of all, and where each |x_j|_1 is the one
    /// cell, it is the L2 norm of all.
    pub fn clip(&self, clip: &BigUint) -> BigUint {
        let whole = self.longest_column() * clip * clip;
        let root = whole.sqrt();
        if &root * &root == whole {
            root
        } else {
            root + 1u8
        }
    }

    /// The largest sum of g_A^2 times the squared entries in the column of one cell. The square of
    /// an entry is the product of those of the keys, each of which has few columns that differ.
    /// Where these have many combinations, it is the sum of g_A^2 c_A, no less.
    fn longest_column(&self) -> BigUint {
        let squared = |weight: u64| BigUint::from(weight) * weight;
        let columns: Vec<Vec<Vec<u128>>> = (0..self.sizes.len())
            .map(|key| self.axis(key).columns().into_iter().collect())
            .collect();
        let all = columns.iter().map(Vec::len);
        let all = all.fold(1, usize::saturating_mul);
        if all.saturating_mul(self.measured.len()) > PRODUCTS_MAX {
            let of_effect = |effect: &Effect| squared(effect.weight) * self.squared_length(effect);
            return self.measured.iter().map(of_effect).sum();
        }
        let length = |combination: usize| -> BigUint {
            let mut rest = combination;
            let own = columns.iter().map(|of_key| {
                let column = &of_key[rest % of_key.len()];
                rest /= of_key.len();
                column
            });
            let own: Vec<&Vec<u128>> = own.collect();
            let of_effect = |effect: &Effect| -> BigUint {
                let levels = effect.levels();
                let entries = levels.map(|(key, level)| BigUint::from(own[key][level as usize]));
                squared(effect.weight) * entries.product::<BigUint>()
            };
            self.measured.iter().map(of_effect).sum()
        };
        (0..all).map(length).max().unwrap_or_default()
    }

    /// An integer of an effect within a set, computed from the groups of the set, is below that of
    /// any group, times two to this; so is what is added up on the way.
    ///
    /// Proof. [`Self::effect`] goes over the keys of the set, and over no others. At each key every
    /// new integer is a sum of integers of before times entries of one row: of ones, if the effect
    /// lacks the key, else of a level. The entries of a row add up, without signs, to no more than
    /// the key's absolute length, which is below two to its bits. So does each partial sum: it has
    /// some of the products. A key with one value has one row, of a single one.
    pub fn growth(&self, set: &[usize]) -> u32 {
        let bits = |at: &usize| u128::BITS - self.axis(*at).absolute_length().leading_zeros();
        let several = set.iter().filter(|at| self.sizes[**at] > 1);
        several.map(bits).sum()
    }

    /// The integers of an effect, from the groups of a set around it: from all cells, if that is
    /// the set of all keys. The last key varies fastest, in both.
    ///
    /// The keys that the effect lacks are summed over first, which leaves few integers for the
    /// others.
    ///
    /// # Guarantee
    /// It is exactly B_A x, for groups that add up the cells x over the keys that the set lacks: as
    /// the effect lacks these keys too, its row of ones sums over them in any case.
    ///
    /// # Requires
    /// The keys of the set ascend, and have those of the effect among them. The groups are so small
    /// that times two to the set's [`Self::growth`] they fit: then nothing overflows within.
    pub fn effect(&self, effect: &Effect, set: &[usize], groups: &[i128]) -> Zeroizing<Vec<i128>> {
        let mut values = Zeroizing::new(groups.to_vec());
        let mut inner = 1;
        for at in set.iter().rev() {
            if effect.keys.contains(at) {
                inner *= self.sizes[*at];
            } else {
                values = Zeroizing::new(self.axis(*at).add_up(&values, inner));
            }
        }
        let mut inner = 1;
        for (at, level) in effect.levels().rev() {
            let axis = self.axis(at);
            values = Zeroizing::new(axis.measure(level, &values, inner));
            inner *= axis.rows(level);
        }
        values
    }

    /// For each effect the place of the smallest of `sets` around it; `None` where an effect is in
    /// no set.
    pub fn sources(&self, sets: &[Vec<usize>]) -> Option<Vec<usize>> {
        let smallest = |effect: &Effect| {
            let around = sets.iter().enumerate();
            let around = around.filter(|(_, set)| effect.is_within(set));
            around.min_by_key(|(_, set)| self.groups_in(set))
        };
        let of_effects = self.measured.iter().map(smallest);
        of_effects.map(|found| found.map(|(at, _)| at)).collect()
    }

    /// How many integers are read where each effect is computed from its source.
    pub fn work(&self, sets: &[Vec<usize>], sources: &[usize]) -> u64 {
        let of_source = |at: &usize| self.groups_in(&sets[*at]) as u64;
        sources.iter().map(of_source).fold(0, u64::saturating_add)
    }

    /// What the groups' integers are divided by.
    pub fn divisor(&self) -> BigInt {
        let all: BigUint = (0..self.sizes.len())
            .map(|at| self.axis(at).divisor())
            .product();
        all.into()
    }

    /// The groups of each set from noisy effects, times [`Self::divisor`]: sums of w' B_A' y_A /
    /// k_A. The last key of a set varies fastest.
    ///
    /// # Requires
    /// Each effect as [`Self::effect`] orders it, and the keys of each set ascending.
    pub fn groups(&self, sets: &[Vec<usize>], noisy: &[Vec<BigInt>]) -> Vec<Vec<BigInt>> {
        sets.iter().map(|set| self.groups_of(set, noisy)).collect()
    }

    fn groups_of(&self, set: &[usize], noisy: &[Vec<BigInt>]) -> Vec<BigInt> {
        // A key with one value has no effect, and makes no groups. There may be many such keys.
        let several = set.iter().copied().filter(|at| self.sizes[*at] > 1);
        let set: &[usize] = &several.collect::<Vec<_>>();
        let places = set.iter().map(|at| self.rows_of(*at)).product();
        let mut values = vec![BigInt::ZERO; places];
        let within = self.measured.iter().zip(noisy);
        for (effect, integers) in within.filter(|(effect, _)| effect.is_within(set)) {
            let steps = self.steps(effect, set);
            for (at, integer) in integers.iter().enumerate() {
                let (_, place) = steps.iter().fold((at, 0), |(rest, place), step| {
                    let (rows, first, inner) = step;
                    (rest / rows, place + (first + rest % rows) * inner)
                });
                values[place].clone_from(integer);
            }
        }
        let mut inner = 1;
        for at in set.iter().rev() {
            values = self.axis(*at).undo(&values, inner);
            inner *= self.sizes[*at];
        }
        let others = (0..self.sizes.len()).filter(|at| !set.contains(at));
        let factor: BigUint = others.map(|at| self.axis(at).divisor()).product();
        let factor = BigInt::from(factor);
        values.iter_mut().for_each(|value| *value *= &factor);
        values
    }

    /// The number of integers of all levels of a key, and of what lacks it.
    fn rows_of(&self, key: usize) -> usize {
        let axis = self.axis(key);
        (0..=axis.levels()).map(|level| axis.rows(level)).sum()
    }

    /// Where an effect's integers are in an array over the keys of a set. Along each key's axis the
    /// entry without the key comes first, then those of each level. For each key from the last one:
    /// how many integers the effect has of it, the first one's entry, and the step from one entry
    /// to the next.
    fn steps(&self, effect: &Effect, set: &[usize]) -> Vec<(usize, usize, usize)> {
        let mut inner = 1;
        let step = |at: &usize| {
            let (axis, level) = (self.axis(*at), effect.level(*at));
            let first = (0..level).map(|below| axis.rows(below)).sum();
            let own = (axis.rows(level), first, inner);
            inner *= self.rows_of(*at);
            own
        };
        set.iter().rev().map(step).collect()
    }
}

#[cfg(test)]
mod tests;
