//! The exact side: PostgreSQL's own answers over data that hide nobody.
//!
//! [`Exact::survey`] and [`Exact::library`] take no argument: no address, policy, engine or server.
//! They start a separate PostgreSQL and load the data of this binary, so there is no way to point
//! them at a database that pgveil protects.

use std::time::Duration;

use futures::StreamExt;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::data;
use super::data::{DemoData, READER, ServerError};
use crate::postgres::{KeptClusters, LocalPostgres, connect};

/// The longest that one answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// The most rows of one answer: as many as groups of a private one, by `limits.groups`.
pub const ROWS_MAX: usize = 100_000;

#[derive(Debug)]
pub struct Exact {
    local: LocalPostgres,
}

impl Exact {
    /// Over the survey.
    ///
    /// # Errors
    /// Where no server starts on this machine.
    pub async fn survey() -> Result<Self, ServerError> {
        let kept = tokio::task::spawn_blocking(|| KeptClusters::of(&data::content())).await;
        let kept = kept.ok().flatten().and_then(|kept| kept.clusters());
        if let Some((_, loaded)) = kept
            && let Ok(local) = data::copy_cluster(loaded).await
        {
            return Ok(Self { local });
        }
        Self::over(&DemoData::survey()).await
    }

    /// Over the library.
    ///
    /// # Errors
    /// Where no server starts on this machine.
    pub async fn library() -> Result<Self, ServerError> {
        Self::over(&DemoData::library()).await
    }

    async fn over(data: &DemoData) -> Result<Self, ServerError> {
        let local = data::load_new(data, &|_, _| ()).await?;
        Ok(Self { local })
    }

    /// The rows of a statement that pgveil has answered, as text. `None` where PostgreSQL does not
    /// answer it in time, or with more than [`ROWS_MAX`] rows.
    pub async fn rows(&self, sql: &str) -> Option<Vec<Vec<Option<String>>>> {
        tokio::time::timeout(PATIENCE, self.ask(sql)).await.ok()?
    }

    async fn ask(&self, sql: &str) -> Option<Vec<Vec<Option<String>>>> {
        let mut config = self.local.config();
        let limit = format!("-c statement_timeout={}", PATIENCE.as_millis());
        config.user(READER).options(&limit);
        let connected = connect(&config).await.ok()?;
        let rows = collect(&connected.client, sql).await;
        connected.close().await;
        rows
    }
}

async fn collect(client: &Client, sql: &str) -> Option<Vec<Vec<Option<String>>>> {
    let stream = client.simple_query_raw(sql).await.ok()?;
    futures::pin_mut!(stream);
    let mut rows = Vec::new();
    while let Some(message) = stream.next().await {
        if let SimpleQueryMessage::Row(row) = message.ok()? {
            if rows.len() == ROWS_MAX {
                return None;
            }
            let value = |at| row.get(at).map(str::to_owned);
            rows.push((0..row.len()).map(value).collect());
        }
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_exact_answer_has_a_most_of_rows() {
        let exact = Exact::survey().await.unwrap();
        let rows = async |count: usize| {
            let sql = format!("SELECT n FROM generate_series(1, {count}) AS n");
            exact.rows(&sql).await.map(|rows| rows.len())
        };
        assert_eq!(rows(ROWS_MAX).await, Some(ROWS_MAX));
        assert_eq!(rows(ROWS_MAX + 1).await, None);
    }
}
