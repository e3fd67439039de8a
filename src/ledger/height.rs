//! How far a ledger has come: what tells it from an older copy of itself.
//!
//! Each process remembers the highest that it saw. A ledger below that was set back under it, by a
//! failover to a standby that lagged or by a copy, and charges nothing more.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::Error;
use super::rules::Rules;
use super::store::{Row, Value, first};
use super::witness::{Testimony, Witness};

/// The counts of a ledger, none of which ever falls, and its newest debit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Height {
    /// Drawn when the ledger was made, and again at each restoration.
    pub birth: [u8; 16],
    /// How often it was restored, and one.
    pub generation: i64,
    pub debits: i64,
    pub receipts: i64,
    pub decisions: i64,
    pub failures: i64,
    /// Digest of the debit of the highest number; zeros without any.
    pub tip: [u8; 32],
}

/// Each column in one row: a store that is behind is found before anything is charged.
const COUNTS: &str = "SELECT \
    (SELECT birth FROM identity WHERE id = (SELECT max(id) FROM identity)), \
    (SELECT max(id) FROM identity), \
    (SELECT coalesce(max(id), 0) FROM debit), \
    (SELECT coalesce(max(id), 0) FROM receipt), \
    (SELECT coalesce(max(id), 0) FROM decision), \
    CAST((SELECT coalesce(sum(failures), 0) FROM account) AS bigint)";

const DEBIT: &str = "SELECT id, role, microseconds, epsilon, rho, mu_squared, delta, fingerprint \
    FROM debit WHERE id = $1";

impl Height {
    /// Of no ledger.
    pub(super) const NONE: Self = Self {
        birth: [0; 16],
        generation: 0,
        debits: 0,
        receipts: 0,
        decisions: 0,
        failures: 0,
        tip: [0; 32],
    };

    /// What this one lacks of `other`, in words; `None` where it lacks nothing. Of another birth it
    /// lacks everything.
    ///
    /// The newest debits are not compared: see [`Rules::holds`].
    pub(super) fn lacks(&self, other: &Self) -> Option<String> {
        if (self.birth, self.generation) != (other.birth, other.generation) {
            return Some("it is another ledger, or another restoration".to_owned());
        }
        let counts = [
            ("debits", self.debits, other.debits),
            ("receipts", self.receipts, other.receipts),
            ("decisions", self.decisions, other.decisions),
            ("failures", self.failures, other.failures),
        ];
        let missing: Vec<String> = counts
            .into_iter()
            .filter(|(_, have, wanted)| have < wanted)
            .map(|(what, have, wanted)| format!("{} {what}", wanted - have))
            .collect();
        (!missing.is_empty()).then(|| format!("{} are missing", missing.join(" and ")))
    }
}

impl Rules {
    /// Finds out whether the store went back under this process.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    ///
    /// # Errors
    ///
    /// [`Error::WentBack`].
    pub(super) fn stands(&mut self) -> Result<(), Error> {
        let seen = self.seen.clone();
        let mut lacks = self.lacks(&seen)?;
        // Other processes tell the witness too, each after its commit: whoever holds the lock lacks
        // nothing of it.
        let told = match &self.witness {
            Some(witness) => witness.read()?,
            None => None,
        };
        if let (None, Some(told)) = (&lacks, told) {
            lacks = self.lacks(&told.height()?)?;
        }
        match lacks {
            None => Ok(()),
            Some(lacks) => Err(Error::WentBack { lacks }),
        }
    }

    /// Tells the witness what an earlier transaction reached and could not tell. Until then nothing
    /// is read or written.
    ///
    /// # Requires
    ///
    /// A transaction is open.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`].
    pub(super) fn catch_up(&mut self) -> Result<(), Error> {
        if !self.untold {
            return Ok(());
        }
        let height = self.height()?;
        let testimony = Testimony::of(self, &height)?;
        if let Some(witness) = &self.witness {
            witness.write(&testimony)?;
        }
        self.untold = false;
        Ok(())
    }

    /// Checks the store against a witness, which is brought up to date.
    ///
    /// # Errors
    ///
    /// [`Error::Older`]; [`Error::Witness`].
    pub(super) fn attend(&mut self, path: &Path) -> Result<(), Error> {
        let witness = Witness::open(path)?;
        let (lacks, now) = self.reading(|rules| {
            let lacks = match witness.read()? {
                Some(seen) => rules.lacks(&seen.height()?)?,
                None => {
                    tracing::warn!("the ledger's witness is new: it takes the ledger as it is");
                    None
                }
            };
            let height = rules.height()?;
            Ok((lacks, Testimony::of(rules, &height)?))
        })?;
        if let Some(lacks) = lacks {
            return Err(Error::Older {
                path: path.to_owned(),
                lacks,
            });
        }
        witness.write(&now)?;
        self.witness = Some(witness);
        Ok(())
    }

    /// How far the store has come by what this transaction wrote, and what the witness is to see of
    /// it: nothing where it has come no further.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn reached(&mut self) -> Result<(Height, Option<Testimony>), Error> {
        let height = self.height()?;
        let is_due = self.witness.is_some() && height != self.seen;
        let seen = match is_due {
            true => Some(Testimony::of(self, &height)?),
            false => None,
        };
        Ok((height, seen))
    }

    /// Keeps what the transaction that was just committed reached, here and with the witness.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`]: what was charged stands, and nobody may rely on it.
    pub(super) fn note(&mut self, reached: (Height, Option<Testimony>)) -> Result<(), Error> {
        let (height, testimony) = reached;
        self.seen = height;
        match (&self.witness, testimony) {
            (Some(witness), Some(testimony)) => {
                self.untold = true;
                witness.write(&testimony)?;
                self.untold = false;
                Ok(())
            }
            (None, _) | (_, None) => Ok(()),
        }
    }

    /// # Requires
    ///
    /// A transaction is open.
    pub(super) fn height(&mut self) -> Result<Height, Error> {
        let rows = self.store.query(COUNTS, &[])?;
        let row = first(&rows)?;
        let debits = row.int(2)?;
        let birth = row.blob(0)?.try_into().map_err(|_| Error::Damaged {
            ledger: "the ledger".to_owned(),
            reason: "it has no identity".to_owned(),
        })?;
        Ok(Height {
            birth,
            generation: row.int(1)?,
            debits,
            receipts: row.int(3)?,
            decisions: row.int(4)?,
            failures: row.int(5)?,
            tip: self.tip(debits)?,
        })
    }

    /// What the ledger lacks of a height that it once had; `None` where it lacks nothing.
    ///
    /// # Guarantee
    ///
    /// `None` means that every debit up to that height stands in the ledger, if its sums are those
    /// of its debits: the counts are no lower, and the newest debit of then is the same.
    ///
    /// # Requires
    ///
    /// A transaction is open.
    pub(super) fn lacks(&mut self, before: &Height) -> Result<Option<String>, Error> {
        let now = self.height()?;
        if let Some(lacks) = now.lacks(before) {
            return Ok(Some(lacks));
        }
        let is_same = self.tip(before.debits)? == before.tip;
        Ok((!is_same).then(|| format!("debit {} is another one", before.debits)))
    }

    /// Digest of a debit; zeros for number zero and for one that is not there.
    fn tip(&mut self, number: i64) -> Result<[u8; 32], Error> {
        let rows = self.store.query(DEBIT, &[Value::Int(number)])?;
        Ok(rows.first().map_or([0; 32], digest))
    }
}

fn digest(row: &Row) -> [u8; 32] {
    let mut digest = Sha256::new();
    for value in &row.0 {
        match value {
            Value::Null => digest.update([0]),
            Value::Int(value) => digest.update(value.to_be_bytes()),
            Value::Real(value) => digest.update(value.to_be_bytes()),
            Value::Text(value) => digest.update(value.as_bytes()),
            Value::Blob(value) => digest.update(value),
        }
    }
    digest.finalize().into()
}
