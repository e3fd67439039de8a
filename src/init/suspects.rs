//! Tables that may hold rows about a unit: every table from which any chain of links leads to the
//! unit's table. Such a table is never drafted as public.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::catalog_view::CatalogView;
use super::links::{Keyless, Link};

/// A link from a table towards the unit's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clue {
    /// The table to which it leads.
    pub to: usize,
    pub by: By,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// A link, perhaps a guess.
    Link(Link),
    /// A guess that lacks a key.
    Keyless(Keyless),
    /// A guess that the owner did not confirm.
    Declined(Link),
    /// A foreign key of the catalog that is no link, by its name and columns.
    Key(String),
    /// A partition, a parent or a child: its rows are rows of the other.
    Shared,
}

/// The tables from which a chain leads to the unit's, each with what begins the chain. The unit's
/// own table is not among them.
pub fn suspects(
    seen: &CatalogView,
    links: &[Link],
    keyless: &[Keyless],
    declined: &[Link],
    unit: usize,
) -> BTreeMap<usize, Clue> {
    let mut into: HashMap<usize, Vec<(usize, By)>> = HashMap::new();
    let mut add = |from, to, by| into.entry(to).or_default().push((from, by));
    for link in links {
        add(link.from.table, link.to.table, By::Link(link.clone()));
    }
    for link in keyless {
        add(link.from.table, link.to.table, By::Keyless(link.clone()));
    }
    for link in declined {
        add(link.from.table, link.to.table, By::Declined(link.clone()));
    }
    for (from, to, name) in seen.foreign_keys() {
        add(from, to, By::Key(name));
    }
    for (child, parent) in seen.families() {
        add(child, parent, By::Shared);
        add(parent, child, By::Shared);
    }
    let mut found = BTreeMap::new();
    let mut open = VecDeque::from([unit]);
    while let Some(to) = open.pop_front() {
        for (from, by) in into.remove(&to).unwrap_or_default() {
            if from != unit && !found.contains_key(&from) {
                found.insert(from, Clue { to, by });
                open.push_back(from);
            }
        }
    }
    found
}

impl Clue {
    /// What it is, in words.
    pub fn describe(&self, seen: &CatalogView) -> String {
        let leads = |from, verb: &str, to| {
            format!("{} {verb} {}", seen.column(from).name, seen.column_name(to))
        };
        match &self.by {
            By::Link(link) if link.is_open() => leads(link.from, "seems to lead to", link.to),
            By::Link(link) => leads(link.from, "leads to", link.to),
            By::Keyless(link) => {
                leads(link.from, "seems to lead to", link.to) + ", which no key holds unique"
            }
            By::Declined(link) => {
                leads(link.from, "seems to lead to", link.to) + ", which you did not confirm"
            }
            By::Key(name) => format!(
                "its foreign key {name} leads to {}, which a path cannot follow",
                seen.table_name(self.to)
            ),
            By::Shared => format!("it shares rows with {}", seen.table_name(self.to)),
        }
    }
}
