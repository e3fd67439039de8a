//! The number of a choice within its release.

/// One of a release's choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct ChoiceId(pub usize);
