//! A digest of the rows of a public table. Key lists and copies are made when the policy is loaded;
//! the digest shows whether the table has changed since.

use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::Error;

/// Tables of at most this many rows are small enough to be checked with each query: that takes a
/// few milliseconds. A million rows take some 5 s.
const SMALL: u64 = 1_000;

/// How values are printed wherever they are compared or listed.
pub const PRINTED: &str = "SET LOCAL search_path = pg_catalog; SET LOCAL \"TimeZone\" = 'UTC'; SET \
    LOCAL \"DateStyle\" = 'ISO, MDY'; \
     SET LOCAL \"IntervalStyle\" = 'postgres'; SET LOCAL extra_float_digits = 1";

/// The rows of a public table at one moment, regardless of their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// How to read it again.
    sql: String,
    digest: String,
    rows: u64,
}

impl Content {
    /// Digest of these columns; `None` for more than `most` rows.
    ///
    /// # Requires
    /// Values are printed by [`PRINTED`].
    ///
    /// # Errors
    /// What the backend says.
    pub async fn read(
        client: &Client,
        schema: &str,
        table: &str,
        columns: &[&str],
        most: u64,
    ) -> Result<Option<Self>, Error> {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let columns: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let limit = most.saturating_add(1).min(i64::MAX as u64);
        let sql = format!(
            "SELECT pg_catalog.count(*), \
                pg_catalog.sum(pg_catalog.hashtextextended(pg_catalog.concat(r), 0)) \
             FROM (SELECT ROW({}) AS r FROM {}.{} LIMIT {limit}) AS t",
            columns.join(", "),
            quoted(schema),
            quoted(table),
        );
        let (rows, digest) = digest(client, &sql).await?;
        Ok((rows <= most).then_some(Self { sql, digest, rows }))
    }

    /// Whether a comparison is fast.
    pub fn is_small(&self) -> bool {
        self.rows <= SMALL
    }

    /// Whether the rows have changed, as the client's transaction sees them.
    ///
    /// # Errors
    /// What the backend says.
    pub async fn has_changed(&self, client: &Client) -> Result<bool, tokio_postgres::Error> {
        let (rows, digest) = digest(client, &self.sql).await?;
        Ok((rows, digest) != (self.rows, self.digest.clone()))
    }
}

/// The number of rows, and the sum of their hashes.
async fn digest(client: &Client, sql: &str) -> Result<(u64, String), tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let row = messages.iter().find_map(|message| {
        if let SimpleQueryMessage::Row(row) = message {
            Some(row)
        } else {
            None
        }
    });
    let text = |at| {
        row.and_then(|row| row.get(at))
            .unwrap_or_default()
            .to_owned()
    };
    Ok((text(0).parse().unwrap_or(u64::MAX), text(1)))
}
