//! Ctrl-C and SIGTERM: the first signal starts a graceful end, the second ends the process at once
//! (watchdogs clean up).

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Failure;

/// A token that the first signal cancels.
pub fn token() -> Result<CancellationToken, Failure> {
    let listen = |kind| {
        signal(kind).map_err(|e| Failure::new(format_args!("signals cannot be received: {e}")))
    };
    let (mut interrupt, mut terminate) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
    );
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        for is_first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if is_first {
                cancelled.cancel();
            } else {
                std::process::exit(130);
            }
        }
    });
    Ok(token)
}

/// Receives SIGHUP, which would otherwise end the process.
pub fn hangups() -> Result<tokio::signal::unix::Signal, Failure> {
    signal(SignalKind::hangup())
        .map_err(|e| Failure::new(format_args!("signals cannot be received: {e}")))
}

/// Returns the outcome of the work, unless a signal comes first.
pub async fn unless<T>(
    token: &CancellationToken,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        outcome = work => outcome,
        () = token.cancelled() => Err(Failure::Interrupted),
    }
}
