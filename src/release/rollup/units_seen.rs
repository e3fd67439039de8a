//! How many units the rows of a question may belong to, from an answer about these rows or more.

use super::BYTES_READ;
use crate::analyze::PlanningEffort;
use crate::release::ReleasedTable;
use crate::rewrite::{ReleasePlan, SqlDigest};

/// A number that is rarely below the number of units that the release's rows belong to, from a
/// stored answer of its family whose clip a look chose. `None` where the answer says nothing about
/// it: it reads fewer rows, or counts none.
///
/// # Guarantee
/// The result is a function of the stored, released answer and of public facts, and so as private
/// as that answer.
///
/// Each row of the release is one of the answer's: both read the same FROM, the answer's conditions
/// are the release's own too, and no row has a key value that the answer does not list. So each
/// unit with such a row was in a bin of the answer's look. At most one look in 30,000 has the
/// number below that of its units.
pub fn units_at_most(release: &ReleasePlan, stored: &[u8], effort: &PlanningEffort) -> Option<f64> {
    effort.take((stored.len() / BYTES_READ) as u64)?;
    let table: ReleasedTable = serde_json::from_slice(stored).ok()?;
    let (grain, drawn) = (table.grain.as_ref()?, table.drawn.as_ref()?);
    let conditions = &release.family()?.conditions;
    let is_own = |digest: &SqlDigest| conditions.iter().any(|own| own.digest == *digest);
    let has_all_rows =
        grain.conditions.iter().all(is_own) && grain.keys.iter().all(|key| key.is_whole);
    let cut = drawn.cut(grain.rows?, 0).filter(|_| has_all_rows)?;
    cut.units_at_most
}
