//! Functions of text on constants. Case is converted for ASCII only: beyond it, the locale decides.

use super::{NotEvaluable, Value};
use crate::ir::functions::Function;
use crate::policy::Scalar;

/// Longest text that is evaluated, and that an evaluation gives, in bytes.
const BYTES_MAX: usize = 1000;
/// Most pairs of characters that one call compares.
const PAIRS_MAX: usize = 4000;

fn text(value: &Scalar) -> Result<&str, NotEvaluable> {
    match value {
        Scalar::Text(text) if text.len() <= BYTES_MAX => Ok(text),
        _ => Err(NotEvaluable),
    }
}

/// A text that a call gives.
fn text_value(text: String) -> Result<Value, NotEvaluable> {
    if text.len() <= BYTES_MAX {
        Ok(Some(Scalar::Text(text)))
    } else {
        Err(NotEvaluable)
    }
}

/// # Errors
/// Where the product of both lengths is more than one call may compare.
fn comparable_text<'t>(subject: &str, other: &'t Scalar) -> Result<&'t str, NotEvaluable> {
    let other = text(other)?;
    if subject.len() * other.len() <= PAIRS_MAX {
        Ok(other)
    } else {
        Err(NotEvaluable)
    }
}

fn integer(value: &Scalar) -> Result<i64, NotEvaluable> {
    match value {
        Scalar::Int(value) => Ok(*value),
        _ => Err(NotEvaluable),
    }
}

/// `concat` and `concat_ws`: NULLs are left out.
pub(super) fn concatenate(function: Function, values: &[Value]) -> Result<Value, NotEvaluable> {
    let (separator, parts) = match (function, values) {
        (Function::Concat, parts) => ("", parts),
        (_, [Some(separator), parts @ ..]) => (text(separator)?, parts),
        (_, _) => return Err(NotEvaluable),
    };
    let parts = parts
        .iter()
        .flatten()
        .map(text)
        .collect::<Result<Vec<_>, _>>()?;
    let bytes = parts.iter().map(|part| part.len()).sum::<usize>()
        + separator.len() * parts.len().saturating_sub(1);
    if bytes <= BYTES_MAX {
        text_value(parts.join(separator))
    } else {
        Err(NotEvaluable)
    }
}

pub(super) fn strict(function: Function, values: &[&Scalar]) -> Result<Value, NotEvaluable> {
    use Function as F;
    let Some((first, rest)) = values.split_first() else {
        return Err(NotEvaluable);
    };
    let subject = text(first)?;
    let number = |value: usize| Ok(Some(Scalar::Int(value as i64)));
    match (function, rest) {
        (F::Lower, []) if subject.is_ascii() => text_value(subject.to_ascii_lowercase()),
        (F::Upper, []) if subject.is_ascii() => text_value(subject.to_ascii_uppercase()),
        (F::Initcap, []) if subject.is_ascii() => text_value(capitalize(subject)),
        (F::Length, []) => number(subject.chars().count()),
        (F::OctetLength, []) => number(subject.len()),
        (F::Reverse, []) => text_value(subject.chars().rev().collect()),
        (F::Ascii, []) => Ok(Some(Scalar::Int(
            subject
                .chars()
                .next()
                .map_or(0, |c| i64::from(u32::from(c))),
        ))),
        (F::Trim | F::TrimLeft | F::TrimRight, characters) => {
            let characters = characters
                .first()
                .map_or(Ok(" "), |c| comparable_text(subject, c))?;
            text_value(trim(function, subject, characters))
        }
        (F::Concatenate, [other]) => text_value(format!("{subject}{}", text(other)?)),
        (F::Position, [wanted]) => match subject.find(text(wanted)?) {
            Some(at) => number(subject[..at].chars().count() + 1),
            None => number(0),
        },
        (F::StartsWith, [prefix]) => Ok(Some(Scalar::Bool(subject.starts_with(text(prefix)?)))),
        (F::Replace, [from, to]) => match text(from)? {
            "" => text_value(subject.to_owned()),
            from => text_value(replace(subject, from, text(to)?)?),
        },
        (F::Left | F::Right | F::Substring | F::SubstringFor, counts) => {
            text_value(part(function, subject, counts)?)
        }
        (F::SplitPart, [separator, at]) => {
            text_value(split(subject, text(separator)?, integer(at)?)?)
        }
        (F::PadLeft | F::PadRight, [length, fill @ ..]) => text_value(pad(
            function,
            subject,
            integer(length)?,
            fill.first().map_or(Ok(" "), |f| text(f))?,
        )?),
        (F::Repeat, [count]) => match usize::try_from(integer(count)?).unwrap_or(0) {
            count if subject.len().saturating_mul(count) <= BYTES_MAX => {
                text_value(subject.repeat(count))
            }
            _ => Err(NotEvaluable),
        },
        (F::Like, [pattern]) => {
            let pattern: Vec<char> = comparable_text(subject, pattern)?.chars().collect();
            let subject: Vec<char> = subject.chars().collect();
            Ok(Some(Scalar::Bool(matches(&subject, &pattern))))
        }
        _ => Err(NotEvaluable),
    }
}

fn trim(function: Function, subject: &str, characters: &str) -> String {
    let is_trimmed = |c: char| characters.contains(c);
    let left = if function == Function::TrimRight {
        subject
    } else {
        subject.trim_start_matches(is_trimmed)
    };
    if function == Function::TrimLeft {
        left
    } else {
        left.trim_end_matches(is_trimmed)
    }
    .to_owned()
}

fn capitalize(text: &str) -> String {
    let mut inside = false;
    text.chars()
        .map(|c| {
            let shown = if inside {
                c.to_ascii_lowercase()
            } else {
                c.to_ascii_uppercase()
            };
            inside = c.is_ascii_alphanumeric();
            shown
        })
        .collect()
}

fn part(function: Function, subject: &str, counts: &[&Scalar]) -> Result<String, NotEvaluable> {
    use Function as F;
    let length = subject.chars().count() as i64;
    let count = counts
        .first()
        .ok_or(NotEvaluable)
        .and_then(|c| integer(c))?;
    // The characters from the first up to but without the last, counted from 0.
    let (first, last) = match (function, counts.get(1)) {
        (F::Left, _) => (0, if count < 0 { length + count } else { count }),
        (F::Right, _) => (if count < 0 { -count } else { length - count }, length),
        (F::SubstringFor, Some(number)) => (count - 1, count - 1 + integer(number)?),
        _ => (count - 1, length),
    };
    let (first, last) = (
        first.clamp(0, length) as usize,
        last.clamp(0, length) as usize,
    );
    Ok(subject
        .chars()
        .skip(first)
        .take(last.saturating_sub(first))
        .collect())
}

/// Gives up where the result would be too long to be evaluated here.
fn replace(subject: &str, from: &str, to: &str) -> Result<String, NotEvaluable> {
    let found = subject.matches(from).count();
    if subject.len() - found * from.len() + found * to.len() <= BYTES_MAX {
        Ok(subject.replace(from, to))
    } else {
        Err(NotEvaluable)
    }
}

fn split(subject: &str, separator: &str, at: i64) -> Result<String, NotEvaluable> {
    let at = usize::try_from(at)
        .ok()
        .and_then(|at| at.checked_sub(1))
        .ok_or(NotEvaluable)?;
    if separator.is_empty() {
        return Ok(if at == 0 {
            subject.to_owned()
        } else {
            String::new()
        });
    }
    Ok(subject.split(separator).nth(at).unwrap_or("").to_owned())
}

/// Gives up where the result would be too long to be evaluated here.
fn pad(function: Function, subject: &str, length: i64, fill: &str) -> Result<String, NotEvaluable> {
    let length = usize::try_from(length).unwrap_or(0);
    if length > BYTES_MAX {
        return Err(NotEvaluable);
    }
    let have = subject.chars().count();
    if have >= length {
        return Ok(subject.chars().take(length).collect());
    }
    let filling: String = fill
        .chars()
        .cycle()
        .take(if fill.is_empty() { 0 } else { length - have })
        .collect();
    Ok(if function == Function::PadLeft {
        format!("{filling}{subject}")
    } else {
        format!("{subject}{filling}")
    })
}

/// LIKE: `%` any characters, `_` one, a backslash takes the next as it is. Only the last `%` met is
/// ever tried again: steps are at most the product of both lengths.
fn matches(subject: &[char], pattern: &[char]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while at < subject.len() {
        let met = match pattern.get(place..) {
            Some(['%', ..]) => {
                again = Some((at, place + 1));
                place += 1;
                continue;
            }
            Some(['_', ..]) => Some(1),
            Some(['\\', literal, ..]) => (subject[at] == *literal).then_some(2),
            Some([literal, ..]) => (subject[at] == *literal).then_some(1),
            Some([]) | None => None,
        };
        match (met, again) {
            (Some(length), _) => (at, place) = (at + 1, place + length),
            (None, Some((from, behind))) => {
                again = Some((from + 1, behind));
                (at, place) = (from + 1, behind);
            }
            (None, None) => return false,
        }
    }
    pattern
        .get(place..)
        .is_none_or(|rest| rest.iter().all(|c| *c == '%'))
}
