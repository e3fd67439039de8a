//! FROM over public and released tables.

use sqlparser::ast;

use crate::ir::relation::{TableId, view_alias};
use crate::policy::ViewKind;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::{BoundFactor, BoundTables};
use crate::resolve::cut::OuterPlace;
use crate::resolve::names::Names;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::lookup::{TableSource, refuse_reserved};
use crate::resolve::outer::allow_list;
use crate::resolve::resolution::Resolution;
use crate::resolve::syntax::{
    name_of, names_of, place_of, plain_alias, plain_table, position, position_of, quote_name,
    unsupported_above,
};

impl Resolver<'_> {
    pub(super) fn open_tables(
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
                &mut OuterPlace::Open,
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
            .map(|a| self.above_argument(a, environment, &mut OuterPlace::Open))
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
