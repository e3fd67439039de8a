//! Generates rows in the shape of a policy's private tables: rows of ordinary units, and of a
//! canary with extreme values and more rows than the policy counts.

use std::collections::{HashMap, HashSet};

use super::values::{distinct, extreme, listed_values, ordinary};
use crate::catalog::{Equality, UniqueKey};
use crate::policy::{Column, Policy, Protection, Table, Unit};
use crate::postgres::{list, literal, qualify};

/// The number of the unit that is present in one of the two databases only.
pub const CANARY: usize = 0;
/// Ordinary units, numbered from one.
const UNITS: usize = 40;
/// Rows of an ordinary unit, if it may have several.
const ROWS: usize = 3;
/// Most rows of a canary.
const ROWS_MAX: usize = 2_500;

/// A row's values, as PostgreSQL reads them.
type Row = Vec<Option<String>>;

/// Rows of every private table that could be filled.
#[derive(Debug, Clone, Default)]
pub struct Population {
    tables: Vec<Filled>,
    /// Tables without rows, and why.
    pub left_out: Vec<String>,
}

#[derive(Debug, Clone)]
struct Filled {
    schema: String,
    name: String,
    columns: Vec<String>,
    rows: Vec<(usize, Row)>,
}

impl Population {
    /// Generates rows for every private table of the policy; parent tables come before the tables
    /// that refer to them.
    pub fn of(policy: &Policy) -> Self {
        let private = policy
            .tables
            .iter()
            .filter_map(|table| match &table.protection {
                Protection::Private(unit) => Some((table, unit)),
                Protection::Public => None,
            });
        let mut private: Vec<(&Table, &Unit)> = private.collect();
        private.sort_by_key(|(_, unit)| unit.path.len());
        let mut population = Self::default();
        for (table, unit) in private {
            match population.fill(table, unit) {
                Ok(filled) => population.tables.push(filled),
                Err(why) => population
                    .left_out
                    .push(format!("{}.{}: {why}", table.schema, table.name)),
            }
        }
        population
    }

    /// Ordinary units and the canary, by number.
    pub fn units() -> usize {
        UNITS + 1
    }

    pub fn fills(&self, table: &Table) -> bool {
        self.tables
            .iter()
            .any(|filled| filled.schema == table.schema && filled.name == table.name)
    }

    /// Statements that replace the contents of the tables by these rows, without the named unit's
    /// rows if one is given.
    ///
    /// # Requires
    /// A session whose `session_replication_role` is `replica`: references to public rows may
    /// dangle.
    pub fn statements(&self, without: Option<usize>) -> Vec<String> {
        let names: Vec<String> = self
            .tables
            .iter()
            .map(|table| qualify(&table.schema, &table.name))
            .collect();
        let mut statements = Vec::new();
        if !names.is_empty() {
            statements.push(format!("TRUNCATE {} CASCADE", names.join(", ")));
        }
        for (table, name) in self.tables.iter().zip(&names) {
            let kept: Vec<&Row> = table
                .rows
                .iter()
                .filter(|(unit, _)| Some(*unit) != without)
                .map(|(_, row)| row)
                .collect();
            for rows in kept.chunks(500) {
                let value =
                    |value: &Option<String>| value.as_deref().map_or("NULL".to_owned(), literal);
                let row = |row: &&Row| {
                    format!("({})", row.iter().map(value).collect::<Vec<_>>().join(", "))
                };
                let rows = rows.iter().map(row).collect::<Vec<_>>().join(", ");
                // A key may allow fewer rows than were generated.
                statements.push(format!(
                    "INSERT INTO {name} ({}) VALUES {rows} ON CONFLICT DO NOTHING",
                    list(&table.columns)
                ));
            }
        }
        statements
    }

    fn fill(&self, table: &Table, unit: &Unit) -> Result<Filled, String> {
        let keyed: HashSet<&str> = table
            .unique_keys
            .iter()
            .flat_map(UniqueKey::names)
            .collect();
        let mut rows = Vec::new();
        for number in 0..Self::units() {
            let owners = self.owners(unit, number)?;
            for at in 0..rows_of(table, unit, number) {
                let place = PopulationPlace {
                    number,
                    at,
                    counter: i64::try_from(rows.len()).unwrap_or(i64::MAX),
                    keyed: &keyed,
                };
                let row = table.columns.iter().enumerate().map(|(which, column)| {
                    match owners.get(column.name.as_str()) {
                        Some(owners) => Ok(Some(owners[at % owners.len()].clone())),
                        None => place.value(column, which),
                    }
                });
                rows.push((number, row.collect::<Result<Row, String>>()?));
            }
        }
        let columns = table
            .columns
            .iter()
            .map(|column| column.name.clone())
            .collect();
        Ok(Filled {
            schema: table.schema.clone(),
            name: table.name.clone(),
            columns,
            rows,
        })
    }

    /// The column that identifies the unit of a row, and its values for this unit.
    fn owners<'a>(
        &self,
        unit: &'a Unit,
        number: usize,
    ) -> Result<HashMap<&'a str, Vec<String>>, String> {
        let Some(step) = unit.path.first() else {
            let own = i64::try_from(number + 1)
                .ok()
                .and_then(|number| distinct(&unit.data_type, number));
            let own = own.ok_or_else(|| {
                format!(
                    "no values of type {} can be made up for the unit",
                    unit.data_type
                )
            })?;
            return Ok(HashMap::from([(unit.column.as_str(), vec![own])]));
        };
        let parent = self
            .tables
            .iter()
            .find(|table| table.schema == step.schema && table.name == step.table);
        let parent = parent.ok_or_else(|| format!("{}.{} has no rows", step.schema, step.table))?;
        let at = parent
            .columns
            .iter()
            .position(|column| *column == step.referenced);
        let at = at.ok_or_else(|| {
            format!(
                "{}.{} has no column {}",
                step.schema, step.table, step.referenced
            )
        })?;
        let values: Vec<String> = parent
            .rows
            .iter()
            .filter(|(unit, _)| *unit == number)
            .filter_map(|(_, row)| row[at].clone())
            .collect();
        if values.is_empty() {
            Err(format!("{}.{} names no unit", step.schema, step.table))
        } else {
            Ok(HashMap::from([(step.column.as_str(), values)]))
        }
    }
}

fn rows_of(table: &Table, unit: &Unit, number: usize) -> usize {
    let whose = unit
        .path
        .first()
        .map_or(unit.column.as_str(), |step| step.column.as_str());
    let one = table
        .unique_keys
        .iter()
        .any(|key| key.is_within(&[whose], &Equality::Own));
    match number {
        _ if one && unit.path.is_empty() => 1,
        CANARY => (2 * unit.rows_per_unit as usize + 3).min(ROWS_MAX),
        _ => ROWS.min(unit.rows_per_unit as usize),
    }
}

/// Position of a value: the unit, the row within the unit, and the row within the table.
struct PopulationPlace<'a> {
    number: usize,
    at: usize,
    counter: i64,
    keyed: &'a HashSet<&'a str>,
}

impl PopulationPlace<'_> {
    fn value(&self, column: &Column, which: usize) -> Result<Option<String>, String> {
        let index = self.number * 7 + self.at * 3 + which;
        let made = if self.keyed.contains(column.name.as_str()) {
            match listed_values(column) {
                Some(values) => Some(crate::rewrite::emit::sql::scalar_text(
                    &values[self.at % values.len()],
                )),
                None => distinct(&column.data_type, self.counter + 1),
            }
        } else if self.number == CANARY {
            extreme(column)
        } else {
            ordinary(column, index)
        };
        if made.is_none() && column.not_null {
            return Err(format!(
                "no values of type {} can be made up for column {}, which may not be NULL",
                column.data_type, column.name
            ));
        }
        Ok(made)
    }
}
