//! Runs a client's script to its end.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;

use super::stage;
use super::stage::Stage;

const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the script of one client on the shared stage.
///
/// # Panics
/// Where the script fails; its output says why.
pub async fn run(
    client: &str,
    program: impl AsRef<OsStr>,
    arguments: &[&OsStr],
    environment: &[(&str, &OsStr)],
) {
    run_on(
        &*Stage::shared().await,
        client,
        program,
        arguments,
        environment,
    )
    .await;
}

/// Runs a client over the shop's tables.
pub async fn run_shop(
    client: &str,
    program: impl AsRef<OsStr>,
    arguments: &[&OsStr],
    environment: &[(&str, &OsStr)],
) {
    let environment = [environment, &[("STAGE", "shop".as_ref())]].concat();
    run_on(
        &*Stage::shop().await,
        client,
        program,
        arguments,
        &environment,
    )
    .await;
}

/// Runs a client on the test's own stage.
pub async fn run_on(
    stage: &Stage,
    client: &str,
    program: impl AsRef<OsStr>,
    arguments: &[&OsStr],
    environment: &[(&str, &OsStr)],
) {
    let started = Instant::now();
    let mut command = Command::new(program);
    // Nothing of the caller's own PG* settings reaches the client.
    for (name, _) in std::env::vars_os()
        .filter(|(name, _)| name.to_string_lossy().starts_with("PG") || name == "STAGE")
    {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .envs(environment.iter().copied())
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("HOME", home(client));
    command
        .env("VEILED_PORT", stage.veiled.port().to_string())
        .env("DIRECT_PORT", stage.direct.port().to_string());
    command.env("POOR", stage::poor(client));
    // Into a file, so that its output is printed even if it does not end.
    let said = home(client).join("said");
    let file = std::fs::File::create(&said).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.status()).await;
    let said = String::from_utf8_lossy(&std::fs::read(&said).unwrap()).into_owned();
    print!("{said}");
    println!("{client} ran {:.1} s", started.elapsed().as_secs_f64());
    assert!(
        ended.expect("the client came to no end").unwrap().success(),
        "the script of {client} failed"
    );
    tell_what_it_did(client, &said);
}

/// What every client is to do.
const ITEMS: [&str; 13] = [
    "tls",
    "scram",
    "list",
    "describe",
    "text",
    "binary",
    "prepared",
    "cursor",
    "refused",
    "transaction",
    "savepoint",
    "cancel",
    "pool",
];

/// The items that a client cannot do, or leaves to another client of the table.
fn has_not(client: &str) -> &'static [&'static str] {
    match client {
        // The simple protocol alone.
        "psycopg2" | "psql" => &["binary"],
        // They stand on psycopg 3.
        "sqlalchemy" | "django" | "pandas" => &["binary"],
        // Values are text in this driver.
        "psqlodbc" | "node" | "node-shop" | "postgresjs" | "sequelize" | "prisma" | "perl" => {
            &["binary"]
        }
        // In the simple protocol.
        "psql-shop" | "jdbc-simple" | "django-shop" => &["binary"],
        _ => &[],
    }
}

/// A row of the table of items and clients. Scripts say `does <items>` once a check of these has
/// passed.
///
/// # Panics
/// Where the client has not done an item that it could do.
pub fn tell_what_it_did(client: &str, said: &str) {
    // These ask for one thing each.
    if ["pgbench", "isql", "superset", "notebook"].contains(&client) || client.starts_with("mcp-") {
        return;
    }
    let done: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("does "))
        .flat_map(str::split_whitespace)
        .collect();
    let cell = |item: &&str| match (done.contains(item), has_not(client).contains(item)) {
        (true, _) => format!("{item} yes"),
        (false, true) => format!("{item} -"),
        (false, false) => format!("{item} NO"),
    };
    let row: Vec<String> = ITEMS.iter().map(cell).collect();
    println!("{client}: {}", row.join(", "));
    assert!(
        !row.iter().any(|cell| cell.ends_with(" NO")),
        "{client} has not done everything: {}",
        row.join(", ")
    );
    let cells: Vec<&str> = ITEMS
        .iter()
        .map(|item| if done.contains(item) { "yes" } else { "–" })
        .collect();
    assert_eq!(
        documented(client),
        cells,
        "docs/clients.md says otherwise of {client}"
    );
}

/// The items in this client's row of docs/clients.md.
fn documented(client: &str) -> Vec<String> {
    let document = std::fs::read_to_string("docs/clients.md").unwrap();
    let start = format!("| `{client}` |");
    let row = document.lines().find(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("docs/clients.md has no row of {client}"));
    row.trim_matches('|')
        .split('|')
        .skip(2)
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// A separate home: no startup file, key or certificate of the caller.
fn home(client: &str) -> std::path::PathBuf {
    let home = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("home-{client}"));
    std::fs::create_dir_all(&home).unwrap();
    home
}
