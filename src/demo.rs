//! The parts of `pgveil demo`: the survey's public data, questions worth asking, and clients of the
//! proxy.
//!
//! The page asks the proxy over the wire, as the demo's analyst, and is charged like psql. Next to
//! each private answer it shows the exact one, of a PostgreSQL that it starts itself from the data
//! in this binary. Nothing here is part of a served policy: `cli/demo` alone may import this folder
//! (`project/tidy::the_demo_is_imported_by_its_command_alone`).

mod attack;
pub mod data;
mod exact;
pub mod page;
pub mod questions;
pub mod session;

/// The client's role, which is also its password.
pub const ANALYST: &str = "analyst";
/// The name of the throw-away database.
pub const DATABASE: &str = "nls";
