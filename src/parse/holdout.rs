//! `SELECT pgveil.holdout(avg(x), 0.83) FROM t`: a question to a holdout. It is taken apart here:
//! into the query of a sum, the analyst's value, and what is shown.

use std::ops::ControlFlow;

use num_bigint::BigInt;
use sqlparser::ast::{self, Spanned};

use super::Query;
use super::derived_aggregates::{Fill, fold_case};
use super::function_call::FunctionCall;
use super::monitor::{fraction, has_other_clauses, is_constant, is_own};
use crate::refusal::{Refusal, reason};
use crate::visit;

/// A question to a holdout.
#[derive(Debug, Clone, PartialEq)]
pub struct HoldoutQuery {
    /// The name of the table as the query has it: with its schema, or without.
    pub table: Vec<String>,
    /// The analyst's value, from 0 to 1, as decimal text.
    pub value: String,
    /// The query of the sum, over all rows, of the averaged expression less the value.
    pub sum: Query,
    /// The items of SELECT, and which of them is the mean.
    items: Vec<ast::SelectItem>,
    mean: usize,
}

impl HoldoutQuery {
    /// The statement that shows a mean among the query's constants.
    pub fn statement_of(&self, mean: &str) -> String {
        let mean = format!("CAST('{mean}' AS double precision)");
        let items = self.items.iter().enumerate().map(|(at, item)| match item {
            ast::SelectItem::ExprWithAlias { expr: _, alias } if at == self.mean => {
                format!("{mean} AS {alias}")
            }
            ast::SelectItem::UnnamedExpr(_) if at == self.mean => format!("{mean} AS holdout"),
            item => item.to_string(),
        });
        format!("SELECT {}", items.collect::<Vec<_>>().join(", "))
    }
}

impl Query {
    /// Whether the query calls `pgveil.holdout`.
    pub fn asks_holdout(&self) -> bool {
        visit::visit(&*self.0, &mut Calls).is_break()
    }

    /// Whether the query asks a monitor or a holdout.
    pub fn asks_epoch(&self) -> bool {
        self.asks_monitor() || self.asks_holdout()
    }

    /// The question to a holdout, where the query is one.
    ///
    /// # Errors
    /// 0A000 where `pgveil.holdout` stands elsewhere than as an item of SELECT, of another
    /// aggregate than AVG, or over anything but all rows of one table; 22023 where the value is no
    /// constant number from 0 to 1.
    pub fn holdout(&self) -> Result<Option<HoldoutQuery>, Refusal> {
        if !self.asks_holdout() {
            return Ok(None);
        }
        let mut query = (*self.0).clone();
        let ast::SetExpr::Select(select) = &mut *query.body else {
            return Err(holdout_form());
        };
        let items = select.projection.clone();
        let calls = items.iter().enumerate();
        let calls: Vec<_> = calls
            .filter_map(|(at, item)| Some((at, call_of(item)?)))
            .collect();
        let [(mean, call)] = calls.as_slice() else {
            return Err(holdout_form());
        };
        let others = items.iter().enumerate().filter(|(at, _)| at != mean);
        if !others.map(|(_, item)| item).all(is_constant) {
            return Err(holdout_form());
        }
        let arguments = FunctionCall::of(call).filter(FunctionCall::is_plain);
        let arguments = arguments.and_then(|call| call.expressions());
        let Some([average, value]) = arguments.as_deref() else {
            return Err(holdout_form());
        };
        let averaged = argument_of_average(average).ok_or_else(holdout_form)?;
        let value = fraction(value).and_then(from_zero_to_one);
        let value = value.ok_or_else(no_value)?;
        let sum = sum_of(averaged, &value).ok_or_else(holdout_form)?;
        let table = only_table(&query).ok_or_else(holdout_form)?;
        if let ast::SetExpr::Select(select) = &mut *query.body {
            select.projection = vec![ast::SelectItem::UnnamedExpr(sum)];
        }
        let sum = super::with_room(|| Self::new(Box::new(query)))?.written_as(self);
        // The query of the sum has no further call.
        if sum.asks_holdout() || sum.asks_monitor() {
            return Err(holdout_form());
        }
        Ok(Some(HoldoutQuery {
            table,
            value,
            sum,
            mean: *mean,
            items,
        }))
    }
}

/// Stops at the first call of `pgveil.holdout`.
struct Calls;

impl ast::Visitor for Calls {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        match expr {
            ast::Expr::Function(call) if is_own(&call.name, "holdout") => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The call that an item of SELECT shows.
fn call_of(item: &ast::SelectItem) -> Option<&ast::Function> {
    fn within(expr: &ast::Expr) -> Option<&ast::Function> {
        match expr {
            ast::Expr::Nested(expr) => within(expr),
            ast::Expr::Function(call) if is_own(&call.name, "holdout") => Some(call),
            _ => None,
        }
    }
    match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, alias: _ } => {
            within(expr)
        }
        _ => None,
    }
}

/// The expression that is averaged.
fn argument_of_average(expr: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(function) = expr else {
        return None;
    };
    let names = function.name.0.iter().map(|part| match part {
        ast::ObjectNamePart::Identifier(ident) => Some(fold_case(ident)),
        ast::ObjectNamePart::Function(_) => None,
    });
    let names: Option<Vec<String>> = names.collect();
    let is_average = match names?.as_slice() {
        [name] => name == "avg",
        [schema, name] => schema == "pg_catalog" && name == "avg",
        _ => false,
    };
    let call = FunctionCall::of(function).filter(|call| is_average && call.is_plain())?;
    match call.expressions()?.as_slice() {
        [averaged] => Some(averaged),
        _ => None,
    }
}

/// The sum of the expression, clipped to 0 and 1, less the value. Rows where the expression is NULL
/// are left out of it, as AVG leaves them out; GREATEST and LEAST alone would count them.
fn sum_of(averaged: &ast::Expr, value: &str) -> Option<ast::Expr> {
    let text = format!("sum(least(greatest($1, 0), 1) - {value}) FILTER (WHERE $1 IS NOT NULL)");
    let fill = Fill {
        over: &[],
        arguments: std::slice::from_ref(averaged),
        filter: None,
        place: averaged.span(),
    };
    fill.write(&text)
}

/// The table that the query is about, where it is about all rows of one.
fn only_table(query: &ast::Query) -> Option<Vec<String>> {
    let ast::SetExpr::Select(select) = &*query.body else {
        return None;
    };
    if query.with.is_some() || select.selection.is_some() || has_other_clauses(query) {
        return None;
    }
    let [ast::TableWithJoins { relation, joins }] = select.from.as_slice() else {
        return None;
    };
    let ast::TableFactor::Table {
        name,
        alias: _,
        args: None,
        with_hints: _,
        version: None,
        with_ordinality: false,
        partitions: _,
        json_path: None,
        sample: None,
        index_hints: _,
    } = relation
    else {
        return None;
    };
    let names = name.0.iter().map(|part| match part {
        ast::ObjectNamePart::Identifier(ident) => Some(fold_case(ident)),
        ast::ObjectNamePart::Function(_) => None,
    });
    joins.is_empty().then(|| names.collect())?
}

/// A fraction from 0 to 1 as decimal text.
fn from_zero_to_one((numerator, denominator): (BigInt, BigInt)) -> Option<String> {
    if numerator < BigInt::ZERO || numerator > denominator {
        return None;
    }
    // The denominator is a power of ten.
    let digits = denominator.to_string().len() - 1;
    let text = format!("{numerator:0>width$}", width = digits + 1);
    let (whole, part) = text.split_at(text.len() - digits);
    match part.trim_end_matches('0') {
        "" => Some(whole.to_owned()),
        part => Some(format!("{whole}.{part}")),
    }
}

/// The refusal of a question in another form than that of a holdout.
pub fn holdout_form() -> Refusal {
    Refusal::unsupported(reason::HOLDOUT_FORM, "this form of pgveil.holdout()")
        .detail(
            "A holdout compares the average of an expression over all rows of its table with a \
                constant.",
        )
        .hint(
            "Write SELECT pgveil.holdout(avg(CASE WHEN predicted = label THEN 1 ELSE 0 END), 0.83) \
                FROM …, without WHERE, joins or other clauses.",
        )
}

fn no_value() -> Refusal {
    Refusal::new(
        reason::HOLDOUT_ARGUMENT,
        "the value of pgveil.holdout() must be a constant number from 0 to 1",
    )
    .hint("Write the mean over your own training data, as in pgveil.holdout(avg(x), 0.83).")
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, parse};
    use super::HoldoutQuery;

    fn holdout(sql: &str) -> Result<Option<HoldoutQuery>, String> {
        let parsed = parse(sql).unwrap();
        let [Statement::Query(query)] = parsed.as_slice() else {
            panic!("{sql}")
        };
        query
            .holdout()
            .map_err(|refusal| refusal.sqlstate.to_string())
    }

    #[test]
    fn a_question_is_taken_apart() {
        let sql = "SELECT 'a' AS kind, pgveil.HOLDOUT(avg(CASE WHEN p = l THEN 1 ELSE 0 END), \
            .830) AS m FROM lab.\"Out\" AS h";
        let taken = holdout(sql).unwrap().unwrap();
        assert_eq!(
            taken.sum.to_sql(),
            "SELECT sum(least(greatest((CASE WHEN p = l THEN 1 ELSE 0 END), 0), 1) - 0.83) FILTER \
                (WHERE (CASE WHEN p = l THEN 1 ELSE 0 END) IS NOT NULL) FROM lab.\"Out\" AS h"
        );
        assert_eq!(taken.table, ["lab", "Out"]);
        assert_eq!(taken.value, "0.83");
        let wanted = "SELECT 'a' AS kind, CAST('0.83' AS double precision) AS m";
        assert_eq!(taken.statement_of("0.83"), wanted);
        let taken = holdout("SELECT (pgveil.holdout(pg_catalog.avg(x), 1)) FROM Holdout");
        let taken = taken.unwrap().unwrap();
        assert_eq!(taken.table, ["holdout"]);
        let wanted = "SELECT CAST('0.5' AS double precision) AS holdout";
        assert_eq!(taken.statement_of("0.5"), wanted);
    }

    #[test]
    fn values_are_constants_from_zero_to_one() {
        for (text, wanted) in [
            ("0", Some("0")),
            ("1.000", Some("1")),
            ("-0", Some("0")),
            ("'0.5'::float8", Some("0.5")),
            ("1e-3", Some("0.001")),
            ("12e-2", Some("0.12")),
            ("0.1234567890123456789", Some("0.1234567890123456789")),
            ("1.0000000001", None),
            ("-0.0001", None),
            ("NULL", None),
            ("'NaN'", None),
            ("y", None),
            ("avg(y)", None),
            ("(SELECT 0.5)", None),
            ("(SELECT avg(y) FROM t)", None),
        ] {
            let found = holdout(&format!("SELECT pgveil.holdout(avg(x), {text}) FROM t"));
            let wanted = wanted.map(str::to_owned).ok_or("22023".to_owned());
            assert_eq!(found.map(|taken| taken.unwrap().value), wanted, "{text}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        assert_eq!(holdout("SELECT avg(x), holdout(1, 2) FROM t"), Ok(None));
        for sql in [
            "SELECT pgveil.holdout(avg(x), 0.5) FROM t WHERE a > 1",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM t GROUP BY a",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM t ORDER BY 1",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM t LIMIT 1",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM t HAVING count(*) > 1",
            "SELECT DISTINCT pgveil.holdout(avg(x), 0.5) FROM t",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM t, u",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM t JOIN u ON true",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM t TABLESAMPLE BERNOULLI (10)",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM (SELECT x FROM t) AS t",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM generate_series(1, 2) AS t(x)",
            "WITH t AS (SELECT 1 AS x) SELECT pgveil.holdout(avg(x), 0.5) FROM t",
            "SELECT pgveil.holdout(avg(x), 0.5), count(*) FROM t",
            "SELECT pgveil.holdout(avg(x), 0.5), pgveil.holdout(avg(y), 0.5) FROM t",
            "SELECT pgveil.holdout(avg(x), 0.5) + 1 FROM t",
            "SELECT pgveil.holdout(avg(x), 0.5)::int FROM t",
            "SELECT pgveil.holdout(avg(x) FILTER (WHERE a), 0.5) FROM t",
            "SELECT pgveil.holdout(avg(DISTINCT x), 0.5) FROM t",
            "SELECT pgveil.holdout(avg(x) + 0, 0.5) FROM t",
            "SELECT pgveil.holdout(sum(x), 0.5) FROM t",
            "SELECT pgveil.holdout(x, 0.5) FROM t",
            "SELECT pgveil.holdout(avg(x)) FROM t",
            "SELECT pgveil.holdout(avg(x), 0.5, 'a') FROM t",
            "SELECT pgveil.holdout(avg(x), 0.5) OVER () FROM t",
            "SELECT pgveil.holdout(avg(pgveil.holdout(x, 1)), 0.5) FROM t",
            "SELECT pgveil.holdout(avg(x), 0.5), pgveil.above(count(*), 1) FROM t",
            "SELECT 1 FROM (SELECT pgveil.holdout(avg(x), 0.5) FROM t) AS x",
            "SELECT pgveil.holdout(avg(x), 0.5) FROM t UNION SELECT 1",
        ] {
            assert_eq!(holdout(sql), Err("0A000".to_owned()), "{sql}");
        }
    }
}
