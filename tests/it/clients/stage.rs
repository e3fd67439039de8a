//! A veil behind the wire edge on its own port, and a port that leads straight to the database.

use std::net::SocketAddr;
use std::sync::Arc;

use pgveil::wire::{DRAIN, SharedState, Tls, WriteLimits};
use rustls::pki_types::CertificateDer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_postgres::config::Host;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fixture::Veil;
use crate::harness::Shared;
use crate::wire::tls;

pub struct Stage {
    /// Where pgveil listens, with and without TLS.
    pub veiled: SocketAddr,
    /// The database itself, without pgveil: user `postgres`, no password.
    pub direct: SocketAddr,
    /// The one that pgveil shows, self-signed for `localhost`.
    pub certificate: CertificateDer<'static>,
    _veil: Veil,
    _shutdown: DropGuard,
}

static SHARED: Shared<Stage> = Shared::new();
static SHOP: Shared<Stage> = Shared::new();

/// Clients that exhaust a budget, each its own role's.
const CLIENTS: [&str; 16] = [
    "psql",
    "pgbench",
    "psycopg",
    "psycopg2",
    "asyncpg",
    "sqlalchemy",
    "jdbc",
    "node",
    "tokio",
    "django",
    "pandas",
    "psqlodbc",
    "isql",
    "sqlx",
    "superset",
    "notebook",
];

/// Clients that ask over the shop's tables.
const SHOP_CLIENTS: [&str; 8] = [
    "psql-shop",
    "node-shop",
    "postgresjs",
    "sequelize",
    "prisma",
    "perl",
    "jdbc-simple",
    "django-shop",
];

/// Servers between a model and pgveil, each with its own role, as docs/agents.md gives it.
pub const AGENTS: [&str; 4] = ["mcp-reference", "mcp-dbhub", "mcp-pro", "mcp-restricted"];

/// The role of this client that can pay for a few questions only.
pub fn poor(client: &str) -> String {
    assert!(
        CLIENTS.contains(&client) || SHOP_CLIENTS.contains(&client) || AGENTS.contains(&client),
        "{client} has no role"
    );
    format!("poor_{client}")
}

impl Stage {
    /// The stage of the tests that run now. The last test stops it.
    pub async fn shared() -> Arc<Self> {
        SHARED.get(Self::start()).await
    }

    /// A stage with the tables of tests/clients/shop.
    pub async fn shop() -> Arc<Self> {
        SHOP.get(Self::start_shop()).await
    }

    /// Without noise, so that answers can be compared; `analyst` has much to spend, the `poor`
    /// roles next to nothing.
    async fn start() -> Self {
        let veil = Veil::demo(edit, Veil::silent()).await;
        // The start settings of pgveil's sessions, so that names are printed alike.
        veil.client
            .batch_execute("ALTER DATABASE nls SET search_path = \"$user\", public, nls")
            .await
            .unwrap();
        Self::around(veil).await
    }

    async fn start_shop() -> Self {
        let schema = std::fs::read_to_string("tests/clients/shop/schema.sql").unwrap();
        let policy = std::fs::read_to_string("tests/clients/shop/policy.yaml").unwrap();
        let fill =
            async |client: &tokio_postgres::Client| client.batch_execute(&schema).await.unwrap();
        let policy = with_poor_roles(&with_fixed_clips(&policy), &SHOP_CLIENTS);
        Self::around(Veil::over_settings(fill, &policy, Veil::silent()).await).await
    }

    /// One that serves this veil.
    pub async fn around(veil: Veil) -> Self {
        Self::limited(veil, WriteLimits::default()).await
    }

    /// With other limits of clients that write.
    pub async fn limited(veil: Veil, limits: WriteLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let veiled = listener.local_addr().unwrap();
        let (tls, certificate) = tls::configuration();
        let shutdown = CancellationToken::new();
        tokio::spawn(pgveil::wire::serve_operated(
            listener,
            Tls::from(Some(tls)),
            veil.engine.clone(),
            shutdown.clone(),
            DRAIN,
            SharedState::with_write_limits(limits),
        ));
        let direct = relay(&veil.server.config()).await;
        Self {
            veiled,
            direct,
            certificate,
            _veil: veil,
            _shutdown: shutdown.drop_guard(),
        }
    }
}

fn edit(policy: String) -> String {
    let rich = policy
        .replace("epsilon: 8,", "epsilon: 100,")
        .replace("epsilon: 3,", "epsilon: 90,");
    assert!(
        rich.contains("epsilon: 100,") && rich.contains("epsilon: 90,"),
        "the demo policy's budgets have changed"
    );
    // A statement that its client abandons still runs, and counts as failed if it does not end.
    let rich = rich
        .replace("statement_timeout: 60s", "statement_timeout: 5s")
        .replace("failures: 10 ", "failures: 1000 ");
    assert!(
        rich.contains("timeout: 5s") && rich.contains("failures: 1000"),
        "the demo policy's limits have changed"
    );
    with_poor_roles(&with_fixed_clips(&rich), &CLIENTS)
}

/// Then answers without noise are PostgreSQL's, except for the rows that the policy's limits cut.
fn with_fixed_clips(policy: &str) -> String {
    let place = "    budget: {epsilon: 90, delta: 1e-7, renew: never}";
    let place = if policy.contains(place) {
        place
    } else {
        "    budget: {epsilon: 80000, delta: 1e-3}"
    };
    assert!(policy.contains(place), "the policy's role has changed");
    policy.replacen(place, &format!("    settings: {{clip: fixed}}\n{place}"), 1)
}

/// Each with the password of the first role.
fn with_poor_roles(policy: &str, clients: &[&str]) -> String {
    let verifier = policy
        .split("password: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap()
        .to_owned();
    let role = |client: &&str| {
        format!(
            "  - name: {}\n    password: {verifier}\n    budget: {{epsilon: 1.5, delta: 1e-7, \
                renew: never}}\n    settings: {{clip: fixed}}\n",
            poor(client)
        )
    };
    let roles: String = clients.iter().map(role).collect();
    policy.replacen("\ntables:", &format!("\n{roles}\ntables:"), 1)
}

/// A port that leads to a throw-away server, which listens on a socket file alone.
pub async fn relay(config: &tokio_postgres::Config) -> SocketAddr {
    let [Host::Unix(directory)] = config.get_hosts() else {
        panic!("a server of our own has one unix socket")
    };
    let path = directory.join(".s.PGSQL.5432");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let path = path.clone();
            tokio::spawn(async move {
                let mut server = UnixStream::connect(&path).await?;
                copy_bidirectional::<TcpStream, UnixStream>(&mut client, &mut server).await
            });
        }
    });
    address
}
