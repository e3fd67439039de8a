//! Rows that roles write: each value of a local column is read and randomised here, and the
//! database gets its report alone.
//!
//! A true value is in no log, record or error: refusals name the column, and what the database says
//! is not passed on.

mod binary;
mod closed;
mod copy_rows;
mod explain;
mod filters;
mod lease;
mod memo;
mod plan;
mod sent_rows;
mod true_value;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{Argument, Engine, Format, Requester};
use crate::catalog::Type;
use crate::ir::sql::scalar_text;
use crate::ledger::{Event, LoggedStatement, Record, Verdict};
use crate::mechanism::{Loss, Odds, OsRandomness, RandomError};
use crate::memory::MemoryShare;
use crate::parse::{
    OTHER_TYPE, TrueText, Write, WriteTarget, WrittenRows, WrittenValue, check_parameters,
    type_of_number,
};
use crate::policy::{Local, Policy, Scalar, TableName, Writing, WrittenColumn, WrittenTable};
use crate::refusal::{Ending, Refusal, reason};
use closed::ClosedTables;
pub use copy_rows::CopyRows;
use lease::WriterPool;
pub use lease::{CopySink, TransactionModes, WriterLease};
use memo::Memo;
pub use plan::WritePlan;
use plan::{cohort_given, left_out, more_than_one, not_read, null_in};
pub use sent_rows::SentRows;
use true_value::TrueValue;

/// A slice of rows ends after the row with which it has this many reports. They are made without a
/// pause.
const SLICE_REPORTS: usize = 256;

/// What roles may write, and the connections for it.
pub struct TableWriter {
    writing: Writing,
    /// The tables of each role.
    granted: BTreeMap<String, Vec<TableName>>,
    /// The tables of the policy, which names without a schema are looked for among.
    known: Vec<(String, String)>,
    memo: Option<Memo>,
    pool: Arc<WriterPool>,
}

/// A value as its client sent it.
pub(super) enum GivenValue {
    Null,
    Default,
    /// Text, of a type by its OID; 0: of the column's.
    Text(TrueText, u32),
    Binary(Bytes, u32),
}

/// A value as the database gets it. Of a local column, a report.
pub enum SentValue {
    Null,
    Default,
    Text(String, u32),
    Binary(Bytes, u32),
}

/// How a write ended, for the record.
pub struct WriteRecord {
    /// The table and the columns.
    pub named: String,
    pub table: Option<String>,
    /// Whether the write was explained, and nothing written.
    pub is_explained: bool,
    pub ending: Ending,
}

impl TableWriter {
    /// `None` where no role of the policy writes.
    pub fn of(policy: &Policy) -> Option<Arc<Self>> {
        let writing = policy.writing.clone()?;
        let writes = |role: &crate::policy::Role| (role.name.clone(), role.writes.clone());
        let granted = policy
            .roles
            .iter()
            .filter(|role| !role.writes.is_empty())
            .map(writes)
            .collect();
        let known = policy
            .tables
            .iter()
            .map(|table| (table.schema.clone(), table.name.clone()))
            .collect();
        let memo = writing
            .secret
            .as_ref()
            .map(|secret| Memo::new(secret, &writing));
        let closed = Arc::new(ClosedTables::of(policy, &writing));
        let pool = WriterPool::new(&writing.url, policy.limits.statement_timeout, closed);
        Some(Arc::new(Self {
            writing,
            granted,
            known,
            memo,
            pool,
        }))
    }

    /// Whether the role writes any table.
    pub(super) fn is_for(&self, role: &str) -> bool {
        self.granted.contains_key(role)
    }

    /// Finds the table and the columns of a write.
    ///
    /// # Errors
    /// 42501 for a table that the role does not write; 55000 for one that takes no rows now; 42703
    /// for a column that is not there; 0A000 where a local column or the unit is left out, or a
    /// column of cohorts is given.
    pub fn plan(
        &self,
        requester: &Requester,
        target: &WriteTarget,
    ) -> Result<WritePlan<'_>, Refusal> {
        let table = self.table(requester, &target.table)?;
        self.pool.closed_tables().require_open(table)?;
        let column = |name: &String| {
            table.column(name).ok_or_else(|| {
                let of = &table.name;
                let message = format!("column \"{name}\" of relation \"{of}\" does not exist");
                Refusal::new(reason::UNKNOWN_COLUMN, message)
            })
        };
        let columns = target.columns.iter().map(column);
        let columns: Vec<&WrittenColumn> = columns.collect::<Result<_, _>>()?;
        if let Some(cohorts) = columns.iter().find(|c| table.has_cohorts(&c.name)) {
            return Err(cohort_given(cohorts));
        }
        let is_wanted = |c: &&WrittenColumn| c.local.is_some() || c.name == table.unit;
        for wanted in table.columns.iter().filter(is_wanted) {
            if !columns.iter().any(|given| given.name == wanted.name) {
                return Err(left_out(table, wanted));
            }
        }
        Ok(WritePlan { table, columns })
    }

    fn table(&self, requester: &Requester, name: &[String]) -> Result<&WrittenTable, Refusal> {
        let granted = self.granted.get(&requester.role);
        let denied = || {
            let shown = name.last().map_or("", String::as_str);
            let message = format!("permission denied for table {shown}");
            Refusal::new(reason::WRITE_NOT_GRANTED, message).detail(format!(
                "The policy does not let role \"{}\" write it.",
                requester.role
            ))
        };
        let (schema, own) = match name {
            [own] => {
                let is_here = |schema: &&String| {
                    let here = |(s, n): &(String, String)| s == *schema && n == own;
                    self.known.iter().any(here)
                };
                let schema = requester.search_path.iter().find(is_here);
                (schema.ok_or_else(denied)?, own)
            }
            [schema, own] => (schema, own),
            _ => return Err(denied()),
        };
        let is_granted = granted
            .into_iter()
            .flatten()
            .any(|table| (&table.schema, &table.name) == (schema, own));
        let table = self.writing.table(schema, own).filter(|_| is_granted);
        table.ok_or_else(denied)
    }

    /// The types of a statement's parameters: what the client says, or else a cast in the
    /// statement, or else the column's.
    ///
    /// # Errors
    /// Those of [`Self::plan`]; 42P18 for a parameter that no value is.
    pub fn parameters(
        &self,
        requester: &Requester,
        write: &Write,
        declared: &[u32],
    ) -> Result<Vec<u32>, Refusal> {
        let plan = self.plan(requester, &write.target)?;
        let found = write.parameters();
        let oid = |(at, (cast, column)): (usize, &(u32, usize))| {
            let declared = declared.get(at).copied().unwrap_or(0);
            let of_column = plan.columns.get(*column).map(|column| column.parameter());
            let mut known = [declared, *cast].into_iter().chain(of_column);
            known
                .find(|oid| ![0, OTHER_TYPE].contains(oid))
                .ok_or_else(|| {
                    let message = format!("could not determine data type of parameter ${}", at + 1);
                    Refusal::new(reason::UNKNOWN_PARAMETER, message)
                })
        };
        found.iter().enumerate().map(oid).collect()
    }

    /// The rows of an INSERT, as the database gets them. Other tasks may run, and drop this one,
    /// after each slice of them. What they take of the session's memory is held as long as they
    /// are.
    ///
    /// # Guarantee
    /// No value of a local column is among them, but reports drawn by its odds. What is held
    /// depends on the policy, and on values that are sent as they are.
    ///
    /// # Errors
    /// 22023 and 22003 for values that are not in a list or not within bounds; 42P02 for a
    /// parameter without a value; 53200 where the session holds too much memory; 54001 where the
    /// database would get too many values, the cohorts of units among them. No value is in the
    /// texts.
    pub async fn rows(
        &self,
        plan: &WritePlan<'_>,
        write: &Write,
        (parameters, arguments): (&[u32], &[Argument]),
        share: &MemoryShare,
    ) -> Result<SentRows, Refusal> {
        let rows = match &write.rows {
            WrittenRows::Values(rows) => rows.as_slice(),
            WrittenRows::Stream(_) => &[],
        };
        let defaults = rows
            .iter()
            .flatten()
            .filter(|value| **value == WrittenValue::Default);
        check_parameters(rows.len() * plan.sent_width() - defaults.count())?;
        let mut held = share.hold(rows.len() * plan.weight_of_row())?;
        let mut sent = Vec::with_capacity(rows.len() * plan.sent_width());
        let mut random = OsRandomness::new();
        let mut reports = 0;
        for row in rows {
            if reports >= SLICE_REPORTS {
                tokio::task::yield_now().await;
                reports = 0;
            }
            reports += plan.reports();
            let given = row
                .iter()
                .zip(&plan.columns)
                .map(|(value, column)| {
                    plan.check_cast(column, value)?;
                    value_of(value, parameters, arguments)
                })
                .collect::<Result<Vec<_>, _>>()?;
            held.add(plan.weight_of_values(&given))?;
            let begins = sent.len();
            self.row(plan, given, &mut random, &mut sent)?;
            held.add(plan.weight_of_unit(&sent[begins..]))?;
        }
        Ok(SentRows::new(plan, sent, held))
    }

    /// Randomises one row.
    fn row(
        &self,
        plan: &WritePlan<'_>,
        given: Vec<GivenValue>,
        random: &mut OsRandomness,
        sent: &mut Vec<SentValue>,
    ) -> Result<(), Refusal> {
        let unit = plan.unit(&given)?;
        let cohorts = filters::cohorts(self.memo.as_ref(), plan.table, unit.expose());
        let cohorts = cohorts.map_err(|error| no_randomness(&error))?;
        let mut set: BTreeMap<usize, usize> = BTreeMap::new();
        for (column, value) in plan.columns.iter().zip(given) {
            if column.name == plan.table.unit {
                // As the memo has it, so that no two spellings of a unit are two units.
                sent.push(SentValue::Text(unit.expose().to_owned(), 0));
                continue;
            }
            let Some(local) = &column.local else {
                sent.push(as_it_is(column, value));
                continue;
            };
            let text = match value {
                GivenValue::Null if local.may_be_null => {
                    sent.push(SentValue::Null);
                    continue;
                }
                GivenValue::Null => return Err(null_in(column)),
                GivenValue::Default => return Err(left_out(plan.table, column)),
                GivenValue::Text(text, _) => text,
                GivenValue::Binary(bytes, oid) => {
                    binary::text(oid, &bytes).ok_or_else(|| not_read(column))?
                }
            };
            let value = TrueValue::read(column, local, &text)?;
            if matches!(local.odds, Odds::Unary { .. }) && value.is_second() {
                let trues = set.entry(local.group).or_default();
                *trues += 1;
                if *trues > 1 {
                    return Err(more_than_one(plan, local.group));
                }
            }
            let named = (plan.table, *column, unit.expose());
            let report = self.report(named, (local, &cohorts), &value, random);
            let report = report.map_err(|error| no_randomness(&error))?;
            sent.push(SentValue::Text(report, 0));
        }
        let texts = cohorts.iter().map(ToString::to_string);
        sent.extend(texts.map(|cohort| SentValue::Text(cohort, 0)));
        Ok(())
    }

    /// The report of a value, as text. `cohorts` are those of the row's unit, parallel to the
    /// table's.
    fn report(
        &self,
        named: (&WrittenTable, &WrittenColumn, &str),
        (local, cohorts): (&Local, &[u32]),
        value: &TrueValue,
        random: &mut OsRandomness,
    ) -> Result<String, RandomError> {
        let canonical = value.canonical(local).text().ok_or_else(|| RandomError {
            reason: "a value of a list is no text".to_owned(),
        })?;
        if let Some(filter) = &local.filter {
            let memo = self.memo.as_ref();
            return filters::report(memo, named, (filter, cohorts), canonical.expose(), random);
        }
        let report = match &self.memo {
            Some(memo) => value.report(local, &mut memo.words(named, &canonical)),
            None => value.report(local, random),
        };
        Ok(report_text(named.1, report?))
    }
}

/// A report as text that PostgreSQL reads alike under all settings.
fn report_text(column: &WrittenColumn, report: &Scalar) -> String {
    let text = scalar_text(report);
    match column.data_type {
        Type::Timestamptz => text + "+00",
        _ => text,
    }
}

fn value_of(
    value: &WrittenValue,
    parameters: &[u32],
    arguments: &[Argument],
) -> Result<GivenValue, Refusal> {
    let (number, cast) = match value {
        WrittenValue::Null => return Ok(GivenValue::Null),
        WrittenValue::Default => return Ok(GivenValue::Default),
        WrittenValue::Constant(text, OTHER_TYPE) => return Ok(GivenValue::Text(text.clone(), 0)),
        WrittenValue::Constant(text, oid) => return Ok(GivenValue::Text(text.clone(), *oid)),
        WrittenValue::Number(text) => {
            return Ok(GivenValue::Text(
                text.clone(),
                type_of_number(text.expose()),
            ));
        }
        WrittenValue::Parameter(number, OTHER_TYPE) => (*number, 0),
        WrittenValue::Parameter(number, cast) => (*number, *cast),
    };
    let at = number - 1;
    let Some(argument) = arguments.get(at) else {
        let message = format!("there is no parameter ${number}");
        return Err(Refusal::new(reason::UNKNOWN_PARAMETER, message));
    };
    let oid = parameters
        .get(at)
        .copied()
        .filter(|oid| *oid != 0)
        .unwrap_or(cast);
    Ok(match (&argument.value, argument.format) {
        (None, _) => GivenValue::Null,
        (Some(bytes), Format::Binary) => GivenValue::Binary(bytes.clone(), oid),
        (Some(bytes), Format::Text) => {
            let text = std::str::from_utf8(bytes).map_err(|_| not_utf8())?;
            GivenValue::Text(TrueText::new(text.to_owned()), oid)
        }
    })
}

/// Text for a column of a type of the database's own, such as an enum, has no type: PostgreSQL then
/// reads it as the column's.
fn as_it_is(column: &WrittenColumn, value: GivenValue) -> SentValue {
    let typed = |oid| match column.is_of_users() && [25, 1042, 1043].contains(&oid) {
        true => 0,
        false => oid,
    };
    match value {
        GivenValue::Null => SentValue::Null,
        GivenValue::Default => SentValue::Default,
        GivenValue::Text(text, oid) => SentValue::Text(text.expose().to_owned(), typed(oid)),
        GivenValue::Binary(bytes, oid) => SentValue::Binary(bytes, typed(oid)),
    }
}

fn not_utf8() -> Refusal {
    let message = "invalid byte sequence for encoding \"UTF8\"";
    Refusal::new(reason::INVALID_ENCODING, message)
}

fn no_randomness(_: &RandomError) -> Refusal {
    let incident = format!("{:016x}", rand::random::<u64>());
    tracing::error!(
        incident,
        "the random source failed, and no report was drawn"
    );
    let message = format!("internal error; incident {incident}");
    Refusal::new(reason::INTERNAL_ERROR, message)
}

impl Engine {
    /// The writer, for a role that writes.
    pub(super) fn writer_of(&self, role: &str) -> Option<Arc<TableWriter>> {
        self.writer.clone().filter(|writer| writer.is_for(role))
    }

    /// Refuses a question about tables of a role that only writes.
    ///
    /// # Errors
    /// 42501
    pub(super) fn require_asking(
        &self,
        requester: &Requester,
        query: &crate::parse::Query,
    ) -> Result<(), Refusal> {
        let asks = self
            .policy
            .role(&requester.role)
            .is_none_or(|role| role.asks);
        if asks || !query.names_relation() {
            return Ok(());
        }
        let message = format!("role \"{}\" may write, and not ask", requester.role);
        Err(Refusal::new(reason::WRITE_ASKS_NOTHING, message)
            .detail("Its budget in the policy is none.")
            .hint("Ask as a role that has a budget."))
    }

    /// Records a write by its table and its columns.
    pub(super) async fn record_written(&self, requester: &Requester, write: WriteRecord) {
        let WriteRecord {
            named,
            table,
            is_explained,
            ending,
        } = write;
        let verdict = match ending {
            Ending::Succeeded if is_explained => Verdict::Explained,
            Ending::Succeeded => Verdict::Answered,
            Ending::Failed(_) => Verdict::Refused,
        };
        let written = Event::Statement(LoggedStatement {
            statement: self.ledger.statement_digest(&named),
            plan: None,
            tables: table.into_iter().collect(),
            shape: None,
            verdict,
            loss: Loss::ZERO,
        });
        let Requester {
            role,
            process,
            origin,
            ..
        } = requester;
        let record = Record::now(role, *process, origin.clone(), written);
        self.ledger.record(record.with_ending(ending)).await;
    }
}

#[cfg(test)]
mod tests;
