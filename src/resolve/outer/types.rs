//! Names and types of the columns of a query over released and public tables. They only serve
//! planning: the shadow confirms them before anything is charged. Types that are not followed here
//! are refused.
//!
//! The query has been opened, so each name in its FROM says what it was bound to: a release, a
//! common table expression of the query, a public table by its full name, or a view.

use std::ops::ControlFlow;

use sqlparser::ast;

use crate::catalog::Type;
use crate::ir::literal::common_type;
use crate::ir::relation::{ColumnId, ColumnInfo, aggregate_column, key_column, release_number};
use crate::ir::{AggregateId, KeyId};
use crate::policy;
use crate::refusal::{Refusal, RefusalKind, reason};
use crate::resolve::Resolver;
use crate::resolve::expression::aggregate_call::aggregate;
use crate::resolve::expression::{ExpressionResolver, plain_arguments};
use crate::resolve::names::Names;
use crate::resolve::names::lookup::view_refused;
use crate::resolve::names::output_name::column_name;
use crate::resolve::names::scope::{Folded, Item, Named, Scope};
use crate::resolve::resolution::Resolution;
use crate::resolve::syntax::{aggregate_name, name_of, names_of, place_of, quote_name};
use crate::visit;

/// Name and type of a column.
pub(in crate::resolve) type TypedName = (String, Type);

impl Resolver<'_> {
    /// The columns of an opened query.
    ///
    /// # Errors
    /// 0A000 if a type is not followed, or if private rows are not compared with values of it;
    /// 42703 and 42P01 for unknown names.
    pub(in crate::resolve) fn shape(&self, query: &ast::Query) -> Result<Vec<TypedName>, Refusal> {
        let columns = Shapes {
            names: &self.names,
            output: &self.output,
            definitions: Vec::new(),
        }
        .query(query)?;
        columns
            .into_iter()
            .map(|(name, data_type)| Ok((name, constant_type(data_type)?)))
            .collect()
    }
}

/// The type without its modifier, if constants may have it.
fn constant_type(data_type: Type) -> Result<Type, Refusal> {
    match data_type {
        Type::Numeric(_) => Ok(Type::Numeric(None)),
        Type::Varchar(_) => Ok(Type::Varchar(None)),
        Type::Char(_) => Ok(Type::Char(None)),
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Float4
        | Type::Float8
        | Type::Text
        | Type::Uuid => Ok(data_type),
        Type::Date | Type::Timestamp | Type::Timestamptz | Type::Time | Type::Enum(_) => {
            Ok(data_type)
        }
        Type::Interval | Type::Other { .. } => {
            let name = crate::ir::literal::type_name(&data_type).to_owned();
            Err(Refusal::new(
                reason::UNSUPPORTED_TYPE,
                format!("a subquery over private rows cannot return a column of type {name}"),
            )
            .hint("Cast the column in the subquery."))
        }
    }
}

struct Shapes<'r, 'p> {
    names: &'r Names<'p>,
    output: &'r Resolution,
    /// Common table expressions in scope, innermost last.
    definitions: Vec<(String, Vec<TypedName>)>,
}

impl Shapes<'_, '_> {
    fn query(&mut self, query: &ast::Query) -> Result<Vec<TypedName>, Refusal> {
        let outside = self.definitions.len();
        for cte in query.with.iter().flat_map(|w| &w.cte_tables) {
            let columns = rename(self.query(&cte.query)?, &cte.alias.columns)?;
            self.definitions.push((name_of(&cte.alias.name)?, columns));
        }
        let columns = self.body(&query.body);
        self.definitions.truncate(outside);
        columns
    }

    fn body(&mut self, body: &ast::SetExpr) -> Result<Vec<TypedName>, Refusal> {
        match body {
            ast::SetExpr::Select(select) => self.select(select),
            ast::SetExpr::Query(query) => self.query(query),
            ast::SetExpr::SetOperation {
                left,
                op: _,
                set_quantifier: _,
                right,
            } => {
                let (left, right) = (self.body(left)?, self.body(right)?);
                let types = |columns: &[TypedName]| {
                    columns.iter().map(|(_, t)| t.clone()).collect::<Vec<_>>()
                };
                if types(&left) != types(&right) {
                    return Err(refuse_unfollowed("a set operation of different types"));
                }
                Ok(left)
            }
            ast::SetExpr::Values(values) => {
                let rows = values
                    .rows
                    .iter()
                    .map(|row| self.constants(&row.content))
                    .collect::<Result<Vec<_>, _>>()?;
                let merged = |above: Vec<Type>, row: Vec<Type>| {
                    above
                        .iter()
                        .zip(&row)
                        .map(|(a, b)| common_type(a, b))
                        .collect::<Option<Vec<_>>>()
                        .ok_or_else(|| refuse_unfollowed("VALUES of different types"))
                };
                let types = rows
                    .into_iter()
                    .map(Ok)
                    .reduce(|above, row| merged(above?, row?))
                    .ok_or_else(|| refuse_unfollowed("VALUES without rows"))??;
                Ok(types
                    .into_iter()
                    .enumerate()
                    .map(|(at, data_type)| (format!("column{}", at + 1), data_type))
                    .collect())
            }
            _ => Err(refuse_unfollowed("this kind of query")),
        }
    }

    /// Types of constants.
    fn constants(&self, values: &[ast::Expr]) -> Result<Vec<Type>, Refusal> {
        let scope = Scope::default();
        values
            .iter()
            .map(|value| Ok(self.expressions(&scope, &[]).value(value)?.data_type))
            .collect()
    }

    fn expressions<'e>(
        &'e self,
        scope: &'e Scope,
        columns: &'e [ColumnInfo],
    ) -> ExpressionResolver<'e> {
        ExpressionResolver {
            scope,
            columns,
            constants: self.names.constants,
            types: self.names.type_names(),
            given: &[],
            outer: &[],
            bound: &self.output.bound,
        }
    }

    fn select(&mut self, select: &ast::Select) -> Result<Vec<TypedName>, Refusal> {
        let mut known = Known::default();
        for tables in &select.from {
            let scope = self.tables(tables, &mut known.columns)?;
            known.scope.require_other_names(&scope)?;
            known.scope.join(scope, Vec::new());
        }
        if let Some(condition) = &select.selection {
            names_exist(condition, &known.scope)?;
        }
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                ast::SelectItem::Wildcard(_) => {
                    columns.extend(known.scope.visible().map(|c| known.column(c)))
                }
                ast::SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let alias = names_of(name)?.pop().unwrap_or_default();
                    columns.extend(
                        known
                            .scope
                            .item(&alias)
                            .iter()
                            .flat_map(|i| &i.columns)
                            .map(|c| known.column(c)),
                    );
                }
                ast::SelectItem::UnnamedExpr(expr) => {
                    columns.push((column_name(expr), self.find_type(expr, &known)?))
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    columns.push((name_of(alias)?, self.find_type(expr, &known)?))
                }
                _ => return Err(refuse_unfollowed("this kind of SELECT item")),
            }
        }
        Ok(columns)
    }

    fn tables(
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

    /// The type of an expression. Aggregates, window calls and subqueries are replaced by columns
    /// of their types. Then it is resolved like an expression over rows.
    fn find_type(&mut self, expr: &ast::Expr, known: &Known) -> Result<Type, Refusal> {
        if let ast::Expr::Cast { data_type, .. } = expr {
            return self.names.type_names().find(data_type);
        }
        let mut expr = expr.clone();
        let mut calls = Calls {
            shapes: self,
            known,
            found: Vec::new(),
        };
        if let ControlFlow::Break(refusal) = visit::visit_mut(&mut expr, &mut calls) {
            return Err(refusal);
        }
        let mut known = Known {
            columns: known.columns.clone(),
            scope: known.scope.clone(),
        };
        let found = std::mem::take(&mut calls.found);
        let calls = add_entry(&mut known.columns, found, None, CALLS.to_owned())?;
        known.scope.join(calls, Vec::new());
        let resolved = self.expressions(&known.scope, &known.columns).value(&expr);
        Ok(resolved
            .map_err(|refusal| {
                if refusal.kind() == RefusalKind::Unsupported {
                    refuse_unfollowed("this expression").within(|| place_of(&expr))
                } else {
                    refusal
                }
            })?
            .data_type)
    }
}

/// The alias under which calls of one expression stand as columns.
const CALLS: &str = "pgveil calls";

#[derive(Default)]
struct Known {
    columns: Vec<ColumnInfo>,
    scope: Scope,
}

impl Known {
    fn column(&self, named: &Named) -> TypedName {
        (
            named.name.clone(),
            self.columns[named.id.0 as usize].data_type.clone(),
        )
    }
}

fn learn(known: &mut Vec<ColumnInfo>, name: String, data_type: Type) -> Named {
    let id = ColumnId(known.len() as u32);
    known.push(ColumnInfo {
        name: name.clone(),
        data_type,
        nullable: true,
        origin: None,
    });
    Named { name, id }
}

/// The scope of one entry of FROM. Its columns become known.
fn add_entry(
    known: &mut Vec<ColumnInfo>,
    columns: Vec<TypedName>,
    alias: Option<&ast::TableAlias>,
    own: String,
) -> Result<Scope, Refusal> {
    let (alias, columns) = match alias {
        None => (own, columns),
        Some(alias) => (name_of(&alias.name)?, rename(columns, &alias.columns)?),
    };
    let columns = columns
        .into_iter()
        .map(|(name, data_type)| learn(known, name, data_type))
        .collect();
    Ok(Scope::of(Item { alias, columns }))
}

/// Replaces aggregates, window calls and subqueries by columns.
struct Calls<'s, 'r, 'p> {
    shapes: &'s mut Shapes<'r, 'p>,
    known: &'s Known,
    found: Vec<TypedName>,
}

impl Calls<'_, '_, '_> {
    /// The type of a node that is not a row-level expression; `None` for a row-level expression.
    fn of(&mut self, expr: &ast::Expr) -> Result<Option<Type>, Refusal> {
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

impl ast::VisitorMut for Calls<'_, '_, '_> {
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

/// Checks that every column outside the condition's subqueries is a column of its own query.
fn names_exist(condition: &ast::Expr, scope: &Scope) -> Result<(), Refusal> {
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

fn rename(
    mut columns: Vec<TypedName>,
    names: &[ast::TableAliasColumnDef],
) -> Result<Vec<TypedName>, Refusal> {
    for (column, ast::TableAliasColumnDef { name, data_type: _ }) in columns.iter_mut().zip(names) {
        column.0 = name_of(name)?;
    }
    Ok(columns)
}

fn refuse_unfollowed(what: &str) -> Refusal {
    Refusal::new(
        reason::COLUMN_TYPE_UNKNOWN,
        format!("cannot determine the type of {what} in a subquery over private rows"),
    )
    .detail(
        "The subquery runs first, and its result becomes constants, whose types must \
                be known.",
    )
    .hint("Cast the columns of the subquery, for example (SELECT avg(x)::numeric FROM …).")
}
