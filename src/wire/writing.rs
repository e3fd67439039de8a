//! Statements that write rows, and the transactions that they belong to.
//!
//! The first write of a transaction takes a connection of the login that writes, and keeps it to
//! the transaction's end. A transaction that only asks needs none.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pgwire::messages::copy::CopyInResponse;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, FRAME_BYTES_MAX};
use super::outcome::Outcome;
use super::pinned::{Pinned, WriteLimits, idle_in_transaction, writing_too_long};
use super::portal::Reply;
use super::run::{explain_column, panic_refusal};
use super::transaction::Status;
use super::write_stop::{SessionEnd, WriteStop};
use crate::engine::{
    Argument, CopyRows, CopySink, QuestionEnd, Requester, SentRows, Service, TableWriter,
    TransactionModes, WritePlan, WriteRecord, WriterLease,
};
use crate::parse::{CopyFormat, ExplainFormat, SessionStatement, Write, WrittenRows};
use crate::refusal::{Ending, Refusal, reason};

impl<S: Service> Connection<S> {
    /// How long a client that holds one of the connections for writing may be silent, and how long
    /// it may hold it still, each with the error that it gets then.
    pub(super) fn patience_of_writes(&self) -> impl Iterator<Item = (Duration, Refusal)> {
        let WriteLimits { silence, age } = self.write_limits;
        let held = match self.pinned {
            Pinned::Open(ref lease) => Some(lease.age()),
            Pinned::None | Pinned::Lost => None,
        };
        held.into_iter().flat_map(move |held| {
            let left = age.saturating_sub(held);
            [(silence, idle_in_transaction()), (left, writing_too_long())]
        })
    }

    /// Whether its transaction holds a connection for writing for longer than any may.
    pub(super) fn is_writing_too_long(&self) -> bool {
        matches!(&self.pinned, Pinned::Open(lease) if lease.age() >= self.write_limits.age)
    }

    /// Whether the role writes any table.
    pub(super) fn writes(&self) -> bool {
        self.service.writer(&self.role).is_some()
    }

    fn writer(&self) -> Result<Arc<TableWriter>, Refusal> {
        self.service.writer(&self.role).ok_or_else(|| {
            let message = "this role writes nothing";
            Refusal::new(reason::WRITE_NOT_GRANTED, message)
        })
    }

    /// The types of a write's parameters.
    pub(super) fn write_parameters(
        &self,
        write: &Write,
        declared: &[u32],
    ) -> Result<Vec<u32>, Refusal> {
        self.writer()?
            .parameters(&self.requester(), write, declared)
    }

    /// Writes rows. The log and the record name the table and the columns, by a digest.
    pub(super) async fn write(
        &mut self,
        write: &Write,
        parameters: &[u32],
        arguments: &[Argument],
    ) -> Result<Reply, Outcome> {
        let requester = self.requester();
        // Its cancel and its record are waited for, also where an operator ends the session.
        let is_writing = Arc::clone(&self.is_writing);
        is_writing.store(true, Ordering::Relaxed);
        let mut table = None;
        let written = match self.writer() {
            Ok(writer) => {
                let values = (parameters, arguments);
                self.write_rows((&requester, &writer), write, values, &mut table)
                    .await
            }
            Err(refusal) => Err(refusal.into()),
        };
        let ending = match &written {
            Ok(_) => Ending::Succeeded,
            Err(outcome) => QuestionEnd::from(outcome).ending,
        };
        tracing::info!(
            role = self.role,
            kind = "write",
            sqlstate = ending.sqlstate(),
            "asked"
        );
        let record = WriteRecord {
            named: write.name_for_record(),
            table,
            is_explained: false,
            ending,
        };
        self.service.record_write(&requester, record).await;
        is_writing.store(false, Ordering::Relaxed);
        written
    }

    /// Says how an INSERT would randomise values. None of them is read.
    pub(super) async fn explain_write(
        &mut self,
        write: &Write,
        arguments: usize,
        format: ExplainFormat,
    ) -> Result<Reply, Outcome> {
        let requester = self.requester();
        let explained = self.writer().and_then(|writer| {
            let plan = writer.plan(&requester, &write.target)?;
            let lines = writer.explain(&plan, (write, arguments), format)?;
            Ok((plan.table(), lines))
        });
        let ending = match &explained {
            Ok(_) => Ending::Succeeded,
            Err(refusal) => QuestionEnd::from(refusal).ending,
        };
        tracing::info!(
            role = self.role,
            kind = "explain",
            sqlstate = ending.sqlstate(),
            "asked"
        );
        let record = WriteRecord {
            named: write.name_for_record(),
            table: explained.as_ref().ok().map(|(table, _)| table.clone()),
            is_explained: true,
            ending,
        };
        self.service.record_write(&requester, record).await;
        let (_, lines) = explained?;
        let rows = lines.into_iter().map(|line| vec![line]).collect();
        Ok(Reply::texts("EXPLAIN", vec![explain_column(format)], rows))
    }

    async fn write_rows(
        &mut self,
        by: By<'_>,
        write: &Write,
        values: (&[u32], &[Argument]),
        table: &mut Option<String>,
    ) -> Result<Reply, Outcome> {
        let (requester, writer) = by;
        self.entry.run();
        let plan = writer.plan(requester, &write.target)?;
        *table = Some(plan.table());
        let mut stop = self.write_stop(writer);
        match &write.rows {
            WrittenRows::Values(_) => {
                let rows = writer.rows(&plan, write, values, &self.share);
                let rows = stop.watching(&mut self.channel, rows).await??;
                let lease = self.lease(by, Use::Rows, &mut stop).await?;
                self.insert(lease, rows, &mut stop).await
            }
            WrittenRows::Stream(format) => {
                let mut lease = self.lease(by, Use::Stream, &mut stop).await?;
                let way = (&**writer, &plan);
                let copied = self.copy_in(&mut lease, way, format, &mut stop).await;
                if stop.has_stopped() {
                    // The rows may be on their way still. Nothing of them is committed.
                    lease.cancel().await;
                }
                let copied = self.end_copy(lease, copied).await?;
                Ok(Reply::done(format!("COPY {copied}")))
            }
        }
    }

    /// What stops a statement that writes: a request of the client, the time, or the end of the
    /// session or of the server.
    fn write_stop(&self, writer: &TableWriter) -> WriteStop {
        let chosen = self.settings.duration("statement_timeout");
        let limit = chosen.map_or(writer.timeout(), |chosen| chosen.min(writer.timeout()));
        let session = SessionEnd {
            by_operator: self.entry.end_token(),
            shutdown: self.shutdown.clone(),
            drain: self.drain,
        };
        WriteStop::new(self.key.run(), Instant::now() + limit, session)
    }

    /// Runs an INSERT in a separate task, which ends by itself where this session does.
    async fn insert(
        &mut self,
        mut lease: Box<WriterLease>,
        rows: SentRows,
        stop: &mut WriteStop,
    ) -> Result<Reply, Outcome> {
        let in_transaction = lease.is_open();
        let given_up = CancellationToken::new();
        // Dropped with this future, too.
        let give_up = given_up.clone().drop_guard();
        let counted = (self.place.clone(), self.answers.clone());
        let mut task = tokio::spawn(async move {
            let inserted = lease.insert(&rows, given_up.cancelled()).await;
            drop((rows, counted));
            // Where nobody waits for it, the connection is closed, which ends its transaction.
            (lease, inserted)
        });
        let (returned, stopped) = match stop.watching(&mut self.channel, &mut task).await {
            Ok(returned) => (returned, None),
            // What is recorded is what became of the rows, also where nobody waits for them.
            Err(outcome) => {
                drop(give_up);
                (task.await, Some(outcome))
            }
        };
        let (lease, inserted) = match returned {
            Ok(returned) => returned,
            Err(panicked) => {
                if in_transaction {
                    self.pinned = Pinned::Lost;
                }
                return Err(stopped.unwrap_or_else(|| panic_refusal(&panicked).into()));
            }
        };
        // What its transaction wrote is gone with a lease that was cancelled.
        let is_undone = in_transaction && lease.is_lost();
        self.give_back(lease, inserted.is_ok());
        match (inserted, stopped) {
            (Ok(_), Some(outcome)) if is_undone => Err(outcome),
            (Ok(rows), _) => Ok(Reply::done(format!("INSERT 0 {rows}"))),
            // Whether they were written is not known.
            (Err(refusal), Some(_)) if refusal.sqlstate == "08007" => Err(refusal.into()),
            (Err(_), Some(outcome)) => Err(outcome),
            (Err(refusal), None) => Err(refusal.into()),
        }
    }

    /// A connection for the next write, with the transaction that the session is in.
    async fn lease(
        &mut self,
        (requester, writer): By<'_>,
        for_what: Use,
        stop: &mut WriteStop,
    ) -> Result<Box<WriterLease>, Outcome> {
        if self.settings.show("transaction_read_only")?.1 == "on" {
            let message = "cannot write in a read-only transaction";
            return Err(Refusal::of_postgres("25006", message).into());
        }
        let mut lease = match std::mem::replace(&mut self.pinned, Pinned::None) {
            Pinned::Open(lease) => lease,
            Pinned::Lost => {
                self.pinned = Pinned::Lost;
                return Err(refuse_lost().into());
            }
            Pinned::None => {
                let lease = writer.lease(&requester.role);
                Box::new(stop.watching(&mut self.channel, lease).await??)
            }
        };
        let is_alone = match self.transaction.status() {
            // Rows of a COPY are committed once all of them were taken.
            Status::Idle => for_what == Use::Rows,
            // What the client asks for next ends the implicit transaction. Amid a COPY, Sync does
            // not: other statements may follow the rows.
            Status::Pipeline => for_what == Use::Rows && self.channel.is_sync_next(),
            Status::Implicit | Status::Open | Status::Failed => false,
        };
        let modes = TransactionModes {
            isolation: self.settings.show("transaction_isolation")?.1,
            savepoints: self.transaction.depth(),
        };
        let was_open = lease.is_open();
        let prepared = async {
            lease.read_as(requester).await?;
            match was_open || is_alone {
                true => Ok(()),
                false => lease.begin(&modes).await,
            }
        };
        let prepared = stop.watching(&mut self.channel, prepared).await;
        match prepared.and_then(|prepared: Result<(), Refusal>| Ok(prepared?)) {
            Ok(()) => Ok(lease),
            Err(outcome) => {
                if was_open {
                    self.give_back(lease, false);
                }
                Err(outcome)
            }
        }
    }

    /// Keeps a connection with an open transaction for the session, and others for all.
    fn give_back(&mut self, lease: Box<WriterLease>, is_whole: bool) {
        match (lease.is_open(), lease.is_lost()) {
            (true, true) => self.pinned = Pinned::Lost,
            (true, false) => self.pinned = Pinned::Open(lease),
            (false, _) if is_whole => lease.keep(),
            (false, _) => {}
        }
    }

    /// Reads the rows of a COPY, up to their end; how many there are.
    async fn copy_in(
        &mut self,
        lease: &mut WriterLease,
        (writer, plan): (&TableWriter, &WritePlan<'_>),
        format: &CopyFormat,
        stop: &mut WriteStop,
    ) -> Result<u64, Outcome> {
        let silence = self.write_limits.silence;
        let began = lease.copy(plan);
        let mut sink = stop.watching(&mut self.channel, began).await??;
        let columns = i16::try_from(plan.width()).unwrap_or(i16::MAX);
        let formats = vec![0; plan.width()];
        self.channel.send(&CopyInResponse::new(0, columns, formats));
        stop.until(self.channel.flush()).await??;
        let mut rows = CopyRows::new(format, &self.share);
        loop {
            let frame = self.channel.frame_within(FRAME_BYTES_MAX, &self.share);
            let frame = stop.until(tokio::time::timeout(silence, frame)).await?;
            let frame = frame.map_err(|_| Outcome::Fatal(idle_in_transaction()))??;
            match frame.kind {
                b'd' => {
                    rows.add(&frame.body, false)?;
                    let sent = send_rows(&mut rows, (writer, plan), &mut sink);
                    stop.watching(&mut self.channel, sent).await??;
                }
                b'c' => break,
                b'f' => {
                    let message = "COPY from stdin failed";
                    return Err(Refusal::new(reason::STATEMENT_CANCELLED, message).into());
                }
                b'H' | b'S' => {}
                b'X' => return Err(Outcome::Closed),
                other => {
                    let message = format!("unexpected message type {other} during COPY");
                    return Err(Outcome::protocol(message));
                }
            }
        }
        rows.add(&[], true)?;
        let sent = async {
            send_rows(&mut rows, (writer, plan), &mut sink).await?;
            sink.finish().await
        };
        // The client said that this is all, and need not stay.
        Ok(stop.until(sent).await??)
    }

    /// The end of a COPY: outside of a transaction of the session it is committed here. Where that
    /// fails, the connection is closed, which rolls back.
    async fn end_copy(
        &mut self,
        mut lease: Box<WriterLease>,
        copied: Result<u64, Outcome>,
    ) -> Result<u64, Outcome> {
        if self.transaction.status() != Status::Idle {
            self.give_back(lease, copied.is_ok());
            return copied;
        }
        let rows = copied?;
        lease.end(true).await?;
        self.give_back(lease, true);
        Ok(rows)
    }

    /// A statement about the session, and what it does to the transaction that writes.
    pub(super) async fn session_statement(
        &mut self,
        statement: &SessionStatement,
    ) -> Result<Reply, Outcome> {
        use SessionStatement as Of;
        match statement {
            Of::Commit { chain } => {
                if *chain {
                    self.transaction.require_block("COMMIT AND CHAIN")?;
                }
                let commits = self.transaction.status() != Status::Failed;
                if let Err(refusal) = self.end_writes(commits).await {
                    let _ = self.session(&Of::Rollback { chain: false });
                    return Err(refusal.into());
                }
            }
            Of::Rollback { chain } => {
                if *chain {
                    self.transaction.require_block("ROLLBACK AND CHAIN")?;
                }
                // A connection that cannot roll back is dropped, which rolls back.
                let _ = self.end_writes(false).await;
            }
            _ => {}
        }
        let reply = self.session(statement)?;
        let depth = self.transaction.depth();
        match statement {
            Of::Savepoint { .. } => self.at_savepoint("SAVEPOINT", depth).await?,
            Of::Release { .. } => self.at_savepoint("RELEASE SAVEPOINT", depth + 1).await?,
            Of::RollbackTo { .. } => self.at_savepoint("ROLLBACK TO SAVEPOINT", depth).await?,
            _ => {}
        }
        Ok(reply)
    }

    async fn at_savepoint(&mut self, command: &str, depth: usize) -> Result<(), Refusal> {
        match &mut self.pinned {
            Pinned::None => Ok(()),
            Pinned::Open(lease) => lease.at_savepoint(command, depth).await,
            Pinned::Lost => Err(refuse_lost()),
        }
    }

    /// Ends the transaction that writes, where there is one.
    async fn end_writes(&mut self, commits: bool) -> Result<(), Refusal> {
        match std::mem::replace(&mut self.pinned, Pinned::None) {
            Pinned::None => Ok(()),
            Pinned::Lost if commits => Err(refuse_lost()),
            Pinned::Lost => Ok(()),
            Pinned::Open(mut lease) => {
                let ended = lease.end(commits).await;
                if ended.is_ok() {
                    lease.keep();
                }
                ended
            }
        }
    }

    /// Ends a transaction that no BEGIN began, as its string or its pipeline ends.
    pub(super) async fn settle_writes(&mut self) {
        let ended = match self.transaction.status() {
            Status::Open | Status::Failed => return,
            // It failed, and was rolled back.
            Status::Idle => self.end_writes(false).await.or(Ok(())),
            Status::Implicit | Status::Pipeline => self.end_writes(true).await,
        };
        if let Err(refusal) = ended {
            self.refuse(&refusal);
        }
    }
}

/// Sends the rows that are whole, a slice at a time. After each slice of work, what stops a COPY
/// acts, and other clients are served.
async fn send_rows(
    rows: &mut CopyRows,
    (writer, plan): (&TableWriter, &WritePlan<'_>),
    sink: &mut CopySink,
) -> Result<(), Refusal> {
    while let Some(sent) = rows.take(writer, plan)? {
        sink.send(sent).await?;
        if rows.wants_pause() {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Who writes, and the tables for it.
type By<'a> = (&'a Requester, &'a Arc<TableWriter>);

/// What a connection is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Rows,
    Stream,
}

/// 25P02
fn refuse_lost() -> Refusal {
    Refusal::new(
        reason::TRANSACTION_ABORTED,
        "the transaction's connection to the database is lost, and what it wrote is rolled back",
    )
    .hint("ROLLBACK, and begin again.")
}
