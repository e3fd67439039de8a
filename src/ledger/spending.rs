//! The recent spending of accounts, for charts. It is read in short parts, so that debits go
//! between them: a long history does not hold the ledger's thread.

use std::cmp::Reverse;

use super::error::Error;
use super::history_entry::join_statements;
use super::rules::Rules;
use super::store::{Access, Row, StoreValue};
use super::{Entry, Ledger};

/// Rows that are read at once.
const PART: u32 = 500;

/// Rows before a number, newest first.
macro_rules! part {
    ($table_where:literal, $limit:literal) => {
        concat!(
            "SELECT epsilon, rho, mu_squared, delta, microseconds, fingerprint, id FROM ",
            $table_where,
            " ORDER BY id DESC LIMIT ",
            $limit
        )
    };
}
const OF_ALL: &str = part!("debit WHERE id < $1", "$2");
const OF_ROLE: [&str; 2] = [
    part!("debit WHERE id < $1 AND role = $2", "$3"),
    part!("receipt WHERE id < $1 AND role = $2", "$3"),
];

impl Ledger {
    /// What the role paid since `from`, newest first: what [`Ledger::history`] has of that time, of
    /// at most the newest `rows_max` debits and as many receipts. Without a role, the debits of all
    /// accounts, each of which was charged to the owner's too: for the owner alone.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn spent_since(
        &self,
        role: Option<&str>,
        from: i64,
        rows_max: u32,
    ) -> Result<Vec<Entry>, Error> {
        let Some(role) = role else {
            return self.parts(OF_ALL, None, from, rows_max).await;
        };
        let role = self.require_role(role)?;
        let mut entries = Vec::new();
        for sql in OF_ROLE {
            let part = self.parts(sql, Some(role.clone()), from, rows_max).await?;
            entries.extend(part);
        }
        entries.sort_by_key(|entry| (Reverse(entry.microseconds), entry.fingerprint));
        join_statements(&mut entries);
        Ok(entries)
    }

    async fn parts(
        &self,
        sql: &'static str,
        role: Option<String>,
        from: i64,
        rows_max: u32,
    ) -> Result<Vec<Entry>, Error> {
        let (mut entries, mut before, mut left) = (Vec::new(), i64::MAX, rows_max);
        while left > 0 {
            let (role, wanted) = (role.clone(), left.min(PART));
            let part = self.worker.call(Access::Read, move |rules| {
                rules.part(sql, role.as_deref(), before, wanted)
            });
            let part = part.await?;
            let Some((last, _)) = part.last() else { break };
            (before, left) = (*last, left - wanted);
            let is_short = part.len() < wanted as usize;
            // A clock that stepped back mixes times, but not those of a whole part.
            let is_early = part.iter().all(|(_, entry)| entry.microseconds < from);
            let wanted = part.into_iter().map(|(_, entry)| entry);
            entries.extend(wanted.filter(|entry| entry.microseconds >= from));
            if is_short || is_early {
                break;
            }
        }
        Ok(entries)
    }
}

impl Rules {
    fn part(
        &mut self,
        sql: &'static str,
        role: Option<&str>,
        before: i64,
        rows_max: u32,
    ) -> Result<Vec<(i64, Entry)>, Error> {
        let mut values = vec![StoreValue::Int(before)];
        if let Some(role) = role {
            values.push(StoreValue::Int(self.role(role)?.id));
        }
        values.push(StoreValue::Int(i64::from(rows_max)));
        let entry = |row: &Row| Ok((row.int(6)?, Entry::of(row)?));
        self.store.query(sql, &values)?.iter().map(entry).collect()
    }
}
