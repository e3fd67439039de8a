//! One session of the auditor, through the same protocol as any client.

use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::report::Attempted;
use crate::audit::{AuditQuestion, CanaryPlace, TrialNumbers};
use crate::cli::{Failure, start};
use crate::mechanism::{Fixed, Loss};

pub struct AuditSession(pub Client);

impl AuditSession {
    /// Sets the session so that every answer is bought again, with the group keys that the question
    /// needs.
    pub async fn expect(&self, question: &AuditQuestion) -> Result<(), Failure> {
        let keys = if question.is_thresholded() {
            "threshold"
        } else {
            "auto"
        };
        self.0
            .batch_execute(&format!("SET pgveil.reuse = off; SET pgveil.keys = {keys}"))
            .await
            .map_err(start::database_failed)
    }

    /// The numbers in one answer that depend on the canary.
    pub async fn ask(&self, question: &AuditQuestion) -> Result<TrialNumbers, Failure> {
        let messages = self
            .0
            .simple_query(&question.sql)
            .await
            .map_err(start::database_failed)?;
        let rows = || {
            messages.iter().filter_map(|message| {
                if let SimpleQueryMessage::Row(row) = message {
                    Some(row)
                } else {
                    None
                }
            })
        };
        match &question.shows {
            CanaryPlace::Row => {
                let row = rows().next().ok_or_else(|| {
                    Failure::new(format_args!("{}: no row came back", question.sql))
                })?;
                Ok((0..row.len()).map(|at| number(row, at)).collect())
            }
            CanaryPlace::Group(value) => {
                let row = rows().find(|row| is(row.get(0), value));
                let row = row.ok_or_else(|| {
                    Failure::new(format_args!("{}: no group {value} came back", question.sql))
                })?;
                Ok((1..row.len()).map(|at| number(row, at)).collect())
            }
            CanaryPlace::Presence(value) => Ok(vec![if rows().any(|row| is(row.get(0), value)) {
                1.0
            } else {
                0.0
            }]),
        }
    }

    /// What comes back for a statement that should be refused.
    pub async fn attempt(&self, sql: &str) -> Attempted {
        match self.0.simple_query(sql).await {
            Err(error) => match error.as_db_error() {
                Some(refusal) => Attempted::Refused(refusal.code().code().to_owned()),
                // The client library cannot read a copy stream. The server has started one, so rows
                // came back.
                None => Attempted::Answered,
            },
            Ok(messages) => without_error(
                sql,
                messages
                    .iter()
                    .any(|message| matches!(message, SimpleQueryMessage::Row(_))),
            ),
        }
    }
}

/// A statement that succeeded is harmless only if it is a SELECT that returned no row.
fn without_error(sql: &str, has_rows: bool) -> Attempted {
    match !has_rows && sql.starts_with("SELECT") {
        true => Attempted::NoRow,
        false => Attempted::Answered,
    }
}

/// Reads NULL as zero.
fn number(row: &SimpleQueryRow, at: usize) -> f64 {
    row.get(at)
        .and_then(|text| text.parse().ok())
        .filter(|value: &f64| value.is_finite())
        .unwrap_or(0.0)
}

/// Compares numbers by value: `1.50` equals `1.5`.
fn is(found: Option<&str>, value: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    found.is_some_and(|text| {
        text == value || number(text).is_some_and(|found| number(value) == Some(found))
    })
}

/// The loss of `count` equal charges.
pub fn times(loss: Loss, count: u32) -> Loss {
    let all = |one: Fixed| Fixed(one.0 * u128::from(count));
    Loss {
        epsilon: loss.epsilon.map(all),
        rho: all(loss.rho),
        mu_squared: all(loss.mu_squared),
        delta: all(loss.delta),
    }
}

/// The difference of two sums. It has an epsilon if both sums have one.
pub fn since(after: Loss, before: Loss) -> Loss {
    let less = |a: Fixed, b: Fixed| Fixed(a.0.saturating_sub(b.0));
    Loss {
        epsilon: after.epsilon.zip(before.epsilon).map(|(a, b)| less(a, b)),
        rho: less(after.rho, before.rho),
        mu_squared: less(after.mu_squared, before.mu_squared),
        delta: less(after.delta, before.delta),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_rows_is_not_harmless_for_showing_none() {
        assert_eq!(
            without_error("SELECT 1 WHERE EXISTS (SELECT FROM a)", false),
            Attempted::NoRow
        );
        for (sql, has_rows) in [
            ("SELECT * FROM a", true),
            ("DELETE FROM a", false),
            ("COPY a TO STDOUT", false),
        ] {
            assert_eq!(without_error(sql, has_rows), Attempted::Answered, "{sql}");
        }
    }
}
