//! The second PostgreSQL: the schema that the policy shows, small public tables, no private row. It
//! types statements, prints parameters and runs the outer query. A hole here can reveal nothing
//! private.

mod arguments;
mod build;
mod check_named;
mod copy_public;
mod ddl;
mod equal_rows;
mod error;
mod exclusive_lock;
mod options;
mod pool;
mod request;
mod role;
mod rows;
mod schema_copy;
mod server_identity;
mod settings;
mod typing;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::policy::Policy;
use crate::postgres;
use crate::postgres::{FairPool, LocalPostgres, PoolUse, PostgresEngine, connect};
use crate::refusal::{Refusal, reason};
pub use arguments::fit_as_text;
pub use build::builtin;
pub use ddl::{Builtin, RowCondition, ShadowSchema, create_tables};
pub use request::{Argument, ColumnDescription, Description, Format, Requester};

pub use check_named::{ExaminedShadow, examine};
pub use copy_public::{CopiedTable, CopyListener, Copying};
pub use exclusive_lock::ShadowLock;
pub use rows::{BYTES_MAX, HeldRows, ROWS_MAX};

pub use options::{ShadowOptions, ShadowSource};
pub use schema_copy::copy_schema;
pub use server_identity::ServerIdentity;

/// Values that travel in one statement when text becomes binary; PostgreSQL takes 65,535 parameters
/// and 1,664 columns.
const VALUES_MAX: usize = 1_000;

/// Why the shadow did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ShadowError {
    /// An error of the statement, in PostgreSQL's words. It depends on the SQL and on released or
    /// public values only.
    #[error("{0}")]
    Refusal(Refusal),
    /// The connection broke, and the retry on a new one did too.
    #[error("the shadow database is out of reach: {0}")]
    Lost(String),
    /// Anything else that is not the statement's fault. The text holds no literal of a statement.
    #[error("the shadow database failed: {0}")]
    Failed(String),
    #[error("the shadow database: {0}")]
    Start(#[from] postgres::Error),
}

/// A throw-away server for a shadow in the C locale, started before the policy is known.
///
/// # Errors
/// As [`LocalPostgres::start`].
pub async fn server(database: &str) -> Result<LocalPostgres, postgres::Error> {
    let options = ShadowOptions::new(ShadowSource::Local, database, "");
    LocalPostgres::start(build::local_options(&options)).await
}

/// The lock of a named shadow: the previous engine's, or a new one.
async fn hold_of(
    options: &ShadowOptions,
    admin: &tokio_postgres::Config,
) -> Result<Option<Arc<ShadowLock>>, ShadowError> {
    match (&options.source, &options.hold) {
        (ShadowSource::Url(_), Some(hold)) => Ok(Some(Arc::clone(hold))),
        (ShadowSource::Url(_), None) => Ok(Some(Arc::new(ShadowLock::take(admin).await?))),
        (ShadowSource::Local | ShadowSource::LocalEngine(_) | ShadowSource::Started(_), _) => {
            Ok(None)
        }
    }
}

/// The shadow database with its pool of read-only sessions.
#[derive(Debug)]
pub struct Shadow {
    pool: pool::Pool,
    /// The pool's part for statements that may take long.
    shares: FairPool,
    /// A superuser or the owner: builds the schema and copies public tables.
    admin: tokio_postgres::Config,
    engine: PostgresEngine,
    tables: Vec<ddl::TableShape>,
    public_keys: Vec<String>,
    warnings: Vec<String>,
    sizes: HashMap<u32, i16>,
    cache: typing::TypeCache,
    /// Statements that were run, by their digests, with the columns that were expected of them.
    run_before: typing::TypeCache,
    roles: HashSet<String>,
    version: String,
    callable: HashSet<String>,
    statement_timeout: Duration,
    mirror_rows_max: u64,
    local: Option<Arc<LocalPostgres>>,
    /// The lock of a named shadow.
    hold: Option<Arc<ShadowLock>>,
}

impl Shadow {
    /// Starts or reaches the server and builds the policy's schema there. Public rows come by
    /// [`Self::copy_public`].
    pub async fn start(policy: &Policy, options: ShadowOptions) -> Result<Self, ShadowError> {
        let local = match &options.source {
            ShadowSource::Url(_) => None,
            ShadowSource::Local => Some(Arc::new(
                LocalPostgres::start(build::local_options(&options)).await?,
            )),
            ShadowSource::LocalEngine(engine) => Some(Arc::new(
                LocalPostgres::start_engine(*engine, build::local_options(&options)).await?,
            )),
            ShadowSource::Started(server) => Some(Arc::clone(server)),
        };
        let (admin, engine) = match (&local, &options.source) {
            (Some(local), _) => (local.config(), local.engine()),
            (None, ShadowSource::Url(url)) => (
                url.expose().parse().map_err(postgres::Error::from)?,
                PostgresEngine::Native,
            ),
            (
                None,
                ShadowSource::Local | ShadowSource::LocalEngine(_) | ShadowSource::Started(_),
            ) => {
                return Err(ShadowError::Failed("no local server".to_owned()));
            }
        };
        let hold = hold_of(&options, &admin).await?;
        let connected = connect(&admin).await?;
        let built = build::build(&connected.client, policy, &options).await?;
        connected.close().await;
        let is_private_server = local.is_some() && engine == PostgresEngine::Native;
        let login = if is_private_server {
            pool::Login::direct(&admin)
        } else {
            pool::Login::from_administrator(
                &admin,
                if local.is_none() && built.is_superuser {
                    role::OPTIONS
                } else {
                    ""
                },
            )
        };
        let size = if engine == PostgresEngine::Embedded {
            1
        } else {
            options.connections.max(1)
        };
        Ok(Self {
            pool: pool::Pool::new(login, engine, size),
            shares: FairPool::new(size),
            admin,
            engine,
            tables: built.tables,
            public_keys: built.public_keys,
            warnings: built.warnings,
            sizes: built.sizes,
            cache: typing::TypeCache::default(),
            run_before: typing::TypeCache::default(),
            roles: built.roles,
            version: built.version,
            callable: built.callable,
            statement_timeout: options.statement_timeout,
            mirror_rows_max: policy.limits.mirror_rows,
            local,
            hold,
        })
    }

    /// Warnings for the operator: columns left out, versions that differ, functions that could not
    /// be locked.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub fn engine(&self) -> PostgresEngine {
        self.engine
    }

    /// The result of `version()` here, with the real server's number.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Functions that a dotted name may call here and that read more than their argument: see
    /// [`crate::resolve::check_dotted`].
    pub fn callable(&self) -> &HashSet<String> {
        &self.callable
    }

    /// The role with the requester's name, where the shadow has it.
    fn own_role<'a>(&self, requester: &'a Requester) -> &'a str {
        if self.roles.contains(&requester.role) {
            &requester.role
        } else {
            role::ROLE
        }
    }

    /// Fills the public tables from the real database; a table of more rows than
    /// `limits.mirror_rows` stays empty and is reported.
    pub async fn copy_public(
        &self,
        source: &tokio_postgres::Client,
    ) -> Result<Vec<CopiedTable>, ShadowError> {
        self.copy_public_heard(source, &|_| ()).await
    }

    /// Like [`Self::copy_public`], with progress reports.
    pub async fn copy_public_heard(
        &self,
        source: &tokio_postgres::Client,
        heard: CopyListener<'_>,
    ) -> Result<Vec<CopiedTable>, ShadowError> {
        // An embedded engine serves one session: ours must be the only one.
        let exclusive = if self.engine == PostgresEngine::Embedded {
            Some(self.pool.exclusive().await?)
        } else {
            None
        };
        let mut admin = connect(&self.admin).await?;
        let copied = copy_public::copy_tables(
            source,
            &mut admin.client,
            &self.tables,
            &self.public_keys,
            self.mirror_rows_max,
            heard,
        )
        .await;
        admin.close().await;
        drop(exclusive);
        copied
    }

    /// Parameter and column types of one statement, or PostgreSQL's own error.
    pub async fn describe(
        &self,
        requester: &Requester,
        sql: &str,
        parameter_oids: &[u32],
    ) -> Result<Description, ShadowError> {
        self.describe_by(role::ROLE, requester, sql, parameter_oids)
            .await
    }

    /// Like [`Self::describe`], for a statement about the catalogs, which runs under the
    /// requester's own role.
    pub async fn describe_catalogs(
        &self,
        requester: &Requester,
        sql: &str,
        parameter_oids: &[u32],
    ) -> Result<Description, ShadowError> {
        self.describe_by(self.own_role(requester), requester, sql, parameter_oids)
            .await
    }

    async fn describe_by(
        &self,
        role: &str,
        requester: &Requester,
        sql: &str,
        parameter_oids: &[u32],
    ) -> Result<Description, ShadowError> {
        if let Some(oid) = parameter_oids
            .iter()
            .find(|oid| **oid != 0 && !self.sizes.contains_key(oid))
        {
            return Err(ShadowError::Refusal(Refusal::new(
                reason::UNKNOWN_TYPE,
                format!("type with OID {oid} does not exist"),
            )));
        }
        let preamble = settings::preamble(requester, self.statement_timeout)?;
        let key = typing::DescribeKey::new(&preamble, sql, parameter_oids);
        if let Some(description) = self.cache.find(&key) {
            return Ok(description);
        }
        let _share = self.shares.take(&requester.role).await;
        let mut attempts = pool::Attempts::default();
        loop {
            let lease = self.pool.lease(role, &preamble).await?;
            let describing = typing::describe(lease.client(), sql, parameter_oids, &self.sizes);
            let outcome = self.limit_time(describing).await;
            if let Some(outcome) = lease.settle(outcome, &mut attempts) {
                return outcome.inspect(|description| self.cache.keep(key, description));
            }
        }
    }

    /// Each bound parameter as PostgreSQL prints it under fixed settings (ISO dates, UTC). Two
    /// spellings of one value become one text, which reads back as the same value under any
    /// session's settings. Texts are *read* under the requester's settings. `None` is NULL.
    ///
    /// # Errors
    /// PostgreSQL's own; 54000 where the texts would be too long.
    pub async fn normalize_arguments(
        &self,
        requester: &Requester,
        oids: &[u32],
        arguments: &[Argument],
    ) -> Result<Vec<Option<String>>, ShadowError> {
        let reading = settings::preamble(requester, self.statement_timeout)?;
        let printing = settings::canonical(self.statement_timeout);
        let mut arguments = arguments.to_vec();
        let _share = self.shares.take(&requester.role).await;
        let mut attempts = pool::Attempts::default();
        while reading != printing
            && arguments
                .iter()
                .any(|a| a.format == Format::Text && a.value.is_some())
        {
            let lease = self.pool.lease(role::ROLE, &reading).await?;
            let reading = arguments::to_binary(lease.client(), oids, &arguments);
            let outcome = self.limit_time(reading).await;
            if let Some(outcome) = lease.settle(outcome, &mut attempts) {
                arguments = outcome?;
            }
        }
        loop {
            let lease = self.pool.lease(role::ROLE, &printing).await?;
            let printing = arguments::print(lease.client(), oids, &arguments);
            let outcome = self.limit_time(printing).await;
            if let Some(outcome) = lease.settle(outcome, &mut attempts) {
                return outcome;
            }
        }
    }

    /// Its sessions that are in use.
    pub fn in_use(&self) -> PoolUse {
        self.pool.in_use()
    }

    /// The lock on a named shadow.
    pub fn hold(&self) -> Option<Arc<ShadowLock>> {
        self.hold.clone()
    }

    /// Whether the server answers, and the shadow is still this proxy's. It counts as answering
    /// while all sessions are in use.
    pub async fn answers(&self) -> bool {
        if self.hold.as_ref().is_some_and(|hold| hold.is_lost()) {
            return false;
        }
        let PoolUse { used, size } = self.in_use();
        if used >= size {
            return true;
        }
        let mut attempts = pool::Attempts::default();
        loop {
            let Ok(lease) = self
                .pool
                .lease(role::ROLE, &settings::canonical(self.statement_timeout))
                .await
            else {
                return false;
            };
            let outcome = lease
                .client()
                .simple_query("SELECT 1")
                .await
                .map(drop)
                .map_err(ShadowError::from);
            if let Some(outcome) = lease.settle(outcome, &mut attempts) {
                return outcome.is_ok();
            }
        }
    }

    /// Rows of text, as [`Self::run`] printed them for this requester, in binary.
    pub async fn to_binary(
        &self,
        requester: &Requester,
        oids: &[u32],
        rows: Vec<Vec<Option<Bytes>>>,
    ) -> Result<Vec<Vec<Option<Bytes>>>, ShadowError> {
        let preamble = settings::preamble(requester, self.statement_timeout)?;
        let width = oids.len().max(1);
        let mut read = Vec::with_capacity(rows.len());
        for batch in rows.chunks((VALUES_MAX / width).max(1)) {
            let types: Vec<u32> = batch.iter().flat_map(|_| oids.iter().copied()).collect();
            let texts: Vec<Argument> = batch
                .iter()
                .flatten()
                .map(|value| Argument {
                    format: Format::Text,
                    value: value.clone(),
                })
                .collect();
            let mut attempts = pool::Attempts::default();
            let values = loop {
                let lease = self.pool.lease(role::ROLE, &preamble).await?;
                let reading = arguments::to_binary(lease.client(), &types, &texts);
                let outcome = self.limit_time(reading).await;
                if let Some(outcome) = lease.settle(outcome, &mut attempts) {
                    break outcome?;
                }
            };
            read.extend(values.chunks(width).map(|row| {
                row.iter()
                    .map(|value| value.value.clone())
                    .collect::<Vec<_>>()
            }));
        }
        Ok(read)
    }

    /// Runs one SELECT without parameters. `columns_expected` is the result of [`Self::describe`].
    /// `formats` is empty (all text), holds one format for all columns, or one for each.
    pub async fn run(
        &self,
        requester: &Requester,
        sql: &str,
        columns_expected: &Description,
        formats: &[Format],
    ) -> Result<HeldRows, ShadowError> {
        self.run_by(role::ROLE, requester, sql, columns_expected, formats)
            .await
    }

    /// Like [`Self::run`], for a statement about the catalogs; `columns_expected` is the result of
    /// [`Self::describe_catalogs`].
    pub async fn run_catalogs(
        &self,
        requester: &Requester,
        sql: &str,
        columns_expected: &Description,
        formats: &[Format],
    ) -> Result<HeldRows, ShadowError> {
        self.run_by(
            self.own_role(requester),
            requester,
            sql,
            columns_expected,
            formats,
        )
        .await
    }

    async fn run_by(
        &self,
        role: &str,
        requester: &Requester,
        sql: &str,
        columns_expected: &Description,
        formats: &[Format],
    ) -> Result<HeldRows, ShadowError> {
        let preamble = settings::preamble(requester, self.statement_timeout)?;
        // A statement that was described, or run before, was prepared, so it is one statement and
        // has these columns.
        let described = self
            .cache
            .find(&typing::DescribeKey::new(&preamble, sql, &[]));
        let key = typing::DescribeKey::of_digest((role, &preamble), sql);
        let is_known = [described, self.run_before.find(&key)]
            .into_iter()
            .flatten()
            .any(|known| known == *columns_expected);
        let is_text = formats.iter().all(|format| *format == Format::Text);
        let _share = self.shares.take(&requester.role).await;
        let mut attempts = pool::Attempts::default();
        loop {
            let lease = self.pool.lease(role, &preamble).await?;
            let outcome = if is_known && is_text {
                self.limit_time(rows::run_as_text(lease.client(), &requester.share, sql))
                    .await
            } else {
                let running = rows::run(
                    lease.client(),
                    &requester.share,
                    sql,
                    columns_expected,
                    formats,
                );
                self.limit_time(running).await
            };
            if let Some(outcome) = lease.settle(outcome, &mut attempts) {
                // A stored answer that is shown again is printed by the same statement.
                return outcome.inspect(|_| self.run_before.keep(key, columns_expected));
            }
        }
    }

    /// A server ends its statements by itself. One that hangs is left: the session is closed, and
    /// the statement is tried once more on another.
    async fn limit_time<T>(
        &self,
        work: impl Future<Output = Result<T, ShadowError>>,
    ) -> Result<T, ShadowError> {
        pool::within(self.statement_timeout + pool::GRACE, work).await
    }

    /// Closes the sessions and stops a local server.
    pub async fn stop(self) {
        let Self { pool, local, .. } = self;
        pool.close().await;
        if let Some(local) = local.and_then(Arc::into_inner) {
            local.stop().await;
        }
    }
}
