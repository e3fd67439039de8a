//! Values of a middle query on their way to a statement.

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

use crate::postgres::array_text;

/// A parameter in text, of the array type that the statement casts it to: read once, when it is bound, and not once a row.
#[derive(Debug)]
pub struct List<'a>(pub &'a [Option<String>]);

impl ToSql for List<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
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

/// The type that a parameter is declared of: none where the statement says it by a cast, and any where this statement of several does not read it.
pub fn type_of(sql: &str, number: usize) -> Type {
    let cast = format!("CAST(${number} AS ");
    // Outside of constants: behind an even number of quotes.
    let is_read = sql.split('\'').step_by(2).any(|outside| outside.contains(&cast));
    if is_read { Type::UNKNOWN } else { Type::TEXT_ARRAY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_statement_does_not_read_has_a_type_all_the_same() {
        let sql =
            "SELECT 1 WHERE x = ANY(CAST($2 AS DATE[])) AND y = 'CAST($1 AS TEXT[])' AND z = 'it''s CAST($3 AS' AND (CAST($12 AS TEXT[]))[1] = a";
        assert_eq!([1, 2, 3, 12].map(|n| type_of(sql, n) == Type::UNKNOWN), [false, true, false, true]);
    }
}
