//! The values of a made-up table's columns.

use std::collections::{HashMap, HashSet};

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt};

use super::marginals::Marginals;
use super::sample::Sample;
use crate::catalog::Type;
use crate::ir::literal::as_number;
use crate::ir::sql::scalar_text;
use crate::policy::{Column, ColumnPosition, Protection, Scalar, Summary, Table, UnitStep};

/// Where the values of a made-up column come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The key of the summary at this place.
    Key(usize),
    /// Drawn around the means of the measure at this place.
    Measure(usize),
    /// Each row has its own number.
    Number,
    /// The numbers of that many rows of the table that the column refers to.
    Parent(usize),
    /// The policy's list, or the labels of an enum, each as often as another.
    Listed,
    /// Between the policy's bounds, each as often as another.
    Between,
    /// NULL, also where the database's column is NOT NULL and of a type that is not known here.
    Null,
    /// One value of its type, since it may not be NULL.
    Constant,
}

/// The largest share of made-up rows that is dropped so that a unique key holds.
const DROPPED_MAX: f64 = 0.05;

/// A table whose rows are made up.
pub struct Filler<'a> {
    pub table: &'a Table,
    /// Parallel to the table's columns.
    pub sources: Vec<Source>,
}

impl<'a> Filler<'a> {
    /// `parent` is the number of made-up rows of the table that this one's path to its unit leads
    /// to first, if its rows are made up too. `referenced` are the columns that made-up tables
    /// refer to.
    pub fn new(
        table: &'a Table,
        summary: &Summary,
        rows: usize,
        (parent, referenced): (Option<usize>, &HashSet<&str>),
    ) -> Self {
        let source = |(at, column): (usize, &Column)| {
            let place = |places: &[ColumnPosition]| places.iter().position(|place| place.0 == at);
            let is_numbered = is_identity(table, column) || referenced.contains(&*column.name);
            let refers = first_step(table).is_some_and(|first| first.column == column.name);
            if let Some(key) = place(&summary.keys) {
                Source::Key(key)
            } else if let Some(measure) = place(&summary.measures) {
                Source::Measure(measure)
            } else if let (true, Some(rows)) = (refers, parent.filter(|rows| *rows > 0)) {
                Source::Parent(rows)
            } else if (is_numbered || refers) && has_numbers(&column.data_type, rows) {
                Source::Number
            } else if !list_values(column).is_empty() {
                Source::Listed
            } else if bounds(column).is_some() {
                Source::Between
            } else if column.not_null && constant(&column.data_type).is_some() {
                Source::Constant
            } else {
                Source::Null
            }
        };
        Self {
            sources: table.columns.iter().enumerate().map(source).collect(),
            table,
        }
    }

    /// The values of all columns, column by column; `None` is NULL.
    pub fn fill(
        &self,
        sample: &Sample,
        marginals: &Marginals,
        rows: usize,
        random: &mut impl Rng,
    ) -> Vec<Vec<Option<String>>> {
        let mut columns: Vec<Vec<Option<String>>> = Vec::with_capacity(self.sources.len());
        for (column, source) in self.table.columns.iter().zip(&self.sources) {
            let values = match source {
                Source::Key(key) => {
                    let value = |code: &usize| marginals.values[*key][*code].clone();
                    sample.keys[*key].iter().map(value).collect()
                }
                Source::Measure(of) => around(column, &sample.means[*of], random),
                Source::Number => number_rows(&column.data_type, rows),
                // Once the other columns are there.
                Source::Parent(_) => Vec::new(),
                Source::Listed => {
                    let values = list_values(column);
                    (0..rows).map(|_| values.choose(random).cloned()).collect()
                }
                Source::Between => {
                    let middle = vec![bounds(column).map(|(low, high)| low.midpoint(high)); rows];
                    around(column, &middle, random)
                }
                Source::Null => vec![None; rows],
                Source::Constant => vec![constant(&column.data_type); rows],
            };
            columns.push(values);
        }
        for (at, source) in self.sources.iter().enumerate() {
            if let Source::Parent(parents) = source {
                columns[at] = self.refer(at, *parents, &columns, random);
                self.drop_impossible(at, &mut columns);
            }
        }
        columns
    }

    /// Drops rows that repeat a unique key with this column: noise counted more of them than the
    /// parent has rows. Where they are many, they stay, and the key does not hold.
    fn drop_impossible(&self, at: usize, columns: &mut [Vec<Option<String>>]) {
        let Some(others) = self.rest_of_key(at) else {
            return;
        };
        let places: Vec<usize> = others.into_iter().chain([at]).collect();
        let rows = columns[at].len();
        let mut seen = HashSet::with_capacity(rows);
        let key = |row: usize| -> Vec<Option<String>> {
            places.iter().map(|at| columns[*at][row].clone()).collect()
        };
        let is_new: Vec<bool> = (0..rows).map(|row| seen.insert(key(row))).collect();
        if (rows - seen.len()) as f64 > DROPPED_MAX * rows as f64 {
            return;
        }
        for column in columns {
            let mut kept = is_new.iter();
            column.retain(|_| kept.next().copied().unwrap_or(true));
        }
    }

    /// The other columns of a unique key that has this one; `None` where there is no such key.
    fn rest_of_key(&self, at: usize) -> Option<Vec<usize>> {
        let columns = &self.table.columns;
        let name = columns[at].name.as_str();
        let mut keys = self.table.unique_keys.iter();
        let key = keys.find(|key| key.names().any(|other| other == name))?;
        let place = |name: &str| columns.iter().position(|c| c.name == name);
        let places = key.names().map(place).collect::<Option<Vec<_>>>()?;
        Some(places.into_iter().filter(|other| *other != at).collect())
    }

    /// A row of the parent for each row. Rows that agree in what else a unique key has follow each
    /// other, so that they get different ones as long as there are enough.
    fn refer(
        &self,
        at: usize,
        parents: usize,
        columns: &[Vec<Option<String>>],
        random: &mut impl Rng,
    ) -> Vec<Option<String>> {
        let column = &self.table.columns[at];
        let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
        let others = self.rest_of_key(at).unwrap_or_default();
        let mut order: Vec<usize> = (0..rows).collect();
        order.shuffle(random);
        order.sort_by_cached_key(|row| {
            others
                .iter()
                .map(|other| columns[*other][*row].clone())
                .collect::<Vec<_>>()
        });
        let mut numbers: Vec<usize> = (1..=parents).collect();
        numbers.shuffle(random);
        let mut values = vec![None; rows];
        for (row, number) in order.into_iter().zip(numbers.iter().cycle()) {
            values[row] = Some(number_text(&column.data_type, *number));
        }
        values
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

/// Whether the type has a value for each of that many numbers.
fn has_numbers(data_type: &Type, rows: usize) -> bool {
    let digits = rows.to_string().len() as u64;
    match data_type {
        Type::Int2 => i16::try_from(rows).is_ok(),
        Type::Int4 => i32::try_from(rows).is_ok(),
        Type::Int8 | Type::Float8 | Type::Text | Type::Uuid => true,
        Type::Float4 => rows < 1 << 24,
        Type::Numeric(None) | Type::Varchar(None) | Type::Char(None) => true,
        Type::Numeric(Some((precision, scale))) => {
            i64::from(*precision) - i64::from(*scale).max(0) >= digits as i64 && *scale >= 0
        }
        Type::Varchar(Some(length)) | Type::Char(Some(length)) => u64::from(*length) >= digits,
        Type::Bool | Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval => false,
        Type::Time | Type::Enum(_) | Type::Other { .. } => false,
    }
}

fn number_rows(data_type: &Type, rows: usize) -> Vec<Option<String>> {
    (1..=rows)
        .map(|number| Some(number_text(data_type, number)))
        .collect()
}

/// The value of a type that stands for a number.
fn number_text(data_type: &Type, number: usize) -> String {
    let long = format!("unit-{number:06}");
    match data_type {
        // Version 8: a UUID that its maker defines.
        Type::Uuid => format!("00000000-0000-8000-8000-{number:012x}"),
        Type::Text | Type::Varchar(None) | Type::Char(None) => long,
        Type::Varchar(Some(most)) | Type::Char(Some(most)) if long.len() <= *most as usize => long,
        _ => number.to_string(),
    }
}

/// The values that the policy or the type lists.
fn list_values(column: &Column) -> Vec<String> {
    match (&column.domain, &column.data_type) {
        (Some(values), _) => values.iter().map(scalar_text).collect(),
        (None, Type::Bool) => vec!["false".to_owned(), "true".to_owned()],
        (None, Type::Enum(made)) => made.labels.clone(),
        (None, _) => Vec::new(),
    }
}

/// The bounds of a column on the line of numbers.
fn bounds(column: &Column) -> Option<(f64, f64)> {
    let bounds = column.bounds.as_ref()?;
    Some((as_number(&bounds.lower)?, as_number(&bounds.upper)?))
}

/// A value of the type, the same for every row; `None` where none is known.
fn constant(data_type: &Type) -> Option<String> {
    let text = match data_type {
        Type::Bool => "false",
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8 => {
            "0"
        }
        Type::Uuid => "00000000-0000-8000-8000-000000000000",
        Type::Date | Type::Timestamp => "2000-01-01",
        Type::Timestamptz => "2000-01-01 00:00:00+00",
        Type::Interval | Type::Time => "00:00:00",
        Type::Enum(made) => made.labels.first()?,
        Type::Text | Type::Varchar(_) | Type::Char(_) => "",
        Type::Other { .. } => return None,
    };
    Some(text.to_owned())
}

/// A value between the column's bounds for each mean. Of all laws with that mean it takes the one
/// of the greatest entropy: nothing else is known of the values.
///
/// # Reference
/// Cover, Thomas: "Elements of Information Theory", theorem 12.1.1: within an interval, the law of
/// a given mean is a truncated exponential.
fn around(column: &Column, means: &[Option<f64>], random: &mut impl Rng) -> Vec<Option<String>> {
    let Some((low, high)) = bounds(column).or_else(|| listed_range(column)) else {
        return means
            .iter()
            .map(|mean| mean.map(|mean| text(column, mean)))
            .collect();
    };
    let mut rates: HashMap<u64, f64> = HashMap::new();
    let mut value = |mean: f64| {
        let share = ((mean - low) / (high - low).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let rate = *rates.entry(mean.to_bits()).or_insert_with(|| rate(share));
        let drawn = low + (high - low) * quantile(rate, random.random());
        text(column, drawn.clamp(low, high))
    };
    means.iter().map(|mean| mean.map(&mut value)).collect()
}

/// The least and the greatest number of a list.
fn listed_range(column: &Column) -> Option<(f64, f64)> {
    let mut numbers = column.domain.as_ref()?.iter().filter_map(as_number);
    let first = numbers.next()?;
    Some(numbers.fold((first, first), |(low, high), n| (low.min(n), high.max(n))))
}

/// The rate of the truncated exponential law on [0, 1] with this mean.
fn rate(mean: f64) -> f64 {
    const STEEPEST: f64 = 1e5;
    let (mut low, mut high) = (-STEEPEST, STEEPEST);
    for _ in 0..70 {
        let middle = low.midpoint(high);
        match mean_of(middle) < mean {
            true => low = middle,
            false => high = middle,
        }
    }
    low.midpoint(high)
}

/// The mean of the truncated exponential law on [0, 1] whose density grows by e to the `rate`.
fn mean_of(rate: f64) -> f64 {
    match rate.abs() < 1e-5 {
        true => 0.5 + rate / 12.0,
        false => 1.0 / -(-rate).exp_m1() - 1.0 / rate,
    }
}

/// The value below which that law has the share `below`.
fn quantile(rate: f64, below: f64) -> f64 {
    if rate.abs() < 1e-5 {
        below
    } else if rate < 0.0 {
        1.0 - quantile(-rate, 1.0 - below)
    } else {
        (1.0 + (below + (1.0 - below) * (-rate).exp()).ln() / rate).clamp(0.0, 1.0)
    }
}

/// A number as a value of the column's type.
fn text(column: &Column, number: f64) -> String {
    let whole = number.round();
    match &column.data_type {
        Type::Int2 | Type::Int4 | Type::Int8 => format!("{whole:.0}"),
        Type::Numeric(Some((_, scale))) => {
            format!("{number:.*}", usize::try_from(*scale).unwrap_or(0))
        }
        Type::Date => scalar_text(&Scalar::Date(whole as i32)),
        Type::Timestamp | Type::Timestamptz => {
            let text = scalar_text(&Scalar::Timestamp((whole / 1e6) as i64 * 1_000_000));
            let zone = if column.data_type == Type::Timestamptz {
                "+00"
            } else {
                ""
            };
            text + zone
        }
        Type::Numeric(None) | Type::Float4 | Type::Float8 => format!("{number:.2}"),
        Type::Bool | Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid => {
            format!("{number}")
        }
        Type::Interval | Type::Time | Type::Enum(_) | Type::Other { .. } => format!("{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_of_a_mean_has_that_mean() {
        for mean in [0.001, 0.05, 0.3, 0.5, 0.77, 0.99] {
            let rate = rate(mean);
            let drawn = (0..100_000).map(|at| quantile(rate, (f64::from(at) + 0.5) / 1e5));
            let of_drawn = drawn.sum::<f64>() / 1e5;
            assert!((of_drawn - mean).abs() < 1e-4, "{mean}: {of_drawn}");
        }
        assert!((quantile(rate(0.0), 0.9), quantile(rate(1.0), 0.1)) < (0.01, 2.0));
        assert!(quantile(rate(1.0), 0.1) > 0.99);
    }

    #[test]
    fn numbers_fit_their_types() {
        assert!(has_numbers(&Type::Int2, 32_767) && !has_numbers(&Type::Int2, 32_768));
        assert!(has_numbers(&Type::Char(Some(3)), 999) && !has_numbers(&Type::Char(Some(3)), 1000));
        assert!(has_numbers(&Type::Numeric(Some((5, 2))), 999));
        assert!(!has_numbers(&Type::Numeric(Some((5, 2))), 1000));
        assert!(!has_numbers(&Type::Date, 1));
        assert_eq!(number_text(&Type::Char(Some(3)), 7), "7");
        assert_eq!(number_text(&Type::Varchar(Some(20)), 7), "unit-000007");
        let uuid = number_text(&Type::Uuid, 255);
        assert_eq!(uuid, "00000000-0000-8000-8000-0000000000ff");
    }
}
