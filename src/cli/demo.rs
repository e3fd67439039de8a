//! `pgveil demo` starts survey data with a proxy in front of it, and suggests questions. Its page
//! starts a second proxy, over a made-up library. It leaves no files behind but a copy of the
//! loaded database in the cache directory, for the next run.

mod console;
mod guide;
mod library;
mod load;
mod once;
mod shell;

use std::borrow::Cow;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use tokio::net::TcpListener;
use tokio_postgres::Config;
use tokio_util::sync::CancellationToken;

use super::arguments::DemoOptions;
use super::listen::listen;
use super::progress::ProgressStep;
use super::start;
use super::start::Started;
use super::{Failure, signal, tls};
use crate::demo::data::{self, DemoData, READER};
use crate::demo::page::LibraryDoor;
use crate::demo::{LIBRARY, SURVEY, page};
use crate::policy::{File, Secret};
use crate::postgres::{Directory, KeptClusters, LocalPostgres, PostgresEngine};
use crate::shadow::{self, ShadowSource};
use crate::wire;
use console::DemoConsole;
use library::DemoLibrary;

const POLICY: &str = include_str!("../../policies/demo.yaml");

/// Where the page is served, unless it is said.
const PAGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8432);

pub(super) async fn run(options: DemoOptions) -> Result<(), Failure> {
    let token = signal::token()?;
    let console = match options.console {
        Some(address) => Some(DemoConsole::bind(address).await?),
        None => None,
    };
    let policy = match &console {
        Some(console) => Cow::Owned(console.with_operator(POLICY)),
        None => Cow::Borrowed(POLICY),
    };
    let url = options.database.as_ref().map(Secret::expose);
    let demo = signal::unless(&token, Demo::start(url, &policy));
    if let Some(sql) = &options.once {
        let demo = demo.await?;
        let outcome = signal::unless(&token, once::answer(&demo.started.engine, sql)).await;
        demo.stop().await;
        return outcome;
    }
    let listener = listen(options.listen).await?;
    let page = page_listener(&options).await?;
    let address = listener.local_addr().map_err(Failure::new)?;
    let (library, door) = DemoLibrary::bind(address.ip()).await?;
    let demo = demo.await?;
    let tls = tls::self_signed()?;
    let psql = guide::psql(address, &demo.database);
    let page_address = page.as_ref().and_then(|page| page.local_addr().ok());
    let proxy = page::Proxy {
        listening: address,
        database: demo.database.clone(),
        psql: psql.clone(),
    };
    let library_address = library.address;
    let pages = serve_pages(page, proxy, (library, door), &token);
    let shown = console
        .as_ref()
        .map(|console| (console.address, console.password.clone()));
    let console = serve_console(console, &demo, &policy, &token);
    let prompt = async {
        if let Some((address, password)) = shown {
            guide::print_console(address, &password);
        }
        if !options.shell {
            guide::print(&psql, (page_address, library_address), demo.is_throw_away());
            token.cancelled().await;
            return Ok(());
        }
        if let Some(page) = page_address {
            eprintln!("The same in a browser: http://{page}/");
        }
        let outcome = signal::unless(
            &token,
            shell::run((address, &demo.database), library_address),
        )
        .await;
        token.cancel();
        outcome
    };
    let engine = Arc::clone(&demo.started.engine);
    let (served, (), (), prompted) = tokio::join!(
        wire::serve(listener, Some(tls), engine, token.clone()),
        pages,
        console,
        prompt
    );
    eprintln!("Stopping.");
    demo.stop().await;
    served.map_err(Failure::new)?;
    prompted
}

async fn serve_console(
    console: Option<DemoConsole>,
    demo: &Demo,
    policy: &str,
    token: &CancellationToken,
) {
    if let Some(console) = console {
        let engine = Arc::clone(&demo.started.engine);
        console.serve(engine, policy, token.clone()).await;
    }
}

/// Serves the pages, where there are any, until `token` is cancelled; and the library, once its
/// page is opened or somebody connects to it.
async fn serve_pages(
    page: Option<TcpListener>,
    proxy: page::Proxy,
    (library, door): (DemoLibrary, LibraryDoor),
    token: &CancellationToken,
) {
    let Some(page) = page else {
        drop(door);
        return library.serve(token).await;
    };
    let served = page::serve(page, proxy, door, token.clone().cancelled_owned());
    let (served, ()) = tokio::join!(served, library.serve(token));
    if served.is_err() {
        tracing::warn!("the page ended");
    }
}

/// Binds the page's address. The default one may be taken; then there is no page.
async fn page_listener(options: &DemoOptions) -> Result<Option<TcpListener>, Failure> {
    if options.no_page {
        return Ok(None);
    }
    let Some(address) = options.page else {
        let bound = TcpListener::bind(PAGE).await;
        if bound.is_err() {
            tracing::warn!("port 8432 is taken, so there is no page: choose one by --page");
        }
        return Ok(bound.ok());
    };
    if !address.ip().is_loopback() {
        tracing::warn!(
            "the page has no login and no TLS: whoever reaches it spends the demo's budget"
        );
    }
    listen(address).await.map(Some)
}

/// A running demo. Fields are dropped in order: first the engine, then the servers that it uses.
pub struct Demo {
    pub started: Started,
    /// The database name that clients use.
    pub database: String,
    local: Option<LocalPostgres>,
    /// Where the loaded cluster is kept at the end, unless it is there.
    keep: Option<KeptClusters>,
    /// The directory of the ledger.
    _scratch: Directory,
}

impl Demo {
    /// Starts a throw-away server or uses the one at `url`, loads the data and starts the engine.
    ///
    /// # Errors
    /// Where no PostgreSQL starts or answers, or schema `nls` there holds something else.
    pub async fn start(url: Option<&str>, policy: &str) -> Result<Self, Failure> {
        let servers = Servers::start(url).await?;
        let started = Self::over(servers, url, ("policies/demo.yaml", policy)).await;
        started.map_err(|failure| not_the_demo(failure, url))
    }

    /// Starts an engine over these servers, under the policy of this name and text, and makes the
    /// policy's summaries.
    async fn over(
        servers: Servers,
        url: Option<&str>,
        (name, policy): (&str, &str),
    ) -> Result<Self, Failure> {
        let mut clock = Clock::new();
        let scratch = Directory::scratch().map_err(Failure::new)?;
        let Servers {
            local,
            config,
            shadow,
            keep,
        } = servers;
        let ledger = format!("sqlite://{}", scratch.path().join("ledger.db").display());
        let database_url = local
            .as_ref()
            .map_or(url.unwrap_or_default(), LocalPostgres::url)
            .to_owned();
        let file = File::parse(name, policy, |name| match name {
            "DATABASE_URL" => Some(database_url.clone()),
            "PGVEIL_LEDGER" => Some(ledger.clone()),
            _ => None,
        });
        let file = file.map_err(Failure::Policy)?;
        let mut opened = start::open(&file, &config).await?;
        if !opened.policy.summaries.is_empty() {
            // An embedded engine accepts one session.
            opened.connected.close().await;
            library::make_summaries(&opened.policy, &config, &ledger).await?;
            clock.phase("summaries made");
            opened = start::open(&file, &config).await?;
        }
        for warning in &opened.warnings {
            tracing::debug!("{warning}");
        }
        clock.phase("policy checked");
        let database = opened.catalog.database.clone();
        let embedded = local
            .as_ref()
            .is_some_and(|local| local.engine() == PostgresEngine::Embedded);
        let connections = if embedded { 1 } else { start::CONNECTIONS };
        let started =
            start::engine(opened, config, shadow, (&ledger).into(), connections, None).await?;
        clock.phase("proxy ready");
        Ok(Self {
            started,
            database,
            local,
            keep,
            _scratch: scratch,
        })
    }

    fn is_throw_away(&self) -> bool {
        self.local.is_some()
    }

    /// Stops all servers and removes their files.
    pub async fn stop(self) {
        start::stop(self.started.engine).await;
        match (self.local, self.keep) {
            (Some(local), Some(kept)) => {
                local.stop_and_keep(&kept).await;
                kept.discard_others();
            }
            (Some(local), None) => local.stop().await,
            (None, _) => {}
        }
    }
}

/// The servers under a demo.
struct Servers {
    local: Option<LocalPostgres>,
    /// How the proxy reads.
    config: Config,
    shadow: ShadowSource,
    keep: Option<KeptClusters>,
}

impl Servers {
    async fn start(url: Option<&str>) -> Result<Self, Failure> {
        let mut clock = Clock::new();
        let servers = Self::of_the_survey(url).await?;
        clock.phase("servers started");
        Ok(servers)
    }

    async fn of_the_survey(url: Option<&str>) -> Result<Self, Failure> {
        if let Some(url) = url {
            tokio::spawn(LocalPostgres::prepare());
            let config = start::config(url)?;
            load::own_server(&config).await?;
            return Ok(Self {
                local: None,
                config,
                shadow: ShadowSource::Local,
                keep: None,
            });
        }
        let _starting =
            ProgressStep::begin("starting a PostgreSQL for the survey data, and the shadow");
        let kept = tokio::task::spawn_blocking(|| KeptClusters::of(&data::content()));
        let kept = kept.await.map_err(Failure::new)?;
        if let Some((empty, loaded)) = kept.as_ref().and_then(KeptClusters::clusters) {
            LocalPostgres::prepare_from(Some(empty)).await;
            match Self::throw_away(SURVEY, load::throw_away(Some(loaded))).await {
                Ok(servers) => return Ok(servers),
                Err(_) => tracing::debug!("the kept cluster is broken and will be made again"),
            }
            LocalPostgres::prepare_from(None).await;
        }
        let servers = Self::throw_away(SURVEY, load::throw_away(None)).await?;
        Ok(Self {
            keep: kept,
            ..servers
        })
    }

    /// The servers of the library, on this machine in any case.
    async fn of_the_library() -> Result<Self, Failure> {
        let data = async {
            let made = tokio::task::spawn_blocking(DemoData::library).await;
            let made = made.map_err(Failure::new)?;
            let loaded = data::load_new(&made, &|_, _| ()).await;
            loaded.map_err(Failure::new)
        };
        Self::throw_away(LIBRARY, data).await
    }

    /// Starts the server of the data and the shadow's together.
    async fn throw_away(
        name: &str,
        data: impl Future<Output = Result<LocalPostgres, Failure>>,
    ) -> Result<Self, Failure> {
        // Engines within this process start one after the other.
        let is_native =
            LocalPostgres::engine_here().is_ok_and(|engine| engine == PostgresEngine::Native);
        let shadow = async {
            match is_native.then_some(shadow::server(name)) {
                Some(starting) => starting.await.map(Some),
                None => Ok(None),
            }
        };
        let (local, shadow) = tokio::join!(data, shadow);
        let (local, shadow) = (local?, shadow.map_err(Failure::new)?);
        let mut config = local.config();
        // The embedded engine has one session, of its superuser. It takes the start-up user as the
        // role.
        config.user(READER);
        let shadow = shadow.map_or(ShadowSource::Local, |server| {
            ShadowSource::Started(Arc::new(server))
        });
        Ok(Self {
            local: Some(local),
            config,
            shadow,
            keep: None,
        })
    }
}

/// Explains that the user's schema `nls` does not fit the demo.
fn not_the_demo(failure: Failure, url: Option<&str>) -> Failure {
    match (failure, url) {
        (Failure::Policy(errors), Some(_)) => {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Failure::with_remedy(
                format_args!(
                    "schema nls of that database does not hold the demo's tables:\n{}",
                    all.join("\n")
                ),
                "Name another database, or rename that schema.",
            )
        }
        (failure, _) => failure,
    }
}

/// Logs the time of each step at level debug.
struct Clock(Instant);

impl Clock {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn phase(&mut self, what: &str) {
        let milliseconds = self.0.elapsed().as_millis();
        tracing::debug!(milliseconds, "{what}");
        self.0 = Instant::now();
    }
}

/// A token for callers that never cancel.
fn never() -> CancellationToken {
    CancellationToken::new()
}
