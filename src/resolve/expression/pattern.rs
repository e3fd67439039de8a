//! Constant patterns, checked before PostgreSQL sees them: it compiles a pattern at the first row that meets it, so that an error would tell that there is one.

use crate::refusal::{Refusal, sqlstate};

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
/// 22025 for an escape of more than one character and for a pattern that ends in its escape; 0A000 where it is too large.
pub fn like(pattern: &str, escape: Option<&str>) -> Result<String, Refusal> {
    let written = with_backslash(pattern, escape)?;
    if written.len() > LIKE_BYTES_MAX || written.matches('%').count() > LIKE_WILDCARDS_MAX {
        let limit = format!("a LIKE pattern of more than {LIKE_BYTES_MAX} bytes or {LIKE_WILDCARDS_MAX} % signs");
        return Err(Refusal::unsupported(limit));
    }
    Ok(written)
}

fn with_backslash(pattern: &str, escape: Option<&str>) -> Result<String, Refusal> {
    let mut characters = escape.unwrap_or("\\").chars();
    let escape = characters.next();
    if characters.next().is_some() {
        return Err(Refusal::new("22025", "invalid escape string").detail("Escape string must be empty or one character."));
    }
    let mut written = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if Some(c) == escape {
            let Some(literal) = rest.next() else {
                return Err(Refusal::new("22025", "LIKE pattern must not end with escape character"));
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

/// Whether PostgreSQL surely compiles this regular expression, and matches it in bounded time: no back-references, no look-around, no embedded options.
///
/// # Errors
/// 0A000 for anything else.
pub fn regex(pattern: &str) -> Result<(), Refusal> {
    let refused = || {
        Refusal::unsupported("this regular expression over private rows")
            .hint("Characters, ., classes in brackets, \\d \\w \\s, ^ and $, groups, | and the quantifiers * + ? {m,n} are matched.")
    };
    if pattern.len() > REGEX_BYTES_MAX {
        return Err(Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, format!("a regular expression holds at most {REGEX_BYTES_MAX} bytes")));
    }
    if pattern.is_empty() {
        return Ok(());
    }
    let mut reader = Reader { rest: pattern.chars().collect(), at: 0, depth: 0, repeats: false };
    let states = reader.alternatives().ok_or_else(refused)?;
    if reader.at == reader.rest.len() && states <= REGEX_STATES_MAX { Ok(()) } else { Err(refused()) }
}

/// States that a pattern's bounds unfold to; where it is none that [`regex`] reads, its length.
pub fn regex_states(pattern: &str) -> u64 {
    let mut reader = Reader { rest: pattern.chars().collect(), at: 0, depth: 0, repeats: false };
    let states = reader.alternatives().filter(|_| reader.at == reader.rest.len());
    states.unwrap_or(pattern.len() as u64)
}

/// A SIMILAR TO pattern with a backslash as its escape, whatever escape it was written with.
///
/// # Errors
/// 0A000 for what the regular expression that it stands for may not hold; 22025 as [`like`].
pub fn similar(pattern: &str, escape: Option<&str>) -> Result<String, Refusal> {
    let pattern = with_backslash(pattern, escape)?;
    let (mut written, mut in_brackets, mut rest) = (String::new(), false, pattern.chars());
    while let Some(c) = rest.next() {
        match c {
            // In brackets a backslash is read in more than one way; before a letter or a quote it means something of its own.
            '\\' => match rest.next() {
                Some(escaped) if !in_brackets && escaped.is_ascii_punctuation() && escaped != '"' => written.extend(['\\', escaped]),
                _ => return Err(Refusal::unsupported("this escape in SIMILAR TO").hint("Escape a sign outside brackets.")),
            },
            '"' => return Err(Refusal::unsupported("a quote in SIMILAR TO")),
            // Groups are made (?: by PostgreSQL itself.
            '(' if !in_brackets && rest.as_str().starts_with('?') => return Err(Refusal::unsupported("(? in SIMILAR TO")),
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
    regex(&written)?;
    Ok(pattern)
}

/// Reads a subset of PostgreSQL's advanced regular expressions, and counts the states of each part. `None` outside the subset.
struct Reader {
    rest: Vec<char>,
    at: usize,
    depth: usize,
    /// The part just read holds a quantifier: one on top of it would make the finding of groups slow.
    repeats: bool,
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

    fn alternatives(&mut self) -> Option<u64> {
        let mut states = self.branch()?;
        while self.take('|') {
            states = states.checked_add(self.branch()?)?;
        }
        Some(states)
    }

    fn branch(&mut self) -> Option<u64> {
        let (mut states, mut pieces) = (0u64, 0);
        while let Some(c) = self.peek() {
            if c == '|' || (c == ')' && self.depth > 0) {
                break;
            }
            self.at += 1;
            let size = match c {
                // Anchors take no quantifier.
                '^' | '$' => 1,
                c => {
                    let outside = std::mem::replace(&mut self.repeats, false);
                    let atom = self.atom(c)?;
                    let (repeated, times) = (self.repeats, self.quantifier()?);
                    if repeated && times.is_some() {
                        return None;
                    }
                    self.repeats = outside || repeated || times.is_some();
                    atom.checked_mul(times.unwrap_or(1))?
                }
            };
            states = states.checked_add(size)?;
            pieces += 1;
        }
        (pieces > 0).then_some(states)
    }

    fn atom(&mut self, first: char) -> Option<u64> {
        match first {
            '(' => {
                if self.take('?') && !self.take(':') {
                    return None;
                }
                self.depth += 1;
                let states = if self.depth <= 10 { self.alternatives()? } else { return None };
                self.depth -= 1;
                self.take(')').then_some(states)
            }
            '[' => self.brackets(),
            '\\' => self.escape().map(|_| 1),
            '*' | '+' | '?' | '{' | '}' | ')' | ']' | '\0' => None,
            _ => Some(1),
        }
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
    fn quantifier(&mut self) -> Option<Option<u64>> {
        let times = match self.peek() {
            Some('*' | '+' | '?') => {
                self.at += 1;
                1
            }
            Some('{') => {
                self.at += 1;
                let least = self.number()?;
                let most = if self.take(',') { if self.peek() == Some('}') { least } else { self.number()? } } else { least };
                if !self.take('}') || most > BOUND_MAX || least > most || most == 0 {
                    return None;
                }
                most + 1
            }
            _ => return Some(None),
        };
        self.take('?');
        // A quantifier of a quantifier is an error.
        if matches!(self.peek(), Some('*' | '+' | '?' | '{')) { None } else { Some(Some(times)) }
    }

    fn number(&mut self) -> Option<u64> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        self.rest[start..self.at].iter().collect::<String>().parse().ok().filter(|n| *n <= BOUND_MAX)
    }

    /// A hyphen that is neither first nor last makes a range; behind a class or another range it is an error.
    fn brackets(&mut self) -> Option<u64> {
        self.take('^');
        let mut members = 0;
        loop {
            let c = self.peek()?;
            self.at += 1;
            let low = match c {
                ']' if members > 0 => return Some(1),
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
            if self.peek() == Some('-') && self.rest.get(self.at + 1).is_some_and(|c| *c != ']') {
                self.at += 1;
                let high = self.peek()?;
                self.at += 1;
                let width = u32::from(high).checked_sub(u32::from(low))?;
                if matches!(high, '[' | '\\') || low == '\\' || width > RANGE_MAX {
                    return None;
                }
            }
        }
    }

    /// `[:alpha:]` and its like, after the first bracket.
    fn class_name(&mut self) -> Option<()> {
        const NAMES: &[&str] = &["alpha", "upper", "lower", "digit", "xdigit", "alnum", "punct", "space", "blank"];
        let rest: String = self.rest[self.at..].iter().take(10).collect();
        let name = NAMES.iter().find(|name| rest.starts_with(&format!(":{name}:]")))?;
        self.at += name.len() + 3;
        Some(())
    }
}

enum Escape {
    Class,
    Complement,
    Character(char),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_end_before_their_escape() {
        assert_eq!(like("a!%b\\", Some("!")).unwrap(), "a\\%b\\\\");
        assert_eq!(like("a\\%", None).unwrap(), "a\\%");
        assert_eq!(like("a\\", Some("")).unwrap(), "a\\\\");
        assert!(like("abc", Some("c")).is_err() && like("a\\", None).is_err() && like("a", Some("ab")).is_err());
    }

    #[test]
    fn quantifiers_do_not_nest() {
        assert!(regex("(a*)*b").is_err() && regex("(a+b?)+").is_err() && regex("(a|b)+c*").is_ok());
    }

    #[test]
    fn only_plain_regular_expressions_pass() {
        for good in [
            "",
            "a",
            "^[a-z]+-[0-9]+$",
            "(alpha|beta)-\\d{1,3}",
            "a.*?b",
            "[[:alpha:]_]+",
            "[]x]",
            "[^a-c\\d]",
            "\\.",
            "x{2}",
            "(?:a|b)c?",
            "[-a]",
            "[^-a]",
            "[a-]",
            "[a-z-]",
            "[--a]",
        ] {
            assert!(regex(good).is_ok(), "{good}");
        }
        for bad in [
            "*a",
            "a**",
            "(a",
            "a)",
            "[a",
            "a{2",
            "a{3,2}",
            "\\1",
            "(a)\\1",
            "(?=a)",
            "(?i)a",
            "***=a",
            "a|",
            "()",
            "[b-a]",
            "[[=a=]]",
            "\\y",
            "a\\",
            "^*",
            "(((a{100}){100}){100})",
            "[\\D]",
            "a{1,101}",
            "{1}",
            "[a-\\d]",
            "[a-b-c]",
            "[a-z0-9-_]",
            "[\\d-z]",
            "[[:alpha:]-z]",
            "[\\r-\u{b}]",
        ] {
            assert!(regex(bad).is_err(), "{bad}");
        }
        assert!(similar("(alpha|beta)-[0-9]+%", None).is_ok() && similar("a.b_", None).is_ok());
        assert!(similar("(?:a)", None).is_err() && similar("[(?]", None).is_ok());
        assert!(similar("%*", None).is_err() && similar("[\\%]", None).is_err() && similar("(a", None).is_err() && similar("a\\", None).is_err());
        assert_eq!(similar("a!%b\\", Some("!")).unwrap(), "a\\%b\\\\");
    }
}
