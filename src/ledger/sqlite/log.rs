//! The write-ahead log of the file: when it is synced, and when it moves into the file.
//!
//! # Guarantee
//!
//! A debit that was acknowledged survives a loss of power. Three facts make it so.
//!
//! 1. Its COMMIT synced the log, and with it all that was written to the log before: also what a
//!    commit of [`Access::WriteSoon`] left unsynced.
//! 2. Below it the log has no hole. A start reads the log up to the first frame that is not whole.
//!    A sync that failed may have lost frames, of whichever commit, and the kernel reports that
//!    once: the next sync succeeds, above a hole. So after a COMMIT that failed, a move that
//!    failed, and at the start, when another process may have seen the failure, nothing is written
//!    before the whole log has moved into the file, which is synced, and the log is empty. A sync
//!    that failed in another process fails here too: the kernel reports it to each that has the log
//!    open. SQLite's own checkpoints are off, since they drop errors.
//! 3. The log is found again: see [`Sqlite::is_in_place`] and `file_system`.
//!
//! # Reference
//!
//! <https://www.sqlite.org/wal.html>; <https://wiki.postgresql.org/wiki/Fsync_Errors>.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::super::error::Error;
use super::super::store::{Access, Store};
use super::{BUSY_TIMEOUT, Sqlite, file};

/// Bytes by which the log grows between two moves. What is read of the file while the log is long
/// is looked up in the log first.
pub(super) const STEP: u64 = 4 << 20;
/// How long another process that moves the log is left alone.
const RETRY: Duration = Duration::from_millis(5);
/// A log of that length stays long since another process reads without a pause.
const LONG: u64 = 4 * STEP;

impl Sqlite {
    /// Whether the next transaction's COMMIT syncs the log, and with it all that was written
    /// before.
    pub(super) fn sync(&mut self, access: Access) -> Result<(), Error> {
        let syncs = access == Access::Write;
        if self.logs && self.syncs != syncs {
            let level = if syncs { "EXTRA" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.syncs = syncs;
        }
        Ok(())
    }

    /// Where the file had a rollback journal when it was opened: nobody switched it since.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`].
    pub(super) fn keeps_journal(&self) -> Result<(), Error> {
        let mode = "SELECT journal_mode = 'wal' FROM pragma_journal_mode";
        match self.logs || !self.connection.query_row(mode, [], |row| row.get(0))? {
            true => Ok(()),
            false => Err(failed(
                "another process switched the ledger to a write-ahead log, which is not safe here",
            )),
        }
    }

    /// Moves what is in the log into the file, which is synced, and empties the log. Whether all of
    /// that was done. Others that read are waited for so long.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`]; nothing is written then before [`Sqlite::settle`].
    pub(super) fn move_log(&mut self, patience: Duration) -> Result<bool, Error> {
        self.connection.busy_timeout(patience)?;
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let moved = self
            .connection
            .query_row(sql, [], |row| row.get::<_, bool>(0));
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        match moved {
            Ok(is_busy) => {
                self.is_doubtful &= is_busy;
                Ok(!is_busy)
            }
            Err(error) => {
                self.is_doubtful = true;
                Err(error.into())
            }
        }
    }

    /// Before anything is written: the log is one whose every sync succeeded.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`]; the transaction must then not be begun.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + BUSY_TIMEOUT;
        while self.logs && self.is_doubtful && !self.move_log(BUSY_TIMEOUT)? {
            // SQLite does not wait for another process that moves the log just now.
            if Instant::now() >= deadline {
                return Err(failed(
                    "the ledger's log cannot be moved into its file: another process reads without \
                     a pause",
                ));
            }
            std::thread::sleep(RETRY);
        }
        Ok(())
    }

    /// Moves a log that has grown, after a transaction. Nobody is waited for: it grows until then.
    pub(super) fn move_grown_log(&mut self) {
        let length = |store: &Self| {
            let log = file::with_suffix(&store.path, "-wal");
            std::fs::metadata(log).map_or(0, |log| log.len())
        };
        if !self.logs || self.is_closed || length(self) < self.moves_at {
            return;
        }
        match self.move_log(Duration::ZERO) {
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the ledger's log was not moved into its file"),
        }
        let left = length(self);
        if left >= LONG {
            tracing::warn!(
                bytes = left,
                "another process keeps the ledger's log from its file"
            );
        }
        self.moves_at = left + STEP;
    }

    /// Where the log has no name any more, but the file has: closes the connection. SQLite then
    /// moves what is in the log into the file, if nobody else has it open.
    pub(super) fn leave(&mut self) {
        if !self.logs || self.is_closed || self.is_in_place().is_ok() {
            return;
        }
        if let Ok(nothing) = Connection::open_in_memory() {
            drop(std::mem::replace(&mut self.connection, nothing));
            self.is_closed = true;
            tracing::error!("the ledger's log was removed under this process: it is closed");
        }
    }
}

fn failed(reason: &'static str) -> Error {
    Error::storage(std::io::Error::other(reason))
}

/// Switches a ledger to a log where its file system holds one, also one of an older pgveil, which
/// had a rollback journal; else to a rollback journal. Says whether it has a log.
pub(super) fn set_journal(connection: &Connection, holds_log: bool) -> rusqlite::Result<bool> {
    let set = |mode: &str| {
        connection
            .pragma_update_and_check(None, "journal_mode", mode, |row| row.get::<_, String>(0))
    };
    let logs = holds_log && set("WAL")? == "wal";
    if !logs {
        // Emptied and synced, not removed, at each commit.
        set("TRUNCATE")?;
        connection.pragma_update_and_check(None, "locking_mode", "NORMAL", |_| Ok(()))?;
    }
    Ok(logs)
}

/// Whether the log stays when the connection is closed, or goes into the file.
pub(super) fn keep_log(connection: &Connection, keeps: bool) -> rusqlite::Result<()> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keeps)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::connect;
    use super::super::tests::{fresh, setting};
    use super::*;

    /// Also one that had a log, on the disk where it lay before.
    #[test]
    fn a_network_file_system_keeps_the_rollback_journal() {
        let path = fresh("journal");
        let connection = connect(&path).unwrap();
        let mode = "SELECT journal_mode FROM pragma_journal_mode";
        for (holds_log, wanted) in [(false, "truncate"), (true, "wal"), (false, "truncate")] {
            assert_eq!(set_journal(&connection, holds_log).unwrap(), holds_log);
            assert_eq!(setting(&connection, mode), wanted);
            connection
                .execute_batch("INSERT INTO claim VALUES (randomblob(32), zeroblob(16), 1)")
                .unwrap();
        }
        drop(connection);
        for suffix in ["", "-journal"] {
            std::fs::remove_file(file::with_suffix(&path, suffix)).unwrap();
        }
    }

    /// SQLite's own names for temporary files begin with `etilqs_`.
    #[test]
    fn what_a_batch_may_undo_is_kept_in_memory() {
        let path = fresh("batch");
        let connection = connect(&path).unwrap();
        for logs in [true, false] {
            set_journal(&connection, logs).unwrap();
            let rows = "INSERT INTO claim SELECT randomblob(32), zeroblob(16), 0
                        FROM sqlite_schema AS a, sqlite_schema AS b, sqlite_schema AS c";
            connection.execute_batch(rows).unwrap();
            // More pages than SQLite keeps in memory by itself, changed twice.
            let changes =
                "BEGIN; UPDATE claim SET until = 1; SAVEPOINT job; UPDATE claim SET until = 2";
            connection.execute_batch(changes).unwrap();
            let temporary: Vec<PathBuf> = std::fs::read_dir("/proc/self/fd")
                .unwrap()
                .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
                .filter(|file| file.to_string_lossy().contains("etilqs_"))
                .collect();
            assert!(temporary.is_empty(), "{temporary:?}");
            connection
                .execute_batch("ROLLBACK TO SAVEPOINT job; COMMIT")
                .unwrap();
            let changed = "SELECT CAST(count(*) AS TEXT) FROM claim WHERE until <> 1";
            assert_eq!(setting(&connection, changed), "0");
        }
        drop(connection);
        for suffix in ["", "-journal"] {
            std::fs::remove_file(file::with_suffix(&path, suffix)).unwrap();
        }
    }
}
