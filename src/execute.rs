//! Stage 5: Plan + Charge → [`Sealed`] rows, in one read-only snapshot with pinned settings and a
//! timeout.

pub mod fold;
mod list;
mod pool;
mod sealed;
mod stream;

use std::future::Future;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use list::List;
pub use pool::Backend;
pub use sealed::Sealed;

use crate::catalog::Content;
use crate::ir::ReleaseId;
use crate::ledger::{Charge, Fingerprint};
use crate::postgres::{ErrorClass, qualify};
use crate::rewrite::{
    DebitDigest, EmittedStatement, PlanDigest, ReleasePlan, TableVersion, UnpaidPart,
};

/// The ledger's name for the object of a debit.
impl From<DebitDigest> for Fingerprint {
    fn from(digest: DebitDigest) -> Self {
        Self::new(*digest.as_bytes())
    }
}

/// The name that the ledger's record has for a plan.
impl From<PlanDigest> for Fingerprint {
    fn from(digest: PlanDigest) -> Self {
        Self::new(*digest.as_bytes())
    }
}

/// Time limit for statements that read no table of the plan, at the beginning and the end. The
/// server's own limits are shorter; this one applies if the server hangs or the network is gone.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a plan did not run to its end. Text of the backend stays in here, for the operator's log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table's definition differs from the plan's; nothing private was read.
    #[error("the definition of {0} has changed since the policy was loaded")]
    Stale(String),
    #[error("cancelled")]
    Cancelled,
    /// Another session holds a lock on one of the plan's tables for too long; nothing private was
    /// read.
    #[error("a table of the plan is locked")]
    Locked,
    /// The transaction ended before its statement did: a standby's recovery stopped it, or the
    /// connection was lost. Nothing was released of what it read.
    #[error("the transaction was interrupted")]
    Interrupted,
    /// The backend failed; the SQLSTATE alone, since its text may quote rows.
    #[error("the backing database failed: {0}")]
    Backend(String),
}

/// The rows of one release: keys, then coordinates, all as text.
pub type TextRows = Vec<Vec<Option<String>>>;

/// An open snapshot in which the plan's tables are locked against change and match what the plan
/// relied on.
pub struct Snapshot {
    /// `None` if the plan reads no data.
    lease: Option<pool::DatabaseLease>,
    /// The role's share of the database connections.
    _share: Option<OwnedSemaphorePermit>,
    config: tokio_postgres::Config,
    timeout: Duration,
}

impl Backend {
    /// Opens the snapshot of a part of a plan, for this role. Reads the catalog alone.
    ///
    /// # Errors
    /// [`Error::Stale`] where a table's definition differs, [`Error::Locked`] where it stays
    /// locked, [`Error::Cancelled`], [`Error::Interrupted`] and [`Error::Backend`] where the
    /// database cannot be reached.
    pub async fn snapshot(
        &self,
        part: &UnpaidPart<'_>,
        role: &str,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<Snapshot, Error> {
        let config = self.config().clone();
        if part.releases().next().is_none() {
            return Ok(Snapshot {
                lease: None,
                _share: None,
                config,
                timeout,
            });
        }
        let share = tokio::select! {
            share = self.share(role) => share,
            () = cancel.cancelled() => return Err(Error::Cancelled),
        };
        let mut snapshot = Snapshot {
            lease: None,
            _share: share,
            config,
            timeout,
        };
        let mut may_retry = true;
        loop {
            let lease = tokio::select! {
                lease = self.lease() => lease.map_err(Error::Backend)?,
                () = cancel.cancelled() => return Err(Error::Cancelled),
            };
            let was_idle = lease.was_idle;
            snapshot.lease = Some(lease);
            let pinned = tokio::select! {
                pinned = tokio::time::timeout(PATIENCE, snapshot.pin(part)) => {
                    pinned.unwrap_or_else(|_| Err(silent().into()))
                }
                () = cancel.cancelled() => {
                    snapshot.stop().await;
                    return Err(Error::Cancelled);
                }
            };
            match pinned {
                // A connection that broke while idle says nothing about the database, so a new
                // connection is tried. An error that the database reported would occur again.
                Err(Unpinned { is_lost: true, .. }) if was_idle => {
                    // Returns its slot first: holding one slot while waiting for another could
                    // deadlock.
                    snapshot.lease = None;
                    self.forget_idle();
                }
                Err(Unpinned {
                    error: Error::Interrupted,
                    ..
                }) if std::mem::take(&mut may_retry) => snapshot.lease = None,
                pinned => return pinned.map(|()| snapshot).map_err(|unpinned| unpinned.error),
            }
        }
    }
}

impl Snapshot {
    fn lease(&self) -> Result<&pool::DatabaseLease, Error> {
        self.lease
            .as_ref()
            .ok_or_else(|| Error::Backend("no connection was opened".to_owned()))
    }

    fn client(&self) -> Result<&tokio_postgres::Client, Error> {
        self.lease().map(pool::DatabaseLease::client)
    }

    /// Opens the transaction, locks the tables against change and compares them with the state that
    /// the plan relied on.
    async fn pin(&self, part: &UnpaidPart<'_>) -> Result<(), Unpinned> {
        let lease = self.lease()?;
        let mut tables: Vec<&TableVersion> =
            part.releases().flat_map(ReleasePlan::relied_on).collect();
        tables.sort();
        tables.dedup();
        let lock = |table: &&TableVersion| {
            format!(
                "LOCK TABLE ONLY {} IN ACCESS SHARE MODE",
                qualify(&table.schema, &table.name)
            )
        };
        let shown = |table: &TableVersion| format!("{}.{}", table.schema, table.name);
        let locks: Vec<String> = tables.iter().map(lock).collect();
        let oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
        let (pinned, current) = lease.pin(&locks.join("; "), &oids).await;
        pinned.map_err(|e| match e.code() {
            // The smaller of lock_timeout and statement_timeout.
            Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::QUERY_CANCELED) => Error::Locked.into(),
            Some(&SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME) => Error::Stale(
                tables
                    .iter()
                    .map(|table| shown(table))
                    .collect::<Vec<_>>()
                    .join(" or "),
            )
            .into(),
            _ => Unpinned::from(&e),
        })?;
        let current = current.map_err(|e| Unpinned::read(&e))?;
        for table in &tables {
            if current.get(&table.oid) != Some(&table.fingerprint) {
                return Err(Error::Stale(shown(table)).into());
            }
        }
        Ok(())
    }

    /// Opens the snapshot once more, after an error that ended its transaction.
    ///
    /// # Errors
    /// As [`Backend::snapshot`].
    pub async fn reopen(
        &mut self,
        backend: &Backend,
        part: &UnpaidPart<'_>,
        role: &str,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        // Returns its slots first: holding some while waiting for others could deadlock.
        (self.lease, self._share) = (None, None);
        *self = backend.snapshot(part, role, self.timeout, cancel).await?;
        Ok(())
    }

    /// For each of these public tables, whether its rows differ from this digest.
    ///
    /// # Errors
    /// [`Error::Backend`].
    pub async fn which_changed(&self, contents: &[&Content]) -> Result<Vec<bool>, Error> {
        let Some(lease) = &self.lease else {
            return Ok(vec![false; contents.len()]);
        };
        patiently(async {
            pool::which_changed(lease.client(), contents)
                .await
                .map_err(|e| backend(&e))
        })
        .await
    }

    /// Whether the server is a standby, which may be behind what another server has shown.
    ///
    /// # Errors
    /// [`Error::Backend`].
    pub async fn is_of_standby(&self) -> Result<bool, Error> {
        let Some(lease) = &self.lease else {
            return Ok(false);
        };
        patiently(async {
            let asked = lease.client().simple_query("SELECT pg_is_in_recovery()");
            let messages = asked.await.map_err(|e| backend(&e))?;
            let shown = messages.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            Ok(shown != Some("f"))
        })
        .await
    }

    /// Runs the statements of one release with its constants: an array of texts for each parameter.
    ///
    /// # Requires
    /// `paid` covers the part: it was made durable before this call.
    ///
    /// # Errors
    /// [`Error::Cancelled`], [`Error::Interrupted`], [`Error::Backend`]; the charge stands.
    pub async fn run(
        &self,
        part: &UnpaidPart<'_>,
        release: ReleaseId,
        constants: &[Vec<Option<String>>],
        paid: &Charge,
        cancel: &CancellationToken,
    ) -> Result<Sealed<Vec<TextRows>>, Error> {
        assert!(
            paid.covers(&part.digest().into()),
            "a plan runs under its own charge only"
        );
        if !part.contains(release) {
            return Err(Error::Backend(
                "a statement that was not paid for".to_owned(),
            ));
        }
        // Also overwritten if a later statement fails.
        let mut all = Zeroizing::new(Vec::new());
        for statement in part.plan().release(release).statements() {
            all.push(self.statement(statement, constants, cancel).await?);
        }
        Ok(Sealed::new(std::mem::take(&mut *all)))
    }

    async fn statement(
        &self,
        statement: &EmittedStatement,
        constants: &[Vec<Option<String>>],
        cancel: &CancellationToken,
    ) -> Result<TextRows, Error> {
        let client = self.client()?;
        // An engine without statement_timeout is abandoned a little later.
        let limit = self.timeout + Duration::from_secs(5);
        let rows = self.rows(client, statement, constants);
        let answered = tokio::select! {
            answered = tokio::time::timeout(limit, rows) => answered,
            () = cancel.cancelled() => {
                self.stop().await;
                return Err(Error::Cancelled);
            }
        };
        match answered {
            Ok(rows) => rows,
            Err(_) => {
                self.stop().await;
                Err(Error::Backend("statement timeout".to_owned()))
            }
        }
    }

    /// A stream's, if there is one. Workers of a cluster add up rows where these are. The policy's
    /// time limit is sent with the statement: the catalog was read under another one.
    async fn rows(
        &self,
        client: &tokio_postgres::Client,
        statement: &EmittedStatement,
        constants: &[Vec<Option<String>>],
    ) -> Result<TextRows, Error> {
        let lease = self.lease()?;
        let allowed = lease.allow(self.timeout);
        let whole = rows(client, statement, constants);
        let (allowed, read) = match statement.stream() {
            _ if lease.is_citus() => {
                allowed.await.map_err(|e| backend(&e))?;
                return whole.await.map_err(|e| backend(&e));
            }
            Some(stream) => {
                tokio::join!(biased; allowed, stream::rows(client, stream, constants))
            }
            None => {
                let (allowed, whole) = tokio::join!(biased; allowed, whole);
                (allowed, whole.map_err(|e| backend(&e)))
            }
        };
        allowed.map_err(|e| backend(&e))?;
        read
    }

    /// Ends the transaction, and keeps the connection if it ended well. A transaction that only
    /// read has done its work by then, so an end that fails is no error.
    pub async fn close(self) {
        let Some(lease) = self.lease else { return };
        let commit = lease.client().batch_execute("COMMIT");
        if let Ok(Ok(())) = tokio::time::timeout(PATIENCE, commit).await {
            lease.keep();
        }
    }

    /// Asks the server to stop what this connection runs. The connection is not used again.
    async fn stop(&self) {
        if let Ok(client) = self.client()
            && crate::postgres::cancel(&self.config, client).await.is_err()
        {
            tracing::warn!("a cancelled statement could not be stopped on the backend");
        }
    }
}

async fn patiently<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| Err(silent()))
}

fn silent() -> Error {
    Error::Backend("no answer in time".to_owned())
}

/// Why a snapshot was not opened, and whether the connection broke rather than the database
/// reporting an error.
struct Unpinned {
    error: Error,
    is_lost: bool,
}

impl From<Error> for Unpinned {
    fn from(error: Error) -> Self {
        let is_lost = matches!(error, Error::Interrupted | Error::Backend(_));
        Self { error, is_lost }
    }
}

impl Unpinned {
    /// The error of a read of the catalog.
    fn read(error: &crate::catalog::Error) -> Self {
        match error {
            crate::catalog::Error::Backend(error) => Self::from(error),
            crate::catalog::Error::TooOld(_) => Self {
                error: Error::Backend(error.to_string()),
                is_lost: false,
            },
        }
    }
}

impl From<&tokio_postgres::Error> for Unpinned {
    fn from(error: &tokio_postgres::Error) -> Self {
        // 26000: a connection pooler switched to a different server session.
        let ends = |code: &SqlState| {
            ErrorClass::of(code) == ErrorClass::SessionEnds
                || *code == SqlState::INVALID_SQL_STATEMENT_NAME
        };
        Self {
            error: backend(error),
            is_lost: error.code().is_none_or(ends),
        }
    }
}

/// Every column of a release's statement is text.
async fn rows(
    client: &tokio_postgres::Client,
    statement: &EmittedStatement,
    constants: &[Vec<Option<String>>],
) -> Result<TextRows, tokio_postgres::Error> {
    let mut rows = Vec::new();
    if constants.is_empty() {
        for message in client.simple_query(statement.sql()).await? {
            if let SimpleQueryMessage::Row(row) = message {
                rows.push(
                    (0..row.len())
                        .map(|i| row.get(i).map(str::to_owned))
                        .collect(),
                );
            }
        }
        return Ok(rows);
    }
    let lists: Vec<List> = constants.iter().map(|values| List(values)).collect();
    let parameters = list::parameters(statement, &lists);
    for row in client.query_typed(statement.sql(), &parameters).await? {
        rows.push(
            (0..row.len())
                .map(|i| row.try_get(i))
                .collect::<Result<_, _>>()?,
        );
    }
    Ok(rows)
}

fn backend(error: &tokio_postgres::Error) -> Error {
    Error::Backend(match error.code() {
        // In a transaction that only reads, nothing but a conflict with recovery is reported so.
        Some(&SqlState::T_R_SERIALIZATION_FAILURE) => return Error::Interrupted,
        Some(code) => format!("SQLSTATE {}", code.code()),
        // Where the connection is idle when its transaction is in the way, it is closed, and the
        // code that the server sent is not seen.
        None if error.is_closed() => return Error::Interrupted,
        None => "connection failed".to_owned(),
    })
}
