//! The interface of the engine to the edges: requests, bound values, answers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{Metrics, PlanningLimit, SessionCount, TableWriter, WriteRecord};
use crate::error::Error;
use crate::ledger::Record;
use crate::memory::HeldMemory;
use crate::parse::{ExplainFormat, Query, Statement};
use crate::policy::{Certificate, Secret, SessionSettings};
use crate::refusal::{Refusal, reason};
use crate::shadow::{Argument, ColumnDescription, Description, Format, Requester};

/// An answered query: only released and public values.
#[derive(Debug)]
pub struct Answer {
    pub columns: Vec<ColumnDescription>,
    /// The rows. Each value is in the format that was requested for its column.
    pub rows: Vec<Vec<Option<Bytes>>>,
    /// Texts that the client gets as NOTICE, before the rows.
    pub notices: Vec<String>,
    /// Warnings, which the client gets before the notices.
    pub warnings: Vec<Refusal>,
    /// The memory of the rows, of the requester's share.
    pub held: HeldMemory,
}

/// The result of an operator's command.
#[derive(Debug)]
pub struct Commanded {
    /// PostgreSQL's command tag.
    pub tag: &'static str,
    pub rows: Vec<Vec<String>>,
}

/// How many connections may be open at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub total: u32,
    pub per_role: u32,
    pub per_address: u32,
}

/// The engine as the wire uses it. It has two implementations: [`super::Engine`] and the double of
/// the wire tests.
pub trait Service: Send + Sync + 'static {
    /// SCRAM verifier of a role (`SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`); `None` for
    /// an unknown role.
    fn verifier(&self, role: &str) -> Option<Secret>;
    /// The verifiers of everybody who may log in at this port, so that an unknown name takes as
    /// long as a known one.
    fn verifiers(&self) -> Vec<Secret> {
        Vec::new()
    }
    /// The database name that clients may connect to.
    fn database(&self) -> String;
    /// For ParameterStatus, for example `15.18`.
    fn server_version(&self) -> String;
    /// The search_path that sessions of a role start with, as SHOW prints it.
    fn search_path(&self, role: &str) -> String;
    /// The settings that a role's sessions start with.
    fn session_settings(&self, role: &str) -> SessionSettings;
    /// Whether sessions of a role need a certificate as well as the password.
    fn certificate(&self, role: &str) -> Certificate;
    /// The value of a setting that is in force under these session settings, for SHOW.
    fn in_force(&self, session_settings: &SessionSettings, name: &str) -> String {
        session_settings.show(name)
    }
    /// 22023 for a setting above the policy's ceiling.
    fn admits(&self, session_settings: &SessionSettings) -> Result<(), Refusal>;
    fn connection_limits(&self) -> ConnectionLimits;
    /// The quantum that times of answers about private rows are rounded up to; see
    /// [`super::patience`].
    fn quantum(&self) -> Option<Duration>;
    /// The operator's metrics.
    fn meter(&self) -> Arc<Metrics>;
    /// Counts a session among those of roles, while the result lives. `None`: the session belongs
    /// to no role.
    fn count_session(&self, role: &str) -> Option<SessionCount> {
        Some(self.meter().session(role))
    }
    /// The statements of a role's text, as [`parse`] reads them.
    ///
    /// # Errors
    /// Those of [`parse`].
    fn read_text(&self, role: &str, text: &str) -> Result<Vec<Statement>, Refusal>;
    /// The limit on large statements.
    fn planning_limit(&self) -> Arc<PlanningLimit>;
    /// Parameter and column types. `parameters` holds the type OIDs that the client declared;
    /// PostgreSQL infers those that are 0 or missing.
    fn describe(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> impl Future<Output = Result<Description, Error>> + Send;
    /// Plans, charges, runs and releases. `formats` is empty (all text), holds one format for all
    /// columns, or one for each. `parameters` are the OIDs that `describe` returned.
    fn answer(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        formats: &[Format],
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;
    /// Released values in PostgreSQL's binary format, from the texts printed for this requester.
    /// `oids` are the types of a row's values.
    fn to_binary(
        &self,
        requester: &Requester,
        oids: &[u32],
        rows: Vec<Vec<Option<Bytes>>>,
    ) -> impl Future<Output = Result<Vec<Vec<Option<Bytes>>>, Error>> + Send;
    /// `EXPLAIN`: lines of text; free. It ends when `cancel` does.
    fn explain(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        format: ExplainFormat,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send;
    /// The keyed digest by which records and the log name a statement.
    fn digest(&self, query: &Query) -> String;
    /// Records an event at the edge.
    fn record(&self, record: Record) -> impl Future<Output = ()> + Send;
    /// What the role may write; `None`: nothing.
    fn writer(&self, _: &str) -> Option<Arc<TableWriter>> {
        None
    }
    /// Records a write, without its values.
    fn record_write(&self, _: &Requester, _: WriteRecord) -> impl Future<Output = ()> + Send {
        async {}
    }
    /// Whether the text is a command of an operator, which the service answers itself.
    fn operates(&self, _: &str) -> bool {
        false
    }
    /// The columns of a command's rows; `None` where it has no rows.
    ///
    /// # Errors
    /// 42601 for a command of another form.
    fn command_columns(&self, _: &str) -> Result<Option<Vec<&'static str>>, Refusal> {
        Ok(None)
    }
    /// Runs a command of an operator.
    fn operate(
        &self,
        _: &Requester,
        _: &str,
    ) -> impl Future<Output = Result<Commanded, Refusal>> + Send {
        let message = "commands of operators are answered by the admin database alone";
        std::future::ready(Err(Refusal::new(reason::OPERATOR_COMMAND, message)))
    }
    /// Records a text that could not be read as a statement.
    fn unread(&self, requester: &Requester, refusal: &Refusal) -> impl Future<Output = ()> + Send {
        let _ = (requester, refusal);
        async {}
    }
}
