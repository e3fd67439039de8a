//! The test bed of an audit: a throw-away PostgreSQL with the policy's tables and made-up rows, and
//! a proxy in front of it with a separate budget.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::try_join_all;
use indicatif::ProgressBar;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::report::Attempted;
use super::trials::AuditSession;
use crate::audit::{AuditQuestion, Population, TrialNumbers};
use crate::auto_bounds;
use crate::catalog;
use crate::cli::Failure;
use crate::cli::listen::listen;
use crate::cli::start;
use crate::cli::start::{CheckedPolicy, Started};
use crate::engine::{Engine, MemoryShare, Requester};
use crate::mechanism::{Accounting, Loss};
use crate::parse::{Statement, parse};
use crate::policy;
use crate::policy::{
    Budget, Certificate, ColumnRule, File, Finding, KeyChoice, Policy, Renew, Reuse, Role,
    RoleReuse, SessionSettings, TableRule,
};
use crate::postgres::{
    Connected, Directory, LocalPostgres, PostgresEngine, ServerOptions, connect,
};
use crate::shadow::{ShadowSource, copy_schema};
use crate::wire;

/// The role that asks the questions.
const AUDITOR: &str = "auditor";
/// The budget of an audit. No number of trials exhausts it.
const BUDGET: Budget = Budget {
    epsilon: 1e8,
    delta: 1e-2,
};
/// The epsilon of one question. It gives mu of about 1.9, where few trials distinguish the right
/// noise from half of it. The second value is for pure accounting.
const EPSILON: f64 = 9.0;
const EPSILON_PURE: f64 = 1.0;
const SESSIONS: u32 = 10_000;
const DATABASE: &str = "audit";

/// Fields are dropped in order: first the proxy, then the servers that it uses.
pub struct Stage {
    _proxy: DropGuard,
    started: Started,
    pub population: Population,
    pub warnings: Vec<String>,
    /// A session of the throw-away server's superuser.
    pub client: Client,
    address: SocketAddr,
    password: String,
    local: LocalPostgres,
    /// The directory of the ledger.
    _scratch: Directory,
}

async fn start_postgres() -> Result<LocalPostgres, Failure> {
    let options = ServerOptions {
        database: Some(DATABASE.to_owned()),
        ..ServerOptions::default()
    };
    let started = LocalPostgres::start_engine(PostgresEngine::Native, options).await;
    started.map_err(|e| {
        Failure::with_remedy(
            e,
            "An audit fills a throw-away PostgreSQL: install its server binaries, or name their \
            directory by PGVEIL_PG_BIN.",
        )
    })
}

impl Stage {
    pub async fn build(file: File) -> Result<Self, Failure> {
        let source = start::open(&file, &start::database(&file)?).await?;
        let findings = start::findings(&file, &source.policy).await?;
        let local = start_postgres().await?;
        let config = local.config();
        let mut own = connect(&config)
            .await
            .map_err(start::unreachable_database)?;
        let warnings = copy_schema(&source.policy, &source.connected.client, &mut own.client)
            .await
            .map_err(Failure::new)?;
        source.connected.close().await;
        let password = format!("{:032x}", rand::random::<u128>());
        let opened = open_policy(file, own, &password, &findings).await?;
        let population = Population::of(&opened.policy);
        let scratch = Directory::scratch().map_err(Failure::new)?;
        let ledger = format!("sqlite://{}", scratch.path().join("ledger.db").display());
        let client = connect(&config)
            .await
            .map_err(start::unreachable_database)?
            .client;
        client
            .batch_execute("SET session_replication_role = replica")
            .await
            .map_err(start::database_failed)?;
        let started = start::engine(
            opened,
            config,
            ShadowSource::Local,
            (&ledger).into(),
            start::CONNECTIONS,
            None,
        )
        .await?;
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = listener.local_addr().map_err(Failure::new)?;
        let shutdown = CancellationToken::new();
        tokio::spawn(wire::serve(
            listener,
            None,
            Arc::clone(&started.engine),
            shutdown.clone(),
        ));
        let proxy = shutdown.drop_guard();
        let stage = Self {
            _proxy: proxy,
            started,
            population,
            warnings,
            client,
            address,
            password,
            local,
            _scratch: scratch,
        };
        stage.fill(None).await?;
        Ok(stage)
    }

    pub fn policy(&self) -> &Policy {
        self.engine().policy()
    }

    fn engine(&self) -> &Engine {
        &self.started.engine
    }

    /// Replaces all rows by the made-up rows, optionally without the rows of one unit.
    pub async fn fill(&self, without: Option<usize>) -> Result<(), Failure> {
        for statement in self.population.statements(without) {
            self.client
                .batch_execute(&statement)
                .await
                .map_err(start::database_failed)?;
        }
        self.client
            .batch_execute("ANALYZE")
            .await
            .map_err(start::database_failed)
    }

    /// The plan of each question, as the proxy would answer it now.
    pub async fn plans(
        &self,
        questions: &[AuditQuestion],
    ) -> Result<Vec<Arc<crate::rewrite::Plan>>, Failure> {
        let mut plans = Vec::new();
        for question in questions {
            let failed = |why: String| Failure::new(format_args!("{}: {why}", question.sql));
            let statements = parse(&question.sql).map_err(|refusal| failed(refusal.message))?;
            let [Statement::Query(query)] = statements.as_slice() else {
                return Err(failed("not a query".to_owned()));
            };
            let keys = if question.is_thresholded() {
                KeyChoice::Threshold
            } else {
                KeyChoice::Auto
            };
            let session_settings = SessionSettings {
                keys,
                reuse: Reuse::Off,
                ..SessionSettings::with_fixed_clips()
            };
            let requester = Requester {
                role: AUDITOR.to_owned(),
                session_settings,
                settings: Vec::new(),
                search_path: Vec::new(),
                process: 0,
                origin: Default::default(),
                given_up: Default::default(),
                share: MemoryShare::default(),
            };
            plans.push(
                self.engine()
                    .plan(&requester, query)
                    .await
                    .map_err(|error| failed(error.report().message))?
                    .0,
            );
        }
        Ok(plans)
    }

    /// Buys each question `times` times. Each question has a separate session.
    pub async fn buy(
        &self,
        questions: &[AuditQuestion],
        times: u32,
        bar: &ProgressBar,
    ) -> Result<Vec<Vec<TrialNumbers>>, Failure> {
        let all = questions.iter().map(|question| async move {
            let session = self.session().await?;
            session.expect(question).await?;
            let mut seen = Vec::new();
            for _ in 0..times {
                seen.push(session.ask(question).await?);
                bar.inc(1);
            }
            Ok(seen)
        });
        try_join_all(all).await
    }

    /// The SQLSTATE of a refusal; `None` where rows came back.
    pub async fn attempt(&self, sql: &str) -> Result<Attempted, Failure> {
        Ok(self.session().await?.attempt(sql).await)
    }

    async fn session(&self) -> Result<AuditSession, Failure> {
        let mut config = Config::new();
        config
            .host("127.0.0.1")
            .port(self.address.port())
            .user(AUDITOR)
            .password(&self.password)
            .dbname(DATABASE)
            .ssl_mode(SslMode::Disable);
        Ok(AuditSession(
            connect(&config)
                .await
                .map_err(start::unreachable_database)?
                .client,
        ))
    }

    pub async fn spent_loss(&self) -> Result<Loss, Failure> {
        Ok(self
            .engine()
            .ledger()
            .balance(AUDITOR)
            .await
            .map_err(Failure::new)?
            .spent)
    }

    /// Stops all servers and removes their files.
    pub async fn stop(self) {
        let Self {
            _proxy: proxy,
            started,
            client,
            local,
            _scratch: scratch,
            ..
        } = self;
        drop((proxy, client));
        start::stop(started.engine).await;
        local.stop().await;
        drop(scratch);
    }
}

/// The policy over the throw-away tables, with the results of its searches, one role and a separate
/// budget. These tables have no hidden columns.
async fn open_policy(
    mut file: File,
    own: Connected,
    password: &str,
    findings: &HashMap<String, Finding>,
) -> Result<CheckedPolicy, Failure> {
    let catalog = catalog::load(&own.client).await.map_err(Failure::new)?;
    let pure = file.privacy.accounting == Accounting::Pure;
    let epsilon = if pure { EPSILON_PURE } else { EPSILON };
    (
        file.privacy.budget,
        file.privacy.epsilon_default,
        file.privacy.epsilon_max,
    ) = (BUDGET, epsilon, epsilon);
    file.privacy.epsilon_min = epsilon / 100.0;
    file.privacy.threshold_share = 0.5;
    // Few made-up units answer every question.
    file.privacy.units = None;
    // The audit does not measure time, and a quantum would delay every answer.
    file.quantum = None;
    // Each question has a separate session.
    (
        file.limits.connections,
        file.limits.connections_per_role,
        file.limits.connections_per_address,
    ) = (SESSIONS, SESSIONS, SESSIONS);
    (file.write_url, file.local, file.writes) = (None, None, Vec::new());
    file.roles = vec![Role {
        name: AUDITOR.to_owned(),
        verifier: wire::scram::make_verifier(password).into(),
        certificate: Certificate::Optional,
        budget: Budget {
            delta: 1e-4,
            ..BUDGET
        },
        asks: true,
        writes: Vec::new(),
        renew: Renew::Never,
        reuse: RoleReuse::Chosen,
        session_settings: SessionSettings::with_fixed_clips(),
        search_path: None,
    }];
    for table in &mut file.tables {
        let relation = catalog.table(&table.schema, &table.name);
        if let TableRule::Private { columns, .. } = &mut table.rule {
            columns.retain(|column| {
                column.rule != ColumnRule::Hidden
                    && relation.is_some_and(|relation| relation.column(&column.name).is_some())
            });
        }
    }
    let checked = policy::check(&file, &catalog, &own.client)
        .await
        .map_err(Failure::Policy)?;
    let policy = with_findings(&checked.policy, findings)?;
    Ok(CheckedPolicy {
        policy,
        warnings: checked.warnings,
        catalog,
        connected: own,
    })
}

/// The policy with the results of the owner's searches as if the file declared them. No search is
/// left to run or to pay for.
fn with_findings(policy: &Policy, findings: &HashMap<String, Finding>) -> Result<Policy, Failure> {
    let found: Option<Vec<Finding>> = policy
        .searches
        .iter()
        .map(|search| {
            findings
                .get(&auto_bounds::search_name(policy, search))
                .cloned()
        })
        .collect();
    let settled = found.and_then(|found| policy.settle(&found));
    let settled = settled.ok_or_else(|| {
        Failure::new(
            "what the ledger keeps for the policy's searches does not fit it: search again",
        )
    })?;
    Ok(Policy {
        searches: Vec::new(),
        ..settled
    })
}
