//! Whether a query reads the clock, or facts of the session.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::Query;
use crate::visit;

/// Functions that stand for the time of the statement.
const CLOCKS: [&str; 6] = [
    "now",
    "current_timestamp",
    "current_date",
    "localtimestamp",
    "transaction_timestamp",
    "statement_timestamp",
];

/// Functions that stand for facts of the session and its server.
const OF_SESSION: [&str; 11] = [
    "pg_backend_pid",
    "version",
    "current_database",
    "current_catalog",
    "pg_postmaster_start_time",
    "pg_conf_load_time",
    "inet_server_addr",
    "inet_client_addr",
    "inet_server_port",
    "inet_client_port",
    "pg_is_in_recovery",
];

impl Query {
    /// Whether a fact of the session or its server stands anywhere in it.
    pub fn names_session(&self) -> bool {
        visit::visit_expressions(&*self.0, |expr| match expr {
            ast::Expr::Function(ast::Function { name, .. }) if is_of_session(name) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    }

    /// Whether the query contains `now()` or a similar function. Functions that this misses are
    /// planned without a time.
    pub fn reads_clock(&self) -> bool {
        visit::visit_expressions(&*self.0, |expr| match expr {
            ast::Expr::Function(function) if is_clock(function) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    }
}

fn is_of_session(name: &ast::ObjectName) -> bool {
    match name.0.last() {
        Some(ast::ObjectNamePart::Identifier(ident)) => OF_SESSION
            .iter()
            .any(|fact| ident.value.eq_ignore_ascii_case(fact)),
        Some(ast::ObjectNamePart::Function(_)) | None => false,
    }
}

/// `age` of one argument counts from today.
fn is_clock(function: &ast::Function) -> bool {
    let counts_from_today =
        || matches!(&function.args, ast::FunctionArguments::List(list) if list.args.len() == 1);
    match function.name.0.last() {
        Some(ast::ObjectNamePart::Identifier(ident)) => {
            CLOCKS
                .iter()
                .any(|clock| ident.value.eq_ignore_ascii_case(clock))
                || (ident.value.eq_ignore_ascii_case("age") && counts_from_today())
        }
        Some(ast::ObjectNamePart::Function(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, parse};

    #[test]
    fn the_age_between_two_dates_reads_no_clock() {
        for (call, reads) in [
            ("age(a)", true),
            ("age(a, b)", false),
            ("age(a, now())", true),
            ("pg_catalog.AGE(a)", true),
            ("current_date", true),
            ("a", false),
        ] {
            let statements = parse(&format!("SELECT {call} FROM t")).unwrap();
            let [Statement::Query(query)] = statements.as_slice() else {
                panic!("{call}")
            };
            assert_eq!(query.reads_clock(), reads, "{call}");
        }
    }
}
