//! Roll-ups: a coarser answer as sums of a finer one's noisy groups. This is post-processing: it
//! reads no data, draws no noise and costs nothing.

mod determines;
mod divisor;
mod filters;
mod if_bought;
mod lacks;
mod moments;
mod read_as;
mod reads_off;
mod unclamped;
mod units_seen;

pub use lacks::{SummaryLack, lacking};
pub use reads_off::{read_off, reads_off, stand_in};
pub use units_seen::units_at_most;

use std::collections::{BTreeSet, HashMap};

use num_bigint::BigInt;
use serde::{Deserialize, Serialize};

use determines::{DecidingKey, determined_by, is_printed_once, named_values};

pub(in crate::release) use filters::{FilterId, Met, Picked, Source};
use filters::{FilteredSums, sources};
use if_bought::{if_bought, shares};

use super::decode;
use super::decode::Rational;
use super::{PrintedKey, ReleasedTable, cells};
use crate::aggregates::Foreseen;
use crate::analyze::{KeyRule, PlanningEffort};
use crate::catalog::Type;
use crate::ir::evaluate::{KnownValue, evaluate_within};
use crate::ir::{ColumnId, Expr, GroupingSet, KeyId, SetId};
use crate::policy::Scalar;
use crate::rewrite::{
    ColumnBins, Coordinate, CoordinateId, Family, ReleasePlan, SqlDigest, Total, key_text,
};

/// An answer's groups and the noisy integers behind its measures, kept with it so that they can be
/// added up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grain {
    /// The epsilon of its statement.
    epsilon: f64,
    /// Digests of the emitted SQL: no text of a question is kept.
    conditions: Vec<SqlDigest>,
    keys: Vec<GrainKey>,
    /// The keys of each grouping set; empty for a plain GROUP BY of all keys.
    sets: Vec<Vec<FinerKey>>,
    totals: Vec<Total>,
    /// The coordinate that counts every row once. Older answers do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<CoordinateId>,
    /// For each coordinate: its integers are in units of 2^-refined, divided by `divisor`.
    refined: Vec<u32>,
    #[serde(default = "divisor::one", with = "divisor")]
    divisor: BigInt,
    /// Parallel to the answer's groups. Decimal texts, since integers may be longer than eight
    /// bytes.
    noisy: Vec<Vec<String>>,
}

/// One key of a finer answer, by its place. The keys of the release that reads it are others:
/// [`KeyId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct FinerKey(usize);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct GrainKey {
    digest: SqlDigest,
    /// The key's values, each with its text in the groups.
    values: Vec<(Option<String>, Option<Scalar>)>,
    is_whole: bool,
    /// If the values are the numbers of bins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bins: Option<ColumnBins>,
}

impl Grain {
    /// The grain of a release that was just made. Its integers are in units of 2^-`refined`, over
    /// `divisor`. `None` if no roll-up is possible.
    pub(super) fn of(
        release: &ReleasePlan,
        (refined, divisor): (&[u32], &BigInt),
        noisy: &[Vec<BigInt>],
    ) -> Option<Self> {
        let family = release.family()?;
        let key = |(grouping, (data_type, rule)): (&crate::rewrite::Grouping, &(Type, KeyRule))| {
            let KeyRule::Domain(values) = rule else {
                return None;
            };
            let text = |value: &Option<Scalar>| {
                (
                    value.as_ref().map(|v| key_text(v, data_type)),
                    value.clone(),
                )
            };
            Some(GrainKey {
                digest: grouping.digest,
                values: values.iter().map(text).collect(),
                is_whole: grouping.is_whole,
                bins: grouping.bins.clone(),
            })
        };
        let finer = |set: &GroupingSet| set.keys().map(|KeyId(at)| FinerKey(at)).collect();
        Some(Self {
            epsilon: family.epsilon,
            conditions: family.conditions.iter().map(|c| c.digest).collect(),
            keys: family
                .keys
                .iter()
                .zip(release.keys())
                .map(key)
                .collect::<Option<_>>()?,
            sets: release.sets().iter().map(finer).collect(),
            totals: family.totals.clone(),
            rows: coordinate_of_rows(release),
            refined: refined.to_vec(),
            divisor: divisor.clone(),
            noisy: noisy
                .iter()
                .map(|row| row.iter().map(BigInt::to_string).collect())
                .collect(),
        })
    }
}

/// The coordinate that counts every row once.
fn coordinate_of_rows(release: &ReleasePlan) -> Option<CoordinateId> {
    let is_of_rows = |coordinate: &Coordinate| match coordinate {
        Coordinate::Rows { mask } => mask.filter.is_none() && mask.not_null.is_none(),
        _ => false,
    };
    let at = release.coordinates().iter().position(is_of_rows);
    at.map(CoordinateId)
}

/// An answer that was computed from a finer one.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollup {
    pub table: ReleasedTable,
    /// The epsilon of the finer answer's statement.
    pub epsilon: f64,
    /// The largest ratio, over measures and groups, of its standard error to that of a new answer.
    pub worse: f64,
    /// The most finer groups that one group sums.
    pub summed: usize,
    /// The standard error of each measure of a new answer. An estimate where a look would choose
    /// its clip.
    pub bought: Vec<f64>,
    /// The places of the finer groups that each group is the sum of.
    pub(super) members: Vec<Vec<usize>>,
}

/// Bytes of a stored answer that are read in one step.
const BYTES_READ: usize = 8;
/// Values that are compared in one step.
const VALUES_COMPARED: usize = 8;

/// The release's groups from a stored answer of its family; `None` where they are not exactly sums
/// of its groups, or where finding out takes more than what is left of `effort`.
///
/// # Guarantee
/// The result is a function of the stored, released answer and of public facts, and so as private
/// as that answer.
///
/// But for noise, and for what clips cut, the sums are those that the release would be made of.
/// Every row of the release is in one group of the finer answer: it meets the finer one's
/// conditions, which are the release's own too, and each of its key values is listed there
/// ([`is_covered`]). Every row of a group that is picked is in the release: it meets the release's
/// other conditions, which follow from the group's keys, and its own keys are listed.
pub fn coarser(release: &ReleasePlan, stored: &[u8], effort: &PlanningEffort) -> Option<Rollup> {
    effort.take((stored.len() / BYTES_READ) as u64)?;
    let table: ReleasedTable = serde_json::from_slice(stored).ok()?;
    from_finer(release, &table, effort)
}

/// Like [`coarser`], from an answer that was read.
///
/// # Guarantee
/// As [`coarser`].
pub fn from_finer(
    release: &ReleasePlan,
    table: &ReleasedTable,
    effort: &PlanningEffort,
) -> Option<Rollup> {
    let (grain, drawn) = (table.grain.as_ref()?, table.drawn.as_ref()?);
    let family = release.family()?;
    // The plan's noise decides how large a noisy flag may be by chance.
    let mut outputs = release.outputs().iter();
    let has_flags = outputs.any(|(output, _)| output.foreseen() == Foreseen::Chance);
    let mut rows = grain.noisy.iter();
    let is_whole =
        grain.noisy.len() == table.keys.len() && rows.all(|row| row.len() == grain.refined.len());
    if has_flags || !release.choices().is_empty() || !is_whole {
        return None;
    }
    let Some((sources, filters)) = sources(grain, family) else {
        let view = View::new(grain, (family, &[]), release, effort)?;
        return moments::sum_up(release, table, (&view, family), drawn);
    };
    // What a clip cuts is known of whole groups alone.
    if !filters.is_empty() && drawn.is_cut() {
        return None;
    }
    let totals: Vec<&Total> = sources.iter().map(|source| source.total).collect();
    let view = View::new(grain, (family, &filters), release, effort)?;
    let (members, read, met) = view.members(&table.keys)?;
    let mut made = ReleasedTable::default();
    let mut all = Vec::with_capacity(members.len());
    let shares = shares(grain, &totals, (&members, &read))?;
    let of_keys = |rows: &Vec<usize>| rows.iter().map(|row| &table.keys[*row]).collect();
    let factors = drawn.factors(members.iter().map(|(_, rows)| of_keys(rows)), effort)?;
    let by_filter = match filters.is_empty() {
        true => None,
        false => Some(drawn.by_filter(&table.keys, (&sources, &members, &met), effort)?),
    };
    for (key, rows) in members {
        let sums = FilteredSums::of(grain, &rows, (filters.len(), &met))?;
        let of = |CoordinateId(at): CoordinateId| sources[at].value(grain, &sums);
        made.measures.push(decode::measures(release, of));
        made.keys.push(key);
        all.push(rows);
    }
    let summed = all.iter().map(Vec::len).collect();
    let drawn = drawn.added_up(&totals, (summed, factors))?;
    let drawn = drawn.with_filters(by_filter);
    // A session that asks for a clip that is known beforehand must not get a chosen one.
    if drawn.is_cut() && release.look().is_none() {
        return None;
    }
    let measures = release.measures().iter();
    let bought: Vec<f64> = measures
        .map(|measure| if_bought(release, measure, &drawn, &shares))
        .collect::<Option<_>>()?;
    let both = release.measures().iter().zip(&bought);
    let times = both.map(|(measure, bought)| drawn.deviation(measure) / bought);
    let worse = times.fold(0.0, f64::max);
    let summed = drawn.groups_summed_max();
    made.drawn = Some(drawn);
    Some(Rollup {
        table: made,
        epsilon: grain.epsilon,
        worse,
        summed,
        bought,
        members: all,
    })
}

/// The noisy integers of some groups together, coordinate by coordinate.
fn sum_rows(grain: &Grain, rows: &[usize]) -> Option<Vec<BigInt>> {
    let mut sums = vec![BigInt::ZERO; grain.refined.len()];
    for row in rows {
        for (sum, text) in sums.iter_mut().zip(&grain.noisy[*row]) {
            *sum += text.parse::<BigInt>().ok()?;
        }
    }
    Some(sums)
}

fn value(grain: &Grain, total: &Total, sums: &[BigInt]) -> Rational {
    let term = |(CoordinateId(at), factor): &(CoordinateId, i64)| {
        (
            Rational::binary(sums[*at].clone(), grain.refined[*at]),
            *factor,
        )
    };
    Rational::combine(total.terms.iter().map(term), total.divisor).over(&grain.divisor)
}

/// How one of the release's keys follows from the finer answer's.
enum KeySource<'a> {
    Same(FinerKey),
    Of(&'a Expr, Vec<DecidingKey<'a>>),
}

/// The groups that are made, each with the finer groups in it; the finer groups that were read; and
/// the filters that those in a group meet.
type Members = (Vec<(PrintedKey, Vec<usize>)>, Vec<usize>, Met);

/// A group of the finer answer: its place, and its keys without the grouping set's number.
type Finer<'k> = (usize, &'k [Option<String>]);

/// The finer answer as the release reads it.
struct View<'a> {
    grain: &'a Grain,
    release: &'a ReleasePlan,
    keys: Vec<KeySource<'a>>,
    /// Conditions of the release that the finer answer does not have, each with the keys that
    /// decide it.
    picks: Vec<(&'a Expr, Vec<DecidingKey<'a>>)>,
    /// The filters of coordinates, likewise.
    filters: Vec<(&'a Expr, Vec<DecidingKey<'a>>)>,
    /// For each key of the finer answer: its values by how they are printed.
    values: Vec<HashMap<&'a Option<String>, &'a Option<Scalar>>>,
    effort: &'a PlanningEffort,
}

impl<'a> View<'a> {
    fn new(
        grain: &'a Grain,
        (family, filters): (&'a Family, &[&'a Expr]),
        release: &'a ReleasePlan,
        effort: &'a PlanningEffort,
    ) -> Option<Self> {
        if !grain
            .conditions
            .iter()
            .all(|known| family.conditions.iter().any(|c| c.digest == *known))
        {
            return None;
        }
        let sourced = |expr: &'a Expr| Some((expr, determined_by(expr, grain, family)?));
        let others = family
            .conditions
            .iter()
            .filter(|c| !grain.conditions.contains(&c.digest));
        let picks: Vec<_> = others
            .map(|c| sourced(c.expr.as_ref()?))
            .collect::<Option<_>>()?;
        let filters = filters.iter().map(|filter| sourced(filter));
        let filters = filters.collect::<Option<_>>()?;
        let key = |grouping: &'a crate::rewrite::Grouping| match grain
            .keys
            .iter()
            .position(|known| known.digest == grouping.digest)
        {
            Some(at) => Some(KeySource::Same(FinerKey(at))),
            None => is_printed_once(&grouping.expr.data_type)
                .then_some(&grouping.expr)
                .and_then(sourced)
                .map(|(expr, by)| KeySource::Of(expr, by)),
        };
        let keys = family.keys.iter().map(key).collect::<Option<_>>()?;
        // Of values that print the same, the first one counts.
        let values = grain
            .keys
            .iter()
            .map(|key| {
                key.values
                    .iter()
                    .rev()
                    .map(|(printed, value)| (printed, value))
                    .collect()
            })
            .collect();
        let view = Self {
            grain,
            release,
            keys,
            picks,
            filters,
            values,
            effort,
        };
        (0..grain.keys.len())
            .all(|at| view.is_covered(FinerKey(at)))
            .then_some(view)
    }

    /// Whether the finer answer lists, for this one of its keys, every value that a row of the
    /// release can have. It does in three cases:
    /// - no other value can occur;
    /// - the release groups by the same key: it leaves out the values that it does not list, and
    ///   lists no value that the finer answer does not;
    /// - a condition of the release names the values, and all of them are listed.
    fn is_covered(&self, key: FinerKey) -> bool {
        let is_same = self
            .keys
            .iter()
            .any(|source| matches!(source, KeySource::Same(at) if *at == key));
        let known = &self.grain.keys[key.0].values;
        let listed = |value: &Scalar| known.iter().any(|(_, known)| known.as_ref() == Some(value));
        let compares = |values: &[&Scalar]| {
            self.effort
                .take((values.len().saturating_mul(known.len()) / VALUES_COMPARED) as u64)
                .is_some()
        };
        let is_named = |(expr, by): &(&Expr, Vec<DecidingKey<'_>>)| match by.as_slice() {
            [by] if by.key == key && by.bins.is_none() => named_values(expr, by.column)
                .is_some_and(|values| compares(&values) && values.into_iter().all(listed)),
            _ => false,
        };
        self.grain.keys[key.0].is_whole || is_same || self.picks.iter().any(is_named)
    }

    /// The groups of the release in their order, each with the places of the finer groups that it
    /// is the sum of; the places of all finer groups that were read; and the filters that these
    /// groups meet.
    fn members(&self, keys: &[PrintedKey]) -> Option<Members> {
        let wanted = cells(self.release);
        let mut members: HashMap<PrintedKey, Vec<usize>> = HashMap::new();
        let (mut read, mut met) = (BTreeSet::new(), Met::default());
        let sets = match self.release.sets() {
            [] => vec![(Vec::new(), GroupingSet::of_all(self.keys.len()))],
            sets => SetId::with_numbers(sets)
                .map(|(number, set)| (vec![Some(number.to_string())], set.clone()))
                .collect(),
        };
        for (start, set) in sets {
            let rows = self.rows_for(&set, keys)?;
            self.effort
                .spend(rows.len(), self.evaluated_expressions(&set))?;
            for (row, finer) in rows {
                read.insert(row);
                if let Some(key) = self.key(&start, &set, finer)? {
                    if !self.filters.is_empty() {
                        met.insert(row, self.filters_met(finer)?);
                    }
                    members.entry(key).or_default().push(row);
                }
            }
        }
        let groups = wanted
            .into_iter()
            .map(|cell| members.remove(&cell).map(|rows| (cell, rows)))
            .collect::<Option<Vec<_>>>()?;
        // A finer group without a place here would be rows that the release does not count.
        members
            .is_empty()
            .then(|| (groups, read.into_iter().collect(), met))
    }

    /// The expressions evaluated for each finer group.
    fn evaluated_expressions(&self, set: &GroupingSet) -> impl Iterator<Item = &'a Expr> {
        let made = |key: KeyId| match &self.keys[key.0] {
            KeySource::Same(_) => None,
            KeySource::Of(expr, _) => Some(*expr),
        };
        let conditions = self.picks.iter().chain(&self.filters);
        conditions
            .map(|(condition, _)| *condition)
            .chain(set.keys().filter_map(made))
    }

    /// The groups of that grouping set of the finer answer which decides all conditions and keys
    /// with the fewest groups.
    fn rows_for<'k>(&self, set: &GroupingSet, keys: &'k [PrintedKey]) -> Option<Vec<Finer<'k>>> {
        let asked = set.keys().flat_map(|key| match &self.keys[key.0] {
            KeySource::Same(key) => vec![*key],
            KeySource::Of(_, by) => by.iter().map(|by| by.key).collect(),
        });
        let needed: Vec<FinerKey> = asked
            .chain(
                self.picks
                    .iter()
                    .chain(&self.filters)
                    .flat_map(|(_, by)| by.iter().map(|by| by.key)),
            )
            .collect();
        if self.grain.sets.is_empty() {
            return Some(keys.iter().map(Vec::as_slice).enumerate().collect());
        }
        let fitting = self
            .grain
            .sets
            .iter()
            .enumerate()
            .filter(|(_, finer)| needed.iter().all(|key| finer.contains(key)));
        let of_set = |(number, _): (usize, &Vec<FinerKey>)| {
            let number = Some(number.to_string());
            keys.iter()
                .enumerate()
                .filter(|(_, key)| key.first() == Some(&number))
                .map(|(row, key)| (row, &key[1..]))
                .collect::<Vec<_>>()
        };
        fitting.map(of_set).min_by_key(Vec::len)
    }

    /// The release's key of a finer group: the outer `None` where it is not known, or where a bin
    /// has rows of several keys, the inner one where a condition leaves the group out.
    fn key(
        &self,
        start: &PrintedKey,
        set: &GroupingSet,
        finer: &[Option<String>],
    ) -> Option<Option<PrintedKey>> {
        for (condition, by) in &self.picks {
            if !self.is_met(condition, by, finer)? {
                return Some(None);
            }
        }
        let mut key = start.clone();
        for at in 0..self.keys.len() {
            key.push(match (&self.keys[at], set.contains(KeyId(at))) {
                (_, false) => None,
                (KeySource::Same(place), true) => finer.get(place.0)?.clone(),
                (KeySource::Of(expr, by), true) => {
                    evaluate_within(expr, &self.column_values(by, finer)?)
                        .ok()?
                        .map(|value| key_text(&value, &expr.data_type))
                }
            });
        }
        Some(Some(key))
    }

    /// For each filter, whether the rows of a finer group meet it. `None` where it is not known, or
    /// where a bin has rows of both kinds.
    fn filters_met(&self, finer: &[Option<String>]) -> Option<Vec<bool>> {
        let filters = self.filters.iter();
        filters
            .map(|(filter, by)| self.is_met(filter, by, finer))
            .collect()
    }

    /// Whether the rows of a finer group meet a condition, which is not so where it is NULL.
    fn is_met(
        &self,
        condition: &Expr,
        by: &[DecidingKey<'_>],
        finer: &[Option<String>],
    ) -> Option<bool> {
        let value = evaluate_within(condition, &self.column_values(by, finer)?).ok()?;
        Some(value == Some(Scalar::Bool(true)))
    }

    /// What the keys of a finer group say of columns.
    fn column_values(
        &self,
        by: &[DecidingKey<'_>],
        finer: &[Option<String>],
    ) -> Option<Vec<(ColumnId, KnownValue)>> {
        let of = |by: &DecidingKey<'_>| {
            let value = self.scalar(by.key, finer.get(by.key.0)?)?;
            Some((by.column, by.column_value(value)?))
        };
        by.iter().map(of).collect()
    }

    fn scalar(&self, FinerKey(at): FinerKey, text: &Option<String>) -> Option<Option<Scalar>> {
        self.values[at].get(text).map(|value| (*value).clone())
    }
}
