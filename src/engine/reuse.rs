//! Stored answers: the same question again gets the same values, and each role that sees them pays
//! once.

use sha2::{Digest, Sha256};

use super::earlier_looks::EarlierLooks;
use super::middle_queries::{MiddleQueries, PrintedColumn};
use super::planning_limit::{StatementSize, aside};
use super::rollup::FromFiner;
use super::shown_periods::PeriodsClaim;
use super::statement_log::StatementFacts;
use super::{Engine, internal, ledger_failed};
use crate::analyze::PlanningEffort;
use crate::error::Error;
use crate::ir::{MiddleColumn, ReleaseId};
use crate::ledger::{
    AnswerId, Buyer, Charge, DebitError, FamilyId, Purchase, QuestionDigest, QuestionId, Stored,
};
use crate::mechanism::Loss;
use crate::memory::HeldMemory;
use crate::policy::Reuse;
use crate::release::{PaidPart, Released, Rollup};
use crate::rewrite::{Plan, UnpaidPart};
use crate::shadow::Requester;

/// The most bytes of memory for each byte of a stored answer.
const OPENED: usize = 16;

/// The releases of a plan that need no new noise.
pub(super) struct Recalled {
    pub released: Released,
    pub offered: Vec<Offer>,
    /// Releases that the role has paid for.
    pub count: usize,
    /// Releases that are rolled up from finer ones that the role has paid for.
    pub summed: Vec<FromFiner>,
    /// For each recalled answer, how many times more accurate than the plan's it is.
    pub better: Vec<(ReleaseId, f64)>,
    /// The releases that have to be made and are known before the first one is made, but for those
    /// that are unshared.
    pub open: Vec<(ReleaseId, QuestionDigest)>,
    /// The open releases that an earlier look of the role is part of: they are made whatever other
    /// roles hold, and nobody waits for them.
    pub unshared: Vec<(ReleaseId, QuestionDigest)>,
    /// The role's looks at open, unshared and offered releases that led to no answer.
    pub looks: EarlierLooks,
    /// The memory of the recalled answers, of the requester's share.
    pub held: HeldMemory,
}

impl Recalled {
    /// Whether the role has bought the release: the same question, or a finer one.
    pub fn is_bought(&self, release: ReleaseId) -> bool {
        let of_summary = |from: &FromFiner| from.release == release && from.summary().is_some();
        self.released.table(release).is_some() && !self.summed.iter().any(of_summary)
    }

    /// Decodes an answer that the role holds, and adds it.
    fn take(&mut self, plan: &Plan, release: ReleaseId, values: &[u8]) -> Result<(), Error> {
        let bytes = OPENED.saturating_mul(values.len());
        self.held.add(bytes).map_err(Error::Ledger)?;
        let mut recall = || self.released.recall(plan, release, values);
        let recalled = match StatementSize::of_bytes(values.len()) {
            StatementSize::Small => recall(),
            StatementSize::Large => aside(recall),
        };
        recalled.map_err(|e| internal("release", &e))?;
        self.count += 1;
        Ok(())
    }
}

/// A release that was made for another role.
pub(super) struct Offer {
    pub release: ReleaseId,
    answer: AnswerId,
    question: QuestionDigest,
}

impl Offer {
    /// The question that the role asks.
    pub fn question(&self) -> (ReleaseId, QuestionDigest) {
        (self.release, self.question)
    }
}

impl Engine {
    /// Whether stored answers are used.
    pub(super) fn recalls(&self, requester: &Requester) -> bool {
        self.reuse(requester) != Reuse::Off
    }

    /// Looks for stored answers, release by release. Constants come from answers that the role has
    /// paid for, so that nothing is read before it is paid for.
    pub(super) async fn recall(
        &self,
        requester: &Requester,
        plan: &Plan,
        middles: &mut MiddleQueries<'_>,
    ) -> Result<Recalled, Error> {
        let (released, held) = (Released::before(plan), requester.share.begin());
        let mut recalled = Recalled {
            released,
            offered: Vec::new(),
            count: 0,
            summed: Vec::new(),
            better: Vec::new(),
            open: Vec::new(),
            unshared: Vec::new(),
            looks: EarlierLooks::default(),
            held,
        };
        if !self.recalls(requester) {
            return Ok(recalled);
        }
        // This search is free, so its work is bounded.
        let effort = PlanningEffort::default();
        for release in plan.order() {
            let known = |constant: &MiddleColumn| {
                plan.middle(constant.middle)
                    .releases
                    .iter()
                    .all(|r| recalled.released.table(*r).is_some())
            };
            if recalled.released.table(release).is_some()
                || !plan.release(release).constants().iter().all(known)
            {
                continue;
            }
            let constants = middles.constants(release, &recalled.released).await?;
            let Some(question) = question(plan, release, &constants) else {
                continue;
            };
            let taken = recalled.offered.iter().map(|offer| offer.answer).collect();
            let found = self.ledger.find_except(&requester.role, question, taken);
            match found.await.map_err(|e| ledger_failed(&e))? {
                Some(Stored::Held {
                    released: values,
                    accuracy,
                }) => {
                    recalled.take(plan, release, &values)?;
                    let better = accuracy / question.accuracy;
                    recalled.better.push((release, better));
                }
                other => {
                    let asked = (release, question);
                    self.recall_other(requester, plan, asked, other, (&mut recalled, &effort))
                        .await?;
                }
            }
        }
        Ok(recalled)
    }

    /// Where the role does not hold the answer to a release: one that follows from what it holds,
    /// an offer, or an open question.
    async fn recall_other(
        &self,
        requester: &Requester,
        plan: &Plan,
        (release, question): (ReleaseId, QuestionDigest),
        found: Option<Stored>,
        (recalled, effort): (&mut Recalled, &PlanningEffort),
    ) -> Result<(), Error> {
        let derived = self.derive_from_held(requester, plan, release, effort);
        let derived = derived.await?;
        // The noise of another role's answer would reveal that it was bought.
        if derived.is_none() {
            let asked = (release, &question);
            let adds = self.adds_a_look(requester, plan, asked, &mut recalled.looks);
            if adds.await? {
                recalled.unshared.push((release, question));
                return Ok(());
            }
        }
        match (derived, found) {
            (Some((made, summed)), _) => {
                recalled.released.take(release, made);
                recalled.better.push((release, 1.0 / summed.worse));
                recalled.summed.push(summed);
            }
            // A widened release is bought even if another role has asked the plain one: the
            // difference would reveal that.
            (None, Some(Stored::Offered(_))) if self.widens(requester, plan).is_some() => {
                recalled.open.push((release, question));
            }
            (None, Some(Stored::Offered(answer))) => recalled.offered.push(Offer {
                release,
                answer,
                question,
            }),
            (None, Some(Stored::Held { .. }) | None) => recalled.open.push((release, question)),
        }
        Ok(())
    }

    /// The release as computed from another answer that the role holds.
    async fn derive_from_held(
        &self,
        requester: &Requester,
        plan: &Plan,
        release: ReleaseId,
        effort: &PlanningEffort,
    ) -> Result<Option<(Rollup, FromFiner)>, Error> {
        match self.roll_up(requester, plan, release, effort).await? {
            Some(summed) => Ok(Some(summed)),
            None => match self.read_off_held(requester, plan).await? {
                Some(read) => Ok(Some(read)),
                None => {
                    self.read_off_summary(requester, plan, release, effort)
                        .await
                }
            },
        }
    }

    /// Makes one debit for the part that has to be made and for the offered answers. `None`:
    /// another process is answering one of the questions, or has just done so. Nothing was charged.
    pub(super) async fn charge(
        &self,
        requester: &Requester,
        part: &UnpaidPart<'_>,
        (offered, periods): (&[Offer], Option<&PeriodsClaim>),
        questions: &[QuestionDigest],
        facts: &StatementFacts,
    ) -> Result<Option<Charge>, Error> {
        let is_bought = |release| {
            part.contains(release) || offered.iter().any(|offer| offer.release == release)
        };
        let purchase = Purchase {
            buyer: Buyer::Role,
            fresh: part.loss_at_first(),
            later: part.loss_after_looks(),
            offered: sum(offered),
            answers: offered.iter().map(|offer| offer.answer).collect(),
            fingerprint: part.digest().into(),
            bought: part.plan().part(is_bought).digest().into(),
            follows: None,
            questions: questions.to_vec(),
            held_before: periods.map(|of| (of.family, of.count)),
            series_max: None,
            prepaid: None,
        };
        self.pay(requester, purchase, facts).await
    }

    /// The second debit of a release, whose look saw enough. The history shows it with the first.
    pub(super) async fn charge_after_look(
        &self,
        requester: &Requester,
        made: &PaidPart<'_>,
        release: ReleaseId,
        facts: &StatementFacts,
    ) -> Result<Charge, Error> {
        let part = made.part();
        let fingerprint = part.digest_after_look(release).into();
        let loss = part.plan().release(release).loss_after_look();
        let loss = loss.ok_or_else(|| internal("rewrite", &"a loss cannot be counted"))?;
        let purchase = Purchase {
            follows: Some(made.entry()),
            ..Purchase::fresh(Buyer::Role, loss, fingerprint, Vec::new())
        };
        let paid = self.pay(requester, purchase, facts).await?;
        paid.ok_or_else(|| internal("ledger", &"a debit without questions waits for an answer"))
    }

    /// Pays for a purchase. `None`: another process is answering one of its questions, or has just
    /// done so, or an answer that it takes is gone.
    pub(super) async fn pay(
        &self,
        requester: &Requester,
        purchase: Purchase,
        facts: &StatementFacts,
    ) -> Result<Option<Charge>, Error> {
        let loss = purchase
            .fresh
            .compose(purchase.offered)
            .unwrap_or(purchase.fresh);
        facts.admits(loss)?;
        match self.ledger.purchase(&requester.role, purchase).await {
            Ok(charge) => {
                facts.add(loss, charge.entry().purchase_name());
                Ok(Some(charge))
            }
            Err(DebitError::Awaited) => Ok(None),
            Err(DebitError::Ledger(error)) => Err(ledger_failed(&error)),
            Err(error) => Err(match error.refusal() {
                Some(refusal) => Error::Ledger(refusal),
                None => internal("ledger", &error),
            }),
        }
    }

    /// Reads the offered answers, which are paid for now.
    pub(super) async fn receive(
        &self,
        requester: &Requester,
        plan: &Plan,
        offered: &[Offer],
        released: &mut Released,
    ) -> Result<(), Error> {
        for offer in offered {
            let values = self
                .ledger
                .values_held_by(&requester.role, offer.answer)
                .await
                .map_err(|e| ledger_failed(&e))?;
            let values = values.ok_or_else(|| internal("ledger", &"a paid answer is gone"))?;
            released
                .recall(plan, offer.release, &values)
                .map_err(|e| internal("release", &e))?;
        }
        Ok(())
    }
}

/// The price of all offers.
pub(super) fn sum(offered: &[Offer]) -> Loss {
    offered.iter().fold(Loss::ZERO, |sum, offer| {
        sum.compose(offer.question.loss).unwrap_or(sum)
    })
}

/// The digest that a stored answer to this release has; `None` where the release asks nothing of
/// the data.
pub(super) fn question(
    plan: &Plan,
    release: ReleaseId,
    constants: &[PrintedColumn],
) -> Option<QuestionDigest> {
    let release = plan.release(release);
    let loss = release
        .loss()
        .filter(|_| !release.statements().is_empty())?;
    // The noise of choices is part of the question's digest.
    let accuracy = release.price().map_or(1.0, |price| price.accuracy);
    let mut digest = Sha256::new();
    digest.update(release.question().as_bytes());
    for column in constants {
        digest.update((column.len() as u64).to_be_bytes());
        for value in column {
            match value {
                None => digest.update([0]),
                Some(text) => {
                    digest.update([1]);
                    digest.update((text.len() as u64).to_be_bytes());
                    digest.update(text);
                }
            }
        }
    }
    // A release with constants has no family.
    let of_groups = release
        .family()
        .map(|family| FamilyId(*family.digest.as_bytes()));
    let of_periods = release
        .batch()
        .map(|batch| FamilyId(*batch.question.as_bytes()));
    let family = of_periods.or(of_groups);
    Some(QuestionDigest {
        digest: QuestionId(digest.finalize().into()),
        family,
        accuracy,
        loss,
    })
}
