//! Error bars: a statement once more, with the ends of an interval for each aggregate.

use sqlparser::ast::{Expr, SelectItem, SetExpr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// One query, as its columns can get intervals.
#[derive(Debug)]
pub struct Question {
    statement: Statement,
}

/// A statement whose last columns are pairs of an interval's ends.
#[derive(Debug, Clone)]
pub struct Widened {
    pub sql: String,
    /// The columns that the pairs belong to.
    pub columns: Vec<usize>,
}

/// A column that is a call or arithmetic, and could have an interval.
#[derive(Debug, Clone)]
pub struct Candidate {
    column: usize,
    expression: Expr,
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

    pub fn candidates(&self) -> Vec<Candidate> {
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
                } if expression.to_string().contains('(') => {
                    let expression = expression.clone();
                    found.push(Candidate { column, expression });
                }
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => {}
                // The places of later columns are unknown.
                _ => return Vec::new(),
            }
        }
        found
    }

    /// With intervals for these columns.
    pub fn widen(&self, of: &[Candidate]) -> Option<Widened> {
        let mut statement = self.statement.clone();
        let Statement::Query(query) = &mut statement else {
            return None;
        };
        let SetExpr::Select(select) = query.body.as_mut() else {
            return None;
        };
        for Candidate { expression, .. } in of {
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
        Some(Widened {
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
        let widened = question.widen(&question.candidates()).unwrap();
        assert_eq!(
            widened.sql,
            "SELECT race, count(*) AS n, pgveil.ci_low(count(*)), pgveil.ci_high(count(*)) FROM t \
                GROUP BY race"
        );
        assert_eq!(widened.columns, [1]);
        for without in [
            "SELECT * FROM t",
            "SELECT DISTINCT count(*) FROM t GROUP BY a",
        ] {
            let question = Question::parse(without).unwrap();
            assert!(question.candidates().is_empty(), "{without}");
        }
    }
}
