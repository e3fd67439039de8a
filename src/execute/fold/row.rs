//! Rows as they come from the database.

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::{FoldError, Folding};

impl Folding {
    /// One row of the stream's statement.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_row(&mut self, row: &Row) -> Result<(), FoldError> {
        self.add(|at| row.try_get(at).ok().and_then(|Raw(bytes)| bytes))
    }
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
