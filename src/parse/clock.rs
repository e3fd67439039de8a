//! Whether a query reads the clock.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::Query;

/// Functions that stand for the time of the statement, and `age`, which with one argument counts from today.
const CLOCKS: [&str; 7] = ["now", "current_timestamp", "current_date", "localtimestamp", "transaction_timestamp", "statement_timestamp", "age"];

impl Query {
    /// Whether `now()` or one of its kin stands anywhere in it. What this misses is planned at no time at all.
    pub fn reads_clock(&self) -> bool {
        ast::visit_expressions(&*self.0, |expr| match expr {
            ast::Expr::Function(function) if is_clock(&function.name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    }
}

fn is_clock(name: &ast::ObjectName) -> bool {
    match name.0.last() {
        Some(ast::ObjectNamePart::Identifier(ident)) => CLOCKS.iter().any(|clock| ident.value.eq_ignore_ascii_case(clock)),
        Some(ast::ObjectNamePart::Function(_)) | None => false,
    }
}
