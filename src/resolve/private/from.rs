//! FROM over private rows: scans, joins, derived tables and common table expressions that select,
//! filter and rename. They become one relation with its scope.

mod using;

use std::ops::ControlFlow;
use using::Using;

use sqlparser::ast;

use super::expression_context::{ResolvedParts, SubqueryPlace, Which, computing};
use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::relation::{ColumnInfo, JoinKind, Relation, Scan, ScanId, TableId};
use crate::refusal::{Refusal, TextPosition, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::{BoundFactor, BoundFrom, BoundTables};
use crate::resolve::cut::middle_query::Subqueries;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::lookup::{TableSource, refuse_reserved, view_refused};
use crate::resolve::names::scope::{Item, Named, Scope};
use crate::resolve::syntax::{
    empty_select, name_of, names_of, place_of, position, position_of, query_of, select_of,
};
use crate::visit;

/// Most tables one release may join.
const SCANS_MAX: usize = 16;
impl Resolver<'_> {
    /// FROM and WHERE of a SELECT over private rows.
    pub(in crate::resolve) fn rows(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        let (relation, scope) = self.rows_from(select, from, environment)?;
        let is_extended = relation.is_extended();
        let (relation, _) = self.restrict(
            select,
            relation,
            SubqueryPlace {
                scope: &scope,
                outer: &[],
                environment,
                is_extended,
            },
        )?;
        Ok((relation, scope))
    }

    /// FROM of a SELECT over private rows.
    pub(in crate::resolve) fn rows_from(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        self.limits.enter()?;
        let found = self.rows_of_tables(select, from, environment);
        self.limits.leave();
        found
    }

    fn rows_of_tables(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        let mut joined: Option<(Relation, Scope)> = None;
        for (tables, bound) in from.entries(&select.from) {
            let next = self.rows_joined(tables, bound, environment)?;
            joined = Some(match joined {
                None => next,
                Some((left, mut scope)) => {
                    let (right, right_scope) = next;
                    scope
                        .require_other_names(&right_scope)
                        .map_err(|refusal| refusal.within(|| place_of(&tables.relation)))?;
                    scope.join(right_scope, Vec::new());
                    (
                        Relation::Join {
                            kind: JoinKind::Inner,
                            left: Box::new(left),
                            right: Box::new(right),
                            on: None,
                        },
                        scope,
                    )
                }
            });
        }
        joined
            .ok_or_else(|| Refusal::unsupported(reason::UNSUPPORTED_CLAUSE, "SELECT without FROM"))
    }

    fn rows_joined(
        &mut self,
        tables: &ast::TableWithJoins,
        bound: &BoundTables,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        let ast::TableWithJoins { relation, joins } = tables;
        let (mut relation, mut scope) = self.rows_factor(relation, &bound.first, environment)?;
        for (join, bound) in bound.joins(joins) {
            let ast::Join {
                relation: right,
                global,
                join_operator,
            } = join;
            if *global {
                return Err(self.names.global_alias(right));
            }
            let place = place_of(right);
            let (kind, swapped, constraint) =
                join_kind(join_operator).map_err(|refusal| refusal.within(|| place))?;
            let (right, right_scope) = self.rows_factor(right, bound, environment)?;
            // The ON of an inner join is like WHERE, which may hold subqueries.
            let filtering = match constraint {
                ast::JoinConstraint::On(condition)
                    if kind == JoinKind::Inner && has_subquery(condition) =>
                {
                    Some(condition)
                }
                _ => None,
            };
            let constraint = if filtering.is_some() {
                &ast::JoinConstraint::None
            } else {
                constraint
            };
            scope
                .require_other_names(&right_scope)
                .map_err(|refusal| refusal.within(|| place))?;
            let Using {
                mut conditions,
                folded,
                computed,
                widened,
            } = self.using(&scope, &right_scope, constraint, (kind, swapped))?;
            scope.join(right_scope, folded);
            widened
                .into_iter()
                .for_each(|(wide, own)| scope.widen(wide, own));
            if let ast::JoinConstraint::On(condition) = constraint {
                conditions.push(self.expressions(&scope).condition(condition, "JOIN/ON")?);
            }
            let (left, right) = if swapped {
                (right, relation)
            } else {
                (relation, right)
            };
            relation = Relation::Join {
                kind,
                left: Box::new(computing(left, computed)),
                right: Box::new(right),
                on: Expr::and(conditions),
            };
            if let Some(condition) = filtering {
                relation = self.filter_by_on(relation, condition, &scope, environment)?;
            }
        }
        Ok((relation, scope))
    }

    /// Filters the rows of an inner join by an ON that holds subqueries.
    fn filter_by_on(
        &mut self,
        relation: Relation,
        condition: &ast::Expr,
        scope: &Scope,
        environment: &Environment,
    ) -> Result<Relation, Refusal> {
        let place = SubqueryPlace {
            scope,
            outer: &[],
            environment,
            is_extended: relation.is_extended(),
        };
        let mut given = ResolvedParts::default();
        self.subqueries_in(condition, place, Which::Condition, &mut given)?;
        let predicate = self
            .expressions_at(place, &given)
            .condition(condition, "JOIN/ON")?;
        Ok(Relation::Filter {
            input: Box::new(given.below(relation)),
            predicate,
        })
    }

    fn rows_factor(
        &mut self,
        factor: &ast::TableFactor,
        bound: &BoundFactor,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        self.rows_in(factor, bound, environment)
            .map_err(|refusal| refusal.within(|| place_of(factor)))
    }

    fn rows_in(
        &mut self,
        factor: &ast::TableFactor,
        bound: &BoundFactor,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        if let Some((source, name, alias)) = bound.plain_table(factor) {
            return self.rows_of_source_in_from(source, name, alias, environment);
        }
        match (factor, bound) {
            (
                ast::TableFactor::Table {
                    sample: Some(_), ..
                },
                _,
            ) => Err(Refusal::unsupported(
                reason::UNSUPPORTED_CLAUSE,
                "TABLESAMPLE",
            )),
            (
                ast::TableFactor::Derived {
                    lateral: false,
                    subquery,
                    alias,
                    sample: None,
                },
                BoundFactor::Derived { is_middle },
            ) => self.rows_of_derived(subquery, alias.as_ref(), *is_middle, environment),
            (ast::TableFactor::Derived { lateral: true, .. }, _) => {
                Err(Refusal::unsupported(reason::UNSUPPORTED_JOIN, "LATERAL"))
            }
            (
                ast::TableFactor::Table {
                    name,
                    alias,
                    args: Some(_),
                    with_ordinality: false,
                    ..
                },
                _,
            ) => self.rows_of_function(factor, name, alias.as_ref(), environment),
            (
                ast::TableFactor::NestedJoin {
                    table_with_joins,
                    alias,
                },
                BoundFactor::Nested(bound),
            ) => {
                let (relation, scope) = self.rows_joined(table_with_joins, bound, environment)?;
                let Some(alias) = alias else {
                    return Ok((relation, scope));
                };
                let columns = scope.visible().cloned().collect();
                Ok((relation, scope_of(columns, Some(alias), String::new())?))
            }
            _ => Err(Refusal::unsupported(
                reason::UNSUPPORTED_CLAUSE,
                "this kind of FROM item",
            )),
        }
    }

    fn rows_of_derived(
        &mut self,
        subquery: &ast::Query,
        alias: Option<&ast::TableAlias>,
        is_middle: bool,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        if alias.is_none() {
            return Err(Refusal::new(
                reason::SYNTAX_ERROR,
                "subquery in FROM must have an alias",
            ));
        }
        let (relation, columns) = match is_middle {
            true => self.middle_rows(subquery, environment)?,
            false => self.rows_query(subquery, environment)?,
        };
        Ok((relation, scope_of(columns, alias, String::new())?))
    }

    /// The rows of a table or of a common table expression.
    fn rows_of_source_in_from(
        &mut self,
        source: &TableSource,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        match source {
            TableSource::Cte(definition) if definition.is_middle => {
                let own = names_of(name)?.pop().unwrap_or_default();
                let (relation, columns) = self.middle_named(definition, environment)?;
                Ok((relation, scope_of(columns, alias, own)?))
            }
            TableSource::Cte(definition) => {
                let inner = definition.cte.alias.columns.clone();
                let (relation, columns) =
                    self.rows_query(&definition.cte.query, &definition.environment)?;
                let columns = rename(columns, &inner)?;
                let own = names_of(name)?.pop().unwrap_or_default();
                Ok((relation, scope_of(columns, alias, own)?))
            }
            TableSource::View(view) => Err(view_refused(*view)),
            TableSource::Table(table) => {
                let (relation, columns) = self.scan(*table, position_of(name))?;
                let own = self.names.policy.tables[table.0].name.clone();
                Ok((relation, scope_of(columns, alias, own)?))
            }
        }
    }

    /// The rows of a function of constants. They come from a query that runs by itself.
    fn rows_of_function(
        &mut self,
        call: &ast::TableFactor,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        let item = ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default());
        let from = vec![ast::TableWithJoins {
            relation: call.clone(),
            joins: Vec::new(),
        }];
        let query = query_of(select_of(ast::Select {
            projection: vec![item],
            from,
            ..empty_select()
        }));
        let (relation, columns) = self.middle_rows(&query, environment)?;
        Ok((
            relation,
            scope_of(columns, alias, names_of(name)?.pop().unwrap_or_default())?,
        ))
    }

    fn scan(
        &mut self,
        table: TableId,
        place: Option<u32>,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        if self.output.scans >= ScanId::new(SCANS_MAX) {
            return Err(Refusal::new(
                reason::TOO_MANY_PARTS,
                format!("a query may read at most {SCANS_MAX} tables"),
            ));
        }
        let number = self.output.scans.take();
        let policy = self.names.policy;
        let mut named = Vec::new();
        for (position, column) in policy.tables[table.0].columns.iter().enumerate() {
            let id = self.output.new_column(ColumnInfo {
                name: column.name.clone(),
                data_type: column.data_type.clone(),
                nullable: !column.not_null,
                origin: Some((table, position)),
            });
            named.push(Named {
                name: column.name.clone(),
                id,
            });
        }
        let columns = named.iter().map(|c| c.id).collect();
        Ok((
            Relation::Scan(Scan {
                table,
                columns,
                number,
                place: TextPosition(place),
            }),
            named,
        ))
    }

    /// The rows of a query that only selects, filters and renames.
    pub(in crate::resolve) fn rows_query(
        &mut self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        let ast::Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        let refused = |what: &str| {
            Err(Refusal::unsupported(
                reason::DERIVED_TABLE_CLAUSE,
                format!("{what} in a derived table"),
            )
            .hint(
                "Which rows are kept would depend on other units' rows. Filter with WHERE \
                    instead.",
            ))
        };
        // ORDER BY has no effect without LIMIT, except for DISTINCT ON.
        if limit_clause.is_some() || fetch.is_some() {
            return refused("LIMIT or OFFSET");
        }
        let extras = for_clause.is_some()
            || settings.is_some()
            || format_clause.is_some()
            || !pipe_operators.is_empty()
            || !locks.is_empty();
        if extras {
            return refused("this clause")
                .map_err(|refusal: Refusal| refusal.at(self.names.lock_place(query)));
        }
        let (_, environment) = self.open_with(with.as_ref(), environment)?;
        match body.as_ref() {
            ast::SetExpr::Select(select) => {
                self.rows_select(select, order_by.as_ref(), &environment)
            }
            ast::SetExpr::Query(inner) => self.rows_query(inner, &environment),
            ast::SetExpr::SetOperation {
                left,
                op,
                set_quantifier,
                right,
            } => self.rows_union(left, *op, *set_quantifier, right, &environment),
            _ => Err(Refusal::unsupported(
                reason::UNSUPPORTED_CLAUSE,
                "this kind of derived table",
            )),
        }
    }

    pub(in crate::resolve) fn rows_select(
        &mut self,
        select: &ast::Select,
        order_by: Option<&ast::OrderBy>,
        environment: &Environment,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        crate::resolve::syntax::check_select(select)?;
        let from = self.names.bind_from(select, environment)?;
        if crate::resolve::syntax::is_aggregated(select) && !self.names.is_step(select, &from)? {
            return Err(Refusal::new(
                reason::GROUPED_ROWS_JOIN,
                "private rows cannot be joined with or filtered by grouped rows",
            )
            .hint("Join first, and aggregate the joined rows."));
        }
        let select = &self.with_constants(select, environment, Subqueries::Everywhere)?;
        let (relation, scope) = self.rows(select, &from, environment)?;
        let is_extended = relation.is_extended();
        let place = SubqueryPlace {
            scope: &scope,
            outer: &[],
            environment,
            is_extended,
        };
        match &select.distinct {
            Some(ast::Distinct::On(_)) => self.first_rows(select, order_by, relation, place),
            None | Some(ast::Distinct::Distinct | ast::Distinct::All) => {
                self.select_rows(select, &from, relation, place)
            }
        }
    }
}

/// The columns, renamed by the alias.
fn rename(
    mut columns: Vec<Named>,
    names: &[ast::TableAliasColumnDef],
) -> Result<Vec<Named>, Refusal> {
    if names.len() > columns.len() {
        return Err(Refusal::new(
            reason::INVALID_COLUMN_REFERENCE,
            format!(
                "table has {} columns available but {} columns specified",
                columns.len(),
                names.len()
            ),
        ));
    }
    for (column, ast::TableAliasColumnDef { name, data_type }) in columns.iter_mut().zip(names) {
        if data_type.is_some() {
            return Err(Refusal::new(
                reason::SYNTAX_ERROR,
                "a column definition list is only allowed for functions",
            ));
        }
        column.name = name_of(name)?;
    }
    Ok(columns)
}

fn scope_of(
    columns: Vec<Named>,
    alias: Option<&ast::TableAlias>,
    own: String,
) -> Result<Scope, Refusal> {
    let place = alias.and_then(|alias| position(alias.name.span));
    let (alias, columns) = match alias {
        None => (own, columns),
        Some(ast::TableAlias {
            explicit: _,
            name,
            columns: names,
            at: None,
        }) => (name_of(name)?, rename(columns, names)?),
        Some(ast::TableAlias { at: Some(_), .. }) => {
            return Err(Refusal::new(
                reason::SYNTAX_ERROR,
                "this form of alias is not valid in PostgreSQL",
            ));
        }
    };
    refuse_reserved(&alias).map_err(|refusal| refusal.at(place))?;
    Ok(Scope::of(Item { alias, columns }))
}

fn is_one_type_but_for_lengths(a: &Type, b: &Type) -> bool {
    let is_text = |t: &Type| matches!(t, Type::Text | Type::Varchar(_));
    std::mem::discriminant(a) == std::mem::discriminant(b) || (is_text(a) && is_text(b))
}

fn has_subquery(condition: &ast::Expr) -> bool {
    struct Search;
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    visit::visit(condition, &mut Search).is_break()
}

/// The kind of join, whether its sides are swapped (RIGHT), and the constraint.
fn join_kind(
    operator: &ast::JoinOperator,
) -> Result<(JoinKind, bool, &ast::JoinConstraint), Refusal> {
    use ast::JoinOperator as J;
    match operator {
        J::Join(constraint) | J::Inner(constraint) | J::CrossJoin(constraint) => {
            Ok((JoinKind::Inner, false, constraint))
        }
        J::Left(constraint) | J::LeftOuter(constraint) => Ok((JoinKind::Left, false, constraint)),
        J::Right(constraint) | J::RightOuter(constraint) => Ok((JoinKind::Left, true, constraint)),
        J::FullOuter(_) => Err(Refusal::unsupported(reason::UNSUPPORTED_JOIN, "FULL JOIN")
            .hint("Use LEFT JOIN, which keeps the rows of one side.")),
        _ => Err(Refusal::unsupported(
            reason::UNSUPPORTED_JOIN,
            "this kind of join",
        )),
    }
}
