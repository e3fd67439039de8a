//! SELECT, VALUES, ORDER BY and LIMIT over public and released tables, clause by clause.

use sqlparser::ast;

use super::allow_list;
use super::expression::is_session_user;
use crate::ir::relation::{TableId, view_alias};
use crate::policy::ViewKind;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::{BoundFactor, BoundFrom, BoundTables};
use crate::resolve::cut::Above;
use crate::resolve::names::Names;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::lookup::{TableSource, refuse_reserved};
use crate::resolve::names::output_name::column_name;
use crate::resolve::resolution::Resolution;
use crate::resolve::syntax::{
    check_select, empty_select, map_order, name_of, names_of, place_of, plain_alias, plain_table,
    position, position_of, quote_name, unsupported_above,
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
                .map(|e| self.above(e, environment, &mut Above::Open))
                .transpose()?,
            group_by,
            having: select
                .having
                .as_ref()
                .map(|e| self.above(e, environment, &mut Above::Open))
                .transpose()?,
            named_window: self.above_named_windows(
                &select.named_window,
                environment,
                &mut Above::Open,
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

    fn open_all(
        &mut self,
        exprs: &[ast::Expr],
        environment: &Environment,
    ) -> Result<Vec<ast::Expr>, Refusal> {
        exprs
            .iter()
            .map(|e| self.above(e, environment, &mut Above::Open))
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
            other => self.above(other, environment, &mut Above::Open)?,
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
                    expr: self.above(&expr, environment, &mut Above::Open)?,
                    alias,
                })
            }
            ast::SelectItem::UnnamedExpr(expr) => Ok(ast::SelectItem::UnnamedExpr(self.above(
                expr,
                environment,
                &mut Above::Open,
            )?)),
            ast::SelectItem::ExprWithAlias { expr, alias } => Ok(ast::SelectItem::ExprWithAlias {
                expr: self.above(expr, environment, &mut Above::Open)?,
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

    fn open_tables(
        &mut self,
        tables: &ast::TableWithJoins,
        bound: &BoundTables,
        environment: &Environment,
    ) -> Result<ast::TableWithJoins, Refusal> {
        let ast::TableWithJoins { relation, joins } = tables;
        let joins = bound
            .joins(joins)
            .map(|(join, bound)| {
                let ast::Join {
                    relation,
                    global,
                    join_operator,
                } = join;
                if *global {
                    return Err(self.names.global_alias(relation));
                }
                Ok(ast::Join {
                    relation: self.open_factor(relation, bound, environment)?,
                    global: false,
                    join_operator: self.open_join(join_operator, environment)?,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(ast::TableWithJoins {
            relation: self.open_factor(relation, &bound.first, environment)?,
            joins,
        })
    }

    fn open_join(
        &mut self,
        operator: &ast::JoinOperator,
        environment: &Environment,
    ) -> Result<ast::JoinOperator, Refusal> {
        use ast::JoinOperator as J;
        let mut constraint = |c: &ast::JoinConstraint| match c {
            ast::JoinConstraint::On(e) => Ok(ast::JoinConstraint::On(self.above(
                e,
                environment,
                &mut Above::Open,
            )?)),
            ast::JoinConstraint::Using(_)
            | ast::JoinConstraint::Natural
            | ast::JoinConstraint::None => Ok::<_, Refusal>(c.clone()),
        };
        Ok(match operator {
            J::Join(c) => J::Join(constraint(c)?),
            J::Inner(c) => J::Inner(constraint(c)?),
            J::Left(c) => J::Left(constraint(c)?),
            J::LeftOuter(c) => J::LeftOuter(constraint(c)?),
            J::Right(c) => J::Right(constraint(c)?),
            J::RightOuter(c) => J::RightOuter(constraint(c)?),
            J::FullOuter(c) => J::FullOuter(constraint(c)?),
            J::CrossJoin(c) => J::CrossJoin(constraint(c)?),
            _ => {
                return Err(unsupported_above(
                    reason::UNSUPPORTED_JOIN,
                    "this kind of join",
                ));
            }
        })
    }

    fn open_factor(
        &mut self,
        factor: &ast::TableFactor,
        bound: &BoundFactor,
        environment: &Environment,
    ) -> Result<ast::TableFactor, Refusal> {
        self.open_factor_node(factor, bound, environment)
            .map_err(|refusal| refusal.within(|| place_of(factor)))
    }

    fn open_factor_node(
        &mut self,
        factor: &ast::TableFactor,
        bound: &BoundFactor,
        environment: &Environment,
    ) -> Result<ast::TableFactor, Refusal> {
        if let Some((source, name, alias)) = bound.plain_table(factor) {
            return self.open_table(source, name, alias);
        }
        match (factor, bound) {
            (
                ast::TableFactor::NestedJoin {
                    table_with_joins,
                    alias,
                },
                BoundFactor::Nested(bound),
            ) => Ok(ast::TableFactor::NestedJoin {
                table_with_joins: Box::new(self.open_tables(
                    table_with_joins,
                    bound,
                    environment,
                )?),
                alias: alias.clone(),
            }),
            (other, _) => self.open_rows_factor(other, environment),
        }
    }

    /// A derived table, or the rows of a function.
    fn open_rows_factor(
        &mut self,
        factor: &ast::TableFactor,
        environment: &Environment,
    ) -> Result<ast::TableFactor, Refusal> {
        match factor {
            ast::TableFactor::Table {
                name,
                alias,
                args:
                    Some(ast::TableFunctionArgs {
                        args,
                        settings: None,
                    }),
                with_hints,
                version: None,
                with_ordinality,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                self.open_function(name, args, *with_ordinality, alias.as_ref(), environment)
            }
            ast::TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample: None,
            } => Ok(ast::TableFactor::Derived {
                lateral: *lateral,
                subquery: Box::new(self.open_derived(
                    *lateral,
                    subquery,
                    alias.as_ref(),
                    environment,
                )?),
                alias: alias.clone(),
                sample: None,
            }),
            other => self.open_function_factor(other, environment),
        }
    }

    /// UNNEST and LATERAL calls.
    fn open_function_factor(
        &mut self,
        factor: &ast::TableFactor,
        environment: &Environment,
    ) -> Result<ast::TableFactor, Refusal> {
        match factor {
            ast::TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality,
            } => Ok(ast::TableFactor::UNNEST {
                alias: alias.clone(),
                array_exprs: self.open_all(array_exprs, environment)?,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality: *with_ordinality,
            }),
            ast::TableFactor::Function {
                lateral: true,
                name,
                args,
                with_ordinality,
                alias,
            } => Ok(ast::TableFactor::Function {
                lateral: true,
                name: name.clone(),
                args: self.open_arguments(name, args, environment)?,
                with_ordinality: *with_ordinality,
                alias: alias.clone(),
            }),
            _ => Err(unsupported_above(
                reason::UNSUPPORTED_CLAUSE,
                "this kind of FROM item",
            )),
        }
    }

    fn open_derived(
        &mut self,
        lateral: bool,
        subquery: &ast::Query,
        alias: Option<&ast::TableAlias>,
        environment: &Environment,
    ) -> Result<ast::Query, Refusal> {
        if let Some(alias) = alias {
            refuse_reserved(&name_of(&alias.name)?)
                .map_err(|refusal| refusal.at(position(alias.name.span)))?;
        }
        // A lateral subquery sees the names of the query around it, like one in an expression.
        self.names.subqueries += usize::from(lateral);
        let opened = self.open_query(subquery, environment);
        self.names.subqueries -= usize::from(lateral);
        opened
    }

    /// The arguments of a set-returning function in FROM.
    fn open_arguments(
        &mut self,
        name: &ast::ObjectName,
        arguments: &[ast::FunctionArg],
        environment: &Environment,
    ) -> Result<Vec<ast::FunctionArg>, Refusal> {
        check_rows_function(name)?;
        arguments
            .iter()
            .map(|a| self.above_argument(a, environment, &mut Above::Open))
            .collect()
    }

    /// A public table under its full name, or a WITH name. Private tables are refused: a SELECT
    /// that aggregates them is cut before.
    fn open_table(
        &mut self,
        source: &TableSource,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
    ) -> Result<ast::TableFactor, Refusal> {
        let own = names_of(name)?.pop().unwrap_or_default();
        let (name, alias) = match source {
            TableSource::Cte(definition) if definition.rows.private => {
                return Err(Refusal::new(
                    reason::PUBLIC_ROWS_BY_PRIVATE,
                    "cannot read private rows here",
                ));
            }
            TableSource::Cte(_) => (name.clone(), alias.cloned()),
            TableSource::Table(table) if self.names.is_private(*table) => {
                return Err(Refusal::new(
                    reason::PUBLIC_ROWS_BY_PRIVATE,
                    "cannot read private rows here",
                ));
            }
            // It gets no alias from us, so that `schema.table.column` finds it, as in PostgreSQL.
            TableSource::Table(table) => (self.public_name(*table), alias.cloned()),
            TableSource::View(view) => (
                self.output.view_name(*view),
                Some(alias.cloned().unwrap_or_else(|| plain_alias(&own))),
            ),
        };
        Ok(plain_table(name, alias))
    }

    fn public_name(&mut self, table: TableId) -> ast::ObjectName {
        if !self.output.public_tables.contains(&table) {
            self.output.public_tables.push(table);
        }
        self.names.full_name(table)
    }

    fn open_function(
        &mut self,
        name: &ast::ObjectName,
        arguments: &[ast::FunctionArg],
        with_ordinality: bool,
        alias: Option<&ast::TableAlias>,
        environment: &Environment,
    ) -> Result<ast::TableFactor, Refusal> {
        let args = self.open_arguments(name, arguments, environment)?;
        Ok(ast::TableFactor::Table {
            name: name.clone(),
            alias: alias.cloned(),
            args: Some(ast::TableFunctionArgs {
                args,
                settings: None,
            }),
            with_hints: Vec::new(),
            version: None,
            with_ordinality,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        })
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
            self.above(expr, environment, &mut Above::Open)
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
                    .map(|e| self.above(e, environment, &mut Above::Open))
                    .transpose()?,
                offset: offset
                    .as_ref()
                    .map(|ast::Offset { value, rows }| {
                        Ok::<_, Refusal>(ast::Offset {
                            value: self.above(value, environment, &mut Above::Open)?,
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
            .map(|e| self.above(e, environment, &mut Above::Open))
            .transpose()?;
        Ok(ast::Fetch {
            with_ties: *with_ties,
            percent: false,
            quantity,
        })
    }
}

impl Resolution {
    fn view_name(&mut self, view: ViewKind) -> ast::ObjectName {
        if !self.views.contains(&view) {
            self.views.push(view);
        }
        ast::ObjectName(vec![ast::ObjectNamePart::Identifier(quote_name(
            &view_alias(view),
        ))])
    }
}

impl Names<'_> {
    fn full_name(&self, table: TableId) -> ast::ObjectName {
        let table = &self.policy.tables[table.0];
        ast::ObjectName(vec![
            ast::ObjectNamePart::Identifier(quote_name(&table.schema)),
            ast::ObjectNamePart::Identifier(quote_name(&table.name)),
        ])
    }
}

fn check_rows_function(name: &ast::ObjectName) -> Result<(), Refusal> {
    match allow_list::gives_rows(&names_of(name)?) {
        true => Ok(()),
        false => Err(
            unsupported_above(reason::UNSUPPORTED_FUNCTION, "this function in FROM")
                .at(position_of(name)),
        ),
    }
}
