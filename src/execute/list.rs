//! Values of a middle query on their way to a statement.

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

use crate::postgres::array_text;
use crate::rewrite::EmittedStatement;

/// A parameter in text format, declared with the array type that the statement casts it to. It is
/// parsed once, when it is bound, not once per row.
#[derive(Debug)]
pub struct List<'a>(pub &'a [Option<String>]);

impl ToSql for List<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(array_text(self.0.iter().map(Option::as_deref)).as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(data_type: &Type) -> bool {
        [Type::UNKNOWN, Type::TEXT_ARRAY].contains(data_type)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// The parameters of a statement, each with its declared type.
pub fn parameters<'l>(
    statement: &EmittedStatement,
    lists: &'l [List<'_>],
) -> Vec<(&'l (dyn ToSql + Sync), Type)> {
    let numbers = lists.iter().zip(1..);
    numbers
        .map(|(list, number)| (list as &(dyn ToSql + Sync), type_of(statement, number)))
        .collect()
}

/// The declared type of a parameter: unspecified if the statement casts it, and arbitrary if this
/// statement does not read it.
fn type_of(statement: &EmittedStatement, number: u32) -> Type {
    if statement.reads(number) {
        Type::UNKNOWN
    } else {
        Type::TEXT_ARRAY
    }
}
