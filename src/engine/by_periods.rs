//! Questions by periods: periods that the role holds are shown again, and the others are bought by
//! one debit and one statement. See [`crate::rewrite::periods`].
//!
//! # Guarantee
//! A purchase is an ordinary release of the question for the missing periods, at its own price: the
//! statement's epsilon, whatever the number of periods. A role that sees one of its periods pays
//! for all of them. The policy, the clock and the role's own answers decide which periods are
//! missing. Joining answers is post-processing.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::period_form::{ONLY, not_by_periods, plan_batch};
use super::planning::accounts;
use super::planning_limit::aside;
use super::rollup::SLACK;
use super::run::{Answered, Attempt, Buying};
use super::shown_periods::{PeriodsClaim, ShownPeriods};
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::{Engine, internal, ledger_failed};
use crate::aggregates::{Foreseen, Output};
use crate::analyze::PlanningEffort;
use crate::calendar::FROM_1970_US;
use crate::calendar::period::PeriodSet;
use crate::catalog::Type;
use crate::error::Error;
use crate::ir::AggregateId;
use crate::ledger::{FamilyId, QuestionId};
use crate::mechanism::Loss;
use crate::memory::HeldMemory;
use crate::refusal::{Refusal, reason};
use crate::release::{PeriodAnswer, Released, ReleasedTable};
use crate::rewrite::{Plan, ReleasePlan};
use crate::shadow::Requester;

/// The most bytes of memory for each byte of a stored answer.
pub(super) const OPENED: u64 = 16;

/// What the role holds of a question by periods, and what it lacks.
pub(super) struct Standing {
    /// Answers that it holds, each with those of its periods that are shown from it.
    pub answers: Vec<(PeriodAnswer, PeriodSet)>,
    pub claim: PeriodsClaim,
    /// The closed periods that are asked for and not held.
    pub missing: PeriodSet,
    pub shown: ShownPeriods,
    pub held: HeldMemory,
}

/// Microseconds since 2000-01-01.
pub(super) fn now() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_1970.unwrap_or_default().as_micros();
    i64::try_from(micros).unwrap_or(i64::MAX) - FROM_1970_US
}

impl Engine {
    /// The plan's form by periods, where the session is answered by it. A question that ends within
    /// a closed period is an ordinary one.
    pub(super) fn plan_by_periods(&self, requester: &Requester, plan: Arc<Plan>) -> Arc<Plan> {
        let Some((form, asked)) = plan.by_periods().and_then(|f| Some((f, f.periods()?))) else {
            return plan;
        };
        let closed = asked.periods().closed_at(now());
        let is_whole = asked.cuts().is_none_or(|last| !closed.contains(last));
        match is_whole && self.reuse(requester).sums_groups() {
            true => Arc::clone(form),
            false => plan,
        }
    }

    /// What the role holds of a question by periods, and what it lacks.
    pub(super) async fn standing(
        &self,
        requester: &Requester,
        plan: &Plan,
    ) -> Result<Standing, Error> {
        let asked = plan.periods().ok_or_else(not_by_periods)?;
        let question = plan.release(ONLY).question();
        let family = FamilyId(*question.as_bytes());
        let role = requester.role.as_str();
        let bytes = self.ledger.bytes_of_family(role, family).await;
        let bytes = bytes.map_err(|e| ledger_failed(&e))?;
        let weight = usize::try_from(bytes.saturating_mul(OPENED)).unwrap_or(usize::MAX);
        let held = requester.share.hold(weight).map_err(Error::Ledger)?;
        let stored = self.ledger.values_of_family(role, family).await;
        let stored = stored.map_err(|e| ledger_failed(&e))?;
        let count = stored.len() as u64;
        let epsilon = self.terms(requester, Vec::new()).epsilon;
        // Before anything is paid it is certain that the answers fit together.
        let held_answers = aside(|| {
            let read = stored.iter().map(|values| {
                let table = ReleasedTable::read(values)?;
                PeriodAnswer::read(table, plan, ONLY)
            });
            read.collect::<Result<Vec<_>, _>>()
        });
        let held_answers = held_answers.map_err(|e| internal("release", &e))?;
        let closed = asked.periods().closed_at(now());
        let shape = plan.release(ONLY);
        let (answers, shown) = pick(held_answers, shape, epsilon, &asked.asked_periods());
        let is_held = answers
            .iter()
            .fold(PeriodSet::default(), |all, (_, of)| all.or(of));
        let missing = asked.asked_periods().and(&closed).without(&is_held);
        let open = asked.asked_periods().without(&closed.or(&is_held)).hull();
        debug_assert_eq!(shown, is_held.count());
        let noise = noise_of(shape, &answers);
        Ok(Standing {
            answers,
            claim: PeriodsClaim {
                claim: claim_of(family, role),
                family,
                count,
            },
            shown: ShownPeriods {
                held: shown,
                noise,
                missing: missing.clone(),
                open: open.map(|(first, _)| first),
                few: None,
                earlier: asked.asks_for_earlier().then(|| asked.periods().from),
                prepaid: None,
            },
            missing,
            held,
        })
    }

    /// The plan that buys these periods; `None` where no row can be in them.
    pub(super) async fn plan_batch(
        &self,
        requester: &Requester,
        form: &Plan,
        periods: &PeriodSet,
    ) -> Result<Option<Plan>, Error> {
        if periods.is_empty() {
            return Ok(None);
        }
        let balances = self.ledger.balances(&requester.role).await;
        let balances = balances.map_err(|e| ledger_failed(&e))?;
        let terms = self.terms(requester, accounts(&balances));
        let plan = |effort: &Arc<PlanningEffort>| {
            let terms = (&self.policy, &terms);
            crate::parse::with_room(|| plan_batch(form, periods, terms, effort))
        };
        self.little_or_in_turn(&requester.role, plan).await
    }

    /// Answers a question by periods.
    ///
    /// Sessions of one role that buy of one question follow each other, here and on other proxies,
    /// so that no period is bought twice.
    pub(super) async fn run_by_periods(
        &self,
        requester: &Requester,
        plan: &Plan,
        timing: &Timing,
        facts: &StatementFacts,
    ) -> Result<Answered, Error> {
        let asked = plan.periods().ok_or_else(not_by_periods)?;
        if asked.prepaid().is_some() {
            return Box::pin(self.run_prepaid(requester, plan, timing, facts)).await;
        }
        let timeout = self.policy.limits.statement_timeout;
        let others = self.single_flight.wait(plan, &requester.role, timeout);
        let _flights = timing.until_cancelled(async { Ok(others.await) }).await?;
        let patience = Instant::now() + timeout;
        loop {
            let standing = self.standing(requester, plan);
            let standing = timing.until_cancelled(standing).await?;
            let batch = self.plan_batch(requester, plan, &standing.missing).await?;
            let Some(batch) = batch else {
                return join(plan, standing, Purchase::Nothing);
            };
            let waits = Instant::now() < patience;
            let claimed = [standing.claim.claim];
            let buying = Buying {
                waits,
                periods: waits.then(|| standing.claim.clone()),
            };
            let paid_before = facts.sum();
            let attempt = self.attempt(requester, &batch, timing, facts, buying);
            match Box::pin(attempt).await {
                Ok(Attempt::Answered(bought)) => {
                    self.ledger.release(&claimed).await;
                    return join(plan, standing, Purchase::Made(bought));
                }
                Ok(Attempt::Awaited(questions)) => {
                    self.wait_for(&questions, patience, timing).await?;
                }
                Err(Error::Release(few)) if is_short(&few) && !standing.answers.is_empty() => {
                    let look = batch.part(|_| true).loss_at_first();
                    // The answer may have been paid for before.
                    let paid = match facts.sum() == paid_before {
                        true => Loss::ZERO,
                        false => look,
                    };
                    let saw = few.message;
                    return join(plan, standing, Purchase::LookAlone { paid, saw });
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The outcome for the periods that were missing.
enum Purchase {
    /// No row can be in them, or none is missing.
    Nothing,
    Made(Box<Answered>),
    /// The look saw too few units, in words. They are left out, and asked for again together with
    /// those that close later.
    LookAlone {
        paid: Loss,
        saw: String,
    },
}

/// Whether a look saw too few units.
fn is_short(refusal: &Refusal) -> bool {
    refusal.reason == reason::TOO_FEW_UNITS
}

/// The answers that serve a session of this epsilon, each with the asked periods that are shown
/// from it; and the number of these periods. If there are several answers for a period, the one
/// with the smallest errors is taken, and of equal ones the oldest: so a period looks the same each
/// time.
fn pick(
    answers: Vec<PeriodAnswer>,
    shape: &ReleasePlan,
    epsilon: f64,
    asked: &PeriodSet,
) -> (Vec<(PeriodAnswer, PeriodSet)>, u64) {
    let serves = |answer: &PeriodAnswer| answer.epsilon() >= epsilon * (1.0 - SLACK);
    let mut serving: Vec<_> = answers
        .into_iter()
        .filter(serves)
        .map(|answer| (answer.errors(shape), answer))
        .collect();
    serving.sort_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut left, mut picked, mut count) = (asked.clone(), Vec::new(), 0);
    for (_, answer) in serving {
        let shown = left.and(answer.periods());
        if !shown.is_empty() {
            left = left.without(&shown);
            count += shown.count();
            picked.push((answer, shown));
        }
    }
    (picked, count)
}

/// The least and the largest noise in these answers, of each aggregate that is one measure.
pub(super) fn noise_of(
    shape: &ReleasePlan,
    answers: &[(PeriodAnswer, PeriodSet)],
) -> Vec<(AggregateId, f64, f64)> {
    let outputs = AggregateId::with_numbers(shape.outputs());
    let of_output = |(at, (output, _)): (AggregateId, &(Output, Type))| {
        let Foreseen::Measure(measure) = output.foreseen() else {
            return None;
        };
        let measure = shape.measure(measure);
        let noise = answers.iter().filter_map(|(of, _)| of.deviation(measure));
        let ends = noise.map(|noise| (noise, noise));
        let (least, most) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some((at, least, most))
    };
    outputs.filter_map(of_output).collect()
}

/// The answer from those for periods.
fn join(plan: &Plan, standing: Standing, purchase: Purchase) -> Result<Answered, Error> {
    let Standing {
        mut answers,
        claim: _,
        missing,
        shown,
        held,
    } = standing;
    let (shown, paid) = match purchase {
        Purchase::Nothing => (shown.of_purchase(false), Loss::ZERO),
        Purchase::LookAlone { paid, saw } => (shown.without_missing(saw), paid),
        Purchase::Made(bought) => {
            let table = bought.released.table(ONLY).cloned();
            let table = table.ok_or_else(|| internal("release", &"bought periods are gone"))?;
            let answer = aside(|| PeriodAnswer::read(table, plan, ONLY));
            answers.push((answer.map_err(|e| internal("release", &e))?, missing));
            (shown, bought.paid)
        }
    };
    let mut released = Released::before(plan);
    aside(|| released.join_periods(plan, ONLY, answers));
    Ok(Answered {
        released,
        paid,
        recalled: 0,
        summed: Vec::new(),
        better: Vec::new(),
        periods: Some(shown),
        _held: held,
    })
}

/// The claim of a role while it buys periods of a question.
fn claim_of(family: FamilyId, role: &str) -> QuestionId {
    let mut digest = Sha256::new();
    digest.update(b"periods for a role 1\n");
    digest.update(family.0);
    digest.update(role.as_bytes());
    QuestionId(digest.finalize().into())
}
