//! Functions of text: the subject is cut to a length first, so that nothing grows without bound.
//! The range of a text is the range of its length in characters.

use std::ops::ControlFlow;

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{Emitted, internal};
use super::sql;
use crate::analyze::interval::Interval;
use crate::catalog::Type;
use crate::ir::Expr;
use crate::ir::functions::Function;
use crate::policy::Scalar;
use crate::refusal::Refusal;
use crate::resolve::TEXT_MAX;

/// Longest text that an operation on strings works on, in characters.
const LENGTH_MAX: f64 = TEXT_MAX as f64;

/// The text, cut unless it is known to be short.
pub(in crate::rewrite) fn cut(value: Emitted) -> Emitted {
    if value.range.hi <= LENGTH_MAX {
        return value;
    }
    let shorter = sql::call(
        "left",
        vec![value.sql, sql::number_literal(&LENGTH_MAX.to_string())],
    );
    Emitted {
        sql: shorter,
        range: Interval::new(0.0, LENGTH_MAX),
        tiny: false,
        nodes: value.nodes + 1,
    }
}

/// By bytes ("C"), or by the database's own letters ("default"), whatever collation a text has.
pub(in crate::rewrite) fn collate(value: ast::Expr, collation: &str) -> ast::Expr {
    sql::nest(ast::Expr::Collate {
        expr: Box::new(sql::nest(value)),
        collation: sql::name(&[collation]),
    })
}

/// Removes a "default" collation: the text is ordered and searched by its own collation.
pub(in crate::rewrite) struct Derived;

impl ast::VisitorMut for Derived {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Self::Break> {
        if let ast::Expr::Collate {
            expr: inner,
            collation,
        } = expr
            && *collation == sql::name(&["default"])
        {
            *expr = (**inner).clone();
        }
        ControlFlow::Continue(())
    }
}

pub(in crate::rewrite) fn emit_bounded(
    function: Function,
    emitted: Vec<Emitted>,
    arguments: &[Expr],
) -> Result<Emitted, Refusal> {
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 2;
    let length = |range: &Interval| range.hi.clamp(0.0, LENGTH_MAX);
    let lengths: Vec<f64> = emitted.iter().map(|e| length(&e.range)).collect();
    let mut values =
        emitted
            .into_iter()
            .zip(arguments)
            .map(|(value, argument)| match argument.data_type {
                Type::Text | Type::Varchar(_) => cut(value).sql,
                _ => value.sql,
            });
    let first = values.next().ok_or_else(internal)?;
    let rest: Vec<ast::Expr> = values.collect();
    let shown = result_range(function, &lengths, arguments);
    if function == Function::Concatenate {
        let second = rest.into_iter().next().ok_or_else(internal)?;
        return Ok(Emitted {
            nodes,
            ..Emitted::plain(
                sql::binary(sql::nest(first), B::StringConcat, sql::nest(second)),
                shown,
            )
        });
    }
    if matches!(function, Function::Overlay | Function::OverlayFor) {
        let mut rest = rest.into_iter().map(Box::new);
        let (Some(overlay_what), Some(overlay_from)) = (rest.next(), rest.next()) else {
            return Err(internal());
        };
        let overlay = ast::Expr::Overlay {
            expr: Box::new(first),
            overlay_what,
            overlay_from,
            overlay_for: rest.next(),
        };
        return Ok(Emitted {
            nodes,
            ..Emitted::plain(ast::Expr::Nested(Box::new(overlay)), shown)
        });
    }
    let (name, collation) = postgres_name(function)?;
    let subject = match collation {
        Some(collation) => collate(first, collation),
        None => first,
    };
    Ok(Emitted {
        nodes,
        ..Emitted::plain(sql::call(name, [vec![subject], rest].concat()), shown)
    })
}

/// PostgreSQL's name of the function, and the collation its subject must be searched under.
fn postgres_name(function: Function) -> Result<(&'static str, Option<&'static str>), Refusal> {
    use Function as F;
    Ok(match function {
        F::Lower => ("lower", None),
        F::Upper => ("upper", None),
        F::Initcap => ("initcap", None),
        F::Length => ("length", None),
        F::OctetLength => ("octet_length", None),
        F::BitLength => ("bit_length", None),
        F::Trim => ("btrim", None),
        F::TrimLeft => ("ltrim", None),
        F::TrimRight => ("rtrim", None),
        F::Left => ("left", None),
        F::Right => ("right", None),
        F::Substring | F::SubstringFor => ("substr", None),
        F::SubstringMatching => ("substring", Some("default")),
        F::SubstringWhole => ("regexp_substr", Some("default")),
        F::CountMatching => ("regexp_count", Some("default")),
        F::ReplaceMatching => ("regexp_replace", Some("default")),
        F::Position => ("strpos", Some("C")),
        F::StartsWith => ("starts_with", Some("C")),
        F::Replace => ("replace", Some("default")),
        F::Translate => ("translate", None),
        F::SplitPart => ("split_part", Some("default")),
        F::PadLeft => ("lpad", None),
        F::PadRight => ("rpad", None),
        F::Repeat => ("repeat", None),
        F::Reverse => ("reverse", None),
        F::Md5 => ("md5", None),
        F::Ascii => ("ascii", None),
        F::Formatted => ("to_char", None),
        _ => return Err(internal()),
    })
}

/// Range of the result: of a number its values, of a text its length.
fn result_range(function: Function, lengths: &[f64], arguments: &[Expr]) -> Interval {
    use Function as F;
    let subject = lengths.first().copied().unwrap_or(LENGTH_MAX);
    let constant = |at: usize| match arguments.get(at).and_then(Expr::as_literal) {
        Some(Scalar::Int(value)) => *value as f64,
        Some(Scalar::Text(text)) => text.chars().count() as f64,
        _ => LENGTH_MAX,
    };
    let most = match function {
        F::Length | F::Position | F::CountMatching => subject + 1.0,
        F::BitLength => subject * 32.0,
        F::OctetLength => subject * 4.0,
        F::Ascii => 1_114_111.0,
        F::Lower | F::Upper | F::Initcap => subject * 3.0,
        F::Concatenate | F::Overlay | F::OverlayFor => {
            subject + lengths.get(1).copied().unwrap_or(LENGTH_MAX)
        }
        F::Replace => subject * constant(2).max(1.0),
        F::ReplaceMatching => (subject + 1.0) * (constant(2) + 1.0),
        F::PadLeft | F::PadRight => constant(1).max(0.0),
        F::Repeat => subject * constant(1).max(0.0),
        F::Left if constant(1) >= 0.0 => subject.min(constant(1)),
        F::Right if constant(1) >= 0.0 => subject.min(constant(1)),
        F::SubstringFor => subject.min(constant(2)),
        F::Md5 => 32.0,
        F::Formatted => 2000.0,
        _ => subject,
    };
    Interval::new(0.0, most)
}

/// `concat` and `concat_ws`, every part cut.
pub(in crate::rewrite) fn concatenate(function: Function, emitted: Vec<Emitted>) -> Emitted {
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + emitted.len();
    let parts: Vec<Emitted> = emitted.into_iter().map(cut).collect();
    let separators = if function == Function::ConcatSeparated {
        parts[0].range.hi * parts.len() as f64
    } else {
        0.0
    };
    let most = parts.iter().map(|p| p.range.hi).sum::<f64>() + separators;
    let name = if function == Function::Concat {
        "concat"
    } else {
        "concat_ws"
    };
    Emitted {
        nodes,
        ..Emitted::plain(
            sql::call(name, parts.into_iter().map(|p| p.sql).collect()),
            Interval::new(0.0, most),
        )
    }
}

/// A match with a constant pattern.
pub(in crate::rewrite) fn emit_match(
    function: Function,
    subject: Emitted,
    pattern: ast::Expr,
) -> Result<Emitted, Refusal> {
    use Function as F;
    let subject = cut(subject);
    let nodes = subject.nodes + 3;
    let expr = Box::new(collate(
        subject.sql,
        if function == F::Like { "C" } else { "default" },
    ));
    let pattern = Box::new(pattern);
    let (negated, any, escape_char) = (false, false, None);
    let test = match function {
        F::Like => ast::Expr::Like {
            negated,
            any,
            expr,
            pattern,
            escape_char,
        },
        F::ILike => ast::Expr::ILike {
            negated,
            any,
            expr,
            pattern,
            escape_char,
        },
        F::SimilarTo => ast::Expr::SimilarTo {
            negated,
            expr,
            pattern,
            escape_char,
        },
        F::Matches => ast::Expr::BinaryOp {
            left: expr,
            op: B::PGRegexMatch,
            right: pattern,
        },
        F::MatchesInsensitive => ast::Expr::BinaryOp {
            left: expr,
            op: B::PGRegexIMatch,
            right: pattern,
        },
        _ => return Err(internal()),
    };
    Ok(Emitted {
        nodes,
        ..Emitted::plain(ast::Expr::Nested(Box::new(test)), Interval::ALL)
    })
}
