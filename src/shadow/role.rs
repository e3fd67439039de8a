//! The role that statements run as: it may read, and nothing else. The resolver's allow-list of
//! functions is the first defence; this is the second.

use std::time::Duration;

use tokio_postgres::Client;

use super::{ShadowError, ShadowSource};
use crate::postgres::{identifier, literal};

/// The role of all statements except those about the catalogs. It is no superuser and owns nothing.
pub const ROLE: &str = "pgveil_shadow";

/// The settings that the role has by `ALTER ROLE`, for sessions that log in as a superuser and
/// switch.
pub const OPTIONS: &str = "-c temp_file_limit=256MB -c track_activities=off -c track_counts=off";

/// The comment that marks roles which pgveil made on a named server.
const MARK: &str = "pgveil shadow role";

/// Functions that PUBLIC may execute by default and that no statement needs here, as patterns of
/// LIKE: they wait, signal other sessions, write large objects, run SQL from text, change settings,
/// or reveal facts about the cluster.
const LOCKED: [&str; 31] = [
    r"pg\_sleep%",
    r"lo\_%",
    "loread",
    "lowrite",
    r"pg\_advisory\_%",
    r"pg\_try\_advisory\_%",
    r"pg\_notify",
    r"set\_config",
    r"query\_to\_xml%",
    r"table\_to\_xml%",
    r"cursor\_to\_xml%",
    r"schema\_to\_xml%",
    r"database\_to\_xml%",
    r"ts\_stat",
    r"ts\_rewrite",
    r"txid\_%",
    r"pg\_current\_xact\_id%",
    r"pg\_current\_snapshot",
    r"pg\_current\_wal%",
    r"pg\_export\_snapshot",
    r"pg\_cancel\_backend",
    r"pg\_terminate\_backend",
    r"pg\_log\_backend%",
    r"pg\_logical\_%",
    r"pg\_replication\_%",
    r"pg\_read\_%",
    r"pg\_ls\_%",
    r"pg\_stat\_file",
    r"pg\_reload\_conf",
    r"dblink%",
    r"pg\_create\_%",
];

/// The functions that could not be locked, and the roles that exist.
#[derive(Debug)]
pub struct Locked {
    pub warnings: Vec<String>,
    /// The policy's roles that exist in the shadow, for statements about the catalogs.
    pub roles: Vec<String>,
}

/// Makes the roles, grants PUBLIC SELECT on everything and REFERENCES (so that information_schema
/// shows the keys), and locks functions. What only a superuser may do becomes a warning.
pub async fn lock(
    admin: &Client,
    schemas: &[&str],
    roles: &[&str],
    source: &ShadowSource,
    statement_timeout: Duration,
) -> Result<Locked, ShadowError> {
    let database: String = admin
        .query_one("SELECT pg_catalog.current_database()::text", &[])
        .await?
        .try_get(0)?;
    let exists: bool = admin
        .query_one(
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)",
            &[&ROLE],
        )
        .await?
        .try_get(0)?;
    let mut batch = Vec::new();
    if !exists {
        batch.push(format!(
            "CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE"
        ));
    }
    let database = identifier(&database);
    batch.push(format!("REVOKE ALL ON DATABASE {database} FROM PUBLIC"));
    batch.push(match source {
        ShadowSource::Url(_) => format!("GRANT CONNECT ON DATABASE {database} TO {ROLE}"),
        // A local server has a private socket.
        ShadowSource::Local | ShadowSource::LocalEngine(_) | ShadowSource::Started(_) => {
            format!("GRANT CONNECT ON DATABASE {database} TO PUBLIC")
        }
    });
    batch.push("REVOKE CREATE ON SCHEMA public FROM PUBLIC".to_owned());
    for schema in schemas {
        let schema = identifier(schema);
        batch.push(format!(
            "GRANT USAGE ON SCHEMA {schema} TO PUBLIC; GRANT SELECT, REFERENCES ON \
            ALL TABLES IN SCHEMA {schema} TO PUBLIC"
        ));
    }
    batch.push(limits(ROLE, statement_timeout));
    admin.batch_execute(&batch.join(";\n")).await?;

    let mut warnings = restrict(admin).await;
    let mut own = Vec::new();
    for role in roles {
        match create(admin, role, &database, source, statement_timeout).await {
            Ok(()) => own.push((*role).to_owned()),
            Err(error) => warnings.push(format!(
                "it has no role {role}, so that current_user will say {ROLE} \
                    in statements about the catalogs: {error}"
            )),
        }
    }
    if let Err(error) = revoke(admin).await {
        warnings.push(format!(
            "functions could not be locked (a superuser could): {error}"
        ));
    }
    Ok(Locked {
        warnings,
        roles: own,
    })
}

/// Settings that only a superuser may give a role, and a warning for each that was refused.
async fn restrict(admin: &Client) -> Vec<String> {
    let mut warnings = Vec::new();
    for setting in [
        "temp_file_limit TO '256MB'",
        "track_activities TO off",
        "track_counts TO off",
    ] {
        if let Err(error) = admin
            .batch_execute(&format!("ALTER ROLE {ROLE} SET {setting}"))
            .await
        {
            warnings.push(format!(
                "its role could not be given {setting}: {}",
                reason(&error)
            ));
        }
    }
    warnings
}

/// A role with the name of one of the policy's roles and with PUBLIC's rights only. An existing
/// role that pgveil did not make is left alone.
async fn create(
    admin: &Client,
    role: &str,
    database: &str,
    source: &ShadowSource,
    statement_timeout: Duration,
) -> Result<(), String> {
    let fault = |error: &tokio_postgres::Error| reason(error);
    let find = "SELECT pg_catalog.shobj_description(oid, 'pg_authid') FROM pg_catalog.pg_roles \
        WHERE rolname = $1";
    let existing = admin
        .query_opt(find, &[&role])
        .await
        .map_err(|e| fault(&e))?;
    let name = identifier(role);
    let mut batch = Vec::new();
    match existing.map(|row| row.try_get::<_, Option<String>>(0)) {
        None => batch.push(format!(
            "CREATE ROLE {name} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE"
        )),
        Some(Ok(Some(mark))) if mark == MARK => {}
        Some(_) => return Err("another role bears this name".to_owned()),
    }
    if let ShadowSource::Url(_) = source {
        batch.push(format!(
            "COMMENT ON ROLE {name} IS {}; GRANT CONNECT ON DATABASE {database} TO {name}",
            literal(MARK)
        ));
    }
    batch.push(limits(&name, statement_timeout));
    batch.push(format!(
        "ALTER ROLE {name} SET temp_file_limit TO '256MB'; ALTER ROLE {name} SET \
        track_activities TO off"
    ));
    admin
        .batch_execute(&batch.join(";\n"))
        .await
        .map_err(|e| fault(&e))
}

fn limits(role: &str, statement_timeout: Duration) -> String {
    let milliseconds = statement_timeout.as_millis().min(i32::MAX as u128);
    format!(
        "ALTER ROLE {role} SET default_transaction_read_only TO on; ALTER ROLE {role} SET \
            statement_timeout TO {milliseconds}"
    )
}

async fn revoke(admin: &Client) -> Result<(), ShadowError> {
    let patterns: Vec<&str> = LOCKED.to_vec();
    let find = "SELECT pg_catalog.quote_ident(n.nspname) || '.' || \
        pg_catalog.quote_ident(p.proname) || '(' || \
        pg_catalog.pg_get_function_identity_arguments(p.oid) || ')'
         FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE \
         p.proname LIKE ANY ($1) AND p.prokind = 'f'";
    let functions = admin.query(find, &[&patterns]).await?;
    let statements: Vec<String> = functions
        .iter()
        .map(|row| {
            Ok(format!(
                "REVOKE EXECUTE ON FUNCTION {} FROM PUBLIC",
                row.try_get::<_, String>(0)?
            ))
        })
        .collect::<Result<_, tokio_postgres::Error>>()?;
    Ok(admin.batch_execute(&statements.join(";\n")).await?)
}

fn reason(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| error.message().to_owned())
}
