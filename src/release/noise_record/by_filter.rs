//! The noise of coordinates that add up the rows of filters, of groups that are sums of groups.
//!
//! A count of all rows and one of a filter's have the noise of the filter's groups in common. So a
//! group's noise is written over independent parts ([`NoiseParts::independent`]), no more than it
//! has different sums: that of all its groups, and those of the filters that some of them meet.

use std::collections::HashMap;
use std::sync::Arc;

use super::set_noise::{KeyPlaces, pick_places};
use super::{NoiseParts, NoiseRecord};
use crate::analyze::PlanningEffort;
use crate::ir::SetId;
use crate::release::PrintedKey;
use crate::release::rollup::{FilterId, Met, Picked, Source};
use crate::rewrite::{CoordinateId, Measure, measure_terms};

/// The key of a sum of groups, and the places of the groups.
type SummedGroup = (PrintedKey, Vec<usize>);

/// The noise of coordinates that add up different groups.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::release) struct ByFilter {
    /// What each coordinate adds up.
    picked: Vec<Picked>,
    of_groups: Vec<GroupNoise>,
}

/// The noise of the sums in one group.
#[derive(Debug, Clone, PartialEq)]
struct GroupNoise {
    /// The filters that some rows meet, ascending, each with its place among the different sums.
    met: Vec<(FilterId, usize)>,
    parts: Arc<Parts>,
}

/// For each different sum, of which the first adds up all groups: its noise over independent parts,
/// in terms of the deviation of a draw.
type Parts = Vec<Vec<f64>>;

/// Numbers that are computed in one step.
const NUMBERS: u64 = 8;

impl ByFilter {
    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.of_groups.len()
    }

    /// The number of independent parts that each draw's noise has in a group.
    fn width(&self, group: usize) -> usize {
        let parts = self.of_groups.get(group).map_or(0, |of| of.parts.len());
        parts.max(1)
    }

    /// The noise of a coordinate in a group, over the independent parts.
    fn parts_of(&self, CoordinateId(at): CoordinateId, group: usize) -> Vec<f64> {
        let known = self.of_groups.get(group).zip(self.picked.get(at));
        let Some((sums, picked)) = known.filter(|(sums, _)| !sums.parts.is_empty()) else {
            return Vec::new();
        };
        let of = |filter: &FilterId| {
            let found = sums.met.binary_search_by_key(filter, |(known, _)| *known);
            found.ok().map(|place| &sums.parts[sums.met[place].1])
        };
        match picked {
            Picked::All => sums.parts[0].clone(),
            Picked::Met(filter) => of(filter).cloned().unwrap_or_default(),
            Picked::MetLessOthers(filter) => match of(filter) {
                Some(met) => {
                    let both = met.iter().zip(&sums.parts[0]);
                    both.map(|(met, all)| 2.0 * met - all).collect()
                }
                None => sums.parts[0].iter().map(|all| -all).collect(),
            },
        }
    }
}

/// Sums of groups, in terms of which noise depends on nothing else: two with equal ones have equal
/// noise.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct Sums {
    /// How many groups there are.
    groups: usize,
    /// With effects: the keys of the groups' set, and the place of each group among the
    /// combinations of their values, which are numbered as they come.
    keys: Vec<usize>,
    places: Vec<usize>,
    /// The different sums of some of the groups, after that of all.
    different: Vec<Vec<usize>>,
}

impl Sums {
    /// The sums of a group's rows, and the filters that they meet.
    fn of(rows: &[usize], (filters, met): (usize, &Met)) -> Option<(Self, Vec<(FilterId, usize)>)> {
        let mut sums = Self {
            groups: rows.len(),
            ..Self::default()
        };
        let mut of_filters = vec![Vec::new(); if rows.is_empty() { 0 } else { filters }];
        for (group, row) in rows.iter().enumerate() {
            let both = of_filters.iter_mut().zip(met.get(row)?);
            both.filter(|(_, is_met)| **is_met)
                .for_each(|(sum, _)| sum.push(group));
        }
        let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut places = Vec::new();
        for (filter, sum) in of_filters.into_iter().enumerate() {
            let new = 1 + known.len();
            let place = match sum.len() {
                0 => continue,
                all if all == rows.len() => 0,
                _ => *known.entry(sum).or_insert(new),
            };
            places.push((FilterId(filter), place));
        }
        let mut known: Vec<(Vec<usize>, usize)> = known.into_iter().collect();
        known.sort_by_key(|(_, place)| *place);
        sums.different = known.into_iter().map(|(sum, _)| sum).collect();
        Some((sums, places))
    }

    /// The values of each key that each of the different sums has, if each sum has all of their
    /// combinations.
    fn values(&self, sizes: &[usize]) -> Option<Vec<KeyPlaces>> {
        let all: Vec<usize> = (0..self.groups).collect();
        let of_sum = |groups: &Vec<usize>| {
            let places = groups.iter().map(|group| self.places.get(*group).copied());
            pick_places(sizes, places.collect::<Option<_>>()?)
        };
        let sums = std::iter::once(&all).chain(&self.different);
        sums.map(of_sum).collect()
    }
}

impl NoiseRecord {
    /// The noise of coordinates that pick groups by filters, for sums of these groups: the keys of
    /// the groups, what each coordinate picks, the places of the groups in each sum, and which
    /// filters they meet. `None` where it is not known, or where the computation takes more than is
    /// left of `effort`.
    pub(in crate::release) fn by_filter(
        &self,
        keys: &[PrintedKey],
        (sources, members, met): (&[Source<'_>], &[SummedGroup], &Met),
        effort: &PlanningEffort,
    ) -> Option<ByFilter> {
        let filters = met.values().next().map_or(0, Vec::len);
        // Groups that differ in the values of keys alone have the same noise.
        let mut known: HashMap<Sums, Arc<Parts>> = HashMap::new();
        let of_group = |(_, rows): &SummedGroup| {
            let (mut sums, met) = Sums::of(rows, (filters, met))?;
            // What is computed from it later, for each coordinate.
            let numbers = (1 + sums.different.len()) * sources.len() * self.draws.len();
            effort.take_if_left(1 + numbers as u64 / NUMBERS)?;
            self.place(rows, keys, &mut sums)?;
            let parts = match known.get(&sums) {
                Some(parts) => parts.clone(),
                None => {
                    let parts = Arc::new(self.parts_of_sums(&sums, effort)?);
                    known.insert(sums, parts.clone());
                    parts
                }
            };
            Some(GroupNoise { met, parts })
        };
        Some(ByFilter {
            picked: sources.iter().map(|source| source.picked).collect(),
            of_groups: members.iter().map(of_group).collect::<Option<_>>()?,
        })
    }

    /// With effects, the places of groups.
    fn place(&self, rows: &[usize], keys: &[PrintedKey], sums: &mut Sums) -> Option<()> {
        let (Some(by), Some(first)) = (&self.by_effects, rows.first()) else {
            return Some(());
        };
        let number = keys.get(*first)?.first()?.as_ref()?;
        let set = SetId::read(number)?.find(&by.sets)?;
        let mut numbering = by.numbering(&set.numbers());
        for row in rows {
            sums.places.push(numbering.place(keys.get(*row)?)?);
        }
        sums.keys = set.numbers();
        Some(())
    }

    /// The noise of sums of groups over independent parts.
    fn parts_of_sums(&self, sums: &Sums, effort: &PlanningEffort) -> Option<Parts> {
        if sums.groups == 0 {
            return Some(Vec::new());
        }
        if let Some(by) = self
            .by_effects
            .as_ref()
            .filter(|_| self.has_one_draw_each())
        {
            let sizes: Vec<usize> = sums.keys.iter().map(|at| by.effects.sizes()[*at]).collect();
            if let Some(values) = sums.values(&sizes)
                && let Some(work) = by.less_work_of_values(&sums.keys, &values)
            {
                effort.take_if_left(work)?;
                return by.parts_of_values(&sums.keys, &values, effort);
            }
        }
        let width = match &self.by_effects {
            Some(by) => by.effects.groups_in(&sums.keys),
            None => sums.groups,
        };
        let noise_of = |picked: &mut dyn Iterator<Item = usize>| {
            let mut weights = vec![0.0; width];
            for group in picked {
                let place = sums.places.get(group).copied().unwrap_or(group);
                *weights.get_mut(place)? += 1.0;
            }
            self.parts_of((None, &sums.keys), &weights, effort)
        };
        let mut parts = vec![noise_of(&mut (0..sums.groups))?];
        for sum in &sums.different {
            parts.push(noise_of(&mut sum.iter().copied())?);
        }
        NoiseParts::independent(&parts, 1.0, effort)
    }

    /// As [`NoiseRecord::noise`]: each part of each draw.
    pub(super) fn noise_by_filter(
        &self,
        by: &ByFilter,
        measure: &Measure,
        group: usize,
    ) -> Vec<f64> {
        let width = by.width(group);
        let mut noise = vec![0.0; self.draws.len() * width];
        for (coordinate, factor) in measure_terms(measure) {
            let parts = by.parts_of(coordinate, group);
            for (CoordinateId(draw), times) in self.draws_in(coordinate) {
                let own = noise[draw * width..].iter_mut().zip(&parts);
                own.for_each(|(sum, part)| *sum += factor * times * part);
            }
        }
        noise
    }

    /// The record with the noise of coordinates that pick groups by filters.
    pub(in crate::release) fn with_filters(self, by_filter: Option<ByFilter>) -> Self {
        Self { by_filter, ..self }
    }

    /// Whether coordinates pick groups by filters.
    pub(in crate::release) fn picks_by_filters(&self) -> bool {
        self.by_filter.is_some()
    }
}
