//! Epochs of monitors and of holdouts: verdicts whether sums are above thresholds, for one debit up
//! to the first that is.

use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::LockedPart;
use super::groups::groups;
use crate::execute;
use crate::ledger::{Charge, EpochDebit};
use crate::mechanism::{
    Fixed, HoldoutNoise, Loss, NoisyThreshold, SampleError, Sampler, SumDirection,
    ThresholdQuestion, loss_of_epoch, loss_of_holdout,
};
use crate::rewrite::MonitoredSum;

/// What an epoch shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochKind {
    /// Verdicts alone.
    Monitor,
    /// Verdicts, and with the first that is true its noisy sum.
    Holdout,
}

/// The price of an epoch, and the sums that it admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochTerms {
    pub kind: EpochKind,
    /// The price of all verdicts together; for a holdout, of its answer once more.
    pub epsilon: Fixed,
    pub direction: SumDirection,
}

impl EpochTerms {
    /// What an epoch costs; `None` where it is too large to be counted.
    pub fn loss(&self) -> Option<Loss> {
        match self.kind {
            EpochKind::Monitor => Some(loss_of_epoch(self.epsilon)),
            EpochKind::Holdout => loss_of_holdout(self.epsilon),
        }
    }
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

/// What is compared with the threshold of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// The sum.
    Sum,
    /// How far the sum is from a released value, in steps of the sum's refined grid.
    DistanceFrom(i128),
}

impl Compared {
    /// What is compared with the threshold, of an exact sum.
    ///
    /// # Guarantee
    /// Where a unit moves the sum by at most D, it moves this by at most D: the sum itself one way,
    /// a distance either way.
    pub fn of_sum(self, sum: i128) -> i128 {
        match self {
            Self::Sum => sum,
            Self::DistanceFrom(value) => sum.saturating_sub(value).saturating_abs(),
        }
    }
}

/// The verdict of a question.
pub enum EpochVerdict {
    /// The epoch goes on.
    Below(Epoch),
    /// The epoch has ended.
    Above,
}

/// The verdict of a question to a holdout.
pub enum HoldoutVerdict {
    /// The means agree, and the epoch goes on.
    Agrees(Epoch),
    /// The means differ: the sum with its own noise, in steps of its refined grid. The epoch has
    /// ended.
    Overflow(i128),
}

impl Epoch {
    /// Draws the noise of its thresholds.
    ///
    /// # Guarantee
    /// All that the epoch shows costs what was charged: [`NoisyThreshold::draw`],
    /// [`crate::mechanism::holdout_noise`]. The noise leaves in no other way: it is in no record
    /// and in no message, and is wiped at the end.
    ///
    /// # Errors
    /// [`SampleError`], also where `charge` is not a debit of [`EpochTerms::loss`]. The charge
    /// stands.
    pub fn begin(
        charge: Charge,
        terms: EpochTerms,
        sampler: &mut dyn Sampler,
    ) -> Result<Self, SampleError> {
        if terms.loss().as_ref() != Some(charge.loss()) {
            return Err(SampleError::Parameter);
        }
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

    /// The verdict of a monitor over the sum that was read.
    ///
    /// # Guarantee
    /// One draw of noise decides it. The epoch ends with the first verdict above, by type.
    ///
    /// # Requires
    /// `question` was calibrated for this epoch's epsilon and direction, and its own direction is
    /// admitted. A value from which a distance is taken is released, or known without the data.
    ///
    /// # Errors
    /// [`SampleError`], also in an epoch of a holdout, and for a distance in an epoch of sums that
    /// move one way: a distance may rise or fall, by as much as the sum does. The epoch has ended
    /// then.
    pub fn decide(
        self,
        MonitoredRows(sum): MonitoredRows,
        (question, asked, compared): (&MonitoredSum<'_>, &ThresholdQuestion, Compared),
        sampler: &mut dyn Sampler,
    ) -> Result<EpochVerdict, SampleError> {
        self.check_kind(EpochKind::Monitor)?;
        let exact = match (compared, self.terms.direction) {
            (Compared::Sum, _) | (Compared::DistanceFrom(_), SumDirection::Either) => {
                Zeroizing::new(compared.of_sum(*sum))
            }
            (Compared::DistanceFrom(_), SumDirection::Up | SumDirection::Down) => {
                return Err(SampleError::Parameter);
            }
        };
        let noisy = Zeroizing::new(exact.saturating_add(sampler.sample(&question.noise().noise)?));
        let is_above = self.threshold.is_above(*noisy, asked);
        Ok(match is_above {
            true => EpochVerdict::Above,
            false => EpochVerdict::Below(self),
        })
    }

    /// The verdict of a holdout over the sum that was read, and the noisy sum where it is far from
    /// zero.
    ///
    /// # Guarantee
    /// One draw of noise decides it, and another one is in what is shown. The epoch ends with the
    /// first sum that is shown, by type.
    ///
    /// # Requires
    /// `noise` was calibrated for this epoch's epsilon and the question's sensitivity; the epoch
    /// admits sums of every direction.
    ///
    /// # Errors
    /// [`SampleError`], also in an epoch of a monitor; the epoch has ended then.
    pub fn decide_holdout(
        self,
        MonitoredRows(sum): MonitoredRows,
        (asked, noise): (&ThresholdQuestion, &HoldoutNoise),
        sampler: &mut dyn Sampler,
    ) -> Result<HoldoutVerdict, SampleError> {
        self.check_kind(EpochKind::Holdout)?;
        let distance = Zeroizing::new(sum.saturating_abs());
        let noisy = Zeroizing::new(distance.saturating_add(sampler.sample(&noise.question)?));
        if !self.threshold.is_above(*noisy, asked) {
            return Ok(HoldoutVerdict::Agrees(self));
        }
        let shown = sum.saturating_add(sampler.sample(&noise.answer)?);
        Ok(HoldoutVerdict::Overflow(shown))
    }

    /// An epoch answers what it was paid for.
    fn check_kind(&self, wanted: EpochKind) -> Result<(), SampleError> {
        match self.terms.kind == wanted {
            true => Ok(()),
            false => Err(SampleError::Parameter),
        }
    }
}
