//! `pgveil.open_periods`.

/// Whether questions by periods ask for periods that are not closed too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenPeriods {
    /// Closed periods alone, each of which is bought once.
    #[default]
    Off,
    /// All periods, as an ordinary question.
    On,
}

impl OpenPeriods {
    pub(super) const WORDS: [(&'static str, Self); 2] = [("off", Self::Off), ("on", Self::On)];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
        }
    }
}
