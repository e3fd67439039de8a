//! Runs one statement: the engine's questions are passed on, statements about the session are
//! answered here.

use super::connection::Connection;
use super::copy::Writer;
use super::cursor::no_cursor;
use super::extended::{changed_columns, no_statement, types};
use super::message::not_utf8;
use super::outcome::Outcome;
use super::portal::{Reply, text_column};
use super::settings::values_of;
use super::transaction::{Status, refuse_aborted};
use crate::engine::{Argument, Commanded, Format, Service};
use crate::error::Error;
use crate::parse::{
    Configure, Copy, Given, Modes, Query, SessionStatement, SettingScope, Statement,
};
use crate::policy::SESSION_SETTINGS;
use crate::refusal::{Refusal, reason};

impl<S: Service> Connection<S> {
    pub(super) async fn perform(
        &mut self,
        statement: &Statement,
        parameters: &[u32],
        arguments: &[Argument],
        formats: &[Format],
    ) -> Result<Reply, Outcome> {
        self.require_allowed(statement)?;
        match statement {
            Statement::Query(query) => self.query(query, parameters, arguments, formats).await,
            Statement::Explain(query, format) => {
                self.explain(query, (parameters, arguments), *format).await
            }
            Statement::ExplainExecute(execute, format) => {
                self.explain_prepared(execute, *format).await
            }
            Statement::Declare(declare) => self.declare(declare, parameters, arguments).await,
            Statement::Prepare(prepare) => self.prepare(prepare).await,
            Statement::Execute(execute) => self.execute_prepared(execute, formats).await,
            Statement::Copy(copy) => self.answer_copy(copy).await,
            Statement::Fetch(fetch) => self.fetch(fetch, formats).await,
            Statement::Write(write) => self.write(write, parameters, arguments).await,
            Statement::ExplainWrite(write, format) => {
                self.explain_write(write, arguments.len(), *format).await
            }
            Statement::Session(session) => self.session_statement(session).await,
            Statement::Operator(command) => self.operate(command).await,
        }
    }

    /// A command of an operator. Once it began it runs to its end, whatever the client does.
    async fn operate(&mut self, command: &str) -> Result<Reply, Outcome> {
        let names = self.service.command_columns(command)?;
        let (requester, command) = (self.requester(), command.to_owned());
        let operated = self.wait(|service, _| async move {
            let operated = service.operate(&requester, &command).await;
            operated.map_err(Error::Parse)
        });
        let Commanded { tag, rows } = operated.await?;
        Ok(match names {
            Some(names) => {
                let columns = names.into_iter().map(text_column).collect();
                Reply::texts(tag, columns, rows)
            }
            None => Reply::done(tag),
        })
    }

    /// Queries about the session are answered here, all others by the engine.
    pub(super) async fn query(
        &mut self,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        formats: &[Format],
    ) -> Result<Reply, Outcome> {
        match (query.configures(), query.advises()) {
            (Some(configure), _) => self.configure(configure, arguments),
            (None, Some(advisory)) => Ok(self.advise(&advisory, arguments, formats)?),
            (None, None) => self.answer(query, parameters, arguments, formats).await,
        }
    }

    /// 25P02 in a failed transaction, for all but its end.
    pub(super) fn require_allowed(&self, statement: &Statement) -> Result<(), Refusal> {
        let ends = matches!(
            statement,
            Statement::Session(
                SessionStatement::Commit { .. }
                    | SessionStatement::Rollback { .. }
                    | SessionStatement::RollbackTo { .. }
            )
        );
        if self.transaction.status() == Status::Failed && !ends {
            Err(refuse_aborted())
        } else {
            Ok(())
        }
    }

    /// The answer of a COPY, to be streamed.
    async fn answer_copy(&mut self, copy: &Copy) -> Result<Reply, Outcome> {
        let Copy { query, format } = copy;
        // A wrong column of FORCE_QUOTE shows before anything is charged.
        let described = self.describe_query(query, &[]).await?;
        let writer = Writer::new(format, &described.columns)?;
        let answer = self
            .answer(query, &[], &[], &[writer.value_format()])
            .await?;
        // The policy may have been reloaded meanwhile.
        if types(answer.columns.as_deref()) != types(Some(&described.columns)) {
            return Err(changed_columns().into());
        }
        Ok(Reply {
            columns: None,
            tag: "COPY".to_owned(),
            copy: Some(writer),
            ..answer
        })
    }

    pub(super) fn session(&mut self, session: &SessionStatement) -> Result<Reply, Refusal> {
        Ok(match session {
            SessionStatement::Set {
                scope,
                name,
                values,
            } => self.set(*scope, name, values.as_deref())?,
            SessionStatement::Reset { name } => {
                self.settings.set(SettingScope::Session, name, None)?;
                Reply::done("RESET")
            }
            SessionStatement::ResetAll => {
                self.settings.reset_all();
                Reply::done("RESET")
            }
            SessionStatement::Show { name } => {
                let (name, value) = self.setting_value(name)?;
                Reply::texts("SHOW", vec![text_column(&name)], vec![vec![value]])
            }
            SessionStatement::ShowAll => self.show_all(),
            SessionStatement::Begin { start, modes } => {
                self.begin(if *start { "START TRANSACTION" } else { "BEGIN" }, modes)?
            }
            SessionStatement::Commit { chain: false } => self.commit(),
            SessionStatement::Rollback { chain: false } => self.rollback(),
            SessionStatement::Commit { chain: true } => {
                self.chain("COMMIT AND CHAIN", Self::commit)?
            }
            SessionStatement::Rollback { chain: true } => {
                self.chain("ROLLBACK AND CHAIN", Self::rollback)?
            }
            SessionStatement::Savepoint { name } => {
                self.transaction.savepoint(name.clone(), &self.settings)?;
                Reply::done("SAVEPOINT")
            }
            SessionStatement::Release { name } => {
                self.transaction.release(name)?;
                self.cursors.release(self.transaction.depth());
                Reply::done("RELEASE")
            }
            SessionStatement::RollbackTo { name } => {
                self.transaction.rollback_to(name, &mut self.settings)?;
                // The savepoint itself stands again; later declarations are undone.
                self.cursors.roll_back_to(self.transaction.depth() - 1);
                Reply::done("ROLLBACK")
            }
            SessionStatement::SetTransaction { modes } => {
                self.set_modes(SettingScope::Local, "", modes)?;
                self.outside_warned(Reply::done("SET"), "SET TRANSACTION")
            }
            SessionStatement::SetCharacteristics { modes } => {
                self.set_modes(SettingScope::Session, "default_", modes)?;
                Reply::done("SET")
            }
            SessionStatement::SetConstraints => {
                self.outside_warned(Reply::done("SET CONSTRAINTS"), "SET CONSTRAINTS")
            }
            SessionStatement::DiscardAll => self.discard_all()?,
            SessionStatement::Discard { what } => Reply::done(format!("DISCARD {what}")),
            SessionStatement::Deallocate { name } => self.deallocate(name.as_deref())?,
            SessionStatement::Listen => Reply::done("LISTEN"),
            SessionStatement::Unlisten => Reply::done("UNLISTEN"),
            SessionStatement::Close { name } => self.close_cursor(name.as_deref())?,
        })
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<Reply, Refusal> {
        let Some(name) = name else {
            self.statements.clear();
            return Ok(Reply::done("DEALLOCATE ALL"));
        };
        match self.statements.remove(name) {
            Some(_) => Ok(Reply::done("DEALLOCATE")),
            None => Err(no_statement(name)),
        }
    }

    fn close_cursor(&mut self, name: Option<&str>) -> Result<Reply, Refusal> {
        let Some(name) = name else {
            self.cursors.close_all();
            self.portals.clear();
            return Ok(Reply::done("CLOSE CURSOR ALL"));
        };
        if !self.cursors.close(name) && self.portals.remove(name).is_none() {
            return Err(no_cursor(name));
        }
        Ok(Reply::done("CLOSE CURSOR"))
    }

    fn show_all(&self) -> Reply {
        let session_settings = self.settings.session_settings();
        let in_force = |name: &str, value| {
            if is_session_setting(name) {
                self.service.in_force(&session_settings, name)
            } else {
                value
            }
        };
        let row = |(name, value, description): (String, _, _)| {
            vec![name.clone(), in_force(&name, value), description]
        };
        let rows = self.settings.all().into_iter().map(row).collect();
        Reply::texts(
            "SHOW",
            ["name", "setting", "description"].map(text_column).to_vec(),
            rows,
        )
    }

    fn set(
        &mut self,
        scope: SettingScope,
        name: &str,
        values: Option<&[String]>,
    ) -> Result<Reply, Refusal> {
        let before = self.settings.snapshot();
        self.settings.set(scope, name, values)?;
        if let Err(refusal) = self.service.admits(&self.settings.session_settings()) {
            self.settings.restore(before);
            return Err(refusal);
        }
        let reply = Reply::done("SET");
        Ok(match scope {
            SettingScope::Local => self.outside_warned(reply, "SET LOCAL"),
            SettingScope::Session => reply,
        })
    }

    /// `SELECT set_config(…)` is SET with a row.
    fn configure(
        &mut self,
        configure: Configure,
        arguments: &[Argument],
    ) -> Result<Reply, Outcome> {
        let Configure {
            name,
            value,
            scope,
            where_known,
            column,
        } = configure;
        if where_known.is_some_and(|name| !self.settings.lists(&name)) {
            return Ok(Reply::texts(
                "SELECT",
                vec![text_column(&column)],
                Vec::new(),
            ));
        }
        let value = match value {
            Given::Constant(value) => value,
            Given::Parameter => match arguments {
                [Argument { format: _, value }] => {
                    value.as_deref().map(setting_text).transpose()?
                }
                _ => {
                    return Err(Refusal::new(
                        reason::PROTOCOL_VIOLATION,
                        "set_config takes its value as the one parameter here",
                    )
                    .into());
                }
            },
        };
        let values = value.map(|value| values_of(&name, &value)).transpose()?;
        let reply = self.set(scope, &name, values.as_deref())?;
        let (_, shown) = self.setting_value(&name)?;
        Ok(Reply {
            notices: reply.notices,
            ..Reply::texts("SELECT", vec![text_column(&column)], vec![vec![shown]])
        })
    }

    /// A setting's canonical name, and the value in force.
    fn setting_value(&self, name: &str) -> Result<(String, String), Refusal> {
        let (name, value) = self.settings.show(name)?;
        let value = if is_session_setting(&name) {
            self.service
                .in_force(&self.settings.session_settings(), &name)
        } else {
            value
        };
        Ok((name, value))
    }

    fn outside_warned(&mut self, reply: Reply, what: &str) -> Reply {
        match self.transaction.status() {
            Status::Open | Status::Failed => reply,
            Status::Idle => reply.warning(
                reason::NO_TRANSACTION,
                &format!("{what} can only be used in transaction blocks"),
            ),
            Status::Implicit | Status::Pipeline => reply,
        }
    }

    fn begin(&mut self, tag: &str, modes: &Modes) -> Result<Reply, Refusal> {
        let fresh = self.transaction.begin(&self.settings);
        self.set_modes(SettingScope::Local, "", modes)?;
        let reply = Reply::done(tag);
        Ok(if fresh {
            reply
        } else {
            reply.warning(
                reason::TRANSACTION_IN_PROGRESS,
                "there is already a transaction in progress",
            )
        })
    }

    fn set_modes(
        &mut self,
        scope: SettingScope,
        prefix: &str,
        modes: &Modes,
    ) -> Result<(), Refusal> {
        let Modes {
            isolation,
            read_only,
            deferrable,
        } = modes;
        let on = |flag: &bool| {
            if *flag {
                "on".to_owned()
            } else {
                "off".to_owned()
            }
        };
        let wanted = [
            ("isolation", isolation.clone()),
            ("read_only", read_only.as_ref().map(on)),
            ("deferrable", deferrable.as_ref().map(on)),
        ];
        for (name, value) in wanted {
            if let Some(value) = value {
                self.settings.set(
                    scope,
                    &format!("{prefix}transaction_{name}"),
                    Some(&[value]),
                )?;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Reply {
        let committed = self.transaction.status() != Status::Failed;
        let ended = self.transaction.commit(&mut self.settings);
        self.end_portals(committed);
        match ended {
            Some(tag) => Reply::done(tag),
            None => Reply::done("COMMIT").warning(
                reason::NO_TRANSACTION,
                "there is no transaction in progress",
            ),
        }
    }

    fn rollback(&mut self) -> Reply {
        let ended = self.transaction.rollback(&mut self.settings);
        self.end_portals(false);
        if ended {
            Reply::done("ROLLBACK")
        } else {
            Reply::done("ROLLBACK").warning(
                reason::NO_TRANSACTION,
                "there is no transaction in progress",
            )
        }
    }

    /// Ends the transaction and opens the next with the same modes.
    fn chain(&mut self, what: &str, end: fn(&mut Self) -> Reply) -> Result<Reply, Refusal> {
        self.transaction.require_block(what)?;
        let shown = |name: &str| self.settings.show(name).map(|(_, value)| value);
        let modes = Modes {
            isolation: Some(shown("transaction_isolation")?),
            read_only: Some(shown("transaction_read_only")? == "on"),
            deferrable: Some(shown("transaction_deferrable")? == "on"),
        };
        let reply = end(self);
        self.begin("BEGIN", &modes)?;
        Ok(reply)
    }

    fn discard_all(&mut self) -> Result<Reply, Refusal> {
        if matches!(self.transaction.status(), Status::Open | Status::Implicit) {
            return Err(Refusal::new(
                reason::TRANSACTION_IN_PROGRESS,
                "DISCARD ALL cannot run inside a transaction block",
            ));
        }
        self.settings.reset_all();
        self.statements.clear();
        self.portals.clear();
        self.cursors.close_all();
        self.locks.clear();
        Ok(Reply::done("DISCARD ALL"))
    }
}

/// A setting's value that was sent as a parameter: text in either format.
fn setting_text(bytes: &[u8]) -> Result<String, Refusal> {
    std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
        .map(str::to_owned)
        .ok_or_else(not_utf8)
}

fn is_session_setting(name: &str) -> bool {
    SESSION_SETTINGS.iter().any(|setting| setting.name == name)
}
