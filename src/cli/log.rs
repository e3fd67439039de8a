//! Logs to stderr: pgveil's own events only.

use std::io::IsTerminal;

use super::progress::Stderr;
use tracing_subscriber::filter::{EnvFilter, FilterFn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// Starts logging as PGVEIL_LOG, else RUST_LOG, says; where neither is set, from this level on.
///
/// tokio-postgres and others log statements with their literals. So no filter can turn them on:
/// records of the `log` crate are not bridged here (`set_global_default` in place of `init`), and
/// events of other crates than this one are dropped before the filter is asked.
pub fn start(default: &str) {
    let wanted = ["PGVEIL_LOG", "RUST_LOG"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .unwrap_or_else(|| default.to_owned());
    let filter = EnvFilter::try_new(&wanted).unwrap_or_else(|error| {
        eprintln!(
            "warning: the log filter {wanted:?} is not understood ({error}); {default} is used"
        );
        EnvFilter::new(default)
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
