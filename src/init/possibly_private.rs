//! Tables that may hold rows about a unit: every table from which any chain of links leads to the
//! unit's table. Such a table is never drafted as public.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::catalog_view::CatalogView;
use super::links::{Link, LinkWithoutKey};

/// A link from a table towards the unit's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkToUnit {
    /// The table to which it leads.
    pub to: usize,
    pub by: LinkKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// A link, perhaps a guess.
    Link(Link),
    /// A guess that lacks a key.
    Keyless(LinkWithoutKey),
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
    keyless: &[LinkWithoutKey],
    declined: &[Link],
    unit: usize,
) -> BTreeMap<usize, LinkToUnit> {
    let mut into: HashMap<usize, Vec<(usize, LinkKind)>> = HashMap::new();
    let mut add = |from, to, by| into.entry(to).or_default().push((from, by));
    for link in links {
        add(link.from.table, link.to.table, LinkKind::Link(link.clone()));
    }
    for link in keyless {
        add(
            link.from.table,
            link.to.table,
            LinkKind::Keyless(link.clone()),
        );
    }
    for link in declined {
        add(
            link.from.table,
            link.to.table,
            LinkKind::Declined(link.clone()),
        );
    }
    for (from, to, name) in seen.foreign_keys() {
        add(from, to, LinkKind::Key(name));
    }
    for (child, parent) in seen.families() {
        add(child, parent, LinkKind::Shared);
        add(parent, child, LinkKind::Shared);
    }
    let mut found = BTreeMap::new();
    let mut open = VecDeque::from([unit]);
    while let Some(to) = open.pop_front() {
        for (from, by) in into.remove(&to).unwrap_or_default() {
            if from != unit && !found.contains_key(&from) {
                found.insert(from, LinkToUnit { to, by });
                open.push_back(from);
            }
        }
    }
    found
}

impl LinkToUnit {
    /// The link in words.
    pub fn describe(&self, seen: &CatalogView) -> String {
        let leads = |from, verb: &str, to| {
            format!("{} {verb} {}", seen.column(from).name, seen.column_name(to))
        };
        match &self.by {
            LinkKind::Link(link) if link.is_open() => leads(link.from, "seems to lead to", link.to),
            LinkKind::Link(link) => leads(link.from, "leads to", link.to),
            LinkKind::Keyless(link) => {
                leads(link.from, "seems to lead to", link.to) + ", which no key holds unique"
            }
            LinkKind::Declined(link) => {
                leads(link.from, "seems to lead to", link.to) + ", which you did not confirm"
            }
            LinkKind::Key(name) => format!(
                "its foreign key {name} leads to {}, which a path cannot follow",
                seen.table_name(self.to)
            ),
            LinkKind::Shared => format!("it shares rows with {}", seen.table_name(self.to)),
        }
    }
}
