//! How far a ledger has come, which distinguishes it from an older copy of itself.
//!
//! Each process remembers the greatest height that it saw. A ledger below that was set back under
//! it, by a failover to a standby that lagged or by a copy, and charges nothing more.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::Error;
use super::rules::Rules;
use super::store::{Store, StoreValue};
use super::witness::{WitnessReport, WitnessedHeight};

/// Digest of one debit, as the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DebitHash([u8; 32]);

impl DebitHash {
    /// The hash of debit zero, and of a missing debit.
    const NONE: Self = Self([0; 32]);
}

/// The counts of a ledger, which never fall, and its newest debit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerHeight {
    /// Drawn when the ledger was made, and again at each restoration.
    pub birth: [u8; 16],
    /// How often it was restored, and one.
    pub generation: i64,
    pub debits: i64,
    pub receipts: i64,
    pub decisions: i64,
    pub failures: i64,
    /// The hash of the debit of the highest number.
    pub tip: DebitHash,
}

/// The counts, then the newest debit in the columns of [`DEBIT`]: one row, so that a store that is
/// behind is found at once, before anything is charged.
const HEIGHT: &str = "SELECT i.birth, i.id, \
    (SELECT coalesce(max(id), 0) FROM receipt), \
    (SELECT coalesce(max(id), 0) FROM decision), \
    CAST((SELECT coalesce(sum(failures), 0) FROM account) AS bigint), \
    d.id, d.role, d.microseconds, d.epsilon, d.rho, d.mu_squared, d.delta, d.fingerprint \
    FROM identity AS i LEFT JOIN debit AS d ON d.id = (SELECT max(id) FROM debit) \
    WHERE i.id = (SELECT max(id) FROM identity)";

/// Where the newest debit begins among the columns of [`HEIGHT`].
const NEWEST: usize = 5;

const DEBIT: &str = "SELECT id, role, microseconds, epsilon, rho, mu_squared, delta, fingerprint \
    FROM debit WHERE id = $1";

impl LedgerHeight {
    /// The height of no ledger.
    pub(super) const NONE: Self = Self {
        birth: [0; 16],
        generation: 0,
        debits: 0,
        receipts: 0,
        decisions: 0,
        failures: 0,
        tip: DebitHash::NONE,
    };

    /// Whether nothing was ever charged or decided.
    pub(super) fn is_unused(&self) -> bool {
        let counts = [self.debits, self.receipts, self.decisions, self.failures];
        self.generation <= 1 && counts.iter().all(|count| *count == 0)
    }

    /// What this height lacks compared with `other`, in words; `None` where it lacks nothing.
    /// Compared with a ledger of another birth it lacks everything.
    ///
    /// The newest debits are not compared: see [`lacks`].
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
    /// A transaction is open, and nothing was read in it yet.
    ///
    /// # Errors
    ///
    /// [`Error::WentBack`].
    pub(super) fn check_not_behind(&mut self) -> Result<(), Error> {
        // Other processes write to the witnesses too, each after its commit: a store that is read
        // after the witnesses lacks nothing of them.
        let witnessed = self.seen_by_witnesses()?;
        let now = self.height()?;
        let mut missing = lacks(&mut *self.store, &now, &self.seen)?;
        for noted in witnessed {
            if let (None, WitnessReport::Whole(noted)) = (&missing, noted) {
                missing = lacks(&mut *self.store, &now, &noted.height)?;
            }
        }
        match missing {
            None => Ok(()),
            Some(lacks) => Err(Error::WentBack { lacks }),
        }
    }

    /// Writes to the witnesses what an earlier transaction reached and could not write. Until
    /// then nothing is read or written.
    ///
    /// # Requires
    ///
    /// A transaction is open.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`].
    pub(super) fn catch_up(&mut self) -> Result<(), Error> {
        if !self.lags {
            return Ok(());
        }
        let height = self.height()?;
        let testimony = WitnessedHeight::of(&mut *self.store, height)?;
        self.write_witnesses(&testimony)
    }

    /// Writes to every witness. Where one fails, it lags behind.
    fn write_witnesses(&mut self, testimony: &WitnessedHeight) -> Result<(), Error> {
        self.lags = true;
        for witness in &mut self.witnesses {
            witness.write(testimony)?;
        }
        self.lags = false;
        Ok(())
    }

    fn seen_by_witnesses(&mut self) -> Result<Vec<WitnessReport>, Error> {
        let witnesses = self.witnesses.iter_mut();
        witnesses.map(|witness| witness.read()).collect()
    }

    /// The debits that each witness has seen, by its name: 0 where it is empty or damaged. One that
    /// cannot be read is left out: an error would undo the debits that share this transaction.
    pub(super) fn witnessed_debits(&mut self) -> Vec<(String, i64)> {
        let mut seen = Vec::with_capacity(self.witnesses.len());
        for witness in &mut self.witnesses {
            let debits = match witness.read() {
                Err(_) => continue,
                Ok(WitnessReport::Nothing | WitnessReport::Damaged) => 0,
                Ok(WitnessReport::Whole(noted)) => noted.height.debits,
            };
            seen.push((witness.name(), debits));
        }
        seen
    }

    /// The store's height after this transaction, and the news for the witnesses. There is no news
    /// if the height has not changed.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn reached_height(
        &mut self,
    ) -> Result<(LedgerHeight, Option<WitnessedHeight>), Error> {
        let height = self.height()?;
        let is_due = !self.witnesses.is_empty() && height != self.seen;
        let seen = match is_due {
            true => Some(WitnessedHeight::of(&mut *self.store, height.clone())?),
            false => None,
        };
        Ok((height, seen))
    }

    /// Keeps the height of the transaction just committed, here and with the witnesses.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`]: the charge is committed, and nobody may rely on it.
    pub(super) fn note(
        &mut self,
        reached: (LedgerHeight, Option<WitnessedHeight>),
    ) -> Result<(), Error> {
        let (height, testimony) = reached;
        self.seen = height;
        match testimony {
            Some(testimony) => self.write_witnesses(&testimony),
            None => Ok(()),
        }
    }

    /// # Requires
    ///
    /// A transaction is open.
    pub(super) fn height(&mut self) -> Result<LedgerHeight, Error> {
        height(&mut *self.store)
    }
}

/// # Requires
///
/// A transaction is open.
pub(super) fn height(store: &mut dyn Store) -> Result<LedgerHeight, Error> {
    let rows = store.query(HEIGHT, &[])?;
    let damaged = || Error::Damaged {
        ledger: "the ledger".to_owned(),
        reason: "it has no identity".to_owned(),
    };
    let row = rows.first().ok_or_else(damaged)?;
    let newest = &row.0[NEWEST..];
    let (debits, tip) = match newest.first() {
        None | Some(StoreValue::Null) => (0, DebitHash::NONE),
        Some(_) => (row.int(NEWEST)?, digest(newest)),
    };
    Ok(LedgerHeight {
        birth: row.blob(0)?.try_into().map_err(|_| damaged())?,
        generation: row.int(1)?,
        debits,
        receipts: row.int(2)?,
        decisions: row.int(3)?,
        failures: row.int(4)?,
        tip,
    })
}

/// The part of an earlier height that the ledger, now at `now`, lacks; `None` if it lacks nothing.
///
/// # Guarantee
///
/// `None` means that every debit up to that height is committed, if its sums are those of
/// its debits: the counts are no lower, and the newest debit of then is the same.
///
/// # Requires
///
/// A transaction is open.
pub(super) fn lacks(
    store: &mut dyn Store,
    now: &LedgerHeight,
    before: &LedgerHeight,
) -> Result<Option<String>, Error> {
    if let Some(lacks) = now.lacks(before) {
        return Ok(Some(lacks));
    }
    let tip = match now.debits == before.debits {
        true => now.tip,
        false => tip(store, before.debits)?,
    };
    Ok((tip != before.tip).then(|| format!("debit {} is another one", before.debits)))
}

/// The digest of a debit, by its number.
fn tip(store: &mut dyn Store, number: i64) -> Result<DebitHash, Error> {
    let rows = store.query(DEBIT, &[StoreValue::Int(number)])?;
    Ok(rows.first().map_or(DebitHash::NONE, |row| digest(&row.0)))
}

fn digest(debit: &[StoreValue]) -> DebitHash {
    let mut digest = Sha256::new();
    for value in debit {
        match value {
            StoreValue::Null => digest.update([0]),
            StoreValue::Int(value) => digest.update(value.to_be_bytes()),
            StoreValue::Real(value) => digest.update(value.to_be_bytes()),
            StoreValue::Text(value) => digest.update(value.as_bytes()),
            StoreValue::Blob(value) => digest.update(value),
        }
    }
    DebitHash(digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::AccountSpec;
    use crate::ledger::address::open_store;
    use crate::ledger::clock::Clock;
    use crate::ledger::store::Access;
    use crate::ledger::witness;
    use crate::mechanism::{Accounting, Cap, Fixed};
    use crate::policy::{Budget, Renew, WitnessAddress, WitnessPlace};

    fn spec(name: &str) -> AccountSpec {
        let budget = Budget {
            epsilon: 1.0,
            delta: 1e-6,
        };
        let [epsilon, delta, share] = [1.0, 1e-6, 0.5].map(Fixed::round_down);
        AccountSpec {
            name: name.to_owned(),
            budget,
            threshold_share: 0.5,
            cap: Cap::new(epsilon, delta, share, Accounting::Gdp).unwrap(),
            renew: Renew::Never,
        }
    }

    /// The disk of the witness is full after the commit: nobody may rely on the charge, or read
    /// anything, until the witness has it.
    #[test]
    fn what_the_witness_lacks_stops_everything() {
        let directory = std::path::Path::new("/tmp")
            .join(format!("pgveil-lagging-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&directory).unwrap();
        let store = open_store(directory.join("ledger.db").to_str().unwrap()).unwrap();
        let (owner, role) = (spec("owner"), spec("ann"));
        let mut rules =
            Rules::open(store, Clock::system(), &owner, std::slice::from_ref(&role)).unwrap();
        let at = |path: &std::path::Path| {
            witness::open(&[WitnessAddress {
                place: WitnessPlace::File(path.to_owned()),
                same_disk: true,
            }])
            .unwrap()
        };
        rules.witnesses = at(std::path::Path::new("/dev/full"));
        rules.store.begin(Access::Write).unwrap();
        rules.check_not_behind().unwrap();
        rules
            .store
            .query("UPDATE account SET failures = 1", &[])
            .unwrap();
        let reached = rules.reached_height().unwrap();
        let height = reached.0.clone();
        rules.store.end(Ok(())).unwrap();
        assert!(matches!(rules.note(reached), Err(Error::Witness { .. })));
        let refused = rules.reading(Rules::catch_up);
        assert!(matches!(refused, Err(Error::Witness { .. })), "{refused:?}");
        rules.witnesses = at(&directory.join("witness"));
        rules.reading(Rules::catch_up).unwrap();
        let WitnessReport::Whole(seen) = rules.witnesses[0].read().unwrap() else {
            panic!("it has seen nothing")
        };
        assert_eq!(seen.height, height);
        assert_eq!(height.failures, 2, "the owner's account and the role's");
        drop(rules);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
