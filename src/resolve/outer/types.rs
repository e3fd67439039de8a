//! Names and types of the columns of a query over released and public tables. They only serve
//! planning: the shadow confirms them before anything is charged. Types that are not followed here
//! are refused.
//!
//! The query has been opened, so each name in its FROM says what it was bound to: a release, a
//! common table expression of the query, a public table by its full name, or a view.

mod calls;
mod from;

use std::ops::ControlFlow;

use sqlparser::ast;

use crate::catalog::Type;
use crate::ir::literal::common_type;
use crate::ir::relation::{ColumnId, ColumnInfo};
use crate::refusal::{Refusal, RefusalKind, reason};
use crate::resolve::Resolver;
use crate::resolve::expression::ExpressionResolver;
use crate::resolve::names::Names;
use crate::resolve::names::output_name::column_name;
use crate::resolve::names::scope::{Item, Named, Scope};
use crate::resolve::resolution::Resolution;
use crate::resolve::syntax::{name_of, names_of, place_of};
use crate::visit;
use calls::{CALLS, CallTypes};
use from::{names_exist, rename};

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

    /// The type of an expression. Aggregates, window calls and subqueries are replaced by columns
    /// of their types. Then it is resolved like an expression over rows.
    fn find_type(&mut self, expr: &ast::Expr, known: &Known) -> Result<Type, Refusal> {
        if let ast::Expr::Cast { data_type, .. } = expr {
            return self.names.type_names().find(data_type);
        }
        let mut expr = expr.clone();
        let mut calls = CallTypes {
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
                // The kind chooses the words alone: the construct is refused over private rows, and
                // here only its type is not followed.
                if refusal.kind() == RefusalKind::Unsupported {
                    refuse_unfollowed("this expression").within(|| place_of(&expr))
                } else {
                    refusal
                }
            })?
            .data_type)
    }
}

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
