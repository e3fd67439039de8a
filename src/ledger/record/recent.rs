//! The newest records, for readers of the end of the record.

use super::super::error::Error;
use super::super::rules::Rules;
use super::super::store::{Access, StoreValue, first};
use super::Record;
use super::rows::read_record;
use crate::ledger::Ledger;

/// The newest statements of a role. An index has its own alone: neither the work nor the time
/// depends on what other roles have asked.
pub(in crate::ledger) const STATEMENTS_OF_ROLE: &str = "SELECT id, microseconds, kind, name, \
    session, address, application, via, actor, verdict, sqlstate, statement, plan, detail, \
    epsilon, rho, mu_squared, delta FROM record WHERE name = $1 AND kind = 'statement' AND actor \
    IS NULL ORDER BY id DESC LIMIT $2";

impl Ledger {
    /// The newest records before that number, newest first, each with its number. Those of proxies
    /// of older formats are left out.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn recent_records(
        &self,
        before: i64,
        rows_max: u32,
    ) -> Result<Vec<(i64, Record)>, Error> {
        self.worker
            .call(Access::Read, move |rules| {
                rules.recent_records(before, rows_max)
            })
            .await
    }
}

impl Ledger {
    /// The newest statements of a role, newest first; not what operators explored in its terms.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn recent_statements(&self, role: &str, rows_max: u32) -> Result<Vec<Record>, Error> {
        let role = role.to_owned();
        self.worker
            .call(Access::Read, move |rules| {
                rules.recent_statements(&role, rows_max)
            })
            .await
    }
}

impl Ledger {
    /// A number that all records have passed that were written after this moment, in microseconds
    /// since 1970, and few that were written before it. The work grows with the logarithm of the
    /// record's length.
    ///
    /// Records are written in the order of their ends, and hold when they began: one that took long
    /// may stand behind the number although it began before.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn number_after(&self, microseconds: i64) -> Result<i64, Error> {
        let work = move |rules: &mut Rules| rules.number_after(microseconds);
        self.worker.call(Access::Read, work).await
    }
}

impl Rules {
    fn number_after(&mut self, microseconds: i64) -> Result<i64, Error> {
        let newest = "SELECT coalesce(max(id), 0) FROM record";
        let newest = first(&self.store.query(newest, &[])?)?.int(0)?;
        // Those below `low` began by then, those from `high` on later.
        let (mut low, mut high) = (0, newest.saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            let sql = "SELECT id, microseconds FROM record WHERE id >= $1 ORDER BY id LIMIT 1";
            let found = self.store.query(sql, &[StoreValue::Int(middle)])?;
            match found.first() {
                Some(row) if row.int(1)? <= microseconds => low = row.int(0)?.saturating_add(1),
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }

    fn recent_statements(&mut self, role: &str, rows_max: u32) -> Result<Vec<Record>, Error> {
        let values = [
            StoreValue::Text(role.to_owned()),
            StoreValue::Int(i64::from(rows_max)),
        ];
        let rows = self.store.query(STATEMENTS_OF_ROLE, &values)?;
        let numbered = rows.iter().map(read_record);
        numbered.map(|row| row.map(|(_, record)| record)).collect()
    }

    fn recent_records(&mut self, before: i64, rows_max: u32) -> Result<Vec<(i64, Record)>, Error> {
        let sql = "SELECT id, microseconds, kind, name, session, address, application, via, \
            actor, verdict, sqlstate, statement, plan, detail, epsilon, rho, mu_squared, delta \
            FROM record WHERE id < $1 ORDER BY id DESC LIMIT $2";
        let values = [
            StoreValue::Int(before),
            StoreValue::Int(i64::from(rows_max)),
        ];
        let rows = self.store.query(sql, &values)?;
        rows.iter().map(read_record).collect()
    }
}
