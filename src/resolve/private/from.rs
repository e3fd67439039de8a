//! FROM over private rows: scans, joins, derived tables and common table expressions that select,
//! filter and rename. They become one relation with its scope.

mod joined;
mod using;

use sqlparser::ast;

use super::expression_context::SubqueryPlace;
use crate::catalog::Type;
use crate::ir::relation::{ColumnInfo, Relation, Scan, ScanId, TableId};
use crate::policy::ColumnPosition;
use crate::refusal::{Refusal, TextPosition, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::{BoundFactor, BoundFrom};
use crate::resolve::cut::middle_query::Subqueries;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::lookup::{TableSource, refuse_reserved, view_refused};
use crate::resolve::names::scope::{Item, Named, Scope};
use crate::resolve::syntax::{
    empty_select, name_of, names_of, place_of, position, position_of, query_of, select_of,
};

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
                origin: Some((table, ColumnPosition(position))),
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
