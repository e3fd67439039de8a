//! Selects the sets of keys that a summary is to have: from exact counts, which stay here.

use zeroize::Zeroizing;

use super::groups::groups;
use super::{Error, Released, Releasing};
use crate::execute::{Sealed, TextRows};
use crate::ir::ReleaseId;
use crate::mechanism::{ExactCounts, Sampler};
use crate::rewrite::MarginalCounts;

/// No table has as many rows, on any grid. A grid is finer than another by a few bits.
const COUNT_MAX: i128 = 1 << 100;

impl Releasing<'_> {
    /// Opens the rows of all releases of the plan, in their order, and selects sets by them.
    ///
    /// # Guarantee
    /// That of [`crate::mechanism::SetSelection::select`], whose loss is what was charged. Nothing
    /// else of the rows leaves, and nothing is released from them afterwards.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where the charge is not one of this selection, or where it has been
    /// made; [`Error::Noise`]. The charge stands.
    pub fn select_sets(
        &mut self,
        counted: &MarginalCounts<'_>,
        rows: Vec<(ReleaseId, Sealed<Vec<TextRows>>)>,
        sampler: &mut dyn Sampler,
    ) -> Result<Vec<usize>, Error> {
        let plan = self.part.plan();
        let releases = plan.releases().len();
        let is_whole = rows.iter().map(|(release, _)| release.0).eq(0..releases);
        let is_paid = *self.paid.loss() == counted.selection.loss();
        let is_same = std::ptr::eq(plan, counted.plan());
        let is_first = self.looked_at.is_empty() && self.released == Released::before(plan);
        if !is_whole || !is_paid || !is_same || !is_first {
            return Err(Error::Mismatch);
        }
        let mut exact = Vec::with_capacity(releases);
        for (release, rows) in rows {
            self.looked_at.insert(release);
            let opened = self.open_rows(rows);
            let [vector] = opened.as_slice() else {
                return Err(Error::Mismatch);
            };
            let shape = plan.release(release);
            let noise = shape.price().map_or(&[][..], |price| &price.calibrated);
            let found = groups(shape, vector.as_slice(), noise);
            let finer = counted.finer(release);
            // Clamped so that it fits on the finest grid: that moves no count further.
            let clamped = |count: &i128| (*count).clamp(-COUNT_MAX, COUNT_MAX) << finer;
            let count = |values: &[i128]| values.first().map_or(0, clamped);
            let counts = found.iter().map(|(_, values)| count(values));
            // Rows whose keys are not listed would come after those that are.
            let listed = counts.take(usize::try_from(shape.listed_groups()).unwrap_or(0));
            exact.push(Zeroizing::new(listed.collect::<Vec<i128>>()));
        }
        let of_singles = releases - counted.selection.candidates().len();
        let (singles, candidates) = exact.split_at(of_singles);
        let exact = ExactCounts {
            singles,
            candidates,
        };
        Ok(counted.selection.select(&exact, sampler)?)
    }
}
