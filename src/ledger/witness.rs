//! Witnesses of a ledger: places away from it that say how far the ledger has come. A ledger that
//! is behind one of them is an older copy, and is not opened.
//!
//! Each is written durably after each transaction that charged, and before anybody learns of the
//! charge. [`file`] is a small file on another disk, [`server`] a row in another PostgreSQL.

mod file;
mod server;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::height::LedgerHeight;
use super::store::{Row, Store};
use crate::mechanism::{Fixed, Loss};
use crate::policy::{WitnessAddress, WitnessPlace};
pub(super) use file::is_same_disk;

/// What a witness has seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::ledger) struct WitnessedHeight {
    pub(in crate::ledger) height: LedgerHeight,
    pub(in crate::ledger) accounts: Vec<Sums>,
}

/// The lifetime's sums of an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::ledger) struct Sums {
    pub(in crate::ledger) kind: String,
    pub(in crate::ledger) name: String,
    pub(in crate::ledger) loss: Loss,
    pub(in crate::ledger) failures: i64,
}

/// What a witness says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WitnessReport {
    /// The witness is new.
    Nothing,
    /// The witness was written, and no whole line is left.
    Damaged,
    Whole(Box<WitnessedHeight>),
}

/// A place that remembers how far the ledger had come.
pub(super) trait Witness: Send {
    /// For people. Without a password.
    fn name(&self) -> String;

    /// The height that the witness has seen.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`].
    fn read(&mut self) -> Result<WitnessReport, Error>;

    /// Writes the testimony durably, unless the witness has the same already: other processes on
    /// the same ledger write too.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`], also where it is the witness of another ledger.
    fn write(&mut self, now: &WitnessedHeight) -> Result<(), Error>;

    /// After a restoration: writes the testimony whatever it says, if the witness is still as
    /// `before`.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`].
    fn begin_anew(&mut self, before: &WitnessReport, now: &WitnessedHeight) -> Result<(), Error>;

    /// The system identifier of its PostgreSQL, where it is in one that says so.
    fn cluster(&self) -> Option<String> {
        None
    }
}

/// A witness that was read, and not opened to be written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenWitness {
    /// For people. Without a password.
    pub(super) name: String,
    pub(super) report: WitnessReport,
    /// As [`Witness::cluster`].
    pub(super) cluster: Option<String>,
}

/// Reads each, and makes none.
///
/// # Errors
///
/// [`Error::Witness`].
pub(super) fn look(places: &[WitnessAddress]) -> Result<Vec<SeenWitness>, Error> {
    let seen = places.iter().map(|at| match &at.place {
        WitnessPlace::File(path) => file::look(path),
        WitnessPlace::Server(url) => server::look(url.expose()),
    });
    seen.collect()
}

/// Opens each; one that is not there is made, empty.
///
/// # Errors
///
/// [`Error::Witness`].
pub(super) fn open(places: &[WitnessAddress]) -> Result<Vec<Box<dyn Witness>>, Error> {
    let witnesses = places.iter().map(|at| match &at.place {
        WitnessPlace::File(path) => {
            file::WitnessFile::open(path).map(|file| Box::new(file) as Box<dyn Witness>)
        }
        WitnessPlace::Server(url) => server::WitnessServer::open(url.expose())
            .map(|server| Box::new(server) as Box<dyn Witness>),
    });
    witnesses.collect()
}

/// Whether a witness that knows `known` is to learn of `now`.
fn is_news(known: Option<&WitnessedHeight>, now: &WitnessedHeight) -> Result<bool, &'static str> {
    let Some(known) = known else {
        return Ok(true);
    };
    let (known, now) = (&known.height, &now.height);
    if (known.birth, known.generation) != (now.birth, now.generation) {
        return Err("it is the witness of another ledger");
    }
    Ok(known.lacks(now).is_some())
}

/// The most that any of them saw, each of the same ledger.
pub(super) fn highest<'a>(
    testimonies: impl IntoIterator<Item = &'a WitnessedHeight>,
) -> Option<WitnessedHeight> {
    let mut testimonies = testimonies.into_iter();
    let mut highest = testimonies.next()?.clone();
    for seen in testimonies {
        if highest.height.lacks(&seen.height).is_some() {
            highest.height = seen.height.clone();
        }
        for sums in &seen.accounts {
            let same = |known: &&mut Sums| known.kind == sums.kind && known.name == sums.name;
            match highest.accounts.iter_mut().find(same) {
                Some(known) => known.raise(sums),
                None => highest.accounts.push(sums.clone()),
            }
        }
    }
    Some(highest)
}

impl WitnessedHeight {
    /// # Requires
    ///
    /// A transaction is open.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(in crate::ledger) fn of(
        store: &mut dyn Store,
        height: LedgerHeight,
    ) -> Result<Self, Error> {
        let sql = "SELECT kind, name, spent_epsilon, spent_rho, spent_mu_squared, spent_delta, \
            failures FROM account ORDER BY id";
        let accounts = store.query(sql, &[])?;
        let accounts = accounts.iter().map(Sums::of).collect::<Result<_, _>>()?;
        Ok(Self { height, accounts })
    }
}

impl Sums {
    fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            kind: row.text(0)?.to_owned(),
            name: row.text(1)?.to_owned(),
            loss: row.loss(2)?,
            failures: row.int(6)?,
        })
    }

    pub(in crate::ledger) fn is_role(&self, name: &str) -> bool {
        self.kind == "role" && self.name == name
    }

    /// Each number becomes the larger one; an infinite epsilon stays.
    fn raise(&mut self, other: &Self) {
        let larger = |a: Fixed, b: Fixed| Fixed(a.0.max(b.0));
        let (mine, theirs) = (&mut self.loss, &other.loss);
        mine.epsilon = mine.epsilon.zip(theirs.epsilon).map(|(a, b)| larger(a, b));
        mine.rho = larger(mine.rho, theirs.rho);
        mine.mu_squared = larger(mine.mu_squared, theirs.mu_squared);
        mine.delta = larger(mine.delta, theirs.delta);
        self.failures = self.failures.max(other.failures);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_of_two_is_above_both() {
        let sums = |name: &str, epsilon: Option<u128>, rho: u128| Sums {
            kind: "role".to_owned(),
            name: name.to_owned(),
            loss: Loss {
                epsilon: epsilon.map(Fixed),
                rho: Fixed(rho),
                mu_squared: Fixed(2 * rho),
                delta: Fixed(0),
            },
            failures: 3,
        };
        let seen = |debits, accounts| WitnessedHeight {
            height: LedgerHeight {
                debits,
                ..LedgerHeight::NONE
            },
            accounts,
        };
        let one = seen(4, vec![sums("ann", Some(5), 1), sums("bob", Some(2), 9)]);
        let two = seen(6, vec![sums("ann", None, 3), sums("carl", Some(1), 1)]);
        for both in [[&one, &two], [&two, &one]] {
            let highest = highest(both).unwrap();
            assert_eq!(highest.height.debits, 6);
            let of = |name: &str| {
                highest
                    .accounts
                    .iter()
                    .find(|sums| sums.is_role(name))
                    .unwrap()
            };
            assert_eq!(
                (of("ann").loss.epsilon, of("ann").loss.rho),
                (None, Fixed(3))
            );
            assert_eq!(of("bob").loss.rho, Fixed(9));
            assert_eq!(of("carl").loss.epsilon, Some(Fixed(1)));
        }
        assert_eq!(highest([]), None);
    }
}
