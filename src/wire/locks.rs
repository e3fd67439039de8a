//! The advisory locks that a session holds.

use std::collections::HashMap;

/// How often each lock is held, by its key and whether it is shared.
pub(super) type Locks = HashMap<(Vec<LockKey>, bool), u32>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LockKey {
    Number(i64),
    Hash(String),
}
