//! `--once` prints answers as psql would, with their noise and cost.

use tokio_util::sync::CancellationToken;

use crate::cli::{Failure, table};
use crate::demo::ANALYST;
use crate::engine::{Engine, MemoryShare, Requester, Service};
use crate::error::Error;
use crate::parse::{Statement, parse};
use crate::policy::{SESSION_SETTINGS, SessionSettings, schemas};
use crate::refusal::{Refusal, reason};

/// Answers the statements in order and stops at the first error, as psql's simple query does.
pub async fn answer(engine: &Engine, sql: &str) -> Result<(), Failure> {
    match run(engine, sql).await {
        Ok(()) => Ok(()),
        Err(refusal) => {
            table::print_refusal(&refusal, sql);
            Err(Failure::Shown)
        }
    }
}

async fn run(engine: &Engine, sql: &str) -> Result<(), Refusal> {
    let report = |error: Error| error.report();
    let mut requester = Requester {
        role: ANALYST.to_owned(),
        session_settings: engine.session_settings(ANALYST),
        settings: Vec::new(),
        search_path: schemas(&engine.search_path(ANALYST), ANALYST),
        process: 0,
        origin: Default::default(),
        given_up: Default::default(),
        share: MemoryShare::default(),
    };
    for statement in parse(sql)? {
        match statement {
            Statement::Query(query) => {
                let description = engine
                    .describe(&requester, &query, &[])
                    .await
                    .map_err(report)?;
                let answer = engine
                    .answer(
                        &requester,
                        &query,
                        &description.parameters,
                        &[],
                        &[],
                        super::never(),
                    )
                    .await
                    .map_err(report)?;
                for line in table::align(&answer) {
                    println!("{line}");
                }
                for notice in &answer.notices {
                    println!("NOTICE:  {notice}");
                }
                println!();
            }
            Statement::Explain(query, format) => {
                let never = CancellationToken::new();
                for line in engine
                    .explain(&requester, &query, &[], &[], format, never)
                    .await
                    .map_err(report)?
                {
                    println!("{line}");
                }
                println!();
            }
            Statement::Declare(_)
            | Statement::Fetch(_)
            | Statement::Prepare(_)
            | Statement::Execute(_)
            | Statement::ExplainExecute(..)
            | Statement::Copy(_)
            | Statement::Write(_)
            | Statement::ExplainWrite(..)
            | Statement::Operator(_) => {
                return Err(refuse_unanswered());
            }
            Statement::Session(session) => {
                requester.session_settings = with_setting(requester.session_settings, session)?
            }
        }
    }
    Ok(())
}

/// Only SET of a `pgveil.*` setting has an effect here among session statements.
fn with_setting(
    mut session_settings: SessionSettings,
    session: crate::parse::SessionStatement,
) -> Result<SessionSettings, Refusal> {
    let crate::parse::SessionStatement::Set {
        scope: _,
        name,
        values,
    } = session
    else {
        return Err(refuse_unanswered());
    };
    let Some(setting) = SESSION_SETTINGS
        .iter()
        .find(|setting| setting.name.eq_ignore_ascii_case(&name))
    else {
        return Err(Refusal::new(
            reason::UNSUPPORTED_STATEMENT,
            "--once accepts only settings of pgveil",
        ));
    };
    session_settings.set(
        setting.name,
        values
            .as_ref()
            .and_then(|v| v.first())
            .map_or(setting.default, String::as_str),
    )?;
    Ok(session_settings)
}

fn refuse_unanswered() -> Refusal {
    Refusal::new(
        reason::UNSUPPORTED_STATEMENT,
        "--once accepts only queries, EXPLAIN and SET pgveil.…",
    )
    .hint("Run pgveil demo without --once, and connect with psql.")
}
