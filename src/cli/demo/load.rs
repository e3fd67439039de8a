//! Loads the survey data from the binary into a database.

use bytes::Bytes;
use futures::{SinkExt, pin_mut};
use indicatif::{ProgressBar, ProgressStyle};
use tokio_postgres::{Client, Config};

use crate::cli::{Failure, start};
use crate::postgres::{LocalPostgres, connect};

const SCHEMA: &str = include_str!("../../../data/nls_young_women/schema.sql");
/// Referenced tables first.
const TABLES: [(&str, &[u8]); 4] = [
    (
        "nls.industries",
        include_bytes!("../../../data/nls_young_women/industries.csv"),
    ),
    (
        "nls.occupations",
        include_bytes!("../../../data/nls_young_women/occupations.csv"),
    ),
    (
        "nls.women",
        include_bytes!("../../../data/nls_young_women/women.csv"),
    ),
    (
        "nls.interviews",
        include_bytes!("../../../data/nls_young_women/interviews.csv"),
    ),
];
/// Number of bytes sent in one step. Small steps keep the progress bar moving.
const CHUNK: usize = 32 << 10;

/// Loads a throw-away server and returns the proxy's connection settings.
pub async fn throw_away(local: &LocalPostgres) -> Result<Config, Failure> {
    let admin = local.config();
    let mut connected = connect(&admin).await.map_err(start::unreachable_database)?;
    let loaded = load(&mut connected.client).await;
    connected.close().await;
    loaded?;
    super::reader(&admin).await
}

/// Loads the user's server, unless it has the schema already.
pub async fn standing(config: &Config) -> Result<(), Failure> {
    let mut connected = connect(config).await.map_err(start::unreachable_database)?;
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

/// Loads everything in one transaction.
async fn load(client: &mut Client) -> Result<(), Failure> {
    let failed = |error: tokio_postgres::Error| {
        let text = error
            .as_db_error()
            .map_or_else(|| error.to_string(), |db| db.message().to_owned());
        Failure::with_remedy(
            format_args!("the survey data could not be loaded: {text}"),
            "The database's user needs the right to create a schema.",
        )
    };
    let statements = |analyze: bool| -> String {
        let wanted =
            |line: &&str| !line.starts_with('\\') && line.starts_with("ANALYZE") == analyze;
        SCHEMA.lines().filter(wanted).collect::<Vec<_>>().join("\n")
    };
    let bytes: usize = TABLES.iter().map(|(_, csv)| csv.len()).sum();
    let bar = ProgressBar::new(bytes as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg:<24} [{bar:32}] {bytes}/{total_bytes}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let transaction = client.transaction().await.map_err(failed)?;
    transaction
        .batch_execute(&statements(false))
        .await
        .map_err(failed)?;
    for (table, csv) in TABLES {
        bar.set_message(format!("Loading {table}"));
        let sink = transaction
            .copy_in::<_, Bytes>(&format!("COPY {table} FROM STDIN (FORMAT csv, HEADER)"))
            .await
            .map_err(failed)?;
        pin_mut!(sink);
        for chunk in csv.chunks(CHUNK) {
            sink.send(Bytes::from_static(chunk)).await.map_err(failed)?;
            bar.inc(chunk.len() as u64);
        }
        sink.finish().await.map_err(failed)?;
    }
    transaction
        .batch_execute(&statements(true))
        .await
        .map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    bar.finish_and_clear();
    Ok(())
}
