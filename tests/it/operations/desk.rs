//! The analysts' desk: whom it lets in, what it shows to whom, and that it asks as the wire does,
//! at the price that was shown.

mod checked;
mod pages;
mod prices;
mod requests;
pub mod running;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pgveil::desk::{DeskOptions, serve};
use pgveil::engine::{Engine, Reloadable};
use pgveil::ledger::Record;
use pgveil::operator::{Control, OpenSessions};
use pgveil::web::rate_limit::RequestLimit;
use pgveil::web::session::Lifetimes;
use pgveil::wire::scram::make_verifier;
use pgveil::wire::{SharedState, Tls};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::demo_page::Got;
use super::pages::{Visit, log_in, sent, token};
use crate::fixture::Veil;

const COUNT: &str = "SELECT count(*) FROM nls.women";
const BY_RACE: &str = "SELECT race, count(*) AS women FROM nls.women GROUP BY race ORDER BY 1";
/// Another role, with another password.
pub const BOB: &str = "seven small dwarfs";

/// A desk over the demo, for its analyst and for bob.
pub struct Stage {
    pub address: SocketAddr,
    pub veil: Veil,
    exchange: Arc<Reloadable>,
    /// The sessions that operators see.
    sessions: Arc<OpenSessions>,
    /// The state that its sessions share with those of clients.
    commons: Arc<SharedState>,
    shutdown: CancellationToken,
    served: JoinHandle<std::io::Result<()>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn with_bob(policy: String) -> String {
    let verifier = make_verifier(BOB);
    let bob = format!(
        "  - {{name: bob, password: '{verifier}', budget: {{epsilon: 2, delta: 1e-7}}}}\n\n\
            tables:\n"
    );
    policy.replacen("\ntables:\n", &bob, 1)
}

fn certified(policy: String) -> String {
    with_bob(policy).replacen("{name: bob,", "{name: bob, certificate: required,", 1)
}

/// A desk that speaks TLS, where bob needs a certificate.
pub async fn stage_with_certificates(tls: Tls) -> Stage {
    stage_with(Lifetimes::default(), Some(tls), certified).await
}

pub async fn stage() -> Stage {
    stage_with(Lifetimes::default(), None, with_bob).await
}

async fn stage_with(
    lifetimes: Lifetimes,
    tls: Option<Tls>,
    edit: impl Fn(String) -> String,
) -> Stage {
    let veil = Veil::demo(edit, None).await;
    let engine = Arc::clone(&veil.engine);
    stage_over((veil, engine), lifetimes, tls, Duration::from_secs(10)).await
}

/// A desk over an engine of a veil.
async fn stage_over(
    (veil, engine): (Veil, Arc<Engine>),
    lifetimes: Lifetimes,
    tls: Option<Tls>,
    drain: Duration,
) -> Stage {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let exchange = Arc::new(Reloadable::new(engine));
    let options = DeskOptions {
        tls,
        hosts: vec!["desk.internal".to_owned()],
        lifetimes,
        // However slow this machine is.
        first_wait: Duration::from_secs(60),
        drain,
        pace: RequestLimit::default(),
    };
    let shutdown = CancellationToken::new();
    let (sender, _) = mpsc::channel(1);
    let control = Control::new(Arc::clone(&exchange), sender, shutdown.clone(), None);
    let sessions = Arc::clone(control.sessions());
    let commons = SharedState::new(Some(Arc::new(control)));
    let served = serve(
        listener,
        Arc::clone(&exchange),
        Arc::clone(&commons),
        options,
        shutdown.clone(),
    );
    let served = tokio::spawn(served);
    Stage {
        address,
        veil,
        exchange,
        sessions,
        commons,
        shutdown,
        served,
    }
}

impl Stage {
    fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Got {
        sent(self.address, method, path, headers, body)
    }

    fn log_in(&self, name: &str, password: &str) -> Got {
        log_in(self.address, name, password)
    }

    fn visit_as(&self, name: &str, password: &str) -> Visit {
        Visit::begin(self.address, name, password)
    }

    fn visit(&self) -> Visit {
        self.visit_as("analyst", "analyst")
    }

    /// The rest of the analyst's budget, as a fraction.
    async fn left(&self) -> f64 {
        let balance = self.veil.engine.ledger().balance("analyst").await;
        balance.unwrap().fraction_left()
    }

    /// The newest records, newest first.
    async fn records(&self) -> Vec<Record> {
        let engine = self.exchange.current();
        let ledger = engine.ledger();
        ledger.flush().await;
        let records = ledger.recent_records(i64::MAX, 100).await.unwrap();
        records.into_iter().map(|(_, record)| record).collect()
    }
}

impl Visit {
    fn price(&self, sql: &str) -> Got {
        self.post("/", "/price", &[("sql", sql)])
    }

    /// Sends the form of a price. The response leads to the answer.
    fn start(&self, priced: &Got) -> Got {
        let (token, quote) = (token(&priced.body), quote(&priced.body));
        self.post_with(&token, "/run", &[("quote", &quote)])
    }

    /// Presses the button of a price, and waits for the outcome.
    fn run(&self, priced: &Got) -> Got {
        self.follow(self.start(priced))
    }

    /// Where an answer leads, as a browser goes there.
    fn follow(&self, started: Got) -> Got {
        if started.status != 303 {
            return started;
        }
        let mut path = header(&started, "location").unwrap().to_owned();
        assert!(
            path.starts_with("/answer?of=") && path.ends_with("#found"),
            "{path}"
        );
        loop {
            let got = self.get(path.split('#').next().unwrap());
            let Some(refresh) = header(&got, "refresh") else {
                return got;
            };
            path = refresh.split("url=").nth(1).unwrap().to_owned();
        }
    }

    fn ask(&self, sql: &str) -> Got {
        let priced = self.price(sql);
        assert!(priced.has("name=\"quote\""), "{sql}: {}", priced.body);
        self.run(&priced)
    }
}

/// The value of a header.
fn header<'g>(got: &'g Got, name: &str) -> Option<&'g str> {
    let start = format!("{name}: ");
    got.head.lines().find_map(|line| line.strip_prefix(&start))
}

/// The number of a price.
fn quote(body: &str) -> String {
    let rest = body.split("name=\"quote\" value=\"").nth(1).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// A page without numbers of prices.
fn without_quote(body: &str) -> String {
    match body.contains("name=\"quote\"") {
        true => body.replace(&format!("name=\"quote\" value=\"{}\"", quote(body)), ""),
        false => body.to_owned(),
    }
}
