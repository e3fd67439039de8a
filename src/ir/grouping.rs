//! Group keys and grouping sets, by their numbers within a release.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One key of a release, by its place among the keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId(pub usize);

/// One distinct grouping set of a release, by its place among the sets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub usize);

/// The keys of one grouping set.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupingSet(Vec<KeyId>);

impl KeyId {
    /// The keys of a release that has this many.
    pub fn all(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(Self)
    }
}

impl GroupingSet {
    pub fn new(mut keys: Vec<KeyId>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        Self(keys)
    }

    /// The set of a plain GROUP BY of this many keys.
    pub fn of_all(keys: usize) -> Self {
        Self(KeyId::all(keys).collect())
    }

    /// Ascending.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = KeyId> + '_ {
        self.0.iter().copied()
    }

    pub fn contains(&self, key: KeyId) -> bool {
        self.0.contains(&key)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys as numbers, for `mechanism`, which knows no release.
    pub fn numbers(&self) -> Vec<usize> {
        self.keys().map(|KeyId(at)| at).collect()
    }
}

/// The keys of sets as numbers, for `mechanism`.
pub fn numbers(sets: &[GroupingSet]) -> Vec<Vec<usize>> {
    sets.iter().map(GroupingSet::numbers).collect()
}

/// The bare number: digests of stored answers are taken of it.
impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The bare number.
impl fmt::Debug for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The bare list of keys: digests of stored answers are taken of it.
impl fmt::Debug for GroupingSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Prints the set as a released row names it.
impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl SetId {
    /// The set that a released row names.
    pub fn read(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    /// The sets of a release, each with its number.
    pub fn with_numbers(sets: &[GroupingSet]) -> impl Iterator<Item = (Self, &GroupingSet)> {
        (0..).map(Self).zip(sets)
    }

    /// The set with this number; `None` where the release has fewer.
    pub fn find(self, sets: &[GroupingSet]) -> Option<&GroupingSet> {
        sets.get(self.0)
    }
}
