//! Casts from text to numbers, dates and similar types. A text that is not plainly such a value
//! becomes NULL; PostgreSQL's input functions would raise an error.
//!
//! Patterns match under `COLLATE "C"` and name every character. In other collations, classes of
//! digits or spaces may include characters that PostgreSQL's input functions reject.

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{Emitted, bound};
use super::sql;
use super::text::{collate, cut};
use crate::analyze::interval::{Interval, of_type};
use crate::catalog::Type;
use crate::ir::literal::{FALSE, TRUE, integer_range};
use crate::refusal::{Refusal, reason};

const INTEGER: &str = r"^[ \t\n\r\f\v]*[-+]?[0-9]{1,40}[ \t\n\r\f\v]*$";
const NUMBER: &str = concat!(
    r"^[ \t\n\r\f\v]*[-+]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})",
    r"([eE][-+]?[0-9]{1,2})?[ \t\n\r\f\v]*$"
);
/// An existing ISO date in the years 0001 to 9999 (a separate condition excludes 0000), optionally
/// with a time of day and an offset from UTC.
const INSTANT: &str = concat!(
    r"^[ \t\n\r\f\v]*([0-9]{4}-(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])",
    "|[0-9]{4}-(0[469]|11)-(0[1-9]|[12][0-9]|30)",
    "|[0-9]{4}-02-(0[1-9]|1[0-9]|2[0-8])",
    "|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)",
    r"([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?",
    r"([Zz]|[-+](0[0-9]|1[0-4])(:?[0-5][0-9])?)?)?[ \t\n\r\f\v]*$"
);
/// Characters that PostgreSQL's input functions accept as blanks.
const BLANKS: &str = " \t\n\r\u{c}\u{b}";
const UUID: &str = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$";

/// The text as a value of `to`; for a type of numbers, as a numeric that is still to be cast to it.
pub(in crate::rewrite) fn read(value: Emitted, to: &Type) -> Result<Emitted, Refusal> {
    let value = cut(value);
    match to {
        Type::Int2 | Type::Int4 | Type::Int8 => {
            let number = Type::Numeric(None);
            Ok(guard(value, INTEGER, &number, Vec::new(), to))
        }
        Type::Numeric(_) | Type::Float4 | Type::Float8 => {
            let number = Type::Numeric(None);
            Ok(guard(value, NUMBER, &number, Vec::new(), &number))
        }
        Type::Date | Type::Timestamp | Type::Timestamptz => {
            let year = sql::call(
                "left",
                vec![
                    sql::call("ltrim", vec![value.sql.clone(), sql::text_literal(BLANKS)]),
                    sql::number_literal("4"),
                ],
            );
            let exists = sql::binary(year, B::NotEq, sql::text_literal("0000"));
            Ok(guard(value, INSTANT, to, vec![exists], to))
        }
        Type::Uuid => Ok(guard(value, UUID, to, Vec::new(), to)),
        Type::Bool => {
            let word = sql::call(
                "lower",
                vec![sql::call(
                    "btrim",
                    vec![value.sql, sql::text_literal(BLANKS)],
                )],
            );
            let word = collate(word, "C");
            let one_of = |list: &[&str]| {
                let list = list.iter().map(|w| sql::text_literal(w)).collect();
                sql::nest(ast::Expr::InList {
                    expr: Box::new(word.clone()),
                    list,
                    negated: false,
                })
            };
            let known = |value: bool| sql::value(ast::Value::Boolean(value));
            let sql = sql::case(
                vec![(one_of(TRUE), known(true)), (one_of(FALSE), known(false))],
                None,
            );
            Ok(Emitted {
                nodes: value.nodes * 2 + 8,
                ..Emitted::plain(sql, Interval::ALL)
            })
        }
        Type::Text
        | Type::Varchar(_)
        | Type::Char(_)
        | Type::Interval
        | Type::Time
        | Type::Enum(_)
        | Type::Other { .. } => Err(Refusal::unsupported(
            reason::UNSUPPORTED_CAST,
            format!("a cast from text to {to:?}"),
        )),
    }
}

/// The text as `read` where it matches the pattern and meets every other condition, a number within
/// `limit`; else NULL.
fn guard(
    value: Emitted,
    pattern: &str,
    read: &Type,
    others: Vec<ast::Expr>,
    limit: &Type,
) -> Emitted {
    let text = Box::new(collate(value.sql.clone(), "C"));
    let matches = ast::Expr::Nested(Box::new(ast::Expr::BinaryOp {
        left: text,
        op: B::PGRegexMatch,
        right: Box::new(sql::text_literal(pattern)),
    }));
    let condition = others
        .into_iter()
        .fold(matches, |a, b| sql::binary(a, B::And, b));
    let plain = sql::cast(value.sql, read);
    let range = of_type(limit);
    let kept = match read {
        // A matching text is a number and not NULL, so LEAST and GREATEST can clamp it.
        Type::Numeric(_) => {
            let end = |v: f64| {
                sql::number_literal(&if v.abs() > 9.2e18 && integer_range(limit).is_some() {
                    whole(v)
                } else {
                    format!("{v:.0}")
                })
            };
            sql::call(
                "least",
                vec![
                    sql::call("greatest", vec![plain, end(range.lo)]),
                    end(range.hi),
                ],
            )
        }
        // An offset can move the value out of the first or the last year.
        Type::Timestamptz => sql::call(
            "least",
            vec![
                sql::call("greatest", vec![plain, bound(range.lo, read)]),
                bound(range.hi, read),
            ],
        ),
        _ => plain,
    };
    Emitted {
        nodes: value.nodes * 3 + 8,
        ..Emitted::plain(sql::case(vec![(condition, kept)], None), range)
    }
}

/// The ends of int8, which float8 cannot distinguish from their neighbours.
fn whole(value: f64) -> String {
    if value < 0.0 {
        i64::MIN.to_string()
    } else {
        i64::MAX.to_string()
    }
}
