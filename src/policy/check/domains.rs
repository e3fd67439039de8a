//! Reads the values of a domain from its public table.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{Listed, find_column};
use crate::catalog;
use crate::catalog::{Content, PRINTED};
use crate::policy::error::{At, Findings};
use crate::policy::file::{File, TableRule};
use crate::policy::scalar;
use crate::policy::{Column, ColumnPosition, Listing, Scalar};

/// Reads columns of public tables: the backend, or a test's own rows.
#[async_trait]
pub trait DomainReader: Sync {
    /// The distinct values of the column as PostgreSQL prints them, dates and times in ISO style
    /// and UTC; at most `limit` of them.
    async fn read(
        &self,
        schema: &str,
        table: &str,
        column: &str,
        limit: u32,
    ) -> Result<Vec<Option<String>>, catalog::Error> {
        let rows = self.rows(schema, table, &[column], limit).await?;
        Ok(rows
            .into_iter()
            .map(|row| row.into_iter().next().flatten())
            .collect())
    }

    /// The distinct rows of these columns, printed likewise; at most `limit` of them.
    async fn rows(
        &self,
        schema: &str,
        table: &str,
        columns: &[&str],
        limit: u32,
    ) -> Result<Vec<Vec<Option<String>>>, catalog::Error>;

    /// The least values of these columns and then the greatest, printed likewise.
    async fn ends(
        &self,
        schema: &str,
        table: &str,
        columns: &[&str],
    ) -> Result<Vec<Option<String>>, catalog::Error>;

    /// The current rows, if there are at most `limit`.
    async fn content(
        &self,
        _schema: &str,
        _table: &str,
        _columns: &[&str],
        _limit: u64,
    ) -> Result<Option<Content>, catalog::Error> {
        Ok(None)
    }
}

#[async_trait]
impl DomainReader for tokio_postgres::Client {
    async fn rows(
        &self,
        schema: &str,
        table: &str,
        columns: &[&str],
        limit: u32,
    ) -> Result<Vec<Vec<Option<String>>>, catalog::Error> {
        let columns: Vec<String> = columns
            .iter()
            .map(|column| format!("t.{}::text", quote(column)))
            .collect();
        let (schema, table, columns) = (quote(schema), quote(table), columns.join(", "));
        texts(
            self,
            &format!("SELECT DISTINCT {columns} FROM {schema}.{table} AS t LIMIT {limit}"),
        )
        .await
    }

    async fn ends(
        &self,
        schema: &str,
        table: &str,
        columns: &[&str],
    ) -> Result<Vec<Option<String>>, catalog::Error> {
        let each = |end: &'static str| {
            columns
                .iter()
                .map(move |column| format!("{end}(t.{})::text", quote(column)))
        };
        let ends: Vec<String> = each("min").chain(each("max")).collect();
        let sql = format!(
            "SELECT {} FROM {}.{} AS t",
            ends.join(", "),
            quote(schema),
            quote(table)
        );
        Ok(texts(self, &sql)
            .await?
            .into_iter()
            .next()
            .unwrap_or_default())
    }

    async fn content(
        &self,
        schema: &str,
        table: &str,
        columns: &[&str],
        limit: u64,
    ) -> Result<Option<Content>, catalog::Error> {
        within(self, Content::read(self, schema, table, columns, limit)).await
    }
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The rows of a query of texts.
async fn texts(
    client: &tokio_postgres::Client,
    sql: &str,
) -> Result<Vec<Vec<Option<String>>>, catalog::Error> {
    let rows = within(client, async { Ok(client.query(sql, &[]).await?) }).await?;
    rows.iter()
        .map(|row| {
            (0..row.len())
                .map(|at| row.try_get(at).map_err(catalog::Error::from))
                .collect()
        })
        .collect()
}

/// Reads in a transaction that prints values in the same way as releases.
async fn within<T>(
    client: &tokio_postgres::Client,
    reading: impl Future<Output = Result<T, catalog::Error>>,
) -> Result<T, catalog::Error> {
    client
        .batch_execute(&format!("BEGIN READ ONLY; {PRINTED}"))
        .await?;
    let read = reading.await;
    // The first error is reported.
    let ended = client.batch_execute("ROLLBACK").await;
    let read = read?;
    ended?;
    Ok(read)
}

/// A public column with at most this many values gets them as its domain without being declared.
const FEW: u32 = 1000;

type Name = (String, String, String);

/// The domains of one policy, each read once.
pub struct Domains<'a> {
    reader: &'a dyn DomainReader,
    listed: &'a [Listed<'a>],
    file: &'a File,
    max: u32,
    texts: BTreeMap<Name, Vec<String>>,
}

impl<'a> Domains<'a> {
    pub fn new(reader: &'a dyn DomainReader, listed: &'a [Listed<'a>], file: &'a File) -> Self {
        Self {
            reader,
            listed,
            file,
            max: file.limits.groups,
            texts: BTreeMap::new(),
        }
    }

    /// The values for a column of this type, sorted and distinct, without NULL: the column decides
    /// whether NULL is a member.
    pub async fn values(
        &mut self,
        name: &At<Name>,
        column: &catalog::Column,
        findings: &mut Findings,
    ) -> Option<Vec<Scalar>> {
        let source = self.source(name, column, findings)?;
        let texts = self.texts(name, findings).await?;
        let mut values = Vec::with_capacity(texts.len());
        for text in texts {
            match scalar::parse(&column.data_type, text) {
                Ok(value) => values.push(value),
                Err(wanted) => {
                    findings.error(
                        name.place,
                        format!(
                            "domain {source} holds \"{text}\", but column \"{}\" needs {wanted}",
                            column.name
                        ),
                    );
                    return None;
                }
            }
        }
        values.sort_by(|a, b| scalar::compare(a, b).unwrap_or(std::cmp::Ordering::Equal));
        values.dedup();
        Some(values)
    }

    /// The values of a public table's column, if there are few: then groups by it need no
    /// threshold. `None` if there are many, or they cannot be listed.
    pub async fn few(
        &mut self,
        relation: &catalog::Table,
        column: &catalog::Column,
    ) -> Option<Vec<Scalar>> {
        if !scalar::is_listable(&column.data_type) {
            return None;
        }
        let read = self
            .reader
            .read(
                &relation.schema,
                &relation.name,
                &column.name,
                FEW.min(self.max) + 2,
            )
            .await
            .ok()?;
        let texts: Vec<String> = read.into_iter().flatten().collect();
        if texts.is_empty() || texts.len() > FEW.min(self.max) as usize {
            return None;
        }
        let mut values = texts
            .iter()
            .map(|text| scalar::parse(&column.data_type, text).ok())
            .collect::<Option<Vec<_>>>()?;
        values.sort_by(|a, b| scalar::compare(a, b).unwrap_or(std::cmp::Ordering::Equal));
        values.dedup();
        Some(values)
    }

    /// The ranges of a public table's columns, for types with an order.
    pub async fn extents(&mut self, relation: &catalog::Table, columns: &mut [Column]) {
        let mut ordered: Vec<&mut Column> = columns
            .iter_mut()
            .filter(|c| c.domain.is_none() && scalar::is_ordered(&c.data_type))
            .collect();
        let names: Vec<&str> = ordered.iter().map(|c| c.name.as_str()).collect();
        if names.is_empty() {
            return;
        }
        let Ok(ends) = self
            .reader
            .ends(&relation.schema, &relation.name, &names)
            .await
        else {
            return;
        };
        let (least, greatest) = ends.split_at(ends.len() / 2);
        for (column, (least, greatest)) in ordered.iter_mut().zip(least.iter().zip(greatest)) {
            let end =
                |text: &Option<String>| scalar::parse(&column.data_type, text.as_deref()?).ok();
            if let (Some(lower), Some(upper)) = (end(least), end(greatest)) {
                column.extent = Some(scalar::outward(&column.data_type, lower, upper));
            }
        }
    }

    /// The rows of a public table in its listed columns, if there are few of both: then its keys
    /// take only the values and combinations that occur.
    pub async fn listing(
        &mut self,
        relation: &catalog::Table,
        columns: &[Column],
    ) -> Option<Listing> {
        let listed: Vec<usize> = (0..columns.len())
            .filter(|at| columns[*at].domain.is_some())
            .collect();
        if listed.is_empty() {
            return None;
        }
        let names: Vec<&str> = listed.iter().map(|at| columns[*at].name.as_str()).collect();
        let most = FEW.min(self.max);
        let read = self
            .reader
            .rows(&relation.schema, &relation.name, &names, most + 1)
            .await
            .ok()?;
        if read.len() > most as usize {
            return None;
        }
        let value = |(at, text): (&usize, Option<String>)| match text {
            Some(text) => scalar::parse(&columns[*at].data_type, &text).ok().map(Some),
            None => Some(None),
        };
        let mut rows = Vec::new();
        for row in read {
            let row = listed
                .iter()
                .zip(row)
                .map(value)
                .collect::<Option<Vec<_>>>()?;
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        Some(Listing {
            columns: listed.into_iter().map(ColumnPosition).collect(),
            rows,
        })
    }

    /// A digest of the rows of a public table, to detect later changes.
    pub async fn content(&self, relation: &catalog::Table, rows_max: u64) -> Option<Content> {
        let names: Vec<&str> = relation
            .columns
            .iter()
            .filter(|column| column.selectable)
            .map(|column| column.name.as_str())
            .collect();
        if names.is_empty() {
            None
        } else {
            self.reader
                .content(&relation.schema, &relation.name, &names, rows_max)
                .await
                .ok()
                .flatten()
        }
    }

    fn source(
        &self,
        name: &At<Name>,
        column: &catalog::Column,
        findings: &mut Findings,
    ) -> Option<String> {
        let (schema, table, source) = &name.value;
        let Some(listed) = self
            .listed
            .iter()
            .find(|t| (&t.relation.schema, &t.relation.name) == (schema, table))
        else {
            // An error was already reported for a table that is in the file but not in the
            // database.
            if !self.file.names(schema, table) {
                findings.error(
                    name.place,
                    format!(
                        "domain {schema}.{table}.{source} is not in a table \
                        of this policy; list {schema}.{table} as public"
                    ),
                );
            }
            return None;
        };
        if listed.entry.rule != TableRule::Public {
            findings.error(
                name.place,
                format!(
                    "domain {schema}.{table}.{source} is in a private \
                table; the values of a domain are shown to everyone, so its table must be public"
                ),
            );
            return None;
        }
        let found = find_column(
            listed.relation,
            &At {
                place: name.place,
                value: source.as_str(),
            },
            findings,
        )?;
        if !scalar::is_alike(&found.data_type, &column.data_type) {
            let (a, b) = (&column.data_type, &found.data_type);
            findings.error(
                name.place,
                format!(
                    "column \"{}\" is {a} but its domain {schema}.{table}.{source} is {b}",
                    column.name
                ),
            );
            return None;
        }
        if !found.selectable {
            findings.error(
                name.place,
                format!("the database role may not SELECT {schema}.{table}.{source}"),
            );
            return None;
        }
        Some(format!("{schema}.{table}.{source}"))
    }

    async fn texts(&mut self, name: &At<Name>, findings: &mut Findings) -> Option<&[String]> {
        let (schema, table, column) = &name.value;
        if !self.texts.contains_key(&name.value) {
            let read = self
                .reader
                .read(schema, table, column, self.max.saturating_add(2))
                .await;
            let texts: Vec<String> = match read {
                Ok(values) => values.into_iter().flatten().collect(),
                Err(error) => {
                    findings.error(
                        name.place,
                        format!("domain {schema}.{table}.{column} cannot be read: {error}"),
                    );
                    return None;
                }
            };
            self.texts.insert(name.value.clone(), texts);
        }
        let texts = self.texts.get(&name.value)?;
        if texts.is_empty() {
            findings.error(
                name.place,
                format!("domain {schema}.{table}.{column} has no values"),
            );
            return None;
        }
        if texts.len() > self.max as usize {
            findings.error(
                name.place,
                format!(
                    "domain {schema}.{table}.{column} has more than {} values (limits.groups)",
                    self.max
                ),
            );
            return None;
        }
        Some(texts)
    }
}
