//! Aggregates that are arithmetic over others: a call is written out before anything else reads it.
//! Its bounds, noise and error are those of the written-out form.

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Span;

use super::function_call::FunctionCall;
use crate::refusal::{Refusal, reason};
use crate::visit;

/// The schema that their names are in.
const SCHEMA: &str = "pgveil";

/// An aggregate, and what a call of it stands for.
struct Derived {
    name: &'static str,
    arguments: usize,
    /// SQL over the arguments `$1`, `$2`, …; each stands once, so that no text grows by more than
    /// this one's length for each call.
    stands_for: &'static str,
    /// The aggregates in it: FILTER belongs to each of them.
    over: &'static [&'static str],
}

/// All derived aggregates. To add one, add a line here, and one to docs/sql.md.
const ALL: [Derived; 1] = [Derived {
    name: "geomean",
    arguments: 1,
    stands_for: "exp(avg(ln($1)))",
    over: &["avg"],
}];

/// Writes the calls of a query out.
///
/// # Errors
/// 42883 for another number of arguments; 0A000 for DISTINCT, OVER, WITHIN GROUP and the like.
pub(super) fn write_out(query: &mut ast::Query) -> Result<(), Refusal> {
    match visit::visit_mut(query, &mut WriteOut) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

struct WriteOut;

impl ast::VisitorMut for WriteOut {
    type Break = Refusal;

    /// PostgreSQL names a column by the function that is called.
    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<Refusal> {
        for item in &mut select.projection {
            if let ast::SelectItem::UnnamedExpr(expr) = item
                && let Some((derived, place)) = naming_call(expr)
            {
                let mut alias = ast::Ident::new(derived.name);
                alias.span = place;
                *item = ast::SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias,
                };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Refusal> {
        if let ast::Expr::Function(function) = expr
            && let Some((derived, place)) = called_aggregate(function)
        {
            match written_out(derived, function, place) {
                Ok(written) => *expr = written,
                Err(refusal) => {
                    let column = u32::try_from(place.start.column).ok();
                    return ControlFlow::Break(refusal.at(column.filter(|column| *column > 0)));
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The aggregate that is called, and where its name stands.
fn called_aggregate(function: &ast::Function) -> Option<(&'static Derived, Span)> {
    let plain = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(ident) => Some((fold_case(ident), ident.span)),
        ast::ObjectNamePart::Function(_) => None,
    };
    let [schema, name] = function.name.0.as_slice() else {
        return None;
    };
    let ((schema, place), (name, _)) = (plain(schema)?, plain(name)?);
    let derived = ALL.iter().find(|derived| derived.name == name)?;
    (schema == SCHEMA).then_some((derived, place))
}

pub(super) fn fold_case(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// The call that gives a column its name, also through casts and brackets.
fn naming_call(expr: &ast::Expr) -> Option<(&'static Derived, Span)> {
    match expr {
        ast::Expr::Function(function) => called_aggregate(function),
        ast::Expr::Nested(expr) | ast::Expr::Cast { expr, .. } => naming_call(expr),
        _ => None,
    }
}

fn written_out(derived: &Derived, call: &ast::Function, place: Span) -> Result<ast::Expr, Refusal> {
    let form = || {
        Refusal::unsupported(
            reason::UNSUPPORTED_AGGREGATE,
            format!("this form of {SCHEMA}.{}()", derived.name),
        )
        .detail(format!("It stands for {}.", derived.stands_for))
    };
    let call = FunctionCall::of(call).ok_or_else(form)?;
    if !call.within_group.is_empty() || call.over.is_some() {
        return Err(form());
    }
    let arguments: Vec<ast::Expr> = call
        .expressions()
        .ok_or_else(form)?
        .into_iter()
        .cloned()
        .collect();
    if arguments.len() != derived.arguments {
        return Err(Refusal::new(
            reason::UNKNOWN_FUNCTION,
            format!(
                "function {SCHEMA}.{}() with {} arguments does not exist",
                derived.name,
                arguments.len()
            ),
        ));
    }
    let fill = Fill {
        over: derived.over,
        arguments: &arguments,
        filter: call.filter,
        place,
    };
    fill.write(derived.stands_for).ok_or_else(form)
}

fn read(sql: &str) -> Option<ast::Expr> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).ok()?;
    parser.parse_expr().ok()
}

/// Puts a call's arguments and its FILTER in. What is written has the call's place in the text.
pub(super) struct Fill<'f> {
    /// The functions that take the FILTER.
    pub over: &'f [&'f str],
    pub arguments: &'f [ast::Expr],
    pub filter: Option<&'f ast::Expr>,
    pub place: Span,
}

impl Fill<'_> {
    /// The expression of this text, whose `$1` is the first argument; `None` where it is none.
    pub(super) fn write(mut self, text: &str) -> Option<ast::Expr> {
        let mut expr = read(text)?;
        let ControlFlow::Continue(()) = visit::visit_mut(&mut expr, &mut self);
        Some(expr)
    }
}

impl ast::VisitorMut for Fill<'_> {
    type Break = std::convert::Infallible;

    /// After its operands, so that arguments are not searched.
    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Self::Break> {
        if let Some(argument) = placeholder(expr).and_then(|at| self.arguments.get(at)) {
            *expr = ast::Expr::Nested(Box::new(argument.clone()));
        } else if let ast::Expr::Function(function) = expr {
            for part in &mut function.name.0 {
                if let ast::ObjectNamePart::Identifier(ident) = part {
                    if self.over.contains(&ident.value.as_str()) {
                        function.filter = self.filter.cloned().map(Box::new);
                    }
                    ident.span = self.place;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The number of an argument, from zero.
fn placeholder(expr: &ast::Expr) -> Option<usize> {
    let ast::Expr::Value(ast::ValueWithSpan {
        value: ast::Value::Placeholder(name),
        span: _,
    }) = expr
    else {
        return None;
    };
    let number: usize = name.strip_prefix('$')?.parse().ok()?;
    number.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(sql: &str) -> Result<String, Refusal> {
        let statements = crate::parse::parse(sql)?;
        let [crate::parse::Statement::Query(query)] = statements.as_slice() else {
            panic!("{sql}");
        };
        Ok(query.to_sql())
    }

    #[test]
    fn calls_are_written_out() {
        for (sql, wanted) in [
            (
                "SELECT pgveil.geomean(x) FROM t",
                "SELECT exp(avg(ln((x)))) AS geomean FROM t",
            ),
            (
                "SELECT k, round(PgVeil.GeoMean(x + 1) FILTER (WHERE x > 2), 2) FROM t GROUP BY k",
                "SELECT k, round(exp(avg(ln((x + 1))) FILTER (WHERE x > 2)), 2) FROM t GROUP BY k",
            ),
            (
                "SELECT pgveil.geomean(x)::int AS g FROM t HAVING pgveil.geomean(y) > $1",
                "SELECT exp(avg(ln((x))))::INT AS g FROM t HAVING exp(avg(ln((y)))) > $1",
            ),
            (
                "SELECT pgveil.geomean($2)::int FROM t",
                "SELECT exp(avg(ln(($2))))::INT AS geomean FROM t",
            ),
            ("SELECT geomean(x) FROM t", "SELECT geomean(x) FROM t"),
            (
                "SELECT \"pgveil\".\"GEOMEAN\"(x) FROM t",
                "SELECT \"pgveil\".\"GEOMEAN\"(x) FROM t",
            ),
        ] {
            assert_eq!(written(sql).unwrap(), wanted, "{sql}");
        }
    }

    #[test]
    fn other_forms_are_refused_at_their_place() {
        for (sql, sqlstate) in [
            ("SELECT pgveil.geomean(DISTINCT x) FROM t", "0A000"),
            ("SELECT pgveil.geomean(x) OVER () FROM t", "0A000"),
            ("SELECT pgveil.geomean(*) FROM t", "0A000"),
            ("SELECT pgveil.geomean(x ORDER BY x) FROM t", "0A000"),
            ("SELECT pgveil.geomean() FROM t", "42883"),
            ("SELECT pgveil.geomean(x, y) FROM t", "42883"),
        ] {
            let refusal = written(sql).unwrap_err();
            assert_eq!(
                (refusal.sqlstate.as_str(), refusal.position),
                (sqlstate, Some(8)),
                "{sql}"
            );
        }
    }

    /// No text grows by more than what a call stands for, and each aggregate of it has the FILTER.
    #[test]
    fn each_argument_stands_once() {
        for derived in &ALL {
            let expr = read(derived.stands_for).unwrap();
            let mut seen = Vec::new();
            let _ = visit::visit_expressions(&expr, |e| {
                seen.extend(placeholder(e));
                ControlFlow::<()>::Continue(())
            });
            seen.sort_unstable();
            assert_eq!(seen, (0..derived.arguments).collect::<Vec<_>>());
            for name in derived.over {
                assert!(derived.stands_for.contains(&format!("{name}(")), "{name}");
            }
        }
    }
}
