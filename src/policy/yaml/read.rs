//! Typed readers of the tree: each returns the value, or notes one error and returns nothing.

use super::tree::{MapEntry, YamlNode, YamlValue};
use crate::policy::error::{At, Findings, Location};

/// Looks up environment variables, by name and by their user; tests pass their own.
pub type VariableLookup<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

/// The entries of one map. `done` reports the keys that no reader asked for.
pub struct Fields<'a> {
    what: String,
    place: Location,
    entries: &'a [MapEntry],
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// `what` names the map in messages.
    pub fn open(
        node: &'a YamlNode,
        what: impl Into<String>,
        findings: &mut Findings,
    ) -> Option<Self> {
        let what = what.into();
        match &node.value {
            YamlValue::Map(entries) => Some(Self {
                what,
                place: node.place,
                entries,
                known: Vec::new(),
            }),
            other => {
                findings.error(
                    node.place,
                    format!(
                        "{what} must be a map of keys and values, not {}",
                        other.shape()
                    ),
                );
                None
            }
        }
    }

    pub fn place(&self) -> Location {
        self.place
    }

    pub fn optional(&mut self, key: &'static str) -> Option<&'a YamlNode> {
        self.known.push(key);
        self.entries.iter().find(|e| e.key == key).map(|e| &e.value)
    }

    /// `wanted` shows the line that is missing.
    pub fn require(
        &mut self,
        key: &'static str,
        wanted: &str,
        findings: &mut Findings,
    ) -> Option<&'a YamlNode> {
        let found = self.optional(key);
        if found.is_none() {
            findings.error(
                self.place,
                format!("{} has no \"{key}\"; write `{wanted}`", self.what),
            );
        }
        found
    }

    /// A key that the design knows and this version does not offer: said so, rather than called
    /// unknown.
    pub fn not_offered(&mut self, key: &'static str, why: &str, findings: &mut Findings) {
        self.known.push(key);
        if let Some(entry) = self.entries.iter().find(|e| e.key == key) {
            findings.error(entry.place, format!("\"{key}\" is not offered yet; {why}"));
        }
    }

    pub fn done(self, findings: &mut Findings) {
        for entry in self
            .entries
            .iter()
            .filter(|e| !self.known.contains(&e.key.as_str()))
        {
            findings.error(
                entry.place,
                format!(
                    "{} has no key \"{}\"; its keys are {}",
                    self.what,
                    entry.key,
                    self.known.join(", ")
                ),
            );
        }
    }
}

/// A scalar as written, and whether it was in quotes.
pub fn scalar<'a>(
    node: &'a YamlNode,
    what: &str,
    wanted: &str,
    findings: &mut Findings,
) -> Option<(&'a str, bool)> {
    match &node.value {
        YamlValue::Scalar { text, quoted } if *quoted || !text.is_empty() => Some((text, *quoted)),
        other => {
            findings.error(
                node.place,
                format!("{what} must be {wanted}, not {}", other.shape()),
            );
            None
        }
    }
}

/// The items of a list.
pub fn list<'a>(
    node: &'a YamlNode,
    what: &str,
    wanted: &str,
    findings: &mut Findings,
) -> Option<&'a [YamlNode]> {
    match &node.value {
        YamlValue::List(items) => Some(items),
        other => {
            findings.error(
                node.place,
                format!(
                    "{what} must be a list such as {wanted}, not {}",
                    other.shape()
                ),
            );
            None
        }
    }
}

/// Text in which every `${NAME}` is replaced from the environment. Errors name the variable, never
/// a value.
pub fn expanded_text(
    node: &YamlNode,
    what: &str,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<At<String>> {
    let (mut rest, _) = scalar(node, what, "text", findings)?;
    let mut value = String::new();
    let mut complete = true;
    while let Some((before, after)) = rest.split_once("${") {
        value.push_str(before);
        let name = after.split_once('}').map(|(name, tail)| {
            rest = tail;
            name
        });
        match name {
            Some(name) if is_variable(name) => match environment(name, what) {
                Some(found) => value.push_str(&found),
                None => {
                    findings.error(
                        node.place,
                        format!("environment variable {name} is not set; {what} needs it"),
                    );
                    complete = false;
                }
            },
            _ => {
                findings.error(
                    node.place,
                    format!(
                        "{what} has a \"${{\" that is not a reference; \
                    write ${{NAME}} with letters, digits and _"
                    ),
                );
                return None;
            }
        }
    }
    value.push_str(rest);
    if complete && value.is_empty() {
        findings.error(node.place, format!("{what} is empty"));
        return None;
    }
    complete.then_some(At {
        place: node.place,
        value,
    })
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A finite number above zero and at most `max`.
pub fn positive(node: &YamlNode, what: &str, max: f64, findings: &mut Findings) -> Option<f64> {
    let wanted = if max.is_finite() {
        format!("a number above 0 and at most {max}")
    } else {
        "a finite number above 0".to_owned()
    };
    plain_number(node, what, &wanted, |x| x > 0.0 && x <= max, findings)
}

/// A finite plain number that `allowed` accepts. Infinity, NaN and hexadecimal are not numbers
/// here.
pub fn plain_number(
    node: &YamlNode,
    what: &str,
    wanted: &str,
    allowed: impl Fn(f64) -> bool,
    findings: &mut Findings,
) -> Option<f64> {
    let (text, quoted) = scalar(node, what, wanted, findings)?;
    let plain = !quoted
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    match text.parse::<f64>() {
        Ok(x) if plain && x.is_finite() && allowed(x) => Some(x),
        _ => {
            findings.error(
                node.place,
                format!("{what} must be {wanted}, not \"{text}\""),
            );
            None
        }
    }
}

/// A whole number within the range.
pub fn count<T: TryFrom<u64>>(
    node: &YamlNode,
    what: &str,
    range: std::ops::RangeInclusive<u64>,
    findings: &mut Findings,
) -> Option<T> {
    let wanted = format!("a whole number from {} to {}", range.start(), range.end());
    let (text, quoted) = scalar(node, what, &wanted, findings)?;
    let digits = !quoted && text.bytes().all(|b| b.is_ascii_digit());
    let value = text
        .parse::<u64>()
        .ok()
        .filter(|n| digits && range.contains(n))
        .and_then(|n| T::try_from(n).ok());
    if value.is_none() {
        findings.error(
            node.place,
            format!("{what} must be {wanted}, not \"{text}\""),
        );
    }
    value
}

/// A probability, as a decimal or as a fraction. That of the truth is above 0.
pub fn probability(
    node: &YamlNode,
    what: &str,
    may_be_zero: bool,
    findings: &mut Findings,
) -> Option<f64> {
    let least = if may_be_zero { "from 0" } else { "above 0" };
    let wanted = format!("a number {least} to 1, as 0.5 or 1/2");
    let (text, _) = scalar(node, what, &wanted, findings)?;
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        text.parse::<f64>().ok().filter(|_| is_plain)
    };
    let value = match text.split_once('/') {
        Some((over, under)) => number(over.trim())
            .zip(number(under.trim()))
            .map(|(a, b)| a / b),
        None => number(text),
    };
    let value = value.filter(|p| (0.0..=1.0).contains(p) && (may_be_zero || *p > 0.0));
    if value.is_none() {
        findings.error(
            node.place,
            format!("{what} must be {wanted}, not \"{text}\""),
        );
    }
    value
}

/// `true` or `false`, in these spellings only.
pub fn truth(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<bool> {
    match scalar(node, what, "true or false", findings)? {
        ("true", false) => Some(true),
        ("false", false) => Some(false),
        (other, _) => {
            findings.error(
                node.place,
                format!("{what} must be true or false, not \"{other}\""),
            );
            None
        }
    }
}
