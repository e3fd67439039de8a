//! A PostgreSQL that loses nothing, for ledgers: one server for all tests of this process, a
//! database for each.

use std::sync::atomic::{AtomicU32, Ordering};

use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio::sync::OnceCell;

static SERVER: OnceCell<LocalPostgres> = OnceCell::const_new();

pub async fn server() -> &'static LocalPostgres {
    let start = || async {
        let durable = [
            ("fsync", "on"),
            ("synchronous_commit", "on"),
            ("full_page_writes", "on"),
            ("max_connections", "100"),
        ];
        let settings = durable
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        LocalPostgres::start(ServerOptions {
            settings,
            ..ServerOptions::default()
        })
        .await
        .unwrap()
    };
    SERVER.get_or_init(start).await
}

/// An empty database, by its URL.
pub async fn database() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let server = server().await;
    let name = format!("ledger_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    execute(server.url(), &format!("CREATE DATABASE {name}")).await;
    server.url().replace("/postgres?", &format!("/{name}?"))
}

/// An empty store of the same kind.
pub async fn another(url: &str, number: usize) -> String {
    if url.starts_with("sqlite") {
        format!("{url}.{number}")
    } else {
        database().await
    }
}

/// Runs statements in a store that nobody has open, or soon not any more.
pub async fn execute_at(url: &str, sql: &str) {
    match url.strip_prefix("sqlite://") {
        Some(path) => super::set_back(std::path::Path::new(path), sql),
        None => execute(url, sql).await,
    }
}

/// Runs statements at the server, as its superuser.
pub async fn execute(url: &str, sql: &str) {
    let (client, connection) = url
        .parse::<tokio_postgres::Config>()
        .unwrap()
        .connect(tokio_postgres::NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}
