//! The text of a statement, as it is sent.

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};

use crate::parse::balance;
use crate::refusal::{Refusal, reason};

/// Prints once, parses again and compares: what PostgreSQL reads is what was built.
///
/// # Errors
/// 54001 if it is nested too deeply; XX000 if the comparison fails, which is a bug in pgveil.
pub fn print(query: &ast::Query) -> Result<String, Refusal> {
    crate::parse::with_room(|| print_and_compare(query))
}

fn print_and_compare(query: &ast::Query) -> Result<String, Refusal> {
    let text = query.to_string();
    let differs = || {
        Refusal::new(
            reason::INTERNAL_ERROR,
            "the emitted statement does not survive printing",
        )
    };
    let mut parser = Parser::new(&PostgreSqlDialect {})
        .with_recursion_limit(512)
        .try_with_sql(&text)
        .map_err(|_| differs())?;
    let mut again = parser.parse_query().map_err(|error| match error {
        // Per-unit queries nest: each is a derived table in the next.
        ParserError::RecursionLimitExceeded => too_complex(),
        ParserError::TokenizerError(_) | ParserError::ParserError(_) => differs(),
    })?;
    balance(&mut again);
    if *again != *query || parser.peek_token().token != sqlparser::tokenizer::Token::EOF {
        return Err(differs());
    }
    Ok(text)
}

pub(crate) fn too_complex() -> Refusal {
    Refusal::new(
        reason::EXPRESSION_TOO_COMPLEX,
        "an expression over private rows is too complex",
    )
}
