//! LIMIT, OFFSET and FETCH that cut nothing (`OFFSET 0`, `LIMIT ALL`, `LIMIT NULL`), as constants
//! or as bound parameters: taken off, wherever they stand.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::classify::empty_query::whole_number;
use crate::visit;

/// The query without the clauses that cut none of its rows.
pub(super) fn without_idle(query: &ast::Query) -> ast::Query {
    let mut query = query.clone();
    let _ = visit::visit_mut(&mut query, &mut Idle);
    query
}

struct Idle;

impl ast::VisitorMut for Idle {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Self::Break> {
        if let Some(ast::LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) = &mut query.limit_clause
        {
            limit.take_if(|limit| is_null(limit));
            offset.take_if(|ast::Offset { value, rows: _ }| {
                is_null(value) || whole_number(value) == Some(0)
            });
            if limit.is_none() && offset.is_none() && limit_by.is_empty() {
                query.limit_clause = None;
            }
        }
        query.fetch.take_if(
            |ast::Fetch {
                 with_ties: _,
                 percent,
                 quantity,
             }| !*percent && quantity.as_ref().is_some_and(is_null),
        );
        ControlFlow::Continue(())
    }
}

/// Whether the constant is NULL, of whatever type.
pub(in crate::resolve) fn is_null(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Nested(inner) | ast::Expr::Cast { expr: inner, .. } => is_null(inner),
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Null,
            span: _,
        }) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::without_idle;
    use crate::parse::{Statement, parse};

    #[test]
    fn only_what_cuts_nothing_is_taken_off() {
        for (sql, wanted) in [
            ("SELECT 1 OFFSET 0", "SELECT 1"),
            ("SELECT 1 OFFSET 0 ROWS", "SELECT 1"),
            ("SELECT 1 LIMIT ALL OFFSET (0)", "SELECT 1"),
            ("SELECT 1 LIMIT NULL OFFSET NULL", "SELECT 1"),
            (
                "SELECT 1 LIMIT CAST(NULL AS BIGINT) OFFSET CAST(E'0' AS BIGINT)",
                "SELECT 1",
            ),
            (
                "SELECT 1 OFFSET '0'::int FETCH FIRST NULL ROWS ONLY",
                "SELECT 1",
            ),
            ("SELECT 1 LIMIT 5 OFFSET 0", "SELECT 1 LIMIT 5"),
            ("SELECT 1 LIMIT 0", "SELECT 1 LIMIT 0"),
            ("SELECT 1 OFFSET 1", "SELECT 1 OFFSET 1"),
            ("SELECT 1 OFFSET -0.4", "SELECT 1 OFFSET -0.4"),
            (
                "SELECT 1 FETCH FIRST ROW ONLY",
                "SELECT 1 FETCH FIRST ROWS ONLY",
            ),
            (
                "SELECT (SELECT 1 OFFSET 0) FROM (SELECT 2 LIMIT ALL) AS t",
                "SELECT (SELECT 1) FROM (SELECT 2) AS t",
            ),
            (
                "WITH w AS (SELECT 1 OFFSET 0) SELECT 1 FROM w WHERE EXISTS (SELECT 1 OFFSET 0)",
                "WITH w AS (SELECT 1) SELECT 1 FROM w WHERE EXISTS (SELECT 1)",
            ),
        ] {
            let statements = parse(sql).unwrap();
            let [Statement::Query(query)] = statements.as_slice() else {
                panic!("{sql}")
            };
            assert_eq!(without_idle(&query.0).to_string(), wanted, "{sql}");
        }
    }
}
