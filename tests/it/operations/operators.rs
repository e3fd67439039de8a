//! The admin database: what operators see, what they do, and that they cannot reach data.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use pgveil::engine::Reloadable;
use pgveil::ledger::{Event, Record};
use pgveil::operator::{ACTS, Control, Reload, SHOWN, reference};
use pgveil::policy::Rights;
use pgveil::wire::{SharedState, Tls, serve_operated};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_postgres::error::DbError;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use tokio_util::sync::CancellationToken;

use crate::clients::install;
use crate::fixture::Veil;

const MARK: (&str, &str) = ("<!-- written by PGVEIL_WRITE=1 -->\n", "<!-- end -->");

struct Stage {
    address: SocketAddr,
    veil: Veil,
    reloads: mpsc::Receiver<Reload>,
    shutdown: CancellationToken,
}

/// The demo with olga, who may own, and wim, who may watch; their password is the analyst's.
async fn stage() -> Stage {
    let veil = Veil::demo(with_operators, None).await;
    let exchange = Arc::new(Reloadable::new(Arc::clone(&veil.engine)));
    let (sender, reloads) = mpsc::channel(1);
    let shutdown = CancellationToken::new();
    let control = Control::new(Arc::clone(&exchange), sender, shutdown.clone(), None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_operated(
        listener,
        Tls::from(None),
        exchange,
        shutdown.clone(),
        Duration::from_secs(10),
        SharedState::new(Some(Arc::new(control))),
    ));
    Stage {
        address,
        veil,
        reloads,
        shutdown,
    }
}

fn with_operators(policy: String) -> String {
    let verifier = policy
        .split("password: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap()
        .to_owned();
    format!(
        "{policy}\noperators:\n  - {{name: olga, password: '{verifier}', may: [watch, own]}}\n  \
            - {{name: wim, password: '{verifier}', may: [watch]}}\n"
    )
}

impl Stage {
    async fn login(&self, user: &str, database: &str) -> Result<Client, tokio_postgres::Error> {
        let config = format!(
            "host=127.0.0.1 port={} user={user} password=analyst dbname={database} \
                application_name=watcher",
            self.address.port()
        );
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn operator(&self, user: &str) -> Client {
        self.login(user, "pgveil").await.unwrap()
    }

    /// The records of a kind, newest first.
    async fn records(&self, kind: &'static str) -> Vec<Record> {
        let ledger = self.veil.engine.ledger();
        ledger.flush().await;
        let found = ledger.records(0, 1000).await.unwrap().into_iter().rev();
        found
            .map(|(_, record)| record)
            .filter(|record| record.event.kind() == kind)
            .collect()
    }

    /// The newest act, its object and its operator.
    async fn newest_act(&self) -> String {
        let records = self.records("act").await;
        let record = records.first().unwrap();
        let Event::Act { act, target, why } = &record.event else {
            panic!("{record:?}")
        };
        assert_eq!(record.origin.application, "watcher");
        assert!(record.origin.address.unwrap().is_loopback());
        format!("{}: {act} {target}: {why}", record.name)
    }
}

fn refusal(error: &tokio_postgres::Error) -> &DbError {
    error.as_db_error().unwrap_or_else(|| panic!("{error}"))
}

async fn refused(client: &Client, sql: &str) -> String {
    let error = client.simple_query(sql).await.expect_err(sql);
    let simple = refusal(&error).code().code().to_owned();
    let error = client.query(sql, &[]).await.expect_err(sql);
    assert_eq!(refusal(&error).code().code(), simple, "{sql}");
    simple
}

async fn rows(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(sql).await.unwrap();
    let row = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(
            (0..row.len())
                .map(|at| row.get(at).unwrap().to_owned())
                .collect(),
        ),
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

async fn analyst_number(client: &Client) -> String {
    let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
    row.unwrap().get::<_, i32>(0).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_has_its_columns_in_both_protocols() {
    let stage = stage().await;
    let (olga, analyst) = (
        stage.operator("olga").await,
        stage.login("analyst", "nls").await.unwrap(),
    );
    let count = "SELECT count(*) FROM nls.women";
    analyst.query(count, &[]).await.unwrap();
    for shown in &SHOWN {
        let sql = format!("SHOW {}", shown.name);
        let statement = olga.prepare(&sql).await.unwrap();
        let names: Vec<&str> = statement.columns().iter().map(|c| c.name()).collect();
        let wanted: Vec<&str> = shown.columns.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, wanted, "{sql}");
        let extended = olga.query(&statement, &[]).await.unwrap();
        let simple = rows(&olga, &sql).await;
        assert_eq!(extended.len(), simple.len(), "{sql}");
        assert!(
            simple.iter().all(|row| row.len() == wanted.len()),
            "{sql}: {simple:?}"
        );
    }
    let sessions = rows(&olga, "SHOW SESSIONS").await;
    let shown: Vec<_> = sessions
        .iter()
        .map(|row| {
            (
                row[1].as_str(),
                row[2].as_str(),
                row[4].as_str(),
                row[7].as_str(),
            )
        })
        .collect();
    assert_eq!(shown.len(), 2);
    assert!(
        shown.contains(&("analyst", "role", "watcher", "idle")),
        "{shown:?}"
    );
    assert!(
        shown.contains(&("olga", "operator", "watcher", "running")),
        "{shown:?}"
    );
    let accounts = rows(&olga, "SHOW ACCOUNTS").await;
    assert_eq!(
        (accounts[0][0].as_str(), accounts[1][0].as_str()),
        ("(owner)", "analyst")
    );
    assert_ne!(accounts[1][1], "1.0000");
    let tables = rows(&olga, "SHOW TABLES").await;
    let is_women = |row: &&Vec<String>| row[0] == "nls.women";
    assert_eq!(
        tables.iter().find(is_women).unwrap()[1..],
        ["private", "no"]
    );
    // Neither statements nor literals.
    for shown in &SHOWN {
        let text = format!("{:?}", rows(&olga, &format!("SHOW {}", shown.name)).await);
        assert!(
            !text.contains("count(") && !text.contains("SCRAM"),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_sees_no_account() {
    let stage = stage().await;
    let (wim, olga) = (stage.operator("wim").await, stage.operator("olga").await);
    // No operator has a command that gives budget back.
    assert_eq!(refused(&olga, "UNFREEZE analyst 'mine'").await, "0A000");
    for shown in &SHOWN {
        let sql = format!("SHOW {}", shown.name);
        match shown.rights {
            Rights::Watch => drop(rows(&wim, &sql).await),
            Rights::Own => assert_eq!(refused(&wim, &sql).await, "42501", "{sql}"),
        }
    }
    assert_eq!(refused(&wim, "FREEZE analyst 'mine'").await, "42501");
    assert!(stage.records("act").await.is_empty());
    let balance = stage.veil.engine.ledger().balance("analyst").await.unwrap();
    assert!(!balance.frozen);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_has_no_way_to_data() {
    let stage = stage().await;
    for (user, database) in [("olga", "nls"), ("analyst", "pgveil"), ("nobody", "pgveil")] {
        let error = stage.login(user, database).await.err().unwrap();
        let wanted = if user == "nobody" { "28P01" } else { "3D000" };
        assert_eq!(refusal(&error).code().code(), wanted, "{user}");
    }
    let olga = stage.operator("olga").await;
    for sql in [
        "SELECT count(*) FROM nls.women",
        "SELECT 1",
        "SELECT * FROM pg_class",
        "SELECT * FROM pgveil.budget",
        "EXPLAIN SELECT count(*) FROM nls.women",
        "COPY (SELECT count(*) FROM nls.women) TO STDOUT",
        "PREPARE p AS SELECT count(*) FROM nls.women",
        "DECLARE c CURSOR WITH HOLD FOR SELECT count(*) FROM nls.women",
        "VALUES (1)",
    ] {
        let error = olga.simple_query(sql).await.expect_err(sql);
        assert_eq!(refusal(&error).code().code(), "0A000", "{sql}");
    }
    let changed = olga.simple_query("UPDATE nls.women SET race = 1").await;
    assert!(changed.is_err());
    // Clients' statements about the session are answered.
    olga.batch_execute("SET extra_float_digits = 3; BEGIN; SHOW TimeZone; COMMIT")
        .await
        .unwrap();
    assert_eq!(stage.veil.spent().await, 0.0);
    assert!(stage.records("statement").await.is_empty());
    let logins = stage.records("login").await;
    let states: Vec<&str> = logins.iter().map(|r| r.sqlstate()).collect();
    assert_eq!(states, ["00000", "28P01", "3D000", "3D000"]);
    // A role has no commands of operators.
    let analyst = stage.login("analyst", "nls").await.unwrap();
    for sql in [
        "RELOAD",
        "DRAIN",
        "KILL 1",
        "SHOW SESSIONS",
        "FREEZE analyst 'x'",
    ] {
        assert!(analyst.simple_query(sql).await.is_err(), "{sql}");
    }
    assert!(stage.records("act").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn acts_are_recorded_and_done() {
    let mut stage = stage().await;
    let (olga, wim) = (stage.operator("olga").await, stage.operator("wim").await);
    let analyst = stage.login("analyst", "nls").await.unwrap();
    let number = analyst_number(&analyst).await;

    assert_eq!(refused(&wim, "KILL 1").await, "42704");
    wim.execute(&format!("KILL {number}"), &[]).await.unwrap();
    assert_eq!(
        stage.newest_act().await,
        format!("wim: kill session {number} of analyst: ")
    );
    let error = loop {
        match analyst.simple_query("SELECT 1").await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => break error,
        }
    };
    assert!(analyst.is_closed() || error.is_closed() || error.code().is_some());

    let analyst = stage.login("analyst", "nls").await.unwrap();
    assert_eq!(refused(&olga, "FREEZE nobody 'why'").await, "42704");
    olga.execute("FREEZE analyst 'it''s over'", &[])
        .await
        .unwrap();
    assert_eq!(
        stage.newest_act().await,
        "olga: freeze role analyst: it's over"
    );
    let count = "SELECT count(*) FROM nls.women";
    assert_eq!(refused(&analyst, count).await, "53400");

    // A reload. Only the owner sees why it fails.
    for (user, detail) in [("olga", "4:2: wrong"), ("wim", "The log says why.")] {
        let client = if user == "olga" { &olga } else { &wim };
        let asked = client.simple_query("RELOAD");
        let answered = async {
            let answer: Reload = stage.reloads.recv().await.unwrap();
            answer.send(Err("4:2: wrong".to_owned())).unwrap();
        };
        let (refused, ()) = tokio::join!(asked, answered);
        let error = refused.unwrap_err();
        let shown = refusal(&error);
        assert_eq!(
            (shown.code().code(), shown.detail()),
            ("F0000", Some(detail))
        );
    }
    let asked = wim.simple_query("RELOAD");
    let (done, ()) = tokio::join!(asked, async {
        stage.reloads.recv().await.unwrap().send(Ok(())).unwrap();
    });
    done.unwrap();
    assert_eq!(stage.newest_act().await, "wim: reload the policy: ");

    assert!(!stage.shutdown.is_cancelled());
    wim.simple_query("DRAIN").await.unwrap();
    assert!(stage.shutdown.is_cancelled());
    assert_eq!(stage.newest_act().await, "wim: drain : ");
    let acts = stage.records("act").await;
    assert_eq!(acts.len(), 6);
}

/// A ledger that takes no record of an act, as if its disk were full.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_recorded_is_not_done() {
    let mut stage = stage().await;
    let olga = stage.operator("olga").await;
    let analyst = stage.login("analyst", "nls").await.unwrap();
    let number = analyst_number(&analyst).await;
    let path = stage.veil.ledger.strip_prefix("sqlite://").unwrap();
    let other = rusqlite::Connection::open(path).unwrap();
    other.busy_timeout(Duration::from_secs(20)).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON record WHEN NEW.kind = 'act'
             BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        .unwrap();
    for sql in [
        format!("KILL {number}"),
        "FREEZE analyst 'why'".to_owned(),
        "RELOAD".to_owned(),
        "DRAIN".to_owned(),
    ] {
        assert_eq!(refused(&olga, &sql).await, "58030", "{sql}");
    }
    assert!(!stage.shutdown.is_cancelled() && stage.reloads.try_recv().is_err());
    assert_eq!(analyst_number(&analyst).await, number);
    let balance = stage.veil.engine.ledger().balance("analyst").await.unwrap();
    assert!(!balance.frozen);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_postgresql_are_answered() {
    let stage = stage().await;
    let port = stage.address.port().to_string();
    let run = async |program: &OsStr, arguments: &[&OsStr], variables: &[(&str, &OsStr)]| {
        let mut command = tokio::process::Command::new(program);
        command
            .args(arguments)
            .envs(variables.iter().copied())
            .env("VEILED_PORT", &port)
            .env("PGPASSWORD", "analyst")
            .stdin(Stdio::null());
        let output = command.output().await.unwrap();
        let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{program:?}: {shown}");
        shown
    };
    if let Some(psql) = install::psql().await {
        let url = format!("host=127.0.0.1 port={port} user=olga dbname=pgveil");
        let shown = run(
            psql.as_os_str(),
            &["-X", &url, "-c", "SHOW HELP", "-c", "SHOW POOLS"].map(AsRef::as_ref),
            &[],
        )
        .await;
        assert!(
            shown.contains("FREEZE role 'why'") && shown.contains("(2 rows)"),
            "{shown}"
        );
    }
    if let Some(modules) = install::node("node").await {
        let script = "tests/clients/node/operators.js";
        let path = [("NODE_PATH", modules.as_os_str())];
        run("node".as_ref(), &[script.as_ref()], &path).await;
    }
    let packages = ["psycopg[binary]==3.3.9"];
    if let Some(install::Python(python)) = install::python("psycopg", &packages).await {
        run(
            python.as_ref(),
            &["tests/clients/operators/test.py".as_ref()],
            &[],
        )
        .await;
    }
    if let Some(jar) = install::jdbc().await {
        let program = "tests/clients/operators/Operators.java";
        let arguments = ["-cp".as_ref(), jar.as_os_str(), program.as_ref()];
        run("java".as_ref(), &arguments, &[]).await;
    }
}

/// `PGVEIL_WRITE=1` writes the table of docs/operations.md.
#[test]
fn the_reference_lists_every_command() {
    const PATH: &str = "docs/operations.md";
    let text = std::fs::read_to_string(PATH).unwrap();
    let (before, rest) = text.split_once(MARK.0).expect("the beginning of the table");
    let (listed, after) = rest.split_once(MARK.1).expect("the end of the table");
    let wanted = format!("\n{}\n", reference());
    if std::env::var_os("PGVEIL_WRITE").is_some() {
        std::fs::write(PATH, [before, MARK.0, &wanted, MARK.1, after].concat()).unwrap();
    } else {
        assert!(
            listed == wanted,
            "{PATH} does not list today's commands; run this test with PGVEIL_WRITE=1"
        );
    }
    assert_eq!(ACTS.len(), 4);
}
