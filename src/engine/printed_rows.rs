//! Rows that PostgreSQL printed for a role. They are given again where the role is shown the same
//! released values by the same statement, under the same settings: PostgreSQL prints them once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{Description, Format, Requester};
use crate::ir::sql::Printed;
use crate::memory::weight;

/// The most answers kept, of all roles and of one.
const KEPT: usize = 64;
const KEPT_OF_ROLE: usize = 8;
/// The most bytes of one answer's rows.
const BYTES_MAX: usize = 32 << 10;

type Rows = Vec<Vec<Option<Bytes>>>;

/// Digest of all that the rows of a settled statement follow from: its text, which has the released
/// values, and how the session prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowsDigest([u8; 32]);

impl RowsDigest {
    /// # Requires
    /// The statement is of a plan that [`crate::finish::is_settled`].
    pub(super) fn new(
        requester: &Requester,
        statement: &Printed,
        (columns, formats): (&Description, &[Format]),
    ) -> Self {
        let Requester {
            settings,
            search_path,
            ..
        } = requester;
        let text = &statement.text;
        let mut digest = Sha256::new();
        // Rows are kept of statements that were read back: of another tree they are not.
        digest.update(statement.tree.as_bytes());
        // The Debug form of texts is quoted, so no two keys have one form.
        digest.update(format!(
            "{settings:?} {search_path:?} {columns:?} {formats:?} {text:?}"
        ));
        Self(digest.finalize().into())
    }
}

#[derive(Debug)]
struct ShownRows {
    role: String,
    of: RowsDigest,
    rows: Rows,
}

/// Printed rows, those shown last first. A role's new rows take the place of its old ones. Only
/// where more than eight roles ask do they take that of others.
#[derive(Debug, Default)]
pub(super) struct PrintedRows(Mutex<VecDeque<ShownRows>>);

impl PrintedRows {
    pub(super) fn find(&self, role: &str, of: RowsDigest) -> Option<Rows> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept
            .iter()
            .position(|known| known.of == of && known.role == role)?;
        let found = kept.remove(at)?;
        // The values share their bytes.
        let rows = found.rows.clone();
        kept.push_front(found);
        Some(rows)
    }

    pub(super) fn keep(&self, role: &str, of: RowsDigest, rows: &Rows) {
        if rows.iter().map(|row| weight(row)).sum::<usize>() > BYTES_MAX {
            return;
        }
        let printed = ShownRows {
            role: role.to_owned(),
            of,
            rows: rows.clone(),
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front(printed);
        let mut own = 0;
        kept.retain(|known| {
            own += usize::from(known.role == role);
            known.role != role || own <= KEPT_OF_ROLE
        });
        kept.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: &str) -> Rows {
        vec![vec![Some(Bytes::copy_from_slice(value.as_bytes()))]]
    }

    fn of(number: u8) -> RowsDigest {
        RowsDigest([number; 32])
    }

    #[test]
    fn a_role_finds_its_own_rows_alone() {
        let printed = PrintedRows::default();
        printed.keep("ann", of(1), &one("7"));
        assert_eq!(printed.find("ann", of(1)), Some(one("7")));
        assert_eq!(printed.find("bob", of(1)), None);
        assert_eq!(printed.find("ann", of(2)), None);
    }

    #[test]
    fn a_role_displaces_its_own_rows() {
        let printed = PrintedRows::default();
        printed.keep("bob", of(0), &one("of bob"));
        for number in 0..100 {
            printed.keep("ann", of(number), &one("of ann"));
            // What is shown stays.
            assert!(printed.find("ann", of(0)).is_some());
        }
        assert!(printed.find("bob", of(0)).is_some());
        let kept = (0..100).filter(|number| printed.find("ann", of(*number)).is_some());
        assert_eq!(kept.count(), KEPT_OF_ROLE);
    }

    #[test]
    fn large_answers_are_not_kept() {
        let printed = PrintedRows::default();
        printed.keep("ann", of(1), &one(&"x".repeat(BYTES_MAX)));
        assert_eq!(printed.find("ann", of(1)), None);
    }
}
