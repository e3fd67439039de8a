//! Replaces phrases of PostgreSQL's grammar that the parser does not read by phrases with the same
//! meaning, before parsing.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace, Word};

use super::grammar;
use crate::refusal::{Refusal, reason};

/// Marks the lower end of BETWEEN SYMMETRIC until the tree is built: an operator that PostgreSQL no
/// longer has, and that nothing else uses.
pub(super) const SYMMETRIC: sqlparser::ast::UnaryOperator =
    sqlparser::ast::UnaryOperator::PGPrefixFactorial;

fn word(token: &Token) -> Option<(Keyword, &str)> {
    match token {
        Token::Word(Word {
            value,
            quote_style: None,
            keyword,
        }) => Some((*keyword, value)),
        _ => None,
    }
}

fn only_refused() -> Refusal {
    Refusal::unsupported(reason::UNSUPPORTED_CLAUSE, "ONLY").hint(
        "Name the table without ONLY. pgveil treats partitions and child tables as \
                separate tables.",
    )
}

fn substring_refused() -> Refusal {
    Refusal::unsupported(reason::UNSUPPORTED_PATTERN, "SUBSTRING … SIMILAR")
        .hint("Write substring(x FROM 'regular expression').")
}

/// Rewrites PostgreSQL's phrases that the parser does not know.
///
/// # Errors
/// 0A000 for a phrase that cannot be written another way; 42601 for NOT NULL without IS.
pub(super) fn write_out(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, Refusal> {
    check_intervals(&tokens)?;
    check_filters(&tokens)?;
    let next = next_words(&tokens);
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The two tokens before, without blanks.
    let (mut before, mut earlier) = (Token::EOF, Token::EOF);
    for (TokenWithSpan { token, span }, next) in tokens.into_iter().zip(next) {
        let was = |wanted: Keyword| word(&before).is_some_and(|(k, _)| k == wanted);
        let mut push = |tokens: &[Token]| {
            written.extend(tokens.iter().map(|token| TokenWithSpan {
                token: token.clone(),
                span,
            }))
        };
        let space = Token::Whitespace(Whitespace::Space);
        match word(&token) {
            Some((Keyword::ASYMMETRIC, _)) if was(Keyword::BETWEEN) => continue,
            Some((Keyword::SYMMETRIC, _)) if was(Keyword::BETWEEN) => {
                push(&[Token::DoubleExclamationMark, space])
            }
            Some((_, name))
                if name.eq_ignore_ascii_case("isnull")
                    && ends_a_value(&before)
                    && next != Token::LParen =>
            {
                push(&[
                    Token::make_keyword("IS"),
                    space,
                    Token::make_keyword("NULL"),
                ]);
            }
            // The parser reads it as IS NOT NULL; PostgreSQL rejects it.
            Some((Keyword::NOT, _))
                if matches!(word(&next), Some((Keyword::NULL, _)))
                    && (ends_a_value(&before) || earlier == Token::Period) =>
            {
                return Err(syntax_error("NOT", span).hint("Write IS NOT NULL."));
            }
            // The parser reads it as a label; PostgreSQL does so only after AS.
            Some((keyword, name))
                if wants_as(keyword) && is_label_place(&earlier, &before, &next) =>
            {
                return Err(syntax_error(name, span).hint("Write AS before this label."));
            }
            // The parser reads them as names; in PostgreSQL they are functions.
            Some((_, name))
                if next != Token::LParen
                    && !is_label(&before)
                    && !super::limits::depth::surely_ends_a_value(&before)
                    && function_of(name).is_some() =>
            {
                push(&function_of(name).unwrap_or_default());
            }
            // The parser reads it as the name of a table. In PostgreSQL it means the table that
            // follows, without its children.
            Some((Keyword::ONLY, _)) if !is_plain_only(&before) => {
                return Err(only_refused().at(column(span)));
            }
            Some((Keyword::FROM, _)) if trims(&before, &earlier) => push(&[
                Token::SingleQuotedString(" ".to_owned()),
                space,
                token.clone(),
            ]),
            Some((Keyword::SIMILAR, _))
                if !matches!(word(&next), Some((Keyword::TO, _))) && ends_a_value(&before) =>
            {
                return Err(substring_refused().at(column(span)));
            }
            _ => push(std::slice::from_ref(&token)),
        }
        if !matches!(token, Token::Whitespace(_)) {
            earlier = std::mem::replace(&mut before, token);
        }
    }
    Ok(written)
}

fn syntax_error(word: &str, span: Span) -> Refusal {
    grammar::syntax_error_near(word).at(column(span))
}

fn column(span: Span) -> Option<u32> {
    u32::try_from(span.start.column).ok()
}

/// Words that PostgreSQL takes for a label only after AS.
fn wants_as(keyword: Keyword) -> bool {
    use Keyword as K;
    [K::YEAR, K::MONTH, K::DAY, K::HOUR, K::MINUTE, K::SECOND].contains(&keyword)
}

/// After a value that is not an interval constant, at the end of an item of a SELECT list.
fn is_label_place(earlier: &Token, before: &Token, next: &Token) -> bool {
    let is_interval = word(earlier).is_some_and(|(k, _)| k == Keyword::INTERVAL);
    ends_a_value(before) && !is_interval && ends_an_item(next)
}

/// Whether the token may follow an item of a SELECT list.
fn ends_an_item(next: &Token) -> bool {
    matches!(next, Token::Comma | Token::RParen | Token::EOF)
        || word(next).is_some_and(|(keyword, _)| keyword == Keyword::FROM)
}

/// # Errors
/// 42601 for FILTER after a call without `(WHERE`: the parser loses the word, and a parenthesis
/// after it.
fn check_filters(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    let is_blank = |token: &&TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let tokens: Vec<_> = tokens.iter().filter(|token| !is_blank(token)).collect();
    for (at, token) in tokens.iter().enumerate().skip(1) {
        let follows = |after: usize| tokens.get(at + after).map(|token| &token.token);
        let is_filter = word(&token.token).is_some_and(|(k, _)| k == Keyword::FILTER)
            && tokens[at - 1].token == Token::RParen;
        let has_condition = follows(1) == Some(&Token::LParen)
            && follows(2)
                .and_then(word)
                .is_some_and(|(k, _)| k == Keyword::WHERE);
        if is_filter && !has_condition {
            return Err(syntax_error("FILTER", token.span)
                .hint("Write FILTER (WHERE condition), or AS before a name."));
        }
    }
    Ok(())
}

/// # Errors
/// 0A000 for `INTERVAL (1) '…'`, and for `INTERVAL DAY '…'`, which PostgreSQL rejects: the parser
/// loses the part between the words.
fn check_intervals(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    // Where an INTERVAL stands that only such words follow so far, and whether there are any.
    let mut open = None;
    // Whether it is followed by brackets, and is no type that a value is cast to.
    let (mut has_precision, mut is_cast, mut before) = (false, false, &Token::EOF);
    for TokenWithSpan { token, span } in tokens {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        let is_first = word(before).is_some_and(|(k, _)| k == Keyword::INTERVAL);
        if is_first {
            has_precision = *token == Token::LParen && !is_cast;
        }
        if word(token).is_some_and(|(k, _)| k == Keyword::INTERVAL) {
            is_cast = *before == Token::DoubleColon
                || word(before).is_some_and(|(k, _)| k == Keyword::AS);
        }
        before = token;
        open = match (token, word(token), open) {
            (Token::Minus | Token::Plus, _, open) if has_precision => open,
            (_, Some((Keyword::INTERVAL, _)), _) => Some((span.start.column, false)),
            (
                _,
                Some((Keyword::YEAR | Keyword::MONTH | Keyword::DAY | Keyword::HOUR, _)),
                Some((start, _)),
            ) => Some((start, true)),
            (_, Some((Keyword::MINUTE | Keyword::SECOND | Keyword::TO, _)), Some((start, _))) => {
                Some((start, true))
            }
            (Token::LParen | Token::Number(..) | Token::RParen, _, Some((start, _))) => {
                Some((start, true))
            }
            (constant, _, Some((start, true))) if is_text(constant) => {
                return Err(Refusal::new(
                    reason::UNSUPPORTED_CONSTANT,
                    "an interval constant with a precision or fields before it is not supported",
                )
                .hint("Write the digits and units themselves, such as interval '1.6 seconds'.")
                .at(u32::try_from(start).ok()));
            }
            _ => None,
        };
    }
    Ok(())
}

fn is_text(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
    )
}

/// The token after each, without blanks.
fn next_words(tokens: &[TokenWithSpan]) -> Vec<Token> {
    let mut next = Token::EOF;
    let mut all: Vec<Token> = Vec::with_capacity(tokens.len());
    for TokenWithSpan { token, span: _ } in tokens.iter().rev() {
        all.push(next.clone());
        if !matches!(token, Token::Whitespace(_)) {
            next = token.clone();
        }
    }
    all.reverse();
    all
}

/// Reserved words after which a value begins.
const BEFORE_A_VALUE: &[Keyword] = &[
    Keyword::ALL,
    Keyword::AND,
    Keyword::AS,
    Keyword::BETWEEN,
    Keyword::BY,
    Keyword::CASE,
    Keyword::DISTINCT,
    Keyword::ELSE,
    Keyword::ESCAPE,
    Keyword::FROM,
    Keyword::HAVING,
    Keyword::ILIKE,
    Keyword::IS,
    Keyword::LIKE,
    Keyword::LIMIT,
    Keyword::NOT,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::OR,
    Keyword::SELECT,
    Keyword::SYMMETRIC,
    Keyword::THEN,
    Keyword::TO,
    Keyword::WHEN,
    Keyword::WHERE,
];

/// A name, a constant or a closing bracket: after it, a word is an operator or an alias. ISNULL is
/// reserved, so that it is no alias without AS.
pub(super) fn ends_a_value(before: &Token) -> bool {
    match before {
        Token::Word(Word {
            value: _,
            quote_style: Some(_),
            keyword: _,
        }) => true,
        Token::Word(Word {
            value: _,
            quote_style: None,
            keyword,
        }) => !BEFORE_A_VALUE.contains(keyword),
        Token::Number(..) | Token::RParen | Token::RBracket | Token::Placeholder(_) => true,
        constant => is_text(constant),
    }
}

/// The tokens in place of a word that stands for a function.
fn function_of(name: &str) -> Option<Vec<Token>> {
    let call = |name: &str| vec![Token::make_word(name, None), Token::LParen, Token::RParen];
    match name.to_ascii_lowercase().as_str() {
        "current_role" => Some(vec![Token::make_keyword("CURRENT_USER")]),
        "current_catalog" => Some(call("current_database")),
        "current_schema" => Some(call("current_schema")),
        _ => None,
    }
}

/// A field's or a column's name, where any word may stand.
fn is_label(before: &Token) -> bool {
    *before == Token::Period || matches!(word(before), Some((Keyword::AS, _)))
}

/// `FETCH FIRST 5 ROWS ONLY`, `READ ONLY`, or a label.
fn is_plain_only(before: &Token) -> bool {
    is_label(before)
        || matches!(
            word(before),
            Some((Keyword::ROW | Keyword::ROWS | Keyword::READ, _))
        )
}

/// `TRIM(FROM x)`, `TRIM(BOTH FROM x)`: blanks are trimmed.
fn trims(before: &Token, earlier: &Token) -> bool {
    let is_trim = |token: &Token| matches!(word(token), Some((Keyword::TRIM, _)));
    match word(before) {
        Some((Keyword::BOTH | Keyword::LEADING | Keyword::TRAILING, _)) => {
            *earlier == Token::LParen
        }
        _ => *before == Token::LParen && is_trim(earlier),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    #[allow(clippy::too_many_lines, reason = "one table of cases")]
    #[test]
    fn phrases_are_written_out() {
        for (sql, wanted) in [
            ("a ISNULL", "a IS NULL"),
            ("(a) isnull and b", "(a) IS NULL and b"),
            ("E'x' ISNULL", "E'x' IS NULL"),
            ("$$x$$ ISNULL", "$$x$$ IS NULL"),
            (
                "SELECT NOT NULL, a IS NOT NULL",
                "SELECT NOT NULL, a IS NOT NULL",
            ),
            (
                "WHEN NOT NULL THEN (NOT NULL)",
                "WHEN NOT NULL THEN (NOT NULL)",
            ),
            (
                "interval(1), interval '1' day, x::interval(1) = 'x', x::interval(1) - '1'",
                "interval(1), interval '1' day, x::interval(1) = 'x', x::interval(1) - '1'",
            ),
            (
                "max(interval) + date '2000-01-01'",
                "max(interval) + date '2000-01-01'",
            ),
            ("SELECT a AS isnull", "SELECT a AS isnull"),
            ("\"isnull\" + 1", "\"isnull\" + 1"),
            ("trim(both from x)", "trim(both ' ' from x)"),
            ("trim(FROM x)", "trim(' ' FROM x)"),
            ("trim(both 'a' from x)", "trim(both 'a' from x)"),
            ("a BETWEEN ASYMMETRIC 1 AND 2", "a BETWEEN  1 AND 2"),
            ("a BETWEEN SYMMETRIC 1 AND 2", "a BETWEEN !!  1 AND 2"),
            ("a SIMILAR TO 'x'", "a SIMILAR TO 'x'"),
            ("FETCH FIRST 5 ROWS ONLY", "FETCH FIRST 5 ROWS ONLY"),
            ("1 AS only", "1 AS only"),
            (
                "current_role = \"current_role\"",
                "CURRENT_USER = \"current_role\"",
            ),
            (
                "current_catalog, current_schema, current_schema()",
                "current_database(), current_schema(), current_schema()",
            ),
            (
                "t.current_role AS current_schema",
                "t.current_role AS current_schema",
            ),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql)
                .tokenize_with_location()
                .unwrap();
            let written: String = write_out(tokens)
                .unwrap()
                .iter()
                .map(|t| t.token.to_string())
                .collect();
            assert_eq!(written, wanted, "{sql}");
        }
        for refused in [
            "k NOT NULL",
            "date NOT NULL",
            "E'x' not null",
            "(1) NOT NULL",
            "$1 NOT NULL",
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, refused)
                .tokenize_with_location()
                .unwrap();
            assert_eq!(
                write_out(tokens).unwrap_err().sqlstate,
                "42601",
                "{refused}"
            );
        }
        for refused in [
            "interval(1) '1.55 s'",
            "interval(1)- '1.55 s'",
            "INTERVAL ( 3 ) E'1 s'",
            "interval second(1) $$1.55$$",
            "interval year to month '5'",
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, refused)
                .tokenize_with_location()
                .unwrap();
            assert!(write_out(tokens).is_err(), "{refused}");
        }
        for refused in [
            "substring(a SIMILAR 'x' ESCAPE '#')",
            "FROM only t",
            "FROM a, ONLY (t)",
            "WITH only AS (SELECT 1)",
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, refused)
                .tokenize_with_location()
                .unwrap();
            assert!(write_out(tokens).is_err(), "{refused}");
        }
    }
}
