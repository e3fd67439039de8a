//! Ledgers of an older format, which are brought to this one where nobody would be locked out.

use super::clock::{Clock, LEASE};
use super::error::Error;
use super::store::{Older, Store, Value, first};

/// The first format with claims.
const CLAIMS_SINCE: i64 = 3;

/// The first format that has everything that is read and decided. Later ones added indexes.
pub(super) const READ_SINCE: i64 = 8;

/// Whether a whole ledger is to be brought to the newest format.
///
/// # Errors
///
/// [`Error::OlderFormat`] where it is to be kept, and is too old to be read.
pub(super) fn is_due(
    older: Older,
    (ledger, found, newest): (&str, i64, i64),
) -> Result<bool, Error> {
    match older {
        Older::Keep => check_readable(ledger, found).map(|()| false),
        Older::Raise | Older::RaiseUnlessInUse => Ok(found < newest),
    }
}

/// # Errors
///
/// [`Error::OlderFormat`].
pub(super) fn check_readable(ledger: &str, found: i64) -> Result<(), Error> {
    match found >= READ_SINCE {
        true => Ok(()),
        false => Err(Error::OlderFormat {
            ledger: ledger.to_owned(),
            found,
            least: READ_SINCE,
        }),
    }
}

/// Whether a ledger of an older format may be brought to this one now.
///
/// # Requires
///
/// A `Write` transaction is open.
///
/// # Errors
///
/// [`Error::InUse`]; those of the store.
pub(super) fn may_raise(
    store: &mut dyn Store,
    older: Older,
    (ledger, found, newest): (&str, i64, i64),
) -> Result<(), Error> {
    let is_kept = match older {
        Older::Raise => false,
        Older::Keep => true,
        Older::RaiseUnlessInUse => found >= CLAIMS_SINCE && has_claims(store)?,
    };
    match is_kept {
        true => Err(Error::InUse {
            ledger: ledger.to_owned(),
            found,
            newest,
        }),
        false => Ok(()),
    }
}

/// Whether a process is making an answer just now. This process has claimed nothing yet.
fn has_claims(store: &mut dyn Store) -> Result<bool, Error> {
    let now = Clock::system().now();
    // A claim far in the future comes from a wrong clock.
    let sql = "SELECT count(*) FROM claim WHERE until > $1 AND until <= $2";
    let furthest = now.saturating_add(2 * LEASE);
    let found = store.query(sql, &[Value::Int(now), Value::Int(furthest)])?;
    Ok(first(&found)?.int(0)? > 0)
}
