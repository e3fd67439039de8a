//! What the edges see of the engine: who asks, what is bound, what comes back.

use std::future::Future;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::parse::Query;

/// Who asks, and the session settings that reach an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Asker {
    /// The policy role, which is the user that logged in.
    pub role: String,
    /// `pgveil.epsilon`, where the session set it: what this query may spend. In (0, policy's max_epsilon].
    pub epsilon: Option<f64>,
    /// Settings of PostgreSQL that reach the printed form of a value: (name, value), names from a fixed list
    /// (`TimeZone`, `DateStyle`, `IntervalStyle`, `extra_float_digits`, `bytea_output`). Values are not yet checked by PostgreSQL.
    pub settings: Vec<(String, String)>,
    /// Schemas of unqualified names, in order.
    pub search_path: Vec<String>,
}

/// How a value travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Binary,
}

/// One bound parameter, as the client sent it; `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    pub format: Format,
    pub value: Option<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
    pub name: String,
    /// PostgreSQL's type OID.
    pub type_oid: u32,
    /// pg_type.typlen.
    pub type_size: i16,
    pub type_modifier: i32,
}

/// Types of a statement's parameters and columns; free, touches no data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Type OID of each parameter.
    pub parameters: Vec<u32>,
    pub columns: Vec<ColumnDescription>,
}

/// An answered query: only released and public values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub columns: Vec<ColumnDescription>,
    /// Row major; each value in the format that was asked for its column.
    pub rows: Vec<Vec<Option<Bytes>>>,
    /// Sent to the client as NOTICE, before the rows.
    pub notices: Vec<String>,
}

/// What the wire needs of the engine. Two implementations: [`super::Engine`] and the double of the wire tests.
pub trait Service: Send + Sync + 'static {
    /// SCRAM verifier of a role (`SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`); `None` for an unknown role.
    fn verifier(&self, role: &str) -> Option<String>;
    /// The database name that clients may connect to.
    fn database(&self) -> String;
    /// For ParameterStatus, for example `15.18`.
    fn server_version(&self) -> String;
    /// Roles may hold at most this many connections together.
    fn connections_max(&self) -> u32;
    /// Parameter and column types; `parameters` holds type OIDs the client declared (0 or missing: to be inferred).
    fn describe(&self, asker: &Asker, query: &Query, parameters: &[u32]) -> impl Future<Output = Result<Description, Error>> + Send;
    /// Plans, charges, runs and releases. `formats`: none (all text), one for all, or one a column. `parameters` are the OIDs `describe` returned.
    fn answer(
        &self,
        asker: &Asker,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        formats: &[Format],
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;
    /// `EXPLAIN`: lines of text; free.
    fn explain(&self, asker: &Asker, query: &Query, json: bool) -> impl Future<Output = Result<Vec<String>, Error>> + Send;
}
