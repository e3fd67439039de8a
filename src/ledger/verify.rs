//! The check of the whole file at its opening: pages, schema, and every sum against the history it stands for.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use super::error::Error;
use super::{answers, sqlite};
use crate::mechanism::Loss;

/// Reads everything in one snapshot and writes nothing.
///
/// # Guarantee
///
/// On success the file is structurally whole, has exactly the expected schema, no debit is missing from its middle, and each account's sum is the exact sum
/// of its debits and receipts (the owner's: of all debits). A file that was set back to an older whole state cannot be told from that state.
///
/// # Errors
///
/// [`Error::Damaged`]; [`Error::Storage`] where SQLite could not read for other reasons than damage.
pub(super) fn verify(connection: &Connection, path: &Path, schema: &str) -> Result<(), Error> {
    let checked = || -> rusqlite::Result<Option<String>> {
        let snapshot = connection.unchecked_transaction()?;
        if let Some(reason) = structure(&snapshot, path, schema)? {
            return Ok(Some(reason));
        }
        sums(&snapshot)
    };
    match checked() {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(Error::Damaged { path: path.to_owned(), reason }),
        Err(error) => Err(read_failure(path, error)),
    }
}

/// Whether the file is structurally whole and has exactly this schema.
///
/// # Errors
///
/// As [`verify`].
pub(super) fn structure_of(connection: &Connection, path: &Path, schema: &str) -> Result<(), Error> {
    let checked = connection.unchecked_transaction().and_then(|snapshot| structure(&snapshot, path, schema));
    match checked {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(Error::Damaged { path: path.to_owned(), reason }),
        Err(error) => Err(read_failure(path, error)),
    }
}

/// Whether a failure to read means damage, or only that the file could not be read now.
pub(super) fn read_failure(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        // No code of SQLite: a value of the wrong type or length came back.
        None | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Damaged { path: path.to_owned(), reason: error.to_string() },
        Some(_) => error.into(),
    }
}

fn structure(snapshot: &Connection, path: &Path, schema: &str) -> rusqlite::Result<Option<String>> {
    let integrity: String = snapshot.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if integrity != "ok" {
        return Ok(Some(integrity));
    }
    // SQLite reads past the end of a torn last page as zeros.
    let size: i64 = snapshot.query_row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", [], |row| row.get(0))?;
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
    let mut statement = connection.prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn sums(snapshot: &Connection) -> rusqlite::Result<Option<String>> {
    let (count, last): (i64, i64) =
        snapshot.query_row("SELECT count(*), coalesce(max(id), 0) FROM debit", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if count != last {
        return Ok(Some(format!("{count} debits are there of {last}")));
    }
    let mut total = Some(Loss::ZERO);
    let mut by_role = BTreeMap::<i64, Option<Loss>>::new();
    let mut statement = snapshot.prepare("SELECT epsilon, rho, mu_squared, delta, role FROM debit")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let loss = sqlite::loss_at(row)?;
        total = total.and_then(|sum| sum.compose(loss));
        let sum = by_role.entry(row.get(4)?).or_insert(Some(Loss::ZERO));
        *sum = sum.and_then(|sum| sum.compose(loss));
    }
    let (count, last): (i64, i64) =
        snapshot.query_row("SELECT count(*), coalesce(max(id), 0) FROM receipt", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if count != last {
        return Ok(Some(format!("{count} receipts are there of {last}")));
    }
    // The owner had paid for what these bought.
    for (role, loss) in answers::receipts(snapshot)? {
        let sum = by_role.entry(role).or_insert(Some(Loss::ZERO));
        *sum = sum.and_then(|sum| sum.compose(loss));
    }
    let mut statement = snapshot.prepare("SELECT spent_epsilon, spent_rho, spent_mu_squared, spent_delta, id, kind, name FROM account")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, kind, name): (i64, String, String) = (row.get(4)?, row.get(5)?, row.get(6)?);
        let expected = if kind == "owner" { total } else { by_role.remove(&id).unwrap_or(Some(Loss::ZERO)) };
        if expected != Some(sqlite::loss_at(row)?) {
            return Ok(Some(format!("the sum of {kind} {name:?} is not the sum of its debits")));
        }
    }
    // What is left was debited to an account that is no role.
    Ok((!by_role.is_empty()).then(|| "a debit of no role".to_owned()))
}
