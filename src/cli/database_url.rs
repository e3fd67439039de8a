//! The URL of a database, and the failure to reach it.

use tokio_postgres::Config;

use super::Failure;
use crate::postgres;

/// Parses a PostgreSQL URL. Messages never show it, since it may contain a password.
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

/// The failure for a database that cannot be reached.
pub fn unreachable_database(error: postgres::Error) -> Failure {
    let cause = std::error::Error::source(&error)
        .and_then(std::error::Error::source)
        .map_or(String::new(), |cause| format!(": {cause}"));
    Failure::with_remedy(
        format_args!("{error}{cause}"),
        "Is the database running, and are host, port, user and password of its URL right?",
    )
}
