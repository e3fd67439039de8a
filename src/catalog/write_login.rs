//! What a login may do beyond inserting rows into a few tables.

use tokio_postgres::{Client, Row};

use super::Error;

/// What the connected login may do, itself or as a role that it is a member of, beyond INSERT into
/// these tables (by OID, with the names that messages show); and what it may not do of that. Each
/// is the rest of a sentence about it; none: it may do exactly that.
///
/// # Guarantee
/// A login without excess reads no row of a table or view outside `pg_catalog`, changes none, and
/// makes no object, whatever it sends; but for functions that run as their owners.
pub async fn excess_of_write_login(
    client: &Client,
    tables: &[(u32, String)],
) -> Result<Vec<String>, Error> {
    let mut excess = Vec::new();
    for row in client.query(ROLES_SQL, &[]).await? {
        add_role(&row, &mut excess)?;
    }
    // A superuser may do all else too.
    if !excess.is_empty() {
        return Ok(excess);
    }
    for row in client.query(SCHEMAS_SQL, &[]).await? {
        excess.push(row.try_get(0)?);
    }
    let mut found = Vec::new();
    for row in client.query(RELATIONS_SQL, &[]).await? {
        let oid: u32 = row.try_get(0)?;
        let wanted = tables.iter().any(|(wanted, _)| *wanted == oid);
        if wanted {
            found.push(oid);
        }
        add_relation(&row, wanted, &mut excess)?;
    }
    for (_, name) in tables.iter().filter(|(oid, _)| !found.contains(oid)) {
        excess.push(format!(
            "finds no table {name}: is it a login of the same database?"
        ));
    }
    Ok(excess)
}

/// What of these tables' columns the connected login may not insert into, each as
/// [`excess_of_write_login`] says it.
pub async fn lack_of_write_login(
    client: &Client,
    (oid, name): (u32, &str),
    columns: &[String],
) -> Result<Vec<String>, Error> {
    let rows = client.query(LACK_SQL, &[&oid, &columns]).await?;
    let mut lack = Vec::new();
    for row in rows {
        match row.try_get::<_, Option<String>>(0)? {
            Some(column) => lack.push(format!("may not INSERT into column {column} of {name}")),
            None => lack.push(format!("has no USAGE on the schema of {name}")),
        }
    }
    Ok(lack)
}

/// Which database this is: its name and OID, and the server's identifier where the login may read
/// it. A physical replica has those of its primary.
pub async fn database_identity(client: &Client) -> Result<(String, u32, Option<i64>), Error> {
    let row = client.query_one(DATABASE_SQL, &[]).await?;
    // Some hosts let no login read it.
    let server = client.query_one(SERVER_SQL, &[]).await.ok();
    let server = server.and_then(|row| row.try_get(0).ok());
    Ok((row.try_get(0)?, row.try_get(1)?, server))
}

/// Unique and exclusion indexes that see one of these columns of a table or of its partitions, or
/// may: those of expressions, of a part of the rows and over generated columns. By name.
pub async fn indexes_that_refuse(
    client: &Client,
    table: u32,
    columns: &[String],
) -> Result<Vec<String>, Error> {
    let rows = client.query(INDEXES_SQL, &[&table, &columns]).await?;
    let names = rows.iter().map(|row| row.try_get(0));
    Ok(names.collect::<Result<_, _>>()?)
}

/// Which of these columns of a table the database makes itself, so that no value can be inserted:
/// generated ones, and identities that are GENERATED ALWAYS. In order.
pub async fn made_by_database(
    client: &Client,
    table: u32,
    columns: &[String],
) -> Result<Vec<String>, Error> {
    let rows = client.query(MADE_SQL, &[&table, &columns]).await?;
    let names = rows.iter().map(|row| row.try_get(0));
    Ok(names.collect::<Result<_, _>>()?)
}

fn add_role(row: &Row, excess: &mut Vec<String>) -> Result<(), Error> {
    let (name, is_own): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
    let who = match is_own {
        true => "is".to_owned(),
        false => format!("is a member of role {name}, which is"),
    };
    for (at, what) in [
        "a superuser",
        "one that passes row security (BYPASSRLS)",
        "one that makes roles (CREATEROLE)",
        "one that makes databases (CREATEDB)",
        "one that replicates (REPLICATION)",
        "defined by PostgreSQL with further rights",
    ]
    .into_iter()
    .enumerate()
    {
        if row.try_get(at + 2)? {
            excess.push(format!("{who} {what}"));
        }
    }
    Ok(())
}

fn add_relation(row: &Row, is_wanted: bool, excess: &mut Vec<String>) -> Result<(), Error> {
    let name: String = row.try_get(1)?;
    for (at, right) in [
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "REFERENCES",
        "TRIGGER",
    ]
    .into_iter()
    .enumerate()
    {
        let is_granted: bool = row.try_get(at + 2)?;
        match (right == "INSERT" && is_wanted, is_granted) {
            (true, false) => excess.push(format!("may not INSERT into {name}")),
            (false, true) => excess.push(format!("has {right} on {name}")),
            (true, true) | (false, false) => {}
        }
    }
    if row.try_get(9)? {
        excess.push(format!("owns {name}"));
    }
    Ok(())
}

const LACK_SQL: &str = r#"
SELECT a.name FROM pg_catalog.unnest($2::text[]) AS a(name)
WHERE NOT pg_catalog.has_column_privilege($1::oid, a.name, 'INSERT')
UNION ALL
SELECT NULL FROM pg_catalog.pg_class c
WHERE c.oid = $1::oid AND NOT pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE')"#;

const MADE_SQL: &str = r#"
SELECT a.attname::text FROM pg_catalog.pg_attribute a
WHERE a.attrelid = $1::oid AND a.attname = ANY ($2::text[])
      AND (a.attgenerated <> '' OR a.attidentity = 'a')
ORDER BY a.attnum"#;

const DATABASE_SQL: &str = r#"
SELECT d.datname::text, d.oid FROM pg_catalog.pg_database d
WHERE d.datname = pg_catalog.current_database()"#;

const SERVER_SQL: &str = "SELECT system_identifier FROM pg_catalog.pg_control_system()";

const INDEXES_SQL: &str = r#"
WITH RECURSIVE tree(oid) AS (
  SELECT $1::oid
  UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid
      JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relispartition)
SELECT DISTINCT c.relname::text FROM pg_catalog.pg_index x JOIN tree ON x.indrelid = tree.oid
     JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid
WHERE (x.indisunique OR x.indisexclusion) AND (x.indexprs IS NOT NULL OR x.indpred IS NOT NULL
  OR EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = x.indrelid
             AND a.attnum = ANY (x.indkey)
             AND (a.attname = ANY ($2::text[]) OR a.attgenerated <> '')))
ORDER BY 1"#;

/// The roles that the login is, or may become. A superuser may become every role.
const ROLES_SQL: &str = r#"
SELECT r.rolname::text, r.oid = me.oid, r.rolsuper, r.rolbypassrls, r.rolcreaterole,
       r.rolcreatedb, r.rolreplication, r.oid < 16384 AND r.oid <> me.oid
FROM pg_catalog.pg_roles r JOIN pg_catalog.pg_roles me ON me.rolname = session_user
WHERE pg_catalog.pg_has_role(me.oid, r.oid, 'MEMBER') AND (r.oid = me.oid OR NOT me.rolsuper)
ORDER BY r.oid = me.oid DESC, r.rolname"#;

const SCHEMAS_SQL: &str = r#"
WITH who AS (
  SELECT r.oid FROM pg_catalog.pg_roles r
      JOIN pg_catalog.pg_roles me ON me.rolname = session_user
  WHERE pg_catalog.pg_has_role(me.oid, r.oid, 'MEMBER'))
SELECT 'may CREATE in schema ' || n.nspname FROM pg_catalog.pg_namespace n
WHERE pg_catalog.left(n.nspname, 3) <> 'pg_' AND EXISTS (
  SELECT FROM who WHERE pg_catalog.has_schema_privilege(who.oid, n.oid, 'CREATE'))
UNION ALL
SELECT 'may CREATE in database ' || pg_catalog.current_database() WHERE EXISTS (
  SELECT FROM who WHERE pg_catalog.has_database_privilege(who.oid,
      pg_catalog.current_database(), 'CREATE'))
ORDER BY 1"#;

/// The rights on each relation, of the login and of the roles that it may become.
const RELATIONS_SQL: &str = r#"
WITH who AS (
  SELECT r.oid FROM pg_catalog.pg_roles r
      JOIN pg_catalog.pg_roles me ON me.rolname = session_user
  WHERE pg_catalog.pg_has_role(me.oid, r.oid, 'MEMBER'))
SELECT c.oid, n.nspname || '.' || c.relname,
       bool_or(pg_catalog.has_any_column_privilege(who.oid, c.oid, 'SELECT')),
       bool_or(pg_catalog.has_any_column_privilege(who.oid, c.oid, 'INSERT')),
       bool_or(pg_catalog.has_any_column_privilege(who.oid, c.oid, 'UPDATE')),
       bool_or(pg_catalog.has_table_privilege(who.oid, c.oid, 'DELETE')),
       bool_or(pg_catalog.has_table_privilege(who.oid, c.oid, 'TRUNCATE')),
       bool_or(pg_catalog.has_any_column_privilege(who.oid, c.oid, 'REFERENCES')),
       bool_or(pg_catalog.has_table_privilege(who.oid, c.oid, 'TRIGGER')),
       bool_or(who.oid = c.relowner)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN who
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND pg_catalog.left(n.nspname, 3) <> 'pg_'
      AND n.nspname <> 'information_schema'
GROUP BY c.oid, n.nspname, c.relname ORDER BY 2"#;
