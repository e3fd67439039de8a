//! Whole queries: WITH, set operations, and the decision which SELECT reads private rows.

use std::ops::ControlFlow;

use crate::refusal::{Refusal, RefusalKind, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::empty_query;
use crate::resolve::classify::middle::is_made_before;
use crate::resolve::classify::rows::QueryRows;
use crate::resolve::names::Names;
use crate::resolve::names::environment::{Environment, Recursion, names_any};
use crate::resolve::names::lookup::refuse_reserved;
use crate::resolve::syntax::{
    is_aggregated, item_expr, name_of, place_of, position, unsupported_above,
};
use crate::visit;
use sqlparser::ast;

impl Resolver<'_> {
    /// Rewrites a query that shows no private row. Every release in it becomes a table of released
    /// rows.
    pub(in crate::resolve) fn open_query(
        &mut self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<ast::Query, Refusal> {
        let ast::Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause: _,
            settings: _,
            format_clause: _,
            pipe_operators: _,
        } = query;
        if !locks.is_empty() {
            return Err(
                Refusal::new(reason::ROW_LOCKS, "SELECT FOR UPDATE/SHARE is not allowed")
                    .detail("pgveil answers read-only queries.")
                    .at(self.names.lock_place(query)),
            );
        }
        let (with, environment) = self.open_with(with.as_ref(), environment)?;
        let (body, order_by) = self.open_body(body, order_by.as_ref(), &environment)?;
        Ok(ast::Query {
            with,
            body: Box::new(body),
            order_by,
            limit_clause: limit_clause
                .as_ref()
                .map(|l| self.open_limit(l, &environment))
                .transpose()?,
            fetch: fetch
                .as_ref()
                .map(|f| self.open_fetch(f, &environment))
                .transpose()?,
            locks: Vec::new(),
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators: Vec::new(),
        })
    }

    pub(in crate::resolve) fn open_with(
        &mut self,
        with: Option<&ast::With>,
        environment: &Environment,
    ) -> Result<(Option<ast::With>, Environment), Refusal> {
        let Some(ast::With {
            with_token,
            recursive,
            cte_tables,
        }) = with
        else {
            return Ok((None, environment.clone()));
        };
        let mut environment = environment.clone();
        let mut kept = Vec::new();
        let mut is_recursive = false;
        for (at, cte) in cte_tables.iter().enumerate() {
            let name = name_of(&cte.alias.name)?;
            let place = position(cte.alias.name.span);
            refuse_reserved(&name).map_err(|refusal| refusal.at(place))?;
            if *recursive && names_any(&cte.query, &cte_tables[at + 1..])? {
                return Err(unsupported_above(
                    reason::RECURSIVE_QUERY,
                    "a query of WITH RECURSIVE that refers to a later one",
                )
                .at(place));
            }
            let names_itself = *recursive && names_any(&cte.query, std::slice::from_ref(cte))?;
            let inside = match names_itself {
                true => environment.with_recursive(
                    name.clone(),
                    cte.clone(),
                    cte.clone(),
                    Recursion::Within,
                ),
                false => environment.clone(),
            };
            let (rows, opened) = self.open_definition(cte, &inside)?;
            kept.extend(opened.clone());
            is_recursive |= names_itself;
            environment = match (names_itself, opened) {
                (false, opened) => {
                    let is_middle =
                        opened.is_some() && is_made_before(&cte.query, &rows, &environment);
                    environment.with(name, cte.clone(), rows, opened, is_middle)
                }
                (true, Some(opened)) => {
                    environment.with_recursive(name, cte.clone(), opened, Recursion::Defined)
                }
                (true, None) => {
                    return Err(
                        Refusal::unsupported(reason::RECURSIVE_QUERY, "WITH RECURSIVE").at(place),
                    );
                }
            };
        }
        let with = (!kept.is_empty()).then(|| ast::With {
            with_token: with_token.clone(),
            recursive: is_recursive,
            cte_tables: kept,
        });
        Ok((with, environment))
    }

    /// The rows of one definition, and the definition over released and public tables unless its
    /// rows are private.
    fn open_definition(
        &mut self,
        cte: &ast::Cte,
        environment: &Environment,
    ) -> Result<(QueryRows, Option<ast::Cte>), Refusal> {
        let ast::Cte {
            alias,
            query,
            from,
            materialized,
            closing_paren_token,
        } = cte;
        if from.is_some() {
            return Err(Refusal::new(
                reason::SYNTAX_ERROR,
                "this form of WITH is not valid in PostgreSQL",
            ));
        }
        let rows = self.names.rows_of(query, environment)?;
        if rows.private {
            return Ok((rows, None));
        }
        let opened = ast::Cte {
            alias: alias.clone(),
            query: Box::new(self.open_query(query, environment)?),
            from: None,
            materialized: *materialized,
            closing_paren_token: closing_paren_token.clone(),
        };
        Ok((rows, Some(opened)))
    }

    fn open_body(
        &mut self,
        body: &ast::SetExpr,
        order_by: Option<&ast::OrderBy>,
        environment: &Environment,
    ) -> Result<(ast::SetExpr, Option<ast::OrderBy>), Refusal> {
        match body {
            ast::SetExpr::Select(select) => {
                let (select, order_by) = self.open_or_cut(select, order_by, environment)?;
                Ok((ast::SetExpr::Select(Box::new(select)), order_by))
            }
            ast::SetExpr::Query(query) => {
                let query = self.open_query(query, environment)?;
                Ok((
                    ast::SetExpr::Query(Box::new(query)),
                    order_by
                        .map(|o| self.open_order(o, environment))
                        .transpose()?,
                ))
            }
            ast::SetExpr::SetOperation {
                left,
                op,
                set_quantifier,
                right,
            } => {
                let (left, _) = self.open_body(left, None, environment)?;
                let (right, _) = self.open_body(right, None, environment)?;
                let order_by = order_by
                    .map(|o| self.open_order(o, environment))
                    .transpose()?;
                let set = ast::SetExpr::SetOperation {
                    left: Box::new(left),
                    op: *op,
                    set_quantifier: *set_quantifier,
                    right: Box::new(right),
                };
                Ok((set, order_by))
            }
            ast::SetExpr::Values(values) => {
                let values = self.open_values(values, environment)?;
                Ok((
                    ast::SetExpr::Values(values),
                    order_by
                        .map(|o| self.open_order(o, environment))
                        .transpose()?,
                ))
            }
            ast::SetExpr::Insert(statement)
            | ast::SetExpr::Update(statement)
            | ast::SetExpr::Delete(statement)
            | ast::SetExpr::Merge(statement) => Err(Refusal::new(
                reason::READ_ONLY,
                "statements that change data are not allowed",
            )
            .detail("pgveil answers SELECT queries only.")
            .at(place_of(statement))),
            ast::SetExpr::Table(_) => {
                Err(Refusal::unsupported(reason::UNSUPPORTED_CLAUSE, "TABLE"))
            }
        }
    }

    /// A SELECT over public tables is opened. A SELECT that aggregates private rows becomes a
    /// release; one that shows them is refused.
    fn open_or_cut(
        &mut self,
        select: &ast::Select,
        order_by: Option<&ast::OrderBy>,
        environment: &Environment,
    ) -> Result<(ast::Select, Option<ast::OrderBy>), Refusal> {
        let counting = match order_by {
            None => self.names.counting_groups(select, environment)?,
            Some(_) => None,
        };
        let (select, from) = match &counting {
            Some((select, from)) => (select, from),
            None => (select, &self.names.bind_from(select, environment)?),
        };
        if !from.private {
            return self.open_select(select, order_by, from, environment);
        }
        if empty_query::is_constant_false(select.selection.as_ref())
            && !has_subquery_outside_aggregate(select, order_by)
        {
            self.names.empty = true;
            let opened = self.open_select(select, order_by, from, environment);
            self.names.empty = false;
            return opened;
        }
        let place = select.projection.first().and_then(place_of);
        if !is_aggregated(select) {
            return Err(rows_refused().at(place));
        }
        if self.names.is_step(select, from)? {
            return Err(self.names.unit_rows_refused().at(place));
        }
        self.cut_select(select, order_by, from, environment)
            .map_err(|refusal| self.names.outside(refusal))
    }
}

impl Names<'_> {
    /// In a subquery of an expression, a name that its FROM lacks refers to the query around it:
    /// PostgreSQL has accepted the statement before. The kind of the refusal chooses its words
    /// alone. To look for such names first would walk every subquery, and this detail is the
    /// lookup's own.
    fn outside(&self, refusal: Refusal) -> Refusal {
        if self.subqueries == 0 || refusal.kind() != RefusalKind::UnknownName {
            return refusal;
        }
        Refusal::new(
            reason::CORRELATED_SUBQUERY,
            "a subquery over private rows cannot refer to the query around it",
        )
        .detail(format!("Inside the subquery, {}.", refusal.message))
        .hint("Join the tables, and group the joined rows.")
        .at(refusal.position)
    }

    /// Groups that each lie within one unit are still rows of that unit, so they are not shown.
    fn unit_rows_refused(&self) -> Refusal {
        let unit = &self.policy.privacy.unit;
        Refusal::new(
            reason::UNIT_ROWS,
            format!("rows of one {unit} each are not shown; aggregate over them"),
        )
        .detail(format!("Each group would describe a single {unit}."))
        .hint(
            "Write the query as a derived table and aggregate it, as in SELECT avg(total) \
                FROM (SELECT …, sum(x) AS total FROM … GROUP BY …) AS t.",
        )
    }
}

/// Whether a node contains a query.
fn has_query(node: &impl ast::Visit) -> bool {
    struct Search;
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    visit::visit(node, &mut Search).is_break()
}

/// Whether a SELECT whose WHERE is false still reads rows. An aggregate over no rows still returns
/// one row, and a subquery next to the aggregate reads rows that WHERE does not exclude.
fn has_subquery_outside_aggregate(select: &ast::Select, order_by: Option<&ast::OrderBy>) -> bool {
    let above = select
        .projection
        .iter()
        .filter_map(item_expr)
        .chain(&select.having)
        .any(has_query);
    is_aggregated(select) && (above || order_by.is_some_and(has_query))
}

/// Whether a statement was refused only because it shows rows, as tools do that preview a table. A
/// statement with a subquery in an expression is not a preview: a value or a condition without an
/// answer is not an empty table. The refusal says that FROM reads private rows: that is known only
/// once FROM is bound, and a FROM that cannot be bound is no preview.
pub fn is_preview(statement: &crate::parse::Query, refusal: &Refusal) -> bool {
    struct Subqueries;
    impl ast::Visitor for Subqueries {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            if has_query(expr) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }
    let plain = match &*statement.0.body {
        ast::SetExpr::Select(select) => !select.from.is_empty() && !is_aggregated(select),
        _ => false,
    };
    plain
        && refusal.kind() == RefusalKind::PrivateRows
        && visit::visit(&*statement.0, &mut Subqueries).is_continue()
}

fn rows_refused() -> Refusal {
    Refusal::private_rows("aggregate them").detail(
        "Use COUNT, SUM or AVG, with GROUP BY, FILTER and WHERE; for example SELECT \
                count(*) FROM the same table.",
    )
}
