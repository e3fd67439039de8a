//! `pgveil.widen`.

/// Whether a question about one value of a listed column buys the answers for all of them, where
/// that costs no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Widen {
    #[default]
    On,
    Off,
}

impl Widen {
    pub(super) const WORDS: [(&'static str, Self); 2] = [("on", Self::On), ("off", Self::Off)];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}
