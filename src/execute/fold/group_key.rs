//! The groups of a statement by number, and their columns' texts.

use foldhash::fast::RandomState as QuickState;
use indexmap::IndexSet;
use zeroize::Zeroize;

use super::{ENTRY_BYTES, FoldError, integers, postgres_hash};
use crate::rewrite::Column;

/// A group's columns as texts, one after the other: for each, whether it is NULL, its length and
/// its bytes.
type Encoded = Box<[u8]>;

/// Groups, in the order in which they came.
#[derive(Default)]
pub struct KnownGroups {
    all: IndexSet<Encoded, QuickState>,
    scratch: Vec<u8>,
    bytes: usize,
}

impl Drop for KnownGroups {
    fn drop(&mut self) {
        for mut group in self.all.drain(..) {
            group.zeroize();
        }
        self.scratch.zeroize();
    }
}

impl KnownGroups {
    /// The number of a row's group.
    ///
    /// # Errors
    /// [`FoldError`] where a column is not of its type.
    pub fn number<'r>(
        &mut self,
        columns: &[Column],
        column: impl FnMut(usize) -> Option<&'r [u8]>,
    ) -> Result<u32, FoldError> {
        encode_all(columns, column, &mut self.scratch)?;
        let number = match self.all.get_index_of(self.scratch.as_slice()) {
            Some(number) => number,
            None => {
                self.bytes += self.scratch.len() + ENTRY_BYTES;
                self.all.insert_full(self.scratch.as_slice().into()).0
            }
        };
        u32::try_from(number).map_err(|_| FoldError::TooLarge)
    }

    /// The texts of a group's columns; `None` is NULL.
    pub fn texts(&self, group: u32) -> Vec<Option<String>> {
        let columns = self.all.get_index(group as usize);
        columns.map_or_else(Vec::new, |columns| texts(columns))
    }

    /// The first columns of a group, in a form that is equal where they are.
    pub fn first_columns(&self, group: u32, columns: usize) -> &[u8] {
        let all = self.all.get_index(group as usize);
        let all = all.map_or(&[][..], |columns| columns);
        let mut end = 0;
        for value in values(all).take(columns) {
            end += value.map_or(1, |bytes| 1 + size_of::<u32>() + bytes.len());
        }
        &all[..end]
    }

    /// In ascending order of which a unit's groups are taken: by the hash of all columns, then by
    /// their texts, NULL last. It is the group's own: no two groups are equal in it, so none is
    /// taken because another unit came first.
    pub fn order(&self, group: u32) -> (i64, Vec<(bool, &[u8])>) {
        let columns = self.all.get_index(group as usize);
        let columns = columns.map_or(&[][..], |columns| columns);
        let texts = values(columns).map(|text| (text.is_none(), text.unwrap_or_default()));
        (hash(columns), texts.collect())
    }

    /// About what they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A group's columns as texts, in place of what was there.
///
/// # Errors
/// [`FoldError`] where a column is not of its type.
pub fn encode_all<'r>(
    columns: &[Column],
    mut column: impl FnMut(usize) -> Option<&'r [u8]>,
    out: &mut Vec<u8>,
) -> Result<(), FoldError> {
    out.clear();
    let mut columns = columns.iter().enumerate();
    columns.try_for_each(|(at, of)| encode(*of, column(at), out))
}

/// Appends a column's text. Integers are printed: they are what the database prints.
///
/// # Errors
/// [`FoldError`] where the bytes are not of the type.
fn encode(of: Column, bytes: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), FoldError> {
    let Some(bytes) = bytes else {
        out.push(0);
        return Ok(());
    };
    out.push(1);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    match of {
        Column::Integer => {
            let mut digits = itoa::Buffer::new();
            out.extend_from_slice(digits.format(integers::read(bytes)?).as_bytes());
        }
        Column::Bytes => out.extend_from_slice(bytes),
    }
    let length = u32::try_from(out.len() - start - 4).map_err(|_| FoldError::TooLarge)?;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// The columns of an encoded group.
fn values(encoded: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = encoded;
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

fn texts(encoded: &[u8]) -> Vec<Option<String>> {
    values(encoded)
        .map(|value| value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        .collect()
}

/// The hash of all columns of an encoded group, where NULL counts as no text.
pub fn hash(encoded: &[u8]) -> i64 {
    values(encoded).fold(0, |seed, value| {
        postgres_hash::of_text(value.unwrap_or_default(), seed)
    })
}

/// Which columns of an encoded group are NULL, the first as the highest bit.
pub fn nulls(encoded: &[u8]) -> u64 {
    values(encoded).fold(0, |mask, value| mask << 1 | u64::from(value.is_none()))
}
