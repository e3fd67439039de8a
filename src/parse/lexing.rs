//! Where PostgreSQL's words end elsewhere than sqlparser's: such a text is another statement to it, or none. Refused, as PostgreSQL refuses it.

use sqlparser::ast::DollarQuotedString;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::refusal::{Refusal, sqlstate};

/// What operators are made of, in PostgreSQL's lexer (scan.l).
const SIGNS: &str = "+-*/<>=~!@#%^&|`?";
/// With one of these in it an operator may end in a plus or minus.
const OTHER_SIGNS: &str = "~!@#^&|`?%";

/// # Requires
/// The tokens' columns are positions in the text, from 1.
///
/// # Errors
/// 42883 for operators that stand together without a space and are one operator to PostgreSQL; 42601 for a dollar-quoted constant whose tag begins with a digit,
/// which PostgreSQL reads as a parameter.
pub(super) fn check(tokens: &[TokenWithSpan], sql: &str) -> Result<(), Refusal> {
    let text: Vec<char> = sql.chars().collect();
    let mut starts = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF)).map(place).peekable();
    for token in tokens {
        if let Token::DollarQuotedString(DollarQuotedString { value: _, tag: Some(tag) }) = &token.token
            && tag.starts_with(|c: char| c.is_ascii_digit())
        {
            let position = u32::try_from(token.span.start.column).ok();
            return Err(Refusal::new(sqlstate::SYNTAX_ERROR, "a dollar-quoted constant's tag must not begin with a digit").at(position));
        }
    }
    while let Some(start) = starts.next() {
        let mut rest = signs(&text, start);
        let mut at = start;
        while !rest.is_empty() {
            // After a first operator that was cut, only pluses and minuses are left: each is one.
            let (operator, more) = rest.split_at(if at == start { length(rest) } else { 1 });
            (at, rest) = (at + operator.len(), more);
            // The next of sqlparser's words may begin here, and not inside of the operator. One word of several operators is printed as it is, and read as several.
            let next = starts.next_if(|next| *next < at || (*next == at && !more.is_empty()));
            if next.is_some_and(|next| next != at) {
                let operator: String = operator.iter().collect();
                return Err(Refusal::new(sqlstate::UNDEFINED_FUNCTION, format!("operator does not exist: {operator}"))
                    .detail("Signs that stand together are one operator.")
                    .hint("Put a space between the operators.")
                    .at(u32::try_from(start + 1).ok()));
            }
        }
    }
    Ok(())
}

/// From 0; past the end where it is not known.
fn place(token: &TokenWithSpan) -> usize {
    usize::try_from(token.span.start.column).ok().and_then(|column| column.checked_sub(1)).unwrap_or(usize::MAX)
}

/// The signs that stand together from here on, up to a comment.
fn signs(text: &[char], start: usize) -> &[char] {
    let run = text.get(start..).unwrap_or_default();
    let ends = |at: &usize| !SIGNS.contains(run[*at]) || matches!(run[*at..], ['-', '-', ..] | ['/', '*', ..]);
    &run[..(0..run.len()).find(ends).unwrap_or(run.len())]
}

/// How many of these signs are PostgreSQL's first operator.
fn length(signs: &[char]) -> usize {
    let is_sum = |at: usize| matches!(signs[at - 1], '+' | '-');
    let mut length = signs.len();
    if length > 1 && is_sum(length) && !signs[..length - 1].iter().any(|c| OTHER_SIGNS.contains(*c)) {
        while length > 1 && is_sum(length) {
            length -= 1;
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn operators_end_where_postgresqls_end() {
        for one in ["2^-1", "1!=-1", "1=~1", "2*-~1"] {
            let refusal = parse(&format!("SELECT {one}")).unwrap_err();
            assert_eq!(refusal.sqlstate, "42883", "{one}: {refusal}");
        }
        for several in ["1=-1", "1<>-1", "2*-1", "2/-1", "1+-1", "2 ^ -1", "1 != -1", "1!=2", "1>=2", "+1"] {
            assert!(parse(&format!("SELECT {several}")).is_ok(), "{several}");
        }
    }

    #[test]
    fn signs_are_printed_apart() {
        for (written, printed) in [("- -1", "-(-1)"), ("+ ~ race", "+(~race)"), ("- + - x", "-(+(-x))"), ("NOT NOT a", "NOT NOT a"), ("-1", "-1")] {
            let statements = parse(&format!("SELECT {written}")).unwrap();
            let [crate::parse::Statement::Query(query)] = statements.as_slice() else { panic!("{written}") };
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
