//! INSERT and COPY FROM STDIN, of roles that write. Values are constants or parameters, so that
//! each of them can be read, and randomised, before anything reaches the database.
//!
//! No refusal here shows a word of the statement but names of tables and columns.

mod true_text;
mod unnest;

use std::cmp::Ordering;
use std::fmt;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::copy::{CopyFormat, copy_in_format};
use super::words::Words;
use crate::parse::grammar::is_reserved;
use crate::parse::{Statement, parameter_oid, parser_of};
use crate::refusal::{Refusal, reason};
pub use true_text::{TrueBytes, TrueText};

/// One value of a row.
#[derive(Clone, PartialEq)]
pub enum WrittenValue {
    Null,
    Default,
    /// A constant, and the OID of the type that it is cast to; 0 without a cast.
    Constant(TrueText, u32),
    /// A number without quotes and without a cast.
    Number(TrueText),
    /// A parameter by its number from 1, and the same.
    Parameter(usize, u32),
}

/// In place of an OID: a cast to a type that no parameter of ours has, such as an enum.
pub const OTHER_TYPE: u32 = u32::MAX;

/// The table and the columns of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTarget {
    /// Its name, with the schema before it where it is written.
    pub table: Vec<String>,
    pub columns: Vec<String>,
}

/// A statement that writes rows.
#[derive(Clone, PartialEq)]
pub struct Write {
    pub target: WriteTarget,
    pub rows: WrittenRows,
}

#[derive(Clone, PartialEq)]
pub enum WrittenRows {
    /// The rows of INSERT.
    Values(Vec<Vec<WrittenValue>>),
    /// The rows that the client sends after COPY.
    Stream(CopyFormat),
}

/// Shows the target alone.
impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Write")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl Write {
    /// Its parameters' types by casts in the statement, 0 where there is none; and the place of the
    /// column that each is for.
    pub fn parameters(&self) -> Vec<(u32, usize)> {
        let mut found: Vec<(u32, usize)> = Vec::new();
        let WrittenRows::Values(rows) = &self.rows else {
            return found;
        };
        for row in rows {
            for (column, value) in row.iter().enumerate() {
                let WrittenValue::Parameter(number, oid) = value else {
                    continue;
                };
                if found.len() < *number {
                    found.resize(*number, (0, usize::MAX));
                }
                let known = &mut found[*number - 1];
                if known.1 == usize::MAX {
                    *known = (*oid, column);
                }
            }
        }
        found
    }

    /// What the record of statements names by a digest: the table and the columns.
    pub fn name_for_record(&self) -> String {
        let WriteTarget { table, columns } = &self.target;
        format!("INSERT INTO {table:?} {columns:?}")
    }
}

/// The most parameters of one statement, as PostgreSQL's protocol has it.
const PARAMETERS_MAX: usize = 65_535;

/// The write that these tokens spell; `None` where they begin another statement.
///
/// # Errors
/// 42601 for a malformed one, 0A000 for forms that are not offered.
pub(in crate::parse) fn of_tokens(
    tokens: &[TokenWithSpan],
    sql: &str,
) -> Result<Option<Statement>, Refusal> {
    let mut words = Words::new(tokens, sql);
    let made = match words.any_keyword(&["INSERT", "COPY"]).as_deref() {
        Some("INSERT") => insert(&mut words)?,
        // COPY of a query has a parenthesis here.
        Some("COPY") if words.peek() != Some(&Token::LParen) => match copy(&mut words)? {
            Some(made) => made,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(Statement::Write(made)))
}

/// What follows INSERT.
pub(super) fn insert(words: &mut Words<'_>) -> Result<Write, Refusal> {
    expect(words, "INTO")?;
    let table = name(words)?;
    if words.keyword("AS") {
        return Err(not_offered("INSERT with an alias", words));
    }
    if words.peek_keyword().as_deref() == Some("DEFAULT") {
        return Err(not_offered("INSERT of DEFAULT VALUES", words));
    }
    let columns = columns(words, "INSERT")?;
    let of_query = not_offered("INSERT of a query's rows", words);
    let rows = match words.peek_keyword().as_deref() {
        Some("VALUES") => {
            words.next();
            rows(words, columns.len())?
        }
        Some("SELECT") => {
            words.next();
            let rows = unnest::rows(words).ok_or(of_query)?;
            check_width(rows.first().map_or(0, Vec::len), columns.len())?;
            rows
        }
        Some("TABLE" | "WITH") => return Err(of_query),
        Some("OVERRIDING") => return Err(not_offered("OVERRIDING", words)),
        _ if words.peek() == Some(&Token::LParen) => return Err(of_query),
        _ => return Err(syntax(words)),
    };
    match words.peek_keyword().as_deref() {
        Some("ON") => return Err(not_offered("ON CONFLICT", words)),
        Some("RETURNING") => return Err(not_offered("RETURNING", words)),
        _ => {}
    }
    words.end().map_err(|_| syntax(words))?;
    check_parameters(rows.len() * columns.len())?;
    Ok(Write {
        target: WriteTarget { table, columns },
        rows: WrittenRows::Values(rows),
    })
}

/// Whether the database takes this many values in one INSERT.
///
/// # Errors
/// 54001
pub fn check_parameters(count: usize) -> Result<(), Refusal> {
    if count <= PARAMETERS_MAX {
        return Ok(());
    }
    let message = "too many values in one INSERT";
    Err(Refusal::new(reason::STATEMENT_TOO_LONG, message)
        .detail(format!(
            "At most {PARAMETERS_MAX} are taken, those that pgveil adds among them."
        ))
        .hint("Write several statements, or use COPY FROM STDIN."))
}

/// The rows after VALUES.
fn rows(words: &mut Words<'_>, width: usize) -> Result<Vec<Vec<WrittenValue>>, Refusal> {
    let mut rows = Vec::new();
    loop {
        let row = row(words)?;
        check_width(row.len(), width)?;
        rows.push(row);
        if !words.token(&Token::Comma) {
            return Ok(rows);
        }
    }
}

fn check_width(found: usize, wanted: usize) -> Result<(), Refusal> {
    let which = match found.cmp(&wanted) {
        Ordering::Equal => return Ok(()),
        Ordering::Greater => "INSERT has more expressions than target columns",
        Ordering::Less => "INSERT has more target columns than expressions",
    };
    Err(Refusal::new(reason::SYNTAX_ERROR, which))
}

fn copy(words: &mut Words<'_>) -> Result<Option<Write>, Refusal> {
    let table = name(words)?;
    let columns = match words.peek() {
        Some(Token::LParen) => columns(words, "COPY")?,
        _ => Vec::new(),
    };
    if !words.keyword("FROM") {
        return Ok(None);
    }
    if words.peek_keyword().as_deref() != Some("STDIN") {
        let message = "COPY from a file or a program of the server is not allowed";
        return Err(Refusal::new(reason::COPY_NOT_TO_CLIENT, message)
            .hint("Use COPY table (columns) FROM STDIN, or \\copy in psql."));
    }
    words.next();
    if columns.is_empty() {
        return Err(not_offered("COPY without a list of columns", words)
            .hint("Name the columns: COPY table (column, …) FROM STDIN."));
    }
    let format = copy_in_format(words)?;
    Ok(Some(Write {
        target: WriteTarget { table, columns },
        rows: WrittenRows::Stream(format),
    }))
}

fn expect(words: &mut Words<'_>, word: &str) -> Result<(), Refusal> {
    words
        .keyword(word)
        .then_some(())
        .ok_or_else(|| syntax(words))
}

/// `table`, `schema.table`.
fn name(words: &mut Words<'_>) -> Result<Vec<String>, Refusal> {
    let mut parts = vec![identifier(words)?];
    while words.token(&Token::Period) {
        parts.push(identifier(words)?);
    }
    Ok(parts)
}

fn identifier(words: &mut Words<'_>) -> Result<String, Refusal> {
    words.identifier().map_err(|_| syntax(words))
}

fn columns(words: &mut Words<'_>, what: &str) -> Result<Vec<String>, Refusal> {
    if !words.token(&Token::LParen) {
        return Err(
            not_offered(&format!("{what} without a list of columns"), words)
                .hint("Name the columns: INSERT INTO table (column, …) VALUES (…)."),
        );
    }
    // `INSERT INTO t (SELECT …)` has a query here.
    if matches!(
        words.peek_keyword().as_deref(),
        Some("SELECT" | "VALUES" | "WITH" | "TABLE")
    ) {
        return Err(not_offered("INSERT of a query's rows", words));
    }
    let mut names = Vec::new();
    loop {
        let column = identifier(words)?;
        if names.contains(&column) {
            let message = format!("column \"{column}\" specified more than once");
            return Err(Refusal::new(reason::DUPLICATE_COLUMN, message));
        }
        names.push(column);
        if words.token(&Token::RParen) {
            return Ok(names);
        }
        if !words.token(&Token::Comma) {
            return Err(syntax(words));
        }
    }
}

fn row(words: &mut Words<'_>) -> Result<Vec<WrittenValue>, Refusal> {
    let place = words.place();
    let Some(tokens) = words.read_parenthesized().map_err(|_| syntax(words))? else {
        return Err(syntax(words));
    };
    let mut depth = 0_i32;
    let values = tokens.split(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && token.token == Token::Comma
    });
    values
        .map(|tokens| value(tokens).map_err(|refusal| refusal.within(|| place)))
        .collect()
}

/// A constant or a parameter, perhaps cast.
fn value(tokens: &[TokenWithSpan]) -> Result<WrittenValue, Refusal> {
    let mut words = Words::new(tokens, "");
    if words.keyword("DEFAULT") {
        return at_end(&words, WrittenValue::Default);
    }
    if let Some(made) = cast_call(tokens)? {
        return Ok(made);
    }
    if let Some(inside) = in_parentheses(tokens) {
        return value(inside);
    }
    let found = match words.peek() {
        Some(Token::Placeholder(text)) => {
            let number = text
                .strip_prefix('$')
                .and_then(|digits| digits.parse().ok());
            let number: Option<usize> = number.filter(|n| (1..=PARAMETERS_MAX).contains(n));
            words.next();
            WrittenValue::Parameter(number.ok_or_else(unreadable)?, 0)
        }
        _ => match constant(&mut words) {
            Some(found) => found,
            None => return typed_constant(tokens),
        },
    };
    if words.token(&Token::DoubleColon) {
        return with_type(found, words.rest());
    }
    at_end(&words, found)
}

fn at_end(words: &Words<'_>, value: WrittenValue) -> Result<WrittenValue, Refusal> {
    words.end().map_err(|_| unreadable())?;
    Ok(value)
}

fn constant(words: &mut Words<'_>) -> Option<WrittenValue> {
    let text = |text: String| WrittenValue::Constant(TrueText::new(text), 0);
    if let Some(found) = words.string() {
        return Some(text(found));
    }
    if let Some(found) = words.number() {
        return Some(WrittenValue::Number(TrueText::new(found)));
    }
    if let Some(Token::UnicodeStringLiteral(found) | Token::NationalStringLiteral(found)) =
        words.peek()
    {
        let made = text(found.clone());
        words.next();
        return Some(made);
    }
    match words.any_keyword(&["NULL", "TRUE", "FALSE"])?.as_str() {
        "NULL" => Some(WrittenValue::Null),
        word => Some(text(word.to_ascii_lowercase())),
    }
}

/// `date '2026-11-29'`.
fn typed_constant(tokens: &[TokenWithSpan]) -> Result<WrittenValue, Refusal> {
    let last = tokens
        .iter()
        .rposition(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    let Some(last) = last.filter(|last| *last > 0) else {
        return Err(unreadable());
    };
    let (data_type, constant_token) = tokens.split_at(last);
    // `SELECT 'x'` is no constant of a type.
    let first = Words::new(data_type, "").peek_keyword();
    if first.is_some_and(|word| is_reserved(&word)) {
        return Err(unreadable());
    }
    let mut words = Words::new(constant_token, "");
    let text = words.string().ok_or_else(unreadable)?;
    words.end().map_err(|_| unreadable())?;
    let made = WrittenValue::Constant(TrueText::new(text), 0);
    with_type(made, data_type.to_vec())
}

/// `CAST(value AS type)`.
fn cast_call(tokens: &[TokenWithSpan]) -> Result<Option<WrittenValue>, Refusal> {
    let mut words = Words::new(tokens, "");
    if !words.keyword("CAST") {
        return Ok(None);
    }
    let inside = words.read_parenthesized().ok().flatten();
    let inside = inside.ok_or_else(unreadable)?;
    words.end().map_err(|_| unreadable())?;
    let is_as = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("as"),
        _ => false,
    };
    let at = inside.iter().rposition(is_as).ok_or_else(unreadable)?;
    let (of, data_type) = inside.split_at(at);
    with_type(value(of)?, data_type[1..].to_vec()).map(Some)
}

/// What stands between one pair of parentheses around all.
fn in_parentheses(tokens: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    let is_word = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let (first, last) = (
        tokens.iter().position(is_word)?,
        tokens.iter().rposition(is_word)?,
    );
    let is_pair =
        first < last && tokens[first].token == Token::LParen && tokens[last].token == Token::RParen;
    is_pair.then(|| &tokens[first + 1..last])
}

/// The value, with the type that it is cast to. A length or a precision would change the value, so
/// there is none.
fn with_type(value: WrittenValue, tokens: Vec<TokenWithSpan>) -> Result<WrittenValue, Refusal> {
    let read = || {
        let mut parser = parser_of(tokens.clone()).ok()?;
        let data_type = parser.parse_data_type().ok()?;
        parser.expect_token(&Token::EOF).ok()?;
        Some(parameter_oid(&data_type).unwrap_or(OTHER_TYPE))
    };
    if tokens.iter().any(|token| token.token == Token::LParen) {
        return Err(unreadable());
    }
    let oid = read().ok_or_else(unreadable)?;
    match value {
        WrittenValue::Number(text) if is_number_type(oid, text.expose()) => {
            Ok(WrittenValue::Constant(text, oid))
        }
        WrittenValue::Constant(text, 0) => Ok(WrittenValue::Constant(text, oid)),
        WrittenValue::Parameter(number, 0) => Ok(WrittenValue::Parameter(number, oid)),
        WrittenValue::Null => Ok(WrittenValue::Null),
        WrittenValue::Default
        | WrittenValue::Number(_)
        | WrittenValue::Constant(..)
        | WrittenValue::Parameter(..) => Err(unreadable()),
    }
}

/// Whether a number keeps its value as this type: PostgreSQL would round a fraction that is cast to
/// an integer, and write another text than the client's.
fn is_number_type(oid: u32, number: &str) -> bool {
    match oid {
        20 | 21 | 23 => is_whole(number),
        700 | 701 | 1700 => true,
        _ => false,
    }
}

fn is_whole(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The type that PostgreSQL gives to a number without quotes.
pub fn type_of_number(number: &str) -> u32 {
    match is_whole(number) {
        true if number.parse::<i32>().is_ok() => 23,
        true if number.parse::<i64>().is_ok() => 20,
        _ => 1700,
    }
}

/// 42601 at the place of the word that does not fit, without the word: it may be a value.
fn syntax(words: &Words<'_>) -> Refusal {
    Refusal::new(reason::SYNTAX_ERROR, "syntax error").at(words.place().or(words.last_place()))
}

fn unreadable() -> Refusal {
    Refusal::new(
        reason::WRITE_FORM,
        "a value of INSERT must be a constant or a parameter, with one cast at most",
    )
    .detail("pgveil reads each value, and randomises it, before the database gets it.")
    .hint("Compute the value before you send it.")
}

fn not_offered(what: &str, words: &Words<'_>) -> Refusal {
    let message = format!("{what} is not supported by pgveil");
    Refusal::new(reason::WRITE_FORM, message)
        .hint("Write INSERT INTO table (column, …) VALUES (…), (…).")
        .at(words.place())
}

/// A refusal of a text that may hold true values, without the words that it quotes from the text.
pub(in crate::parse) fn without_words(refusal: Refusal) -> Refusal {
    let message = match refusal.message.split_once(" at or near ") {
        Some((what, _)) => what.to_owned(),
        None => refusal.message.clone(),
    };
    Refusal { message, ..refusal }
}

#[cfg(test)]
mod tests;
