//! Statements that write rows, and the transactions that they belong to.
//!
//! The first write of a transaction takes a connection of the login that writes, and keeps it to
//! the transaction's end. A transaction that only asks needs none.

use std::sync::Arc;
use std::time::Duration;

use pgwire::messages::copy::CopyInResponse;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, FRAME_BYTES_MAX};
use super::outcome::Outcome;
use super::pinned::{Pinned, WriteLimits, idle_while_writing};
use super::portal::Reply;
use super::transaction::Status;
use crate::engine::{
    Argument, CopyRows, CopySink, QuestionEnd, Requester, Service, TableWriter, TransactionModes,
    WritePlan, WriteRecord, WriterLease,
};
use crate::error::Error;
use crate::parse::{CopyFormat, SessionStatement, Write, WrittenRows};
use crate::refusal::{Ending, Refusal, reason};

impl<S: Service> Connection<S> {
    /// How long a client may be silent that holds one of the connections for writing.
    pub(super) fn patience_of_writes(&self) -> Option<Duration> {
        let WriteLimits { silence, age } = self.write_limits;
        match self.pinned {
            Pinned::Open(ref lease) => Some(silence.min(age.saturating_sub(lease.age()))),
            Pinned::None | Pinned::Lost => None,
        }
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
        let mut table = None;
        let written = match &write.rows {
            WrittenRows::Values(_) => {
                let values = (parameters, arguments);
                self.insert(&requester, write, values, &mut table).await
            }
            WrittenRows::Stream(format) => {
                self.copy_in(&requester, write, format, &mut table).await
            }
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
            ending,
        };
        self.service.record_write(&requester, record).await;
        written
    }

    async fn insert(
        &mut self,
        requester: &Requester,
        write: &Write,
        values: (&[u32], &[Argument]),
        table: &mut Option<String>,
    ) -> Result<Reply, Outcome> {
        let writer = self.writer()?;
        let (sql, sent, _held) = {
            let plan = writer.plan(requester, &write.target)?;
            *table = Some(plan.table());
            let rows = match &write.rows {
                WrittenRows::Values(rows) => rows.len(),
                WrittenRows::Stream(_) => 0,
            };
            let held = self.share.hold(rows * plan.weight_of_row())?;
            let running = self.key.run();
            let stopped = self.end_of_write(&writer, running.token.clone());
            let sent = tokio::select! {
                sent = writer.rows(&plan, write, values) => sent?,
                outcome = stopped => return Err(outcome),
            };
            (plan.insert_sql(&sent), sent, held)
        };
        let lease = self.lease(&writer, requester, Use::Rows).await?;
        let in_transaction = lease.is_open();
        let given_up = CancellationToken::new();
        let ended = given_up.clone();
        let (back, returned) = oneshot::channel();
        let run = self.wait(move |_, token| async move {
            let mut lease = lease;
            let cancelled = async {
                tokio::select! {
                    () = token.cancelled() => {}
                    () = ended.cancelled() => {}
                }
            };
            let inserted = lease.insert(&sql, &sent, cancelled).await;
            // Nobody waits for it: the connection is closed, which ends its transaction.
            let _ = back.send((lease, inserted));
            Ok::<_, Error>(())
        });
        let waited = run.await;
        if waited.is_err() {
            given_up.cancel();
        }
        // What the client hears is what became of the rows, also where it waited too long.
        let inserted = match &waited {
            Ok(()) | Err(Outcome::Refused(_)) => returned.await.ok(),
            Err(Outcome::Fatal(_) | Outcome::Closed) => None,
        };
        let Some((lease, inserted)) = inserted else {
            if in_transaction {
                self.pinned = Pinned::Lost;
            }
            waited?;
            return Err(refuse_lost().into());
        };
        self.give_back(lease, inserted.is_ok());
        match (inserted, waited) {
            (Ok(rows), _) => Ok(Reply::done(format!("INSERT 0 {rows}"))),
            (Err(_), Err(outcome)) => Err(outcome),
            (Err(refusal), Ok(())) => Err(refusal.into()),
        }
    }

    /// A connection for the next write, with the transaction that the session is in.
    async fn lease(
        &mut self,
        writer: &Arc<TableWriter>,
        requester: &Requester,
        for_what: Use,
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
            Pinned::None => Box::new(writer.lease(&requester.role).await?),
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
        match prepared.await {
            Ok(()) => Ok(lease),
            Err(refusal) => {
                if was_open {
                    self.give_back(lease, false);
                }
                Err(refusal.into())
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

    /// Reads the rows of a COPY, up to their end.
    async fn copy_in(
        &mut self,
        requester: &Requester,
        write: &Write,
        format: &CopyFormat,
        table: &mut Option<String>,
    ) -> Result<Reply, Outcome> {
        let writer = self.writer()?;
        let plan = writer.plan(requester, &write.target)?;
        *table = Some(plan.table());
        let mut lease = self.lease(&writer, requester, Use::Stream).await?;
        let running = self.key.run();
        let stopped = self.end_of_write(&writer, running.token.clone());
        let silence = self.write_limits.silence;
        let copied = async {
            let mut sink = lease.copy(&plan).await?;
            let columns = i16::try_from(plan.width()).unwrap_or(i16::MAX);
            let formats = vec![0; plan.width()];
            self.channel.send(&CopyInResponse::new(0, columns, formats));
            self.channel.flush().await?;
            let mut rows = CopyRows::new(format);
            loop {
                let frame = self.channel.frame_within(FRAME_BYTES_MAX, &self.share);
                let frame = tokio::time::timeout(silence, frame).await;
                let frame = frame.map_err(|_| Outcome::Fatal(idle_while_writing()))??;
                match frame.kind {
                    b'd' => {
                        rows.add(&frame.body, false);
                        send_rows(&mut rows, (&writer, &plan), &mut sink).await?;
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
            rows.add(&[], true);
            send_rows(&mut rows, (&writer, &plan), &mut sink).await?;
            Ok::<u64, Outcome>(sink.finish().await?)
        };
        let mut is_stopped = false;
        let copied = tokio::select! {
            copied = Box::pin(copied) => copied,
            outcome = stopped => {
                is_stopped = true;
                Err(outcome)
            }
        };
        drop(running);
        if is_stopped {
            // The rows may be on their way still. Nothing of them is committed.
            lease.cancel().await;
        }
        let copied = self.end_copy(lease, copied).await?;
        Ok(Reply::done(format!("COPY {copied}")))
    }

    /// Ends with what stops a statement that writes: a request of the client, the time, or the
    /// server's end.
    fn end_of_write(
        &self,
        writer: &TableWriter,
        token: CancellationToken,
    ) -> impl Future<Output = Outcome> + use<S> {
        let chosen = self.settings.duration("statement_timeout");
        let limit = chosen.map_or(writer.timeout(), |chosen| chosen.min(writer.timeout()));
        let deadline = Instant::now() + limit;
        let (shutdown, drain) = (self.shutdown.clone(), self.drain);
        let cancelled = |message: &str| -> Outcome {
            Refusal::new(reason::STATEMENT_CANCELLED, message).into()
        };
        async move {
            tokio::select! {
                () = token.cancelled() => cancelled("canceling statement due to user request"),
                () = tokio::time::sleep_until(deadline) => {
                    cancelled("canceling statement due to statement timeout")
                }
                () = async {
                    shutdown.cancelled().await;
                    tokio::time::sleep(drain).await;
                } => Outcome::shutdown(),
            }
        }
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

/// Sends the rows that are whole, a slice at a time. Between two, what stops a COPY acts, and other
/// clients are served.
async fn send_rows(
    rows: &mut CopyRows,
    (writer, plan): (&TableWriter, &WritePlan<'_>),
    sink: &mut CopySink,
) -> Result<(), Refusal> {
    while let Some(sent) = rows.take(writer, plan)? {
        sink.send(sent).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

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
