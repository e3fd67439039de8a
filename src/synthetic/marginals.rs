//! The noisy numbers of a summary, set by set of its keys.

use std::collections::HashMap;

use crate::aggregates::{Foreseen, MeasureId};
use crate::analyze::KeyRule;
use crate::catalog::Type;
use crate::ir::{KeyId, SetId};
use crate::mechanism::Effects;
use crate::policy::{KeySet, Summary, SummaryKey, SummaryMeasure};
use crate::release::ReleasedTable;
use crate::rewrite::{Measure, ReleasePlan, key_text};

/// What a summary has numbers of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Rows.
    Rows,
    /// Rows in which the measure is not NULL.
    Known(SummaryMeasure),
    /// The sum of the measure.
    Sum(SummaryMeasure),
}

/// Noisy numbers, each of one combination of the values of some keys, that of the last key varying
/// fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Cells {
    pub values: Vec<f64>,
    /// The standard deviation of the noise of each number, >= 0; a single one where all have the
    /// same.
    pub deviations: Vec<f64>,
}

impl Cells {
    /// The standard deviation of the noise of one number.
    pub fn deviation(&self, cell: usize) -> f64 {
        match self.deviations.as_slice() {
            [all] => *all,
            each => each[cell],
        }
    }
}

/// The numbers of one quantity in one set.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisyQuantity {
    pub values: Vec<f64>,
    /// What each draw adds to a number: signed standard deviations. Numbers of one cell share
    /// draws, number by number in this order. Where the sets share their noise, what each draw adds
    /// to an effect of weight 1.
    pub noise: Vec<f64>,
}

/// The noise that all sets share: their numbers are computed from these effects.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedEffects {
    pub effects: Effects,
    /// For each key of the effects, the summary's key.
    pub keys: Vec<SummaryKey>,
}

impl SharedEffects {
    /// The standard deviation of the number of each combination of the values of some keys, the
    /// last of which varies fastest, if an effect of weight 1 has noise of deviation 1; a single
    /// one where all have the same. They are those of the sums of any set that has these keys:
    /// other effects of the set add up to zero.
    fn deviations(&self, keys: &[SummaryKey]) -> Option<Vec<f64>> {
        let place = |key| self.keys.iter().position(|own| own == key);
        let set: Vec<usize> = keys.iter().map(place).collect::<Option<_>>()?;
        let variances = self.effects.variances(&set).into_iter();
        Some(variances.map(f64::sqrt).collect())
    }
}

/// A set of keys with its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Marginal {
    /// In any order: the last one varies fastest in the numbers.
    pub keys: Vec<SummaryKey>,
    pub quantities: HashMap<Quantity, NoisyQuantity>,
}

/// The numbers of a summary.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisyMarginals {
    /// The values of each key, as PostgreSQL prints them; `None` is NULL.
    pub values: Vec<Vec<Option<String>>>,
    pub sets: Vec<Marginal>,
    /// How many measures it has.
    pub measures: usize,
    /// The noise that the sets share, if they do: what they add up to is then the same.
    pub shared: Option<SharedEffects>,
}

impl NoisyMarginals {
    /// The marginals of a stored summary; `None` if the table does not belong to this release.
    pub fn read(summary: &Summary, release: &ReleasePlan, table: &ReleasedTable) -> Option<Self> {
        let order = order_of_keys(summary, release);
        let mut values = vec![Vec::new(); order.len()];
        for ((data_type, rule), at) in release.keys().iter().zip(&order) {
            values[at.0] = print_values(data_type, rule)?;
        }
        let mut columns = Vec::new();
        for (quantity, id) in quantities(release)? {
            columns.push((quantity, id, values_by_row((release, table), id)?));
        }
        let noise = table.drawn.as_ref()?;
        let sizes = order.iter().map(|key| values[key.0].len());
        let shared = match noise.is_by_effects() {
            false => None,
            true => Some(SharedEffects {
                effects: noise
                    .effects()
                    .filter(|own| sizes.eq(own.sizes().iter().copied()))?
                    .clone(),
                keys: order.clone(),
            }),
        };
        let rows = rows_by_set((release, table), &order, &values)?;
        let mut sets = Vec::with_capacity(rows.len());
        for (keys, rows) in rows {
            let size = keys.iter().map(|key| key.pick(&values).len()).product();
            let first = rows.first().map_or(0, |(_, row)| *row);
            let measure = |(quantity, id, by_row): &(Quantity, MeasureId, Vec<f64>)| {
                let of = release.measure(*id);
                let measured = NoisyQuantity {
                    values: pick(by_row, (size, &rows))?,
                    noise: match shared {
                        Some(_) => noise.noise_of_effect(of)?,
                        None => noise.noise(of, first),
                    },
                };
                Some((*quantity, measured))
            };
            sets.push(Marginal {
                quantities: columns.iter().map(measure).collect::<Option<_>>()?,
                keys,
            });
        }
        let sums = columns
            .iter()
            .filter(|(q, ..)| matches!(q, Quantity::Sum(_)));
        Some(Self {
            measures: sums.count(),
            shared,
            values,
            sets,
        })
    }

    /// How many values the keys have.
    pub fn sizes(&self, keys: &[SummaryKey]) -> Vec<usize> {
        let size = |key: &SummaryKey| key.pick(&self.values).len();
        keys.iter().map(size).collect()
    }

    /// The best estimate of a quantity by these keys, ascending. `None` where no set has them all.
    pub fn estimate(&self, keys: &[SummaryKey], quantity: Quantity) -> Option<Cells> {
        self.estimate_sum(keys, &[(quantity, 1.0)])
    }

    /// The best estimate of a sum of quantities, each times a factor.
    ///
    /// Sets whose noise is independent are averaged by how exact what they add up to is. Of sets
    /// that share noise, the one with the fewest cells serves: the others add up to the same.
    pub fn estimate_sum(&self, keys: &[SummaryKey], parts: &[(Quantity, f64)]) -> Option<Cells> {
        let holders = self.sets.iter().filter(|set| set.has(keys));
        if let Some(shared) = &self.shared {
            let set = holders.min_by_key(|set| set.size(&self.values))?;
            let (values, one) = set.add_up(keys, parts, &self.values)?;
            let deviations = shared.deviations(keys)?.into_iter();
            return Some(Cells {
                values,
                deviations: deviations.map(|of_cell| of_cell * one).collect(),
            });
        }
        let count: usize = self.sizes(keys).iter().product();
        let mut sum = vec![0.0; count];
        let mut weights = 0.0;
        for set in holders {
            let (values, one) = set.add_up(keys, parts, &self.values)?;
            let added = set.size(&self.values) as f64 / count.max(1) as f64;
            let weight = 1.0 / (one * one * added).max(f64::MIN_POSITIVE);
            weights += weight;
            let both = sum.iter_mut().zip(values);
            both.for_each(|(sum, value)| *sum += weight * value);
        }
        (weights > 0.0).then(|| Cells {
            values: sum.into_iter().map(|value| value / weights).collect(),
            deviations: vec![weights.sqrt().recip()],
        })
    }
}

impl Marginal {
    fn has(&self, keys: &[SummaryKey]) -> bool {
        keys.iter().all(|key| self.keys.contains(key))
    }

    /// How many cells it has.
    fn size(&self, values: &[Vec<Option<String>>]) -> usize {
        self.keys.iter().map(|key| key.pick(values).len()).product()
    }

    /// The sum of quantities by fewer keys, and the standard deviation that it has in one cell of
    /// this set; where noise is shared, in an effect of weight 1.
    fn add_up(
        &self,
        keys: &[SummaryKey],
        parts: &[(Quantity, f64)],
        values: &[Vec<Option<String>>],
    ) -> Option<(Vec<f64>, f64)> {
        let count: usize = keys.iter().map(|key| key.pick(values).len()).product();
        let places = self.coarse_places(keys, values);
        let mut sums = vec![0.0; count];
        let mut noise: Vec<f64> = Vec::new();
        for (quantity, factor) in parts {
            let finer = self.quantities.get(quantity)?;
            for (place, value) in places.iter().zip(&finer.values) {
                sums[*place] += factor * value;
            }
            noise.resize(noise.len().max(finer.noise.len()), 0.0);
            let both = noise.iter_mut().zip(&finer.noise);
            both.for_each(|(noise, part)| *noise += factor * part);
        }
        let squares: f64 = noise.iter().map(|part| part * part).sum();
        Some((sums, squares.sqrt()))
    }

    /// For each of its cells, the cell of fewer keys that it is in.
    fn coarse_places(&self, keys: &[SummaryKey], values: &[Vec<Option<String>>]) -> Vec<usize> {
        let mut places = vec![0];
        for key in &self.keys {
            let size = key.pick(values).len();
            // What one step of this key is among the cells of fewer keys; 0 where it is not there.
            let step = match keys.iter().position(|kept| kept == key) {
                Some(at) => keys[at + 1..]
                    .iter()
                    .map(|after| after.pick(values).len())
                    .product(),
                None => 0,
            };
            let with = |place: &usize| {
                let place = *place;
                (0..size).map(move |code| place + code * step)
            };
            places = places.iter().flat_map(with).collect();
        }
        places
    }
}

/// For each key of the release, the summary's key: the release has them in the order in which the
/// summary's statement first groups by them.
fn order_of_keys(summary: &Summary, release: &ReleasePlan) -> Vec<SummaryKey> {
    if release.sets().is_empty() {
        return SummaryKey::all(summary.keys.len()).collect();
    }
    let mut order: Vec<SummaryKey> = Vec::with_capacity(summary.keys.len());
    for key in summary.marginals.iter().flat_map(KeySet::keys) {
        if !order.contains(&key) {
            order.push(key);
        }
    }
    order
}

fn print_values(data_type: &Type, rule: &KeyRule) -> Option<Vec<Option<String>>> {
    let KeyRule::Domain(values) = rule else {
        return None;
    };
    let text = |value: &Option<_>| value.as_ref().map(|value| key_text(value, data_type));
    Some(values.iter().map(text).collect())
}

/// The cells of a set, each with its row in the table.
type Rows = Vec<(usize, usize)>;

/// For each set, its keys and where its cells are.
fn rows_by_set(
    (release, table): (&ReleasePlan, &ReleasedTable),
    order: &[SummaryKey],
    values: &[Vec<Option<String>>],
) -> Option<Vec<(Vec<SummaryKey>, Rows)>> {
    let place = |KeyId(at): KeyId| order.get(at).copied();
    let mut sets: Vec<(Vec<SummaryKey>, Rows)> = match release.sets() {
        [] => vec![(order.to_vec(), Vec::new())],
        sets => {
            let keys = |set: &crate::ir::GroupingSet| set.keys().map(place).collect::<Option<_>>();
            sets.iter()
                .map(|set| Some((keys(set)?, Vec::new())))
                .collect::<Option<_>>()?
        }
    };
    let numbered = usize::from(!release.sets().is_empty());
    let places: Vec<HashMap<&Option<String>, usize>> = values
        .iter()
        .map(|of_key| {
            of_key
                .iter()
                .enumerate()
                .map(|(at, value)| (value, at))
                .collect()
        })
        .collect();
    for (row, key) in table.keys.iter().enumerate() {
        let set = match numbered {
            0 => 0,
            _ => SetId::read(key.first()?.as_deref()?)?.0,
        };
        let (keys, rows) = sets.get_mut(set)?;
        let mut cell = 0;
        for at in keys.iter() {
            let own = order.iter().position(|other| other == at)?;
            let code = at.pick(&places).get(key.get(numbered + own)?)?;
            cell = cell * at.pick(values).len() + code;
        }
        rows.push((cell, row));
    }
    Some(sets)
}

/// Where the summary's quantities are: the number of rows is its first aggregate, and an average
/// of each measure has its sum and the rows that it is of.
fn quantities(release: &ReleasePlan) -> Option<Vec<(Quantity, MeasureId)>> {
    let mut outputs = release
        .outputs()
        .iter()
        .map(|(output, _)| output.foreseen());
    let Some(Foreseen::Measure(rows)) = outputs.next() else {
        return None;
    };
    let averages = outputs.filter_map(|foreseen| match foreseen {
        Foreseen::OverRows { sum, count, .. } => Some((sum, count)),
        _ => None,
    });
    let of_averages = averages.enumerate().flat_map(|(at, (sum, count))| {
        let measure = SummaryMeasure(at);
        [
            (Quantity::Known(measure), count),
            (Quantity::Sum(measure), sum),
        ]
    });
    Some(
        std::iter::once((Quantity::Rows, rows))
            .chain(of_averages)
            .collect(),
    )
}

/// The numbers of one measure, in the table's order of rows.
fn values_by_row(
    (release, table): (&ReleasePlan, &ReleasedTable),
    id: MeasureId,
) -> Option<Vec<f64>> {
    if let Measure::Count(_) = release.measure(id) {
        return table.unclamped_counts(release, id);
    }
    let shown = |row: &Vec<String>| row.get(id.0)?.parse().ok();
    table.measures.iter().map(shown).collect()
}

/// The values of one set of `size` cells.
fn pick(by_row: &[f64], (size, rows): (usize, &Rows)) -> Option<Vec<f64>> {
    let mut values = vec![0.0; size];
    for (cell, row) in rows {
        *values.get_mut(*cell)? = *by_row.get(*row)?;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_traits::ToPrimitive;

    use super::*;

    const ROWS: f64 = 3.0;
    const SUM: [f64; 2] = [-2.0, 5.0];

    /// The summary's keys of the effects' keys, which are in another order.
    const KEYS: [usize; 4] = [2, 0, 3, 1];

    /// The numbers that a single integer of an effect makes, with noise of a count and of a sum,
    /// which share a draw.
    fn numbers(effects: &Effects, sets: &[Vec<usize>], noisy: &[Vec<BigInt>]) -> NoisyMarginals {
        let divisor = effects.divisor().to_f64().unwrap();
        let of_set = |(keys, groups): (&Vec<usize>, Vec<BigInt>)| {
            let groups = groups.iter().map(|group| group.to_f64().unwrap() / divisor);
            let groups: Vec<f64> = groups.collect();
            let measured = |noise: &[f64]| NoisyQuantity {
                values: groups.clone(),
                noise: noise.to_vec(),
            };
            Marginal {
                keys: keys.iter().map(|key| SummaryKey(KEYS[*key])).collect(),
                quantities: HashMap::from([
                    (Quantity::Rows, measured(&[ROWS])),
                    (Quantity::Sum(SummaryMeasure(0)), measured(&SUM)),
                ]),
            }
        };
        let mut values = vec![Vec::new(); KEYS.len()];
        for (key, size) in KEYS.iter().zip(effects.sizes()) {
            values[*key] = (0..*size).map(|value| Some(value.to_string())).collect();
        }
        let groups = effects.groups(sets, noisy);
        NoisyMarginals {
            values,
            sets: sets.iter().zip(groups).map(of_set).collect(),
            measures: 1,
            shared: Some(SharedEffects {
                effects: effects.clone(),
                keys: KEYS.map(SummaryKey).to_vec(),
            }),
        }
    }

    /// Noise is linear in the draws. So the variance of each number is what all integers of all
    /// effects add to it, one at a time, squared: that of the numbers as they are computed, with
    /// ranges and without, of sets and of sums that a finer set serves.
    #[test]
    fn deviations_of_shared_noise_are_those_of_the_numbers() {
        let sets = [vec![0, 1], vec![1, 2], vec![0, 3]];
        for ranges in [vec![], vec![0], vec![0, 2]] {
            let effects = Effects::new(vec![5, 3, 4, 2], ranges.clone(), &sets).unwrap();
            let measured = effects.measured_effects();
            let zero = |effect| vec![BigInt::ZERO; effects.integers_in(effect)];
            let silent: Vec<Vec<BigInt>> = measured.iter().map(zero).collect();
            let marginals = numbers(&effects, &sets, &silent);
            let mut variances: HashMap<&[usize], Vec<f64>> = HashMap::new();
            let asked: [&[usize]; 8] = [&[], &[0], &[1], &[2], &[3], &[0, 2], &[0, 3], &[1, 2]];
            for (effect, integers) in silent.iter().enumerate() {
                for at in 0..integers.len() {
                    let mut noisy = silent.clone();
                    noisy[effect][at] = BigInt::from(1);
                    let moved = numbers(&effects, &sets, &noisy);
                    for keys in asked {
                        let keyed: Vec<SummaryKey> = keys.iter().copied().map(SummaryKey).collect();
                        let values = moved.estimate(&keyed, Quantity::Rows).unwrap().values;
                        let all = variances.entry(keys).or_insert(vec![0.0; values.len()]);
                        let weight = measured[effect].weight() as f64;
                        let both = all.iter_mut().zip(values);
                        both.for_each(|(all, value)| *all += (value / weight).powi(2));
                    }
                }
            }
            for keys in asked {
                let keyed: Vec<SummaryKey> = keys.iter().copied().map(SummaryKey).collect();
                let rows = marginals.estimate(&keyed, Quantity::Rows).unwrap();
                let parts = [
                    (Quantity::Sum(SummaryMeasure(0)), 1.0),
                    (Quantity::Rows, -1.5),
                ];
                let both = marginals.estimate_sum(&keyed, &parts).unwrap();
                let shared = (SUM[0] - 1.5 * ROWS).hypot(SUM[1]);
                for (cell, variance) in variances[keys].iter().enumerate() {
                    for (found, one) in [(&rows, ROWS), (&both, shared)] {
                        let (found, wanted) = (found.deviation(cell), variance.sqrt() * one);
                        assert!(
                            (found / wanted - 1.0).abs() < 1e-9,
                            "{ranges:?} {keys:?} {cell}: {found} {wanted}"
                        );
                    }
                }
                // The values of a key with ranges have different noise.
                let has_ranges = ranges.iter().any(|at| keys.contains(&KEYS[*at]));
                assert_eq!(rows.deviations.len() > 1, has_ranges, "{ranges:?} {keys:?}");
            }
        }
    }
}
