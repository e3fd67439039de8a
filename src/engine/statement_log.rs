//! The owner's record of statements: role, session, digest, tables, verdict and cost. Never the
//! text.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Engine, Requester};
use crate::error::Error;
use crate::ledger;
use crate::ledger::{Asked, Event, Fingerprint, Record, Verdict};
use crate::mechanism::Loss;
use crate::parse::Query;
use crate::policy::Policy;
use crate::refusal::{Refusal, reason};
use crate::rewrite::{Plan, ReleasePlan};

/// The facts about one statement so far, also where it ends in an error.
pub(super) struct Tally {
    /// When the statement was asked, in microseconds since 1970.
    asked: i64,
    /// The most that may be charged for it, where its price was agreed on.
    most: Option<Loss>,
    known: Mutex<Known>,
}

struct Known {
    charged: Loss,
    /// The object of the first debit, or else the plan.
    plan: Option<Fingerprint>,
    is_bought: bool,
    tables: Vec<String>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            charged: Loss::ZERO,
            plan: None,
            is_bought: false,
            tables: Vec::new(),
        }
    }
}

impl Tally {
    /// A tally of a statement that is asked now.
    pub(super) fn new() -> Self {
        Self {
            asked: ledger::now(),
            most: None,
            known: Mutex::default(),
        }
    }

    /// A tally of a statement that may be charged no more than this.
    pub(super) fn up_to(self, most: Loss) -> Self {
        Self {
            most: Some(most),
            ..self
        }
    }

    /// Refuses a debit that would be more than was agreed on, with those before it.
    ///
    /// # Errors
    /// 55000. Nothing is charged.
    pub(super) fn admits(&self, loss: Loss) -> Result<(), Error> {
        let Some(most) = &self.most else {
            return Ok(());
        };
        let all = self.lock().charged.compose(loss);
        match all.is_some_and(|all| is_within(&all, most)) {
            true => Ok(()),
            false => Err(beyond(most)),
        }
    }

    /// Adds a debit, and what the history of the role calls it.
    pub(super) fn add(&self, loss: Loss, bought: Fingerprint) {
        let mut known = self.lock();
        known.charged = known.charged.compose(loss).unwrap_or(known.charged);
        if !known.is_bought && !loss.is_zero() {
            known.plan = Some(bought);
            known.is_bought = true;
        }
    }

    /// The statement has a plan.
    pub(super) fn planned(&self, plan: &Plan, policy: &Policy) {
        let private = plan.releases().iter().flat_map(ReleasePlan::relied_on);
        let private = private.map(|table| format!("{}.{}", table.schema, table.name));
        let public = plan.public_tables().iter();
        let public = public.filter_map(|id| policy.tables.get(id.0));
        let public = public.map(|table| format!("{}.{}", table.schema, table.name));
        let mut tables: Vec<String> = private.chain(public).collect();
        tables.sort_unstable();
        tables.dedup();
        let mut known = self.lock();
        known.plan = known.plan.or(Some(plan.digest().into()));
        known.tables = tables;
    }

    pub(super) fn sum(&self) -> Loss {
        self.lock().charged
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Records how a statement ended. `None`: the text could not be read as a statement.
    pub(super) async fn recorded<T>(
        &self,
        requester: &Requester,
        query: Option<&Query>,
        ended: Verdict,
        outcome: Result<&T, &Error>,
        tally: &Tally,
    ) {
        let loss = tally.sum();
        let (verdict, sqlstate) = match (requester.given_up.get(), outcome) {
            // Its later outcome is not recorded: the client does not know it either.
            (Some(sqlstate), _) => (Verdict::Failed, sqlstate.clone()),
            (None, Ok(_)) => (ended, "00000".to_owned()),
            (None, Err(error)) => (verdict_of(error, &loss), error.report().sqlstate),
        };
        let (plan, tables) = {
            let known = tally.lock();
            (known.plan, known.tables.clone())
        };
        let statement = query.map_or(Fingerprint::new([0; 32]), |query| {
            self.ledger.statement_digest(&query.to_sql())
        });
        let asked = Event::Statement(Asked {
            statement,
            plan: plan.map(|plan| self.ledger.plan_digest(plan)),
            tables,
            verdict,
            loss,
        });
        let Requester {
            role,
            process,
            origin,
            ..
        } = requester;
        let record = Record::at(tally.asked, role, *process, origin.clone(), asked);
        self.ledger.record(record.ending(&sqlstate)).await;
    }
}

/// Whether a loss is at most another in every currency.
fn is_within(loss: &Loss, most: &Loss) -> bool {
    let is_pure = match (loss.epsilon, most.epsilon) {
        (Some(epsilon), Some(most)) => epsilon <= most,
        (None, Some(_)) => false,
        (Some(_) | None, None) => true,
    };
    is_pure
        && loss.rho <= most.rho
        && loss.mu_squared <= most.mu_squared
        && loss.delta <= most.delta
}

/// A refusal after a charge counts as a failure: the charge stays.
fn verdict_of(error: &Error, charged: &Loss) -> Verdict {
    match error {
        Error::Parse(_)
        | Error::Resolve(_)
        | Error::Analyze(_)
        | Error::Rewrite(_)
        | Error::Ledger(_)
        | Error::Release(_)
        | Error::Shadow(_)
            if charged.is_zero() =>
        {
            Verdict::Refused
        }
        Error::Parse(_)
        | Error::Resolve(_)
        | Error::Analyze(_)
        | Error::Rewrite(_)
        | Error::Ledger(_)
        | Error::Release(_)
        | Error::Shadow(_) => Verdict::Failed,
        Error::Cancelled | Error::Internal { .. } => Verdict::Failed,
    }
}

/// Refuses a debit beyond the agreed amount.
fn beyond(agreed: &Loss) -> Error {
    let message = "the query costs more now than the price that was shown";
    let so_far = match agreed.is_zero() {
        true => "The price was nothing.",
        false => "Other questions changed what is left of the budget, or what is paid for.",
    };
    Error::Ledger(
        Refusal::new(reason::PRICE_RISEN, message)
            .detail(format!("{so_far} Nothing was charged beyond that price."))
            .hint("Look at the price again."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Fixed;

    fn loss(epsilon: Option<f64>, mu_squared: f64, delta: f64) -> Loss {
        Loss {
            epsilon: epsilon.map(Fixed::round_down),
            rho: Fixed::round_down(mu_squared / 2.0),
            mu_squared: Fixed::round_down(mu_squared),
            delta: Fixed::round_down(delta),
        }
    }

    #[test]
    fn no_debit_goes_beyond_what_was_agreed() {
        let bought = Fingerprint::new([1; 32]);
        let (look, rest) = (loss(Some(0.1), 0.01, 0.0), loss(None, 0.02, 1e-9));
        let all = look.compose(rest).unwrap();
        let tally = Tally::new().up_to(all);
        assert!(tally.admits(look).is_ok() && tally.admits(all).is_ok());
        tally.add(look, bought);
        // Both debits together are exactly the agreed amount.
        assert!(tally.admits(rest).is_ok());
        let more = [
            loss(None, 0.0201, 1e-9),
            loss(None, 0.02, 2e-9),
            loss(None, 0.03, 0.0),
        ];
        for more in more {
            let refused = tally.admits(more).unwrap_err().report();
            assert_eq!(refused.reason.id(), "price-risen");
        }
        // A pure price admits no loss that is not pure.
        let pure = Tally::new().up_to(loss(Some(0.1), 0.01, 0.0));
        assert!(pure.admits(loss(None, 0.001, 0.0)).is_err());
        assert!(pure.admits(loss(Some(0.2), 0.01, 0.0)).is_err());
        // A question that was to be free stays free; without an agreed price there is no limit.
        assert!(Tally::new().up_to(Loss::ZERO).admits(look).is_err());
        assert!(Tally::new().admits(all).is_ok());
    }
}
