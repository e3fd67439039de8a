//! pgveil: a PostgreSQL wire-protocol proxy that answers SQL with differential privacy.

pub mod analyze;
pub mod catalog;
pub mod cli;
pub mod engine;
pub mod error;
pub mod execute;
pub mod finish;
pub mod ledger;
pub mod mechanism;
pub mod parse;
pub mod policy;
pub mod postgres;
pub mod refusal;
pub mod release;
pub mod resolve;
pub mod rewrite;
pub mod shadow;
pub mod wire;
