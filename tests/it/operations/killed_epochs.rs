//! SIGKILL ends the epochs of a process: nothing that was not paid for is free afterwards, and the
//! noise of the next epoch's threshold is drawn anew. The ledger has the charges, and nothing else
//! of an epoch.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pgveil::engine::MakeSampler;
use pgveil::mechanism::{CandidateRun, Exponential, Noise, OsRandomness, SampleError, Sampler};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::serve::{Running, connect, free_port};
use super::stage::Stage;
use crate::fixture::{Veil, engine_over, rows_of};

const MONITORS: &str = "limits: {monitor_questions: 1000}\n";
/// Far above all rows.
const MISS: &str = "SELECT pgveil.above(count(*), 1000000000) FROM shop.people";

/// The first column of a statement's first row.
async fn one(client: &Client, sql: &str) -> String {
    let messages = client.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    row.unwrap_or_else(|| panic!("{sql}: no row")).to_owned()
}

/// The part of the role's budget that is spent.
async fn spent(client: &Client) -> f64 {
    let sql = "SELECT 1 - fraction_left FROM pgveil.budget";
    one(client, sql).await.parse().unwrap()
}

struct Serving {
    running: Running,
    port: u16,
}

impl Serving {
    fn over(stage: &Stage, log: &str) -> Self {
        let port = free_port();
        let running = stage.serve(log, &["--listen", &format!("127.0.0.1:{port}")]);
        let ready = stage.reported();
        assert!(ready.contains("READY=1"), "{ready} {}", stage.log(log));
        Self { running, port }
    }

    async fn client(&self) -> Client {
        connect(self.port, "analyst").await.unwrap()
    }

    fn kill(mut self) {
        self.running.0.kill().unwrap();
        self.running.0.wait().unwrap();
    }
}

/// An epoch that was open when its process was killed is not open in the next one: EXPLAIN says
/// that the question opens one, and so does its charge.
#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_was_open_is_charged_again() {
    let stage = Stage::new().await;
    stage.write(MONITORS);
    let first = Serving::over(&stage, "first");
    let client = first.client().await;
    for _ in 0..3 {
        assert_eq!(one(&client, MISS).await, "f");
    }
    let epoch = spent(&client).await;
    assert!(epoch > 0.0);
    first.kill();
    let second = Serving::over(&stage, "second");
    let client = second.client().await;
    assert_eq!(spent(&client).await, epoch);
    let open = "SELECT count(*) FROM pgveil.monitors WHERE is_open";
    assert_eq!(one(&client, open).await, "0");
    let plan = client.simple_query(&format!("EXPLAIN {MISS}")).await;
    let plan = format!("{plan:?}");
    assert!(
        plan.contains("is not open: the question opens it"),
        "{plan}"
    );
    assert_eq!(one(&client, MISS).await, "f");
    let twice = spent(&client).await;
    assert!((twice / epoch - 2.0).abs() < 1e-6, "{twice} {epoch}");
    assert_eq!(one(&client, MISS).await, "f");
    assert_eq!(spent(&client).await, twice);
    second.kill();
}

/// The process is killed after the debit and before the verdict: the charge stands, nothing was
/// shown for it, and the next process charges the question again.
#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_showed_nothing_is_charged_again() {
    let stage = Stage::new().await;
    stage.write(MONITORS);
    let owner = connected(&stage).await;
    let first = Serving::over(&stage, "first");
    let (asking, watching) = (first.client().await, first.client().await);
    assert_eq!(spent(&watching).await, 0.0);
    // No statement over the table is planned while its index is locked. Its catalog can be read.
    let lock = "BEGIN; REINDEX INDEX shop.people_pkey";
    owner.batch_execute(lock).await.unwrap();
    let asked = tokio::spawn(async move { asking.simple_query(MISS).await.is_err() });
    let charged = async {
        loop {
            let spent = spent(&watching).await;
            if spent > 0.0 {
                return spent;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let charged = tokio::time::timeout(Duration::from_secs(60), charged);
    let epoch = charged.await.expect("the debit before the statement");
    assert!(!asked.is_finished(), "no verdict yet");
    first.kill();
    assert!(asked.await.unwrap(), "it broke off");
    owner.batch_execute("ROLLBACK").await.unwrap();
    let second = Serving::over(&stage, "second");
    let client = second.client().await;
    assert_eq!(spent(&client).await, epoch);
    assert_eq!(one(&client, MISS).await, "f");
    let twice = spent(&client).await;
    assert!((twice / epoch - 2.0).abs() < 1e-6, "{twice} {epoch}");
    second.kill();
}

async fn connected(stage: &Stage) -> Client {
    let config = stage.server.config();
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

const URL: &str = "PGVEIL_TEST_EPOCH_URL";
const LEDGER: &str = "PGVEIL_TEST_EPOCH_LEDGER";
const POLICY: &str = "
version: 1
database: {url: '${DATABASE_URL}'}
ledger: {url: '${PGVEIL_LEDGER}'}
privacy: {unit: person, budget: {epsilon: 1000, delta: 1e-6}, per_query: {epsilon: 1}}
limits: {monitor_questions: 1000}
roles:
  - name: analyst
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: {epsilon: 900, delta: 1e-7}
tables:
  shop.people: {unit: id, columns: {age: {bounds: [0, 100]}}}
";

/// Draws as pgveil does, and prints each draw with the scale of its noise.
struct Printing(OsRandomness);

impl Sampler for Printing {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        let drawn = self.0.sample(noise)?;
        let Noise::Laplace { scale } = noise else {
            return Err(SampleError::Parameter);
        };
        let line = format!("\ndrawn {scale} {drawn}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        Ok(drawn)
    }

    fn choose(
        &mut self,
        exponential: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        self.0.choose(exponential, runs)
    }
}

/// No test by itself: a process with an open epoch, when the variables are set.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let (Ok(url), Ok(ledger)) = (std::env::var(URL), std::env::var(LEDGER)) else {
        return;
    };
    let way: tokio_postgres::Config = url.parse().unwrap();
    let (client, connection) = way.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let sampler: MakeSampler = Arc::new(|| Box::new(Printing(OsRandomness::new())));
    let engine = engine_over(way, &client, POLICY, &ledger, Some(sampler)).await;
    for _ in 0..2 {
        let rows = rows_of(&engine, &Veil::requester(), MISS).await.unwrap();
        assert_eq!(rows, ["f"]);
    }
    std::io::stdout().write_all(b"\nopen\n").unwrap();
    std::future::pending::<()>().await;
}

fn spawn(url: &str, ledger: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "operations::killed_epochs::child",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(URL, url).env(LEDGER, ledger);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// The scales and the draws of a process, until its epoch is open; then it is killed.
fn drawn(url: &str, ledger: &str) -> Vec<(u64, i128)> {
    let mut child = spawn(url, ledger);
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut drawn = Vec::new();
    let mut is_open = false;
    for line in stdout.lines().map_while(Result::ok) {
        if line == "open" {
            is_open = true;
            break;
        }
        if let Some((scale, value)) = line
            .strip_prefix("drawn ")
            .and_then(|of| of.split_once(' '))
        {
            drawn.push((scale.parse().unwrap(), value.parse().unwrap()));
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_open, "{drawn:?}");
    drawn
}

/// Each process draws the threshold's noise once, and a question's for each question. That of the
/// second process is another number: two are equal with a chance of 10^-12.
#[tokio::test(flavor = "multi_thread")]
async fn the_threshold_has_new_noise_after_a_kill() {
    let stage = Stage::new().await;
    let ledger = format!("sqlite://{}", stage.file("epochs.db").display());
    let url = stage.server.url().to_owned();
    let of_process = || {
        let drawn = drawn(&url, &ledger);
        let [(threshold, noise), (question, _), (same, _)] = drawn.as_slice() else {
            panic!("one threshold and two questions: {drawn:?}");
        };
        // Of the threshold in steps of 2^-40, at half of epsilon 1.
        assert_eq!((*threshold, question), (2 << 40, same), "{drawn:?}");
        *noise
    };
    let (one, other) = (of_process(), of_process());
    assert_ne!(one, other);
}
