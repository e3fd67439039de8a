//! Work that blocks, off the runtime's threads: a store in PostgreSQL has its own runtime.

use super::Failure;
use crate::ledger::Error;

pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(Failure::new)?.map_err(Failure::new)
}
