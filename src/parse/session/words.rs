//! A cursor over the tokens of one statement, for the small grammars of session statements.

use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::parse::grammar::syntax_error_at;
use crate::refusal::Refusal;

/// Tokens without whitespace and comments, read left to right.
pub(super) struct Words<'a> {
    tokens: Vec<&'a TokenWithSpan>,
    at: usize,
    sql: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(tokens: &'a [TokenWithSpan], sql: &'a str) -> Self {
        let tokens = tokens
            .iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
            .collect();
        Self { tokens, at: 0, sql }
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at).map(|token| &token.token)
    }

    /// Where the next token begins.
    pub(super) fn place(&self) -> Option<u32> {
        let token = self.tokens.get(self.at)?;
        u32::try_from(token.span.start.column).ok()
    }

    /// Where the token that was taken last begins.
    pub(super) fn last_place(&self) -> Option<u32> {
        let token = self.tokens.get(self.at.checked_sub(1)?)?;
        u32::try_from(token.span.start.column).ok()
    }

    /// The next word in upper case, where it is an unquoted one.
    pub(super) fn peek_keyword(&self) -> Option<String> {
        match self.peek()? {
            Token::Word(Word {
                value,
                quote_style: None,
                keyword: _,
            }) => Some(value.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// Takes the next token if it is this unquoted word.
    pub(super) fn keyword(&mut self, wanted: &str) -> bool {
        let found = self.peek_keyword().is_some_and(|word| word == wanted);
        self.at += usize::from(found);
        found
    }

    /// Takes several words, or leaves all of them.
    pub(super) fn keywords(&mut self, wanted: &[&str]) -> bool {
        let start = self.at;
        let found = wanted.iter().all(|word| self.keyword(word));
        if !found {
            self.at = start;
        }
        found
    }

    pub(super) fn any_keyword(&mut self, wanted: &[&str]) -> Option<String> {
        let word = self
            .peek_keyword()
            .filter(|word| wanted.contains(&word.as_str()))?;
        self.at += 1;
        Some(word)
    }

    pub(super) fn token(&mut self, wanted: &Token) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// An identifier, folded to lower case unless quoted.
    pub(super) fn identifier(&mut self) -> Result<String, Refusal> {
        match self.peek() {
            Some(Token::Word(Word {
                value,
                quote_style,
                keyword: _,
            })) => {
                self.at += 1;
                Ok(if quote_style.is_some() {
                    value.clone()
                } else {
                    value.to_ascii_lowercase()
                })
            }
            _ => Err(self.syntax_error()),
        }
    }

    pub(super) fn string(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                self.at += 1;
                Some(text.clone())
            }
            Some(Token::DollarQuotedString(text)) => {
                self.at += 1;
                Some(text.value.clone())
            }
            _ => None,
        }
    }

    /// A number with its sign.
    pub(super) fn number(&mut self) -> Option<String> {
        let start = self.at;
        let sign = if self.token(&Token::Minus) {
            "-"
        } else {
            self.token(&Token::Plus);
            ""
        };
        match self.peek() {
            Some(Token::Number(digits, _)) => {
                self.at += 1;
                Some(format!("{sign}{digits}"))
            }
            _ => {
                self.at = start;
                None
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<&'a Token> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    /// The tokens between a parenthesis that opens here and its closing one; `None` if none opens
    /// here.
    pub(super) fn read_parenthesized(&mut self) -> Result<Option<Vec<TokenWithSpan>>, Refusal> {
        if !self.token(&Token::LParen) {
            return Ok(None);
        }
        let mut inside = Vec::new();
        let mut depth = 0_u32;
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => return Ok(Some(inside)),
                Token::RParen => depth -= 1,
                _ => {}
            }
            inside.push((*token).clone());
        }
        Err(self.syntax_error())
    }

    /// The remaining tokens, for sqlparser.
    pub(super) fn rest(&self) -> Vec<TokenWithSpan> {
        self.tokens
            .iter()
            .skip(self.at)
            .map(|token| (*token).clone())
            .collect()
    }

    pub(super) fn end(&self) -> Result<(), Refusal> {
        if self.at >= self.tokens.len() {
            Ok(())
        } else {
            Err(self.syntax_error())
        }
    }

    /// 42601 at the token that does not fit.
    pub(super) fn syntax_error(&self) -> Refusal {
        let (here, before) = (
            self.tokens.get(self.at),
            self.at.checked_sub(1).and_then(|at| self.tokens.get(at)),
        );
        let position = here.map_or_else(
            || before.map_or(1, |token| token.span.end.column),
            |token| token.span.start.column,
        );
        syntax_error_at(self.sql, u32::try_from(position).unwrap_or(u32::MAX))
    }
}
