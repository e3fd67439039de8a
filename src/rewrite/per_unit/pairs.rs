//! Statistics of the pairs of one group of rows, from six exact sums: PostgreSQL's own add up
//! floats, so that their last digits depend on where rows are stored.

use sqlparser::ast::{self, BinaryOperator as B};

use crate::catalog::Type;
use crate::ir::{Expr, Node, PairStatistic};
use crate::rewrite::emit::sql;

/// Decimals of a value that are kept: products of four of them, and quotients of those, then stay
/// within float8's reach.
const DECIMALS: &str = "60";
/// Decimals of a result: the least that is not zero is far above the least float8.
const RESULT_DECIMALS: &str = "250";

/// Sums over the pairs where neither value is NULL, as numerics.
pub struct PairSums {
    n: ast::Expr,
    y: ast::Expr,
    x: ast::Expr,
    yy: ast::Expr,
    xx: ast::Expr,
    yx: ast::Expr,
}

fn times(a: &ast::Expr, b: &ast::Expr) -> ast::Expr {
    sql::binary(sql::nest(a.clone()), B::Multiply, sql::nest(b.clone()))
}

fn less(a: ast::Expr, b: ast::Expr) -> ast::Expr {
    sql::nest(sql::binary(a, B::Minus, b))
}

fn above(a: &ast::Expr, least: &str) -> ast::Expr {
    sql::binary(a.clone(), B::Gt, sql::number_literal(least))
}

/// The quotient, or NULL unless the divisor is above zero.
fn ratio(a: ast::Expr, b: ast::Expr) -> ast::Expr {
    let positive = above(&b, "0");
    sql::case(vec![(positive, result(sql::binary(a, B::Divide, b)))], None)
}

fn result(value: ast::Expr) -> ast::Expr {
    sql::cast(
        sql::call("round", vec![value, sql::number_literal(RESULT_DECIMALS)]),
        &Type::Float8,
    )
}

impl PairSums {
    /// A numeric as it is added up: with few decimals.
    pub fn value(emitted: ast::Expr, expr: &Expr) -> ast::Expr {
        let has_few = match &expr.node {
            Node::Cast(inner) => match inner.data_type {
                Type::Int2 | Type::Int4 | Type::Int8 => true,
                Type::Numeric(Some((_, scale))) => scale <= 60,
                _ => false,
            },
            _ => false,
        };
        if has_few {
            emitted
        } else {
            sql::call(
                "trim_scale",
                vec![sql::call(
                    "round",
                    vec![emitted, sql::number_literal(DECIMALS)],
                )],
            )
        }
    }

    /// Sums of two such values, within numerics' working range. `placed` puts an aggregate over its
    /// window, where it has one.
    pub fn new(
        y: ast::Expr,
        x: ast::Expr,
        filter: Option<ast::Expr>,
        placed: &impl Fn(ast::Expr) -> ast::Expr,
    ) -> Self {
        let complete = [sql::is_not_null(y.clone()), sql::is_not_null(x.clone())];
        let rows = sql::all(filter.into_iter().map(sql::nest).chain(complete).collect());
        let sum = |value: ast::Expr| placed(sql::aggregate("sum", Some(value), rows.clone()));
        let n = sql::cast(
            placed(sql::aggregate("count", None, rows.clone())),
            &Type::Numeric(None),
        );
        let (yy, xx, yx) = (sum(times(&y, &y)), sum(times(&x, &x)), sum(times(&y, &x)));
        Self {
            n,
            y: sum(y),
            x: sum(x),
            yy,
            xx,
            yx,
        }
    }

    /// The statistic with PostgreSQL's type and its NULLs.
    ///
    /// # Guarantee
    /// Total, and a function of the set of pairs: sums and products of numerics are exact, and
    /// every divisor is tested at itself. With values of at most 1e30 and 60 decimals, and fewer
    /// than 1e18 rows, no result leaves (1e-250, 1e250) in magnitude.
    pub fn statistic(&self, kind: PairStatistic) -> ast::Expr {
        let Self {
            n,
            y,
            x,
            yy,
            xx,
            yx,
        } = self;
        // n times the sums of squared and multiplied distances from the means.
        let squares_y = || less(times(n, yy), times(y, y));
        let squares_x = || less(times(n, xx), times(x, x));
        let products = || less(times(n, yx), times(y, x));
        match kind {
            PairStatistic::Count => sql::cast(n.clone(), &Type::Int8),
            PairStatistic::AverageX => ratio(x.clone(), n.clone()),
            PairStatistic::AverageY => ratio(y.clone(), n.clone()),
            PairStatistic::SquaresX => ratio(squares_x(), n.clone()),
            PairStatistic::SquaresY => ratio(squares_y(), n.clone()),
            PairStatistic::Products => ratio(products(), n.clone()),
            PairStatistic::CovariancePopulation => ratio(products(), sql::nest(times(n, n))),
            PairStatistic::CovarianceSample => ratio(
                products(),
                times(n, &less(n.clone(), sql::number_literal("1"))),
            ),
            PairStatistic::Correlation => {
                // Each root is taken by itself, because the product of both squares has twice their
                // digits.
                let roots = times(
                    &sql::call("sqrt", vec![squares_y()]),
                    &sql::call("sqrt", vec![squares_x()]),
                );
                let vary = sql::binary(above(&squares_y(), "0"), B::And, above(&squares_x(), "0"));
                sql::case(
                    vec![(vary, result(sql::binary(products(), B::Divide, roots)))],
                    None,
                )
            }
            PairStatistic::Slope => ratio(products(), squares_x()),
            PairStatistic::Intercept => ratio(less(times(y, xx), times(x, yx)), squares_x()),
            PairStatistic::Determination => {
                let of_all = result(sql::binary(
                    times(&products(), &products()),
                    B::Divide,
                    times(&squares_y(), &squares_x()),
                ));
                let straight = sql::binary(squares_y(), B::Eq, sql::number_literal("0"));
                sql::case(
                    vec![(
                        above(&squares_x(), "0"),
                        sql::case(
                            vec![(straight, sql::cast(sql::number_literal("1"), &Type::Float8))],
                            Some(of_all),
                        ),
                    )],
                    None,
                )
            }
        }
    }
}
