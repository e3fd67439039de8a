//! pgveil: a PostgreSQL wire-protocol proxy that answers SQL with differential privacy.

pub mod catalog;
pub mod engine;
pub mod error;
pub mod mechanism;
pub mod parse;
pub mod policy;
pub mod refusal;
pub mod wire;
