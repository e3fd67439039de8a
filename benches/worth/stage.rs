//! The shop's database, and a pgveil in front of it: the program itself, asked through the wire.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};

use crate::shop;

pub const DELTA: f64 = 1e-6;
const ROLE: &str = "analyst";

/// Bounds as the owner of a shop would write them on the first day: none is near the data.
fn policy(verifier: &str) -> String {
    let listed = |values: &[&str]| {
        let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
        format!("{{values: [{}], complete: true}}", quoted.join(", "))
    };
    format!(
        "version: 1
database: {{url: '${{DATABASE_URL}}'}}
ledger: {{url: '${{PGVEIL_LEDGER}}'}}
privacy:
  unit: household
  budget: {{epsilon: 10000, delta: {DELTA}}}
  per_query: {{epsilon: 0.5, max_epsilon: 10}}
roles:
  - {{name: {ROLE}, password: '{verifier}', budget: {{epsilon: 10000, delta: {DELTA}}}}}
tables:
  shop.households:
    unit: household_id
    columns:
      income_band: {bands}
      region: {regions}
      members: {{bounds: [1, 12]}}
  shop.baskets:
    unit: household_id
    rows_per_unit: {baskets}
    columns:
      basket_id: visible
      week: {{bounds: [1, 53]}}
      month_no: {{bounds: [1, 12]}}
      hour_no: {{bounds: [0, 23]}}
      store: visible
  shop.lines:
    unit: household_id
    rows_per_unit: {lines}
    columns:
      basket_id: visible
      week: {{bounds: [1, 53]}}
      month_no: {{bounds: [1, 12]}}
      department: {{domain: shop.departments.department, complete: true}}
      category: {{domain: shop.categories.category, complete: true}}
      product_type: {{domain: shop.product_types.product_type, complete: true}}
      store: visible
      quantity: {{bounds: [0, {quantity}]}}
      sales_value: {{bounds: [0, {value}]}}
      discount: {{bounds: [0, {value}]}}
  shop.departments: public
  shop.categories: public
  shop.product_types: public
limits: {{rows_per_unit: {lines}, groups: 100000, failures: 1000000, statement_timeout: 10min}}
",
        bands = listed(&shop::BANDS),
        regions = listed(&shop::REGIONS),
        baskets = shop::BASKETS_MAX,
        lines = shop::LINES_MAX,
        quantity = shop::QUANTITY_MAX,
        value = shop::VALUE_MAX,
    )
}

/// Ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

pub struct Stage {
    /// The analyst's session.
    pub analyst: Client,
    /// The owner's, on the database itself.
    pub owner: Client,
    pub households: usize,
    pub baskets: u64,
    pub lines: u64,
    /// The database's.
    pub url: String,
    _pgveil: Running,
    _server: LocalPostgres,
    _directory: Directory,
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Stage {
    pub async fn start(program: &Path, households: usize, seed: u64) -> Self {
        let settings = [
            ("shared_buffers", "256MB"),
            ("work_mem", "64MB"),
            ("maintenance_work_mem", "256MB"),
            ("max_wal_size", "4GB"),
        ];
        let server = LocalPostgres::start(ServerOptions {
            database: Some("shop".to_owned()),
            settings: settings
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            ..ServerOptions::default()
        })
        .await
        .unwrap_or_else(|e| panic!("{e}"));
        let (baskets, lines) = shop::open(&server.config(), households, seed).await;
        let (owner, connection) = server.config().connect(NoTls).await.expect("the database");
        tokio::spawn(connection);

        let directory = std::env::temp_dir().join(format!("worth-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&directory).expect("a directory");
        let directory = Directory(directory);
        let verifier = pgveil::wire::scram::make_verifier(ROLE);
        let (mut pgveil, port) = serve(program, &directory.0, &server, &policy(&verifier));
        let analyst = log_in(&mut pgveil, port, &directory.0.join("log")).await;
        Self {
            analyst,
            owner,
            households,
            baskets,
            lines,
            url: server.url().to_owned(),
            _pgveil: pgveil,
            _server: server,
            _directory: directory,
        }
    }
}

fn serve(program: &Path, directory: &Path, server: &LocalPostgres, policy: &str) -> (Running, u16) {
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
    let port = free.expect("a port").port();
    let file = |name: &str| directory.join(name).display().to_string();
    std::fs::write(file("policy.yaml"), policy).expect("the policy");
    let child = Command::new(program)
        .args(["serve", "--policy", &file("policy.yaml")])
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .env("DATABASE_URL", server.url())
        .env("PGVEIL_LEDGER", format!("sqlite://{}", file("ledger.db")))
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(file("log")).expect("the log"))
        .spawn();
    let child = child.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    (Running(child), port)
}

/// A session, once pgveil listens.
async fn log_in(pgveil: &mut Running, port: u16, log: &Path) -> Client {
    let way = format!("host=127.0.0.1 port={port} user={ROLE} password={ROLE} dbname=shop");
    loop {
        if let Ok((client, connection)) = tokio_postgres::connect(&way, NoTls).await {
            tokio::spawn(connection);
            return client;
        }
        if pgveil.0.try_wait().is_ok_and(|ended| ended.is_some()) {
            panic!("{}", std::fs::read_to_string(log).unwrap_or_default());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Changes a setting of the analyst's session.
pub async fn set(analyst: &Client, name: &str, value: &str) -> Result<(), String> {
    let set = format!("SET {name} = {}", pgveil::postgres::literal(value));
    let done = analyst.simple_query(&set).await;
    done.map(drop)
        .map_err(|e| format!("{set}: {}", error_text(&e)))
}

/// The rows of a statement, as text.
pub async fn rows(
    client: &Client,
    sql: &str,
) -> Result<Vec<SimpleQueryRow>, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let rows = messages.into_iter().filter_map(|message| {
        if let SimpleQueryMessage::Row(row) = message {
            Some(row)
        } else {
            None
        }
    });
    Ok(rows.collect())
}

/// The error as psql shows it.
pub fn error_text(error: &tokio_postgres::Error) -> String {
    let Some(error) = error.as_db_error() else {
        return error.to_string();
    };
    let mut text = format!("{} ({})", error.message(), error.code().code());
    for more in [error.detail(), error.hint()].into_iter().flatten() {
        let _ = write!(text, "; {more}");
    }
    text
}
