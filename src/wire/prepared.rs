//! SQL's PREPARE and EXECUTE, over the same statements as the protocol's Parse and Bind.

use std::sync::Arc;

use super::connection::Connection;
use super::portal::{Prepared, Reply, each};
use super::stop::Stop;
use crate::engine::{Argument, Asker, Format, Service};
use crate::parse::{Bound, Execute, ExplainFormat, Prepare, Statement, parameter_type};
use crate::refusal::{Refusal, sqlstate};

impl<S: Service> Connection<S> {
    pub(super) async fn prepare(&mut self, prepare: &Prepare) -> Result<Reply, Stop> {
        let Prepare { name, types, query, bytes } = prepare;
        if name.is_empty() {
            return Err(Refusal::new("26000", "invalid statement name: must not be empty").into());
        }
        self.keep_statement(name, Some(Statement::Query(query.clone())), types, *bytes).await?;
        Ok(Reply::done("PREPARE"))
    }

    /// A question with the values of this EXECUTE.
    pub(super) async fn execute_prepared(&mut self, execute: &Execute, formats: &[Format]) -> Result<Reply, Stop> {
        let prepared = self.named(execute)?;
        let formats_of_values: Vec<Format> = prepared.parameters.iter().map(|oid| carried(*oid)).collect();
        let arguments = self.values(self.asker(), execute, &prepared, &formats_of_values).await?;
        match &prepared.statement {
            Some(Statement::Query(query)) => {
                self.check_columns(query, &prepared).await?;
                self.answer(query, &prepared.parameters, &arguments, formats).await
            }
            Some(Statement::Explain(query, format)) => self.explain(query, *format).await,
            Some(Statement::Fetch(fetch)) => self.fetch(fetch, formats).await,
            Some(Statement::Session(session)) => Ok(self.session(session)?),
            Some(Statement::Declare(_) | Statement::Prepare(_) | Statement::Execute(_) | Statement::ExplainExecute(..) | Statement::Copy(_))
            | None => Err(Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, "EXECUTE runs prepared queries only").into()),
        }
    }

    /// The plan of a prepared query with the values of this EXECUTE.
    pub(super) async fn explain_prepared(&mut self, execute: &Execute, format: ExplainFormat) -> Result<Reply, Stop> {
        let prepared = self.named(execute)?;
        let Some(Statement::Query(query)) = &prepared.statement else {
            return Err(Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, "EXPLAIN EXECUTE explains prepared queries only").into());
        };
        // They become texts, which are printed so that they read back as the same values.
        let arguments = self.values(self.asker().printing_plainly(), execute, &prepared, &[Format::Text]).await?;
        let bound = |(oid, argument): (&u32, Argument)| {
            let text = argument.value.map(|value| String::from_utf8_lossy(&value).into_owned());
            Ok(Bound { data_type: parameter_type(*oid)?, text })
        };
        let values = prepared.parameters.iter().zip(arguments).map(bound).collect::<Result<Vec<_>, Refusal>>()?;
        self.explain(&query.bind(&values)?, format).await
    }

    /// The statement that an EXECUTE names, which has as many parameters as the EXECUTE has values.
    fn named(&self, execute: &Execute) -> Result<Arc<Prepared>, Refusal> {
        let Execute { name, values } = execute;
        let prepared = self.statement(name)?.clone();
        if values.len() != prepared.parameters.len() {
            let refusal = Refusal::new(sqlstate::SYNTAX_ERROR, format!("wrong number of parameters for prepared statement \"{name}\""));
            return Err(refusal.detail(format!("Expected {} parameters but got {}.", prepared.parameters.len(), values.len())));
        }
        Ok(prepared)
    }

    /// PostgreSQL computes the values for this asker, as a query that reads no table. `formats`: one for all, or one a value.
    async fn values(&mut self, asker: Asker, execute: &Execute, prepared: &Prepared, formats: &[Format]) -> Result<Vec<Argument>, Stop> {
        if execute.values.is_empty() {
            return Ok(Vec::new());
        }
        let question = execute.values.query(&prepared.parameters)?;
        let reply = self.answer_as(asker, &question, (&[], &[]), formats).await?;
        let Some(row) = reply.rows.into_iter().next() else {
            return Err(Refusal::new(sqlstate::INTERNAL_ERROR, "the values of EXECUTE could not be computed").into());
        };
        Ok(each(formats, row.len()).into_iter().zip(row).map(|(format, value)| Argument { format, value }).collect())
    }
}

/// Types whose text depends on the session's settings, and may lose digits or a zone: floats, dates and times, and arrays of them.
const PRINTED_BY_SETTINGS: [u32; 12] = [700, 701, 1082, 1114, 1184, 1186, 1021, 1022, 1182, 1115, 1185, 1187];

/// How a value of this type reaches its parameter: in binary where its text depends on settings.
fn carried(oid: u32) -> Format {
    if PRINTED_BY_SETTINGS.contains(&oid) { Format::Binary } else { Format::Text }
}
