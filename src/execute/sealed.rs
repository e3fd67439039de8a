//! Rows that nobody may look at but the release stage.

/// Holds what was read of private tables. Has no Display, Serialize, Clone or Deref; Debug shows nothing.
pub struct Sealed<T>(T);

impl<T> Sealed<T> {
    pub(super) fn new(rows: T) -> Self {
        Self(rows)
    }

    /// Opens the seal; only `release` calls this, with the charge that paid for the rows.
    pub(crate) fn open(self, _paid: &crate::ledger::Charge) -> T {
        self.0
    }
}

impl<T> std::fmt::Debug for Sealed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealed(..)")
    }
}
