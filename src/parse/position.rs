//! Positions in the client's text, in characters from 1, as PostgreSQL counts. The tokens are
//! renumbered before parsing, so that every span of the tree has its position as the column.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Word};

use super::{Query, SIGNS};
use crate::visit;

/// Makes each token's column its position in the whole text.
pub(super) fn set_positions(tokens: &mut [TokenWithSpan], sql: &str) {
    let mut lines = vec![0];
    for (at, c) in sql.chars().enumerate() {
        if c == '\n' {
            lines.push(at as u64 + 1);
        }
    }
    let position = |place: Location| match place
        .line
        .checked_sub(1)
        .and_then(|line| lines.get(line as usize))
    {
        Some(start) => Location {
            line: 1,
            column: start + place.column,
        },
        None => Location { line: 0, column: 0 },
    };
    for TokenWithSpan { token: _, span } in tokens {
        *span = Span {
            start: position(span.start),
            end: position(span.end),
        };
    }
}

/// The operators, keywords, punctuation and the end of a text: the place of each, and a digest of
/// its text. The syntax tree has no places for them.
#[derive(Debug, Clone, Default)]
pub struct TokenPositions(Arc<[(u32, u32)]>);

/// Positions are not part of a query's meaning.
impl PartialEq for TokenPositions {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl TokenPositions {
    pub(super) fn of(tokens: &[TokenWithSpan]) -> Self {
        let mark = |TokenWithSpan { token, span }: &TokenWithSpan| {
            let written = match token {
                Token::Word(
                    Word {
                        keyword: Keyword::NoKeyword,
                        ..
                    }
                    | Word {
                        quote_style: Some(_),
                        ..
                    },
                ) => return None,
                Token::Word(Word { value, .. }) => value.to_ascii_uppercase(),
                sign => Some(sign.to_string()).filter(|sign| {
                    sign.chars()
                        .all(|c| SIGNS.contains(c) || ":,.;()[]{}".contains(c))
                })?,
            };
            Some((u32::try_from(span.start.column).ok()?, digest(&written)))
        };
        let end = tokens
            .last()
            .and_then(|last| u32::try_from(last.span.end.column).ok())
            .map(|end| (end, END));
        Self(tokens.iter().filter_map(mark).chain(end).collect())
    }

    /// Where this sign or keyword in upper case last stands before a position.
    pub(crate) fn last_before(&self, written: &str, position: u32) -> Option<u32> {
        self.between(digest(written), 0, position).last()
    }

    /// Where these keywords in upper case first follow each other from a position on.
    pub(crate) fn phrase_from(&self, words: [&str; 2], position: u32) -> Option<u32> {
        let [first, second] = words.map(digest);
        self.0
            .windows(2)
            .find(|pair| pair[0].0 >= position && pair[0].1 == first && pair[1].1 == second)
            .map(|pair| pair[0].0)
    }

    /// The mark of this kind with this index between two positions.
    fn nth(&self, kind: u32, (after, before): (u32, u32), nth: usize) -> Option<u32> {
        self.between(kind, after, before).nth(nth)
    }

    fn between(&self, kind: u32, after: u32, before: u32) -> impl Iterator<Item = u32> {
        self.0
            .iter()
            .filter(move |(at, digest)| *digest == kind && after < *at && *at < before)
            .map(|(at, _)| *at)
    }
}

impl Query {
    /// The place, in the client's text, of the name, constant, operator or keyword at this position
    /// of [`Self::to_sql`].
    pub fn place_of_printed(&self, printed: u32) -> Option<u32> {
        let text = self.to_sql();
        let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, &text)
            .tokenize_with_location()
            .ok()?;
        set_positions(&mut tokens, &text);
        let again = super::query(tokens, &text).ok()?;
        // Of each name and constant: where it is printed, and where the client wrote it.
        let mut pairs: Vec<(u32, u32)> =
            places(&again.0).into_iter().zip(places(&self.0)).collect();
        pairs.sort_unstable();
        let next = pairs.partition_point(|(here, _)| *here < printed);
        match pairs.get(next) {
            Some((here, written)) if *here == printed => {
                Some(*written).filter(|written| *written > 0)
            }
            following => {
                let (after, left) = next.checked_sub(1).map_or((0, 0), |before| pairs[before]);
                let right = following.map_or(u32::MAX, |(_, written)| *written);
                let (_, kind) = again.1.0.iter().find(|(at, _)| *at == printed)?;
                let others = again.1.between(*kind, after, printed).count();
                self.1.nth(*kind, (left, right), others)
            }
        }
    }
}

/// Stands for the end of a text.
const END: u32 = 0;

fn digest(written: &str) -> u32 {
    let mut digest = DefaultHasher::new();
    written.hash(&mut digest);
    digest.finish() as u32
}

/// The positions of all names and constants, in one order for equal trees.
fn places(query: &ast::Query) -> Vec<u32> {
    struct Places(Vec<u32>);
    impl ast::Visitor for Places {
        type Break = ();
        fn pre_visit_ident(&mut self, ident: &ast::Ident) -> ControlFlow<()> {
            self.0.push(start_of(ident.span));
            ControlFlow::Continue(())
        }
        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<()> {
            self.0.push(start_of(value.span));
            ControlFlow::Continue(())
        }
    }
    let mut places = Places(Vec::new());
    let _ = visit::visit(query, &mut places);
    places.0
}

/// The position in the text where a part of the syntax tree begins; 0 where it is not known.
pub(super) fn start_of(span: Span) -> u32 {
    u32::try_from(span.start.column).unwrap_or(0)
}
