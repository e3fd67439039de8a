//! Limits the depth of a statement's tree before it is parsed. The parser limits nesting. But `1 +
//! 1 + 1 + …` makes a deep tree without nesting, and later walks of the tree (printing, comparing,
//! dropping) are recursive. One statement could overflow the stack of the whole proxy.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::refusal::{Refusal, reason};

/// Most operators and keywords between a statement and any of its parts. Those of nested parts are
/// added to those around them.
const LENGTH_MAX: u32 = 250;

/// How often the deepest part may be read, as a power of two. The parser reads some constructs to
/// their end in one way, and then again in another.
const RETRIES_MAX: usize = 8;

/// Stack needed to walk the deepest tree of that length, with a wide margin. A thread with four
/// times as much never has to grow its stack.
pub const STACK_BYTES: usize = 8 << 20;

/// Runs a walk of a whole tree with enough stack: a thread's own stack may be small.
pub fn with_room<T>(walk: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_BYTES, 4 * STACK_BYTES, walk)
}

/// Levels that each UNION, INTERSECT or EXCEPT may add to the depth of its arms: each arm holds a
/// whole query.
pub(in crate::parse) const SET_LEVELS: u32 = 6;

/// An open construct, and the height that its tree may have.
#[derive(Default)]
struct Open {
    is_case: bool,
    /// Operators and keywords since the last sibling began, plus the highest of the brackets and
    /// CASEs among them.
    length: u32,
    within: u32,
    /// The height of the highest sibling so far.
    siblings: u32,
    set_operations: u32,
    /// Joins may nest: the parser calls itself for those without ON.
    joins: u32,
}

impl Open {
    fn count(&mut self) {
        self.length = self.length.saturating_add(1);
    }

    /// Begins a new sibling.
    fn part(&mut self) {
        self.siblings = self.siblings.max(self.length.saturating_add(self.within));
        (self.length, self.within) = (0, 0);
    }

    fn height(mut self) -> u32 {
        self.part();
        self.siblings
            .saturating_add(self.set_operations.saturating_mul(SET_LEVELS))
            .saturating_add(self.joins)
    }
}

/// Never empty: the last one is the statement itself.
struct Heights(Vec<Open>);

impl Heights {
    fn top(&mut self) -> Option<&mut Open> {
        self.0.last_mut()
    }

    fn begin(&mut self, is_case: bool) {
        self.0.push(Open {
            is_case,
            ..Open::default()
        });
    }

    /// Ignores a closing bracket without an opening one.
    fn close(&mut self) {
        if self.0.len() > 1
            && let Some(closed) = self.0.pop()
            && let Some(around) = self.top()
        {
            let height = closed.height();
            around.count();
            around.within = around.within.max(height);
        }
    }

    fn closes_case(&self) -> bool {
        self.0.len() > 1 && self.0.last().is_some_and(|open| open.is_case)
    }

    /// Returns the height of the whole statement; then the next one begins.
    fn end(&mut self) -> u32 {
        while self.0.len() > 1 {
            self.close();
        }
        self.0.pop().map_or(0, |statement| {
            self.begin(false);
            statement.height()
        })
    }
}

/// # Errors
/// 54001 for a chain of operators that is too long.
pub(in crate::parse) fn check(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    check_retries(tokens)?;
    let mut heights = Heights(vec![Open::default()]);
    let mut before = &Token::EOF;
    for TokenWithSpan { token, span: _ } in tokens {
        if !matches!(token, Token::Whitespace(_)) {
            read(&mut heights, token, before)?;
            before = token;
        }
    }
    fits(heights.end())
}

fn fits(height: u32) -> Result<(), Refusal> {
    if height <= LENGTH_MAX {
        return Ok(());
    }
    Err(too_high())
}

pub(in crate::parse) fn too_high() -> Refusal {
    Refusal::new(reason::STATEMENT_TOO_COMPLEX, "statement is too complex").detail(format!(
        "At most {LENGTH_MAX} consecutive operators and keywords are read, counting those \
                inside and around parentheses. Each term of AND, OR, IN, CASE and UNION ALL is \
                counted by itself."
    ))
}

fn read(heights: &mut Heights, token: &Token, before: &Token) -> Result<(), Refusal> {
    match (token, keyword(token)) {
        (Token::Word(_), Keyword::CASE) => heights.begin(true),
        (Token::Word(_), Keyword::END) if heights.closes_case() => heights.close(),
        (Token::LParen | Token::LBracket | Token::LBrace, _) => heights.begin(false),
        (Token::RParen | Token::RBracket | Token::RBrace, _) => {
            // A closing bracket also ends the CASEs opened inside it.
            while heights.closes_case() {
                heights.close();
            }
            heights.close();
        }
        (Token::SemiColon, _) => fits(heights.end())?,
        (
            Token::EOF
            | Token::Period
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_),
            _,
        ) => {}
        _ => sibling_or_below(heights, token, before),
    }
    Ok(())
}

/// A token that neither opens nor closes a construct.
fn sibling_or_below(heights: &mut Heights, token: &Token, before: &Token) {
    // The branches of a CASE are siblings.
    let is_branch = heights.closes_case() && surely_ends_a_value(before);
    let Some(open) = heights.top() else { return };
    match (token, keyword(token)) {
        // The members of a list are siblings.
        (Token::Comma, _) => open.part(),
        (Token::Word(_), Keyword::WHEN) if is_branch => open.part(),
        (Token::Word(_), Keyword::NoKeyword) => {}
        (Token::Word(_), Keyword::JOIN) => open.joins = open.joins.saturating_add(1),
        // So are the terms of AND and OR: their chain is balanced after parsing.
        (Token::Word(_), Keyword::AND | Keyword::OR) => open.part(),
        (Token::Word(_), Keyword::ALL) if keyword(before) == Keyword::UNION => {
            open.set_operations = open.set_operations.saturating_sub(1)
        }
        (Token::Word(_), Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT) => {
            open.part();
            open.set_operations = open.set_operations.saturating_add(1);
        }
        _ => open.count(),
    }
}

/// After any other token a word is an operand. To the parser, even WHEN is.
pub(in crate::parse) fn surely_ends_a_value(before: &Token) -> bool {
    match before {
        Token::Word(_) => {
            matches!(
                keyword(before),
                Keyword::NoKeyword
                    | Keyword::CASE
                    | Keyword::END
                    | Keyword::NULL
                    | Keyword::TRUE
                    | Keyword::FALSE
            )
        }
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::RParen
        | Token::RBracket
        | Token::Placeholder(_) => true,
        _ => false,
    }
}

/// The keyword of a token. A quoted name is never a keyword.
pub(in crate::parse) fn keyword(token: &Token) -> Keyword {
    if let Token::Word(Word {
        value: _,
        quote_style: _,
        keyword,
    }) = token
    {
        *keyword
    } else {
        Keyword::NoKeyword
    }
}

/// # Errors
/// 54001 if a part would be read too often.
fn check_retries(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    let tokens: Vec<&Token> = tokens
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    // For each open parenthesis, its weight plus that of those around it.
    let mut open: Vec<usize> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen => {
                let before = at
                    .checked_sub(1)
                    .map_or(Keyword::NoKeyword, |before| keyword(tokens[before]));
                let weight = open.last().copied().unwrap_or(0)
                    + retries(before, tokens.get(at + 1).copied());
                if weight > RETRIES_MAX {
                    return Err(Refusal::new(
                        reason::NESTED_TOO_DEEPLY,
                        "statement is nested \
                        too deeply",
                    )
                    .detail(
                        "IN (SELECT …) can be nested at most eight deep; IN ((…)) and \
                            POSITION (…) at most four.",
                    ));
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

/// The weight of a parenthesis, given the word before it and the first token in it. In the forms
/// that PostgreSQL accepts, `IN (SELECT …)` is read once.
fn retries(before: Keyword, first: Option<&Token>) -> usize {
    match (before, first) {
        (Keyword::POSITION, _) | (Keyword::IN, Some(Token::LParen)) => 2,
        (Keyword::IN, Some(first)) => match keyword(first) {
            Keyword::SELECT | Keyword::WITH => 1,
            Keyword::VALUES
            | Keyword::VALUE
            | Keyword::TABLE
            | Keyword::INSERT
            | Keyword::UPDATE
            | Keyword::DELETE
            | Keyword::MERGE => 2,
            _ => 0,
        },
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn reads(sql: &str) -> bool {
        check(
            &Tokenizer::new(&PostgreSqlDialect {}, sql)
                .tokenize_with_location()
                .unwrap(),
        )
        .is_ok()
    }

    #[test]
    fn no_words_take_back_what_was_counted() {
        let repeated = |start: &str, part: &str, times: usize, end: &str| {
            format!("{start}{}{end}", part.repeat(times))
        };
        let nested = |part: &str| {
            format!(
                "SELECT {}{}",
                "(".repeat(50),
                format!("{}{part})", "1 +1".repeat(60)).repeat(50)
            )
        };
        for deep in [
            repeated("SELECT 1", " IS NULL", 300, ""),
            repeated("SELECT 1 ", "+when ", 300, ""),
            repeated("SELECT 1 case, 1 ", "+when ", 300, ""),
            repeated("SELECT 1 case, 1 ", "LIKE when ", 300, ""),
            repeated("SELECT 1,1", " UNION SELECT 1,1", 300, ""),
            repeated("SELECT 1,1", " EXCEPT ALL SELECT 1,1", 300, ""),
            repeated("SELECT x::int", "[]", 300, ""),
            repeated("SELECT case FROM b", " when JOIN b", 300, " end"),
            nested(""),
            nested(" +(end)"),
            repeated(
                "SELECT ",
                "(SELECT 1, 1 UNION ",
                80,
                &format!("SELECT 1, 1 {}", ") UNION SELECT 1, 1, 1".repeat(80)),
            ),
        ] {
            assert!(!reads(&deep), "{deep}");
        }
    }

    #[test]
    fn what_stands_side_by_side_is_not_added_up() {
        let branches = "WHEN a = 1 AND b THEN 'x' WHEN c THEN NULL ".repeat(5_000);
        let columns = vec!["a + b * (c - 1)"; 900].join(", ");
        let arms =
            vec!["SELECT a, b FROM t WHERE a > 1 AND b < 2 GROUP BY a"; 3_000].join(" UNION ALL ");
        let terms = vec!["a = 1 AND (b < 2 OR c IS NULL)"; 3_000].join(" OR ");
        for flat in [
            format!("SELECT CASE {branches} ELSE 1 END, {columns} FROM t"),
            arms,
            format!("SELECT {terms}"),
            "SELECT 1;".repeat(400),
        ] {
            assert!(reads(&flat), "{flat}");
        }
    }
}
