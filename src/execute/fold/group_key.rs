//! The groups of a statement, each with a number.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{ENTRY_BYTES, FoldError, integers, postgres_hash, text};
use crate::rewrite::Column;

/// A group of a unit, and the integers that the unit adds to it.
pub type UnitPart<'a> = (u32, &'a [i64]);

/// A group's columns: for each, whether it is NULL, its length and its bytes.
type Encoded = Box<[u8]>;

/// The groups, in the order in which they came.
pub struct KnownGroups {
    columns: Vec<Column>,
    /// How many of the columns are keys; the others are a value.
    keys: usize,
    numbers: HashMap<Encoded, u32>,
    all: Vec<Encoded>,
    /// The number of each group's keys, where groups have more columns than keys.
    key_numbers: HashMap<Encoded, u32>,
    keys_of: Vec<u32>,
    scratch: Vec<u8>,
    bytes: usize,
}

impl KnownGroups {
    pub fn new(columns: Vec<Column>, keys: usize) -> Self {
        Self {
            columns,
            keys,
            numbers: HashMap::new(),
            all: Vec::new(),
            key_numbers: HashMap::new(),
            keys_of: Vec::new(),
            scratch: Vec::new(),
            bytes: 0,
        }
    }

    /// The number of a row's group.
    ///
    /// # Errors
    /// [`FoldError::UnlikeRow`] where a column is longer than four bytes can say.
    pub fn number<'r>(
        &mut self,
        mut column: impl FnMut(usize) -> Option<&'r [u8]>,
    ) -> Result<u32, FoldError> {
        self.scratch.clear();
        let mut keys_end = 0;
        for at in 0..self.columns.len() {
            match column(at) {
                None => self.scratch.push(0),
                Some(bytes) => {
                    let length = u32::try_from(bytes.len()).map_err(|_| FoldError::UnlikeRow)?;
                    self.scratch.push(1);
                    self.scratch.extend_from_slice(&length.to_le_bytes());
                    self.scratch.extend_from_slice(bytes);
                }
            }
            if at + 1 == self.keys {
                keys_end = self.scratch.len();
            }
        }
        if let Some(number) = self.numbers.get(self.scratch.as_slice()) {
            return Ok(*number);
        }
        let number = self.all.len() as u32;
        let encoded: Encoded = self.scratch.as_slice().into();
        self.bytes += 2 * (encoded.len() + ENTRY_BYTES);
        self.numbers.insert(encoded.clone(), number);
        self.all.push(encoded);
        if self.keys < self.columns.len() {
            let next = self.key_numbers.len() as u32;
            let keys = self.scratch[..keys_end].into();
            self.keys_of
                .push(*self.key_numbers.entry(keys).or_insert(next));
        }
        Ok(number)
    }

    /// About what they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The number of a group's keys among those of all groups.
    pub fn keys_of(&self, group: u32) -> u32 {
        self.keys_of.get(group as usize).copied().unwrap_or(group)
    }

    /// The texts of a group's columns; `None` is NULL.
    pub fn texts(&self, group: u32) -> Vec<Option<String>> {
        let columns = self.columns.iter().zip(self.values(group));
        columns.map(|(of, bytes)| text(*of, bytes)).collect()
    }

    /// Whether the last column of a group is NULL.
    pub fn ends_with_null(&self, group: u32) -> bool {
        self.values(group)
            .last()
            .is_some_and(|value| value.is_none())
    }

    /// The order in which a unit's groups are taken: by the hash of all columns, then by their
    /// values, NULL last.
    pub fn hash_order(&self, a: u32, b: u32) -> Ordering {
        let by_hash = self.hash(a).cmp(&self.hash(b));
        by_hash.then_with(|| {
            let values = self.values(a).zip(self.values(b)).zip(&self.columns);
            let each = values.map(|((a, b), of)| value_order(*of, a, b));
            each.fold(Ordering::Equal, Ordering::then)
        })
    }

    fn hash(&self, group: u32) -> i64 {
        self.texts(group).into_iter().fold(0, |seed, text| {
            postgres_hash::of_text(text.unwrap_or_default().as_bytes(), seed)
        })
    }

    fn values(&self, group: u32) -> impl Iterator<Item = Option<&[u8]>> {
        let mut rest: &[u8] = &self.all[group as usize];
        std::iter::from_fn(move || {
            let (is_there, after) = rest.split_first()?;
            rest = after;
            if *is_there == 0 {
                return Some(None);
            }
            let (length, after) = rest.split_first_chunk()?;
            let (bytes, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            rest = after;
            Some(Some(bytes))
        })
    }
}

fn value_order(of: Column, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => match of {
            Column::Integer => integers::read(a).ok().cmp(&integers::read(b).ok()),
            Column::Bytes => a.cmp(b),
        },
    }
}
