//! One statement of a release, as PostgreSQL is to read it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;

use sqlparser::ast;

use super::{constants, sql};
use crate::refusal::Refusal;
use crate::rewrite::stream::Fold;
use crate::visit;

/// The text, and which of the release's parameters it reads. Parameters of the other statements
/// have no type in this one.
#[derive(Clone, PartialEq)]
pub struct EmittedStatement {
    sql: String,
    parameters: BTreeSet<u32>,
    stream: Option<Box<RowStream>>,
}

/// Leaves out the stream, because digests of stored answers are taken of the text.
impl fmt::Debug for EmittedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmittedStatement")
            .field("sql", &self.sql)
            .field("parameters", &self.parameters)
            .finish()
    }
}

impl EmittedStatement {
    /// # Errors
    /// As those of [`sql::print`].
    pub(in crate::rewrite) fn print(query: &ast::Query) -> Result<Self, Refusal> {
        let mut read = Read::default();
        let ControlFlow::Continue(()) = crate::parse::with_room(|| visit::visit(query, &mut read));
        Ok(Self {
            sql: sql::print(query)?,
            parameters: read.0,
            stream: None,
        })
    }

    /// The statement, which may run as this stream.
    pub(in crate::rewrite) fn or_streamed(self, stream: Option<RowStream>) -> Self {
        Self {
            stream: stream.map(Box::new),
            ..self
        }
    }

    /// The stream that gives the same rows in less time, where there is one.
    pub fn stream(&self) -> Option<&RowStream> {
        self.stream.as_deref()
    }

    /// The bytes of its text, and of its stream's.
    pub fn printed_bytes(&self) -> usize {
        let stream = self.stream.as_ref();
        self.sql.len() + stream.map_or(0, |stream| stream.sql().len())
    }

    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Whether the statement reads `$number`.
    pub fn reads(&self, number: u32) -> bool {
        self.parameters.contains(&number)
    }
}

/// A statement that returns rows as they are stored, and the fold that makes of them the rows of
/// the aggregating statement.
///
/// # Guarantee
/// For all tables, [`Fold`] over this statement's rows gives the rows that the aggregating
/// statement gives in the same snapshot, as texts, in any order. Which of a unit's rows counts the
/// unit may differ: only the sum over all rows of one bin is the same. Which of a unit's groups and
/// values are kept may differ where several have one hash of 64 bits; it is a function of the
/// unit's own set there too. So every bound that holds for the one holds for the other.
#[derive(Debug, Clone, PartialEq)]
pub struct RowStream {
    pub statement: EmittedStatement,
    pub fold: Fold,
}

impl RowStream {
    pub fn sql(&self) -> &str {
        self.statement.sql()
    }
}

#[derive(Default)]
struct Read(BTreeSet<u32>);

impl ast::Visitor for Read {
    type Break = std::convert::Infallible;

    fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<Self::Break> {
        if let ast::Value::Placeholder(name) = &value.value {
            self.0.extend(constants::placeholder_number(name));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_outside_of_names_and_texts() {
        let written = r#"SELECT "it's $1" FROM t WHERE x = ANY(CAST($2 AS DATE[]))
            AND y = 'CAST($4 AS TEXT[])' AND (CAST($12 AS TEXT[]))[1] = a"#;
        let mut parser = sqlparser::parser::Parser::new(&sqlparser::dialect::PostgreSqlDialect {})
            .try_with_sql(written)
            .unwrap();
        let statement = EmittedStatement::print(&parser.parse_query().unwrap()).unwrap();
        assert_eq!(
            [1, 2, 4, 12].map(|number| statement.reads(number)),
            [false, true, false, true]
        );
    }
}
