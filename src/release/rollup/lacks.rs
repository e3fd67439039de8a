//! Which keys or sums a table lacks, so that a release cannot be read off it.

use super::determines::{determined_by, is_printed_once, undecided_columns, unknown_columns};
use super::filters::sources;
use super::moments::AskedMoments;
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
    /// Keys of the summary of a type whose texts decide no condition and no other expression.
    Expressions(Vec<String>),
    /// No set has all of these keys, which are named by their places.
    Set(Vec<usize>),
    /// Some count or sum.
    Sums,
    /// The moments of a model by group: those of all rows alone are added up.
    Groups,
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
    // A model is fitted to moments, which need no sums of values.
    let moments = match found {
        Some(_) => None,
        None => AskedMoments::of(release, effort),
    };
    let made = family.keys.iter().filter(|key| same(grain, key).is_none());
    let everywhere = conditions.iter().chain(&filters).copied();
    let of_moments = moments.iter().flat_map(AskedMoments::expressions);
    let made = made.map(|key| &key.expr).chain(of_moments);
    let expressions: Vec<&Expr> = everywhere.clone().chain(made).collect();
    effort.spend(1, expressions.iter().copied())?;
    let names = |of: fn(&Expr, &Grain, &Family) -> Vec<String>| {
        let mut names: Vec<String> = Vec::new();
        for name in expressions.iter().flat_map(|expr| of(expr, grain, family)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (!names.is_empty()).then_some(names)
    };
    if let Some(columns) = names(unknown_columns) {
        return Some(SummaryLack::Keys(columns));
    }
    if let Some(columns) = names(undecided_columns) {
        return Some(SummaryLack::Expressions(columns));
    }
    let of = |expr: &Expr| determined_by(expr, grain, family).unwrap_or_default();
    let picking: Vec<FinerKey> = everywhere.flat_map(of).map(|by| by.key).collect();
    let has = |needed: &Vec<FinerKey>| {
        let mut sets = grain.sets.iter();
        grain.sets.is_empty() || sets.any(|set| needed.iter().all(|key| set.contains(key)))
    };
    if found.is_none() {
        // Another reason may stand against a model.
        let Some(moments) = moments else {
            let is_fit = release.models().next().is_some();
            return (!is_fit).then_some(SummaryLack::Sums);
        };
        if !family.keys.is_empty() {
            return Some(SummaryLack::Groups);
        }
        let of_measure = |decided: Vec<&Expr>| {
            let keys = decided.into_iter().flat_map(of).map(|by| by.key);
            in_order(keys.chain(picking.iter().copied()))
        };
        let mut needed = moments.of_measures().map(of_measure);
        return needed.find(|needed| !has(needed)).map(set_of);
    }
    let whole = [GroupingSet::of_all(family.keys.len())];
    let sets = match release.sets() {
        [] => &whole[..],
        sets => sets,
    };
    let of_set = |set: &GroupingSet| {
        let keys = set
            .keys()
            .flat_map(|at| by_keys(grain, family, &family.keys[at.0]));
        in_order(keys.chain(picking.iter().copied()))
    };
    let mut needed = sets.iter().map(of_set);
    needed.find(|needed| !has(needed)).map(set_of)
}

/// The keys, each once.
fn in_order(keys: impl Iterator<Item = FinerKey>) -> Vec<FinerKey> {
    let mut all: Vec<FinerKey> = keys.collect();
    all.sort_by_key(|FinerKey(at)| *at);
    all.dedup();
    all
}

fn set_of(keys: Vec<FinerKey>) -> SummaryLack {
    SummaryLack::Set(keys.into_iter().map(|FinerKey(at)| at).collect())
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
