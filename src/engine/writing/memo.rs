//! Reports that are made again: the random words of a report are a keyed hash of what it reports,
//! so that the same value of the same unit has the same report for ever.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use zeroize::Zeroize;

use crate::ir::sql::scalar_text;
use crate::mechanism::{RandomError, Randomiser, Randomness, Rappor};
use crate::parse::TrueText;
use crate::policy::{Secret, Writing, WrittenColumn, WrittenTable};

type Keyed = Hmac<Sha256>;

/// Begins every message, so that no other use of the secret has the same one.
const LABEL: &[u8] = b"pgveil local report 1";

/// The key, and the law of each column.
pub(super) struct Memo {
    secret: Secret,
    /// Digests of what the policy declares, by table's OID and column: other odds, bounds or lists
    /// give other words. If they gave the same, two reports of a value would depend on each other.
    laws: BTreeMap<(u32, String), [u8; 32]>,
}

impl Memo {
    pub(super) fn new(secret: &Secret, writing: &Writing) -> Self {
        let mut laws = BTreeMap::new();
        for table in &writing.tables {
            for column in &table.columns {
                let Some(local) = &column.local else { continue };
                let mut law = Sha256::new();
                let declared = law_of(&local.randomiser);
                add(|bytes| law.update(bytes), declared.as_bytes());
                let bounds = local.bounds.map(|(l, u)| (l.to_bits(), u.to_bits()));
                add(|bytes| law.update(bytes), format!("{bounds:?}").as_bytes());
                for value in &local.values {
                    add(|bytes| law.update(bytes), scalar_text(value).as_bytes());
                }
                laws.insert((table.oid, column.name.clone()), law.finalize().into());
            }
        }
        let secret = secret.clone();
        Self { secret, laws }
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
        let keyed = Keyed::new_from_slice(self.secret.expose().as_bytes()).ok();
        let law = self.laws.get(&(table.oid, column.name.clone()));
        let keyed = keyed.zip(law).map(|(mut keyed, law)| {
            let parts: [&[u8]; 7] = [
                LABEL,
                table.schema.as_bytes(),
                table.name.as_bytes(),
                column.name.as_bytes(),
                law,
                unit.as_bytes(),
                value.expose().as_bytes(),
            ];
            for part in parts {
                add(|bytes| keyed.update(bytes), part);
            }
            keyed
        });
        MemoWords { keyed, index: 0 }
    }
}

/// The mechanism and its numbers as the policy says them. Of `unary` with an epsilon the two
/// probabilities, which are computed in integers: no machine has another law.
fn law_of(randomiser: &Randomiser) -> String {
    match randomiser {
        Randomiser::Coin { truth, yes } => format!("coin {truth:e} {yes:e}"),
        Randomiser::KRr { epsilon } => format!("krr {epsilon:e}"),
        Randomiser::Unary { one, zero } => format!("unary {one:e} {zero:e}"),
        Randomiser::Mean { epsilon } => format!("mean {epsilon:e}"),
        Randomiser::Rappor(Rappor {
            bits,
            hashes,
            cohorts,
            f,
            p,
            q,
        }) => format!("rappor {bits} {hashes} {cohorts} {f:e} {p:e} {q:e}"),
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
        let Some(mut keyed) = self.keyed.clone() else {
            return Err(RandomError {
                reason: "the memo has no key for this column".to_owned(),
            });
        };
        add(|bytes| keyed.update(bytes), &self.index.to_be_bytes());
        self.index += 1;
        let mut made: [u8; 32] = keyed.finalize().into_bytes().into();
        let mut word = [0; 8];
        word.copy_from_slice(&made[..8]);
        made.zeroize();
        Ok(u64::from_be_bytes(word))
    }
}
