//! Which sets of keys a summary with `marginals: auto` has: selected once, privately, from the
//! data. What was selected is kept in the ledger, like what a search for bounds found, and is part
//! of the policy from then on.
//!
//! # Who pays
//! The owner, and the role in whose name the selection was entered. Every other role of the summary
//! pays the same before it sees anything that depends on the selected sets: with its first question
//! that some set could answer. Until then a role has no such summary ([`Selections::is_known`]).

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use sha2::{Digest, Sha256};

use super::question::{from, key_texts, plan_text, refuse_unsupported, terms};
use crate::analyze::KeyRule;
use crate::error::Error;
use crate::ledger::{self, Found, LedgerReader, QuestionDigest, QuestionId};
use crate::mechanism::{AccountState, Accounting, Cap, Fixed, Loss, SELECTION_LAW, SetSelection};
use crate::policy::{
    KeySet, Policy, SelectedSets, SessionSettings, Summary, candidate_sets, rounds,
};
use crate::refusal::{Refusal, reason};
use crate::rewrite::{MarginalCounts, Plan, ReleasePlan, Terms};

/// The selection of a summary's sets, planned. Pure: it depends on the policy alone.
#[derive(Debug, Clone)]
pub struct SetsQuestion {
    pub plan: Plan,
    pub selection: SetSelection,
    sizes: Vec<usize>,
    terms: Terms,
    rows_per_step: f64,
    /// The digest under which the ledger keeps what was selected.
    pub kept_as: QuestionDigest,
}

impl SetsQuestion {
    /// Plans the selection of a summary's sets.
    ///
    /// # Guarantee
    /// The plan counts rows by each key and by each candidate, in statements of one snapshot. The
    /// digest covers the summary's name, the policy's version, these questions, their order and
    /// the loss.
    ///
    /// # Errors
    /// Those of planning; 0A000 where the summary has no sets to select from.
    pub fn new(policy: &Policy, summary: &Summary) -> Result<Self, Error> {
        let singles: Vec<Vec<usize>> = (0..summary.keys.len()).map(|key| vec![key]).collect();
        let of_keys = plan_counts(policy, summary, &singles)?;
        let sizes = of_keys.releases().iter().map(values);
        let sizes: Vec<usize> = sizes.collect();
        let candidates = candidate_sets(&sizes, u64::from(policy.limits.groups));
        let rounds = rounds(sizes.len(), &candidates);
        if rounds == 0 {
            let refusal = Refusal::unsupported(reason::UNSUPPORTED_SUMMARY, "this summary");
            let detail = "No two keys have so few values that a set of both could be selected.";
            return Err(Error::Rewrite(refusal.detail(detail)));
        }
        let sets: Vec<Vec<usize>> = singles.into_iter().chain(candidates.clone()).collect();
        let plan = plan_counts(policy, summary, &sets)?;
        let terms = terms(policy, summary)?;
        let shape = (sizes.clone(), candidates);
        let counts = MarginalCounts::new(&plan, shape, &terms, rounds).map_err(Error::Rewrite)?;
        let rows_per_step = counts.rows_per_step();
        let selection = counts.selection;
        let loss = selection.loss();
        let kept_as = QuestionDigest {
            digest: digest(&plan, &loss, (&summary.name, rounds)),
            family: None,
            accuracy: loss.mu_squared.to_f64().sqrt(),
            loss,
        };
        Ok(Self {
            plan,
            selection,
            sizes,
            terms,
            rows_per_step,
            kept_as,
        })
    }

    /// The counts as the selection reads them.
    ///
    /// # Errors
    /// As [`Self::new`], which has made them once.
    pub fn counts(&self) -> Result<MarginalCounts<'_>, Refusal> {
        let candidates = self.selection.candidates().to_vec();
        let shape = (self.sizes.clone(), candidates);
        MarginalCounts::new(&self.plan, shape, &self.terms, self.selection.rounds())
    }

    /// The sets of a summary of which these candidates were selected: also one of each key that is
    /// in none of them.
    pub fn sets(&self, selected: &[usize]) -> SelectedSets {
        let known = selected.iter().map(|at| &self.selection.candidates()[*at]);
        SelectedSets::of(known.cloned().collect(), self.sizes.len())
    }

    /// About how many rows a set has to differ from what the sets before it tell, beyond its
    /// noise, to be selected.
    pub fn rows_seen(&self) -> f64 {
        self.selection.resolution() * self.rows_per_step
    }

    /// What could be selected so that a release is read off the summary with little noise: nothing
    /// but single keys, where its conditions and keys read one at most; the smallest candidate that
    /// has all keys that they read. Empty where they read anything else, or no candidate has all.
    pub(super) fn sets_for(&self, release: &ReleasePlan) -> Vec<SelectedSets> {
        let (Some(family), releases) = (release.family(), self.plan.releases()) else {
            return Vec::new();
        };
        let of_key = |at: &usize| releases[*at].family();
        let is_same = |at: &usize| of_key(at).is_some_and(|own| own.digest == family.digest);
        let has = |at: &usize, digest| {
            let mut own = of_key(at).into_iter().flat_map(|own| &own.columns);
            own.any(|column| column.digest == digest)
        };
        let mut read = family.columns.iter();
        let mut keys = HashSet::new();
        let is_of_keys = read.all(|column| {
            let key = (0..self.sizes.len()).find(|at| has(at, column.digest));
            keys.extend(key);
            key.is_some()
        });
        if !is_of_keys || !(0..self.sizes.len()).all(|at| is_same(&at)) {
            return Vec::new();
        }
        let candidates = self.selection.candidates().iter();
        let around = candidates.filter(|set| keys.iter().all(|key| set.contains(key)));
        let groups = |set: &&Vec<usize>| set.iter().map(|key| self.sizes[*key]).product::<usize>();
        let smallest = around.min_by_key(groups).map(|set| vec![set.clone()]);
        let of_singles = (keys.len() < 2).then(Vec::new);
        let all = [of_singles, smallest].into_iter().flatten();
        all.map(|sets| SelectedSets::of(sets, self.sizes.len()))
            .collect()
    }
}

/// The number of rows by each of these sets of keys.
fn plan_counts(policy: &Policy, summary: &Summary, sets: &[Vec<usize>]) -> Result<Plan, Error> {
    let (from, all) = (from(policy, summary), key_texts(policy, summary));
    let count = |set: &Vec<usize>| {
        let keys: Vec<&str> = set.iter().map(|at| all[*at].as_str()).collect();
        format!("SELECT count(*) FROM {from} GROUP BY {}", keys.join(", "))
    };
    let counts: Vec<String> = sets.iter().map(count).collect();
    // Under pure accounting a statement bounds what a unit adds in L1. The noise that these terms
    // stand for is not drawn.
    let each = |epsilon: f64| {
        let whole = Fixed::round_down(epsilon);
        let cap = Cap::new(whole, Fixed::ZERO, Fixed::round_down(0.5), Accounting::Pure).ok()?;
        Some(Terms {
            epsilon,
            delta: 0.0,
            accounts: vec![AccountState {
                cap,
                spent: Loss::ZERO,
            }],
            session_settings: SessionSettings::with_declared_clips(),
            ranges: Vec::new(),
        })
    };
    let terms = each(sets.len() as f64).ok_or_else(|| Error::Rewrite(refuse_unsupported()))?;
    plan_text(policy, &union(&counts), &terms)
}

/// The statements as one, of little depth.
fn union(statements: &[String]) -> String {
    match statements {
        [] => String::new(),
        [one] => one.clone(),
        several => {
            let (left, right) = several.split_at(several.len() / 2);
            format!("({}) UNION ALL ({})", union(left), union(right))
        }
    }
}

/// The number of values of a release's key; 0 where it is not listed.
fn values(release: &ReleasePlan) -> usize {
    match release.keys() {
        [(_, KeyRule::Domain(values))] => values.len(),
        _ => 0,
    }
}

fn digest(plan: &Plan, loss: &Loss, (name, rounds): (&str, usize)) -> QuestionId {
    let mut digest = Sha256::new();
    // The number is that of the law: what was selected under another is another question.
    digest.update(format!("pgveil selection of sets {SELECTION_LAW}\n"));
    for release in plan.releases() {
        digest.update(release.question().as_bytes());
    }
    digest.update(format!("{loss:?} {rounds} {name:?}"));
    QuestionId(digest.finalize().into())
}

/// Why it is not known which sets were selected.
#[derive(Debug, thiserror::Error)]
pub enum UnsettledSets {
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// The ledger has a selection for this summary that cannot be read.
    #[error(
        "summary {0}: the ledger has a selection of its sets that cannot be read; restore the \
            ledger from a copy, or select again by pgveil summarize {0} --again, which is charged"
    )]
    Unreadable(String),
}

/// The policy with the sets that were selected, and for each of its summaries what a role pays for
/// them. A summary whose sets are due, or cannot be planned, has none.
///
/// # Errors
/// [`UnsettledSets`].
pub async fn settle_sets(
    policy: &Policy,
    ledger: &LedgerReader,
) -> Result<(Policy, Vec<Option<Found>>), UnsettledSets> {
    let mut settled = policy.clone();
    let mut all = Vec::with_capacity(policy.summaries.len());
    for (at, summary) in policy.summaries.iter().enumerate() {
        if !summary.is_auto {
            all.push(None);
            continue;
        }
        // `pgveil check` and `pgveil summarize` say why one cannot be planned.
        let Ok(question) = super::aside(|| SetsQuestion::new(policy, summary)) else {
            all.push(None);
            continue;
        };
        let found = ledger.newest_of_owner(question.kept_as.digest).await?;
        if let Some(found) = &found {
            let selected = serde_json::from_slice(&found.released).ok();
            let sets = selected.and_then(|sets: SelectedSets| sets.key_sets(summary.keys.len()));
            let unreadable = || UnsettledSets::Unreadable(summary.name.clone());
            let own = &mut settled.summaries[at];
            own.marginals = sets.ok_or_else(unreadable)?;
            own.selection = Some(found.answer.text());
        }
        all.push(found);
    }
    Ok((settled, all))
}

/// What was selected for the policy's summaries, and the roles that are known to have paid for it.
#[derive(Default)]
pub(in crate::engine) struct Selections {
    /// Parallel to the policy's summaries; empty where none has selected sets.
    found: Vec<Option<Found>>,
    planned: OnceLock<Vec<Option<SetsQuestion>>>,
    known: Mutex<HashSet<(String, usize)>>,
}

impl Selections {
    pub fn new(found: Vec<Option<Found>>) -> Self {
        Self {
            found,
            ..Self::default()
        }
    }

    pub fn results(&self) -> impl Iterator<Item = (usize, &Found)> {
        let all = self.found.iter().enumerate();
        all.filter_map(|(at, found)| Some((at, found.as_ref()?)))
    }

    /// Whether the role may see what depends on the summary's sets: they are the policy's own, or
    /// the role has paid for their selection.
    pub fn is_known(&self, role: &str, at: usize) -> bool {
        let is_selected = self.found.get(at).is_some_and(Option::is_some);
        !is_selected || self.lock_known().contains(&(role.to_owned(), at))
    }

    pub fn note(&self, role: &str, at: usize) {
        self.lock_known().insert((role.to_owned(), at));
    }

    fn lock_known(&self) -> std::sync::MutexGuard<'_, HashSet<(String, usize)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The question from which the summary's sets were selected.
    pub fn question(&self, policy: &Policy, at: usize) -> Option<&SetsQuestion> {
        let plan = |(at, summary): (usize, &Summary)| {
            self.found.get(at)?.as_ref()?;
            SetsQuestion::new(policy, summary).ok()
        };
        let all = || policy.summaries.iter().enumerate().map(plan).collect();
        let planned = self.planned.get_or_init(|| super::aside(all));
        planned.get(at)?.as_ref()
    }
}

/// The sets of a summary in words.
pub fn sets_in_words(sets: &[KeySet], summary: &Summary, policy: &Policy) -> String {
    let names = summary.key_names(policy);
    let set = |set: &KeySet| {
        let names: Vec<&str> = set.keys().map(|key| key.pick(&names).as_str()).collect();
        format!("({})", names.join(", "))
    };
    sets.iter().map(set).collect::<Vec<_>>().join(", ")
}
