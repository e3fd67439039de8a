//! The record of the policies that were in force: a start under another file, and each reload.

use super::error::Error;
use super::record::policy_json;
use super::rules::Rules;
use super::store::{Access, Row, StoreValue, blob, text_value};
use super::{Ledger, LedgerReader};
use crate::policy::FileDigest;

/// A policy that came into force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRecord {
    /// By the proxy's clock, since 1970.
    pub microseconds: i64,
    pub digest: FileDigest,
    /// The changes that the policy made, line by line. Empty after a start, which does not know the
    /// file before.
    pub change: String,
}

impl Ledger {
    /// Records that a policy comes into force, by the SHA-256 of its file, with what it changes;
    /// nothing where it is the newest of the record and changes nothing. Durable before it returns.
    ///
    /// # Errors
    ///
    /// [`Error`]. The policy must not come into force then.
    pub async fn record_policy(&self, digest: FileDigest, change: String) -> Result<(), Error> {
        let copied = change.clone();
        let recorded = self
            .worker
            .call(Access::Write, move |rules| {
                rules.record_policy(digest, &change)
            })
            .await?;
        if let (Some(microseconds), Some(file)) = (recorded, self.records.file()) {
            file.append(&policy_json(microseconds, digest, &copied));
        }
        Ok(())
    }
}

impl LedgerReader {
    /// The policies that were in force, oldest first.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn policies(&self) -> Result<Vec<PolicyRecord>, Error> {
        self.worker.call(Rules::policies).await
    }
}

impl Rules {
    /// Records that a policy comes into force, unless it is the newest of the record and changes
    /// nothing. Returns the time that it recorded.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn record_policy(
        &mut self,
        digest: FileDigest,
        change: &str,
    ) -> Result<Option<i64>, Error> {
        let newest = "SELECT digest FROM policy ORDER BY id DESC LIMIT 1";
        let newest = self.store.query(newest, &[])?;
        let newest = newest.first().map(|row| row.digest(0)).transpose()?;
        let newest = newest.map(FileDigest);
        if newest == Some(digest) && change.is_empty() {
            return Ok(None);
        }
        let sql = "INSERT INTO policy (id, microseconds, digest, change)
                   VALUES ((SELECT coalesce(max(id), 0) + 1 FROM policy), $1, $2, $3)";
        let now = self.clock.now();
        let values = [StoreValue::Int(now), blob(&digest.0), text_value(change)];
        self.store.query(sql, &values)?;
        Ok(Some(now))
    }

    /// Every policy of the record, oldest first.
    pub(super) fn policies(&mut self) -> Result<Vec<PolicyRecord>, Error> {
        let sql = "SELECT microseconds, digest, change FROM policy ORDER BY id";
        let read = |row: &Row| {
            Ok(PolicyRecord {
                microseconds: row.int(0)?,
                digest: FileDigest(row.digest(1)?),
                change: row.text(2)?.to_owned(),
            })
        };
        self.store.query(sql, &[])?.iter().map(read).collect()
    }
}
