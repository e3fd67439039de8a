//! The price of a question for a role now, before it is asked; and the question at that price.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::agreed_check::AgreedCheck;
use super::answer_errors::errors_of;
use super::check_words;
use super::checkable::Check;
use super::curve::{Curve, curve_within};
use super::epochs::ForeseenEpoch;
use super::expected_error::{Within, after};
use super::explain;
use super::first_answer::ANSWERS_MAX;
use super::foresee::ExplainedQuestion;
use super::notice::Sql;
use super::planning::accounts;
use super::planning_limit::StatementSize;
use super::service::Answer;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::useless::QuestionPlan;
use super::{Engine, Requester, ledger_failed, system_catalog};
use crate::error::Error;
use crate::ledger;
use crate::ledger::{Balance, Balances, Verdict};
use crate::mechanism::{Fixed, Loss};
use crate::parse::{ExplainFormat, Query};
use crate::policy::UselessMode;
use crate::refusal::Refusal;
use crate::release::EpochTerms;
use crate::rewrite::{ChoiceKind, ChoicePlan, Plan, ReleasePlan, UnitCount, most_of_one_query};

/// The terms that somebody agreed to: the charge and the expected error, under one policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreed {
    /// The loss that is not paid for yet, in every currency of the ledger: that of the answer, or
    /// of the first of several.
    loss: Loss,
    /// The most that all answers together may cost, where there may be several: one of these.
    in_all: Vec<Loss>,
    of_plan: Vec<(String, Within)>,
    /// The errors of the answer, where stored ones serve it.
    errors: Vec<(String, Within)>,
    /// The terms of a monitor's epoch, which decide its margin.
    epoch: Option<EpochTerms>,
    /// The check of a summary's answer.
    check: Option<AgreedCheck>,
    policy: String,
}

/// The price of a question, in public facts and those of the role's own account.
pub struct QuestionPrice {
    /// EXPLAIN's lines.
    pub lines: Vec<String>,
    pub agreed: Agreed,
    /// What is left of the role's budget, as fractions; `after`: `None` where it does not fit.
    pub left: f64,
    pub after: Option<f64>,
    /// Why the noise would hide the answer, and whether the question is refused for it.
    pub useless: Option<(Refusal, bool)>,
    pub cautions: Vec<String>,
    /// The most that it may cost, where its first step shows whether more is bought.
    pub at_most: Option<AtMost>,
    /// The curve, for a question that costs something, where its price is shown first.
    pub curve: Option<Curve>,
}

/// The most that a question may cost if it buys more than its first step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtMost {
    pub step: FirstStep,
    /// The fraction of the role's budget that is then left; `None` where all of it may be spent.
    pub after: Option<f64>,
}

/// The step of a question that decides whether more is bought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FirstStep {
    /// A first answer, which shows what `pgveil.target_error` needs: at most this epsilon in all.
    Answer { epsilon: f64 },
    /// A check of a summary's answer: the question is bought where that is too far off.
    Check,
}

impl QuestionPrice {
    /// Whether nothing will be charged. A held first answer may lead to one that costs.
    pub fn is_free(&self) -> bool {
        self.agreed.loss.is_zero() && self.at_most.is_none()
    }

    /// Whether the answer, or the first of several, is paid for.
    pub fn first_is_held(&self) -> bool {
        self.agreed.loss.is_zero()
    }

    /// Each aggregate, and half of its 95 % interval in the answer that the role would get.
    pub fn errors(&self) -> &[(String, Within)] {
        &self.agreed.errors
    }
}

/// The outcome of a question at a price.
pub enum AtPrice {
    /// The answer, and what was charged for it.
    Answered(Box<Answer>, Loss),
    /// The question would have another price now, or another expected error. Nothing was charged.
    Changed(Box<QuestionPrice>),
}

/// The charge of a role for the policy's searches with its next plan.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchesDue {
    pub loss: Loss,
    /// What is left of the role's budget, as fractions; `after`: `None` where it does not fit.
    pub left: f64,
    pub after: Option<f64>,
}

impl Engine {
    /// The price of the policy's searches for a role; `None` where it has paid.
    ///
    /// # Errors
    /// Those of the ledger.
    pub async fn searches_due(&self, role: &str) -> Result<Option<SearchesDue>, ledger::Error> {
        let mut loss = Loss::ZERO;
        for found in self.admission.results() {
            if self
                .ledger
                .values_held_by(role, found.answer)
                .await?
                .is_none()
            {
                loss = loss.compose(found.loss).unwrap_or(loss);
            }
        }
        if loss.is_zero() {
            return Ok(None);
        }
        let balance = self.ledger.balance(role).await?;
        Ok(Some(SearchesDue {
            loss,
            left: balance.fraction_left(),
            after: after(&balance, loss),
        }))
    }

    /// How many of the policy's searches the role pays for with its next question.
    ///
    /// # Errors
    /// Those of the ledger.
    pub async fn searches_unpaid(&self, role: &str) -> Result<usize, ledger::Error> {
        if self.admission.has_admitted(role) {
            return Ok(0);
        }
        let mut unpaid = 0;
        for found in self.admission.results() {
            unpaid += usize::from(
                self.ledger
                    .values_held_by(role, found.answer)
                    .await?
                    .is_none(),
            );
        }
        Ok(unpaid)
    }

    /// The price of `sent` now; recorded as the explanation of `asked`, which it may add columns
    /// to.
    ///
    /// # Guarantee
    /// Nothing is charged but the price of the policy's searches, and of that at most `searches`.
    ///
    /// # Errors
    /// Those of EXPLAIN; 55000 where the searches cost more; the error of a cancel.
    pub async fn price(
        &self,
        requester: &Requester,
        (asked, sent): (&Query, &Query),
        searches: Loss,
        cancel: CancellationToken,
    ) -> Result<QuestionPrice, Error> {
        let facts = StatementFacts::new()
            .up_to(Loss::ZERO)
            .with_searches(searches);
        let priced = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Error::Cancelled),
            priced = Box::pin(self.price_question(requester, sent, &facts, true)) => priced,
        };
        let outcome = priced.as_ref();
        self.record_end(requester, Some(asked), Verdict::Explained, outcome, &facts)
            .await;
        priced
    }

    /// Answers `sent` if it costs what was agreed; recorded as `asked`.
    ///
    /// # Guarantee
    /// The charge is at most the agreed one, whatever happens meanwhile. The price is
    /// compared before, and a debit beyond it is not made. Where `pgveil.target_error` buys several
    /// answers, the first is held to its price, and all together to the most that was agreed.
    /// Searches of the policy are not paid for here.
    ///
    /// # Errors
    /// Those of [`super::Service::answer`]; 55000 where the role has to pay for searches first.
    pub async fn answer_at(
        &self,
        requester: &Requester,
        (asked, sent): (&Query, &Query),
        agreed: &Agreed,
        cancel: CancellationToken,
    ) -> Result<AtPrice, Error> {
        let facts = StatementFacts::new().up_to(Loss::ZERO);
        let priced = tokio::select! {
            priced = Box::pin(self.price_question(requester, sent, &facts, false)) => priced,
            () = cancel.cancelled() => Err(Error::Cancelled),
        };
        let (verdict, outcome, facts) = match priced {
            Err(error) => (Verdict::Explained, Err(error), facts),
            Ok(price) if price.agreed != *agreed => {
                let changed = AtPrice::Changed(Box::new(price));
                (Verdict::Explained, Ok(changed), facts)
            }
            Ok(price) => {
                let facts = match price.at_most {
                    None => StatementFacts::new().up_to(agreed.loss),
                    Some(_) => {
                        StatementFacts::new().up_to_in_all(agreed.loss, agreed.in_all.clone())
                    }
                };
                let errors = agreed.of_plan.clone();
                let facts = facts.with_check(agreed.check.as_ref().map(AgreedCheck::text));
                let facts = facts.expecting(move |plan| errors_of(plan) == errors);
                let timing = Timing::new(self.policy.quantum, cancel);
                let values = (&[][..], &[][..], &[][..]);
                let answering = self.answer_question(requester, sent, values, &timing, &facts);
                let (verdict, answered) = match Box::pin(answering).await {
                    Ok((answer, verdict)) => (
                        verdict,
                        Ok(AtPrice::Answered(Box::new(answer), facts.sum())),
                    ),
                    Err(error) => (Verdict::Answered, Err(error)),
                };
                (verdict, answered, facts)
            }
        };
        let ended = outcome.as_ref();
        self.record_end(requester, Some(asked), verdict, ended, &facts)
            .await;
        outcome
    }

    async fn price_question(
        &self,
        requester: &Requester,
        query: &Query,
        facts: &StatementFacts,
        with_curve: bool,
    ) -> Result<QuestionPrice, Error> {
        if query.asks_epoch() {
            return Box::pin(self.price_epoch(requester, query, facts)).await;
        }
        let foreseen = Box::pin(self.foresee(requester, query, (&[], &[]), facts)).await?;
        let Some(ExplainedQuestion {
            query,
            plan,
            due,
            balances,
        }) = foreseen
        else {
            return self.price_catalogs(requester).await;
        };
        let checkable = self.checkable(requester, &query, &plan, facts);
        let checkable = Box::pin(checkable).await?;
        let check = checkable.check().map(Check::agreement);
        let due = due.or_checked(check_words::explain_check(Ok(checkable))?);
        let settings = &requester.session_settings;
        let of_role = (self.delta(&requester.role), &self.policy);
        let lines = explain::text(&plan, Sql::LeftOut, settings, &due, &balances.role, of_role);
        let loss = due.loss();
        let curve = match with_curve && check.is_none() && !loss.is_zero() {
            true => {
                let units = self.known_units(requester, &plan).await?;
                self.curve_of(requester, (&query, units), &balances).await
            }
            false => None,
        };
        let refuses = settings.useless == UselessMode::Refuse;
        let cautions = plan.releases().iter().flat_map(|r| &r.facts().cautions);
        let step = match (&check, plan.first_answer()) {
            (Some(_), _) => Some(FirstStep::Check),
            (None, Some(_)) => Some(FirstStep::Answer {
                epsilon: settings.most_of_wanted(&self.policy),
            }),
            (None, None) => None,
        };
        let in_all = match (&check, step) {
            (Some(check), _) => check.in_all().into_iter().collect(),
            (None, Some(_)) => self.most_in_all(requester, &plan, &balances),
            (None, None) => Vec::new(),
        };
        let at_most = step.map(|step| AtMost {
            step,
            after: least_left(&balances.role, &in_all),
        });
        Ok(QuestionPrice {
            lines,
            left: balances.role.fraction_left(),
            after: after(&balances.role, loss),
            cautions: cautions.cloned().collect(),
            at_most,
            curve,
            agreed: Agreed {
                loss,
                in_all,
                of_plan: errors_of(&plan),
                errors: due.errors().by_name(&plan),
                epoch: None,
                check,
                policy: self.policy.version.clone(),
            },
            useless: due.into_useless().map(|refusal| (refusal, refuses)),
        })
    }

    /// A statement about the catalogs is free.
    async fn price_catalogs(&self, requester: &Requester) -> Result<QuestionPrice, Error> {
        let balances = self.ledger.balances(&requester.role).await;
        let balances = balances.map_err(|e| ledger_failed(&e))?;
        let left = balances.role.fraction_left();
        Ok(QuestionPrice {
            lines: system_catalog::explain(ExplainFormat::Text),
            agreed: Agreed {
                loss: Loss::ZERO,
                in_all: Vec::new(),
                of_plan: Vec::new(),
                errors: Vec::new(),
                epoch: None,
                check: None,
                policy: self.policy.version.clone(),
            },
            left,
            after: Some(left),
            useless: None,
            cautions: Vec::new(),
            at_most: None,
            curve: None,
        })
    }

    /// The price of a question to a monitor or a holdout: that of its epoch, or nothing where it is
    /// open.
    async fn price_epoch(
        &self,
        requester: &Requester,
        query: &Query,
        facts: &StatementFacts,
    ) -> Result<QuestionPrice, Error> {
        let bound = self.bound_epoch(requester, query, (&[], &[])).await?;
        let asked = (ExplainFormat::Text, facts);
        let ForeseenEpoch {
            lines,
            loss,
            balance,
            terms,
        } = self.foresee_epoch(requester, &bound, asked).await?;
        Ok(QuestionPrice {
            lines,
            left: balance.fraction_left(),
            after: after(&balance, loss),
            useless: None,
            cautions: Vec::new(),
            at_most: None,
            curve: None,
            agreed: Agreed {
                loss,
                in_all: Vec::new(),
                of_plan: Vec::new(),
                errors: Vec::new(),
                epoch: terms,
                check: None,
                policy: self.policy.version.clone(),
            },
        })
    }

    /// The most that all answers of a question may cost, where the first shows to need more: the
    /// most of one query. Where the role can no longer spend in pure epsilon, the most in mu alone.
    fn most_in_all(&self, requester: &Requester, plan: &Plan, balances: &Balances) -> Vec<Loss> {
        let terms = self.terms(requester, accounts(balances));
        let (pure, by_mu) = most_of_one_query(&self.policy, &terms);
        let is_pure = by_mu.is_none() || balances.role.pure_open();
        let delta =
            (0..ANSWERS_MAX).try_fold(Fixed::ZERO, |sum, _| sum.checked_add(plan.loss().delta));
        let Some(delta) = delta else {
            return Vec::new();
        };
        let alternatives = is_pure.then_some(pure).into_iter().chain(by_mu);
        alternatives.map(|loss| Loss { delta, ..loss }).collect()
    }

    /// The error at other prices. All its plans together take as much work as one statement may.
    async fn curve_of(
        &self,
        requester: &Requester,
        (query, units): (&Query, Option<UnitCount>),
        balances: &Balances,
    ) -> Option<Curve> {
        let terms = self.terms(requester, accounts(balances));
        let constants = self.constants(requester);
        let asked = QuestionPlan {
            query,
            policy: &self.policy,
            search_path: &requester.search_path,
            constants: &constants,
            terms: &terms,
            units,
        };
        let permit = self
            .planning_limit
            .acquire(&requester.role, StatementSize::Large)
            .await;
        permit.work(|| curve_within(&asked, Some(&Arc::default())).ok())
    }
}

/// Whether `wider`, the same question with further columns, buys the same as `plan`: the loss is
/// equal, and so are the choices and their numbers of draws.
pub fn adds_no_draw(plan: &Plan, wider: &Plan) -> bool {
    let draws = |release: &ReleasePlan| -> Vec<usize> {
        let of_choice = |choice: &ChoicePlan| match &choice.kind {
            ChoiceKind::Count { calibrated, .. } => calibrated.len(),
            ChoiceKind::Choice { draws, .. } => draws.len(),
        };
        release.choices().iter().map(of_choice).collect()
    };
    let of = |plan: &Plan| plan.releases().iter().map(draws).collect::<Vec<_>>();
    plan.loss() == wider.loss() && of(plan) == of(wider)
}

/// The smallest rest of the budget after any of these losses; `None` where one does not fit.
fn least_left(balance: &Balance, alternatives: &[Loss]) -> Option<f64> {
    let left = alternatives.iter().map(|loss| after(balance, *loss));
    left.reduce(|one, other| Some(one?.min(other?))).flatten()
}
