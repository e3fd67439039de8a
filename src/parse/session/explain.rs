//! EXPLAIN: the plan of a query, or of an INSERT, never its execution.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::Words;
use super::{prepared, refused};
use crate::parse::{ExplainFormat, Query, Statement};
use crate::refusal::{Refusal, reason};

/// EXPLAIN [VERBOSE] query, or EXPLAIN (option, …) query.
pub(super) fn explain(
    words: &mut Words<'_>,
    sql: &str,
    parse_query: impl FnOnce(Vec<TokenWithSpan>) -> Result<Query, Refusal>,
) -> Result<Statement, Refusal> {
    let format = format_of(words, sql)?;
    match words.peek_keyword().as_deref() {
        Some("SELECT" | "WITH" | "VALUES") => {}
        None if words.peek() == Some(&Token::LParen) => {}
        Some("EXECUTE") => {
            words.next();
            let execute = prepared::execute(words, sql)?;
            words.end()?;
            return Ok(Statement::ExplainExecute(execute, format));
        }
        Some("DECLARE") => {
            return Err(refused::not_offered("EXPLAIN of a cursor")
                .hint("Explain the query itself.")
                .at(words.place()));
        }
        Some(first) => {
            let first = first.to_owned();
            return Err(refused::by_first_word(&first).unwrap_or_else(|| words.syntax_error()));
        }
        None => return Err(words.syntax_error()),
    }
    Ok(Statement::Explain(parse_query(words.rest())?, format))
}

/// EXPLAIN of an INSERT, of a role that writes; `None` where the tokens begin another statement.
///
/// # Errors
/// Those of EXPLAIN's options and of INSERT.
pub(in crate::parse) fn explain_write(
    tokens: &[TokenWithSpan],
    sql: &str,
) -> Result<Option<Statement>, Refusal> {
    let mut words = Words::new(tokens, sql);
    if !words.keyword("EXPLAIN") {
        return Ok(None);
    }
    let format = format_of(&mut words, sql)?;
    match words.keyword("INSERT") {
        true => {
            let write = super::write::insert(&mut words)?;
            Ok(Some(Statement::ExplainWrite(write, format)))
        }
        false => Ok(None),
    }
}

/// The format, from the words between EXPLAIN and what it explains.
fn format_of(words: &mut Words<'_>, sql: &str) -> Result<ExplainFormat, Refusal> {
    // A parenthesis opens options unless a query stands in it.
    let rest = words.rest();
    let mut ahead = Words::new(&rest, sql);
    let options = ahead.token(&Token::LParen)
        && !matches!(
            ahead.peek_keyword().as_deref(),
            None | Some("SELECT" | "WITH" | "VALUES")
        );
    if options {
        words.next();
        return explain_options(words);
    }
    let place = words.place();
    if words.any_keyword(&["ANALYZE", "ANALYSE"]).is_some() {
        return Err(explain_analyze().at(place));
    }
    Ok(match words.keyword("VERBOSE") {
        true => ExplainFormat::Verbose,
        false => ExplainFormat::Text,
    })
}

fn explain_options(words: &mut Words<'_>) -> Result<ExplainFormat, Refusal> {
    let (mut format, mut is_verbose) = (ExplainFormat::Text, false);
    loop {
        let place = words.place();
        let option = words.identifier()?;
        let value = match words.peek() {
            Some(Token::Comma | Token::RParen) => None,
            _ => Some(
                words
                    .string()
                    .or_else(|| words.number())
                    .map_or_else(|| words.identifier(), Ok)?
                    .to_ascii_lowercase(),
            ),
        };
        let off = matches!(value.as_deref(), Some("off" | "false" | "0"));
        match (option.as_str(), value.as_deref()) {
            ("analyze" | "analyse", _) if !off => return Err(explain_analyze().at(place)),
            (
                "analyze" | "analyse" | "costs" | "settings" | "buffers" | "wal" | "timing"
                | "summary" | "generic_plan" | "memory",
                _,
            ) => {}
            ("serialize", _) => {}
            ("verbose", _) => is_verbose = !off,
            ("format", Some("text")) => format = ExplainFormat::Text,
            ("format", Some("json")) => format = ExplainFormat::Json,
            ("format", Some("xml" | "yaml")) => {
                return Err(refused::not_offered("this EXPLAIN format")
                    .hint("Use FORMAT TEXT or FORMAT JSON.")
                    .at(place));
            }
            _ => {
                return Err(Refusal::new(
                    reason::EXPLAIN_OPTION,
                    format!("unrecognized EXPLAIN option \"{option}\""),
                )
                .at(place));
            }
        }
        if words.token(&Token::RParen) {
            return Ok(match format {
                ExplainFormat::Text if is_verbose => ExplainFormat::Verbose,
                format => format,
            });
        }
        if !words.token(&Token::Comma) {
            return Err(words.syntax_error());
        }
    }
}

fn explain_analyze() -> Refusal {
    Refusal::new(
        reason::EXPLAIN_ANALYZE,
        "EXPLAIN ANALYZE is not allowed: it would run the query and show exact row counts",
    )
    .hint("Use EXPLAIN without ANALYZE; it shows the plan, the noise and the cost, and is free.")
}
