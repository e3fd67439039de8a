//! A wide table, as its owner meets it: many columns in few lines, and a column that comes later.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio_postgres::{Client, NoTls};

use super::serve::{Running, free_port};
use crate::fixture::TemporaryDirectory;

const PGVEIL: &str = env!("CARGO_BIN_EXE_pgveil");

fn pgveil(server: &LocalPostgres, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PGVEIL);
    command
        .args(arguments)
        .current_dir(folder)
        .env("DATABASE_URL", server.url())
        .env(
            "PGVEIL_LEDGER",
            format!("sqlite://{}/l.db", folder.display()),
        )
        .env_remove("PGVEIL_LOG")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_well(output: &Output) -> String {
    let reported = text(&output.stdout);
    assert!(
        output.status.success(),
        "{reported}{}",
        text(&output.stderr)
    );
    reported
}

async fn said(log: &Path, words: &str, times: usize) {
    let begun = Instant::now();
    loop {
        let reported = std::fs::read_to_string(log).unwrap();
        if reported.matches(words).count() >= times {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "{words}: {reported}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn sqlstate(client: &Client, sql: &str) -> Option<String> {
    let error = client.simple_query(sql).await.err()?;
    Some(error.code().unwrap().code().to_owned())
}

/// Forty answers and thirty amounts, with a column that nobody should see.
fn survey() -> String {
    let answers = (1..=40).map(|n| format!("q{n} int CHECK (q{n} IN (1, 2, 3, 4, 5))"));
    let amounts = (1..=30).map(|n| format!("amount{n} numeric(8, 2)"));
    let columns: Vec<String> = answers.chain(amounts).collect();
    let rows = (1..=40).map(|_| "1 + g % 5".to_owned());
    let rows: Vec<String> = rows.chain((1..=30).map(|_| "g".to_owned())).collect();
    format!(
        "CREATE TABLE people (id int PRIMARY KEY, {}, email text);
         INSERT INTO people SELECT g, {}, 'x@y' FROM generate_series(1, 400) g;",
        columns.join(", "),
        rows.join(", ")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_table_has_few_lines_and_tells_what_comes_later() {
    let options = ServerOptions {
        database: Some("survey".to_owned()),
        ..ServerOptions::default()
    };
    let server = LocalPostgres::start(options).await.unwrap();
    let (owner, connection) = server.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    owner.batch_execute(&survey()).await.unwrap();
    let folder = TemporaryDirectory::new("wide");
    let run = |arguments: &[&str]| pgveil(&server, &folder.0, arguments).output().unwrap();

    // For forty answers the draft states their CHECKs once, and it asks once about the amounts.
    let url = server.url();
    let flags = [
        "--unit",
        "public.people.id",
        "--budget",
        "4,1e-6",
        "-o",
        "listed.yaml",
    ];
    let reported = is_well(&run(&[&["init", url][..], &flags].concat()));
    let password = reported
        .rsplit("shown once: ")
        .next()
        .unwrap()
        .trim()
        .to_owned();
    let draft = std::fs::read_to_string(folder.0.join("listed.yaml")).unwrap();
    assert!(draft.lines().count() < 50, "{draft}");
    let decided = "      amount1: {bounds: [0, 500], also: [amount2, amount3]}\n";
    let (before, _) = draft
        .split_once("      # DECIDE, for each or for all: numeric")
        .unwrap();
    let listed = format!("{before}{decided}");
    std::fs::write(folder.0.join("listed.yaml"), &listed).unwrap();
    let reported = is_well(&run(&["check", "listed.yaml"]));
    for line in [
        "    q1       values 1, 2, 3, 4, 5\n",
        "    q40      values 1, 2, 3, 4, 5\n",
    ] {
        assert!(reported.contains(line), "{reported}");
    }
    assert!(
        reported.contains("    amount3  from 0 to 500\n") && !reported.contains("amount4"),
        "{reported}"
    );

    // The other shorthand shows every column that is not listed, and reports them to the owner.
    let shown = listed.replace(
        "    columns:\n",
        "    other_columns: visible\n    columns:\n",
    ) + "      email: hidden\n";
    std::fs::write(folder.0.join("shown.yaml"), &shown).unwrap();
    let reported = is_well(&run(&["check", "shown.yaml"]));
    let line = "    amount4   no bounds, no values: for WHERE, and for groups above a threshold \
        (not listed: by other_columns)\n";
    assert!(
        reported.contains(line) && !reported.contains("email"),
        "{reported}"
    );
    let changed = run(&["policy", "diff", "listed.yaml", "shown.yaml"]);
    let reported = text(&changed.stdout);
    assert_eq!(changed.status.code(), Some(4), "{reported}");
    assert!(
        reported.contains(
            "columns of public.people that are not listed may be used, also those that are added \
                later"
        ),
        "{reported}"
    );
    serve(&server, &folder.0, "shown.yaml", &password, &owner).await;
    // A list of columns stays the same when the table gets more.
    let reported = is_well(&run(&["check", "listed.yaml"]));
    assert!(!reported.contains("diagnosis"), "{reported}");
}

/// A column that the table gets is refused until a reload, which tells it.
async fn serve(server: &LocalPostgres, folder: &Path, file: &str, password: &str, owner: &Client) {
    let port = free_port();
    let log = folder.join("log");
    let listen = format!("127.0.0.1:{port}");
    let child = pgveil(
        server,
        folder,
        &["serve", "--policy", file, "--listen", &listen],
    )
    .stderr(std::fs::File::create(&log).unwrap())
    .spawn()
    .unwrap();
    let running = Running(child);
    said(&log, " ready", 1).await;
    let line = "public.people shows 27 columns that the policy does not list, as other_columns is \
        visible: amount4, amount5";
    said(&log, line, 1).await;
    let config =
        format!("host=127.0.0.1 port={port} user=analyst password={password} dbname=survey");
    let (analyst, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    let (known, added) = (
        "SELECT count(*) FROM people WHERE amount4 > 100",
        "SELECT count(*) FROM people WHERE diagnosis = 'a'",
    );
    assert_eq!(sqlstate(&analyst, known).await, None);
    let sql = "ALTER TABLE people ADD COLUMN diagnosis text";
    owner.batch_execute(sql).await.unwrap();
    assert_eq!(sqlstate(&analyst, added).await.as_deref(), Some("42703"));
    running.signal("-HUP");
    said(&log, "the policy was reloaded", 1).await;
    let reported = "public.people.diagnosis is new, or newly readable, and may be asked about";
    said(&log, reported, 1).await;
    assert_eq!(sqlstate(&analyst, added).await, None);
    // Hidden by its name, it is gone.
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + "      diagnosis: hidden\n").unwrap();
    running.signal("-HUP");
    said(&log, "the policy was reloaded", 2).await;
    said(&log, "public.people.diagnosis is hidden", 1).await;
    assert_eq!(sqlstate(&analyst, added).await.as_deref(), Some("42703"));
}
