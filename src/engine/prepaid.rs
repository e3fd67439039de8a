//! Prepaid periods: the first question pays for a horizon of them, and each is drawn once, when it
//! is closed. See docs/periods.md for the proof, and [`crate::ledger`] for the order of draws.
//!
//! # Guarantee
//! A draw takes every closed period that is not drawn yet, up to the last one that is asked for, in
//! one snapshot. That snapshot is opened after the ledger was asked where the last draw ended
//! ([`DrawSnapshot`] holds that), and the draw is recorded only if no other came since. So
//! snapshots follow each other as draws do. What a draw releases is never drawn again under its
//! price, also if it fails.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::period_form::{ONLY, plan_draw};
use super::periods_due::PeriodsDue;
use super::planning::accounts;
use super::planning_limit::aside;
use super::prepaid_standing::{
    DrawSnapshot, HorizonStanding, PrepaidStanding, RecordedDraw, price_of,
};
use super::run::Answered;
use super::run_error::RunError;
use super::shown_periods::ShownPeriods;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::{Engine, internal, ledger_failed};
use crate::analyze::PlanningEffort;
use crate::calendar::period::{Period, PeriodSet};
use crate::error::Error;
use crate::execute;
use crate::ledger::{Fingerprint, PrepaidPrice, QuestionDigest, QuestionId, drawing};
use crate::mechanism::Loss;
use crate::refusal::{Refusal, reason};
use crate::release::{EndedPart, Keeping, Released};
use crate::rewrite::{Plan, Terms};
use crate::shadow::Requester;

impl Engine {
    /// The plan that draws some periods; `None` where no row can be in them.
    async fn plan_prepaid(
        &self,
        requester: &Requester,
        form: &Plan,
        (since, block, periods): (Period, Period, &PeriodSet),
        price: &PrepaidPrice,
    ) -> Result<Option<Plan>, Error> {
        if periods.is_empty() {
            return Ok(None);
        }
        let balances = self.ledger.balances(&requester.role).await;
        let balances = balances.map_err(|e| ledger_failed(&e))?;
        let terms = Terms {
            epsilon: price.epsilon,
            delta: price.delta,
            ..self.terms(requester, accounts(&balances))
        };
        let plan = |effort: &Arc<PlanningEffort>| {
            let terms = (&self.policy, &terms);
            crate::parse::with_room(|| plan_draw(form, (since, periods), terms, effort))
        };
        let planned = self.little_or_in_turn(&requester.role, plan).await?;
        Ok(planned.map(|plan| plan.with_block(ONLY, block)))
    }

    /// What a question with prepaid periods would pay now. It is free. What other roles have paid
    /// for makes no difference.
    pub(super) async fn prepaid_due(
        &self,
        requester: &Requester,
        plan: &Plan,
    ) -> Result<PeriodsDue, Error> {
        let PrepaidStanding {
            horizons,
            shown,
            held,
        } = self.prepaid_standing(requester, plan).await?;
        let unpaid = || horizons.iter().filter(|one| !one.is_held());
        let loss = unpaid().try_fold(Loss::ZERO, |sum, one| sum.compose(one.price.loss));
        let loss = loss.ok_or_else(|| internal("rewrite", &"a loss cannot be counted"))?;
        let mut batch = None;
        for one in unpaid() {
            let draw = (one.horizon.first, one.horizon.first, &one.as_new());
            let planned = self.plan_prepaid(requester, plan, draw, &one.price);
            batch = planned.await?;
            if batch.is_some() {
                break;
            }
        }
        Ok(PeriodsDue {
            batch,
            loss,
            shown,
            answers: Vec::new(),
            is_asked: !horizons.is_empty(),
            horizons,
            held,
        })
    }

    /// The plans that would draw what is asked for and not drawn, each with its periods that are
    /// asked for. Before the role has paid for a horizon, it learns nothing of what others drew
    /// there.
    pub(super) async fn plan_draws(
        &self,
        requester: &Requester,
        plan: &Plan,
        horizons: &[HorizonStanding],
    ) -> Result<Vec<(Plan, PeriodSet)>, Error> {
        let mut all = Vec::new();
        for one in horizons {
            let block = match one.is_held() {
                true => one.block(),
                false => one.horizon.first,
            };
            let left = one.as_new().and(&one.asked);
            let draw = (one.horizon.first, block, &left);
            let planned = self.plan_prepaid(requester, plan, draw, &one.price);
            if let Some(planned) = planned.await? {
                all.push((planned, left));
            }
        }
        Ok(all)
    }

    /// Answers a question with prepaid periods: pays for horizons that the role has not paid for,
    /// and draws what is closed.
    pub(super) async fn run_prepaid(
        &self,
        requester: &Requester,
        plan: &Plan,
        timing: &Timing,
        facts: &StatementFacts,
    ) -> Result<Answered, Error> {
        let mut paid = Loss::ZERO;
        let answered = self
            .pay_and_draw(requester, plan, &mut paid, (timing, facts))
            .await;
        answered.map_err(|error| after_payment(error, &paid))
    }

    /// Goes on until nothing is left to pay or to draw. `paid` counts what was paid so far.
    async fn pay_and_draw(
        &self,
        requester: &Requester,
        plan: &Plan,
        paid: &mut Loss,
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<Answered, Error> {
        let timeout = self.policy.limits.statement_timeout;
        let mut patience = Instant::now() + timeout;
        let (mut first, mut skipped, mut flights) = (None, PeriodSet::default(), None);
        loop {
            let standing = self.prepaid_standing(requester, plan);
            let standing = timing.until_cancelled(standing).await?;
            let is_held = standing.horizons.iter().all(HorizonStanding::is_held);
            // Before the role has paid, it does not wait for other roles' questions either.
            if is_held && flights.is_none() {
                let others = self.single_flight.wait(plan, &requester.role, timeout);
                flights = Some(timing.until_cancelled(async { Ok(others.await) }).await?);
                continue;
            }
            let before = first.get_or_insert_with(|| standing.shown.clone()).clone();
            let is_patient = Instant::now() < patience;
            // Before the role has paid, it learns nothing of what others do.
            let waits = |one: &&HorizonStanding| {
                is_patient
                    && one.is_held()
                    && one.is_drawing()
                    && !one.asked.without(&one.shown_periods()).is_empty()
            };
            if let Some(busy) = standing.horizons.iter().find(waits) {
                self.wait_for(&[drawing(busy.family)], patience, timing)
                    .await?;
                // Sessions of this proxy do not wait for its claims.
                tokio::time::sleep(super::run::LOOK_EVERY).await;
                continue;
            }
            let due = |one: &&HorizonStanding| {
                !one.is_held() || !one.next_draw().without(&skipped).is_empty()
            };
            let Some(next) = standing.horizons.iter().find(due) else {
                return join(plan, standing, (before, *paid));
            };
            let draw = next.as_new();
            let planned = (next.horizon.first, next.block(), &draw);
            let batch = self
                .plan_prepaid(requester, plan, planned, &next.price)
                .await?;
            if batch.is_none() {
                skipped = skipped.or(&draw);
            }
            let stepped = self.step_prepaid(requester, (plan, next, batch.as_ref()), timing, facts);
            match Box::pin(stepped).await? {
                Some(loss) => {
                    *paid = paid.compose(loss).unwrap_or(*paid);
                    patience = Instant::now() + timeout;
                }
                None if !next.is_held() => tokio::task::yield_now().await,
                None if Instant::now() < patience => {
                    tokio::time::sleep(super::run::LOOK_EVERY).await;
                }
                None => return Err(busy_elsewhere()),
            }
        }
    }

    /// Pays for a horizon where the role has not; else draws what the plan is for. Returns what was
    /// paid; `None`, and nothing is paid, where another session has drawn or opened it meanwhile.
    ///
    /// Payment alone comes first, after the checks of a draw of everything that is asked for: a
    /// refusal does not depend on what was drawn for another role.
    async fn step_prepaid(
        &self,
        requester: &Requester,
        (form, of, batch): (&Plan, &HorizonStanding, Option<&Plan>),
        timing: &Timing,
        facts: &StatementFacts,
    ) -> Result<Option<Loss>, Error> {
        self.refuse_to_buy(requester, usize::from(!of.is_held()), Vec::new)?;
        let table = self.table_with_periods(form);
        let slot = self.slot_or_cancel(requester, timing).await?;
        let Some(batch) = batch else {
            let fingerprint = Fingerprint::new(of.of.question);
            let purchase = of.payment(table, fingerprint);
            let loss = price_of(&purchase);
            let paid = self.pay(requester, purchase, facts).await?;
            return Ok(paid.map(|_| loss));
        };
        if batch.loss() != of.price.loss {
            return Err(internal(
                "rewrite",
                &"a draw has another price than was paid",
            ));
        }
        let part = batch.part(|_| true);
        let fingerprint = part.digest().into();
        self.check_pairs(requester, batch.release(ONLY), |_| 1)
            .await?;
        let payer = (self, requester);
        let snapshot = DrawSnapshot::open(of, part, payer, timing).await?;
        if snapshot.is_of_standby().await? {
            snapshot.close().await;
            return Err(on_standby());
        }
        if !of.is_held() {
            let purchase = of.payment(table, fingerprint);
            let loss = price_of(&purchase);
            let paid = self.pay(requester, purchase, facts).await;
            snapshot.close().await;
            return Ok(paid?.map(|_| loss));
        }
        let recorded = snapshot.record(payer, (table, fingerprint), facts).await?;
        let Some((draw, loss)) = recorded else {
            return Ok(None);
        };
        let claim = [drawing(of.family)];
        let making = self.draw_periods(requester, draw, (batch, of), timing);
        let made = self.ledger.holding(&claim, making).await;
        self.ledger.release(&claim).await;
        self.end_attempt(requester, slot, made).await?;
        Ok(Some(loss))
    }

    /// Runs the statement of a draw that is recorded, adds the noise and keeps the answer, durably:
    /// the periods cannot be drawn again. A client's cancel does not end it, and an interruption is
    /// not repaired: a second snapshot might be younger than that of a later draw.
    async fn draw_periods(
        &self,
        requester: &Requester,
        draw: RecordedDraw<'_>,
        (batch, of): (&Plan, &HorizonStanding),
        timing: &Timing,
    ) -> Result<(), RunError> {
        let failed = |error: &dyn std::fmt::Display| {
            RunError::Backend(execute::Error::Backend(format!("a draw failed: {error}")))
        };
        let mut paid = draw.into_paid(Released::before(batch));
        let never = CancellationToken::new();
        let making = async {
            timing.begin();
            let read = paid.run(ONLY, &[], &never).await;
            let mut sampler = (self.sampler)();
            let drawn = match read {
                Ok(read) => aside(|| paid.release(read, &mut *sampler)).map_err(|e| failed(&e)),
                Err(error) => Err(failed(&error)),
            };
            drawn.map(|()| {
                let price = batch.release(ONLY).price();
                let question = QuestionDigest {
                    digest: QuestionId(*batch.release(ONLY).question().as_bytes()),
                    family: Some(of.family),
                    accuracy: price.map_or(1.0, |price| price.accuracy),
                    loss: of.price.loss,
                };
                paid.keep_release(question, ONLY);
            })
        };
        let made = AssertUnwindSafe(making).catch_unwind().await;
        let made = made.unwrap_or_else(|_| Err(failed(&"it panicked")));
        timing.rest().await;
        let ledger = (&self.ledger, requester.role.as_str());
        let ended = paid.end(made.is_ok(), ledger, Keeping::Durable).await;
        let EndedPart { released: _, kept } = ended;
        made?;
        kept.map_err(|e| RunError::Other(ledger_failed(&e)))
    }

    /// `schema.table` of the periods.
    fn table_with_periods(&self, form: &Plan) -> String {
        let table = form
            .periods()
            .and_then(|asked| self.policy.tables.get(asked.table().0));
        table.map_or(String::new(), |table| {
            format!("{}.{}", table.schema, table.name)
        })
    }
}

/// The answer from the draws that the role holds. `before` is what it held when it asked.
fn join(
    plan: &Plan,
    standing: PrepaidStanding,
    (before, paid): (ShownPeriods, Loss),
) -> Result<Answered, Error> {
    let PrepaidStanding {
        horizons,
        shown,
        held,
    } = standing;
    let shown = before.after_draws(shown);
    let answers = horizons.into_iter().flat_map(|one| one.answers).collect();
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

/// A refusal after a horizon of the question was paid for.
fn after_payment(error: Error, paid: &Loss) -> Error {
    let restated = |refusal: Refusal| match refusal.detail.clone() {
        Some(detail) if detail.contains("Nothing was charged") => refusal.detail(
            "A horizon of the question is paid for: what is closed there is drawn when it is asked \
                for again, free.",
        ),
        _ => refusal,
    };
    match error {
        Error::Ledger(refusal) if !paid.is_zero() => Error::Ledger(restated(refusal)),
        Error::Rewrite(refusal) if !paid.is_zero() => Error::Rewrite(restated(refusal)),
        error => error,
    }
}

/// A later snapshot of a standby may lack rows that an earlier one of another server had.
fn on_standby() -> Error {
    Error::Ledger(
        Refusal::new(
            reason::PREPAID_ON_STANDBY,
            "prepaid periods are drawn from a primary server only",
        )
        .detail(
            "The database is a standby, which may lack rows that another server has shown. Nothing \
                was charged.",
        )
        .hint(
            "Ask the data owner to name the primary server in database.url. SET \
                pgveil.open_periods = on asks an ordinary question.",
        ),
    )
}

fn busy_elsewhere() -> Error {
    Error::Ledger(
        Refusal::new(
            reason::PERIODS_BUSY,
            "other sessions are drawing the same periods",
        )
        .detail("Nothing was charged.")
        .hint("Ask again later."),
    )
}
