//! The newest records, for readers of the end of the record.

use super::super::error::Error;
use super::super::rules::Rules;
use super::super::store::{Access, StoreValue, first_row};
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
    /// The number of the newest record before that number that began in this time, in microseconds
    /// since 1970: from the first on, and before the second.
    ///
    /// Clocks were set, and proxies on one ledger may differ: the order of the records says nothing
    /// certain of their times. So they are looked through, in parts, between which the ledger does
    /// other work, and no more than a million of them.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn newest_within(
        &self,
        before: i64,
        (from, to): (i64, i64),
    ) -> Result<NewestWithin, Error> {
        let mut before = before;
        for _ in 0..PARTS_MAX {
            let work = move |rules: &mut Rules| rules.newest_in_part(before, (from, to));
            match self.worker.call(Access::Read, work).await? {
                Part::Found(number) => return Ok(NewestWithin::At(number)),
                Part::Passed(number) => before = number,
                Part::End => return Ok(NewestWithin::Nowhere),
            }
        }
        Ok(NewestWithin::Before(before))
    }
}

/// Where the newest record of some time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewestWithin {
    At(i64),
    /// Before this number, if there is one: no further was looked.
    Before(i64),
    Nowhere,
}

/// The most parts that one search looks through.
const PARTS_MAX: usize = 50;

/// Records that are looked through at a time: some ten milliseconds.
const PART: i64 = 20_000;

/// What a part of the record has.
enum Part {
    Found(i64),
    /// Nothing, from this number on.
    Passed(i64),
    /// Nothing, and nothing is before it.
    End,
}

impl Rules {
    fn newest_in_part(&mut self, before: i64, (from, to): (i64, i64)) -> Result<Part, Error> {
        let sql = "SELECT max(CASE WHEN microseconds >= $1 AND microseconds < $2 THEN id END), \
            min(id) FROM (SELECT id, microseconds FROM record WHERE id < $3 ORDER BY id DESC \
            LIMIT $4) AS part";
        let values = [from, to, before, PART].map(StoreValue::Int);
        let rows = self.store.query(sql, &values)?;
        let row = first_row(&rows)?;
        let number = |at| match row.is_null(at) {
            true => Ok(None),
            false => row.int(at).map(Some),
        };
        Ok(match (number(0)?, number(1)?) {
            (Some(found), _) => Part::Found(found),
            (None, Some(passed)) => Part::Passed(passed),
            (None, None) => Part::End,
        })
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
