//! Reads a constant regular expression as PostgreSQL would, and measures it.

use std::collections::BTreeSet;

use crate::resolve::TEXT_MAX;

/// Characters to which a text is cut before a pattern is held against it.
pub(super) const LENGTH_MAX: u64 = TEXT_MAX as u64;
pub(super) const GROUPS_DEEP_MAX: usize = 10;
/// Largest bound of `{m,n}`, and widest range of characters in brackets.
const BOUND_MAX: u64 = 100;
const RANGE_MAX: u32 = 1000;
/// The most characters that are shown of a part that is not read.
const SHOWN_MAX: usize = 20;

/// Why a pattern is not read to its end.
pub(super) enum UnreadPattern {
    /// The part at which reading stopped; empty at the end of the pattern.
    Part(String),
    TooDeep,
}

/// The size of a regular expression, and the number of its characters that stand alone or end a
/// range.
///
/// # Errors
/// What is not read.
pub(super) fn size(pattern: &str) -> Result<(Size, u64), UnreadPattern> {
    let mut reader = Reader {
        rest: pattern.chars().collect(),
        at: 0,
        part: 0,
        depth: 0,
        is_too_deep: false,
        repeats: false,
        alone: BTreeSet::new(),
    };
    let size = reader
        .alternatives()
        .filter(|_| reader.at == reader.rest.len());
    match size {
        Some(size) => Ok((size, reader.alone.len() as u64)),
        None if reader.is_too_deep => Err(UnreadPattern::TooDeep),
        None => Err(UnreadPattern::Part(reader.unread())),
    }
}

/// How large a part of a pattern is when its bounds are unfolded.
#[derive(Clone, Copy, Default)]
pub(super) struct Size {
    pub(super) states: u64,
    /// The states among them that more than one character leaves.
    pub(super) wide: u64,
    /// Parts that may be empty.
    pub(super) skipped: u64,
    /// Parts that are repeated without end, and whether the last part is one.
    pub(super) endless: u64,
    pub(super) ends_endless: bool,
    /// How many lengths a match may have in a text of [`LENGTH_MAX`] characters.
    pub(super) lengths: u64,
    /// How often, in such a text, a part is tried again at another length because the part after it
    /// did not match.
    pub(super) redone: u64,
    /// Whether some part is lazy (`*?`): it is tried from its shortest length on.
    pub(super) is_lazy: bool,
}

impl Size {
    const ONE: Self = Self {
        states: 1,
        wide: 0,
        skipped: 0,
        endless: 0,
        ends_endless: false,
        lengths: 1,
        redone: 0,
        is_lazy: false,
    };
    const WIDE: Self = Self {
        wide: 1,
        ..Self::ONE
    };

    /// The cost of one expression and then another.
    fn then(self, other: Self) -> Self {
        let longest = if other.endless > 0 || self.is_lazy {
            LENGTH_MAX
        } else {
            other.states.min(LENGTH_MAX)
        };
        let redone = self
            .redone
            .saturating_add(other.redone)
            .saturating_add(self.lengths.min(longest));
        Self {
            redone,
            lengths: (self.lengths + other.lengths).min(LENGTH_MAX),
            ..self.plus(other)
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            states: self.states + other.states,
            wide: self.wide + other.wide,
            skipped: self.skipped + other.skipped,
            endless: self.endless + other.endless,
            ends_endless: other.ends_endless,
            lengths: (self.lengths + other.lengths).min(LENGTH_MAX),
            redone: self.redone.saturating_add(other.redone),
            is_lazy: self.is_lazy || other.is_lazy,
        }
    }

    /// A pattern of 500 bytes in ten groups of a hundred times each is past any limit, and within a
    /// number of 64 bits.
    fn times(self, times: u64) -> Self {
        let by = |size: u64| size.saturating_mul(times).min(1 << 40);
        Self {
            states: by(self.states),
            wide: by(self.wide),
            skipped: by(self.skipped),
            endless: by(self.endless),
            redone: by(self.redone),
            ..self
        }
    }
}

/// Reads a subset of PostgreSQL's advanced regular expressions, and counts the states of each part.
/// `None` outside the subset.
struct Reader {
    rest: Vec<char>,
    at: usize,
    /// Where the part that is read begins.
    part: usize,
    depth: usize,
    is_too_deep: bool,
    /// The part just read holds a quantifier: one on top of it would make the finding of groups
    /// slow.
    repeats: bool,
    /// Characters that are distinguished from all others.
    alone: BTreeSet<char>,
}

impl Reader {
    /// The text at which reading stopped.
    fn unread(&self) -> String {
        let end = self.at.max(self.part + 1).min(self.rest.len());
        let part = self.rest.get(self.part..end).unwrap_or_default();
        let printed = |c: &char| if c.is_control() { '?' } else { *c };
        part.iter().take(SHOWN_MAX).map(printed).collect()
    }

    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn alternatives(&mut self) -> Option<Size> {
        let mut states = self.branch()?;
        while self.take('|') {
            states = states.plus(self.branch()?);
        }
        Some(states)
    }

    fn branch(&mut self) -> Option<Size> {
        let (mut states, mut pieces) = (Size::default(), 0);
        while let Some(c) = self.peek() {
            self.part = self.at;
            if c == '|' || (c == ')' && self.depth > 0) {
                break;
            }
            let begins = self.at;
            self.at += 1;
            let size = match c {
                // Anchors take no quantifier.
                '^' | '$' => Size::ONE,
                c => {
                    let outside = std::mem::replace(&mut self.repeats, false);
                    let atom = self.atom(c)?;
                    let (repeated, times) = (self.repeats, self.quantifier()?);
                    if repeated && times.is_some() {
                        self.part = begins;
                        return None;
                    }
                    self.repeats = outside || repeated || times.is_some();
                    let Times {
                        most,
                        may_be_none,
                        is_endless,
                        is_lazy,
                    } = times.unwrap_or_default();
                    let unfolded = atom.times(most);
                    Size {
                        skipped: unfolded.skipped + u64::from(may_be_none),
                        endless: unfolded.endless + u64::from(is_endless),
                        ends_endless: is_endless,
                        lengths: if is_endless {
                            LENGTH_MAX
                        } else {
                            (unfolded.lengths * most).min(LENGTH_MAX)
                        },
                        is_lazy: unfolded.is_lazy || is_lazy,
                        ..unfolded
                    }
                }
            };
            states = if pieces == 0 { size } else { states.then(size) };
            pieces += 1;
        }
        (pieces > 0).then_some(states)
    }

    fn atom(&mut self, first: char) -> Option<Size> {
        match first {
            '(' => {
                if self.take('?') && !self.take(':') {
                    return None;
                }
                self.depth += 1;
                self.is_too_deep = self.depth > GROUPS_DEEP_MAX;
                if self.is_too_deep {
                    return None;
                }
                let states = self.alternatives()?;
                self.depth -= 1;
                self.part = self.at;
                self.take(')').then_some(states)
            }
            '[' => self.brackets(),
            '\\' => self.escape().map(|escape| match escape {
                Escape::Class | Escape::Complement => Size::WIDE,
                Escape::Character(c) => self.lone(c),
            }),
            '.' => Some(Size::WIDE),
            '*' | '+' | '?' | '{' | '}' | ')' | ']' | '\0' => None,
            c => Some(self.lone(c)),
        }
    }

    fn lone(&mut self, c: char) -> Size {
        self.alone.insert(c);
        Size::ONE
    }

    /// What may follow a backslash: a class, a character written by a letter, or a sign as it is.
    fn escape(&mut self) -> Option<Escape> {
        let c = self.peek()?;
        self.at += 1;
        match c {
            'd' | 'w' | 's' => Some(Escape::Class),
            'D' | 'W' | 'S' => Some(Escape::Complement),
            'n' => Some(Escape::Character('\n')),
            'r' => Some(Escape::Character('\r')),
            't' => Some(Escape::Character('\t')),
            c if c.is_ascii_punctuation() => Some(Escape::Character(c)),
            _ => None,
        }
    }

    /// How often the part before it is unfolded; `Some(None)` where there is no quantifier.
    fn quantifier(&mut self) -> Option<Option<Times>> {
        self.part = self.at;
        let mut times = match self.peek() {
            Some(sign @ ('*' | '+' | '?')) => {
                self.at += 1;
                Times {
                    most: 1,
                    may_be_none: sign != '+',
                    is_endless: sign != '?',
                    is_lazy: false,
                }
            }
            Some('{') => {
                self.at += 1;
                let least = self.number()?;
                let ends = !self.take(',');
                let is_endless = !ends && self.peek() == Some('}');
                let most = if ends || is_endless {
                    least
                } else {
                    self.number()?
                };
                if !self.take('}') || most > BOUND_MAX || least > most || most == 0 {
                    return None;
                }
                Times {
                    most: most + 1,
                    may_be_none: least == 0,
                    is_endless,
                    is_lazy: false,
                }
            }
            _ => return Some(None),
        };
        times.is_lazy = self.take('?');
        // A quantifier of a quantifier is an error.
        if matches!(self.peek(), Some('*' | '+' | '?' | '{')) {
            self.at += 1;
            None
        } else {
            Some(Some(times))
        }
    }

    fn number(&mut self) -> Option<u64> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        self.rest[start..self.at]
            .iter()
            .collect::<String>()
            .parse()
            .ok()
            .filter(|n| *n <= BOUND_MAX)
    }

    /// A hyphen that is neither first nor last makes a range; after a class or another range it is
    /// an error.
    fn brackets(&mut self) -> Option<Size> {
        self.take('^');
        let mut members = 0;
        loop {
            let c = self.peek()?;
            self.at += 1;
            let low = match c {
                ']' if members > 0 => return Some(Size::WIDE),
                '[' => {
                    self.class_name()?;
                    members += 1;
                    continue;
                }
                '\\' => match self.escape()? {
                    Escape::Class => {
                        members += 1;
                        continue;
                    }
                    Escape::Complement => return None,
                    Escape::Character(c) => c,
                },
                '-' if members > 0 && self.peek() != Some(']') => return None,
                c => c,
            };
            members += 1;
            self.alone.insert(low);
            if self.peek() == Some('-') && self.rest.get(self.at + 1).is_some_and(|c| *c != ']') {
                self.at += 1;
                let high = self.peek()?;
                self.at += 1;
                let width = u32::from(high).checked_sub(u32::from(low))?;
                self.alone.insert(high);
                if matches!(high, '[' | '\\') || low == '\\' || width > RANGE_MAX {
                    return None;
                }
            }
        }
    }

    /// `[:alpha:]` and its like, after the first bracket.
    fn class_name(&mut self) -> Option<()> {
        const NAMES: &[&str] = &[
            "alpha", "upper", "lower", "digit", "xdigit", "alnum", "punct", "space", "blank",
        ];
        let rest: String = self.rest[self.at..].iter().take(10).collect();
        let name = NAMES
            .iter()
            .find(|name| rest.starts_with(&format!(":{name}:]")))?;
        self.at += name.len() + 3;
        Some(())
    }
}

/// How often a part stands there.
struct Times {
    most: u64,
    may_be_none: bool,
    is_endless: bool,
    is_lazy: bool,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            most: 1,
            may_be_none: false,
            is_endless: false,
            is_lazy: false,
        }
    }
}

enum Escape {
    Class,
    Complement,
    Character(char),
}
