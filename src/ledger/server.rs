//! The ledger in PostgreSQL, for many proxies.
//!
//! Every transaction that writes first locks the one row of `format`: debits of all proxies are
//! serialised, and each reads what the one before it left. COMMIT returns when the server has
//! synced (`synchronous_commit = on`; a server without `fsync` is refused). Where its answer is
//! lost, the server is asked what became of the transaction, by its number and by a mark that it
//! left; where that is not known, the debit is taken as charged and nothing is answered.

mod schema;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use bytes::BytesMut;
use tokio::runtime::Runtime;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Config, SimpleQueryMessage, Statement};

use super::error::Error;
use super::store::{Absent, Access, OnOlderFormat, ReadOnly, Row, Store, StoreValue, first_row};
use super::{upgrade, verify};
use crate::postgres::{Connected, connect};

/// Its name, for people.
const LEDGER: &str = "schema pgveil_ledger of the ledger's database";
/// How long the server may take over one statement, locks included.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long we wait for its answer before the connection is taken for dead.
const PATIENCE: Duration = Duration::from_secs(40);
/// How often, and how far apart, the server is asked what became of a transaction.
const ASKED: u32 = 20;
/// `ASKED` for a commit that nobody waits for. Losing its writes is harmless, so later debits do
/// not wait long for it.
const ASKED_SOON: u32 = 2;
const ASK_EVERY: Duration = Duration::from_millis(500);

/// The settings of a session whose commits are durable. The last statement shows whether the server
/// syncs at all. A proxy that hangs must not keep the others from a lock, so there is a timeout.
pub(super) fn durable_session(timeout: Duration) -> String {
    session("SET default_transaction_read_only = off", timeout)
}

/// The settings of a session that only reads: the server refuses to write for it.
pub(super) fn reading_session(timeout: Duration) -> String {
    session("SET default_transaction_read_only = on", timeout)
}

fn session(access: &str, timeout: Duration) -> String {
    let milliseconds = timeout.as_millis();
    format!(
        "SET synchronous_commit = on; SET statement_timeout = {milliseconds}; \
            SET idle_in_transaction_session_timeout = {milliseconds}; \
            SET client_encoding = 'UTF8'; {access}; SHOW fsync"
    )
}

/// A connection, and the statements prepared on it.
struct Session {
    connected: Connected,
    prepared: HashMap<&'static str, Statement>,
}

/// A transaction that may write.
struct Writing {
    /// Its id.
    transaction: i64,
    /// How often the server is asked what became of it, if the answer to its commit is lost.
    asked: u32,
}

/// The server, reached by one connection at a time, which is made again when it was lost.
pub(super) struct Server {
    runtime: Runtime,
    config: Config,
    /// What each connection is set to.
    settings: String,
    session: Option<Session>,
    /// The open transaction, if it may write.
    writing: Option<Writing>,
    /// The question of a claim that marks this process, never a statement's: each transaction that
    /// writes leaves its transaction id there. A promoted standby reuses ids, so an id alone may
    /// belong to another transaction.
    mark: String,
}

impl Server {
    /// Connects to `postgres://…` and verifies the whole ledger there.
    ///
    /// # Errors
    ///
    /// [`Error`]; a schema that is refused is not written to.
    pub(super) fn open(url: &str, absent: Absent, older: OnOlderFormat<'_>) -> Result<Self, Error> {
        let mut server = Self::connect(url, durable_session(STATEMENT_TIMEOUT))?;
        server.make_if_missing(absent)?;
        let format = server.whole()?;
        if upgrade::is_due(older, (LEDGER, format, schema::FORMAT))? {
            upgrade::raise(&mut server, older, format)?;
            server.whole()?;
        }
        Ok(server)
    }

    /// Connects to read a whole ledger as what it is. Returns its format too.
    ///
    /// # Errors
    ///
    /// [`Error`]; [`Error::Missing`].
    pub(super) fn look(url: &str) -> Result<(ReadOnly<Self>, i64), Error> {
        let mut server = Self::connect(url, reading_session(STATEMENT_TIMEOUT))?;
        server.make_if_missing(Absent::Refuse)?;
        let format = server.whole()?;
        Ok((ReadOnly(server), format))
    }

    fn connect(url: &str, settings: String) -> Result<Self, Error> {
        let mut config: Config = url.parse().map_err(|_| Error::Url {
            url: "postgres://…".to_owned(),
        })?;
        if config.get_application_name().is_none() {
            config.application_name("pgveil ledger");
        }
        config
            .connect_timeout(PATIENCE)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(30));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mark = format!(
            "decode('{:032x}{:032x}', 'hex')",
            rand::random::<u128>(),
            rand::random::<u128>()
        );
        let mut server = Self {
            runtime,
            config,
            settings: format!("SET search_path = {}; {settings}", schema::NAME),
            session: None,
            writing: None,
            mark,
        };
        server.reconnect()?;
        Ok(server)
    }

    /// Checks everything, and returns the format.
    fn whole(&mut self) -> Result<i64, Error> {
        let format = self.format()?;
        let structure = self.structure(format);
        // Another process may have raised it meanwhile.
        if structure.is_err() && self.format()? != format {
            return self.whole();
        }
        structure?;
        verify::sums(self, LEDGER, format)?;
        Ok(format)
    }

    /// Runs a step on the connection; after an error of the connection, or none in time, the
    /// connection is gone.
    fn run<T, F>(&mut self, step: impl FnOnce(Session) -> F) -> Result<T, Error>
    where
        F: Future<Output = (Session, Result<T, tokio_postgres::Error>)>,
    {
        let Some(session) = self.session.take() else {
            return Err(connection_lost());
        };
        let Ok((session, result)) = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, step(session)).await })
        else {
            return Err(connection_lost());
        };
        if !session.connected.client.is_closed() {
            self.session = Some(session);
        }
        result.map_err(Error::storage)
    }

    /// Several statements at once, without parameters; the last value of the last row, if there is
    /// one.
    fn script(&mut self, sql: &str) -> Result<Option<String>, Error> {
        let messages = self.run(|session| async move {
            let result = session.connected.client.simple_query(sql).await;
            (session, result)
        })?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(row.len().saturating_sub(1)).map(str::to_owned),
            _ => None,
        });
        Ok(rows.last())
    }

    fn reconnect(&mut self) -> Result<(), Error> {
        self.session = None;
        let config = self.config.clone();
        let connected = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, connect(&config)).await });
        let connected = connected
            .map_err(|_| connection_lost())?
            .map_err(Error::storage)?;
        self.session = Some(Session {
            connected,
            prepared: HashMap::new(),
        });
        let settings = self.settings.clone();
        match self.script(&settings)?.as_deref() {
            Some("on") => Ok(()),
            _ => Err(Error::Unsafe {
                setting: "fsync = off".to_owned(),
            }),
        }
    }

    /// Makes the schema, whole or not at all.
    fn make_if_missing(&mut self, absent: Absent) -> Result<(), Error> {
        let name = schema::NAME;
        let there = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{name}'");
        if self.script(&there)?.as_deref() == Some("1") {
            return Ok(());
        }
        if absent == Absent::Refuse {
            return Err(Error::Missing {
                place: format!("schema {name} of the database of ledger.url"),
            });
        }
        // One maker at a time. The number stands for ledgers.
        let locked = self.script(&format!(
            "BEGIN; SELECT pg_advisory_xact_lock(7379450921); {there}"
        ))?;
        let made = if locked.as_deref() == Some("1") {
            Ok(None)
        } else {
            self.script(&format!("CREATE SCHEMA {name};{}", schema::whole()))
        };
        match made {
            Ok(_) => self.script("COMMIT").map(drop),
            Err(error) => {
                self.script("ROLLBACK")?;
                Err(error)
            }
        }
    }

    /// The format of the schema that is there.
    fn format(&mut self) -> Result<i64, Error> {
        let ledger = LEDGER.to_owned();
        let version = self.script(
            "SELECT count(*) FROM pg_class WHERE relname = 'format' AND \
            relnamespace = 'pgveil_ledger'::regnamespace",
        )?;
        if version.as_deref() != Some("1") {
            return Err(Error::Foreign {
                ledger,
                reason: "it has no format".to_owned(),
            });
        }
        match self
            .script("SELECT version FROM format")?
            .and_then(|version| version.parse::<i64>().ok())
        {
            Some(found) if found == schema::FORMAT || schema::is_older(found) => Ok(found),
            Some(found) if found > schema::FORMAT => Err(Error::Newer {
                ledger,
                found,
                known: schema::FORMAT,
            }),
            Some(_) | None => Err(Error::Foreign {
                ledger,
                reason: "it has no format version".to_owned(),
            }),
        }
    }

    fn structure(&mut self, format: i64) -> Result<(), Error> {
        let ledger = LEDGER.to_owned();
        self.begin(Access::Read)?;
        let found = self.query(schema::FOUND, &[]);
        self.end(found.as_ref().map(|_| ()).map_err(Clone::clone))?;
        let mut lines = found?
            .iter()
            .map(|row| row.text(0).map(str::to_owned))
            .collect::<Result<Vec<_>, _>>()?;
        lines.sort_unstable();
        if lines != schema::expected_catalog(format) {
            return Err(Error::Damaged {
                ledger,
                reason: "its tables are not those of a ledger".to_owned(),
            });
        }
        Ok(())
    }

    /// After a COMMIT without an answer: whether the transaction was committed.
    fn settle(&mut self, writing: Writing, cause: Error) -> Result<(), Error> {
        let Writing { transaction, asked } = writing;
        tracing::warn!(error = %cause, "the answer to a commit of the ledger was lost: asking what \
            became of it");
        for _ in 0..asked {
            if self.session.is_some() || self.reconnect().is_ok() {
                match self
                    .script(&format!("SELECT txid_status({transaction})"))
                    .ok()
                    .flatten()
                    .as_deref()
                {
                    // A transaction of that number was committed; the mark says whether it is ours.
                    // Writing the mark again is a separate commit. Once a synchronous standby
                    // has acknowledged that one, it has both.
                    Some("committed") => match self.script(&self.mark_again(transaction)) {
                        Ok(Some(_)) => return Ok(()),
                        Ok(None) => break,
                        Err(_) => {}
                    },
                    Some("aborted") => break,
                    // It still runs, or nothing is known of it.
                    Some(_) | None => {}
                }
            }
            std::thread::sleep(ASK_EVERY);
        }
        Err(cause)
    }

    /// Begins a transaction that writes. Reads after the lock see what its last holder left. The
    /// last value is the transaction's number, which is also stored as its mark.
    fn begin_writing(&self, setting: &str) -> String {
        let Self { mark, .. } = self;
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {setting}
             SELECT version FROM format FOR UPDATE;
             INSERT INTO claim (question, holder, until) VALUES ({mark}, substring({mark} FROM 1 \
             FOR 16), txid_current())
             ON CONFLICT (question) DO UPDATE SET until = excluded.until RETURNING until"
        )
    }

    /// Gives the number back where the transaction's mark is there.
    fn mark_again(&self, transaction: i64) -> String {
        format!(
            "UPDATE claim SET until = until WHERE question = {} AND until = {transaction} \
                RETURNING \
                until",
            self.mark
        )
    }
}

impl upgrade::Raise for Server {
    fn format_now(&mut self) -> Result<i64, Error> {
        self.format()
    }

    fn raise(&mut self, older: OnOlderFormat<'_>) -> Result<(), Error> {
        self.begin(Access::Write)?;
        // Another process may have done it since, until the lock was had.
        let raised = self.format().and_then(|found| {
            if !schema::is_older(found) {
                return Ok(());
            }
            upgrade::may_raise(self, older, (LEDGER, found, schema::FORMAT))?;
            self.script(&schema::since(found)).map(drop)
        });
        self.end(raised)
    }
}

impl Store for Server {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        let sql = match access {
            Access::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".to_owned(),
            Access::WriteSoon => self.begin_writing("SET LOCAL synchronous_commit = off;"),
            Access::Write => self.begin_writing(""),
        };
        let mut begun = if self.session.is_some() {
            self.script(&sql)
        } else {
            Err(connection_lost())
        };
        if begun.is_err() {
            // Nothing has been done yet: a connection that was lost meanwhile is made again. What
            // it had locked ends with it.
            self.reconnect()?;
            begun = self.script(&sql);
        }
        let asked = match access {
            Access::WriteSoon => ASKED_SOON,
            Access::Read | Access::Write => ASKED,
        };
        let number = begun?.and_then(|number| number.parse().ok());
        self.writing = number.map(|transaction| Writing { transaction, asked });
        Ok(())
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
        self.run(|mut session| async move {
            let result = ask(&mut session, sql, values).await;
            (session, result)
        })
    }

    fn may_stay_open(&self) -> bool {
        false
    }

    /// No transaction of it stays open.
    fn check_place(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        let writing = self.writing.take();
        if let Err(error) = outcome {
            if self.session.is_some() && self.script("ROLLBACK").is_err() {
                self.session = None;
            }
            return Err(error);
        }
        match (self.script("COMMIT"), writing) {
            (Ok(_), _) => Ok(()),
            (Err(error), None) => Err(error),
            (Err(error), Some(writing)) => self.settle(writing, error),
        }
    }

    fn cluster(&mut self) -> Option<String> {
        let sql = "SELECT system_identifier FROM pg_catalog.pg_control_system()";
        self.script(sql).ok().flatten()
    }

    /// With indexes, and what has been deleted since but not given back.
    fn bytes(&mut self) -> Result<Option<i64>, Error> {
        let rows = self.query(schema::BYTES, &[])?;
        first_row(&rows)?.int(0).map(Some)
    }
}

async fn ask(
    session: &mut Session,
    sql: &'static str,
    values: &[StoreValue],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let client = &session.connected.client;
    let statement = match session.prepared.get(sql) {
        Some(statement) => statement.clone(),
        None => {
            let statement = client.prepare(sql).await?;
            session.prepared.insert(sql, statement.clone());
            statement
        }
    };
    let values: Vec<&(dyn ToSql + Sync)> = values
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect();
    let rows = client.query(&statement, &values).await?;
    rows.iter()
        .map(|row| {
            (0..row.len())
                .map(|at| row.try_get(at))
                .collect::<Result<_, _>>()
                .map(Row)
        })
        .collect()
}

fn connection_lost() -> Error {
    Error::storage(std::io::Error::new(
        std::io::ErrorKind::NotConnected,
        "the connection to the ledger's server was lost",
    ))
}

impl ToSql for StoreValue {
    fn to_sql(
        &self,
        as_type: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql_checked(as_type, out),
            Self::Real(value) => value.to_sql_checked(as_type, out),
            Self::Text(value) => value.to_sql_checked(as_type, out),
            Self::Blob(value) => value.to_sql_checked(as_type, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

impl<'a> FromSql<'a> for StoreValue {
    fn from_sql(of_type: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        if *of_type == Type::INT8 {
            i64::from_sql(of_type, raw).map(Self::Int)
        } else if *of_type == Type::FLOAT8 {
            f64::from_sql(of_type, raw).map(Self::Real)
        } else if *of_type == Type::BYTEA {
            Vec::<u8>::from_sql(of_type, raw).map(Self::Blob)
        } else {
            String::from_sql(of_type, raw).map(Self::Text)
        }
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(of_type: &Type) -> bool {
        [Type::INT8, Type::FLOAT8, Type::BYTEA, Type::TEXT].contains(of_type)
    }
}
