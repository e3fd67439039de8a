//! Made-up rows that have the statistics of a summary: a model of how its keys depend on each
//! other, rows drawn from it and weighted to all that was measured, and values for the columns that
//! the summary does not have.
//!
//! # Guarantee
//! Everything here is post-processing of a summary that was released, and of the policy. Nothing
//! reads the database, or a number before its noise. So made-up rows cost nothing beyond the
//! summary, however many are drawn.

mod cells;
mod filler;
mod law;
mod marginals;
mod model;
mod other_pairs;
mod parents;
mod preview;
mod sample;
mod turns;
mod values;
mod weigh;

pub use cells::TargetShares;
pub use filler::{ColumnSource, FillContext, Filled, Filler, Parents, first_step};
pub use marginals::{Cells, Marginal, NoisyMarginals, NoisyQuantity, Quantity, SharedEffects};
pub use model::KeyModel;
pub use parents::{RowsWanted, codes, mean_rows, number_of_each, numbers_of_rows, repeat};
pub use preview::PreviewRows;
pub use sample::{Sample, draw, draw_given};

#[cfg(test)]
mod tests;
