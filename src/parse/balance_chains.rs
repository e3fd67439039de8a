//! Balances long chains of AND, OR and UNION ALL, for which the parser makes trees as deep as the
//! chain is long. All three are associative, over NULL too, and are printed without parentheses:
//! PostgreSQL, which makes lists of them, reads the chain as it was written.

use std::ops::ControlFlow;

use crate::visit;
use sqlparser::ast::{self, BinaryOperator, Expr, SetExpr, SetOperator, SetQuantifier};

/// Chains of at most this many terms stay as the parser makes them.
const FLAT_MAX: usize = 16;

/// Brings every chain into a shape that depends only on its length, so a text gives the same tree
/// however often it is parsed.
pub fn balance(query: &mut ast::Query) {
    let ControlFlow::Continue(()) = visit::visit_mut(query, &mut ChainBalancer);
}

/// The arms of a chain of UNION ALL, in their order.
pub fn arms<'s>(left: &'s SetExpr, right: &'s SetExpr) -> Vec<&'s SetExpr> {
    let (mut arms, mut open) = (Vec::new(), vec![right, left]);
    while let Some(body) = open.pop() {
        match body {
            SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier: SetQuantifier::All,
                left,
                right,
            } => open.extend([&**right, &**left]),
            other => arms.push(other),
        }
    }
    arms
}

struct ChainBalancer;

impl ast::VisitorMut for ChainBalancer {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Self::Break> {
        let mut open = vec![&mut *query.body];
        while let Some(body) = open.pop() {
            if is_union_all(body) {
                balance_arms(body);
            }
            // Balanced arms are visited again, and already have the right shape.
            if let SetExpr::SetOperation { left, right, .. } = body {
                open.extend([&mut **left, &mut **right]);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::BinaryOp {
            left: _,
            op: op @ (BinaryOperator::And | BinaryOperator::Or),
            right: _,
        } = expr
        {
            let op = op.clone();
            balance_terms(expr, &op);
        }
        ControlFlow::Continue(())
    }
}

fn balance_terms(expr: &mut Expr, op: &BinaryOperator) {
    let none = || Expr::Value(ast::Value::Null.into());
    let (mut terms, mut open) = (Vec::new(), vec![std::mem::replace(expr, none())]);
    while let Some(term) = open.pop() {
        match term {
            Expr::BinaryOp {
                left,
                op: of,
                right,
            } if of == *op => open.extend([*right, *left]),
            other => terms.push(other),
        }
    }
    let joined = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    };
    *expr = join_terms(terms, &joined).unwrap_or_else(none);
}

fn is_union_all(body: &SetExpr) -> bool {
    matches!(
        body,
        SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier: SetQuantifier::All,
            left: _,
            right: _
        }
    )
}

fn balance_arms(body: &mut SetExpr) {
    let none = || {
        SetExpr::Values(ast::Values {
            explicit_row: false,
            value_keyword: false,
            rows: Vec::new(),
        })
    };
    let (mut arms, mut open) = (Vec::new(), vec![std::mem::replace(body, none())]);
    while let Some(arm) = open.pop() {
        match arm {
            SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier: SetQuantifier::All,
                left,
                right,
            } => open.extend([*right, *left]),
            other => arms.push(other),
        }
    }
    let all = |left, right| SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(left),
        right: Box::new(right),
    };
    *body = join_terms(arms, &all).unwrap_or_else(none);
}

/// A part of the chain has the shape of a chain of its length.
pub fn join_terms<T>(mut terms: Vec<T>, join: &impl Fn(T, T) -> T) -> Option<T> {
    if terms.len() <= FLAT_MAX {
        return terms.into_iter().reduce(join);
    }
    let right = terms.split_off(terms.len() / 2);
    join_terms(terms, join)
        .zip(join_terms(right, join))
        .map(|(left, right)| join(left, right))
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, parse};

    fn printed(sql: &str) -> String {
        match parse(sql)
            .unwrap_or_else(|refusal| panic!("{}…: {refusal}", &sql[..60]))
            .as_slice()
        {
            [Statement::Query(query)] => query.to_sql(),
            other => panic!("{other:?}"),
        }
    }

    /// Queries as business tools write them, with 5,000 and 10,000 terms: parsed, compared, copied,
    /// printed and dropped on a thread's usual stack.
    #[test]
    fn chains_of_thousands_are_read_as_they_are_written() {
        for terms in [15, 16, 17, 33, 5_000] {
            let chain = |by: &str, term: fn(usize) -> String| {
                (0..terms).map(term).collect::<Vec<_>>().join(by)
            };
            for sql in [
                format!(
                    "SELECT a FROM t WHERE {}",
                    chain(" OR ", |at| format!("a = {at}"))
                ),
                format!(
                    "SELECT a FROM t WHERE {}",
                    chain(" AND ", |at| format!("a <> {at}"))
                ),
                format!(
                    "SELECT a FROM t WHERE {}",
                    chain(" OR ", |at| format!("a BETWEEN {at} AND 7 AND NOT b"))
                ),
                format!(
                    "SELECT a FROM t JOIN u ON {}",
                    chain(" OR ", |at| format!("(a = {at} AND b = 1)"))
                ),
                format!(
                    "SELECT CASE {} ELSE 0 END FROM t",
                    chain(" ", |at| format!("WHEN a = {at} AND b THEN {at}"))
                ),
                format!(
                    "SELECT CASE a {} END FROM t",
                    chain(" ", |at| format!("WHEN {at} THEN 'it'"))
                ),
                format!(
                    "SELECT a FROM t WHERE a IN ({}) OR b",
                    chain(", ", |at| at.to_string())
                ),
                chain(" UNION ALL ", |at| format!("SELECT {at}, a FROM t")),
                format!(
                    "SELECT 1 EXCEPT {} INTERSECT SELECT 1",
                    chain(" UNION ALL ", |at| format!("SELECT {at}"))
                ),
            ] {
                assert_eq!(printed(&sql), sql);
                assert_eq!(printed(&printed(&sql)), sql);
                let all = parse(&sql).unwrap();
                assert!(all == all.clone() && !format!("{all:?}").is_empty());
            }
        }
    }

    #[test]
    fn brackets_stay_where_they_are() {
        for sql in [
            format!("SELECT a OR (b OR c){}", " OR d".repeat(40)),
            format!("SELECT (a AND b){} AND (c OR d)", " OR b AND c".repeat(40)),
            format!(
                "SELECT 1 UNION ALL (SELECT 2 UNION ALL SELECT 3){}",
                " UNION ALL SELECT 4".repeat(40)
            ),
            format!(
                "SELECT 1 UNION ALL SELECT 2 UNION SELECT 3{}",
                " UNION ALL SELECT 4".repeat(40)
            ),
        ] {
            assert_eq!(printed(&sql), sql);
        }
    }
}
