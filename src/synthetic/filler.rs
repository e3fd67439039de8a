//! The values of a made-up table's columns.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use rand::Rng;
use rand::seq::IndexedRandom;

use super::marginals::NoisyMarginals;
use super::parents::Belonging;
use super::sample::Sample;
use super::turns::{has_enough, turns, value_count};
use super::values::{
    around, between, bounds, constant, fits, has_numbers, is_filled, list_values, number_rows,
    within,
};
use crate::catalog::{UniqueKey, UserType};
use crate::policy::{
    Column, ColumnPosition, Protection, Summary, SummaryColumn, SummaryKey, SummaryMeasure, Table,
    UnitStep,
};

/// Where the values of a made-up column come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnSource {
    /// The values of a key of the summary.
    Key(SummaryKey),
    /// Values around the means of a measure of the summary.
    Measure(SummaryMeasure),
    /// Each row has its own number.
    Number,
    /// The numbers of that many rows of the table that the column refers to.
    Parent(usize),
    /// In no summary, but in a unique key with the column that refers to the parent: each row of
    /// one parent has another value, as long as there are enough.
    Turn,
    /// The policy's list, or the labels of an enum, each as often as another.
    Listed,
    /// Between the policy's bounds, each as often as another.
    Between,
    /// NULL, also where the database's column is NOT NULL and of a type that is not known here.
    Null,
    /// One value of its type, since it may not be NULL.
    Constant,
}

/// What a table's rows have to fit.
pub struct FillContext<'a> {
    /// The policy's enums and domains.
    pub types: &'a [UserType],
    /// The made-up values of the column that this table's path to its unit leads to first, where
    /// each row there has its own.
    pub parents: Option<&'a [Option<String>]>,
    /// The columns of this table that others refer to.
    pub referenced: &'a HashSet<&'a str>,
}

/// The rows that made-up rows belong to.
#[derive(Debug, Clone, PartialEq)]
pub struct Parents<'a> {
    /// How many rows are made up.
    rows: usize,
    /// What rows refer to: the value of each row of the other table.
    values: &'a [Option<String>],
    /// The parent of each row, by its number among the other table's rows; empty where there is no
    /// such table.
    of_rows: Vec<usize>,
    /// For each row, the codes of the keys that its parent has.
    known: Vec<Vec<usize>>,
}

impl<'a> Parents<'a> {
    /// Rows that belong to no other made-up row.
    pub fn none(rows: usize) -> Self {
        Self {
            rows,
            values: &[],
            of_rows: Vec::new(),
            known: Vec::new(),
        }
    }

    /// The parent of each row, by its place among these values, and the codes of the keys that it
    /// has.
    pub fn of_rows(
        values: &'a [Option<String>],
        of_rows: Vec<usize>,
        known: Vec<Vec<usize>>,
    ) -> Self {
        Self {
            rows: of_rows.len(),
            values,
            of_rows,
            known,
        }
    }
}

/// A made-up table.
#[derive(Debug, Clone, PartialEq)]
pub struct Filled {
    /// Column by column, parallel to the table's; `None` is NULL.
    pub columns: Vec<Vec<Option<String>>>,
    /// The parent of each row, where the table has a column that refers to it; otherwise empty.
    pub parents: Vec<usize>,
    /// How many rows were dropped, because they repeated a unique key.
    pub dropped: usize,
    /// How many became copies of others, for the same reason.
    pub copied: usize,
}

/// A table whose rows are made up.
pub struct Filler<'a> {
    pub table: &'a Table,
    /// Parallel to the table's columns.
    pub sources: Vec<ColumnSource>,
    keys: &'a [SummaryColumn],
}

impl<'a> Filler<'a> {
    /// Chooses the source of each column of a table with that many rows.
    pub fn new(
        table: &'a Table,
        summary: &'a Summary,
        rows: usize,
        around: &FillContext<'_>,
    ) -> Self {
        let parents = around.parents.unwrap_or_default();
        let source = |(at, column): (usize, &Column)| {
            let place = |places: &[ColumnPosition]| places.iter().position(|place| place.0 == at);
            let is_numbered =
                is_identity(table, column) || around.referenced.contains(&*column.name);
            let refers = first_step(table).is_some_and(|first| first.column == column.name);
            let is_child = refers
                && !parents.is_empty()
                && parents.iter().all(|value| {
                    value
                        .as_ref()
                        .is_some_and(|value| fits(&column.data_type, value))
                });
            let key = summary
                .keys
                .iter()
                .position(|key| key.steps == 0 && key.column() == Some(ColumnPosition(at)));
            if let Some(key) = key {
                ColumnSource::Key(SummaryKey(key))
            } else if let Some(measure) = place(&summary.measures) {
                ColumnSource::Measure(SummaryMeasure(measure))
            } else if is_child {
                ColumnSource::Parent(parents.len())
            } else if (is_numbered || refers) && has_numbers(&column.data_type, rows) {
                ColumnSource::Number
            } else if !list_values(column).is_empty() {
                ColumnSource::Listed
            } else if bounds(column).is_some() {
                ColumnSource::Between
            } else if is_filled(column, around.types) && constant(&column.data_type).is_some() {
                ColumnSource::Constant
            } else {
                ColumnSource::Null
            }
        };
        let mut sources: Vec<ColumnSource> = table.columns.iter().enumerate().map(source).collect();
        let is_parent = |source: &ColumnSource| matches!(source, ColumnSource::Parent(_));
        if let Some(at) = sources.iter().position(is_parent) {
            for others in rest_of_keys(table, ColumnPosition(at)) {
                take_turns(table, &mut sources, &others);
            }
        }
        Self {
            sources,
            table,
            keys: &summary.keys,
        }
    }

    /// Whether a row has its parent alone, by a unique key.
    pub fn is_only_child(&self) -> bool {
        let is_parent = |source: &ColumnSource| matches!(source, ColumnSource::Parent(_));
        let at = self.sources.iter().position(is_parent).map(ColumnPosition);
        at.is_some_and(|at| rest_of_keys(self.table, at).iter().any(Vec::is_empty))
    }

    /// The rows of a sample. There may be fewer than it has: a row that repeats a unique key with
    /// the column that refers to its parent is dropped, if it can neither change its parent nor
    /// become a copy of another.
    pub fn fill(
        &self,
        sample: &Sample,
        marginals: &NoisyMarginals,
        belonging: Parents<'_>,
        random: &mut impl Rng,
    ) -> Filled {
        let Parents {
            rows,
            values: referred,
            of_rows: parents,
            known,
        } = belonging;
        let mut filled = Filled {
            columns: self.draw_columns((sample, marginals), rows, random),
            parents: Vec::new(),
            dropped: 0,
            copied: 0,
        };
        let is_parent = |source: &ColumnSource| matches!(source, ColumnSource::Parent(_));
        let at = self.sources.iter().position(is_parent).map(ColumnPosition);
        if let Some(at) = at.filter(|_| parents.len() == rows) {
            filled.parents = parents;
            self.settle_parents((at, referred), &known, &mut filled, random);
        }
        let rows = filled.columns.iter().map(Vec::len).min().unwrap_or(0);
        let columns = self.table.columns.iter().zip(&self.sources);
        for ((column, source), values) in columns.zip(&mut filled.columns) {
            if let ColumnSource::Number = source {
                *values = number_rows(&column.data_type, rows);
            }
        }
        filled
    }

    /// The values of all columns but those that depend on other columns.
    fn draw_columns(
        &self,
        (sample, marginals): (&Sample, &NoisyMarginals),
        rows: usize,
        random: &mut impl Rng,
    ) -> Vec<Vec<Option<String>>> {
        let mut columns: Vec<Vec<Option<String>>> = Vec::with_capacity(self.sources.len());
        for (column, source) in self.table.columns.iter().zip(&self.sources) {
            let values = match source {
                ColumnSource::Key(key) => {
                    let of = key.pick(self.keys);
                    let mut value = |code: &usize| {
                        let value = key.pick(&marginals.values)[*code].clone()?;
                        match of.bins() {
                            None => Some(value),
                            Some(_) => within(column, of.bin(value.parse().ok()?)?, random),
                        }
                    };
                    key.pick(&sample.keys).iter().map(&mut value).collect()
                }
                ColumnSource::Measure(of) => around(column, &sample.means[of.0], random),
                // Once the other columns are there.
                ColumnSource::Parent(_) | ColumnSource::Number | ColumnSource::Turn => {
                    vec![None; rows]
                }
                ColumnSource::Listed => {
                    let values = list_values(column);
                    (0..rows).map(|_| values.choose(random).cloned()).collect()
                }
                ColumnSource::Between => (0..rows).map(|_| between(column, random)).collect(),
                ColumnSource::Null => vec![None; rows],
                ColumnSource::Constant => vec![constant(&column.data_type); rows],
            };
            columns.push(values);
        }
        columns
    }

    /// Gives each row a parent, so that the unique keys with the column hold, and drops rows for
    /// which there is none.
    fn settle_parents(
        &self,
        (at, referred): (ColumnPosition, &[Option<String>]),
        known: &[Vec<usize>],
        filled: &mut Filled,
        random: &mut impl Rng,
    ) {
        let keys = rest_of_keys(self.table, at);
        let places = self.sources.iter().enumerate();
        let of_turns = places.filter(|(_, source)| **source == ColumnSource::Turn);
        // A column with few values cannot make a key hold by itself: the whole key is compared.
        let (enough, few): (Vec<usize>, Vec<usize>) = of_turns
            .map(|(place, _)| place)
            .partition(|place| has_enough(&self.table.columns[*place], &filled.parents));
        for place in few {
            let column = &self.table.columns[place];
            filled.columns[place] = turns(column, &filled.parents, random);
        }
        let is_compared = |key: &&Vec<ColumnPosition>| {
            let holds = |other: &ColumnPosition| {
                self.sources[other.0] == ColumnSource::Number || enough.contains(&other.0)
            };
            // Of a key without other columns, nothing can be exchanged.
            !key.is_empty() && !key.iter().any(holds)
        };
        let compared = keys.iter().filter(is_compared);
        let mut belonging = Belonging {
            parents: &mut filled.parents,
            known,
            others: compared
                .map(|key| combinations(&filled.columns, key))
                .collect(),
        };
        let copies = belonging.settle(random);
        filled.copied = copies.len();
        for (row, from) in copies {
            for column in &mut filled.columns {
                column[row] = column[from].clone();
            }
        }
        let of_row = |parent: &usize| referred[*parent].clone();
        filled.columns[at.0] = filled.parents.iter().map(of_row).collect();
        for place in enough {
            let column = &self.table.columns[place];
            filled.columns[place] = turns(column, &filled.parents, random);
        }
        for key in &keys {
            let places: Vec<ColumnPosition> = key.iter().copied().chain([at]).collect();
            filled.drop_repeated(&places);
        }
    }
}

impl Filled {
    /// Drops rows that repeat a unique key of these columns.
    fn drop_repeated(&mut self, places: &[ColumnPosition]) {
        let mut seen = HashSet::new();
        // PostgreSQL counts no NULL as equal to another.
        let mut is_new = |has: &Option<usize>| has.is_none_or(|has| seen.insert(has));
        let all = combinations(&self.columns, places);
        let kept: Vec<bool> = all.iter().map(&mut is_new).collect();
        self.dropped += kept.iter().filter(|kept| !**kept).count();
        for column in &mut self.columns {
            retain(column, &kept);
        }
        retain(&mut self.parents, &kept);
    }
}

fn retain<T>(values: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    values.retain(|_| kept.next().copied().unwrap_or(true));
}

/// A number for each combination of values of these columns; `None` where one is NULL.
fn combinations(columns: &[Vec<Option<String>>], places: &[ColumnPosition]) -> Vec<Option<usize>> {
    let rows = columns.iter().map(Vec::len).min().unwrap_or(0);
    let mut known: HashMap<Vec<&str>, usize> = HashMap::new();
    let of_row = |row: usize| {
        let value = |at: &ColumnPosition| columns[at.0][row].as_deref();
        let values = places.iter().map(value).collect::<Option<Vec<&str>>>()?;
        let next = known.len();
        Some(*known.entry(values).or_insert(next))
    };
    (0..rows).map(of_row).collect()
}

/// The other columns of each unique key of the table that has this one.
fn rest_of_keys(table: &Table, at: ColumnPosition) -> Vec<Vec<ColumnPosition>> {
    let columns = &table.columns;
    let name = columns[at.0].name.as_str();
    let with_it = |key: &&UniqueKey| key.names().any(|other| other == name);
    let place = |name: &str| {
        columns
            .iter()
            .position(|c| c.name == name)
            .map(ColumnPosition)
    };
    let rest = |key: &UniqueKey| {
        let places = key.names().map(place).collect::<Option<Vec<_>>>()?;
        Some(places.into_iter().filter(|other| *other != at).collect())
    };
    table
        .unique_keys
        .iter()
        .filter(with_it)
        .filter_map(rest)
        .collect()
}

/// Lets a column that no summary has make a unique key hold, where it has one: that with the most
/// values.
fn take_turns(table: &Table, sources: &mut [ColumnSource], others: &[ColumnPosition]) {
    let is_kept = |at: &ColumnPosition| {
        matches!(
            sources[at.0],
            ColumnSource::Number | ColumnSource::Turn | ColumnSource::Null
        )
    };
    if others.iter().any(is_kept) {
        return;
    }
    let is_free = |at: &&ColumnPosition| {
        matches!(
            sources[at.0],
            ColumnSource::Listed | ColumnSource::Between | ColumnSource::Constant
        )
    };
    let values = |at: &&ColumnPosition| Reverse(value_count(&table.columns[at.0]));
    if let Some(at) = others.iter().filter(is_free).min_by_key(values) {
        sources[at.0] = ColumnSource::Turn;
    }
}

/// The first step of the table's path to its unit; `None` where the table carries it.
pub fn first_step(table: &Table) -> Option<&UnitStep> {
    match &table.protection {
        Protection::Private(unit) => unit.path.first(),
        Protection::Public => None,
    }
}

/// Whether each row has a different value: the column is a key by itself, or it is the unit.
fn is_identity(table: &Table, column: &Column) -> bool {
    let is_unit = match &table.protection {
        Protection::Private(unit) => unit.path.is_empty() && unit.column == column.name,
        Protection::Public => false,
    };
    let mut keys = table.unique_keys.iter();
    is_unit || keys.any(|key| key.names().eq([column.name.as_str()]))
}

#[cfg(test)]
mod tests;
