//! Starts an engine from a policy file. demo, serve, check, explain and the tests share this
//! start-up.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Config;

pub use super::database_url::{config, unreachable_database};
use super::progress::ProgressStep;
use super::prove_writing::prove_writing;
use super::{Failure, secrets};
use crate::auto_bounds;
use crate::catalog;
use crate::catalog::{BackendServer, Catalog};
use crate::engine::{Engine, Service, settle_sets};
use crate::execute::Backend;
use crate::ledger;
use crate::ledger::{AccountSpec, Found, Ledger, LedgerReader};
use crate::policy;
use crate::policy::{Budget, Checked, File, Finding, Policy, PolicyError, Privacy, Renew, Role};
use crate::postgres::{Connected, Locale, connect};
use crate::shadow::{CopiedTable, ServerIdentity, Shadow, ShadowOptions, ShadowSource};

/// Number of connections to a database that accepts more than one.
pub const CONNECTIONS: usize = 8;

/// A policy that was checked against its database, and the connection that the check used.
pub struct CheckedPolicy {
    pub policy: Policy,
    pub warnings: Vec<PolicyError>,
    pub catalog: Catalog,
    pub connected: Connected,
}

/// A running engine, and warnings for its operator.
pub struct Started {
    pub engine: Arc<Engine>,
    pub warnings: Vec<String>,
    pub copied: Vec<CopiedTable>,
}

/// Reads and parses a policy file; `${NAME}` comes from the environment or from a file.
pub fn read(path: &std::path::Path) -> Result<File, Failure> {
    read_text(path).map(|(file, _)| file)
}

/// Like [`read`], and also the file without its secrets, as a draft is compared with it. `None`
/// where a variable stands for a part of a value that has no meaning without it.
pub fn read_to_compare(path: &std::path::Path) -> Result<(File, Option<File>), Failure> {
    let (file, text) = read_text(path)?;
    let bare = File::parse_without_secrets(&file.name, &text, |_| None).ok();
    Ok((file, bare))
}

fn read_text(path: &std::path::Path) -> Result<(File, String), Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::with_remedy(
            format_args!("{}: {e}", path.display()),
            "Name a policy file that this user may read.",
        )
    })?;
    let name = path.display().to_string();
    let file = File::parse(&name, &text, secrets::variable).map_err(Failure::Policy)?;
    Ok((file, text))
}

/// The database that the policy names.
pub fn database(file: &File) -> Result<Config, Failure> {
    let Some(url) = &file.database_url else {
        return Err(Failure::with_remedy(
            format_args!("{} names no database", file.name),
            "Add `database: \
                {url: ${DATABASE_URL}}` and set DATABASE_URL to postgresql://user@host/database.",
        ));
    };
    config(url.expose())
}

/// The ledger that the policy names.
pub fn ledger(file: &File) -> Result<ledger::Address, Failure> {
    let url = file.ledger_url.as_ref().ok_or_else(|| {
        Failure::with_remedy(
            format_args!("{} names no ledger", file.name),
            "Add `ledger: {url: sqlite:///var/lib/pgveil/ledger.db}`; it permanently records every \
                charge.",
        )
    })?;
    Ok(ledger::Address {
        url: url.clone(),
        witnesses: file.ledger_witnesses.clone(),
    })
}

/// Connects, reads the catalog and checks the policy against it.
pub async fn open(file: &File, database: &Config) -> Result<CheckedPolicy, Failure> {
    let connected = {
        let _connecting = ProgressStep::begin("connecting to the database");
        connect(database).await.map_err(unreachable_database)?
    };
    let catalog = catalog::load(&connected.client)
        .await
        .map_err(Failure::new)?;
    let _checking = ProgressStep::begin(&format!(
        "checking the policy against database {}",
        catalog.database
    ));
    let Checked { policy, warnings } = policy::check(file, &catalog, &connected.client)
        .await
        .map_err(Failure::Policy)?;
    if let Some(writing) = &policy.writing {
        prove_writing(&policy, writing, &connected.client).await?;
    }
    Ok(CheckedPolicy {
        policy,
        warnings,
        catalog,
        connected,
    })
}

/// An error of a database that pgveil started. Its text may be shown, since it holds no private
/// rows.
pub fn database_failed(error: tokio_postgres::Error) -> Failure {
    Failure::new(error.as_db_error().map_or_else(
        || error.to_string(),
        |database| database.message().to_owned(),
    ))
}

/// Starts the shadow, copies the public tables, opens the ledger and builds the engine.
/// `connections` limits the connections to the database. `before` is the engine that this one will
/// replace.
pub async fn engine(
    opened: CheckedPolicy,
    database: Config,
    source: ShadowSource,
    ledger: ledger::Address,
    connections: usize,
    before: Option<&Engine>,
) -> Result<Started, Failure> {
    let CheckedPolicy {
        policy,
        warnings: _,
        catalog,
        connected,
    } = opened;
    let (owner, roles) = accounts(&policy.privacy, &policy.roles)?;
    let ledger = Ledger::open(ledger, owner, &roles)
        .await
        .map_err(|e| Failure::new(format_args!("{e}")))?;
    let (policy, found) = settle_searches(policy, &ledger).await?;
    let (policy, selected) = settle_sets(&policy, &ledger).await.map_err(Failure::new)?;
    let private_server = ServerIdentity::of(&connected.client).await;
    let locale = Locale::of(&connected.client).await.map_err(Failure::new)?;
    let options = ShadowOptions {
        private_server,
        locale: Some(locale),
        hold: before.and_then(Engine::shadow_hold),
        ..ShadowOptions::new(
            source,
            catalog.database.clone(),
            catalog.server_version.clone(),
        )
    };
    let starting = ProgressStep::begin(match options.source {
        ShadowSource::Url(_) => "building the shadow on the server of shadow.url",
        ShadowSource::Local | ShadowSource::LocalEngine(_) => {
            "starting a PostgreSQL of our own as the shadow"
        }
        ShadowSource::Started(_) => "building the shadow",
    });
    let shadow = Shadow::start(&policy, options).await.map_err(|e| {
        Failure::with_remedy(
            e,
            "pgveil needs a second, empty PostgreSQL to type statements on: set shadow.url in the \
                policy, or let it find server binaries (PGVEIL_PG_BIN).",
        )
    })?;
    let server = BackendServer::of(&connected.client)
        .await
        .map_err(Failure::new)?;
    drop(starting);
    let copied = copy_public(&shadow, &connected.client).await?;
    // An embedded engine accepts one session. Close this one before the backend connects.
    connected.close().await;
    let warnings = shadow.warnings().to_vec();
    let backend = Backend::new(database, connections);
    let engine = Engine::new(
        policy,
        backend,
        shadow,
        ledger,
        catalog.database,
        catalog.server_version,
    )
    .with_server(server)
    .with_findings(found)
    .with_selected_sets(selected)
    .with_copied(&copied);
    let engine = match before {
        Some(before) => engine.succeeding(before),
        None => engine,
    };
    Ok(Started {
        engine: Arc::new(engine),
        warnings,
        copied,
    })
}

/// Copies the public tables into the shadow.
async fn copy_public(
    shadow: &Shadow,
    source: &tokio_postgres::Client,
) -> Result<Vec<CopiedTable>, Failure> {
    let step = ProgressStep::begin("copying the public tables into the shadow");
    let copied = shadow
        .copy_public_heard(source, &|now| step.copying(now))
        .await
        .map_err(Failure::new)?;
    step.log_copies(&copied);
    Ok(copied)
}

/// The policy with the results of its searches, and what each role pays for them.
pub(super) async fn settle_searches(
    policy: Policy,
    ledger: &LedgerReader,
) -> Result<(Policy, Vec<Found>), Failure> {
    match auto_bounds::settle(&policy, ledger)
        .await
        .map_err(Failure::new)?
    {
        Ok(settled) => Ok(settled),
        Err(due) => Err(refuse_unsearched(&due)),
    }
}

fn refuse_unsearched(due: &[String]) -> Failure {
    Failure::with_remedy(
        format_args!(
            "the policy leaves bounds to searches that have not been made: {}",
            due.join(", ")
        ),
        "Run `pgveil bounds` on the policy, which says what they cost and makes them; or write the \
            bounds in the policy.",
    )
}

/// The results of the policy's searches in its ledger, by name. Nothing is charged.
///
/// # Errors
/// As [`engine`] if a search has not run.
pub async fn findings(file: &File, policy: &Policy) -> Result<HashMap<String, Finding>, Failure> {
    let names = policy
        .searches
        .iter()
        .map(|search| auto_bounds::search_name(policy, search));
    let found = match found_by(file, policy).await? {
        Some(ledger) => auto_bounds::stored_results(policy, &ledger)
            .await
            .map_err(Failure::new)?,
        None => vec![None; policy.searches.len()],
    };
    let (mut findings, mut due) = (HashMap::new(), Vec::new());
    for (name, found) in names.zip(found) {
        match found {
            Some((kept, _)) => drop(findings.insert(name, kept.finding)),
            None => due.push(name),
        }
    }
    if due.is_empty() {
        Ok(findings)
    } else {
        Err(refuse_unsearched(&due))
    }
}

/// The policy as a proxy would use it now: with the results of its searches, if all have run, and
/// then with the sets that were selected for its summaries.
pub async fn as_found(file: &File, policy: Policy) -> Result<Policy, Failure> {
    let Some(ledger) = found_by(file, &policy).await? else {
        return Ok(policy);
    };
    let settled = auto_bounds::settle(&policy, &ledger).await;
    let Ok((policy, _)) = settled.map_err(Failure::new)? else {
        return Ok(policy);
    };
    let settled = settle_sets(&policy, &ledger).await;
    Ok(settled.map_err(Failure::new)?.0)
}

/// Opens the ledger with the results of the policy's searches and selections. `None` if the policy
/// has none or the ledger does not exist.
pub async fn found_by(file: &File, policy: &Policy) -> Result<Option<LedgerReader>, Failure> {
    let is_auto = policy.summaries.iter().any(|summary| summary.is_auto);
    if file.ledger_url.is_none() || (policy.searches.is_empty() && !is_auto) {
        return Ok(None);
    }
    let (owner, roles) = accounts(&policy.privacy, &policy.roles)?;
    match LedgerReader::open(ledger(file)?, owner, &roles).await {
        Ok(ledger) => Ok(Some(ledger)),
        Err(ledger::Error::Missing { .. }) => Ok(None),
        Err(error) => Err(unread(error)),
    }
}

/// The failure of a command that reads the ledger and does not write it.
pub fn unread(error: ledger::Error) -> Failure {
    match &error {
        ledger::Error::OlderFormat { .. } | ledger::Error::HalfWritten { .. } => {
            Failure::with_remedy(
                &error,
                "Start `pgveil serve` with this policy once, and run this command again.",
            )
        }
        _ => Failure::new(error),
    }
}

/// Builds and fills the current engine's shadow again, after the shadow of another policy took its
/// place.
pub async fn shadow_again(
    engine: &Engine,
    database: &Config,
    source: ShadowSource,
) -> Result<(), Failure> {
    let options = ShadowOptions {
        hold: engine.shadow_hold(),
        ..ShadowOptions::new(source, engine.database(), engine.server_version())
    };
    let shadow = Shadow::start(engine.policy(), options)
        .await
        .map_err(Failure::new)?;
    let connected = connect(database).await.map_err(unreachable_database)?;
    let copied = copy_public(&shadow, &connected.client).await.map(drop);
    connected.close().await;
    shadow.stop().await;
    copied
}

/// Stops what [`engine`] started, after answers and the statement log are written. If sessions
/// still hold the engine, the last of them stops it.
pub async fn stop(engine: Arc<Engine>) {
    engine.ledger().flush().await;
    if let Some(engine) = Arc::into_inner(engine) {
        engine.stop().await;
    }
}

/// The accounts of the owner and of the roles, from the policy.
pub fn accounts(
    privacy: &Privacy,
    roles: &[Role],
) -> Result<(AccountSpec, Vec<AccountSpec>), Failure> {
    let owner = account("owner", privacy.budget, Renew::Never, privacy)?;
    let roles = roles
        .iter()
        .map(|role| account(&role.name, role.budget, role.renew, privacy))
        .collect::<Result<_, _>>()?;
    Ok((owner, roles))
}

fn account(
    name: &str,
    budget: Budget,
    renew: Renew,
    privacy: &Privacy,
) -> Result<AccountSpec, Failure> {
    AccountSpec::of(name, budget, renew, privacy).map_err(|e| {
        Failure::with_remedy(
            format_args!("the budget of {name}: {e}"),
            "Change the budget in the policy.",
        )
    })
}
