//! The names of a query that belong to queries around it. Each name is looked up in the scopes of
//! the query itself, the innermost first. PostgreSQL has accepted the statement before, so a name
//! that none of them has is a column of a query around it.

use std::ops::ControlFlow;

use sqlparser::ast;

use crate::refusal::Refusal;
use crate::resolve::classify::bound_from::BoundFrom;
use crate::resolve::names::Names;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::output_name::column_name;
use crate::resolve::names::scope::Scope;
use crate::resolve::syntax::{bare_name, item_expr, name_of};
use crate::visit;

impl Names<'_> {
    /// Whether a query names columns of a query around it.
    pub(in crate::resolve) fn is_correlated(
        &self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<bool, Refusal> {
        Ok(!self.free_names(query, environment)?.names.is_empty())
    }

    /// The columns of queries around it that a query names, and whether it reads private rows.
    pub(in crate::resolve) fn free_names(
        &self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<FreeNames, Refusal> {
        let mut walk = Walk::new(self);
        walk.query(query, environment)?;
        Ok(walk.free)
    }

    /// Whether WHERE of a SELECT names columns of a query around it.
    pub(in crate::resolve) fn is_tied(
        &self,
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<bool, Refusal> {
        let mut walk = Walk::new(self);
        walk.scopes
            .push(self.bind_from(select, environment)?.into());
        walk.expressions(&select.selection, environment, &[])?;
        Ok(!walk.free.names.is_empty())
    }
}

/// The names in a query that belong to queries around it.
#[derive(Default)]
pub(in crate::resolve) struct FreeNames {
    pub names: Vec<FreeName>,
    /// Whether a FROM at any depth reads private rows.
    pub reads_private: bool,
}

/// A name that no scope of the query has.
pub(in crate::resolve) struct FreeName {
    pub parts: Vec<ast::Ident>,
    /// Whether every column of the scopes is known, so that none of them can have it.
    is_sure: bool,
    /// Which expression of the query it is.
    expr: *const ast::Expr,
}

impl FreeNames {
    /// Whether an expression of the query is surely one of the names.
    pub fn has(&self, expr: &ast::Expr) -> bool {
        let expr = std::ptr::from_ref(expr);
        self.names
            .iter()
            .any(|free| free.is_sure && free.expr == expr)
    }
}

/// The names that the FROM of one SELECT brings into sight.
#[derive(Clone)]
struct Sight {
    scope: Scope,
    all_known: bool,
}

impl From<BoundFrom> for Sight {
    fn from(from: BoundFrom) -> Self {
        Self {
            scope: from.scope,
            all_known: from.all_known,
        }
    }
}

struct Walk<'r> {
    names: &'r Names<'r>,
    /// The scopes in sight, the innermost last.
    scopes: Vec<Sight>,
    free: FreeNames,
}

impl<'r> Walk<'r> {
    fn new(names: &'r Names<'r>) -> Self {
        Self {
            names,
            scopes: Vec::new(),
            free: FreeNames::default(),
        }
    }

    fn query(&mut self, query: &ast::Query, environment: &Environment) -> Result<(), Refusal> {
        let ast::Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            ..
        } = query;
        let mut environment = environment.clone();
        if let Some(ast::With {
            with_token: _,
            recursive,
            cte_tables,
        }) = with
        {
            for cte in cte_tables {
                let (inside, after) = self.names.define(cte, *recursive, &environment)?;
                self.query(&cte.query, &inside)?;
                environment = after;
            }
        }
        self.body(body, order_by.as_ref(), &environment)?;
        self.expressions(limit_clause, &environment, &[])?;
        self.expressions(fetch, &environment, &[])
    }

    fn body(
        &mut self,
        body: &ast::SetExpr,
        order_by: Option<&ast::OrderBy>,
        environment: &Environment,
    ) -> Result<(), Refusal> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, order_by, environment),
            // ORDER BY of other bodies takes output names alone.
            ast::SetExpr::Query(query) => self.query(query, environment),
            ast::SetExpr::SetOperation {
                left,
                op: _,
                set_quantifier: _,
                right,
            } => {
                self.body(left, None, environment)?;
                self.body(right, None, environment)
            }
            ast::SetExpr::Values(values) => self.expressions(values, environment, &[]),
            ast::SetExpr::Insert(_)
            | ast::SetExpr::Update(_)
            | ast::SetExpr::Delete(_)
            | ast::SetExpr::Merge(_)
            | ast::SetExpr::Table(_) => Ok(()),
        }
    }

    fn select(
        &mut self,
        select: &ast::Select,
        order_by: Option<&ast::OrderBy>,
        environment: &Environment,
    ) -> Result<(), Refusal> {
        let from = self.names.bind_from(select, environment)?;
        self.free.reads_private |= from.private;
        let scope = Sight::from(from);
        for tables in &select.from {
            self.tables(tables, &scope, environment)?;
        }
        let outputs = outputs(select)?;
        self.scopes.push(scope);
        self.expressions(&select.projection, environment, &[])?;
        self.expressions(&select.selection, environment, &[])?;
        self.expressions(&select.having, environment, &[])?;
        self.expressions(&select.named_window, environment, &[])?;
        self.expressions(&select.group_by, environment, &outputs)?;
        self.expressions(&select.distinct, environment, &outputs)?;
        if let Some(order_by) = order_by {
            self.expressions(order_by, environment, &outputs)?;
        }
        self.scopes.pop();
        Ok(())
    }

    fn tables(
        &mut self,
        tables: &ast::TableWithJoins,
        scope: &Sight,
        environment: &Environment,
    ) -> Result<(), Refusal> {
        let ast::TableWithJoins { relation, joins } = tables;
        self.factor(relation, scope, environment)?;
        for ast::Join {
            relation,
            global: _,
            join_operator,
        } in joins
        {
            self.factor(relation, scope, environment)?;
            self.within(scope, |walk| {
                walk.expressions(join_operator, environment, &[])
            })?;
        }
        Ok(())
    }

    fn factor(
        &mut self,
        factor: &ast::TableFactor,
        scope: &Sight,
        environment: &Environment,
    ) -> Result<(), Refusal> {
        match factor {
            ast::TableFactor::Derived {
                lateral, subquery, ..
            } => match lateral {
                true => self.within(scope, |walk| walk.query(subquery, environment)),
                false => self.query(subquery, environment),
            },
            ast::TableFactor::NestedJoin {
                table_with_joins, ..
            } => self.tables(table_with_joins, scope, environment),
            // The arguments of a function see the entries of FROM before it.
            other => self.within(scope, |walk| walk.expressions(other, environment, &[])),
        }
    }

    fn within(
        &mut self,
        scope: &Sight,
        walk: impl FnOnce(&mut Self) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.scopes.push(scope.clone());
        let walked = walk(self);
        self.scopes.pop();
        walked
    }

    /// The names of expressions. `outputs` are the output names that they may also mean.
    fn expressions(
        &mut self,
        node: &impl ast::Visit,
        environment: &Environment,
        outputs: &[String],
    ) -> Result<(), Refusal> {
        let mut walk = Expressions {
            walk: self,
            environment,
            outputs,
            fields: Vec::new(),
            depth: 0,
        };
        match visit::visit(node, &mut walk) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(refusal) => Err(refusal),
        }
    }
}

/// Walks expressions. A subquery is walked as a query.
struct Expressions<'w, 'r> {
    walk: &'w mut Walk<'r>,
    environment: &'w Environment,
    outputs: &'w [String],
    /// Names of fields, which are no columns, until they are met.
    fields: Vec<*const ast::Expr>,
    depth: usize,
}

impl ast::Visitor for Expressions<'_, '_> {
    type Break = Refusal;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<Refusal> {
        self.depth += 1;
        if self.depth > 1 {
            return ControlFlow::Continue(());
        }
        match self.walk.query(query, self.environment) {
            Ok(()) => ControlFlow::Continue(()),
            Err(refusal) => ControlFlow::Break(refusal),
        }
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Refusal> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Refusal> {
        let own = std::ptr::from_ref(expr);
        if let Some(at) = self.fields.iter().position(|field| *field == own) {
            self.fields.swap_remove(at);
            return ControlFlow::Continue(());
        }
        let parts = match expr {
            ast::Expr::Identifier(ident) => std::slice::from_ref(ident),
            ast::Expr::CompoundIdentifier(parts) => parts.as_slice(),
            ast::Expr::CompoundFieldAccess {
                root: _,
                access_chain,
            } => {
                self.fields
                    .extend(access_chain.iter().filter_map(|access| match access {
                        ast::AccessExpr::Dot(field) => Some(std::ptr::from_ref(field)),
                        ast::AccessExpr::Subscript(_) => None,
                    }));
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        let is_output = bare_name(expr).is_some_and(|name| self.outputs.contains(&name));
        if self.depth == 0 && !is_output && self.walk.scopes.iter().all(|s| s.scope.lacks(parts)) {
            self.walk.free.names.push(FreeName {
                parts: parts.to_vec(),
                is_sure: self.walk.scopes.iter().all(|s| s.all_known),
                expr: std::ptr::from_ref(expr),
            });
        }
        ControlFlow::Continue(())
    }
}

fn outputs(select: &ast::Select) -> Result<Vec<String>, Refusal> {
    select
        .projection
        .iter()
        .filter_map(|item| match item {
            ast::SelectItem::ExprWithAlias { expr: _, alias } => Some(name_of(alias)),
            item => item_expr(item).map(|expr| Ok(column_name(expr))),
        })
        .collect()
}
