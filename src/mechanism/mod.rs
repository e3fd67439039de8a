//! Calibrates and samples noise, and adds up privacy loss. Pure mathematics: no SQL, no I/O but the random source.

mod loss;

pub use loss::{Fixed, Loss, Mu};
