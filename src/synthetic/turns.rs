//! Values of a column that no summary has, where each row of one parent has another one: the column
//! is in a unique key with the one that refers to the parent.

use std::collections::HashMap;

use rand::seq::{SliceRandom, index};
use rand::{Rng, RngExt};

use super::values::{between, bounds, list_values};
use crate::catalog::Type;
use crate::ir::sql::scalar_text;
use crate::policy::{Column, Scalar};

/// A value for each row of these parents, different ones for one parent as long as there are
/// enough. Beyond that they begin again, so that each is as often as another.
pub(super) fn turns(
    column: &Column,
    parents: &[usize],
    random: &mut impl Rng,
) -> Vec<Option<String>> {
    let numbers = rows_of_each(parents);
    let mut of_parents: HashMap<usize, (Vec<String>, usize)> = HashMap::new();
    let mut value = |parent: &usize| {
        let wanted = numbers.get(parent).copied().unwrap_or(0);
        let (own, taken) = of_parents
            .entry(*parent)
            .or_insert_with(|| (distinct(column, wanted, random), 0));
        let value = own.get(*taken % own.len().max(1)).cloned();
        *taken += 1;
        value
    };
    parents.iter().map(&mut value).collect()
}

/// Whether the column has a value for each row of every parent.
pub(super) fn has_enough(column: &Column, parents: &[usize]) -> bool {
    let most = rows_of_each(parents).into_values().max();
    most.is_none_or(|most| value_count(column) >= most)
}

fn rows_of_each(parents: &[usize]) -> HashMap<usize, usize> {
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    parents
        .iter()
        .for_each(|parent| *numbers.entry(*parent).or_default() += 1);
    numbers
}

/// How many different values of a column [`turns`] has; `usize::MAX` where they never end.
pub(super) fn value_count(column: &Column) -> usize {
    let listed = list_values(column).len();
    if listed > 0 {
        return listed;
    }
    match Grid::of(column) {
        Some(grid) => grid.count().max(1),
        None => type_count(&column.data_type),
    }
}

/// Different values of a column: as many as are wanted, or all if they are fewer.
fn distinct(column: &Column, wanted: usize, random: &mut impl Rng) -> Vec<String> {
    let mut listed = list_values(column);
    if !listed.is_empty() {
        listed.shuffle(random);
        listed.truncate(wanted);
        return listed;
    }
    let Some(grid) = Grid::of(column) else {
        return first_values(&column.data_type, wanted);
    };
    let count = grid.count();
    if count == 0 {
        return between(column, random).into_iter().take(wanted).collect();
    }
    // Stretches are drawn, fewer than 2^32, and a value within each.
    let length = count.div_ceil(u32::MAX as usize);
    let stretches = index::sample(random, count / length, wanted.min(count / length));
    let mut value = |stretch| grid.text(stretch * length + random.random_range(0..length));
    stretches.into_iter().map(&mut value).collect()
}

/// The values of a column within its bounds, at even distances.
struct Grid<'a> {
    data_type: &'a Type,
    /// The first and the last value, in steps from 0.
    first: i64,
    last: i64,
    /// The decimals of a step of a number; negative for tens or hundreds.
    decimals: i32,
}

impl<'a> Grid<'a> {
    /// `None` for a column without bounds.
    fn of(column: &'a Column) -> Option<Self> {
        let (low, high) = bounds(column)?;
        let data_type = &column.data_type;
        // A floating-point number has no more digits.
        let digits = low.abs().max(high.abs()).max(1.0).log10();
        let exact = if *data_type == Type::Float4 {
            6.0
        } else {
            15.0
        };
        let most = (exact - digits).floor() as i32;
        let decimals = match data_type {
            Type::Numeric(Some((_, scale))) => i32::from(*scale).min(most),
            // A thousand values within the bounds.
            Type::Numeric(None) | Type::Float4 | Type::Float8 => {
                let digits = 3.0 - (high - low).max(1e-9).log10();
                (digits.ceil().clamp(2.0, 12.0) as i32).min(most)
            }
            _ => 0,
        };
        let (first, last) = match data_type {
            // Microseconds, in steps of a second.
            Type::Timestamp | Type::Timestamptz => {
                let end = |edge: f64| (edge as i64).div_euclid(1_000_000);
                (-end(-low), end(high))
            }
            _ => {
                let units = 10f64.powi(decimals);
                // What floating-point numbers lose is no step.
                let (low, high) = (low * units - 1e-6, high * units + 1e-6);
                (low.ceil() as i64, high.floor() as i64)
            }
        };
        Some(Self {
            data_type,
            first,
            last,
            decimals,
        })
    }

    fn count(&self) -> usize {
        let steps = self.last.saturating_sub(self.first).saturating_add(1);
        usize::try_from(steps).unwrap_or(0)
    }

    fn text(&self, place: usize) -> String {
        let step = self.first.saturating_add(place as i64);
        match self.data_type {
            Type::Date => scalar_text(&Scalar::Date(i32::try_from(step).unwrap_or(0))),
            Type::Timestamp | Type::Timestamptz => {
                let text = scalar_text(&Scalar::Timestamp(step.saturating_mul(1_000_000)));
                let is_zoned = *self.data_type == Type::Timestamptz;
                text + if is_zoned { "+00" } else { "" }
            }
            _ if self.decimals == 0 => step.to_string(),
            _ => {
                let shown = self.decimals.max(0) as usize;
                format!("{:.shown$}", step as f64 / 10f64.powi(self.decimals))
            }
        }
    }
}

/// How many values [`first_values`] has of a type at most.
fn type_count(data_type: &Type) -> usize {
    let of_digits = |digits: u32| 10usize.checked_pow(digits).unwrap_or(usize::MAX);
    match data_type {
        Type::Varchar(Some(length)) | Type::Char(Some(length)) => of_digits(*length),
        Type::Numeric(Some((precision, _))) => of_digits(u32::from(*precision)),
        Type::Float4 => 1 << 24,
        Type::Time => 24 * 60 * 60,
        Type::Bool | Type::Enum(_) => 1,
        Type::Other { .. } => 0,
        _ => usize::MAX,
    }
}

/// The first values of a type, from 1 on; 0 is the last one where all are wanted.
fn first_values(data_type: &Type, wanted: usize) -> Vec<String> {
    let count = type_count(data_type);
    let all = (1..=wanted.min(count)).map(|number| number % count);
    let day = |number: usize| scalar_text(&Scalar::Date(i32::try_from(number).unwrap_or(0)));
    let text = |number: usize| match data_type {
        Type::Date | Type::Timestamp => day(number),
        Type::Timestamptz => day(number) + " 00:00:00+00",
        Type::Time | Type::Interval => {
            let (minutes, seconds) = (number / 60, number % 60);
            format!("{:02}:{:02}:{seconds:02}", minutes / 60, minutes % 60)
        }
        Type::Uuid => format!("00000000-0000-8000-8000-{number:012x}"),
        Type::Numeric(Some((precision, scale))) => {
            let whole = i32::from(*precision) - i32::from(*scale).max(0);
            let are_whole = u32::try_from(whole)
                .is_ok_and(|whole| 10usize.checked_pow(whole).is_none_or(|all| wanted < all));
            match *scale {
                ..=0 => number.to_string() + &"0".repeat(usize::from(scale.unsigned_abs())),
                _ if are_whole => number.to_string(),
                scale => {
                    let shown = usize::from(scale.unsigned_abs());
                    format!("{:.shown$}", number as f64 / 10f64.powi(i32::from(scale)))
                }
            }
        }
        Type::Bool => "false".to_owned(),
        Type::Enum(made) => made.labels.first().cloned().unwrap_or_default(),
        _ => number.to_string(),
    };
    all.map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    use super::*;
    use crate::policy::ColumnBounds;

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
        let times = first_values(&Type::Time, 3661);
        assert_eq!(times.last().unwrap(), "01:01:01");
        assert_eq!(first_values(&Type::Interval, 90_000)[89_999], "25:00:00");
    }

    #[test]
    fn a_short_type_gives_as_many_values_as_fit() {
        let digits = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"];
        for data_type in [Type::Char(Some(1)), Type::Numeric(Some((1, 0)))] {
            assert_eq!(first_values(&data_type, 12), digits);
        }
        let of_numeric = |precision, scale, wanted| {
            first_values(&Type::Numeric(Some((precision, scale))), wanted)
        };
        assert_eq!(of_numeric(3, 2, 2), ["1", "2"]);
        assert_eq!(of_numeric(3, 2, 20)[..2], ["0.01", "0.02"]);
        assert_eq!(of_numeric(2, -1, 2), ["10", "20"]);
        let times: HashSet<String> = first_values(&Type::Time, 90_000).into_iter().collect();
        assert_eq!(times.len(), 86_400);
        // Then the values begin again.
        let mut random = ChaCha20Rng::seed_from_u64(1);
        let found = turns(
            &Column::plain("a", Type::Char(Some(1))),
            &[7; 25],
            &mut random,
        );
        let count = |digit: &str| found.iter().filter(|v| v.as_deref() == Some(digit)).count();
        assert!(digits.iter().all(|digit| (2..=3).contains(&count(digit))));
        let found = turns(
            &Column::plain("a", Type::Bool),
            &[0, 0, 0, 0, 1],
            &mut random,
        );
        assert_eq!(found[0], found[2]);
        assert_ne!(found[0], found[1]);
    }

    #[test]
    fn values_within_bounds_are_all_found() {
        let mut random = ChaCha20Rng::seed_from_u64(1);
        let within = |data_type, lower, upper| Column {
            bounds: Some(ColumnBounds { lower, upper }),
            ..Column::plain("a", data_type)
        };
        let second = |second: i64| Scalar::Timestamp(second * 1_000_000 - 1);
        for (column, count) in [
            (within(Type::Int4, Scalar::Int(3), Scalar::Int(7)), 5),
            (within(Type::Date, Scalar::Date(-1), Scalar::Date(8)), 10),
            (
                within(Type::Numeric(Some((4, 2))), Scalar::Int(0), Scalar::Int(1)),
                101,
            ),
            (
                within(
                    Type::Numeric(Some((4, -1))),
                    Scalar::Int(5),
                    Scalar::Int(40),
                ),
                4,
            ),
            (within(Type::Timestamptz, second(0), second(3)), 3),
            (within(Type::Timestamp, second(1), second(1)), 1),
            (Column::plain("a", Type::Bool), 2),
            (Column::plain("a", Type::Int2), 65_536),
        ] {
            assert_eq!(value_count(&column), count, "{column:?}");
            let found = distinct(&column, 70_000, &mut random);
            let different: HashSet<&String> = found.iter().collect();
            assert_eq!((found.len(), different.len()), (count, count), "{column:?}");
            assert!(has_enough(&column, &vec![0; count]));
            assert!(!has_enough(&column, &vec![0; count + 1]));
        }
        // More digits than floating-point numbers have; the values are from all of the bounds.
        for data_type in [Type::Numeric(Some((30, 20))), Type::Float8] {
            let column = within(data_type, Scalar::Int(1_000_000), Scalar::Int(2_000_000));
            let found = distinct(&column, 1000, &mut random);
            let different: HashSet<&String> = found.iter().collect();
            assert_eq!(different.len(), 1000);
            let numbers: Vec<f64> = found.iter().map(|text| text.parse().unwrap()).collect();
            assert!(numbers.iter().all(|number| (1e6..=2e6).contains(number)));
            let low = numbers.iter().filter(|number| **number < 1.5e6).count();
            assert!((400..=600).contains(&low), "{low}");
        }
    }

    /// No two texts are one single-precision number.
    #[test]
    fn reals_have_no_more_digits_than_they_keep() {
        let mut random = ChaCha20Rng::seed_from_u64(1);
        for (lower, upper) in [
            (16_777_216, 16_777_226),
            (16_000_000, 17_000_000),
            (1000, 1001),
        ] {
            let column = Column {
                bounds: Some(ColumnBounds {
                    lower: Scalar::Int(lower),
                    upper: Scalar::Int(upper),
                }),
                ..Column::plain("a", Type::Float4)
            };
            let found = distinct(&column, 20_000, &mut random);
            let bits = |text: &String| text.parse::<f32>().unwrap().to_bits();
            let different: HashSet<u32> = found.iter().map(bits).collect();
            assert_eq!(different.len(), found.len());
            assert!(value_count(&column) <= found.len().max(1));
        }
    }
}
