//! The rows of one INSERT, as the database gets them, with the memory that they take.

use super::{GivenValue, SentValue, WritePlan};
use crate::memory::HeldMemory;

/// What a value takes next to its bytes: its entry among the rows and among the parameters, its
/// place in the statement and its length in the message.
const VALUE_BYTES: usize = size_of::<SentValue>() + 72;

/// The rows of one INSERT. They hold their part of the session's memory until they are dropped,
/// whoever waits for them.
pub struct SentRows {
    /// The table, by OID.
    pub(super) table: u32,
    pub(super) sql: String,
    pub(super) values: Vec<SentValue>,
    held: HeldMemory,
}

impl SentRows {
    pub(super) fn new(plan: &WritePlan<'_>, values: Vec<SentValue>, held: HeldMemory) -> Self {
        let sql = plan.insert_sql(&values);
        Self {
            table: plan.table.oid,
            sql,
            values,
            held,
        }
    }

    /// The statement.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The values of all rows, one row after the other.
    pub fn values(&self) -> &[SentValue] {
        &self.values
    }

    /// How many bytes of the session's memory they hold.
    pub fn bytes_held(&self) -> usize {
        self.held.bytes()
    }
}

impl WritePlan<'_> {
    /// How many bytes a row takes as the database gets it, at most, but for values that are not
    /// randomised. A report may be any value of its list, whatever the true one is; it is in memory
    /// twice, among the rows and in the message to the database.
    pub(super) fn weight_of_row(&self) -> usize {
        let local = self
            .columns
            .iter()
            .filter_map(|column| column.local.as_ref());
        let reports: usize = local.map(|local| 2 * local.report_bytes()).sum();
        // A unit's cohort is a number of four digits at most.
        let cohorts = 2 * 4 * self.table.cohorts.len();
        self.sent_width() * VALUE_BYTES + reports + cohorts
    }

    /// How many bytes the values of a row take that the database gets as they are.
    pub(super) fn weight_of_values(&self, given: &[GivenValue]) -> usize {
        let sent = self.columns.iter().zip(given);
        let sent =
            sent.filter(|(column, _)| column.local.is_none() && column.name != self.table.unit);
        sent.map(|(_, value)| match value {
            GivenValue::Null | GivenValue::Default => 0,
            GivenValue::Text(text, _) => 2 * text.expose().len().max(40),
            GivenValue::Binary(bytes, _) => 2 * bytes.len().max(40),
        })
        .sum()
    }

    /// How many bytes the unit of a row takes in its column's form, which may be far longer than
    /// what was given: the numeric 1e399 has 400 digits.
    pub(super) fn weight_of_unit(&self, sent: &[SentValue]) -> usize {
        let mut columns = self.columns.iter();
        let at = columns.position(|column| column.name == self.table.unit);
        match at.and_then(|at| sent.get(at)) {
            Some(SentValue::Text(text, _)) => 2 * text.len().max(40),
            _ => 0,
        }
    }
}
