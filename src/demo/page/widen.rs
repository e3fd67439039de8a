//! Error bars: the statement once more, with the ends of an interval for each aggregate.

use sqlparser::ast::{Expr, SelectItem, SetExpr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::demo::session::Session;

/// One SELECT, as it is sent to both sides.
#[derive(Debug)]
pub struct Question {
    statement: Statement,
}

/// A statement whose last columns are pairs of an interval's ends.
#[derive(Debug)]
pub struct Widened {
    pub sql: String,
    /// The columns that the pairs belong to.
    pub columns: Vec<usize>,
}

impl Question {
    /// `None` for what is not exactly one query.
    pub fn parse(sql: &str) -> Option<Self> {
        let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).ok()?;
        let [statement] = <[Statement; 1]>::try_from(statements).ok()?;
        matches!(statement, Statement::Query(_)).then_some(Self { statement })
    }

    /// The statement that was parsed, printed: nothing else can hide in it.
    pub fn sql(&self) -> String {
        self.statement.to_string()
    }

    /// The columns that are calls or arithmetic, and could have an interval.
    fn candidates(&self) -> Vec<(usize, Expr)> {
        let Statement::Query(query) = &self.statement else {
            return Vec::new();
        };
        let SetExpr::Select(select) = query.body.as_ref() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (at, item) in select.projection.iter().enumerate() {
            match item {
                SelectItem::UnnamedExpr(expression)
                | SelectItem::ExprWithAlias {
                    expr: expression, ..
                } if expression.to_string().contains('(') => {
                    found.push((at, expression.clone()));
                }
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => {}
                // The places of later columns are unknown.
                _ => return Vec::new(),
            }
        }
        found
    }

    fn with_intervals(&self, of: &[(usize, Expr)]) -> Option<String> {
        let mut statement = self.statement.clone();
        let Statement::Query(query) = &mut statement else {
            return None;
        };
        let SetExpr::Select(select) = query.body.as_mut() else {
            return None;
        };
        for (_, expression) in of {
            for end in ["ci_low", "ci_high"] {
                let call = format!("SELECT pgveil.{end}({expression})");
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
        Some(statement.to_string())
    }

    /// The statement with intervals for every column that pgveil gives one. Free: the statements
    /// are described, not asked.
    pub async fn widen(&self, session: &Session) -> Option<Widened> {
        let mut accepted = Vec::new();
        for candidate in self.candidates() {
            let sql = self.with_intervals(std::slice::from_ref(&candidate))?;
            if session.describe(&sql).await.is_ok() {
                accepted.push(candidate);
            }
        }
        if accepted.is_empty() {
            return None;
        }
        Some(Widened {
            sql: self.with_intervals(&accepted)?,
            columns: accepted.into_iter().map(|(at, _)| at).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_query_is_a_question() {
        assert!(Question::parse("SELECT 1;").is_some());
        for other in [
            "",
            "SELECT 1; SELECT 2",
            "DROP TABLE nls.women",
            "SET a = 1",
        ] {
            assert!(Question::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn calls_get_intervals() {
        let question = Question::parse("SELECT race, count(*) AS n FROM t GROUP BY race").unwrap();
        let candidates = question.candidates();
        assert_eq!(
            question.with_intervals(&candidates).unwrap(),
            "SELECT race, count(*) AS n, pgveil.ci_low(count(*)), pgveil.ci_high(count(*)) FROM t \
                GROUP BY race"
        );
        assert!(
            Question::parse("SELECT * FROM t")
                .unwrap()
                .candidates()
                .is_empty()
        );
    }
}
