//! COPY (query) TO STDOUT, with every option that PostgreSQL has for output.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::refused::{changes, not_offered};
use super::words::Words;
use crate::parse::{Query, Statement};
use crate::refusal::{Refusal, sqlstate};

/// The answer of a query as one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    pub query: Query,
    pub format: CopyFormat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyFormat {
    Binary,
    Text(Style),
    Csv {
        style: Style,
        quote: u8,
        escape: u8,
        force: Force,
    },
}

/// What text and CSV have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    pub delimiter: u8,
    /// How NULL is written.
    pub null: String,
    pub has_header: bool,
}

/// Columns whose values are always quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Force {
    All,
    Columns(Vec<String>),
}

/// As written; `None` where not said.
#[derive(Default)]
struct Options {
    format: Option<String>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<bool>,
    quote: Option<String>,
    escape: Option<String>,
    force: Option<Force>,
}

/// # Errors
/// 42501 for what writes, or reads a whole table or a server's file; 42601, 0A000 and 22023 for
/// options, as PostgreSQL.
pub(super) fn copy(
    words: &mut Words<'_>,
    parse_query: impl FnOnce(Vec<TokenWithSpan>) -> Result<Query, Refusal>,
) -> Result<Statement, Refusal> {
    let Some(inside) = words.parenthesized()? else {
        return Err(of_table(words));
    };
    if !words.keyword("TO") {
        return Err(words.unexpected());
    }
    if words.keyword("PROGRAM") || words.string().is_some() {
        return Err(
            Refusal::denied("COPY to a file or a program of the server is not allowed")
                .hint("Use COPY (query) TO STDOUT, or \\copy in psql."),
        );
    }
    if !words.keyword("STDOUT") {
        return Err(words.unexpected());
    }
    let mut options = Options::default();
    words.keyword("WITH");
    if words.token(&Token::LParen) {
        loop {
            modern(words, &mut options)?;
            if words.token(&Token::RParen) {
                break;
            }
            if !words.token(&Token::Comma) {
                return Err(words.unexpected());
            }
        }
    } else {
        while words.peek().is_some() {
            legacy(words, &mut options)?;
        }
    }
    Ok(Statement::Copy(Copy {
        query: parse_query(inside)?,
        format: options.check()?,
    }))
}

/// Whole tables, in either direction.
fn of_table(words: &mut Words<'_>) -> Refusal {
    let mut depth = 0_i32;
    while let Some(token) = words.peek() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if depth == 0 && words.peek_keyword().as_deref() == Some("FROM") => {
                return changes("COPY FROM");
            }
            _ => {}
        }
        words.next();
    }
    Refusal::denied("COPY of a whole table is not allowed: rows of a private table cannot be shown")
        .hint("Use COPY (SELECT …) TO STDOUT with the wanted aggregates.")
}

/// `NAME [value]` within parentheses.
fn modern(words: &mut Words<'_>, options: &mut Options) -> Result<(), Refusal> {
    let name = words.identifier()?;
    match name.as_str() {
        "format" => once(
            &mut options.format,
            &name,
            word(words)?.to_ascii_lowercase(),
        ),
        "delimiter" => once(&mut options.delimiter, &name, word(words)?),
        "null" => once(&mut options.null, &name, word(words)?),
        "quote" => once(&mut options.quote, &name, word(words)?),
        "escape" => once(&mut options.escape, &name, word(words)?),
        "header" => {
            let is_wanted = match words.peek() {
                None | Some(Token::Comma | Token::RParen) => true,
                Some(_) => boolean(&word(words)?)?,
            };
            once(&mut options.header, &name, is_wanted)
        }
        "force_quote" => {
            let force = if words.token(&Token::Mul) {
                Force::All
            } else {
                Force::Columns(columns(words)?)
            };
            once(&mut options.force, &name, force)
        }
        "encoding" => encoding(&word(words)?),
        "freeze" | "force_not_null" | "force_null" | "on_error" | "log_verbosity"
        | "reject_limit" => {
            let message = format!(
                "COPY {} cannot be used with COPY TO",
                name.to_ascii_uppercase()
            );
            Err(Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, message))
        }
        _ => Err(Refusal::new(
            sqlstate::SYNTAX_ERROR,
            format!("option \"{name}\" not recognized"),
        )),
    }
}

/// One option in the spelling of before PostgreSQL 9.0.
fn legacy(words: &mut Words<'_>, options: &mut Options) -> Result<(), Refusal> {
    let known = [
        "BINARY",
        "CSV",
        "HEADER",
        "DELIMITER",
        "NULL",
        "QUOTE",
        "ESCAPE",
        "FORCE",
        "ENCODING",
    ];
    let Some(name) = words.any_keyword(&known) else {
        return Err(words.unexpected());
    };
    let mut text = || {
        words.keyword("AS");
        words.string().ok_or_else(|| words.unexpected())
    };
    match name.as_str() {
        "BINARY" | "CSV" => once(&mut options.format, "format", name.to_ascii_lowercase()),
        "HEADER" => once(&mut options.header, "header", true),
        "DELIMITER" => once(&mut options.delimiter, "delimiter", text()?),
        "NULL" => once(&mut options.null, "null", text()?),
        "QUOTE" => once(&mut options.quote, "quote", text()?),
        "ESCAPE" => once(&mut options.escape, "escape", text()?),
        "ENCODING" => encoding(&text()?),
        _ if words.keyword("QUOTE") => {
            let mut names = Vec::new();
            if words.token(&Token::Mul) {
                return once(&mut options.force, "force_quote", Force::All);
            }
            loop {
                names.push(words.identifier()?);
                if !words.token(&Token::Comma) {
                    return once(&mut options.force, "force_quote", Force::Columns(names));
                }
            }
        }
        _ => Err(words.unexpected()),
    }
}

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Refusal> {
    if place.replace(value).is_some() {
        return Err(
            Refusal::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options")
                .detail(format!("The option \"{name}\" is given twice.")),
        );
    }
    Ok(())
}

fn word(words: &mut Words<'_>) -> Result<String, Refusal> {
    words
        .string()
        .or_else(|| words.number())
        .map_or_else(|| words.identifier(), Ok)
}

fn columns(words: &mut Words<'_>) -> Result<Vec<String>, Refusal> {
    if !words.token(&Token::LParen) {
        return Err(Refusal::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            "argument to option \"force_quote\" must be a list of column names",
        ));
    }
    let mut names = Vec::new();
    loop {
        names.push(words.identifier()?);
        if words.token(&Token::RParen) {
            return Ok(names);
        }
        if !words.token(&Token::Comma) {
            return Err(words.unexpected());
        }
    }
}

fn boolean(text: &str) -> Result<bool, Refusal> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        "match" => Err(Refusal::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            "cannot use \"match\" with HEADER in COPY TO",
        )),
        _ => Err(Refusal::new(
            sqlstate::SYNTAX_ERROR,
            "header requires a Boolean value or \"match\"",
        )),
    }
}

fn encoding(name: &str) -> Result<(), Refusal> {
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    match plain.as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(not_offered("an encoding other than UTF8")),
    }
}

impl Options {
    /// The checks of PostgreSQL, in its order.
    fn check(self) -> Result<CopyFormat, Refusal> {
        let Self {
            format,
            delimiter,
            null,
            header,
            quote,
            escape,
            force,
        } = self;
        let format = format.as_deref().unwrap_or("text");
        let is_csv = match format {
            "csv" => true,
            "text" => false,
            "binary" => {
                check_binary(delimiter.is_some(), null.is_some(), header == Some(true))?;
                csv_only(&quote, &escape, &force)?;
                return Ok(CopyFormat::Binary);
            }
            _ => {
                return Err(Refusal::new(
                    sqlstate::INVALID_PARAMETER_VALUE,
                    format!("COPY format \"{format}\" not recognized"),
                ));
            }
        };
        let delimiter = one_byte(
            "delimiter",
            delimiter
                .as_deref()
                .unwrap_or(if is_csv { "," } else { "\t" }),
        )?;
        let null = null.unwrap_or_else(|| if is_csv { "" } else { "\\N" }.to_owned());
        check_line(delimiter, &null, is_csv)?;
        let style = Style {
            delimiter,
            null,
            has_header: header == Some(true),
        };
        let chosen = if is_csv {
            let quote = one_byte("quote", quote.as_deref().unwrap_or("\""))?;
            if style.delimiter == quote {
                return Err(invalid("COPY delimiter and quote must be different"));
            }
            let escape = escape
                .as_deref()
                .map_or(Ok(quote), |escape| one_byte("escape", escape))?;
            if style.null.as_bytes().contains(&quote) {
                return Err(invalid(
                    "CSV quote character must not appear in the NULL specification",
                ));
            }
            CopyFormat::Csv {
                style: style.clone(),
                quote,
                escape,
                force: force.unwrap_or(Force::Columns(Vec::new())),
            }
        } else {
            csv_only(&quote, &escape, &force)?;
            CopyFormat::Text(style.clone())
        };
        if style.null.as_bytes().contains(&style.delimiter) {
            return Err(invalid(
                "COPY delimiter character must not appear in the NULL specification",
            ));
        }
        Ok(chosen)
    }
}

/// Options that the binary format does not take.
fn check_binary(has_delimiter: bool, has_null: bool, has_header: bool) -> Result<(), Refusal> {
    for (name, is_given, state) in [
        ("DELIMITER", has_delimiter, sqlstate::SYNTAX_ERROR),
        ("NULL", has_null, sqlstate::SYNTAX_ERROR),
        ("HEADER", has_header, sqlstate::FEATURE_NOT_SUPPORTED),
    ] {
        if is_given {
            return Err(Refusal::new(
                state,
                format!("cannot specify {name} in BINARY mode"),
            ));
        }
    }
    Ok(())
}

/// The delimiter and the null text do not break lines or escapes.
fn check_line(delimiter: u8, null: &str, is_csv: bool) -> Result<(), Refusal> {
    if matches!(delimiter, b'\n' | b'\r') {
        return Err(invalid(
            "COPY delimiter cannot be newline or carriage return",
        ));
    }
    if null.contains(['\n', '\r']) {
        return Err(invalid(
            "COPY null representation cannot use newline or carriage return",
        ));
    }
    // In the text format, a backslash before one of these letters in a value would be an escape.
    if !is_csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter) {
        return Err(invalid(&format!(
            "COPY delimiter cannot be \"{}\"",
            char::from(delimiter)
        )));
    }
    Ok(())
}

fn csv_only(
    quote: &Option<String>,
    escape: &Option<String>,
    force: &Option<Force>,
) -> Result<(), Refusal> {
    for (name, is_given) in [
        ("QUOTE", quote.is_some()),
        ("ESCAPE", escape.is_some()),
        ("FORCE_QUOTE", force.is_some()),
    ] {
        if is_given {
            return Err(Refusal::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("COPY {name} requires CSV mode"),
            ));
        }
    }
    Ok(())
}

fn one_byte(what: &str, text: &str) -> Result<u8, Refusal> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(Refusal::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("COPY {what} must be a single one-byte character"),
        )),
    }
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}
