//! What the edges see of the engine: who asks, what is bound, what comes back.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{Metrics, PlanningLimit};
use crate::error::Error;
use crate::memory::HeldMemory;
use crate::parse::Query;
use crate::policy::{Certificate, Secret, SessionSettings};
use crate::refusal::Refusal;
use crate::shadow::{Argument, ColumnDescription, Description, Format, Requester};

/// An answered query: only released and public values.
#[derive(Debug)]
pub struct Answer {
    pub columns: Vec<ColumnDescription>,
    /// Row major; each value in the format that was asked for its column.
    pub rows: Vec<Vec<Option<Bytes>>>,
    /// Sent to the client as NOTICE, before the rows.
    pub notices: Vec<String>,
    /// Sent as WARNING, before those.
    pub warnings: Vec<Refusal>,
    /// The rows' weight in the asker's stock.
    pub held: HeldMemory,
}

/// How many connections may be held at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablePlaces {
    pub total: u32,
    pub per_role: u32,
    pub per_address: u32,
}

/// What the wire needs of the engine. Two implementations: [`super::Engine`] and the double of the
/// wire tests.
pub trait Service: Send + Sync + 'static {
    /// SCRAM verifier of a role (`SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`); `None` for
    /// an unknown role.
    fn verifier(&self, role: &str) -> Option<Secret>;
    /// The database name that clients may connect to.
    fn database(&self) -> String;
    /// For ParameterStatus, for example `15.18`.
    fn server_version(&self) -> String;
    /// The search_path that sessions of a role start with, as SHOW prints it.
    fn search_path(&self, role: &str) -> String;
    /// What sessions of a role start with.
    fn session_settings(&self, role: &str) -> SessionSettings;
    /// Whether sessions of a role need a certificate beside the password.
    fn certificate(&self, role: &str) -> Certificate;
    /// What queries run with under these wishes, for SHOW.
    fn in_force(&self, session_settings: &SessionSettings, name: &str) -> String {
        session_settings.show(name)
    }
    /// 22023 for a wish past the policy's ceiling.
    fn admits(&self, session_settings: &SessionSettings) -> Result<(), Refusal>;
    fn places(&self) -> TablePlaces;
    /// What the time of answers about private rows is rounded up to; see [`super::patience`].
    fn quantum(&self) -> Option<Duration>;
    /// Where the operator's counts are kept.
    fn meter(&self) -> Arc<Metrics>;
    /// Where large statements take turns.
    fn lane(&self) -> Arc<PlanningLimit>;
    /// Parameter and column types; `parameters` holds type OIDs the client declared (0 or missing:
    /// to be inferred).
    fn describe(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> impl Future<Output = Result<Description, Error>> + Send;
    /// Plans, charges, runs and releases. `formats`: none (all text), one for all, or one a column.
    /// `parameters` are the OIDs `describe` returned.
    fn answer(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        formats: &[Format],
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;
    /// Released values as they were printed for this asker, in PostgreSQL's binary format. `oids`
    /// are the types of a row's values.
    fn to_binary(
        &self,
        requester: &Requester,
        oids: &[u32],
        rows: Vec<Vec<Option<Bytes>>>,
    ) -> impl Future<Output = Result<Vec<Vec<Option<Bytes>>>, Error>> + Send;
    /// `EXPLAIN`: lines of text; free.
    fn explain(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        json: bool,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send;
    /// A text that could not be read as a statement, for the owner's record.
    fn unread(&self, role: &str, refusal: &Refusal) -> impl Future<Output = ()> + Send {
        let _ = (role, refusal);
        async {}
    }
}
