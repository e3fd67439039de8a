//! Rows that only the release stage may read.

use zeroize::{Zeroize, Zeroizing};

/// Holds rows that were read from private tables, and overwrites them on drop, opened or not. It
/// has no Display, Serialize, Clone or Deref, and its Debug output shows nothing.
pub struct Sealed<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Sealed<T> {
    pub(super) fn new(rows: T) -> Self {
        Self(Zeroizing::new(rows))
    }

    /// Opens the seal; only `release` calls this, with the charge that paid for the rows.
    pub(crate) fn open(self, _paid: &crate::ledger::Charge) -> Zeroizing<T> {
        self.0
    }
}

impl<T: Zeroize> std::fmt::Debug for Sealed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealed(..)")
    }
}
