use super::*;
use crate::catalog::Type;
use crate::rewrite::sql::{bare, call, cast, select, text};

fn matching(count: usize, function: &str) -> ast::Query {
    let once = call(function, vec![bare("x"), text("a")]);
    select(vec![ast::SelectItem::UnnamedExpr(bare("x"))], Vec::new(), Some(ast::Expr::Tuple(vec![once; count])), Vec::new())
}

#[test]
fn what_is_dear_is_counted_wherever_it_stands() {
    let none = of(&matching(0, "regexp_replace"));
    assert_eq!(of(&matching(3, "regexp_replace")) - none, 3 * (1_500_000 + 300_000));
    assert!(of(&matching(1, "lower")) > none);
    let inside = call("lower", vec![call("translate", vec![bare("x")])]);
    let derived = select(vec![ast::SelectItem::UnnamedExpr(inside)], Vec::new(), None, Vec::new());
    let outer = select(vec![ast::SelectItem::UnnamedExpr(ast::Expr::Subquery(Box::new(derived)))], Vec::new(), None, Vec::new());
    assert!(of(&outer) >= 475_000);
}

#[test]
fn the_limit_is_where_it_says() {
    assert!(check(NANOSECONDS_MAX).is_ok());
    assert_eq!(check(NANOSECONDS_MAX + 1).unwrap_err().sqlstate, sqlstate::STATEMENT_TOO_COMPLEX);
}

#[test]
fn a_pattern_is_as_dear_as_it_unfolds_to() {
    let matched = |pattern: &str| {
        let (left, right) = (Box::new(bare("x")), Box::new(cast(text(pattern), &Type::Text)));
        let condition = ast::Expr::BinaryOp { left, op: B::PGRegexMatch, right };
        of(&select(vec![ast::SelectItem::UnnamedExpr(bare("x"))], Vec::new(), Some(condition), Vec::new()))
    };
    assert!(matched("a{100}") > matched("a{10}") + 1_500_000);
    assert!(check(matched(&"[a-z]{99}".repeat(9))).is_ok());
    assert!(check(matched(&"[a-z]{99}".repeat(11))).is_err());
}
