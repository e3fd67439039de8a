//! Pairs of a group and a value that are counted but never shown: by a digest, so that long values
//! take no more memory than short ones.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use zeroize::Zeroize;

use super::FoldError;
use super::group_key::{KnownGroups, encode_all, hash, nulls};
use crate::rewrite::Column;

/// About what a pair takes, with its place in the table of digests.
const PAIR_BYTES: usize = 100;

/// What is known of a pair.
#[derive(Debug, Clone, Copy)]
pub struct CountedPair {
    /// The number of its keys among the groups.
    pub keys: u32,
    /// By which a unit's pairs are taken, first.
    hash: i64,
    /// Which columns are NULL: it comes after the empty text, which has the same hash.
    nulls: u64,
    digest: [u64; 2],
    /// Whether some unit counts in it.
    pub counts: bool,
}

impl CountedPair {
    /// Whether the last column is NULL.
    pub fn ends_with_null(&self) -> bool {
        self.nulls & 1 == 1
    }

    /// In ascending order of which a unit's pairs are taken. It is the pair's own: no two pairs
    /// are equal in it, so none is taken because another unit came first.
    pub fn order(&self) -> (i64, u64, [u64; 2]) {
        (self.hash, self.nulls, self.digest)
    }
}

/// The pairs, in the order in which they came. Two pairs with one digest of 128 bits would count as
/// one. The digest has secret keys, drawn for this statement: for digests like random ones, that
/// happens among n pairs with probability n^2 / 2^129.
pub struct KnownPairs {
    keys: usize,
    hashers: [RandomState; 2],
    numbers: HashMap<[u64; 2], u32>,
    pub all: Vec<CountedPair>,
    pub groups: KnownGroups,
    scratch: Vec<u8>,
}

impl Drop for KnownPairs {
    fn drop(&mut self) {
        self.scratch.zeroize();
    }
}

impl KnownPairs {
    /// The first `keys` columns are those of the group.
    pub fn new(keys: usize) -> Self {
        Self {
            keys,
            hashers: [RandomState::new(), RandomState::new()],
            numbers: HashMap::new(),
            all: Vec::new(),
            groups: KnownGroups::default(),
            scratch: Vec::new(),
        }
    }

    /// About what they take.
    pub fn bytes(&self) -> usize {
        self.all.len() * PAIR_BYTES + self.groups.bytes()
    }

    /// The number of a row's pair.
    ///
    /// # Errors
    /// [`FoldError`] where a column is not of its type.
    pub fn number<'r>(
        &mut self,
        columns: &[Column],
        mut column: impl FnMut(usize) -> Option<&'r [u8]>,
    ) -> Result<u32, FoldError> {
        encode_all(columns, &mut column, &mut self.scratch)?;
        let [first, second] = &self.hashers;
        let digest = [first, second].map(|hasher| hasher.hash_one(self.scratch.as_slice()));
        if let Some(number) = self.numbers.get(&digest) {
            return Ok(*number);
        }
        let number = u32::try_from(self.all.len()).map_err(|_| FoldError::TooLarge)?;
        let keys = self.groups.number(&columns[..self.keys], &mut column)?;
        self.numbers.insert(digest, number);
        self.all.push(CountedPair {
            keys,
            hash: hash(&self.scratch),
            nulls: nulls(&self.scratch),
            digest,
            counts: false,
        });
        Ok(number)
    }
}
