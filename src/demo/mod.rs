//! What `pgveil demo` is made of: the survey's public data, questions worth asking, and clients of
//! the proxy.
//!
//! Nothing here is part of a served policy: `cli/demo` alone may import this folder
//! (`project/tidy::the_demo_is_imported_by_its_command_alone`).

pub mod data;
pub mod questions;

/// The client's role, which is also its password.
pub const ANALYST: &str = "analyst";
/// The name of the throw-away database.
pub const DATABASE: &str = "nls";
