//! The database, the policy against it, and the shadow.

use std::path::Path;

use tokio_postgres::{Client, Config};

use super::{CheckResult, findings_of_failure, machine};
use crate::auto_bounds;
use crate::cli::start;
use crate::cli::start::CheckedPolicy;
use crate::init;
use crate::init::CatalogFacts;
use crate::policy::{File, Policy, Protection, Unit};
use crate::postgres::Locale;
use crate::shadow::{ServerIdentity, ShadowOptions, ShadowSource, examine};

const DATABASE: &str = "database";
const POLICY: &str = "policy";
const SHADOW: &str = "shadow";

pub async fn all(file: &File, path: &Path) -> Vec<CheckResult> {
    let check = format!("pgveil check {}", path.display());
    let database = match start::database(file) {
        Ok(database) => database,
        Err(failure) => return findings_of_failure(DATABASE, failure, "mend database.url"),
    };
    let opened = match start::open(file, &database).await {
        Ok(opened) => opened,
        Err(failure @ crate::cli::Failure::Policy(_)) => {
            return findings_of_failure(POLICY, failure, &check);
        }
        Err(failure) => return findings_of_failure(DATABASE, failure, &check),
    };
    let CheckedPolicy {
        policy,
        warnings,
        catalog,
        connected,
    } = opened;
    let client = &connected.client;
    let mut all = vec![CheckResult::ok(
        DATABASE,
        format!(
            "{} is reached: PostgreSQL {}, {}",
            catalog.database, catalog.server_version, catalog.server_encoding
        ),
    )];
    all.extend(encryption(client, &database).await);
    all.push(CheckResult::ok(POLICY, "it holds for the database"));
    let warnings = warnings.iter();
    all.extend(warnings.map(|warning| CheckResult::warn(POLICY, warning.to_string(), &check)));
    all.push(searches(file, &policy, path).await);
    let major = catalog.server_version_num / 10_000;
    all.push(
        shadow(
            file,
            client,
            (&catalog.database, &catalog.server_version),
            major,
        )
        .await,
    );
    // Last: it leaves the session reading only.
    if let Ok(facts) = init::read(client).await {
        all.extend(indexes(&policy, &facts));
    }
    connected.close().await;
    all
}

/// Whether rows can be read on their way from the database.
async fn encryption(client: &Client, database: &Config) -> Option<CheckResult> {
    let sql = "SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid = pg_catalog.pg_backend_pid()";
    let is_encrypted: bool = client.query_one(sql, &[]).await.ok()?.try_get(0).ok()?;
    let is_near = database.get_hosts().iter().all(|host| match host {
        tokio_postgres::config::Host::Unix(_) => true,
        tokio_postgres::config::Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse()
                    .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
    });
    Some(match (is_encrypted, is_near) {
        (true, _) => CheckResult::ok(DATABASE, "the connection is encrypted"),
        (false, true) => CheckResult::ok(DATABASE, "the connection stays on this machine"),
        (false, false) => CheckResult::warn(
            DATABASE,
            "rows come from another machine without TLS",
            "leave sslmode=disable out of database.url; SSL_CERT_FILE names your own authorities",
        ),
    })
}

/// The bounds that the policy leaves to `auto` and that are not found yet.
async fn searches(file: &File, policy: &Policy, path: &Path) -> CheckResult {
    let check = "searches";
    if policy.searches.is_empty() {
        return CheckResult::ok(check, "the policy leaves nothing to auto");
    }
    let mend = format!("pgveil bounds {}", path.display());
    let found = match start::found_by(file, policy).await {
        Ok(Some(ledger)) => auto_bounds::stored_results(policy, &ledger).await,
        Ok(None) => Ok(policy.searches.iter().map(|_| None).collect()),
        Err(failure) => return CheckResult::fail(check, failure.in_a_line(), mend),
    };
    match found {
        Err(error) => CheckResult::fail(check, error.to_string(), mend),
        Ok(found) => match found.iter().filter(|found| found.is_none()).count() {
            0 => CheckResult::ok(check, format!("all {} are made", found.len())),
            due => CheckResult::fail(check, format!("{due} are due; serve does not start"), mend),
        },
    }
}

async fn shadow(
    file: &File,
    private: &Client,
    (database, version): (&str, &str),
    major: u32,
) -> CheckResult {
    let Some(url) = &file.shadow_url else {
        return machine::binaries(Some(major));
    };
    let mend = "name an empty database of another server, of the same version and locale";
    let config = match start::config(url.expose()) {
        Ok(config) => config,
        Err(failure) => return CheckResult::fail(SHADOW, failure.in_a_line(), "mend shadow.url"),
    };
    let options = ShadowOptions {
        private_server: ServerIdentity::of(private).await,
        locale: Locale::of(private).await.ok(),
        ..ShadowOptions::new(ShadowSource::Url(url.clone()), database, version)
    };
    match examine(&config, &options).await {
        Err(error) => CheckResult::fail(SHADOW, error.to_string(), mend),
        Ok(found) => match (found.warnings.is_empty(), found.is_held) {
            (false, _) => CheckResult::warn(SHADOW, found.warnings.join("; "), mend),
            (true, false) => CheckResult::ok(SHADOW, "it is reached, and no proxy runs on it"),
            (true, true) => CheckResult::ok(SHADOW, "it is reached, and a proxy runs on it"),
        },
    }
}

/// Columns by which rows are counted for their unit, and that no index finds.
fn indexes(policy: &Policy, facts: &CatalogFacts) -> Vec<CheckResult> {
    let check = "indexes";
    let mut missing = Vec::new();
    for table in &policy.tables {
        let Protection::Private(unit) = &table.protection else {
            continue;
        };
        let column = link(unit);
        if !facts.led.contains(&(table.oid, column.to_owned())) {
            let name = format!("{}.{}", table.schema, table.name);
            missing.push(CheckResult::warn(
                check,
                format!("{name} has no index on {column}: bounding its units takes longer"),
                format!(
                    "CREATE INDEX ON {} ({});",
                    crate::postgres::qualify(&table.schema, &table.name),
                    crate::postgres::identifier(column)
                ),
            ));
        }
    }
    match missing.is_empty() {
        true => vec![CheckResult::ok(
            check,
            "each private table has one on its link",
        )],
        false => missing,
    }
}

/// The column of a table that leads to its unit, or is it.
fn link(unit: &Unit) -> &str {
    unit.path
        .first()
        .map_or(unit.column.as_str(), |step| step.column.as_str())
}
