//! The table and the columns of a write, and what is wrong with values for them.

use super::{GivenValue, SentValue, binary};
use crate::catalog::{Type, oid_of};
use crate::ir::sql::scalar_text;
use crate::parse::{OTHER_TYPE, TrueText, WrittenValue};
use crate::policy::{WrittenColumn, WrittenTable, read_value};
use crate::postgres::{identifier, qualify};
use crate::refusal::{Refusal, reason};

/// The first OID that is not PostgreSQL's own.
const FIRST_OID_OF_USERS: u32 = 16_384;

/// The table and the columns of one write.
pub struct WritePlan<'w> {
    pub(super) table: &'w WrittenTable,
    pub(super) columns: Vec<&'w WrittenColumn>,
}

impl WritePlan<'_> {
    /// The name of the table.
    pub fn table(&self) -> String {
        self.table.to_string()
    }

    /// Whether the cast of a value is one that is read here as PostgreSQL would read it.
    ///
    /// # Errors
    /// 22023
    pub(super) fn check_cast(
        &self,
        column: &WrittenColumn,
        value: &WrittenValue,
    ) -> Result<(), Refusal> {
        let cast = match value {
            WrittenValue::Constant(_, cast) | WrittenValue::Parameter(_, cast) => *cast,
            WrittenValue::Null | WrittenValue::Default | WrittenValue::Number(_) => 0,
        };
        let is_read = match cast {
            // The database knows whether it is the column's own type.
            OTHER_TYPE => matches!(
                column.true_type(),
                Type::Enum(_) | Type::Other { .. } | Type::Time
            ),
            cast => column.name != self.table.unit || is_unit_type(column, cast),
        };
        is_read.then_some(()).ok_or_else(|| cast_not_read(column))
    }

    /// The unit of a row, in one form for all spellings of it: the memo has it, and the database
    /// gets it.
    pub(super) fn unit(&self, given: &[GivenValue]) -> Result<TrueText, Refusal> {
        let at = self
            .columns
            .iter()
            .position(|column| column.name == self.table.unit);
        let found = at.and_then(|at| Some((self.columns[at], given.get(at)?)));
        let Some((column, given)) = found else {
            let message = format!("the unit of {} is not given", self.table);
            return Err(Refusal::new(reason::WRITE_COLUMNS, message));
        };
        if let GivenValue::Text(_, oid) | GivenValue::Binary(_, oid) = given
            && !is_unit_type(column, *oid)
        {
            return Err(cast_not_read(column));
        }
        let of_binary;
        let text = match given {
            GivenValue::Text(text, _) => text,
            GivenValue::Binary(bytes, oid) => {
                of_binary = binary::text(*oid, bytes).ok_or_else(|| not_read(column))?;
                &of_binary
            }
            GivenValue::Null => return Err(null_in(column)),
            GivenValue::Default => return Err(left_out(self.table, column)),
        };
        let read = read_value(&column.data_type, text.expose()).ok_or_else(|| not_read(column))?;
        let plain = scalar_text(&read);
        Ok(TrueText::new(match column.data_type {
            Type::Char(_) => plain.trim_end_matches(' ').to_owned(),
            _ => plain,
        }))
    }

    /// The INSERT of some values, in rows of its columns.
    pub(super) fn insert_sql(&self, values: &[SentValue]) -> String {
        let mut sql = format!("INSERT INTO {} VALUES ", self.sql_target());
        // A parameter of five digits, or DEFAULT.
        sql.reserve(values.len() * 9);
        let mut number = 0;
        for (at, row) in values.chunks(self.sent_width().max(1)).enumerate() {
            for (place, value) in row.iter().enumerate() {
                sql.push_str(match (at, place) {
                    (0, 0) => "(",
                    (_, 0) => "), (",
                    _ => ", ",
                });
                match value {
                    SentValue::Default => sql.push_str("DEFAULT"),
                    SentValue::Null | SentValue::Text(..) | SentValue::Binary(..) => {
                        number += 1;
                        sql.push('$');
                        sql.push_str(&number.to_string());
                    }
                }
            }
        }
        sql.push(')');
        sql
    }

    /// The COPY of rows with its columns.
    pub fn copy_sql(&self) -> String {
        format!("COPY {} FROM STDIN", self.sql_target())
    }

    /// How many values a row has, as the client sends it.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// How many values the database gets for a row: also the cohorts of its unit.
    pub(super) fn sent_width(&self) -> usize {
        self.columns.len() + self.table.cohorts.len()
    }

    /// How many reports a row has, at most.
    pub(super) fn reports(&self) -> usize {
        let local = self.columns.iter().filter(|column| column.local.is_some());
        local.count()
    }

    fn sql_target(&self) -> String {
        let cohorts = self.table.cohorts.iter().map(|of| &of.column);
        let names = self.columns.iter().map(|column| &column.name);
        let names: Vec<String> = names.chain(cohorts).map(|name| identifier(name)).collect();
        let table = qualify(&self.table.schema, &self.table.name);
        format!("{table} ({})", names.join(", "))
    }
}

/// Whether a value that is declared as this type is the same unit when the column's type reads its
/// text. A number for a column of texts is not: PostgreSQL writes `'007'::int4` as 7.
fn is_unit_type(column: &WrittenColumn, oid: u32) -> bool {
    let is_integer = |oid: u32| [20, 21, 23].contains(&oid);
    match oid {
        0 | 25 | 705 | 1043 => true,
        _ if column.is_of_users() => oid >= FIRST_OID_OF_USERS,
        _ if is_integer(oid_of(&column.data_type)) => is_integer(oid),
        _ => oid == oid_of(&column.data_type),
    }
}

pub(super) fn cast_not_read(column: &WrittenColumn) -> Refusal {
    let message = format!("a value of column \"{}\" has another type", column.name);
    Refusal::new(reason::WRITTEN_VALUE, message)
        .detail(format!("Its values are of type {}.", column.true_type()))
        .hint("Write it as text or as that type, without another cast.")
}

/// 22023: the value is not shown.
pub(super) fn not_listed(column: &WrittenColumn) -> Refusal {
    let message = format!("value is not in the list of column \"{}\"", column.name);
    Refusal::new(reason::WRITTEN_VALUE, message)
}

pub(super) fn not_read(column: &WrittenColumn) -> Refusal {
    let message = format!(
        "value is not of the type of column \"{}\", or not in a form that pgveil reads",
        column.name
    );
    Refusal::new(reason::WRITTEN_VALUE, message)
        .hint("Write it as PostgreSQL prints it; dates and times in ISO form.")
}

pub(super) fn null_in(column: &WrittenColumn) -> Refusal {
    let message = format!("NULL is not written into column \"{}\"", column.name);
    let refusal = Refusal::new(reason::WRITTEN_VALUE, message);
    match column.local {
        Some(_) => refusal
            .detail("NULL is not randomised: it would say that the person has no value.")
            .hint("The policy's owner may allow it: `nullable: true` of the column."),
        None => refusal,
    }
}

pub(super) fn left_out(table: &WrittenTable, column: &WrittenColumn) -> Refusal {
    let message = format!(
        "a value of column \"{}\" of relation \"{}\" must be given",
        column.name, table.name
    );
    Refusal::new(reason::WRITE_COLUMNS, message)
}

pub(super) fn cohort_given(column: &WrittenColumn) -> Refusal {
    let message = format!("column \"{}\" is written by pgveil", column.name);
    Refusal::new(reason::WRITE_COHORT, message)
        .detail("It has the cohort of the row's unit, which is the same for ever.")
        .hint("Leave it out of the list of columns.")
}

pub(super) fn more_than_one(plan: &WritePlan<'_>, group: usize) -> Refusal {
    let is_of_group = |c: &&&WrittenColumn| c.local.as_ref().is_some_and(|l| l.group == group);
    let names = plan.columns.iter().filter(is_of_group);
    let names: Vec<String> = names.map(|column| format!("\"{}\"", column.name)).collect();
    let message = format!("more than one of the columns {} is true", names.join(", "));
    Refusal::new(reason::WRITTEN_VALUE, message)
        .detail("They are the bits of one value, of which one is set.")
        .hint("Declare columns that do not exclude each other apart, each with its own epsilon.")
}
