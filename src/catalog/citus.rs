//! Where a Citus cluster stores rows. Citus' own catalog is needed, because a unique key in
//! PostgreSQL's catalog may not be enforced across shards.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{Error, Table, UniqueKey};

/// How the rows of a table are distributed over servers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Distribution {
    /// All on the connected server: plain PostgreSQL, and tables that Citus leaves alone or manages
    /// in place.
    #[default]
    Local,
    /// All rows on every server.
    Reference,
    /// All in one shard, somewhere.
    Single,
    /// The hash of one column decides where a row is stored.
    Hash(Hash),
    /// In shards that do not determine where a row must be stored: append, range or unknown
    /// distribution. No key holds across them.
    Unenforced(String),
}

/// Distribution by hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hash {
    pub column: String,
    /// Tables with the same number store equal values together.
    pub colocation: i32,
    /// Each hash belongs to exactly one shard.
    pub tiles: bool,
}

/// A row of `pg_dist_partition`, and the shards of its table from `pg_dist_shard`.
struct Partition {
    method: String,
    column: Option<String>,
    colocation: i32,
    replication: String,
    shards: Vec<(Option<String>, Option<String>)>,
}

impl Partition {
    fn distribution(self) -> Distribution {
        let Self {
            method,
            column,
            colocation,
            replication,
            shards,
        } = self;
        match (method.as_str(), column, replication.as_str()) {
            ("h", Some(column), _) => Distribution::Hash(Hash {
                column,
                colocation,
                tiles: tile(&shards),
            }),
            ("n", None, "t") => Distribution::Reference,
            ("n", None, "s") if colocation == 0 => Distribution::Local,
            ("n", None, "s") if shards.len() == 1 => Distribution::Single,
            ("a", ..) => Distribution::Unenforced("append".to_owned()),
            ("r", ..) => Distribution::Unenforced("range".to_owned()),
            _ => Distribution::Unenforced(format!("a method that pgveil does not know ({method})")),
        }
    }
}

/// Whether the hash ranges cover everything from the least to the greatest, without gap or overlap.
fn tile(shards: &[(Option<String>, Option<String>)]) -> bool {
    let number = |text: &Option<String>| text.as_ref()?.parse::<i32>().ok().map(i64::from);
    let Some(mut ranges) = shards
        .iter()
        .map(|(least, greatest)| Some((number(least)?, number(greatest)?)))
        .collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    ranges.sort_unstable();
    let mut next = i64::from(i32::MIN);
    for (least, greatest) in ranges {
        if least != next || greatest < least {
            return false;
        }
        next = greatest + 1;
    }
    next == i64::from(i32::MAX) + 1
}

/// Both catalogs of Citus can be read by every role.
const PARTITIONS_SQL: &str = r#"
SELECT p.logicalrelid::oid, p.partmethod::text, a.attname::text, p.colocationid, p.repmodel::text,
       ARRAY(SELECT s.shardminvalue FROM pg_catalog.pg_dist_shard s
           WHERE s.logicalrelid = p.logicalrelid ORDER BY s.shardid),
       ARRAY(SELECT s.shardmaxvalue FROM pg_catalog.pg_dist_shard s
           WHERE s.logicalrelid = p.logicalrelid ORDER BY s.shardid)
FROM pg_catalog.pg_dist_partition p LEFT JOIN pg_catalog.pg_attribute a
     ON a.attrelid = p.logicalrelid AND a.attnum = pg_catalog.substring(p.partkey,
         ':varattno ([0-9]+) ')::int2"#;

/// Whether the database has the catalogs of Citus.
pub async fn is_citus(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let messages = client
        .simple_query("SELECT pg_catalog.to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL")
        .await?;
    Ok(messages
        .iter()
        .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"))))
}

/// Reads how tables are distributed if Citus is installed, and keeps only the keys that are
/// enforced.
pub(super) async fn read(client: &Client, tables: &mut BTreeMap<u32, Table>) -> Result<(), Error> {
    if !is_citus(client).await? {
        return Ok(());
    }
    for row in client.query(PARTITIONS_SQL, &[]).await? {
        let Some(table) = tables.get_mut(&row.try_get(0)?) else {
            continue;
        };
        let (least, greatest) = (
            row.try_get::<_, Vec<Option<String>>>(5)?,
            row.try_get::<_, Vec<Option<String>>>(6)?,
        );
        let partition = Partition {
            method: row.try_get(1)?,
            column: row.try_get(2)?,
            colocation: row.try_get(3)?,
            replication: row.try_get(4)?,
            shards: least.into_iter().zip(greatest).collect(),
        };
        table.distribution = partition.distribution();
        keep(&table.distribution, &mut table.unique_keys);
    }
    Ok(())
}

/// A shard enforces a key among its own rows only. The key holds for all rows if equal keys are
/// always in one shard.
fn keep(distribution: &Distribution, keys: &mut Vec<UniqueKey>) {
    match distribution {
        Distribution::Local | Distribution::Reference | Distribution::Single => {}
        Distribution::Hash(hash) if hash.tiles => {
            keys.retain(|key| key.names().any(|name| name == hash.column))
        }
        Distribution::Hash(_) | Distribution::Unenforced(_) => keys.clear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(ranges: &[(i64, i64)]) -> Vec<(Option<String>, Option<String>)> {
        ranges
            .iter()
            .map(|(least, greatest)| (Some(least.to_string()), Some(greatest.to_string())))
            .collect()
    }

    const LEAST: i64 = i32::MIN as i64;
    const GREATEST: i64 = i32::MAX as i64;

    #[test]
    fn shards_tile_the_hashes_or_not() {
        assert!(
            tile(&shards(&[(LEAST, GREATEST)])) && tile(&shards(&[(0, GREATEST), (LEAST, -1)]))
        );
        assert!(
            tile(&shards(&[(LEAST, -1), (0, 0), (1, GREATEST)])),
            "a tenant by itself"
        );
        for broken in [
            &[][..],
            &[(LEAST, -1), (1, GREATEST)],
            &[(LEAST, 0), (0, GREATEST)],
            &[(LEAST, -1), (0, GREATEST - 1)],
            &[(LEAST + 1, GREATEST)],
            &[(LEAST, GREATEST), (LEAST, GREATEST)],
            &[(LEAST, -1), (0, GREATEST), (5, 9)],
            &[(0, -1), (LEAST, GREATEST)],
        ] {
            assert!(!tile(&shards(broken)), "{broken:?}");
        }
        assert!(!tile(&[(None, None)]) && !tile(&[(Some("a".to_owned()), Some("b".to_owned()))]));
    }

    #[test]
    fn methods_are_distinguished() {
        let of = |method: &str,
                  column: Option<&str>,
                  colocation,
                  replication: &str,
                  ranges: &[(i64, i64)]| {
            let (method, column, replication) = (
                method.to_owned(),
                column.map(str::to_owned),
                replication.to_owned(),
            );
            Partition {
                method,
                column,
                colocation,
                replication,
                shards: shards(ranges),
            }
            .distribution()
        };
        let whole = [(LEAST, GREATEST)];
        let hash = |colocation, tiles| {
            Distribution::Hash(Hash {
                column: "uid".to_owned(),
                colocation,
                tiles,
            })
        };
        assert_eq!(of("h", Some("uid"), 3, "s", &whole), hash(3, true));
        assert_eq!(
            of("h", Some("uid"), 3, "c", &[(0, GREATEST)]),
            hash(3, false)
        );
        assert_eq!(of("n", None, 4, "t", &[(0, 0)]), Distribution::Reference);
        assert_eq!(of("n", None, 0, "s", &[(0, 0)]), Distribution::Local);
        assert_eq!(of("n", None, 5, "s", &[(0, 0)]), Distribution::Single);
        // Anything that Citus would not create is not trusted.
        for (method, column, colocation, replication) in [
            ("a", Some("uid"), 0, "c"),
            ("r", Some("uid"), 0, "c"),
            ("h", None, 1, "s"),
            ("n", None, 4, "c"),
            ("x", None, 1, "s"),
            ("n", Some("uid"), 1, "s"),
        ] {
            let found = of(method, column, colocation, replication, &whole);
            assert!(
                matches!(found, Distribution::Unenforced(_)),
                "{method} {column:?}: {found:?}"
            );
        }
        assert!(matches!(
            of("n", None, 5, "s", &[(0, 0), (1, 1)]),
            Distribution::Unenforced(_)
        ));
    }

    #[test]
    fn keys_hold_where_equal_ones_lie_in_one_shard() {
        let keys = |distribution: Distribution| {
            let mut keys = vec![
                UniqueKey::plain(["uid", "n"], true),
                UniqueKey::plain(["n"], false),
            ];
            keep(&distribution, &mut keys);
            keys.iter()
                .map(|key| key.names().count())
                .collect::<Vec<_>>()
        };
        let hash = |tiles| {
            Distribution::Hash(Hash {
                column: "uid".to_owned(),
                colocation: 1,
                tiles,
            })
        };
        assert_eq!(keys(Distribution::Local), [2, 1]);
        assert_eq!(keys(Distribution::Reference), [2, 1]);
        assert_eq!(keys(Distribution::Single), [2, 1]);
        assert_eq!(keys(hash(true)), [2]);
        assert_eq!(keys(hash(false)), [0usize; 0]);
        assert_eq!(
            keys(Distribution::Unenforced("append".to_owned())),
            [0usize; 0]
        );
    }
}
