//! The identity of a server.

use tokio_postgres::Client;

/// Identifies a server, to find out whether two servers share one stream of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The system identifier, which copies of the cluster share.
    pub(super) cluster: String,
    pub(super) started: String,
    pub(super) is_standby: bool,
}

impl ServerIdentity {
    /// `None` where the server does not say.
    pub async fn of(client: &Client) -> Option<Self> {
        let sql = "SELECT system_identifier::text, extract(epoch FROM \
            pg_catalog.pg_postmaster_start_time())::text, pg_catalog.pg_is_in_recovery() FROM \
            pg_catalog.pg_control_system()";
        let row = client.query_one(sql, &[]).await.ok()?;
        Some(Self {
            cluster: row.try_get(0).ok()?,
            started: row.try_get(1).ok()?,
            is_standby: row.try_get(2).ok()?,
        })
    }

    /// Whether the two are one server, or a standby and the server it follows.
    pub(super) fn shares_changes_with(&self, other: &Self) -> bool {
        self.cluster == other.cluster
            && (self.started == other.started || self.is_standby || other.is_standby)
    }
}
