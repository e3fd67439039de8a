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
use crate::rewrite::{Plan, ReleasePlan};

/// What is known of one statement so far, also where it ends in an error.
pub(super) struct Tally {
    /// When the statement was asked, in microseconds since 1970.
    asked: i64,
    known: Mutex<Known>,
}

struct Known {
    charged: Loss,
    /// What the first debit names, or else the plan.
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
    /// Of a statement that is asked now.
    pub(super) fn new() -> Self {
        Self {
            asked: ledger::now(),
            known: Mutex::default(),
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
            // What became of it since is not recorded: the client does not know it either.
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
