//! The input of a draft: the catalog alone.
//!
//! In all of `init` a bare number of a table is its place in the catalog. There is no other number
//! that could be taken for it: a column is always a [`ColumnAt`].

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Client;

use crate::catalog::{self, Catalog, Column, Distribution, Equality, RelationKind, Table, load};

/// A column, by the places of its table and of itself in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnAt {
    pub table: usize,
    pub column: usize,
}

/// The catalog, and which of its tables a draft is about.
#[derive(Debug, Clone)]
pub struct CatalogView {
    pub catalog: Catalog,
    /// The connected role.
    pub user: String,
    /// Columns, by OID and name, with which a valid index begins.
    led: BTreeSet<(u32, String)>,
    /// All foreign keys, also those that prove nothing: not validated, of several columns.
    keys: Vec<ForeignKeyAt>,
    /// Tables that a policy could show, by their place in the catalog.
    pub tables: Vec<usize>,
    /// Relations that no policy shows, with the reason.
    pub unfit: Vec<(usize, &'static str)>,
}

/// The facts that are read.
#[derive(Debug)]
pub struct CatalogFacts {
    pub catalog: Catalog,
    pub user: String,
    pub led: BTreeSet<(u32, String)>,
    pub keys: Vec<ForeignKeyAt>,
}

/// A foreign key: the OIDs of its tables, and its name with its columns.
#[derive(Debug, Clone)]
pub struct ForeignKeyAt {
    pub from: u32,
    pub to: u32,
    pub name: String,
}

/// Reads catalogs alone: no table of a user, no statistic, no size, no comment.
///
/// # Requires
/// The client is outside a transaction.
pub async fn read(client: &Client) -> Result<CatalogFacts, catalog::Error> {
    client
        .batch_execute(
            "SET default_transaction_read_only = on; SET statement_timeout = '10s'; \
            SET search_path = pg_catalog",
        )
        .await?;
    let catalog = load(client).await?;
    let user = client.query_one("SELECT current_user::text", &[]).await?;
    let mut led = BTreeSet::new();
    for row in client.query(LED_SQL, &[]).await? {
        led.insert((row.try_get(0)?, row.try_get(1)?));
    }
    let mut keys = Vec::new();
    for row in client.query(KEYS_SQL, &[]).await? {
        keys.push(ForeignKeyAt {
            from: row.try_get(0)?,
            to: row.try_get(1)?,
            name: row.try_get(2)?,
        });
    }
    Ok(CatalogFacts {
        catalog,
        user: user.try_get(0)?,
        led,
        keys,
    })
}

const KEYS_SQL: &str = "SELECT o.conrelid, o.confrelid, o.conname::text || ' (' || \
        (SELECT pg_catalog.string_agg(a.attname::text, ', ' ORDER BY a.attnum) \
         FROM pg_catalog.pg_attribute a \
         WHERE a.attrelid = o.conrelid AND a.attnum = ANY (o.conkey)) || ')' \
    FROM pg_catalog.pg_constraint o WHERE o.contype = 'f' ORDER BY o.conrelid, o.oid";

const LED_SQL: &str = "SELECT x.indrelid, a.attname::text \
    FROM pg_catalog.pg_index x JOIN pg_catalog.pg_attribute a \
        ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0] \
    WHERE x.indrelid >= 16384 AND x.indisvalid AND x.indpred IS NULL";

impl CatalogView {
    /// The tables of these schemas, or of all schemas where the list is empty.
    pub fn new(facts: CatalogFacts, schemas: &[String]) -> Self {
        let CatalogFacts {
            catalog,
            user,
            led,
            keys,
        } = facts;
        let (mut tables, mut unfit) = (Vec::new(), Vec::new());
        for (at, table) in catalog.tables.iter().enumerate() {
            if !schemas.is_empty() && !schemas.contains(&table.schema) {
                continue;
            }
            match why_unfit(table, &catalog) {
                None => tables.push(at),
                Some("") => {}
                Some(why) => unfit.push((at, why)),
            }
        }
        Self {
            catalog,
            user,
            led,
            keys,
            tables,
            unfit,
        }
    }

    fn places(&self) -> HashMap<u32, usize> {
        let tables = self.catalog.tables.iter().enumerate();
        tables.map(|(at, table)| (table.oid, at)).collect()
    }

    /// All foreign keys of the catalog: from, to, and the name with the columns.
    pub fn foreign_keys(&self) -> Vec<(usize, usize, String)> {
        let places = self.places();
        let place = |oid| places.get(&oid).copied();
        let keys = self.keys.iter();
        keys.filter_map(|key| Some((place(key.from)?, place(key.to)?, key.name.clone())))
            .collect()
    }

    /// Tables that inherit, or are partitions, each with a parent.
    pub fn families(&self) -> Vec<(usize, usize)> {
        let places = self.places();
        let tables = self.catalog.tables.iter().enumerate();
        tables
            .flat_map(|(at, table)| table.parents.iter().map(move |parent| (at, parent)))
            .filter_map(|(at, parent)| Some((at, *places.get(parent)?)))
            .collect()
    }

    pub fn table(&self, at: usize) -> &Table {
        &self.catalog.tables[at]
    }

    pub fn column(&self, at: ColumnAt) -> &Column {
        &self.table(at.table).columns[at.column]
    }

    /// `schema.table`, for messages.
    pub fn table_name(&self, at: usize) -> String {
        let table = self.table(at);
        format!("{}.{}", table.schema, table.name)
    }

    /// `schema.table.column`, for messages.
    pub fn column_name(&self, at: ColumnAt) -> String {
        format!("{}.{}", self.table_name(at.table), self.column(at).name)
    }

    pub fn columns(&self, table: usize) -> impl Iterator<Item = ColumnAt> {
        (0..self.table(table).columns.len()).map(move |column| ColumnAt { table, column })
    }

    pub fn find(&self, table: usize, name: &str) -> Option<ColumnAt> {
        let column = self
            .table(table)
            .columns
            .iter()
            .position(|c| c.name == name)?;
        Some(ColumnAt { table, column })
    }

    /// Whether the column alone identifies the rows of its table.
    pub fn is_key(&self, at: ColumnAt) -> bool {
        let name = self.column(at).name.as_str();
        self.table(at.table).is_unique(&[name], &Equality::Exact)
    }

    /// Whether the column alone is the primary key.
    pub fn is_primary(&self, at: ColumnAt) -> bool {
        let name = self.column(at).name.as_str();
        let keys = &self.table(at.table).unique_keys;
        keys.iter()
            .any(|key| key.primary && key.is_within(&[name], &Equality::Exact))
    }

    /// Whether an index finds rows by this column.
    pub fn is_indexed(&self, at: ColumnAt) -> bool {
        let key = (self.table(at.table).oid, self.column(at).name.clone());
        self.led.contains(&key)
    }
}

/// Why no policy shows a relation; an empty text for what needs no word, such as a partition.
fn why_unfit(table: &Table, catalog: &Catalog) -> Option<&'static str> {
    let is_partition = table.parents.iter().any(|oid| {
        catalog
            .table_by_oid(*oid)
            .is_some_and(|parent| parent.kind == RelationKind::Partitioned)
    });
    match table.kind {
        _ if table.schema == crate::policy::VIEW_SCHEMA => {
            return Some("the schema pgveil belongs to the proxy's own views");
        }
        RelationKind::Ordinary | RelationKind::Partitioned if is_partition => return Some(""),
        RelationKind::Ordinary | RelationKind::Partitioned => {}
        RelationKind::View => return Some("a view; a policy names the tables that it reads"),
        RelationKind::MaterializedView => {
            return Some("a materialized view; a policy names the tables that it was made from");
        }
        RelationKind::Foreign => return Some("a foreign table, whose keys nobody enforces"),
        RelationKind::Other => return Some("not a table"),
    }
    if table.row_security {
        return Some("it has row security, so that its rows depend on the role that reads it");
    }
    if table.has_rules {
        return Some("it has rules, which rewrite queries");
    }
    if table.inherits {
        return Some("it takes part in table inheritance, so that its keys prove nothing");
    }
    if super::yaml::join_dotted(&[&table.schema, &table.name]).is_none() {
        return Some("a policy has no spelling for its name");
    }
    match table.distribution {
        Distribution::Unenforced(_) => Some("its distribution enforces no key"),
        Distribution::Local
        | Distribution::Reference
        | Distribution::Single
        | Distribution::Hash(_) => None,
    }
}
