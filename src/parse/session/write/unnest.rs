//! Rows as one array for each column, as Django writes batches:
//! `SELECT * FROM UNNEST(('{1,2}'::int4[])::integer[], ('{x,y}')::text[])`.

use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use zeroize::Zeroizing;

use super::super::words::Words;
use super::{OTHER_TYPE, TrueBytes, TrueText, WrittenValue};
use crate::parse::{parameter_oid, parser_of};

/// An array in parentheses in parentheses is none that a client writes.
const DEPTH_MAX: usize = 2;

/// The rows that these words spell, after SELECT. `None` for any other query, for arrays of unequal
/// lengths, which PostgreSQL fills with NULL, and for empty ones.
pub(super) fn rows(words: &mut Words<'_>) -> Option<Vec<Vec<WrittenValue>>> {
    let is_whole = words.token(&Token::Mul) && words.keyword("FROM") && words.keyword("UNNEST");
    let inside = words.read_parenthesized().ok().flatten();
    let inside = inside.filter(|_| is_whole)?;
    let mut depth = 0_i32;
    let arrays = inside.split(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && token.token == Token::Comma
    });
    let columns: Vec<_> = arrays.map(column).collect::<Option<_>>()?;
    let length = columns.first()?.len();
    if length == 0 || columns.iter().any(|column| column.len() != length) {
        return None;
    }
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let row = |_| columns.iter_mut().filter_map(Iterator::next).collect();
    Some((0..length).map(row).collect())
}

/// The values of one column.
fn column(tokens: &[TokenWithSpan]) -> Option<Vec<WrittenValue>> {
    let (elements, oid) = array(tokens, DEPTH_MAX)?;
    let oid = oid?;
    let value = |element: Option<TrueText>| match element {
        Some(text) => WrittenValue::Constant(text, oid),
        None => WrittenValue::Null,
    };
    Some(elements.into_iter().map(value).collect())
}

/// The elements of a constant, and the type that they are cast to.
type ArrayConstant = (Vec<Option<TrueText>>, Option<u32>);

/// An array, perhaps in parentheses, perhaps cast.
fn array(tokens: &[TokenWithSpan], depth: usize) -> Option<ArrayConstant> {
    let mut words = Words::new(tokens, "");
    let (elements, known) = match words.peek() {
        Some(Token::LParen) if depth > 0 => {
            array(&words.read_parenthesized().ok().flatten()?, depth - 1)?
        }
        _ => (elements(&Zeroizing::new(words.string()?))?, None),
    };
    if !words.token(&Token::DoubleColon) {
        words.end().ok()?;
        return Some((elements, known));
    }
    let oid = element_type(words.rest())?;
    let is_kept = known.is_none_or(|known| keeps_values(known, oid));
    is_kept.then_some((elements, Some(oid)))
}

/// The type of the elements, where the words spell a type of arrays. A length or a precision would
/// change values, so there is none.
fn element_type(tokens: Vec<TokenWithSpan>) -> Option<u32> {
    if tokens.iter().any(|token| token.token == Token::LParen) {
        return None;
    }
    let mut parser = parser_of(tokens).ok()?;
    let data_type = parser.parse_data_type().ok()?;
    parser.expect_token(&Token::EOF).ok()?;
    match data_type {
        ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(of, None))
            if !matches!(*of, ast::DataType::Array(_)) =>
        {
            Some(parameter_oid(&of).unwrap_or(OTHER_TYPE))
        }
        _ => None,
    }
}

/// Whether each value of a type is the same value when it is cast to another one, or is refused
/// there. Floating-point types round: real has 24 binary digits and double precision has 53.
fn keeps_values(from: u32, to: u32) -> bool {
    match from {
        21 => [20, 21, 23, 700, 701, 1700].contains(&to),
        23 => [20, 21, 23, 701, 1700].contains(&to),
        20 => [20, 21, 23, 1700].contains(&to),
        OTHER_TYPE => false,
        _ => from == to,
    }
}

/// The elements of an array of one dimension, as PostgreSQL reads its text.
fn elements(text: &str) -> Option<Vec<Option<TrueText>>> {
    let text = text.trim_matches(is_space);
    let mut chars = text.strip_prefix('{')?.strip_suffix('}')?.chars();
    let mut found = Vec::new();
    loop {
        let (element, ended) = element(&mut chars)?;
        found.push(element);
        if ended {
            return Some(found);
        }
    }
}

/// The next element, and whether it is the last one.
fn element(chars: &mut std::str::Chars<'_>) -> Option<(Option<TrueText>, bool)> {
    let rest = chars.as_str().trim_start_matches(is_space);
    *chars = rest.chars();
    let is_quoted = rest.starts_with('"');
    let mut text = TrueBytes::default();
    // Up to here, spaces belong to it.
    let (mut kept, mut is_open) = (0, is_quoted);
    if is_quoted {
        chars.next();
    }
    let ended = loop {
        match chars.next() {
            // Within quotes, or without any.
            Some('\\') if is_quoted == is_open => {
                text.push_char(chars.next()?);
                kept = text.len();
            }
            Some('"') if is_open => (is_open, kept) = (false, text.len()),
            Some(next) if is_open => text.push_char(next),
            None if is_open => return None,
            Some(',') => break false,
            None => break true,
            Some('{' | '}' | '"' | '\\') => return None,
            // After a closing quote.
            Some(next) if is_quoted && !is_space(next) => return None,
            Some(next) => text.push_char(next),
        }
    };
    let is_space = |byte: &u8| is_space(char::from(*byte));
    let spaces = text[kept..].iter().rev().take_while(|byte| is_space(byte));
    text.truncate(text.len() - spaces.count());
    if !is_quoted && text.is_empty() {
        return None;
    }
    if !is_quoted && kept == 0 && text.eq_ignore_ascii_case(b"null") {
        return Some((None, ended));
    }
    Some((Some(text.text()?), ended))
}

fn is_space(of: char) -> bool {
    matches!(of, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Statement, WrittenRows, parse_with_writes};

    fn read(text: &str) -> Option<Vec<String>> {
        let shown = |element: Option<TrueText>| match element {
            Some(text) => text.expose().to_owned(),
            None => "null".to_owned(),
        };
        Some(elements(text)?.into_iter().map(shown).collect())
    }

    #[test]
    fn arrays_are_read_as_postgresql_reads_them() {
        for (text, wanted) in [
            ("{1,2}", vec!["1", "2"]),
            (" { a , b c ,\td} ", vec!["a", "b c", "d"]),
            (
                "{NULL,null,\"NULL\",n\\ull}",
                vec!["null", "null", "NULL", "null"],
            ),
            ("{\"a,\\\"b\\\\ \" ,\"\"}", vec!["a,\"b\\ ", ""]),
            ("{a\\ \\,b,\\  }", vec!["a ,b", " "]),
            ("{it's}", vec!["it's"]),
        ] {
            assert_eq!(
                read(text),
                Some(wanted.into_iter().map(str::to_owned).collect()),
                "{text}"
            );
        }
        for text in [
            "",
            "{",
            "}",
            "{}",
            "{ }",
            "{a,}",
            "{,a}",
            "{a",
            "{{a}}",
            "{a}b}",
            "{\"a}",
            "{\"a\"b}",
            "{\"a\"\\b}",
            "{a\"b\"}",
            "{a\\}",
            "[0:1]={a,b}",
            "{a}{b}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        // The second is a word, since a backslash is in it.
        assert!(elements("{n\\ull}").unwrap()[0].is_some());
    }

    fn rows_of(arrays: &str) -> Option<Vec<Vec<String>>> {
        let sql = format!("INSERT INTO t (a, b) SELECT * FROM UNNEST({arrays})");
        let write = match parse_with_writes(&sql).ok()?.pop() {
            Some(Statement::Write(write)) => write,
            other => panic!("{other:?}"),
        };
        let WrittenRows::Values(rows) = write.rows else {
            panic!("rows of an INSERT")
        };
        let shown = |value: &WrittenValue| match value {
            WrittenValue::Constant(text, oid) => format!("{} {oid}", text.expose()),
            WrittenValue::Null => "null".to_owned(),
            _ => panic!("constants and NULL"),
        };
        let row = |row: &Vec<WrittenValue>| row.iter().map(shown).collect();
        Some(rows.iter().map(row).collect())
    }

    #[test]
    fn a_batch_has_the_rows_of_its_arrays() {
        let rows =
            rows_of("('{1,40000}'::int4[])::bigint[], (E'{x,\"it''s \\\\\\\\\"}')::varchar[]");
        assert_eq!(
            rows.unwrap(),
            [["1 20", "x 1043"], ["40000 20", "it's \\ 1043"]]
        );
        let rows = rows_of("('{16777217}'::int[])::float8[], ('{7}'::int2[])::real[]");
        assert_eq!(rows.unwrap(), [["16777217 701", "7 700"]]);
        let rows = rows_of("'{1.5}'::numeric[], (('{NULL}')::timestamp with time zone[])");
        assert_eq!(rows.unwrap(), [["1.5 1700", "null"]]);
        for arrays in [
            "'{1,2}'::int[]",
            "'{1,2}'::int[], '{1}'::int[]",
            "'{}'::int[], '{}'::int[]",
            "'{1}', '{1}'::int[]",
            "'{1}'::int, '{1}'::int[]",
            "'{1}'::int[][], '{1}'::int[]",
            "'{1}'::varchar(3)[], '{1}'::int[]",
            "('{1.5}'::numeric[])::int[], '{1}'::int[]",
            "('{1.5}'::numeric[])::real[], '{1}'::int[]",
            "('{1.5}'::numeric[])::float8[], '{1}'::int[]",
            "('{9007199254740993}'::bigint[])::float8[], '{1}'::int[]",
            "('{16777217}'::int[])::real[], '{1}'::int[]",
            "('{1}'::s.a[])::s.b[], '{1}'::int[]",
            "$1::int[], '{1}'::int[]",
            "ARRAY[1], '{1}'::int[]",
            "((('{1}'::int[]))), '{1}'::int[]",
        ] {
            assert_eq!(rows_of(arrays), None, "{arrays}");
        }
    }
}
