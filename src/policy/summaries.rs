//! Summaries that the owner declares: counts and sums of a private table by some of its columns,
//! which are released once and then answer questions.

use super::{ColumnPosition, Policy, Protection, Scalar, UnitStep};

/// The most decimals of a numeric with bins: its values are computed with as they are stored.
pub const BIN_SCALE_MAX: i16 = 60;

/// A summary, checked against its table.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub name: String,
    /// The place of its table in [`super::Policy::tables`].
    pub table: usize,
    pub keys: Vec<SummaryColumn>,
    /// The places of the columns whose sums it has. The number of rows is always in it.
    pub measures: Vec<ColumnPosition>,
    /// The sets of keys that it has groups of. None is within another. Empty where they are still
    /// to be selected.
    pub marginals: Vec<KeySet>,
    /// Whether the sets are selected from the data.
    pub is_auto: bool,
    /// Which answer of the ledger the selected sets were read from.
    pub selection: Option<String>,
    pub accuracy: Accuracy,
    /// Who may receive it; at least one.
    pub roles: Vec<String>,
}

/// The most numbers of rows of a key, and the most bins.
pub const KEY_STEPS_MAX: u32 = 1_000;

/// What a key of a summary has the values of.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryColumn {
    /// How many steps of the path to the unit lead from the summary's table to the column's; 0 for
    /// numbers of rows.
    pub steps: usize,
    /// The place of the column's table in [`super::Policy::tables`], or of the one whose rows are
    /// counted.
    pub table: usize,
    pub source: KeySource,
    /// Where its bins begin, ascending, and where the last one ends: the first and the last edge
    /// are the column's bounds, or 0 and the most rows. Empty for a key of single values, all of
    /// which are known.
    pub edges: Vec<Scalar>,
    /// Whether ranges of its values or bins are asked for.
    pub has_ranges: bool,
}

/// What the values of a key are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    /// The values of a column, by its place in its table.
    Column(ColumnPosition),
    /// How many rows of a table the unit has. If they are more than `most`, they count as `most`.
    Rows { most: u32 },
}

impl SummaryColumn {
    /// The column that it has the values of; `None` for numbers of rows.
    pub fn column(&self) -> Option<ColumnPosition> {
        match self.source {
            KeySource::Column(column) => Some(column),
            KeySource::Rows { .. } => None,
        }
    }

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
            match (key.source, key.steps) {
                (KeySource::Rows { .. }, _) => format!("rows({}.{})", table.schema, table.name),
                (KeySource::Column(at), 0) => table.columns[at.0].name.clone(),
                (KeySource::Column(at), _) => {
                    format!("{}.{}", table.name, table.columns[at.0].name)
                }
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

impl Summary {
    /// Whether a key is a number of rows of another table.
    pub fn counts_rows(&self) -> bool {
        self.keys.iter().any(|key| key.column().is_none())
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
    /// `auto`: selected from the data, privately.
    Auto,
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
            Self::Auto => "auto".to_owned(),
        }
    }
}

/// The most keys of a summary whose sets are selected: all of their pairs can be candidates.
pub const AUTO_KEYS_MAX: usize = 24;
/// The most candidates for selected sets. Each is one statement.
const CANDIDATES_MAX: usize = 300;
/// The most groups of a candidate, and its most keys.
const CANDIDATE_GROUPS_MAX: u64 = 20_000;
const CANDIDATE_KEYS_MAX: usize = 3;
/// The most rounds of a selection.
const ROUNDS_MAX: usize = 32;

/// The sets from which those of a summary are selected: pairs of keys first, then triples, of each
/// size the smallest first, and only as many as have `groups` groups together with the keys' own.
/// `sizes` has the number of values of each key.
pub fn candidate_sets(sizes: &[usize], groups: u64) -> Vec<Vec<usize>> {
    let count = |set: &[usize]| {
        let sizes = set.iter().map(|key| sizes[*key] as u64);
        sizes.fold(1, u64::saturating_mul)
    };
    let keys: Vec<usize> = (0..sizes.len()).collect();
    let mut left = groups.saturating_sub(sizes.iter().map(|size| *size as u64).sum());
    let mut all = Vec::new();
    for size in 2..=CANDIDATE_KEYS_MAX {
        let mut sets = combinations(&keys, size, usize::MAX).unwrap_or_default();
        sets.retain(|set| count(set) <= CANDIDATE_GROUPS_MAX);
        sets.sort_by_key(|set| count(set));
        for set in sets {
            let own = count(&set);
            if own <= left && all.len() < CANDIDATES_MAX {
                left -= own;
                all.push(set);
            }
        }
    }
    all
}

/// In how many rounds sets are selected: two for each key, and no more than there are pairs.
pub fn rounds(keys: usize, candidates: &[Vec<usize>]) -> usize {
    let pairs = candidates.iter().filter(|set| set.len() == 2).count();
    (2 * keys).min(pairs).min(ROUNDS_MAX)
}

/// Sets of keys as the ledger keeps them: by the places of their keys.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SelectedSets {
    sets: Vec<Vec<usize>>,
}

impl SelectedSets {
    /// The given sets, and one of each key that is in none of them, of `keys` keys.
    pub fn of(mut sets: Vec<Vec<usize>>, keys: usize) -> Self {
        for key in 0..keys {
            if !sets.iter().any(|set| set.contains(&key)) {
                sets.push(vec![key]);
            }
        }
        Self { sets }
    }

    /// The sets of a summary with this many keys; `None` where it has other keys.
    pub fn key_sets(&self, keys: usize) -> Option<Vec<KeySet>> {
        let is_key = |key: &usize| *key < keys;
        let is_known = self.sets.iter().all(|set| set.iter().all(is_key));
        let set = |set: &Vec<usize>| KeySet::new(set.iter().copied().map(SummaryKey).collect());
        (is_known && !self.sets.is_empty()).then(|| maximal(self.sets.iter().map(set).collect()))
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
    fn candidates_are_pairs_then_triples_that_fit() {
        let all = candidate_sets(&[2, 3, 4], 1000);
        let wanted: [&[usize]; 4] = [&[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
        assert_eq!(all, wanted);
        // 9 groups of the keys' own, 6 and 8 of the two smallest pairs; the third has 12.
        assert_eq!(candidate_sets(&[2, 3, 4], 23), wanted[..2]);
        assert_eq!(candidate_sets(&[200, 200], 100_000), [[0usize; 0]; 0]);
        assert_eq!(candidate_sets(&[2], 1000), [[0usize; 0]; 0]);
        assert_eq!(candidate_sets(&[2; 24], 100_000).len(), 300);
        assert_eq!((rounds(3, &all), rounds(10, &all)), (3, 3));
        let many = candidate_sets(&[2; 20], 100_000);
        assert_eq!(rounds(20, &many), 32);
    }

    #[test]
    fn selected_sets_have_each_key() {
        let kept = SelectedSets::of(vec![vec![2, 0]], 4);
        let found = kept.key_sets(4).unwrap();
        assert_eq!(found, sets(&[&[0, 2], &[1], &[3]]));
        assert_eq!(kept.key_sets(3), None);
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
