//! `GROUPING SETS (GROUPING SETS (a, b), c)` is `GROUPING SETS (a, b, c)`: the parser reads none
//! within another.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::limits::depth::keyword;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Sets,
    /// Sets within sets, whose words are left out.
    Within,
    Other,
}

pub(super) fn write_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut open = Vec::new();
    for token in tokens {
        match token.token {
            Token::LParen => {
                let sets = sets_before(&written);
                let is_within = matches!(open.last(), Some(Open::Sets | Open::Within));
                open.push(match sets {
                    Some(at) if is_within => {
                        written.truncate(at);
                        Open::Within
                    }
                    Some(_) => Open::Sets,
                    None => Open::Other,
                });
                if open.last() == Some(&Open::Within) {
                    continue;
                }
            }
            Token::RParen if open.pop() == Some(Open::Within) => continue,
            _ => {}
        }
        written.push(token);
    }
    written
}

/// Where GROUPING SETS begins, if these words end with it.
fn sets_before(written: &[TokenWithSpan]) -> Option<usize> {
    let mut words = written
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let (_, sets) = words.next()?;
    let (at, grouping) = words.next()?;
    (keyword(&sets.token) == Keyword::SETS && keyword(&grouping.token) == Keyword::GROUPING)
        .then_some(at)
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, parse};

    #[test]
    fn sets_within_sets_are_sets() {
        for (written, read) in [
            (
                "GROUPING SETS (GROUPING SETS (b), ())",
                "GROUPING SETS ((b), ())",
            ),
            (
                "GROUPING SETS ((a, b), grouping sets ((a), grouping sets (b), ()))",
                "GROUPING SETS ((a, b), (a), (b), ())",
            ),
            ("GROUPING SETS ((f(a)), b)", "GROUPING SETS ((f(a)), (b))"),
        ] {
            let statements = parse(&format!("SELECT 1 FROM t GROUP BY {written}"))
                .unwrap_or_else(|e| panic!("{written}: {e}"));
            let [Statement::Query(query)] = statements.as_slice() else {
                panic!("{written}")
            };
            assert_eq!(
                query.to_sql(),
                format!("SELECT 1 FROM t GROUP BY {read}"),
                "{written}"
            );
        }
    }
}
