//! The extended query protocol. Parse and Describe are free; a portal is answered, and so charged,
//! at its first Execute.

mod portals;

use std::sync::Arc;

use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{CloseComplete, ParseComplete};

use super::advisory::advising;
use super::connection::Connection;
use super::message::MessageTarget;
use super::outcome::Outcome;
use super::portal::{Prepared, columns_weight, format_of_each, text_column};
use super::run::explain_column;
use super::transaction::{Status, refuse_aborted};
use crate::engine::{ColumnDescription, Service};
use crate::parse;
use crate::parse::{Configure, Given, Query, SessionStatement, Statement};
use crate::refusal::{Refusal, reason};
use portals::no_portal;

/// The limits on what one session may hold between messages.
const STATEMENTS_BYTES_MAX: usize = 16 << 20;
const STATEMENTS_MAX: usize = 4096;
const PORTALS_BYTES_MAX: usize = 32 << 20;
const PORTALS_MAX: usize = 1024;
/// Overhead of an entry, without its text.
const ENTRY_BYTES: usize = 512;

impl<S: Service> Connection<S> {
    pub(super) async fn parse(
        &mut self,
        name: String,
        sql: &str,
        types: &[u32],
    ) -> Result<(), Outcome> {
        self.transaction.begin_pipeline(&self.settings);
        if name.is_empty() {
            self.statements.remove("");
        } else if self.statements.contains_key(&name) {
            return Err(Refusal::new(
                reason::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        let mut statements = self.read(sql).await?;
        if statements.len() > 1 {
            return Err(Refusal::new(
                reason::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            )
            .into());
        }
        let statement = statements.pop();
        if let Some(statement) = &statement {
            self.require_allowed(statement)?;
        }
        self.keep_statement(&name, statement, types, parse::weight(sql))
            .await?;
        self.channel.send(&ParseComplete::new());
        Ok(())
    }

    /// Describes a statement and keeps it under its name.
    pub(super) async fn keep_statement(
        &mut self,
        name: &str,
        statement: Option<Statement>,
        types: &[u32],
        text_bytes: usize,
    ) -> Result<(), Outcome> {
        if self.statements.contains_key(name) {
            return Err(Refusal::new(
                reason::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        let bytes = text_bytes + name.len() + ENTRY_BYTES;
        self.check_room(bytes)?;
        let (parameters, columns) = self.shape(statement.as_ref(), types).await?;
        // A star is one word, and may be a thousand columns.
        let bytes = bytes + columns_weight(columns.as_deref());
        self.check_room(bytes)?;
        let held = self.share.hold(bytes)?;
        let path = self.settings.search_path(&self.role);
        self.statements.insert(
            name.to_owned(),
            Arc::new(Prepared {
                statement,
                parameters,
                columns,
                path,
                bytes,
                _held: held,
            }),
        );
        Ok(())
    }

    /// Whether another prepared statement of this weight may be kept.
    fn check_room(&self, bytes: usize) -> Result<(), Refusal> {
        let held: usize = self
            .statements
            .values()
            .map(|prepared| prepared.bytes)
            .sum();
        if held + bytes > STATEMENTS_BYTES_MAX + ENTRY_BYTES
            || self.statements.len() >= STATEMENTS_MAX
        {
            return Err(Refusal::new(
                reason::SESSION_TOO_LARGE,
                "too many prepared statements in this session",
            )
            .hint("Close those no longer needed, or send DEALLOCATE ALL."));
        }
        Ok(())
    }

    /// Types of the parameters, and the columns if there are any.
    async fn shape(
        &mut self,
        statement: Option<&Statement>,
        types: &[u32],
    ) -> Result<(Vec<u32>, Option<Vec<ColumnDescription>>), Outcome> {
        Ok(match statement {
            None => (Vec::new(), None),
            Some(Statement::Query(query)) => match (query.configures(), query.advises()) {
                (Some(configure), _) => configuring(&configure),
                (None, Some(advisory)) => {
                    let (parameters, columns) = advising(&advisory);
                    (parameters, Some(columns))
                }
                (None, None) => {
                    let described = self.describe_query(query, types).await?;
                    (described.parameters, Some(described.columns))
                }
            },
            Some(Statement::Explain(query, format)) => (
                self.describe_query(query, types).await?.parameters,
                Some(vec![explain_column(*format)]),
            ),
            Some(Statement::ExplainExecute(_, format)) => {
                (Vec::new(), Some(vec![explain_column(*format)]))
            }
            Some(Statement::Session(SessionStatement::Show { name })) => (
                Vec::new(),
                Some(vec![text_column(&self.settings.show(name)?.0)]),
            ),
            Some(Statement::Operator(command)) => {
                let names = self.service.command_columns(command)?;
                let columns = names.map(|names| names.into_iter().map(text_column).collect());
                (Vec::new(), columns)
            }
            Some(Statement::Session(SessionStatement::ShowAll)) => (
                Vec::new(),
                Some(["name", "setting", "description"].map(text_column).to_vec()),
            ),
            Some(Statement::Declare(declare)) => (
                self.describe_query(&declare.query, types).await?.parameters,
                None,
            ),
            Some(Statement::Write(write)) => (self.write_parameters(write, types)?, None),
            Some(Statement::ExplainWrite(write, format)) => (
                self.write_parameters(write, types)?,
                Some(vec![explain_column(*format)]),
            ),
            // The columns of FETCH and EXECUTE are looked up when they are asked for.
            Some(
                Statement::Fetch(_)
                | Statement::Execute(_)
                | Statement::Prepare(_)
                | Statement::Copy(_)
                | Statement::Session(_),
            ) => (Vec::new(), None),
        })
    }

    /// The columns that Describe reports for a statement: FETCH and EXECUTE have the columns of the
    /// cursor or statement that they name.
    fn columns(&self, prepared: &Prepared) -> Option<Vec<ColumnDescription>> {
        match &prepared.statement {
            Some(Statement::Fetch(fetch)) if !fetch.moves_only => self
                .cursors
                .get(&fetch.name)
                .map(|cursor| cursor.columns.clone()),
            Some(Statement::Execute(execute)) => self
                .statements
                .get(&execute.name)
                .and_then(|named| named.columns.clone()),
            _ => prepared.columns.clone(),
        }
    }

    pub(super) fn describe(&mut self, target: MessageTarget, name: &str) -> Result<(), Outcome> {
        let (parameters, columns, formats) = match target {
            MessageTarget::Statement => {
                let prepared = self.statement(name)?;
                (
                    Some(prepared.parameters.clone()),
                    self.columns(prepared),
                    Vec::new(),
                )
            }
            MessageTarget::Portal => match (self.portals.get(name), self.cursors.get(name)) {
                (Some(portal), _) => (None, portal.columns.clone(), portal.formats.clone()),
                (None, Some(cursor)) => (
                    None,
                    Some(cursor.columns.clone()),
                    vec![cursor.format; cursor.columns.len()],
                ),
                (None, None) => return Err(no_portal(name).into()),
            },
        };
        if self.transaction.status() == Status::Failed && columns.is_some() {
            return Err(refuse_aborted().into());
        }
        if let Some(parameters) = parameters {
            self.channel.send(&ParameterDescription::new(parameters));
        }
        match &columns {
            Some(columns) => self
                .channel
                .row_description(columns, &format_of_each(&formats, columns.len())),
            None => self.channel.send(&NoData::new()),
        }
        Ok(())
    }

    /// Under another search_path than at Parse, names may mean other tables: the columns that were
    /// described to the client must still stand, before anything is charged.
    pub(super) async fn check_columns(
        &mut self,
        query: &Query,
        prepared: &Prepared,
    ) -> Result<(), Outcome> {
        let is_answered_here = query.configures().is_some() || query.advises().is_some();
        if is_answered_here || prepared.path == self.settings.search_path(&self.role) {
            return Ok(());
        }
        let now = self.describe_query(query, &prepared.parameters).await?;
        let is_same = types(Some(&now.columns)) == types(prepared.columns.as_deref());
        is_same
            .then_some(())
            .ok_or_else(|| changed_columns().into())
    }

    pub(super) fn close(&mut self, target: MessageTarget, name: &str) {
        match target {
            MessageTarget::Statement => drop(self.statements.remove(name)),
            MessageTarget::Portal => {
                if self.portals.remove(name).is_none() {
                    self.cursors.close(name);
                }
            }
        }
        self.channel.send(&CloseComplete::new());
    }

    pub(super) fn statement(&self, name: &str) -> Result<&Arc<Prepared>, Refusal> {
        self.statements.get(name).ok_or_else(|| no_statement(name))
    }
}

/// What a statement that sets one setting takes and returns: the value, and one column of text.
fn configuring(configure: &Configure) -> (Vec<u32>, Option<Vec<ColumnDescription>>) {
    let column = text_column(&configure.column);
    let parameters = match configure.value {
        Given::Constant(_) => Vec::new(),
        Given::Parameter => vec![column.type_oid],
    };
    (parameters, Some(vec![column]))
}

pub(super) fn types(columns: Option<&[ColumnDescription]>) -> Option<Vec<u32>> {
    columns.map(|all| all.iter().map(|column| column.type_oid).collect())
}

pub(super) fn changed_columns() -> Refusal {
    let message = "cached plan must not change result type";
    Refusal::new(reason::CHANGED_RESULT_COLUMNS, message)
}

/// 26000
pub(super) fn no_statement(name: &str) -> Refusal {
    if name.is_empty() {
        return Refusal::new(
            reason::UNKNOWN_PREPARED_STATEMENT,
            "unnamed prepared statement does not exist",
        );
    }
    Refusal::new(
        reason::UNKNOWN_PREPARED_STATEMENT,
        format!("prepared statement \"{name}\" does not exist"),
    )
}
