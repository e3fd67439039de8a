//! The simple query protocol: one string, any number of statements, text results.

use super::connection::Connection;
use super::outcome::Outcome;
use super::portal::command_tag;
use crate::engine::{Service, StatementSize};
use crate::parse;
use crate::parse::Statement;

impl<S: Service> Connection<S> {
    /// Statements answered before a failing one stay answered; those after it do not run.
    pub(super) async fn simple(&mut self, sql: &str) -> Result<(), Outcome> {
        self.statements.remove("");
        self.portals.remove("");
        let statements = self.read(sql).await?;
        let _held = match StatementSize::of_bytes(sql.len()) {
            StatementSize::Small => None,
            StatementSize::Large => Some(self.share.hold(parse::weight(sql))?),
        };
        if statements.is_empty() {
            self.channel
                .send(&pgwire::messages::response::EmptyQueryResponse::new());
        }
        for statement in &statements {
            // Begins again, since a COMMIT of the string may have ended the transaction.
            if statements.len() > 1 {
                self.transaction.begin_implicit(&self.settings);
            }
            let reply = match self.perform(statement, &[], &[], &[]).await {
                Ok(reply) => reply,
                Err(Outcome::Refused(refusal)) => {
                    self.refuse(&refusal);
                    break;
                }
                Err(stop) => return Err(stop),
            };
            self.notices(&reply.notices);
            if let Some(writer) = &reply.copy {
                self.stream(writer, &reply).await?;
                continue;
            }
            if let Some(columns) = &reply.columns {
                self.channel.row_description(columns, &reply.formats);
            }
            for row in &reply.rows {
                self.channel.data_row(row);
                self.channel.flush_if_full().await?;
            }
            self.channel
                .complete(command_tag(&reply.tag, reply.rows.len()));
        }
        self.settle_writes().await;
        self.end_implicit();
        self.ready().await
    }

    /// The statements of a text; one that cannot be read is recorded like any other that is
    /// refused.
    pub(super) async fn read(&mut self, sql: &str) -> Result<Vec<Statement>, Outcome> {
        if self.service.operates(sql) {
            return Ok(vec![Statement::Operator(sql.to_owned())]);
        }
        let permit = self.permit(StatementSize::of_bytes(sql.len())).await?;
        let read = match self.writes() {
            true => permit.work(|| parse::parse_with_writes(sql)),
            false => permit.work(|| self.service.read_text(&self.role, sql)),
        };
        match read {
            Ok(statements) => Ok(statements),
            Err(refusal) => {
                let requester = self.requester();
                self.service.unread(&requester, &refusal).await;
                Err(refusal.into())
            }
        }
    }
}
