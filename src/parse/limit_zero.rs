//! The shape of a query: the query with `LIMIT 0`.

use sqlparser::ast;

use super::Query;

impl Query {
    /// The query with its columns and no row, whatever the tables hold.
    #[must_use]
    pub fn without_rows(&self) -> Self {
        let mut query = self.clone();
        query.0.fetch = None;
        let none = ast::Expr::Value(ast::Value::Number("0".to_owned(), false).into());
        query.0.limit_clause = Some(ast::LimitClause::LimitOffset {
            limit: Some(none),
            offset: None,
            limit_by: Vec::new(),
        });
        query
    }
}
