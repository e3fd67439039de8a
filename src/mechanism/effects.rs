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
//! Let w pick the cells of a group of the set W. Then w' B_A' = 0 unless A is within W, so the
//! group's sum is that of w' B_A' y_A / k_A over the effects within W. It is a linear function of
//! the effects, and so are the sums of groups: a group of (a) is the sum of those of (a, b) over b,
//! also of noisy effects, exactly.
//!
//! # Reference
//!
//! Xiao, He, Zhang, Kifer 2023 (arXiv 2305.08175), with integers in place of their orthonormal
//! rows. The reference values of the tests were computed by an independent program.

use std::collections::BTreeSet;

use num_bigint::{BigInt, BigUint};
use num_traits::ToPrimitive;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// The most effects of one release.
pub const EFFECTS_MAX: usize = 1024;
/// Bits of the largest weight.
const WEIGHT_BITS: i32 = 32;

/// The effect of some keys, and its share of the privacy: its noise is that of the whole vector
/// divided by `weight`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Ascending.
    keys: Vec<usize>,
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
    measured: Vec<Effect>,
}

impl Effect {
    /// How many times its integers count in the vector that noise hides.
    pub fn weight(&self) -> u64 {
        self.weight
    }
}

impl Effects {
    /// The effects of these sets of keys, with the weights by which the sum of the variances of one
    /// group of each set is least. `None` where a key has no value, or where there are too many.
    ///
    /// With v_A the sum over the sets W around A of |B_A w|^2 / k_A^2, noise of variance t_A^2
    /// costs the sum of c_A / t_A^2 and gives the sets the sum of v_A t_A^2. For a given cost that
    /// is least where t_A^2 is proportional to the root of c_A / v_A (Lagrange).
    ///
    /// # Guarantee
    /// None: any positive weights are as private, since [`Self::clip`] is computed from them.
    pub fn new(sizes: Vec<usize>, sets: &[Vec<usize>]) -> Option<Self> {
        let mut cells = 1usize;
        for size in &sizes {
            cells = cells.checked_mul(*size)?;
        }
        // The effect of a key with one value is zero.
        let mut all = BTreeSet::new();
        for set in sets {
            let keys: Vec<usize> = set.iter().copied().filter(|at| sizes[*at] > 1).collect();
            if 1usize.checked_shl(keys.len().try_into().ok()?)? > EFFECTS_MAX {
                return None;
            }
            for chosen in 0..1usize << keys.len() {
                let is_in = |at: &usize| chosen >> at & 1 == 1;
                all.insert((0..keys.len()).filter(is_in).map(|at| keys[at]).collect());
            }
            if all.len() > EFFECTS_MAX {
                return None;
            }
        }
        if cells == 0 {
            return None;
        }
        let weighed = |keys: Vec<usize>| Effect { keys, weight: 1 };
        let mut effects = Self {
            sizes,
            measured: all.into_iter().map(weighed).collect(),
        };
        let shares: Vec<f64> = effects
            .measured
            .iter()
            .map(|e| effects.share(e, sets))
            .collect();
        let largest = shares.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (effect, share) in effects.measured.iter_mut().zip(shares) {
            effect.weight = ((share / largest) * 2f64.powi(WEIGHT_BITS)).max(1.0) as u64;
        }
        Some(effects)
    }

    /// The best weight of an effect, up to a factor that all have in common.
    fn share(&self, effect: &Effect, sets: &[Vec<usize>]) -> f64 {
        let around = sets.iter().filter(|set| effect.is_within(set));
        let variance: f64 = around.map(|set| self.part(effect, set, |_| 1)).sum();
        let cost = self.squared_length(effect).to_f64().unwrap_or(f64::MAX);
        (variance / cost).sqrt().sqrt()
    }

    pub fn measured_effects(&self) -> &[Effect] {
        &self.measured
    }

    /// The number of values of each key.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    pub fn cells(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The number of groups of a set.
    pub fn groups_in(&self, set: &[usize]) -> usize {
        set.iter().map(|at| self.sizes[*at]).product()
    }

    /// c_A: the squared length of what one row adds to the effect.
    fn squared_length(&self, effect: &Effect) -> BigUint {
        let of_key = |at: &usize| BigUint::from(self.sizes[*at]) * (self.sizes[*at] - 1);
        effect.keys.iter().map(of_key).product()
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
    /// Proof. Each column of B_A has the length sqrt(c_A), so all columns of one cell, weighed and
    /// joined, have the length r = sqrt(sum of g_A^2 c_A). The vector of a coordinate with cells x
    /// is a sum of x_i times such columns, no longer than r |x|_1 (triangle inequality). Of several
    /// coordinates, which lie in orthogonal places, the L2 norm is at most r times the root of the
    /// sum of |x_j|_1^2: that is at most the sum of |x_j|_1, the L1 norm of all, and where each
    /// |x_j|_1 is the one cell, it is the L2 norm of all.
    pub fn clip(&self, clip: &BigUint) -> BigUint {
        let squared = |effect: &Effect| {
            self.squared_length(effect) * BigUint::from(effect.weight) * effect.weight
        };
        let lengths: BigUint = self.measured.iter().map(squared).sum();
        let whole = lengths * clip * clip;
        let root = whole.sqrt();
        if &root * &root == whole {
            root
        } else {
            root + 1u8
        }
    }

    /// An integer in an effect is below that in any cell, times two to this.
    pub fn growth(&self) -> u32 {
        let bits = |size: &usize| usize::BITS - (2 * size).leading_zeros();
        // Those of a key with one value are neither contrasted nor added up.
        self.sizes.iter().filter(|size| **size > 1).map(bits).sum()
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
    /// that times two to [`Self::growth`] they fit: then nothing saturates within.
    pub fn effect(&self, effect: &Effect, set: &[usize], groups: &[i128]) -> Zeroizing<Vec<i128>> {
        let mut values = Zeroizing::new(groups.to_vec());
        let mut inner = 1;
        for at in set.iter().rev() {
            let size = self.sizes[*at];
            if effect.keys.contains(at) {
                inner *= size;
            } else {
                values = Zeroizing::new(added_up(&values, size, inner));
            }
        }
        let mut inner = 1;
        for at in effect.keys.iter().rev() {
            subtract_axis_sum(&mut values, self.sizes[*at], inner);
            inner *= self.sizes[*at];
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
        self.sizes.iter().map(|size| square(*size)).product()
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
        // For each key of the set first what lacks it, then its values.
        let places = set.iter().map(|at| self.sizes[*at] + 1).product();
        let mut values = vec![BigInt::ZERO; places];
        let within = self.measured.iter().zip(noisy);
        for (effect, integers) in within.filter(|(effect, _)| effect.is_within(set)) {
            for (at, integer) in integers.iter().enumerate() {
                values[self.place(effect, set, at)].clone_from(integer);
            }
        }
        let mut inner = 1;
        for at in set.iter().rev() {
            values = undo_axis(&values, self.sizes[*at], inner);
            inner *= self.sizes[*at];
        }
        let others = (0..self.sizes.len()).filter(|at| !set.contains(at));
        let factor: BigInt = others.map(|at| square(self.sizes[at])).product();
        values.iter_mut().for_each(|value| *value *= &factor);
        values
    }

    /// The place of an effect's integer in an array over the keys of a set. Along each key's axis
    /// the entry without the key comes first, then one for each value.
    fn place(&self, effect: &Effect, set: &[usize], mut integer: usize) -> usize {
        let (mut place, mut inner) = (0, 1);
        for at in set.iter().rev() {
            let size = self.sizes[*at];
            if effect.keys.contains(at) {
                place += (integer % size + 1) * inner;
                integer /= size;
            }
            inner *= size + 1;
        }
        place
    }

    /// The variance of a sum of groups of a set, if each effect has noise of deviation 1 / weight:
    /// of the groups that have one of `summed` values of each key of the set.
    pub fn variance(&self, set: &[usize], summed: impl Fn(usize) -> usize) -> f64 {
        let within = self.measured.iter().filter(|effect| effect.is_within(set));
        within
            .map(|effect| self.part(effect, set, &summed) / (effect.weight as f64).powi(2))
            .sum()
    }

    /// The variance of any weighted sum of groups of a set: `w` has the weight of each group. The
    /// last key of the set varies fastest.
    ///
    /// # Requires
    /// The keys of the set ascend, and the weights are small.
    pub fn variance_of(&self, set: &[usize], w: &[i128]) -> f64 {
        let within = self.measured.iter().filter(|effect| effect.is_within(set));
        let of_effect = |effect: &Effect| {
            let mut values = w.to_vec();
            let (mut inner, mut divisor) = (1, 1.0);
            for at in set.iter().rev() {
                let size = self.sizes[*at];
                if size == 1 && !effect.keys.contains(at) {
                    continue;
                }
                divisor *= (size as f64).powi(2);
                if effect.keys.contains(at) {
                    subtract_axis_sum(&mut values, size, inner);
                    inner *= size;
                    divisor *= (size as f64).powi(2);
                } else {
                    values = added_up(&values, size, inner);
                }
            }
            let squared: f64 = values.iter().map(|value| (*value as f64).powi(2)).sum();
            squared / divisor / (effect.weight as f64).powi(2)
        };
        within.map(of_effect).sum()
    }

    /// What each draw adds to such a sum, if each effect has noise of deviation 1 / weight: the
    /// place of each effect within the set, with one number for each of its integers. Their squares
    /// add up to [`Self::variance_of`], and their products to covariances.
    ///
    /// # Requires
    /// As [`Self::variance_of`].
    pub fn draws_of(&self, set: &[usize], w: &[f64]) -> Vec<(usize, Vec<f64>)> {
        let within = self.measured.iter().enumerate();
        let within = within.filter(|(_, effect)| effect.is_within(set));
        let of_effect = |(place, effect): (usize, &Effect)| {
            let mut values = w.to_vec();
            let (mut inner, mut divisor) = (1, effect.weight as f64);
            for at in set.iter().rev() {
                let size = self.sizes[*at];
                if size == 1 && !effect.keys.contains(at) {
                    continue;
                }
                divisor *= size as f64;
                if effect.keys.contains(at) {
                    contrast(&mut values, size, inner);
                    inner *= size;
                    divisor *= size as f64;
                } else {
                    values = sums(&values, size, inner);
                }
            }
            values.iter_mut().for_each(|value| *value /= divisor);
            (place, values)
        };
        within.map(of_effect).collect()
    }

    /// The steps that [`Self::variance_of`] takes.
    pub fn work_of(&self, set: &[usize]) -> u64 {
        let within = self.measured.iter().filter(|effect| effect.is_within(set));
        let keys = 1 + set.iter().filter(|at| self.sizes[**at] > 1).count();
        let passes = (within.count() as u64).saturating_mul(keys as u64);
        passes.saturating_mul(self.groups_in(set) as u64)
    }

    /// |B_A w|^2 / k_A^2, for w as in [`Self::variance`].
    fn part(&self, effect: &Effect, set: &[usize], summed: impl Fn(usize) -> usize) -> f64 {
        let of_key = |at: &usize| {
            let (size, summed) = (self.sizes[*at] as f64, summed(*at) as f64);
            if effect.keys.contains(at) {
                summed * (size - summed) / (size * size * size)
            } else {
                summed * summed / (size * size)
            }
        };
        set.iter().map(of_key).product()
    }

    /// The largest variance that a single group has in any of these sets.
    pub fn largest_variance(&self, sets: &[Vec<usize>]) -> f64 {
        let of_set = |set: &Vec<usize>| self.variance(set, |_| 1);
        sets.iter().map(of_set).fold(0.0, f64::max)
    }
}

impl Effect {
    fn is_within(&self, set: &[usize]) -> bool {
        self.keys.iter().all(|at| set.contains(at))
    }
}

fn square(size: usize) -> BigInt {
    BigInt::from(size) * size
}

/// Along an axis of n values: multiplies each value by n and subtracts the sum of all, n I - J.
fn subtract_axis_sum(values: &mut [i128], size: usize, inner: usize) {
    for outer in values.chunks_mut(size * inner) {
        for at in 0..inner {
            let axis = (0..size).map(|step| step * inner + at);
            let sum: i128 = axis.clone().map(|place| outer[place]).sum();
            for place in axis {
                outer[place] = outer[place] * size as i128 - sum;
            }
        }
    }
}

/// Undoes the transform along one key's axis, up to a factor of n^2. The axis has the entry without
/// the key first, t, and then one for each value, y. The result is n t + (n I - J) y.
fn undo_axis(values: &[BigInt], size: usize, inner: usize) -> Vec<BigInt> {
    let mut all = Vec::with_capacity(values.len());
    for outer in values.chunks((size + 1) * inner) {
        let (lacking, having) = outer.split_at(inner);
        let common: Vec<BigInt> = (0..inner)
            .map(|at| {
                let sum: BigInt = (0..size).map(|step| &having[step * inner + at]).sum();
                &lacking[at] * size - sum
            })
            .collect();
        let own = having.iter().zip(common.iter().cycle());
        all.extend(own.map(|(own, common)| own * size + common));
    }
    all
}

/// The sums over an axis.
fn added_up(values: &[i128], size: usize, inner: usize) -> Vec<i128> {
    let mut sums = Vec::with_capacity(values.len() / size);
    for outer in values.chunks(size * inner) {
        sums.extend(
            (0..inner).map(|at| (0..size).map(|step| outer[step * inner + at]).sum::<i128>()),
        );
    }
    sums
}

/// [`subtract_axis_sum`] of numbers that are no integers.
fn contrast(values: &mut [f64], size: usize, inner: usize) {
    for outer in values.chunks_mut(size * inner) {
        for at in 0..inner {
            let axis = (0..size).map(|step| step * inner + at);
            let sum: f64 = axis.clone().map(|place| outer[place]).sum();
            for place in axis {
                outer[place] = outer[place] * size as f64 - sum;
            }
        }
    }
}

/// [`added_up`] of numbers that are no integers.
fn sums(values: &[f64], size: usize, inner: usize) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() / size);
    for outer in values.chunks(size * inner) {
        let sum = |at: usize| (0..size).map(|step| outer[step * inner + at]).sum::<f64>();
        sums.extend((0..inner).map(sum));
    }
    sums
}

#[cfg(test)]
mod tests;
