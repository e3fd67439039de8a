//! The exact side: PostgreSQL's own answers over the survey's public data.
//!
//! [`Exact::start`] takes no argument: no address, policy, engine or server. It starts a PostgreSQL
//! of its own and loads the data of this binary, so there is no way to point it at a database that
//! pgveil protects.

use std::time::Duration;

use tokio_postgres::SimpleQueryMessage;

use super::data;
use super::data::{READER, ServerError};
use crate::postgres::{Kept, LocalPostgres, connect};

/// The longest that one answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Exact {
    local: LocalPostgres,
}

impl Exact {
    /// # Errors
    /// Where no server starts on this machine.
    pub async fn start() -> Result<Self, ServerError> {
        let kept = tokio::task::spawn_blocking(|| Kept::of(&data::content())).await;
        let kept = kept.ok().flatten().and_then(|kept| kept.clusters());
        if let Some((_, loaded)) = kept
            && let Ok(local) = data::copied(loaded).await
        {
            return Ok(Self { local });
        }
        let local = data::loaded(&|_, _| ()).await?;
        Ok(Self { local })
    }

    /// The rows of a statement that pgveil has answered, as text. `None` where PostgreSQL does not
    /// answer it in time.
    pub async fn rows(&self, sql: &str) -> Option<Vec<Vec<Option<String>>>> {
        tokio::time::timeout(PATIENCE, self.ask(sql)).await.ok()?
    }

    async fn ask(&self, sql: &str) -> Option<Vec<Vec<Option<String>>>> {
        let mut config = self.local.config();
        let limit = format!("-c statement_timeout={}", PATIENCE.as_millis());
        config.user(READER).options(&limit);
        let connected = connect(&config).await.ok()?;
        let answered = connected.client.simple_query(sql).await;
        connected.close().await;
        let rows = answered
            .ok()?
            .into_iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let value = |at| row.get(at).map(str::to_owned);
                    Some((0..row.len()).map(value).collect())
                }
                _ => None,
            });
        Some(rows.collect())
    }
}
