//! The ledger in SQLite, for one machine.
//!
//! One file with a rollback journal, `synchronous = EXTRA`: when COMMIT returns, the file itself
//! holds every debit and has been synced, with the journal's end and its directory. (Write-ahead
//! logging would save two syncs, and lose budget to whoever copies the file without its log.)

mod backup;
mod file;
mod schema;
mod structure;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, ToSql};

use super::error::Error;
use super::store::{
    Absent, Access, Contents, OnOlderFormat, ReadOnly, Row, Store, StoreValue, first_row,
};
use super::{upgrade, verify};
pub(in crate::ledger) use backup::{back_up, put_back};
pub(in crate::ledger) use file::path;
use structure::patiently;

/// The newest format.
pub(super) const FORMAT: u32 = schema::FORMAT;

/// How long a statement waits for other processes' locks.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long after another process has written it may be about to write again.
const ALONE_AFTER: Duration = Duration::from_secs(60);

/// An open file.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
    others: OtherWriters,
    /// How many transactions were begun that may write.
    writes: u64,
    /// SQLite's number of the file's contents, in a transaction that was begun at once.
    contents: Option<i64>,
}

/// When another process last wrote to the file.
#[derive(Debug, Default)]
struct OtherWriters {
    /// SQLite's number of the file's contents: it changes when another connection has written.
    seen: Option<i64>,
    last: Option<Instant>,
}

impl Sqlite {
    /// Opens the file of `sqlite:///path` (or a bare path), verified whole.
    ///
    /// # Errors
    ///
    /// [`Error`]; a file that is refused is not written to.
    pub(super) fn open(url: &str, absent: Absent, older: OnOlderFormat<'_>) -> Result<Self, Error> {
        let path = file::path(url)?;
        match absent {
            Absent::Make => file::create_if_missing(&path, build)?,
            Absent::Refuse => is_there(&path)?,
        }
        let mut store = Self::connect_with(path, connect)?;
        let format = store.whole()?;
        if upgrade::is_due(older, (&store.name(), format.into(), schema::FORMAT.into()))? {
            upgrade::raise(&mut store, older, format.into())?;
            store.whole()?;
        }
        Ok(store)
    }

    /// Opens a file to read it, verified whole as what it is. Returns its format too.
    ///
    /// # Errors
    ///
    /// [`Error`]; [`Error::Missing`]; [`Error::HalfWritten`].
    pub(super) fn look(url: &str) -> Result<(ReadOnly<Self>, i64), Error> {
        let path = file::path(url)?;
        is_there(&path)?;
        let mut store = patiently(|| Self::connect_with(path.clone(), connect_to_read))?;
        let format = patiently(|| store.whole())?;
        Ok((ReadOnly(store), i64::from(format)))
    }

    fn connect_with(
        path: PathBuf,
        connect: impl FnOnce(&Path) -> rusqlite::Result<Connection>,
    ) -> Result<Self, Error> {
        file::check_header(&path)?;
        let connection = connect(&path).map_err(|error| structure::read_failure(&path, error))?;
        let file = file::place(&path)?;
        Ok(Self {
            connection,
            path,
            file,
            others: OtherWriters::default(),
            writes: 0,
            contents: None,
        })
    }

    fn name(&self) -> String {
        format!("ledger {:?}", self.path)
    }

    /// SQLite's number of the file's contents: it changes when another connection has written.
    fn data_version(&self) -> rusqlite::Result<i64> {
        let mut number = self.connection.prepare_cached("PRAGMA data_version")?;
        number.query_row([], |row| row.get(0))
    }

    /// Notes whether another process has written since the last transaction.
    fn note_others(&mut self) -> Result<(), Error> {
        let now = self.data_version()?;
        if self
            .others
            .seen
            .replace(now)
            .is_some_and(|seen| seen != now)
        {
            self.others.last = Some(Instant::now());
        }
        Ok(())
    }

    fn format(&self) -> Result<u32, Error> {
        self.connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|error| structure::read_failure(&self.path, error))
    }

    /// Checks everything, and returns the format.
    fn whole(&mut self) -> Result<u32, Error> {
        let format = self.format()?;
        let structure =
            structure::structure(&self.connection, &self.path, &schema::of_format(format));
        // Another process may have raised it meanwhile.
        if structure.is_err() && self.format()? != format {
            return self.whole();
        }
        structure?;
        let ledger = self.name();
        verify::sums(self, &ledger, i64::from(format))?;
        Ok(format)
    }
}

impl upgrade::Raise for Sqlite {
    fn format_now(&mut self) -> Result<i64, Error> {
        self.format().map(i64::from)
    }

    fn raise(&mut self, older: OnOlderFormat<'_>) -> Result<(), Error> {
        let ledger = self.name();
        self.begin(Access::Write)?;
        // Another process may have done it since.
        let raised = self.format().and_then(|found| {
            if found >= schema::FORMAT {
                return Ok(());
            }
            let formats = (ledger.as_str(), found.into(), schema::FORMAT.into());
            upgrade::may_raise(self, older, formats)?;
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
        let sql = match access {
            Access::Read => "BEGIN DEFERRED",
            Access::WriteSoon | Access::Write => "BEGIN IMMEDIATE",
        };
        self.connection.prepare_cached(sql)?.execute([])?;
        self.contents = None;
        if access == Access::Read {
            return Ok(());
        }
        self.writes += 1;
        // Under the lock, since that may have happened while we waited for it.
        let may = self.check_place().and_then(|()| self.note_others());
        if may.is_err() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        may
    }

    /// What reads the file's number takes the lock that readers share, and keeps it to the end.
    fn begin_at_once(&mut self) -> bool {
        let begun = || -> rusqlite::Result<i64> {
            self.connection.busy_timeout(Duration::ZERO)?;
            self.connection
                .prepare_cached("BEGIN DEFERRED")?
                .execute([])?;
            self.data_version()
        };
        self.contents = begun().ok();
        let is_patient = self.connection.busy_timeout(BUSY_TIMEOUT).is_ok();
        if self.contents.is_some() && is_patient {
            return true;
        }
        self.contents = None;
        if !self.connection.is_autocommit() {
            // It has no lock to give back, and read nothing.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        false
    }

    fn contents(&self) -> Option<Contents> {
        self.contents.map(|of_others| Contents {
            of_others,
            own: self.writes,
        })
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
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
        patiently(|| read().map_err(|error| structure::read_failure(&self.path, error)))
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        self.contents = None;
        let committed = outcome.and_then(|()| {
            Ok(self
                .connection
                .prepare_cached("COMMIT")?
                .execute([])
                .map(drop)?)
        });
        if committed.is_err() && !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        committed
    }

    /// A rollback journal has no commit that a loss of power may undo and leave the file whole.
    /// SQLite's lock is no queue: a process that holds it most of the time keeps others from it.
    fn may_stay_open(&self) -> bool {
        let last = self.others.last;
        last.is_none_or(|last| last.elapsed() > ALONE_AFTER)
    }

    /// If the file was replaced or removed, writes to it are lost.
    fn check_place(&mut self) -> Result<(), Error> {
        let is_named = file::place(&self.path).is_ok_and(|place| place == self.file);
        match is_named {
            true => Ok(()),
            false => Err(Error::WentBack {
                lacks: format!("{:?} is another file now", self.path),
            }),
        }
    }

    fn bytes(&mut self) -> Result<Option<i64>, Error> {
        let rows = self.query(structure::BYTES, &[])?;
        first_row(&rows)?.int(0).map(Some)
    }
}

impl ToSql for StoreValue {
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

fn value(value: ValueRef<'_>) -> StoreValue {
    match value {
        ValueRef::Null => StoreValue::Null,
        ValueRef::Integer(value) => StoreValue::Int(value),
        ValueRef::Real(value) => StoreValue::Real(value),
        // Text that is not UTF-8 was not written by us. No column accepts it.
        ValueRef::Text(bytes) => std::str::from_utf8(bytes)
            .map_or(StoreValue::Null, |text| StoreValue::Text(text.to_owned())),
        ValueRef::Blob(bytes) => StoreValue::Blob(bytes.to_vec()),
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
    // The draft's own journal goes with the draft.
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// # Errors
///
/// [`Error::Missing`].
fn is_there(path: &Path) -> Result<(), Error> {
    match path.exists() {
        true => Ok(()),
        false => Err(Error::Missing {
            place: path.display().to_string(),
        }),
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect_as(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // The journal is emptied and synced, not removed, at each commit.
    connection.pragma_update_and_check(None, "journal_mode", "TRUNCATE", |_| Ok(()))?;
    // A batch marks where each job begins: what it may have to undo is kept in memory, not in a
    // file under /var/tmp or /tmp, which a proxy may not be allowed to write.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// A read-only connection. It does not even undo what another process left half done.
fn connect_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect_as(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

fn connect_as(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(64);
    // A plan does not follow the values that are bound: SQLite would prepare some statements anew
    // for each.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each by its own name, since some are SQLite's defaults here and none is elsewhere.
    #[test]
    fn a_connection_is_set_as_the_ledger_needs_it() {
        let path = Path::new("/tmp").join(format!("pgveil-connect-{:x}.db", rand::random::<u64>()));
        std::fs::File::create(&path).unwrap();
        build(&path).unwrap();
        let connection = connect(&path).unwrap();
        let settings = [
            ("synchronous", "3"),
            ("journal_mode", "truncate"),
            ("temp_store", "2"),
            ("foreign_keys", "1"),
            ("fullfsync", "1"),
            ("trusted_schema", "0"),
            ("cell_size_check", "1"),
        ];
        for (name, wanted) in settings.into_iter().chain([
            ("busy_timeout", "30000"),
            ("user_version", "10"),
            ("application_id", "1885828716"),
        ]) {
            let sql = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
            let sql = if name == "busy_timeout" {
                "SELECT CAST(timeout AS TEXT) FROM pragma_busy_timeout".to_owned()
            } else {
                sql
            };
            assert_eq!(
                connection
                    .query_row(&sql, [], |row| row.get::<_, String>(0))
                    .unwrap(),
                wanted,
                "{name}"
            );
        }
        let stable = connection.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG);
        assert_eq!(stable, Ok(true));
        std::fs::remove_file(&path).unwrap();
    }
}
