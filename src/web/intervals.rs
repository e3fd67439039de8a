//! Error bars: a statement once more, with the ends of an interval for each aggregate, and with
//! what a chosen clip cut from it.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, GroupByExpr, SelectItem, SetExpr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::parse::{as_written, with_room_for_text};
use crate::visit::visit_expressions;

/// The functions that follow for each column, in order.
const FUNCTIONS: [&str; 3] = ["ci_low", "ci_high", "low_by"];

/// How many columns follow for each column that has an interval.
pub const FOLLOWING: usize = FUNCTIONS.len();

/// One query, as its columns can get intervals.
#[derive(Debug)]
pub struct IntervalQuery {
    statement: Statement,
}

/// A statement whose last columns are the ends of an interval and what was cut, for each of some
/// columns.
#[derive(Debug, Clone)]
pub struct WithIntervals {
    pub sql: String,
    /// The columns that these belong to.
    pub columns: Vec<usize>,
}

/// The columns that could have an interval, and whether each is a group key.
///
/// A long chain of AND or OR makes a deep tree, which is walked and dropped here with enough stack.
pub fn candidates(sql: &str) -> Vec<(usize, bool)> {
    with_room_for_text(sql, || {
        let question = IntervalQuery::parse(sql);
        let candidates = question.as_ref().map(IntervalQuery::candidates);
        let candidates = candidates.unwrap_or_default().into_iter();
        let is_key = |one: &IntervalCandidate| question.as_ref().is_some_and(|q| q.is_key(one));
        candidates.map(|one| (one.column, is_key(&one))).collect()
    })
}

/// The statement with intervals for these of its columns.
pub fn with_intervals(sql: &str, columns: &[usize]) -> Option<WithIntervals> {
    with_room_for_text(sql, || {
        let question = IntervalQuery::parse(sql)?;
        let mut candidates = question.candidates();
        candidates.retain(|one| columns.contains(&one.column));
        question.widen(&candidates)
    })
}

/// A column that calls a function, and could have an interval.
#[derive(Debug, Clone)]
pub struct IntervalCandidate {
    column: usize,
    expression: Expr,
}

/// Whether an expression calls a function, as every aggregate does.
fn has_call(expression: &Expr) -> bool {
    let found = visit_expressions(expression, |part| match part {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

impl IntervalQuery {
    /// `None` for what is not exactly one query.
    pub fn parse(sql: &str) -> Option<Self> {
        let [statement] = <[Statement; 1]>::try_from(as_written(sql)?).ok()?;
        matches!(statement, Statement::Query(_)).then_some(Self { statement })
    }

    /// The statement that was parsed, printed: nothing else can hide in it.
    pub fn sql(&self) -> String {
        self.statement.to_string()
    }

    pub fn candidates(&self) -> Vec<IntervalCandidate> {
        let Statement::Query(query) = &self.statement else {
            return Vec::new();
        };
        let SetExpr::Select(select) = query.body.as_ref() else {
            return Vec::new();
        };
        // More columns would make more rows distinct.
        if select.distinct.is_some() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (column, item) in select.projection.iter().enumerate() {
            match item {
                SelectItem::UnnamedExpr(expression)
                | SelectItem::ExprWithAlias {
                    expr: expression, ..
                } if has_call(expression) => {
                    let expression = expression.clone();
                    found.push(IntervalCandidate { column, expression });
                }
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => {}
                // The places of later columns are unknown.
                _ => return Vec::new(),
            }
        }
        found
    }

    /// Whether GROUP BY names a column: by its expression, its name or its number.
    fn is_key(&self, IntervalCandidate { column, expression }: &IntervalCandidate) -> bool {
        let Statement::Query(query) = &self.statement else {
            return false;
        };
        let SetExpr::Select(select) = query.body.as_ref() else {
            return false;
        };
        let GroupByExpr::Expressions(keys, _) = &select.group_by else {
            return false;
        };
        let alias = match select.projection.get(*column) {
            Some(SelectItem::ExprWithAlias { alias, .. }) => Some(&alias.value),
            _ => None,
        };
        let number = (column + 1).to_string();
        keys.iter().any(|key| match key {
            Expr::Identifier(name) => Some(&name.value) == alias,
            Expr::Value(value) => value.to_string() == number,
            key => key == expression,
        })
    }

    /// With intervals for these columns.
    pub fn widen(&self, of: &[IntervalCandidate]) -> Option<WithIntervals> {
        let mut statement = self.statement.clone();
        let Statement::Query(query) = &mut statement else {
            return None;
        };
        let SetExpr::Select(select) = query.body.as_mut() else {
            return None;
        };
        for IntervalCandidate { expression, .. } in of {
            for function in FUNCTIONS {
                let call = format!("SELECT pgveil.{function}({expression})");
                let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &call).ok()?;
                let Some(Statement::Query(call)) = parsed.into_iter().next() else {
                    return None;
                };
                let SetExpr::Select(call) = *call.body else {
                    return None;
                };
                select.projection.extend(call.projection);
            }
        }
        Some(WithIntervals {
            sql: statement.to_string(),
            columns: of.iter().map(|candidate| candidate.column).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_query_is_a_question() {
        assert!(IntervalQuery::parse("SELECT 1;").is_some());
        for other in [
            "",
            "SELECT 1; SELECT 2",
            "DROP TABLE nls.women",
            "SET a = 1",
        ] {
            assert!(IntervalQuery::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn keys_are_what_group_by_names() {
        let sql = "SELECT lower(a), upper(b) AS b, abs(c), max(d) FROM t GROUP BY lower(a), b, 3";
        let found = [(0, true), (1, true), (2, true), (3, false)];
        assert_eq!(candidates(sql), found);
        let widened = with_intervals(sql, &[3]).unwrap();
        assert_eq!(widened.columns, [3]);
        assert!(
            widened.sql.contains("pgveil.ci_low(max(d))"),
            "{}",
            widened.sql
        );
    }

    /// The fields of a regression are the columns that a description of the statement has.
    #[test]
    fn fields_are_columns() {
        let call = "(pgveil.linregr(y, ARRAY[1, x]))";
        let sql = format!("SELECT side, {call}.* FROM t GROUP BY side");
        let question = IntervalQuery::parse(&sql).unwrap();
        assert!(question.sql().contains(&format!("{call}.num_rows, ")));
        let columns: Vec<usize> = candidates(&sql).iter().map(|(at, _)| *at).collect();
        assert_eq!(columns, [1, 2, 3, 4, 5, 6, 7]);
        let widened = with_intervals(&sql, &[5]).unwrap().sql;
        let end = format!("pgveil.ci_low({call}.num_rows)");
        assert!(widened.contains(&end), "{widened}");
        let misplaced = format!("SELECT 1 FROM t ORDER BY {call}.*");
        assert!(IntervalQuery::parse(&misplaced).is_none());
    }

    #[test]
    fn long_chains_have_room() {
        let sql = format!(
            "SELECT max(a) FROM t WHERE {}",
            ["a = 1"; 20_000].join(" OR ")
        );
        // A thread of the size that the server's have.
        let walk = std::thread::Builder::new().stack_size(2 << 20);
        let walk = walk.spawn(move || (candidates(&sql), with_intervals(&sql, &[0]).is_some()));
        assert_eq!(walk.unwrap().join().unwrap(), (vec![(0, false)], true));
    }

    #[test]
    fn calls_get_intervals() {
        let question =
            IntervalQuery::parse("SELECT race, count(*) AS n FROM t GROUP BY race").unwrap();
        let widened = question.widen(&question.candidates()).unwrap();
        assert_eq!(
            widened.sql,
            "SELECT race, count(*) AS n, pgveil.ci_low(count(*)), pgveil.ci_high(count(*)), \
                pgveil.low_by(count(*)) FROM t GROUP BY race"
        );
        assert_eq!(widened.columns, [1]);
        for without in [
            "SELECT * FROM t",
            "SELECT DISTINCT count(*) FROM t GROUP BY a",
        ] {
            let question = IntervalQuery::parse(without).unwrap();
            assert!(question.candidates().is_empty(), "{without}");
        }
    }
}
