//! The order of all stages for one query. The wire and the command line enter here only.

mod agreed_check;
mod answer_errors;
mod budget_left;
mod by_periods;
mod check_words;
mod checkable;
mod checks;
mod constant_answers;
mod curve;
mod declared_holdout;
mod draw_release;
mod earlier_looks;
mod epochs;
mod expected_error;
mod explain;
mod explore;
mod failures;
mod final_rows;
mod first_answer;
mod fits;
mod foresee;
mod group_privacy;
mod holdout_words;
mod holdouts;
mod known_units;
mod made_reports;
mod meaning_of_reports;
mod metrics;
mod middle_queries;
mod monitor_words;
mod monitors;
mod notice;
mod period_form;
mod period_rows;
mod periods_due;
mod plan_cache;
mod planning;
mod planning_limit;
mod policy_summary;
mod prepaid;
mod prepaid_standing;
mod preview;
mod price;
mod printed_rows;
mod promises;
mod public_changes;
mod public_matches;
mod question;
mod reachability;
mod read_back;
mod read_texts;
mod recent_work;
mod reload;
mod reuse;
mod rollup;
mod run;
mod run_error;
mod search_path;
mod search_payment;
mod service;
mod shape_texts;
mod shown_periods;
mod single_flight;
mod stage_errors;
mod statement_log;
mod statement_shape;
mod summaries;
mod system_catalog;
mod timing;
mod unheld;
mod useless;
mod views;
mod widen;
mod worth;
mod writing;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

pub use crate::memory::{HeldMemory, MemoryBudget, MemoryReading, MemoryShare};
pub use crate::shadow::{Argument, ColumnDescription, Description, Format, Requester, fit_as_text};
pub use curve::{Bought, Curve, CurvePoint, curve};
pub use expected_error::{Within, after, percent};
pub use explore::{Explored, explain};
pub use group_privacy::AccountPromise;
pub use meaning_of_reports::meaning_of_reports;
pub use metrics::{Metrics, QuestionEnd, QuestionOutcome, SessionCount};
pub use notice::{Sql, describe as describe_plan, three_digits};
pub use period_form::{plan_batch, plan_draw};
pub use planning::{accounts, constants, plan};
pub use planning_limit::{PlanningLimit, PlanningPermit, StatementSize, aside};
pub use policy_summary::summary;
pub use price::{Agreed, AtMost, AtPrice, FirstStep, QuestionPrice, SearchesDue, adds_no_draw};
pub use promises::promises;
pub use reachability::{Dependency, Reach, Reached};
pub use reload::Reloadable;
pub use search_path::start_path;
pub use service::{Answer, Commanded, ConnectionLimits, Service};
pub use summaries::{
    SetsQuestion, SummaryMaker, SummaryQuestion, UnsettledSets, sets_in_words, settle_sets,
};
pub use timing::answer_deadline;
pub use useless::{QuestionPlan, refuse_useless};
pub use worth::{
    AdviceSubject, ExpectedAnswer, Pricing, Worth, WorthAggregate, answers, role_worth,
};
pub use writing::{
    CopyRows, CopySink, SentRows, SentValue, TableWriter, TransactionModes, WritePlan, WriteRecord,
    WriterLease,
};

use constant_answers::ConstantKey;
use epochs::Epochs;
use failures::Failures;
use preview::MadeUpPreviews;
use public_matches::PublicMatches;
use recent_work::RecentWork;
use search_payment::SearchPayment;
use single_flight::SingleFlight;
use stage_errors::{error_in_text, internal, ledger_failed, shadow_error};
use statement_log::StatementFacts;
use statement_shape::KnownNames;
use summaries::{Selections, Summaries};
use timing::Timing;

use crate::catalog::BackendServer;
use crate::error::Error;
use crate::execute::Backend;
use crate::ir::TableId;
use crate::ledger::{Found, Ledger, Record, Verdict};
use crate::mechanism::{OsRandomness, Sampler};
use crate::parse::{ExplainFormat, Query, Statement};
use crate::policy::{Certificate, Policy, Secret, SessionSettings, Table};
use crate::postgres::PoolUse;
use crate::refusal::Refusal;
use crate::shadow::{CopiedTable, Shadow, ShadowLock};

/// About how many copies of a statement are in memory while it is resolved and printed.
pub const COPIES: usize = 4;

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
    single_flight: Arc<SingleFlight>,
    monitors: Epochs,
    holdouts: Epochs,
    metrics: Arc<Metrics>,
    planning_limit: Arc<PlanningLimit>,
    recent: RecentWork,
    admission: SearchPayment,
    summaries: Summaries,
    made_up_previews: MadeUpPreviews,
    /// Rows of each public table in the shadow; `None` where they were too many for it.
    copied: HashMap<TableId, Option<u64>>,
    public_matches: PublicMatches,
    /// Public tables whose rows are known to have changed since the policy was loaded.
    changed_rows: Mutex<BTreeSet<TableId>>,
    server_version: String,
    server: BackendServer,
    database: String,
    /// When the policy was loaded.
    loaded: SystemTime,
    /// The names that a shape may have; `None` where the policy records no shapes.
    known_names: Option<KnownNames>,
    /// What roles write, where some do.
    writer: Option<Arc<TableWriter>>,
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
        let (failures, single_flight, metrics, planning_limit) = Default::default();
        let (admission, copied, public_matches, changed_rows) = Default::default();
        let known_names = policy.records_shape.then(|| KnownNames::of(&policy));
        let writer = TableWriter::of(&policy);
        Self {
            server: BackendServer::new(shadow.version()),
            policy,
            backend,
            shadow,
            ledger,
            sampler,
            failures,
            single_flight,
            monitors: Epochs::default(),
            holdouts: Epochs::default(),
            metrics,
            planning_limit,
            recent: RecentWork::default(),
            admission,
            summaries: Summaries::default(),
            made_up_previews: MadeUpPreviews::default(),
            copied,
            public_matches,
            changed_rows,
            server_version,
            database,
            loaded: SystemTime::now(),
            known_names,
            writer,
        }
    }

    /// The engine with the facts that the database server states about itself.
    pub fn with_server(self, server: BackendServer) -> Self {
        Self { server, ..self }
    }

    /// Makes this engine the successor of another one over the same ledger, which may still be
    /// running questions. Failures, questions under way and metrics go on.
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
            single_flight,
            metrics,
            planning_limit,
            ..
        } = before;
        if let Some(file) = before.ledger.record_file() {
            self.ledger.copy_records_to(file);
        }
        Self {
            failures: Arc::clone(failures),
            single_flight: Arc::clone(single_flight),
            metrics: Arc::clone(metrics),
            planning_limit: Arc::clone(planning_limit),
            ..self
        }
    }

    /// The engine with the public tables whose rows the shadow has.
    pub fn with_copied(self, copied: &[CopiedTable]) -> Self {
        let rows = |table: &Table| {
            copied
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
        let copied = known.collect();
        Self { copied, ..self }
    }

    /// The engine over a policy that uses the findings of searches: each role pays for them before
    /// its first question.
    pub fn with_findings(self, found: Vec<Found>) -> Self {
        Self {
            admission: SearchPayment::new(found),
            ..self
        }
    }

    /// The engine over a policy with selected sets ([`settle_sets`]): each role of a summary pays
    /// for them before it sees what depends on them.
    pub fn with_selected_sets(self, found: Vec<Option<Found>>) -> Self {
        let mut summaries = self.summaries;
        summaries.selections = Selections::new(found);
        Self { summaries, ..self }
    }

    /// The engine with another noise source: for tests, which compare answers without noise with
    /// PostgreSQL's. No command, setting or feature leads here.
    pub fn with_sampler(self, sampler: MakeSampler) -> Self {
        Self { sampler, ..self }
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The lock on a named shadow, for the engine that comes next.
    pub fn shadow_hold(&self) -> Option<Arc<ShadowLock>> {
        self.shadow.hold()
    }

    /// When the policy in force was loaded.
    pub fn loaded_at(&self) -> SystemTime {
        self.loaded
    }

    /// Tables whose definition has changed since the policy was checked. Questions on them are
    /// refused until the policy is reloaded.
    ///
    /// # Errors
    /// Where the database cannot be asked. The text is for the operator.
    pub async fn changed_tables(&self) -> Result<Vec<String>, String> {
        let known: Vec<_> = self
            .policy
            .tables
            .iter()
            .map(|table| (table.oid, &table.fingerprint))
            .collect();
        let changed = self.backend.changed_definitions(&known).await?;
        let tables = self
            .policy
            .tables
            .iter()
            .filter(|table| changed.contains(&table.oid));
        Ok(tables
            .map(|table| format!("{}.{}", table.schema, table.name))
            .collect())
    }

    /// Connections to the database and to the shadow.
    pub fn pools(&self) -> [(&'static str, PoolUse); 2] {
        [
            ("database", self.backend.in_use()),
            ("shadow", self.shadow.in_use()),
        ]
    }

    /// Stops what the engine started. The ledger needs no shutdown.
    pub async fn stop(self) {
        self.shadow.stop().await;
    }
}

impl Service for Engine {
    fn verifier(&self, role: &str) -> Option<Secret> {
        self.policy.role(role).map(|r| r.verifier.clone())
    }

    fn verifiers(&self) -> Vec<Secret> {
        let roles = self.policy.roles.iter().map(|role| &role.verifier);
        let operators = self.policy.operators.iter().map(|who| &who.verifier);
        roles.chain(operators).cloned().collect()
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

    fn connection_limits(&self) -> ConnectionLimits {
        let limits = &self.policy.limits;
        ConnectionLimits {
            total: limits.connections,
            per_role: limits.connections_per_role,
            per_address: limits.connections_per_address,
        }
    }

    fn quantum(&self) -> Option<Duration> {
        self.policy.quantum
    }

    fn meter(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    fn planning_limit(&self) -> Arc<PlanningLimit> {
        Arc::clone(&self.planning_limit)
    }

    fn read_text(&self, role: &str, text: &str) -> Result<Vec<Statement>, Refusal> {
        self.recent.texts.read(role, text)
    }

    async fn describe(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> Result<Description, Error> {
        let described = self.describe_question(requester, query, parameters).await;
        if described.is_err() {
            // Otherwise the statement is recorded when it is answered.
            self.record_end(
                requester,
                Some(query),
                Verdict::Answered,
                described.as_ref(),
                &StatementFacts::new(),
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
        let (timing, facts) = (
            Timing::new(self.policy.quantum, cancel),
            StatementFacts::new(),
        );
        let constant = match parameters.is_empty() && arguments.is_empty() {
            true => ConstantKey::new(query, formats),
            false => None,
        };
        let known = constant
            .as_ref()
            .and_then(|key| self.constant_answer(requester, key));
        let answered = match known {
            Some(answered) => answered.map(|answer| (answer, Verdict::Answered)),
            None => {
                // Boxed: a session's future holds this one, and both are polled on one stack.
                let values = (parameters, arguments, formats);
                Box::pin(self.answer_question(requester, query, values, &timing, &facts)).await
            }
        };
        if let (Some(key), Ok((answer, _))) = (constant, &answered) {
            self.keep_constant(key, answer);
        }
        let verdict = answered
            .as_ref()
            .map_or(Verdict::Answered, |(_, verdict)| *verdict);
        self.record_end(requester, Some(query), verdict, answered.as_ref(), &facts)
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
        format: ExplainFormat,
        cancel: CancellationToken,
    ) -> Result<Vec<String>, Error> {
        let facts = StatementFacts::new();
        let values = (parameters, arguments);
        let explaining = self.explain_question(requester, query, values, format, &facts);
        let explained = tokio::select! {
            explained = explaining => explained,
            () = cancel.cancelled() => Err(Error::Cancelled),
        };
        self.record_end(
            requester,
            Some(query),
            Verdict::Explained,
            explained.as_ref(),
            &facts,
        )
        .await;
        explained
    }

    fn digest(&self, query: &Query) -> String {
        self.ledger.statement_digest(&query.to_sql()).to_string()
    }

    fn writer(&self, role: &str) -> Option<Arc<TableWriter>> {
        self.writer_of(role)
    }

    async fn record_write(&self, requester: &Requester, record: WriteRecord) {
        self.record_written(requester, record).await;
    }

    async fn record(&self, record: Record) {
        self.ledger.record(record).await;
    }

    async fn unread(&self, requester: &Requester, refusal: &Refusal) {
        let refused = Error::Parse(refusal.clone());
        self.record_end::<()>(
            requester,
            None,
            Verdict::Refused,
            Err(&refused),
            &StatementFacts::new(),
        )
        .await;
    }
}
