//! SELECT, VALUES, ORDER BY and LIMIT over public and released tables, clause by clause.

use sqlparser::ast;

use super::expression::is_session_user;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::BoundFrom;
use crate::resolve::cut::OuterPlace;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::output_name::column_name;
use crate::resolve::syntax::{
    check_select, empty_select, map_order, quote_name, unsupported_above,
};

impl Resolver<'_> {
    pub(in crate::resolve) fn open_select(
        &mut self,
        select: &ast::Select,
        order_by: Option<&ast::OrderBy>,
        from: &BoundFrom,
        environment: &Environment,
    ) -> Result<(ast::Select, Option<ast::OrderBy>), Refusal> {
        check_select(select)?;
        let distinct = match &select.distinct {
            Some(ast::Distinct::On(exprs)) => {
                Some(ast::Distinct::On(self.open_all(exprs, environment)?))
            }
            other => other.clone(),
        };
        let from = from
            .entries(&select.from)
            .map(|(tables, bound)| self.open_tables(tables, bound, environment))
            .collect::<Result<_, _>>()?;
        let projection = select
            .projection
            .iter()
            .map(|i| self.open_item(i, environment))
            .collect::<Result<_, _>>()?;
        let group_by = match &select.group_by {
            ast::GroupByExpr::Expressions(exprs, modifiers) if modifiers.is_empty() => {
                let exprs = exprs
                    .iter()
                    .map(|e| self.open_group(e, environment))
                    .collect::<Result<_, _>>()?;
                ast::GroupByExpr::Expressions(exprs, Vec::new())
            }
            _ => {
                return Err(unsupported_above(
                    reason::UNSUPPORTED_GROUPING,
                    "this form of GROUP BY",
                )
                .at(self.names.group_by_place(select)));
            }
        };
        let open = ast::Select {
            distinct,
            projection,
            from,
            selection: select
                .selection
                .as_ref()
                .map(|e| self.above(e, environment, &mut OuterPlace::Open))
                .transpose()?,
            group_by,
            having: select
                .having
                .as_ref()
                .map(|e| self.above(e, environment, &mut OuterPlace::Open))
                .transpose()?,
            named_window: self.above_named_windows(
                &select.named_window,
                environment,
                &mut OuterPlace::Open,
            )?,
            window_before_qualify: select.window_before_qualify,
            ..empty_select()
        };
        Ok((
            open,
            order_by
                .map(|o| self.open_order(o, environment))
                .transpose()?,
        ))
    }

    pub(super) fn open_all(
        &mut self,
        exprs: &[ast::Expr],
        environment: &Environment,
    ) -> Result<Vec<ast::Expr>, Refusal> {
        exprs
            .iter()
            .map(|e| self.above(e, environment, &mut OuterPlace::Open))
            .collect()
    }

    fn open_group(
        &mut self,
        expr: &ast::Expr,
        environment: &Environment,
    ) -> Result<ast::Expr, Refusal> {
        let mut sets = |sets: &[Vec<ast::Expr>]| {
            sets.iter()
                .map(|set| self.open_all(set, environment))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(match expr {
            ast::Expr::GroupingSets(list) => ast::Expr::GroupingSets(sets(list)?),
            ast::Expr::Cube(list) => ast::Expr::Cube(sets(list)?),
            ast::Expr::Rollup(list) => ast::Expr::Rollup(sets(list)?),
            other => self.above(other, environment, &mut OuterPlace::Open)?,
        })
    }

    fn open_item(
        &mut self,
        item: &ast::SelectItem,
        environment: &Environment,
    ) -> Result<ast::SelectItem, Refusal> {
        match item {
            ast::SelectItem::UnnamedExpr(ast::Expr::Function(function))
                if is_session_user(function) =>
            {
                let expr = ast::Expr::Function(function.clone());
                let alias = quote_name(&column_name(&expr));
                Ok(ast::SelectItem::ExprWithAlias {
                    expr: self.above(&expr, environment, &mut OuterPlace::Open)?,
                    alias,
                })
            }
            ast::SelectItem::UnnamedExpr(expr) => Ok(ast::SelectItem::UnnamedExpr(self.above(
                expr,
                environment,
                &mut OuterPlace::Open,
            )?)),
            ast::SelectItem::ExprWithAlias { expr, alias } => Ok(ast::SelectItem::ExprWithAlias {
                expr: self.above(expr, environment, &mut OuterPlace::Open)?,
                alias: alias.clone(),
            }),
            ast::SelectItem::Wildcard(options)
            | ast::SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(_),
                options,
            ) if *options == ast::WildcardAdditionalOptions::default() => Ok(item.clone()),
            _ => Err(unsupported_above(
                reason::UNSUPPORTED_CLAUSE,
                "this kind of SELECT item",
            )),
        }
    }

    pub(in crate::resolve) fn open_values(
        &mut self,
        values: &ast::Values,
        environment: &Environment,
    ) -> Result<ast::Values, Refusal> {
        let ast::Values {
            explicit_row,
            value_keyword,
            rows,
        } = values;
        let rows = rows
            .iter()
            .map(
                |ast::Parens {
                     opening_token,
                     content,
                     closing_token,
                 }| {
                    Ok(ast::Parens {
                        opening_token: opening_token.clone(),
                        content: self.open_all(content, environment)?,
                        closing_token: closing_token.clone(),
                    })
                },
            )
            .collect::<Result<_, Refusal>>()?;
        Ok(ast::Values {
            explicit_row: *explicit_row,
            value_keyword: *value_keyword,
            rows,
        })
    }

    pub(in crate::resolve) fn open_order(
        &mut self,
        order_by: &ast::OrderBy,
        environment: &Environment,
    ) -> Result<ast::OrderBy, Refusal> {
        map_order(order_by, |expr| {
            self.above(expr, environment, &mut OuterPlace::Open)
        })
    }

    pub(in crate::resolve) fn open_limit(
        &mut self,
        limit: &ast::LimitClause,
        environment: &Environment,
    ) -> Result<ast::LimitClause, Refusal> {
        match limit {
            ast::LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            } if limit_by.is_empty() => Ok(ast::LimitClause::LimitOffset {
                limit: limit
                    .as_ref()
                    .map(|e| self.above(e, environment, &mut OuterPlace::Open))
                    .transpose()?,
                offset: offset
                    .as_ref()
                    .map(|ast::Offset { value, rows }| {
                        Ok::<_, Refusal>(ast::Offset {
                            value: self.above(value, environment, &mut OuterPlace::Open)?,
                            rows: *rows,
                        })
                    })
                    .transpose()?,
                limit_by: Vec::new(),
            }),
            _ => Err(Refusal::new(
                reason::SYNTAX_ERROR,
                "this form of LIMIT is not valid in PostgreSQL",
            )),
        }
    }

    pub(in crate::resolve) fn open_fetch(
        &mut self,
        fetch: &ast::Fetch,
        environment: &Environment,
    ) -> Result<ast::Fetch, Refusal> {
        let ast::Fetch {
            with_ties,
            percent: _,
            quantity,
        } = fetch;
        let quantity = quantity
            .as_ref()
            .map(|e| self.above(e, environment, &mut OuterPlace::Open))
            .transpose()?;
        Ok(ast::Fetch {
            with_ties: *with_ties,
            percent: false,
            quantity,
        })
    }
}
