//! Names and types of what FROM reads.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::TypedName;
use super::{Shapes, add_entry, learn, refuse_unfollowed};
use crate::catalog::Type;
use crate::ir::literal::common_type;
use crate::ir::relation::{ColumnInfo, aggregate_column, key_column, release_number};
use crate::ir::{AggregateId, KeyId};
use crate::policy;
use crate::refusal::Refusal;
use crate::resolve::names::lookup::view_refused;
use crate::resolve::names::scope::{Folded, Scope};
use crate::resolve::syntax::{name_of, names_of};
use crate::visit;

impl Shapes<'_, '_> {
    pub(super) fn tables(
        &mut self,
        tables: &ast::TableWithJoins,
        columns: &mut Vec<ColumnInfo>,
    ) -> Result<Scope, Refusal> {
        let ast::TableWithJoins { relation, joins } = tables;
        let mut scope = self.factor(relation, columns)?;
        for join in joins {
            let right = self.factor(&join.relation, columns)?;
            scope.require_other_names(&right)?;
            let mut folded = Vec::new();
            for Folded { name, place: _ } in
                scope.merge_columns(constraint_of(&join.join_operator)?, &right)?
            {
                let type_of = |side: &Scope| {
                    Ok(side
                        .bare(&name)?
                        .map(|id| columns[id.0 as usize].data_type.clone()))
                };
                let data_type = match (type_of(&scope)?, type_of(&right)?) {
                    (Some(a), Some(b)) => {
                        common_type(&a, &b).ok_or_else(|| refuse_unfollowed("this kind of join"))?
                    }
                    _ => return Err(refuse_unfollowed("this kind of join")),
                };
                folded.push(learn(columns, name, data_type));
            }
            scope.join(right, folded);
        }
        Ok(scope)
    }

    fn factor(
        &mut self,
        factor: &ast::TableFactor,
        known: &mut Vec<ColumnInfo>,
    ) -> Result<Scope, Refusal> {
        match factor {
            ast::TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let own = names_of(name)?.pop().unwrap_or_default();
                add_entry(known, self.columns_of_table(name)?, alias.as_ref(), own)
            }
            ast::TableFactor::Table {
                name,
                alias,
                args:
                    Some(ast::TableFunctionArgs {
                        args,
                        settings: None,
                    }),
                with_ordinality: false,
                ..
            } => {
                let own = names_of(name)?.pop().unwrap_or_default();
                let data_type = self.series(&own, args)?;
                // The only column of a function has the name of its table.
                let column = alias
                    .as_ref()
                    .map_or(Ok(own.clone()), |alias| name_of(&alias.name))?;
                add_entry(known, vec![(column, data_type)], alias.as_ref(), own)
            }
            ast::TableFactor::Derived {
                subquery, alias, ..
            } => {
                let columns = self.query(subquery)?;
                add_entry(known, columns, alias.as_ref(), String::new())
            }
            ast::TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.tables(table_with_joins, known),
            _ => Err(refuse_unfollowed("this kind of FROM item")),
        }
    }

    /// The type of GENERATE_SERIES over constants.
    fn series(&self, name: &str, arguments: &[ast::FunctionArg]) -> Result<Type, Refusal> {
        if name != "generate_series" {
            return Err(refuse_unfollowed("this function's rows"));
        }
        let mut values = Vec::new();
        for argument in arguments {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = argument else {
                return Err(refuse_unfollowed("this function's rows"));
            };
            values.push(expr.clone());
        }
        let types = self.constants(&values)?;
        let of = |known: &[Type]| types.iter().all(|t| known.contains(t));
        match types.as_slice() {
            [_, _] | [_, _, _] if of(&[Type::Int2, Type::Int4]) => Ok(Type::Int4),
            [_, _] | [_, _, _] if of(&[Type::Int2, Type::Int4, Type::Int8]) => Ok(Type::Int8),
            [Type::Timestamp, Type::Timestamp, Type::Interval] => Ok(Type::Timestamp),
            // PostgreSQL reads dates as instants of the session's time zone.
            [
                Type::Date | Type::Timestamptz,
                Type::Date | Type::Timestamptz,
                Type::Interval,
            ] => Ok(Type::Timestamptz),
            _ => Err(refuse_unfollowed("generate_series() of these types")),
        }
    }

    fn columns_of_table(&self, name: &ast::ObjectName) -> Result<Vec<TypedName>, Refusal> {
        let names = names_of(name)?;
        if let [name] = names.as_slice() {
            if let Some(release) =
                release_number(name).and_then(|at| self.output.releases.get(at.0))
            {
                let keys = release
                    .keys
                    .iter()
                    .enumerate()
                    .map(|(at, key)| (key_column(KeyId(at)), key.expr.data_type.clone()));
                let aggregates = release
                    .aggregates
                    .iter()
                    .enumerate()
                    .map(|(at, a)| (aggregate_column(AggregateId(at)), a.data_type.clone()));
                return Ok(keys.chain(aggregates).collect());
            }
            if let Some((_, columns)) = self
                .definitions
                .iter()
                .rev()
                .find(|(known, _)| known == name)
            {
                return Ok(columns.clone());
            }
        }
        if let Some(view) = self.output.opened_view(&names) {
            return Err(view_refused(view));
        }
        let table = self
            .output
            .public_tables
            .iter()
            .map(|table| &self.names.policy.tables[table.0])
            .find(|table| names == [table.schema.as_str(), table.name.as_str()])
            .ok_or_else(|| refuse_unfollowed("this common table expression"))?;
        let column = |c: &policy::Column| (c.name.clone(), c.data_type.clone());
        Ok(table.columns.iter().map(column).collect())
    }
}

/// Checks that every column outside the condition's subqueries is a column of the query itself.
pub(super) fn names_exist(condition: &ast::Expr, scope: &Scope) -> Result<(), Refusal> {
    struct Check<'s> {
        scope: &'s Scope,
        depth: usize,
    }
    impl ast::Visitor for Check<'_> {
        type Break = Refusal;
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Refusal> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Refusal> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Refusal> {
            let found = match expr {
                ast::Expr::Identifier(ident) if self.depth == 0 => {
                    self.scope.find(std::slice::from_ref(ident))
                }
                ast::Expr::CompoundIdentifier(parts) if self.depth == 0 => self.scope.find(parts),
                _ => return ControlFlow::Continue(()),
            };
            found.map_or_else(ControlFlow::Break, |_| ControlFlow::Continue(()))
        }
    }
    match visit::visit(condition, &mut Check { scope, depth: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

fn constraint_of(operator: &ast::JoinOperator) -> Result<&ast::JoinConstraint, Refusal> {
    use ast::JoinOperator as J;
    match operator {
        J::Join(c)
        | J::Inner(c)
        | J::Left(c)
        | J::LeftOuter(c)
        | J::Right(c)
        | J::RightOuter(c)
        | J::FullOuter(c)
        | J::CrossJoin(c) => Ok(c),
        _ => Err(refuse_unfollowed("this kind of join")),
    }
}

pub(super) fn rename(
    mut columns: Vec<TypedName>,
    names: &[ast::TableAliasColumnDef],
) -> Result<Vec<TypedName>, Refusal> {
    for (column, ast::TableAliasColumnDef { name, data_type: _ }) in columns.iter_mut().zip(names) {
        column.0 = name_of(name)?;
    }
    Ok(columns)
}
