//! The candidates for the privacy unit: keys to which other tables lead. All are shown, and none is
//! chosen silently.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::catalog_view::{CatalogView, ColumnAt};
use super::links::{Link, LinkWithoutKey};
use super::name_hints::{is_list, is_person};
use crate::policy::unfit;

/// How many tables below a candidate are named.
const NAMES_SHOWN: usize = 20;

/// A column that could be the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitCandidate {
    pub at: ColumnAt,
    /// The tables whose rows lead to it.
    pub below: Vec<usize>,
    /// Whether PostgreSQL holds it unique.
    pub is_key: bool,
}

/// The candidates, the likeliest first.
pub fn candidates(
    seen: &CatalogView,
    links: &[Link],
    keyless: &[LinkWithoutKey],
) -> Vec<UnitCandidate> {
    let mut ends: BTreeSet<ColumnAt> = links.iter().map(|link| link.to).collect();
    ends.extend(keyless.iter().map(|link| link.to));
    if ends.is_empty() {
        let keys = seen.tables.iter().flat_map(|table| seen.columns(*table));
        ends.extend(keys.filter(|at| seen.is_key(*at) && unfit(seen.column(*at)).is_none()));
    }
    let mut into: HashMap<usize, Vec<usize>> = HashMap::new();
    for link in links {
        into.entry(link.to.table).or_default().push(link.from.table);
    }
    let mut found: Vec<UnitCandidate> = ends
        .into_iter()
        .map(|at| UnitCandidate {
            at,
            below: below(&into, at.table),
            is_key: seen.is_key(at),
        })
        .collect();
    found.sort_by_key(|candidate| {
        let name = &seen.table(candidate.at.table).name;
        let class = (!is_person(name), is_list(name));
        (
            class,
            std::cmp::Reverse(candidate.below.len()),
            candidate.at,
        )
    });
    found
}

/// The tables that lead to this one.
fn below(into: &HashMap<usize, Vec<usize>>, table: usize) -> Vec<usize> {
    let (mut found, mut known) = (vec![table], HashSet::from([table]));
    let mut at = 0;
    while let Some(to) = found.get(at) {
        let from = into.get(to).into_iter().flatten();
        let fresh: Vec<usize> = from.copied().filter(|from| known.insert(*from)).collect();
        found.extend(fresh);
        at += 1;
    }
    found.split_off(1)
}

impl UnitCandidate {
    /// Why it is, or is not, a likely unit.
    pub fn reason(&self, seen: &CatalogView) -> String {
        let names: Vec<&str> = self
            .below
            .iter()
            .take(NAMES_SHOWN)
            .map(|table| seen.table(*table).name.as_str())
            .collect();
        let name = &seen.table(self.at.table).name;
        let more = if self.below.len() > NAMES_SHOWN {
            ", …"
        } else {
            ""
        };
        let mut reason = match self.below.len() {
            0 => "no table below".to_owned(),
            1 => format!("1 table below ({})", names.join(", ")),
            many => format!("{many} tables below ({}{more})", names.join(", ")),
        };
        if is_person(name) {
            reason += "; sounds like a person";
        } else if is_list(name) {
            reason += "; sounds like a code list";
        }
        if !self.is_key {
            reason += "; not unique by any key";
        }
        reason
    }
}
