//! A small database, a policy, and `pgveil` as processes over them.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio_postgres::{Client, NoTls};

use super::serve::{Running, reported};
use crate::fixture::TemporaryDirectory;

pub const PGVEIL: &str = env!("CARGO_BIN_EXE_pgveil");

/// The program that a stage runs: that of the tests, or another build of it for a long run.
fn program() -> String {
    std::env::var("PGVEIL_BINARY").unwrap_or_else(|_| PGVEIL.to_owned())
}

const TABLES: &str = "CREATE SCHEMA shop;
     CREATE TABLE shop.people (id int PRIMARY KEY, age int NOT NULL);
     CREATE TABLE shop.kinds (kind text PRIMARY KEY); INSERT INTO shop.kinds VALUES ('a'), ('b');
     INSERT INTO shop.people SELECT g, 20 + g % 50 FROM generate_series(1, 2000) g";

const POLICY: &str = "version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${PGVEIL_LEDGER}\"}
privacy: {unit: person, budget: {epsilon: 1000, delta: 1e-6}, per_query: {epsilon: 0.1, \
    max_epsilon: 1}}
roles: [{name: analyst, password: \"${VERIFIER}\", budget: {epsilon: 900, delta: 1e-7}}]
tables:
  shop.people: {unit: id, columns: {age: {bounds: [0, 100]}}}
  shop.kinds: public
";

/// A throw-away server with the database `nls`, and a session of its owner.
pub async fn server() -> (LocalPostgres, Client) {
    let options = ServerOptions {
        database: Some("nls".to_owned()),
        ..ServerOptions::default()
    };
    let server = LocalPostgres::start(options).await.unwrap();
    let (owner, connection) = server.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    (server, owner)
}

/// The socket `notify` of this directory, as systemd listens on it.
pub fn systemd(directory: &Path) -> UnixDatagram {
    let systemd = UnixDatagram::bind(directory.join("notify")).unwrap();
    systemd
        .set_read_timeout(Some(Duration::from_secs(300)))
        .unwrap();
    systemd
}

pub struct Stage {
    pub server: LocalPostgres,
    pub directory: TemporaryDirectory,
    systemd: UnixDatagram,
    verifier: String,
    ledger: String,
}

impl Stage {
    /// With a ledger in SQLite.
    pub async fn new() -> Self {
        let (server, owner) = server().await;
        owner.batch_execute(TABLES).await.unwrap();
        let directory = TemporaryDirectory::new("stage");
        let systemd = systemd(&directory.0);
        let ledger = format!("sqlite://{}", directory.0.join("ledger.db").display());
        let stage = Self {
            server,
            directory,
            systemd,
            verifier: pgveil::wire::scram::make_verifier("analyst"),
            ledger,
        };
        stage.write("");
        stage
    }

    pub fn with_ledger(self, url: String) -> Self {
        Self {
            ledger: url,
            ..self
        }
    }

    /// The policy, with further lines.
    pub fn write(&self, lines: &str) {
        self.write_policy(&format!("{POLICY}{lines}"));
    }

    /// The policy as `edit` makes it.
    pub fn write_edited(&self, edit: impl Fn(&str) -> String) {
        self.write_policy(&edit(POLICY));
    }

    /// The policy, with a witness near the ledger.
    pub fn write_witnessed(&self) {
        let file = self.file("witness").display().to_string();
        let witness = format!("witness: \"file://{file}\", same_disk: true}}");
        let plain = "ledger: {url: \"${PGVEIL_LEDGER}\"}";
        let witnessed = format!("ledger: {{url: \"${{PGVEIL_LEDGER}}\", {witness}");
        self.write_edited(|policy| policy.replace(plain, &witnessed));
    }

    fn write_policy(&self, text: &str) {
        std::fs::write(self.file("policy.yaml"), text).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    /// What systemd hears next.
    pub fn reported(&self) -> String {
        reported(&self.systemd)
    }

    pub fn set_up(&self, command: &mut Command) {
        command
            .env("DATABASE_URL", self.server.url())
            .env("PGVEIL_LEDGER", &self.ledger)
            .env("VERIFIER", &self.verifier)
            .env("NOTIFY_SOCKET", self.file("notify"))
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null());
    }

    /// Another command over the same policy, to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program());
        self.set_up(&mut command);
        command.args(arguments).output().unwrap()
    }

    /// `pgveil serve` with these arguments, and a log of this name.
    pub fn serve(&self, log: &str, arguments: &[&str]) -> Running {
        self.spawn(Command::new(program()), log, arguments)
    }

    /// As [`Self::serve`], by a command that the arguments are appended to.
    pub fn spawn(&self, mut command: Command, log: &str, arguments: &[&str]) -> Running {
        self.set_up(&mut command);
        let policy = self.file("policy.yaml").display().to_string();
        command
            .args(["serve", "--policy", &policy])
            .args(arguments)
            .stderr(std::fs::File::create(self.file(log)).unwrap());
        Running(command.spawn().unwrap())
    }
}
