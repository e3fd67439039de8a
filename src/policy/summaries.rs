//! Summaries that the owner declares: counts and sums of a private table by some of its columns,
//! which are released once and then answer questions.

use super::{ColumnPosition, Policy, Protection, Scalar, UnitStep};

/// A summary, checked against its table.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub name: String,
    /// The place of its table in [`super::Policy::tables`].
    pub table: usize,
    pub keys: Vec<SummaryColumn>,
    /// The places of the columns whose sums it has. The number of rows is always in it.
    pub measures: Vec<ColumnPosition>,
    /// The sets of keys that it has groups of. None is within another.
    pub marginals: Vec<KeySet>,
    pub accuracy: Accuracy,
    /// Who may receive it; at least one.
    pub roles: Vec<String>,
}

/// What a key of a summary has the values of.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryColumn {
    /// How many steps of the path to the unit lead from the summary's table to the column's.
    pub steps: usize,
    /// The place of the column's table in [`super::Policy::tables`].
    pub table: usize,
    /// Its place among that table's columns.
    pub column: ColumnPosition,
    /// Where its bins begin, ascending, and where the last one ends: the first and the last edge
    /// are the column's bounds. Empty for a key of single values, all of which are known.
    pub edges: Vec<Scalar>,
}

impl SummaryColumn {
    /// How many bins it has; `None` for a key of single values.
    pub fn bins(&self) -> Option<usize> {
        self.edges.len().checked_sub(1)
    }

    /// The lower and the upper edge of the bin of this number, and whether the bin has the upper
    /// one; `None` where there is none.
    pub fn bin(&self, number: usize) -> Option<(&Scalar, &Scalar, bool)> {
        let ends = (self.edges.get(number)?, self.edges.get(number + 1)?);
        Some((ends.0, ends.1, number + 2 == self.edges.len()))
    }
}

impl Summary {
    /// The names of its keys, in their order; those of other tables with the table.
    pub fn key_names(&self, policy: &Policy) -> Vec<String> {
        let name = |key: &SummaryColumn| {
            let table = &policy.tables[key.table];
            let column = &table.columns[key.column.0].name;
            match key.steps {
                0 => column.clone(),
                _ => format!("{}.{column}", table.name),
            }
        };
        self.keys.iter().map(name).collect()
    }

    /// The steps to the tables that its rows are joined to.
    pub fn joins<'p>(&self, policy: &'p Policy) -> &'p [UnitStep] {
        let steps = self.keys.iter().map(|key| key.steps).max().unwrap_or(0);
        path_to_unit(policy, self.table)
            .get(..steps)
            .unwrap_or_default()
    }
}

/// The steps from a table to the one that carries the unit.
pub fn path_to_unit(policy: &Policy, table: usize) -> &[UnitStep] {
    match &policy.tables[table].protection {
        Protection::Private(unit) => &unit.path,
        Protection::Public => &[],
    }
}

/// A key of a summary, by its place in [`Summary::keys`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SummaryKey(pub usize);

/// A measure of a summary, by its place in [`Summary::measures`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SummaryMeasure(pub usize);

/// A set of a summary's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySet(Vec<SummaryKey>);

impl SummaryKey {
    /// The keys of a summary that has this many.
    pub fn all(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(Self)
    }

    /// The key's own among what a summary has for each of its keys.
    pub fn pick<T>(self, of_keys: &[T]) -> &T {
        &of_keys[self.0]
    }
}

impl KeySet {
    pub fn new(mut keys: Vec<SummaryKey>) -> Self {
        keys.sort_unstable();
        Self(keys)
    }

    /// Ascending.
    pub fn keys(&self) -> impl Iterator<Item = SummaryKey> + '_ {
        self.0.iter().copied()
    }

    pub fn contains(&self, key: SummaryKey) -> bool {
        self.0.contains(&key)
    }

    fn is_within(&self, other: &Self) -> bool {
        self.keys().all(|key| other.contains(key))
    }

    /// The sets that have one key less.
    fn without_one(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.0.len()).map(|left_out| {
            let mut smaller = self.0.clone();
            smaller.remove(left_out);
            Self(smaller)
        })
    }
}

/// How accurate a summary is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Accuracy {
    /// The accuracy that this epsilon buys, > 0, for the whole summary.
    Epsilon(f64),
    /// The standard error of a count, > 0, in the set of keys where it is largest. The price
    /// follows.
    Error(f64),
}

impl Accuracy {
    /// The accuracy as a policy may write it.
    pub fn policy_text(self) -> String {
        match self {
            Self::Epsilon(epsilon) => format!("epsilon {epsilon}"),
            Self::Error(error) => format!("error {error}"),
        }
    }
}

/// The sets of keys as the file says them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marginals {
    /// `all 2`: every set of this many keys.
    All(usize),
    /// Each by the names of its keys.
    Listed(Vec<Vec<String>>),
}

impl Marginals {
    /// The sets as a policy may write them.
    pub fn policy_text(&self) -> String {
        match self {
            Self::All(size) => format!("all {size}"),
            Self::Listed(sets) => {
                let sets: Vec<String> = sets.iter().map(|set| set.join(", ")).collect();
                format!("[[{}]]", sets.join("], ["))
            }
        }
    }
}

/// Every set of `size` of these things, in their order; `None` where there are more than `most`.
pub fn combinations<T: Copy>(things: &[T], size: usize, most: usize) -> Option<Vec<Vec<T>>> {
    // Each set with the place after that of its last thing.
    let mut sets: Vec<(usize, Vec<T>)> = vec![(0, Vec::new())];
    for _ in 0..size {
        let mut longer = Vec::new();
        for (after, set) in &sets {
            for (at, next) in things.iter().enumerate().skip(*after) {
                let mut set = set.clone();
                set.push(*next);
                longer.push((at + 1, set));
                if longer.len() > most.saturating_mul(things.len().max(1)) {
                    return None;
                }
            }
        }
        sets = longer;
    }
    (sets.len() <= most).then(|| sets.into_iter().map(|(_, set)| set).collect())
}

/// The sets that are within no other one, each once.
pub fn maximal(sets: Vec<KeySet>) -> Vec<KeySet> {
    let mut kept: Vec<KeySet> = Vec::new();
    for set in sets {
        if kept.iter().any(|known| set.is_within(known)) {
            continue;
        }
        kept.retain(|known| !known.is_within(&set));
        kept.push(set);
    }
    kept
}

/// The sets, and after them all sets within them, each once; `None` where that are more than
/// `most`.
pub fn with_subsets(sets: &[KeySet], most: usize) -> Option<Vec<KeySet>> {
    let mut all = sets.to_vec();
    let mut at = 0;
    while let Some(set) = all.get(at).cloned() {
        for smaller in set.without_one() {
            if !all.contains(&smaller) {
                all.push(smaller);
            }
        }
        if all.len() > most {
            return None;
        }
        at += 1;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(all: &[&[usize]]) -> Vec<KeySet> {
        let set = |keys: &&[usize]| KeySet::new(keys.iter().copied().map(SummaryKey).collect());
        all.iter().map(set).collect()
    }

    #[test]
    fn all_pairs_of_four_are_six() {
        let four = ['a', 'b', 'c', 'd'];
        let pairs = combinations(&four, 2, 100).unwrap();
        assert_eq!(pairs.len(), 6);
        assert_eq!((&pairs[0], &pairs[5]), (&vec!['a', 'b'], &vec!['c', 'd']));
        assert_eq!(combinations(&four, 4, 100).unwrap(), [four.to_vec()]);
        assert_eq!(combinations(&[0; 40], 20, 100), None);
        assert_eq!(combinations(&four, 2, 5), None);
    }

    #[test]
    fn sets_within_sets_follow_them() {
        let all = with_subsets(&sets(&[&[0, 1], &[1, 2]]), 10).unwrap();
        assert_eq!(all[..2], sets(&[&[0, 1], &[1, 2]]));
        assert_eq!(all[2..], sets(&[&[1], &[0], &[2], &[]]));
        let twenty = KeySet::new(SummaryKey::all(20).collect());
        assert_eq!(with_subsets(&[twenty], 500), None);
    }

    #[test]
    fn a_set_within_another_is_left_out() {
        let all = sets(&[&[0], &[0, 1], &[1], &[2], &[0, 1]]);
        assert_eq!(maximal(all), sets(&[&[0, 1], &[2]]));
    }
}
