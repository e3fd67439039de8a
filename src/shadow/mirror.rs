//! Copies small public tables out of the real database. Private tables are never read.

use futures::{SinkExt, StreamExt, pin_mut};
use tokio_postgres::Client;

use super::ShadowError;
use super::ddl::{Shape, list, qualified};

/// How one public table fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrored {
    pub schema: String,
    pub table: String,
    /// `None`: more rows than `limits.mirror_rows`; the shadow's table stays empty.
    pub rows: Option<u64>,
}

pub async fn mirror(source: &Client, shadow: &mut Client, tables: &[Shape], rows_max: u64) -> Result<Vec<Mirrored>, ShadowError> {
    let mut mirrored = Vec::new();
    for table in tables.iter().filter(|table| table.is_public) {
        let rows = copy(source, shadow, table, rows_max).await?;
        if rows.is_none() {
            tracing::info!(schema = table.schema, table = table.name, "public table is too large to mirror");
        }
        mirrored.push(Mirrored { schema: table.schema.clone(), table: table.name.clone(), rows });
    }
    Ok(mirrored)
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
