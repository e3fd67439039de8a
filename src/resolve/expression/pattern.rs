//! Checks constant patterns before PostgreSQL sees them. PostgreSQL compiles a pattern at the first
//! row that reaches it, so an error would reveal that such a row exists.

use std::collections::BTreeSet;

use crate::refusal::{Refusal, reason};
use crate::resolve::TEXT_MAX;

/// Characters to which a text is cut before a pattern is held against it.
const LENGTH_MAX: u64 = TEXT_MAX as u64;

/// Longest constant pattern of LIKE, and most wildcards in it: matching time grows with both.
const LIKE_BYTES_MAX: usize = 1000;
const LIKE_WILDCARDS_MAX: usize = 4;
/// Longest regular expression, and most states that its bounds may unfold to.
const REGEX_BYTES_MAX: usize = 500;
const REGEX_STATES_MAX: u64 = 2000;
/// Largest bound of `{m,n}`, and widest range of characters in brackets.
const BOUND_MAX: u64 = 100;
const RANGE_MAX: u32 = 1000;

/// The pattern with a backslash as its escape, whatever escape it was written with.
///
/// # Errors
/// 22025 for an escape of more than one character and for a pattern that ends in its escape; 0A000
/// where it is too large.
pub fn like(pattern: &str, escape: Option<&str>) -> Result<String, Refusal> {
    let written = with_backslash(pattern, escape)?;
    if written.len() > LIKE_BYTES_MAX || written.matches('%').count() > LIKE_WILDCARDS_MAX {
        let limit = format!(
            "a LIKE pattern of more than {LIKE_BYTES_MAX} bytes or {LIKE_WILDCARDS_MAX} % signs"
        );
        return Err(Refusal::unsupported(reason::CONSTANT_OUT_OF_LIMITS, limit));
    }
    Ok(written)
}

fn with_backslash(pattern: &str, escape: Option<&str>) -> Result<String, Refusal> {
    let mut characters = escape.unwrap_or("\\").chars();
    let escape = characters.next();
    if characters.next().is_some() {
        return Err(
            Refusal::new(reason::INVALID_ESCAPE, "invalid escape string")
                .detail("Escape string must be empty or one character."),
        );
    }
    let mut written = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if Some(c) == escape {
            let Some(literal) = rest.next() else {
                return Err(Refusal::new(
                    reason::INVALID_ESCAPE,
                    "LIKE pattern must not end with escape character",
                ));
            };
            written.push('\\');
            written.push(literal);
        } else {
            if c == '\\' {
                written.push('\\');
            }
            written.push(c);
        }
    }
    Ok(written)
}

/// Whether PostgreSQL surely compiles this regular expression, and matches it in bounded time: no
/// back-references, no look-around, no embedded options.
///
/// # Errors
/// 0A000 for anything else.
pub fn regex(pattern: &str) -> Result<(), Refusal> {
    let refused = || {
        Refusal::unsupported(reason::UNSUPPORTED_PATTERN, "this regular expression").hint(
            "Supported are characters, ., bracket expressions, \\d \\w \\s, ^ and $, \
                groups, | and the quantifiers * + ? {m,n}.",
        )
    };
    if pattern.len() > REGEX_BYTES_MAX {
        return Err(Refusal::new(
            reason::CONSTANT_TOO_LONG,
            format!("a regular expression holds at most {REGEX_BYTES_MAX} bytes"),
        ));
    }
    if pattern.is_empty() {
        return Ok(());
    }
    if size(pattern).is_some_and(|(size, _)| size.states <= REGEX_STATES_MAX) {
        Ok(())
    } else {
        Err(refused())
    }
}

/// The most arcs of what PostgreSQL compiles a pattern to: one for each state, and at a state of
/// many characters one for each character that stands in the pattern for itself. These count again
/// for each part that may be skipped. For a pattern that [`regex`] does not read it is the length
/// squared.
pub fn regex_arcs(pattern: &str) -> u64 {
    let length = pattern.len() as u64;
    let Some((
        Size {
            states,
            wide,
            skipped,
            ..
        },
        alone,
    )) = size(pattern)
    else {
        return length * length;
    };
    // And the arcs of classes that have a name.
    wide.saturating_mul(alone + 3)
        .saturating_add(states)
        .saturating_mul(skipped + 1)
}

/// Most characters that a failing attempt to match at one position reads; `None` if it may read the
/// rest of the text.
pub fn regex_reach(pattern: &str) -> Option<u64> {
    // To the end of the text it matches whatever is there.
    let pattern = pattern
        .strip_suffix('$')
        .filter(|rest| rest.ends_with(".*") && !rest.ends_with("\\.*"))
        .unwrap_or(pattern);
    let (size, _) = size(pattern)?;
    let is_one_way = !pattern.contains('|');
    // If the first position is the only candidate, or does not match, no other does.
    let is_decided_at_once = is_one_way
        && ["^", ".*", "(.*"]
            .iter()
            .any(|start| pattern.starts_with(start));
    // A part without an end that is the last of all goes on as long as it matches.
    let ends_endless =
        is_one_way && !pattern.contains('(') && size.endless == 1 && size.ends_endless;
    (size.endless == 0 || is_decided_at_once || ends_endless).then_some(size.states)
}

/// How often a text of [`LENGTH_MAX`] characters is read, at most, to find what the groups of a
/// pattern match: each part before another is tried at each of its lengths, from its beginning.
/// Zero where no group is kept.
pub fn regex_rereads(pattern: &str) -> u64 {
    let is_kept = |at: usize| !pattern[at..].starts_with("(?:") && !pattern[..at].ends_with('\\');
    if !pattern.match_indices('(').any(|(at, _)| is_kept(at)) {
        return 0;
    }
    size(pattern).map_or(LENGTH_MAX, |(size, _)| size.redone)
}

/// Its size, and the number of characters that stand alone or end a range. `None` for what is not
/// read to its end.
fn size(pattern: &str) -> Option<(Size, u64)> {
    let mut reader = Reader {
        rest: pattern.chars().collect(),
        at: 0,
        depth: 0,
        repeats: false,
        alone: BTreeSet::new(),
    };
    let size = reader
        .alternatives()
        .filter(|_| reader.at == reader.rest.len())?;
    Some((size, reader.alone.len() as u64))
}

/// How large a part of a pattern is when its bounds are unfolded.
#[derive(Clone, Copy, Default)]
struct Size {
    states: u64,
    /// The states among them that more than one character leaves.
    wide: u64,
    /// Parts that may be empty.
    skipped: u64,
    /// Parts that are repeated without end, and whether the last part is one.
    endless: u64,
    ends_endless: bool,
    /// Of a text of [`LENGTH_MAX`] characters: how many lengths a match may have, and how often
    /// what stands before a part is tried once more until the part matches too.
    lengths: u64,
    redone: u64,
    /// A part of it takes as little as it can, and is tried from its shortest length on.
    is_lazy: bool,
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

    /// This, then the other.
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

/// A SIMILAR TO pattern with a backslash as its escape, whatever escape it was written with.
///
/// # Errors
/// 0A000 for what the regular expression that it stands for may not hold; 22025 as [`like`].
pub fn similar(pattern: &str, escape: Option<&str>) -> Result<String, Refusal> {
    let pattern = with_backslash(pattern, escape)?;
    regex(&regex_of_similar(&pattern)?)?;
    Ok(pattern)
}

/// The regular expression that a SIMILAR TO pattern with a backslash as its escape stands for,
/// between its ends.
///
/// # Errors
/// 0A000 for what is read in more than one way.
pub fn regex_of_similar(pattern: &str) -> Result<String, Refusal> {
    let (mut written, mut in_brackets, mut rest) = (String::new(), false, pattern.chars());
    while let Some(c) = rest.next() {
        // Versions of PostgreSQL end the bracket expression at different places.
        let is_first = written.ends_with('[') || written.ends_with("[^");
        if in_brackets && (c == '[' || (c == ']' && is_first)) {
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_PATTERN,
                format!("\"{c}\" at this position in a bracket expression of SIMILAR TO"),
            )
            .hint("Use a regular expression with ~."));
        }
        match c {
            // In brackets a backslash is ambiguous; before a letter or a quote it has a special
            // meaning.
            '\\' => match rest.next() {
                Some(escaped)
                    if !in_brackets && escaped.is_ascii_punctuation() && escaped != '"' =>
                {
                    written.extend(['\\', escaped])
                }
                _ => {
                    return Err(Refusal::unsupported(
                        reason::UNSUPPORTED_PATTERN,
                        "this escape in SIMILAR TO",
                    )
                    .hint("Escape a character outside brackets only."));
                }
            },
            '"' => {
                return Err(Refusal::unsupported(
                    reason::UNSUPPORTED_PATTERN,
                    "a quote in SIMILAR TO",
                ));
            }
            // Groups are made (?: by PostgreSQL itself.
            '(' if !in_brackets && rest.as_str().starts_with('?') => {
                return Err(Refusal::unsupported(
                    reason::UNSUPPORTED_PATTERN,
                    "(? in SIMILAR TO",
                ));
            }
            '[' => {
                in_brackets = true;
                written.push(c);
            }
            ']' => {
                in_brackets = false;
                written.push(c);
            }
            '%' if !in_brackets => written += ".*",
            '_' if !in_brackets => written.push('.'),
            '.' | '^' | '$' if !in_brackets => written.extend(['\\', c]),
            c => written.push(c),
        }
    }
    Ok(written)
}

/// Reads a subset of PostgreSQL's advanced regular expressions, and counts the states of each part.
/// `None` outside the subset.
struct Reader {
    rest: Vec<char>,
    at: usize,
    depth: usize,
    /// The part just read holds a quantifier: one on top of it would make the finding of groups
    /// slow.
    repeats: bool,
    /// Characters that are distinguished from all others.
    alone: BTreeSet<char>,
}

impl Reader {
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
            if c == '|' || (c == ')' && self.depth > 0) {
                break;
            }
            self.at += 1;
            let size = match c {
                // Anchors take no quantifier.
                '^' | '$' => Size::ONE,
                c => {
                    let outside = std::mem::replace(&mut self.repeats, false);
                    let atom = self.atom(c)?;
                    let (repeated, times) = (self.repeats, self.quantifier()?);
                    if repeated && times.is_some() {
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
                let states = if self.depth <= 10 {
                    self.alternatives()?
                } else {
                    return None;
                };
                self.depth -= 1;
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

#[cfg(test)]
mod tests;
