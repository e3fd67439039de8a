//! SQL's PREPARE and EXECUTE, over the same statements as the protocol's Parse and Bind.

use std::sync::Arc;

use super::connection::Connection;
use super::message::SentRow;
use super::outcome::Outcome;
use super::portal::{Prepared, Reply, format_of_each};
use crate::engine::{Argument, ColumnDescription, Format, Service, fit_as_text};
use crate::parse::{Execute, ExecuteValues, ExplainFormat, Prepare, Statement, parameter_type};
use crate::refusal::{Refusal, reason};

impl<S: Service> Connection<S> {
    pub(super) async fn prepare(&mut self, prepare: &Prepare) -> Result<Reply, Outcome> {
        let Prepare {
            name,
            types,
            query,
            bytes,
        } = prepare;
        if name.is_empty() {
            return Err(Refusal::new(
                reason::UNKNOWN_PREPARED_STATEMENT,
                "invalid statement name: must not be empty",
            )
            .into());
        }
        self.keep_statement(name, Some(Statement::Query(query.clone())), types, *bytes)
            .await?;
        Ok(Reply::done("PREPARE"))
    }

    /// A question with the values of this EXECUTE.
    pub(super) async fn execute_prepared(
        &mut self,
        execute: &Execute,
        formats: &[Format],
    ) -> Result<Reply, Outcome> {
        let prepared = self.find(execute)?;
        // The values of EXECUTE are computed in the shadow, which must not see what is written.
        let is_write =
            |of: &Statement| matches!(of, Statement::Write(_) | Statement::ExplainWrite(..));
        if prepared.statement.as_ref().is_some_and(is_write) {
            return Err(not_a_query().into());
        }
        let arguments = self.values(execute, &prepared).await?;
        match &prepared.statement {
            Some(Statement::Query(query)) => {
                self.check_columns(query, &prepared).await?;
                self.query(query, &prepared.parameters, &arguments, formats)
                    .await
            }
            Some(Statement::Explain(query, format)) => {
                self.explain(query, (&prepared.parameters, &arguments), *format)
                    .await
            }
            Some(Statement::Fetch(fetch)) => self.fetch(fetch, formats).await,
            Some(Statement::Session(session)) => self.session_statement(session).await,
            Some(
                Statement::Declare(_)
                | Statement::Prepare(_)
                | Statement::Execute(_)
                | Statement::ExplainExecute(..)
                | Statement::Copy(_)
                | Statement::Write(_)
                | Statement::ExplainWrite(..)
                | Statement::Operator(_),
            )
            | None => Err(not_a_query().into()),
        }
    }

    /// The plan of a prepared query with the values of this EXECUTE.
    pub(super) async fn explain_prepared(
        &mut self,
        execute: &Execute,
        format: ExplainFormat,
    ) -> Result<Reply, Outcome> {
        let prepared = self.find(execute)?;
        let Some(Statement::Query(query)) = &prepared.statement else {
            return Err(Refusal::new(
                reason::UNSUPPORTED_STATEMENT,
                "EXPLAIN EXECUTE explains prepared queries only",
            )
            .into());
        };
        let arguments = self.values(execute, &prepared).await?;
        self.explain(query, (&prepared.parameters, &arguments), format)
            .await
    }

    /// The statement that an EXECUTE names, which has as many parameters as the EXECUTE has values.
    fn find(&self, execute: &Execute) -> Result<Arc<Prepared>, Refusal> {
        let Execute { name, values } = execute;
        let prepared = self.statement(name)?.clone();
        if values.len() != prepared.parameters.len() {
            let refusal = Refusal::new(
                reason::PARAMETER_COUNT,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            );
            return Err(refusal.detail(format!(
                "Expected {} parameters but got {}.",
                prepared.parameters.len(),
                values.len()
            )));
        }
        Ok(prepared)
    }

    /// PostgreSQL computes the values under the session's settings, as a row that reads no table.
    async fn values(
        &mut self,
        execute: &Execute,
        prepared: &Prepared,
    ) -> Result<Vec<Argument>, Outcome> {
        if execute.values.is_empty() {
            return Ok(Vec::new());
        }
        let types = self.base_of_domain(&prepared.parameters).await?;
        let question = execute.values.query(&types)?;
        let formats = if types.iter().any(|oid| is_unnamed(*oid)) {
            // The label of an enum may be written as a text.
            let written = self
                .describe_query(&question, &[])
                .await
                .map_err(|stop| of_execute(stop, &execute.values))?
                .columns;
            let other = |(column, oid): (&ColumnDescription, &u32)| {
                is_unnamed(*oid) && column.type_oid != *oid
            };
            written
                .iter()
                .zip(&types)
                .map(|of| {
                    if other(of) {
                        Format::Text
                    } else {
                        carrier_format(*of.1)
                    }
                })
                .collect()
        } else {
            types
                .iter()
                .map(|oid| carrier_format(*oid))
                .collect::<Vec<_>>()
        };
        let reply = self
            .answer(&question, &[], &[], &formats)
            .await
            .map_err(|stop| of_execute(stop, &execute.values))?;
        let Ok([row]) = <[SentRow; 1]>::try_from(reply.rows) else {
            return Err(Refusal::new(
                reason::INTERNAL_ERROR,
                "the values of EXECUTE could not be computed",
            )
            .into());
        };
        fit_as_text(row.iter().flatten().map(bytes::Bytes::len).sum())?;
        let arguments: Vec<Argument> = format_of_each(&formats, row.len())
            .into_iter()
            .zip(row)
            .map(|(format, value)| Argument { format, value })
            .collect();
        for (at, (argument, oid)) in arguments.iter().zip(&types).enumerate() {
            if is_unnamed(*oid) && argument.format == Format::Text && argument.value.is_some() {
                self.read_label(argument, *oid)
                    .await
                    .map_err(|stop| with_position(stop, execute.values.place(at)))?;
            }
        }
        Ok(arguments)
    }

    /// Reads one label alone, so that the error of a wrong one has its place.
    async fn read_label(&mut self, argument: &Argument, oid: u32) -> Result<(), Outcome> {
        let argument = std::slice::from_ref(argument);
        self.answer(
            &ExecuteValues::is_given()?,
            &[oid],
            argument,
            &[Format::Text],
        )
        .await
        .map(|_| ())
    }

    /// The types that values are computed as: a domain's is the one beneath it, which a column of
    /// it is described by.
    async fn base_of_domain(&mut self, parameters: &[u32]) -> Result<Vec<u32>, Outcome> {
        if !parameters.iter().any(|oid| is_unnamed(*oid)) {
            return Ok(parameters.to_vec());
        }
        let columns = self
            .describe_query(&ExecuteValues::places(parameters.len())?, parameters)
            .await?
            .columns;
        Ok(columns
            .iter()
            .zip(parameters)
            .map(|(column, oid)| {
                if parameter_type(column.type_oid).is_ok() {
                    column.type_oid
                } else {
                    *oid
                }
            })
            .collect())
    }
}

/// Types whose values are passed on as text, because the text is the same under all settings and
/// has one meaning: bool, the integers, text, json, varchar, numeric, uuid, jsonb, and a constant
/// without a type. As text, a float may lose digits, a time its zone and an interval its signs; so
/// may arrays and other types that contain them.
const ALIKE_AS_TEXT: [u32; 12] = [0, 705, 16, 20, 21, 23, 25, 114, 1043, 1700, 2950, 3802];

/// How a value of this type reaches its parameter.
pub(super) fn carrier_format(oid: u32) -> Format {
    if ALIKE_AS_TEXT.contains(&oid) {
        Format::Text
    } else {
        Format::Binary
    }
}

fn not_a_query() -> Refusal {
    let message = "EXECUTE runs prepared queries only";
    Refusal::new(reason::UNSUPPORTED_STATEMENT, message)
}

/// A type of the policy's tables, which no cast of ours names.
fn is_unnamed(oid: u32) -> bool {
    matches!(parameter_type(oid), Ok(None))
}

fn with_position(stop: Outcome, place: Option<u32>) -> Outcome {
    match stop {
        Outcome::Refused(refusal) => Outcome::Refused(refusal.at(place)),
        stop @ (Outcome::Fatal(_) | Outcome::Closed) => stop,
    }
}

/// What PostgreSQL says where the error is that of EXECUTE.
fn of_execute(stop: Outcome, values: &ExecuteValues) -> Outcome {
    match stop {
        Outcome::Refused(refusal) if refusal.reason == reason::POSTGRES_ERROR => {
            let message = values.misplacement(&refusal);
            Outcome::Refused(Refusal {
                message: message.unwrap_or_else(|| refusal.message.clone()),
                ..refusal
            })
        }
        stop @ (Outcome::Refused(_) | Outcome::Fatal(_) | Outcome::Closed) => stop,
    }
}
