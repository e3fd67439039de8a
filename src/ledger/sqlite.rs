//! The ledger in SQLite: every statement of SQL stands here or in `verify.rs`.
//!
//! One file with a rollback journal, `synchronous = EXTRA`: when COMMIT returns, the file itself holds every debit and has been synced, with the journal's
//! end and its directory. (Write-ahead logging would save two syncs, and lose budget to whoever copies the file without its log.)
//! Losses are stored as 16-byte big-endian integers in units of 2^-60, which SQLite compares in their order; an infinite epsilon is NULL.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};

use super::balance::{Balance, Balances};
use super::charge::Fingerprint;
use super::error::{DebitError, Error};
use super::{AccountSpec, Entry, answers, file, verify};
use crate::mechanism::{Accounting, Cap, Fixed, Loss};

/// How long a statement waits for other processes' locks.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Debits are only ever added, and no sum ever falls: the database itself refuses otherwise.
const SCHEMA: &str = "
CREATE TABLE account (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('owner', 'role')),
  name TEXT NOT NULL,
  accounting TEXT NOT NULL CHECK (accounting IN ('gdp', 'zcdp', 'pure')),
  threshold_share REAL NOT NULL,
  epsilon REAL NOT NULL,
  delta REAL NOT NULL,
  spent_epsilon BLOB CHECK (length(spent_epsilon) = 16),
  spent_rho BLOB NOT NULL CHECK (length(spent_rho) = 16),
  spent_mu_squared BLOB NOT NULL CHECK (length(spent_mu_squared) = 16),
  spent_delta BLOB NOT NULL CHECK (length(spent_delta) = 16),
  failures INTEGER NOT NULL CHECK (failures >= 0),
  UNIQUE (kind, name)
) STRICT;
CREATE UNIQUE INDEX account_owner ON account (kind) WHERE kind = 'owner';
CREATE TABLE debit (
  id INTEGER PRIMARY KEY,
  role INTEGER NOT NULL REFERENCES account (id),
  microseconds INTEGER NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32)
) STRICT;
CREATE INDEX debit_role ON debit (role, id);
CREATE TRIGGER debit_update BEFORE UPDATE ON debit BEGIN SELECT RAISE(ABORT, 'a debit is never changed'); END;
CREATE TRIGGER debit_delete BEFORE DELETE ON debit BEGIN SELECT RAISE(ABORT, 'a debit is never removed'); END;
CREATE TRIGGER account_delete BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'an account is never removed'); END;
CREATE TRIGGER account_fixed BEFORE UPDATE OF id, kind, name, accounting, threshold_share ON account
  BEGIN SELECT RAISE(ABORT, 'the terms of an account are fixed'); END;
CREATE TRIGGER account_spent BEFORE UPDATE OF spent_epsilon, spent_rho, spent_mu_squared, spent_delta, failures ON account
  WHEN (OLD.spent_epsilon IS NULL AND NEW.spent_epsilon IS NOT NULL) OR NEW.spent_epsilon < OLD.spent_epsilon OR NEW.spent_rho < OLD.spent_rho
    OR NEW.spent_mu_squared < OLD.spent_mu_squared OR NEW.spent_delta < OLD.spent_delta OR NEW.failures < OLD.failures
  BEGIN SELECT RAISE(ABORT, 'what is spent never shrinks'); END;
";

/// Whether a job may write. Writers are serialised across processes from their first read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// An account of the policy in force: its row, and what it may spend.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) id: i64,
    pub(super) cap: Cap,
}

/// The open file and the accounts of the policy in force.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) connection: Connection,
    owner: Account,
    roles: HashMap<String, Account>,
}

impl Store {
    /// Opens the file, made if missing, verified whole, and the accounts in it.
    ///
    /// # Errors
    ///
    /// [`Error`]; a file that is refused is not written to.
    pub(super) fn open(path: &Path, owner: &AccountSpec, roles: &[AccountSpec]) -> Result<Self, Error> {
        file::create_if_missing(path, build)?;
        file::check_header(path)?;
        let connection = connect(path).map_err(|error| verify::read_failure(path, error))?;
        raise(&connection, path)?;
        verify::verify(&connection, path, &format!("{SCHEMA}{}", answers::SCHEMA))?;
        begin(&connection, Access::Write)?;
        let accounts = open_accounts(&connection, owner, roles);
        let ended = end(&connection, accounts.as_ref().map(|_| ()).map_err(Clone::clone));
        let (owner, roles) = accounts?;
        ended?;
        Ok(Self { connection, owner, roles })
    }

    /// # Errors
    ///
    /// [`Error::Storage`], also when other processes held the lock for too long.
    pub(super) fn begin(&self, access: Access) -> Result<(), Error> {
        begin(&self.connection, access)
    }

    /// Commits if all went well; returns after the sync. Else undoes the transaction and returns why.
    ///
    /// # Errors
    ///
    /// `outcome`'s, or the commit's.
    pub(super) fn end(&self, outcome: Result<(), Error>) -> Result<(), Error> {
        end(&self.connection, outcome)
    }

    /// Debits both accounts, or neither.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open, so that no other process debits between the reading of the sums and the commit.
    pub(super) fn debit(&self, role: &str, loss: &Loss, fingerprint: &Fingerprint) -> Result<Result<(), DebitError>, Error> {
        let account = self.role(role)?;
        let (role_spent, owner_spent) = (self.spent(account)?, self.spent(&self.owner)?);
        // A sum past 128 bits in any currency is refused like one past the cap, even where another currency admits it.
        let admitted = |account: &Account, spent: &Loss| spent.compose(*loss).filter(|_| account.cap.admits(spent, loss));
        let Some(role_total) = admitted(account, &role_spent) else {
            let balance = Box::new(Balance { cap: account.cap, spent: role_spent });
            return Ok(Err(DebitError::Exhausted { role: role.to_owned(), needs: *loss, balance }));
        };
        let Some(owner_total) = admitted(&self.owner, &owner_spent) else {
            return Ok(Err(DebitError::TotalExhausted { role: role.to_owned() }));
        };
        self.set_spent(account, &role_total)?;
        self.set_spent(&self.owner, &owner_total)?;
        let sql = "INSERT INTO debit (role, microseconds, epsilon, rho, mu_squared, delta, fingerprint) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let [epsilon, rho, mu_squared, delta] = blobs(loss);
        self.connection.prepare_cached(sql)?.execute(params![
            account.id,
            microseconds(SystemTime::now()),
            epsilon,
            rho,
            mu_squared,
            delta,
            fingerprint.as_bytes()
        ])?;
        Ok(Ok(()))
    }

    /// Counts one failure of the role and returns how many there are.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn record_failure(&self, role: &str) -> Result<u32, Error> {
        let sql = "UPDATE account SET failures = min(failures + 1, 4294967295) WHERE id = ?1 RETURNING failures";
        Ok(self.connection.prepare_cached(sql)?.query_row([self.role(role)?.id], |row| row.get(0))?)
    }

    pub(super) fn failures(&self, role: &str) -> Result<u32, Error> {
        let sql = "SELECT failures FROM account WHERE id = ?1";
        Ok(self.connection.prepare_cached(sql)?.query_row([self.role(role)?.id], |row| row.get(0))?)
    }

    pub(super) fn balances(&self, role: &str) -> Result<Balances, Error> {
        Ok(Balances { role: self.balance(self.role(role)?)?, owner: self.balance_owner()? })
    }

    pub(super) fn balance_owner(&self) -> Result<Balance, Error> {
        self.balance(&self.owner)
    }

    /// The newest debits of a role, newest first.
    pub(super) fn history(&self, role: &str, rows_max: u32) -> Result<Vec<Entry>, Error> {
        let sql = "SELECT epsilon, rho, mu_squared, delta, microseconds, fingerprint, id FROM debit WHERE role = ?1
                   UNION ALL SELECT epsilon, rho, mu_squared, delta, microseconds, fingerprint, id FROM receipt WHERE role = ?1
                   ORDER BY microseconds DESC, id DESC LIMIT ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![self.role(role)?.id, rows_max], |row| {
            Ok(Entry { loss: loss_at(row)?, microseconds: row.get(4)?, fingerprint: Fingerprint::new(row.get(5)?) })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(super) fn role(&self, name: &str) -> Result<&Account, Error> {
        self.roles.get(name).ok_or_else(|| Error::UnknownRole { role: name.to_owned() })
    }

    pub(super) fn balance(&self, account: &Account) -> Result<Balance, Error> {
        Ok(Balance { cap: account.cap, spent: self.spent(account)? })
    }

    pub(super) fn spent(&self, account: &Account) -> Result<Loss, Error> {
        let sql = "SELECT spent_epsilon, spent_rho, spent_mu_squared, spent_delta FROM account WHERE id = ?1";
        Ok(self.connection.prepare_cached(sql)?.query_row([account.id], loss_at)?)
    }

    pub(super) fn set_spent(&self, account: &Account, total: &Loss) -> Result<(), Error> {
        let sql = "UPDATE account SET spent_epsilon = ?2, spent_rho = ?3, spent_mu_squared = ?4, spent_delta = ?5 WHERE id = ?1";
        let [epsilon, rho, mu_squared, delta] = blobs(total);
        let changed = self.connection.prepare_cached(sql)?.execute(params![account.id, epsilon, rho, mu_squared, delta])?;
        assert!(changed == 1, "an account is never removed");
        Ok(())
    }
}

/// Brings a ledger of the first format to this one: tables are added, nothing else is touched. A file that is not whole is left as it is.
fn raise(connection: &Connection, path: &Path) -> Result<(), Error> {
    let format = |connection: &Connection| connection.query_row("PRAGMA user_version", [], |row| row.get::<_, u32>(0));
    if format(connection).map_err(|error| verify::read_failure(path, error))? >= file::FORMAT {
        return Ok(());
    }
    verify::structure_of(connection, path, SCHEMA)?;
    begin(connection, Access::Write)?;
    // Another process may have done it since.
    let raised = if format(connection)? >= file::FORMAT {
        Ok(())
    } else {
        connection.execute_batch(answers::SCHEMA).and_then(|()| connection.pragma_update(None, "user_version", file::FORMAT))
    };
    end(connection, raised.map_err(Error::from))
}

/// Makes an empty ledger under a name nobody else uses yet.
fn build(path: &Path) -> Result<(), Error> {
    let connection = connect(path)?;
    // Synced once, when whole, before it gets its name.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "application_id", file::APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", file::FORMAT)?;
    connection.execute_batch(&format!("BEGIN;{SCHEMA}{}COMMIT;", answers::SCHEMA))?;
    // The draft's own journal goes with the draft.
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // The journal is emptied and synced, not removed, at each commit.
    connection.pragma_update_and_check(None, "journal_mode", "TRUNCATE", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

fn begin(connection: &Connection, access: Access) -> Result<(), Error> {
    let sql = match access {
        Access::Read => "BEGIN DEFERRED",
        Access::Write => "BEGIN IMMEDIATE",
    };
    Ok(connection.prepare_cached(sql)?.execute([]).map(drop)?)
}

fn end(connection: &Connection, outcome: Result<(), Error>) -> Result<(), Error> {
    let committed = outcome.and_then(|()| Ok(connection.prepare_cached("COMMIT")?.execute([]).map(drop)?));
    if committed.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    committed
}

fn open_accounts(connection: &Connection, owner: &AccountSpec, roles: &[AccountSpec]) -> Result<(Account, HashMap<String, Account>), Error> {
    let owner = open_account(connection, "owner", owner)?;
    let mut accounts = HashMap::with_capacity(roles.len());
    for role in roles {
        if accounts.insert(role.name.clone(), open_account(connection, "role", role)?).is_some() {
            return Err(Error::NamedTwice { name: role.name.clone() });
        }
    }
    Ok((owner, accounts))
}

/// Finds the account, whose fixed terms must agree, or opens it. There is one owner, whatever the name; a role goes by its name.
fn open_account(connection: &Connection, kind: &str, spec: &AccountSpec) -> Result<Account, Error> {
    let accounting = accounting_name(spec.cap.accounting());
    let sql = "SELECT id, accounting, threshold_share FROM account WHERE kind = ?1 AND (kind = 'owner' OR name = ?2)";
    let found = connection
        .query_row(sql, params![kind, spec.name], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, f64>(2)?)))
        .optional()?;
    let Some((id, accounting_fixed, share_fixed)) = found else {
        let sql = "INSERT INTO account (kind, name, accounting, threshold_share, epsilon, delta, spent_epsilon, spent_rho, spent_mu_squared, spent_delta, failures)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?7, ?7, 0)";
        let (epsilon, delta) = (spec.budget.epsilon, spec.budget.delta);
        connection.execute(sql, params![kind, spec.name, accounting, spec.threshold_share, epsilon, delta, [0u8; 16]])?;
        return Ok(Account { id: connection.last_insert_rowid(), cap: spec.cap });
    };
    let fixed = |what, fixed, wanted| {
        let account = if kind == "owner" { "the owner's account".to_owned() } else { format!("the account of role {:?}", spec.name) };
        Err(Error::Fixed { account, what, fixed, wanted })
    };
    if accounting_fixed != accounting {
        return fixed("accounting", accounting_fixed, accounting.to_owned());
    }
    if share_fixed != spec.threshold_share {
        return fixed("threshold_share", share_fixed.to_string(), spec.threshold_share.to_string());
    }
    let sql = "UPDATE account SET epsilon = ?2, delta = ?3 WHERE id = ?1 AND (epsilon <> ?2 OR delta <> ?3)";
    connection.execute(sql, params![id, spec.budget.epsilon, spec.budget.delta])?;
    Ok(Account { id, cap: spec.cap })
}

fn accounting_name(accounting: Accounting) -> &'static str {
    match accounting {
        Accounting::Gdp => "gdp",
        Accounting::Zcdp => "zcdp",
        Accounting::Pure => "pure",
    }
}

/// A loss from the first four columns: epsilon, rho, mu^2, delta.
pub(super) fn loss_at(row: &Row<'_>) -> rusqlite::Result<Loss> {
    let fixed = |at: usize| row.get::<_, [u8; 16]>(at).map(|bytes| Fixed(u128::from_be_bytes(bytes)));
    let epsilon = row.get::<_, Option<[u8; 16]>>(0)?.map(|bytes| Fixed(u128::from_be_bytes(bytes)));
    Ok(Loss { epsilon, rho: fixed(1)?, mu_squared: fixed(2)?, delta: fixed(3)? })
}

pub(super) fn blobs(loss: &Loss) -> [Option<[u8; 16]>; 4] {
    let Loss { epsilon, rho, mu_squared, delta } = loss;
    [*epsilon, Some(*rho), Some(*mu_squared), Some(*delta)].map(|value| value.map(|fixed| fixed.0.to_be_bytes()))
}

/// Since 1970, for people who read the history; nothing rests on it.
pub(super) fn microseconds(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
