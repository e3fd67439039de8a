//! The parts of `pgveil demo`: the survey's public data and a made-up library, questions worth
//! asking, and clients of the proxies.
//!
//! The pages ask their proxies over the wire, as the demo's analyst, and are charged like psql.
//! Next to each private answer they show the exact one, of a PostgreSQL that they start themselves
//! from the data in this binary. Nothing here is part of a served policy: `cli/demo` alone may
//! import this folder (`project/tidy::the_demo_is_imported_by_its_command_alone`).

mod attack;
pub mod data;
mod exact;
mod library;
pub mod page;
pub mod questions;
pub mod session;
pub mod streams;
mod topic;

/// The client's role, which is also its password.
pub const ANALYST: &str = "analyst";
/// The name of the throw-away database of the survey, and of its schema.
pub const SURVEY: &str = "nls";
/// The name of the throw-away database of the library, and of its schema.
pub const LIBRARY: &str = "library";
