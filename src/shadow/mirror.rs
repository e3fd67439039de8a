//! Copies small public tables out of the real database. Private tables are never read.

use futures::{SinkExt, StreamExt, pin_mut};
use tokio_postgres::Client;

use super::ShadowError;
use super::ddl::Shape;
use crate::postgres::{identifier, list, qualified};

/// How one public table fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrored {
    pub schema: String,
    pub table: String,
    /// `None`: more rows than `limits.mirror_rows`; the shadow's table stays empty.
    pub rows: Option<u64>,
}

/// `keys` are the statements of the public tables' foreign keys.
pub async fn mirror(source: &Client, shadow: &mut Client, tables: &[Shape], keys: &[String], rows_max: u64) -> Result<Vec<Mirrored>, ShadowError> {
    let mut mirrored = Vec::new();
    unlink(shadow, tables).await?;
    for table in tables.iter().filter(|table| table.is_public) {
        let rows = copy(source, shadow, table, rows_max).await?;
        if rows.is_none() {
            tracing::info!(schema = table.schema, table = table.name, "public table is too large to mirror");
        }
        mirrored.push(Mirrored { schema: table.schema.clone(), table: table.name.clone(), rows });
    }
    link(shadow, keys).await?;
    Ok(mirrored)
}

/// Takes the foreign keys of public tables away, so that each can be filled whatever the others hold.
async fn unlink(shadow: &Client, tables: &[Shape]) -> Result<(), ShadowError> {
    let find = "SELECT o.conname::text FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class c ON c.oid = o.conrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE o.contype = 'f' AND n.nspname = $1 AND c.relname = $2";
    for table in tables.iter().filter(|table| table.is_public) {
        for row in shadow.query(find, &[&table.schema, &table.name]).await? {
            let name: String = row.try_get(0)?;
            let drop = format!("ALTER TABLE {} DROP CONSTRAINT {}", qualified(&table.schema, &table.name), identifier(&name));
            shadow.batch_execute(&drop).await?;
        }
    }
    Ok(())
}

/// Puts them back, for the catalogs to show. The rows they refer to may be missing here, so they are called valid as those of the real database are, which
/// only a superuser may do.
async fn link(shadow: &Client, keys: &[String]) -> Result<(), ShadowError> {
    for key in keys {
        shadow.batch_execute(key).await?;
    }
    let validate = "UPDATE pg_catalog.pg_constraint SET convalidated = true WHERE contype = 'f' AND NOT convalidated";
    if !keys.is_empty() && shadow.batch_execute(validate).await.is_err() {
        tracing::info!("foreign keys of public tables show as not valid: a superuser of the shadow could mark them");
    }
    Ok(())
}

/// Binary, since only built-in types are mirrored: no setting reaches the values. One row past the limit tells that there are too many.
async fn copy(source: &Client, shadow: &mut Client, table: &Shape, rows_max: u64) -> Result<Option<u64>, ShadowError> {
    let (name, columns) = (qualified(&table.schema, &table.name), list(&table.columns));
    let transaction = shadow.transaction().await?;
    transaction.batch_execute(&format!("TRUNCATE {name} CASCADE")).await?;
    let rows = if columns.is_empty() {
        0
    } else {
        let limit = rows_max.saturating_add(1).min(i64::MAX as u64);
        let outgoing = source
            .copy_out(&format!("COPY (SELECT {columns} FROM {name} LIMIT {limit}) TO STDOUT (FORMAT binary)"))
            .await
            .map_err(|error| unread(&error))?;
        let sink = transaction.copy_in(&format!("COPY {name} ({columns}) FROM STDIN (FORMAT binary)")).await?;
        pin_mut!(outgoing, sink);
        while let Some(chunk) = outgoing.next().await {
            sink.send(chunk.map_err(|error| unread(&error))?).await?;
        }
        sink.finish().await?
    };
    if rows > rows_max {
        transaction.batch_execute(&format!("TRUNCATE {name} CASCADE")).await?;
    }
    transaction.commit().await?;
    Ok((rows <= rows_max).then_some(rows))
}

/// The real database's text stays out of what a client might see.
fn unread(error: &tokio_postgres::Error) -> ShadowError {
    let sqlstate = error.code().map_or("none", |code| code.code());
    ShadowError::Failed(format!("reading a public table of the real database: SQLSTATE {sqlstate}"))
}
