//! The check of the file at its opening: pages and schema.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::Error;

/// How often, and how far apart, a file is read again that another process is writing.
const READ_AGAIN: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// How long the file is.
pub(super) const BYTES: &str =
    "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";

/// Whether the file is structurally whole and has exactly this schema. Reads only.
///
/// # Errors
///
/// [`Error::Damaged`]; [`Error::Storage`] where SQLite could not read for other reasons than
/// damage.
pub(super) fn structure(connection: &Connection, path: &Path, schema: &str) -> Result<(), Error> {
    let checked = connection
        .unchecked_transaction()
        .and_then(|snapshot| fault(&snapshot, path, schema));
    match checked {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(damage_error(path, reason)),
        Err(error) => Err(read_failure(path, error)),
    }
}

/// Whether a failure to read means damage, or only that the file could not be read now.
pub(super) fn read_failure(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        // No code of SQLite: a value of the wrong type or length came back.
        None | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            damage_error(path, error.to_string())
        }
        Some(ErrorCode::ReadOnly) if is_half_written(&error) => Error::HalfWritten {
            ledger: format!("ledger {path:?}"),
        },
        Some(_) => error.into(),
    }
}

/// Whether a journal is to be played back, which a connection that only reads cannot do.
fn is_half_written(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
}

/// Reads again where a journal is to be played back: another process may be at it just now, and the
/// journal gone a moment later. One that a process left when it ended stays.
///
/// # Errors
///
/// Those of `read`.
pub(super) fn patiently<T>(mut read: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..READ_AGAIN {
        match read() {
            Err(Error::HalfWritten { .. }) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    read()
}

fn damage_error(path: &Path, reason: String) -> Error {
    Error::Damaged {
        ledger: format!("ledger {path:?}"),
        reason,
    }
}

fn fault(snapshot: &Connection, path: &Path, schema: &str) -> rusqlite::Result<Option<String>> {
    let integrity: String =
        snapshot.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if integrity != "ok" {
        return Ok(Some(integrity));
    }
    // SQLite reads past the end of a torn last page as zeros.
    let size: i64 = snapshot.query_row(BYTES, [], |row| row.get(0))?;
    if !std::fs::metadata(path).is_ok_and(|file| i64::try_from(file.len()) == Ok(size)) {
        return Ok(Some(format!("it should have {size} bytes")));
    }
    if snapshot.prepare("PRAGMA foreign_key_check")?.exists([])? {
        return Ok(Some("a debit of no account".to_owned()));
    }
    let expected = Connection::open_in_memory()?;
    expected.execute_batch(schema)?;
    if objects(snapshot)? != objects(&expected)? {
        return Ok(Some("its tables are not those of a ledger".to_owned()));
    }
    Ok(None)
}

/// Names and definitions of all tables, indexes and triggers.
fn objects(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement =
        connection.prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")?;
    statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_goes_is_waited_for_and_one_that_stays_is_not() {
        let half = || Error::HalfWritten {
            ledger: String::new(),
        };
        let mut tries = 0;
        let read = patiently(|| {
            tries += 1;
            if tries < 4 { Err(half()) } else { Ok(tries) }
        });
        assert_eq!(read.unwrap(), 4);
        let mut tries = 0;
        let read: Result<(), Error> = patiently(|| {
            tries += 1;
            Err(half())
        });
        assert!(matches!(read, Err(Error::HalfWritten { .. })));
        assert_eq!(tries, READ_AGAIN + 1);
        // Whatever else is wrong is an error at once.
        let mut tries = 0;
        let read: Result<(), Error> = patiently(|| {
            tries += 1;
            Err(Error::Stopped)
        });
        assert!(matches!(read, Err(Error::Stopped)) && tries == 1);
    }
}
