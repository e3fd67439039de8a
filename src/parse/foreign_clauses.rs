//! Clauses that the parser takes from other dialects, and that PostgreSQL's grammar lacks.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Spanned};

use super::position;
use crate::refusal::{Refusal, reason};
use crate::visit;

/// # Errors
/// 42601 for a clause that PostgreSQL lacks, at the SELECT that has it.
pub(super) fn check(query: &ast::Query) -> Result<(), Refusal> {
    match visit::visit(query, &mut Foreign) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(place) => Err(Refusal::new(
            reason::SYNTAX_ERROR,
            "this clause is not part of PostgreSQL's SELECT",
        )
        .at(Some(place).filter(|place| *place > 0))),
    }
}

/// Whether a query has the clause FETCH, in any of its subqueries too.
pub(super) fn has_fetch(query: &ast::Query) -> bool {
    struct Fetches;

    impl ast::Visitor for Fetches {
        type Break = ();

        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            match query.fetch {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        }
    }

    visit::visit(query, &mut Fetches).is_break()
}

struct Foreign;

impl ast::Visitor for Foreign {
    /// Where the SELECT begins.
    type Break = u32;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<u32> {
        let ast::Query {
            with: _,
            body,
            order_by: _,
            limit_clause: _,
            fetch,
            locks: _,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        let is_foreign = for_clause.is_some()
            || settings.is_some()
            || format_clause.is_some()
            || !pipe_operators.is_empty()
            || fetch.as_ref().is_some_and(|fetch| fetch.percent)
            || has_foreign_set(body);
        flow(is_foreign, query)
    }

    fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<u32> {
        let ast::Select {
            select_token: _,
            optimizer_hints,
            distinct: _,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection: _,
            exclude,
            into: _,
            from: _,
            lateral_views,
            prewhere,
            selection: _,
            connect_by,
            group_by: _,
            cluster_by,
            distribute_by,
            sort_by,
            having: _,
            named_window: _,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        let has_part =
            select_modifiers.is_some() || top.is_some() || exclude.is_some() || prewhere.is_some();
        let has_part = has_part
            || qualify.is_some()
            || value_table_mode.is_some()
            || *flavor != ast::SelectFlavor::Standard;
        let has_list = !optimizer_hints.is_empty()
            || !lateral_views.is_empty()
            || !connect_by.is_empty()
            || !cluster_by.is_empty()
            || !distribute_by.is_empty()
            || !sort_by.is_empty();
        flow(has_part || has_list, select)
    }
}

fn flow(is_foreign: bool, node: &impl Spanned) -> ControlFlow<u32> {
    if is_foreign {
        ControlFlow::Break(position::start_of(node.span()))
    } else {
        ControlFlow::Continue(())
    }
}

/// MINUS, or a set operation BY NAME.
fn has_foreign_set(body: &ast::SetExpr) -> bool {
    let mut open = vec![body];
    while let Some(body) = open.pop() {
        if let ast::SetExpr::SetOperation {
            left,
            op,
            set_quantifier,
            right,
        } = body
        {
            let is_known = matches!(
                set_quantifier,
                ast::SetQuantifier::All | ast::SetQuantifier::Distinct | ast::SetQuantifier::None
            );
            if matches!(op, ast::SetOperator::Minus) || !is_known {
                return true;
            }
            open.extend([left.as_ref(), right.as_ref()]);
        }
    }
    false
}
