//! Values of a column that no summary has, where each row of one parent has another one: the column
//! is in a unique key with the one that refers to the parent.

use std::collections::{HashMap, HashSet};

use rand::Rng;
use rand::seq::{SliceRandom, index};

use super::values::{between, bounds, constant, has_numbers, list_values};
use crate::catalog::Type;
use crate::ir::sql::scalar_text;
use crate::policy::{Column, Scalar};

/// How many values are drawn for each that is wanted, where they cannot be counted.
const DRAWS: usize = 20;

/// A value for each row of these parents, different ones for one parent as long as there are
/// enough.
pub(super) fn turns(
    column: &Column,
    parents: &[usize],
    random: &mut impl Rng,
) -> Vec<Option<String>> {
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    parents
        .iter()
        .for_each(|parent| *numbers.entry(*parent).or_default() += 1);
    let mut left: HashMap<usize, Vec<String>> = HashMap::new();
    let mut value = |parent: &usize| {
        let wanted = numbers.get(parent).copied().unwrap_or(0);
        let own = left.entry(*parent).or_insert_with(|| {
            let mut own = distinct(column, wanted, random);
            own.reverse();
            own
        });
        // A row that finds none left repeats a value, and is dropped.
        if own.len() > 1 {
            own.pop()
        } else {
            own.first().cloned()
        }
    };
    parents.iter().map(&mut value).collect()
}

/// Different values of a column: as many as are wanted, or all if they are fewer.
fn distinct(column: &Column, wanted: usize, random: &mut impl Rng) -> Vec<String> {
    let mut listed = list_values(column);
    if !listed.is_empty() {
        listed.shuffle(random);
        listed.truncate(wanted);
        return listed;
    }
    match (&column.data_type, bounds(column)) {
        (Type::Int2 | Type::Int4 | Type::Int8 | Type::Date, Some((low, high))) => {
            let (low, high) = (low as i64, high as i64);
            let count = usize::try_from(high.saturating_sub(low)).unwrap_or(0);
            let count = count.saturating_add(1).min(u32::MAX as usize);
            let places = index::sample(random, count, wanted.min(count));
            let text = |place| {
                let number = low + place as i64;
                match (&column.data_type, i32::try_from(number)) {
                    (Type::Date, Ok(day)) => scalar_text(&Scalar::Date(day)),
                    _ => number.to_string(),
                }
            };
            places.into_iter().map(text).collect()
        }
        (_, Some(_)) => {
            let mut found = HashSet::new();
            let drawn = (0..DRAWS * wanted).filter_map(|_| between(column, random));
            let new = drawn.filter(|value| found.insert(value.clone()));
            new.take(wanted).collect()
        }
        (data_type, None) => first_values(data_type, wanted),
    }
}

/// The first values of a type, from 1 on.
fn first_values(data_type: &Type, wanted: usize) -> Vec<String> {
    let day = |number: usize| scalar_text(&Scalar::Date(i32::try_from(number).unwrap_or(0)));
    match data_type {
        Type::Date | Type::Timestamp => (1..=wanted).map(day).collect(),
        Type::Timestamptz => (1..=wanted).map(|n| day(n) + " 00:00:00+00").collect(),
        Type::Uuid => {
            let text = |number: usize| format!("00000000-0000-8000-8000-{number:012x}");
            (1..=wanted).map(text).collect()
        }
        data_type if has_numbers(data_type, wanted) => {
            (1..=wanted).map(|number| number.to_string()).collect()
        }
        data_type => constant(data_type).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_from_one() {
        assert_eq!(first_values(&Type::Char(Some(2)), 3), ["1", "2", "3"]);
        assert_eq!(
            first_values(&Type::Timestamptz, 1),
            ["2000-01-02 00:00:00+00"]
        );
        assert_eq!(first_values(&Type::Int2, 0), [""; 0]);
        let uuid = "00000000-0000-8000-8000-000000000001";
        assert_eq!(first_values(&Type::Uuid, 1), [uuid]);
        // Of a type that is not counted there is one.
        assert_eq!(first_values(&Type::Bool, 3), ["false"]);
    }
}
