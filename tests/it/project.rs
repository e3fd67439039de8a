//! The project itself: goldens, references, documents and rules of the source.

pub mod circles;
pub mod golden;
pub mod invariants;
pub mod references;
pub mod refusals;
pub mod security;
pub mod stored_answers;
pub mod tidy;
pub mod type_names;
pub mod words;
pub mod worth;
