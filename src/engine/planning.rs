//! Plans a question for a role: `plan()`, and the cache and limits around it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::period_form::Candidate;
use super::plan_cache::PlanKey;
use super::planning_limit::{StatementSize, aside};
use super::search_payment;
use super::statement_log::StatementFacts;
use super::widen::Narrow;
use super::{Engine, MemoryShare, Requester, ledger_failed};
use crate::analyze::{Analyzed, PlanningEffort, analyze};
use crate::calendar::FROM_1970_US;
use crate::catalog::BackendServer;
use crate::error::Error;
use crate::ledger::{Balances, Origin};
use crate::mechanism::{AccountState, Loss};
use crate::parse::Query;
use crate::policy::{ClipChoice, Policy, Reuse, Role, SessionSettings, Table, UselessMode};
use crate::refusal::{Refusal, reason};
use crate::resolve::{Constants, SessionFacts, resolve};
use crate::rewrite::{Plan, Terms, UnitCount, needs_first_answer, rewrite, useless};

/// The most memory that planning one statement takes, without the statement itself.
pub(super) const PLANNING_BYTES: usize = 200 << 20;

/// Plans a query: pure, no I/O, no clock, no randomness.
///
/// # Errors
/// One variant for each stage. Every text depends on the SQL, the policy and the terms only.
pub fn plan(
    query: &Query,
    policy: &Policy,
    search_path: &[String],
    constants: &Constants,
    terms: &Terms,
) -> Result<Plan, Error> {
    plan_within(
        query,
        policy,
        search_path,
        constants,
        terms,
        &Arc::default(),
    )
}

/// [`plan`], refused with 54001 where it takes more work than `effort` has left.
pub(super) fn plan_within(
    query: &Query,
    policy: &Policy,
    search_path: &[String],
    constants: &Constants,
    terms: &Terms,
    effort: &Arc<PlanningEffort>,
) -> Result<Plan, Error> {
    crate::parse::with_room(|| {
        let resolved = resolve(query, policy, search_path, constants).map_err(Error::Resolve)?;
        let narrow = Narrow::of(&resolved, policy, terms);
        let by_periods = Candidate::of(&resolved, policy, terms, constants);
        let analyzed =
            analyze(resolved, policy, &terms.session_settings, effort).map_err(Error::Analyze)?;
        let first = first_answer(&analyzed, policy, terms).map_err(Error::Rewrite)?;
        match first {
            Some(plan) => Ok(plan),
            None => {
                let plan = rewrite(&analyzed, policy, terms).map_err(Error::Rewrite)?;
                let form = without_looks(&plan, &analyzed, policy, terms);
                let plan = plan.or_without_looks(form);
                let plan = match narrow {
                    Some(narrow) => narrow.widen(plan, policy, terms),
                    None => plan,
                };
                Ok(match by_periods {
                    Some(asked) => asked.attach(plan, policy, terms, effort),
                    None => plan,
                })
            }
        }
    })
}

/// The plan with clips by declared bounds alone, where the policy has summaries, which have such
/// clips, and the plan chooses its own.
fn without_looks(plan: &Plan, analyzed: &Analyzed, policy: &Policy, terms: &Terms) -> Option<Plan> {
    let mut releases = plan.releases().iter();
    let may = !policy.summaries.is_empty() && releases.any(|release| release.look().is_some());
    let declared = Terms {
        session_settings: SessionSettings {
            clip: ClipChoice::Declared,
            ..terms.session_settings
        },
        ..terms.clone()
    };
    may.then(|| rewrite(analyzed, policy, &declared).ok())?
}

/// The plan of a first answer, where only that shows what the wanted error needs.
fn first_answer(
    analyzed: &Analyzed,
    policy: &Policy,
    terms: &Terms,
) -> Result<Option<Plan>, Refusal> {
    let Some(targets) = terms.session_settings.target_error else {
        return Ok(None);
    };
    let mut first = terms.of_first_answer(policy);
    let settings = &terms.session_settings;
    let is_useless = |plan: &Plan| {
        settings.useless != UselessMode::Allow
            && !useless(plan, UnitCount::of_policy(policy)).is_empty()
    };
    let (mut useless_one, mut refused) = (None, None);
    loop {
        match rewrite(analyzed, policy, &first) {
            Ok(plan) if !needs_first_answer(&plan, &targets) => return Ok(None),
            Ok(plan) => {
                let is_useless = is_useless(&plan);
                let plan = plan.into_first_answer(first.epsilon);
                if !is_useless {
                    return Ok(Some(plan));
                }
                useless_one = useless_one.or(Some(plan));
            }
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
        if settings.epsilon.is_some() || first.epsilon >= settings.most_of_wanted(policy) {
            break;
        }
        // If noise hides the first answer whatever the data are, it shows nothing. Then more is
        // spent, but only if the session sets no epsilon.
        first.epsilon = (2.0 * first.epsilon).min(settings.most_of_wanted(policy));
    }
    match (useless_one, refused) {
        (Some(plan), _) => Ok(Some(plan)),
        (None, Some(refusal)) if targets.depend_on_answers() => Err(refusal),
        // Only the first answer is refused. The errors are known without it, so the query may still
        // be answered at another price.
        (None, _) => Ok(None),
    }
}

impl Engine {
    /// Plans for a role as its accounts stand now, or finds the plan of an equal question. Free,
    /// except that a role pays once for what the policy's searches found.
    ///
    /// # Errors
    /// As [`plan`]; 53400 where the role cannot pay for the policy's searches; 22023 for an
    /// epsilon above the policy's ceiling.
    pub async fn plan(
        &self,
        requester: &Requester,
        query: &Query,
    ) -> Result<(Arc<Plan>, Balances), Error> {
        self.plan_for(requester, query, &StatementFacts::new())
            .await
    }

    /// [`Self::plan`], which charges nothing: 55000 where the role has not paid for the policy's
    /// searches.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub async fn plan_free(
        &self,
        requester: &Requester,
        query: &Query,
    ) -> Result<(Arc<Plan>, Balances), Error> {
        let nothing = StatementFacts::new().up_to(Loss::ZERO);
        self.plan_for(requester, query, &nothing).await
    }

    /// [`Self::plan`], for a statement whose charges are counted.
    pub(super) async fn plan_for(
        &self,
        requester: &Requester,
        query: &Query,
        facts: &StatementFacts,
    ) -> Result<(Arc<Plan>, Balances), Error> {
        let planned = self.find_or_plan(requester, query).await;
        // An error, too, may reveal the findings of searches.
        if !planned
            .as_ref()
            .is_ok_and(|(plan, _)| search_payment::reveals_nothing(plan))
        {
            self.admit_session(requester, facts).await?;
        }
        let (plan, balances) = planned?;
        self.check_copied(&plan)?;
        let plan = self.plan_by_periods(requester, plan);
        Ok((self.plan_for_summaries(requester, plan).await?, balances))
    }

    /// Charges the role for searches as [`Self::admit`] does; nothing where the session buys
    /// nothing.
    pub(super) async fn admit_session(
        &self,
        requester: &Requester,
        facts: &StatementFacts,
    ) -> Result<(), Error> {
        let nothing = StatementFacts::new().up_to(Loss::ZERO);
        let spends = self.reuse(requester) != Reuse::Summary;
        let facts = if spends { facts } else { &nothing };
        self.admit(&requester.role, facts).await
    }

    /// Refuses a plan that reads, in the shadow, a public table whose rows were not copied.
    pub(super) fn check_copied(&self, plan: &Plan) -> Result<(), Error> {
        let Some(id) = plan
            .public_tables()
            .iter()
            .find(|id| self.copied.get(id) == Some(&None))
        else {
            return Ok(());
        };
        let Table { schema, name, .. } = &self.policy.tables[id.0];
        Err(Error::Resolve(
            Refusal::new(
                reason::PUBLIC_TABLE_TOO_LARGE,
                format!(
                    "public table {schema}.{name} has more rows than the policy's \
                    limits.mirror_rows"
                ),
            )
            .detail(
                "Queries over public tables alone, or together with released values, are \
                    answered from a copy.",
            )
            .hint(
                "Join it to the private rows, or ask the data owner to raise \
                    limits.mirror_rows.",
            ),
        ))
    }

    async fn find_or_plan(
        &self,
        requester: &Requester,
        query: &Query,
    ) -> Result<(Arc<Plan>, Balances), Error> {
        requester
            .session_settings
            .within(&self.policy)
            .map_err(Error::Rewrite)?;
        let balances = self
            .ledger
            .balances(&requester.role)
            .await
            .map_err(|e| ledger_failed(&e))?;
        let key = self.plan_key(requester, query, accounts(&balances));
        if let Some(plan) = self.recent.plans.find(&key) {
            return Ok((plan, balances));
        }
        let plan = Arc::new(self.plan_in_turn(requester, query, &key).await?);
        self.recent.plans.keep(key, &plan);
        Ok((plan, balances))
    }

    /// The key of a question's plan, as the role's accounts stand now.
    pub(super) async fn key_now<'q>(
        &self,
        requester: &'q Requester,
        query: &'q Query,
    ) -> Result<PlanKey<'q>, Error> {
        let balances = self.ledger.balances(&requester.role).await;
        let balances = balances.map_err(|e| ledger_failed(&e))?;
        Ok(self.plan_key(requester, query, accounts(&balances)))
    }

    /// Plans a short statement at once where that is little work. More work waits for the role's
    /// turn, however short the text, and its memory counts towards the common budget.
    pub(super) async fn plan_in_turn(
        &self,
        requester: &Requester,
        query: &Query,
        key: &PlanKey<'_>,
    ) -> Result<Plan, Error> {
        let plan = |effort: &Arc<PlanningEffort>| {
            plan_within(
                query,
                &self.policy,
                &requester.search_path,
                &key.constants,
                &key.terms,
                effort,
            )
        };
        if StatementSize::of(query) == StatementSize::Small {
            let effort = Arc::new(PlanningEffort::small());
            // Other tasks of this thread do not wait for it.
            let planned = aside(|| plan(&effort));
            if !effort.is_spent() {
                return planned;
            }
        }
        let permit = self
            .planning_limit
            .acquire(&requester.role, StatementSize::Large)
            .await;
        let _held = requester.share.hold(PLANNING_BYTES).map_err(Error::Parse)?;
        permit.work(|| plan(&Arc::default()))
    }

    /// Plans at once where that is little work. More work waits for the role's turn, and begins
    /// anew with the whole effort of a statement.
    pub(super) async fn little_or_in_turn<T>(
        &self,
        role: &str,
        plan: impl Fn(&Arc<PlanningEffort>) -> T,
    ) -> T {
        let effort = Arc::new(PlanningEffort::small());
        let planned = aside(|| plan(&effort));
        if !effort.is_spent() {
            return planned;
        }
        let permit = self
            .planning_limit
            .acquire(role, StatementSize::Large)
            .await;
        permit.work(|| plan(&Arc::default()))
    }

    /// The plan of a question that was planned before and costs nothing, whatever the accounts
    /// hold.
    pub(super) fn find_free_plan(&self, requester: &Requester, query: &Query) -> Option<Arc<Plan>> {
        requester.session_settings.within(&self.policy).ok()?;
        self.recent
            .plans
            .find(&self.plan_key(requester, query, Vec::new()))
            .filter(|plan| search_payment::reveals_nothing(plan) && self.check_copied(plan).is_ok())
    }

    pub(super) fn delta(&self, role: &str) -> f64 {
        self.policy
            .role(role)
            .map_or(self.policy.privacy.budget.delta, |r| r.budget.delta)
    }

    fn plan_key<'q>(
        &self,
        requester: &'q Requester,
        query: &'q Query,
        accounts: Vec<AccountState>,
    ) -> PlanKey<'q> {
        let terms = self.terms(requester, accounts);
        let constants = self.constants(requester);
        PlanKey::new(query, &requester.search_path, constants, terms)
    }

    pub(super) fn terms(&self, requester: &Requester, accounts: Vec<AccountState>) -> Terms {
        let epsilon = requester
            .session_settings
            .epsilon
            .unwrap_or(self.policy.privacy.epsilon_default);
        Terms {
            epsilon,
            delta: self.delta(&requester.role),
            accounts,
            session_settings: requester.session_settings,
            ranges: Vec::new(),
        }
    }

    pub(super) fn constants(&self, requester: &Requester) -> Constants {
        Constants {
            session: self.session(requester),
            ..constants(requester, &self.policy)
        }
    }

    /// The values of functions such as `version()` and `pg_backend_pid()` in this session.
    pub(super) fn session(&self, requester: &Requester) -> SessionFacts {
        let BackendServer {
            version, started, ..
        } = &self.server;
        SessionFacts {
            process: requester.process,
            database: self.database.clone(),
            version: version.clone(),
            started: started.clone(),
        }
    }
}

/// The accounts that a question of a role is planned for.
pub fn accounts(balances: &Balances) -> Vec<AccountState> {
    let role = AccountState {
        cap: balances.role.cap,
        spent: balances.role.spent,
    };
    // Only the cap of the owner's account: EXPLAIN shows the choice of noise, which must not
    // depend on what other roles have spent.
    let owner = AccountState {
        cap: balances.owner.cap,
        spent: Loss::ZERO,
    };
    vec![role, owner]
}

/// The terms of a role for its plainest questions: with the settings that its sessions start with,
/// except a target error, whose price only a first answer shows.
pub(super) fn plain_terms(policy: &Policy, role: &Role, balances: &Balances) -> Terms {
    let settings = SessionSettings {
        target_error: None,
        ..role.session_settings
    };
    Terms {
        epsilon: settings.epsilon.unwrap_or(policy.privacy.epsilon_default),
        delta: role.budget.delta,
        accounts: accounts(balances),
        session_settings: settings,
        ranges: Vec::new(),
    }
}

/// A role without a session.
pub(super) fn requester_of(role: &Role, search_path: Vec<String>) -> Requester {
    Requester {
        role: role.name.clone(),
        session_settings: role.session_settings,
        settings: Vec::new(),
        search_path,
        process: 0,
        origin: Origin::default(),
        given_up: Default::default(),
        share: MemoryShare::default(),
    }
}

/// The session's constants. The clock is read once for each statement and rounded down to the
/// policy's `time_grain`.
pub fn constants(requester: &Requester, policy: &Policy) -> Constants {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros();
    let grain = policy
        .time_grain
        .map_or(1, |grain| grain.as_micros().max(1));
    let since_1970 = since_1970 - since_1970 % grain;
    let zone = requester.setting("TimeZone").unwrap_or("UTC");
    let is_utc = ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Universal"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(zone));
    Constants {
        now: i64::try_from(since_1970).unwrap_or(i64::MAX) - FROM_1970_US,
        role: requester.role.clone(),
        session: SessionFacts::default(),
        is_utc,
        signs_each: requester
            .setting("IntervalStyle")
            .is_none_or(|style| !style.eq_ignore_ascii_case("sql_standard")),
        prints_plainly: requester.prints_plainly(),
    }
}
