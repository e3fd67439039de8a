//! The variances of sums of groups that are computed from effects.

use super::{Effect, Effects};

/// Which values of a key a sum of groups has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SummedValues {
    /// The number of values, at least one. The variance of a key without ranges depends on nothing
    /// else; of one with ranges it is the mean over all runs of this length.
    Number(usize),
    /// The values at these places in the key's order. They ascend, none twice.
    Places(Vec<usize>),
    /// The values up to some value, of a key with ranges: the mean over all values. Else one value.
    Prefixes,
    /// The values of some range, of a key with ranges: the mean over all ranges. Else one value.
    Ranges,
}

/// Products of two numbers that are computed in one step.
const PRODUCTS: u64 = 8;

impl Effect {
    /// |B_A w|^2 / k_A^2, where w picks groups of a set: the product of what each key has of it at
    /// its level.
    pub(super) fn part(&self, set: &[usize], of_key: impl Fn(usize, usize) -> f64) -> f64 {
        let of_set = set
            .iter()
            .map(|key| of_key(*key, self.level(*key) as usize));
        of_set.product()
    }
}

impl Effects {
    fn effects_within<'e>(&'e self, set: &'e [usize]) -> impl Iterator<Item = &'e Effect> {
        self.measured.iter().filter(|effect| effect.is_within(set))
    }

    /// The variance of a sum of groups of a set, if each effect has noise of deviation 1 / weight:
    /// of the groups that have one of `summed` values of each key of the set.
    pub fn variance(&self, set: &[usize], summed: impl Fn(usize) -> SummedValues) -> f64 {
        let of_key = |key: &usize| self.axis(*key).parts(&summed(*key));
        let parts: Vec<Vec<f64>> = set.iter().map(of_key).collect();
        self.add_up_parts(set, &parts)
    }

    /// The covariance of two sums of groups of a set, if each effect has noise of deviation 1 /
    /// weight: each is of the groups that have, of each key of the set, the values at some places.
    ///
    /// An effect's integers count in such a sum what the Kronecker product of those of its keys is,
    /// so that the product of two of them is the product over keys.
    ///
    /// # Requires
    /// The places of each key ascend, none twice.
    pub fn covariance(&self, set: &[usize], one: &[Vec<usize>], other: &[Vec<usize>]) -> f64 {
        let places = one.iter().zip(other);
        let of_key = |(key, (one, other)): (&usize, (&Vec<usize>, &Vec<usize>))| {
            self.axis(*key).products(one, other)
        };
        let products: Vec<Vec<f64>> = set.iter().zip(places).map(of_key).collect();
        self.add_up_parts(set, &products)
    }

    /// The sum over effects, by what each key of a set has at each level.
    fn add_up_parts(&self, set: &[usize], parts: &[Vec<f64>]) -> f64 {
        let own = |key: usize, level: usize| {
            let place = set.iter().position(|other| *other == key);
            place.map_or(0.0, |place| parts[place][level])
        };
        self.effects_within(set)
            .map(|effect| effect.part(set, own) / (effect.weight as f64).powi(2))
            .sum()
    }

    /// The steps that [`Self::variance`] takes of this many places of each key of a set, and
    /// [`Self::covariance`] of those of two sums.
    pub fn work_of_places(&self, set: &[usize], places: impl Iterator<Item = usize>) -> u64 {
        let of_key = |(key, places): (&usize, usize)| self.axis(*key).work_of(places);
        let of_keys = set.iter().zip(places).map(of_key);
        let of_keys = of_keys.fold(1, u64::saturating_add);
        let within = self.effects_within(set).count() as u64;
        let products = within.saturating_mul(set.len() as u64);
        let all = products.saturating_add(self.measured.len() as u64);
        of_keys.saturating_add(all / PRODUCTS)
    }

    /// The variance of any weighted sum of groups of a set: `w` has the weight of each group. The
    /// last key of the set varies fastest.
    ///
    /// # Requires
    /// The keys of the set ascend.
    pub fn variance_of(&self, set: &[usize], w: &[f64]) -> f64 {
        let of_effect = |(_, draws): (usize, Vec<f64>)| draws.iter().map(|d| d * d).sum::<f64>();
        self.draws_of(set, w).into_iter().map(of_effect).sum()
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
            let mut inner = 1;
            // A key with one value changes nothing. There may be many such keys.
            for at in set.iter().rev().filter(|at| self.sizes[**at] > 1) {
                let (axis, level) = (self.axis(*at), effect.level(*at));
                values = axis.estimate(level, &values, inner);
                inner *= axis.rows(level);
            }
            let weight = effect.weight as f64;
            values.iter_mut().for_each(|value| *value /= weight);
            (place, values)
        };
        within.map(of_effect).collect()
    }

    /// The steps that [`Self::variance_of`] takes.
    pub fn work_of(&self, set: &[usize]) -> u64 {
        let keys = 1 + set.iter().filter(|at| self.sizes[**at] > 1).count();
        let within = self.effects_within(set).count() as u64;
        let passes = within.saturating_mul(keys as u64);
        passes.saturating_mul(self.groups_in(set) as u64)
    }

    /// The variance of each group of a set, the last key varying fastest; a single one where all
    /// groups have the same, as without ranges.
    pub fn variances(&self, set: &[usize]) -> Vec<f64> {
        if !set.iter().any(|key| self.axis(*key).has_ranges) {
            return vec![self.variance(set, |_| SummedValues::Number(1))];
        }
        let levels = |key: &usize| self.axis(*key).levels() as usize + 1;
        let mut values = vec![0.0; set.iter().map(levels).product()];
        for effect in self.effects_within(set) {
            let place = set.iter().fold(0, |place, key| {
                place * levels(key) + effect.level(*key) as usize
            });
            values[place] += (effect.weight as f64).powi(-2);
        }
        let mut inner = 1;
        for key in set.iter().rev() {
            let (axis, size) = (self.axis(*key), self.sizes[*key]);
            let parts: Vec<Vec<f64>> = (0..size)
                .map(|value| axis.parts(&SummedValues::Places(vec![value])))
                .collect();
            let mut longer = Vec::with_capacity(values.len() / levels(key) * size);
            for outer in values.chunks(levels(key) * inner) {
                for of_value in &parts {
                    longer.extend((0..inner).map(|at| {
                        let own = of_value.iter().enumerate();
                        own.map(|(level, part)| part * outer[level * inner + at])
                            .sum::<f64>()
                    }));
                }
            }
            values = longer;
            inner *= size;
        }
        values
    }

    /// The largest variance that a single group has in any of these sets.
    pub fn largest_variance(&self, sets: &[Vec<usize>]) -> f64 {
        let all = sets.iter().flat_map(|set| self.variances(set));
        all.fold(0.0, f64::max)
    }
}
