//! The part that prepaid periods have in a purchase.

use crate::mechanism::Loss;

/// The periods of one horizon of a question, at any price.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrepaidQuestion {
    /// The question for any period.
    pub question: [u8; 32],
    /// The number of the horizon.
    pub horizon: i64,
}

/// The price of all periods of a horizon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrepaidPrice {
    /// The epsilon that was asked for, and the role's delta then, with which draws are planned.
    pub epsilon: f64,
    pub delta: f64,
    pub loss: Loss,
}

/// What a purchase does to prepaid periods: it pays for them, draws some, or both.
#[derive(Debug, Clone, PartialEq)]
pub struct PrepaidStep {
    pub of: PrepaidQuestion,
    /// The table whose periods they are, for people.
    pub table: String,
    pub price: PrepaidPrice,
    /// Whether they were paid for by anybody, and where the last draw ended, before the snapshot
    /// was opened.
    pub seen: Option<Option<i64>>,
    /// The numbers of the periods to be drawn: from, and before.
    pub draw: Option<(i64, i64)>,
}
