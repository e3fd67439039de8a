//! A price that was shown, and what it is the price of.

use crate::engine::{Agreed, HeldMemory};
use crate::parse::Query;

/// A question at the price that was shown.
pub struct Quote {
    /// The text as it was typed.
    pub sql: String,
    /// The statement, with the ends of intervals as further columns.
    pub sent: Query,
    pub columns: NoisyColumns,
    pub agreed: Agreed,
    pub cautions: Vec<String>,
    /// The statement as the record names it.
    pub digest: String,
    /// The memory of all this.
    pub held: HeldMemory,
}

/// Which columns of an answer are noisy: their places among its columns, the only numbers that the
/// pages of answers know.
#[derive(Debug, Clone, Default)]
pub struct NoisyColumns {
    /// The columns whose intervals follow.
    pub intervals: Vec<usize>,
    /// The columns without an interval.
    pub others: Vec<usize>,
}
