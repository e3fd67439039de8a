//! Aggregates from their measures, in PostgreSQL's own arithmetic and types. Post-processing:
//! whatever the noise made of a measure, there is a value or NULL, never an error.

use sqlparser::ast::{self, BinaryOperator as B};

use crate::analyze::interval::Interval;
use crate::analyze::{Dispersion, Joint};
use crate::catalog::Type;
use crate::ir::{Moment, Quantifier, VarianceKind};
use crate::release::NoiseRecord;
use crate::rewrite::emit::sql;
use crate::rewrite::{Centred, Degree, Output, ReleasePlan, measure_deviation};

/// Standard deviations of its noise that a count may show though nothing is there.
const DOUBT: f64 = 2.0;

/// Aggregate number `at` over one row of measures, `r`. `drawn`: their noise, which is another than
/// the plan's where the answer was stored.
pub fn value(
    release: &ReleasePlan,
    drawn: Option<&NoiseRecord>,
    at: usize,
    (output, data_type): &(Output, Type),
) -> ast::Expr {
    let exact = match output {
        Output::Measure(at) => measure(*at),
        Output::Average { sum, count, range } => average(measure(*sum), measure(*count), *range),
        Output::Dispersion {
            count,
            sum,
            squares,
            range,
            kind,
        } => dispersion(
            measure(*count),
            Centred {
                sum: *sum,
                squares: *squares,
                range: *range,
            },
            *kind,
        ),
        Output::Joint {
            count,
            y,
            x,
            products,
            kind,
        } => joint(measure(*count), *y, *x, measure(*products), *kind),
        Output::Truth { count, of } => truth(release, drawn, *count, *of),
        Output::OfNoRow(value) => value
            .as_ref()
            .map_or_else(sql::null, |value| sql::text(&sql::scalar_text(value))),
        Output::Choice {
            choice,
            draws,
            is_array,
        } => chosen_value(release, *choice, draws, *is_array),
        Output::Distinct {
            choice,
            range,
            moment,
        } => unlike(first_column(release, *choice), *range, *moment),
    };
    // What the noise of little epsilon adds to a sum may be past its type.
    let is_sum = matches!(
        output,
        Output::Measure(_)
            | Output::Distinct {
                moment: Moment::Sum,
                ..
            }
    );
    let exact = match ends(data_type) {
        Some((lo, hi)) if is_sum => within(exact, lo, hi),
        Some(_) | None => exact,
    };
    let exact = if output.needs_rows() {
        when(sql::column("r", &enough_column(at)), exact)
    } else {
        exact
    };
    sql::cast(exact, data_type)
}

/// Names the column that says whether aggregate number `at` has rows enough.
pub fn enough_column(at: usize) -> String {
    format!("e{at}")
}

/// Whether no row (All) or some row (Any) seems to be counted.
fn truth(
    release: &ReleasePlan,
    drawn: Option<&NoiseRecord>,
    count: usize,
    of: Quantifier,
) -> ast::Expr {
    let counted = &release.measures()[count];
    let deviation = drawn
        .map(|drawn| drawn.deviation(counted))
        .or_else(|| measure_deviation(release, counted))
        .unwrap_or(0.0);
    let comparison = match of {
        Quantifier::All => B::LtEq,
        Quantifier::Any => B::Gt,
    };
    sql::binary(
        measure(count),
        comparison,
        number((DOUBT * deviation).ceil()),
    )
}

/// The least and the greatest value of a type that sums have, if there are such.
fn ends(data_type: &Type) -> Option<(ast::Expr, ast::Expr)> {
    match data_type {
        Type::Int8 => Some((
            sql::number(&i64::MIN.to_string()),
            sql::number(&i64::MAX.to_string()),
        )),
        // Printed in the whole, so read as numeric, and rounded to the same float.
        Type::Float4 => Some((number(-f64::from(f32::MAX)), number(f64::from(f32::MAX)))),
        Type::Float8 => Some((number(-f64::MAX), number(f64::MAX))),
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Numeric(_)
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(_)
        | Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Interval
        | Type::Time
        | Type::Enum(_)
        | Type::Other { .. } => None,
    }
}

/// The mean, within its range; NULL where nothing seems to be there.
fn average(sum: ast::Expr, count: ast::Expr, range: Interval) -> ast::Expr {
    let ratio = sql::binary(sum, B::Divide, count.clone());
    when(
        above(count, "0"),
        within(ratio, number(range.lo), number(range.hi)),
    )
}

/// Sums, means and spreads of distinct values, whose columns start at `first`.
fn unlike(first: usize, range: Interval, moment: Moment) -> ast::Expr {
    match moment {
        Moment::Sum => measure(first + Degree::SUM),
        Moment::Mean => average(measure(first + Degree::SUM), measure(first), range),
        Moment::Spread(kind) => {
            let value = Centred {
                sum: first + Degree::CENTRED,
                squares: first + Degree::SQUARES,
                range,
            };
            dispersion(measure(first), value, Dispersion::Spread(kind))
        }
    }
}

/// A choice's columns follow the measures and those of earlier choices.
fn first_column(release: &ReleasePlan, choice: usize) -> usize {
    release.measures().len()
        + release.choices()[..choice]
            .iter()
            .map(|p| p.question.width())
            .sum::<usize>()
}

fn chosen_value(
    release: &ReleasePlan,
    choice: usize,
    draws: &[usize],
    is_array: bool,
) -> ast::Expr {
    let first = first_column(release, choice);
    match draws {
        [] => measure(first),
        [draw] if !is_array => measure(first + draw),
        draws => ast::Expr::Array(ast::Array {
            elem: draws.iter().map(|draw| measure(first + draw)).collect(),
            named: true,
        }),
    }
}

fn measure(at: usize) -> ast::Expr {
    sql::column("r", &format!("m{at}"))
}

fn number(value: f64) -> ast::Expr {
    sql::number(&value.to_string())
}

fn within(value: ast::Expr, lo: ast::Expr, hi: ast::Expr) -> ast::Expr {
    sql::call("least", vec![sql::call("greatest", vec![value, lo]), hi])
}

fn middle(range: Interval) -> f64 {
    range.lo + (range.hi - range.lo) / 2.0
}

fn half(range: Interval) -> f64 {
    (range.hi - range.lo) / 2.0
}

/// Divides; NULL by zero.
fn ratio(a: ast::Expr, b: ast::Expr) -> ast::Expr {
    sql::binary(a, B::Divide, sql::call("nullif", vec![b, sql::number("0")]))
}

fn when(condition: ast::Expr, value: ast::Expr) -> ast::Expr {
    sql::case(vec![(condition, value)], None)
}

fn above(value: ast::Expr, limit: &str) -> ast::Expr {
    sql::binary(value, B::Gt, sql::number(limit))
}

/// The largest sum of these rows with at most this value each; in numeric, for which no product is
/// too large.
fn most(count: &ast::Expr, each: f64) -> ast::Expr {
    sql::binary(
        sql::cast(count.clone(), &Type::Numeric(None)),
        B::Multiply,
        number(each),
    )
}

/// Sum of squared distances from the mean, `sum of squares - sum^2 / n`, within what n values of
/// the range can have.
fn squares(count: &ast::Expr, value: Centred) -> ast::Expr {
    let own = sql::binary(measure(value.sum), B::Multiply, measure(value.sum));
    let about_mean = sql::binary(measure(value.squares), B::Minus, ratio(own, count.clone()));
    let most = most(count, half(value.range).powi(2));
    within(about_mean, sql::number("0"), most)
}

/// NULL where PostgreSQL has NULL: for no row, and of a sample for one.
fn dispersion(count: ast::Expr, value: Centred, kind: Dispersion) -> ast::Expr {
    let squares = squares(&count, value);
    let population = || {
        when(
            above(count.clone(), "0"),
            ratio(squares.clone(), count.clone()),
        )
    };
    let sample = || {
        when(
            above(count.clone(), "1"),
            ratio(squares.clone(), less_one(&count)),
        )
    };
    match kind {
        Dispersion::Squares => when(above(count.clone(), "0"), squares.clone()),
        Dispersion::Spread(VarianceKind::VariancePopulation) => population(),
        Dispersion::Spread(VarianceKind::VarianceSample) => sample(),
        Dispersion::Spread(VarianceKind::DeviationPopulation) => {
            sql::call("sqrt", vec![population()])
        }
        Dispersion::Spread(VarianceKind::DeviationSample) => sql::call("sqrt", vec![sample()]),
    }
}

fn less_one(count: &ast::Expr) -> ast::Expr {
    sql::binary(count.clone(), B::Minus, sql::number("1"))
}

/// Plug-in estimates. Where the noise leaves no spread of x, NULL, as PostgreSQL has where there is
/// none.
fn joint(count: ast::Expr, y: Centred, x: Centred, products: ast::Expr, kind: Joint) -> ast::Expr {
    let own = sql::binary(measure(y.sum), B::Multiply, measure(x.sum));
    let about_means = sql::binary(products, B::Minus, ratio(own, count.clone()));
    let most = || most(&count, half(y.range) * half(x.range));
    let least = sql::binary(sql::number("0"), B::Minus, most());
    let products = within(about_means, least, most());
    let (y_squares, x_squares) = (squares(&count, y), squares(&count, x));
    let slope = ratio(products.clone(), x_squares.clone());
    let some = above(count.clone(), "0");
    match kind {
        Joint::CovariancePopulation => when(some, ratio(products, count)),
        Joint::CovarianceSample => {
            when(above(count.clone(), "1"), ratio(products, less_one(&count)))
        }
        Joint::Products => when(some, products),
        Joint::Correlation => {
            let spread = sql::call("sqrt", vec![sql::binary(y_squares, B::Multiply, x_squares)]);
            when(some, bounded(ratio(products, spread), -1.0, 1.0))
        }
        Joint::Slope => when(some, slope),
        Joint::Intercept => {
            let x_mean = sql::binary(
                ratio(measure(x.sum), count.clone()),
                B::Plus,
                number(middle(x.range)),
            );
            let y_mean = sql::binary(
                ratio(measure(y.sum), count),
                B::Plus,
                number(middle(y.range)),
            );
            when(
                some,
                sql::binary(y_mean, B::Minus, sql::binary(slope, B::Multiply, x_mean)),
            )
        }
        Joint::Determination => {
            let squared = sql::binary(products.clone(), B::Multiply, products);
            let explained = bounded(
                ratio(
                    squared,
                    sql::binary(x_squares.clone(), B::Multiply, y_squares.clone()),
                ),
                0.0,
                1.0,
            );
            let flat = sql::binary(y_squares, B::Eq, sql::number("0"));
            let otherwise = sql::case(vec![(flat, sql::number("1"))], Some(explained));
            when(above(x_squares, "0"), otherwise)
        }
    }
}

/// Between constants; NULL stays NULL, which LEAST and GREATEST would lose.
fn bounded(value: ast::Expr, lo: f64, hi: f64) -> ast::Expr {
    let below = sql::binary(value.clone(), B::Lt, number(lo));
    let over = sql::binary(value.clone(), B::Gt, number(hi));
    sql::case(vec![(below, number(lo)), (over, number(hi))], Some(value))
}
