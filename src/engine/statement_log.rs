//! The owner's record of statements: role, session, digest, tables, verdict and cost. Never the
//! text: where the policy asks for it, the text without constants.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Engine, Requester};
use crate::error::Error;
use crate::ledger;
use crate::ledger::{Event, Fingerprint, KeyedStatementDigest, LoggedStatement, Record, Verdict};
use crate::mechanism::Loss;
use crate::parse::Query;
use crate::policy::Policy;
use crate::refusal::{Ending, Refusal, reason};
use crate::rewrite::{Plan, ReleasePlan};

/// The facts about one statement so far, also where it ends in an error.
pub(super) struct StatementFacts {
    /// When the statement was asked, in microseconds since 1970.
    asked: i64,
    /// The limits, if the statement's price was agreed on.
    agreed: Option<Limits>,
    known: Mutex<Known>,
}

/// The most that may be charged for a statement at an agreed price.
struct Limits {
    /// The limit for its answer, or the first of several.
    first: Loss,
    /// The limits for all of its answers together, which must be within one of these.
    all: Vec<Loss>,
    /// For the policy's searches.
    searches: Loss,
    /// The check of a summary's answer that was agreed on with them, in one text.
    check: Option<String>,
    /// The check that a plan has the expected errors.
    is_expected: Option<Expected>,
}

type Expected = Box<dyn Fn(&Plan) -> bool + Send + Sync>;

struct Known {
    charged: Loss,
    /// The role's payment for the policy's searches.
    searches: Loss,
    /// The first of several answers is made, or was held.
    is_first_made: bool,
    /// The object of the first debit, or else the plan.
    plan: Option<Fingerprint>,
    is_bought: bool,
    tables: Vec<String>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            charged: Loss::ZERO,
            searches: Loss::ZERO,
            is_first_made: false,
            plan: None,
            is_bought: false,
            tables: Vec::new(),
        }
    }
}

impl StatementFacts {
    /// The facts of a statement that is asked now.
    pub(super) fn new() -> Self {
        Self {
            asked: ledger::now(),
            agreed: None,
            known: Mutex::default(),
        }
    }

    /// The facts of a statement that may be charged no more than this, and nothing for searches.
    pub(super) fn up_to(self, most: Loss) -> Self {
        self.up_to_in_all(most, vec![most])
    }

    /// The facts of a statement whose first answer may be charged no more than `first`, and all of
    /// its answers no more than one of `all`; nothing for searches.
    pub(super) fn up_to_in_all(self, first: Loss, all: Vec<Loss>) -> Self {
        let agreed = Some(Limits {
            first,
            all,
            searches: Loss::ZERO,
            check: None,
            is_expected: None,
        });
        Self { agreed, ..self }
    }

    /// The facts, with the check that was agreed on.
    pub(super) fn with_check(mut self, check: Option<String>) -> Self {
        if let Some(agreed) = &mut self.agreed {
            agreed.check = check;
        }
        self
    }

    /// The facts, with this as the most that the policy's searches may be charged.
    pub(super) fn with_searches(mut self, searches: Loss) -> Self {
        if let Some(agreed) = &mut self.agreed {
            agreed.searches = searches;
        }
        self
    }

    /// The facts, with a check that plans have the expected errors.
    pub(super) fn expecting(
        mut self,
        is_expected: impl Fn(&Plan) -> bool + Send + Sync + 'static,
    ) -> Self {
        if let Some(agreed) = &mut self.agreed {
            agreed.is_expected = Some(Box::new(is_expected));
        }
        self
    }

    /// Whether its price was agreed on.
    pub(super) fn is_agreed(&self) -> bool {
        self.agreed.is_some()
    }

    /// Refuses a debit that would be more than was agreed on, with those before it.
    ///
    /// # Errors
    /// 55000. Nothing is charged.
    pub(super) fn admits(&self, loss: Loss) -> Result<(), Error> {
        let Some(agreed) = &self.agreed else {
            return Ok(());
        };
        let known = self.lock();
        let first = std::slice::from_ref(&agreed.first);
        let limits = match known.is_first_made {
            false => first,
            true => agreed.all.as_slice(),
        };
        let all = known.charged.compose(loss);
        let is_admitted = |all: Loss| limits.iter().any(|most| is_within(&all, most));
        match all.is_some_and(is_admitted) {
            true => Ok(()),
            false => Err(beyond(&agreed.first)),
        }
    }

    /// Refuses a plan whose expected error is not the one that was agreed on.
    ///
    /// # Errors
    /// 55000. Nothing is charged.
    pub(super) fn admits_errors(&self, plan: &Plan) -> Result<(), Error> {
        let agreed = self.agreed.as_ref();
        let is_expected = agreed.and_then(|agreed| agreed.is_expected.as_ref());
        match is_expected.is_none_or(|is_expected| is_expected(plan)) {
            true => Ok(()),
            false => Err(Error::Ledger(other_errors())),
        }
    }

    /// Refuses a check that is not the one that was agreed on, and an answer without it.
    ///
    /// # Errors
    /// 55000. Nothing is charged.
    pub(super) fn admits_check(&self, found: Option<String>) -> Result<(), Error> {
        match &self.agreed {
            Some(agreed) if agreed.check != found => Err(Error::Ledger(other_check())),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a charge for the policy's searches that was not agreed on.
    ///
    /// # Errors
    /// 55000. Nothing is charged.
    pub(super) fn admits_search(&self, loss: Loss) -> Result<(), Error> {
        let Some(agreed) = &self.agreed else {
            return Ok(());
        };
        let all = self.lock().searches.compose(loss);
        match all.is_some_and(|all| is_within(&all, &agreed.searches)) {
            true => Ok(()),
            false => Err(Error::Ledger(searches_due())),
        }
    }

    /// Adds the price of a search.
    pub(super) fn add_search(&self, loss: Loss) {
        let mut known = self.lock();
        known.searches = known.searches.compose(loss).unwrap_or(known.searches);
    }

    /// From here on, the limit for all answers together applies to debits.
    pub(super) fn first_is_made(&self) {
        self.lock().is_first_made = true;
    }

    /// Adds a debit, with its name in the role's history.
    pub(super) fn add(&self, loss: Loss, bought: Fingerprint) {
        let mut known = self.lock();
        known.charged = known.charged.compose(loss).unwrap_or(known.charged);
        if !known.is_bought && !loss.is_zero() {
            known.plan = Some(bought);
            known.is_bought = true;
        }
    }

    /// Notes the statement's plan.
    pub(super) fn note_plan(&self, plan: &Plan, policy: &Policy) {
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

    /// The charge for the answers.
    pub(super) fn sum(&self) -> Loss {
        self.lock().charged
    }

    /// The charge for the answers and for searches.
    fn whole(&self) -> Loss {
        let known = self.lock();
        known
            .charged
            .compose(known.searches)
            .unwrap_or(known.charged)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Records how a statement ended. `None`: the text could not be read as a statement.
    pub(super) async fn record_end<T>(
        &self,
        requester: &Requester,
        query: Option<&Query>,
        ended: Verdict,
        outcome: Result<&T, &Error>,
        facts: &StatementFacts,
    ) {
        let (paid, loss) = (facts.sum(), facts.whole());
        let (verdict, ending) = match (requester.given_up.get(), outcome) {
            // Its later outcome is not recorded: the client does not know it either.
            (Some(ending), _) => (Verdict::Failed, ending.clone()),
            (None, Ok(_)) => (ended, Ending::Succeeded),
            (None, Err(error)) => (verdict_of(error, &paid), Ending::from(&error.report())),
        };
        let (plan, tables) = {
            let known = facts.lock();
            (known.plan, known.tables.clone())
        };
        let sql = query.map(Query::to_sql);
        let statement = sql.as_ref().map_or(KeyedStatementDigest::UNREAD, |sql| {
            self.ledger.statement_digest(sql)
        });
        let known = self.known_names.as_ref();
        let shape = sql.zip(known).and_then(|(sql, known)| known.shape(&sql));
        let asked = Event::Statement(LoggedStatement {
            statement,
            plan: plan.map(|plan| self.ledger.plan_digest(plan)),
            tables,
            shape,
            verdict,
            loss,
        });
        let Requester {
            role,
            process,
            origin,
            ..
        } = requester;
        let record = Record::at(facts.asked, role, *process, origin.clone(), asked);
        self.ledger.record(record.with_ending(ending)).await;
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
        Error::Cancelled | Error::LedgerOutOfReach { .. } | Error::Internal { .. } => {
            Verdict::Failed
        }
    }
}

/// Refuses a plan whose searches the role has not paid for, at a price without them.
fn searches_due() -> Refusal {
    let message = "the first price of this role pays once for the policy's searches";
    Refusal::new(reason::PRICE_RISEN, message)
        .detail("Nothing was charged.")
        .hint("Look at the price again.")
}

fn other_errors() -> Refusal {
    let message = "the answer would be off by something else than the price that was shown says";
    Refusal::new(reason::PRICE_RISEN, message)
        .detail("Other questions changed what is left of the budget. Nothing was charged.")
        .hint("Look at the price again.")
}

fn other_check() -> Refusal {
    let message = "the summary's answer would be checked otherwise than the price that was shown \
        says";
    Refusal::new(reason::PRICE_RISEN, message)
        .detail("Other sessions asked meanwhile. Nothing was charged.")
        .hint("Look at the price again.")
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
        let facts = StatementFacts::new().up_to(all);
        assert!(facts.admits(look).is_ok() && facts.admits(all).is_ok());
        facts.add(look, bought);
        // Both debits together are exactly the agreed amount.
        assert!(facts.admits(rest).is_ok());
        let more = [
            loss(None, 0.0201, 1e-9),
            loss(None, 0.02, 2e-9),
            loss(None, 0.03, 0.0),
        ];
        for more in more {
            let refused = facts.admits(more).unwrap_err().report();
            assert_eq!(refused.reason.id(), "price-risen");
        }
        // A pure price admits no loss that is not pure.
        let pure = StatementFacts::new().up_to(loss(Some(0.1), 0.01, 0.0));
        assert!(pure.admits(loss(None, 0.001, 0.0)).is_err());
        assert!(pure.admits(loss(Some(0.2), 0.01, 0.0)).is_err());
        // All answers together may cost more than the first, within one of several limits.
        let pure = loss(Some(0.31), 0.1, 0.0);
        let several =
            StatementFacts::new().up_to_in_all(look, vec![pure, loss(None, 0.0301, 1e-9)]);
        assert!(several.admits(rest).is_err());
        several.add(look, bought);
        several.first_is_made();
        assert!(several.admits(rest).is_ok());
        assert!(several.admits(loss(Some(0.2), 0.08, 0.0)).is_ok());
        assert!(several.admits(loss(Some(0.22), 0.08, 0.0)).is_err());
        assert!(several.admits(loss(None, 0.021, 0.0)).is_err());
        // A question that was to be free stays free; without an agreed price there is no limit.
        assert!(
            StatementFacts::new()
                .up_to(Loss::ZERO)
                .admits(look)
                .is_err()
        );
        assert!(StatementFacts::new().admits(all).is_ok());
    }

    #[test]
    fn no_search_is_paid_for_that_was_not_agreed_on() {
        let search = loss(Some(0.1), 0.01, 0.0);
        assert!(StatementFacts::new().admits_search(search).is_ok());
        assert!(
            StatementFacts::new()
                .up_to(search)
                .admits_search(search)
                .is_err()
        );
        let facts = StatementFacts::new()
            .up_to(Loss::ZERO)
            .with_searches(search);
        assert!(facts.admits_search(search).is_ok());
        facts.add_search(search);
        assert!(facts.admits_search(search).is_err());
        // The amount that was agreed on for searches pays for no answer either.
        assert!(facts.admits(search).is_err() && facts.sum().is_zero());
        assert_eq!(facts.whole(), search);
    }
}
