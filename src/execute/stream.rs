//! Reads the rows of a stream and adds them up.

use std::pin::pin;

use futures::TryStreamExt;

use super::fold::Folding;
use super::list::{List, parameters};
use super::{Error, TextRows, backend};
use crate::rewrite::RowStream;

/// What the tables of units of one statement may take. Each connection to the database runs one
/// statement at a time.
const UNITS_MAX: usize = 256 << 20;

/// The rows of the aggregating statement.
///
/// # Errors
/// As [`Snapshot::run`](super::Snapshot::run).
pub async fn rows(
    client: &tokio_postgres::Client,
    stream: &RowStream,
    constants: &[Vec<Option<String>>],
) -> Result<TextRows, Error> {
    let lists: Vec<List> = constants.iter().map(|values| List(values)).collect();
    let parameters = parameters(&stream.statement, &lists);
    let mut folding = Folding::new(stream.fold.clone(), UNITS_MAX);
    loop {
        let read = client
            .query_typed_raw(stream.statement.sql(), parameters.iter().cloned())
            .await
            .map_err(|e| backend(&e))?;
        let mut read = pin!(read);
        while let Some(row) = read.try_next().await.map_err(|e| backend(&e))? {
            folding.add_row(&row).map_err(|_| faulty())?;
            if folding.is_too_large() {
                folding = aside(move || {
                    folding.halve();
                    folding
                })
                .await?;
            }
        }
        let (next, ended) = aside(move || {
            let rows = (!folding.end_reading()).then(|| folding.rows());
            (folding, rows)
        })
        .await?;
        match ended {
            Some(rows) => return Ok(rows),
            None => folding = next,
        }
    }
}

/// Work that takes long, on a thread that no session waits for.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| faulty())
}

fn faulty() -> Error {
    Error::Backend("the rows of a stream could not be added up".to_owned())
}
