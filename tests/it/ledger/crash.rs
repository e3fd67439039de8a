//! kill -9 between debit and answer: the answer is lost, the charge is not.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pgveil::ledger::Ledger;
use pgveil::policy::{File, check};

use crate::fixture::{account, load};
use crate::operations::serve::free_port;

/// Rows enough to keep the database busy for seconds: every interview joined to every code, several
/// times over.
const SLOW: &str = "SELECT count(*) FROM nls.interviews CROSS JOIN nls.industries a CROSS JOIN \
    nls.industries b CROSS JOIN nls.industries c";

/// For a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn connected(port: u16) -> tokio_postgres::Client {
    let deadline = Instant::now() + PATIENCE;
    let config = format!(
        "host=127.0.0.1 port={port} user=analyst password=analyst dbname=nls sslmode=disable"
    );
    loop {
        match tokio_postgres::connect(&config, tokio_postgres::NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return client;
            }
            Err(error) => assert!(Instant::now() < deadline, "no proxy: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_debit_and_answer() {
    let (server, client) = crate::fixture::started("nls", Vec::new()).await;
    load(&client).await;
    let directory = std::env::temp_dir().join(format!("pgveil-crash-{:x}", rand::random::<u64>()));
    std::fs::create_dir(&directory).unwrap();
    let ledger_url = format!("sqlite://{}", directory.join("ledger.db").display());
    let port = free_port();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
        command.args([
            "serve",
            "--policy",
            "policies/demo.yaml",
            "--listen",
            &format!("127.0.0.1:{port}"),
        ]);
        command
            .env("DATABASE_URL", server.url())
            .env("PGVEIL_LEDGER", &ledger_url)
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG");
        Proxy(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    };
    let yaml = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let file = File::parse("policies/demo.yaml", &yaml, |name| {
        Some(if name == "DATABASE_URL" {
            server.url().to_owned()
        } else {
            ledger_url.clone()
        })
    })
    .unwrap();
    let policy = check(
        &file,
        &pgveil::catalog::load(&client).await.unwrap(),
        &client,
    )
    .await
    .unwrap()
    .policy;
    let role = policy.role("analyst").unwrap();
    let spent = async || {
        let ledger = Ledger::open(
            &ledger_url,
            account("owner", policy.privacy.budget, &policy),
            &[account("analyst", role.budget, &policy)],
        )
        .await
        .unwrap();
        ledger.balance("analyst").await.unwrap().spent.mu_squared
    };

    let mut proxy = start();
    let analyst = connected(port).await;
    let asked = tokio::spawn(async move { analyst.simple_query(SLOW).await.map(|_| ()) });
    let deadline = Instant::now() + PATIENCE;
    let charged = loop {
        let charged = spent().await;
        if charged > pgveil::mechanism::Fixed::ZERO {
            break charged;
        }
        assert!(
            !asked.is_finished() && Instant::now() < deadline,
            "no debit came"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(!asked.is_finished(), "the query is too quick for this test");
    proxy.0.kill().unwrap();
    proxy.0.wait().unwrap();
    assert!(asked.await.unwrap().is_err(), "no answer came");
    assert_eq!(spent().await, charged);

    let _proxy = start();
    let analyst = connected(port).await;
    analyst
        .simple_query("SELECT count(*) FROM nls.women")
        .await
        .unwrap();
    assert!(
        spent().await > charged,
        "the next question is charged on top"
    );
    drop(_proxy);
    std::fs::remove_dir_all(&directory).unwrap();
}
