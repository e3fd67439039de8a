//! plan() and answer(): the road of one query on one screen. The wire and the command line enter
//! here only.

mod explain;
mod failures;
mod metrics;
mod middle_queries;
mod notice;
mod plan_cache;
mod planning_limit;
mod preview;
mod public_changes;
mod reload;
mod reuse;
mod rollup;
mod run;
mod search_path;
mod search_payment;
mod service;
mod single_flight;
mod statement_log;
mod system_catalog;
mod timing;
mod views;

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

pub use crate::memory::{HeldMemory, MemoryBudget, MemoryShare};
pub use crate::shadow::{Argument, ColumnDescription, Description, Format, Requester, fit_as_text};
pub use metrics::Metrics;
pub use notice::describe as describe_plan;
pub use planning_limit::{PlanningLimit, PlanningPermit, Size};
pub use reload::Reloadable;
pub use search_path::start_path;
pub use service::{Answer, Service, TablePlaces};
pub use timing::patience;

use failures::Failures;
use middle_queries::MiddleQueries;
use plan_cache::{PlanCache, PlanKey};
use planning_limit::aside;
use search_payment::SearchPayment;
use single_flight::SingleFlight;
use statement_log::Tally;
use timing::Timing;

use crate::analyze::{PlanningEffort, analyze};
use crate::catalog::Server;
use crate::error::Error;
use crate::execute::Backend;
use crate::finish;
use crate::ir::TableId;
use crate::ledger::{Balances, Found, Ledger, Verdict};
use crate::mechanism::{AccountState, Loss, OsRandomness, Sampler};
use crate::parse::{Bound, Query, parameter_type};
use crate::policy::{Certificate, FROM_1970_US, Notices, Policy, Secret, SessionSettings, Table};
use crate::refusal::{Refusal, sqlstate};
use crate::resolve::{Constants, Session, check_dotted, resolve};
use crate::rewrite::{Plan, Terms, rewrite};
use crate::shadow::{CopiedTable, Shadow, ShadowError, Weighed};

/// As a statement is resolved and printed it is in memory about so many times.
pub const COPIES: usize = 4;

/// What planning one statement takes at most, beside the statement.
const PLANNING_BYTES: usize = 200 << 20;

/// Makes the noise source of one release.
pub type MakeSampler = Arc<dyn Fn() -> Box<dyn Sampler + Send> + Send + Sync>;

/// Everything a running proxy consults.
pub struct Engine {
    policy: Policy,
    backend: Backend,
    shadow: Shadow,
    ledger: Ledger,
    sampler: MakeSampler,
    failures: Arc<Failures>,
    turns: Arc<SingleFlight>,
    meter: Arc<Metrics>,
    lane: Arc<PlanningLimit>,
    plans: PlanCache,
    admission: SearchPayment,
    /// Rows of each public table in the shadow; `None` where they were too many for it.
    mirrored: HashMap<TableId, Option<u64>>,
    /// Public tables that are known to have other rows than they had at the load.
    changed_rows: Mutex<BTreeSet<TableId>>,
    server_version: String,
    server: Server,
    database: String,
}

/// Plans a query: pure, no I/O, no clock, no randomness.
///
/// # Errors
/// One variant a stage; every text depends on the SQL, the policy and the terms only.
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

/// The same, refused with 54001 where it takes more than what is left of `effort`.
fn plan_within(
    query: &Query,
    policy: &Policy,
    search_path: &[String],
    constants: &Constants,
    terms: &Terms,
    effort: &Arc<PlanningEffort>,
) -> Result<Plan, Error> {
    crate::parse::with_room(|| {
        let resolved = resolve(query, policy, search_path, constants).map_err(Error::Resolve)?;
        let analyzed =
            analyze(resolved, policy, &terms.session_settings, effort).map_err(Error::Analyze)?;
        rewrite(&analyzed, policy, terms).map_err(Error::Rewrite)
    })
}

/// A statement at the start of its road.
enum Opened {
    /// About the catalogs: what the shadow is asked.
    Catalogs(Query),
    /// As PostgreSQL types it.
    Question(Query, Description),
}

impl Engine {
    /// Noise comes from the operating system's CSPRNG.
    pub fn new(
        policy: Policy,
        backend: Backend,
        shadow: Shadow,
        ledger: Ledger,
        database: String,
        server_version: String,
    ) -> Self {
        let sampler: MakeSampler = Arc::new(|| Box::new(OsRandomness::new()));
        let (failures, turns, meter, lane) = Default::default();
        let (plans, admission, mirrored, changed_rows) = Default::default();
        let server = Server::new(shadow.version());
        Self {
            policy,
            backend,
            shadow,
            ledger,
            sampler,
            failures,
            turns,
            meter,
            lane,
            plans,
            admission,
            mirrored,
            changed_rows,
            server_version,
            server,
            database,
        }
    }

    /// The same, before a server that has told of itself.
    pub fn before(self, server: Server) -> Self {
        Self { server, ..self }
    }

    /// The same as the successor of another engine over the same ledger, which may still have
    /// questions that run: failures, turns and the operator's counts go on.
    ///
    /// # Requires
    /// Both policies have one `limits.failures`.
    pub fn succeeding(self, before: &Self) -> Self {
        assert_eq!(
            self.policy.limits.failures, before.policy.limits.failures,
            "places are counted against one limit"
        );
        let Self {
            failures,
            turns,
            meter,
            lane,
            ..
        } = before;
        Self {
            failures: Arc::clone(failures),
            turns: Arc::clone(turns),
            meter: Arc::clone(meter),
            lane: Arc::clone(lane),
            ..self
        }
    }

    /// The same, knowing which public tables the shadow has the rows of.
    pub fn mirroring(self, mirrored: &[CopiedTable]) -> Self {
        let rows = |table: &Table| {
            mirrored
                .iter()
                .find(|m| m.schema == table.schema && m.table == table.name)
                .map(|m| m.rows)
        };
        let known = self
            .policy
            .tables
            .iter()
            .enumerate()
            .filter_map(|(at, table)| Some((TableId(at), rows(table)?)));
        let mirrored = known.collect();
        Self { mirrored, ..self }
    }

    /// The same, over a policy that rests on what searches found: each role pays for these before
    /// its first question.
    pub fn resting_on(self, found: Vec<Found>) -> Self {
        Self {
            admission: SearchPayment::new(found),
            ..self
        }
    }

    /// The same with another noise source: for tests, which hold it up against PostgreSQL without
    /// noise. No command, setting or feature leads here.
    pub fn with_sampler(self, sampler: MakeSampler) -> Self {
        Self { sampler, ..self }
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether every part that a question needs answers now; else which one does not.
    ///
    /// # Errors
    /// The name of the part.
    pub async fn ready(&self) -> Result<(), &'static str> {
        if !self.backend.answers().await {
            return Err("the database");
        }
        if !self.shadow.answers().await {
            return Err("the shadow");
        }
        self.ledger
            .balance_owner()
            .await
            .map(drop)
            .map_err(|_| "the ledger")
    }

    /// Tables of the policy whose definition is no longer what the policy was checked against:
    /// questions of them are refused until it is reloaded.
    ///
    /// # Errors
    /// Where the database cannot be asked; the text is for the operator.
    pub async fn changed_tables(&self) -> Result<Vec<String>, String> {
        let known: Vec<(u32, &str)> = self
            .policy
            .tables
            .iter()
            .map(|table| (table.oid, table.fingerprint.as_str()))
            .collect();
        let changed = self.backend.changed(&known).await?;
        let tables = self
            .policy
            .tables
            .iter()
            .filter(|table| changed.contains(&table.oid));
        Ok(tables
            .map(|table| format!("{}.{}", table.schema, table.name))
            .collect())
    }

    /// Connections in use and at most, towards the database and in the shadow.
    pub fn pools(&self) -> [(&'static str, (usize, usize)); 2] {
        [
            ("database", self.backend.used()),
            ("shadow", self.shadow.used()),
        ]
    }

    /// Stops what the engine started; the ledger needs no goodbye.
    pub async fn stop(self) {
        self.shadow.stop().await;
    }

    /// Plans for a role as its accounts stand now; the plan of a question like in everything is
    /// that question's. Free, but for what the policy's searches found, which a role pays once.
    ///
    /// # Errors
    /// As [`plan`]; 53400 where the role cannot pay for what the policy rests on; 22023 for an
    /// epsilon above the policy's ceiling.
    pub async fn plan(
        &self,
        requester: &Requester,
        query: &Query,
    ) -> Result<(Arc<Plan>, Balances), Error> {
        let planned = self.planned(requester, query).await;
        // An error too may tell what was found.
        if !planned
            .as_ref()
            .is_ok_and(|(plan, _)| search_payment::tells_nothing(plan))
        {
            self.admitted(&requester.role).await?;
        }
        planned.and_then(|(plan, balances)| self.check_mirrored(&plan).map(|()| (plan, balances)))
    }

    /// A table that is empty in the shadow is not answered from there.
    fn check_mirrored(&self, plan: &Plan) -> Result<(), Error> {
        let Some(id) = plan
            .public_tables()
            .iter()
            .find(|id| self.mirrored.get(id) == Some(&None))
        else {
            return Ok(());
        };
        let Table { schema, name, .. } = &self.policy.tables[id.0];
        Err(Error::Resolve(
            Refusal::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!(
                    "public table {schema}.{name} \
                has \
                more rows than the policy's limits.mirror_rows"
                ),
            )
            .detail(
                "Alone, and beside released values, public tables are answered from a \
                    copy.",
            )
            .hint(
                "Join it to the private rows, or ask the data owner to raise \
                    limits.mirror_rows.",
            ),
        ))
    }

    async fn planned(
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
            .map_err(|e| internal("ledger", &e))?;
        let role = AccountState {
            cap: balances.role.cap,
            spent: balances.role.spent,
        };
        // Of the owner's account its cap alone: which noise is drawn is shown, and what all have
        // spent is not.
        let owner = AccountState {
            cap: balances.owner.cap,
            spent: Loss::ZERO,
        };
        let asked = self.asked(requester, query, vec![role, owner]);
        let free = || self.plans.find(&self.asked(requester, query, Vec::new()));
        if let Some(plan) = free().or_else(|| self.plans.find(&asked)) {
            return Ok((plan, balances));
        }
        let plan = Arc::new(self.planned_in_turn(requester, query, &asked).await?);
        self.plans.keep(asked, &plan);
        Ok((plan, balances))
    }

    /// Plans a short statement at once where that is little work. Whatever the text, more waits for
    /// the role's turn, and is held in the common stock of memory.
    async fn planned_in_turn(
        &self,
        requester: &Requester,
        query: &Query,
        asked: &PlanKey,
    ) -> Result<Plan, Error> {
        let plan = |effort: &Arc<PlanningEffort>| {
            plan_within(
                query,
                &self.policy,
                &requester.search_path,
                &asked.constants,
                &asked.terms,
                effort,
            )
        };
        if Size::of(query) == Size::Small {
            let effort = Arc::new(PlanningEffort::small());
            // The others' work does not wait on this thread for it.
            let planned = aside(|| plan(&effort));
            if !effort.is_spent() {
                return planned;
            }
        }
        let turn = self.lane.turn(&requester.role, Size::Large).await;
        let _held = requester.share.hold(PLANNING_BYTES).map_err(Error::Parse)?;
        turn.work(|| plan(&Arc::default()))
    }

    /// The plan, where the question was planned before and costs nothing however the accounts
    /// stand.
    fn planned_free(&self, requester: &Requester, query: &Query) -> Option<Arc<Plan>> {
        requester.session_settings.within(&self.policy).ok()?;
        self.plans
            .find(&self.asked(requester, query, Vec::new()))
            .filter(|plan| search_payment::tells_nothing(plan) && self.check_mirrored(plan).is_ok())
    }

    fn delta(&self, role: &str) -> f64 {
        self.policy
            .role(role)
            .map_or(self.policy.privacy.budget.delta, |r| r.budget.delta)
    }

    fn asked(&self, requester: &Requester, query: &Query, accounts: Vec<AccountState>) -> PlanKey {
        let epsilon = requester
            .session_settings
            .epsilon
            .unwrap_or(self.policy.privacy.epsilon_default);
        let terms = Terms {
            epsilon,
            delta: self.delta(&requester.role),
            accounts,
            session_settings: requester.session_settings,
        };
        let constants = Constants {
            session: self.session(requester),
            ..constants(requester, &self.policy)
        };
        PlanKey::new(query, &requester.search_path, constants, terms)
    }

    /// What a session is told of itself and of the server.
    fn session(&self, requester: &Requester) -> Session {
        let Server {
            version, started, ..
        } = &self.server;
        Session {
            process: requester.process,
            database: self.database.clone(),
            version: version.clone(),
            started: started.clone(),
        }
    }

    /// Parameters as constants of their types, read by PostgreSQL itself; with what they take of
    /// memory.
    async fn bound(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
    ) -> Result<(Query, HeldMemory), Error> {
        if parameters.len() != arguments.len() {
            let counts = format!(
                "bind message supplies {} parameters, but the statement requires {}",
                arguments.len(),
                parameters.len()
            );
            return Err(Error::Parse(Refusal::new("08P01", counts)));
        }
        if parameters.is_empty() {
            return Ok((query.clone(), requester.share.begin()));
        }
        let texts = self
            .shadow
            .normalize_arguments(requester, parameters, arguments)
            .await
            .map_err(shadow_error)?;
        let bytes: usize = texts.iter().flatten().map(String::len).sum();
        let held = requester.share.hold(COPIES * bytes).map_err(Error::Parse)?;
        let bound = parameters
            .iter()
            .zip(texts)
            .map(|(oid, text)| {
                Ok(Bound {
                    data_type: parameter_type(*oid)?,
                    text,
                })
            })
            .collect::<Result<Vec<_>, _>>();
        let bound = bound.map_err(Error::Parse)?;
        let turn = self
            .lane
            .turn(&requester.role, Size::of(query).max(Size::of_bytes(bytes)))
            .await;
        turn.work(|| query.bind(&bound))
            .map(|query| (query, held))
            .map_err(Error::Parse)
    }

    /// Tells statements about the catalogs from questions, which PostgreSQL reads once.
    async fn opened(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> Result<Opened, Error> {
        let size = Size::of(query);
        let opening = self.lane.turn(&requester.role, size).await;
        let query = opening.work(|| {
            let query = query.within(&self.database);
            check_dotted(&query, self.shadow.callable()).map_err(Error::Resolve)?;
            let statement = self.catalogs(requester, &query)?;
            let sql = query.to_sql();
            Ok::<_, Error>((query, sql, statement))
        });
        let (query, sql) = match query? {
            (_, _, Some(statement)) => return Ok(Opened::Catalogs(statement)),
            (query, sql, None) => (query, sql),
        };
        match self.shadow.describe(requester, &sql, parameters).await {
            Ok(description) => Ok(Opened::Question(query, description)),
            Err(error) => Err(self
                .lane
                .turn(&requester.role, size)
                .await
                .work(|| described(&query, error))),
        }
    }

    async fn described(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> Result<Description, Error> {
        let (query, description) = match self.opened(requester, query, parameters).await? {
            Opened::Catalogs(statement) => {
                return self
                    .describe_catalogs(requester, &statement, parameters)
                    .await;
            }
            Opened::Question(query, description) => (query, description),
        };
        if !query.has_parameters() {
            // What cannot be answered is refused at Parse already.
            self.plan_or_preview(requester, &query).await?;
        }
        Ok(description)
    }

    async fn answer_question(
        &self,
        requester: &Requester,
        query: &Query,
        (parameters, arguments, formats): (&[u32], &[Argument], &[Format]),
        pace: &Timing,
        tally: &Tally,
    ) -> Result<(Answer, Verdict), Error> {
        let mut laps = self.meter.laps();
        let planning = async {
            let (query, description) = match self.opened(requester, query, parameters).await? {
                Opened::Catalogs(statement) => {
                    let answer = self
                        .answer_catalogs(requester, &statement, parameters, arguments, formats)
                        .await?;
                    return Ok(ControlFlow::Break((answer, Verdict::Answered)));
                }
                Opened::Question(query, description) => (query, description),
            };
            let (bound, _held) = self.bound(requester, &query, parameters, arguments).await?;
            let (plan, is_preview) = self.plan_or_preview(requester, &bound).await?;
            self.check_shape(requester, &plan, &description).await?;
            Ok(ControlFlow::Continue((
                query,
                description,
                plan,
                is_preview,
            )))
        };
        // Nothing of the question is charged yet (what a role pays once for searches stays paid),
        // and no private row read.
        let planned: ControlFlow<_, _> = tokio::select! {
            planned = planning => planned?,
            () = pace.asked().cancelled() => return Err(Error::Cancelled),
        };
        let (query, description, plan, is_preview) = match planned {
            ControlFlow::Break(answered) => return Ok(answered),
            ControlFlow::Continue(planned) => planned,
        };
        laps.lap("plan");
        let answered = pace
            .run(self.answered(requester, &plan, pace, tally))
            .await?;
        laps.lap("release");
        let views = self.views(requester, &plan).await?;
        let statement =
            aside(|| finish::finish(&plan, &answered.released, &views)).map_err(Error::Rewrite)?;
        let Weighed { rows, held } = tokio::select! {
            weighed = self.shadow.run(requester, &statement, &description, formats) => weighed.map_err(shadow_error)?,
            () = pace.asked().cancelled() => return Err(Error::Cancelled),
        };
        laps.lap("finish");
        let mut notices = Vec::new();
        if requester.session_settings.notices != Notices::Off && !plan.loss().is_zero() {
            let balances = self
                .ledger
                .balances(&requester.role)
                .await
                .map_err(|e| internal("ledger", &e))?;
            notices.extend(notice::of_answer(
                &plan,
                &answered,
                requester.session_settings.notices,
                &balances,
                (self.delta(&requester.role), &self.policy),
            ));
        }
        if requester.session_settings.notices != Notices::Off {
            notices.extend(notice::of_clock(&plan, &query, &self.policy));
        }
        notices.extend(is_preview.then(preview::notice));
        let verdict = if !plan.loss().is_zero() && answered.paid.is_zero() {
            Verdict::Reused
        } else {
            Verdict::Answered
        };
        let warnings = self.of_changed_rows(&plan);
        Ok((
            Answer {
                columns: description.columns,
                rows,
                notices,
                warnings,
                held,
            },
            verdict,
        ))
    }

    async fn explained(
        &self,
        requester: &Requester,
        query: &Query,
        (parameters, arguments): (&[u32], &[Argument]),
        json: bool,
    ) -> Result<Vec<String>, Error> {
        let (query, description) = match self.opened(requester, query, parameters).await? {
            Opened::Catalogs(statement) => {
                self.describe_catalogs(requester, &statement, parameters)
                    .await?;
                return Ok(system_catalog::explain(json));
            }
            Opened::Question(query, description) => (query, description),
        };
        let (query, _held) = self.bound(requester, &query, parameters, arguments).await?;
        let (plan, balances) = self.plan(requester, &query).await?;
        self.check_shape(requester, &plan, &description).await?;
        let recalled = self
            .recall(
                requester,
                &plan,
                &mut MiddleQueries::new(self, requester, &plan),
            )
            .await?;
        let told = if json { explain::json } else { explain::text };
        Ok(told(
            &plan,
            &requester.session_settings,
            &explain::Due::of(&plan, recalled),
            &balances.role,
            (self.delta(&requester.role), &self.policy),
        ))
    }
}

impl Service for Engine {
    fn verifier(&self, role: &str) -> Option<Secret> {
        self.policy.role(role).map(|r| r.verifier.clone())
    }

    fn database(&self) -> String {
        self.database.clone()
    }

    fn server_version(&self) -> String {
        self.server_version.clone()
    }

    fn search_path(&self, role: &str) -> String {
        start_path(&self.policy, &self.server, role)
    }

    fn session_settings(&self, role: &str) -> SessionSettings {
        self.policy
            .role(role)
            .map_or_else(SessionSettings::default, |r| r.session_settings)
    }

    fn certificate(&self, role: &str) -> Certificate {
        self.policy
            .role(role)
            .map_or(Certificate::Optional, |r| r.certificate)
    }

    fn admits(&self, session_settings: &SessionSettings) -> Result<(), Refusal> {
        session_settings.within(&self.policy)
    }

    fn in_force(&self, session_settings: &SessionSettings, name: &str) -> String {
        session_settings.in_force(name, &self.policy)
    }

    fn places(&self) -> TablePlaces {
        let limits = &self.policy.limits;
        TablePlaces {
            total: limits.connections,
            per_role: limits.connections_per_role,
            per_address: limits.connections_per_address,
        }
    }

    fn quantum(&self) -> Option<Duration> {
        self.policy.quantum
    }

    fn meter(&self) -> Arc<Metrics> {
        Arc::clone(&self.meter)
    }

    fn lane(&self) -> Arc<PlanningLimit> {
        Arc::clone(&self.lane)
    }

    async fn describe(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> Result<Description, Error> {
        let described = self.described(requester, query, parameters).await;
        if described.is_err() {
            // Else it is recorded when it is answered.
            self.recorded(
                &requester.role,
                Some(query),
                Verdict::Answered,
                described.as_ref(),
                &Tally::new(),
            )
            .await;
        }
        described
    }

    async fn answer(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        formats: &[Format],
        cancel: CancellationToken,
    ) -> Result<Answer, Error> {
        let (pace, tally) = (Timing::new(self.policy.quantum, cancel), Tally::new());
        let answered = self
            .answer_question(
                requester,
                query,
                (parameters, arguments, formats),
                &pace,
                &tally,
            )
            .await;
        let verdict = answered
            .as_ref()
            .map_or(Verdict::Answered, |(_, verdict)| *verdict);
        self.recorded(
            &requester.role,
            Some(query),
            verdict,
            answered.as_ref(),
            &tally,
        )
        .await;
        answered.map(|(answer, _)| answer)
    }

    async fn to_binary(
        &self,
        requester: &Requester,
        oids: &[u32],
        rows: Vec<Vec<Option<Bytes>>>,
    ) -> Result<Vec<Vec<Option<Bytes>>>, Error> {
        self.shadow
            .to_binary(requester, oids, rows)
            .await
            .map_err(shadow_error)
    }

    async fn explain(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        json: bool,
    ) -> Result<Vec<String>, Error> {
        let explained = self
            .explained(requester, query, (parameters, arguments), json)
            .await;
        self.recorded(
            &requester.role,
            Some(query),
            Verdict::Explained,
            explained.as_ref(),
            &Tally::new(),
        )
        .await;
        explained
    }

    async fn unread(&self, role: &str, refusal: &Refusal) {
        let refused = Error::Parse(refusal.clone());
        self.recorded::<()>(role, None, Verdict::Refused, Err(&refused), &Tally::new())
            .await;
    }
}

/// The session's constants, the clock read once a statement and rounded down to the policy's grain.
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
        session: Session::default(),
        is_utc,
        signs_each: requester
            .setting("IntervalStyle")
            .is_none_or(|style| !style.eq_ignore_ascii_case("sql_standard")),
        prints_plainly: requester.prints_plainly(),
    }
}

/// An error of the analyst's own statement, as we print it: its place is found again in their text.
fn described(query: &Query, error: ShadowError) -> Error {
    match error {
        ShadowError::Refusal(refusal) => {
            let place = refusal
                .position
                .and_then(|printed| crate::parse::with_room(|| query.place_of_printed(printed)));
            Error::Shadow(refusal.at(place))
        }
        other => shadow_error(other),
    }
}

fn shadow_error(error: ShadowError) -> Error {
    match error {
        // The position is one in our own printing of the statement, not in the client's text.
        ShadowError::Refusal(refusal) => Error::Shadow(refusal.at(None)),
        other @ (ShadowError::Lost(_) | ShadowError::Failed(_) | ShadowError::Start(_)) => {
            internal("shadow", &other)
        }
    }
}

/// Logs the cause under a number that the client is told.
fn internal(stage: &str, cause: &dyn std::fmt::Display) -> Error {
    let incident = format!("{:016x}", rand::random::<u64>());
    tracing::error!(stage, incident, %cause, "internal error");
    Error::Internal { incident }
}
