//! Texts that a role sent lately, as they were read: a dashboard sends the same ones again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::parse::{Statement, parse, weight};
use crate::refusal::Refusal;

/// The most texts kept, of all roles and of one: what one role sent does not show to another by
/// the time that its own texts take.
const KEPT: usize = 64;
const KEPT_OF_ROLE: usize = 8;
/// The most that a kept text weighs, with its statements, in bytes.
const WEIGHT_MAX: usize = 64 << 10;

#[derive(Debug)]
struct ReadText {
    role: String,
    text: String,
    statements: Arc<Vec<Statement>>,
}

/// Texts without an error, those sent last first. A role's new texts take the place of its old
/// ones. Only where more than eight roles ask do they take that of others.
#[derive(Debug, Default)]
pub(super) struct ReadTexts(Mutex<VecDeque<ReadText>>);

impl ReadTexts {
    /// The statements of a role's text, as [`parse`] reads them.
    ///
    /// # Errors
    /// Those of [`parse`].
    pub(super) fn read(&self, role: &str, text: &str) -> Result<Vec<Statement>, Refusal> {
        if weight(text) > WEIGHT_MAX {
            return parse(text);
        }
        if let Some(statements) = self.find(role, text) {
            return Ok(statements.to_vec());
        }
        let statements = parse(text)?;
        self.keep(ReadText {
            role: role.to_owned(),
            text: text.to_owned(),
            statements: Arc::new(statements.clone()),
        });
        Ok(statements)
    }

    fn find(&self, role: &str, text: &str) -> Option<Arc<Vec<Statement>>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept
            .iter()
            .position(|known| known.text == text && known.role == role)?;
        let found = kept.remove(at)?;
        let statements = Arc::clone(&found.statements);
        kept.push_front(found);
        Some(statements)
    }

    /// What is displaced is dropped after the lock.
    fn keep(&self, read: ReadText) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = kept.iter().enumerate();
        let own = own.filter(|(_, known)| known.role == read.role);
        let oldest = own.map(|(at, _)| at).nth(KEPT_OF_ROLE - 1);
        let displaced = [
            oldest.and_then(|at| kept.remove(at)),
            (kept.len() >= KEPT).then(|| kept.pop_back()).flatten(),
        ];
        kept.push_front(read);
        drop(kept);
        drop(displaced);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_before() {
        let texts = ReadTexts::default();
        for text in ["SELECT 1", "SELECT 2; SELECT 'x'", "", "BEGIN"] {
            let first = texts.read("ann", text).unwrap();
            assert_eq!(first, parse(text).unwrap());
            assert_eq!(texts.find("ann", text), Some(Arc::new(first)));
            // Not for another role, nor for another text.
            assert_eq!(texts.find("bob", text), None);
            assert_eq!(texts.find("ann", &format!("{text} ")), None);
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_each_time() {
        let texts = ReadTexts::default();
        for _ in 0..2 {
            let refused = texts.read("ann", "SELECT (");
            assert_eq!(refused, parse("SELECT ("));
            assert!(refused.is_err());
        }
        assert!(texts.0.lock().unwrap().is_empty());
    }

    #[test]
    fn a_role_displaces_its_own_texts() {
        let texts = ReadTexts::default();
        texts.read("bob", "SELECT 0").unwrap();
        for number in 0..100 {
            texts.read("ann", &format!("SELECT {number}")).unwrap();
        }
        assert!(texts.find("bob", "SELECT 0").is_some());
        let kept =
            (0..100).filter(|number| texts.find("ann", &format!("SELECT {number}")).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), (92..100).collect::<Vec<_>>());
        let long = format!("SELECT 1{}", ", 1".repeat(200));
        texts.read("ann", &long).unwrap();
        assert_eq!(texts.find("ann", &long), None);
    }
}
