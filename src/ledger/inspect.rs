//! A ledger as it is, whatever its format: read, and not written.

use super::address::{Address, look_at};
use super::backups::LastBackup;
use super::compare_witnesses::{Attest, WitnessStanding, check_other_server, fault, standings};
use super::error::Error;
use super::height::{LedgerHeight, height};
use super::sqlite;
use super::store::{Access, Store, first_row};
use super::upgrade::READ_SINCE;
use super::witness;
use crate::policy::WitnessAddress;

/// The first format with receipts.
const RECEIPTS_SINCE: i64 = 2;
/// The first format with decisions.
const DECISIONS_SINCE: i64 = 3;
/// The first format with an identity.
const IDENTITY_SINCE: i64 = 6;

/// A whole ledger, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerStanding {
    pub format: i64,
    /// In a format without an identity its birth and its newest debit are zeros.
    pub height: LedgerHeight,
    /// Each witness by its name.
    pub witnesses: Vec<(String, WitnessStanding)>,
    /// The last backup of a ledger in SQLite.
    pub last_backup: Option<LastBackup>,
}

impl LedgerStanding {
    /// The newest format.
    pub const NEWEST: i64 = sqlite::FORMAT as i64;

    /// Drawn when the ledger was made; `None` in a format without it.
    pub fn identity(&self) -> Option<[u8; 16]> {
        (self.format >= IDENTITY_SINCE).then_some(self.height.birth)
    }

    /// Why no proxy would open the ledger.
    pub fn fault(&self) -> Option<Error> {
        fault(&self.height, &self.witnesses, Attest::IfUnused)
    }
}

/// Reads a ledger of any format whole, with its witnesses, and writes to neither.
///
/// # Errors
///
/// [`Error::Missing`], [`Error::HalfWritten`], [`Error::SameDisk`]; those of the store and of the
/// witnesses. A witness that saw more is in the result.
pub fn inspect(at: &Address) -> Result<LedgerStanding, Error> {
    inspect_store(at).map(|(_, standing)| standing)
}

/// Like [`inspect`], and also the store that was read.
pub(super) fn inspect_store(at: &Address) -> Result<(Box<dyn Store>, LedgerStanding), Error> {
    at.check()?;
    // Before the store: what a proxy writes meanwhile is no sign of an older copy.
    let seen = witness::look(&at.witnesses)?;
    let (mut store, format) = look_at(at.url.expose())?;
    check_other_server(&mut *store, &seen, &at.witnesses)?;
    store.begin(Access::Read)?;
    let read = height_of(&mut *store, format).and_then(|height| {
        let witnesses = standings(&mut *store, &height, seen)?;
        Ok((height, witnesses))
    });
    store.end(read.as_ref().map(|_| ()).map_err(Clone::clone))?;
    let (height, witnesses) = read?;
    let last_backup = match at.file()? {
        Some(file) => LastBackup::of(&file, height.birth),
        None => None,
    };
    let standing = LedgerStanding {
        format,
        height,
        witnesses,
        last_backup,
    };
    Ok((store, standing))
}

/// Refuses to change a ledger of any format that no proxy would open, as a witness saw more of it
/// or knows nothing of it. Writes to neither.
///
/// # Requires
///
/// No transaction is open.
///
/// # Errors
///
/// [`Error::Older`], [`Error::Unwitnessed`], [`Error::SameDisk`]; those of the store and of the
/// witnesses.
pub(super) fn may_change(
    store: &mut dyn Store,
    format: i64,
    places: &[WitnessAddress],
) -> Result<(), Error> {
    if places.is_empty() {
        return Ok(());
    }
    // Before the store, as above.
    let seen = witness::look(places)?;
    check_other_server(store, &seen, places)?;
    store.begin(Access::Read)?;
    let read = height_of(store, format).and_then(|height| {
        let witnesses = standings(store, &height, seen)?;
        // The command that attests reads no format that is older still: the raise goes first then.
        let attest = match format < READ_SINCE {
            true => Attest::Anyway,
            false => Attest::IfUnused,
        };
        Ok(fault(&height, &witnesses, attest))
    });
    store.end(read.as_ref().map(|_| ()).map_err(Clone::clone))?;
    read?.map_or(Ok(()), Err)
}

/// # Requires
///
/// A transaction is open.
fn height_of(store: &mut dyn Store, format: i64) -> Result<LedgerHeight, Error> {
    if format >= IDENTITY_SINCE {
        return height(store);
    }
    let mut count = |since: i64, sql: &'static str| match format >= since {
        true => first_row(&store.query(sql, &[])?)?.int(0),
        false => Ok(0),
    };
    Ok(LedgerHeight {
        debits: count(0, "SELECT coalesce(max(id), 0) FROM debit")?,
        receipts: count(RECEIPTS_SINCE, "SELECT coalesce(max(id), 0) FROM receipt")?,
        decisions: count(DECISIONS_SINCE, "SELECT coalesce(max(id), 0) FROM decision")?,
        failures: count(
            0,
            "SELECT CAST(coalesce(sum(failures), 0) AS bigint) FROM account",
        )?,
        ..LedgerHeight::NONE
    })
}
