//! The outcome of one text, compared with PostgreSQL's own answer over the rows themselves.

use std::fmt;
use std::sync::Arc;

use pgveil::error::Error;
use pgveil::parse::{Statement, parse};

use super::cause::{Cause, cause};
use crate::fixture::Veil;

#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// PostgreSQL's rows, in whatever order.
    Equal,
    Different {
        ours: Vec<String>,
        theirs: Result<Vec<String>, String>,
        /// `None`: nothing that pgveil promises explains it.
        cause: Option<Cause>,
    },
    Refused {
        sqlstate: String,
        message: String,
        postgresql_too: bool,
    },
    /// A panic or an internal error: never right.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let few = |rows: &[String]| {
            format!(
                "{} rows, {:?}",
                rows.len(),
                rows.iter().take(3).collect::<Vec<_>>()
            )
        };
        match self {
            Self::Equal => write!(f, "answered"),
            Self::Different {
                ours,
                theirs: Ok(theirs),
                cause,
            } => write!(f, "{cause:?}: {} and not {}", few(ours), few(theirs)),
            Self::Different {
                ours,
                theirs: Err(theirs),
                cause,
            } => write!(f, "{cause:?}: {} and not {theirs}", few(ours)),
            Self::Refused {
                sqlstate,
                message,
                postgresql_too,
            } => {
                write!(
                    f,
                    "refused {sqlstate} {message}{}",
                    if *postgresql_too {
                        " (PostgreSQL too)"
                    } else {
                        ""
                    }
                )
            }
            Self::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}

/// Asks one text. A panic is caught where a session's task would die of it.
pub async fn outcome(veil: &Arc<Veil>, sql: &str) -> Outcome {
    let asked = {
        let (veil, sql) = (Arc::clone(veil), sql.to_owned());
        tokio::spawn(async move {
            match parse(&sql).as_deref() {
                Ok([Statement::Query(_)]) => veil.rows_as(&Veil::requester(), &sql).await,
                Ok(statements) => Err(Error::Parse(pgveil::refusal::Refusal::of_postgres(
                    "",
                    &format!("{} statements, not one query", statements.len()),
                ))),
                Err(refusal) => Err(Error::Parse(refusal.clone())),
            }
        })
    };
    let theirs = theirs(veil, sql).await;
    match asked.await {
        Err(panic) => Outcome::Failed(format!("panic: {panic}")),
        Ok(Err(Error::Internal { incident })) => {
            Outcome::Failed(format!("internal error {incident}"))
        }
        Ok(Err(error)) => {
            let report = error.report();
            Outcome::Refused {
                sqlstate: report.sqlstate,
                message: report.message,
                postgresql_too: theirs.is_err(),
            }
        }
        Ok(Ok(ours)) => match theirs {
            Ok(theirs) if same(&ours, &theirs) => Outcome::Equal,
            theirs => {
                let cause = match &theirs {
                    Ok(theirs) => cause(veil, sql, &ours, theirs).await,
                    Err(_) => None,
                };
                Outcome::Different {
                    ours,
                    theirs,
                    cause,
                }
            }
        },
    }
}

pub async fn theirs(veil: &Veil, sql: &str) -> Result<Vec<String>, String> {
    veil.client.batch_execute("BEGIN READ ONLY").await.unwrap();
    let answered = veil.client.simple_query(sql).await;
    veil.client.batch_execute("ROLLBACK").await.unwrap();
    let messages = answered.map_err(|e| {
        e.as_db_error().map_or_else(
            || e.to_string(),
            |e| format!("{} {}", e.code().code(), e.message()),
        )
    })?;
    let text = |row: &tokio_postgres::SimpleQueryRow| {
        (0..row.len())
            .map(|i| row.get(i).unwrap_or("∅").to_owned())
            .collect::<Vec<_>>()
            .join("|")
    };
    Ok(messages
        .iter()
        .filter_map(|m| {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = m {
                Some(text(row))
            } else {
                None
            }
        })
        .collect())
}

/// Rows in any order.
fn same(ours: &[String], theirs: &[String]) -> bool {
    normal(ours) == normal(theirs)
}

/// Rows in order; numbers to six digits: float sums depend on their order in PostgreSQL, and ours
/// are shown to a few digits below their noise.
pub fn normal(rows: &[String]) -> Vec<Vec<String>> {
    let value = |text: &str| match text.parse::<f64>() {
        Ok(0.0) => "0".to_owned(),
        Ok(number) => format!("{number:.5e}"),
        Err(_) => text.to_owned(),
    };
    let mut rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.split('|').map(value).collect())
        .collect();
    rows.sort();
    rows
}
