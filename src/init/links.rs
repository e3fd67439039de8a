//! Which column of a table says to which row of another its rows belong: by declared foreign keys,
//! else by a guess from names and keys, which a human confirms.

use super::seen::{ColumnAt, Seen};
use super::words::{is_generic, singular, snake};
use super::yaml::dotted;
use crate::policy::{family, unfit};

/// What a link rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ground {
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
    pub ground: Ground,
}

impl Link {
    /// Whether it is a guess that nobody has confirmed.
    pub fn is_open(&self) -> bool {
        matches!(self.ground, Ground::Guessed(_))
    }
}

/// A guess that fails for want of a key: `to` would have to be unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyless {
    pub from: ColumnAt,
    pub to: ColumnAt,
}

impl Keyless {
    /// As a link that nobody has confirmed.
    pub fn as_link(&self) -> Link {
        Link {
            from: self.from,
            to: self.to,
            ground: Ground::Guessed("the key is missing".to_owned()),
        }
    }
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
pub fn declared(seen: &Seen) -> Vec<Link> {
    let mut links = Vec::new();
    for &at in &seen.tables {
        for key in &seen.table(at).foreign_keys {
            let ([column], [referenced]) = (key.columns.as_slice(), key.referenced.as_slice())
            else {
                continue;
            };
            let to = seen
                .tables
                .iter()
                .find(|to| {
                    let to = seen.table(**to);
                    to.schema == key.schema && to.name == key.table
                })
                .and_then(|to| seen.find(*to, referenced));
            if let (Some(from), Some(to)) = (seen.find(at, column), to)
                && seen.is_key(to)
                && is_fit(seen, from, to)
            {
                links.push(Link {
                    from,
                    to,
                    ground: Ground::Declared,
                });
            }
        }
    }
    links
}

/// Guesses for the columns that have no declared link, at most one for each; and those that lack
/// nothing but a key.
pub fn guessed(seen: &Seen, declared: &[Link]) -> (Vec<Link>, Vec<Keyless>) {
    let (mut links, mut keyless) = (Vec::new(), Vec::new());
    for &table in &seen.tables {
        for from in seen.columns(table) {
            if declared.iter().any(|link| link.from == from) {
                continue;
            }
            let is_own_key = seen.is_key(from);
            let has_other = declared.iter().any(|link| link.from.table == table);
            if is_own_key && has_other {
                continue;
            }
            match best(seen, from, |to| seen.is_key(to)) {
                Some((strength, to)) if !is_own_key || strength == Strength::Table => {
                    let ground = Ground::Guessed(reason(seen, from, to, strength));
                    links.push(Link { from, to, ground });
                }
                Some(_) => {}
                None if is_own_key => {}
                None => {
                    if let Some((Strength::Table, to)) = best(seen, from, |to| !seen.is_key(to)) {
                        keyless.push(Keyless { from, to });
                    }
                }
            }
        }
    }
    (links, keyless)
}

/// Whether both columns can be on the path of a unit, and join by one equality.
fn is_fit(seen: &Seen, from: ColumnAt, to: ColumnAt) -> bool {
    let (a, b) = (seen.column(from), seen.column(to));
    [a, b]
        .iter()
        .all(|column| unfit(column).is_none() && dotted(&[&column.name]).is_some())
        && family(&a.data_type) == family(&b.data_type)
}

/// The column of another table that the name of this one suggests most.
fn best(
    seen: &Seen,
    from: ColumnAt,
    wanted: impl Fn(ColumnAt) -> bool,
) -> Option<(Strength, ColumnAt)> {
    let mut found: Option<(Strength, ColumnAt)> = None;
    for &table in seen.tables.iter().filter(|table| **table != from.table) {
        for to in seen.columns(table) {
            let Some(strength) = names(seen, from, to).filter(|_| wanted(to)) else {
                continue;
            };
            let is_near =
                |to: ColumnAt| seen.table(to.table).schema == seen.table(from.table).schema;
            let is_better = found.is_none_or(|(known, at)| {
                (strength, is_near(to), seen.is_primary(to))
                    > (known, is_near(at), seen.is_primary(at))
            });
            if is_better && is_fit(seen, from, to) {
                found = Some((strength, to));
            }
        }
    }
    found
}

/// What the names say of `from -> to`.
fn names(seen: &Seen, from: ColumnAt, to: ColumnAt) -> Option<Strength> {
    let (column, key) = (snake(&seen.column(from).name), snake(&seen.column(to).name));
    let (bare_column, bare_key) = (bare(seen, from), bare(seen, to));
    let table = snake(&seen.table(to.table).name);
    let tables = [singular(&table), table];
    let says_table = |of: &str| {
        tables
            .iter()
            .any(|table| of == format!("{table}_{bare_key}") || of == format!("{table}_{key}"))
            || tables.iter().any(|table| {
                of == format!("{table}_id") && (seen.is_primary(to) || is_generic(&bare_key))
            })
    };
    if says_table(&column) || says_table(&bare_column) {
        return Some(Strength::Table);
    }
    let is_same = column == key || (bare_column == bare_key && bare_column != column);
    if !is_same || is_generic(&bare_key) {
        return None;
    }
    let names_table = tables
        .iter()
        .any(|table| bare_key.starts_with(&format!("{table}_")) || is_short(&bare_key, table));
    Some(if names_table {
        Strength::Table
    } else {
        Strength::Name
    })
}

/// `custkey` is a key of `customer`.
fn is_short(key: &str, table: &str) -> bool {
    let stem = ["key", "id", "no", "nr"]
        .iter()
        .find_map(|end| key.strip_suffix(end));
    stem.is_some_and(|stem| stem.len() > 2 && !stem.contains('_') && table.starts_with(stem))
}

/// The name without a prefix that all columns of its table share: `c_custkey` is `custkey`.
fn bare(seen: &Seen, at: ColumnAt) -> String {
    let name = snake(&seen.column(at).name);
    let Some((prefix, rest)) = name.split_once('_') else {
        return name;
    };
    let columns = &seen.table(at.table).columns;
    let shares = |column: &str| {
        snake(column)
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('_'))
    };
    if columns.len() > 1 && columns.iter().all(|column| shares(&column.name)) {
        rest.to_owned()
    } else {
        name
    }
}

fn reason(seen: &Seen, from: ColumnAt, to: ColumnAt, strength: Strength) -> String {
    let (column, key) = (&seen.column(from).name, &seen.column(to).name);
    let table = &seen.table(to.table).name;
    match strength {
        _ if column == key => format!("it has the name of the key of {table}"),
        Strength::Table => format!("its name speaks of {table}, whose key is {key}"),
        Strength::Name => format!("it is called like {key}, the key of {table}"),
    }
}
