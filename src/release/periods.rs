//! Answers for some periods of a question, and the answer to the question that is put together from
//! them. This is post-processing: it reads released values alone.

use serde::{Deserialize, Serialize};

use super::noise_record::JoinedAnswer;
use super::{Error, NoiseRecord, PrintedKey, Released, ReleasedTable};
use crate::calendar::MICROS_PER_DAY;
use crate::calendar::period::{Period, PeriodSet};
use crate::ir::ReleaseId;
use crate::ir::literal::parse;
use crate::policy::Scalar;
use crate::rewrite::{Measure, PeriodBatch, Plan, ReleasePlan, measure_terms};

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
    /// The periods that the answer is for; `None` if it was not bought by periods.
    pub fn periods(&self) -> Option<&PeriodsRecord> {
        self.periods.as_ref()
    }
}

/// An answer for some periods of a question, which was checked to fit into an answer to the
/// question.
#[derive(Debug, Clone)]
pub struct PeriodAnswer {
    record: PeriodsRecord,
    answer: JoinedAnswer,
    /// In the order of the periods.
    groups: Vec<(Period, PrintedKey, Vec<String>)>,
}

impl PeriodAnswer {
    /// Reads a released table. `plan` is the form of the question by periods.
    ///
    /// # Errors
    /// [`Error::Unreadable`] where it is no answer to this question.
    pub fn read(table: ReleasedTable, plan: &Plan, release: ReleaseId) -> Result<Self, Error> {
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
        let fits = |(key, measures): (&PrintedKey, &Vec<String>)| {
            key.len() == shape.key_columns() && measures.len() == shape.width()
        };
        let is_whole = table.keys.len() == table.measures.len();
        if !is_whole || !table.keys.iter().zip(&table.measures).all(fits) {
            return Err(Error::Unreadable);
        }
        let drawn_with = table.keys.len();
        let mut groups = Vec::new();
        for (key, measures) in table.keys.into_iter().zip(table.measures) {
            // A listed key has a group for NULL too. A question by periods has no such rows, so the
            // group is noise alone.
            if key.get(at).is_some_and(Option::is_none) {
                continue;
            }
            let period = period_of(&key).ok_or(Error::Unreadable)?;
            groups.push((period, key, measures));
        }
        groups.sort_by_key(|(period, ..)| *period);
        Ok(Self {
            record: table.periods.ok_or(Error::Unreadable)?,
            answer: JoinedAnswer {
                noise: table
                    .drawn
                    .filter(NoiseRecord::may_be_joined)
                    .ok_or(Error::Unreadable)?,
                groups: drawn_with,
            },
            groups,
        })
    }

    /// The periods that it is for.
    pub fn periods(&self) -> &PeriodSet {
        &self.record.periods
    }

    /// The epsilon of its statement.
    pub fn epsilon(&self) -> f64 {
        self.record.epsilon
    }

    /// The standard deviation of a measure's noise; `None` where a look saw too few units to draw
    /// it.
    pub fn deviation(&self, measure: &Measure) -> Option<f64> {
        let noise = &self.answer.noise;
        noise
            .unseen(measure, 0)
            .is_none()
            .then(|| noise.deviation(measure))
    }

    /// How large its errors are, to compare it with other answers to the question: of how many
    /// measures a look saw too few units, and the logarithms of the errors of the others, added up.
    /// An error is that of the noise, and what the chosen clip takes from a group as far as the
    /// look shows.
    pub fn errors(&self, shape: &ReleasePlan) -> (usize, f64) {
        let JoinedAnswer { noise, groups } = &self.answer;
        let share = (*groups as f64).max(1.0).sqrt();
        let (mut unseen, mut errors) = (0, 0.0);
        for measure in shape.measures() {
            if noise.unseen(measure, 0).is_some() {
                unseen += 1;
                continue;
            }
            let terms = measure_terms(measure);
            let lost = terms.iter().map(|(at, factor)| {
                let cut = noise.cut(*at, 0).map_or(0.0, |cut| cut.length);
                cut * factor.abs() / share
            });
            let error = noise.deviation(measure).hypot(lost.sum());
            errors += error.max(f64::MIN_POSITIVE).ln();
        }
        (unseen, errors)
    }
}

impl Released {
    /// The answer to a question by periods, from answers for periods: of each the groups of some of
    /// its periods. The groups are in the order of the periods.
    ///
    /// # Guarantee
    /// The result is a function of the answers, which the requester holds, and of the plan.
    ///
    /// # Requires
    /// No period is taken from two answers.
    pub fn join_periods(
        &mut self,
        plan: &Plan,
        release: ReleaseId,
        answers: Vec<(PeriodAnswer, PeriodSet)>,
    ) {
        let mut groups = Vec::new();
        let mut records = Vec::new();
        for (answer, (of, shown)) in answers.into_iter().enumerate() {
            records.push(of.answer);
            let of_shown = of.groups.into_iter().filter(|(at, ..)| shown.contains(*at));
            groups.extend(of_shown.map(|(at, key, measures)| (at, answer, key, measures)));
        }
        groups.sort_by_key(|(period, ..)| *period);
        let part_of = groups.iter().map(|(_, answer, ..)| *answer).collect();
        let mut table = ReleasedTable {
            drawn: NoiseRecord::join(records, part_of)
                .or_else(|| NoiseRecord::of(plan.release(release))),
            ..ReleasedTable::default()
        };
        for (_, _, key, measures) in groups {
            table.keys.push(key);
            table.measures.push(measures);
        }
        self.tables[release.0] = Some(table);
    }
}
