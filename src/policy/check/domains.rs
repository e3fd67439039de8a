//! Reads the values of a domain from its public table.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::super::error::{At, Findings};
use super::super::scalar;
use super::super::{Scalar, file::TableRule};
use super::{Listed, find_column};
use crate::catalog;

/// Reads columns of public tables: the backend, or a test's own rows.
#[async_trait]
pub trait DomainReader: Sync {
    /// The distinct values of the column as PostgreSQL prints them, dates and times in ISO style and UTC; at most `limit` of them.
    async fn read(&self, schema: &str, table: &str, column: &str, limit: u32) -> Result<Vec<Option<String>>, catalog::Error>;
}

#[async_trait]
impl DomainReader for tokio_postgres::Client {
    async fn read(&self, schema: &str, table: &str, column: &str, limit: u32) -> Result<Vec<Option<String>>, catalog::Error> {
        let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let (schema, table, column) = (quote(schema), quote(table), quote(column));
        let sql = format!("SELECT DISTINCT t.{column}::text FROM {schema}.{table} AS t LIMIT {limit}");
        self.batch_execute("BEGIN READ ONLY; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL TimeZone = 'UTC'; SET LOCAL extra_float_digits = 1").await?;
        let rows = self.query(&sql, &[]).await;
        // The first error is the one to tell.
        let ended = self.batch_execute("ROLLBACK").await;
        let rows = rows?;
        ended?;
        rows.iter().map(|row| row.try_get(0).map_err(catalog::Error::from)).collect()
    }
}

/// Most values of a public column that are read as its domain without being asked for.
const FEW: u32 = 1000;

type Name = (String, String, String);

/// The domains of one policy, each read once.
pub struct Domains<'a> {
    reader: &'a dyn DomainReader,
    listed: &'a [Listed<'a>],
    max: u32,
    texts: BTreeMap<Name, Vec<String>>,
}

impl<'a> Domains<'a> {
    pub fn new(reader: &'a dyn DomainReader, listed: &'a [Listed<'a>], max: u32) -> Self {
        Self { reader, listed, max, texts: BTreeMap::new() }
    }

    /// The values for a column of this type, sorted and distinct. NULL is left out: whether it is a member is for the column to say.
    pub async fn values(&mut self, name: &At<Name>, column: &catalog::Column, findings: &mut Findings) -> Option<Vec<Scalar>> {
        let source = self.source(name, column, findings)?;
        let texts = self.texts(name, findings).await?;
        let mut values = Vec::with_capacity(texts.len());
        for text in texts {
            match scalar::parse(&column.data_type, text) {
                Ok(value) => values.push(value),
                Err(wanted) => {
                    findings.error(name.place, format!("domain {source} holds \"{text}\", but column \"{}\" needs {wanted}", column.name));
                    return None;
                }
            }
        }
        values.sort_by(|a, b| scalar::compare(a, b).unwrap_or(std::cmp::Ordering::Equal));
        values.dedup();
        Some(values)
    }

    /// The values of a public table's own column, where they are few: then groups by it need no threshold. `None` where they are many, or cannot be listed.
    pub async fn few(&mut self, relation: &catalog::Table, column: &catalog::Column) -> Option<Vec<Scalar>> {
        if !scalar::is_listable(&column.data_type) {
            return None;
        }
        let read = self.reader.read(&relation.schema, &relation.name, &column.name, FEW.min(self.max) + 2).await.ok()?;
        let texts: Vec<String> = read.into_iter().flatten().collect();
        if texts.is_empty() || texts.len() > FEW.min(self.max) as usize {
            return None;
        }
        let mut values = texts.iter().map(|text| scalar::parse(&column.data_type, text).ok()).collect::<Option<Vec<_>>>()?;
        values.sort_by(|a, b| scalar::compare(a, b).unwrap_or(std::cmp::Ordering::Equal));
        values.dedup();
        Some(values)
    }

    fn source(&self, name: &At<Name>, column: &catalog::Column, findings: &mut Findings) -> Option<String> {
        let (schema, table, source) = &name.value;
        let Some(listed) = self.listed.iter().find(|t| (&t.relation.schema, &t.relation.name) == (schema, table)) else {
            findings.error(name.place, format!("domain {schema}.{table}.{source} is not in a table of this policy; list {schema}.{table} as public"));
            return None;
        };
        if listed.entry.rule != TableRule::Public {
            findings.error(name.place, format!("domain {schema}.{table}.{source} is in a private table; the values of a domain are shown to everyone, so its table must be public"));
            return None;
        }
        let found = find_column(listed.relation, &At { place: name.place, value: source.as_str() }, findings)?;
        if !scalar::is_alike(&found.data_type, &column.data_type) {
            let (a, b) = (&column.data_type, &found.data_type);
            findings.error(name.place, format!("column \"{}\" is {a} but its domain {schema}.{table}.{source} is {b}", column.name));
            return None;
        }
        if !found.selectable {
            findings.error(name.place, format!("the database role may not SELECT {schema}.{table}.{source}"));
            return None;
        }
        Some(format!("{schema}.{table}.{source}"))
    }

    async fn texts(&mut self, name: &At<Name>, findings: &mut Findings) -> Option<&[String]> {
        let (schema, table, column) = &name.value;
        if !self.texts.contains_key(&name.value) {
            let read = self.reader.read(schema, table, column, self.max.saturating_add(2)).await;
            let texts: Vec<String> = match read {
                Ok(values) => values.into_iter().flatten().collect(),
                Err(error) => {
                    findings.error(name.place, format!("domain {schema}.{table}.{column} cannot be read: {error}"));
                    return None;
                }
            };
            self.texts.insert(name.value.clone(), texts);
        }
        let texts = self.texts.get(&name.value)?;
        if texts.is_empty() {
            findings.error(name.place, format!("domain {schema}.{table}.{column} has no values"));
            return None;
        }
        if texts.len() > self.max as usize {
            findings.error(name.place, format!("domain {schema}.{table}.{column} has more than {} values (limits.groups)", self.max));
            return None;
        }
        Some(texts)
    }
}
