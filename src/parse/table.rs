//! `TABLE name` is `SELECT * FROM name`: written out before it is parsed, since the parser loses what follows the name.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(Word { value: _, quote_style: None, keyword }) => *keyword,
        _ => Keyword::NoKeyword,
    }
}

/// TABLE is a reserved word: in a query it is this command, or stands after INTO.
pub(super) fn write_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_query = tokens
        .iter()
        .map(|t| &t.token)
        .find(|t| !matches!(t, Token::Whitespace(_) | Token::LParen))
        .is_some_and(|first| matches!(keyword(first), Keyword::TABLE | Keyword::SELECT | Keyword::WITH | Keyword::VALUES));
    if !is_query {
        return tokens;
    }
    let mut written = Vec::with_capacity(tokens.len());
    let mut before = Keyword::NoKeyword;
    for TokenWithSpan { token, span } in tokens {
        let word = keyword(&token);
        if word == Keyword::TABLE && before != Keyword::INTO {
            let space = Token::Whitespace(Whitespace::Space);
            let words = [Token::make_keyword("SELECT"), space.clone(), Token::Mul, space, Token::make_keyword("FROM")];
            written.extend(words.map(|token| TokenWithSpan { token, span }));
        } else {
            if !matches!(token, Token::Whitespace(_)) {
                before = word;
            }
            written.push(TokenWithSpan { token, span });
        }
    }
    written
}
