//! Asks PostgreSQL for the types of a statement, and remembers them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tokio_postgres::Client;
use tokio_postgres::types::{Kind, Type};

use super::ShadowError;
use super::request::{ColumnDescription, Description};

const ENTRIES_MAX: usize = 2048;
/// The most bytes of all entries.
const BYTES_ALL_MAX: usize = 32 << 20;
/// Overhead of a column, without its name.
const COLUMN_BYTES: usize = 48;
/// Longer statements are typed each time.
const SQL_BYTES_MAX: usize = 64 << 10;

/// Everything that a description depends on: the settings (search path, date style), the text, the
/// declared types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DescribeKey {
    preamble: String,
    sql: String,
    oids: Vec<u32>,
}

impl DescribeKey {
    pub fn new(preamble: &str, sql: &str, oids: &[u32]) -> Self {
        Self {
            preamble: preamble.to_owned(),
            sql: sql.to_owned(),
            oids: oids.to_vec(),
        }
    }

    /// The key of a statement that a role runs, without its text, which may hold released values.
    pub fn of_digest((role, preamble): (&str, &str), sql: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(sql).into();
        Self::new(preamble, &format!("{role} {}", hex(&digest)), &[])
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<DescribeKey, Description>,
    /// The oldest first.
    order: VecDeque<DescribeKey>,
    bytes: usize,
}

/// Each key is stored twice.
fn weight(key: &DescribeKey, description: &Description) -> usize {
    let DescribeKey {
        preamble,
        sql,
        oids,
    } = key;
    let columns = description
        .columns
        .iter()
        .map(|column| COLUMN_BYTES + column.name.len());
    2 * (preamble.len() + sql.len() + size_of_val(oids.as_slice()))
        + size_of_val(description.parameters.as_slice())
        + columns.sum::<usize>()
}

/// Descriptions by statement. The oldest is evicted first. The shadow's schema never changes, so no
/// entry becomes stale.
#[derive(Debug, Default)]
pub struct TypeCache(Mutex<Entries>);

impl TypeCache {
    pub fn find(&self, key: &DescribeKey) -> Option<Description> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .by_key
            .get(key)
            .cloned()
    }

    pub fn keep(&self, key: DescribeKey, description: &Description) {
        if key.sql.len() > SQL_BYTES_MAX {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Entries {
            by_key,
            order,
            bytes,
        } = &mut *entries;
        if by_key.contains_key(&key) {
            return;
        }
        *bytes += weight(&key, description);
        by_key.insert(key.clone(), description.clone());
        order.push_back(key);
        while order.len() > ENTRIES_MAX || *bytes > BYTES_ALL_MAX {
            let Some((oldest, old)) = order
                .pop_front()
                .and_then(|oldest| by_key.remove_entry(&oldest))
            else {
                return;
            };
            *bytes -= weight(&oldest, &old);
        }
    }
}

pub async fn describe(
    client: &Client,
    sql: &str,
    oids: &[u32],
    sizes: &HashMap<u32, i16>,
) -> Result<Description, ShadowError> {
    let declared: Vec<Type> = oids.iter().copied().map(of_oid).collect();
    let statement = client.prepare_typed(sql, &declared).await?;
    let columns = statement.columns().iter().map(|column| ColumnDescription {
        name: column.name().to_owned(),
        type_oid: column.type_().oid(),
        // Every type of the shadow was read when it was built. All others have variable length.
        type_size: sizes.get(&column.type_().oid()).copied().unwrap_or(-1),
        type_modifier: column.type_modifier(),
    });
    Ok(Description {
        parameters: statement.params().iter().map(Type::oid).collect(),
        columns: columns.collect(),
    })
}

/// A type of which only the OID is needed; 0 asks PostgreSQL to infer it.
pub fn of_oid(oid: u32) -> Type {
    Type::from_oid(oid)
        .unwrap_or_else(|| Type::new("declared".to_owned(), oid, Kind::Simple, String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(columns: usize) -> Description {
        let column = ColumnDescription {
            name: "n".repeat(63),
            type_oid: 25,
            type_size: -1,
            type_modifier: -1,
        };
        Description {
            parameters: vec![25],
            columns: vec![column; columns],
        }
    }

    #[test]
    fn the_oldest_goes_where_there_are_many_or_broad_ones() {
        let cache = TypeCache::default();
        let key = |number: usize| DescribeKey::new("SET x", &format!("SELECT {number}"), &[23]);
        for number in 0..ENTRIES_MAX + 10 {
            cache.keep(key(number), &description(1));
            cache.keep(key(number), &description(1));
        }
        assert_eq!(
            (cache.find(&key(9)), cache.find(&key(10))),
            (None, Some(description(1)))
        );
        for number in 0..1_000 {
            cache.keep(
                DescribeKey::new("", &"x".repeat(SQL_BYTES_MAX - number), &[]),
                &description(1_600),
            );
        }
        let entries = cache.0.lock().unwrap();
        let whole: usize = entries
            .by_key
            .iter()
            .map(|(key, description)| weight(key, description))
            .sum();
        assert_eq!(
            (entries.bytes, entries.by_key.len()),
            (whole, entries.order.len())
        );
        assert!(
            whole <= BYTES_ALL_MAX && entries.order.len() > 50,
            "{whole} {}",
            entries.order.len()
        );
    }
}
