//! The engine in force, which a reload of the policy replaces at one moment. Running questions
//! finish under the engine that they began with.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{
    Answer, Argument, ConnectionLimits, Description, Engine, Format, Metrics, PlanningLimit,
    Requester, Service, TableWriter, WriteRecord,
};
use crate::error::Error;
use crate::ledger::Record;
use crate::parse::{ExplainFormat, Query, Statement};
use crate::policy::{Certificate, Secret, SessionSettings};
use crate::refusal::{Refusal, reason};

pub struct Reloadable {
    current: RwLock<Arc<Engine>>,
    /// Each question holds it for reading. A reload that changes what questions rely on waits until
    /// no question is running.
    gate: tokio::sync::RwLock<()>,
    /// Replaced engines, which may still answer questions that began before.
    retired: Mutex<Vec<Weak<Engine>>>,
}

impl Reloadable {
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            current: RwLock::new(engine),
            gate: tokio::sync::RwLock::default(),
            retired: Mutex::default(),
        }
    }

    pub fn current(&self) -> Arc<Engine> {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sends new questions to `next`, and returns the engine before it.
    pub fn replace(&self, next: Arc<Engine>) -> Arc<Engine> {
        let before = std::mem::replace(
            &mut *self.current.write().unwrap_or_else(PoisonError::into_inner),
            next,
        );
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.retain(|engine| engine.strong_count() > 0);
        retired.push(Arc::downgrade(&before));
        before
    }

    /// Writes the answers of replaced engines to the ledger.
    pub async fn flush_retired(&self) {
        let retired: Vec<Arc<Engine>> = {
            let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            retired.iter().filter_map(Weak::upgrade).collect()
        };
        for engine in retired {
            engine.ledger().flush().await;
        }
    }

    /// Waits for running questions, and lets no other begin while the guard lives.
    pub async fn quiet(&self) -> tokio::sync::RwLockWriteGuard<'_, ()> {
        self.gate.write().await
    }

    /// The engine for one question of this role, and the right to ask it while the guard lives.
    ///
    /// # Errors
    /// 42501 where the role is no longer in the policy.
    pub async fn enter(
        &self,
        requester: &Requester,
    ) -> Result<(Arc<Engine>, tokio::sync::RwLockReadGuard<'_, ()>), Error> {
        let passing = self.gate.read().await;
        Ok((self.engine(requester)?, passing))
    }

    /// The engine for one question of this role.
    fn engine(&self, requester: &Requester) -> Result<Arc<Engine>, Error> {
        let engine = self.current();
        if engine.policy().role(&requester.role).is_some() {
            return Ok(engine);
        }
        let refusal = Refusal::new(
            reason::ROLE_REMOVED,
            format!("role \"{}\" is no longer in the policy", requester.role),
        );
        Err(Error::Rewrite(refusal.detail(
            "The policy was reloaded since this session began.",
        )))
    }
}

impl Service for Reloadable {
    fn verifier(&self, role: &str) -> Option<Secret> {
        self.current().verifier(role)
    }

    fn verifiers(&self) -> Vec<Secret> {
        self.current().verifiers()
    }

    fn database(&self) -> String {
        self.current().database()
    }

    fn server_version(&self) -> String {
        self.current().server_version()
    }

    fn quantum(&self) -> Option<Duration> {
        self.current().quantum()
    }

    fn connection_limits(&self) -> ConnectionLimits {
        self.current().connection_limits()
    }

    fn search_path(&self, role: &str) -> String {
        self.current().search_path(role)
    }

    fn session_settings(&self, role: &str) -> SessionSettings {
        self.current().session_settings(role)
    }

    fn certificate(&self, role: &str) -> Certificate {
        self.current().certificate(role)
    }

    fn admits(&self, session_settings: &SessionSettings) -> Result<(), Refusal> {
        self.current().admits(session_settings)
    }

    fn meter(&self) -> Arc<Metrics> {
        self.current().meter()
    }

    fn read_text(&self, role: &str, text: &str) -> Result<Vec<Statement>, Refusal> {
        self.current().read_text(role, text)
    }

    fn planning_limit(&self) -> Arc<PlanningLimit> {
        self.current().planning_limit()
    }

    async fn describe(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> Result<Description, Error> {
        let _passing = self.gate.read().await;
        self.engine(requester)?
            .describe(requester, query, parameters)
            .await
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
        let _passing = self.gate.read().await;
        self.engine(requester)?
            .answer(requester, query, parameters, arguments, formats, cancel)
            .await
    }

    async fn to_binary(
        &self,
        requester: &Requester,
        oids: &[u32],
        rows: Vec<Vec<Option<Bytes>>>,
    ) -> Result<Vec<Vec<Option<Bytes>>>, Error> {
        let _passing = self.gate.read().await;
        self.engine(requester)?
            .to_binary(requester, oids, rows)
            .await
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
        let _passing = self.gate.read().await;
        self.engine(requester)?
            .explain(requester, query, parameters, arguments, format, cancel)
            .await
    }

    fn digest(&self, query: &Query) -> String {
        self.current().digest(query)
    }

    fn writer(&self, role: &str) -> Option<Arc<TableWriter>> {
        self.current().writer(role)
    }

    async fn record_write(&self, requester: &Requester, record: WriteRecord) {
        self.current().record_write(requester, record).await;
    }

    async fn record(&self, record: Record) {
        self.current().record(record).await;
    }

    async fn unread(&self, requester: &Requester, refusal: &Refusal) {
        self.current().unread(requester, refusal).await;
    }
}
