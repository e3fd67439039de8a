//! Compares a ledger with its witnesses, and brings the witnesses up to date.

use super::error::Error;
use super::height::{LedgerHeight, height, lacks};
use super::store::{Access, Store};
use super::witness::{self, SeenWitness, Witness, WitnessReport, WitnessedHeight};
use crate::policy::WitnessAddress;

/// When an empty or damaged witness may learn from a ledger that has charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attest {
    /// Only for a ledger that was never charged: somebody who can set a ledger back can often
    /// remove a file too.
    IfUnused,
    /// The owner says that the ledger is the newest.
    Anyway,
}

/// A witness, compared with the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WitnessStanding {
    /// The ledger lacks nothing that it saw.
    Agrees,
    /// The witness is empty or damaged.
    KnowsNothing(&'static str),
    /// The witness saw what the ledger lacks.
    SawMore(String),
}

/// Opens the witnesses of a store, which are brought up to date.
///
/// # Guarantee
///
/// The store lacks nothing that a witness saw. One that knows nothing learns from a store that
/// another witness vouches for, or that was never charged; else only where `attest` says so.
///
/// # Requires
///
/// No transaction is open.
///
/// # Errors
///
/// [`Error::Older`]; [`Error::Unwitnessed`]; [`Error::SameDisk`]; [`Error::Witness`].
pub(super) fn open_witnesses(
    store: &mut dyn Store,
    places: &[WitnessAddress],
    attest: Attest,
) -> Result<Vec<Box<dyn Witness>>, Error> {
    let mut witnesses = witness::open(places)?;
    // Before the store: what another process writes meanwhile is no sign of an older copy.
    let seen = witnesses.iter_mut().map(|witness| {
        Ok(SeenWitness {
            name: witness.name(),
            report: witness.read()?,
            cluster: witness.cluster(),
        })
    });
    let seen = seen.collect::<Result<Vec<_>, Error>>()?;
    check_other_server(store, &seen, places)?;
    store.begin(Access::Read)?;
    let read = compare(store, seen, attest);
    store.end(read.as_ref().map(|_| ()).map_err(Clone::clone))?;
    let now = read?;
    for witness in &mut witnesses {
        witness.write(&now)?;
    }
    Ok(witnesses)
}

/// What the witnesses are to learn.
fn compare(
    store: &mut dyn Store,
    seen: Vec<SeenWitness>,
    attest: Attest,
) -> Result<WitnessedHeight, Error> {
    let height = height(store)?;
    let standings = standings(store, &height, seen)?;
    if let Some(error) = fault(&height, &standings, attest) {
        return Err(error);
    }
    for (witness, standing) in &standings {
        if let WitnessStanding::KnowsNothing(_) = standing {
            tracing::info!(witness, "a witness of the ledger begins to see");
        }
    }
    WitnessedHeight::of(store, height)
}

/// Refuses a witness on the ledger's own server: whoever sets the server back sets the witness back
/// too.
///
/// # Requires
///
/// No transaction is open.
///
/// # Errors
///
/// [`Error::SameDisk`].
pub(super) fn check_other_server(
    store: &mut dyn Store,
    seen: &[SeenWitness],
    places: &[WitnessAddress],
) -> Result<(), Error> {
    let of_ledger = store.cluster();
    let near = places
        .iter()
        .zip(seen)
        .find(|(at, witness)| !at.same_disk && of_ledger.is_some() && witness.cluster == of_ledger);
    match near {
        None => Ok(()),
        Some((_, witness)) => Err(Error::SameDisk {
            witness: witness.name.clone(),
        }),
    }
}

/// Each witness, compared with a store of that height.
///
/// # Requires
///
/// A transaction is open.
pub(super) fn standings(
    store: &mut dyn Store,
    height: &LedgerHeight,
    seen: Vec<SeenWitness>,
) -> Result<Vec<(String, WitnessStanding)>, Error> {
    let mut compared = Vec::with_capacity(seen.len());
    for SeenWitness {
        name,
        report,
        cluster: _,
    } in seen
    {
        let standing = match report {
            WitnessReport::Nothing => WitnessStanding::KnowsNothing("is empty"),
            WitnessReport::Damaged => WitnessStanding::KnowsNothing("is damaged"),
            WitnessReport::Whole(seen) => match lacks(store, height, &seen.height)? {
                None => WitnessStanding::Agrees,
                Some(lacks) => WitnessStanding::SawMore(lacks),
            },
        };
        compared.push((name, standing));
    }
    Ok(compared)
}

/// Why a ledger of that height is not opened: a witness saw more, or knows nothing of a ledger that
/// was charged and that no other witness vouches for.
pub(super) fn fault(
    height: &LedgerHeight,
    witnesses: &[(String, WitnessStanding)],
    attest: Attest,
) -> Option<Error> {
    let is_vouched = witnesses
        .iter()
        .any(|(_, standing)| *standing == WitnessStanding::Agrees);
    let is_known = is_vouched || height.is_unused() || attest == Attest::Anyway;
    let fault = |(witness, standing): &(String, WitnessStanding)| {
        let witness = witness.clone();
        match standing {
            WitnessStanding::SawMore(lacks) => Some(Error::Older {
                witness,
                lacks: lacks.clone(),
            }),
            WitnessStanding::KnowsNothing(what) if !is_known => {
                Some(Error::Unwitnessed { witness, what })
            }
            WitnessStanding::KnowsNothing(_) | WitnessStanding::Agrees => None,
        }
    };
    // What a witness saw counts more than what another one lost.
    let faults: Vec<Error> = witnesses.iter().filter_map(fault).collect();
    let is_older = |error: &&Error| matches!(error, Error::Older { .. });
    faults.iter().find(is_older).or(faults.first()).cloned()
}
