//! COPY (query) TO STDOUT, with every option that PostgreSQL has for output.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::refused::{changes, not_offered};
use super::words::Words;
use crate::parse::{Query, Statement};
use crate::refusal::{Refusal, reason};

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

/// The common options of text and CSV.
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

/// `None` where not said.
#[derive(Default)]
struct Options {
    format: Option<Given<String>>,
    delimiter: Option<Given<String>>,
    null: Option<Given<String>>,
    header: Option<Given<bool>>,
    quote: Option<Given<String>>,
    escape: Option<Given<String>>,
    force: Option<Given<Force>>,
}

/// The value of an option, and where its name stands.
struct Given<T> {
    value: T,
    place: Option<u32>,
}

fn place<T>(option: &Option<Given<T>>) -> Option<u32> {
    option.as_ref().and_then(|given| given.place)
}

fn text(option: &Option<Given<String>>) -> Option<&str> {
    option.as_ref().map(|given| given.value.as_str())
}

/// # Errors
/// 42501 for what writes, or reads a whole table or a server's file; 42601, 0A000 and 22023 for
/// options, as PostgreSQL.
pub(super) fn copy(
    words: &mut Words<'_>,
    parse_query: impl FnOnce(Vec<TokenWithSpan>) -> Result<Query, Refusal>,
) -> Result<Statement, Refusal> {
    let Some(inside) = words.read_parenthesized()? else {
        return Err(of_table(words));
    };
    if !words.keyword("TO") {
        return Err(words.syntax_error());
    }
    let target = words.place();
    if words.keyword("PROGRAM") || words.string().is_some() {
        return Err(Refusal::new(
            reason::COPY_NOT_TO_CLIENT,
            "COPY to a file or a program of the server is not allowed",
        )
        .hint("Use COPY (query) TO STDOUT, or \\copy in psql.")
        .at(target));
    }
    if !words.keyword("STDOUT") {
        return Err(words.syntax_error());
    }
    let options = read_options(words)?;
    Ok(Statement::Copy(Copy {
        query: parse_query(inside)?,
        format: options.check()?,
    }))
}

fn read_options(words: &mut Words<'_>) -> Result<Options, Refusal> {
    let mut options = Options::default();
    words.keyword("WITH");
    if words.token(&Token::LParen) {
        loop {
            let place = words.place();
            modern(words, &mut options).map_err(|refusal| refusal.within(|| place))?;
            if words.token(&Token::RParen) {
                break;
            }
            if !words.token(&Token::Comma) {
                return Err(words.syntax_error());
            }
        }
    } else {
        while words.peek().is_some() {
            let place = words.place();
            legacy(words, &mut options).map_err(|refusal| refusal.within(|| place))?;
        }
    }
    Ok(options)
}

/// The format of rows that a client sends, from the words after STDIN.
///
/// # Errors
/// Those of [`copy`]; 0A000 for the binary format, and for options that only COPY TO has or that
/// are not offered.
pub(super) fn copy_in_format(words: &mut Words<'_>) -> Result<CopyFormat, Refusal> {
    let unread = |refusal: Refusal| {
        let message = refusal.message.replace("COPY TO", "COPY FROM");
        Refusal {
            message: message.replace("cannot be used with", "is not offered by pgveil for"),
            ..refusal
        }
    };
    let options = read_options(words).map_err(unread)?;
    words.end()?;
    if options.force.is_some() {
        let message = "COPY FORCE_QUOTE cannot be used with COPY FROM";
        return Err(Refusal::new(reason::COPY_OPTION_UNSUPPORTED, message));
    }
    match options.check()? {
        CopyFormat::Binary => Err(not_offered("COPY FROM in the binary format")),
        format @ (CopyFormat::Text(_) | CopyFormat::Csv { .. }) => Ok(format),
    }
}

/// Whole tables, in either direction.
fn of_table(words: &mut Words<'_>) -> Refusal {
    let (mut depth, place) = (0_i32, words.place());
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
    Refusal::new(
        reason::COPY_OF_TABLE,
        "COPY of a whole table is not allowed: rows of a private table cannot be shown",
    )
    .hint("Use COPY (SELECT …) TO STDOUT with the wanted aggregates.")
    .at(place)
}

/// `NAME [value]` within parentheses.
fn modern(words: &mut Words<'_>, options: &mut Options) -> Result<(), Refusal> {
    let place = words.place();
    let name = words.identifier()?;
    let option = (name.as_str(), place);
    match name.as_str() {
        "format" => once(
            &mut options.format,
            option,
            word(words)?.to_ascii_lowercase(),
        ),
        "delimiter" => once(&mut options.delimiter, option, word(words)?),
        "null" => once(&mut options.null, option, word(words)?),
        "quote" => once(&mut options.quote, option, word(words)?),
        "escape" => once(&mut options.escape, option, word(words)?),
        "header" => {
            let is_wanted = match words.peek() {
                None | Some(Token::Comma | Token::RParen) => true,
                Some(_) => boolean(&word(words)?)?,
            };
            once(&mut options.header, option, is_wanted)
        }
        "force_quote" => {
            let force = if words.token(&Token::Mul) {
                Force::All
            } else {
                Force::Columns(columns(words)?)
            };
            once(&mut options.force, option, force)
        }
        "encoding" => encoding(&word(words)?),
        "freeze" | "force_not_null" | "force_null" | "on_error" | "log_verbosity"
        | "reject_limit" => {
            let message = format!(
                "COPY {} cannot be used with COPY TO",
                name.to_ascii_uppercase()
            );
            Err(Refusal::new(reason::COPY_OPTION_UNSUPPORTED, message))
        }
        _ => Err(Refusal::new(
            reason::COPY_OPTION_SYNTAX,
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
    let place = words.place();
    let Some(name) = words.any_keyword(&known) else {
        return Err(words.syntax_error());
    };
    let mut text = || {
        words.keyword("AS");
        words.string().ok_or_else(|| words.syntax_error())
    };
    match name.as_str() {
        "BINARY" | "CSV" => once(
            &mut options.format,
            ("format", place),
            name.to_ascii_lowercase(),
        ),
        "HEADER" => once(&mut options.header, ("header", place), true),
        "DELIMITER" => once(&mut options.delimiter, ("delimiter", place), text()?),
        "NULL" => once(&mut options.null, ("null", place), text()?),
        "QUOTE" => once(&mut options.quote, ("quote", place), text()?),
        "ESCAPE" => once(&mut options.escape, ("escape", place), text()?),
        "ENCODING" => encoding(&text()?),
        _ if words.keyword("QUOTE") => {
            let mut names = Vec::new();
            if words.token(&Token::Mul) {
                return once(&mut options.force, ("force_quote", place), Force::All);
            }
            loop {
                names.push(words.identifier()?);
                if !words.token(&Token::Comma) {
                    let option = ("force_quote", place);
                    return once(&mut options.force, option, Force::Columns(names));
                }
            }
        }
        _ => Err(words.syntax_error()),
    }
}

fn once<T>(
    option: &mut Option<Given<T>>,
    (name, place): (&str, Option<u32>),
    value: T,
) -> Result<(), Refusal> {
    if option.replace(Given { value, place }).is_some() {
        return Err(Refusal::new(
            reason::COPY_OPTION_SYNTAX,
            "conflicting or redundant options",
        )
        .detail(format!("The option \"{name}\" is given twice.")));
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
            reason::COPY_OPTION_VALUE,
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
            return Err(words.syntax_error());
        }
    }
}

fn boolean(text: &str) -> Result<bool, Refusal> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        "match" => Err(Refusal::new(
            reason::COPY_OPTION_UNSUPPORTED,
            "cannot use \"match\" with HEADER in COPY TO",
        )),
        _ => Err(Refusal::new(
            reason::COPY_OPTION_SYNTAX,
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
        let format = text(&self.format).unwrap_or("text");
        let is_csv = match format {
            "csv" => true,
            "text" => false,
            "binary" => {
                self.check_binary()?;
                self.csv_only()?;
                return Ok(CopyFormat::Binary);
            }
            _ => {
                let message = format!("COPY format \"{format}\" not recognized");
                return Err(invalid(&message).at(place(&self.format)));
            }
        };
        let separator = if is_csv { "," } else { "\t" };
        let delimiter = one_byte("delimiter", &self.delimiter, separator)?;
        let null = text(&self.null).unwrap_or(if is_csv { "" } else { "\\N" });
        self.check_line(delimiter, null, is_csv)?;
        let style = Style {
            delimiter,
            null: null.to_owned(),
            has_header: self.is_headed(),
        };
        let is_delimited = null.as_bytes().contains(&delimiter);
        let null_place = place(&self.null);
        let chosen = if is_csv {
            self.csv(style)?
        } else {
            self.csv_only()?;
            CopyFormat::Text(style)
        };
        if is_delimited {
            let message = "COPY delimiter character must not appear in the NULL specification";
            return Err(invalid(message).at(null_place));
        }
        Ok(chosen)
    }

    /// The delimiter and the null text do not break lines or escapes.
    fn check_line(&self, delimiter: u8, null: &str, is_csv: bool) -> Result<(), Refusal> {
        if matches!(delimiter, b'\n' | b'\r') {
            let message = "COPY delimiter cannot be newline or carriage return";
            return Err(invalid(message).at(place(&self.delimiter)));
        }
        if null.contains(['\n', '\r']) {
            let message = "COPY null representation cannot use newline or carriage return";
            return Err(invalid(message).at(place(&self.null)));
        }
        // In the text format, a backslash before one of these letters in a value would be an
        // escape.
        if !is_csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter) {
            let message = format!("COPY delimiter cannot be \"{}\"", char::from(delimiter));
            return Err(invalid(&message).at(place(&self.delimiter)));
        }
        Ok(())
    }

    fn is_headed(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.value)
    }

    fn csv(self, style: Style) -> Result<CopyFormat, Refusal> {
        let quote = one_byte("quote", &self.quote, "\"")?;
        if style.delimiter == quote {
            let place = place(&self.quote).or(place(&self.delimiter));
            return Err(invalid("COPY delimiter and quote must be different").at(place));
        }
        let escape = match self.escape {
            Some(_) => one_byte("escape", &self.escape, "")?,
            None => quote,
        };
        if style.null.as_bytes().contains(&quote) {
            let message = "CSV quote character must not appear in the NULL specification";
            return Err(invalid(message).at(place(&self.null)));
        }
        Ok(CopyFormat::Csv {
            style,
            quote,
            escape,
            force: self
                .force
                .map_or(Force::Columns(Vec::new()), |force| force.value),
        })
    }

    /// Refuses options that the binary format does not take.
    fn check_binary(&self) -> Result<(), Refusal> {
        let header = self.header.as_ref().filter(|header| header.value);
        for (name, is_given, place, reason) in [
            (
                "DELIMITER",
                self.delimiter.is_some(),
                place(&self.delimiter),
                reason::COPY_OPTION_SYNTAX,
            ),
            (
                "NULL",
                self.null.is_some(),
                place(&self.null),
                reason::COPY_OPTION_SYNTAX,
            ),
            (
                "HEADER",
                header.is_some(),
                place(&self.header),
                reason::COPY_OPTION_UNSUPPORTED,
            ),
        ] {
            if is_given {
                let message = format!("cannot specify {name} in BINARY mode");
                return Err(Refusal::new(reason, message).at(place));
            }
        }
        Ok(())
    }

    fn csv_only(&self) -> Result<(), Refusal> {
        for (name, is_given, place) in [
            ("QUOTE", self.quote.is_some(), place(&self.quote)),
            ("ESCAPE", self.escape.is_some(), place(&self.escape)),
            ("FORCE_QUOTE", self.force.is_some(), place(&self.force)),
        ] {
            if is_given {
                return Err(Refusal::new(
                    reason::COPY_OPTION_UNSUPPORTED,
                    format!("COPY {name} requires CSV mode"),
                )
                .at(place));
            }
        }
        Ok(())
    }
}

fn one_byte(what: &str, option: &Option<Given<String>>, default: &str) -> Result<u8, Refusal> {
    match text(option).unwrap_or(default).as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(Refusal::new(
            reason::COPY_OPTION_UNSUPPORTED,
            format!("COPY {what} must be a single one-byte character"),
        )
        .at(place(option))),
    }
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(reason::COPY_OPTION_VALUE, message)
}
