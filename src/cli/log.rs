//! Logs to stderr: pgveil's own events only.

use std::io::IsTerminal;
use std::str::FromStr;

use super::progress::Stderr;
use tracing_subscriber::filter::{FilterFn, LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// Starts logging at the levels of PGVEIL_LOG, else of RUST_LOG, else at this level.
///
/// tokio-postgres and other crates log statements with their literals. No filter can turn these on:
/// records of the `log` crate are not bridged (`set_global_default` instead of `init`), and events
/// of other crates are dropped before the filter.
pub fn start(default: &str) {
    let wanted = ["PGVEIL_LOG", "RUST_LOG"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| default.to_owned());
    // An empty part would be a level, and hide warnings.
    let parts = wanted.split(',').map(str::trim);
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    let wanted = parts.join(",");
    let filter = Targets::from_str(&wanted).unwrap_or_else(|error| {
        eprintln!(
            "warning: the log filter {wanted:?} is not understood ({error}); {default} is used"
        );
        Targets::from_str(default)
            .unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO))
    });
    let ours = FilterFn::new(|metadata| {
        metadata.target() == "pgveil" || metadata.target().starts_with("pgveil::")
    });
    let layer = fmt::layer().with_writer(|| Stderr).with_target(false);
    let layer: Box<dyn Layer<_> + Send + Sync> =
        if std::env::var("PGVEIL_LOG_FORMAT").is_ok_and(|format| format == "json") {
            layer.json().flatten_event(true).boxed()
        } else {
            layer.with_ansi(std::io::stderr().is_terminal()).boxed()
        };
    let subscriber = Registry::default()
        .with(filter)
        .with(layer.with_filter(ours));
    // A second start, in tests, changes nothing.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
