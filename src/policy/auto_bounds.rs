//! The bounds that the owner leaves to a private search (`auto`), and the possible findings: one of
//! few ends, known without the data.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{ColumnBounds, ColumnPosition, Policy, Protection, Scalar, scalar, version};
use crate::catalog::Type;

/// Most rows of one unit that a policy may name.
pub const ROWS_MAX: u32 = 1_000_000;

/// Powers of two that an end may be: from 2^-20 to 2^60, as far as the type goes.
const POWERS: std::ops::RangeInclusive<i32> = -20..=60;
/// Decimals of the least of them.
const DECIMALS: u32 = 20;

/// One value, or two, that the owner did not write.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// Position in [`Policy::tables`], of a private table.
    pub table: usize,
    pub sought: AutoBound,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AutoBound {
    /// Most rows that one unit contributes. Until they are found, `limits.rows_per_unit` stands for
    /// them.
    Rows,
    /// The ends of a column's range that are not written here. Until they are found, the column has
    /// no bounds.
    Bounds {
        column: ColumnPosition,
        lower: Option<Scalar>,
        upper: Option<Scalar>,
    },
}

/// A search's finding, as a policy would write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finding {
    Rows(u32),
    Bounds { lower: String, upper: String },
}

impl Search {
    /// The possible findings, ascending: powers of two of either sign and zero, within the column's
    /// type and between the ends that are written; those stand at its ends. For rows, powers of two
    /// up to [`ROWS_MAX`].
    pub fn edges(&self, data_type: &Type) -> Vec<Scalar> {
        let (lower, upper) = match &self.sought {
            AutoBound::Rows => {
                let powers = (0..)
                    .map(|e| 1i64 << e)
                    .take_while(|rows| *rows < i64::from(ROWS_MAX));
                return powers
                    .chain([i64::from(ROWS_MAX)])
                    .map(Scalar::Int)
                    .collect();
            }
            AutoBound::Bounds {
                column: _,
                lower,
                upper,
            } => (lower, upper),
        };
        let mut edges: Vec<Scalar> = powers(data_type)
            .iter()
            .filter_map(|text| scalar::parse(data_type, text).ok())
            .collect();
        edges.dedup();
        let is = |a: &Scalar, b: &Scalar, order| scalar::compare(a, b) == Some(order);
        if let Some(lower) = lower {
            edges.retain(|edge| is(edge, lower, Ordering::Greater));
            edges.insert(0, lower.clone());
        }
        if let Some(upper) = upper {
            edges.retain(|edge| is(edge, upper, Ordering::Less));
            edges.push(upper.clone());
        }
        edges
    }
}

/// Numbers; the ends of days and instants are better known than searched.
pub(super) fn is_searchable(data_type: &Type) -> bool {
    match data_type {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8 => {
            true
        }
        Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Time => false,
        Type::Bool
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(_)
        | Type::Uuid
        | Type::Enum(_)
        | Type::Other { .. } => false,
    }
}

fn powers(data_type: &Type) -> Vec<String> {
    let whole = |bits: u32| -> Vec<String> {
        let below = (0..bits).map(|e| (1i128 << e).to_string());
        let (least, most) = (-(1i128 << bits), (1i128 << bits) - 1);
        let up: Vec<String> = below.chain([most.to_string()]).collect();
        let down = up.iter().rev().skip(1).map(|text| format!("-{text}"));
        std::iter::once(least.to_string())
            .chain(down)
            .chain(["0".to_owned()])
            .chain(up.iter().cloned())
            .collect()
    };
    match data_type {
        Type::Int2 => whole(15),
        Type::Int4 => whole(31),
        Type::Int8 => whole(63),
        Type::Numeric(Some((precision, scale))) => {
            let decimals = u32::try_from(*scale).unwrap_or(0).min(DECIMALS);
            let one = |exponent: i32| {
                u32::try_from(exponent)
                    .ok()
                    .and_then(|e| 10u128.checked_pow(e))
            };
            // (10^p - 1) / 10^s, in units of 10^-20.
            let most = one(i32::from(*precision))
                .zip(one(DECIMALS as i32 - i32::from(*scale)))
                .and_then(|(digits, unit)| (digits - 1).checked_mul(unit));
            edges_of_both_signs(decimals, most)
        }
        _ => edges_of_both_signs(DECIMALS, None),
    }
}

/// Powers of two of either sign, in units of 10^-20, rounded up to this many decimals; those past
/// the most become it.
fn edges_of_both_signs(decimals: u32, most: Option<u128>) -> Vec<String> {
    let unit = 10u128.pow(DECIMALS - decimals);
    let mut up: Vec<u128> = Vec::new();
    for power in POWERS {
        // 2^-k is 5^k / 10^k.
        let exact = match u32::try_from(power) {
            Ok(power) => (1u128 << power) * 10u128.pow(DECIMALS),
            Err(_) => 5u128.pow(power.unsigned_abs()) * 10u128.pow(DECIMALS - power.unsigned_abs()),
        };
        let rounded = exact.div_ceil(unit).saturating_mul(unit);
        up.push(most.map_or(rounded, |most| rounded.min(most)));
    }
    up.dedup();
    let text = |value: &u128| {
        let (whole, fraction) = (value / 10u128.pow(DECIMALS), value % 10u128.pow(DECIMALS));
        format!("{whole}.{fraction:020}")
    };
    let down = up.iter().rev().map(|value| format!("-{}", text(value)));
    down.chain(["0".to_owned()])
        .chain(up.iter().map(text))
        .collect()
}

impl Policy {
    /// The policy with its searches' findings, in their order. Other findings make another version.
    /// `None` where one is no finding of its search.
    pub fn settle(&self, findings: &[Finding]) -> Option<Self> {
        let mut settled = self.clone();
        if findings.len() != self.searches.len() {
            return None;
        }
        for (search, finding) in self.searches.iter().zip(findings) {
            let table = settled.tables.get_mut(search.table)?;
            match (&search.sought, finding) {
                (AutoBound::Rows, Finding::Rows(rows)) => {
                    let Protection::Private(unit) = &mut table.protection else {
                        return None;
                    };
                    unit.rows_per_unit = (*rows).clamp(1, ROWS_MAX);
                }
                (
                    AutoBound::Bounds {
                        column,
                        lower: _,
                        upper: _,
                    },
                    Finding::Bounds { lower, upper },
                ) => {
                    let column = table.columns.get_mut(column.0)?;
                    let read = |text: &str| scalar::parse(&column.data_type, text).ok();
                    let bounds = ColumnBounds {
                        lower: read(lower)?,
                        upper: read(upper)?,
                    };
                    if scalar::compare(&bounds.lower, &bounds.upper) != Some(Ordering::Less) {
                        return None;
                    }
                    column.bounds = Some(bounds);
                }
                (AutoBound::Rows, Finding::Bounds { .. })
                | (AutoBound::Bounds { .. }, Finding::Rows(_)) => return None,
            }
        }
        settled.version = version::digest(&settled);
        Some(settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(data_type: &Type, lower: Option<&str>, upper: Option<&str>) -> Vec<String> {
        let read = |text: Option<&str>| text.map(|text| scalar::parse(data_type, text).unwrap());
        let search = Search {
            table: 0,
            sought: AutoBound::Bounds {
                column: ColumnPosition(0),
                lower: read(lower),
                upper: read(upper),
            },
        };
        let edges = search.edges(data_type);
        for pair in edges.windows(2) {
            assert_eq!(
                scalar::compare(&pair[0], &pair[1]),
                Some(Ordering::Less),
                "{data_type}: {pair:?}"
            );
        }
        let text = |edge: &Scalar| match edge {
            Scalar::Int(value) => value.to_string(),
            Scalar::Decimal(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        edges.iter().map(text).collect()
    }

    #[test]
    fn edges_fill_the_type_and_pass_it_nowhere() {
        let of_int2 = edges(&Type::Int2, None, None);
        assert_eq!(
            (
                of_int2.len(),
                of_int2[0].as_str(),
                of_int2[16].as_str(),
                of_int2.last().unwrap().as_str()
            ),
            (33, "-32768", "0", "32767")
        );
        let of_int8 = edges(&Type::Int8, None, None);
        assert_eq!(of_int8[0], i64::MIN.to_string());
        assert_eq!(of_int8.last(), Some(&i64::MAX.to_string()));
        let of_price = edges(&Type::Numeric(Some((5, 2))), None, None);
        assert_eq!(
            (of_price[0].as_str(), of_price.last().unwrap().as_str()),
            ("-999.99", "999.99")
        );
        assert!(
            of_price.contains(&"0.01".to_owned())
                && of_price.contains(&"0.13".to_owned())
                && of_price.contains(&"512".to_owned())
        );
        for odd in [(38, 30), (2, 4), (5, -2), (1000, 0), (1, 0), (3, 3)] {
            assert!(
                edges(&Type::Numeric(Some(odd)), None, None).len() >= 3,
                "{odd:?}"
            );
        }
        let of_float = edges(&Type::Float8, None, None);
        assert!(
            of_float.contains(&"0.00000095367431640625".to_owned())
                && of_float.contains(&"1152921504606846976".to_owned())
        );
        assert_eq!(of_float.len(), 2 * 81 + 1);
    }

    #[test]
    fn ends_that_are_written_stay() {
        assert_eq!(
            edges(&Type::Int4, Some("0"), Some("10")),
            ["0", "1", "2", "4", "8", "10"]
        );
        assert_eq!(
            edges(&Type::Numeric(None), Some("-3.5"), Some("1"))[..3],
            ["-3.5", "-2", "-1"]
        );
        assert_eq!(edges(&Type::Int4, Some("2147483647"), None), ["2147483647"]);
        let rows = Search {
            table: 0,
            sought: AutoBound::Rows,
        }
        .edges(&Type::Int8);
        assert_eq!(
            (rows.len(), rows.first(), rows.last()),
            (21, Some(&Scalar::Int(1)), Some(&Scalar::Int(1_000_000)))
        );
    }
}
