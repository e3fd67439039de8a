//! `SET pgveil.reuse = checked`: an answer of a summary is compared with the rows before it is
//! shown. Where it is too far off, the question is bought, and the answer corrects the summary.
//!
//! # Guarantee
//! As of epochs: the comparisons of a role are questions to one epoch, which is charged when it
//! opens. Each asks whether a sum is at least the tolerance away from a value that the role holds.
//! A unit moves that distance by no more than it moves the sum, up or down.

use std::sync::Arc;

use super::check_words::{
    CheckOutcome, Said, after_verdict, budget_too_small, busy, has_ended, many_values,
    more_than_one_query, no_tolerance, not_one_sum, other_direction, tolerance_too_small,
    too_many_checks, useless_alone,
};
use super::checkable::{Check, Checkable};
use super::epochs::EpochQuestion;
use super::expected_error::after;
use super::middle_queries::MiddleQueries;
use super::monitors::{DOWN, MONITORS_MAX, check_least, fingerprint, settings_of};
use super::reuse::Offer;
use super::run::Answered;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::{Engine, internal, ledger_failed};
use crate::error::Error;
use crate::ir::ReleaseId;
use crate::ledger::{Buyer, Purchase};
use crate::mechanism::{Fixed, Loss, SumDirection, loss_of_epoch};
use crate::parse::Query;
use crate::policy::Reuse;
use crate::refusal::Refusal;
use crate::release::{Compared, Epoch, EpochKind, EpochTerms, NoiseRecord, ReleasedTable};
use crate::rewrite::{MonitoredSum, Plan};
use crate::shadow::Requester;

/// The name of the epoch in `pgveil.monitors`.
pub(super) const NAME: &str = "pgveil.reuse";

/// The only release of a plan that a check may buy.
const ONLY: ReleaseId = ReleaseId(0);

/// An answered question, and whether its summary was checked.
pub(super) struct CheckedAnswer {
    pub plan: Arc<Plan>,
    pub answered: Answered,
    pub notices: Vec<String>,
    pub warnings: Vec<Refusal>,
    /// Whether a check was paid for.
    pub is_paid: bool,
}

impl Engine {
    /// Runs the plan. Where a summary answers it and the session asks for checks, it is checked
    /// first.
    pub(super) async fn run_checked(
        &self,
        requester: &Requester,
        (query, plan): (&Query, Arc<Plan>),
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<CheckedAnswer, Error> {
        let checkable = self.checkable(requester, query, &plan, facts);
        let checkable = timing.until_cancelled(Box::pin(checkable)).await?;
        let found = checkable.check().map(|check| check.agreement().text());
        facts.admits_check(found)?;
        let mut notices = Vec::new();
        let check = match checkable {
            Checkable::Yes(check) => *check,
            other => {
                if let Checkable::NotPossible(why) = other {
                    notices.push(format!("not checked: {why}"));
                }
                let running = Box::pin(self.run_plan(requester, &plan, timing, facts));
                return Ok(CheckedAnswer {
                    answered: timing.run(running).await?,
                    plan,
                    notices,
                    warnings: Vec::new(),
                    is_paid: false,
                });
            }
        };
        let outcome = self.is_far(requester, &check, (timing, facts)).await?;
        // What was agreed on covers the question too.
        facts.first_is_made();
        match outcome.is_far {
            true => {
                self.buy_instead(requester, check, outcome, (timing, facts))
                    .await
            }
            false => {
                self.show_checked(requester, check, outcome, timing, plan)
                    .await
            }
        }
    }

    /// The summary's answer, which is near enough. Nothing is bought any more.
    async fn show_checked(
        &self,
        requester: &Requester,
        check: Check,
        outcome: CheckOutcome,
        timing: &Timing,
        plan: Arc<Plan>,
    ) -> Result<CheckedAnswer, Error> {
        let nothing = StatementFacts::new().up_to(Loss::ZERO);
        let running = Box::pin(self.run_plan(requester, &plan, timing, &nothing));
        let answered = timing.run(running).await;
        let answered = answered.map_err(|error| after_verdict(error, &check, false))?;
        let shown = answered.released.table(check.release).and_then(only_value);
        let said = match shown == Some(check.value) {
            true => Said::Near,
            false => Said::Changed,
        };
        Ok(CheckedAnswer {
            notices: self
                .check_notices(requester, &check, (outcome, said))
                .await?,
            plan,
            answered,
            warnings: Vec::new(),
            is_paid: !check.is_open,
        })
    }

    /// The question is bought in place of the summary's answer, and corrects the summary.
    async fn buy_instead(
        &self,
        requester: &Requester,
        check: Check,
        outcome: CheckOutcome,
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<CheckedAnswer, Error> {
        facts.note_plan(&check.bought, &self.policy);
        let running = Box::pin(self.run_plan(&check.asking, &check.bought, timing, facts));
        let running = timing.run(running).await;
        let answered = running.map_err(|error| after_verdict(error, &check, true))?;
        // The answer is paid for and shown, whether or not it corrects the summary.
        let said = match self.join(requester, &check, &answered).await {
            Ok(true) => Said::Corrects,
            Ok(false) | Err(_) => Said::Bought,
        };
        Ok(CheckedAnswer {
            notices: self
                .check_notices(requester, &check, (outcome, said))
                .await?,
            plan: check.bought,
            answered,
            warnings: check.warnings,
            is_paid: true,
        })
    }

    /// Whether the answer is compared with the rows: reads what the role holds, and the policy.
    ///
    /// # Errors
    /// 22023 for a tolerance that is missing, or smaller than a check can tell, and where the check
    /// and the question together may spend more than one query may; 53400 where the budget does not
    /// cover both; those of planning.
    pub(super) async fn checkable(
        &self,
        requester: &Requester,
        query: &Query,
        plan: &Arc<Plan>,
        facts: &StatementFacts,
    ) -> Result<Checkable, Error> {
        let settings = &requester.session_settings;
        let is_asked = self.reuse(requester) == Reuse::Checked;
        if !is_asked || settings.target_error.is_some() || plan.periods().is_some() {
            return Ok(Checkable::No);
        }
        let mut middles = MiddleQueries::new(self, requester, plan);
        let recalled = self.recall(requester, plan, &mut middles).await?;
        let from = recalled.summed.iter();
        let from = from.filter_map(|from| Some((from.release, from.summary()?.to_owned())));
        let from: Vec<(ReleaseId, String)> = from.collect();
        let [(release, name)] = from.as_slice() else {
            return Ok(match from.is_empty() {
                true => Checkable::No,
                false => Checkable::NotPossible(many_values()),
            });
        };
        let table = recalled.released.table(*release);
        let Some(value) = table.and_then(only_value) else {
            return Ok(Checkable::NotPossible(many_values()));
        };
        let tolerance = settings.tolerance;
        let tolerance = tolerance.ok_or_else(|| Error::Rewrite(no_tolerance()))?;
        let open = self.monitors.open_terms(&requester.role, NAME);
        let Some((sum, terms)) = self.plan_check(requester, query, open).await? else {
            return Ok(Checkable::NotPossible(not_one_sum()));
        };
        let mut asking = requester.clone();
        asking.session_settings.reuse = Reuse::Exact;
        let (bought, _) = Box::pin(self.plan_for(&asking, query, facts)).await?;
        let useful = Box::pin(self.check_useful(&asking, query, &bought)).await;
        let warnings = match useful {
            Ok(warnings) => warnings,
            // The summary's answer may still be of use.
            Err(Error::Rewrite(_)) => return Ok(Checkable::NotPossible(useless_alone())),
            Err(error) => return Err(error),
        };
        self.refuse_looks_in_vain(&asking, &bought).await?;
        let check = Check {
            name: name.clone(),
            form: Arc::clone(plan),
            release: *release,
            value,
            tolerance,
            sum,
            terms,
            is_open: open.is_some(),
            asking,
            bought,
            warnings,
        };
        let least = check.margin(1)?;
        if tolerance < least {
            return Err(Error::Rewrite(tolerance_too_small(&check, least)));
        }
        self.check_covers(requester, &check).await?;
        Ok(Checkable::Yes(Box::new(check)))
    }

    /// Whether a question would be checked, or refused as its check is, for a page that shows its
    /// price first: pricing then says why.
    pub async fn is_checked(&self, requester: &Requester, query: &Query) -> bool {
        if self.reuse(requester) != Reuse::Checked {
            return false;
        }
        let nothing = StatementFacts::new().up_to(Loss::ZERO);
        let Ok((plan, _)) = Box::pin(self.plan_free(requester, query)).await else {
            return false;
        };
        let checkable = Box::pin(self.checkable(requester, query, &plan, &nothing)).await;
        checkable.map_or(true, |checkable| checkable.check().is_some())
    }

    /// Refuses a check that may cost more than the role has: it would be paid for nothing.
    async fn check_covers(&self, requester: &Requester, check: &Check) -> Result<(), Error> {
        let (opening, question) = check.losses();
        let most = self.policy.privacy.epsilon_max;
        let epsilon = check.terms.epsilon.to_f64();
        if !check.is_open && 2.0 * epsilon > most * (1.0 + 1e-9) {
            return Err(Error::Rewrite(more_than_one_query(most)));
        }
        let balance = self.ledger.balance(&requester.role).await;
        let balance = balance.map_err(|e| ledger_failed(&e))?;
        let whole = opening.compose(question);
        let covers = whole.is_some_and(|loss| after(&balance, loss).is_some());
        match covers && !balance.closed {
            true => Ok(()),
            false => Err(Error::Ledger(budget_too_small(&requester.role))),
        }
    }

    /// Refuses a purchase whose look would be charged in vain, before the check is.
    async fn refuse_looks_in_vain(&self, asking: &Requester, bought: &Plan) -> Result<(), Error> {
        let mut middles = MiddleQueries::new(self, asking, bought);
        let recalled = self.recall(asking, bought, &mut middles).await?;
        let asked = recalled.open.iter().chain(&recalled.unshared).copied();
        let asked = asked.chain(recalled.offered.iter().map(Offer::question));
        self.refuse_repeated_look(asking, bought, asked, &recalled.looks)
    }

    /// The plan of the sum that is compared, with the noise of a question of the epoch that is
    /// open, or would open. `None` where the query is not one sum without groups.
    async fn plan_check(
        &self,
        requester: &Requester,
        query: &Query,
        open: Option<EpochTerms>,
    ) -> Result<Option<(Plan, EpochTerms)>, Error> {
        const DIRECTION: SumDirection = SumDirection::Either;
        self.check_monitors_are_allowed(requester)?;
        if open.is_some_and(|open| open.direction != DIRECTION) {
            return Err(Error::Rewrite(other_direction()));
        }
        let settings = &requester.session_settings;
        let default = self.policy.privacy.epsilon_default;
        let own = || Fixed::round_down(settings.epsilon.unwrap_or(default));
        let epsilon = open.map_or_else(own, |open| open.epsilon);
        let share = DIRECTION.epsilon_of_question(epsilon);
        check_least(share.to_f64() / epsilon.to_f64(), epsilon, &self.policy)?;
        let priced = (share.to_f64() * DOWN, settings_of(settings));
        let plan = match self.plan_sum(requester, query, priced).await {
            Ok(plan) => plan,
            Err(Error::Resolve(_) | Error::Analyze(_) | Error::Rewrite(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        if MonitoredSum::of(&plan).is_err() {
            return Ok(None);
        }
        if plan.loss().epsilon.is_none_or(|own| own > share) {
            return Err(internal("rewrite", &"a check costs more than its share"));
        }
        self.check_copied(&plan)?;
        let terms = EpochTerms {
            kind: EpochKind::Monitor,
            epsilon,
            direction: DIRECTION,
        };
        Ok(Some((plan, terms)))
    }

    /// Whether the summary's answer is at least the tolerance away from the rows', but for noise.
    async fn is_far(
        &self,
        requester: &Requester,
        check: &Check,
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<CheckOutcome, Error> {
        let role = &requester.role;
        let slot = self.monitors.slot(role, NAME, MONITORS_MAX);
        let slot = slot.ok_or_else(|| Error::Ledger(too_many_checks(MONITORS_MAX)))?;
        let words = (busy(), has_ended());
        let mut epoch = self.hold_epoch(&slot, words, timing).await?;
        // Another session's check has opened or ended it since this one was planned.
        if epoch.as_ref().map(Epoch::terms) != check.is_open.then_some(check.terms) {
            return Err(Error::Ledger(has_ended()));
        }
        let sum = MonitoredSum::of(&check.sum).map_err(Error::Rewrite)?;
        let loss = loss_of_epoch(check.terms.epsilon);
        let question = EpochQuestion {
            threshold: sum.question_of_distance(check.tolerance),
            compared: Compared::DistanceFrom(sum.steps(check.value)),
            sum,
            noise: None,
            terms: check.terms,
            purchase: Purchase::fresh(Buyer::Role, loss, fingerprint(role, NAME), Vec::new()),
            not_open: has_ended(),
        };
        let asking = self.ask_epoch(requester, &question, (&slot, &mut epoch), (timing, facts));
        let is_far = asking.await?.is_above();
        Ok(CheckOutcome {
            is_far,
            has_ended: epoch.is_none(),
        })
    }

    /// Corrects the summary by an answer that was bought. False where it corrects nothing: it was
    /// bought before, or its clip was chosen from a look and may cut from it.
    async fn join(
        &self,
        requester: &Requester,
        check: &Check,
        answered: &Answered,
    ) -> Result<bool, Error> {
        let table = answered.released.table(ONLY);
        let measure = check.bought.release(ONLY).measures().first();
        let (Some(table), Some(measure)) = (table, measure) else {
            return Ok(false);
        };
        let is_whole = |drawn: &&NoiseRecord| !drawn.leaves_out() && !drawn.is_cut();
        let drawn = table.drawn.as_ref().filter(is_whole);
        let (Some(value), Some(drawn)) = (only_value(table), drawn) else {
            return Ok(false);
        };
        if answered.paid.is_zero() {
            return Ok(false);
        }
        let bought = (value, drawn.deviation(measure));
        let form = (check.name.as_str(), check.form.release(check.release));
        self.correct_summary(requester, form, bought).await
    }
}

/// The value of a table of one group and one measure.
fn only_value(table: &ReleasedTable) -> Option<f64> {
    match table.measures.as_slice() {
        [row] => match row.as_slice() {
            [value] => value.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
