//! PREPARE, EXECUTE and DEALLOCATE.

use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::Words;
use super::{SessionStatement, refused};
use crate::parse::grammar::Goal;
use crate::parse::position::TokenPositions;
use crate::parse::{ExecuteValues, Fault, Query, Statement, begins, parameter_oid, parser_of};
use crate::refusal::Refusal;

/// `PREPARE name (types) AS query`.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepare {
    pub name: String,
    /// Type OIDs; 0 or missing: to be inferred.
    pub types: Vec<u32>,
    pub query: Query,
    /// Length of the statement's text, as its weight.
    pub bytes: usize,
}

/// `EXECUTE name (values)`: each execution is a separate query.
#[derive(Debug, Clone, PartialEq)]
pub struct Execute {
    pub name: String,
    pub values: ExecuteValues,
}

/// # Errors
/// 42601 for a malformed one, 0A000 for a type that parameters cannot have and for statements that
/// are no query.
pub(super) fn prepare(
    words: &mut Words<'_>,
    sql: &str,
    parse_query: impl FnOnce(Vec<TokenWithSpan>) -> Result<Query, Refusal>,
) -> Result<Statement, Refusal> {
    if words.keyword("TRANSACTION") {
        return Err(refused::not_offered("two-phase commit"));
    }
    let name = words.identifier()?;
    let types = match words.read_parenthesized()? {
        Some(tokens) => {
            let begins = begins(&tokens);
            let types = read_list(tokens, Parser::parse_data_type)
                .map_err(|fault| fault.refusal(sql, Goal::Types, begins))?;
            types.iter().map(parameter_oid).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    if !words.keyword("AS") {
        return Err(words.syntax_error());
    }
    if let Some(first) = words.peek_keyword()
        && let Some(refusal) = refused::by_first_word(&first)
    {
        return Err(refusal);
    }
    let query = parse_query(words.rest())?;
    Ok(Statement::Prepare(Prepare {
        name,
        types,
        query,
        bytes: crate::parse::weight(sql),
    }))
}

/// # Errors
/// 42601 for a malformed one, 0A000 for a value that holds a query.
pub(super) fn execute(words: &mut Words<'_>, sql: &str) -> Result<Execute, Refusal> {
    let name = words.identifier()?;
    let (values, marks) = match words.read_parenthesized()? {
        Some(tokens) => {
            let (begins, marks) = (begins(&tokens), TokenPositions::of(&tokens));
            let values = read_list(tokens, Parser::parse_expr)
                .map_err(|fault| fault.refusal(sql, Goal::Values, begins))?;
            (values, marks)
        }
        None => (Vec::new(), TokenPositions::default()),
    };
    Ok(Execute {
        name,
        values: ExecuteValues::new(values, &marks)?,
    })
}

/// The items between commas.
fn read_list<T>(
    tokens: Vec<TokenWithSpan>,
    part: fn(&mut Parser<'static>) -> Result<T, ParserError>,
) -> Result<Vec<T>, Fault> {
    let mut parser = parser_of(tokens)?;
    let parts = parser.parse_comma_separated(part)?;
    parser.expect_token(&Token::EOF)?;
    Ok(parts)
}

pub(super) fn deallocate(words: &mut Words<'_>) -> Result<SessionStatement, Refusal> {
    words.keyword("PREPARE");
    let name = if words.keyword("ALL") {
        None
    } else {
        Some(words.identifier()?)
    };
    Ok(SessionStatement::Deallocate { name })
}
