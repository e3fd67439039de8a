//! `--once`: answers as psql would print them, with their noise and cost.

use crate::cli::{Failure, table};
use crate::engine::{Asker, Engine, Reuse, Service};
use crate::error::Error;
use crate::parse::{Statement, parse};
use crate::refusal::{Refusal, sqlstate};

/// Answers every statement in turn; the first error ends it, as psql's simple query does.
pub async fn answer(engine: &Engine, sql: &str) -> Result<(), Failure> {
    match answered(engine, sql).await {
        Ok(()) => Ok(()),
        Err(refusal) => {
            table::print_refusal(&refusal, sql);
            Err(Failure::Shown)
        }
    }
}

async fn answered(engine: &Engine, sql: &str) -> Result<(), Refusal> {
    let report = |error: Error| error.report();
    let mut asker = Asker {
        role: super::ANALYST.to_owned(),
        epsilon: None,
        settings: Vec::new(),
        search_path: vec![super::ANALYST.to_owned(), "public".to_owned()],
        reuse: Reuse::On,
    };
    for statement in parse(sql)? {
        match statement {
            Statement::Query(query) => {
                let description = engine.describe(&asker, &query, &[]).await.map_err(report)?;
                let answer = engine.answer(&asker, &query, &description.parameters, &[], &[], super::never()).await.map_err(report)?;
                for line in table::aligned(&answer) {
                    println!("{line}");
                }
                for notice in &answer.notices {
                    println!("NOTICE:  {notice}");
                }
                println!();
            }
            Statement::Explain(query, format) => {
                let json = format == crate::parse::ExplainFormat::Json;
                for line in engine.explain(&asker, &query, json).await.map_err(report)? {
                    println!("{line}");
                }
                println!();
            }
            Statement::Session(session) => asker.epsilon = epsilon(session)?,
        }
    }
    Ok(())
}

/// `SET pgveil.epsilon` is the one session statement that matters to an answer here.
fn epsilon(session: crate::parse::Session) -> Result<Option<f64>, Refusal> {
    let refused = |message: &str| Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Run pgveil demo without --once, and ask by psql.");
    let crate::parse::Session::Set { scope: _, name, values } = session else {
        return Err(refused("--once answers queries, EXPLAIN and SET pgveil.epsilon only"));
    };
    if !name.eq_ignore_ascii_case("pgveil.epsilon") {
        return Err(refused("--once knows the setting pgveil.epsilon only"));
    }
    let Some(values) = values else { return Ok(None) };
    let epsilon = values.first().and_then(|text| text.parse::<f64>().ok()).filter(|e| e.is_finite() && *e > 0.0);
    epsilon.map(Some).ok_or_else(|| Refusal::new(sqlstate::INVALID_PARAMETER_VALUE, "pgveil.epsilon must be a number above zero"))
}
