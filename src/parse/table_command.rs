//! `TABLE name` is `SELECT * FROM name`: written out before it is parsed, since the parser loses
//! the text after the name.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::grammar;
use super::limits::depth::keyword;
use crate::refusal::Refusal;

/// # Errors
/// 42601 for `TABLE name label`: to PostgreSQL this command takes no label.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    let words: Vec<&TokenWithSpan> = tokens
        .iter()
        .filter(|t| !matches!(t.token, Token::Whitespace(_)))
        .collect();
    for (at, token) in words.iter().enumerate() {
        let begins = at == 0 || begins_a_query(&words[at - 1].token);
        if keyword(&token.token) != Keyword::TABLE || !begins {
            continue;
        }
        let mut end = at + 1;
        if words
            .get(end)
            .is_some_and(|next| keyword(&next.token) == Keyword::ONLY)
        {
            end += 1;
        }
        while matches!(words.get(end + 1), Some(next) if next.token == Token::Period) {
            end += 2;
        }
        if let Some(label) = words.get(end + 1)
            && let Token::Word(word) = &label.token
            && !follows(word.keyword)
        {
            return Err(grammar::syntax_error_near(&word.value)
                .at(u32::try_from(label.span.start.column).ok()));
        }
    }
    Ok(())
}

/// Whether the token may stand before a query.
fn begins_a_query(before: &Token) -> bool {
    use Keyword as K;
    let sets = [K::UNION, K::INTERSECT, K::EXCEPT, K::ALL, K::DISTINCT];
    *before == Token::LParen || sets.contains(&keyword(before))
}

/// Whether the keyword may follow `TABLE name`.
fn follows(keyword: Keyword) -> bool {
    use Keyword as K;
    let sets = [K::UNION, K::INTERSECT, K::EXCEPT];
    let rows = [K::ORDER, K::LIMIT, K::OFFSET, K::FETCH, K::FOR, K::WHERE];
    sets.contains(&keyword) || rows.contains(&keyword)
}

/// TABLE is a reserved word: in a query it is this command, stands after INTO, or is a label.
pub(super) fn write_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_query = tokens
        .iter()
        .map(|t| &t.token)
        .find(|t| !matches!(t, Token::Whitespace(_) | Token::LParen))
        .is_some_and(|first| {
            matches!(
                keyword(first),
                Keyword::TABLE | Keyword::SELECT | Keyword::WITH | Keyword::VALUES
            )
        });
    if !is_query {
        return tokens;
    }
    let mut written = Vec::with_capacity(tokens.len());
    let mut before = Token::EOF;
    for TokenWithSpan { token, span } in tokens {
        let is_name =
            before == Token::Period || matches!(keyword(&before), Keyword::INTO | Keyword::AS);
        if keyword(&token) == Keyword::TABLE && !is_name {
            let space = Token::Whitespace(Whitespace::Space);
            let words = [
                Token::make_keyword("SELECT"),
                space.clone(),
                Token::Mul,
                space,
                Token::make_keyword("FROM"),
            ];
            written.extend(words.map(|token| TokenWithSpan { token, span }));
        } else {
            if !matches!(token, Token::Whitespace(_)) {
                before = token.clone();
            }
            written.push(TokenWithSpan { token, span });
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, parse};

    #[test]
    fn a_label_is_no_command() {
        for (sql, wanted) in [
            ("TABLE t", "SELECT * FROM t"),
            ("SELECT 1 AS table", "SELECT 1 AS table"),
            ("SELECT x.table FROM x", "SELECT x.table FROM x"),
            (
                "WITH x AS (TABLE t) TABLE x",
                "WITH x AS (SELECT * FROM t) SELECT * FROM x",
            ),
        ] {
            let statements = parse(sql).unwrap();
            let [Statement::Query(query)] = statements.as_slice() else {
                panic!("{sql}")
            };
            assert_eq!(query.to_sql(), wanted);
        }
    }
}
