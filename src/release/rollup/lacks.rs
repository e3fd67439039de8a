//! Which keys or sums a table lacks, so that a release cannot be read off it.

use super::determines::{determined_by, is_printed_once, unknown_columns};
use super::filters::sources;
use super::{FinerKey, Grain};
use crate::analyze::PlanningEffort;
use crate::ir::{Expr, GroupingSet};
use crate::release::ReleasedTable;
use crate::rewrite::{Family, Grouping, ReleasePlan};

/// What a summary lacks to answer a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryLack {
    /// Columns of the release that are no keys of the summary.
    Keys(Vec<String>),
    /// No set has all of these keys, which are named by their places.
    Set(Vec<usize>),
    /// Some count or sum.
    Sums,
}

/// What a table lacks so that the release could be read off it. `None` where it lacks no key and no
/// sum: it answers the release, or another reason stands against it.
pub fn lacking(
    release: &ReleasePlan,
    table: &ReleasedTable,
    effort: &PlanningEffort,
) -> Option<SummaryLack> {
    let (grain, family) = (table.grain.as_ref()?, release.family()?);
    let is_new = |digest| !grain.conditions.contains(digest);
    let others = family.conditions.iter().filter(|c| is_new(&c.digest));
    let conditions: Vec<&Expr> = others.filter_map(|c| c.expr.as_ref()).collect();
    let found = sources(grain, family);
    let filters = family.filtered.iter().flatten().map(|of| &of.filter);
    // A filter that some answer has as it is needs no key.
    let filters: Vec<&Expr> = match &found {
        Some((_, filters)) => filters.clone(),
        None => filters.collect(),
    };
    let made = family.keys.iter().filter(|key| same(grain, key).is_none());
    let everywhere = conditions.iter().chain(&filters).copied();
    let expressions = everywhere.clone().chain(made.map(|key| &key.expr));
    effort.spend(1, expressions.clone())?;
    let mut columns: Vec<String> = Vec::new();
    for name in expressions.flat_map(|expr| unknown_columns(expr, grain, family)) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    if !columns.is_empty() {
        return Some(SummaryLack::Keys(columns));
    }
    if found.is_none() {
        return Some(SummaryLack::Sums);
    }
    let of = |expr: &Expr| determined_by(expr, grain, family).unwrap_or_default();
    let picking: Vec<FinerKey> = everywhere.flat_map(of).map(|by| by.key).collect();
    let whole = [GroupingSet::of_all(family.keys.len())];
    let sets = match release.sets() {
        [] => &whole[..],
        sets => sets,
    };
    let of_set = |set: &GroupingSet| {
        let keys = set
            .keys()
            .flat_map(|at| by_keys(grain, family, &family.keys[at.0]));
        let mut all: Vec<FinerKey> = keys.chain(picking.iter().copied()).collect();
        all.sort_by_key(|FinerKey(at)| *at);
        all.dedup();
        all
    };
    let has = |needed: &Vec<FinerKey>| {
        let mut sets = grain.sets.iter();
        grain.sets.is_empty() || sets.any(|set| needed.iter().all(|key| set.contains(key)))
    };
    let missing = sets.iter().map(of_set).find(|needed| !has(needed))?;
    Some(SummaryLack::Set(
        missing.into_iter().map(|FinerKey(at)| at).collect(),
    ))
}

/// The key of the table that is the release's own.
fn same(grain: &Grain, key: &Grouping) -> Option<FinerKey> {
    let mut keys = grain.keys.iter();
    keys.position(|known| known.digest == key.digest)
        .map(FinerKey)
}

/// The keys of the table that decide a key of the release.
fn by_keys(grain: &Grain, family: &Family, key: &Grouping) -> Vec<FinerKey> {
    match same(grain, key) {
        Some(same) => vec![same],
        None if is_printed_once(&key.expr.data_type) => {
            let by = determined_by(&key.expr, grain, family).unwrap_or_default();
            by.into_iter().map(|by| by.key).collect()
        }
        None => Vec::new(),
    }
}
