//! Asks PostgreSQL for the types of a statement, and remembers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use tokio_postgres::Client;
use tokio_postgres::types::{Kind, Type};

use super::ShadowError;
use super::exchange::{ColumnDescription, Description};

const ENTRIES_MAX: usize = 2048;
/// Longer statements are typed each time.
const SQL_BYTES_MAX: usize = 64 << 10;

/// Everything that a description depends on: the settings (search path, date style), the text, the declared types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    preamble: String,
    sql: String,
    oids: Vec<u32>,
}

impl Key {
    pub fn new(preamble: &str, sql: &str, oids: &[u32]) -> Self {
        Self { preamble: preamble.to_owned(), sql: sql.to_owned(), oids: oids.to_vec() }
    }
}

/// Descriptions by statement; the oldest goes first. The shadow's schema never changes, so nothing goes stale.
#[derive(Debug, Default)]
pub struct Cache {
    entries: Mutex<(HashMap<Key, Description>, VecDeque<Key>)>,
}

impl Cache {
    pub fn find(&self, key: &Key) -> Option<Description> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).0.get(key).cloned()
    }

    pub fn keep(&self, key: Key, description: &Description) {
        if key.sql.len() > SQL_BYTES_MAX {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (map, order) = &mut *entries;
        if order.len() >= ENTRIES_MAX
            && let Some(oldest) = order.pop_front()
        {
            map.remove(&oldest);
        }
        if map.insert(key.clone(), description.clone()).is_none() {
            order.push_back(key);
        }
    }
}

pub async fn describe(client: &Client, sql: &str, oids: &[u32], sizes: &HashMap<u32, i16>) -> Result<Description, ShadowError> {
    let declared: Vec<Type> = oids.iter().copied().map(of_oid).collect();
    let statement = client.prepare_typed(sql, &declared).await?;
    let columns = statement.columns().iter().map(|column| ColumnDescription {
        name: column.name().to_owned(),
        type_oid: column.type_().oid(),
        // Every type of the shadow was read when it was built; the rest are of variable length.
        type_size: sizes.get(&column.type_().oid()).copied().unwrap_or(-1),
        type_modifier: column.type_modifier(),
    });
    Ok(Description { parameters: statement.params().iter().map(Type::oid).collect(), columns: columns.collect() })
}

/// A type that only its OID is needed of; 0 asks PostgreSQL to infer it.
pub fn of_oid(oid: u32) -> Type {
    Type::from_oid(oid).unwrap_or_else(|| Type::new("declared".to_owned(), oid, Kind::Simple, String::new()))
}
