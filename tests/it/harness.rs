//! A throw-away PostgreSQL, shared by the tests that run at the same time. Each has its own
//! database.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};

/// A resource that concurrent tests share: the first test starts it, the last one ends it.
pub struct Shared<T>(Mutex<Weak<T>>);

/// Each test has a runtime that ends with it; shared resources outlive it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

impl<T: Send + Sync + 'static> Shared<T> {
    pub const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// The running one, or the one that `start` makes.
    pub async fn get(&self, start: impl Future<Output = T> + Send + 'static) -> Arc<T> {
        let mut shared = self.0.lock().await;
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let started = Arc::new(RUNTIME.spawn(start).await.unwrap());
        *shared = Arc::downgrade(&started);
        started
    }
}

/// Stops and leaves nothing behind when the last test drops it.
pub struct Server(LocalPostgres);

static SHARED: Shared<Server> = Shared::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

impl Server {
    /// The running server, or a new one.
    pub async fn shared() -> Arc<Self> {
        SHARED.get(Self::start()).await
    }

    async fn start() -> Self {
        let settings = [("max_connections", "100"), ("autovacuum", "off")];
        let settings = settings
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        let options = ServerOptions {
            settings,
            ..ServerOptions::default()
        };
        Self(LocalPostgres::start(options).await.unwrap())
    }

    pub async fn connect(&self, database: &str, user: &str) -> Client {
        let config = self.0.config().dbname(database).user(user).to_owned();
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// The name of a new database, and its owner's connection.
    pub async fn database(&self) -> (String, Client) {
        let name = format!("t{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let made = format!("CREATE DATABASE {name} TEMPLATE template0 LOCALE 'C.UTF-8'");
        self.connect("postgres", "postgres")
            .await
            .batch_execute(&made)
            .await
            .unwrap();
        let client = self.connect(&name, "postgres").await;
        (name, client)
    }
}
