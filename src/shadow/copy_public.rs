//! Copies small public tables out of the real database. Private tables are never read.

use futures::{SinkExt, StreamExt, pin_mut};
use tokio_postgres::Client;

use super::ShadowError;
use super::ddl::TableShape;
use crate::postgres::{identifier, list, qualify};

/// The result of copying one public table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    pub schema: String,
    pub table: String,
    /// `None`: more rows than `limits.mirror_rows`; the shadow's table stays empty.
    pub rows: Option<u64>,
}

/// Progress of the copying of a public table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copying<'a> {
    pub schema: &'a str,
    pub table: &'a str,
    pub rows: u64,
    /// The approximate number of rows, where the real database's statistics say.
    pub of: Option<u64>,
}

/// Receives progress: at the beginning of each table, and every [`REPORT_ROWS`] rows.
pub type CopyListener<'a> = &'a (dyn Fn(Copying<'_>) + Sync);

/// Rows between two reports.
const REPORT_ROWS: u64 = 10_000;

/// `keys` are the statements of the public tables' foreign keys.
pub async fn copy_tables(
    source: &Client,
    shadow: &mut Client,
    tables: &[TableShape],
    keys: &[String],
    rows_max: u64,
    heard: CopyListener<'_>,
) -> Result<Vec<CopiedTable>, ShadowError> {
    let mut copied = Vec::new();
    unlink(shadow, tables).await?;
    for table in tables.iter().filter(|table| table.is_public) {
        let rows = copy(source, shadow, table, rows_max, heard).await?;
        if rows.is_none() {
            tracing::info!(
                schema = table.schema,
                table = table.name,
                "public table is too large to mirror"
            );
        }
        copied.push(CopiedTable {
            schema: table.schema.clone(),
            table: table.name.clone(),
            rows,
        });
    }
    link(shadow, keys).await?;
    Ok(copied)
}

/// Drops the foreign keys of public tables, so that each table can be filled whatever the others
/// hold.
async fn unlink(shadow: &Client, tables: &[TableShape]) -> Result<(), ShadowError> {
    let find = "SELECT o.conname::text FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class c \
        ON c.oid = o.conrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE o.contype = 'f' AND \
        n.nspname = $1 AND c.relname = $2";
    for table in tables.iter().filter(|table| table.is_public) {
        for row in shadow.query(find, &[&table.schema, &table.name]).await? {
            let name: String = row.try_get(0)?;
            let drop = format!(
                "ALTER TABLE {} DROP CONSTRAINT {}",
                qualify(&table.schema, &table.name),
                identifier(&name)
            );
            shadow.batch_execute(&drop).await?;
        }
    }
    Ok(())
}

/// Restores them, so that catalogs show them. Rows that they refer to may be missing here, so they
/// are marked valid as in the real database, which only a superuser may do.
async fn link(shadow: &Client, keys: &[String]) -> Result<(), ShadowError> {
    for key in keys {
        shadow.batch_execute(key).await?;
    }
    let validate = "UPDATE pg_catalog.pg_constraint SET convalidated = true WHERE contype = 'f' \
        AND \
        NOT convalidated";
    if !keys.is_empty() && shadow.batch_execute(validate).await.is_err() {
        tracing::info!(
            "foreign keys of public tables show as not valid: a superuser of the shadow could mark \
                them"
        );
    }
    Ok(())
}

/// In binary, since only built-in types are copied: no setting affects the values. One row past the
/// limit shows that there are too many.
async fn copy(
    source: &Client,
    shadow: &mut Client,
    table: &TableShape,
    rows_max: u64,
    heard: CopyListener<'_>,
) -> Result<Option<u64>, ShadowError> {
    let report = Copying {
        schema: &table.schema,
        table: &table.name,
        rows: 0,
        of: estimate(source, table).await,
    };
    heard(report);
    let (name, columns) = (qualify(&table.schema, &table.name), list(&table.columns));
    let transaction = shadow.transaction().await?;
    transaction
        .batch_execute(&format!("TRUNCATE {name} CASCADE"))
        .await?;
    let rows = if columns.is_empty() {
        0
    } else {
        let limit = rows_max.saturating_add(1).min(i64::MAX as u64);
        let outgoing = source
            .copy_out(&format!(
                "COPY (SELECT {columns} FROM {name} LIMIT {limit}) TO STDOUT (FORMAT binary)"
            ))
            .await
            .map_err(|error| unread(&error))?;
        let sink = transaction
            .copy_in(&format!(
                "COPY {name} ({columns}) FROM STDIN (FORMAT binary)"
            ))
            .await?;
        pin_mut!(outgoing, sink);
        let mut rows = 0;
        // `feed` sends rows in batches; `send` would flush each row, and take ten times as long.
        while let Some(row) = outgoing.next().await {
            sink.feed(row.map_err(|error| unread(&error))?).await?;
            rows += 1;
            if rows % REPORT_ROWS == 0 {
                heard(Copying { rows, ..report });
            }
        }
        sink.finish().await?
    };
    if rows > rows_max {
        transaction
            .batch_execute(&format!("TRUNCATE {name} CASCADE"))
            .await?;
    }
    transaction.commit().await?;
    Ok((rows <= rows_max).then_some(rows))
}

/// The real database's estimate. Nothing depends on it.
async fn estimate(source: &Client, table: &TableShape) -> Option<u64> {
    let sql = "SELECT c.reltuples::float8 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace \
        n \
        ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = $2";
    let rows: f64 = source
        .query_opt(sql, &[&table.schema, &table.name])
        .await
        .ok()??
        .try_get(0)
        .ok()?;
    (rows >= 1.0).then_some(rows as u64)
}

/// The text of the real database's error must not reach a client.
fn unread(error: &tokio_postgres::Error) -> ShadowError {
    let sqlstate = error.code().map_or("none", |code| code.code());
    ShadowError::Failed(format!(
        "reading a public table of the real database: SQLSTATE {sqlstate}"
    ))
}
