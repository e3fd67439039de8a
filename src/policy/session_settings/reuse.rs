/// What a released answer that the role has paid for serves, free of charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reuse {
    /// An answer serves its own question, and others that its groups answer. Summaries of the
    /// policy are received.
    #[default]
    On,
    /// An answer serves its own question alone.
    Exact,
    /// Like `On`, but what the role does not hold is refused: nothing is bought or received.
    Summary,
    /// Like `On`, but an answer of a summary is compared with the rows first. Where it is too far
    /// off, the question is bought.
    Checked,
    /// Each answer is newly made and paid.
    Off,
}

impl Reuse {
    /// What sessions may set.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("on", Self::On),
        ("exact", Self::Exact),
        ("summary", Self::Summary),
        ("checked", Self::Checked),
        ("off", Self::Off),
    ];

    /// The word in `SET`.
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Exact => "exact",
            Self::Summary => "summary",
            Self::Checked => "checked",
            Self::Off => "off",
        }
    }

    /// Whether sums of groups of held answers serve.
    pub fn sums_groups(self) -> bool {
        match self {
            Self::On | Self::Summary | Self::Checked => true,
            Self::Exact | Self::Off => false,
        }
    }
}
