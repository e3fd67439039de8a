//! Calibrates and samples noise, and adds up privacy loss. Pure mathematics: no SQL, no I/O but the random source.

mod account;
mod loss;

pub use account::{Accounting, Cap, CapError};
pub use loss::{Fixed, Loss, Mu};
