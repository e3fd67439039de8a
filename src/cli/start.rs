//! From a policy file to a running engine: the one start-up that demo, serve, check, explain and
//! tests share.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Config;

use super::Failure;
use super::progress::Step;
use crate::auto_bounds;
use crate::catalog;
use crate::catalog::{Catalog, Server};
use crate::engine::{Engine, Service};
use crate::execute::Backend;
use crate::ledger;
use crate::ledger::{AccountSpec, Found, Ledger};
use crate::policy;
use crate::policy::{
    Budget, Checked, File, Finding, Policy, PolicyError, Privacy, Renew, Role, Secret,
};
use crate::postgres;
use crate::postgres::{Connected, Locale, connect};
use crate::shadow::{CopiedTable, ServerIdentity, Shadow, ShadowOptions, ShadowSource};

/// Connections to a database that bears more than one.
pub const CONNECTIONS: usize = 8;

/// A policy that holds for its database, and the connection that was used to see it.
pub struct Opened {
    pub policy: Policy,
    pub warnings: Vec<PolicyError>,
    pub catalog: Catalog,
    pub connected: Connected,
}

/// A running engine and what its operator should know.
pub struct Started {
    pub engine: Arc<Engine>,
    pub warnings: Vec<String>,
    pub mirrored: Vec<CopiedTable>,
}

/// Reads and parses a policy file; `${NAME}` comes from the environment.
pub fn read(path: &std::path::Path) -> Result<File, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::with_remedy(
            format_args!("{}: {e}", path.display()),
            "Name a policy file that this user may read.",
        )
    })?;
    File::parse(&path.display().to_string(), &text, |name| {
        std::env::var(name).ok()
    })
    .map_err(Failure::Policy)
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
pub fn ledger_url(file: &File) -> Result<&Secret, Failure> {
    file.ledger_url.as_ref().ok_or_else(|| {
        Failure::with_remedy(
            format_args!("{} names no ledger", file.name),
            "Add `ledger: {url: sqlite:///var/lib/pgveil/ledger.db}`; it permanently records every \
                charge.",
        )
    })
}

/// A URL of PostgreSQL. Messages never show it: it may hold a password.
pub fn config(url: &str) -> Result<Config, Failure> {
    let mut config: Config = url.parse().map_err(|e| {
        Failure::with_remedy(
            format_args!("the database's URL is not understood: {e}"),
            "Write postgresql://user@host:5432/database.",
        )
    })?;
    if config.get_application_name().is_none() {
        config.application_name("pgveil");
    }
    Ok(config)
}

/// Connects, reads the catalog and checks the policy against it.
pub async fn open(file: &File, database: &Config) -> Result<Opened, Failure> {
    let connected = {
        let _connecting = Step::begin("connecting to the database");
        connect(database).await.map_err(unreachable_database)?
    };
    let catalog = catalog::load(&connected.client)
        .await
        .map_err(Failure::new)?;
    let _checking = Step::begin(&format!(
        "checking the policy against database {}",
        catalog.database
    ));
    let Checked { policy, warnings } = policy::check(file, &catalog, &connected.client)
        .await
        .map_err(Failure::Policy)?;
    Ok(Opened {
        policy,
        warnings,
        catalog,
        connected,
    })
}

/// What to say when the database cannot be reached.
pub fn unreachable_database(error: postgres::Error) -> Failure {
    let cause = std::error::Error::source(&error)
        .and_then(std::error::Error::source)
        .map_or(String::new(), |cause| format!(": {cause}"));
    Failure::with_remedy(
        format_args!("{error}{cause}"),
        "Is the database running, and are host, port, user and password of its URL right?",
    )
}

/// What a database of our own refuses; its words may be shown, since no private row is in it.
pub fn database_failed(error: tokio_postgres::Error) -> Failure {
    Failure::new(error.as_db_error().map_or_else(
        || error.to_string(),
        |database| database.message().to_owned(),
    ))
}

/// Starts the shadow, mirrors the public tables, opens the ledger and puts the engine together.
/// `connections` towards the database at most; `before` is the engine that this one is to replace.
pub async fn engine(
    opened: Opened,
    database: Config,
    source: ShadowSource,
    ledger: &str,
    connections: usize,
    before: Option<&Engine>,
) -> Result<Started, Failure> {
    let Opened {
        policy,
        warnings: _,
        catalog,
        connected,
    } = opened;
    let (owner, roles) = accounts(&policy.privacy, &policy.roles)?;
    let ledger = Ledger::open(ledger, owner, &roles)
        .await
        .map_err(|e| Failure::new(format_args!("{e}")))?;
    let (policy, found) = settled(policy, &ledger).await?;
    let private_server = ServerIdentity::of(&connected.client).await;
    let locale = Locale::of(&connected.client).await.map_err(Failure::new)?;
    let options = ShadowOptions {
        private_server,
        locale: Some(locale),
        ..ShadowOptions::new(
            source,
            catalog.database.clone(),
            catalog.server_version.clone(),
        )
    };
    let starting = Step::begin(match options.source {
        ShadowSource::Url(_) => "building the shadow on the server of shadow.url",
        ShadowSource::Local | ShadowSource::LocalEngine(_) => {
            "starting a PostgreSQL of our own as the shadow"
        }
    });
    let shadow = Shadow::start(&policy, options).await.map_err(|e| {
        Failure::with_remedy(
            e,
            "pgveil needs a second, empty PostgreSQL to type statements on: set shadow.url in the \
                policy, or let it find server binaries (PGVEIL_PG_BIN).",
        )
    })?;
    let server = Server::of(&connected.client).await.map_err(Failure::new)?;
    drop(starting);
    let mirrored = mirror(&shadow, &connected.client).await?;
    // An embedded engine takes one session: the backend's comes next.
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
    .before(server)
    .resting_on(found)
    .mirroring(&mirrored);
    let engine = match before {
        Some(before) => engine.succeeding(before),
        None => engine,
    };
    Ok(Started {
        engine: Arc::new(engine),
        warnings,
        mirrored,
    })
}

/// Copies the public tables into the shadow.
async fn mirror(
    shadow: &Shadow,
    source: &tokio_postgres::Client,
) -> Result<Vec<CopiedTable>, Failure> {
    let step = Step::begin("copying the public tables into the shadow");
    let mirrored = shadow
        .mirror_heard(source, &|now| step.copying(now))
        .await
        .map_err(Failure::new)?;
    step.copied(&mirrored);
    Ok(mirrored)
}

/// The policy with what its searches found, and what each role pays for that.
async fn settled(policy: Policy, ledger: &Ledger) -> Result<(Policy, Vec<Found>), Failure> {
    match auto_bounds::settle(&policy, ledger)
        .await
        .map_err(Failure::new)?
    {
        Ok(settled) => Ok(settled),
        Err(due) => Err(unsearched(&due)),
    }
}

fn unsearched(due: &[String]) -> Failure {
    Failure::with_remedy(
        format_args!(
            "the policy leaves bounds to searches that have not been made: {}",
            due.join(", ")
        ),
        "Run `pgveil bounds` on the policy, which says what they cost and makes them; or write the \
            bounds in the policy.",
    )
}

/// What the policy's own ledger has for its searches, by their names. Nothing is charged.
///
/// # Errors
/// As [`engine`] where one has not been made.
pub async fn findings(file: &File, policy: &Policy) -> Result<HashMap<String, Finding>, Failure> {
    let names = policy
        .searches
        .iter()
        .map(|search| auto_bounds::name(policy, search));
    let found = match found_by(file, policy).await? {
        Some(ledger) => auto_bounds::found(policy, &ledger)
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
        Err(unsearched(&due))
    }
}

/// The policy as a proxy would have it now: with what its searches found, where all are made.
pub async fn as_found(file: &File, policy: Policy) -> Result<Policy, Failure> {
    let Some(ledger) = found_by(file, &policy).await? else {
        return Ok(policy);
    };
    Ok(auto_bounds::settle(&policy, &ledger)
        .await
        .map_err(Failure::new)?
        .map_or(policy, |(settled, _)| settled))
}

/// The ledger that has the results of the policy's searches, if there are searches and there is
/// one.
pub async fn found_by(file: &File, policy: &Policy) -> Result<Option<Ledger>, Failure> {
    let Some(url) = file
        .ledger_url
        .as_ref()
        .filter(|_| !policy.searches.is_empty())
    else {
        return Ok(None);
    };
    let (owner, roles) = accounts(&policy.privacy, &policy.roles)?;
    match Ledger::open_existing(url.expose(), owner, &roles).await {
        Ok(ledger) => Ok(Some(ledger)),
        Err(ledger::Error::Missing { .. }) => Ok(None),
        Err(error) => Err(Failure::new(error)),
    }
}

/// Builds and fills the shadow of an engine in force once more, after another policy's was tried in
/// its place.
pub async fn shadow_again(
    engine: &Engine,
    database: &Config,
    source: ShadowSource,
) -> Result<(), Failure> {
    let options = ShadowOptions::new(source, engine.database(), engine.server_version());
    let shadow = Shadow::start(engine.policy(), options)
        .await
        .map_err(Failure::new)?;
    let connected = connect(database).await.map_err(unreachable_database)?;
    let mirrored = mirror(&shadow, &connected.client).await.map(drop);
    connected.close().await;
    shadow.stop().await;
    mirrored
}

/// Stops what [`engine`] started, once the record of statements is written; sessions that still
/// hold the engine end it when they end.
pub async fn stop(engine: Arc<Engine>) {
    engine.ledger().flush().await;
    if let Some(engine) = Arc::into_inner(engine) {
        engine.stop().await;
    }
}

/// The owner's account and the roles', as the policy has them.
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
    let share = privacy.threshold_share;
    let cap = policy::cap(budget, share, privacy.accounting).map_err(|e| {
        Failure::with_remedy(
            format_args!("the budget of {name}: {e}"),
            "Change the budget in the policy.",
        )
    })?;
    Ok(AccountSpec {
        name: name.to_owned(),
        budget,
        threshold_share: share,
        cap,
        renew,
    })
}
