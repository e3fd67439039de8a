/// How a bound on what one unit adds is chosen, where it has several rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClipChoice {
    /// By declared bounds alone, with noise that is independent from group to group.
    Fixed,
    /// By declared bounds alone. Grouping sets may share their noise. For summaries and what they
    /// answer: no session asks for it.
    Declared,
    /// For each question, from a noisy count of units by how much they add. Declared bounds are
    /// ceilings.
    #[default]
    Auto,
}

impl ClipChoice {
    /// What sessions may set.
    pub const WORDS: [(&'static str, Self); 2] = [("fixed", Self::Fixed), ("auto", Self::Auto)];

    /// The word in `SET`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Declared | Self::Auto => "auto",
        }
    }
}
