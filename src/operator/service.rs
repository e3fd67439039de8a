//! The admin database as the wire knows it: a service that answers commands of operators, and no
//! question. Sessions of operators hold this one in place of the engine's, so that no statement of
//! theirs has a way to data.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::command::OperatorCommand;
use super::{Caller, Control, DATABASE};
use crate::engine::{
    Answer, Argument, Commanded, ConnectionLimits, Description, Format, Metrics, PlanningLimit,
    Requester, Service, SessionCount,
};
use crate::error::Error;
use crate::ledger::Record;
use crate::parse::{ExplainFormat, Query, Statement, parse};
use crate::policy::{Certificate, Secret, SessionSettings};
use crate::refusal::{Refusal, reason};

/// Places of operators, apart from those of roles: operators get in when all of those are taken.
const PLACES: u32 = 16;

pub struct OperatorService(pub Arc<Control>);

/// A statement that is neither a command nor about the session.
fn foreign() -> Error {
    let message = "the admin database answers commands of operators alone";
    Error::Parse(Refusal::new(reason::OPERATOR_COMMAND, message).hint("SHOW HELP lists them."))
}

fn read(command: &str) -> Result<OperatorCommand, Refusal> {
    OperatorCommand::read(command).unwrap_or_else(|| Err(foreign().report()))
}

impl Service for OperatorService {
    fn verifier(&self, name: &str) -> Option<Secret> {
        self.0.operator(name).map(|operator| operator.verifier)
    }

    fn database(&self) -> String {
        DATABASE.to_owned()
    }

    fn server_version(&self) -> String {
        self.0.exchange.server_version()
    }

    fn search_path(&self, _: &str) -> String {
        "public".to_owned()
    }

    fn session_settings(&self, _: &str) -> SessionSettings {
        SessionSettings::default()
    }

    fn certificate(&self, name: &str) -> Certificate {
        let operator = self.0.operator(name);
        operator.map_or(Certificate::Optional, |operator| operator.certificate)
    }

    fn admits(&self, _: &SessionSettings) -> Result<(), Refusal> {
        Ok(())
    }

    fn connection_limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            total: PLACES,
            per_role: PLACES,
            per_address: PLACES,
        }
    }

    fn quantum(&self) -> Option<Duration> {
        None
    }

    fn meter(&self) -> Arc<Metrics> {
        self.0.exchange.meter()
    }

    fn count_session(&self, _: &str) -> Option<SessionCount> {
        None
    }

    fn read_text(&self, _: &str, text: &str) -> Result<Vec<Statement>, Refusal> {
        parse(text)
    }

    fn planning_limit(&self) -> Arc<PlanningLimit> {
        self.0.exchange.planning_limit()
    }

    async fn describe(&self, _: &Requester, _: &Query, _: &[u32]) -> Result<Description, Error> {
        Err(foreign())
    }

    async fn answer(
        &self,
        _: &Requester,
        _: &Query,
        _: &[u32],
        _: &[Argument],
        _: &[Format],
        _: CancellationToken,
    ) -> Result<Answer, Error> {
        Err(foreign())
    }

    async fn to_binary(
        &self,
        _: &Requester,
        _: &[u32],
        _: Vec<Vec<Option<Bytes>>>,
    ) -> Result<Vec<Vec<Option<Bytes>>>, Error> {
        Err(foreign())
    }

    async fn explain(
        &self,
        _: &Requester,
        _: &Query,
        _: &[u32],
        _: &[Argument],
        _: ExplainFormat,
        _: CancellationToken,
    ) -> Result<Vec<String>, Error> {
        Err(foreign())
    }

    fn digest(&self, query: &Query) -> String {
        self.0.exchange.digest(query)
    }

    async fn record(&self, record: Record) {
        self.0.exchange.record(record).await;
    }

    fn operates(&self, sql: &str) -> bool {
        OperatorCommand::read(sql).is_some()
    }

    fn command_columns(&self, command: &str) -> Result<Option<Vec<&'static str>>, Refusal> {
        Ok(match read(command)? {
            OperatorCommand::Show(shown) => {
                Some(shown.columns.iter().map(|(name, _)| *name).collect())
            }
            OperatorCommand::Reload
            | OperatorCommand::Drain
            | OperatorCommand::Kill(_)
            | OperatorCommand::Freeze { .. } => None,
        })
    }

    async fn operate(&self, requester: &Requester, command: &str) -> Result<Commanded, Refusal> {
        let caller = Caller {
            name: requester.role.clone(),
            session: requester.process,
            origin: requester.origin.clone(),
        };
        let (tag, rows) = match read(command)? {
            OperatorCommand::Show(shown) => ("SHOW", self.0.show(&caller, shown).await?),
            OperatorCommand::Reload => {
                self.0.reload(&caller).await?;
                ("RELOAD", Vec::new())
            }
            OperatorCommand::Drain => {
                self.0.drain(&caller).await?;
                ("DRAIN", Vec::new())
            }
            OperatorCommand::Kill(id) => {
                self.0.kill(&caller, id).await?;
                ("KILL", Vec::new())
            }
            OperatorCommand::Freeze { role, why } => {
                self.0.freeze(&caller, role, why).await?;
                ("FREEZE", Vec::new())
            }
        };
        Ok(Commanded { tag, rows })
    }
}
