//! The groups of a release: those that are listed, and those that a statement found, in an order
//! that says nothing about the data.

use std::collections::HashMap;

use zeroize::Zeroizing;

use crate::analyze::{Axis, KeyCombinations, KeyRule, axes};
use crate::catalog::Type;
use crate::ir::{GroupingSet, KeyId, SetId};
use crate::mechanism::Calibrated;
use crate::policy::Scalar;
use crate::rewrite::{ReleasePlan, key_text};

/// A group's keys, as the statement printed them.
pub type PrintedKey = Vec<Option<String>>;

/// A group with the exact integers of its coordinates.
pub type ExactGroup = (PrintedKey, Zeroizing<Vec<i128>>);

/// The exact integers of each group that a statement found.
pub type FoundGroups = HashMap<PrintedKey, Zeroizing<Vec<i128>>>;

/// Groups that may be shown, with the exact integers of their coordinates. A grouping set of listed
/// keys has all their combinations; another has the groups that the statement found.
pub fn groups(
    release: &ReleasePlan,
    vector: &[PrintedKey],
    calibrated: &[Calibrated],
) -> Vec<ExactGroup> {
    let mut found = FoundGroups::new();
    for row in vector {
        let (key, values) = row.split_at(release.key_columns().min(row.len()));
        let values: Vec<i128> = values
            .iter()
            .zip(calibrated)
            .map(|(v, c)| refine(v.as_deref(), c, release.is_refined()))
            .collect();
        found.insert(key.to_vec(), Zeroizing::new(values));
    }
    arrange(release, found, calibrated.len())
}

/// The groups of a statement's result, each with this many integers.
pub fn arrange(release: &ReleasePlan, mut found: FoundGroups, width: usize) -> Vec<ExactGroup> {
    let mut groups: Vec<ExactGroup> = cells(release)
        .into_iter()
        .map(|cell| {
            let values = found
                .remove(&cell)
                .unwrap_or_else(|| Zeroizing::new(vec![0; width]));
            (cell, values)
        })
        .collect();
    let others = found
        .into_iter()
        .filter(|(key, _)| !is_listed(release, key))
        .collect();
    groups.extend(sort_groups(
        others,
        release.keys(),
        release.key_columns() - release.keys().len(),
    ));
    groups
}

/// The keys of a row's grouping set, its number first where there are several.
fn set_of(release: &ReleasePlan, key: &PrintedKey) -> GroupingSet {
    match release.sets() {
        [] => GroupingSet::of_all(release.keys().len()),
        sets => {
            let number = key
                .first()
                .and_then(Option::as_ref)
                .and_then(|text| SetId::read(text));
            number
                .and_then(|number| number.find(sets))
                .cloned()
                .unwrap_or_default()
        }
    }
}

/// Whether the groups of the key's grouping set are known without the data.
pub fn is_listed(release: &ReleasePlan, key: &PrintedKey) -> bool {
    set_of(release, key)
        .keys()
        .all(|key| matches!(release.keys()[key.0].1, KeyRule::Domain(_)))
}

/// A coordinate's exact integer as the statement printed it. It saturates far outside anything that
/// a table can hold, so that no value can stop a release. Sums are integers by their type; should
/// one have decimals, its whole part counts.
pub fn integer(text: Option<&str>) -> i128 {
    let Some(text) = text else { return 0 };
    let text = text.split_once('.').map_or(text, |(whole, _)| whole);
    text.parse().unwrap_or(if text.starts_with('-') {
        i128::MIN / 4
    } else {
        i128::MAX / 4
    })
}

/// A coordinate's exact integer on its refined grid.
pub fn refine(text: Option<&str>, calibrated: &Calibrated, is_refined: bool) -> i128 {
    let value = integer(text);
    if is_refined {
        return value;
    }
    value
        .saturating_mul(
            1i128
                .checked_shl(calibrated.refine.min(100))
                .unwrap_or(i128::MAX),
        )
        .clamp(i128::MIN / 4, i128::MAX / 4)
}

/// Every combination of listed key values, in order, as the statement prints them, for every
/// grouping set whose keys are all listed.
pub fn cells(release: &ReleasePlan) -> Vec<PrintedKey> {
    if release.sets().is_empty() {
        return of_set(release, &set_of(release, &Vec::new()), Vec::new());
    }
    let sets = SetId::with_numbers(release.sets());
    sets.flat_map(|(number, set)| of_set(release, set, vec![Some(number.to_string())]))
        .collect()
}

fn of_set(release: &ReleasePlan, set: &GroupingSet, start: PrintedKey) -> Vec<PrintedKey> {
    let text = |key: KeyId, value: &Option<Scalar>| {
        value
            .as_ref()
            .map(|v| key_text(v, &release.keys()[key.0].0))
    };
    let first = start.len();
    let mut whole = start;
    whole.resize(first + release.keys().len(), None);
    let mut cells: Vec<PrintedKey> = vec![whole];
    for axis in axes(set, release.tuples()) {
        let (places, rows): (Vec<KeyId>, Vec<PrintedKey>) = match axis {
            Axis::Key(at) => match &release.keys()[at.0].1 {
                KeyRule::Domain(values) => {
                    (vec![at], values.iter().map(|v| vec![text(at, v)]).collect())
                }
                KeyRule::Threshold => return Vec::new(),
            },
            Axis::Tuples(KeyCombinations { keys, rows }) => {
                let rows = rows
                    .iter()
                    .map(|row| keys.iter().zip(row).map(|(at, v)| text(*at, v)).collect())
                    .collect();
                (keys, rows)
            }
        };
        let placed = |cell: &PrintedKey, row: &PrintedKey| {
            let mut cell = cell.clone();
            places
                .iter()
                .zip(row)
                .for_each(|(at, text)| cell[first + at.0].clone_from(text));
            cell
        };
        cells = cells
            .iter()
            .flat_map(|cell| rows.iter().map(|row| placed(cell, row)).collect::<Vec<_>>())
            .collect();
    }
    cells
}

/// How a key's value is ordered: listed values by position, numbers by value, texts by their bytes,
/// NULL last.
type Rank<'a> = (u8, i64, &'a str);

/// Groups by grouping set and key, so that their order says nothing about the data. Ranks are
/// looked up in a map: the time is that of the groups plus that of the lists.
fn sort_groups(
    groups: Vec<ExactGroup>,
    keys: &[(Type, KeyRule)],
    numbered: usize,
) -> Vec<ExactGroup> {
    let places: Vec<HashMap<String, i64>> = keys.iter().map(places).collect();
    let number = |key: &PrintedKey| {
        key.iter()
            .take(numbered)
            .flatten()
            .next()
            .and_then(|text| text.parse::<usize>().ok())
    };
    let mut ranks: Vec<(Option<usize>, Vec<Rank<'_>>)> = Vec::with_capacity(groups.len());
    for (key, _) in &groups {
        let texts = key.iter().skip(numbered).zip(keys).zip(&places);
        ranks.push((
            number(key),
            texts
                .map(|((text, key), places)| rank(text.as_deref(), key, places))
                .collect(),
        ));
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by(|a, b| ranks[*a].cmp(&ranks[*b]));
    drop(ranks);
    let mut groups: Vec<Option<ExactGroup>> = groups.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|at| groups[at].take())
        .collect()
}

fn rank<'k>(
    text: Option<&'k str>,
    (data_type, rule): &(Type, KeyRule),
    places: &HashMap<String, i64>,
) -> Rank<'k> {
    let Some(text) = text else { return (1, 0, "") };
    match (rule, data_type) {
        (KeyRule::Domain(_), _) => (0, places.get(text).copied().unwrap_or(i64::MAX), ""),
        (
            KeyRule::Threshold,
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float8,
        ) => (0, in_total_order(text.parse().unwrap_or(f64::MAX)), text),
        (KeyRule::Threshold, _) => (0, 0, text),
    }
}

/// The position of each listed value, by its text.
fn places((data_type, rule): &(Type, KeyRule)) -> HashMap<String, i64> {
    let mut places = HashMap::new();
    if let KeyRule::Domain(values) = rule {
        for (at, value) in (0..).zip(values) {
            if let Some(value) = value {
                places.entry(key_text(value, data_type)).or_insert(at);
            }
        }
    }
    places
}

/// Integers in the order of [`f64::total_cmp`]: NaN is above all numbers. By `<` it would be
/// neither below nor above any of them, which is no order.
fn in_total_order(value: f64) -> i64 {
    let bits = value.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(key: &[&str]) -> ExactGroup {
        let text = |text: &&str| (*text != "NULL").then(|| (*text).to_owned());
        (key.iter().map(text).collect(), Zeroizing::new(Vec::new()))
    }

    fn order(keys: &[(Type, KeyRule)], numbered: usize, groups: &[&[&str]]) -> Vec<String> {
        let shown = |(key, _): &ExactGroup| {
            key.iter()
                .map(|text| text.clone().unwrap_or("NULL".to_owned()))
                .collect::<Vec<_>>()
                .join(" ")
        };
        sort_groups(
            groups.iter().map(|key| group(key)).collect(),
            keys,
            numbered,
        )
        .iter()
        .map(shown)
        .collect()
    }

    /// NaN has a place too, wherever it comes from: otherwise the order of the others would depend
    /// on it.
    #[test]
    fn groups_are_ordered_by_set_and_value() {
        let listed = KeyRule::Domain(
            ["b", "a"]
                .map(|text| Some(Scalar::Text(text.to_owned())))
                .into(),
        );
        let keys = [(Type::Text, listed), (Type::Float8, KeyRule::Threshold)];
        let wanted = [
            "0 b -2.5",
            "0 b -0.5",
            "0 b NULL",
            "0 a 2",
            "0 a 10",
            "0 a Infinity",
            "0 a NaN",
            "0 a NULL",
            "1 NULL -1",
            "2 b NULL",
            "10 a NULL",
        ];
        let mut groups: Vec<Vec<&str>> =
            wanted.iter().map(|key| key.split(' ').collect()).collect();
        for _ in 0..groups.len() {
            groups.rotate_left(1);
            let turned: Vec<&[&str]> = groups.iter().map(Vec::as_slice).collect();
            assert_eq!(order(&keys, 1, &turned), wanted);
            let backwards: Vec<&[&str]> = groups.iter().rev().map(Vec::as_slice).collect();
            assert_eq!(order(&keys, 1, &backwards), wanted);
        }
        let texts: [&[&str]; 4] = [&["b"], &["a"], &["B"], &["NULL"]];
        assert_eq!(
            order(&[(Type::Text, KeyRule::Threshold)], 0, &texts),
            ["B", "a", "b", "NULL"]
        );
    }

    /// There are as many groups as listed values: work by their product would not end.
    #[test]
    fn many_groups_next_to_a_long_list_are_sorted() {
        let values = (0..50_000_i64)
            .rev()
            .map(|n| Some(Scalar::Int(n)))
            .collect();
        let keys = [
            (Type::Int4, KeyRule::Domain(values)),
            (Type::Int4, KeyRule::Threshold),
        ];
        let groups = (0..50_000)
            .map(|n| group(&[&(n * 7_919 % 50_000).to_string(), &n.to_string()]))
            .collect();
        let sorted = sort_groups(groups, &keys, 0);
        let first: Vec<&str> = sorted
            .iter()
            .filter_map(|(key, _)| key[0].as_deref())
            .collect();
        assert!(
            first
                .iter()
                .map(|text| text.parse::<i64>().unwrap())
                .eq((0..50_000).rev())
        );
    }
}
