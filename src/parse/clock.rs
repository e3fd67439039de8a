//! Whether a query reads the clock.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::Query;

/// Functions that stand for the time of the statement.
const CLOCKS: [&str; 6] = ["now", "current_timestamp", "current_date", "localtimestamp", "transaction_timestamp", "statement_timestamp"];

impl Query {
    /// Whether `now()` or one of its kin stands anywhere in it. What this misses is planned at no time at all.
    pub fn reads_clock(&self) -> bool {
        ast::visit_expressions(&*self.0, |expr| match expr {
            ast::Expr::Function(function) if is_clock(function) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    }
}

/// `age` of one argument counts from today.
fn is_clock(function: &ast::Function) -> bool {
    let counts_from_today = || matches!(&function.args, ast::FunctionArguments::List(list) if list.args.len() == 1);
    match function.name.0.last() {
        Some(ast::ObjectNamePart::Identifier(ident)) => {
            CLOCKS.iter().any(|clock| ident.value.eq_ignore_ascii_case(clock)) || (ident.value.eq_ignore_ascii_case("age") && counts_from_today())
        }
        Some(ast::ObjectNamePart::Function(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::{Statement, parse};

    #[test]
    fn the_age_between_two_dates_reads_no_clock() {
        for (call, reads) in
            [("age(a)", true), ("age(a, b)", false), ("age(a, now())", true), ("pg_catalog.AGE(a)", true), ("current_date", true), ("a", false)]
        {
            let statements = parse(&format!("SELECT {call} FROM t")).unwrap();
            let [Statement::Query(query)] = statements.as_slice() else { panic!("{call}") };
            assert_eq!(query.reads_clock(), reads, "{call}");
        }
    }
}
