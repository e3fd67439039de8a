//! Entries of a role's history.

use super::answers::SeriesId;
use super::charge::Fingerprint;
use super::error::Error;
use super::rules::Rules;
use super::store::{Row, StoreValue, blob, first_row};
use crate::mechanism::Loss;

/// One debit of a role, as the history has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub loss: Loss,
    /// By the proxy's clock, since 1970.
    pub microseconds: i64,
    pub fingerprint: Fingerprint,
}

impl Entry {
    /// The entry of a row that begins with the columns of its loss, its time and its fingerprint.
    pub(super) fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            loss: row.loss(0)?,
            microseconds: row.int(4)?,
            fingerprint: Fingerprint::new(row.digest(5)?),
        })
    }
}

/// Makes one entry of the debits and the receipt of one statement, which are next to each other:
/// the role must not learn that another role has asked a part of it before, nor when the database
/// was done.
pub(super) fn join_statements(entries: &mut Vec<Entry>) {
    entries.dedup_by(|next, entry| {
        let is_same =
            (next.microseconds, next.fingerprint) == (entry.microseconds, entry.fingerprint);
        if is_same {
            entry.loss = entry.loss.compose(next.loss).unwrap_or(entry.loss);
        }
        is_same
    });
}

/// The debits and receipts that one statement has at most, but for unusual ones.
const ROWS_OF_ENTRY: i64 = 8;

impl Rules {
    /// How many debits of a series the role has. Debits are never removed, so it never falls.
    pub(super) fn debits_of_series(&mut self, role: &str, series: SeriesId) -> Result<i64, Error> {
        let sql = "SELECT count(*) FROM debit WHERE role = $1 AND fingerprint BETWEEN $2 AND $3";
        let [least, most] = [0, u8::MAX].map(|byte| series.name([byte; 16]));
        let values = [
            StoreValue::Int(self.role(role)?.id),
            blob(least.as_bytes()),
            blob(most.as_bytes()),
        ];
        first_row(&self.store.query(sql, &values)?)?.int(0)
    }

    /// The newest debits of a role, newest first.
    pub(super) fn history(&mut self, role: &str, rows_max: u32) -> Result<Vec<Entry>, Error> {
        let sql = "SELECT epsilon, rho, mu_squared, delta, microseconds, fingerprint, id, \
                     CAST(0 AS bigint) FROM debit WHERE role = $1 \
                   UNION ALL SELECT epsilon, rho, mu_squared, delta, microseconds, fingerprint, \
                     id, CAST(1 AS bigint) FROM receipt WHERE role = $1 \
                   ORDER BY microseconds DESC, id DESC LIMIT $2";
        let rows = self.store.query(
            sql,
            &[
                StoreValue::Int(self.role(role)?.id),
                StoreValue::Int(i64::from(rows_max) * ROWS_OF_ENTRY),
            ],
        )?;
        let mut entries = rows.iter().map(Entry::of).collect::<Result<Vec<_>, _>>()?;
        join_statements(&mut entries);
        entries.truncate(rows_max as usize);
        Ok(entries)
    }
}
