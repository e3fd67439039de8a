//! Places where sqlparser accepts a parameter (`$1`) and PostgreSQL does not.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::grammar;
use crate::refusal::{Refusal, reason};

/// A parameter has no fields and is not a field, but sqlparser reads `$1.$1` and `a.$1`.
pub(super) fn check(tokens: &[TokenWithSpan], sql: &str) -> Result<(), Refusal> {
    let is_word =
        |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let words: Vec<_> = tokens.iter().filter(is_word).collect();
    for (at, word) in words.iter().enumerate() {
        let neighbour = |at: Option<usize>| at.and_then(|at| words.get(at)).map(|w| &w.token);
        let before = neighbour(at.checked_sub(1));
        let position = |word: &TokenWithSpan| u32::try_from(word.span.start.column).ok();
        match (&word.token, before, neighbour(Some(at + 1))) {
            (Token::Placeholder(_), Some(Token::Period), _) => {
                return Err(grammar::syntax_error_at(sql, position(word).unwrap_or(1)));
            }
            (Token::Period, Some(Token::Placeholder(_)), Some(Token::Word(_) | Token::Mul)) => {
                return Err(Refusal::new(
                    reason::UNSUPPORTED_EXPRESSION,
                    "a field of a parameter is not supported",
                )
                .at(position(words[at - 1])));
            }
            (Token::Period, Some(Token::Placeholder(_)), next) => {
                let stop = next.map_or(sql.chars().count() as u64 + 1, |_| {
                    words[at + 1].span.start.column
                });
                let stop = u32::try_from(stop).unwrap_or(u32::MAX);
                return Err(grammar::syntax_error_at(sql, stop));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn parameters_have_no_fields() {
        for (sql, near, position) in [
            ("SELECT $1.$1 * sum(a) FROM t", "$1", 11),
            ("SELECT $1 . $2", "$2", 13),
            ("SELECT a.$1 FROM t", "$1", 10),
            ("SELECT $1.'a'", "'a'", 11),
            ("SELECT $1.", "", 11),
        ] {
            let refusal = parse(sql).unwrap_err();
            let place = match near {
                "" => "end of input".to_owned(),
                near => format!("or near \"{near}\""),
            };
            assert_eq!(refusal.message, format!("syntax error at {place}"), "{sql}");
            assert_eq!(refusal.position, Some(position), "{sql}");
        }
        for sql in ["SELECT $1.a", "SELECT $1.*", "SELECT $1 . \"A\""] {
            assert_eq!(parse(sql).unwrap_err().sqlstate, "0A000", "{sql}");
        }
        assert!(parse("SELECT $1, a.b FROM t a WHERE 1.5 < $2").is_ok());
    }
}
