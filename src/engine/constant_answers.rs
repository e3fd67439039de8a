//! Statements of constants alone, such as the `SELECT 1` by which a pool finds out whether a
//! connection lives. PostgreSQL answers each once; after that its answer is given again.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::{Answer, ColumnDescription, Description, Engine, Format, Requester};
use crate::error::Error;
use crate::parse::Query;
use crate::resolve::is_of_constants;

/// The most answers kept.
const KEPT: usize = 32;
/// The longest statement that is kept, in bytes. Its values are no longer.
const BYTES_MAX: usize = 256;

/// A statement as we print it, and the formats of its columns. Its answer depends on nothing else:
/// whole numbers, texts, truth values and NULL have one form under all settings.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ConstantKey {
    sql: String,
    formats: Vec<Format>,
}

impl ConstantKey {
    /// `None` for any other statement.
    pub(super) fn new(query: &Query, formats: &[Format]) -> Option<Self> {
        let sql = is_of_constants(query).then(|| query.printed_within(BYTES_MAX))??;
        // No format means text.
        let is_text = formats.iter().all(|format| *format == Format::Text);
        let formats = if is_text {
            Vec::new()
        } else {
            formats.to_vec()
        };
        Some(Self { sql, formats })
    }
}

#[derive(Debug, Clone)]
struct ConstantAnswer {
    columns: Vec<ColumnDescription>,
    rows: Vec<Vec<Option<Bytes>>>,
}

/// Answers, the latest first.
#[derive(Debug, Default)]
pub(super) struct ConstantAnswers(Mutex<VecDeque<(ConstantKey, ConstantAnswer)>>);

impl ConstantAnswers {
    fn find(&self, key: &ConstantKey) -> Option<ConstantAnswer> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, answer) = kept.iter().find(|(known, _)| known == key)?;
        Some(answer.clone())
    }

    fn keep(&self, key: ConstantKey, answer: ConstantAnswer) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| *known != key);
        kept.push_front((key, answer));
        kept.truncate(KEPT);
    }
}

impl Engine {
    /// The answer that PostgreSQL gave before. Settings that the policy does not allow are refused
    /// as always: `None` leaves that to the usual way.
    pub(super) fn constant_answer(
        &self,
        requester: &Requester,
        key: &ConstantKey,
    ) -> Option<Result<Answer, Error>> {
        requester.session_settings.within(&self.policy).ok()?;
        let ConstantAnswer { columns, rows } = self.recent.constant_answers.find(key)?;
        let held = requester.share.hold_rows(&rows).map_err(Error::Parse);
        Some(held.map(|held| Answer {
            columns,
            rows,
            notices: Vec::new(),
            warnings: Vec::new(),
            held,
        }))
    }

    /// The columns of such a statement.
    pub(super) fn constant_description(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> Option<Description> {
        if !parameters.is_empty() {
            return None;
        }
        let key = ConstantKey::new(query, &[])?;
        let answer = self.constant_answer(requester, &key)?.ok()?;
        Some(Description {
            parameters: Vec::new(),
            columns: answer.columns,
        })
    }

    pub(super) fn keep_constant(&self, key: ConstantKey, answer: &Answer) {
        let Answer {
            columns,
            rows,
            notices: _,
            warnings: _,
            held: _,
        } = answer;
        let answer = ConstantAnswer {
            columns: columns.clone(),
            rows: rows.clone(),
        };
        self.recent.constant_answers.keep(key, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Statement, parse};

    fn key(sql: &str, formats: &[Format]) -> Option<ConstantKey> {
        let statements = parse(sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("{sql}")
        };
        ConstantKey::new(query, formats)
    }

    #[test]
    fn only_what_depends_on_nothing_is_kept() {
        for sql in [
            "SELECT 1",
            "select 1 AS one, 'x', NULL, true",
            "/* ping */ SELECT 1;",
        ] {
            assert!(key(sql, &[]).is_some(), "{sql}");
        }
        for sql in [
            "SELECT now()",
            "SELECT 'now'::timestamp",
            "SELECT date 'today'",
            "SELECT 1.5",
            "SELECT current_user",
            "SELECT 1 FROM t",
            "SELECT 1 WHERE false",
            "SELECT 1 LIMIT 0",
            "SELECT DISTINCT 1",
            "SELECT 1 UNION SELECT 1",
            "SELECT (SELECT 1)",
            "SELECT $1",
            "VALUES (1)",
            "SELECT",
        ] {
            assert_eq!(parse(sql).ok().and_then(|_| key(sql, &[])), None, "{sql}");
        }
        let long = format!("SELECT '{}'", "x".repeat(BYTES_MAX));
        assert_eq!(key(&long, &[]), None);
    }

    #[test]
    fn formats_are_distinguished_and_the_oldest_goes() {
        let text = key("SELECT 1", &[]);
        assert_eq!(text, key("SELECT 1", &[Format::Text]));
        assert_ne!(text, key("SELECT 1", &[Format::Binary]));
        let answers = ConstantAnswers::default();
        let numbered = |number: usize| key(&format!("SELECT {number}"), &[]).unwrap();
        for number in 0..=KEPT {
            let answer = ConstantAnswer {
                columns: Vec::new(),
                rows: vec![vec![None]; number],
            };
            answers.keep(numbered(number), answer);
        }
        assert!(answers.find(&numbered(0)).is_none());
        for number in 1..=KEPT {
            assert_eq!(answers.find(&numbered(number)).unwrap().rows.len(), number);
        }
    }
}
