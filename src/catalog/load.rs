//! Reads the whole snapshot in eleven queries, whatever the number of tables.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::{Client, Row};

use super::key::KeyColumn;
use super::type_of::{base_of_domain, type_of};
use super::{
    Allowed, Catalog, Collation, Column, Distribution, Enum, Error, ForeignKey, Index,
    RelationKind, Table, TableFingerprint, Type, TypeDefinition, UniqueKey, UnneededRight,
    UserType, fingerprints,
};
use super::{check_constraints, citus};

/// Every user relation of the connected database, as the connected role sees it.
///
/// # Requires
/// The client is outside a transaction: the snapshot opens a read-only transaction and ends it.
pub async fn load(client: &Client) -> Result<Catalog, Error> {
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    let catalog = read(client).await;
    // Nothing was written, so ROLLBACK ends it in either case. The first error is reported.
    let ended = client.batch_execute("ROLLBACK").await;
    let catalog = catalog?;
    ended?;
    Ok(catalog)
}

async fn read(client: &Client) -> Result<Catalog, Error> {
    let server = client.query_one(SERVER_SQL, &[]).await?;
    let server_version: String = server.try_get(0)?;
    let number = u32::try_from(server.try_get::<_, i32>(1)?).unwrap_or(0);
    if number < 120_000 {
        return Err(Error::TooOld(server_version));
    }
    // MAINTAIN came with 17; an unknown privilege word is an error on older servers.
    let writes = if number >= 170_000 {
        "INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER,MAINTAIN"
    } else {
        "INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER"
    };

    let mut tables = read_tables(client, writes).await?;
    let types = client
        .query(TYPES_SQL, &[])
        .await?
        .iter()
        .map(user_type)
        .collect::<Result<Vec<_>, _>>()?;
    look_into(&mut tables, &types);
    let oids: Vec<u32> = tables.keys().copied().collect();
    for (oid, fingerprint) in fingerprints(client, &oids).await? {
        if let Some(table) = tables.get_mut(&oid) {
            table.fingerprint = fingerprint;
        }
    }
    let mut tables: Vec<Table> = tables.into_values().collect();
    tables.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
    let powers = powers(&client.query_one(POWERS_SQL, &[]).await?)?;
    let (server_encoding, database) = (server.try_get(2)?, server.try_get(3)?);
    Ok(Catalog {
        server_version,
        server_version_num: number,
        server_encoding,
        database,
        powers,
        tables,
        types,
    })
}

/// The tables with their columns, keys, checks and inheritance, by OID.
async fn read_tables(client: &Client, writes: &str) -> Result<BTreeMap<u32, Table>, Error> {
    let mut tables = BTreeMap::new();
    for row in client.query(TABLES_SQL, &[&writes]).await? {
        let table = table(&row)?;
        tables.insert(table.oid, table);
    }
    for row in client.query(COLUMNS_SQL, &[]).await? {
        if let Some(table) = tables.get_mut(&row.try_get(0)?) {
            table.columns.push(column(&row)?);
        }
    }
    for row in client.query(KEYS_SQL, &[]).await? {
        if let Some(table) = tables.get_mut(&row.try_get(0)?) {
            add_key(table, key(&row)?);
        }
    }
    citus::read(client, &mut tables).await?;
    for row in client.query(FOREIGN_KEYS_SQL, &[]).await? {
        let key = ForeignKey {
            columns: row.try_get(1)?,
            schema: row.try_get(2)?,
            table: row.try_get(3)?,
            referenced: row.try_get(4)?,
            nullable: row.try_get(5)?,
        };
        if let Some(table) = tables.get_mut(&row.try_get(0)?)
            && !table.foreign_keys.contains(&key)
        {
            table.foreign_keys.push(key);
        }
    }
    for row in client.query(INDEXES_SQL, &[]).await? {
        if let Some(table) = tables.get_mut(&row.try_get(0)?) {
            let columns = row.try_get(1)?;
            table.indexes.push(Index { columns });
        }
    }
    for row in client.query(CHECKS_SQL, &[]).await? {
        if let Some(table) = tables.get_mut(&row.try_get(0)?) {
            check_constraints::read(table, row.try_get(1)?);
        }
    }
    let mut edges: Vec<(u32, u32)> = Vec::new();
    for row in client.query(INHERITS_SQL, &[]).await? {
        edges.push((row.try_get(0)?, row.try_get(1)?));
    }
    link(&mut tables, &edges);
    Ok(tables)
}

/// A superuser has every other power, so those are not listed.
fn powers(row: &Row) -> Result<Vec<UnneededRight>, Error> {
    if row.try_get(0)? {
        return Ok(vec![UnneededRight::Superuser]);
    }
    let mut powers = Vec::new();
    for (at, power) in [
        UnneededRight::PassRowSecurity,
        UnneededRight::MakeRoles,
        UnneededRight::MakeDatabases,
        UnneededRight::Replicate,
        UnneededRight::MakeSchemas,
    ]
    .into_iter()
    .enumerate()
    {
        if row.try_get(at + 1)? {
            powers.push(power);
        }
    }
    powers.extend(
        row.try_get::<_, Vec<String>>(6)?
            .into_iter()
            .map(UnneededRight::Predefined),
    );
    powers.extend(
        row.try_get::<_, Vec<String>>(7)?
            .into_iter()
            .map(UnneededRight::Become),
    );
    powers.extend(
        row.try_get::<_, Vec<String>>(8)?
            .into_iter()
            .map(UnneededRight::MakeObjects),
    );
    Ok(powers)
}

fn user_type(row: &Row) -> Result<UserType, Error> {
    let definition = match row.try_get(3)? {
        "enum" => TypeDefinition::Enum(row.try_get(4)?),
        "domain" => TypeDefinition::Domain {
            base: row.try_get(5)?,
            not_null: row.try_get(6)?,
        },
        _ => TypeDefinition::Opaque,
    };
    Ok(UserType {
        oid: row.try_get(0)?,
        schema: row.try_get(1)?,
        name: row.try_get(2)?,
        array: row.try_get(7)?,
        definition,
    })
}

/// Adds the labels to columns of enums, and the base type to columns of domains.
fn look_into(tables: &mut BTreeMap<u32, Table>, types: &[UserType]) {
    for column in tables.values_mut().flat_map(|table| &mut table.columns) {
        let Type::Other { oid: of, name: _ } = &column.data_type else {
            continue;
        };
        let Some(UserType {
            oid,
            schema,
            name,
            array: _,
            definition,
        }) = types.iter().find(|made| made.oid == *of)
        else {
            continue;
        };
        match definition {
            TypeDefinition::Enum(labels) => {
                let made = Enum {
                    oid: *oid,
                    schema: schema.clone(),
                    name: name.clone(),
                    labels: labels.clone(),
                };
                column.data_type = Type::Enum(Box::new(made));
            }
            TypeDefinition::Domain { base, not_null: _ } => column.over = base_of_domain(base),
            TypeDefinition::Opaque => {}
        }
    }
}

fn table(row: &Row) -> Result<Table, Error> {
    let kind = match row.try_get(3)? {
        "r" => RelationKind::Ordinary,
        "p" => RelationKind::Partitioned,
        "f" => RelationKind::Foreign,
        "v" => RelationKind::View,
        "m" => RelationKind::MaterializedView,
        _ => RelationKind::Other,
    };
    Ok(Table {
        oid: row.try_get(0)?,
        schema: row.try_get(1)?,
        name: row.try_get(2)?,
        kind,
        columns: Vec::new(),
        unique_keys: Vec::new(),
        foreign_keys: Vec::new(),
        indexes: Vec::new(),
        inherits: false,
        parents: Vec::new(),
        distribution: Distribution::default(),
        row_security: row.try_get(4)?,
        has_rules: row.try_get(5)?,
        selectable: row.try_get(6)?,
        writable: row.try_get(7)?,
        fingerprint: TableFingerprint::default(),
    })
}

fn column(row: &Row) -> Result<Column, Error> {
    Ok(Column {
        name: row.try_get(2)?,
        number: row.try_get(1)?,
        data_type: type_of(row.try_get(3)?, row.try_get(4)?, row.try_get(5)?),
        not_null: row.try_get(6)?,
        deterministic_collation: row.try_get(7)?,
        collation: row
            .try_get::<_, Option<String>>(11)?
            .zip(row.try_get(12)?)
            .map(|(schema, name)| Collation { schema, name }),
        is_virtual: row.try_get(8)?,
        is_domain: row.try_get(9)?,
        over: None,
        selectable: row.try_get(10)?,
        allowed: Allowed::default(),
    })
}

fn key(row: &Row) -> Result<UniqueKey, Error> {
    let names = row
        .try_get::<_, Vec<String>>(2)?
        .into_iter()
        .zip(row.try_get::<_, Vec<bool>>(3)?);
    let collations = row
        .try_get::<_, Vec<Option<String>>>(4)?
        .into_iter()
        .zip(row.try_get::<_, Vec<Option<String>>>(5)?);
    let columns = names
        .zip(collations)
        .map(|((name, covers_own), (schema, collation))| {
            let collation = schema
                .zip(collation)
                .map(|(schema, name)| Collation { schema, name });
            KeyColumn {
                name,
                covers_own,
                collation,
            }
        });
    Ok(UniqueKey::of(columns.collect(), row.try_get(1)?))
}

fn add_key(table: &mut Table, key: UniqueKey) {
    match table
        .unique_keys
        .iter_mut()
        .find(|known| known.is_like(&key))
    {
        Some(known) => known.primary |= key.primary,
        None => table.unique_keys.push(key),
    }
}

/// Marks inheritance, and removes NOT NULL if a foreign table, which enforces nothing, may hold
/// some of the rows.
fn link(tables: &mut BTreeMap<u32, Table>, edges: &[(u32, u32)]) {
    let kinds: BTreeMap<u32, RelationKind> = tables.iter().map(|(oid, t)| (*oid, t.kind)).collect();
    let mut unenforced: BTreeSet<u32> = kinds
        .iter()
        .filter(|(_, k)| **k == RelationKind::Foreign)
        .map(|(oid, _)| *oid)
        .collect();
    for (child, parent) in edges {
        // A parent outside the snapshot (of another session, or just dropped) counts as plain
        // inheritance, which proves nothing.
        let declarative = kinds.get(parent) == Some(&RelationKind::Partitioned);
        for oid in [child, parent] {
            if let Some(table) = tables.get_mut(oid) {
                table.inherits |= !declarative;
            }
        }
        if let Some(table) = tables.get_mut(child) {
            table.parents.push(*parent);
        }
    }
    loop {
        let known = unenforced.len();
        unenforced.extend(
            edges
                .iter()
                .filter(|(child, _)| unenforced.contains(child))
                .map(|(_, parent)| *parent)
                .collect::<Vec<_>>(),
        );
        if unenforced.len() == known {
            break;
        }
    }
    for (_, table) in tables
        .iter_mut()
        .filter(|(oid, _)| unenforced.contains(oid))
    {
        table.columns.iter_mut().for_each(|c| c.not_null = false);
    }
}

const SERVER_SQL: &str = "SELECT pg_catalog.current_setting('server_version'), \
    pg_catalog.current_setting('server_version_num')::int4, \
    pg_catalog.current_setting('server_encoding'), pg_catalog.current_database()::text";

// Roles below 16384 are PostgreSQL's own.
const POWERS_SQL: &str = r#"
SELECT r.rolsuper, r.rolbypassrls, r.rolcreaterole, r.rolcreatedb, r.rolreplication,
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       ARRAY(SELECT m.rolname::text FROM pg_catalog.pg_roles m
             WHERE m.oid < 16384 AND m.rolname <> r.rolname
                 AND pg_catalog.pg_has_role(m.oid, 'MEMBER') ORDER BY 1),
       ARRAY(SELECT m.rolname::text FROM pg_catalog.pg_roles m
             WHERE m.oid >= 16384 AND m.rolname <> r.rolname
                 AND pg_catalog.pg_has_role(m.oid, 'MEMBER')
                   AND NOT pg_catalog.pg_has_role(m.oid, 'USAGE') ORDER BY 1),
       ARRAY(SELECT n.nspname::text FROM pg_catalog.pg_namespace n
             WHERE pg_catalog.left(n.nspname, 3) <> 'pg_'
                 AND pg_catalog.has_schema_privilege(n.oid, 'CREATE') ORDER BY 1)
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user"#;

// Schemas named pg_* are PostgreSQL's own: catalog, toast and the temporary ones of sessions. What
// belongs to Citus shows no rows of tables.
const TABLES_SQL: &str = r#"
SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text, c.relrowsecurity
    OR c.relforcerowsecurity,
       EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid),
       COALESCE(pg_catalog.has_schema_privilege(n.oid, 'USAGE')
           AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT'), false),
       COALESCE(pg_catalog.has_table_privilege(c.oid, $1::text)
           OR pg_catalog.has_any_column_privilege(c.oid, 'INSERT,UPDATE,REFERENCES')
           OR pg_catalog.pg_has_role(c.relowner, 'MEMBER'), true)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND pg_catalog.left(n.nspname, 3) <> 'pg_'
    AND n.nspname <> 'information_schema'
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e
          ON e.oid = d.refobjid
                      WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
                          AND d.objid = c.oid AND d.deptype = 'e'
                            AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
                                AND e.extname IN ('citus', 'citus_columnar'))"#;

// Since PostgreSQL 18, a NOT NULL constraint that is NOT VALID also sets attnotnull. A string type
// from an extension (citext) defines equality differently.
const COLUMNS_SQL: &str = r#"
SELECT a.attrelid, a.attnum, a.attname::text, a.atttypid, a.atttypmod,
    pg_catalog.format_type(a.atttypid, a.atttypmod),
       a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint o
           WHERE o.conrelid = a.attrelid AND o.contype = 'n' AND NOT o.convalidated
               AND a.attnum = ANY (o.conkey)),
       COALESCE(k.collisdeterministic, true) AND NOT (t.typcategory = 'S'
           AND CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END >= 16384),
       a.attgenerated NOT IN ('', 's'), t.typtype = 'd',
           COALESCE(pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT'), false),
       kn.nspname::text, k.collname::text
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_catalog.pg_type t ON t.oid = a.atttypid LEFT JOIN pg_catalog.pg_collation k
         ON k.oid = a.attcollation
     LEFT JOIN pg_catalog.pg_namespace kn ON kn.oid = k.collnamespace AND k.collprovider <> 'd'
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'f', 'v', 'm')
      AND pg_catalog.left(n.nspname, 3) <> 'pg_' AND n.nspname <> 'information_schema'
ORDER BY a.attrelid, a.attnum"#;

// Accepts only btree indexes whose operator class has the equality of the default class of the
// column's type (or of arrays, rows, enums and ranges; varchar uses that of text). A class of a
// type to which the column's type is cast without a function (text for citext) may be stricter.
// WITHOUT OVERLAPS of PostgreSQL 18 is unique *and* an exclusion.
const KEYS_SQL: &str = r#"
SELECT x.indrelid, x.indisprimary, k.names, k.covers_own, k.schemas, k.collations
FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid
    JOIN pg_catalog.pg_am m ON m.oid = c.relam
CROSS JOIN LATERAL (
  SELECT pg_catalog.bool_and(COALESCE(a.attnum > 0, false) AND COALESCE((
           SELECT true
           FROM pg_catalog.pg_opclass o JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
                JOIN pg_catalog.pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype
                    ELSE t.oid END
                JOIN pg_catalog.pg_opclass d ON d.opcmethod = o.opcmethod
                    AND d.opcintype = o.opcintype AND d.opcdefault
                JOIN pg_catalog.pg_amop oe ON oe.amopfamily = o.opcfamily
                    AND oe.amoplefttype = o.opcintype AND oe.amoprighttype = o.opcintype
                JOIN pg_catalog.pg_amop de ON de.amopfamily = d.opcfamily
                    AND de.amoplefttype = d.opcintype AND de.amoprighttype = d.opcintype
           WHERE o.oid = x.indclass[i.n] AND oe.amopstrategy = 3 AND de.amopstrategy = 3
               AND oe.amopopr = de.amopopr
             AND (d.opcintype = b.oid OR d.opcintype IN (2277, 2249, 3500, 3831, 4537)
                  OR b.oid < 16384 AND NOT EXISTS (SELECT FROM pg_catalog.pg_opclass s
                                                   WHERE s.opcmethod = o.opcmethod
                                                       AND s.opcintype = b.oid AND s.opcdefault))
           LIMIT 1), false)) AS is_plain,
         pg_catalog.array_agg(a.attname::text ORDER BY i.n) AS names,
         pg_catalog.array_agg(x.indcollation[i.n] = a.attcollation
             OR COALESCE(ac.collisdeterministic, true) ORDER BY i.n) AS covers_own,
         pg_catalog.array_agg(CASE WHEN NOT ic.collisdeterministic THEN icn.nspname::text END
             ORDER BY i.n) AS schemas,
         pg_catalog.array_agg(CASE WHEN NOT ic.collisdeterministic THEN ic.collname::text END
             ORDER BY i.n) AS collations
  FROM pg_catalog.generate_series(0, x.indnkeyatts - 1) AS i(n)
       LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[i.n]
       LEFT JOIN pg_catalog.pg_collation ic ON ic.oid = x.indcollation[i.n]
       LEFT JOIN pg_catalog.pg_namespace icn ON icn.oid = ic.collnamespace
       LEFT JOIN pg_catalog.pg_collation ac ON ac.oid = a.attcollation) k
WHERE x.indrelid >= 16384 AND x.indisunique AND x.indisvalid AND x.indisready AND x.indislive
    AND x.indimmediate AND NOT x.indisexclusion
      AND x.indpred IS NULL AND x.indexprs IS NULL AND m.amname = 'btree' AND k.is_plain
ORDER BY x.indrelid, x.indisprimary DESC, x.indexrelid"#;

const INDEXES_SQL: &str = r#"
SELECT x.indrelid,
       ARRAY(SELECT a.attname::text
             FROM pg_catalog.generate_series(0, x.indnatts - 1) AS i(n)
                 JOIN pg_catalog.pg_attribute a
                 ON a.attrelid = x.indrelid AND a.attnum = x.indkey[i.n] ORDER BY i.n)
FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid
    JOIN pg_catalog.pg_am m ON m.oid = c.relam
WHERE x.indrelid >= 16384 AND x.indisvalid AND x.indpred IS NULL AND x.indexprs IS NULL
    AND m.amname = 'btree'
ORDER BY x.indrelid, x.indexrelid"#;

const FOREIGN_KEYS_SQL: &str = r#"
SELECT o.conrelid,
       ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(o.conkey) WITH ORDINALITY AS k(n, i)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = k.n
                 ORDER BY k.i),
       n.nspname::text, c.relname::text,
       ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(o.confkey) WITH ORDINALITY AS k(n, i)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = o.confrelid AND a.attnum = k.n
                 ORDER BY k.i),
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = o.conrelid AND a.attnum = ANY (o.conkey) AND NOT a.attnotnull
                 AND o.confmatchtype <> 'f' ORDER BY a.attnum)
FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class c ON c.oid = o.confrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE o.contype = 'f' AND o.convalidated
    -- A key to a partitioned table has one to each partition too, to which not every row refers.
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint p
        WHERE p.oid = o.conparentid AND p.conrelid = o.conrelid)
ORDER BY o.conrelid, o.oid"#;

const CHECKS_SQL: &str = r#"
SELECT o.conrelid, pg_catalog.pg_get_expr(o.conbin, o.conrelid) FROM pg_catalog.pg_constraint o
WHERE o.contype = 'c' AND o.convalidated AND o.conrelid <> 0
    AND pg_catalog.pg_get_expr(o.conbin, o.conrelid) IS NOT NULL ORDER BY o.conrelid, o.oid"#;

const TYPES_SQL: &str = r#"
SELECT t.oid, n.nspname::text, t.typname::text,
       CASE WHEN t.typtype = 'e' THEN 'enum' WHEN t.typtype = 'd' AND t.typbasetype < 16384
           THEN 'domain' ELSE 'opaque' END,
       ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid
           ORDER BY e.enumsortorder),
       pg_catalog.format_type(t.typbasetype, t.typtypmod), t.typnotnull, t.typarray
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND t.typcategory <> 'A'
    AND t.typtype <> 'p'
      AND (t.typtype <> 'c' OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid
          AND c.relkind = 'c'))
ORDER BY t.oid"#;

const INHERITS_SQL: &str =
    "SELECT inhrelid, inhparent FROM pg_catalog.pg_inherits ORDER BY inhrelid, inhseqno";
