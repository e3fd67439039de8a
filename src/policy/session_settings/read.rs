//! Reads the value of a setting.

use super::SESSION_SETTINGS;
use crate::policy::target_error::{TARGETS_MAX, TargetError, TargetErrors};
use crate::refusal::{Refusal, reason};

/// 42704, with the names there are.
pub fn unknown(name: &str) -> Refusal {
    let names: Vec<&str> = SESSION_SETTINGS
        .iter()
        .map(|setting| setting.name)
        .collect();
    let message = format!("unrecognized configuration parameter \"{name}\"");
    Refusal::new(reason::UNKNOWN_SETTING, message)
        .hint(format!("The settings of pgveil are {}.", names.join(", ")))
}

pub(super) fn optional<T>(
    text: &str,
    read: impl FnOnce(&str) -> Result<T, Refusal>,
) -> Result<Option<T>, Refusal> {
    if text.is_empty() {
        Ok(None)
    } else {
        read(text).map(Some)
    }
}

fn invalid(name: &str, value: &str) -> Refusal {
    Refusal::new(
        reason::INVALID_SETTING,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

pub(super) fn positive(name: &str, text: &str, example: &str) -> Result<f64, Refusal> {
    above_zero(name, text).map_err(|refusal| {
        refusal.hint(format!(
            "For example {example}. The policy sets what a query may spend."
        ))
    })
}

pub(super) fn tolerance(name: &str, text: &str) -> Result<f64, Refusal> {
    above_zero(name, text)
        .map_err(|refusal| refusal.hint("For example 300, in the unit of the answer."))
}

fn above_zero(name: &str, text: &str) -> Result<f64, Refusal> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|n| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| invalid(name, text).detail("It must be a positive number."))
}

pub(super) fn targets(name: &str, text: &str) -> Result<TargetErrors, Refusal> {
    let list = text.split(',').map(|one| target(name, one.trim()));
    let list = list.collect::<Result<Vec<_>, _>>()?;
    TargetErrors::of_list(&list).ok_or_else(|| {
        invalid(name, text).detail(format!(
            "At most {TARGETS_MAX} different errors may be given."
        ))
    })
}

const TARGET: &str = "10, 2% of the answer, or 50% of a row";

fn target(name: &str, text: &str) -> Result<TargetError, Refusal> {
    let Some((number, of)) = text.split_once('%') else {
        return Ok(TargetError::Absolute(positive(name, text, TARGET)?));
    };
    let share = positive(name, number.trim_end(), TARGET)? / 100.0;
    let words: Vec<&str> = of.split_ascii_whitespace().collect();
    match words.as_slice() {
        [] | ["of", "the", "answer"] => Ok(TargetError::OfAnswer(share)),
        ["of", "a", "row"] => Ok(TargetError::OfRow(share)),
        _ => Err(invalid(name, text).hint(format!("Write {TARGET}."))),
    }
}

pub(super) fn count(name: &str, text: &str) -> Result<u32, Refusal> {
    let number = text.parse::<u32>().ok().filter(|n| *n >= 1);
    number.ok_or_else(|| {
        invalid(name, text)
            .detail("It must be a whole number from 1.")
            .hint("It may only narrow what the policy says.")
    })
}

pub(super) fn choice<T: Copy>(name: &str, text: &str, words: &[(&str, T)]) -> Result<T, Refusal> {
    let spelled = match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => "on".to_owned(),
        "false" | "no" | "0" => "off".to_owned(),
        other => other.to_owned(),
    };
    let available = || {
        words
            .iter()
            .map(|(word, _)| *word)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = words
        .iter()
        .find(|(word, _)| *word == spelled)
        .map(|(_, value)| *value);
    found.ok_or_else(|| invalid(name, text).hint(format!("Available values: {}.", available())))
}
