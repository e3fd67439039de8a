//! The noise of groups that are computed from effects.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::analyze::PlanningEffort;
use crate::ir::grouping::numbers;
use crate::ir::{GroupingSet, KeyId, SetId};
use crate::mechanism::{Effects, SummedValues};
use crate::release::PrintedKey;

use super::weighted::independent_sums;

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
    /// `ordered` by value, made once: a question has many groups.
    #[serde(skip)]
    places: OnceLock<Arc<Vec<ValuePlaces>>>,
}

/// The place of each value of a key with ranges.
type ValuePlaces = HashMap<Option<String>, usize>;

/// For each key of a set the places of some of its values. They ascend.
pub(super) type KeyPlaces = Vec<Vec<usize>>;

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

/// `of_sets` and `places` are computed from the other fields and are not compared.
impl PartialEq for SetNoise {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            effects,
            sets,
            ordered,
            factors,
            of_sets: _,
            places: _,
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
            places: OnceLock::new(),
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
        let keys = set.numbers();
        let mut numbering = self.numbering(&keys);
        let places = groups.iter().map(|group| numbering.place(group));
        let mut places: Vec<usize> = places.collect::<Option<_>>()?;
        places.sort_unstable();
        if !places.is_sorted_by(|one, other| one < other) {
            return None;
        }
        if let Some(values) = pick_places(&numbering.sizes(), places.clone()) {
            let counts: Vec<usize> = values.iter().map(Vec::len).collect();
            let of_combination = (number, numbering.sums_over(values));
            if let Some(factor) = known.get(&of_combination) {
                return Some(*factor);
            }
            effort.take_if_left(self.effects.work_of_places(&keys, counts.into_iter()))?;
            let summed: HashMap<KeyId, &SummedValues> = set.keys().zip(&of_combination.1).collect();
            let factor = self.factor_of(set, |key| summed[&key].clone());
            known.insert(of_combination, factor);
            return Some(factor);
        }
        effort.take_if_left(self.effects.work_of(&keys))?;
        let mut cells = vec![0.0; self.effects.groups_in(&keys)];
        for place in places {
            *cells.get_mut(place)? = 1.0;
        }
        let variance = self.effects.variance_of(&keys, &cells);
        Some((variance / self.of_sets().largest).sqrt())
    }

    /// The steps in which the covariances of sums over combinations of values are computed; `None`
    /// where the draws of each sum take fewer.
    pub fn less_work_of_values(&self, keys: &[usize], sums: &[KeyPlaces]) -> Option<u64> {
        let most = |at: usize| sums.iter().map(|sum| sum[at].len()).max().unwrap_or(0);
        let of_two = (0..keys.len()).map(|at| 2 * most(at));
        let number = sums.len() as u64;
        let pairs = number.saturating_mul(number + 1) / 2;
        let work = pairs.saturating_mul(self.effects.work_of_places(keys, of_two));
        (work < number.saturating_mul(self.effects.work_of(keys))).then_some(work)
    }

    /// The noise of such sums over independent parts, in terms of the largest that a single group
    /// has.
    pub fn parts_of_values(
        &self,
        keys: &[usize],
        sums: &[KeyPlaces],
        effort: &PlanningEffort,
    ) -> Option<Vec<Vec<f64>>> {
        let largest = self.of_sets().largest;
        let covariance =
            |row: usize, column: usize| self.effects.covariance(keys, &sums[row], &sums[column]);
        let covariance = |row, column| covariance(row, column) / largest;
        independent_sums(sums.len(), covariance, 1.0, effort)
    }

    /// Numbers for the values of some keys.
    pub fn numbering(&self, keys: &[usize]) -> Numbering<'_> {
        let places = self.places.get_or_init(|| {
            let of_value = |(place, value): (usize, &Option<String>)| (value.clone(), place);
            let of_key = |values: &Vec<_>| values.iter().enumerate().map(of_value).collect();
            Arc::new(self.ordered.iter().map(of_key).collect())
        });
        let of_key = |at: &usize| {
            let mut ranges = self.effects.ranges().iter().zip(places.iter());
            KeyNumbers {
                key: KeyId(*at),
                size: self.effects.sizes()[*at],
                ordered: ranges.find(|(key, _)| *key == at).map(|(_, own)| own),
                known: HashMap::new(),
            }
        };
        Numbering(keys.iter().map(of_key).collect())
    }
}

/// The values of keys of these sizes that places among their combinations have; `None` where the
/// places are not all combinations of these values, each once.
pub(super) fn pick_places(sizes: &[usize], places: Vec<usize>) -> Option<KeyPlaces> {
    let mut inner = 1;
    let mut all = KeyPlaces::with_capacity(sizes.len());
    for size in sizes.iter().rev() {
        let mut values: Vec<usize> = places.iter().map(|place| place / inner % size).collect();
        values.sort_unstable();
        values.dedup();
        all.push(values);
        inner *= size;
    }
    all.reverse();
    let number = places.len();
    let mut distinct = places;
    distinct.sort_unstable();
    distinct.dedup();
    let combinations: usize = all.iter().map(Vec::len).product();
    (combinations == number && distinct.len() == number).then_some(all)
}

/// Numbers for the values of keys. A key with ranges has its own order; which of its values another
/// key has does not change the noise, so that they are numbered as they come.
pub(super) struct Numbering<'k>(Vec<KeyNumbers<'k>>);

struct KeyNumbers<'k> {
    key: KeyId,
    size: usize,
    /// The places of the values of a key with ranges.
    ordered: Option<&'k ValuePlaces>,
    /// The numbers of the values of another key.
    known: HashMap<&'k Option<String>, usize>,
}

impl<'k> KeyNumbers<'k> {
    fn number(&mut self, value: &'k Option<String>) -> Option<usize> {
        let new = self.known.len();
        let number = match self.ordered {
            Some(ordered) => *ordered.get(value)?,
            None => *self.known.entry(value).or_insert(new),
        };
        (number < self.size).then_some(number)
    }
}

impl<'k> Numbering<'k> {
    /// The place of a group among the combinations of the keys' values, the last of which varies
    /// fastest; `None` where it has a value that is not the key's.
    pub fn place(&mut self, group: &'k PrintedKey) -> Option<usize> {
        self.0.iter_mut().try_fold(0, |place, numbers| {
            let number = numbers.number(group.get(1 + numbers.key.0)?)?;
            Some(place * numbers.size + number)
        })
    }

    fn sizes(&self) -> Vec<usize> {
        self.0.iter().map(|numbers| numbers.size).collect()
    }

    /// How many combinations there are.
    pub fn combinations(&self) -> usize {
        self.0.iter().map(|numbers| numbers.size).product()
    }

    /// What the noise of a sum depends on: of a key with ranges its values, of another one how many
    /// it has.
    fn sums_over(&self, values: KeyPlaces) -> Vec<SummedValues> {
        let of_key = |(numbers, values): (&KeyNumbers<'_>, Vec<usize>)| match numbers.ordered {
            Some(_) => SummedValues::Places(values),
            None => SummedValues::Number(values.len()),
        };
        self.0.iter().zip(values).map(of_key).collect()
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

    /// Each group of a key with ranges has separate noise, whose computation is counted, and
    /// takes no longer where the key has many values: they are put in order once.
    #[test]
    fn groups_take_few_steps_however_many_values_a_key_has() {
        const GROUPS: usize = 100;
        let steps = [GROUPS, 10_000].map(|size| {
            let sets = [vec![0], vec![]];
            let by = SetNoise::new(
                Effects::new(vec![size], vec![0], &sets).unwrap(),
                vec![GroupingSet::new(vec![KeyId(0)]), GroupingSet::new(vec![])],
                |_| (0..size).map(|value| Some(value.to_string())).collect(),
            );
            let key = |value| vec![Some("0".to_owned()), Some(usize::to_string(&value))];
            let keys: Vec<PrintedKey> = (0..GROUPS).map(key).collect();
            let (effort, mut known) = (PlanningEffort::default(), Factors::new());
            let mut all = |effort: &PlanningEffort| {
                let mut factors = keys
                    .iter()
                    .map(|key| by.of_groups(&[key], &mut known, effort));
                factors.all(|factor| factor.is_some())
            };
            let spent = PlanningEffort::small();
            spent.take(1_000_000).unwrap();
            assert!(!all(&spent) && all(&effort));
            let steps = effort.steps();
            // What is known is not computed again.
            assert!(all(&effort) && effort.steps() == steps);
            let copy = by.clone();
            let ordered = |by: &SetNoise| by.numbering(&[0]).0[0].ordered.map(std::ptr::from_ref);
            assert!(ordered(&by).is_some() && ordered(&by) == ordered(&copy));
            steps
        });
        assert!(
            steps[0] > GROUPS as u64 && steps[1] < 3 * steps[0],
            "{steps:?}"
        );
    }
}
