//! Text that no log and no Debug output shows.

use zeroize::Zeroizing;

/// A URL that may hold a password, or the verifier of one: Debug shows nothing of it, there is no
/// Display, and it is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// For the one place that needs it; what is copied from here is hidden and overwritten no more.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}
