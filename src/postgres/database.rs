//! The database that a throw-away server is started for.

use tokio_postgres::Config;

use super::{Error, MAINTENANCE, ServerOptions, connect, identifier};

/// The database that every cluster has, for sessions that create others. It has the cluster's
/// locale.
const TEMPLATE: &str = "template1";

/// Creates the database of the options. `config` connects to the server, and afterwards to that
/// database.
pub async fn create(config: &mut Config, options: &ServerOptions) -> Result<(), Error> {
    let name = options.database.as_deref().unwrap_or(MAINTENANCE);
    if name == TEMPLATE || name == MAINTENANCE && options.locale.is_none() {
        config.dbname(name);
        return Ok(());
    }
    let quoted = identifier(name);
    let connected = connect(config.dbname(TEMPLATE)).await?;
    // The database that every cluster has uses the cluster's locale.
    connected
        .client
        .batch_execute(&format!("DROP DATABASE IF EXISTS {quoted}"))
        .await?;
    let plain = format!("CREATE DATABASE {quoted}");
    let had = match &options.locale {
        Some(locale) => connected
            .client
            .batch_execute(&format!("{plain} {}", locale.options()))
            .await
            .is_ok(),
        None => false,
    };
    if !had {
        connected.client.batch_execute(&plain).await?;
    }
    connected.close().await;
    config.dbname(name);
    Ok(())
}
