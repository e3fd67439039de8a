//! Loads the survey data from the binary into a database.

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use tokio_postgres::{Client, Config};

use crate::cli::{Failure, start};
use crate::demo::data;
use crate::demo::data::DemoData;
use crate::postgres::{Connected, LocalPostgres, connect};

/// Starts a throw-away server with the data: on a copy of the cluster that was loaded in an earlier
/// run, if it is whole.
pub async fn throw_away(loaded: Option<PathBuf>) -> Result<LocalPostgres, Failure> {
    if let Some(cluster) = loaded {
        return data::copy_cluster(cluster).await.map_err(Failure::new);
    }
    let bar = progress();
    let started = data::load_new(&DemoData::survey(), &|table, bytes| {
        step(&bar, table, bytes)
    })
    .await;
    bar.finish_and_clear();
    started.map_err(|e| {
        Failure::with_remedy(
            e,
            "The demo can also use a server that you have: pgveil \
            demo --database postgresql://user@host/database",
        )
    })
}

async fn open(config: &Config) -> Result<Connected, Failure> {
    connect(config).await.map_err(start::unreachable_database)
}

/// Loads the user's server, unless it has the schema already.
pub async fn own_server(config: &Config) -> Result<(), Failure> {
    let mut connected = open(config).await?;
    let client = &mut connected.client;
    let found = client
        .query_one(
            "SELECT current_database()::text, pg_catalog.to_regnamespace('nls') IS NOT NULL",
            &[],
        )
        .await
        .map_err(Failure::new)?;
    let (database, exists): (String, bool) = (found.get(0), found.get(1));
    if exists {
        eprintln!("Using schema nls of database {database} as it stands.");
    } else {
        eprintln!(
            "Loading the survey data into a new schema nls of database {database}. It stays there: \
                DROP SCHEMA nls CASCADE removes it."
        );
        load(client).await?;
    }
    connected.close().await;
    Ok(())
}

async fn load(client: &mut Client) -> Result<(), Failure> {
    let bar = progress();
    let loaded = data::load(client, &DemoData::survey(), &|table, bytes| {
        step(&bar, table, bytes)
    })
    .await;
    bar.finish_and_clear();
    loaded.map_err(failure_of)
}

fn failure_of(error: tokio_postgres::Error) -> Failure {
    let text = error
        .as_db_error()
        .map_or_else(|| error.to_string(), |db| db.message().to_owned());
    Failure::with_remedy(
        format_args!("the survey data could not be loaded: {text}"),
        "The database's user needs the right to create a schema.",
    )
}

fn progress() -> ProgressBar {
    let bar = ProgressBar::new(data::bytes() as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg:<24} [{bar:32}] {bytes}/{total_bytes}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn step(bar: &ProgressBar, table: &str, bytes: usize) {
    if bar.position() == 0 {
        tracing::debug!("loading the survey data");
    }
    bar.set_message(format!("Loading {table}"));
    bar.inc(bytes as u64);
}
