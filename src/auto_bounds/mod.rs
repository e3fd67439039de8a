//! Finds the bounds that a policy leaves to `auto`: once, privately, and for a charge. The result
//! is kept in the ledger and is part of the policy from then on.
//!
//! A search is a query like any other. [`question`] writes it as SQL: it computes the least and the
//! greatest value of each unit, or its number of rows, and counts the units between consecutive
//! powers of two. It passes the same stages as every statement (parse to rewrite, a charge, one
//! emitted statement in a snapshot, noise). [`choice`] then takes the outermost powers that enough
//! units reach, which is post-processing.
//!
//! # Guarantee
//! Each unit is counted once among the greatest values and once among the least, or once among the
//! numbers of rows, because the rows are grouped by the unit alone before they are counted. For
//! neighbours that differ in all rows of one unit, the vector of counts moves by at most 2 in L1
//! and the square root of 2 in L2 if both ends are searched, and by 1 in both norms if one end or
//! the number of rows is. The planning stages derive these bounds themselves and price the noise by
//! them.
//!
//! # Who pays
//! The search is charged to the owner's total and to the role under whose name it is entered in the
//! ledger. Its result decides the noise and the clips of every later answer, and `pgveil.columns`
//! shows it, so it is part of every role's transcript. Therefore each role pays the same loss once,
//! before its first query under a policy that uses the result
//! ([`crate::engine::Engine::resting_on`]), and sees nothing that depends on the result before it
//! has paid. The loss counts against the role's budget like an answer that was made for another
//! role. A crash between the debit and the storing of the result costs a second search; it never
//! gives one away.
//!
//! # How long it holds
//! A bound is a choice of clip and does not become outdated: the result stays in force for new
//! versions of the data, until the owner searches again. The ledger stores it under a digest of the
//! definitions of its table, of the path to the unit and of its column, so another policy on the
//! same ledger shares it. If one of these changes, a new search is due.

mod choice;
mod question;

use tokio_util::sync::CancellationToken;

use crate::error::Error as Refused;
use crate::execute;
use crate::execute::Backend;
use crate::ir::ReleaseId;
use crate::ledger;
use crate::ledger::{Buyer, DebitError, Found, Ledger, LedgerReader, Purchase};
use crate::mechanism::{AccountState, Loss, Sampler};
use crate::policy::{Finding, Policy, Search, SessionSettings};
use crate::refusal::{Refusal, reason};
use crate::release;
use crate::release::{EndedPart, Keeping, LockedPart, PaidPart, Released};
use crate::rewrite::{Plan, Terms};
pub use choice::{Chosen, Thresholds, chosen, thresholds};
pub use question::BoundsQuestion;

/// Not a role's name: searches have their own share of the connections.
const OWNER: &str = "";

/// A search in the ledger: the chosen bounds, not the counts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct KeptSearch {
    pub finding: Finding,
    /// Ends near which too few units were counted. They are as wide as the type or the policy's
    /// limit.
    pub unseen: u8,
    /// The privacy parameters of the search.
    pub epsilon: f64,
}

/// Why a search was not made, or not finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Before anything was charged.
    #[error("{0}")]
    Refused(Refusal),
    #[error("another process is making this search, or has just made it")]
    Awaited,
    #[error(transparent)]
    Backend(#[from] execute::Error),
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    #[error(transparent)]
    Release(#[from] release::Error),
    /// The ledger's entry for a search cannot be read as its result.
    #[error("what the ledger keeps for the search of {0} cannot be read: search again")]
    Unreadable(String),
}

impl From<Refused> for Error {
    fn from(error: Refused) -> Self {
        Self::Refused(error.report())
    }
}

/// The result of each of the policy's searches, in order; `None` if the search is due.
///
/// # Errors
/// [`Error::Ledger`], [`Error::Unreadable`].
pub async fn found(
    policy: &Policy,
    ledger: &LedgerReader,
) -> Result<Vec<Option<(KeptSearch, Found)>>, Error> {
    let mut all = Vec::with_capacity(policy.searches.len());
    for search in &policy.searches {
        let found = ledger
            .found(BoundsQuestion::new(policy, search).digest())
            .await?;
        let read = |found: Found| match serde_json::from_slice(&found.released) {
            Ok(kept) => Ok((kept, found)),
            Err(_) => Err(Error::Unreadable(name(policy, search))),
        };
        all.push(found.map(read).transpose()?);
    }
    Ok(all)
}

/// The policy with the results filled in, and what each role has to pay for them; `Err` names the
/// searches that are due.
///
/// # Errors
/// As [`found`].
pub async fn settle(
    policy: &Policy,
    ledger: &LedgerReader,
) -> Result<Result<(Policy, Vec<Found>), Vec<String>>, Error> {
    let (mut findings, mut paid, mut due) = (Vec::new(), Vec::new(), Vec::new());
    for (search, found) in policy.searches.iter().zip(found(policy, ledger).await?) {
        match found {
            Some((kept, found)) => {
                findings.push(kept.finding);
                paid.push(found);
            }
            None => due.push(name(policy, search)),
        }
    }
    if !due.is_empty() {
        return Ok(Err(due));
    }
    let settled = policy
        .settled(&findings)
        .ok_or_else(|| Error::Unreadable("its columns".to_owned()))?;
    Ok(Ok((settled, paid)))
}

/// `schema.table.column`, or `rows of schema.table`.
pub fn name(policy: &Policy, search: &Search) -> String {
    question::name(policy, search)
}

/// The plan of a search for these accounts, all of which will pay it.
///
/// # Errors
/// [`Error::Refused`] where no noise fits.
pub fn plan(
    policy: &Policy,
    search: &Search,
    epsilon: f64,
    accounts: Vec<AccountState>,
) -> Result<Plan, Error> {
    // One loss for all roles: that of the smallest delta.
    let delta = policy
        .roles
        .iter()
        .map(|role| role.budget.delta)
        .fold(policy.privacy.budget.delta, f64::min);
    let terms = Terms {
        epsilon,
        delta,
        accounts,
        session_settings: SessionSettings::with_fixed_clips(),
    };
    Ok(BoundsQuestion::new(policy, search).plan(&terms)?)
}

/// Everything that a search needs.
pub struct Maker<'a> {
    pub policy: &'a Policy,
    pub backend: &'a Backend,
    pub ledger: &'a Ledger,
    /// Time limit of one search, as for a statement.
    pub epsilon: f64,
}

impl Maker<'_> {
    /// The plan of a search, priced for all accounts that will pay it, regardless of what they have
    /// spent. Free.
    ///
    /// # Errors
    /// [`Error::Refused`] where no noise fits; [`Error::Ledger`].
    pub async fn plan(&self, search: &Search) -> Result<Plan, Error> {
        let mut accounts = Vec::new();
        for role in &self.policy.roles {
            let balances = self.ledger.balances(&role.name).await?;
            // Computed from the budgets alone: each role sees the price, and must not learn what
            // others have left.
            accounts.extend([balances.role, balances.owner].map(|balance| AccountState {
                cap: balance.cap,
                spent: Loss::ZERO,
            }));
        }
        plan(self.policy, search, self.epsilon, accounts)
    }

    /// Runs a search, even if one was run before, and keeps the result.
    ///
    /// # Guarantee
    /// The debit is durable before the database sees the statement, and is never refunded. The kept
    /// result is a function of the noisy counts alone.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::Awaited`]: nothing was charged. After any other error a
    /// charge may stand.
    pub async fn make(
        &self,
        search: &Search,
        sampler: &mut (dyn Sampler + Send),
        cancel: &CancellationToken,
    ) -> Result<KeptSearch, Error> {
        let question = BoundsQuestion::new(self.policy, search);
        let plan = self.plan(search).await?;
        let [release] = plan.releases() else {
            return Err(Error::Refused(Refusal::unsupported(
                reason::UNSUPPORTED_SEARCH,
                "this search",
            )));
        };
        let (Some(loss), Some(price)) = (release.loss(), release.price()) else {
            return Err(Error::Refused(Refusal::unsupported(
                reason::UNSUPPORTED_SEARCH,
                "this search",
            )));
        };
        let kept_as = ledger::QuestionDigest {
            digest: question.digest(),
            accuracy: price.accuracy,
            loss,
            family: None,
        };
        // A repeated search does not wait for others: an existing result does not answer it.
        let claimed = if self.ledger.found(question.digest()).await?.is_some() {
            Vec::new()
        } else {
            vec![kept_as]
        };
        let part = plan.part(|_| true);
        let timeout = self.policy.limits.statement_timeout;
        let opened = LockedPart::new(part, (self.backend, OWNER), timeout, cancel).await?;
        let part = opened.part();
        let debit = part.digest().into();
        let purchase = Purchase::fresh(Buyer::Owner, loss, debit, claimed.clone());
        let (role, charge) = self.charged(&purchase).await?;
        let making = async {
            let mut paid = opened.paid(charge, Released::before(&plan));
            let made = self
                .made(&question, kept_as, &mut paid, sampler, cancel)
                .await;
            let ended = paid.end(made.is_ok(), (self.ledger, &role), Keeping::Durable);
            let EndedPart { kept, .. } = ended.await;
            let made = made?;
            kept?;
            Ok(made)
        };
        let digests: Vec<ledger::QuestionId> =
            claimed.iter().map(|question| question.digest).collect();
        self.ledger.holding(&digests, making).await
    }

    /// The search's finding, which is noted to be kept.
    async fn made(
        &self,
        question: &BoundsQuestion,
        kept_as: ledger::QuestionDigest,
        paid: &mut PaidPart<'_>,
        sampler: &mut (dyn Sampler + Send),
        cancel: &CancellationToken,
    ) -> Result<KeptSearch, Error> {
        paid.allow().await?;
        let read = paid.run(ReleaseId(0), &[], cancel).await?;
        paid.release(read, sampler)?;
        let table = paid.released().table(ReleaseId(0));
        let table = table.ok_or(release::Error::Mismatch)?;
        let thresholds = thresholds(paid.part().plan().release(ReleaseId(0)));
        let chosen = question.chosen(table, thresholds);
        let kept = KeptSearch {
            finding: chosen.finding,
            unseen: chosen.unseen,
            epsilon: self.epsilon,
        };
        paid.keep_finding(kept_as, &kept)?;
        Ok(kept)
    }

    /// Debits the first role that can afford it.
    async fn charged(&self, purchase: &Purchase) -> Result<(String, ledger::Charge), Error> {
        let mut refused = Refusal::new(
            reason::NO_ROLES,
            "bounds cannot be searched: the policy has no roles",
        );
        for role in &self.policy.roles {
            match self.ledger.purchase(&role.name, purchase.clone()).await {
                Ok(charge) => return Ok((role.name.clone(), charge)),
                Err(DebitError::Awaited) => return Err(Error::Awaited),
                Err(DebitError::Ledger(error)) => return Err(Error::Ledger(error)),
                Err(error) => refused = error.refusal().unwrap_or(refused),
            }
        }
        Err(Error::Refused(refused))
    }
}
