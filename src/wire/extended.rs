//! The extended query protocol. Parse and Describe are free; a portal is answered, and so charged,
//! at its first Execute.

use std::sync::Arc;

use bytes::Bytes;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    BindComplete, CloseComplete, ParseComplete, PortalSuspended,
};

use super::advisory::advising;
use super::connection::Connection;
use super::cursor::cursor_exists;
use super::message::{Bind, MessageTarget, check_counts, not_utf8};
use super::outcome::Outcome;
use super::portal::{
    Portal, Prepared, Progress, columns_weight, command_tag, each, settings_weight, text_column,
};
use super::prepared::carrier_format;
use super::run::explain_column;
use super::transaction::{Status, refuse_aborted};
use crate::engine::{Argument, ColumnDescription, Format, Service};
use crate::parse;
use crate::parse::{Configure, Given, Query, SessionStatement, Statement};
use crate::refusal::{Refusal, reason};

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

    pub(super) fn bind(&mut self, bind: Bind) -> Result<(), Outcome> {
        self.transaction.begin_pipeline(&self.settings);
        let Bind {
            portal,
            statement,
            formats,
            values,
            result_formats,
        } = bind;
        let prepared = self.statement(&statement)?.clone();
        if let Some(known) = &prepared.statement {
            self.require_allowed(known)?;
        }
        let wanted = prepared.parameters.len();
        let columns = self.columns(&prepared);
        let count = columns.as_ref().map_or(0, Vec::len);
        check_counts(
            &statement,
            (values.len(), formats.len(), wanted),
            (result_formats.len(), count),
        )?;
        if !portal.is_empty()
            && (self.portals.contains_key(&portal) || self.cursors.get(&portal).is_some())
        {
            return Err(cursor_exists(&portal).into());
        }
        let bytes = values
            .iter()
            .flatten()
            .map(|value| value.len() + ENTRY_BYTES)
            .sum::<usize>();
        let requester = self.requester();
        let bytes =
            ENTRY_BYTES + bytes + columns_weight(columns.as_deref()) + settings_weight(&requester);
        let before: usize = self.portals.values().map(|portal| portal.bytes).sum();
        if before + bytes > PORTALS_BYTES_MAX || self.portals.len() >= PORTALS_MAX {
            return Err(Refusal::new(
                reason::SESSION_TOO_LARGE,
                "too many portals in this session",
            )
            .into());
        }
        let held = self.share.hold(bytes)?;
        let formats = each(&read_formats(&formats)?, wanted);
        let arguments = keep_arguments(formats, values)?;
        let formats = read_formats(&result_formats)?;
        self.portals.insert(
            portal,
            Portal {
                prepared,
                arguments,
                requester,
                formats: each(&formats, count),
                columns,
                progress: Progress::Bound,
                bytes,
                _held: held,
            },
        );
        self.channel.send(&BindComplete::new());
        Ok(())
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
                .row_description(columns, &each(&formats, columns.len())),
            None => self.channel.send(&NoData::new()),
        }
        Ok(())
    }

    /// Rows beyond `rows_max` stay in the portal. A limit below one means no limit.
    pub(super) async fn execute(&mut self, name: &str, rows_max: i32) -> Result<(), Outcome> {
        self.transaction.begin_pipeline(&self.settings);
        let Some(mut portal) = self.portals.remove(name) else {
            return self.execute_declared(name, rows_max).await;
        };
        let Some(statement) = portal.prepared.statement.clone() else {
            self.channel
                .send(&pgwire::messages::response::EmptyQueryResponse::new());
            self.portals.insert(name.to_owned(), portal);
            return Ok(());
        };
        if let Err(refusal) = self.require_allowed(&statement) {
            self.portals.insert(name.to_owned(), portal);
            return Err(refusal.into());
        }
        if matches!(portal.progress, Progress::Bound) {
            // A portal that fails is gone: it was charged, and must not be charged again by
            // mistake.
            self.run_portal(&mut portal, &statement).await?;
            if matches!(portal.progress, Progress::Spent) {
                return self.keep(name, portal, &statement);
            }
        }
        match &mut portal.progress {
            Progress::Fetching { rows, tag, .. } => {
                let limit = usize::try_from(rows_max)
                    .ok()
                    .filter(|&limit| limit > 0)
                    .unwrap_or(usize::MAX);
                let mut sent = 0;
                for row in rows.by_ref().take(limit) {
                    self.channel.data_row(&row);
                    self.channel.relieve().await?;
                    sent += 1;
                }
                // Like PostgreSQL, which stops at the limit without looking whether a row follows.
                if sent == limit {
                    self.channel.send(&PortalSuspended::new());
                } else {
                    self.channel.complete(command_tag(tag, sent));
                }
            }
            Progress::Bound | Progress::Spent => {
                return Err(Refusal::new(
                    reason::CURSOR_STATE,
                    format!("portal \"{name}\" cannot be run"),
                )
                .into());
            }
        }
        self.keep(name, portal, &statement)
    }

    /// Runs the portal's statement for the first time. Statements without rows, and COPY, are
    /// answered in full.
    async fn run_portal(
        &mut self,
        portal: &mut Portal,
        statement: &Statement,
    ) -> Result<(), Outcome> {
        let prepared = portal.prepared.clone();
        if let Statement::Query(query) = statement {
            self.check_columns(query, &prepared).await?;
        }
        let arguments = self.as_bound(portal).await?;
        let reply = self
            .perform(statement, &prepared.parameters, &arguments, &portal.formats)
            .await?;
        self.notices(&reply.notices);
        if types(reply.columns.as_deref()) != types(portal.columns.as_deref()) {
            return Err(changed_columns().into());
        }
        if let Some(writer) = &reply.copy {
            self.stream(writer, &reply).await?;
            portal.progress = Progress::Spent;
            return Ok(());
        }
        if reply.columns.is_none() {
            self.channel.complete(reply.tag);
            portal.progress = Progress::Spent;
            return Ok(());
        }
        portal.progress = Progress::Fetching {
            rows: reply.rows.into_iter(),
            tag: reply.tag,
            _held: reply.held,
        };
        Ok(())
    }

    /// The portal's values as PostgreSQL read them at Bind. Values whose text could mean something
    /// else under the current settings are passed on in binary.
    async fn as_bound(&mut self, portal: &Portal) -> Result<Vec<Argument>, Outcome> {
        let Portal {
            prepared,
            arguments,
            requester,
            ..
        } = portal;
        let now = self.requester();
        let moves = |(oid, argument): (&u32, &Argument)| {
            argument.format == Format::Text && carrier_format(*oid) == Format::Binary
        };
        let (oids, texts): (Vec<u32>, Vec<Option<Bytes>>) = prepared
            .parameters
            .iter()
            .zip(arguments)
            .filter(|of| moves(*of))
            .map(|(oid, argument)| (*oid, argument.value.clone()))
            .unzip();
        if oids.is_empty()
            || (&requester.settings, &requester.search_path) == (&now.settings, &now.search_path)
        {
            return Ok(arguments.clone());
        }
        let requester = requester.clone();
        let read = self
            .ask_free(
                |service| async move { service.to_binary(&requester, &oids, vec![texts]).await },
            )
            .await?;
        let mut read = read.into_iter().flatten();
        let bound = prepared
            .parameters
            .iter()
            .zip(arguments)
            .map(|of| match moves(of) {
                true => Argument {
                    format: Format::Binary,
                    value: read.next().flatten(),
                },
                false => of.1.clone(),
            });
        Ok(bound.collect())
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

    /// Execute on what DECLARE opened.
    async fn execute_declared(&mut self, name: &str, rows_max: i32) -> Result<(), Outcome> {
        if self.cursors.get(name).is_some() && self.transaction.status() == Status::Failed {
            return Err(refuse_aborted().into());
        }
        let Some((rows, _held, is_met)) = self.execute_cursor(name, rows_max).await? else {
            return Err(no_portal(name).into());
        };
        for row in &rows {
            self.channel.data_row(row);
            self.channel.relieve().await?;
        }
        match is_met {
            true => self.channel.send(&PortalSuspended::new()),
            false => self.channel.complete(command_tag("SELECT", rows.len())),
        }
        Ok(())
    }

    /// Puts a portal back, unless its own statement ended the transaction and all portals with it.
    fn keep(&mut self, name: &str, portal: Portal, statement: &Statement) -> Result<(), Outcome> {
        let ends = matches!(
            statement,
            Statement::Session(
                SessionStatement::Commit { .. }
                    | SessionStatement::Rollback { .. }
                    | SessionStatement::DiscardAll
            )
        );
        if !ends {
            self.portals.insert(name.to_owned(), portal);
        }
        Ok(())
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

fn no_portal(name: &str) -> Refusal {
    Refusal::new(
        reason::UNKNOWN_CURSOR,
        format!("portal \"{name}\" does not exist"),
    )
}

fn read_formats(codes: &[i16]) -> Result<Vec<Format>, Refusal> {
    let read = |&code: &i16| match code {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        other => Err(Refusal::new(
            reason::INVALID_ARGUMENT,
            format!("unsupported format code: {other}"),
        )),
    };
    codes.iter().map(read).collect()
}

/// Values as a portal keeps them: in separate memory, since a slice of the buffer would keep all of
/// it alive.
///
/// # Errors
/// 22021 where a value sent as text is not UTF-8 without a zero byte.
fn keep_arguments(
    formats: Vec<Format>,
    values: Vec<Option<Bytes>>,
) -> Result<Vec<Argument>, Refusal> {
    let is_text = |value: &[u8]| std::str::from_utf8(value).is_ok() && !value.contains(&0);
    let keep = |(format, value): (Format, Option<Bytes>)| {
        if format == Format::Text && value.as_ref().is_some_and(|value| !is_text(value)) {
            return Err(not_utf8());
        }
        Ok(Argument {
            format,
            value: value.map(|value| Bytes::copy_from_slice(&value)),
        })
    };
    formats.into_iter().zip(values).map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_value_keeps_nothing_else() {
        let read = Bytes::from(vec![b'x'; 4 << 20]);
        let arguments =
            keep_arguments(vec![Format::Text; 2], vec![Some(read.slice(7..8)), None]).unwrap();
        assert!(read.is_unique());
        assert_eq!(arguments[0].value.as_deref(), Some(&b"x"[..]));
        for text in [&b"\0"[..], b"\xff"] {
            let sent = || vec![Some(Bytes::copy_from_slice(text))];
            assert_eq!(
                keep_arguments(vec![Format::Text], sent())
                    .err()
                    .map(|refusal| refusal.sqlstate)
                    .as_deref(),
                Some("22021")
            );
            assert!(keep_arguments(vec![Format::Binary], sent()).is_ok());
        }
    }
}
