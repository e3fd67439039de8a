//! The queries of the audit for each private table: those that reveal most about one unit, and
//! those that must be refused.

use super::population::Population;
use super::values::{extreme, listed_values};
use crate::catalog::Type;
use crate::mechanism::Accounting;
use crate::policy::{Column, Policy, Protection, Table, Unit};
use crate::postgres::{identifier, qualify};

/// Where in an answer the canary shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CanaryPlace {
    /// In the one row.
    Row,
    /// In the row with this first column, which is always present.
    Group(String),
    /// In whether a row with this first column is present.
    Presence(String),
}

/// One question, and how an attacker reads the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditQuestion {
    /// In words.
    pub name: String,
    pub sql: String,
    pub shows: CanaryPlace,
}

impl AuditQuestion {
    /// Whether its groups come from the data, above a threshold.
    pub fn is_thresholded(&self) -> bool {
        matches!(self.shows, CanaryPlace::Presence(_))
    }
}

/// Count, sum, averages by a listed key, and keys by threshold, for every table with rows.
pub fn questions(policy: &Policy, population: &Population) -> Vec<AuditQuestion> {
    let private = policy.tables.iter().filter(|table| population.fills(table));
    private
        .flat_map(|table| match &table.protection {
            Protection::Private(unit) => of_table(table, unit, policy.privacy.accounting),
            Protection::Public => Vec::new(),
        })
        .collect()
}

fn of_table(table: &Table, unit: &Unit, accounting: Accounting) -> Vec<AuditQuestion> {
    let (name, shown) = (
        qualify(&table.schema, &table.name),
        format!("{}.{}", table.schema, table.name),
    );
    let whose = unit
        .path
        .first()
        .map_or(unit.column.as_str(), |step| step.column.as_str());
    let free = |column: &&Column| {
        column.name != whose
            && !table
                .unique_keys
                .iter()
                .any(|key| key.names().any(|name| name == column.name))
    };
    let mut all = vec![AuditQuestion {
        name: format!("count of {shown}"),
        sql: format!("SELECT count(*) FROM {name}"),
        shows: CanaryPlace::Row,
    }];
    let summed = table.columns.iter().filter(free).find(|column| {
        column.bounds.is_some() && column.data_type.is_number() && listed_values(column).is_none()
    });
    if let Some(column) = summed {
        let (of, quoted) = (&column.name, identifier(&column.name));
        all.push(AuditQuestion {
            name: format!("sum of {shown}.{of}"),
            sql: format!("SELECT count(*), sum({quoted}) FROM {name}"),
            shows: CanaryPlace::Row,
        });
        let keyed = table.columns.iter().filter(free).find_map(|key| {
            extreme(key)
                .filter(|_| listed_values(key).is_some())
                .map(|value| (key, value))
        });
        if let Some((key, value)) = keyed {
            let by = identifier(&key.name);
            let sql =
                format!("SELECT {by}::text, count(*), avg({quoted}) FROM {name} GROUP BY {by}");
            all.push(AuditQuestion {
                name: format!("average of {of} by {}", key.name),
                sql,
                shows: CanaryPlace::Group(value),
            });
        }
    }
    // Pure accounting shows no key by threshold. A key without bounds is the hardest case: nothing
    // is known about its values.
    let alone = table
        .columns
        .iter()
        .filter(free)
        .filter(|column| listed_values(column).is_none() && is_plain(&column.data_type));
    let alone = alone
        .min_by_key(|column| column.bounds.is_some())
        .filter(|_| accounting != Accounting::Pure);
    if let Some((key, value)) = alone.and_then(|key| extreme(key).map(|value| (key, value))) {
        let by = identifier(&key.name);
        let sql = format!("SELECT {by}::text, count(*) FROM {name} GROUP BY {by}");
        all.push(AuditQuestion {
            name: format!("keys of {shown}.{} by threshold", key.name),
            sql,
            shows: CanaryPlace::Presence(value),
        });
    }
    all
}

/// Statements that would show or change rows. Each must be refused, or answered without a row.
pub fn attempts(policy: &Policy, population: &Population) -> Vec<String> {
    let private = policy.tables.iter().filter(|table| population.fills(table));
    private
        .flat_map(|table| {
            let name = qualify(&table.schema, &table.name);
            let column = table
                .columns
                .first()
                .map_or("1".to_owned(), |column| identifier(&column.name));
            [
                format!("SELECT * FROM {name}"),
                format!("SELECT {column} FROM {name} ORDER BY 1 LIMIT 1"),
                format!("SELECT string_agg({column}::text, ',') FROM {name}"),
                format!("SELECT array_agg({column}) FROM {name}"),
                format!("SELECT row_number() OVER (ORDER BY {column}), {column} FROM {name}"),
                format!("SELECT (SELECT {column} FROM {name} LIMIT 1)"),
                format!("SELECT 1 WHERE EXISTS (SELECT FROM {name})"),
                format!("COPY {name} TO STDOUT"),
                format!("DELETE FROM {name}"),
            ]
        })
        .collect()
}

/// Values that print as they are written.
fn is_plain(data_type: &Type) -> bool {
    matches!(
        data_type,
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Text | Type::Varchar(None)
    )
}
