//! The noise of groups that are computed from effects.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::analyze::PlanningEffort;
use crate::ir::grouping::numbers;
use crate::ir::{GroupingSet, KeyId, SetId};
use crate::mechanism::{Effects, SummedValues};
use crate::release::PrintedKey;

/// The noise of groups that are computed from effects.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SetNoise {
    pub effects: Effects,
    pub sets: Vec<GroupingSet>,
    /// For each key with ranges its values in their order, as they are printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ordered: Vec<Vec<Option<String>>>,
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
    /// For each set: the number of its groups, and their standard deviations as multiples of the
    /// largest; one where all have the same.
    each: Vec<(usize, Vec<f64>)>,
}

/// The noise of sums of groups, by their set and by which values of each of its keys they have.
pub(super) type Factors = HashMap<(SetId, Vec<SummedValues>), f64>;

/// `of_sets` is computed from the other fields and is not compared.
impl PartialEq for SetNoise {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            effects,
            sets,
            ordered,
            factors,
            of_sets: _,
        } = self;
        (effects, sets, ordered, factors)
            == (&other.effects, &other.sets, &other.ordered, &other.factors)
    }
}

impl SetNoise {
    /// The noise of the groups of these sets. `values` has the values of a key as they are printed.
    pub fn new(
        effects: Effects,
        sets: Vec<GroupingSet>,
        values: impl Fn(KeyId) -> Vec<Option<String>>,
    ) -> Self {
        let ordered = effects.ranges().iter().map(|at| values(KeyId(*at)));
        Self {
            ordered: ordered.collect(),
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
        let mut place = group;
        for (groups, factors) in &self.of_sets().each {
            if place < *groups {
                let own = factors.get(place).or(factors.first());
                return own.copied().unwrap_or(1.0);
            }
            place -= groups;
        }
        1.0
    }

    /// The noise of a sum of groups of one set, as [`Effects::variance`] has it, in terms of the
    /// largest that a single group has.
    pub fn factor_of(&self, set: &GroupingSet, summed: impl Fn(KeyId) -> SummedValues) -> f64 {
        let variance = self
            .effects
            .variance(&set.numbers(), |at| summed(KeyId(at)));
        (variance / self.of_sets().largest).sqrt()
    }

    pub fn of_sets(&self) -> &OfSets {
        self.of_sets.get_or_init(|| {
            let sets = numbers(&self.sets);
            let of_set =
                |set: &Vec<usize>| (self.effects.groups_in(set), self.effects.variances(set));
            let mut each: Vec<(usize, Vec<f64>)> = sets.iter().map(of_set).collect();
            let all = each.iter().flat_map(|(_, variances)| variances);
            let largest = all.copied().fold(0.0, f64::max);
            let all = each.iter_mut().flat_map(|(_, variances)| variances);
            all.for_each(|variance| *variance = (*variance / largest).sqrt());
            OfSets { largest, each }
        })
    }

    /// The noise of a sum of groups of one set, as a multiple of the largest that a single group
    /// has; the groups are given by their keys. `None` where two groups have the same keys, or
    /// where the computation takes more than is left of `effort`. If the groups are all
    /// combinations of some values, the result depends only on the set, on how many values each key
    /// has, and on which values those with ranges have: `known` keeps such results.
    pub fn of_groups<'k>(
        &'k self,
        groups: &[&'k PrintedKey],
        known: &mut Factors,
        effort: &PlanningEffort,
    ) -> Option<f64> {
        let (number, _) = groups.first()?.split_first()?;
        let number = SetId::read(number.as_ref()?)?;
        let set = number.find(&self.sets)?;
        let mut numbering = self.numbering(&set.numbers());
        let mut places = HashSet::with_capacity(groups.len());
        for group in groups {
            if !places.insert(numbering.place(group)?) {
                return None;
            }
        }
        let summed = numbering.pick_summed(&places);
        let combinations: usize = summed.iter().map(values).product();
        if combinations == groups.len() {
            let factor = known
                .entry((number, summed))
                .or_insert_with_key(|(_, summed)| {
                    let summed: HashMap<KeyId, &SummedValues> = set.keys().zip(summed).collect();
                    self.factor_of(set, |key| summed[&key].clone())
                });
            return Some(*factor);
        }
        let keys = set.numbers();
        effort.take_if_left(self.effects.work_of(&keys))?;
        let mut cells = vec![0.0; self.effects.groups_in(&keys)];
        for place in places {
            *cells.get_mut(place)? = 1.0;
        }
        let variance = self.effects.variance_of(&keys, &cells);
        Some((variance / self.of_sets().largest).sqrt())
    }

    /// Numbers for the values of some keys.
    pub fn numbering(&self, keys: &[usize]) -> Numbering<'_> {
        let of_key = |at: &usize| {
            let mut ranges = self.effects.ranges().iter().zip(&self.ordered);
            let ordered = ranges.find(|(key, _)| *key == at);
            let values = ordered
                .into_iter()
                .flat_map(|(_, values)| values.iter().enumerate());
            KeyNumbers {
                key: KeyId(*at),
                size: self.effects.sizes()[*at],
                has_ranges: self.effects.ranges().contains(at),
                known: values.map(|(place, value)| (value, place)).collect(),
            }
        };
        Numbering(keys.iter().map(of_key).collect())
    }
}

/// How many values there are.
fn values(summed: &SummedValues) -> usize {
    match summed {
        SummedValues::Number(number) => *number,
        SummedValues::Places(places) => places.len(),
        SummedValues::Prefixes | SummedValues::Ranges => 1,
    }
}

/// Numbers for the values of keys. A key with ranges has its own order; which of its values another
/// key has does not change the noise, so that they are numbered as they come.
pub(super) struct Numbering<'k>(Vec<KeyNumbers<'k>>);

struct KeyNumbers<'k> {
    key: KeyId,
    size: usize,
    has_ranges: bool,
    known: HashMap<&'k Option<String>, usize>,
}

impl<'k> Numbering<'k> {
    /// The place of a group among the combinations of the keys' values, the last of which varies
    /// fastest; `None` where it has a value that is not the key's.
    pub fn place(&mut self, group: &'k PrintedKey) -> Option<usize> {
        self.0.iter_mut().try_fold(0, |place, numbers| {
            let new = numbers.known.len();
            let value = group.get(1 + numbers.key.0)?;
            let value = *numbers.known.entry(value).or_insert(new);
            (value < numbers.size).then_some(place * numbers.size + value)
        })
    }

    /// How many combinations there are.
    pub fn combinations(&self) -> usize {
        self.0.iter().map(|numbers| numbers.size).product()
    }

    /// The values of each key that these places have.
    fn pick_summed(&self, places: &HashSet<usize>) -> Vec<SummedValues> {
        let mut inner = 1;
        let mut all: Vec<SummedValues> = Vec::with_capacity(self.0.len());
        for numbers in self.0.iter().rev() {
            all.push(match numbers.has_ranges {
                false => SummedValues::Number(numbers.known.len()),
                true => {
                    let of_place = |place: &usize| place / inner % numbers.size;
                    let values: BTreeSet<usize> = places.iter().map(of_place).collect();
                    SummedValues::Places(values.into_iter().collect())
                }
            });
            inner *= numbers.size;
        }
        all.reverse();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What answers of earlier versions have is read, and kept as it was.
    #[test]
    fn records_without_ranges_are_as_they_were() {
        let stored = "{\"effects\":{\"sizes\":[2,3],\"measured\":[{\"keys\":[],\"weight\":7},\
            {\"keys\":[0],\"weight\":9}]},\"sets\":[[],[0]]}";
        let read: SetNoise = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    }

    /// The noise of a key with ranges depends on which values are summed, whatever the order in
    /// which the groups come; a value that is not listed has no noise that is known.
    #[test]
    fn places_of_keys_with_ranges_are_their_own() {
        let sets = [vec![0, 1], vec![0]];
        let effects = Effects::new(vec![8, 2], vec![0], &sets).unwrap();
        let by = SetNoise::new(
            effects.clone(),
            sets.iter()
                .map(|set| GroupingSet::new(set.iter().map(|key| KeyId(*key)).collect()))
                .collect(),
            |_| (0..8).map(|value| Some(value.to_string())).collect(),
        );
        let text = serde_json::to_string(&by).unwrap();
        assert_eq!(serde_json::from_str::<SetNoise>(&text).unwrap(), by);
        let mut known = Factors::new();
        let mut factor = |values: &[usize]| {
            let key = |value: &usize| vec![Some("1".to_owned()), Some(value.to_string()), None];
            let keys: Vec<PrintedKey> = values.iter().map(key).collect();
            let keys: Vec<&PrintedKey> = keys.iter().collect();
            let effort = PlanningEffort::default();
            let first = by.of_groups(&keys, &mut Factors::new(), &effort);
            assert_eq!(first, by.of_groups(&keys, &mut known, &effort));
            first
        };
        let wanted = |places: &[usize]| {
            let variance = effects.variance(&[0], |_| SummedValues::Places(places.to_vec()));
            (variance / effects.largest_variance(&sets)).sqrt()
        };
        for values in [[3, 4], [2, 3], [6, 1], [0, 7]] {
            let mut places = values;
            places.sort_unstable();
            assert!((factor(&values).unwrap() / wanted(&places) - 1.0).abs() < 1e-12);
        }
        assert!(factor(&[4, 3]).unwrap() > 1.1 * factor(&[3, 2]).unwrap());
        assert_eq!(factor(&[8]), None);
        assert_eq!(factor(&[3, 3]), None);
    }
}
