//! The shape of a statement, for owners who must answer what was asked: `record: {shape: true}`.
//!
//! # Guarantee
//! A shape has words of SQL, signs, and names that every reader of the policy knows: of its
//! schemas, tables and visible columns, and of functions that pgveil answers. Every constant is
//! `$1`, `$2`, …, and every other name `?`: an alias, a misspelt or hidden column, a CTE. This
//! holds for any text, also one that is printed or read wrongly.

use std::collections::HashSet;

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, Tokenizer, Word};

use crate::aggregates::is_aggregate;
use crate::ir::functions::{AGGREGATES, is_known};
use crate::policy::Policy;

/// The longest shape that is recorded, in bytes, without the sign that says it was cut.
const BYTES_MAX: usize = 1024;
/// The most bytes that are read of a statement: as many as a small one has, which need not wait for
/// a turn. Longer ones are cut there, mostly within a long list of constants.
const READ_MAX: usize = 8 << 10;
/// Ends a shape that was cut.
const CUT: &str = "…";
/// Schemas that every policy shows.
const SCHEMAS: [&str; 3] = ["pgveil", "pg_catalog", "information_schema"];

/// The words that shapes keep where they stand in capitals. Others that the parser knows may be
/// names of a client: PASSWORD, SECRET.
#[rustfmt::skip]
const SQL_WORDS: [&str; 127] = [
    "ALL", "AND", "ANY", "ARRAY", "AS", "ASC", "ASYMMETRIC", "AT", "BETWEEN", "BIGINT", "BOOLEAN",
    "BOTH", "BY", "CASE", "CAST", "CHAR", "CHARACTER", "COLLATE", "CROSS", "CUBE", "CURRENT",
    "DATE", "DAY", "DECIMAL", "DESC", "DISTINCT", "DOUBLE", "ELSE", "END", "ESCAPE", "EXCEPT",
    "EXISTS", "EXPLAIN", "EXTRACT", "FALSE", "FETCH", "FILTER", "FIRST", "FLOAT", "FOLLOWING",
    "FOR", "FROM", "FULL", "GROUP", "GROUPING", "GROUPS", "HAVING", "HOUR", "ILIKE", "IN", "INNER",
    "INT", "INTEGER", "INTERSECT", "INTERVAL", "IS", "ISNULL", "JOIN", "LAST", "LATERAL", "LEADING",
    "LEFT", "LIKE", "LIMIT", "MATERIALIZED", "MINUTE", "MONTH", "NATURAL", "NEXT", "NOT", "NOTNULL",
    "NULL", "NULLS", "NUMERIC", "OFFSET", "ON", "ONLY", "OR", "ORDER", "ORDINALITY", "OUTER",
    "OVER", "OVERLAY", "PARTITION", "PLACING", "POSITION", "PRECEDING", "PRECISION", "QUARTER",
    "RANGE", "REAL", "RECURSIVE", "RIGHT", "ROLLUP", "ROW", "ROWS", "SECOND", "SELECT", "SETS",
    "SIMILAR", "SMALLINT", "SOME", "SUBSTRING", "SYMMETRIC", "TEXT", "THEN", "TIME", "TIMESTAMP",
    "TO", "TRAILING", "TRIM", "TRUE", "UNBOUNDED", "UNION", "UNKNOWN", "USING", "VALUES",
    "VARCHAR", "VARYING", "WHEN", "WHERE", "WINDOW", "WITH", "WITHIN", "WITHOUT", "YEAR", "ZONE",
];

/// The names that a policy shows.
pub(super) struct KnownNames(HashSet<String>);

impl KnownNames {
    pub(super) fn of(policy: &Policy) -> Self {
        let mut names: HashSet<String> = SCHEMAS.map(str::to_owned).into();
        for table in &policy.tables {
            names.insert(table.schema.clone());
            names.insert(table.name.clone());
            names.extend(table.columns.iter().map(|column| column.name.clone()));
        }
        Self(names)
    }

    /// The shape of a statement as pgveil prints it; `None` where it cannot be read.
    pub(super) fn shape(&self, sql: &str) -> Option<String> {
        let (tokens, is_cut) = tokens(sql)?;
        let mut shape = String::new();
        let (mut constants, mut before) = (0u32, String::new());
        for token in tokens {
            let part = match &token {
                Token::Whitespace(_) if shape.ends_with(' ') => continue,
                Token::Whitespace(_) => " ".to_owned(),
                Token::Word(word) if !is_truth(word, &before) => self.word(word),
                sign if is_sign(&sign.to_string()) => sign.to_string(),
                // A truth value, or a token that is neither word nor sign.
                _ => {
                    constants += 1;
                    format!("${constants}")
                }
            };
            if shape.len() + part.len() > BYTES_MAX {
                return Some(shape + CUT);
            }
            shape += &part;
            if let Token::Word(word) = &token
                && word.keyword != Keyword::NOT
            {
                before = part;
            } else if !matches!(token, Token::Whitespace(_) | Token::Word(_)) {
                before.clear();
            }
        }
        if is_cut {
            shape += CUT;
        }
        Some(shape)
    }

    fn word(&self, word: &Word) -> String {
        let is_quoted = word.quote_style.is_some();
        // Words of SQL are printed in capitals, names as they were written.
        let is_sql = SQL_WORDS.contains(&word.value.as_str());
        let name = match is_quoted {
            true => word.value.clone(),
            false => word.value.to_ascii_lowercase(),
        };
        let is_shown = match is_quoted {
            true => self.0.contains(&name),
            false => is_sql || self.0.contains(&name) || is_function(&name),
        };
        match is_shown {
            true => word.to_string(),
            false => "?".to_owned(),
        }
    }
}

/// The tokens of a statement, and whether some were cut off. `None` where it cannot be read.
fn tokens(sql: &str) -> Option<(Vec<Token>, bool)> {
    let head = &sql[..sql.floor_char_boundary(READ_MAX)];
    let is_cut = head.len() < sql.len();
    let mut tokens = Vec::new();
    let read =
        Tokenizer::new(&PostgreSqlDialect {}, head).tokenize_with_location_into_buf(&mut tokens);
    match (read, is_cut) {
        (Ok(()), false) => {}
        (Err(_), false) => return None,
        // The last one may be a part of a longer one.
        (Ok(()), true) => drop(tokens.pop()),
        // A constant that was cut is no token.
        (Err(_), true) => {}
    }
    let tokens = tokens.into_iter().map(|found| found.token).collect();
    Some((tokens, is_cut))
}

fn is_function(name: &str) -> bool {
    is_known(name) || AGGREGATES.contains(&name) || is_aggregate(name)
}

/// Whether a word is a constant: `true` and `false`, but not those of `IS TRUE`.
fn is_truth(word: &Word, before: &str) -> bool {
    let is_truth = matches!(word.keyword, Keyword::TRUE | Keyword::FALSE);
    is_truth && word.quote_style.is_none() && before != "IS"
}

fn is_sign(text: &str) -> bool {
    text.chars()
        .all(|sign| "+-*/<>=~!@#%^&|?,.()[]{}:;".contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sql: &str) -> String {
        let names = ["nls", "women", "race", "Mixed Case", "hourly_wage"];
        let names = names.map(str::to_owned).into();
        KnownNames(names).shape(sql).unwrap()
    }

    #[test]
    fn constants_and_unknown_names_are_left_out() {
        for (sql, wanted) in [
            (
                "SELECT race, avg(hourly_wage) AS smith FROM nls.women AS w WHERE race = 'secret' \
                    AND hourly_wage > 12.5 GROUP BY race LIMIT 3",
                "SELECT race, avg(hourly_wage) AS ? FROM nls.women AS ? WHERE race = $1 AND \
                    hourly_wage > $2 GROUP BY race LIMIT $3",
            ),
            ("SELECT PASSWORD AS SECRET", "SELECT ? AS ?"),
            (
                "WITH smith(jones) AS (SELECT 1) SELECT \"Mixed Case\", \"mixed case\", ssn FROM \
                    smith",
                "WITH ?(?) AS (SELECT $1) SELECT \"Mixed Case\", ?, ? FROM ?",
            ),
            (
                "SELECT E'a\\'b', $$c d$$, x'ff', U&'\\0061', -7, 1e9, $1, true, DATE '2020-01-01'",
                "SELECT $1, $2, $3, $4, -$5, $6, $7, $8, DATE $9",
            ),
            (
                "SELECT race IS TRUE, race IS NOT FALSE, race = FALSE, NULL, race IS NULL",
                "SELECT race IS TRUE, race IS NOT FALSE, race = $1, NULL, race IS NULL",
            ),
            // A name of the policy in other letters is that name; a quoted one is not.
            (
                "SELECT RACE, \"RACE\" FROM NLS.women",
                "SELECT RACE, ? FROM NLS.women",
            ),
            // A word of SQL that was written as a name.
            (
                "SELECT password, CAST(race AS BIGINT)",
                "SELECT ?, CAST(race AS BIGINT)",
            ),
        ] {
            assert_eq!(shape(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn a_shape_is_bounded() {
        let long = format!("SELECT {}", vec!["1"; 10_000].join(", "));
        let cut = shape(&long);
        assert!(cut.ends_with(CUT) && cut.len() <= BYTES_MAX + CUT.len());
        assert!(KnownNames(HashSet::new()).shape("SELECT 'open").is_none());
    }

    /// A long statement is read up to a bound, which may be within a constant, a name or a sign of
    /// several letters.
    #[test]
    fn a_long_statement_is_read_in_part() {
        for long in [
            "'secret",
            "\"secret",
            "$$secret",
            "E'secret",
            "-- secret",
            "secret",
            "race",
        ] {
            for spaces in READ_MAX - 20..READ_MAX {
                let sql = format!(
                    "SELECT race,{}{long}é{}",
                    " ".repeat(spaces - 12),
                    "x".repeat(99)
                );
                let cut = shape(&sql);
                assert!(
                    cut.starts_with("SELECT race,") && cut.ends_with(CUT),
                    "{cut}"
                );
                assert!(
                    !cut.contains("secret") && cut.matches("race").count() == 1,
                    "{cut}"
                );
            }
        }
        let constant = format!("SELECT '{}', race FROM nls.women", "x".repeat(READ_MAX));
        assert_eq!(shape(&constant), format!("SELECT {CUT}"));
    }
}
