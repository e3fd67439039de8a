//! Plans of recent questions. A client's Describe and Execute are one question, and so is a
//! dashboard's next refresh while no account has changed.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::mechanism::{AccountState, Loss};
use crate::parse::Query;
use crate::resolve::{Constants, SessionFacts};
use crate::rewrite::{EmittedStatement, Plan, Terms};

/// The most plans kept.
const KEPT: usize = 32;
/// The longest question and statements of a plan that is kept, in bytes.
const BYTES_MAX: usize = 200_000;
/// The most bytes of all kept plans: each byte of text may become a hundred bytes of tree.
const BYTES_ALL_MAX: usize = 1_000_000;

/// Everything that [`super::plan`] reads except the policy, of which an engine has one. It holds no
/// row of any table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlanKey<'q> {
    pub query: Cow<'q, Query>,
    pub search_path: Cow<'q, [String]>,
    pub constants: Constants,
    pub terms: Terms,
}

impl<'q> PlanKey<'q> {
    /// The question, without the session values that it does not read.
    pub(super) fn new(
        query: &'q Query,
        search_path: &'q [String],
        constants: Constants,
        terms: Terms,
    ) -> Self {
        let now = if query.reads_clock() {
            constants.now
        } else {
            0
        };
        let session = if query.names_session() {
            constants.session
        } else {
            SessionFacts::default()
        };
        Self {
            query: Cow::Borrowed(query),
            search_path: Cow::Borrowed(search_path),
            constants: Constants {
                now,
                session,
                ..constants
            },
            terms,
        }
    }

    /// The key with copies of the question and the path, which outlive the statement.
    fn into_kept(self) -> PlanKey<'static> {
        PlanKey {
            query: Cow::Owned(self.query.into_owned()),
            search_path: Cow::Owned(self.search_path.into_owned()),
            constants: self.constants,
            terms: self.terms,
        }
    }

    /// Whether a plan that is kept under this key is that of a question. One that is kept without
    /// accounts costs nothing, whatever they hold.
    fn answers(&self, asked: &PlanKey<'_>) -> bool {
        let PlanKey {
            query,
            search_path,
            constants,
            terms:
                Terms {
                    epsilon,
                    delta,
                    accounts,
                    session_settings,
                    ranges,
                },
        } = self;
        let of = &asked.terms;
        let kept = accounts.iter().map(deciding);
        (accounts.is_empty() || kept.eq(of.accounts.iter().map(deciding)))
            && *epsilon == of.epsilon
            && *delta == of.delta
            && *session_settings == of.session_settings
            && *ranges == of.ranges
            && *search_path == asked.search_path
            && *constants == asked.constants
            && *query == asked.query
    }
}

/// The account as far as it decides the noise of a plan ([`choose`]): past a Gaussian
/// there is no epsilon left to stay within, however much was spent.
///
/// [`choose`]: crate::mechanism::choose
fn deciding(account: &AccountState) -> AccountState {
    match account.spent.epsilon {
        Some(_) => *account,
        None => AccountState {
            spent: Loss {
                epsilon: None,
                ..Loss::ZERO
            },
            ..*account
        },
    }
}

#[derive(Debug)]
struct CachedPlan {
    asked: PlanKey<'static>,
    plan: Arc<Plan>,
    bytes: usize,
}

/// Plans, the latest first.
#[derive(Debug, Default)]
pub(super) struct PlanCache(Mutex<VecDeque<CachedPlan>>);

impl PlanCache {
    /// The plan of a question, if it is kept: for these accounts, or one that costs nothing.
    pub(super) fn find(&self, asked: &PlanKey<'_>) -> Option<Arc<Plan>> {
        let plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans
            .iter()
            .find(|kept| kept.asked.answers(asked))
            .map(|kept| Arc::clone(&kept.plan))
    }

    pub(super) fn keep(&self, asked: PlanKey<'_>, plan: &Arc<Plan>) {
        let Some(question) = asked.query.printed_within(BYTES_MAX) else {
            return;
        };
        let wider = plan
            .bought_instead()
            .map_or(&[][..], |wide| wide.plan.releases());
        let form = plan.without_looks().map_or(&[][..], |form| form.releases());
        let by_periods = plan.by_periods().map_or(&[][..], |form| form.releases());
        let releases = plan
            .releases()
            .iter()
            .chain(wider)
            .chain(form)
            .chain(by_periods);
        let bytes = question.len()
            + releases
                .flat_map(|release| release.statements())
                .map(EmittedStatement::printed_bytes)
                .sum::<usize>();
        if bytes > BYTES_MAX {
            return;
        }
        // Accounts affect only the noise of answers that are paid for.
        let accounts = if plan.loss().is_zero() {
            Vec::new()
        } else {
            asked.terms.accounts
        };
        let asked = PlanKey {
            terms: Terms {
                accounts,
                ..asked.terms
            },
            ..asked
        };
        let asked = asked.into_kept();
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.retain(|kept| !kept.asked.answers(&asked));
        plans.push_front(CachedPlan {
            asked,
            plan: Arc::clone(plan),
            bytes,
        });
        while plans.len() > KEPT
            || plans.iter().map(|kept| kept.bytes).sum::<usize>() > BYTES_ALL_MAX
        {
            plans.pop_back();
        }
    }
}
