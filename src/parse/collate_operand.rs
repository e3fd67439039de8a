//! `x::text COLLATE "C"`: the parser accepts COLLATE only after a simple operand, so parentheses
//! are put around the cast.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::desugar::ends_a_value;
use super::grammar;
use super::limits::depth::keyword;

pub(super) fn write_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let words: Vec<usize> = (0..tokens.len())
        .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
        .collect();
    let token = |nth: usize| &tokens[words[nth]].token;
    let mut parentheses: Vec<(usize, Token)> = Vec::new();
    for nth in (1..words.len()).filter(|nth| keyword(token(*nth)) == Keyword::COLLATE) {
        if let Some(start) = cast_before(&token, nth) {
            parentheses.push((words[start], Token::LParen));
            parentheses.push((words[nth], Token::RParen));
        }
    }
    if parentheses.is_empty() {
        return tokens;
    }
    // At one place, a closing parenthesis comes before an opening one.
    parentheses.sort_by_key(|(at, parenthesis)| (*at, *parenthesis == Token::LParen));
    let mut written = Vec::with_capacity(tokens.len() + parentheses.len());
    let mut left = parentheses.into_iter().peekable();
    for (at, token) in tokens.into_iter().enumerate() {
        while let Some((_, parenthesis)) = left.next_if(|(place, _)| *place == at) {
            written.push(TokenWithSpan {
                token: parenthesis,
                span: token.span,
            });
        }
        written.push(token);
    }
    written
}

/// Where the operand of the casts that end before this word begins; `None` if no cast ends there.
fn cast_before<'t>(token: &impl Fn(usize) -> &'t Token, end: usize) -> Option<usize> {
    let mut start = operand_before(token, end)?;
    let mut is_cast = false;
    while start > 0 && *token(start - 1) == Token::DoubleColon {
        is_cast = true;
        start = operand_before(token, start - 1)?;
    }
    is_cast.then_some(start)
}

/// Where the name, constant, call or type begins that ends before this word.
fn operand_before<'t>(token: &impl Fn(usize) -> &'t Token, end: usize) -> Option<usize> {
    let mut at = end.checked_sub(1)?;
    while matches!(token(at), Token::RParen | Token::RBracket) {
        at = opening(token, at)?;
        match at.checked_sub(1).map(token) {
            Some(before)
                if is_called(before) || matches!(before, Token::RParen | Token::RBracket) =>
            {
                at -= 1
            }
            _ if *token(at) == Token::LParen => return Some(at),
            _ => return None,
        }
    }
    if !ends_a_value(token(at)) || keyword(token(at)) == Keyword::END {
        return None;
    }
    while at >= 2 && *token(at - 1) == Token::Period {
        at -= 2;
    }
    // `double precision`, `date '2000-01-01'`.
    match at.checked_sub(1).map(token) {
        Some(Token::Word(Word {
            quote_style: None,
            keyword,
            ..
        })) if is_of_type(*keyword) => Some(at - 1),
        _ => (!would_be_called(token, at)).then_some(at),
    }
}

/// Whether a word stands before an operand that it would call, were that in parentheses: a column
/// with a label, or the type of a constant.
fn would_be_called<'t>(token: &impl Fn(usize) -> &'t Token, operand: usize) -> bool {
    let Some(before) = operand.checked_sub(1) else {
        return false;
    };
    let Token::Word(word) = token(before) else {
        return false;
    };
    if ends_a_value(token(before)) {
        let is_operator = grammar::is_reserved(&word.value) || word.keyword == Keyword::ZONE;
        return word.quote_style.is_some() || !is_operator;
    }
    // Where no operand stands before them, these name functions.
    let is_infix = before.checked_sub(1).is_some_and(|left| {
        ends_a_value(token(left)) || matches!(keyword(token(left)), Keyword::NOT | Keyword::END)
    });
    match word.keyword {
        Keyword::IS => true,
        Keyword::LIKE | Keyword::ILIKE => !is_infix,
        _ => false,
    }
}

/// The bracket that this one closes.
fn opening<'t>(token: &impl Fn(usize) -> &'t Token, closing: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for at in (0..=closing).rev() {
        match token(at) {
            Token::RParen | Token::RBracket => depth += 1,
            Token::LParen | Token::LBracket => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// A word before a bracket that belongs to what is in it: a function, a type or an array.
fn is_called(before: &Token) -> bool {
    let is_reserved = matches!(
        keyword(before),
        Keyword::IN
            | Keyword::FILTER
            | Keyword::OVER
            | Keyword::GROUP
            | Keyword::USING
            | Keyword::VALUES
    );
    matches!(before, Token::Word(_))
        && (ends_a_value(before) || keyword(before) == Keyword::ARRAY)
        && !is_reserved
}

fn is_of_type(word: Keyword) -> bool {
    matches!(
        word,
        Keyword::DOUBLE
            | Keyword::CHARACTER
            | Keyword::BIT
            | Keyword::DATE
            | Keyword::TIME
            | Keyword::TIMESTAMP
            | Keyword::INTERVAL
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, parse};

    #[test]
    fn casts_are_compared_by_a_collation() {
        for (written, read) in [
            ("'1'::text COLLATE \"C\"", "('1'::TEXT) COLLATE \"C\""),
            (
                "a.b::varchar(3)::text COLLATE \"C\" < c",
                "(a.b::VARCHAR(3)::TEXT) COLLATE \"C\" < c",
            ),
            (
                "1 + lower(x)::text collate pg_catalog.\"C\"",
                "1 + (lower(x)::TEXT) COLLATE pg_catalog.\"C\"",
            ),
            (
                "(a || b)::text COLLATE \"C\" || c::text COLLATE \"C\"",
                "((a || b)::TEXT) COLLATE \"C\" || (c::TEXT) COLLATE \"C\"",
            ),
            ("x[1]::text COLLATE \"C\"", "(x[1]::TEXT) COLLATE \"C\""),
            (
                "date '2000-01-01'::text COLLATE \"C\"",
                "(DATE '2000-01-01'::TEXT) COLLATE \"C\"",
            ),
            (
                "a LIKE 'x'::text COLLATE \"C\"",
                "a LIKE ('x'::TEXT) COLLATE \"C\"",
            ),
            (
                "a AT TIME ZONE b::text COLLATE \"C\"",
                "a AT TIME ZONE (b::TEXT) COLLATE \"C\"",
            ),
            ("a COLLATE \"C\"", "a COLLATE \"C\""),
        ] {
            let statements =
                parse(&format!("SELECT {written}")).unwrap_or_else(|e| panic!("{written}: {e}"));
            let [Statement::Query(query)] = statements.as_slice() else {
                panic!("{written}")
            };
            assert_eq!(query.to_sql(), format!("SELECT {read}"), "{written}");
        }
        // Expressions inside an IN or a window are not operands themselves.
        for other in [
            "a IN (1)::text COLLATE \"C\"",
            "count(*) OVER (w)::text COLLATE \"C\"",
            "CASE WHEN a THEN b END::text COLLATE \"C\"",
        ] {
            assert!(parse(&format!("SELECT {other}")).is_err(), "{other}");
        }
        // A word before the operand calls nothing.
        for other in [
            "a \"b\"::text COLLATE \"C\"",
            "day 'x'::text COLLATE \"C\"",
            "\"q\" 'x'::text COLLATE \"C\"",
            "IS NULL::text COLLATE \"C\"",
            "LIKE 'x'::text COLLATE \"C\"",
        ] {
            assert!(parse(&format!("SELECT {other}")).is_err(), "{other}");
        }
    }
}
