//! The noisy numbers of a summary, set by set of its keys.

use std::collections::HashMap;

use crate::aggregates::{Foreseen, MeasureId};
use crate::analyze::KeyRule;
use crate::catalog::Type;
use crate::ir::{KeyId, SetId};
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
    /// The standard deviation of the noise of one number, >= 0.
    pub deviation: f64,
}

/// The numbers of one quantity in one set.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisyQuantity {
    pub values: Vec<f64>,
    /// What each draw adds to a number: signed standard deviations. Numbers of one cell share
    /// draws, number by number in this order.
    pub noise: Vec<f64>,
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
    /// Whether the sets share their noise: what they add up to is then the same.
    pub shares_noise: bool,
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
        let rows = rows_by_set((release, table), &order, &values)?;
        let mut sets = Vec::with_capacity(rows.len());
        for (keys, rows) in rows {
            let size = keys.iter().map(|key| key.pick(&values).len()).product();
            let first = rows.first().map_or(0, |(_, row)| *row);
            let measure = |(quantity, id, by_row): &(Quantity, MeasureId, Vec<f64>)| {
                let measured = NoisyQuantity {
                    values: pick(by_row, (size, &rows))?,
                    noise: noise.noise(release.measure(*id), first),
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
            shares_noise: noise.is_by_effects(),
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
        let holders: Vec<&Marginal> = match self.shares_noise {
            true => holders
                .min_by_key(|set| set.size(&self.values))
                .into_iter()
                .collect(),
            false => holders.collect(),
        };
        let mut sum = vec![0.0; self.sizes(keys).iter().product()];
        let mut weights = 0.0;
        for set in holders {
            let cells = set.add_up(keys, parts, &self.values)?;
            let weight = 1.0 / (cells.deviation * cells.deviation).max(f64::MIN_POSITIVE);
            weights += weight;
            let both = sum.iter_mut().zip(cells.values);
            both.for_each(|(sum, value)| *sum += weight * value);
        }
        (weights > 0.0).then(|| Cells {
            values: sum.into_iter().map(|value| value / weights).collect(),
            deviation: weights.sqrt().recip(),
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

    /// The sum of quantities by fewer keys.
    fn add_up(
        &self,
        keys: &[SummaryKey],
        parts: &[(Quantity, f64)],
        values: &[Vec<Option<String>>],
    ) -> Option<Cells> {
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
        let added = places.len() as f64 / count.max(1) as f64;
        let squares: f64 = noise.iter().map(|part| part * part).sum();
        Some(Cells {
            values: sums,
            deviation: (squares * added).sqrt(),
        })
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
