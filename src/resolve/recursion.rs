//! WITH RECURSIVE: which queries name one another.

use std::ops::ControlFlow;

use crate::refusal::Refusal;
use crate::resolve::syntax::{name_of, names_of};
use sqlparser::ast;

/// Whether FROM, anywhere in the query, has a bare name of one of these.
///
/// # Errors
/// 42601 and 42622 for names that are none.
pub fn names_any(query: &ast::Query, ctes: &[ast::Cte]) -> Result<bool, Refusal> {
    struct Search(Vec<String>);
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<()> {
            match names_of(relation).as_deref() {
                Ok([name]) if self.0.contains(name) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let names = ctes
        .iter()
        .map(|cte| name_of(&cte.alias.name))
        .collect::<Result<_, _>>()?;
    Ok(ast::Visit::visit(query, &mut Search(names)).is_break())
}
