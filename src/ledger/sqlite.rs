//! The ledger in SQLite, for one machine.
//!
//! One file with a write-ahead log, `synchronous = EXTRA`: when COMMIT of a debit returns, the log
//! has been synced, once. Debits move from the log into the file itself after a second's rest, when
//! the log has grown by some megabytes, and at the end: see `log`. Whoever copies the file without
//! its log meanwhile has an older copy, as of any earlier moment: see `height` and `witness`. Where
//! the file system may not be this machine's, the file has a rollback journal instead: see
//! `file_system`.

mod backup;
mod file;
mod file_system;
mod log;
mod schema;
mod structure;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, ToSql};

use super::error::Error;
use super::store::{Absent, Access, Row, Store, Value};
use super::verify;
pub(in crate::ledger) use backup::{back_up, put_back};
pub(in crate::ledger) use file::path;
use log::{keep_log, set_journal};

/// How long a statement waits for other processes' locks.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// An open file.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: Connection,
    /// Without links.
    path: PathBuf,
    /// The file, its log and the log's index, as they were opened.
    places: file::Places,
    /// Whether it has a log: else a rollback journal, which is always synced.
    logs: bool,
    /// Whether COMMIT syncs the log.
    syncs: bool,
    /// Whether the open transaction writes.
    writes: bool,
    /// Whether a sync of the log may have failed since the log was last moved into the file: see
    /// `log`.
    is_doubtful: bool,
    /// How long the log is, in bytes, when it is moved into the file next.
    moves_at: u64,
    /// Whether it was closed, since its log has no name any more.
    is_closed: bool,
}

impl Sqlite {
    /// Opens the file of `sqlite:///path` (or a bare path), verified whole.
    ///
    /// # Errors
    ///
    /// [`Error`]; a file that is refused is not written to.
    pub(super) fn open(url: &str, absent: Absent) -> Result<Self, Error> {
        let named = file::path(url)?;
        match absent {
            Absent::Make => file::create_if_missing(&named, build)?,
            Absent::Refuse if named.exists() => {}
            Absent::Refuse => {
                return Err(Error::Missing {
                    place: named.display().to_string(),
                });
            }
        }
        let mut store = Self::verified(named)?;
        let format = store.format()?;
        // Only now: a file that is refused is left as it is.
        store.logs = set_journal(&store.connection, file_system::holds_log(&store.path))?;
        keep_log(&store.connection, false)?;
        if store.logs {
            // The log is made by the first to read the file: it stays until the last one leaves.
            store.format()?;
            let log = ["-wal", "-shm"].map(|suffix| file::with_suffix(&store.path, suffix));
            store.places.add(log)?;
            if !store.places.are_on_one_disk() {
                return Err(Error::Foreign {
                    ledger: format!("{:?}", store.path),
                    reason: "its log is on another file system".to_owned(),
                });
            }
        }
        if format < schema::FORMAT {
            store.raise()?;
            store.whole(schema::FORMAT)?;
        }
        Ok(store)
    }

    /// Opens a file that must be there, and verifies it whole. It is not written to, and its journal
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error`].
    fn verified(named: PathBuf) -> Result<Self, Error> {
        // SQLite follows links too, and puts the log next to the file that they lead to.
        let path = named.canonicalize()?;
        file::check_header(&path)?;
        // Before it is opened: a file that gets the name meanwhile is not taken for this one.
        let places = file::Places::of([named, path.clone()])?;
        let connection = connect(&path).map_err(|error| structure::read_failure(&path, error))?;
        if file::says_log(&path)? && !file_system::holds_log(&path) {
            // It lay on another disk when it got its log. Nobody else may have it open.
            connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
        }
        let mut store = Self {
            connection,
            path,
            places,
            logs: false,
            syncs: true,
            writes: false,
            is_doubtful: true,
            moves_at: log::STEP,
            is_closed: false,
        };
        let format = store.format()?;
        if format > schema::FORMAT {
            return Err(Error::Newer {
                ledger: format!("ledger {:?}", store.path),
                found: i64::from(format),
                known: i64::from(schema::FORMAT),
            });
        }
        store.whole(format)?;
        Ok(store)
    }

    fn format(&self) -> Result<u32, Error> {
        self.connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|error| structure::read_failure(&self.path, error))
    }

    fn whole(&mut self, format: u32) -> Result<(), Error> {
        // Another process may have raised it since.
        let found = self.format()?;
        let format = format.max(found);
        structure::structure(&self.connection, &self.path, &schema::of_format(format))?;
        let ledger = format!("ledger {:?}", self.path);
        verify::sums(self, &ledger, i64::from(format))
    }

    /// Brings a whole ledger of an older format to this one: tables are added, nothing else is
    /// touched.
    fn raise(&mut self) -> Result<(), Error> {
        self.begin(Access::Write)?;
        // Another process may have done it since.
        let raised = self.format().and_then(|found| {
            if found >= schema::FORMAT {
                return Ok(());
            }
            self.connection
                .execute_batch(&schema::since_format(found))?;
            Ok(self
                .connection
                .pragma_update(None, "user_version", schema::FORMAT)?)
        });
        self.end(raised)
    }
}

impl Store for Sqlite {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        if self.is_closed {
            return self.is_in_place().and(Err(Error::WentBack {
                lacks: "its log was removed under this process".to_owned(),
            }));
        }
        self.writes = access != Access::Read;
        if self.writes {
            self.settle()?;
        }
        // What is remembered of the file is forgotten: that it was overwritten in place shows only
        // there.
        self.connection.release_memory()?;
        let sql = match access {
            Access::Read => "BEGIN DEFERRED",
            Access::WriteSoon | Access::Write => {
                self.sync(access)?;
                "BEGIN IMMEDIATE"
            }
        };
        self.connection.prepare_cached(sql)?.execute([])?;
        // Asked under the lock, which may have been waited for.
        if self.writes
            && let Err(error) = self.is_in_place().and_then(|()| self.keeps_journal())
        {
            self.connection.execute_batch("ROLLBACK")?;
            self.leave();
            return Err(error);
        }
        Ok(())
    }

    fn query(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, Error> {
        let read = || -> rusqlite::Result<Vec<Row>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let columns = statement.column_count();
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            let mut read = Vec::new();
            while let Some(row) = rows.next()? {
                read.push(Row((0..columns)
                    .map(|at| row.get_ref(at).map(value))
                    .collect::<Result<_, _>>()?));
            }
            Ok(read)
        };
        read().map_err(|error| structure::read_failure(&self.path, error))
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        let is_asked = outcome.is_ok();
        let committed = outcome.and_then(|()| {
            Ok(self
                .connection
                .prepare_cached("COMMIT")?
                .execute([])
                .map(drop)?)
        });
        let is_unsure = self.writes && is_asked && committed.is_err();
        self.is_doubtful |= is_unsure;
        if committed.is_err() && !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        if !self.writes {
            return committed;
        }
        if is_unsure && self.logs {
            // At once, while the kernel still has what it did not write; else before the next
            // transaction.
            let _ = self.move_log(Duration::ZERO);
        }
        // Again: the file may have gone while this was written.
        let stands = committed.and_then(|()| self.is_in_place());
        self.leave();
        self.move_grown_log();
        stands
    }

    /// What is written to a file without a name is lost, and what is written to a log without a
    /// name is lost with this process.
    fn is_in_place(&self) -> Result<(), Error> {
        match self.places.moved() {
            None => Ok(()),
            Some(moved) => Err(Error::WentBack {
                lacks: format!("{moved:?} was removed, or is another file now"),
            }),
        }
    }

    fn rest(&mut self) -> Result<bool, Error> {
        self.leave();
        if !self.logs || self.is_closed {
            return Ok(true);
        }
        self.move_log(Duration::ZERO)
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Blob(value) => ValueRef::Blob(value),
        }))
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Real(value),
        // What is no UTF-8 was not written by us, and no column takes it for what it wants.
        ValueRef::Text(bytes) => {
            std::str::from_utf8(bytes).map_or(Value::Null, |text| Value::Text(text.to_owned()))
        }
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// Makes an empty ledger under a name nobody else uses yet.
fn build(path: &Path) -> Result<(), Error> {
    let connection = connect(path)?;
    // Synced once, when whole, before it gets its name.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "application_id", file::APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", schema::FORMAT)?;
    connection.execute_batch(&format!(
        "BEGIN;{}COMMIT;",
        schema::of_format(schema::FORMAT)
    ))?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// With the file's journal as it is: a backup, and a file that is refused, stay as they were.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(64);
    keep_log(&connection, true)?;
    // A batch marks where each job begins: what it may have to undo is kept in memory, not in a
    // file under /var/tmp or /tmp, which a proxy may not be allowed to write.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    // SQLite drops the errors of those that it makes by itself: see `log`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn fresh(name: &str) -> PathBuf {
        let name = format!("pgveil-{name}-{:x}.db", rand::random::<u64>());
        let path = Path::new("/tmp").join(name);
        std::fs::File::create(&path).unwrap();
        build(&path).unwrap();
        path
    }

    pub(super) fn setting(connection: &Connection, sql: &str) -> String {
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Each by its own name, since some are SQLite's defaults here and none is elsewhere.
    #[test]
    fn a_connection_is_set_as_the_ledger_needs_it() {
        let path = fresh("connect");
        let connection = connect(&path).unwrap();
        set_journal(&connection, true).unwrap();
        let settings = [
            ("synchronous", "3"),
            ("journal_mode", "wal"),
            ("temp_store", "2"),
            ("wal_autocheckpoint", "0"),
            ("foreign_keys", "1"),
            ("fullfsync", "1"),
            ("trusted_schema", "0"),
            ("cell_size_check", "1"),
        ];
        for (name, wanted) in settings.into_iter().chain([
            ("busy_timeout", "30000"),
            ("user_version", "8"),
            ("application_id", "1885828716"),
        ]) {
            let sql = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
            let sql = if name == "busy_timeout" {
                "SELECT CAST(timeout AS TEXT) FROM pragma_busy_timeout".to_owned()
            } else {
                sql
            };
            assert_eq!(setting(&connection, &sql), wanted, "{name}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
