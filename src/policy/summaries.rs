//! Summaries that the owner declares: counts and sums of a private table by some of its columns,
//! which are released once and then answer questions.

use super::ColumnPosition;

/// A summary, checked against its table.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub name: String,
    /// The place of its table in [`super::Policy::tables`].
    pub table: usize,
    /// The places of its keys among the table's columns. All of their values are known.
    pub keys: Vec<ColumnPosition>,
    /// The places of the columns whose sums it has. The number of rows is always in it.
    pub measures: Vec<ColumnPosition>,
    /// The sets of keys that it has groups of, as ascending places in `keys`. None is within
    /// another.
    pub marginals: Vec<Vec<usize>>,
    pub accuracy: Accuracy,
    /// Who may receive it; at least one.
    pub roles: Vec<String>,
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

/// Every set of `size` of `count` things, in order; `None` where there are more than `most`.
pub fn combinations(count: usize, size: usize, most: usize) -> Option<Vec<Vec<usize>>> {
    let mut sets = vec![Vec::new()];
    for _ in 0..size {
        let mut longer = Vec::new();
        for set in &sets {
            let first = set.last().map_or(0, |last: &usize| last + 1);
            for next in first..count {
                let mut set = set.clone();
                set.push(next);
                longer.push(set);
                if longer.len() > most.saturating_mul(count.max(1)) {
                    return None;
                }
            }
        }
        sets = longer;
    }
    (sets.len() <= most).then_some(sets)
}

/// The sets that are within no other one, each once.
pub fn maximal(sets: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let is_within =
        |set: &Vec<usize>, other: &Vec<usize>| set.iter().all(|key| other.contains(key));
    let mut kept: Vec<Vec<usize>> = Vec::new();
    for set in sets {
        if kept.iter().any(|known| is_within(&set, known)) {
            continue;
        }
        kept.retain(|known| !is_within(known, &set));
        kept.push(set);
    }
    kept
}

/// The sets, and after them all sets within them, each once; `None` where that are more than
/// `most`.
pub fn with_subsets(sets: &[Vec<usize>], most: usize) -> Option<Vec<Vec<usize>>> {
    let mut all = sets.to_vec();
    let mut at = 0;
    while let Some(set) = all.get(at).cloned() {
        for left_out in 0..set.len() {
            let mut smaller = set.clone();
            smaller.remove(left_out);
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

    #[test]
    fn all_pairs_of_four_are_six() {
        let pairs = combinations(4, 2, 100).unwrap();
        assert_eq!(pairs.len(), 6);
        assert_eq!((&pairs[0], &pairs[5]), (&vec![0, 1], &vec![2, 3]));
        assert_eq!(combinations(4, 4, 100).unwrap(), [vec![0, 1, 2, 3]]);
        assert_eq!(combinations(40, 20, 100), None);
        assert_eq!(combinations(4, 2, 5), None);
    }

    #[test]
    fn sets_within_sets_follow_them() {
        let all = with_subsets(&[vec![0, 1], vec![1, 2]], 10).unwrap();
        assert_eq!(all[..2], [vec![0, 1], vec![1, 2]]);
        assert_eq!(all[2..], [vec![1], vec![0], vec![2], vec![]]);
        assert_eq!(with_subsets(&[(0..20).collect()], 500), None);
    }

    #[test]
    fn a_set_within_another_is_left_out() {
        let sets = vec![vec![0], vec![0, 1], vec![1], vec![2], vec![0, 1]];
        assert_eq!(maximal(sets), [vec![0, 1], vec![2]]);
    }
}
