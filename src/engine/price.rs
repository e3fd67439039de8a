//! The price of a question for a role now, before it is asked; and the question at that price.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::curve::{Curve, curve_within};
use super::expected::{Within, after, expected};
use super::explain;
use super::notice::Sql;
use super::planning::accounts;
use super::planning_limit::Size;
use super::question::Foreseen;
use super::service::Answer;
use super::statement_log::Tally;
use super::timing::Timing;
use super::useless::Asked;
use super::{Engine, Requester, internal, system_catalog};
use crate::error::Error;
use crate::ledger::{Balances, Verdict};
use crate::mechanism::Loss;
use crate::parse::{ExplainFormat, Query};
use crate::policy::Useless;
use crate::refusal::Refusal;
use crate::rewrite::Plan;

/// The terms that somebody agreed to: the charge and the expected error, under one policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreed {
    /// The loss that is not paid for yet, in every currency of the ledger.
    loss: Loss,
    errors: Vec<(String, Within)>,
    policy: String,
}

/// The price of a question, in public facts and those of the role's own account.
pub struct Price {
    /// EXPLAIN's lines.
    pub lines: Vec<String>,
    pub agreed: Agreed,
    /// What is left of the role's budget, as fractions; `after`: `None` where it does not fit.
    pub left: f64,
    pub after: Option<f64>,
    /// Why the noise would hide the answer, and whether the question is refused for it.
    pub useless: Option<(Refusal, bool)>,
    pub cautions: Vec<String>,
    /// Only the answer shows what `pgveil.target_error` needs, which is bought next: at most this
    /// epsilon in all.
    pub at_most: Option<f64>,
    /// The curve, for a question that costs something, where its price is shown first.
    pub curve: Option<Curve>,
}

impl Price {
    pub fn is_free(&self) -> bool {
        self.agreed.loss.is_zero()
    }

    /// Each aggregate, and half of its 95 % interval.
    pub fn errors(&self) -> &[(String, Within)] {
        &self.agreed.errors
    }
}

/// The outcome of a question at a price.
pub enum AtPrice {
    Answered(Answer),
    /// It would cost something else now, or be off by something else. Nothing was charged.
    Changed(Box<Price>),
}

impl Engine {
    /// The price of `sent` now; recorded as the explanation of `asked`, which it may add columns
    /// to. Free, as EXPLAIN is.
    ///
    /// # Errors
    /// Those of EXPLAIN.
    pub async fn price(
        &self,
        requester: &Requester,
        (asked, sent): (&Query, &Query),
    ) -> Result<Price, Error> {
        let tally = Tally::new();
        let priced = self.priced(requester, sent, &tally, true).await;
        let outcome = priced.as_ref();
        self.recorded(requester, Some(asked), Verdict::Explained, outcome, &tally)
            .await;
        priced
    }

    /// Answers `sent` if it costs what was agreed; recorded as `asked`.
    ///
    /// # Guarantee
    /// The charge for the answer is at most the agreed one, whatever happens meanwhile: the price
    /// is compared before, and a debit beyond it is not made.
    ///
    /// # Errors
    /// Those of [`super::Service::answer`].
    pub async fn answer_at(
        &self,
        requester: &Requester,
        (asked, sent): (&Query, &Query),
        agreed: &Agreed,
        cancel: CancellationToken,
    ) -> Result<AtPrice, Error> {
        let tally = Tally::new();
        let priced = tokio::select! {
            priced = Box::pin(self.priced(requester, sent, &tally, false)) => priced,
            () = cancel.cancelled() => Err(Error::Cancelled),
        };
        let (verdict, outcome, tally) = match priced {
            Err(error) => (Verdict::Explained, Err(error), tally),
            Ok(price) if price.agreed != *agreed => {
                let changed = AtPrice::Changed(Box::new(price));
                (Verdict::Explained, Ok(changed), tally)
            }
            Ok(price) => {
                // The policy bounds the epsilon that a first answer may lead to.
                let tally = match price.at_most {
                    None => Tally::new().up_to(agreed.loss),
                    Some(_) => Tally::new(),
                };
                let pace = Timing::new(self.policy.quantum, cancel);
                let values = (&[][..], &[][..], &[][..]);
                let answering = self.answer_question(requester, sent, values, &pace, &tally);
                let (verdict, answered) = match Box::pin(answering).await {
                    Ok((answer, verdict)) => (verdict, Ok(AtPrice::Answered(answer))),
                    Err(error) => (Verdict::Answered, Err(error)),
                };
                (verdict, answered, tally)
            }
        };
        let ended = outcome.as_ref();
        self.recorded(requester, Some(asked), verdict, ended, &tally)
            .await;
        outcome
    }

    async fn priced(
        &self,
        requester: &Requester,
        query: &Query,
        tally: &Tally,
        with_curve: bool,
    ) -> Result<Price, Error> {
        let foreseen = Box::pin(self.foresee(requester, query, (&[], &[]), tally)).await?;
        let policy = self.policy.version.clone();
        let Some(Foreseen {
            query,
            plan,
            due,
            balances,
        }) = foreseen
        else {
            // About the catalogs.
            let balances = self.ledger.balances(&requester.role).await;
            let balances = balances.map_err(|e| internal("ledger", &e))?;
            let left = balances.role.fraction_left();
            return Ok(Price {
                lines: system_catalog::explain(ExplainFormat::Text),
                agreed: Agreed {
                    loss: Loss::ZERO,
                    errors: Vec::new(),
                    policy,
                },
                left,
                after: Some(left),
                useless: None,
                cautions: Vec::new(),
                at_most: None,
                curve: None,
            });
        };
        let settings = &requester.session_settings;
        let of_role = (self.delta(&requester.role), &self.policy);
        let lines = explain::text(&plan, Sql::LeftOut, settings, &due, &balances.role, of_role);
        let loss = due.loss();
        let curve = match with_curve && !loss.is_zero() {
            true => self.curve_of(requester, &query, &balances).await,
            false => None,
        };
        let refuses = settings.useless == Useless::Refuse;
        let cautions = plan.releases().iter().flat_map(|r| &r.facts().cautions);
        Ok(Price {
            lines,
            left: balances.role.fraction_left(),
            after: after(&balances.role, loss),
            useless: due.into_useless().map(|refusal| (refusal, refuses)),
            cautions: cautions.cloned().collect(),
            at_most: plan.first_answer().map(|_| self.policy.privacy.epsilon_max),
            curve,
            agreed: Agreed {
                loss,
                errors: errors(&plan),
                policy,
            },
        })
    }

    /// The error at other prices. All its plans together take as much work as one statement may.
    async fn curve_of(
        &self,
        requester: &Requester,
        query: &Query,
        balances: &Balances,
    ) -> Option<Curve> {
        let terms = self.terms(requester, accounts(balances));
        let constants = self.constants(requester);
        let asked = Asked {
            query,
            policy: &self.policy,
            search_path: &requester.search_path,
            constants: &constants,
            terms: &terms,
        };
        let turn = self
            .planning_limit
            .acquire(&requester.role, Size::Large)
            .await;
        turn.work(|| curve_within(&asked, Some(&Arc::default())).ok())
    }
}

fn errors(plan: &Plan) -> Vec<(String, Within)> {
    let several = plan.releases().len() > 1;
    let releases = plan.releases().iter().enumerate();
    releases
        .flat_map(|(at, release)| {
            expected(release).into_iter().map(move |(name, within)| {
                let name = match several {
                    true => format!("{}: {name}", at + 1),
                    false => name.to_owned(),
                };
                (name, within)
            })
        })
        .collect()
}
