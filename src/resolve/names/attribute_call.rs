//! Calls in the form of columns: PostgreSQL takes `a.f` for `f(a)`, or for a cast to the type `f`,
//! where `a` has no column `f`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use crate::parse;
use crate::refusal::{Refusal, reason};
use crate::resolve::outer::allow_list::is_harmless;
use crate::resolve::syntax::name_of;
use crate::visit;
use sqlparser::ast;

/// Refuses dotted names that PostgreSQL could take for a call, since the allow-list of functions
/// does not see such calls. `callable` has the functions of one argument, and the types, that read
/// more than their argument. A name that the allow-list admits anyway is accepted.
///
/// # Errors
/// 0A000 with the name.
pub fn check_dotted(query: &parse::Query, callable: &HashSet<String>) -> Result<(), Refusal> {
    match visit::visit(&*query.0, &mut AttributeCall { callable }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

struct AttributeCall<'a> {
    callable: &'a HashSet<String>,
}

impl AttributeCall<'_> {
    fn check(&self, last: &ast::Ident) -> Result<(), Refusal> {
        let name = name_of(last)?;
        if !self.callable.contains(&name) || is_harmless(&name) {
            return Ok(());
        }
        Err(Refusal::new(
            reason::UNSUPPORTED_NAME,
            format!("a column named \"{name}\" cannot be qualified with the name of its table"),
        )
        .detail(format!(
            "If there were no such column, PostgreSQL would call {name}() here."
        ))
        .hint("Write the column without the table name, or rename it with AS in a subquery."))
    }
}

impl ast::Visitor for AttributeCall<'_> {
    type Break = Refusal;

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Refusal> {
        let found = match expr {
            ast::Expr::CompoundIdentifier(parts) => {
                parts.last().map_or(Ok(()), |last| self.check(last))
            }
            ast::Expr::CompoundFieldAccess {
                root: _,
                access_chain,
            } => access_chain.iter().try_for_each(|access| match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => self.check(name),
                ast::AccessExpr::Dot(_) | ast::AccessExpr::Subscript(_) => Ok(()),
            }),
            _ => Ok(()),
        };
        found.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}
