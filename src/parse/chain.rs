//! Bounds how deep a statement's tree can be before it is parsed. The parser counts nesting, but `1 + 1 + 1 + …` is as deep a tree without any, and everything
//! that walks it afterwards (printing, comparing, dropping) is recursive: one statement could overflow the stack of the whole proxy.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::refusal::{Refusal, sqlstate};

/// Most operators and keywords on the way from a statement's start into any expression of it.
const LENGTH_MAX: u32 = 250;

/// How often what stands deepest may be read, as a power of two: the parser reads some constructs in one way to their end, and then anew in another.
const RETRIES_MAX: usize = 8;

/// Stack that walking the deepest tree within that length takes, with a wide margin. A thread that has four times as much never makes room in passing.
pub const STACK_BYTES: usize = 8 << 20;

/// Runs what walks a whole tree where there is room for it: a thread's own stack may be small.
pub fn with_room<T>(walk: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_BYTES, 4 * STACK_BYTES, walk)
}

/// # Errors
/// 54001 for a chain of operators that is too long.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    check_retries(tokens)?;
    // Length of the chain at the start of each open parenthesis, and now.
    let mut open: Vec<(u32, u32)> = Vec::new();
    let (mut base, mut length) = (0_u32, 0_u32);
    for TokenWithSpan { token, span: _ } in tokens {
        let keyword = keyword(token);
        match token {
            // The branches of a CASE stand side by side, too.
            Token::Word(_) if keyword == Keyword::CASE => {
                length += 1;
                open.push((base, length));
                base = length;
            }
            Token::Word(_) if keyword == Keyword::WHEN => length = base,
            Token::Word(_) if keyword == Keyword::END => (base, length) = open.pop().unwrap_or((base, length)),
            Token::LParen | Token::LBracket | Token::LBrace => {
                length += 1;
                open.push((base, length));
                base = length;
            }
            Token::RParen | Token::RBracket | Token::RBrace => (base, length) = open.pop().unwrap_or((base, length)),
            // Members of a list stand side by side.
            Token::Comma => length = base,
            Token::SemiColon => {
                open.clear();
                (base, length) = (0, 0);
            }
            Token::Whitespace(_) | Token::EOF | Token::Period | Token::Number(..) | Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => {
            }
            Token::Word(_) if keyword == Keyword::NoKeyword => {}
            // Each level of a set operation holds a whole query.
            Token::Word(_) if matches!(keyword, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT) => length += 8,
            _ => length += 1,
        }
        if length > LENGTH_MAX {
            return Err(Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, "statement is too complex")
                .detail(format!("At most {LENGTH_MAX} operators and keywords in a row are read.")));
        }
    }
    Ok(())
}

fn keyword(token: &Token) -> Keyword {
    if let Token::Word(Word { value: _, quote_style: _, keyword }) = token { *keyword } else { Keyword::NoKeyword }
}

/// # Errors
/// 54001 where too much would be read again and again.
fn check_retries(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    let tokens: Vec<&Token> = tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    // At each open parenthesis, what it and those around it weigh.
    let mut open: Vec<usize> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen => {
                let before = at.checked_sub(1).map_or(Keyword::NoKeyword, |before| keyword(tokens[before]));
                let weight = open.last().copied().unwrap_or(0) + retries(before, tokens.get(at + 1).copied());
                if weight > RETRIES_MAX {
                    return Err(Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, "statement is nested too deeply")
                        .detail("At most eight of IN (SELECT …) are read within each other, and four of IN ((…)) and POSITION (…)."));
                }
                open.push(weight);
            }
            Token::RParen => drop(open.pop()),
            Token::SemiColon => open.clear(),
            _ => {}
        }
    }
    Ok(())
}

/// What a parenthesis weighs, by what stands before it and first in it. Of what PostgreSQL takes, `IN (SELECT …)` is read once.
fn retries(before: Keyword, first: Option<&Token>) -> usize {
    match (before, first) {
        (Keyword::POSITION, _) | (Keyword::IN, Some(Token::LParen)) => 2,
        (Keyword::IN, Some(first)) => match keyword(first) {
            Keyword::SELECT | Keyword::WITH => 1,
            Keyword::VALUES | Keyword::VALUE | Keyword::TABLE | Keyword::INSERT | Keyword::UPDATE | Keyword::DELETE | Keyword::MERGE => 2,
            _ => 0,
        },
        _ => 0,
    }
}
