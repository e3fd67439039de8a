//! Checks constant patterns before PostgreSQL sees them. PostgreSQL compiles a pattern at the first
//! row that reaches it, so an error would reveal that such a row exists.

mod regex_reader;

use crate::refusal::{Refusal, reason};
use regex_reader::{GROUPS_DEEP_MAX, LENGTH_MAX, Size, UnreadPattern, size};

/// Longest constant pattern of LIKE, and most wildcards in it: matching time grows with both.
const LIKE_BYTES_MAX: usize = 1000;
const LIKE_WILDCARDS_MAX: usize = 4;
/// Longest regular expression, and most states that its bounds may unfold to.
const REGEX_BYTES_MAX: usize = 500;
const REGEX_STATES_MAX: u64 = 2000;

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
    check(pattern, |part| {
        if part.is_empty() {
            "an unfinished regular expression".to_owned()
        } else {
            format!("\"{part}\" in a regular expression")
        }
    })
}

/// [`regex`]; `unread` names a pattern by the part that is not read, empty for its end.
fn check(pattern: &str, unread: impl FnOnce(&str) -> String) -> Result<(), Refusal> {
    if pattern.len() > REGEX_BYTES_MAX {
        return Err(Refusal::new(
            reason::CONSTANT_TOO_LONG,
            format!("a regular expression holds at most {REGEX_BYTES_MAX} bytes"),
        ));
    }
    if pattern.is_empty() {
        return Ok(());
    }
    let construct = match size(pattern) {
        Ok((size, _)) if size.states <= REGEX_STATES_MAX => return Ok(()),
        Ok(_) => format!(
            "a regular expression whose bounds unfold to more than {REGEX_STATES_MAX} characters"
        ),
        Err(UnreadPattern::TooDeep) => {
            format!("a regular expression with more than {GROUPS_DEEP_MAX} groups in one another")
        }
        Err(UnreadPattern::Part(part)) => unread(&part),
    };
    Err(
        Refusal::unsupported(reason::UNSUPPORTED_PATTERN, construct).hint(
            "Supported are characters, ., bracket expressions, \\d \\w \\s, ^ and $, \
                groups, | and the quantifiers * + ? {m,n}.",
        ),
    )
}

/// The most arcs of what PostgreSQL compiles a pattern to: one for each state, and at a state of
/// many characters one for each character that stands in the pattern for itself. These count again
/// for each part that may be skipped. For a pattern that [`regex`] does not read it is the length
/// squared.
pub fn regex_arcs(pattern: &str) -> u64 {
    let length = pattern.len() as u64;
    let Ok((
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
    let (size, _) = size(pattern).ok()?;
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

/// How often, at most, a text of [`LENGTH_MAX`] characters is read to find what the groups of a
/// pattern match. PostgreSQL tries each part at every length that it may have, and reads the next
/// part anew each time. Zero where the pattern captures nothing.
pub fn regex_rereads(pattern: &str) -> u64 {
    let is_kept = |at: usize| !pattern[at..].starts_with("(?:") && !pattern[..at].ends_with('\\');
    if !pattern.match_indices('(').any(|(at, _)| is_kept(at)) {
        return 0;
    }
    size(pattern).map_or(LENGTH_MAX, |(size, _)| size.redone)
}

/// A SIMILAR TO pattern with a backslash as its escape, whatever escape it was written with.
///
/// # Errors
/// 0A000 for what the regular expression that it stands for may not hold; 22025 as [`like`].
pub fn similar(pattern: &str, escape: Option<&str>) -> Result<String, Refusal> {
    let pattern = with_backslash(pattern, escape)?;
    check(&regex_of_similar(&pattern)?, |_| {
        "this SIMILAR TO pattern".to_owned()
    })?;
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

#[cfg(test)]
mod tests;
