//! `SELECT pgveil.above(count(*), 1000) FROM …`: a question to a monitor. It is taken apart here:
//! into the query of the sum, the threshold, and what is shown.

use std::ops::ControlFlow;

use num_bigint::BigInt;
use sqlparser::ast;

use super::Query;
use super::function_call::FunctionCall;
use crate::refusal::{Refusal, reason};
use crate::visit;

/// The longest name of a monitor, in bytes, as PostgreSQL has for names.
const NAME_BYTES_MAX: usize = 63;

/// The largest power of ten in a threshold, either way.
const EXPONENT_MAX: i32 = 300;

/// A question to a monitor.
#[derive(Debug, Clone, PartialEq)]
pub struct MonitorQuery {
    /// The monitor's name; empty where the query has none.
    pub name: String,
    /// The threshold, as numerator and positive denominator.
    pub threshold: (BigInt, BigInt),
    /// The query of the sum alone.
    pub sum: Query,
    /// The items of SELECT, and which of them is the verdict.
    items: Vec<ast::SelectItem>,
    verdict: usize,
}

impl MonitorQuery {
    /// The statement that shows the verdict among the query's constants.
    pub fn statement_of(&self, is_above: bool) -> String {
        let items = self.items.iter().enumerate().map(|(at, item)| match item {
            ast::SelectItem::ExprWithAlias { expr, alias } if at == self.verdict => {
                format!("{} AS {alias}", write_verdict(expr, is_above))
            }
            ast::SelectItem::UnnamedExpr(expr) if at == self.verdict => {
                format!("{} AS above", write_verdict(expr, is_above))
            }
            item => item.to_string(),
        });
        format!("SELECT {}", items.collect::<Vec<_>>().join(", "))
    }
}

impl Query {
    /// Whether the query calls `pgveil.above`.
    pub fn asks_monitor(&self) -> bool {
        visit::visit(&*self.0, &mut Calls).is_break()
    }

    /// The question to a monitor, where the query is one.
    ///
    /// # Errors
    /// 0A000 where `pgveil.above` stands elsewhere than as an item of SELECT, or with clauses that
    /// a monitor does not have; 22023 for a threshold that is no constant number, or a name that is
    /// too long.
    pub fn monitor(&self) -> Result<Option<MonitorQuery>, Refusal> {
        if !self.asks_monitor() {
            return Ok(None);
        }
        let mut query = (*self.0).clone();
        let ast::SetExpr::Select(select) = &mut *query.body else {
            return Err(form());
        };
        let items = select.projection.clone();
        let of_item = |item: &ast::SelectItem| match item {
            ast::SelectItem::UnnamedExpr(expr)
            | ast::SelectItem::ExprWithAlias { expr, alias: _ } => call_in(expr).cloned(),
            _ => None,
        };
        let calls = items.iter().enumerate();
        let calls: Vec<_> = calls
            .filter_map(|(at, item)| Some((at, of_item(item)?)))
            .collect();
        let [(verdict, call)] = calls.as_slice() else {
            return Err(form());
        };
        let others = items.iter().enumerate().filter(|(at, _)| at != verdict);
        if !others.map(|(_, item)| item).all(is_constant) {
            return Err(form());
        }
        let arguments = FunctionCall::of(call).filter(FunctionCall::is_plain);
        let arguments = arguments.and_then(|call| call.expressions());
        let (sum, threshold, name) = match arguments.as_deref() {
            Some([sum, threshold]) => (*sum, *threshold, None),
            Some([sum, threshold, name]) => (*sum, *threshold, Some(*name)),
            _ => return Err(form()),
        };
        if !matches!(sum, ast::Expr::Function(_)) {
            return Err(form());
        }
        let (sum, threshold) = (sum.clone(), fraction(threshold).ok_or_else(no_number)?);
        let name = name.map_or(Some(String::new()), text_of);
        let name = name.filter(|name| name.len() <= NAME_BYTES_MAX);
        let name = name.ok_or_else(no_name)?;
        select.projection = vec![ast::SelectItem::UnnamedExpr(sum)];
        if has_other_clauses(&query) {
            return Err(form());
        }
        let sum = super::with_room(|| Self::new(Box::new(query)))?.written_as(self);
        // The query of the sum has no further call.
        if sum.asks_monitor() {
            return Err(form());
        }
        Ok(Some(MonitorQuery {
            name,
            threshold,
            sum,
            items,
            verdict: *verdict,
        }))
    }
}

/// Stops at the first call of `pgveil.above`.
struct Calls;

impl ast::Visitor for Calls {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        match expr {
            ast::Expr::Function(function) if is_above(&function.name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn is_above(name: &ast::ObjectName) -> bool {
    is_own(name, "above")
}

/// Whether a name is that of pgveil's own `function`.
pub(super) fn is_own(name: &ast::ObjectName, function: &str) -> bool {
    let is = |part: &ast::ObjectNamePart, wanted: &str| match part {
        ast::ObjectNamePart::Identifier(ident) => match ident.quote_style {
            Some(_) => ident.value == wanted,
            None => ident.value.eq_ignore_ascii_case(wanted),
        },
        ast::ObjectNamePart::Function(_) => false,
    };
    matches!(name.0.as_slice(), [schema, name] if is(schema, "pgveil") && is(name, function))
}

/// The call that an item of SELECT shows, also as a number or a text.
fn call_in(expr: &ast::Expr) -> Option<&ast::Function> {
    match expr {
        ast::Expr::Nested(expr) => call_in(expr),
        ast::Expr::Cast {
            kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
            expr,
            data_type,
            format: None,
        } if takes_verdicts(data_type) => bare_call(expr),
        bare => bare_call(bare),
    }
}

/// The call without a cast: PostgreSQL cannot cast every text or number of a verdict further.
fn bare_call(expr: &ast::Expr) -> Option<&ast::Function> {
    match expr {
        ast::Expr::Function(function) if is_above(&function.name) => Some(function),
        ast::Expr::Nested(expr) => bare_call(expr),
        _ => None,
    }
}

/// Whether PostgreSQL casts a boolean to the type.
fn takes_verdicts(data_type: &ast::DataType) -> bool {
    matches!(
        data_type,
        ast::DataType::Int(None)
            | ast::DataType::Integer(None)
            | ast::DataType::Int4(None)
            | ast::DataType::Text
            | ast::DataType::Bool
            | ast::DataType::Boolean
    )
}

/// The item's expression with the verdict in place of the call.
fn write_verdict(expr: &ast::Expr, is_above: bool) -> String {
    match expr {
        ast::Expr::Nested(expr) => write_verdict(expr, is_above),
        ast::Expr::Cast {
            kind: _,
            expr,
            data_type,
            format: None,
        } => format!("CAST({} AS {data_type})", write_verdict(expr, is_above)),
        _ => is_above.to_string(),
    }
}

pub(super) fn is_constant(item: &ast::SelectItem) -> bool {
    match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, alias: _ } => {
            matches!(expr, ast::Expr::Value(_))
        }
        _ => false,
    }
}

/// Whether the query groups, sorts or limits its rows, or the like.
pub(super) fn has_other_clauses(query: &ast::Query) -> bool {
    let ast::SetExpr::Select(select) = &*query.body else {
        return true;
    };
    let is_grouped = match &select.group_by {
        ast::GroupByExpr::All(_) => true,
        ast::GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
    };
    is_grouped
        || select.having.is_some()
        || select.distinct.is_some()
        || !select.named_window.is_empty()
        || query.order_by.is_some()
        || query.limit_clause.is_some()
        || query.fetch.is_some()
        || !query.locks.is_empty()
}

/// A constant number as a fraction.
pub(super) fn fraction(expr: &ast::Expr) -> Option<(BigInt, BigInt)> {
    match expr {
        ast::Expr::Nested(expr) => fraction(expr),
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } => fraction(expr).map(|(numerator, denominator)| (-numerator, denominator)),
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Plus,
            expr,
        } => fraction(expr),
        ast::Expr::Cast {
            kind: _,
            expr,
            data_type,
            format: None,
        } => {
            let (numerator, denominator) = fraction(expr)?;
            let is_whole = |bits: u32| {
                let most = BigInt::from(1) << (bits - 1);
                let value = &numerator / &denominator;
                (&numerator % &denominator) == BigInt::ZERO && value < most && value >= -most
            };
            let fits = match data_type {
                ast::DataType::SmallInt(None) | ast::DataType::Int2(None) => is_whole(16),
                ast::DataType::Int(None)
                | ast::DataType::Integer(None)
                | ast::DataType::Int4(None) => is_whole(32),
                ast::DataType::BigInt(None) | ast::DataType::Int8(None) => is_whole(64),
                ast::DataType::Numeric(ast::ExactNumberInfo::None)
                | ast::DataType::Decimal(ast::ExactNumberInfo::None)
                | ast::DataType::Real
                | ast::DataType::Float4
                | ast::DataType::Float8
                | ast::DataType::Double(ast::ExactNumberInfo::None)
                | ast::DataType::DoublePrecision => true,
                _ => false,
            };
            fits.then_some((numerator, denominator))
        }
        ast::Expr::Value(ast::ValueWithSpan { value, span: _ }) => match value {
            ast::Value::Number(text, false) => decimal(text),
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                decimal(text.trim())
            }
            _ => None,
        },
        _ => None,
    }
}

/// `-12.5e3` as a fraction.
fn decimal(text: &str) -> Option<(BigInt, BigInt)> {
    let (text, exponent) = match text.split_once(['e', 'E']) {
        Some((text, exponent)) => (text, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{part}");
    let is_number = !all.is_empty() && all.len() <= 400 && all.bytes().all(|b| b.is_ascii_digit());
    let numerator: BigInt = is_number.then(|| all.parse().ok())??;
    let power = exponent.checked_sub(i32::try_from(part.len()).ok()?)?;
    if power.abs() > EXPONENT_MAX {
        return None;
    }
    let ten = BigInt::from(10).pow(power.unsigned_abs());
    Some(match power < 0 {
        true => (numerator * sign, ten),
        false => (numerator * ten * sign, BigInt::from(1)),
    })
}

fn text_of(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Nested(expr) => text_of(expr),
        ast::Expr::Cast {
            kind: _,
            expr,
            data_type: ast::DataType::Text | ast::DataType::Varchar(None),
            format: None,
        } => text_of(expr),
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text),
            span: _,
        }) => Some(text.clone()),
        _ => None,
    }
}

fn form() -> Refusal {
    Refusal::unsupported(reason::MONITOR_FORM, "this form of pgveil.above()")
        .detail(
            "A monitor answers one question: whether one COUNT or SUM of private rows is at least \
                a constant.",
        )
        .hint("Write SELECT pgveil.above(count(*), 1000) FROM … WHERE …, without other clauses.")
}

fn no_number() -> Refusal {
    Refusal::new(
        reason::MONITOR_ARGUMENT,
        "the threshold of pgveil.above() must be a constant number",
    )
    .hint("Write a number, as in pgveil.above(count(*), 1000).")
}

fn no_name() -> Refusal {
    Refusal::new(
        reason::MONITOR_ARGUMENT,
        format!(
            "the name of a monitor must be a constant of at most {NAME_BYTES_MAX} bytes of text"
        ),
    )
    .hint("Write a short name, as in pgveil.above(count(*), 1000, 'fraud').")
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;

    use super::super::{Statement, parse};
    use super::MonitorQuery;

    fn monitor(sql: &str) -> Result<Option<MonitorQuery>, String> {
        let parsed = parse(sql).unwrap();
        let [Statement::Query(query)] = parsed.as_slice() else {
            panic!("{sql}")
        };
        query
            .monitor()
            .map_err(|refusal| refusal.sqlstate.to_string())
    }

    #[test]
    fn a_question_is_taken_apart() {
        let taken = monitor("SELECT pgveil.above(count(*), 1e3, 'x') FROM t WHERE a > 1");
        let taken = taken.unwrap().unwrap();
        assert_eq!(taken.sum.to_sql(), "SELECT count(*) FROM t WHERE a > 1");
        assert_eq!(taken.threshold, (BigInt::from(1000), BigInt::from(1)));
        assert_eq!(taken.name, "x");
        assert_eq!(taken.statement_of(true), "SELECT true AS above");
        let sql = "SELECT 'a' AS kind, PGVEIL.Above(sum(b) FILTER (WHERE c), -2.50) AS is_high \
            FROM t";
        let taken = monitor(sql).unwrap().unwrap();
        assert_eq!(taken.sum.to_sql(), "SELECT sum(b) FILTER (WHERE c) FROM t");
        assert_eq!(taken.threshold, (BigInt::from(-250), BigInt::from(100)));
        assert_eq!(taken.name, "");
        assert_eq!(
            taken.statement_of(false),
            "SELECT 'a' AS kind, false AS is_high"
        );
        let sql = "SELECT ((pgveil.above(count(*), 1))::int) AS value FROM t";
        let taken = monitor(sql).unwrap().unwrap();
        let wanted = "SELECT CAST(true AS INT) AS value";
        assert_eq!(taken.statement_of(true), wanted);
        let sql = "SELECT pgveil.above(count(*), 1)::bool FROM t";
        let taken = monitor(sql).unwrap().unwrap();
        let wanted = "SELECT CAST(false AS BOOL) AS above";
        assert_eq!(taken.statement_of(false), wanted);
        for casts in ["::bigint", "::text::int", "::int::bool"] {
            let sql = format!("SELECT pgveil.above(count(*), 1){casts} FROM t");
            assert!(monitor(&sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn thresholds_are_constants() {
        for (text, wanted) in [
            ("'7'::bigint", Some((7, 1))),
            ("CAST(E'7.5' AS numeric)", Some((75, 10))),
            ("(+ 7)", Some((7, 1))),
            ("7.5::int", None),
            ("70000::int2", None),
            ("1.5::real", Some((15, 10))),
            ("NULL", None),
            ("a", None),
            ("1 + 1", None),
            ("(SELECT 1)", None),
            ("'1e999'", None),
            ("'NaN'", None),
            ("'infinity'::float8", None),
        ] {
            let sql = format!("SELECT pgveil.above(count(*), {text}) FROM t");
            let found = monitor(&sql).map(|taken| taken.unwrap().threshold);
            let wanted = wanted.map(|(n, d)| (BigInt::from(n), BigInt::from(d)));
            assert_eq!(found.ok(), wanted, "{text}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        assert_eq!(monitor("SELECT count(*), above(1, 2) FROM t"), Ok(None));
        for sql in [
            "SELECT pgveil.above(count(*), 1) FROM t GROUP BY a",
            "SELECT pgveil.above(count(*), 1) FROM t ORDER BY 1",
            "SELECT pgveil.above(count(*), 1) FROM t LIMIT 1",
            "SELECT pgveil.above(count(*), 1) FROM t HAVING count(*) > 1",
            "SELECT DISTINCT pgveil.above(count(*), 1) FROM t",
            "SELECT pgveil.above(count(*), 1), count(*) FROM t",
            "SELECT pgveil.above(count(*), 1), pgveil.above(count(*), 2) FROM t",
            "SELECT NOT pgveil.above(count(*), 1) FROM t",
            "SELECT pgveil.above(count(*) + 1, 1) FROM t",
            "SELECT pgveil.above(count(*), 1) FILTER (WHERE true) FROM t",
            "SELECT pgveil.above(count(*), 1) OVER () FROM t",
            "SELECT pgveil.above(DISTINCT count(*), 1) FROM t",
            "SELECT pgveil.above(count(*)) FROM t",
            "SELECT 1 FROM (SELECT pgveil.above(count(*), 1) FROM t) AS x",
            "SELECT pgveil.above(count(*), 1) FROM t WHERE pgveil.above(a, 1)",
            "SELECT pgveil.above(count(*), 1) FROM t UNION SELECT true",
            "WITH x AS (SELECT pgveil.above(count(*), 1) FROM t) SELECT * FROM x",
        ] {
            assert_eq!(monitor(sql), Err("0A000".to_owned()), "{sql}");
        }
        let long = "x".repeat(64);
        for name in ["1", "NULL", "a", &format!("'{long}'")] {
            let sql = format!("SELECT pgveil.above(count(*), 1, {name}) FROM t");
            assert_eq!(monitor(&sql), Err("22023".to_owned()), "{name}");
        }
    }
}
