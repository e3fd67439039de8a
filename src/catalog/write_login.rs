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
