//! The shape of a key's value.

/// The values that a key takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyShape {
    /// A map of the keys below it.
    Map,
    /// A map from names that the owner chooses.
    Named,
    /// A list of the key below it.
    List,
    Text,
    /// Text, or a list of texts.
    TextOrTexts,
    /// One of these words.
    Words(&'static [&'static str]),
    /// One of these words, or a map of the keys below it.
    WordsOrMap(&'static [&'static str]),
    /// Text, or a map of the keys below it.
    TextOrMap,
    /// A number above zero; below 1 where it is a share.
    Number,
    Share,
    /// A whole number within a range.
    Count(u64, u64),
    /// A whole number within a range, or `auto`.
    CountOrAuto(u64, u64),
    Truth,
    /// `500ms`, `60s`, `5min` or `1h`.
    Time,
    /// `[lowest, highest]`, where `auto` may stand for either end or for both.
    Bounds,
    /// Constants of a column's type.
    Values,
    /// Names of columns.
    Names,
    /// Names of columns, or a map from each to the key below it.
    NamesOrNamed,
    /// `all` and a number, or lists of names.
    Marginals,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct PolicyKey {
    /// From the top; `*` stands for a name that the owner chooses, `-` for each item of a list.
    pub path: &'static str,
    pub shape: KeyShape,
    pub is_required: bool,
    /// Empty where there is none.
    pub default: &'static str,
    pub says: &'static str,
    pub example: &'static str,
}

impl PolicyKey {
    /// Its last name.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// The path as people write it: without the places of names and items.
    pub fn display_path(&self) -> String {
        let parts = self
            .path
            .split('.')
            .filter(|part| !["*", "-"].contains(part));
        parts.collect::<Vec<_>>().join(".")
    }
}

pub(super) const fn key(
    path: &'static str,
    shape: KeyShape,
    default: &'static str,
    says: &'static str,
    example: &'static str,
) -> PolicyKey {
    PolicyKey {
        path,
        shape,
        is_required: false,
        default,
        says,
        example,
    }
}

pub(super) const fn required_key(
    path: &'static str,
    shape: KeyShape,
    says: &'static str,
    example: &'static str,
) -> PolicyKey {
    PolicyKey {
        path,
        shape,
        is_required: true,
        default: "",
        says,
        example,
    }
}
