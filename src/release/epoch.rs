//! Epochs of monitors: verdicts whether sums are above thresholds, for one debit up to the first
//! that is.

use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::LockedPart;
use super::groups::groups;
use crate::execute;
use crate::ledger::{Charge, EpochDebit};
use crate::mechanism::{
    Fixed, NoisyThreshold, SampleError, Sampler, SumDirection, ThresholdQuestion,
};
use crate::rewrite::MonitoredSum;

/// The price of an epoch, and the sums that it admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochTerms {
    pub epsilon: Fixed,
    pub direction: SumDirection,
}

/// An open epoch. It lives in the memory of one process, and ends with it.
pub struct Epoch {
    debit: EpochDebit,
    threshold: NoisyThreshold,
    terms: EpochTerms,
    questions: u64,
}

/// The exact sum of one question, read under the epoch's debit.
pub struct MonitoredRows(Zeroizing<i128>);

/// The verdict of a question.
pub enum EpochVerdict {
    /// The epoch goes on.
    Below(Epoch),
    /// The epoch has ended.
    Above,
}

impl Epoch {
    /// Draws the noise of its thresholds.
    ///
    /// # Guarantee
    /// All verdicts of the epoch together cost at most what was charged:
    /// [`NoisyThreshold::draw`]. The noise leaves in no other way: it is in no record and in no
    /// message, and is wiped at the end.
    ///
    /// # Requires
    /// `charge` is a debit of [`crate::mechanism::loss_of_epoch`] of its epsilon.
    ///
    /// # Errors
    /// [`SampleError`]. The charge stands.
    pub fn begin(
        charge: Charge,
        terms: EpochTerms,
        sampler: &mut dyn Sampler,
    ) -> Result<Self, SampleError> {
        Ok(Self {
            threshold: NoisyThreshold::draw(terms.epsilon, sampler)?,
            debit: charge.into_epoch(),
            terms,
            questions: 0,
        })
    }

    pub fn terms(&self) -> EpochTerms {
        self.terms
    }

    /// How many questions were read, also those that were cancelled before their verdict.
    pub fn questions(&self) -> u64 {
        self.questions
    }

    /// Reads the exact sum of a question, and counts it. Nothing of it is shown.
    ///
    /// # Errors
    /// As [`execute::Snapshot::run`]. The epoch stands.
    pub async fn read(
        &mut self,
        locked: &LockedPart<'_>,
        question: &MonitoredSum<'_>,
        cancel: &CancellationToken,
    ) -> Result<MonitoredRows, execute::Error> {
        // Clients also see when a cancelled question ends, so it counts.
        self.questions += 1;
        let charge = self.debit.for_question(locked.part().digest().into());
        let (part, release) = (locked.part(), question.release());
        let snapshot = locked.snapshot();
        let rows = snapshot.run(part, release, &[], &charge, cancel).await?;
        let rows = rows.open(&charge);
        let vector = rows.first().map_or(&[][..], Vec::as_slice);
        let noise = std::slice::from_ref(question.noise());
        let sums = groups(question.plan().release(release), vector, noise);
        let sum = sums.first().and_then(|(_, values)| values.first().copied());
        Ok(MonitoredRows(Zeroizing::new(sum.unwrap_or(0))))
    }

    /// The verdict over the sum that was read.
    ///
    /// # Guarantee
    /// One draw of noise decides it. The epoch ends with the first verdict above, by type.
    ///
    /// # Requires
    /// `question` was calibrated for this epoch's epsilon and direction, and its own direction is
    /// admitted.
    ///
    /// # Errors
    /// [`SampleError`]; the epoch has ended then.
    pub fn decide(
        self,
        MonitoredRows(sum): MonitoredRows,
        (question, asked): (&MonitoredSum<'_>, &ThresholdQuestion),
        sampler: &mut dyn Sampler,
    ) -> Result<EpochVerdict, SampleError> {
        let noisy = Zeroizing::new(sum.saturating_add(sampler.sample(&question.noise().noise)?));
        let is_above = self.threshold.is_above(*noisy, asked);
        Ok(match is_above {
            true => EpochVerdict::Above,
            false => EpochVerdict::Below(self),
        })
    }
}
