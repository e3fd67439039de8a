//! Keys of one small public table take the values and combinations that its rows hold where they
//! meet WHERE, not every combination of their values.

use std::collections::{HashMap, HashSet};

use super::{KeyRule, Keys, canonical, over_rows};
use crate::ir::evaluate::{NotEvaluable, evaluate};
use crate::ir::{ColumnId, Expr, GroupingSet, KeyId, Relation, Scan};
use crate::policy::{Listing, Protection, Scalar};

/// Keys whose values belong together, with all combinations there are; `None` is NULL.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyCombinations {
    /// At least two, ascending.
    pub keys: Vec<KeyId>,
    /// Parallel to `keys`; no row twice.
    pub rows: Vec<Vec<Option<Scalar>>>,
}

/// An axis of a grouping set. Its cells are the product of its axes.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    Key(KeyId),
    Tuples(KeyCombinations),
}

/// The axes of a grouping set, in the order of their first keys.
pub fn axes(set: &GroupingSet, tuples: &[KeyCombinations]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for at in set.keys() {
        let is_placed = |axis: &Axis| matches!(axis, Axis::Tuples(t) if t.keys.contains(&at));
        if axes.iter().any(is_placed) {
            continue;
        }
        let together = tuples
            .iter()
            .find(|t| t.keys.contains(&at))
            .map(|t| t.within(set))
            .filter(|t| t.keys.len() > 1);
        axes.push(together.map_or(Axis::Key(at), Axis::Tuples));
    }
    axes
}

impl KeyCombinations {
    /// The combinations of the keys that a grouping set has.
    fn within(&self, set: &GroupingSet) -> Self {
        let kept: Vec<usize> = (0..self.keys.len())
            .filter(|at| set.contains(self.keys[*at]))
            .collect();
        let mut rows: Vec<Vec<Option<Scalar>>> = Vec::new();
        let mut seen = HashSet::new();
        for row in &self.rows {
            let row: Vec<Option<Scalar>> = kept.iter().map(|at| row[*at].clone()).collect();
            if seen.insert(lookup_key(&row)) {
                rows.push(row);
            }
        }
        Self {
            keys: kept.into_iter().map(|at| self.keys[at]).collect(),
            rows,
        }
    }
}

impl Keys<'_> {
    /// The combinations of keys that are listed and read columns of one mention of a public table
    /// alone. The lists of these keys are reduced to the values that remain, also where there is
    /// only one such key.
    ///
    /// # Guarantee
    /// The result depends on the statement, the policy and public rows alone. Every combination in
    /// it is shown, whether or not a private row has it, and no other one is: which groups an
    /// answer has tells nothing about private rows.
    ///
    /// # Requires
    /// The public table's rows are those that the policy was loaded with; the transaction that
    /// runs the statement compares their digest.
    pub(in crate::analyze) fn tuples(
        &self,
        keys: &mut [(Expr, KeyRule)],
        input: &Relation,
    ) -> Vec<KeyCombinations> {
        let mut found = Vec::new();
        for scan in scans(input) {
            let Some((listed, listing)) = self.public_rows(scan) else {
                continue;
            };
            let members: Vec<KeyId> = KeyId::all(keys.len())
                .filter(|at| self.is_listed_by(&keys[at.0], &listed))
                .collect();
            if members.is_empty() {
                continue;
            }
            let mut rows = listing.rows.clone();
            if listed.iter().any(|id| self.null_extended.contains(id)) {
                rows.push(vec![None; listed.len()]);
            }
            let evaluated = members
                .iter()
                .map(|at| &keys[at.0].0)
                .chain(self.conditions.iter().copied());
            if self.effort.spend(rows.len(), evaluated).is_none() {
                continue;
            }
            let combined: Option<Vec<_>> = rows
                .iter()
                .map(|row| self.combination(row, &listed, &members, keys))
                .collect();
            let Some(combined) = combined.map(|rows| rows.into_iter().flatten().collect()) else {
                continue;
            };
            let together = order_combinations(members, combined, keys);
            if together.keys.len() > 1 {
                found.push(together);
            }
        }
        found
    }

    fn public_rows(&self, scan: &Scan) -> Option<(Vec<ColumnId>, &Listing)> {
        let table = &self.policy.tables[scan.table.0];
        match (&table.listing, &table.protection) {
            (Some(listing), Protection::Public) => Some((
                listing
                    .columns
                    .iter()
                    .map(|at| scan.columns[at.0])
                    .collect(),
                listing,
            )),
            _ => None,
        }
    }

    /// Whether the keys' lists hold exactly what the public table's rows hold that meet every
    /// condition.
    pub(in crate::analyze) fn are_held(&self, keys: &[(Expr, KeyRule)], input: &Relation) -> bool {
        let by_rows = |scan: &&Scan| {
            self.public_rows(scan)
                .is_some_and(|(listed, listing)| self.hold(&listing.rows, &listed, keys))
        };
        scans(input).iter().any(by_rows) || self.are_values(keys)
    }

    /// A key that reads one column of many rows: its values are known, though not whether any is
    /// NULL.
    fn are_values(&self, keys: &[(Expr, KeyRule)]) -> bool {
        let [key] = keys else { return false };
        let [id] = over_rows(&key.0, self.computed, self.null_extended).columns()[..] else {
            return false;
        };
        let info = &self.columns[id.0 as usize];
        let Some((table, at)) = info.origin else {
            return false;
        };
        let table = &self.policy.tables[table.0];
        let (Protection::Public, Some(domain)) = (&table.protection, &table.columns[at.0].domain)
        else {
            return false;
        };
        let null = [vec![None]];
        let is_null_left_out = !info.nullable
            || matches!(self.combination(&null[0], &[id], &[], keys), Some(None))
                && self.are_decided(&null, &[id]);
        let rows: Vec<Vec<Option<Scalar>>> = domain
            .iter()
            .map(|value| vec![Some(value.clone())])
            .collect();
        is_null_left_out && self.hold(&rows, &[id], keys)
    }

    fn hold(
        &self,
        rows: &[Vec<Option<Scalar>>],
        listed: &[ColumnId],
        keys: &[(Expr, KeyRule)],
    ) -> bool {
        let read = self
            .conditions
            .iter()
            .copied()
            .chain(keys.iter().map(|(key, _)| key));
        if !keys.iter().all(|key| self.is_listed_by(key, listed))
            || self.effort.spend(2 * rows.len(), read).is_none()
            || !self.are_decided(rows, listed)
        {
            return false;
        }
        let members: Vec<KeyId> = KeyId::all(keys.len()).collect();
        let Some(held) = rows
            .iter()
            .map(|row| self.combination(row, listed, &members, keys))
            .collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        let held: Vec<Vec<Option<Scalar>>> = held.into_iter().flatten().collect();
        keys.iter().enumerate().all(|(at, (_, rule))| {
            let of_rows: HashSet<String> = held.iter().map(|row| lookup_key(&row[at])).collect();
            places(rule).into_keys().collect::<HashSet<String>>() == of_rows
        })
    }

    /// Whether each row meets the conditions follows from these columns.
    fn are_decided(&self, rows: &[Vec<Option<Scalar>>], listed: &[ColumnId]) -> bool {
        self.conditions.iter().all(|c| {
            let is_met = |row: &Vec<Option<Scalar>>| {
                let assignment: Vec<(ColumnId, Option<Scalar>)> =
                    listed.iter().copied().zip(row.iter().cloned()).collect();
                evaluate(c, &assignment).is_ok()
            };
            self.is_about(c, listed) && rows.iter().all(is_met)
        })
    }

    /// Whether a condition reads these columns alone, and no text whose collation takes different
    /// texts for equal.
    fn is_about(&self, condition: &Expr, listed: &[ColumnId]) -> bool {
        condition.relations().is_empty()
            && condition
                .columns()
                .iter()
                .all(|id| listed.contains(id) && self.is_deterministic(*id))
    }

    fn is_listed_by(&self, (expr, rule): &(Expr, KeyRule), listed: &[ColumnId]) -> bool {
        let columns = over_rows(expr, self.computed, self.null_extended).columns();
        matches!(rule, KeyRule::Domain(_))
            && !columns.is_empty()
            && columns.iter().all(|id| listed.contains(id))
    }

    /// The keys' values for one row of the table: `Ok(None)` where a condition leaves it out,
    /// `None` where they cannot be known.
    fn combination(
        &self,
        row: &[Option<Scalar>],
        listed: &[ColumnId],
        members: &[KeyId],
        keys: &[(Expr, KeyRule)],
    ) -> Option<Option<Vec<Option<Scalar>>>> {
        let assignment: Vec<(ColumnId, Option<Scalar>)> =
            listed.iter().copied().zip(row.iter().cloned()).collect();
        let own = self.conditions.iter().filter(|c| self.is_about(c, listed));
        let is_met = own
            .map(|c| evaluate(c, &assignment))
            .all(|result| match result {
                Ok(holds) => holds == Some(Scalar::Bool(true)),
                Err(NotEvaluable) => true,
            });
        if !is_met {
            return Some(None);
        }
        let value = |at: &KeyId| {
            let expr = over_rows(&keys[at.0].0, self.computed, self.null_extended);
            let value = evaluate(&expr, &assignment).ok()?;
            canonical(vec![value], &expr.data_type)?.pop()
        };
        members
            .iter()
            .map(value)
            .collect::<Option<Vec<_>>>()
            .map(Some)
    }
}

/// A text that differs where values or rows differ. There may be many, so this text is their lookup
/// key.
fn lookup_key<T: std::fmt::Debug + ?Sized>(value: &T) -> String {
    format!("{value:?}")
}

/// The place of each listed value.
fn places(rule: &KeyRule) -> HashMap<String, usize> {
    let KeyRule::Domain(values) = rule else {
        return HashMap::new();
    };
    let mut places = HashMap::new();
    for (at, value) in values.iter().enumerate() {
        places.entry(lookup_key(value)).or_insert(at);
    }
    places
}

/// Combinations in the order of the keys' lists, of which only what they hold remains.
fn order_combinations(
    members: Vec<KeyId>,
    combined: Vec<Vec<Option<Scalar>>>,
    keys: &mut [(Expr, KeyRule)],
) -> KeyCombinations {
    let places: Vec<HashMap<String, usize>> =
        members.iter().map(|at| places(&keys[at.0].1)).collect();
    let mut ranked: Vec<(Vec<usize>, Vec<Option<Scalar>>)> = Vec::new();
    let mut seen = HashSet::new();
    for row in combined {
        let rank = |(places, value): (&HashMap<String, usize>, &Option<Scalar>)| {
            places
                .get(&lookup_key(value))
                .copied()
                .unwrap_or(usize::MAX)
        };
        if seen.insert(lookup_key(&row)) {
            ranked.push((places.iter().zip(&row).map(rank).collect(), row));
        }
    }
    ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
    let rows: Vec<Vec<Option<Scalar>>> = ranked.into_iter().map(|(_, row)| row).collect();
    for (place, at) in members.iter().enumerate() {
        if let KeyRule::Domain(values) = &mut keys[at.0].1 {
            let held: HashSet<String> = rows.iter().map(|row| lookup_key(&row[place])).collect();
            values.retain(|value| held.contains(&lookup_key(value)));
        }
    }
    KeyCombinations {
        keys: members,
        rows,
    }
}

/// The scans whose columns the relation's rows have, directly or through computed columns.
fn scans(relation: &Relation) -> Vec<&Scan> {
    match relation {
        Relation::Scan(scan) => vec![scan],
        // Rows of a union have new columns.
        Relation::Union { .. } => Vec::new(),
        Relation::Constants(_)
        | Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Join { .. } => relation.inputs().into_iter().flat_map(scans).collect(),
        Relation::Group { .. } | Relation::Window { .. } | Relation::Bounded { .. } => {
            relation.inputs().into_iter().flat_map(scans).collect()
        }
    }
}
