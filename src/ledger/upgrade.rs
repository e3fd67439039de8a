//! Ledgers of an older format, which are brought to this one where nobody would be locked out.

use std::time::{Duration, Instant};

use super::clock::{Clock, LEASE};
use super::error::Error;
use super::store::{Older, Store, StoreValue, first};

/// The first format with claims.
const CLAIMS_SINCE: i64 = 3;

/// The first format that has everything that is read and decided. Later ones added indexes.
pub(super) const READ_SINCE: i64 = 8;

/// How long a process that is gone may still seem to make an answer: its claims end by themselves.
const SEEMING: Duration = Duration::from_micros(LEASE as u64 + 1_000_000);
/// How often it is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Whether a whole ledger is to be brought to the newest format.
///
/// # Errors
///
/// [`Error::OlderFormat`] where it is to be kept, and is too old to be read.
pub(super) fn is_due(
    older: Older<'_>,
    (ledger, found, newest): (&str, i64, i64),
) -> Result<bool, Error> {
    match older {
        Older::Keep => check_readable(ledger, found).map(|()| false),
        Older::Raise(_) | Older::RaiseUnlessInUse(_) => Ok(found < newest),
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

/// Brings a whole ledger to this format by `raise`, where it may be changed. Where another process
/// seems to make an answer, waits until the claims of one that crashed have ended.
///
/// # Requires
///
/// No transaction is open.
///
/// # Errors
///
/// [`Error::InUse`] where another process makes answers all that time; that it may not be changed;
/// those of `raise`.
pub(super) fn raise<S: Store>(
    store: &mut S,
    older: Older<'_>,
    format: i64,
    mut raise: impl FnMut(&mut S) -> Result<(), Error>,
) -> Result<(), Error> {
    match &older {
        Older::Raise(may_change) | Older::RaiseUnlessInUse(may_change) => {
            may_change(store, format)?;
        }
        Older::Keep => {}
    }
    let mut raised = raise(store);
    let since = Instant::now();
    if let Err(Error::InUse { ledger, .. }) = &raised {
        tracing::warn!(
            ledger,
            seconds = SEEMING.as_secs(),
            "another pgveil may be making an answer with the ledger, which has an older format: \
                waiting for as long as the claims of one that crashed last"
        );
    }
    while matches!(raised, Err(Error::InUse { .. })) && since.elapsed() < SEEMING {
        std::thread::sleep(ASK_EVERY);
        if let Older::RaiseUnlessInUse(may_change) = &older {
            may_change(store, format)?;
        }
        raised = raise(store);
    }
    raised
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
    older: Older<'_>,
    (ledger, found, newest): (&str, i64, i64),
) -> Result<(), Error> {
    let is_kept = match older {
        Older::Raise(_) => false,
        Older::Keep => true,
        Older::RaiseUnlessInUse(_) => found >= CLAIMS_SINCE && has_claims(store)?,
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
    let found = store.query(sql, &[StoreValue::Int(now), StoreValue::Int(furthest)])?;
    Ok(first(&found)?.int(0)? > 0)
}
