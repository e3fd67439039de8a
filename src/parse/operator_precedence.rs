//! `~`, `~~` and similar operators bind like PostgreSQL's other operators, such as `||`: tighter
//! than comparisons, IN, LIKE and BETWEEN. The parser gives them the precedence of comparisons. It
//! gives the right precedence to operators that it does not know, so they are replaced by such
//! operators while it parses.

use std::ops::ControlFlow;

use sqlparser::ast::{BinaryOperator, Expr, Value, VisitorMut};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::desugar::ends_a_value;
use super::limits::depth::keyword;

const OPERATORS: [(Token, &str, BinaryOperator); 8] = [
    (Token::Tilde, "~", BinaryOperator::PGRegexMatch),
    (Token::TildeAsterisk, "~*", BinaryOperator::PGRegexIMatch),
    (
        Token::ExclamationMarkTilde,
        "!~",
        BinaryOperator::PGRegexNotMatch,
    ),
    (
        Token::ExclamationMarkTildeAsterisk,
        "!~*",
        BinaryOperator::PGRegexNotIMatch,
    ),
    (Token::DoubleTilde, "~~", BinaryOperator::PGLikeMatch),
    (
        Token::DoubleTildeAsterisk,
        "~~*",
        BinaryOperator::PGILikeMatch,
    ),
    (
        Token::ExclamationMarkDoubleTilde,
        "!~~",
        BinaryOperator::PGNotLikeMatch,
    ),
    (
        Token::ExclamationMarkDoubleTildeAsterisk,
        "!~~*",
        BinaryOperator::PGNotILikeMatch,
    ),
];

/// Replaces the operators by ones that the parser does not know. Before ANY and ALL they stay: the
/// parser accepts those only after operators that it knows.
pub(super) fn hide(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len())
        .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
        .collect();
    let mut hidden = Vec::new();
    for (nth, &at) in places.iter().enumerate() {
        let Some((operator, name, _)) = OPERATORS
            .iter()
            .find(|(operator, _, _)| *operator == tokens[at].token)
        else {
            continue;
        };
        let word = |place: Option<&usize>| {
            place.map_or(Keyword::NoKeyword, |&at| keyword(&tokens[at].token))
        };
        let is_before_list = matches!(
            word(places.get(nth + 1)),
            Keyword::ANY | Keyword::ALL | Keyword::SOME
        );
        let before = nth
            .checked_sub(1)
            .map_or(&Token::EOF, |nth| &tokens[places[nth]].token);
        // `~` is a prefix, too.
        if !is_before_list && (*operator != Token::Tilde || ends_a_value(before)) {
            hidden.push((at, *name));
        }
    }
    for (at, name) in hidden {
        tokens[at].token = Token::CustomBinaryOperator(name.to_owned());
    }
    tokens
}

fn named_operator(operator: &BinaryOperator) -> Option<&'static BinaryOperator> {
    let BinaryOperator::Custom(name) = operator else {
        return None;
    };
    OPERATORS
        .iter()
        .find(|(_, known, _)| known == name)
        .map(|(_, _, operator)| operator)
}

/// Restores the operator's name, in parentheses if it is an operand, so that it is read back
/// unchanged.
pub(super) fn restore_name(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp {
            op: BinaryOperator::And | BinaryOperator::Or,
            ..
        } => {}
        Expr::BinaryOp { left, op, right } => {
            [left, right]
                .into_iter()
                .for_each(|operand| bracket(operand));
            if let Some(known) = named_operator(op) {
                *op = known.clone();
            }
        }
        Expr::InList { expr, .. } | Expr::InSubquery { expr, .. } => bracket(expr),
        Expr::Between {
            expr,
            negated: _,
            low,
            high,
        } => [expr, low, high]
            .into_iter()
            .for_each(|operand| bracket(operand)),
        Expr::Like { expr, pattern, .. }
        | Expr::ILike { expr, pattern, .. }
        | Expr::SimilarTo { expr, pattern, .. } => {
            [expr, pattern]
                .into_iter()
                .for_each(|operand| bracket(operand));
        }
        _ => {}
    }
}

/// Restores all hidden operators of a tree that is read again.
pub(super) struct RestoreOperators;

impl VisitorMut for RestoreOperators {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        restore_name(expr);
        ControlFlow::Continue(())
    }
}

fn bracket(operand: &mut Expr) {
    if matches!(operand, Expr::BinaryOp { op, .. } if named_operator(op).is_some()) {
        let inner = std::mem::replace(operand, Expr::Value(Value::Null.into()));
        *operand = Expr::Nested(Box::new(inner));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, parse};

    #[test]
    fn patterns_bind_as_other_operators() {
        for (written, read) in [
            ("a ~ 'x' || 'y'", "(a ~ 'x') || 'y'"),
            ("a || b !~* 'x'", "a || b !~* 'x'"),
            ("b = a ~ 'x'", "b = (a ~ 'x')"),
            ("a ~ 'x' = b", "(a ~ 'x') = b"),
            ("a ~~ 'x' IN (b, true)", "(a ~~ 'x') IN (b, true)"),
            (
                "a ~ 'x' NOT BETWEEN b AND c ~* 'y'",
                "(a ~ 'x') NOT BETWEEN b AND (c ~* 'y')",
            ),
            ("a ~ 'x' ~ 'y' AND b !~ 'z'", "(a ~ 'x') ~ 'y' AND b !~ 'z'"),
            ("a ~ b + 1 IS NULL", "a ~ b + 1 IS NULL"),
            ("a ~ ANY (ARRAY['x'])", "a ~ ANY(ARRAY['x'])"),
            ("NOT a !~~ b", "NOT a !~~ b"),
            (
                "a BETWEEN SYMMETRIC 'a' ~ 'x' AND b",
                "(((a) BETWEEN (('a' ~ 'x')) AND (b)) OR ((a) BETWEEN (b) AND (('a' ~ 'x'))))",
            ),
            (
                "~ a + ~b, CASE WHEN a ~ 'x' THEN ~1 END ~ 'y'",
                "~a + ~b, CASE WHEN a ~ 'x' THEN ~1 END ~ 'y'",
            ),
            (
                "name ~ '1', (a)::text ~ $1 || '2'",
                "name ~ '1', ((a)::TEXT ~ $1) || '2'",
            ),
        ] {
            let statements =
                parse(&format!("SELECT {written}")).unwrap_or_else(|e| panic!("{written}: {e}"));
            let [Statement::Query(query)] = statements.as_slice() else {
                panic!("{written}")
            };
            assert_eq!(query.to_sql(), format!("SELECT {read}"), "{written}");
        }
    }
}
