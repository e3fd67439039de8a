//! Which outer queries always give the same rows for the same released values.

use std::ops::ControlFlow;

use sqlparser::ast;

use crate::rewrite::Plan;
use crate::visit;

/// Functions whose result depends on their arguments, and on the settings of the session, alone.
const SETTLED: [&str; 34] = [
    "abs",
    "avg",
    "ceil",
    "ceiling",
    "coalesce",
    "count",
    "cume_dist",
    "date_trunc",
    "dense_rank",
    "exp",
    "first_value",
    "floor",
    "greatest",
    "lag",
    "last_value",
    "lead",
    "least",
    "ln",
    "lower",
    "max",
    "min",
    "mod",
    "ntile",
    "nullif",
    "percent_rank",
    "power",
    "rank",
    "round",
    "row_number",
    "sign",
    "sqrt",
    "sum",
    "trunc",
    "upper",
];

/// Whether the rows follow from the released values and the session's settings alone: no clock, no
/// public table and no view is read. What is not known to be so is not.
pub fn is_settled(plan: &Plan) -> bool {
    let reads_fits = |release: &crate::rewrite::ReleasePlan| {
        release.models().next().is_some() || release.dictionary().is_some()
    };
    plan.public_tables().is_empty()
        && plan.views().is_empty()
        && !plan.releases().iter().any(reads_fits)
        && reads_released_values_alone(plan.outer())
}

fn reads_released_values_alone(outer: &ast::Query) -> bool {
    crate::parse::with_room(|| visit::visit(outer, &mut Unsettled)).is_continue()
}

/// Breaks at the first part that is not known to be settled.
struct Unsettled;

impl ast::Visitor for Unsettled {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        let is_settled = match factor {
            ast::TableFactor::Table { args, sample, .. } => args.is_none() && sample.is_none(),
            ast::TableFactor::Derived { .. } | ast::TableFactor::NestedJoin { .. } => true,
            _ => false,
        };
        go_on(is_settled)
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        go_on(match expr {
            ast::Expr::Identifier(_)
            | ast::Expr::CompoundIdentifier(_)
            | ast::Expr::Nested(_)
            | ast::Expr::BinaryOp { .. }
            | ast::Expr::UnaryOp { .. }
            | ast::Expr::IsNull(_)
            | ast::Expr::IsNotNull(_)
            | ast::Expr::IsTrue(_)
            | ast::Expr::IsNotTrue(_)
            | ast::Expr::IsFalse(_)
            | ast::Expr::IsNotFalse(_)
            | ast::Expr::IsDistinctFrom(..)
            | ast::Expr::IsNotDistinctFrom(..)
            | ast::Expr::Between { .. }
            | ast::Expr::InList { .. }
            | ast::Expr::Case { .. }
            | ast::Expr::Extract { .. } => true,
            ast::Expr::Value(ast::ValueWithSpan { value, span: _ }) => match value {
                ast::Value::Number(..) | ast::Value::Boolean(_) | ast::Value::Null => true,
                ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                    !may_name_a_day(text)
                }
                _ => false,
            },
            // To no date and no moment: PostgreSQL reads 'today' by the clock.
            ast::Expr::Cast { data_type, .. } => matches!(
                data_type,
                ast::DataType::SmallInt(_)
                    | ast::DataType::Integer(_)
                    | ast::DataType::Int(_)
                    | ast::DataType::BigInt(_)
                    | ast::DataType::Numeric(_)
                    | ast::DataType::Real
                    | ast::DataType::DoublePrecision
                    | ast::DataType::Text
                    | ast::DataType::Boolean
            ),
            ast::Expr::Function(ast::Function { name, .. }) => is_known(name),
            _ => false,
        })
    }
}

fn go_on(is_settled: bool) -> ControlFlow<()> {
    match is_settled {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}

/// Whether PostgreSQL may read the text as a date or a moment that the clock decides, such as
/// 'today'.
fn may_name_a_day(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut days = ["now", "today", "tomorrow", "yesterday"].into_iter();
    days.any(|day| text.contains(day))
}

/// A function of the list, by its bare name or that in `pg_catalog`.
fn is_known(ast::ObjectName(parts): &ast::ObjectName) -> bool {
    let names: Option<Vec<&str>> = parts
        .iter()
        .map(|part| part.as_ident().map(|ident| ident.value.as_str()))
        .collect();
    let name = match names.as_deref() {
        Some([name] | ["pg_catalog", name]) => *name,
        _ => return false,
    };
    SETTLED.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::reads_released_values_alone;
    use crate::parse::{Statement, parse};

    fn is_settled(sql: &str) -> bool {
        let statements = parse(sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("{sql}")
        };
        reads_released_values_alone(&query.0)
    }

    #[test]
    fn what_follows_from_released_values_is_settled() {
        for sql in [
            "SELECT k0, a0 FROM r ORDER BY 2 DESC LIMIT 3",
            "SELECT round(a0 / nullif(a1, 0), 2)::numeric FROM r WHERE a0 BETWEEN 1 AND 9",
            "WITH r AS (SELECT a0 FROM s) SELECT sum(a0) OVER (ORDER BY a0) FROM r",
            "SELECT CASE WHEN a0 IS NULL THEN 'none' ELSE upper(k0) END FROM (SELECT * FROM r) s",
            "SELECT pg_catalog.abs(a0), extract(year FROM k0) FROM r",
        ] {
            assert!(is_settled(sql), "{sql}");
        }
    }

    #[test]
    fn what_may_change_is_not_settled() {
        for sql in [
            "SELECT a0, now() FROM r",
            "SELECT a0 FROM r WHERE k0 < current_date",
            "SELECT a0 FROM r WHERE k0 < DATE 'today'",
            "SELECT a0 FROM r WHERE k0 < 'today'::date",
            "SELECT k0 < 'today' FROM r",
            "SELECT coalesce(k0, E'\\x4eOW') FROM r",
            "SELECT lag(k0, 1, ' tomorrow 10:00') OVER (ORDER BY a0) FROM r",
            "SELECT a0 FROM r WHERE k0 IN ('yesterday')",
            "SELECT age(k0) FROM r",
            "SELECT a0, random() FROM r",
            "SELECT a0, own.abs(a0) FROM r",
            "SELECT a0, current_user FROM r",
            "SELECT a0 FROM r, generate_series(1, 3)",
            "SELECT a0 FROM r ORDER BY random()",
            "SELECT a0 FROM r LIMIT (SELECT 3)",
            "SELECT sum(a0) FILTER (WHERE now() > k0) FROM r",
        ] {
            assert!(!is_settled(sql), "{sql}");
        }
    }
}
