//! A stored answer as that of the same statement over another form of FROM.

use crate::release::ReleasedTable;
use crate::rewrite::Family;

impl ReleasedTable {
    /// The table as if its statement had been of the family `asked`. `base` is the family of a
    /// statement with this one's FROM, `asked` that of the same statement with the other FROM. Keys
    /// and totals that the two statements do not have are read by nothing.
    ///
    /// # Guarantee
    /// The groups and their noise are as they were. Only the digests change, by which a question's
    /// columns and sums are found.
    ///
    /// # Requires
    /// Both forms of FROM have the same rows, and a digest of `base` stands for the same expression
    /// as the digest of `asked` in its place.
    pub fn read_as(&self, base: &Family, asked: &Family) -> Option<Self> {
        let mut table = self.clone();
        let grain = table.grain.as_mut()?;
        let own = base.conditions.iter().map(|condition| condition.digest);
        if !own.eq(grain.conditions.iter().copied()) || base.keys.len() != asked.keys.len() {
            return None;
        }
        let conditions = asked.conditions.iter();
        grain.conditions = conditions.map(|condition| condition.digest).collect();
        for key in &mut grain.keys {
            let mut both = base.keys.iter().zip(&asked.keys);
            if let Some((_, asked)) = both.find(|(base, _)| base.digest == key.digest) {
                key.digest = asked.digest;
                key.bins.clone_from(&asked.bins);
            }
        }
        let both = || base.totals.iter().zip(&asked.totals);
        grain.totals.retain_mut(|total| {
            let found = both().find(|(base, _)| base.digest == total.digest);
            let same = |of: &&(&_, &_)| {
                let (base, asked): &(&crate::rewrite::Total, &crate::rewrite::Total) = of;
                base.terms == asked.terms && base.divisor == asked.divisor
            };
            match found.as_ref().filter(same) {
                Some((_, asked)) => {
                    total.digest = asked.digest;
                    true
                }
                None => false,
            }
        });
        Some(table)
    }
}
