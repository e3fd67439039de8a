//! Measures one unit's influence on a release exactly: runs the emitted statement with and without
//! the unit's rows and subtracts the integers.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::{BigInt, BigUint};
use num_traits::ToPrimitive;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::population::Population;
use crate::ir::ReleaseId;
use crate::rewrite::{Price, ReadBackPart, ReleasePlan};

/// The group's key and its integers; `None` for a value that is not an integer.
type Groups = BTreeMap<Vec<Option<String>>, Option<Vec<BigInt>>>;

/// The largest influence that was measured, relative to the declared bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Influence {
    /// The influence as a share of the declared bound: 1 is the whole bound.
    pub share: f64,
    /// Whether the bound holds, compared in integers. A value that is not an integer violates it.
    pub holds: bool,
    /// Whether every coordinate was an integer.
    pub is_read: bool,
    /// Number of units that were removed, one at a time.
    pub units: usize,
}

/// Measures some units, starting with the canary. `None` if the release has no vector of sums, or
/// is none of the part's.
///
/// # Requires
/// The session can write the population's tables. They are unchanged afterwards.
///
/// # Errors
/// Ordinary errors of the database; the rows are synthetic.
pub async fn influence(
    client: &Client,
    population: &Population,
    part: &ReadBackPart<'_>,
    release: ReleaseId,
    units: usize,
) -> Result<Option<Influence>, tokio_postgres::Error> {
    let Some(release) = part.release(release) else {
        return Ok(None);
    };
    let (Some(sql), Some(price)) = (release.sql(), release.price()) else {
        return Ok(None);
    };
    let whole = groups(client, sql, release.vector_keys()).await?;
    let mut found = Influence {
        share: 0.0,
        holds: true,
        is_read: true,
        units: 0,
    };
    for unit in 0..units.min(Population::units()) {
        client.batch_execute("BEGIN").await?;
        client
            .batch_execute(&population.statements(Some(unit)).join(";\n"))
            .await?;
        let rest = groups(client, sql, release.vector_keys()).await;
        client.batch_execute("ROLLBACK").await?;
        let rest = rest?;
        let is_read = whole.values().chain(rest.values()).all(Option::is_some);
        let (share, holds) = measure_move(price, release, &whole, &rest);
        found = Influence {
            share: found.share.max(share),
            holds: found.holds && holds && is_read,
            is_read: found.is_read && is_read,
            units: found.units + 1,
        };
    }
    Ok(Some(found))
}

async fn groups(client: &Client, sql: &str, keys: usize) -> Result<Groups, tokio_postgres::Error> {
    let mut groups = Groups::new();
    for message in client.simple_query(sql).await? {
        let SimpleQueryMessage::Row(row) = message else {
            continue;
        };
        let key = (0..keys).map(|at| row.get(at).map(str::to_owned)).collect();
        groups.insert(key, read((keys..row.len()).map(|at| row.get(at))));
    }
    Ok(groups)
}

/// `None` if a value is not an integer.
fn read<'a>(texts: impl IntoIterator<Item = Option<&'a str>>) -> Option<Vec<BigInt>> {
    texts.into_iter().map(|text| text?.parse().ok()).collect()
}

/// The norm of the difference and the clip; both are squared under Gaussian noise. The integers of
/// a refined release are already on finer grids.
fn measure_move(
    price: &Price,
    release: &ReleasePlan,
    whole: &Groups,
    rest: &Groups,
) -> (f64, bool) {
    let finest = price.calibrated.iter().map(|c| c.refine).max().unwrap_or(0);
    let zeros = vec![BigInt::ZERO; price.weights.len()];
    let norm = price.norm();
    let (mut sum, mut touched, mut appears) = (BigUint::ZERO, 0u32, false);
    for key in whole.keys().chain(rest.keys()).collect::<BTreeSet<_>>() {
        let (here, there) = (whole.get(key), rest.get(key));
        appears |= here.is_none();
        touched += u32::from(here != there);
        let or_zeros = |values: Option<&Option<Vec<BigInt>>>| {
            values
                .and_then(Clone::clone)
                .unwrap_or_else(|| zeros.clone())
        };
        let (here, there) = (or_zeros(here), or_zeros(there));
        for (at, weight) in price.weights.iter().enumerate() {
            let finer = if release.is_refined() {
                finest - price.calibrated[at].refine
            } else {
                finest
            };
            let moved = ((&here[at] - &there[at]).magnitude() * weight) << finer;
            sum += norm.norm_summand(moved);
        }
    }
    let limit = &price.clip << finest;
    let limit = norm.norm_summand(limit);
    let within =
        sum <= limit && !appears && price.groups_per_unit.is_none_or(|most| touched <= most);
    (ratio(&sum, &limit).powf(norm.root()), within)
}

/// For display: the leading bits decide.
fn ratio(a: &BigUint, b: &BigUint) -> f64 {
    let shift = a.bits().max(b.bits()).saturating_sub(900);
    let float = |value: &BigUint| (value >> shift).to_f64().unwrap_or(f64::MAX);
    float(a) / float(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_integer_is_not_zero() {
        assert_eq!(
            read([Some("7"), Some("-2")]),
            Some(vec![BigInt::from(7), BigInt::from(-2)])
        );
        for text in [None, Some("NaN"), Some("1.5"), Some("")] {
            assert_eq!(read([Some("7"), text]), None, "{text:?}");
        }
    }
}
