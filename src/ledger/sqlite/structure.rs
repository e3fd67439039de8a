//! The check of the file at its opening: pages and schema.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use super::Error;
use super::file::with_suffix;

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
        Ok(Some(reason)) => Err(damaged(path, reason)),
        Err(error) => Err(read_failure(path, error)),
    }
}

/// Whether a failure to read means damage, or only that the file could not be read now.
pub(super) fn read_failure(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        // No code of SQLite: a value of the wrong type or length came back.
        None | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            damaged(path, error.to_string())
        }
        Some(_) => error.into(),
    }
}

fn damaged(path: &Path, reason: String) -> Error {
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
    // SQLite reads past the end of a torn last page as zeros. Pages that are still in the log may
    // be past the end of the file.
    let [pages, page] = snapshot.query_row(
        "SELECT page_count, page_size FROM pragma_page_count, pragma_page_size",
        [],
        |row| Ok([row.get::<_, i64>(0)?, row.get(1)?].map(i64::unsigned_abs)),
    )?;
    let size = pages * page;
    let is_right = |length: u64| match has_log(path) {
        true => length.is_multiple_of(page),
        false => length == size,
    };
    if !std::fs::metadata(path).is_ok_and(|file| is_right(file.len())) {
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

/// Whether anything is in the file's write-ahead log.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(with_suffix(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// Names and definitions of all tables, indexes and triggers.
fn objects(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement =
        connection.prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")?;
    statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}
