//! The values of an SQL EXECUTE: expressions without a query in them, computed by PostgreSQL and
//! then bound like any other parameter.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Spanned};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::limits::{copies, height};
use super::position::{self, TokenPositions};
use super::{Query, parameter_type};
use crate::refusal::{Refusal, reason, sqlstate};
use crate::visit;

#[derive(Debug, Clone, PartialEq)]
pub struct ExecuteValues(Vec<ast::Expr>);

impl ExecuteValues {
    /// # Errors
    /// 0A000 for an expression that holds a query, 54001 for one that is too high.
    pub(super) fn new(values: Vec<ast::Expr>, marks: &TokenPositions) -> Result<Self, Refusal> {
        for value in &values {
            height::check(value)?;
            if let ControlFlow::Break(place) = visit::visit(value, &mut Finder) {
                return Err(Refusal::new(
                    reason::SUBQUERY_FORM,
                    "cannot use subquery in EXECUTE parameter",
                )
                .at(marks.last_before("(", place)));
            }
        }
        Ok(Self(values))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Where a value begins in the client's text.
    pub fn place(&self, at: usize) -> Option<u32> {
        let value = self.0.get(at)?;
        Some(position::start_of(value.span())).filter(|place| *place > 0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `VALUES (CAST(value AS type), …)`: reads no table, and is one row, since PostgreSQL refuses
    /// there what EXECUTE refuses: functions that return sets, aggregates and windows. `parameters`
    /// are as many type OIDs as there are values.
    ///
    /// # Errors
    /// 0A000 for a type that parameters cannot have, and where the query does not survive printing.
    pub fn query(&self, parameters: &[u32]) -> Result<Query, Refusal> {
        let cast = |(value, oid): (&ast::Expr, &u32)| {
            let value = ast::Expr::Nested(Box::new(value.clone()));
            Ok(match parameter_type(*oid)? {
                Some(data_type) => ast::Expr::Cast {
                    kind: ast::CastKind::Cast,
                    expr: Box::new(value),
                    data_type,
                    format: None,
                },
                None => value,
            })
        };
        row(self
            .0
            .iter()
            .zip(parameters)
            .map(cast)
            .collect::<Result<_, Refusal>>()?)
    }

    /// PostgreSQL's message where EXECUTE refuses one of its values, from the error that it
    /// reported for them as a row of VALUES. The words of that error depend on `lc_messages`, and
    /// are not read. `None` for other errors.
    pub fn misplacement(&self, refusal: &Refusal) -> Option<String> {
        const GROUPING_ERROR: &str = sqlstate::GROUPING_ERROR.code;
        const WINDOWING_ERROR: &str = sqlstate::WINDOWING_ERROR.code;
        const FEATURE_NOT_SUPPORTED: &str = sqlstate::FEATURE_NOT_SUPPORTED.code;
        let what = match refusal.sqlstate.as_str() {
            GROUPING_ERROR if self.calls(&is_grouping) => "grouping operations",
            GROUPING_ERROR => "aggregate functions",
            WINDOWING_ERROR => "window functions",
            // A value that cannot be computed has no position in the statement.
            FEATURE_NOT_SUPPORTED if refusal.position.is_some() && !self.calls(&has_window) => {
                "set-returning functions"
            }
            _ => return None,
        };
        Some(format!("{what} are not allowed in EXECUTE parameters"))
    }

    /// Whether such a function is called.
    fn calls(&self, is_it: &dyn Fn(&ast::Function) -> bool) -> bool {
        self.0.iter().any(|value| {
            visit::visit_expressions(value, |expr| match expr {
                ast::Expr::Function(call) if is_it(call) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
            .is_break()
        })
    }

    /// `VALUES ($1 IS NOT NULL)`: reads its parameter, of any type.
    ///
    /// # Errors
    /// 0A000 where the query does not survive printing.
    pub fn is_given() -> Result<Query, Refusal> {
        let given = ast::Expr::Value(ast::Value::Placeholder("$1".to_owned()).into());
        row(vec![ast::Expr::IsNotNull(Box::new(given))])
    }

    /// `VALUES ($1, …)`: its columns are of the parameters' types.
    ///
    /// # Errors
    /// 0A000 where the query does not survive printing.
    pub fn places(count: usize) -> Result<Query, Refusal> {
        row((1..=count)
            .map(|at| ast::Expr::Value(ast::Value::Placeholder(format!("${at}")).into()))
            .collect())
    }
}

fn has_window(call: &ast::Function) -> bool {
    call.over.is_some()
}

fn is_grouping(call: &ast::Function) -> bool {
    call.name.to_string().eq_ignore_ascii_case("grouping")
}

fn row(columns: Vec<ast::Expr>) -> Result<Query, Refusal> {
    let empty = || Refusal::new(reason::INTERNAL_ERROR, "an empty row could not be made");
    let mut parser = Parser::new(&PostgreSqlDialect {})
        .try_with_sql("VALUES (NULL)")
        .map_err(|_| empty())?;
    let mut query = parser.parse_query().map_err(|_| empty())?;
    let ast::SetExpr::Values(values) = &mut *query.body else {
        return Err(empty());
    };
    let Some(first) = values.rows.first_mut() else {
        return Err(empty());
    };
    first.content = columns;
    copies::check(&query)?;
    super::with_room(|| Query::new(query))
}

struct Finder;

impl ast::Visitor for Finder {
    /// Where the query begins.
    type Break = u32;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<u32> {
        ControlFlow::Break(position::start_of(query.span()))
    }
}
