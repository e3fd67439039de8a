//! Links between tables, by which a table's rows belong to rows of another: by declared foreign
//! keys, else by a guess from names and keys, which a human confirms.

use std::collections::{HashMap, HashSet};

use super::catalog_view::{CatalogView, ColumnAt};
use super::name_hints::{is_generic, singular, snake_case};
use super::yaml::join_dotted;
use crate::policy::{family, unfit};

/// The basis of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkBasis {
    /// A foreign key, which PostgreSQL enforces.
    Declared,
    /// Names and keys; the reason in words. It is a claim about people until somebody vouches.
    Guessed(String),
    /// The owner vouches for it.
    Said,
}

/// `from -> to`: the value of `from` is that of the unique column `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub from: ColumnAt,
    pub to: ColumnAt,
    pub basis: LinkBasis,
}

impl Link {
    /// Whether the link is a guess that nobody has confirmed.
    pub fn is_open(&self) -> bool {
        matches!(self.basis, LinkBasis::Guessed(_))
    }
}

/// A guess that fails for lack of a key: `to` would have to be unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkWithoutKey {
    pub from: ColumnAt,
    pub to: ColumnAt,
}

/// How much the names of two columns say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    /// The names are equal.
    Name,
    /// The name says which table is meant.
    Table,
}

/// The links by foreign keys of one column.
pub fn declared_links(seen: &CatalogView) -> Vec<Link> {
    let named: HashMap<(&str, &str), usize> = seen
        .tables
        .iter()
        .map(|at| {
            let table = seen.table(*at);
            ((table.schema.as_str(), table.name.as_str()), *at)
        })
        .collect();
    let mut links = Vec::new();
    for &at in &seen.tables {
        for key in &seen.table(at).foreign_keys {
            let ([column], [referenced]) = (key.columns.as_slice(), key.referenced.as_slice())
            else {
                continue;
            };
            let to = named
                .get(&(key.schema.as_str(), key.table.as_str()))
                .and_then(|to| seen.find(*to, referenced));
            if let (Some(from), Some(to)) = (seen.find(at, column), to)
                && seen.is_key(to)
                && is_fit(seen, from, to)
            {
                links.push(Link {
                    from,
                    to,
                    basis: LinkBasis::Declared,
                });
            }
        }
    }
    links
}

/// Guesses for the columns that have no declared link, at most one for each; and those that lack
/// nothing but a key.
pub fn guess_links(seen: &CatalogView, declared: &[Link]) -> (Vec<Link>, Vec<LinkWithoutKey>) {
    let (mut links, mut keyless) = (Vec::new(), Vec::new());
    let names = Names::new(seen);
    let from: HashSet<ColumnAt> = declared.iter().map(|link| link.from).collect();
    let tables: HashSet<usize> = from.iter().map(|from| from.table).collect();
    for &table in &seen.tables {
        for from in seen.columns(table).filter(|at| !from.contains(at)) {
            let is_own_key = seen.is_key(from);
            if is_own_key && tables.contains(&table) {
                continue;
            }
            match names.best(seen, from, &names.keys) {
                Some((strength, to)) if !is_own_key || strength == Strength::Table => {
                    let basis = LinkBasis::Guessed(reason(seen, from, to, strength));
                    links.push(Link { from, to, basis });
                }
                Some(_) => {}
                None if is_own_key => {}
                None => {
                    if let Some((Strength::Table, to)) = names.best(seen, from, &names.others) {
                        keyless.push(LinkWithoutKey { from, to });
                    }
                }
            }
        }
    }
    (links, keyless)
}

/// Whether both columns can be on the path of a unit, and join by one equality.
fn is_fit(seen: &CatalogView, from: ColumnAt, to: ColumnAt) -> bool {
    let (a, b) = (seen.column(from), seen.column(to));
    [a, b]
        .iter()
        .all(|column| unfit(column).is_none() && join_dotted(&[&column.name]).is_some())
        && family(&a.data_type) == family(&b.data_type)
}

/// The names of all columns, computed once, and by which names of other columns each is meant.
struct Names {
    /// The name in snake case, and without the prefix of its table.
    of: HashMap<ColumnAt, (String, String)>,
    keys: Meant,
    others: Meant,
}

type Meant = HashMap<String, Vec<(Strength, ColumnAt)>>;

impl Names {
    fn new(seen: &CatalogView) -> Self {
        let mut names = Self {
            of: HashMap::new(),
            keys: HashMap::new(),
            others: HashMap::new(),
        };
        for &table in &seen.tables {
            let prefix = prefix(seen, table);
            for at in seen.columns(table) {
                let name = snake_case(&seen.column(at).name);
                let bare = match prefix.as_ref().and_then(|prefix| name.strip_prefix(prefix)) {
                    Some(bare) => bare.to_owned(),
                    None => name.clone(),
                };
                names.add(seen, at, &name, &bare);
                names.of.insert(at, (name, bare));
            }
        }
        names
    }

    fn add(&mut self, seen: &CatalogView, to: ColumnAt, key: &str, bare: &str) {
        let table = snake_case(&seen.table(to.table).name);
        let tables = [singular(&table), table];
        let is_key = seen.is_key(to);
        let meant = if is_key {
            &mut self.keys
        } else {
            &mut self.others
        };
        let mut add = |name: String, strength| {
            let all = meant.entry(name).or_default();
            if !all.contains(&(strength, to)) {
                all.push((strength, to));
            }
        };
        for table in &tables {
            add(format!("{table}_{bare}"), Strength::Table);
            add(format!("{table}_{key}"), Strength::Table);
            if seen.is_primary(to) || is_generic(bare) {
                add(format!("{table}_id"), Strength::Table);
            }
        }
        if is_generic(bare) {
            return;
        }
        let names_table = tables
            .iter()
            .any(|table| bare.starts_with(&format!("{table}_")) || is_short(bare, table));
        // A column without a key must name its table.
        if names_table || is_key {
            let strength = if names_table {
                Strength::Table
            } else {
                Strength::Name
            };
            add(key.to_owned(), strength);
            add(without_prefix(bare), strength);
        }
    }

    /// The column of another table that the name of this one suggests most.
    fn best(
        &self,
        seen: &CatalogView,
        from: ColumnAt,
        meant: &Meant,
    ) -> Option<(Strength, ColumnAt)> {
        let (name, bare) = self.of.get(&from)?;
        let mut found: Option<(Strength, ColumnAt)> = None;
        let rank = |(strength, to): (Strength, ColumnAt)| {
            let is_near = seen.table(to.table).schema == seen.table(from.table).schema;
            let place = std::cmp::Reverse(to);
            (strength, is_near, seen.is_primary(to), place)
        };
        let mut wanted = vec![name.clone()];
        if bare != name {
            wanted.extend([bare.clone(), without_prefix(bare)]);
        }
        let all = wanted.iter().filter_map(|name| meant.get(name));
        for &(strength, to) in all.flatten() {
            let is_other = to.table != from.table;
            let is_better = found.is_none_or(|known| rank((strength, to)) > rank(known));
            if is_other && is_better && is_fit(seen, from, to) {
                found = Some((strength, to));
            }
        }
        found
    }
}

/// `custkey` is a key of `customer`.
fn is_short(key: &str, table: &str) -> bool {
    let stem = ["key", "id", "no", "nr"]
        .iter()
        .find_map(|end| key.strip_suffix(end));
    stem.is_some_and(|stem| stem.len() > 2 && !stem.contains('_') && table.starts_with(stem))
}

/// An entry for columns that have their own prefix; no name has a space.
fn without_prefix(bare: &str) -> String {
    format!(" {bare}")
}

/// The prefix that all columns of a table share: `c_` of `c_custkey`.
fn prefix(seen: &CatalogView, table: usize) -> Option<String> {
    let columns = &seen.table(table).columns;
    let first = snake_case(&columns.first()?.name);
    let prefix = format!("{}_", first.split_once('_')?.0);
    let is_shared = columns
        .iter()
        .all(|column| snake_case(&column.name).starts_with(&prefix));
    (columns.len() > 1 && is_shared).then_some(prefix)
}

fn reason(seen: &CatalogView, from: ColumnAt, to: ColumnAt, strength: Strength) -> String {
    let (column, key) = (&seen.column(from).name, &seen.column(to).name);
    let table = &seen.table(to.table).name;
    match strength {
        _ if column == key => format!("it has the name of the key of {table}"),
        Strength::Table => format!("its name speaks of {table}, whose key is {key}"),
        Strength::Name => format!("it is called like {key}, the key of {table}"),
    }
}
