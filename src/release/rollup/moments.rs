//! Moments of values that follow from keys: sums of the values, of their squares and of products of
//! two, as weighted sums of the groups of a finer answer that counts rows. For each moment the
//! smallest grouping set is read that has the keys of its values, so that sets of two keys are
//! enough for all products.
//!
//! # Guarantee
//! Post-processing of released numbers. The noise of all moments together is that of the groups
//! they are made of, with what they have in common.
//!
//! # Reference
//! Wang 2018 (arXiv 1803.02596) for the regression from noisy moments; McKenna and others 2024
//! (arXiv 2405.15002) for moments from marginals.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::determines::{DecidingKey, determined_by};
use super::{FinerKey, Rollup, View, sum_rows};
use crate::analyze::PlanningEffort;
use crate::ir::evaluate::{KnownValue, evaluate_within, weight};
use crate::ir::{ColumnId, Expr};
use crate::policy::Scalar;
use crate::release::decode::Rational;
use crate::release::noise_record::NoiseParts;
use crate::release::{NoiseRecord, ReleasedTable, cells};
use crate::rewrite::{
    Coordinate, CoordinateId, Count, Family, FixedPoint, Measure, ReleasePlan, measure_deviation,
};

/// How much a row adds to a measure: the distances of these values from their middles, multiplied.
type Factors = Vec<usize>;

/// What a release asks of the rows that meet a filter.
pub(super) struct AskedMoments<'a> {
    filter: Option<&'a Expr>,
    values: Vec<(&'a Expr, &'a FixedPoint)>,
    /// For each measure.
    factors: Vec<Factors>,
}

impl<'a> AskedMoments<'a> {
    /// `None` where a release asks anything else, or where finding out takes more than what is left
    /// of `effort`.
    pub fn of(release: &'a ReleasePlan, effort: &PlanningEffort) -> Option<Self> {
        release.models().next()?;
        let mut asked = Self {
            filter: None,
            values: Vec::new(),
            factors: Vec::new(),
        };
        let mut filters: Vec<&'a Option<Expr>> = Vec::new();
        for measure in release.measures() {
            let coordinate = |CoordinateId(at): CoordinateId| release.coordinates().get(at);
            let (filter, factors) = match measure {
                Measure::Count(Count {
                    rows,
                    all: None,
                    nulls: None,
                }) => match coordinate(*rows)? {
                    Coordinate::Rows { mask } if mask.not_null.is_none() => {
                        (&mask.filter, Vec::new())
                    }
                    _ => return None,
                },
                Measure::Centred {
                    values,
                    fixed_point,
                } => match coordinate(*values)? {
                    Coordinate::Values { filter, value, .. } => {
                        (filter, vec![asked.value((value, fixed_point), effort)?])
                    }
                    _ => return None,
                },
                Measure::Squares {
                    lacks,
                    count: _,
                    fixed_point,
                } => match coordinate(*lacks)? {
                    Coordinate::SquareComplement { filter, value, .. } => {
                        (filter, vec![asked.value((value, fixed_point), effort)?; 2])
                    }
                    _ => return None,
                },
                Measure::Products { products, y, x } => match coordinate(*products)? {
                    Coordinate::Products {
                        filter,
                        y: (of_y, _),
                        x: (of_x, _),
                    } => {
                        let (y, x) = ((of_y, y), (of_x, x));
                        let both = [asked.value(y, effort)?, asked.value(x, effort)?];
                        (filter, both.to_vec())
                    }
                    _ => return None,
                },
                Measure::Count(_) | Measure::Sum { .. } => return None,
            };
            filters.push(filter);
            asked.factors.push(factors);
        }
        let (first, others) = filters.split_first()?;
        let is_one = others.iter().all(|other| other == first);
        asked.filter = first.as_ref();
        is_one.then_some(asked)
    }

    /// The number of a value.
    fn value(
        &mut self,
        (value, fixed_point): (&'a Expr, &'a FixedPoint),
        effort: &PlanningEffort,
    ) -> Option<usize> {
        let mut size = 0;
        value.walk(&mut |node| size += weight(node));
        effort.take_if_left(size.saturating_mul(1 + self.values.len() as u64))?;
        let known = self.values.iter().position(|(of, _)| *of == value);
        Some(known.unwrap_or_else(|| {
            self.values.push((value, fixed_point));
            self.values.len() - 1
        }))
    }

    /// The expressions that decide which rows are read, and what they add to any measure.
    pub fn expressions(&self) -> impl Iterator<Item = &'a Expr> {
        let values = self.values.iter().map(|(value, _)| *value);
        self.filter.into_iter().chain(values)
    }

    /// For each measure the expressions that decide what a row adds to it.
    pub fn of_measures(&self) -> impl Iterator<Item = Vec<&'a Expr>> {
        self.factors.iter().map(|factors| {
            let values = factors.iter().map(|value| self.values[*value].0);
            self.filter.into_iter().chain(values).collect()
        })
    }
}

/// An expression, and the keys that it follows from.
type Decided<'a> = (&'a Expr, Vec<DecidingKey<'a>>);

/// The moments of values and the groups that they follow from.
struct Reader<'a> {
    view: &'a View<'a>,
    /// Conditions that all rows have to meet.
    conditions: Vec<Decided<'a>>,
    values: Vec<Decided<'a>>,
    fixed_points: Vec<&'a FixedPoint>,
    rows: CoordinateId,
}

/// The groups of one grouping set.
struct SetCells {
    /// Ascending.
    keys: Vec<FinerKey>,
    /// How many combinations of their values there are.
    combinations: usize,
    /// The place of each group among the combinations of its keys, and its row of the table.
    groups: Vec<(usize, usize)>,
    /// The noisy number of rows in each group that meets the conditions; else `None`.
    counts: Vec<Option<f64>>,
    /// For each value that follows from these keys: its distance from the middle, by group.
    distances: HashMap<usize, Vec<f64>>,
}

/// The moments that a release with one group asks, from a finer answer's numbers of rows; `None`
/// where they do not follow from it.
///
/// # Guarantee
/// As [`super::coarser`]. Every row of the release is in one group of each set that is read, since
/// the view has covered every key, and all values of the row follow from the group's keys.
pub(super) fn sum_up(
    release: &ReleasePlan,
    table: &ReleasedTable,
    (view, family): (&View<'_>, &Family),
    drawn: &NoiseRecord,
) -> Option<Rollup> {
    if !view.keys.is_empty() || !release.sets().is_empty() || release.look().is_some() {
        return None;
    }
    if drawn.is_cut() || drawn.leaves_out() {
        return None;
    }
    let asked = AskedMoments::of(release, view.effort)?;
    let reader = Reader::new(view, family, &asked)?;
    let mut sets: HashMap<Option<usize>, SetCells> = HashMap::new();
    let (mut texts, mut parts) = (Vec::new(), Vec::new());
    let mut read = Vec::new();
    let searched = asked.factors.len() * (1 + view.grain.sets.len());
    view.effort.take_if_left(searched as u64)?;
    for factors in &asked.factors {
        let set = reader.smallest_set(factors)?;
        let cells = match sets.entry(set) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let cells = reader.cells(set, table)?;
                read.extend(cells.groups.iter().map(|(_, row)| *row));
                place.insert(cells)
            }
        };
        let (sum, weights) = cells.weigh(factors);
        if !sum.is_finite() {
            return None;
        }
        texts.push(match factors.is_empty() {
            true => sum.round().max(0.0).to_string(),
            false => sum.to_string(),
        });
        let keys: Vec<usize> = cells.keys.iter().map(|FinerKey(at)| *at).collect();
        parts.push(drawn.parts_of((set, &keys), &weights, view.effort)?);
    }
    let one = drawn.deviation_of_one(&Measure::Count(Count {
        rows: reader.rows,
        all: None,
        nulls: None,
    }));
    let noise = NoiseParts::independent(&parts, one, view.effort)?;
    let both = release.measures().iter().cloned().zip(noise);
    let drawn = drawn.of_weighted_sums(both.collect(), read.len());
    let measures = release.measures().iter();
    let bought: Vec<f64> = measures
        .map(|measure| measure_deviation(release, measure))
        .collect::<Option<_>>()?;
    let both = release.measures().iter().zip(&bought);
    let worse = both.map(|(measure, bought)| drawn.deviation(measure) / bought);
    Some(Rollup {
        worse: worse.fold(0.0, f64::max),
        summed: drawn.groups_summed_max(),
        table: ReleasedTable {
            keys: cells(release),
            measures: vec![texts],
            drawn: Some(drawn),
            ..ReleasedTable::default()
        },
        epsilon: view.grain.epsilon,
        bought,
        members: vec![read],
    })
}

impl<'a> Reader<'a> {
    fn new(view: &'a View<'a>, family: &Family, asked: &AskedMoments<'a>) -> Option<Self> {
        let decided = |expr: &'a Expr| Some((expr, determined_by(expr, view.grain, family)?));
        let mut conditions = view.picks.clone();
        if let Some(filter) = asked.filter {
            conditions.push(decided(filter)?);
        }
        let values = asked.values.iter().map(|(value, _)| decided(value));
        Some(Self {
            view,
            conditions,
            values: values.collect::<Option<_>>()?,
            fixed_points: asked.values.iter().map(|(_, of)| *of).collect(),
            rows: view.grain.rows?,
        })
    }

    /// The place of the set with the fewest groups that decides the conditions and these values;
    /// the inner `None` of an answer that has all keys in one.
    fn smallest_set(&self, factors: &[usize]) -> Option<Option<usize>> {
        let sets = &self.view.grain.sets;
        if sets.is_empty() {
            return Some(None);
        }
        let values = factors.iter().map(|value| &self.values[*value]);
        let needed: Vec<FinerKey> = self
            .conditions
            .iter()
            .chain(values)
            .flat_map(|(_, by)| by.iter().map(|by| by.key))
            .collect();
        let fitting = sets
            .iter()
            .enumerate()
            .filter(|(_, set)| needed.iter().all(|key| set.contains(key)));
        let smallest = fitting.min_by_key(|(_, set)| self.combinations(set));
        smallest.map(|(number, _)| Some(number))
    }

    /// How many combinations the listed values of some keys have.
    fn combinations(&self, keys: &[FinerKey]) -> usize {
        let listed = keys
            .iter()
            .map(|FinerKey(at)| &self.view.grain.keys[*at].values);
        listed.fold(1, |all, values| all.saturating_mul(values.len()))
    }

    /// What is read of one set.
    fn cells(&self, set: Option<usize>, table: &ReleasedTable) -> Option<SetCells> {
        let grain = self.view.grain;
        let mut keys: Vec<FinerKey> = match set {
            Some(number) => grain.sets[number].clone(),
            None => (0..grain.keys.len()).map(FinerKey).collect(),
        };
        keys.sort_by_key(|FinerKey(at)| *at);
        let is_known = |(_, by): &Decided<'_>| by.iter().all(|by| keys.contains(&by.key));
        let known: Vec<usize> = (0..self.values.len())
            .filter(|at| is_known(&self.values[*at]))
            .collect();
        let rows: Vec<usize> = rows_of(set, table).collect();
        let expressions = self.conditions.iter().map(|(expr, _)| *expr);
        let expressions = expressions.chain(known.iter().map(|at| self.values[*at].0));
        self.view.effort.spend(rows.len(), expressions)?;
        let mut made = SetCells {
            keys,
            combinations: 0,
            groups: Vec::with_capacity(rows.len()),
            counts: Vec::with_capacity(rows.len()),
            distances: known.iter().map(|at| (*at, Vec::new())).collect(),
        };
        let places = self.places(&made.keys)?;
        for row in rows {
            let texts = &table.keys[row][usize::from(set.is_some())..];
            made.groups.push((place(&places, &made.keys, texts)?, row));
            let is_met = self.meets(texts)?;
            made.counts.push(match is_met {
                true => Some(self.count(row)?),
                false => None,
            });
            for at in &known {
                let distance = match is_met {
                    true => self.distance(*at, texts)?,
                    false => 0.0,
                };
                made.distances.get_mut(at)?.push(distance);
            }
        }
        // Every combination is one group.
        made.combinations = self.combinations(&made.keys);
        (made.groups.len() == made.combinations).then_some(made)
    }

    /// For each of these keys the places of its listed values.
    fn places(&self, keys: &[FinerKey]) -> Option<Vec<Places<'a>>> {
        let listed = |FinerKey(at): &FinerKey| &self.view.grain.keys[*at].values;
        let all: usize = keys.iter().map(|key| listed(key).len()).sum();
        self.view.effort.take_if_left(all as u64)?;
        let of_key = |key| {
            let values = listed(key).iter().enumerate();
            values.map(|(at, (printed, _))| (printed, at)).collect()
        };
        let places: Vec<Places<'a>> = keys.iter().map(of_key).collect();
        // Two values of one text would have one place.
        let mut both = places.iter().zip(keys);
        let is_whole = both.all(|(places, key)| places.len() == listed(key).len());
        is_whole.then_some(places)
    }

    fn evaluate(
        &self,
        (expr, by): &Decided<'_>,
        texts: &[Option<String>],
    ) -> Option<Option<Scalar>> {
        let of = |by: &DecidingKey<'_>| {
            let value = self.view.scalar(by.key, texts.get(by.key.0)?)?;
            Some((by.column, by.column_value(value)?))
        };
        let known: Vec<(ColumnId, KnownValue)> = by.iter().map(of).collect::<Option<_>>()?;
        evaluate_within(expr, &known).ok()
    }

    fn meets(&self, texts: &[Option<String>]) -> Option<bool> {
        let met = |condition| {
            let value = self.evaluate(condition, texts)?;
            Some(value == Some(Scalar::Bool(true)))
        };
        self.conditions
            .iter()
            .try_fold(true, |all, condition| Some(all && met(condition)?))
    }

    /// The noisy number of rows of a group.
    fn count(&self, row: usize) -> Option<f64> {
        let grain = self.view.grain;
        let CoordinateId(rows) = self.rows;
        let sums = sum_rows(grain, &[row])?;
        let whole = Rational::binary(sums.get(rows)?.clone(), *grain.refined.get(rows)?);
        Some(whole.over(&grain.divisor).to_f64())
    }

    /// How far a value is from the middle of its range; `None` where it is no finite number.
    fn distance(&self, at: usize, texts: &[Option<String>]) -> Option<f64> {
        let number = match self.evaluate(&self.values[at], texts)?? {
            Scalar::Int(number) => number as f64,
            Scalar::Decimal(text) => text.parse().ok()?,
            Scalar::Bool(_) | Scalar::Text(_) | Scalar::Date(_) => return None,
            Scalar::Timestamp(_) | Scalar::Interval { .. } => return None,
        };
        let ends = self.fixed_points[at].ends();
        let distance = number.clamp(ends.lo, ends.hi) - (ends.lo + ends.hi) / 2.0;
        (number.is_finite() && distance.is_finite()).then_some(distance)
    }
}

impl SetCells {
    /// The sum over all groups of their rows times these distances; and the weights of the groups,
    /// by their places.
    fn weigh(&self, factors: &[usize]) -> (f64, Vec<f64>) {
        let mut weights = vec![0.0; self.combinations];
        let mut sum = 0.0;
        for (group, (place, _)) in self.groups.iter().enumerate() {
            let Some(count) = self.counts[group] else {
                continue;
            };
            let distances = factors.iter().map(|value| self.distances[value][group]);
            let weight: f64 = distances.product();
            sum += weight * count;
            weights[*place] = weight;
        }
        (sum, weights)
    }
}

/// The places of a key's listed values by how they are printed.
type Places<'a> = HashMap<&'a Option<String>, usize>;

/// The place of a group among the combinations of the values of these keys, the last of which
/// varies fastest.
fn place(places: &[Places<'_>], keys: &[FinerKey], texts: &[Option<String>]) -> Option<usize> {
    let both = places.iter().zip(keys);
    both.map(|(listed, FinerKey(at))| (listed, texts.get(*at)))
        .try_fold(0, |place, (listed, text)| {
            Some(place * listed.len() + listed.get(text?)?)
        })
}

/// The rows of a table that are groups of a set.
fn rows_of(set: Option<usize>, table: &ReleasedTable) -> impl Iterator<Item = usize> {
    let number = set.map(|number| Some(number.to_string()));
    let rows = table.keys.iter().enumerate();
    rows.filter(move |(_, key)| {
        number
            .as_ref()
            .is_none_or(|number| key.first() == Some(number))
    })
    .map(|(row, _)| row)
}
