//! The survey data, which are in the binary and in the public domain, and the library's rows, which
//! are made up.

use std::borrow::Cow;
use std::path::PathBuf;

use bytes::Bytes;
use futures::{SinkExt, pin_mut};
use tokio_postgres::{Client, Error};

use super::library;
use super::{LIBRARY, SURVEY};
use crate::postgres;
use crate::postgres::{LocalPostgres, ServerOptions, connect};

pub const SCHEMA: &str = include_str!("../../data/nls_young_women/schema.sql");
/// Referenced tables first.
pub const TABLES: [(&str, &[u8]); 4] = [
    (
        "nls.industries",
        include_bytes!("../../data/nls_young_women/industries.csv"),
    ),
    (
        "nls.occupations",
        include_bytes!("../../data/nls_young_women/occupations.csv"),
    ),
    (
        "nls.women",
        include_bytes!("../../data/nls_young_women/women.csv"),
    ),
    (
        "nls.interviews",
        include_bytes!("../../data/nls_young_women/interviews.csv"),
    ),
];
/// Number of bytes sent in one step. Small steps keep a progress bar moving.
const CHUNK: usize = 32 << 10;
/// The role that may only SELECT from the demo's tables.
pub const READER: &str = "pgveil_reader";

/// Why no server with the data came up.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("{0}")]
    Start(#[from] postgres::Error),
    #[error("the survey data could not be loaded: {0}")]
    Load(#[from] Error),
    #[error("rows are missing")]
    Broken,
}

/// A schema with its rows.
#[derive(Debug)]
pub struct DemoData {
    /// The name of the database and of the schema.
    pub name: &'static str,
    /// A statement a line.
    schema: &'static str,
    /// Tables with their rows as CSV, below a heading. Referenced tables first.
    tables: Vec<(&'static str, Cow<'static, [u8]>)>,
}

impl DemoData {
    /// The survey.
    pub fn survey() -> Self {
        let tables = TABLES.map(|(table, csv)| (table, Cow::Borrowed(csv)));
        Self {
            name: SURVEY,
            schema: SCHEMA,
            tables: tables.into(),
        }
    }

    /// The library.
    pub fn library() -> Self {
        let tables = library::tables();
        Self {
            name: LIBRARY,
            schema: library::SCHEMA,
            tables: tables.map(|(table, csv)| (table, Cow::Owned(csv))).into(),
        }
    }
}

fn options(database: &str, copy_of: Option<PathBuf>) -> ServerOptions {
    ServerOptions {
        database: Some(database.to_owned()),
        copy_of,
        ..ServerOptions::default()
    }
}

/// A throw-away server on a copy of a cluster with the survey that was loaded in an earlier run.
///
/// # Errors
/// Where it does not start, or does not hold everything.
pub async fn copy_cluster(cluster: PathBuf) -> Result<LocalPostgres, ServerError> {
    let local = LocalPostgres::start(options(SURVEY, Some(cluster))).await?;
    let connected = connect(&local.config()).await?;
    let whole = is_whole(&connected.client).await;
    connected.close().await;
    match whole {
        Ok(true) => Ok(local),
        Ok(false) | Err(_) => Err(ServerError::Broken),
    }
}

/// A throw-away server into which the data are loaded.
///
/// # Errors
/// Where it does not start or does not take the data.
pub async fn load_new(
    data: &DemoData,
    step: &(dyn Fn(&str, usize) + Sync),
) -> Result<LocalPostgres, ServerError> {
    let local = LocalPostgres::start(options(data.name, None)).await?;
    let mut connected = connect(&local.config()).await?;
    let outcome = match load(&mut connected.client, data, step).await {
        Ok(()) => add_reader(&connected.client, data.name).await,
        failed @ Err(_) => failed,
    };
    connected.close().await;
    outcome?;
    Ok(local)
}

/// The number of bytes of the survey that [`load`] sends.
pub fn bytes() -> usize {
    TABLES.iter().map(|(_, csv)| csv.len()).sum()
}

/// Loads everything in one transaction. `step` hears the table and the number of bytes of each
/// step.
///
/// # Errors
/// The server's own.
pub async fn load(
    client: &mut Client,
    data: &DemoData,
    step: &(dyn Fn(&str, usize) + Sync),
) -> Result<(), Error> {
    let statements = |analyze: bool| -> String {
        let wanted =
            |line: &&str| !line.starts_with('\\') && line.starts_with("ANALYZE") == analyze;
        data.schema
            .lines()
            .filter(wanted)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let transaction = client.transaction().await?;
    transaction.batch_execute(&statements(false)).await?;
    for (table, csv) in &data.tables {
        let sink = transaction
            .copy_in::<_, Bytes>(&format!("COPY {table} FROM STDIN (FORMAT csv, HEADER)"))
            .await?;
        pin_mut!(sink);
        for chunk in csv.chunks(CHUNK) {
            sink.send(Bytes::copy_from_slice(chunk)).await?;
            step(table, chunk.len());
        }
        sink.finish().await?;
    }
    transaction.batch_execute(&statements(true)).await?;
    transaction.commit().await
}

/// Makes the role [`READER`].
///
/// # Errors
/// The server's own.
async fn add_reader(client: &Client, schema: &str) -> Result<(), Error> {
    let grants = format!(
        "CREATE ROLE {READER} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {READER}; GRANT SELECT ON \
            ALL TABLES IN SCHEMA {schema} TO {READER}; \
         ALTER ROLE {READER} SET default_transaction_read_only = on"
    );
    client.batch_execute(&grants).await
}

/// Whether a database holds all rows of the survey and the reader. A kept cluster may have been
/// damaged.
///
/// # Errors
/// The server's own.
async fn is_whole(client: &Client) -> Result<bool, Error> {
    let row = client
        .query_one(
            "SELECT (SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname = $1)",
            &[&READER],
        )
        .await?;
    let mut is_whole = row.try_get::<_, i64>(0)? == 1;
    for (table, csv) in TABLES {
        let rows = csv.iter().filter(|byte| **byte == b'\n').count() - 1;
        let row = client
            .query_one(&format!("SELECT count(*) FROM {table}"), &[])
            .await?;
        is_whole &= usize::try_from(row.try_get::<_, i64>(0)?) == Ok(rows);
    }
    Ok(is_whole)
}

/// The content of the survey, for the name of a kept cluster.
pub fn content() -> Vec<&'static [u8]> {
    let tables = TABLES.iter().map(|(_, csv)| *csv);
    std::iter::once(SCHEMA.as_bytes()).chain(tables).collect()
}
