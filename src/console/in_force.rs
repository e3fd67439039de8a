//! The policy file in force, as a draft is compared with it.

use std::sync::{Arc, PoisonError, RwLock};

use crate::policy::File;

/// Read without its secrets, like a draft, so that both say the same where they have the same text.
#[derive(Debug)]
pub struct InForce(RwLock<Arc<File>>);

impl InForce {
    pub fn new(file: File) -> Self {
        Self(RwLock::new(Arc::new(file)))
    }

    pub fn current(&self) -> Arc<File> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    /// After a reload.
    pub fn replace(&self, file: File) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(file);
    }
}
