//! Tables that are written no more: the database refused a row for other rows, which was proved at
//! the start not to happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio_postgres::Config;

use crate::catalog;
use crate::policy::{Policy, Writing, WrittenTable};
use crate::postgres;
use crate::refusal::{Refusal, reason};

/// How long the database is asked what an INSERT shows.
const PATIENCE: Duration = Duration::from_secs(5);

/// The tables of which writers learn nothing, and those of them that are closed.
#[derive(Default)]
pub(super) struct ClosedTables {
    /// The login that writes.
    config: Option<Config>,
    public: Vec<u32>,
    /// By OID, with their names.
    proved: BTreeMap<u32, String>,
    closed: Mutex<BTreeSet<u32>>,
}

impl ClosedTables {
    /// None is closed.
    pub(super) fn of(policy: &Policy, writing: &Writing) -> Self {
        let tables = writing.tables.iter();
        let proved = tables.filter(|table| !table.shows_constraints);
        Self {
            config: writing.url.expose().parse().ok(),
            public: policy.public_tables(),
            proved: proved.map(|t| (t.oid, t.to_string())).collect(),
            closed: Mutex::default(),
        }
    }

    /// # Errors
    /// 55000, the same for all rows.
    pub(super) fn require_open(&self, table: &WrittenTable) -> Result<(), Refusal> {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if !closed.contains(&table.oid) {
            return Ok(());
        }
        let message = format!("table \"{}\" takes no rows now", table.name);
        Err(Refusal::new(reason::WRITE_CLOSED, message)
            .detail("The database refused a row for other rows, so that its replies show them.")
            .hint("The reason is in pgveil's log. The owner mends it and reloads the policy."))
    }

    /// Closes these tables, where the refusal of a write shows that what was proved of them no
    /// longer holds. A broken key to a public table closes none.
    pub(super) async fn judge(&self, refused: Option<&Refusal>, tables: &BTreeSet<u32>) {
        let is_certain = match refused.map(|refusal| refusal.sqlstate.as_str()) {
            // Of a table whose constraints are shown, it may be that one's.
            Some("23505" | "23P01") => tables.iter().all(|table| self.proved.contains_key(table)),
            Some("23503") => false,
            _ => return,
        };
        for (table, name) in self.proved.iter().filter(|(oid, _)| tables.contains(oid)) {
            if is_certain && !self.close(*table) {
                continue;
            }
            let found = match tokio::time::timeout(PATIENCE, self.ask(*table)).await {
                Ok(Some(found)) => found,
                Ok(None) | Err(_) => {
                    tracing::error!(table = name, "what an INSERT shows could not be asked");
                    continue;
                }
            };
            let is_closed = is_certain || !found.is_empty() && self.close(*table);
            if is_closed {
                let found = match found.is_empty() {
                    true => "a sequence that is behind its column".to_owned(),
                    false => found.join(", "),
                };
                tracing::error!(
                    table = name,
                    found,
                    "a table is closed to writers until a reload, since its replies show rows"
                );
            }
        }
    }

    /// Closes a table; whether it was open before.
    fn close(&self, table: u32) -> bool {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.insert(table)
    }

    /// What an INSERT into the table shows now, by a separate connection: those that write may be
    /// in a transaction that failed.
    async fn ask(&self, table: u32) -> Option<Vec<String>> {
        let connected = postgres::connect(self.config.as_ref()?).await.ok()?;
        let found = catalog::what_inserts_show(&connected.client, table, &self.public).await;
        connected.close().await;
        found.ok()
    }
}
