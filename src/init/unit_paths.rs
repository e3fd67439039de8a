//! The ways by which the rows of each table lead to the unit.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::catalog_view::ColumnAt;
use super::links::Link;

/// The links that the owner picked, by their ends. No other link of their tables counts then.
pub type ChosenLinks = BTreeSet<(ColumnAt, ColumnAt)>;

/// The way from a table to the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitPath {
    /// The table holds the unit itself.
    Own,
    /// The links that lead from the table to the unit.
    Path(Vec<Link>),
    /// Several columns lead there, each perhaps to another unit. Only the owner knows whose row it
    /// is.
    Several(Vec<Link>),
}

/// The tables whose rows lead to the unit, each with its way. Tables that lead there only through a
/// table of several ways are left out. What a link rests on does not matter: whether it is true is
/// one question, and whose row it is another.
pub fn reach(links: &[Link], unit: ColumnAt, chosen: &ChosenLinks) -> BTreeMap<usize, UnitPath> {
    let graph = Graph::new(links, unit.table, chosen);
    let mut onward: BTreeMap<usize, Vec<&Link>> = BTreeMap::new();
    let all = graph.leading(None);
    for &table in all.iter().filter(|table| **table != unit.table) {
        onward.insert(table, graph.onward(table, &all));
    }
    let mut ways = BTreeMap::from([(unit.table, UnitPath::Own)]);
    for (&table, links) in &onward {
        if links.len() > 1 {
            let several = links.iter().map(|link| (*link).clone()).collect();
            ways.insert(table, UnitPath::Several(several));
        } else if let Some(path) = path(&onward, table, unit.table) {
            ways.insert(table, UnitPath::Path(path));
        }
    }
    ways
}

/// The one way from a table. `None` where it goes through a table of several.
fn path(onward: &BTreeMap<usize, Vec<&Link>>, table: usize, unit: usize) -> Option<Vec<Link>> {
    let (mut path, mut at) = (Vec::new(), table);
    while at != unit {
        let [link] = onward.get(&at)?.as_slice() else {
            return None;
        };
        // The unit is reached before a table comes again.
        if path.len() > onward.len() {
            return None;
        }
        path.push((*link).clone());
        at = link.to.table;
    }
    Some(path)
}

struct Graph<'a> {
    unit: usize,
    from: HashMap<usize, Vec<&'a Link>>,
    to: HashMap<usize, Vec<usize>>,
    joined: HashSet<(ColumnAt, ColumnAt)>,
}

impl<'a> Graph<'a> {
    fn new(links: &'a [Link], unit: usize, chosen: &ChosenLinks) -> Self {
        let decided: HashSet<usize> = chosen.iter().map(|(from, _)| from.table).collect();
        let mut graph = Self {
            unit,
            from: HashMap::new(),
            to: HashMap::new(),
            joined: HashSet::new(),
        };
        for link in links {
            let Link { from, to, .. } = link;
            if decided.contains(&from.table) && !chosen.contains(&(*from, *to)) {
                continue;
            }
            graph.from.entry(from.table).or_default().push(link);
            graph.to.entry(to.table).or_default().push(from.table);
            graph.joined.insert((*from, *to));
        }
        graph
    }

    /// The tables from which links lead to the unit's, without the help of one table.
    fn leading(&self, without: Option<usize>) -> HashSet<usize> {
        let mut found = HashSet::from([self.unit]);
        let mut open = vec![self.unit];
        while let Some(to) = open.pop() {
            for &from in self.to.get(&to).into_iter().flatten() {
                if Some(from) != without && found.insert(from) {
                    open.push(from);
                }
            }
        }
        found
    }

    /// The links by which a table leads on. One leads back if its target reaches the unit solely
    /// through this table.
    fn onward(&self, table: usize, all: &HashSet<usize>) -> Vec<&'a Link> {
        let links = self.from.get(&table).into_iter().flatten().copied();
        let is_on = |link: &&Link| link.to.table != table && all.contains(&link.to.table);
        let mut onward: Vec<&Link> = links.filter(is_on).collect();
        if onward.len() > 1 {
            let others = self.leading(Some(table));
            onward.retain(|link| others.contains(&link.to.table));
        }
        // A key of a key: both tables hold the same value.
        let is_longer = |link: &Link, known: &[&Link]| {
            known
                .iter()
                .any(|near| near.from == link.from && self.joined.contains(&(link.to, near.to)))
        };
        while let Some(at) = onward.iter().position(|link| is_longer(link, &onward)) {
            onward.remove(at);
        }
        onward
    }
}
