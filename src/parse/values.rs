//! The values of an SQL EXECUTE: expressions without a query in them, computed by PostgreSQL and then bound like any other parameter.

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::{Query, parameter_type};
use crate::refusal::{Refusal, sqlstate};

#[derive(Debug, Clone, PartialEq)]
pub struct Values(Vec<ast::Expr>);

impl Values {
    /// # Errors
    /// 0A000 for an expression that holds a query.
    pub(super) fn new(values: Vec<ast::Expr>) -> Result<Self, Refusal> {
        for value in &values {
            if ast::Visit::visit(value, &mut Finder).is_break() {
                return Err(Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, "cannot use subquery in EXECUTE parameter"));
            }
        }
        Ok(Self(values))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `SELECT CAST(value AS type), …`: reads no table. `parameters` are as many type OIDs as there are values.
    ///
    /// # Errors
    /// 0A000 for a type that parameters cannot have, and where the query does not survive printing.
    pub fn query(&self, parameters: &[u32]) -> Result<Query, Refusal> {
        let cast = |(value, oid): (&ast::Expr, &u32)| {
            let value = ast::Expr::Nested(Box::new(value.clone()));
            Ok(ast::SelectItem::UnnamedExpr(match parameter_type(*oid)? {
                Some(data_type) => ast::Expr::Cast { kind: ast::CastKind::Cast, expr: Box::new(value), data_type, format: None },
                None => value,
            }))
        };
        let columns = self.0.iter().zip(parameters).map(cast).collect::<Result<Vec<_>, Refusal>>()?;
        let empty = || Refusal::new(sqlstate::INTERNAL_ERROR, "an empty SELECT could not be made");
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql("SELECT NULL").map_err(|_| empty())?;
        let mut query = parser.parse_query().map_err(|_| empty())?;
        let ast::SetExpr::Select(select) = &mut *query.body else { return Err(empty()) };
        select.projection = columns;
        super::with_room(|| Query::new(query))
    }
}

struct Finder;

impl ast::Visitor for Finder {
    type Break = ();

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}
