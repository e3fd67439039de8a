//! Reads the rows of a stream and adds them up.

use std::pin::pin;

use futures::TryStreamExt;
use tokio_postgres::types::{FromSql, Type};

use super::fold::{FoldError, FoldMemory, Folding};
use super::list::{List, parameters};
use super::{Error, TextRows, backend};
use crate::rewrite::RowStream;

/// What the tables of one statement may take. Each connection to the database runs one at a time.
const MEMORY: FoldMemory = FoldMemory {
    units: 192 << 20,
    groups: 128 << 20,
};

/// The rows of the aggregating statement; `None` where they have more groups than the memory holds.
///
/// # Errors
/// As [`Snapshot::run`](super::Snapshot::run).
pub async fn rows(
    client: &tokio_postgres::Client,
    stream: &RowStream,
    constants: &[Vec<Option<String>>],
) -> Result<Option<TextRows>, Error> {
    let lists: Vec<List> = constants.iter().map(|values| List(values)).collect();
    let parameters = parameters(&stream.statement, &lists);
    let mut folding = Folding::new(stream.fold.clone(), MEMORY);
    loop {
        let read = client
            .query_typed_raw(stream.statement.sql(), parameters.iter().cloned())
            .await
            .map_err(|e| backend(&e))?;
        let mut read = pin!(read);
        while let Some(row) = read.try_next().await.map_err(|e| backend(&e))? {
            match folding.add(|at| row.try_get(at).ok().and_then(|Raw(bytes)| bytes)) {
                Ok(()) => {}
                Err(FoldError::TooManyGroups) => return Ok(None),
                Err(FoldError::UnlikeRow) => return Err(unlike()),
            }
        }
        let ended = tokio::task::spawn_blocking(move || (folding.end_reading(), folding));
        let (is_more, added) = ended.await.map_err(|_| unlike())?;
        folding = added;
        if !is_more {
            return Ok(Some(folding.rows()));
        }
    }
}

fn unlike() -> Error {
    Error::Backend("the rows of a stream could not be added up".to_owned())
}

/// A column as it came; `None` is NULL.
struct Raw<'r>(Option<&'r [u8]>);

impl<'r> FromSql<'r> for Raw<'r> {
    fn from_sql(
        _: &Type,
        bytes: &'r [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(Some(bytes)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
