//! Rows that PostgreSQL printed for a role. They are given again where the role is shown the same
//! released values by the same query, under the same settings: nothing is computed anew.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::{Description, Format, Requester};
use crate::finish::is_settled;
use crate::memory::weight;
use crate::release::Released;
use crate::rewrite::Plan;

/// The most answers kept.
const KEPT: usize = 32;
/// The most bytes of one answer, and of the texts of its released groups.
const BYTES_MAX: usize = 32 << 10;

type Rows = Vec<Vec<Option<Bytes>>>;

/// All that the printed rows follow from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PrintedKey {
    role: String,
    plan: Arc<Plan>,
    released: Released,
    settings: Vec<(String, String)>,
    search_path: Vec<String>,
    columns: Description,
    formats: Vec<Format>,
}

impl PrintedKey {
    /// `None` where the rows follow from more than this, or are large.
    pub(super) fn new(
        requester: &Requester,
        (plan, released): (&Arc<Plan>, &Released),
        (columns, formats): (&Description, &[Format]),
    ) -> Option<Self> {
        let is_small = released.printed_bytes() <= BYTES_MAX;
        (is_small && is_settled(plan)).then(|| Self {
            role: requester.role.clone(),
            plan: Arc::clone(plan),
            released: released.clone(),
            settings: requester.settings.clone(),
            search_path: requester.search_path.clone(),
            columns: columns.clone(),
            formats: formats.to_vec(),
        })
    }
}

/// Printed rows, the latest first.
#[derive(Debug, Default)]
pub(super) struct PrintedRows(Mutex<VecDeque<(PrintedKey, Rows)>>);

impl PrintedRows {
    pub(super) fn find(&self, key: &PrintedKey) -> Option<Rows> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, rows) = kept.iter().find(|(known, _)| known == key)?;
        Some(rows.clone())
    }

    pub(super) fn keep(&self, key: PrintedKey, rows: &Rows) {
        if rows.iter().map(|row| weight(row)).sum::<usize>() > BYTES_MAX {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| *known != key);
        kept.push_front((key, rows.clone()));
        kept.truncate(KEPT);
    }
}
