//! Types of calls above the cut, which columns stand for once they are known.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::TypedName;
use super::{Known, Shapes};
use crate::catalog::Type;
use crate::refusal::{Refusal, reason};
use crate::resolve::expression::aggregate_call::aggregate;
use crate::resolve::expression::plain_arguments;
use crate::resolve::syntax::{aggregate_name, names_of, quote_name};

/// The alias under which calls of one expression stand as columns.
pub(super) const CALLS: &str = "pgveil calls";

/// Replaces aggregates, window calls and subqueries by columns.
pub(super) struct CallTypes<'s, 'r, 'p> {
    pub shapes: &'s mut Shapes<'r, 'p>,
    pub known: &'s Known,
    pub found: Vec<TypedName>,
}

impl CallTypes<'_, '_, '_> {
    /// The type of a node that is not a row-level expression; `None` for a row-level expression.
    pub(super) fn of(&mut self, expr: &ast::Expr) -> Result<Option<Type>, Refusal> {
        match expr {
            ast::Expr::Subquery(query) => match self.shapes.query(query)?.as_slice() {
                [(_, data_type)] => Ok(Some(data_type.clone())),
                _ => Err(Refusal::new(
                    reason::COLUMN_COUNT,
                    "subquery must return only one column",
                )
                .at(self.shapes.names.opening(query))),
            },
            ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => Ok(Some(Type::Bool)),
            ast::Expr::Function(function) => self.call(function),
            _ => Ok(None),
        }
    }

    fn call(&mut self, function: &ast::Function) -> Result<Option<Type>, Refusal> {
        let name = names_of(&function.name)?.pop().unwrap_or_default();
        if function.over.is_none() && aggregate_name(function).is_none() {
            return Ok(None);
        }
        match name.as_str() {
            "row_number" | "rank" | "dense_rank" => return Ok(Some(Type::Int8)),
            "ntile" => return Ok(Some(Type::Int4)),
            "percent_rank" | "cume_dist" => return Ok(Some(Type::Float8)),
            "min" | "max" | "lag" | "lead" | "first_value" | "last_value" | "nth_value" => {
                let arguments = plain_arguments(&function.args, &name)?;
                let known = self.known;
                return arguments
                    .first()
                    .map(|value| self.shapes.find_type(value, known))
                    .transpose();
            }
            _ => {}
        }
        let grouped = ast::Function {
            over: None,
            ..function.clone()
        };
        let found = aggregate(
            &grouped,
            &self
                .shapes
                .expressions(&self.known.scope, &self.known.columns),
        )?;
        Ok(Some(found.data_type))
    }
}

impl ast::VisitorMut for CallTypes<'_, '_, '_> {
    type Break = Refusal;

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Refusal> {
        match self.of(expr) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(data_type)) => {
                let name = format!("pgveil call {}", self.found.len());
                *expr = ast::Expr::CompoundIdentifier(vec![quote_name(CALLS), quote_name(&name)]);
                self.found.push((name, data_type));
                ControlFlow::Continue(())
            }
            Err(refusal) => ControlFlow::Break(refusal),
        }
    }
}
