//! Answers for some periods of a question, and the answer to the question that is put together from
//! them. This is post-processing: it reads released values alone.

use serde::{Deserialize, Serialize};

use super::{Error, NoiseRecord, PrintedKey, Released, ReleasedTable};
use crate::calendar::MICROS_PER_DAY;
use crate::calendar::period::{Period, PeriodSet};
use crate::ir::ReleaseId;
use crate::ir::literal::parse;
use crate::policy::Scalar;
use crate::rewrite::{PeriodBatch, Plan};

/// The periods that a stored answer is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeriodsRecord {
    /// The epsilon of its statement.
    pub epsilon: f64,
    pub periods: PeriodSet,
}

impl PeriodsRecord {
    pub(super) fn of(batch: &PeriodBatch) -> Self {
        Self {
            epsilon: batch.epsilon,
            periods: batch.periods.clone(),
        }
    }
}

impl ReleasedTable {
    /// The periods that it is for; `None` of an answer to another question.
    pub fn periods(&self) -> Option<&PeriodsRecord> {
        self.periods.as_ref()
    }
}

impl Released {
    /// The answer to a question by periods, from answers for periods: it takes from each the groups
    /// of some of its periods. The groups are in the order of the periods.
    ///
    /// # Guarantee
    /// The result is a function of the answers, which the requester holds, and of the plan.
    ///
    /// # Requires
    /// No period is taken from two answers.
    ///
    /// # Errors
    /// [`Error::Unreadable`] where an answer is not one to this question.
    pub fn join_periods(
        &mut self,
        plan: &Plan,
        release: ReleaseId,
        answers: Vec<(ReleasedTable, PeriodSet)>,
    ) -> Result<(), Error> {
        let shape = plan.release(release);
        let asked = plan.periods().ok_or(Error::Mismatch)?;
        let (at, length) = (asked.key(), asked.periods().length);
        let (data_type, _) = shape.keys().get(at).ok_or(Error::Mismatch)?;
        let period_of = |key: &PrintedKey| -> Option<Period> {
            let micros = match parse(key.get(at)?.as_ref()?, data_type).ok()? {
                Scalar::Date(days) => i64::from(days) * MICROS_PER_DAY,
                Scalar::Timestamp(micros) => micros,
                Scalar::Bool(_) | Scalar::Int(_) | Scalar::Decimal(_) => return None,
                Scalar::Text(_) | Scalar::Interval { .. } => return None,
            };
            Some(length.period_of(micros))
        };
        let mut groups = Vec::new();
        let mut records = Vec::new();
        for (answer, (table, shown)) in answers.into_iter().enumerate() {
            let is_whole = table.keys.len() == table.measures.len();
            let fits = |(key, measures): (&PrintedKey, &Vec<String>)| {
                key.len() == shape.key_columns() && measures.len() == shape.width()
            };
            if !is_whole || !table.keys.iter().zip(&table.measures).all(fits) {
                return Err(Error::Unreadable);
            }
            records.push(table.drawn.ok_or(Error::Unreadable)?);
            for (key, measures) in table.keys.into_iter().zip(table.measures) {
                // A listed key has a group for NULL too. A question by periods has no such rows, so
                // the group is noise alone.
                if key.get(at).is_some_and(Option::is_none) {
                    continue;
                }
                let period = period_of(&key).ok_or(Error::Unreadable)?;
                if shown.contains(period) {
                    groups.push((period, answer, key, measures));
                }
            }
        }
        groups.sort_by_key(|(period, ..)| *period);
        let part_of = groups.iter().map(|(_, answer, ..)| *answer).collect();
        let drawn = match records.is_empty() {
            true => NoiseRecord::of(shape),
            false => Some(NoiseRecord::join(records, part_of).ok_or(Error::Unreadable)?),
        };
        let mut table = ReleasedTable {
            drawn,
            ..ReleasedTable::default()
        };
        for (_, _, key, measures) in groups {
            table.keys.push(key);
            table.measures.push(measures);
        }
        self.tables[release.0] = Some(table);
        Ok(())
    }
}
