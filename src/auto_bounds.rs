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
//! ([`crate::engine::Engine::with_findings`]), and sees nothing that depends on the result before
//! it has paid. The loss counts against the role's budget like an answer that was made for another
//! role. A crash between the debit and the storing of the result costs a second search; it never
//! gives one away.
//!
//! # How long it holds
//! A bound is a choice of clip and does not become outdated: the result stays in force for new
//! versions of the data, until the owner searches again. The ledger stores it under a digest of the
//! definitions of its table, of the path to the unit and of its column, so another policy on the
//! same ledger shares it. If one of these changes, a new search is due.

mod question;
mod select_bounds;

use tokio_util::sync::CancellationToken;

use crate::error::Error as Refused;
use crate::execute::Backend;
use crate::ledger;
use crate::ledger::{Found, Ledger, LedgerReader};
use crate::mechanism::{AccountState, Loss, Sampler};
use crate::policy::{Finding, Policy, Search, SessionSettings};
use crate::refusal::{Refusal, reason};
use crate::release;
use crate::release::{ONLY, OwnerError, OwnerRelease};
use crate::rewrite::{Plan, Terms};
pub use question::BoundsQuestion;
pub use select_bounds::{Chosen, Thresholds, choose, thresholds};

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

/// Why a search was not made, not finished, or not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Making(#[from] OwnerError),
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// The ledger's entry for a search cannot be read as its result.
    #[error("what the ledger keeps for the search of {0} cannot be read: search again")]
    Unreadable(String),
}

impl From<Refused> for Error {
    fn from(error: Refused) -> Self {
        Self::Making(OwnerError::Refused(error.report()))
    }
}

/// The result of each of the policy's searches, in order; `None` if the search is due.
///
/// # Errors
/// [`Error::Ledger`], [`Error::Unreadable`].
pub async fn stored_results(
    policy: &Policy,
    ledger: &LedgerReader,
) -> Result<Vec<Option<(KeptSearch, Found)>>, Error> {
    let mut all = Vec::with_capacity(policy.searches.len());
    for search in &policy.searches {
        let found = ledger
            .newest_of_owner(BoundsQuestion::new(policy, search).digest())
            .await?;
        let read = |found: Found| match serde_json::from_slice(&found.released) {
            Ok(kept) => Ok((kept, found)),
            Err(_) => Err(Error::Unreadable(search_name(policy, search))),
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
    for (search, found) in policy
        .searches
        .iter()
        .zip(stored_results(policy, ledger).await?)
    {
        match found {
            Some((kept, found)) => {
                findings.push(kept.finding);
                paid.push(found);
            }
            None => due.push(search_name(policy, search)),
        }
    }
    if !due.is_empty() {
        return Ok(Err(due));
    }
    let settled = policy
        .settle(&findings)
        .ok_or_else(|| Error::Unreadable("its columns".to_owned()))?;
    Ok(Ok((settled, paid)))
}

/// What a search is for: `schema.table.column`, or `rows of schema.table`.
pub fn search_name(policy: &Policy, search: &Search) -> String {
    question::search_name(policy, search)
}

/// The plan of a search for these accounts, all of which will pay it.
///
/// # Errors
/// [`OwnerError::Refused`] where no noise fits.
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
        .filter(|role| role.asks)
        .map(|role| role.budget.delta)
        .fold(policy.privacy.budget.delta, f64::min);
    let terms = Terms {
        epsilon,
        delta,
        accounts,
        session_settings: SessionSettings::with_fixed_clips(),
        ranges: Vec::new(),
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
    /// [`OwnerError::Refused`] where no noise fits; [`Error::Ledger`].
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
    /// That of [`OwnerRelease::make`]. The kept result is a function of the noisy counts alone.
    ///
    /// # Errors
    /// Those of [`OwnerRelease::make`].
    pub async fn make(
        &self,
        search: &Search,
        sampler: &mut (dyn Sampler + Send),
        cancel: &CancellationToken,
    ) -> Result<KeptSearch, Error> {
        let question = BoundsQuestion::new(self.policy, search);
        let plan = self.plan(search).await?;
        let priced = match plan.releases() {
            [release] => release.loss().zip(release.price()),
            _ => None,
        };
        let Some((loss, price)) = priced else {
            let refusal = Refusal::unsupported(reason::UNSUPPORTED_SEARCH, "this search");
            return Err(OwnerError::Refused(refusal).into());
        };
        let kept_as = ledger::QuestionDigest {
            digest: question.digest(),
            accuracy: price.accuracy,
            loss,
            family: None,
        };
        let release = OwnerRelease {
            plan: &plan,
            kept_as,
            is_known: self
                .ledger
                .newest_of_owner(question.digest())
                .await?
                .is_some(),
            roles: self.policy.roles.iter().map(|r| r.name.as_str()).collect(),
            no_roles: Refusal::new(
                reason::NO_ROLES,
                "bounds cannot be searched: the policy has no roles",
            ),
            backend: self.backend,
            ledger: self.ledger,
            timeout: self.policy.limits.statement_timeout,
        };
        let epsilon = self.epsilon;
        let made = release.make(sampler, cancel, |paid| {
            let table = paid.as_released().table(ONLY);
            let table = table.ok_or(release::Error::Mismatch)?;
            let chosen = question.choose(table, thresholds(plan.release(ONLY)));
            let kept = KeptSearch {
                finding: chosen.finding,
                unseen: chosen.unseen,
                epsilon,
            };
            paid.keep_finding(kept_as, &kept)?;
            Ok(kept)
        });
        let (_, kept) = made.await?;
        Ok(kept)
    }
}
