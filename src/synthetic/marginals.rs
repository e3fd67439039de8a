//! The noisy numbers of a summary, set by set of its keys.

use std::collections::HashMap;

use crate::aggregates::{Foreseen, MeasureId};
use crate::analyze::KeyRule;
use crate::ir::{KeyId, SetId};
use crate::release::ReleasedTable;
use crate::rewrite::{ReleasePlan, key_text};

/// What a summary has numbers of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Rows.
    Rows,
    /// Rows in which the measure of this place is not NULL.
    Known(usize),
    /// The sum of the measure of this place.
    Sum(usize),
}

/// A noisy number for each combination of the values of some keys, that of the last key varying
/// fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Cells {
    pub values: Vec<f64>,
    /// The standard deviation of the noise of one number, >= 0.
    pub deviation: f64,
}

/// A set of keys with its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Marginal {
    /// The places of its keys, ascending.
    pub keys: Vec<usize>,
    pub quantities: HashMap<Quantity, Cells>,
}

/// The numbers of a summary.
#[derive(Debug, Clone, PartialEq)]
pub struct Marginals {
    /// The values of each key, as PostgreSQL prints them; `None` is NULL.
    pub values: Vec<Vec<Option<String>>>,
    pub sets: Vec<Marginal>,
    /// How many measures it has.
    pub measures: usize,
}

impl Marginals {
    /// Those of a stored summary; `None` where the table is not of this release.
    pub fn read(release: &ReleasePlan, table: &ReleasedTable) -> Option<Self> {
        let values: Vec<Vec<Option<String>>> = release
            .keys()
            .iter()
            .map(print_values)
            .collect::<Option<_>>()?;
        let columns = quantities(release)?;
        let sets: Vec<Vec<usize>> = match release.sets() {
            [] => vec![(0..values.len()).collect()],
            sets => sets
                .iter()
                .map(|set| set.keys().map(|KeyId(at)| at).collect())
                .collect(),
        };
        let numbered = usize::from(!release.sets().is_empty());
        let mut rows: Vec<Vec<(usize, usize)>> = vec![Vec::new(); sets.len()];
        let places = values
            .iter()
            .map(|of_key| places(of_key))
            .collect::<Vec<_>>();
        for (row, key) in table.keys.iter().enumerate() {
            let set = match numbered {
                0 => 0,
                _ => SetId::read(key.first()?.as_deref()?)?.0,
            };
            let of_set = sets.get(set)?;
            let mut cell = 0;
            for at in of_set {
                let text = key.get(numbered + at)?;
                cell = cell * values[*at].len() + places[*at].get(text)?;
            }
            rows[set].push((cell, row));
        }
        let sets = sets.into_iter().zip(rows);
        let marginal = |(keys, rows): (Vec<usize>, Vec<(usize, usize)>)| {
            let size = keys.iter().map(|at| values[*at].len()).product();
            let quantities = columns.iter().map(|(quantity, measure)| {
                let cells = cells((release, table), *measure, (size, &rows))?;
                Some((*quantity, cells))
            });
            Some(Marginal {
                quantities: quantities.collect::<Option<_>>()?,
                keys,
            })
        };
        Some(Self {
            sets: sets.map(marginal).collect::<Option<_>>()?,
            measures: columns
                .iter()
                .filter(|(q, _)| matches!(q, Quantity::Sum(_)))
                .count(),
            values,
        })
    }

    /// How many values the keys have.
    pub fn sizes(&self, keys: &[usize]) -> Vec<usize> {
        keys.iter().map(|at| self.values[*at].len()).collect()
    }

    /// Whether some set has all of these keys.
    pub fn is_measured(&self, keys: &[usize]) -> bool {
        self.sets.iter().any(|set| set.has(keys))
    }

    /// The best estimate of a quantity by these keys, ascending: the average of what each set that
    /// has them adds up to, by how exact it is. `None` where no set has them all.
    pub fn estimate(&self, keys: &[usize], quantity: Quantity) -> Option<Cells> {
        let mut sum = vec![0.0; self.sizes(keys).iter().product()];
        let mut weights = 0.0;
        for set in self.sets.iter().filter(|set| set.has(keys)) {
            let cells = set.add_up(keys, quantity, &self.values)?;
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
    fn has(&self, keys: &[usize]) -> bool {
        keys.iter().all(|key| self.keys.contains(key))
    }

    /// The quantity by fewer keys.
    fn add_up(
        &self,
        keys: &[usize],
        quantity: Quantity,
        values: &[Vec<Option<String>>],
    ) -> Option<Cells> {
        let finer = self.quantities.get(&quantity)?;
        let size: usize = keys.iter().map(|key| values[*key].len()).product();
        let mut sums = vec![0.0; size];
        for (cell, value) in finer.values.iter().enumerate() {
            let codes = codes(cell, &self.keys, values);
            let code =
                |key: &usize| codes[self.keys.iter().position(|own| own == key).unwrap_or(0)];
            let coarse = keys
                .iter()
                .fold(0, |sum, key| sum * values[*key].len() + code(key));
            sums[coarse] += value;
        }
        let added = finer.values.len() as f64 / size.max(1) as f64;
        Some(Cells {
            values: sums,
            deviation: finer.deviation * added.sqrt(),
        })
    }
}

/// The place of each key's value in a cell.
pub(super) fn codes(mut cell: usize, keys: &[usize], values: &[Vec<Option<String>>]) -> Vec<usize> {
    let mut codes = vec![0; keys.len()];
    for (code, key) in codes.iter_mut().zip(keys).rev() {
        let size = values[*key].len().max(1);
        *code = cell % size;
        cell /= size;
    }
    codes
}

fn print_values(
    (data_type, rule): &(crate::catalog::Type, KeyRule),
) -> Option<Vec<Option<String>>> {
    let KeyRule::Domain(values) = rule else {
        return None;
    };
    let text = |value: &Option<_>| value.as_ref().map(|value| key_text(value, data_type));
    Some(values.iter().map(text).collect())
}

fn places(values: &[Option<String>]) -> HashMap<&Option<String>, usize> {
    values
        .iter()
        .enumerate()
        .map(|(at, value)| (value, at))
        .collect()
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
    let of_averages = averages
        .enumerate()
        .flat_map(|(at, (sum, count))| [(Quantity::Known(at), count), (Quantity::Sum(at), sum)]);
    Some(
        std::iter::once((Quantity::Rows, rows))
            .chain(of_averages)
            .collect(),
    )
}

/// The noisy numbers of one measure in one set: its `size` cells, each with its row in the table.
fn cells(
    (release, table): (&ReleasePlan, &ReleasedTable),
    measure: MeasureId,
    (size, rows): (usize, &[(usize, usize)]),
) -> Option<Cells> {
    let mut values = vec![0.0; size];
    for (cell, row) in rows {
        *values.get_mut(*cell)? = table.measures.get(*row)?.get(measure.0)?.parse().ok()?;
    }
    let noise = table.drawn.as_ref()?;
    let first = rows.first().map_or(0, |(_, row)| *row);
    let noise = noise.noise(release.measure(measure), first);
    Some(Cells {
        values,
        deviation: noise.iter().map(|part| part * part).sum::<f64>().sqrt(),
    })
}
