//! Bounds how deep a statement's tree can be before it is parsed. The parser counts nesting, but `1 + 1 + 1 + …` is as deep a tree without any, and everything
//! that walks it afterwards (printing, comparing, dropping) is recursive: one statement could overflow the stack of the whole proxy.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::refusal::{Refusal, sqlstate};

/// Most operators and keywords on the way from a statement's start into any expression of it.
const LENGTH_MAX: u32 = 250;

/// Stack that walking the deepest tree within that length takes, with a wide margin. A thread that has four times as much never makes room in passing.
pub const STACK_BYTES: usize = 8 << 20;

/// Runs what walks a whole tree where there is room for it: a thread's own stack may be small.
pub fn with_room<T>(walk: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_BYTES, 4 * STACK_BYTES, walk)
}

/// # Errors
/// 54001 for a chain of operators that is too long.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    // Length of the chain at the start of each open parenthesis, and now.
    let mut open: Vec<(u32, u32)> = Vec::new();
    let (mut base, mut length) = (0_u32, 0_u32);
    for TokenWithSpan { token, span: _ } in tokens {
        let keyword = if let Token::Word(Word { value: _, quote_style: _, keyword }) = token { *keyword } else { Keyword::NoKeyword };
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
