//! Connections of the login that writes: one for each transaction that writes, kept between them,
//! thrown away after an error.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{FutureExt, SinkExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::closed::ClosedTables;
use super::{SentRows, SentValue, TableWriter, WritePlan};
use crate::engine::Requester;
use crate::postgres;
use crate::postgres::{Connected, literal};
use crate::refusal::{Refusal, reason};

/// The most connections that write.
const WRITERS_MAX: usize = 16;
/// The most of one role, so that no role keeps the others from writing.
const WRITERS_OF_ROLE: usize = 8;
/// How much longer than the database's own timeout the wait for its answer is.
const GRACE: Duration = Duration::from_secs(5);
/// How long a session waits for one.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a transaction that writes may be idle: longer than the wire waits for its client.
const IDLE: Duration = Duration::from_secs(600);
/// The settings of a session by which PostgreSQL reads values.
const READ_BY: [&str; 3] = ["TimeZone", "DateStyle", "IntervalStyle"];

/// The connections, and how to open one more.
pub(super) struct WriterPool {
    config: Option<tokio_postgres::Config>,
    places: Arc<Semaphore>,
    /// The places of each role.
    shares: Mutex<BTreeMap<String, Arc<Semaphore>>>,
    idle: Arc<Mutex<Vec<Kept>>>,
    timeout: Duration,
    closed: Arc<ClosedTables>,
}

struct Kept {
    connected: Connected,
    /// The settings of [`READ_BY`] that it has; `None`: not known.
    settings: Option<Vec<(String, String)>>,
}

/// The modes of a transaction, in SQL's words.
pub struct TransactionModes {
    pub isolation: String,
    /// How many savepoints stand.
    pub savepoints: usize,
}

/// One connection, in use by one session.
pub struct WriterLease {
    kept: Kept,
    config: tokio_postgres::Config,
    idle: Arc<Mutex<Vec<Kept>>>,
    /// Whether a transaction is open on it.
    is_open: bool,
    /// Whether its settings were changed in the transaction, and may be undone with it.
    is_set_within: bool,
    /// The tables, by OID, that its transaction wrote.
    written: BTreeSet<u32>,
    closed: Arc<ClosedTables>,
    /// When its transaction began.
    since: Instant,
    timeout: Duration,
    /// Whether the connection did not answer in time.
    is_stuck: bool,
    /// Whether the database was asked to cancel what it runs. Nobody says when it does, so that
    /// the cancel may end a later statement.
    was_cancelled: bool,
    _places: [OwnedSemaphorePermit; 2],
}

impl WriterPool {
    pub(super) fn new(
        url: &crate::policy::Secret,
        timeout: Duration,
        closed: Arc<ClosedTables>,
    ) -> Arc<Self> {
        // The start has connected by this URL.
        let config = url.expose().parse().ok();
        let config = config.map(|mut config: tokio_postgres::Config| {
            config.application_name("pgveil");
            config
        });
        Arc::new(Self {
            config,
            places: Arc::new(Semaphore::new(WRITERS_MAX)),
            shares: Mutex::default(),
            idle: Arc::default(),
            timeout,
            closed,
        })
    }

    pub(super) fn closed_tables(&self) -> &ClosedTables {
        &self.closed
    }

    async fn lease(&self, role: &str) -> Result<WriterLease, Refusal> {
        let share = {
            let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
            let share = shares
                .entry(role.to_owned())
                .or_insert_with(|| Arc::new(Semaphore::new(WRITERS_OF_ROLE)));
            Arc::clone(share)
        };
        let all = Arc::clone(&self.places);
        let places = async {
            Some([
                share.acquire_owned().await.ok()?,
                all.acquire_owned().await.ok()?,
            ])
        };
        let places = tokio::time::timeout(PATIENCE, places).await;
        let places = places.ok().flatten().ok_or_else(too_many)?;
        let config = self.config.clone().ok_or_else(refuse_lost)?;
        let idle = Arc::clone(&self.idle);
        let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let kept = match kept.filter(|kept| !kept.connected.client.is_closed()) {
            Some(kept) => kept,
            None => open(&config, self.timeout).await?,
        };
        Ok(WriterLease {
            kept,
            config,
            idle,
            is_open: false,
            is_set_within: false,
            written: BTreeSet::new(),
            closed: Arc::clone(&self.closed),
            since: Instant::now(),
            timeout: self.timeout,
            is_stuck: false,
            was_cancelled: false,
            _places: places,
        })
    }
}

/// Nothing of the database's notices reaches a client; they are not sent.
async fn open(config: &tokio_postgres::Config, timeout: Duration) -> Result<Kept, Refusal> {
    let lost = || {
        tracing::error!("no connection for writing");
        refuse_lost()
    };
    let connected = tokio::time::timeout(timeout + GRACE, postgres::connect(config)).await;
    let connected = connected.map_err(|_| lost())?.map_err(|_| lost())?;
    let set = format!(
        "SET client_min_messages = error; SET statement_timeout = {}; \
            SET idle_in_transaction_session_timeout = {}",
        timeout.as_millis(),
        IDLE.as_millis()
    );
    let began = tokio::time::timeout(GRACE, connected.client.batch_execute(&set)).await;
    let began = began.map_err(|_| refuse_lost())?;
    began.map_err(|error| refuse_failure(&error))?;
    Ok(Kept {
        connected,
        settings: Some(Vec::new()),
    })
}

impl TableWriter {
    /// A connection for one transaction.
    ///
    /// # Errors
    /// 53300 where all are in use for too long, XX000 where the database does not answer.
    pub async fn lease(&self, role: &str) -> Result<WriterLease, Refusal> {
        self.pool.lease(role).await
    }

    /// How long one statement may take.
    pub fn timeout(&self) -> Duration {
        self.pool.timeout
    }
}

impl WriterLease {
    /// Whether a transaction is open on it.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the connection is gone or not to be used any more, and what its transaction wrote
    /// is gone with it.
    pub fn is_lost(&self) -> bool {
        self.is_stuck || self.was_cancelled || self.kept.connected.client.is_closed()
    }

    /// How long its transaction has been open.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Puts it back for other sessions. One with an open transaction is closed.
    pub fn keep(self) {
        if !self.is_open && !self.is_lost() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(self.kept);
        }
    }

    /// Begins a transaction, with the savepoints that the session has.
    pub async fn begin(&mut self, modes: &TransactionModes) -> Result<(), Refusal> {
        let isolation = match modes.isolation.as_str() {
            "serializable" => "SERIALIZABLE",
            "repeatable read" => "REPEATABLE READ",
            _ => "READ COMMITTED",
        };
        self.is_open = true;
        self.since = Instant::now();
        self.run(&format!("BEGIN ISOLATION LEVEL {isolation}"))
            .await?;
        for depth in 1..=modes.savepoints {
            self.run(&savepoint("SAVEPOINT", depth)).await?;
        }
        Ok(())
    }

    /// A command on the savepoint of this depth, counted from 1.
    pub async fn at_savepoint(&mut self, command: &str, depth: usize) -> Result<(), Refusal> {
        if command.starts_with("ROLLBACK") {
            // Settings of the transaction are undone with it.
            self.kept.settings = None;
        }
        self.run(&savepoint(command, depth)).await
    }

    /// Ends the transaction.
    ///
    /// # Errors
    /// Those of constraints that are checked at COMMIT. It is rolled back then.
    pub async fn end(&mut self, commits: bool) -> Result<(), Refusal> {
        let ended = self.run(if commits { "COMMIT" } else { "ROLLBACK" }).await;
        let written = std::mem::take(&mut self.written);
        self.closed.judge(ended.as_ref().err(), &written).await;
        self.is_open = ended.is_err() && self.is_lost();
        let ended = match self.is_open && commits {
            true => Err(outcome_unknown()),
            false => ended,
        };
        if std::mem::take(&mut self.is_set_within) {
            // What is set now is not known.
            self.kept.settings = None;
        }
        ended
    }

    /// A connection that does not answer in time is given up.
    async fn run(&mut self, sql: &str) -> Result<(), Refusal> {
        let ran = self.kept.connected.client.batch_execute(sql);
        match tokio::time::timeout(self.timeout + GRACE, ran).await {
            Ok(ran) => ran.map_err(|error| {
                self.is_stuck |= is_cut_off(&error, &self.kept.connected.client);
                refuse_failure(&error)
            }),
            Err(_) => {
                self.is_stuck = true;
                Err(refuse_lost())
            }
        }
    }

    /// Lets the database read values as the session would.
    pub async fn read_as(&mut self, requester: &Requester) -> Result<(), Refusal> {
        let wanted: Vec<(String, String)> = READ_BY
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), requester.setting(name)?.to_owned())))
            .collect();
        if self.kept.settings.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let set = |(name, value): &(String, String)| {
            let value = literal(value);
            format!("SELECT pg_catalog.set_config('{name}', {value}, false)")
        };
        let resets = READ_BY.map(|name| format!("RESET {name}"));
        let all: Vec<String> = resets.into_iter().chain(wanted.iter().map(set)).collect();
        self.kept.settings = None;
        self.run(&all.join("; ")).await?;
        self.kept.settings = Some(wanted);
        self.is_set_within |= self.is_open;
        Ok(())
    }

    /// Cancels what the connection runs. The lease is lost then.
    pub async fn cancel(&mut self) {
        self.was_cancelled = true;
        ask_to_cancel(&self.config, &self.kept.connected.client).await;
    }

    /// Inserts rows; how many there are.
    ///
    /// # Errors
    /// The SQLSTATE of a broken constraint, XX000 for all else, in fixed words. 57014 where
    /// `cancelled` ends first; where it ended before, nothing is sent. 08007 where rows outside of
    /// a transaction were sent and the connection does not say what became of them.
    pub async fn insert(
        &mut self,
        rows: &SentRows,
        cancelled: impl Future<Output = ()> + Send,
    ) -> Result<u64, Refusal> {
        self.written.insert(rows.table);
        let inserted = self.send(rows, cancelled).await;
        let table = BTreeSet::from([rows.table]);
        self.closed.judge(inserted.as_ref().err(), &table).await;
        inserted
    }

    async fn send(
        &mut self,
        rows: &SentRows,
        cancelled: impl Future<Output = ()> + Send,
    ) -> Result<u64, Refusal> {
        let sent = rows
            .values
            .iter()
            .filter(|value| !matches!(value, SentValue::Default));
        let parameters: Vec<(&(dyn ToSql + Sync), Type)> = sent
            .map(|value| (value as &(dyn ToSql + Sync), value.postgres_type()))
            .collect();
        let (client, is_open) = (&self.kept.connected.client, self.is_open);
        if client.is_closed() {
            return Err(refuse_lost());
        }
        let mut cancelled = std::pin::pin!(cancelled);
        if cancelled.as_mut().now_or_never().is_some() {
            let message = "canceling statement before its rows were sent";
            return Err(Refusal::new(reason::STATEMENT_CANCELLED, message));
        }
        let failed = |error: tokio_postgres::Error| {
            let refusal = refuse_failure(&error);
            match !is_open && is_cut_off(&error, client) {
                true => outcome_unknown(),
                false => refusal,
            }
        };
        let mut running = std::pin::pin!(client.execute_typed(&rows.sql, &parameters));
        tokio::select! {
            biased;
            ended = &mut running => return ended.map_err(failed),
            () = cancelled => {}
        }
        self.was_cancelled = true;
        ask_to_cancel(&self.config, client).await;
        match tokio::time::timeout(GRACE, running).await {
            Ok(ended) => ended.map_err(failed),
            Err(_) => {
                self.is_stuck = true;
                Err(match is_open {
                    true => refuse_lost(),
                    false => outcome_unknown(),
                })
            }
        }
    }

    /// Begins a COPY.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub async fn copy(&mut self, plan: &WritePlan<'_>) -> Result<CopySink, Refusal> {
        self.written.insert(plan.table.oid);
        let client = &self.kept.connected.client;
        let sink = client.copy_in(&plan.copy_sql()).await;
        Ok(CopySink {
            sink: Box::pin(sink.map_err(|error| refuse_failure(&error))?),
            table: BTreeSet::from([plan.table.oid]),
            closed: Arc::clone(&self.closed),
        })
    }
}

/// The rows of one COPY, on the way to the database. Dropped before its end, it writes nothing.
pub struct CopySink {
    sink: std::pin::Pin<Box<tokio_postgres::CopyInSink<Bytes>>>,
    table: BTreeSet<u32>,
    closed: Arc<ClosedTables>,
}

impl CopySink {
    /// Sends some rows.
    ///
    /// # Errors
    /// As [`WriterLease::insert`].
    pub async fn send(&mut self, rows: Bytes) -> Result<(), Refusal> {
        let sent = self.sink.send(rows).await;
        let sent = sent.map_err(|error| refuse_failure(&error));
        self.closed.judge(sent.as_ref().err(), &self.table).await;
        sent
    }

    /// Ends it; how many rows there were.
    ///
    /// # Errors
    /// As [`WriterLease::insert`].
    pub async fn finish(mut self) -> Result<u64, Refusal> {
        let finished = self.sink.as_mut().finish().await;
        let finished = finished.map_err(|error| refuse_failure(&error));
        let refused = finished.as_ref().err();
        self.closed.judge(refused, &self.table).await;
        finished
    }
}

async fn ask_to_cancel(config: &tokio_postgres::Config, client: &tokio_postgres::Client) {
    let asked = tokio::time::timeout(GRACE, postgres::cancel(config, client)).await;
    if !matches!(asked, Ok(Ok(()))) {
        tracing::warn!("a write was not cancelled");
    }
}

fn savepoint(command: &str, depth: usize) -> String {
    format!("{command} pgveil_{depth}")
}

impl SentValue {
    /// The type that the client declared. Where that is no type of PostgreSQL's own, PostgreSQL
    /// takes the column's.
    fn postgres_type(&self) -> Type {
        match self {
            Self::Null | Self::Default => Type::UNKNOWN,
            Self::Text(_, oid) | Self::Binary(_, oid) => {
                Type::from_oid(*oid).unwrap_or(Type::UNKNOWN)
            }
        }
    }
}

/// Shows nothing of the value.
impl std::fmt::Debug for SentValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SentValue")
    }
}

impl ToSql for SentValue {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null | Self::Default => return Ok(IsNull::Yes),
            Self::Text(text, _) => out.put_slice(text.as_bytes()),
            Self::Binary(bytes, _) => out.put_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> tokio_postgres::types::Format {
        match self {
            Self::Binary(..) => tokio_postgres::types::Format::Binary,
            Self::Null | Self::Default | Self::Text(..) => tokio_postgres::types::Format::Text,
        }
    }

    to_sql_checked!();
}

/// What a client hears of an error of the database: a broken constraint by its code, in fixed
/// words. The database's own words, its detail and its context may hold values.
fn refuse_failure(error: &tokio_postgres::Error) -> Refusal {
    let code = error
        .code()
        .map_or("", tokio_postgres::error::SqlState::code);
    tracing::warn!(
        sqlstate = code,
        is_connection_lost = error.is_closed() || error.source().is_none(),
        "the database did not take a write"
    );
    let broken = match code {
        "23502" => "null value in a column that is NOT NULL",
        "23503" => "a foreign key constraint is not met",
        "23505" => "a unique constraint is not met",
        "23514" => "a check constraint is not met",
        "23P01" => "an exclusion constraint is not met",
        "57014" => {
            let message = "canceling statement due to user request or timeout";
            return Refusal::new(reason::STATEMENT_CANCELLED, message);
        }
        _ if code.starts_with("23") => "a constraint is not met",
        _ => return refuse_lost(),
    };
    Refusal::of_postgres(code, broken)
}

/// Whether the error says that the connection ended, and not what became of the statement: the
/// server, or a pooler before it, may have committed.
fn is_cut_off(error: &tokio_postgres::Error, client: &tokio_postgres::Client) -> bool {
    match error.code().map(tokio_postgres::error::SqlState::code) {
        None => error.is_closed() || client.is_closed(),
        Some(code) => code.starts_with("08") || code.starts_with("57P"),
    }
}

fn refuse_lost() -> Refusal {
    Refusal::new(reason::WRITE_FAILED, "the database did not take the rows")
        .detail("Its own words are not passed on, since they may hold values.")
        .hint("Compare the values with the columns' types; the SQLSTATE is in pgveil's log.")
}

/// 08007, where a commit or rows that commit by themselves were sent and no answer came.
fn outcome_unknown() -> Refusal {
    Refusal::of_postgres("08007", "whether the rows were written is not known")
        .hint("Ask the database, before they are written again.")
}

fn too_many() -> Refusal {
    let message = "no connection for writing is free";
    Refusal::new(reason::WRITE_CONNECTIONS, message)
}
