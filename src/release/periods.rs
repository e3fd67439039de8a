//! Answers for some periods of a question, and the answer to the question that is put together from
//! them. This is post-processing: it reads released values alone. Rows of running totals are drawn
//! in `totals`.

mod totals;

pub(super) use totals::draw_totals;

use num_bigint::BigInt;
use serde::{Deserialize, Serialize};

use super::noise_record::JoinedAnswer;
use super::{Error, NoiseRecord, PrintedKey, Released, ReleasedTable};
use crate::calendar::MICROS_PER_DAY;
use crate::calendar::period::{Period, PeriodLength, PeriodSet};
use crate::catalog::Type;
use crate::ir::ReleaseId;
use crate::ir::literal::parse;
use crate::mechanism::Noise;
use crate::policy::Scalar;
use crate::rewrite::{Measure, PeriodBatch, Plan, ReleasePlan, measure_terms};

/// The periods that a stored answer is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeriodsRecord {
    /// The epsilon of its statement.
    pub epsilon: f64,
    pub periods: PeriodSet,
    /// Where its values are rows of running totals, not measures of periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) totals: Option<TotalsRecord>,
}

/// The rows of running totals that a stored answer has: integers of each coordinate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TotalsRecord {
    /// The first period that is in them.
    block: Period,
    /// The noise of each coordinate of a row, and the bits by which its grid was refined.
    draws: Vec<(Noise, u32)>,
}

impl PeriodsRecord {
    pub(super) fn of(batch: &PeriodBatch) -> Self {
        Self {
            epsilon: batch.epsilon,
            periods: batch.periods.clone(),
            totals: None,
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
    /// The place of the period's key.
    at: usize,
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
        let record = table.periods.ok_or(Error::Unreadable)?;
        let totals = record.totals.clone();
        let fits = |(key, measures): (&PrintedKey, &Vec<String>)| {
            let is_right = match &totals {
                None => measures.len() == shape.width(),
                Some(of) => {
                    let is_number = |text: &String| text.parse::<BigInt>().is_ok();
                    measures.len() == of.draws.len() && measures.iter().all(is_number)
                }
            };
            key.len() == shape.key_columns() && is_right
        };
        let is_whole = table.keys.len() == table.measures.len()
            && totals
                .as_ref()
                .is_none_or(|of| of.draws.len() == shape.coordinates().len());
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
            let period = key.get(at).and_then(Option::as_ref);
            let period = period_of(period, data_type, length).ok_or(Error::Unreadable)?;
            groups.push((period, key, measures));
        }
        groups.sort_by_key(|(period, ..)| *period);
        Ok(Self {
            record,
            answer: JoinedAnswer {
                noise: table
                    .drawn
                    .filter(NoiseRecord::may_be_joined)
                    .ok_or(Error::Unreadable)?,
                groups: drawn_with,
            },
            at,
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

    /// The first period in the rows of running totals, where the answer has such rows.
    pub fn block(&self) -> Option<Period> {
        self.record.totals.as_ref().map(|of| of.block)
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
        if answers.iter().any(|(of, _)| of.block().is_some()) {
            self.tables[release.0] = Some(totals::join(plan.release(release), &answers));
            return;
        }
        let mut groups = Vec::new();
        let mut records = Vec::new();
        for (answer, (of, shown)) in answers.into_iter().enumerate() {
            records.push(of.answer);
            let of_shown = of.groups.into_iter().filter(|(at, ..)| shown.contains(*at));
            groups.extend(of_shown.map(|(at, key, measures)| (at, answer, key, measures)));
        }
        groups.sort_by_key(|(period, ..)| *period);
        self.tables[release.0] = Some(join_groups(plan.release(release), records, groups));
    }
}

/// A group of a joined answer: its period, the place of its record, its key and its measures.
type JoinedGroup = (Period, usize, PrintedKey, Vec<String>);

fn join_groups(
    shape: &ReleasePlan,
    records: Vec<JoinedAnswer>,
    groups: Vec<JoinedGroup>,
) -> ReleasedTable {
    let part_of = groups.iter().map(|(_, answer, ..)| *answer).collect();
    let mut table = ReleasedTable {
        drawn: NoiseRecord::join(records, part_of).or_else(|| NoiseRecord::of(shape)),
        ..ReleasedTable::default()
    };
    for (_, _, key, measures) in groups {
        table.keys.push(key);
        table.measures.push(measures);
    }
    table
}

/// The period that a key's value is in; `None` for NULL and what is no moment.
fn period_of(value: Option<&String>, data_type: &Type, length: PeriodLength) -> Option<Period> {
    let micros = match parse(value?, data_type).ok()? {
        Scalar::Date(days) => i64::from(days) * MICROS_PER_DAY,
        Scalar::Timestamp(micros) => micros,
        Scalar::Bool(_) | Scalar::Int(_) | Scalar::Decimal(_) => return None,
        Scalar::Text(_) | Scalar::Interval { .. } => return None,
    };
    Some(length.period_of(micros))
}
