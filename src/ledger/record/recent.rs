//! The newest records, for readers of the end of the record.

use super::super::error::Error;
use super::super::rules::Rules;
use super::super::store::{Access, Value};
use super::Record;
use super::rows::recorded;
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
            .call(Access::Read, move |books| {
                books.recent_records(before, rows_max)
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
            .call(Access::Read, move |books| {
                books.recent_statements(&role, rows_max)
            })
            .await
    }
}

impl Rules {
    fn recent_statements(&mut self, role: &str, rows_max: u32) -> Result<Vec<Record>, Error> {
        let values = [
            Value::Text(role.to_owned()),
            Value::Int(i64::from(rows_max)),
        ];
        let rows = self.store.query(STATEMENTS_OF_ROLE, &values)?;
        let numbered = rows.iter().map(recorded);
        numbered.map(|row| row.map(|(_, record)| record)).collect()
    }

    fn recent_records(&mut self, before: i64, rows_max: u32) -> Result<Vec<(i64, Record)>, Error> {
        let sql = "SELECT id, microseconds, kind, name, session, address, application, via, \
            actor, verdict, sqlstate, statement, plan, detail, epsilon, rho, mu_squared, delta \
            FROM record WHERE id < $1 ORDER BY id DESC LIMIT $2";
        let values = [Value::Int(before), Value::Int(i64::from(rows_max))];
        let rows = self.store.query(sql, &values)?;
        rows.iter().map(recorded).collect()
    }
}
