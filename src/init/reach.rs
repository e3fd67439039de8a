//! How the rows of each table lead to the unit.

use std::collections::BTreeMap;

use super::links::{Ground, Link};
use super::seen::{ColumnAt, Seen};

/// The way from a table to the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// It holds the unit itself.
    Own,
    /// Along these links.
    Path(Vec<Link>),
    /// Several columns lead there, each perhaps to another unit. Only the owner knows whose row it
    /// is.
    Several(Vec<Link>),
}

/// The tables whose rows lead to the unit, each with its way. Tables that lead there only through a
/// table of several ways are left out.
pub fn reach(seen: &Seen, links: &[Link], unit: ColumnAt) -> BTreeMap<usize, Way> {
    let levels = levels(seen, links, unit.table);
    let mut ways = BTreeMap::from([(unit.table, Way::Own)]);
    let mut order: Vec<(usize, usize)> = levels.iter().map(|(t, l)| (*l, *t)).collect();
    order.sort_unstable();
    for (level, table) in order.into_iter().skip(1) {
        let onward = onward(links, &levels, table, level);
        let [link] = onward.as_slice() else {
            ways.insert(table, Way::Several(onward));
            continue;
        };
        match ways.get(&link.to.table) {
            Some(Way::Own) => drop(ways.insert(table, Way::Path(vec![link.clone()]))),
            Some(Way::Path(rest)) => {
                let path = [std::slice::from_ref(link), rest.as_slice()].concat();
                ways.insert(table, Way::Path(path));
            }
            Some(Way::Several(_)) | None => {}
        }
    }
    ways
}

/// How many steps each table is from the unit's.
fn levels(seen: &Seen, links: &[Link], unit: usize) -> BTreeMap<usize, usize> {
    let mut levels = BTreeMap::from([(unit, 0)]);
    for level in 0..seen.tables.len() {
        for link in links {
            if levels.get(&link.to.table) == Some(&level) {
                levels.entry(link.from.table).or_insert(level + 1);
            }
        }
    }
    levels
}

/// The links by which a table may lead on, one for each of its columns. A link to a table farther
/// away leads back. What the owner vouches for goes before the rest, and what is declared before
/// guesses.
fn onward(
    links: &[Link],
    levels: &BTreeMap<usize, usize>,
    table: usize,
    level: usize,
) -> Vec<Link> {
    let level_of = |link: &Link| levels.get(&link.to.table).copied();
    let mut onward: Vec<Link> = Vec::new();
    for link in links.iter().filter(|link| {
        link.from.table == table
            && link.to.table != table
            && level_of(link).is_some_and(|to| to <= level)
    }) {
        match onward.iter_mut().find(|known| known.from == link.from) {
            Some(known) if level_of(link) < level_of(known) => *known = link.clone(),
            Some(_) => {}
            None => onward.push(link.clone()),
        }
    }
    for wanted in [Ground::Said, Ground::Declared] {
        let of_it = |link: &&Link| link.ground == wanted;
        if onward.iter().any(|link| of_it(&link)) {
            onward.retain(|link| of_it(&link));
            break;
        }
    }
    onward
}
