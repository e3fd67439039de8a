//! Ledgers of an older format, which are brought to this one where nobody would be locked out.

use std::time::{Duration, Instant};

use super::clock::{Clock, LEASE};
use super::error::Error;
use super::store::{OnOlderFormat, Store, StoreValue, first_row};

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
    older: OnOlderFormat<'_>,
    (ledger, found, newest): (&str, i64, i64),
) -> Result<bool, Error> {
    match older {
        OnOlderFormat::Keep => check_readable(ledger, found).map(|()| false),
        OnOlderFormat::Raise(_) | OnOlderFormat::RaiseUnlessInUse(_) => Ok(found < newest),
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

/// A store whose format is read and raised.
pub(super) trait Raise: Store + Sized {
    /// The format that the store has now.
    ///
    /// # Errors
    ///
    /// Those of the store; [`Error::Newer`]; [`Error::Foreign`].
    fn format_now(&mut self) -> Result<i64, Error>;

    /// Brings a whole ledger of an older format to this one: tables are added, nothing else is
    /// touched.
    ///
    /// # Requires
    ///
    /// No transaction is open.
    ///
    /// # Errors
    ///
    /// Those of the store and of [`may_raise`].
    fn raise(&mut self, older: OnOlderFormat<'_>) -> Result<(), Error>;
}

/// Brings a whole ledger to this format, where it may be changed. Where another process seems to
/// make an answer, waits until the claims of one that crashed have ended.
///
/// # Requires
///
/// No transaction is open.
///
/// # Errors
///
/// [`Error::InUse`] where another process makes answers all that time; that it may not be changed;
/// those of [`Raise::raise`].
pub(super) fn raise<S: Raise>(
    store: &mut S,
    older: OnOlderFormat<'_>,
    format: i64,
) -> Result<(), Error> {
    match older {
        OnOlderFormat::Raise(may_change) | OnOlderFormat::RaiseUnlessInUse(may_change) => {
            check(
                store,
                format,
                |s, format| may_change(s, format),
                S::format_now,
            )?;
        }
        OnOlderFormat::Keep => {}
    }
    let mut raised = store.raise(older);
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
        if let OnOlderFormat::RaiseUnlessInUse(may_change) = older {
            check(
                store,
                format,
                |s, format| may_change(s, format),
                S::format_now,
            )?;
        }
        raised = store.raise(older);
    }
    raised
}

/// Asks whether a store of that format may be changed; again where another process has changed it
/// meanwhile, since the answer was about a store that is no more.
fn check<S>(
    store: &mut S,
    mut format: i64,
    may_change: impl Fn(&mut S, i64) -> Result<(), Error>,
    format_now: impl Fn(&mut S) -> Result<i64, Error>,
) -> Result<(), Error> {
    loop {
        let may = may_change(store, format);
        if may.is_ok() {
            return may;
        }
        let now = format_now(store)?;
        if now == format {
            return may;
        }
        format = now;
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
    older: OnOlderFormat<'_>,
    (ledger, found, newest): (&str, i64, i64),
) -> Result<(), Error> {
    let is_kept = match older {
        OnOlderFormat::Raise(_) => false,
        OnOlderFormat::Keep => true,
        OnOlderFormat::RaiseUnlessInUse(_) => found >= CLAIMS_SINCE && has_claims(store)?,
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
    Ok(first_row(&found)?.int(0)? > 0)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Two first starts at once on a ledger without an identity: the witness of the first one knows
    /// the identity that it drew, which the second has not read yet.
    #[test]
    fn a_ledger_that_another_process_raised_is_looked_at_again() {
        let asked = RefCell::new(Vec::new());
        let may_change = |_: &mut Vec<i64>, format: i64| {
            asked.borrow_mut().push(format);
            match format {
                9 => Ok(()),
                _ => Err(Error::Older {
                    witness: "w".to_owned(),
                    lacks: "it is another ledger".to_owned(),
                }),
            }
        };
        // The formats that it has, each time it is asked.
        let format_now = |formats: &mut Vec<i64>| Ok(formats.remove(0));
        check(&mut vec![4, 9], 3, may_change, format_now).unwrap();
        assert_eq!(asked.take(), [3, 4, 9]);
        // One that nobody raised is refused as it is.
        let refused = check(&mut vec![3], 3, may_change, format_now);
        assert!(matches!(refused, Err(Error::Older { .. })), "{refused:?}");
        assert_eq!(asked.take(), [3]);
    }
}
