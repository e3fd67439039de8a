//! Handles texts that PostgreSQL splits into tokens differently from sqlparser, and so would read
//! as another statement or reject. They are read as PostgreSQL reads them, or refused.

use sqlparser::ast::DollarQuotedString;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{
    Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError, Whitespace, Word,
};

use super::character_classes::{blanks, length, signs, starts_name};
use super::grammar;
use crate::refusal::{Refusal, RefusalKind, reason};

/// The tokens as PostgreSQL would have them, a run of blanks and comments as one blank.
///
/// # Requires
/// The tokens' columns are positions in the text, from 1.
///
/// # Errors
/// 42883 for adjacent operators that PostgreSQL reads as one operator; 42601 for a constant that
/// PostgreSQL rejects or reads as another one; 0A000 for a name with Unicode escapes.
pub(super) fn read(
    mut tokens: Vec<TokenWithSpan>,
    sql: &str,
) -> Result<Vec<TokenWithSpan>, Refusal> {
    drop_blanks(&mut tokens);
    let text: Vec<char> = sql.chars().collect();
    tokens.iter().try_for_each(|token| check(token, &text))?;
    let tokens = join_continued(split(tokens, &text), &text);
    check_operators(&tokens, &text)?;
    super::parameters::check(&tokens, sql)?;
    Ok(tokens)
}

/// The refusal of a text that the tokenizer cannot read.
pub(super) fn unread(error: &TokenizerError, sql: &str) -> Refusal {
    grammar::no_word(sql).unwrap_or_else(|| {
        let mut start = [TokenWithSpan {
            token: Token::EOF,
            span: Span::new(error.location, error.location),
        }];
        super::position::set_positions(&mut start, sql);
        Refusal::new(
            reason::UNSUPPORTED_SPELLING,
            "this constant or escape is not supported",
        )
        .hint(
            "Write non-ASCII characters directly, or as \\uXXXX or \\UXXXXXXXX in an E'…' \
                constant.",
        )
        .at(u32::try_from(start[0].span.start.column).ok())
    })
}

/// A refusal of [`read`], or PostgreSQL's message for a text that it cannot split into tokens
/// either.
pub(super) fn no_word(refusal: Refusal, sql: &str) -> Refusal {
    grammar::no_word(sql)
        .filter(|_| refusal.kind() == RefusalKind::Syntax)
        .unwrap_or(refusal)
}

/// The tokenizer makes one token per blank. Blanks have no further meaning, and the next pass would
/// carry a megabyte of them along.
fn drop_blanks(tokens: &mut Vec<TokenWithSpan>) {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    tokens.dedup_by(|next, token| is_blank(next) && is_blank(token));
    tokens.shrink_to_fit();
    for token in tokens.iter_mut().filter(|token| is_blank(token)) {
        token.token = Token::Whitespace(Whitespace::Space);
    }
}

fn check(token: &TokenWithSpan, text: &[char]) -> Result<(), Refusal> {
    let (start, end) = (place(token.span.start), place(token.span.end));
    let next = text.get(end).copied();
    let position = u32::try_from(token.span.start.column).ok();
    let refused = |message: &str| Err(Refusal::new(reason::SYNTAX_ERROR, message).at(position));
    let junk = || refused("trailing junk after numeric literal");
    match &token.token {
        Token::DollarQuotedString(DollarQuotedString {
            value: _,
            tag: Some(tag),
        }) if tag.starts_with(|c: char| c.is_ascii_digit()) => {
            refused("a dollar-quoted constant's tag must not begin with a digit")
        }
        // sqlparser reads `1L`, and `0x1F` as a constant of bits.
        Token::Number(_, is_long) if *is_long || next.is_some_and(starts_name) => junk(),
        // PostgreSQL reads a name and an alias.
        Token::DoubleQuotedByteStringLiteral(_) => {
            refused("a space is required between a name and a quoted name")
        }
        Token::HexStringLiteral(_) if text.get(start) == Some(&'0') => junk(),
        Token::EscapedStringLiteral(_)
            if escapes_otherwise(text.get(start..end).unwrap_or_default()) =>
        {
            refused("invalid escape in a string constant")
        }
        Token::Word(Word {
            value,
            quote_style: None,
            keyword: _,
        }) if value.eq_ignore_ascii_case("u")
            && matches!(text.get(end..), Some(['&', '"', ..])) =>
        {
            Err(Refusal::new(
                reason::UNSUPPORTED_SPELLING,
                "a name with Unicode escapes is not supported",
            )
            .hint("Write the name in double quotes, or put a space before the operator &.")
            .at(position))
        }
        _ => Ok(()),
    }
}

/// PostgreSQL rejects `\u+041`, and reads `\v` as a letter or a tab, depending on its version.
fn escapes_otherwise(mut constant: &[char]) -> bool {
    while let Some(at) = constant.iter().position(|c| *c == '\\') {
        match &constant[at + 1..] {
            ['v', ..] | ['u' | 'U', '+', ..] => return true,
            [_, rest @ ..] => constant = rest,
            [] => return false,
        }
    }
    false
}

/// sqlparser reads `>=-` as one operator; in PostgreSQL the minus is the sign of the next operand.
fn split(tokens: Vec<TokenWithSpan>, text: &[char]) -> Vec<TokenWithSpan> {
    let mut apart = Vec::with_capacity(tokens.len());
    for token in tokens {
        match sums_behind(&token, text) {
            Some((operator, sums)) => {
                let first = token.span.end.column - sums.len() as u64;
                let location = |column| Location { line: 1, column };
                apart.push(TokenWithSpan {
                    token: operator,
                    span: Span {
                        end: location(first),
                        ..token.span
                    },
                });
                apart.extend((first..).zip(sums).map(|(at, sign)| TokenWithSpan {
                    token: if *sign == '+' {
                        Token::Plus
                    } else {
                        Token::Minus
                    },
                    span: Span {
                        start: location(at),
                        end: location(at + 1),
                    },
                }));
            }
            None => apart.push(token),
        }
    }
    apart
}

/// The operator that PostgreSQL reads of such a token, and the pluses and minuses after it; `None`
/// where it is the whole, or a comment is taken for signs.
fn sums_behind<'t>(token: &TokenWithSpan, text: &'t [char]) -> Option<(Token, &'t [char])> {
    let Token::CustomBinaryOperator(written) = &token.token else {
        return None;
    };
    let together = signs(text, place(token.span.start));
    let (operator, sums) = together.split_at(length(together));
    if sums.is_empty() || together.len() != written.chars().count() {
        return None;
    }
    let operator: String = operator.iter().collect();
    let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, &operator)
        .tokenize()
        .ok()?;
    let operator = tokens.pop()?;
    tokens.is_empty().then_some((operator, sums))
}

/// A plain string constant goes on in the next, where a line ends between them.
fn join_continued(tokens: Vec<TokenWithSpan>, text: &[char]) -> Vec<TokenWithSpan> {
    let mut read: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        if let Token::SingleQuotedString(more) = &token.token
            && let [
                ..,
                TokenWithSpan {
                    token: Token::SingleQuotedString(constant),
                    span,
                },
                TokenWithSpan {
                    token: Token::Whitespace(_),
                    span: _,
                },
            ] = read.as_mut_slice()
            && text
                .get(place(span.end)..place(token.span.start))
                .is_some_and(is_continuation)
        {
            constant.push_str(more);
            span.end = token.span.end;
            read.pop();
        } else {
            read.push(token);
        }
    }
    read
}

fn is_continuation(between: &[char]) -> bool {
    blanks(between) == (between.len(), true)
}

fn check_operators(tokens: &[TokenWithSpan], text: &[char]) -> Result<(), Refusal> {
    let is_word =
        |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let mut words = tokens
        .iter()
        .filter(is_word)
        .map(|token| (place(token.span.start), token))
        .peekable();
    while let Some((start, token)) = words.next() {
        let mut rest = signs(text, start);
        check_operator(token, rest.len())?;
        let mut at = start;
        while !rest.is_empty() {
            // After a first operator that was cut, only pluses and minuses are left: each is one.
            let (operator, more) = rest.split_at(if at == start { length(rest) } else { 1 });
            (at, rest) = (at + operator.len(), more);
            // The next of sqlparser's words may begin here, and not inside of the operator. One
            // word of several operators is printed as it is, and read as several.
            let next = words.next_if(|(next, _)| *next < at || (*next == at && !more.is_empty()));
            if next.is_some_and(|(next, _)| next != at) {
                let operator: String = operator.iter().collect();
                return Err(Refusal::new(
                    reason::UNKNOWN_OPERATOR,
                    format!("operator does not exist: {operator}"),
                )
                .detail("Adjacent operator characters form one operator.")
                .hint("Put a space between the operators.")
                .at(u32::try_from(start + 1).ok()));
            }
        }
    }
    Ok(())
}

/// Checks an operator that sqlparser reads as one token, and of which PostgreSQL's operators cover
/// the first `signs` characters.
/// Where sqlparser reads an operator and PostgreSQL the beginning of a comment, the text that we
/// print would comment out what follows it. Then the contents of a later constant would be read as
/// SQL.
fn check_operator(token: &TokenWithSpan, signs: usize) -> Result<(), Refusal> {
    let length = place(token.span.end).saturating_sub(place(token.span.start));
    let refused = |message: String| {
        Refusal::new(reason::UNSUPPORTED_SPELLING, message)
            .at(u32::try_from(token.span.start.column).ok())
    };
    match &token.token {
        _ if signs > 0 && length > signs => Err(refused(
            "a comment right behind an operator is not supported".to_owned(),
        )
        .hint("Put a space before the comment.")),
        Token::CustomBinaryOperator(operator) => {
            Err(refused(format!("the operator {operator} is not supported")))
        }
        // sqlparser reads it as `=`; in PostgreSQL it is an undefined operator.
        Token::DoubleEq => Err(Refusal::new(
            reason::UNKNOWN_OPERATOR,
            "operator does not exist: ==",
        )
        .hint("Write =.")
        .at(u32::try_from(token.span.start.column).ok())),
        // sqlparser reads `<|` as the same operator.
        Token::ShiftLeftVerticalBar if length != 3 => Err(Refusal::new(
            reason::UNKNOWN_OPERATOR,
            "operator does not exist: <|",
        )
        .at(u32::try_from(token.span.start.column).ok())),
        _ => Ok(()),
    }
}

/// From 0; past the end where it is not known.
fn place(location: Location) -> usize {
    usize::try_from(location.column)
        .ok()
        .and_then(|column| column.checked_sub(1))
        .unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    /// The one query of a text, as it is printed.
    fn printed(sql: &str) -> String {
        printed_of(&parse(sql).unwrap())
    }

    fn printed_of(statements: &[super::super::Statement]) -> String {
        match statements {
            [super::super::Statement::Query(query)] => query.to_sql(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn operators_end_where_postgresqls_end() {
        for one in ["2^-1", "1!=-1", "1=~1", "2*-~1", "1*>=-1"] {
            let refusal = parse(&format!("SELECT {one}")).unwrap_err();
            assert_eq!(refusal.sqlstate, "42883", "{one}: {refusal}");
        }
        for several in [
            "1=-1", "1<>-1", "2*-1", "2/-1", "1+-1", "2 ^ -1", "1 != -1", "1!=2", "1>=2", "+1",
        ] {
            assert!(parse(&format!("SELECT {several}")).is_ok(), "{several}");
        }
        for (written, apart) in [
            ("a>=-1", "a >= -1"),
            ("a<>-b", "a <> -b"),
            ("a>-1", "a > -1"),
            ("a<=-+-1", "a <= -(+(-1))"),
            ("a->-1", "a -> -1"),
            ("a->>-1", "a ->> -1"),
            ("a<>+b", "a <> +b"),
        ] {
            assert_eq!(
                printed(&format!("SELECT {written}")),
                format!("SELECT {apart}"),
                "{written}"
            );
        }
        // PostgreSQL reads a comment there, and would read what follows it in the next line.
        for comment in [
            "1 >--2\n0",
            "1 >--\n'\n0, 1 --'",
            "1 >/* '*/ 0 --'",
            "'a'||--c\n'b'",
            "1 |/*c*/2",
            "j ?--c\n'a'",
            "a <@--c\nb",
            "1 OPERATOR(>--\n) 2",
            "~/*c*/1",
        ] {
            let refusal = parse(&format!("SELECT {comment}")).unwrap_err();
            assert_eq!(
                refusal.message, "a comment right behind an operator is not supported",
                "{comment}"
            );
        }
        for (comment, read) in [
            ("1 = --2\n0", "1 = 0"),
            ("1=--2\n0", "1 = 0"),
            ("2*/*c*/3", "2 * 3"),
            ("1 >= /*c*/0", "1 >= 0"),
        ] {
            assert_eq!(
                printed(&format!("SELECT {comment}")),
                format!("SELECT {read}"),
                "{comment}"
            );
        }
        for operator in ["a @@@ b", "a &&& b"] {
            assert!(parse(&format!("SELECT {operator}")).is_err(), "{operator}");
        }
        let refusal = parse("SELECT 1,\n  2*>=-x").unwrap_err();
        assert_eq!(
            (refusal.sqlstate.as_str(), refusal.position),
            ("42883", Some(14))
        );
    }

    #[test]
    fn what_is_printed_has_no_operator_that_was_not_written() {
        // The mark of SYMMETRIC is an operator to the parser, and stays where an operand cannot be
        // written twice; `!!#` would be one to PostgreSQL.
        let refusal = parse("SELECT (a BETWEEN SYMMETRIC 1 AND 2)::int BETWEEN SYMMETRIC #1 AND 2")
            .unwrap_err();
        assert_eq!(refusal.sqlstate, "0A000", "{refusal}");
        assert!(parse("SELECT ~ a ~ b\"x\" ~ b\"y\"!").is_err());
        assert!(
            parse("SELECT a ~ DATE ~ c !").map_or(true, |read| parse(&printed_of(&read)).is_ok())
        );
    }

    #[test]
    fn numbers_end_where_postgresqls_end() {
        for junk in [
            "1.5a", "1a", "1.a", "1e", "1E'x'", "0x1F", "0b1", "0o7", "1L", "1\u{e9}", "1_",
            "a + 12b", "1e5e",
        ] {
            let refusal = parse(&format!("SELECT {junk}")).unwrap_err();
            assert_eq!(refusal.sqlstate, "42601", "{junk}: {refusal}");
        }
        for plain in [
            "1 a", "1\"a\"", "1.5e3", "1.e5", ".5", "1::int", "1--\n+1", "a1.b2", "1.5 + 2",
        ] {
            assert!(parse(&format!("SELECT {plain}")).is_ok(), "{plain}");
        }
    }

    #[test]
    fn no_prefix_is_read_as_an_operand() {
        for (sql, sqlstate) in [
            ("U&\"d\\0061ta\"", "0A000"),
            ("u&\"x\" FROM t", "0A000"),
            ("E'\\v'", "42601"),
            ("E'\\u+041'", "42601"),
            ("E'\\\\\\U+0000041'", "42601"),
            ("E'\\303\\251'", "0A000"),
            ("E'\\xe9'", "0A000"),
            ("E'\\ud83d\\ude00'", "0A000"),
        ] {
            let refusal = parse(&format!("SELECT {sql}")).unwrap_err();
            assert_eq!(refusal.sqlstate, sqlstate, "{sql}: {refusal}");
        }
        for plain in [
            "u & \"x\"",
            "u &\"x\"",
            "u& \"x\"",
            "xu&\"x\"",
            "E'\\\\v\\u0041'",
            "E\"x\"",
            "n\"x\"",
            "\"u\"&\"x\"",
        ] {
            assert!(parse(&format!("SELECT {plain}")).is_ok(), "{plain}");
        }
    }

    #[test]
    fn constants_go_on_in_the_next_line() {
        for (written, one) in [
            ("'a'\n'b'", "'ab'"),
            ("'a' -- ''c'\n\t 'b''c'\r\n--\n'd'", "E'ab\\'cd'"),
            ("'a'--x\r'b'", "'ab'"),
            ("f('a'\n'b', 'c')", "f('ab', 'c')"),
            ("interval '1'\n'2' month", "INTERVAL '12' MONTH"),
        ] {
            assert_eq!(
                printed(&format!("SELECT {written}")),
                format!("SELECT {one}"),
                "{written:?}"
            );
        }
        for apart in [
            "'a' 'b'",
            "'a' /*\n*/ 'b'",
            "'a' /**/\n'b'",
            "E'a'\n'b'",
            "'a'\nE'b'",
            "'a'\u{b}\n'b'",
            "$$a$$\n'b'",
        ] {
            let read = parse(&format!("SELECT {apart}"));
            assert!(
                !read.is_ok_and(|all| format!("{all:?}").contains("\"ab\"")),
                "{apart:?}"
            );
        }
        let refusal = parse("SELECT 'a'\n'b' +").unwrap_err();
        assert_eq!(refusal.position, Some(17), "{refusal}");
        let refusal = parse("SELECT 'a'\n'b'   /* c */ , + ) x").unwrap_err();
        assert_eq!(refusal.position, Some(30), "{refusal}");
    }

    #[test]
    fn blanks_are_not_carried_along() {
        let sql = format!(
            "SELECT{}1{}+ x /* y */ -- z",
            " ".repeat(500_000),
            "/**/\n".repeat(100_000)
        );
        let mut tokens =
            sqlparser::tokenizer::Tokenizer::new(&sqlparser::dialect::PostgreSqlDialect {}, &sql)
                .tokenize_with_location()
                .unwrap();
        super::super::position::set_positions(&mut tokens, &sql);
        let read = super::read(tokens, &sql).unwrap();
        assert_eq!(
            read.iter()
                .map(|token| token.token.to_string())
                .collect::<String>(),
            "SELECT 1 + x "
        );
        assert_eq!(read[6].span.start.column, sql.chars().count() as u64 - 13);
    }

    #[test]
    fn signs_are_printed_apart() {
        for (written, printed) in [
            ("- -1", "-(-1)"),
            ("+ ~ race", "+(~race)"),
            ("- + - x", "-(+(-x))"),
            ("NOT NOT a", "NOT NOT a"),
            ("-1", "-1"),
        ] {
            let statements = parse(&format!("SELECT {written}")).unwrap();
            let [super::super::Statement::Query(query)] = statements.as_slice() else {
                panic!("{written}")
            };
            assert_eq!(query.to_sql(), format!("SELECT {printed}"));
        }
    }

    #[test]
    fn a_long_run_of_signs_is_read_once() {
        let sums = format!("SELECT 1 -{} 1", "+".repeat(1_000_000));
        let comments = format!("SELECT 1{} 1", "+/**********/".repeat(49_000));
        for sql in [sums, comments] {
            let text: Vec<char> = sql.chars().collect();
            assert!(super::signs(&text, 0).is_empty());
            // Read or refused: it comes to an end.
            let _ = parse(&sql);
        }
    }

    #[test]
    fn a_parameter_is_no_tag() {
        assert_eq!(parse("SELECT $1$x$1$").unwrap_err().sqlstate, "42601");
        assert!(parse("SELECT $a1$x$a1$, $$y$$, $1").is_ok());
    }
}
