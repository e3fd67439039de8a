//! Reports that are made again: the random words of a report are a keyed hash of what it reports,
//! so that the same value of the same unit has the same report for ever.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use zeroize::Zeroize;

use crate::ir::sql::scalar_text;
use crate::mechanism::{RandomError, Randomiser, Randomness, Rappor};
use crate::parse::TrueText;
use crate::policy::{Local, Secret, Writing, WrittenCohorts, WrittenColumn, WrittenTable};

type Keyed = Hmac<Sha256>;

/// Begins every message, so that no other use of the secret has the same one.
const LABEL: &[u8] = b"pgveil local report 1";
/// Begins the messages of permanent bits.
const FILTER: &[u8] = b"pgveil local filter 1";
/// Begins the messages of cohorts.
const COHORT: &[u8] = b"pgveil local cohort 1";

/// The keyed hashes of each column, at the part of their messages that all of its values share.
pub(super) struct Memo {
    /// By table's OID and column.
    columns: BTreeMap<u32, BTreeMap<String, ColumnHashes>>,
    /// The hashes of cohorts, by table's OID and column of cohorts.
    cohorts: BTreeMap<u32, BTreeMap<String, Keyed>>,
}

/// The beginnings of the messages of one column.
struct ColumnHashes {
    report: Keyed,
    filter: Keyed,
}

impl Memo {
    /// Where the secret were no key, it would have no hashes, and no report would be made.
    pub(super) fn new(secret: &Secret, writing: &Writing) -> Self {
        let (mut columns, mut cohorts) = (BTreeMap::new(), BTreeMap::new());
        let Ok(keyed) = Keyed::new_from_slice(secret.expose().as_bytes()) else {
            return Self { columns, cohorts };
        };
        for table in &writing.tables {
            let hash = |label: &[u8], name: &str| {
                let named = [table.schema.as_str(), &table.name, name].map(str::as_bytes);
                with(&with(&keyed, &[label]), &named)
            };
            let local = table.columns.iter().filter_map(|column| {
                // Other odds, bounds or lists give other words. If they gave the same, two reports
                // of a value would depend on each other.
                let law = digest_of(column.local.as_ref()?);
                let hash = |label| with(&hash(label, &column.name), &[&law]);
                let hashes = ColumnHashes {
                    report: hash(LABEL),
                    filter: hash(FILTER),
                };
                Some((column.name.clone(), hashes))
            });
            columns.insert(table.oid, local.collect());
            let of_units = table.cohorts.iter();
            let of_units = of_units.map(|of| (of.column.clone(), hash(COHORT, &of.column)));
            cohorts.insert(table.oid, of_units.collect());
        }
        Self { columns, cohorts }
    }

    fn hashes(&self, table: &WrittenTable, column: &WrittenColumn) -> Option<&ColumnHashes> {
        self.columns.get(&table.oid)?.get(&column.name)
    }

    /// The words of the report of a value.
    ///
    /// # Guarantee
    /// They are a function of the secret, the names of the table and the column, what is declared
    /// of it, the unit, the value and their number alone. Whoever has no secret cannot distinguish
    /// them from random words (HMAC-SHA256 is a pseudorandom function).
    pub(super) fn words(
        &self,
        (table, column, unit): (&WrittenTable, &WrittenColumn, &str),
        value: &TrueText,
    ) -> MemoWords {
        let begun = self.hashes(table, column);
        let parts = [unit.as_bytes(), value.expose().as_bytes()];
        let keyed = begun.map(|begun| with(&begun.report, &parts));
        MemoWords { keyed, index: 0 }
    }

    /// The words of the permanent bits of a value, by their places.
    ///
    /// # Guarantee
    /// As [`Self::words`]; what is declared is the numbers of the permanent bits, and the cohort is
    /// one part more.
    pub(super) fn filter_words(
        &self,
        (table, column, unit): (&WrittenTable, &WrittenColumn, &str),
        (cohort, value): (u32, &str),
    ) -> FilterWords {
        let begun = self.hashes(table, column);
        let cohort = cohort.to_be_bytes();
        let parts = [unit.as_bytes(), &cohort, value.as_bytes()];
        FilterWords {
            keyed: begun.map(|begun| with(&begun.filter, &parts)),
            block: None,
            made: [0; 32],
        }
    }

    /// The cohort of a unit, the same for ever: a function of the secret, the names of the table
    /// and of the column of cohorts, their number and the unit alone.
    ///
    /// # Requires
    /// At least one cohort, as the policy's reader sees to.
    ///
    /// # Errors
    /// Where there is no key.
    pub(super) fn cohort(
        &self,
        (table, of, unit): (&WrittenTable, &WrittenCohorts, &str),
    ) -> Result<u32, RandomError> {
        let begun = self.cohorts.get(&table.oid);
        let begun = begun.and_then(|of_table| of_table.get(&of.column));
        let keyed = begun.map(|begun| with(begun, &[unit.as_bytes()]));
        let word = MemoWords { keyed, index: 0 }.next_u64()?;
        Ok((word % u64::from(of.cohorts)) as u32)
    }
}

/// A hash whose message goes on with these parts.
fn with(begun: &Keyed, parts: &[&[u8]]) -> Keyed {
    let mut keyed = begun.clone();
    for part in parts {
        add(|bytes| keyed.update(bytes), part);
    }
    keyed
}

/// A digest of what the policy declares of a column.
fn digest_of(local: &Local) -> [u8; 32] {
    let mut law = Sha256::new();
    let declared = law_of(&local.randomiser);
    add(|bytes| law.update(bytes), declared.as_bytes());
    let bounds = local.bounds.map(|(l, u)| (l.to_bits(), u.to_bits()));
    add(|bytes| law.update(bytes), format!("{bounds:?}").as_bytes());
    // Permanent bits are a value's, whatever else is in the list.
    let values = local.values.iter().filter(|_| local.filter.is_none());
    for value in values {
        add(|bytes| law.update(bytes), scalar_text(value).as_bytes());
    }
    law.finalize().into()
}

/// The mechanism and its numbers as the policy says them. Of `unary` with an epsilon the two
/// probabilities, which are computed in integers: no machine has another law.
fn law_of(randomiser: &Randomiser) -> String {
    match randomiser {
        Randomiser::Coin { truth, yes } => format!("coin {truth:e} {yes:e}"),
        Randomiser::KRr { epsilon } => format!("krr {epsilon:e}"),
        Randomiser::Unary { one, zero } => format!("unary {one:e} {zero:e}"),
        Randomiser::Mean { epsilon } => format!("mean {epsilon:e}"),
        // The second stage is drawn anew from the same permanent bits, so its odds may change.
        // The cohort is a part of the message.
        Randomiser::Rappor(Rappor {
            bits,
            hashes,
            cohorts: _,
            f,
            p: _,
            q: _,
        }) => format!("rappor {bits} {hashes} {f:e}"),
    }
}

/// Adds a part with its length before it, so that no two lists of parts are one message.
fn add(mut update: impl FnMut(&[u8]), part: &[u8]) {
    update(&(part.len() as u64).to_be_bytes());
    update(part);
}

/// The random words of one report.
pub(super) struct MemoWords {
    keyed: Option<Keyed>,
    index: u64,
}

impl Randomness for MemoWords {
    fn next_u64(&mut self) -> Result<u64, RandomError> {
        let mut made = block(self.keyed.as_ref(), self.index)?;
        self.index += 1;
        let word = word_of(&made, 0);
        made.zeroize();
        Ok(word)
    }
}

/// The random words of permanent bits: each hash has four.
pub(super) struct FilterWords {
    keyed: Option<Keyed>,
    block: Option<u64>,
    made: [u8; 32],
}

impl FilterWords {
    /// The word of this place.
    pub(super) fn word(&mut self, place: u32) -> Result<u64, RandomError> {
        let (wanted, at) = (u64::from(place) / 4, place as usize % 4);
        if self.block != Some(wanted) {
            self.made = block(self.keyed.as_ref(), wanted)?;
            self.block = Some(wanted);
        }
        Ok(word_of(&self.made, at))
    }
}

impl Drop for FilterWords {
    fn drop(&mut self) {
        self.made.zeroize();
    }
}

/// The hash of a message with a number at its end.
fn block(keyed: Option<&Keyed>, number: u64) -> Result<[u8; 32], RandomError> {
    let mut keyed = keyed.cloned().ok_or_else(|| RandomError {
        reason: "the memo has no key for this column".to_owned(),
    })?;
    add(|bytes| keyed.update(bytes), &number.to_be_bytes());
    Ok(keyed.finalize().into_bytes().into())
}

/// One of the four words of a hash.
fn word_of(made: &[u8; 32], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&made[8 * at..8 * at + 8]);
    u64::from_be_bytes(word)
}
