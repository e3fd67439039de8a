//! Copies of the file, made while it is in use, that are no ledgers until they are restored.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::Error;
use super::{connect, file};
use crate::ledger::backups::LastBackup;

/// Pages that are copied before other processes get a turn.
const PAGES: i32 = 1000;

/// Copies a whole ledger to a new file, marked as a backup.
///
/// # Errors
///
/// [`Error`]; [`Error::Backup`] where the copy's name is taken.
pub(in crate::ledger) fn back_up(ledger: &Path, copy: &Path) -> Result<(), Error> {
    file::check_header(ledger)?;
    let source = connect(ledger)?;
    make(copy, |draft| copy_pages(&source, draft, file::BACKUP_ID))?;
    if let Err(error) = LastBackup::note(ledger, birth(&source), copy) {
        tracing::warn!(%error, "the backup was made; its time could not be noted");
    }
    Ok(())
}

/// The ledger's identity; zeros in a format without it.
fn birth(ledger: &Connection) -> [u8; 16] {
    let sql = "SELECT birth FROM identity ORDER BY id DESC LIMIT 1";
    let found = ledger.query_row(sql, [], |row| row.get(0));
    found.unwrap_or([0; 16])
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
        copy_pages(&source, draft, file::APPLICATION_ID)?;
        let settled = settle(&format!("sqlite://{}", draft.display()))?;
        // The draft's own journal goes with the draft.
        let tidied = connect(draft)?;
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

fn copy_pages(source: &Connection, draft: &Path, application: u32) -> Result<(), Error> {
    let mut target = connect(draft)?;
    Backup::new(source, &mut target)?.run_to_completion(PAGES, Duration::ZERO, None)?;
    target.pragma_update(None, "application_id", application)?;
    target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    target.close().map_err(|(_, error)| error)?;
    Ok(File::open(draft)?.sync_all()?)
}
