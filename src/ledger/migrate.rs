//! Brings a ledger to the newest format.

use super::address::{Address, store_at};
use super::error::Error;
use super::inspect::may_change;
use super::store::{Absent, OnOlderFormat, Store};

/// Brings a ledger of an older format to this one, whoever uses it. An older pgveil that has it
/// open goes on, and cannot open it again. A ledger that is missing is not made.
///
/// # Errors
///
/// [`Error`]: a ledger that is foreign, newer, damaged or older than a witness is refused and left
/// as it was.
pub fn migrate(at: &Address) -> Result<(), Error> {
    at.check()?;
    let may_change = |store: &mut dyn Store, format| may_change(store, format, &at.witnesses);
    match store_at(
        at.url.expose(),
        Absent::Refuse,
        OnOlderFormat::Raise(&may_change),
    ) {
        Ok(_) | Err(Error::Missing { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
