//! The number of rows of a public table that agree in some columns.

use tokio_postgres::SimpleQueryMessage;

use super::{Requester, Shadow, ShadowError, pool, role, settings};
use crate::postgres::{identifier, qualify};

impl Shadow {
    /// The most rows of a copied table that have equal values, none NULL, in these columns.
    ///
    /// # Errors
    /// What PostgreSQL says, as where its limits are too narrow for the count; the shadow is gone.
    pub async fn most_equal_rows(
        &self,
        requester: &Requester,
        schema: &str,
        table: &str,
        columns: &[&str],
    ) -> Result<u64, ShadowError> {
        let columns: Vec<String> = columns.iter().map(|name| identifier(name)).collect();
        let known: Vec<String> = columns
            .iter()
            .map(|column| format!("{column} IS NOT NULL"))
            .collect();
        let sql = format!(
            "SELECT pg_catalog.max(n) FROM (SELECT pg_catalog.count(*) AS n FROM {} WHERE {} \
                GROUP BY {}) AS t",
            qualify(schema, table),
            known.join(" AND "),
            columns.join(", "),
        );
        let preamble = settings::canonical(self.statement_timeout);
        let _share = self.shares.take(&requester.role).await;
        let mut attempts = pool::Attempts::default();
        loop {
            let lease = self.pool.lease(role::ROLE, &preamble).await?;
            let counting = async { Ok(lease.client().simple_query(&sql).await?) };
            let outcome = self.limit_time(counting).await;
            let outcome = outcome.map(|messages| largest(&messages));
            if let Some(outcome) = lease.settle(outcome, &mut attempts) {
                return outcome;
            }
        }
    }
}

/// The number of the only row; 0 where the table has no row that can be equal to anything.
fn largest(messages: &[SimpleQueryMessage]) -> u64 {
    messages
        .iter()
        .find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        })
        .unwrap_or_default()
}
