//! `pgveil demo` starts survey data with a proxy in front of it, and suggests questions. It leaves
//! no files behind.

mod guide;
mod load;
mod once;

use std::sync::Arc;
use std::time::Instant;

use tokio_postgres::Config;
use tokio_util::sync::CancellationToken;

use super::arguments::DemoOptions;
use super::progress::Step;
use super::start;
use super::start::Started;
use super::{Failure, serve, signal, tls};
use crate::policy::{File, Secret};
use crate::postgres::{Directory, Engine, LocalPostgres, Options, connect};
use crate::shadow::ShadowSource;
use crate::wire;

pub use guide::QUESTIONS;

const POLICY: &str = include_str!("../../../policies/demo.yaml");
/// The client's role, which is also its password.
const ANALYST: &str = "analyst";
const DATABASE: &str = "nls";
/// The role with which the proxy reads. It may only SELECT from the demo's tables.
const READER: &str = "pgveil_reader";

pub(super) async fn run(options: DemoOptions) -> Result<(), Failure> {
    let token = signal::token()?;
    let demo = signal::unless(
        &token,
        Demo::start(options.database.as_ref().map(Secret::expose)),
    );
    match &options.once {
        Some(sql) => {
            let demo = demo.await?;
            let outcome = signal::unless(&token, once::answer(&demo.started.engine, sql)).await;
            demo.stop().await;
            outcome
        }
        None => {
            let listener = serve::listen(options.listen).await?;
            let demo = demo.await?;
            let address = listener.local_addr().map_err(Failure::new)?;
            let tls = tls::self_signed()?;
            guide::print(address, &demo.database, demo.is_throw_away());
            let served =
                wire::serve(listener, Some(tls), Arc::clone(&demo.started.engine), token).await;
            eprintln!("\nStopping.");
            demo.stop().await;
            served.map_err(Failure::new)
        }
    }
}

/// A running demo. Fields are dropped in order: first the engine, then the servers that it uses.
pub struct Demo {
    pub started: Started,
    /// The database name that clients use.
    pub database: String,
    local: Option<LocalPostgres>,
    /// The directory of the ledger.
    _scratch: Directory,
}

impl Demo {
    /// Starts a throw-away server or uses the one at `url`, loads the data and starts the engine.
    ///
    /// # Errors
    /// Where no PostgreSQL starts or answers, or schema `nls` there holds something else.
    pub async fn start(url: Option<&str>) -> Result<Self, Failure> {
        let mut clock = Clock::new();
        let scratch = Directory::scratch().map_err(Failure::new)?;
        let (local, config) = match url {
            None => {
                let starting = Step::begin("starting a PostgreSQL for the survey data");
                let local = local().await?;
                drop(starting);
                clock.phase("PostgreSQL started");
                let config = load::throw_away(&local).await?;
                (Some(local), config)
            }
            Some(url) => {
                let config = start::config(url)?;
                load::standing(&config).await?;
                (None, config)
            }
        };
        clock.phase("data loaded");
        let ledger = format!("sqlite://{}", scratch.path().join("ledger.db").display());
        let database_url = local
            .as_ref()
            .map_or(url.unwrap_or_default(), LocalPostgres::url)
            .to_owned();
        let file = File::parse("policies/demo.yaml", POLICY, |name| match name {
            "DATABASE_URL" => Some(database_url.clone()),
            "PGVEIL_LEDGER" => Some(ledger.clone()),
            _ => None,
        });
        let opened = start::open(&file.map_err(Failure::Policy)?, &config)
            .await
            .map_err(|failure| not_the_demo(failure, url))?;
        for warning in &opened.warnings {
            tracing::debug!("{warning}");
        }
        clock.phase("policy checked");
        let database = opened.catalog.database.clone();
        let embedded = local
            .as_ref()
            .is_some_and(|local| local.engine() == Engine::Embedded);
        let connections = if embedded { 1 } else { start::CONNECTIONS };
        let started = start::engine(
            opened,
            config,
            ShadowSource::Local,
            &ledger,
            connections,
            None,
        )
        .await?;
        clock.phase("proxy ready");
        Ok(Self {
            started,
            database,
            local,
            _scratch: scratch,
        })
    }

    fn is_throw_away(&self) -> bool {
        self.local.is_some()
    }

    /// Stops all servers and removes their files.
    pub async fn stop(self) {
        start::stop(self.started.engine).await;
        if let Some(local) = self.local {
            local.stop().await;
        }
    }
}

async fn local() -> Result<LocalPostgres, Failure> {
    let options = Options {
        database: Some(DATABASE.to_owned()),
        ..Options::default()
    };
    LocalPostgres::start(options).await.map_err(|e| {
        Failure::with_remedy(
            e,
            "The demo can also use a server that you have: pgveil \
            demo --database postgresql://user@host/database",
        )
    })
}

/// Explains that the user's schema `nls` does not fit the demo.
fn not_the_demo(failure: Failure, url: Option<&str>) -> Failure {
    match (failure, url) {
        (Failure::Policy(errors), Some(_)) => {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Failure::with_remedy(
                format_args!(
                    "schema nls of that database does not hold the demo's tables:\n{}",
                    all.join("\n")
                ),
                "Name another database, or rename that schema.",
            )
        }
        (failure, _) => failure,
    }
}

/// A role that may only SELECT, for the throw-away server.
async fn reader(admin: &Config) -> Result<Config, Failure> {
    let connected = connect(admin).await.map_err(start::unreachable_database)?;
    let grants = format!(
        "CREATE ROLE {READER} LOGIN; GRANT USAGE ON SCHEMA nls TO {READER}; GRANT SELECT ON ALL \
            TABLES IN SCHEMA nls TO {READER}; \
         ALTER ROLE {READER} SET default_transaction_read_only = on"
    );
    let granted = connected.client.batch_execute(&grants).await;
    connected.close().await;
    granted.map_err(Failure::new)?;
    let mut config = admin.clone();
    // The embedded engine has one session, of its superuser. It takes the start-up user as the
    // role.
    config.user(READER);
    Ok(config)
}

/// Logs the time of each step at level debug.
struct Clock(Instant);

impl Clock {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn phase(&mut self, what: &str) {
        let milliseconds = self.0.elapsed().as_millis();
        tracing::debug!(milliseconds, "{what}");
        self.0 = Instant::now();
    }
}

/// A token for callers that never cancel.
fn never() -> CancellationToken {
    CancellationToken::new()
}
