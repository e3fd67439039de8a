//! The policy file in force, as a draft is compared with it.

use std::sync::{Arc, PoisonError, RwLock};

use crate::policy::File;

/// Read without its secrets, like a draft, so that both say the same where they have the same text.
/// `None` where the file has no meaning without them.
#[derive(Debug)]
pub struct InForce(RwLock<Option<Arc<File>>>);

impl InForce {
    pub fn new(file: Option<File>) -> Self {
        Self(RwLock::new(file.map(Arc::new)))
    }

    pub fn current(&self) -> Option<Arc<File>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// Replaces it after a reload.
    pub fn replace(&self, file: Option<File>) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = file.map(Arc::new);
    }
}
