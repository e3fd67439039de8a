//! Copies of the file, made while it is in use, that are no ledgers until they are restored.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::Error;
use super::{Sqlite, connect, file, keep_log, set_journal};

/// Pages that are copied before other processes get a turn.
const PAGES: i32 = 1000;

/// Copies a whole ledger to a new file, marked as a backup.
///
/// # Errors
///
/// [`Error`]; [`Error::Backup`] where the copy's name is taken.
pub(in crate::ledger) fn back_up(ledger: &Path, copy: &Path) -> Result<(), Error> {
    let source = Sqlite::verified(ledger.to_owned())?.connection;
    // It is a ledger: where nobody else has it open, no log stays behind.
    keep_log(&source, false)?;
    make(copy, |draft| copied(&source, draft, file::BACKUP_ID))
}

/// Makes a ledger of a backup: `settle` charges the draft before it gets the ledger's name.
///
/// # Errors
///
/// [`Error`]; [`Error::Backup`] where a ledger is in place, or the file is no backup.
pub(in crate::ledger) fn put_back<T>(
    backup: &Path,
    ledger: &Path,
    settle: impl FnOnce(&str) -> Result<T, Error>,
) -> Result<T, Error> {
    file::check_backup(backup)?;
    let source = connect(backup)?;
    make(ledger, |draft| {
        copied(&source, draft, file::APPLICATION_ID)?;
        let settled = settle(&format!("sqlite://{}", draft.display()))?;
        // The draft's own log or journal goes with the draft: SQLite removes the journal that it
        // would empty.
        let tidied = connect(draft)?;
        set_journal(&tidied, false)?;
        tidied.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
        tidied.close().map_err(|(_, error)| error)?;
        Ok(settled)
    })
}

fn make<T>(path: &Path, build: impl FnOnce(&Path) -> Result<T, Error>) -> Result<T, Error> {
    let mut made = None;
    file::create_if_missing(path, |draft| {
        let built = build(draft)?;
        made = Some((built, file::place(draft)?));
        Ok(())
    })?;
    // Another process may have made a file of that name meanwhile.
    let place = file::place(path)?;
    match made {
        Some((built, drafted)) if drafted == place => Ok(built),
        Some(_) | None => Err(Error::Backup {
            reason: format!("{path:?} exists: move it away first"),
        }),
    }
}

fn copied(source: &Connection, draft: &Path, application: u32) -> Result<(), Error> {
    let mut target = connect(draft)?;
    // Without a log of its own, whatever the source has.
    target.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
    // As of one moment, whatever others write meanwhile.
    source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let copied = Backup::new(source, &mut target)
        .and_then(|backup| backup.run_to_completion(PAGES, Duration::ZERO, None));
    source.execute_batch("COMMIT")?;
    copied?;
    target.pragma_update(None, "application_id", application)?;
    target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    target.close().map_err(|(_, error)| error)?;
    Ok(File::open(draft)?.sync_all()?)
}
