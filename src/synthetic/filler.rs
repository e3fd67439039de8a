//! The values of a made-up table's columns.

use std::collections::{HashMap, HashSet};

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt};

use super::law::ValueLaw;
use super::marginals::NoisyMarginals;
use super::sample::Sample;
use crate::catalog::{Type, TypeDefinition, UserType, oid_of};
use crate::ir::literal::as_number;
use crate::ir::sql::scalar_text;
use crate::policy::{
    Column, ColumnPosition, Protection, Scalar, Summary, SummaryColumn, SummaryKey, SummaryMeasure,
    Table, UnitStep,
};
use crate::rewrite::key_text;

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

/// A table whose rows are made up.
pub struct Filler<'a> {
    pub table: &'a Table,
    /// Parallel to the table's columns.
    pub sources: Vec<ColumnSource>,
    keys: &'a [SummaryColumn],
    parents: Vec<String>,
}

impl<'a> Filler<'a> {
    /// Chooses the source of each column of a table with that many rows.
    pub fn new(
        table: &'a Table,
        summary: &'a Summary,
        rows: usize,
        around: &FillContext<'_>,
    ) -> Self {
        let parents: Vec<String> = around
            .parents
            .iter()
            .flat_map(|p| p.iter().flatten().cloned())
            .collect();
        let source = |(at, column): (usize, &Column)| {
            let place = |places: &[ColumnPosition]| places.iter().position(|place| place.0 == at);
            let is_numbered =
                is_identity(table, column) || around.referenced.contains(&*column.name);
            let refers = first_step(table).is_some_and(|first| first.column == column.name);
            let is_child = refers
                && !parents.is_empty()
                && parents.iter().all(|value| fits(&column.data_type, value));
            let key = summary
                .keys
                .iter()
                .position(|key| key.steps == 0 && key.column.0 == at);
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
        Self {
            sources: table.columns.iter().enumerate().map(source).collect(),
            table,
            keys: &summary.keys,
            parents,
        }
    }

    /// The values of all columns, column by column; `None` is NULL. There may be fewer rows than
    /// the sample has: see [`Self::drop_impossible`].
    pub fn fill(
        &self,
        sample: &Sample,
        marginals: &NoisyMarginals,
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
                ColumnSource::Parent(_) | ColumnSource::Number => vec![None; rows],
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
        for (at, source) in self.sources.iter().enumerate() {
            if let ColumnSource::Parent(_) = source {
                let at = ColumnPosition(at);
                columns[at.0] = self.refer(at, &columns, random);
                self.drop_impossible(at, &mut columns);
            }
        }
        let rows = columns.iter().map(Vec::len).min().unwrap_or(0);
        for ((column, source), values) in self
            .table
            .columns
            .iter()
            .zip(&self.sources)
            .zip(&mut columns)
        {
            if let ColumnSource::Number = source {
                *values = number_rows(&column.data_type, rows);
            }
        }
        columns
    }

    /// Drops rows that repeat a unique key with this column: noise counted more of them than the
    /// parent has rows. Where they are many, they stay, and the key does not hold.
    fn drop_impossible(&self, at: ColumnPosition, columns: &mut [Vec<Option<String>>]) {
        let Some(others) = self.rest_of_key(at) else {
            return;
        };
        let places: Vec<ColumnPosition> = others.into_iter().chain([at]).collect();
        let rows = columns[at.0].len();
        let mut seen = HashSet::with_capacity(rows);
        let key = |row: usize| -> Vec<Option<String>> {
            places.iter().map(|at| columns[at.0][row].clone()).collect()
        };
        // PostgreSQL counts no NULL as equal to another.
        let mut is_new = |row: usize| {
            let key = key(row);
            key.iter().any(Option::is_none) || seen.insert(key)
        };
        let is_new: Vec<bool> = (0..rows).map(&mut is_new).collect();
        let dropped = is_new.iter().filter(|is_new| !**is_new).count();
        if dropped as f64 > DROPPED_MAX * rows as f64 {
            return;
        }
        for column in columns {
            let mut kept = is_new.iter();
            column.retain(|_| kept.next().copied().unwrap_or(true));
        }
    }

    /// The other columns of a unique key that has this one; `None` where there is no such key.
    fn rest_of_key(&self, at: ColumnPosition) -> Option<Vec<ColumnPosition>> {
        let columns = &self.table.columns;
        let name = columns[at.0].name.as_str();
        let mut keys = self.table.unique_keys.iter();
        let key = keys.find(|key| key.names().any(|other| other == name))?;
        let place = |name: &str| {
            let found = columns.iter().position(|c| c.name == name);
            found.map(ColumnPosition)
        };
        let places = key.names().map(place).collect::<Option<Vec<_>>>()?;
        Some(places.into_iter().filter(|other| *other != at).collect())
    }

    /// A row of the parent for each row. Rows that agree in what else a unique key has follow each
    /// other, so that they get different ones as long as there are enough.
    fn refer(
        &self,
        at: ColumnPosition,
        columns: &[Vec<Option<String>>],
        random: &mut impl Rng,
    ) -> Vec<Option<String>> {
        let others = self.rest_of_key(at).unwrap_or_default();
        let mut order: Vec<usize> = (0..columns[at.0].len()).collect();
        order.shuffle(random);
        order.sort_by_cached_key(|row| {
            let value = |other: &ColumnPosition| columns[other.0][*row].clone();
            others.iter().map(value).collect::<Vec<_>>()
        });
        let mut parents: Vec<&String> = self.parents.iter().collect();
        parents.shuffle(random);
        let mut values = vec![None; columns[at.0].len()];
        for (row, parent) in order.into_iter().zip(parents.into_iter().cycle()) {
            values[row] = Some(parent.clone());
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
        (Some(values), data_type) => values
            .iter()
            .map(|value| key_text(value, data_type))
            .collect(),
        (None, Type::Bool) => vec!["false".to_owned(), "true".to_owned()],
        (None, Type::Enum(made)) => made.labels.clone(),
        (None, _) => Vec::new(),
    }
}

/// The bounds of a column on the line of numbers: the policy's, or those of a small type.
fn bounds(column: &Column) -> Option<(f64, f64)> {
    let Some(bounds) = &column.bounds else {
        let is_small = column.data_type == Type::Int2;
        return is_small.then_some((f64::from(i16::MIN), f64::from(i16::MAX)));
    };
    Some((as_number(&bounds.lower)?, as_number(&bounds.upper)?))
}

/// Whether the column, or the domain that it is of, is NOT NULL.
fn is_filled(column: &Column, types: &[UserType]) -> bool {
    let declared = column.declared.as_ref().map(oid_of);
    let is_filled = |made: &UserType| {
        Some(made.oid) == declared
            && matches!(
                made.definition,
                TypeDefinition::Domain { not_null: true, .. }
            )
    };
    column.not_null || types.iter().any(is_filled)
}

/// Whether a made-up number of another column is a value of this type.
fn fits(data_type: &Type, value: &str) -> bool {
    let is_whole = value.bytes().all(|b| b.is_ascii_digit());
    match data_type {
        Type::Int2 => value.parse::<i16>().is_ok(),
        Type::Int4 => value.parse::<i32>().is_ok(),
        Type::Int8 | Type::Numeric(None) | Type::Float8 => is_whole,
        Type::Text | Type::Varchar(None) | Type::Char(None) => true,
        Type::Varchar(Some(most)) | Type::Char(Some(most)) => value.len() <= *most as usize,
        Type::Uuid => value.len() == number_text(&Type::Uuid, 0).len(),
        Type::Numeric(Some(_)) => {
            is_whole
                && value
                    .parse()
                    .is_ok_and(|number| has_numbers(data_type, number))
        }
        Type::Float4 => value.parse().is_ok_and(|number: u32| number < 1 << 24),
        Type::Bool | Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval => false,
        Type::Time | Type::Enum(_) | Type::Other { .. } => false,
    }
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

/// A value of the column's list, or between its bounds, for each mean.
fn around(column: &Column, means: &[Option<f64>], random: &mut impl Rng) -> Vec<Option<String>> {
    let list = column.domain.as_ref().map(|values| {
        let numbers = values.iter().filter_map(as_number).collect::<Vec<_>>();
        (numbers, list_values(column))
    });
    let list = list.filter(|(numbers, texts)| !texts.is_empty() && numbers.len() == texts.len());
    let mut laws: HashMap<u64, ValueLaw> = HashMap::new();
    let mut value = |mean: f64| {
        let law = laws.entry(mean.to_bits()).or_insert_with(|| match &list {
            Some((numbers, _)) => ValueLaw::on_list(numbers, mean),
            None => {
                let (low, high) = bounds(column).unwrap_or((mean, mean));
                ValueLaw::on_interval(low, high, mean)
            }
        });
        let drawn = law.draw(random);
        match &list {
            Some((_, texts)) => texts[drawn as usize].clone(),
            None => text(column, drawn, random),
        }
    };
    means.iter().map(|mean| mean.map(&mut value)).collect()
}

/// A value within the column's bounds.
fn between(column: &Column, random: &mut impl Rng) -> Option<String> {
    let (low, high) = bounds(column)?;
    let number = match &column.data_type {
        Type::Numeric(_) | Type::Float4 | Type::Float8 => {
            low + (high - low) * random.random::<f64>()
        }
        _ => random.random_range(low as i64..=high as i64) as f64,
    };
    Some(text(column, number, random))
}

/// A value of a bin, from its lower edge to its upper one, which it may have or not.
fn within(
    column: &Column,
    (lower, upper, has_upper): (&Scalar, &Scalar, bool),
    random: &mut impl Rng,
) -> Option<String> {
    let (low, high) = (as_number(lower)?, as_number(upper)?);
    let mut whole = |low: i64, high: i64| {
        let last = high.saturating_sub(i64::from(!has_upper)).max(low);
        random.random_range(low..=last)
    };
    Some(match (&column.data_type, lower, upper) {
        (_, Scalar::Int(low), Scalar::Int(high)) => whole(*low, *high).to_string(),
        (_, Scalar::Date(low), Scalar::Date(high)) => {
            let day = whole(i64::from(*low), i64::from(*high));
            scalar_text(&Scalar::Date(i32::try_from(day).ok()?))
        }
        (data_type, Scalar::Timestamp(low), Scalar::Timestamp(high)) => {
            let micros = whole(*low, *high);
            let second = micros - micros.rem_euclid(1_000_000);
            let text = scalar_text(&Scalar::Timestamp(second.max(*low)));
            let is_zoned = *data_type == Type::Timestamptz;
            text + if is_zoned { "+00" } else { "" }
        }
        (data_type, ..) => {
            // Negative for a numeric of tens or hundreds.
            let decimals = match data_type {
                Type::Numeric(Some((_, scale))) => i32::from(*scale),
                _ => (3.0 - (high - low).log10()).ceil().clamp(2.0, 12.0) as i32,
            };
            let drawn = low + (high - low) * random.random::<f64>();
            let (units, shown) = (10f64.powi(decimals), decimals.max(0) as usize);
            let text = format!("{:.shown$}", (drawn * units).floor() / units);
            let is_inside = text.parse().is_ok_and(|value| low <= value && value < high);
            if is_inside { text } else { scalar_text(lower) }
        }
    })
}

/// A number as a value of the column's type. What falls between two values becomes one of them at
/// random, so that the mean is kept.
fn text(column: &Column, number: f64, random: &mut impl Rng) -> String {
    let mut round = |number: f64| (number + random.random::<f64>()).floor();
    let (low, high) = bounds(column).unwrap_or((number, number));
    let mut with_decimals = |decimals: usize| {
        let units = 10f64.powi(decimals as i32);
        let rounded = (round(number * units) / units).clamp(low, high);
        format!("{rounded:.decimals$}")
    };
    match &column.data_type {
        Type::Numeric(Some((_, scale))) => with_decimals(usize::try_from(*scale).unwrap_or(0)),
        Type::Numeric(None) | Type::Float4 | Type::Float8 => {
            // A thousand values within the bounds.
            let digits = 3.0 - (high - low).max(1e-9).log10();
            with_decimals(digits.ceil().clamp(2.0, 12.0) as usize)
        }
        Type::Date => scalar_text(&Scalar::Date(round(number).clamp(low, high) as i32)),
        Type::Timestamp | Type::Timestamptz => {
            let second = (number / 1e6).floor() * 1e6;
            let text = scalar_text(&Scalar::Timestamp(second.clamp(low, high) as i64));
            let is_zoned = column.data_type == Type::Timestamptz;
            text + if is_zoned { "+00" } else { "" }
        }
        Type::Int2 | Type::Int4 | Type::Int8 => with_decimals(0),
        Type::Bool | Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid => with_decimals(0),
        Type::Interval | Type::Time | Type::Enum(_) | Type::Other { .. } => with_decimals(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_types() {
        assert!(has_numbers(&Type::Int2, 32_767) && !has_numbers(&Type::Int2, 32_768));
        assert!(has_numbers(&Type::Char(Some(3)), 999) && !has_numbers(&Type::Char(Some(3)), 1000));
        assert!(has_numbers(&Type::Numeric(Some((5, 2))), 999));
        assert!(!has_numbers(&Type::Numeric(Some((5, 2))), 1000));
        assert!(!has_numbers(&Type::Date, 1));
        assert_eq!(number_text(&Type::Char(Some(3)), 7), "7");
        assert_eq!(number_text(&Type::Varchar(Some(20)), 7), "unit-000007");
        assert!(fits(&Type::Int4, "17") && !fits(&Type::Int4, "unit-000017"));
        assert!(!fits(&Type::Date, "17") && !fits(&Type::Varchar(Some(3)), "unit-000017"));
        let uuid = number_text(&Type::Uuid, 255);
        assert_eq!(uuid, "00000000-0000-8000-8000-0000000000ff");
    }
}
