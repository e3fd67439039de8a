//! A whole pgveil over the demo data, in process: real PostgreSQL, real shadow, real ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pgveil::catalog::BackendServer;
use pgveil::engine::{Answer, Engine, Format, MakeSampler, MemoryShare, Requester, Service};
use pgveil::error::Error;
use pgveil::execute::Backend;
use pgveil::ledger::{AccountSpec, Ledger};
use pgveil::mechanism::{
    CandidateRun, Cap, Exponential, Fixed, Noise, RandomError, Randomness, SampleError, Sampler,
};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{Budget, File, Policy, Renew, Reuse, SessionSettings, check};
use pgveil::postgres::{LocalPostgres, Locale, ServerOptions};
use pgveil::shadow::{Shadow, ShadowOptions, ShadowSource};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};
use tokio_util::sync::CancellationToken;

/// A PostgreSQL with this database and these settings, and a connection to the database.
pub async fn started(
    database: &str,
    settings: Vec<(String, String)>,
) -> (LocalPostgres, tokio_postgres::Client) {
    let server = LocalPostgres::start(ServerOptions {
        database: Some(database.to_owned()),
        settings,
        ..ServerOptions::default()
    })
    .await
    .unwrap();
    let client = connected(server.config()).await;
    (server, client)
}

/// A connection that a separate task serves.
async fn connected(config: tokio_postgres::Config) -> tokio_postgres::Client {
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Draws only zeros: for answers that must equal PostgreSQL's own.
pub struct Silent;

impl Sampler for Silent {
    fn sample(&mut self, _: &Noise) -> Result<i128, SampleError> {
        Ok(0)
    }

    /// The first of the best.
    fn choose(
        &mut self,
        _: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        let candidates = runs
            .iter()
            .enumerate()
            .filter(|(_, run)| run.candidates > 0);
        candidates
            .min_by_key(|(_, run)| run.penalty.clone())
            .map(|(at, _)| (at, 0))
            .ok_or(SampleError::Parameter)
    }
}

/// A stream of noise that can be drawn again.
pub struct Stream(pub ChaCha20Rng);

impl Randomness for Stream {
    fn next_u64(&mut self) -> Result<u64, RandomError> {
        Ok(self.0.next_u64())
    }
}

/// Gives two engines that are asked the same questions equal noise: the n-th answer made draws from
/// the n-th stream.
pub fn streams() -> MakeSampler {
    let made = AtomicU64::new(0);
    Arc::new(move || {
        Box::new(Stream(ChaCha20Rng::seed_from_u64(
            made.fetch_add(1, Ordering::Relaxed),
        )))
    })
}

pub struct Veil {
    pub engine: Arc<Engine>,
    pub server: LocalPostgres,
    pub client: tokio_postgres::Client,
    /// URL of its ledger.
    pub ledger: String,
    pub yaml: String,
    _directory: TemporaryDirectory,
}

/// Gone when it is dropped.
pub struct TemporaryDirectory(pub std::path::PathBuf);

impl TemporaryDirectory {
    /// An empty one, whose name says what it is for.
    pub fn new(purpose: &str) -> Self {
        let name = format!("pgveil-{purpose}-{:x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn account(name: &str, budget: Budget, policy: &Policy) -> AccountSpec {
    let share = policy.privacy.threshold_share;
    let cap = Cap::new(
        Fixed::round_down(budget.epsilon),
        Fixed::round_down(budget.delta),
        Fixed::round_down(share),
        policy.privacy.accounting,
    )
    .unwrap();
    AccountSpec {
        name: name.to_owned(),
        budget,
        threshold_share: share,
        cap,
        renew: Renew::Never,
    }
}

/// A policy without the number of units: no question is refused as useless.
pub fn without_units(yaml: &str) -> String {
    let lines = yaml.lines().filter(|line| !line.starts_with("  units: "));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

impl Veil {
    /// The demo's schema, data and policy, but for `units:`; `edit` may change the policy's text
    /// first.
    pub async fn demo(edit: impl Fn(String) -> String, sampler: Option<MakeSampler>) -> Self {
        let (server, client) = Self::server().await;
        load(&client).await;
        let yaml = edit(without_units(
            &std::fs::read_to_string("policies/demo.yaml").unwrap(),
        ));
        Self::around(server, client, &yaml, sampler).await
    }

    /// The caller's own tables.
    pub async fn over(
        fill: impl AsyncFnOnce(&tokio_postgres::Client),
        yaml: &str,
        sampler: Option<MakeSampler>,
    ) -> Self {
        let (server, client) = Self::server().await;
        fill(&client).await;
        Self::around(server, client, yaml, sampler).await
    }

    /// A stage like that of `over`, whose session begins after the database is filled, and so has
    /// the settings that were made for the database.
    pub async fn over_settings(
        fill: impl AsyncFnOnce(&tokio_postgres::Client),
        yaml: &str,
        sampler: Option<MakeSampler>,
    ) -> Self {
        let (server, client) = Self::server().await;
        fill(&client).await;
        let (client, connection) = server
            .config()
            .connect(tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        Self::around(server, client, yaml, sampler).await
    }

    /// The caller's own tables in a database that CREATE DATABASE makes with these options.
    pub async fn over_database(
        options: &str,
        fill: impl AsyncFnOnce(&tokio_postgres::Client),
        yaml: &str,
        sampler: Option<MakeSampler>,
    ) -> Self {
        let (server, client) = Self::server().await;
        drop(client);
        let maker = connected(server.config().dbname("postgres").to_owned()).await;
        maker
            .batch_execute("DROP DATABASE nls WITH (FORCE)")
            .await
            .unwrap();
        maker
            .batch_execute(&format!("CREATE DATABASE nls TEMPLATE template0 {options}"))
            .await
            .unwrap();
        let client = connected(server.config()).await;
        fill(&client).await;
        Self::around(server, client, yaml, sampler).await
    }

    async fn server() -> (LocalPostgres, tokio_postgres::Client) {
        // Statements are looked for by words near their end, which `pg_stat_activity` shows only so
        // far.
        let settings = vec![("track_activity_query_size".to_owned(), "65536".to_owned())];
        started("nls", settings).await
    }

    async fn around(
        server: LocalPostgres,
        client: tokio_postgres::Client,
        yaml: &str,
        sampler: Option<MakeSampler>,
    ) -> Self {
        let directory = TemporaryDirectory::new("veil");
        let ledger = format!("sqlite://{}", directory.0.join("ledger.db").display());
        let engine = engine_over(server.config(), &client, yaml, &ledger, sampler).await;
        Self {
            engine: Arc::new(engine),
            server,
            client,
            ledger,
            yaml: yaml.to_owned(),
            _directory: directory,
        }
    }

    /// Another proxy over the same data, on the ledger of that URL.
    pub async fn proxy(&self, ledger: &str) -> Arc<Engine> {
        self.proxy_with(ledger, |yaml| yaml).await
    }

    /// Another one whose policy was edited.
    pub async fn proxy_with(&self, ledger: &str, edit: impl Fn(String) -> String) -> Arc<Engine> {
        Arc::new(
            engine_over(
                self.server.config(),
                &self.client,
                &edit(self.yaml.clone()),
                ledger,
                None,
            )
            .await,
        )
    }

    /// A proxy on the same ledger that reaches the database by another way, without noise.
    pub async fn by_way_of(&self, way: tokio_postgres::Config) -> Arc<Engine> {
        Arc::new(engine_over(way, &self.client, &self.yaml, &self.ledger, Self::silent()).await)
    }

    pub fn silent() -> Option<MakeSampler> {
        Some(Arc::new(|| Box::new(Silent)))
    }

    /// The demo's policy with so large a budget that even an average of a few rows stands out from
    /// its noise. A value that does not is NULL, also where no noise is drawn.
    pub fn precise(yaml: String) -> String {
        yaml.replace(
            "budget: {epsilon: 8, delta: 1e-6}",
            "budget: {epsilon: 100000000, delta: 1e-3}",
        )
        .replace(
            "per_query: {epsilon: 0.5, max_epsilon: 1}",
            "per_query: {epsilon: 5000, max_epsilon: 5000}",
        )
        .replace(
            "budget: {epsilon: 3, delta: 1e-7, renew: never}",
            "budget: {epsilon: 90000000, delta: 1e-4, renew: never}",
        )
    }

    pub fn requester() -> Requester {
        Requester {
            role: "analyst".to_owned(),
            session_settings: SessionSettings::with_fixed_clips(),
            settings: Vec::new(),
            search_path: vec!["public".to_owned()],
            process: 0,
            origin: Default::default(),
            given_up: Default::default(),
            share: MemoryShare::default(),
        }
    }

    pub fn session_settings(epsilon: f64) -> SessionSettings {
        SessionSettings {
            epsilon: Some(epsilon),
            ..SessionSettings::with_fixed_clips()
        }
    }

    /// Buys a fresh answer each time.
    pub fn fresh() -> Requester {
        Requester {
            session_settings: SessionSettings {
                reuse: Reuse::Off,
                ..SessionSettings::with_fixed_clips()
            },
            ..Self::requester()
        }
    }

    /// Mu squared that the analyst has spent, as a number.
    pub async fn spent(&self) -> f64 {
        self.engine
            .ledger()
            .balance("analyst")
            .await
            .unwrap()
            .spent
            .mu_squared
            .to_f64()
    }

    pub async fn ask(&self, sql: &str) -> Result<Answer, Error> {
        self.ask_as(&Self::requester(), sql).await
    }

    pub async fn ask_as(&self, requester: &Requester, sql: &str) -> Result<Answer, Error> {
        let statements = parse(sql).map_err(Error::Parse)?;
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("one query is wanted: {sql}")
        };
        self.engine
            .answer(
                requester,
                query,
                &[],
                &[],
                &[Format::Text],
                CancellationToken::new(),
            )
            .await
    }

    /// Rows as text, columns joined by `|`, NULL as `∅`.
    pub async fn rows_as(&self, requester: &Requester, sql: &str) -> Result<Vec<String>, Error> {
        rows_of(&self.engine, requester, sql).await
    }

    /// EXPLAIN's lines under these settings.
    pub async fn explained(&self, session_settings: SessionSettings, sql: &str) -> Vec<String> {
        let statements = parse(sql).unwrap();
        let [Statement::Explain(query, format)] = statements.as_slice() else {
            panic!("one EXPLAIN is wanted: {sql}")
        };
        let requester = Requester {
            session_settings,
            ..Self::requester()
        };
        self.engine
            .explain(
                &requester,
                query,
                &[],
                &[],
                *format,
                CancellationToken::new(),
            )
            .await
            .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()))
    }

    /// Rows of a statement on the backing database itself, in the form of `rows_as`.
    pub async fn direct(&self, sql: &str) -> Vec<String> {
        let messages = self
            .client
            .simple_query(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let text = |row: &SimpleQueryRow| {
            (0..row.len())
                .map(|i| row.get(i).unwrap_or("∅").to_owned())
                .collect::<Vec<_>>()
                .join("|")
        };
        let rows = messages.iter().filter_map(|message| {
            if let SimpleQueryMessage::Row(row) = message {
                Some(text(row))
            } else {
                None
            }
        });
        rows.collect()
    }

    /// Asks each question and expects PostgreSQL's own rows.
    pub async fn answers_as_postgresql(&self, requester: &Requester, questions: &[&str]) {
        for sql in questions {
            let answered = self
                .rows_as(requester, sql)
                .await
                .unwrap_or_else(|e| panic!("{sql}: {e} {:?}", e.report()));
            assert_eq!(answered, self.direct(sql).await, "{sql}");
        }
    }
}

/// The key of memoised reports in tests.
pub const LOCAL_SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Where the role `writer` of a test's server logs in.
fn write_url(way: &tokio_postgres::Config) -> String {
    let host = way.get_hosts().first();
    let Some(tokio_postgres::config::Host::Unix(path)) = host else {
        return "postgresql://writer@nowhere/nls".to_owned();
    };
    format!("postgresql://writer@/nls?host={}", path.display())
}

/// An engine over a database that runs anyway.
pub async fn engine_over(
    way: tokio_postgres::Config,
    client: &tokio_postgres::Client,
    yaml: &str,
    ledger: &str,
    sampler: Option<MakeSampler>,
) -> Engine {
    let variables = |name: &str| {
        Some(match name {
            "DATABASE_URL" => "postgres://nowhere/nls".to_owned(),
            "DATABASE_WRITE_URL" => write_url(&way),
            "PGVEIL_LOCAL_SECRET" => LOCAL_SECRET.to_owned(),
            _ => "sqlite:///nowhere.db".to_owned(),
        })
    };
    let file = File::parse("policy.yaml", yaml, variables).unwrap_or_else(|e| panic!("{e:?}"));
    let catalog = pgveil::catalog::load(client).await.unwrap();
    let policy = check(&file, &catalog, client)
        .await
        .unwrap_or_else(|e| panic!("{e:?}"))
        .policy;
    let options = ShadowOptions::new(ShadowSource::Local, "nls", catalog.server_version.clone());
    let options = ShadowOptions {
        locale: Some(Locale::of(client).await.unwrap()),
        ..options
    };
    let shadow = Shadow::start(&policy, options).await.unwrap();
    let copied = shadow.copy_public(client).await.unwrap();
    let roles: Vec<AccountSpec> = policy
        .roles
        .iter()
        .map(|r| account(&r.name, r.budget, &policy))
        .collect();
    let ledger = Ledger::open(
        ledger,
        account("owner", policy.privacy.budget, &policy),
        &roles,
    )
    .await
    .unwrap();
    let backend = Backend::new(way, 4);
    // A policy whose searches were not made stays as it is.
    let (policy, found) = pgveil::auto_bounds::settle(&policy, &ledger)
        .await
        .unwrap()
        .unwrap_or_else(|_| (policy, Vec::new()));
    let (policy, selected) = pgveil::engine::settle_sets(&policy, &ledger).await.unwrap();
    let server = BackendServer::of(client).await.unwrap();
    let engine = Engine::new(
        policy,
        backend,
        shadow,
        ledger,
        "nls".to_owned(),
        catalog.server_version.clone(),
    );
    let engine = engine
        .with_server(server)
        .with_findings(found)
        .with_selected_sets(selected)
        .with_copied(&copied);
    match sampler {
        Some(sampler) => engine.with_sampler(sampler),
        None => engine,
    }
}

/// The answer of an engine to one query.
pub async fn answer_of(engine: &Engine, requester: &Requester, sql: &str) -> Result<Answer, Error> {
    let statements = parse(sql).map_err(Error::Parse)?;
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query is wanted: {sql}")
    };
    let format = [Format::Text];
    let answer = engine.answer(
        requester,
        query,
        &[],
        &[],
        &format,
        CancellationToken::new(),
    );
    answer.await
}

/// One query as an engine answers it: rows as text, columns joined by `|`, NULL as `∅`.
pub async fn rows_of(
    engine: &Engine,
    requester: &Requester,
    sql: &str,
) -> Result<Vec<String>, Error> {
    let answer = answer_of(engine, requester, sql).await?;
    let text = |v: &Option<bytes::Bytes>| {
        v.as_ref().map_or("∅".to_owned(), |b| {
            String::from_utf8_lossy(b).into_owned()
        })
    };
    Ok(answer
        .rows
        .iter()
        .map(|row| row.iter().map(text).collect::<Vec<_>>().join("|"))
        .collect())
}

pub async fn load(client: &tokio_postgres::Client) {
    let folder = std::path::Path::new("data/nls_young_women");
    let schema = std::fs::read_to_string(folder.join("schema.sql")).unwrap();
    let tables: String = schema
        .lines()
        .filter(|l| !l.starts_with('\\') && !l.starts_with("ANALYZE"))
        .collect::<Vec<_>>()
        .join("\n");
    client.batch_execute(&tables).await.unwrap();
    for table in ["industries", "occupations", "women", "interviews"] {
        use futures::SinkExt;
        let data = std::fs::read(folder.join(format!("{table}.csv"))).unwrap();
        let sink = client
            .copy_in(&format!("COPY nls.{table} FROM STDIN CSV HEADER"))
            .await
            .unwrap();
        let mut sink = std::pin::pin!(sink);
        sink.send(bytes::Bytes::from(data)).await.unwrap();
        sink.close().await.unwrap();
    }
    client
        .batch_execute("ANALYZE nls.women, nls.interviews")
        .await
        .unwrap();
}
