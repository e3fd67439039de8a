//! Builds the shadow's schema in an empty database, or in one that an earlier pgveil built.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};
use tokio_postgres::Client;

use super::ddl::TableShape;
use super::server_identity::ServerIdentity;
use super::{ShadowError, ShadowOptions, ShadowSource, ddl, role};
use crate::policy::{Policy, VIEW_SCHEMA};
use crate::postgres;
use crate::postgres::{Locale, identifier, literal, qualify};

/// Proxies that share a shadow build it one at a time.
const BUILD_LOCK: i64 = 0x7067_7665_696c;
/// The beginning of the database's comment, before the digest of the shadow's DDL.
const MARK: &str = "pgveil shadow ";

/// The content of the built shadow.
#[derive(Debug)]
pub struct Built {
    pub tables: Vec<TableShape>,
    /// Statements that give public tables their foreign keys, once their rows are there.
    pub public_keys: Vec<String>,
    pub warnings: Vec<String>,
    /// pg_type.typlen by OID.
    pub sizes: HashMap<u32, i16>,
    pub is_superuser: bool,
    /// The policy's roles that exist in the shadow.
    pub roles: HashSet<String>,
    /// The result of `version()`, with the real server's number.
    pub version: String,
    /// Names of functions of one argument, and of types, that read more than their argument.
    pub callable: HashSet<String>,
}

/// One session's statements must leave no trace that another session can see.
pub fn local_options(options: &ShadowOptions) -> postgres::ServerOptions {
    let connections = (options.connections + 8).to_string();
    let settings = [
        ("max_connections", connections.as_str()),
        ("track_activities", "off"),
        ("autovacuum", "off"),
        ("track_counts", "off"),
        ("temp_file_limit", "262144"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    postgres::ServerOptions {
        database: Some(options.database.clone()),
        locale: options.locale.clone(),
        copy_of: None,
        settings: settings.into(),
    }
}

pub async fn build(
    admin: &Client,
    policy: &Policy,
    options: &ShadowOptions,
) -> Result<Built, ShadowError> {
    let schema = ddl::schema(policy, &builtin(admin).await?);
    let mut warnings = schema.warnings.clone();
    warnings.extend(other_major(admin, options).await?);
    warnings.extend(other_locale(admin, options).await?);
    admin
        .execute("SELECT pg_catalog.pg_advisory_lock($1)", &[&BUILD_LOCK])
        .await?;
    warnings.extend(apart(admin, options).await?);
    rebuild_if_changed(admin, &schema, options).await?;
    let schemas: Vec<&str> = schema
        .schemas
        .iter()
        .map(String::as_str)
        .chain([VIEW_SCHEMA])
        .collect();
    let is_superuser: String = admin
        .query_one("SELECT pg_catalog.current_setting('is_superuser')", &[])
        .await?
        .try_get(0)?;
    let is_superuser = is_superuser == "on";
    // Where the shadow belongs to a superuser, its sessions can become one of several roles.
    let roles: Vec<&str> = policy
        .roles
        .iter()
        .filter(|_| is_superuser)
        .map(|role| role.name.as_str())
        .collect();
    let locked = role::lock(
        admin,
        &schemas,
        &roles,
        &options.source,
        options.statement_timeout,
    )
    .await?;
    warnings.extend(locked.warnings);
    admin
        .execute("SELECT pg_catalog.pg_advisory_unlock($1)", &[&BUILD_LOCK])
        .await?;
    for warning in &warnings {
        tracing::warn!("shadow: {warning}");
    }
    Ok(Built {
        tables: schema.tables,
        public_keys: schema.public_keys,
        warnings,
        sizes: type_sizes(admin).await?,
        is_superuser,
        roles: locked.roles.into_iter().collect(),
        version: version_text(admin, options).await?,
        callable: callable_names(admin).await?,
    })
}

/// Rebuilds the schema unless the database already has the one of this policy.
async fn rebuild_if_changed(
    admin: &Client,
    schema: &ddl::ShadowSchema,
    options: &ShadowOptions,
) -> Result<(), ShadowError> {
    // A table that turns private must lose its copied rows, although its DDL stays the same.
    let protections = schema
        .tables
        .iter()
        .map(|table| if table.is_public { "public" } else { "private" });
    let meaning: Vec<&str> = schema
        .statements
        .iter()
        .map(String::as_str)
        .chain(protections)
        .collect();
    let digest = Sha256::digest(meaning.join(";"))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    let is_named = matches!(options.source, ShadowSource::Url(_));
    let existing = if is_named { guard(admin).await? } else { None };
    if existing.as_deref() != Some(digest.as_str()) {
        let mark = is_named.then(|| format!("{MARK}{digest}"));
        rebuild(admin, &schema.statements, mark.as_deref()).await?;
    }
    Ok(())
}

/// `pg_type.typlen` by OID.
async fn type_sizes(admin: &Client) -> Result<HashMap<u32, i16>, ShadowError> {
    let rows = admin
        .query("SELECT oid, typlen FROM pg_catalog.pg_type", &[])
        .await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

/// The result of `version()` here, with the real server's number.
async fn version_text(admin: &Client, options: &ShadowOptions) -> Result<String, ShadowError> {
    let row = admin
        .query_one(
            "SELECT pg_catalog.version(), pg_catalog.current_setting('server_version')",
            &[],
        )
        .await?;
    let (text, own): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    Ok(text.replacen(&short(&own), &short(&options.server_version), 1))
}

async fn callable_names(admin: &Client) -> Result<HashSet<String>, ShadowError> {
    let rows = admin.query(CALLABLE, &[]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Refuses a shadow on the server of the private rows, or on a server that follows it or that it
/// follows: the catalogs there reveal transaction numbers and sizes. Warns where that is unknown.
pub async fn apart(admin: &Client, options: &ShadowOptions) -> Result<Option<String>, ShadowError> {
    let ShadowSource::Url(_) = options.source else {
        return Ok(None);
    };
    match (ServerIdentity::of(admin).await, &options.private_server) {
        (Some(shadow), Some(private)) if shadow.shares_changes_with(private) => {
            Err(ShadowError::Failed(
                "shadow.url names a database of the server that has the private rows, or of one \
                    that it follows; name one of another server"
                    .to_owned(),
            ))
        }
        (Some(_), Some(_)) => Ok(None),
        (None, _) | (_, None) => Ok(Some(
            "whether it is on the server that has the private rows could not be asked \
                (pg_control_system); name one of another server"
                .to_owned(),
        )),
    }
}

/// Functions that `a.f` may call and that are not immutable. An immutable function depends on its
/// argument only, so it is harmless.
const CALLABLE: &str = "
    SELECT p.proname::text FROM pg_catalog.pg_proc p
    WHERE p.provolatile <> 'i' AND p.prokind = 'f' AND p.pronargs >= 1 AND p.pronargs - \
    p.pronargdefaults <= 1
      AND p.proargtypes[0] <> 'internal'::pg_catalog.regtype
    UNION
    SELECT t.typname::text FROM pg_catalog.pg_type t JOIN pg_catalog.pg_proc p ON p.oid = \
    t.typinput WHERE p.provolatile <> 'i' AND t.typtype = 'b'";

pub async fn builtin(admin: &Client) -> Result<ddl::Builtin, tokio_postgres::Error> {
    let types = "SELECT oid, pg_catalog.format_type(oid, NULL) FROM pg_catalog.pg_type WHERE oid < \
        16384 AND typnamespace = 'pg_catalog'::regnamespace";
    let collations = "SELECT collname::text FROM pg_catalog.pg_collation WHERE collnamespace = \
        'pg_catalog'::regnamespace AND collencoding IN (-1,
        (SELECT encoding FROM pg_catalog.pg_database WHERE datname = \
        pg_catalog.current_database()))";
    let types = admin
        .query(types, &[])
        .await?
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Result<_, tokio_postgres::Error>>()?;
    let collations = admin
        .query(collations, &[])
        .await?
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    Ok(ddl::Builtin { types, collations })
}

/// `15.18 (Debian 15.18-0+deb12u1)` → `15.18`.
fn short(version: &str) -> String {
    version.split(' ').next().unwrap_or_default().to_owned()
}

pub async fn other_major(
    admin: &Client,
    options: &ShadowOptions,
) -> Result<Option<String>, ShadowError> {
    let here: String = admin
        .query_one("SELECT pg_catalog.current_setting('server_version')", &[])
        .await?
        .try_get(0)?;
    let major = |version: &str| {
        version
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let differs = major(&here) != major(&options.server_version);
    Ok(differs.then(|| {
        format!(
            "it runs PostgreSQL {here}, the database {}: types and functions may differ",
            options.server_version
        )
    }))
}

/// The shadow orders and folds released text, above the aggregates.
pub async fn other_locale(
    admin: &Client,
    options: &ShadowOptions,
) -> Result<Option<String>, ShadowError> {
    let Some(wanted) = &options.locale else {
        return Ok(None);
    };
    let here = Locale::of(admin).await?;
    Ok((here != *wanted).then(|| {
        format!(
            "its locale is {here}, that of the database {wanted}: ORDER BY, upper and \
            lower of released text may differ"
        )
    }))
}

/// A shadow that the operator names is wiped, so it must be empty or built by pgveil. Returns the
/// digest of its schema, where pgveil built it.
pub async fn guard(admin: &Client) -> Result<Option<String>, ShadowError> {
    let comment = "SELECT pg_catalog.shobj_description(oid, 'pg_database') FROM \
        pg_catalog.pg_database WHERE datname = pg_catalog.current_database()";
    let comment: Option<String> = admin.query_one(comment, &[]).await?.try_get(0)?;
    if let Some(digest) = comment
        .as_deref()
        .and_then(|comment| comment.strip_prefix(MARK))
    {
        return Ok(Some(digest.to_owned()));
    }
    let objects =
        "SELECT (SELECT count(*) FROM pg_catalog.pg_class WHERE oid >= 16384 AND relkind \
        IN ('r', 'p', 'v', 'm', 'f', 'S'))
        + (SELECT count(*) FROM pg_catalog.pg_proc WHERE oid >= 16384)";
    let objects: i64 = admin.query_one(objects, &[]).await?.try_get(0)?;
    if objects == 0 {
        return Ok(None);
    }
    Err(ShadowError::Failed(format!(
        "shadow_url names a database of {objects} relations and functions that pgveil did not \
            make; \
            name an empty one"
    )))
}

pub async fn rebuild(
    admin: &Client,
    statements: &[String],
    mark: Option<&str>,
) -> Result<(), ShadowError> {
    let database: String = admin
        .query_one("SELECT pg_catalog.current_database()::text", &[])
        .await?
        .try_get(0)?;
    let schemas = "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_' AND \
        nspname <> 'information_schema'";
    let mut batch = vec!["BEGIN".to_owned()];
    for row in admin.query(schemas, &[]).await? {
        let name: String = row.try_get(0)?;
        if name == "public" {
            batch.extend(objects_of_public(admin).await?);
        } else {
            batch.push(format!("DROP SCHEMA {} CASCADE", identifier(&name)));
        }
    }
    batch.extend(statements.iter().cloned());
    batch.extend(mark.map(|mark| {
        format!(
            "COMMENT ON DATABASE {} IS {}",
            identifier(&database),
            literal(mark)
        )
    }));
    batch.push("COMMIT".to_owned());
    Ok(admin.batch_execute(&batch.join(";\n")).await?)
}

/// The schema `public` may belong to another role, so its tables and types are dropped one by one.
async fn objects_of_public(admin: &Client) -> Result<Vec<String>, ShadowError> {
    let tables = "SELECT relname::text FROM pg_catalog.pg_class WHERE relnamespace = \
        'public'::regnamespace AND relkind = 'r'";
    let rows = admin.query(tables, &[]).await?;
    let types = "SELECT typname::text FROM pg_catalog.pg_type WHERE typnamespace = \
        'public'::regnamespace AND (typtype IN ('e', 'd')
        OR typtype = 'c' AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = typrelid AND \
        c.relkind = 'c'))";
    let types = admin.query(types, &[]).await?;
    let drop = |kind: &'static str| {
        move |row: &tokio_postgres::Row| {
            Ok(format!(
                "DROP {kind} {} CASCADE",
                qualify("public", row.try_get(0)?)
            ))
        }
    };
    rows.iter()
        .map(drop("TABLE"))
        .chain(types.iter().map(drop("TYPE")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_and_what_it_follows_are_one() {
        let server = |cluster: &str, started: &str, is_standby| ServerIdentity {
            cluster: cluster.to_owned(),
            started: started.to_owned(),
            is_standby,
        };
        let private = server("7", "100.5", false);
        let shares = |other: ServerIdentity| {
            private.shares_changes_with(&other) && other.shares_changes_with(&private)
        };
        assert!(shares(private.clone()) && shares(server("7", "200.5", true)));
        assert!(
            !shares(server("7", "200.5", false)) && !shares(server("8", "100.5", true)),
            "copies that have parted, and others"
        );
    }
}
