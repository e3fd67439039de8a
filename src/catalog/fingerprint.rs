//! The digest of a table's catalog rows, made by PostgreSQL itself, so that a release can compare
//! it inside its own transaction.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, Statement};

use super::Error;

/// The digest of a table's definition: 64 hexadecimal digits, or nothing before it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableFingerprint(String);

impl TableFingerprint {
    pub fn new(digits: impl Into<String>) -> Self {
        Self(digits.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One parameter, `oid[]`; one row `(oid oid, fingerprint text)` for each of the tables that still
/// exists.
///
/// It covers what plans rely on: kind, columns with types, collations and the labels of enums in
/// their order, valid unique keys, other constraints except CHECK, parents, the kinds of all
/// descendants, row security, policies and rules, and on Citus how rows are distributed. It does
/// not depend on rows, statistics, storage, privileges, plain indexes or the location of Citus
/// shards. A new partition of an existing kind does not change it, because rotating partitions is
/// daily work.
///
/// The catalog of Citus is named in a text that runs only if Citus is installed. So one statement
/// works on all servers, also after CREATE EXTENSION.
pub const FINGERPRINT_SQL: &str = r#"
WITH RECURSIVE wanted AS (SELECT DISTINCT o FROM pg_catalog.unnest($1::oid[]) AS u(o)),
tree(root, relid) AS (
  SELECT o, o FROM wanted
  UNION
  SELECT tree.root, i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.relid)
SELECT c.oid, pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.jsonb_build_array(
  n.nspname, c.relname, c.relkind, c.relpersistence, c.relispartition, c.relrowsecurity,
      c.relforcerowsecurity,
  (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(a.attnum, a.attname, a.atttypid,
      a.atttypmod, a.attnotnull, a.attgenerated,
            t.typtype, t.typbasetype, k.collname, k.collisdeterministic,
      (SELECT pg_catalog.jsonb_agg(e.enumlabel ORDER BY e.enumsortorder)
         FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid)) ORDER BY a.attnum)
     FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
         LEFT JOIN pg_catalog.pg_collation k ON k.oid = a.attcollation
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  (SELECT pg_catalog.jsonb_agg(DISTINCT pg_catalog.jsonb_build_array(o.contype, o.convalidated,
      o.condeferrable, o.conkey::text, o.confrelid, o.confkey::text))
     FROM pg_catalog.pg_constraint o WHERE o.conrelid = c.oid AND o.contype NOT IN ('c', 't')),
  (SELECT pg_catalog.jsonb_agg(DISTINCT pg_catalog.jsonb_build_array(x.indisprimary,
      x.indisexclusion, x.indimmediate, x.indnkeyatts, x.indkey::text,
            x.indclass::text, x.indcollation::text, x.indpred IS NULL, x.indexprs IS NULL))
     FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid AND x.indisunique AND x.indisvalid
         AND x.indisready AND x.indislive),
  (SELECT pg_catalog.jsonb_agg(DISTINCT i.inhparent ORDER BY i.inhparent)
      FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid),
  (SELECT pg_catalog.jsonb_agg(DISTINCT pg_catalog.jsonb_build_array(d.relkind, d.relispartition))
     FROM tree JOIN pg_catalog.pg_class d ON d.oid = tree.relid WHERE tree.root = c.oid
         AND tree.relid <> c.oid),
  (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(p.polname, p.polcmd, p.polpermissive,
      p.polroles::text, p.polqual::text) ORDER BY p.polname)
     FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid),
  (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(r.rulename, r.ev_type, r.ev_enabled,
      r.is_instead) ORDER BY r.rulename)
     FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid),
  CASE WHEN pg_catalog.to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL
      THEN pg_catalog.query_to_xml(pg_catalog.format(
    'SELECT partmethod, partkey, colocationid, repmodel FROM pg_catalog.pg_dist_partition '
    'WHERE logicalrelid = %s', c.oid), true, false, '')::text END
  )::text, 'UTF8')), 'hex') AS fingerprint
FROM wanted JOIN pg_catalog.pg_class c ON c.oid = wanted.o JOIN pg_catalog.pg_namespace n
    ON n.oid = c.relnamespace
"#;

/// The current fingerprints of these tables, without tables that are gone.
pub async fn fingerprints(
    client: &Client,
    tables: &[u32],
) -> Result<BTreeMap<u32, TableFingerprint>, Error> {
    fingerprints_prepared(client, &client.prepare(FINGERPRINT_SQL).await?, tables).await
}

/// Like [`fingerprints`], with [`FINGERPRINT_SQL`] as a prepared statement: planning it takes
/// longer than running it.
pub async fn fingerprints_prepared(
    client: &Client,
    statement: &Statement,
    tables: &[u32],
) -> Result<BTreeMap<u32, TableFingerprint>, Error> {
    let rows = client.query(statement, &[&tables]).await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, TableFingerprint(row.try_get(1)?))))
        .collect()
}
