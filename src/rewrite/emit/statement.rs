//! One statement of a release, as PostgreSQL is to read it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;

use sqlparser::ast;

use super::{constants, sql};
use crate::refusal::Refusal;
use crate::rewrite::stream::Fold;
use crate::visit;

/// The deepest tree that is read back only when it is to be sent. What the parser could refuse for
/// its depth is refused when it is planned.
const SHALLOW: usize = 100;
/// The longest text that is read back only then. A longer one is much work, which has its turn when
/// it is planned.
const SHORT: usize = 32 << 10;

/// The text, and which of the release's parameters it reads. Parameters of the other statements
/// have no type in this one.
#[derive(Clone, PartialEq)]
pub struct EmittedStatement {
    printed: sql::Printed,
    parameters: BTreeSet<u32>,
    stream: Option<Box<RowStream>>,
}

/// Leaves out the stream, because digests of stored answers are taken of the text.
impl fmt::Debug for EmittedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmittedStatement")
            .field("sql", &self.printed.text)
            .field("parameters", &self.parameters)
            .finish()
    }
}

impl EmittedStatement {
    /// Prints the statement. A short one is not read back: most are planned and never sent.
    ///
    /// # Errors
    /// As those of [`sql::print`], where it is long, or nested so deeply that the parser might not
    /// read it.
    pub(in crate::rewrite) fn print(query: &ast::Query) -> Result<Self, Refusal> {
        let mut read = Read::default();
        let ControlFlow::Continue(()) = crate::parse::with_room(|| visit::visit(query, &mut read));
        let printed = Self {
            printed: sql::print_to_read_back(query),
            parameters: read.parameters,
            stream: None,
        };
        if read.deepest > SHALLOW || printed.sql().len() > SHORT {
            printed.read_back()?;
        }
        Ok(printed)
    }

    /// Parses the text again, and its stream's, and compares both with what was built.
    ///
    /// # Errors
    /// As those of [`sql::print`].
    pub fn read_back(&self) -> Result<(), Refusal> {
        sql::read_back(&self.printed)?;
        match self.stream() {
            Some(stream) => stream.statement.read_back(),
            None => Ok(()),
        }
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
        self.printed.text.len() + stream.map_or(0, |stream| stream.sql().len())
    }

    pub fn sql(&self) -> &str {
        &self.printed.text
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

/// Reads which parameters a statement has, and how deeply it is nested.
#[derive(Default)]
struct Read {
    parameters: BTreeSet<u32>,
    depth: usize,
    deepest: usize,
}

impl Read {
    fn deeper(&mut self) -> ControlFlow<std::convert::Infallible> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        ControlFlow::Continue(())
    }

    fn back(&mut self) -> ControlFlow<std::convert::Infallible> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

impl ast::Visitor for Read {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Self::Break> {
        self.deeper()
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Self::Break> {
        self.back()
    }

    fn pre_visit_expr(&mut self, _: &ast::Expr) -> ControlFlow<Self::Break> {
        self.deeper()
    }

    fn post_visit_expr(&mut self, _: &ast::Expr) -> ControlFlow<Self::Break> {
        self.back()
    }

    fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<Self::Break> {
        if let ast::Value::Placeholder(name) = &value.value {
            self.parameters.extend(constants::placeholder_number(name));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::FoldResult;

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

    fn of(expr: ast::Expr) -> ast::Query {
        let row = vec![ast::SelectItem::UnnamedExpr(expr)];
        sql::select(row, Vec::new(), None, Vec::new())
    }

    #[test]
    fn what_reads_as_something_else_is_refused() {
        let sum = ast::Expr::BinaryOp {
            left: Box::new(sql::bare("b")),
            op: ast::BinaryOperator::Plus,
            right: Box::new(sql::bare("c")),
        };
        let product = ast::Expr::BinaryOp {
            left: Box::new(sql::bare("a")),
            op: ast::BinaryOperator::Multiply,
            right: Box::new(sum),
        };
        let unsound = EmittedStatement::print(&of(product)).unwrap();
        assert_eq!(unsound.sql(), r#"SELECT "a" * "b" + "c""#);
        let sound = EmittedStatement::print(&of(sql::bare("a"))).unwrap();
        assert!(sound.read_back().is_ok());
        let fold = Fold {
            groups: Vec::new(),
            cells: Vec::new(),
            result: FoldResult::Bins {
                kept: None,
                blocks: Vec::new(),
            },
        };
        let statement = unsound.clone();
        let streamed = sound.or_streamed(Some(RowStream { statement, fold }));
        for refused in [unsound.read_back(), streamed.read_back()] {
            assert_eq!(refused.unwrap_err().sqlstate, "XX000");
        }
    }

    /// The parser's limit is met where a question is planned, not after it was priced.
    #[test]
    fn what_is_nested_too_deeply_is_refused_at_once() {
        let nested = |depth: usize| {
            let outer = |expr, _| ast::Expr::Nested(Box::new(expr));
            of((0..depth).fold(sql::bare("a"), outer))
        };
        let printed = |depth| EmittedStatement::print(&nested(depth));
        // No tree that is not read back at once is too deep for the parser.
        for depth in (1..SHALLOW).step_by(7) {
            assert!(printed(depth).unwrap().read_back().is_ok(), "{depth}");
        }
        assert!(printed(SHALLOW + 1).is_ok());
        assert_eq!(printed(600).unwrap_err().sqlstate, "54001");
    }
}
