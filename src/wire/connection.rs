//! One logged-in session: handles one message after another until the client leaves.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cancel::CancelKey;
use super::connection_limit::ConnectionSlot;
use super::copy::Writer;
use super::cursor::Cursors;
use super::locks::Locks;
use super::login::LoggedIn;
use super::message;
use super::message::Frontend;
use super::outcome::Outcome;
use super::pinned::{Pinned, WriteLimits, idle_in_transaction, writing_too_long};
use super::portal::{Portal, Prepared, Reply, command_tag};
use super::settings::Settings;
use super::stream::{FramedStream, RawMessage};
use super::transaction::{Status, Transaction};
use crate::engine::{MemoryShare, Service};
use crate::ledger::Origin;
use crate::operator::{SessionEntry, State};
use crate::policy::Hints;
use crate::refusal::{Refusal, reason};

/// The longest message of a logged-in client.
pub(super) const FRAME_BYTES_MAX: usize = 4 << 20;

/// How long a write that an operator ends has for its cancel and its record.
const LAST_OF_WRITE: Duration = Duration::from_secs(20);

/// The state that a session gets from its server.
pub(super) struct ServerState {
    pub(super) shutdown: CancellationToken,
    /// How long a running statement may go on after the shutdown.
    pub(super) drain: Duration,
    pub(super) write_limits: WriteLimits,
    pub(super) answers: mpsc::Sender<()>,
    pub(super) share: MemoryShare,
    pub(super) origin: Origin,
    pub(super) entry: SessionEntry,
}

pub(super) struct Connection<S> {
    pub(super) channel: FramedStream,
    pub(super) service: Arc<S>,
    pub(super) role: String,
    pub(super) settings: Settings,
    pub(super) transaction: Transaction,
    pub(super) statements: HashMap<String, Arc<Prepared>>,
    pub(super) portals: HashMap<String, Portal>,
    pub(super) cursors: Cursors,
    pub(super) locks: Locks,
    /// The transaction of what the session writes.
    pub(super) pinned: Pinned,
    /// Whether a statement that writes runs.
    pub(super) is_writing: Arc<AtomicBool>,
    pub(super) key: CancelKey,
    /// Every running answer holds it, so that the session counts until the last answer ends.
    pub(super) place: Arc<ConnectionSlot>,
    pub(super) answers: mpsc::Sender<()>,
    /// Memory for rows that the client has not read yet.
    pub(super) share: MemoryShare,
    /// Where its questions come from.
    pub(super) origin: Origin,
    /// Its place in the list of sessions.
    pub(super) entry: SessionEntry,
    /// Abandoned answers.
    pub(super) unfinished: Vec<JoinHandle<()>>,
    pub(super) shutdown: CancellationToken,
    pub(super) drain: Duration,
    pub(super) write_limits: WriteLimits,
    /// Set after an error in the extended protocol: everything up to Sync is dropped.
    skipping: bool,
    /// Whether a message of the extended protocol came and no Sync after it.
    is_amid: bool,
    /// The values that ParameterStatus last reported.
    reported: Vec<(&'static str, String)>,
}

impl<S: Service> Connection<S> {
    pub(super) fn new(
        channel: FramedStream,
        service: Arc<S>,
        who: LoggedIn,
        common: ServerState,
    ) -> Self {
        let LoggedIn {
            role,
            settings,
            key,
            place,
        } = who;
        let ServerState {
            shutdown,
            drain,
            write_limits,
            answers,
            share,
            origin,
            entry,
        } = common;
        Self {
            channel,
            service,
            role,
            settings,
            transaction: Transaction::new(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            cursors: Cursors::default(),
            locks: Locks::default(),
            pinned: Pinned::None,
            is_writing: Arc::default(),
            key,
            place,
            answers,
            share,
            origin,
            entry,
            unfinished: Vec::new(),
            shutdown,
            drain,
            write_limits,
            skipping: false,
            is_amid: false,
            reported: Vec::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let counted = self.service.count_session(&self.role);
        let stop = self.converse().await;
        drop(counted);
        tracing::info!(role = self.role, "session closed");
        match stop {
            Outcome::Fatal(refusal) | Outcome::Refused(refusal) => {
                self.channel.farewell(Some(&refusal)).await
            }
            Outcome::Closed => self.channel.farewell(None).await,
        }
    }

    /// Handles messages until the session ends.
    async fn converse(&mut self) -> Outcome {
        if let Err(stop) = self.ready().await {
            return stop;
        }
        let ended = self.entry.end_token();
        loop {
            let patience = self.patience();
            // Also for a client that is never silent.
            if self.is_writing_too_long() {
                return Outcome::Fatal(writing_too_long());
            }
            let idle = async {
                match patience {
                    Some((limit, _)) => tokio::time::sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            // A client amid the messages of a statement gets the time to end it.
            let (shutdown, drain, is_amid) = (self.shutdown.clone(), self.drain, self.is_amid);
            let over = async {
                shutdown.cancelled().await;
                if is_amid {
                    tokio::time::sleep(drain).await;
                }
            };
            let frame = tokio::select! {
                biased;
                () = ended.cancelled() => Err(Outcome::operator_ended()),
                () = over => Err(Outcome::shutdown()),
                frame = self.channel.frame_within(FRAME_BYTES_MAX, &self.share) => frame,
                () = idle => {
                    let ended = patience.map(|(_, refusal)| Outcome::Fatal(refusal));
                    Err(ended.unwrap_or(Outcome::Closed))
                }
            };
            let is_writing = Arc::clone(&self.is_writing);
            let ends = async {
                ended.cancelled().await;
                // A write sees the end by itself, cancels and records.
                if is_writing.load(Ordering::Relaxed) {
                    tokio::time::sleep(LAST_OF_WRITE).await;
                }
            };
            let step = match frame {
                // A session ends also while its client does not read.
                Ok(frame) => tokio::select! {
                    biased;
                    step = self.step(frame) => step,
                    () = ends => Err(Outcome::operator_ended()),
                },
                Err(stop) => Err(stop),
            };
            if let Err(stop) = step {
                return stop;
            }
        }
    }

    /// How long the client may be silent now, and the error it gets then.
    fn patience(&self) -> Option<(Duration, Refusal)> {
        let chosen = match self.transaction.status() {
            Status::Idle => {
                let message = "terminating connection due to idle-session timeout";
                let limit = self.settings.duration("idle_session_timeout");
                limit.map(|limit| (limit, Refusal::new(reason::IDLE_SESSION, message)))
            }
            Status::Open | Status::Failed => {
                let limit = self
                    .settings
                    .duration("idle_in_transaction_session_timeout");
                limit.map(|limit| (limit, idle_in_transaction()))
            }
            Status::Implicit | Status::Pipeline => None,
        };
        let limits = chosen.into_iter().chain(self.patience_of_writes());
        limits.min_by_key(|(limit, _)| *limit)
    }

    async fn step(&mut self, frame: RawMessage) -> Result<(), Outcome> {
        let kind = frame.kind;
        self.is_amid = matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H');
        // A password message does not belong into a session, so the stream itself is broken.
        if self.skipping && !matches!(kind, b'S' | b'X' | b'p') {
            return Ok(());
        }
        match self.take(frame).await {
            Err(Outcome::Refused(refusal)) => {
                self.refuse(&refusal);
                // What an earlier message of the pipeline wrote is rolled back.
                self.settle_writes().await;
                if matches!(kind, b'Q' | b'F') {
                    return self.ready().await;
                }
                self.skipping = true;
                self.channel.flush().await
            }
            // A client that sends and does not read has to wait, whatever it sends.
            Ok(()) => self.channel.flush_if_full().await,
            Err(stop @ (Outcome::Fatal(_) | Outcome::Closed)) => Err(stop),
        }
    }

    async fn take(&mut self, frame: RawMessage) -> Result<(), Outcome> {
        match message::decode(frame)? {
            Frontend::Query(sql) => self.simple(&sql).await,
            Frontend::Parse { name, sql, types } => self.parse(name, &sql, &types).await,
            Frontend::Bind(bind) => self.bind(bind),
            Frontend::Describe { target, name } => self.describe(target, &name),
            Frontend::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Frontend::Close { target, name } => {
                self.close(target, &name);
                Ok(())
            }
            Frontend::Flush => self.channel.flush().await,
            Frontend::Sync => {
                self.skipping = false;
                self.settle_writes().await;
                self.end_implicit();
                self.ready().await
            }
            Frontend::Terminate => Err(Outcome::Closed),
            Frontend::FunctionCall => Err(Refusal::new(
                reason::UNSUPPORTED_STATEMENT,
                "function calls are not supported by pgveil",
            )
            .into()),
            Frontend::Copy => Ok(()),
            Frontend::Password => Err(Outcome::protocol("invalid frontend message type 112")),
        }
    }

    /// Reports the error, and what it does to the transaction.
    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        tracing::debug!(
            role = self.role,
            sqlstate = refusal.sqlstate,
            reason = refusal.reason.id(),
            "refused"
        );
        match self.settings.session_settings().hints {
            Hints::Fields => self.channel.error("ERROR", refusal),
            Hints::Message => self.channel.error("ERROR", &refusal.clone().in_message()),
        }
        if matches!(
            self.transaction.status(),
            Status::Implicit | Status::Pipeline
        ) {
            self.end_portals(false);
        }
        self.transaction.fail(&mut self.settings);
    }

    pub(super) fn end_implicit(&mut self) {
        if self.transaction.end_implicit(&mut self.settings) {
            self.end_portals(true);
        }
    }

    /// Ends what lasts as long as a transaction.
    pub(super) fn end_portals(&mut self, committed: bool) {
        self.portals.clear();
        self.cursors.end(committed);
    }

    /// Sends changed settings, then ReadyForQuery.
    pub(super) async fn ready(&mut self) -> Result<(), Outcome> {
        let now = self.settings.reported_settings();
        for (at, (name, value)) in now.iter().enumerate() {
            if self
                .reported
                .get(at)
                .is_none_or(|(_, reported)| reported != value)
            {
                self.channel
                    .send(&pgwire::messages::startup::ParameterStatus::new(
                        (*name).to_owned(),
                        value.clone(),
                    ));
            }
        }
        self.reported = now;
        let state = match self.transaction.status() {
            Status::Idle => State::Idle,
            Status::Open | Status::Failed | Status::Implicit | Status::Pipeline => {
                State::InTransaction
            }
        };
        self.entry.wait(state, &self.settings.application());
        self.channel.ready(self.transaction.status());
        self.channel.flush().await
    }

    pub(super) fn notices(&mut self, notices: &[(&'static str, Refusal)]) {
        for (severity, text) in notices {
            if self.settings.wants(severity) {
                self.channel.notice(severity, text);
            }
        }
    }
}

impl<S: Service> Connection<S> {
    /// Sends the rows of a COPY.
    pub(super) async fn stream(&mut self, writer: &Writer, reply: &Reply) -> Result<(), Outcome> {
        self.channel.copy_out(writer.value_format(), writer.width());
        let rows = reply.rows.iter().map(|row| writer.row(row));
        let mut head = writer.signature();
        for data in writer.header().into_iter().chain(rows).chain(writer.tail()) {
            // Clients expect the signature and what follows it in one message, as PostgreSQL sends
            // them.
            let data = match head.take() {
                Some(head) => Bytes::from([head, &data].concat()),
                None => data,
            };
            self.channel.copy_data(data);
            self.channel.flush_if_full().await?;
        }
        self.channel.copy_done();
        self.channel
            .complete(command_tag(&reply.tag, reply.rows.len()));
        Ok(())
    }
}
