//! Phrases of PostgreSQL's grammar that the parser does not read, written out as others of the same meaning before it sees them.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

use crate::refusal::Refusal;

/// Stands before the lower end of BETWEEN SYMMETRIC until the tree is there: an operator that PostgreSQL no longer has, and that nothing else reads.
pub(super) const SYMMETRIC: sqlparser::ast::UnaryOperator = sqlparser::ast::UnaryOperator::PGPrefixFactorial;

fn word(token: &Token) -> Option<(Keyword, &str)> {
    match token {
        Token::Word(Word { value, quote_style: None, keyword }) => Some((*keyword, value)),
        _ => None,
    }
}

/// # Errors
/// 0A000 for a phrase that nothing else says.
pub(super) fn write_out(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, Refusal> {
    let next = next_words(&tokens);
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The two tokens before, without blanks.
    let (mut before, mut earlier) = (Token::EOF, Token::EOF);
    for (TokenWithSpan { token, span }, next) in tokens.into_iter().zip(next) {
        let was = |wanted: Keyword| word(&before).is_some_and(|(k, _)| k == wanted);
        let mut push = |tokens: &[Token]| written.extend(tokens.iter().map(|token| TokenWithSpan { token: token.clone(), span }));
        let space = Token::Whitespace(Whitespace::Space);
        match word(&token) {
            Some((Keyword::ASYMMETRIC, _)) if was(Keyword::BETWEEN) => continue,
            Some((Keyword::SYMMETRIC, _)) if was(Keyword::BETWEEN) => push(&[Token::DoubleExclamationMark, space]),
            Some((_, name)) if name.eq_ignore_ascii_case("isnull") && ends_a_value(&before) && next != Token::LParen => {
                push(&[Token::make_keyword("IS"), space, Token::make_keyword("NULL")]);
            }
            Some((Keyword::FROM, _)) if trims(&before, &earlier) => push(&[Token::SingleQuotedString(" ".to_owned()), space, token.clone()]),
            Some((Keyword::SIMILAR, _)) if !matches!(word(&next), Some((Keyword::TO, _))) && ends_a_value(&before) => {
                return Err(Refusal::unsupported("SUBSTRING … SIMILAR").hint("Write substring(x FROM 'regular expression')."));
            }
            _ => push(std::slice::from_ref(&token)),
        }
        if !matches!(token, Token::Whitespace(_)) {
            earlier = std::mem::replace(&mut before, token);
        }
    }
    Ok(written)
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

/// A name, a constant or a closing bracket: after it, a word is an operator or an alias. ISNULL is reserved, so that it is no alias without AS.
fn ends_a_value(before: &Token) -> bool {
    match before {
        Token::Word(Word { value: _, quote_style: Some(_), keyword: _ }) => true,
        Token::Word(Word { value: _, quote_style: None, keyword }) => !matches!(
            keyword,
            Keyword::AS | Keyword::SELECT | Keyword::WHERE | Keyword::BY | Keyword::FROM | Keyword::AND | Keyword::OR | Keyword::NOT
        ),
        Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen | Token::RBracket | Token::Placeholder(_) => true,
        _ => false,
    }
}

/// `TRIM(FROM x)`, `TRIM(BOTH FROM x)`: blanks are trimmed.
fn trims(before: &Token, earlier: &Token) -> bool {
    let is_trim = |token: &Token| matches!(word(token), Some((Keyword::TRIM, _)));
    match word(before) {
        Some((Keyword::BOTH | Keyword::LEADING | Keyword::TRAILING, _)) => *earlier == Token::LParen,
        _ => *before == Token::LParen && is_trim(earlier),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    #[test]
    fn phrases_are_written_out() {
        for (sql, wanted) in [
            ("a ISNULL", "a IS NULL"),
            ("(a) isnull and b", "(a) IS NULL and b"),
            ("SELECT a AS isnull", "SELECT a AS isnull"),
            ("\"isnull\" + 1", "\"isnull\" + 1"),
            ("trim(both from x)", "trim(both ' ' from x)"),
            ("trim(FROM x)", "trim(' ' FROM x)"),
            ("trim(both 'a' from x)", "trim(both 'a' from x)"),
            ("a BETWEEN ASYMMETRIC 1 AND 2", "a BETWEEN  1 AND 2"),
            ("a BETWEEN SYMMETRIC 1 AND 2", "a BETWEEN !!  1 AND 2"),
            ("a SIMILAR TO 'x'", "a SIMILAR TO 'x'"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
            let written: String = write_out(tokens).unwrap().iter().map(|t| t.token.to_string()).collect();
            assert_eq!(written, wanted, "{sql}");
        }
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, "substring(a SIMILAR 'x' ESCAPE '#')").tokenize_with_location().unwrap();
        assert!(write_out(tokens).is_err());
    }
}
