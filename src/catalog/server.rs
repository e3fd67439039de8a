//! Facts about the backing server, and the settings that its sessions start with.

use std::collections::HashMap;

use tokio_postgres::Client;

use super::Error;

/// PostgreSQL's own default.
const SEARCH_PATH: &str = "\"$user\", public";

/// Facts of the backing server that a session may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendServer {
    /// The result of `version()`.
    pub version: String,
    /// When it started, as a timestamptz in UTC.
    pub started: Option<String>,
    /// The initial settings of a session of the backing role: from the server's file, ALTER
    /// DATABASE or ALTER ROLE.
    search_path: String,
    /// Settings by ALTER ROLE for roles of the server, in this database or in all.
    search_paths: HashMap<String, String>,
}

impl BackendServer {
    /// A server of which only the version is known.
    pub fn new(version: impl Into<String>) -> Self {
        Self {
            version: version.into(),
            started: None,
            search_path: SEARCH_PATH.to_owned(),
            search_paths: HashMap::new(),
        }
    }

    /// Reads the facts, and the settings that its catalogs store.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn of(client: &Client) -> Result<Self, Error> {
        let own = client.query_one(OWN_SQL, &[]).await?;
        let mut search_paths = HashMap::new();
        for row in client.query(ROLES_SQL, &[]).await? {
            search_paths.insert(row.try_get(0)?, row.try_get(1)?);
        }
        Ok(Self {
            version: own.try_get(0)?,
            started: Some(own.try_get(1)?),
            search_path: own.try_get(2)?,
            search_paths,
        })
    }

    /// The search_path that a session of this name starts with on the server itself.
    pub fn search_path(&self, role: &str) -> &str {
        self.search_paths.get(role).unwrap_or(&self.search_path)
    }
}

const OWN_SQL: &str = "
    SELECT pg_catalog.version(), pg_catalog.to_char(pg_catalog.timezone('UTC', \
    pg_catalog.pg_postmaster_start_time()), 'YYYY-MM-DD HH24:MI:SS.US') || '+00',
      (SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'search_path')";

/// The setting for one database comes later, and so overrides that for all.
const ROLES_SQL: &str = r"
    SELECT r.rolname::text, pg_catalog.substr(c, 13) FROM pg_catalog.pg_db_role_setting s
    JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
        CROSS JOIN LATERAL pg_catalog.unnest(s.setconfig) AS c
    WHERE c LIKE 'search\_path=%' AND s.setdatabase IN (0, (SELECT d.oid
        FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()))
    ORDER BY s.setdatabase";
