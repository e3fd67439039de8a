//! The witness that is a row in another PostgreSQL, where several machines reach it.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::config::Host;
use tokio_postgres::{Config, SimpleQueryMessage};

use super::{Error, SeenWitness, Witness, WitnessReport, WitnessedHeight, is_news};
use crate::ledger::server::{durable_session, reading_session};
use crate::postgres::{Connected, connect, literal};

/// How long the server may take over one statement, locks included.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long we wait for its answer before the connection is taken for dead.
const PATIENCE: Duration = Duration::from_secs(15);

const IS_THERE: &str = "SELECT pg_catalog.to_regclass('pgveil_witness.seen') IS NOT NULL";
/// One maker at a time. The number stands for witnesses.
const MAKE: &str = "BEGIN; SELECT pg_catalog.pg_advisory_xact_lock(7379450922); \
    CREATE SCHEMA IF NOT EXISTS pgveil_witness; \
    CREATE TABLE IF NOT EXISTS pgveil_witness.seen \
    (is_only boolean PRIMARY KEY CHECK (is_only), line text NOT NULL); COMMIT";
const READ: &str = "SELECT line FROM pgveil_witness.seen";
const LOCK: &str = "BEGIN; LOCK TABLE pgveil_witness.seen IN SHARE ROW EXCLUSIVE MODE; \
    SELECT line FROM pgveil_witness.seen";
const CLUSTER: &str = "SELECT system_identifier FROM pg_catalog.pg_control_system()";

/// The server, reached by one connection at a time, which is made again when it was lost.
pub(super) struct WitnessServer {
    runtime: Runtime,
    config: Config,
    /// What each connection is set to.
    settings: String,
    session: Option<Connected>,
    cluster: Option<String>,
}

impl WitnessServer {
    /// Connects, and makes the table where it is missing.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`]; [`Error::Unsafe`] where the server does not sync.
    pub(super) fn open(url: &str) -> Result<Self, Error> {
        let mut server = Self::connect(url, durable_session(STATEMENT_TIMEOUT))?;
        if server.script(IS_THERE)?.as_deref() != Some("t") {
            server.script(MAKE)?;
        }
        Ok(server)
    }

    fn connect(url: &str, settings: String) -> Result<Self, Error> {
        // The text may hold a password.
        let mut config: Config = url.parse().map_err(|_| Error::Witness {
            witness: "in PostgreSQL".to_owned(),
            reason: "its URL is not understood".to_owned(),
        })?;
        if config.get_application_name().is_none() {
            config.application_name("pgveil witness");
        }
        config
            .connect_timeout(PATIENCE)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(30));
        let mut server = Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            config,
            settings,
            session: None,
            cluster: None,
        };
        server.reconnect()?;
        // A server that does not say is taken for another one.
        server.cluster = server.script(CLUSTER).ok().flatten();
        Ok(server)
    }

    fn reconnect(&mut self) -> Result<(), Error> {
        self.session = None;
        let config = self.config.clone();
        let connected = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, connect(&config)).await });
        let connected = connected.map_err(|_| self.error("no answer in time"))?;
        self.session = Some(connected.map_err(|error| self.error(&error.to_string()))?);
        let settings = self.settings.clone();
        match self.script(&settings)?.as_deref() {
            Some("on") => Ok(()),
            _ => Err(self.error("its server runs with fsync = off")),
        }
    }

    /// Several statements at once; returns the last value of the last row. After an error the
    /// connection is gone, with its open transaction.
    fn script(&mut self, sql: &str) -> Result<Option<String>, Error> {
        let Some(session) = self.session.take() else {
            return Err(self.error("the connection was lost"));
        };
        let answered = self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, session.client.simple_query(sql)).await
        });
        let messages = answered
            .map_err(|_| self.error("no answer in time"))?
            .map_err(|error| match error.as_db_error() {
                Some(database) => self.error(database.message()),
                None => self.error(&error.to_string()),
            })?;
        self.session = Some(session);
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(row.len().saturating_sub(1)).map(str::to_owned),
            _ => None,
        });
        Ok(rows.last())
    }

    /// The first statement of a piece of work: a connection that was lost while it was idle is
    /// made again.
    fn begin(&mut self, sql: &str) -> Result<Option<String>, Error> {
        if let Ok(found) = self.script(sql) {
            return Ok(found);
        }
        self.reconnect()?;
        self.script(sql)
    }

    /// Ends the transaction by writing.
    fn put(&mut self, now: &WitnessedHeight) -> Result<(), Error> {
        let line = serde_json::to_string(now).map_err(|error| self.error(&error.to_string()))?;
        let line = literal(&line);
        self.script(&format!(
            "INSERT INTO pgveil_witness.seen (is_only, line) VALUES (true, {line}) \
                ON CONFLICT (is_only) DO UPDATE SET line = excluded.line; COMMIT"
        ))
        .map(drop)
    }

    /// Ends the transaction without writing.
    fn refuse(&mut self, reason: &str) -> Error {
        // Without its connection the transaction ends too.
        let _ = self.script("ROLLBACK");
        self.error(reason)
    }

    fn error(&self, reason: &str) -> Error {
        Error::Witness {
            witness: self.name(),
            reason: reason.to_owned(),
        }
    }
}

impl Witness for WitnessServer {
    fn name(&self) -> String {
        let mut hosts = Vec::new();
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            let ports = self.config.get_ports();
            // One port stands for all hosts.
            let port = ports.get(at).or(ports.first()).unwrap_or(&5432);
            hosts.push(match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            });
        }
        let database = self.config.get_dbname().unwrap_or("postgres");
        format!(
            "schema pgveil_witness of database {database} in PostgreSQL on {}",
            hosts.join(",")
        )
    }

    fn read(&mut self) -> Result<WitnessReport, Error> {
        self.begin(READ).map(report_of)
    }

    fn write(&mut self, now: &WitnessedHeight) -> Result<(), Error> {
        let known = match report_of(self.begin(LOCK)?) {
            WitnessReport::Whole(known) => Some(known),
            WitnessReport::Nothing | WitnessReport::Damaged => None,
        };
        match is_news(known.as_deref(), now) {
            Ok(true) => self.put(now),
            // Its writer had its COMMIT answered, or the lock would be held.
            Ok(false) => self.script("COMMIT").map(drop),
            Err(reason) => Err(self.refuse(reason)),
        }
    }

    fn begin_anew(&mut self, before: &WitnessReport, now: &WitnessedHeight) -> Result<(), Error> {
        match report_of(self.begin(LOCK)?) == *before {
            true => self.put(now),
            false => Err(self.refuse("somebody wrote it meanwhile; stop every proxy first")),
        }
    }

    fn cluster(&self) -> Option<String> {
        self.cluster.clone()
    }
}

/// What a server has seen, without making the table.
///
/// # Errors
///
/// [`Error::Witness`]; [`Error::Unsafe`] where the server does not sync.
pub(super) fn look(url: &str) -> Result<SeenWitness, Error> {
    let mut server = WitnessServer::connect(url, reading_session(STATEMENT_TIMEOUT))?;
    let report = match server.script(IS_THERE)?.as_deref() {
        Some("t") => server.read()?,
        Some(_) | None => WitnessReport::Nothing,
    };
    Ok(SeenWitness {
        name: server.name(),
        report,
        cluster: server.cluster(),
    })
}

fn report_of(line: Option<String>) -> WitnessReport {
    match line {
        None => WitnessReport::Nothing,
        Some(line) => {
            serde_json::from_str(&line).map_or(WitnessReport::Damaged, WitnessReport::Whole)
        }
    }
}
