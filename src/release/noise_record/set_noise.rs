//! The noise of groups that are computed from effects.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::analyze::PlanningEffort;
use crate::ir::grouping::numbers;
use crate::ir::{GroupingSet, KeyId, SetId};
use crate::mechanism::Effects;
use crate::release::PrintedKey;

/// The noise of groups that are computed from effects.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SetNoise {
    pub effects: Effects,
    pub sets: Vec<GroupingSet>,
    /// For each group that is a sum of groups: its standard deviation, as a multiple of the largest
    /// that a single group has.
    #[serde(skip)]
    pub factors: Vec<f64>,
    #[serde(skip)]
    of_sets: OnceLock<OfSets>,
}

/// The variances that follow from the effects and the sets.
#[derive(Debug, Clone)]
pub(super) struct OfSets {
    /// The largest variance of a single group.
    pub largest: f64,
    /// For each set: the number of its groups, and their standard deviation as a multiple of the
    /// largest.
    each: Vec<(usize, f64)>,
}

/// The noise of sums of groups, by their set and by how many values of each of its keys they have.
pub(super) type Factors = HashMap<(SetId, Vec<usize>), f64>;

/// `of_sets` is computed from the other fields and is not compared.
impl PartialEq for SetNoise {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            effects,
            sets,
            factors,
            of_sets: _,
        } = self;
        (effects, sets, factors) == (&other.effects, &other.sets, &other.factors)
    }
}

impl SetNoise {
    /// The noise of the groups of these sets.
    pub fn new(effects: Effects, sets: Vec<GroupingSet>) -> Self {
        Self {
            effects,
            sets,
            factors: Vec::new(),
            of_sets: OnceLock::new(),
        }
    }

    /// The noise of groups that are sums of groups.
    pub fn with_factors(self, factors: Vec<f64>) -> Self {
        Self { factors, ..self }
    }

    /// The noise of a group, in terms of the largest that a group has.
    pub fn factor(&self, group: usize) -> f64 {
        if let Some(factor) = self.factors.get(group) {
            return *factor;
        }
        let mut before = 0;
        let is_here = |(groups, _): &&(usize, f64)| {
            before += groups;
            group < before
        };
        let found = self.of_sets().each.iter().find(is_here);
        found.map_or(1.0, |(_, factor)| *factor)
    }

    pub fn of_sets(&self) -> &OfSets {
        self.of_sets.get_or_init(|| {
            let sets = numbers(&self.sets);
            let largest = self.effects.largest_variance(&sets);
            let of_set = |set: &Vec<usize>| {
                let factor = (self.effects.variance(set, |_| 1) / largest).sqrt();
                (self.effects.groups_in(set), factor)
            };
            OfSets {
                largest,
                each: sets.iter().map(of_set).collect(),
            }
        })
    }

    /// The noise of a sum of groups of one set, as a multiple of the largest that a single group
    /// has; the groups are given by their keys. `None` where two groups have the same keys, or
    /// where the computation takes more than is left of `effort`. If the groups are all
    /// combinations of some values, the result depends only on the set and on how many values each
    /// key has: `known` keeps such results.
    pub fn of_groups(
        &self,
        groups: &[&PrintedKey],
        known: &mut Factors,
        effort: &PlanningEffort,
    ) -> Option<f64> {
        let (number, _) = groups.first()?.split_first()?;
        let number = SetId::read(number.as_ref()?)?;
        let set = number.find(&self.sets)?;
        let (places, summed) = self.places(set, groups)?;
        let combinations: usize = summed.iter().product();
        if combinations == groups.len() {
            let factor = known
                .entry((number, summed))
                .or_insert_with_key(|(_, summed)| {
                    let summed: HashMap<usize, usize> =
                        set.numbers().into_iter().zip(summed.clone()).collect();
                    let variance = self.effects.variance(&set.numbers(), |at| summed[&at]);
                    (variance / self.of_sets().largest).sqrt()
                });
            return Some(*factor);
        }
        let keys = set.numbers();
        effort.take_if_left(self.effects.work_of(&keys))?;
        let mut cells = vec![0; self.effects.groups_in(&keys)];
        for place in places {
            *cells.get_mut(place)? = 1;
        }
        let variance = self.effects.variance_of(&keys, &cells);
        Some((variance / self.of_sets().largest).sqrt())
    }

    /// The places of groups among the cells of their set, and of each of its keys how many values
    /// they have. Which of its values a key has does not change the noise, so that they are
    /// numbered as they come. `None` where two groups have the same keys.
    fn places(
        &self,
        set: &GroupingSet,
        groups: &[&PrintedKey],
    ) -> Option<(HashSet<usize>, Vec<usize>)> {
        let mut places = HashSet::with_capacity(groups.len());
        let mut values = vec![HashMap::new(); set.len()];
        for key in groups {
            let mut place = 0;
            for (KeyId(at), values) in set.keys().zip(&mut values) {
                let new = values.len();
                let value = *values.entry(key.get(1 + at)?).or_insert(new);
                let size = self.effects.sizes()[at];
                place = (value < size).then_some(place * size + value)?;
            }
            if !places.insert(place) {
                return None;
            }
        }
        Some((places, values.iter().map(HashMap::len).collect()))
    }
}
