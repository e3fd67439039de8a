//! Reads the `summaries:` section: what the owner releases once, for questions to be answered from.

use super::columns::{Literal, literal, names};
use crate::policy::error::{At, Findings, Location};
use crate::policy::summaries::{Accuracy, KEY_STEPS_MAX, Marginals};
use crate::policy::yaml::read;
use crate::policy::yaml::read::Fields;
use crate::policy::yaml::tree::{MapEntry, YamlNode, YamlValue};

/// One summary as the file says it; the columns come from the catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryEntry {
    pub place: Location,
    pub name: String,
    /// Schema and name.
    pub table: At<(String, String)>,
    pub keys: Vec<KeyEntry>,
    pub measures: Vec<At<String>>,
    pub marginals: At<Marginals>,
    pub accuracy: At<Accuracy>,
    /// `None`: all.
    pub roles: Option<Vec<At<String>>>,
}

/// A key as the file says it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyEntry {
    pub name: At<String>,
    /// The edges of its bins; `None` for a key of single values.
    pub bins: Option<At<Vec<At<Literal>>>>,
    /// The highest number, of a key that counts rows.
    pub most: Option<At<u32>>,
    /// The place of the word that declares ranges; `None` where there is none.
    pub ranges: Option<Location>,
}

const MARGINALS: &str = "`all 2` (every pair of keys), `auto` (selected from the data) or a list \
    of lists of keys, such as [[race, birth_year], [race, college_graduate]]";

pub fn read(node: &YamlNode, findings: &mut Findings) -> Vec<SummaryEntry> {
    let YamlValue::Map(entries) = &node.value else {
        findings.error(
            node.place,
            format!(
                "summaries must be a map from a name to what is released under it, not {}",
                node.value.shape()
            ),
        );
        return Vec::new();
    };
    let mut summaries: Vec<SummaryEntry> = Vec::new();
    for entry in entries {
        if summaries.iter().any(|known| known.name == entry.key) {
            let message = format!("summary \"{}\" is given twice", entry.key);
            findings.error(entry.place, message);
        } else {
            summaries.extend(summary(entry, findings));
        }
    }
    summaries
}

fn summary(entry: &MapEntry, findings: &mut Findings) -> Option<SummaryEntry> {
    let what = format!("summary \"{}\"", entry.key);
    if entry.key.is_empty() || entry.key.len() > 63 || entry.key.contains(char::is_control) {
        findings.error(
            entry.place,
            "the name of a summary must have 1 to 63 bytes and no control characters",
        );
    }
    let mut fields = Fields::open(&entry.value, what.as_str(), findings)?;
    let table = fields
        .require("of", "of: schema.table", findings)
        .and_then(|node| table(node, &what, findings));
    let keys = fields
        .require("keys", "keys: [first_column, second_column]", findings)
        .and_then(|node| keys(node, &format!("keys of {what}"), findings));
    let measures = match fields.optional("measures") {
        Some(node) => columns(node, &format!("measures of {what}"), findings),
        None => Some(Vec::new()),
    };
    let marginals = fields
        .require("marginals", "marginals: all 2", findings)
        .and_then(|node| marginals(node, &what, findings));
    let accuracy = accuracy(&mut fields, &what, findings);
    let roles = match fields.optional("roles") {
        Some(node) => Some(columns(node, &format!("roles of {what}"), findings)?),
        None => None,
    };
    fields.done(findings);
    Some(SummaryEntry {
        place: entry.place,
        name: entry.key.clone(),
        table: table?,
        keys: keys?,
        measures: measures?,
        marginals: marginals?,
        accuracy: accuracy?,
        roles,
    })
}

/// `epsilon: 0.5` or `error: 20`.
fn accuracy(fields: &mut Fields<'_>, what: &str, findings: &mut Findings) -> Option<At<Accuracy>> {
    let (epsilon, error) = (fields.optional("epsilon"), fields.optional("error"));
    let (node, key, made): (_, _, fn(f64) -> Accuracy) = match (epsilon, error) {
        (Some(node), None) => (node, "epsilon", Accuracy::Epsilon),
        (None, Some(node)) => (node, "error", Accuracy::Error),
        (None, None) | (Some(_), Some(_)) => {
            let message = format!(
                "{what} must say either its price (`epsilon: 0.5`) or the standard error of its \
                    counts (`error: 20`)"
            );
            findings.error(fields.place(), message);
            return None;
        }
    };
    let value = read::positive(node, &format!("{key} of {what}"), f64::INFINITY, findings)?;
    Some(At {
        place: node.place,
        value: made(value),
    })
}

fn table(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<At<(String, String)>> {
    let wanted = "schema.table of a private table";
    let (text, _) = read::scalar(node, &format!("of in {what}"), wanted, findings)?;
    let name: Option<[String; 2]> = names(text).and_then(|names| names.try_into().ok());
    let Some([schema, table]) = name else {
        let message = format!("of in {what} must be {wanted}, not \"{text}\"");
        findings.error(node.place, message);
        return None;
    };
    Some(At {
        place: node.place,
        value: (schema, table),
    })
}

/// A list of names, or a map from each name to `values`, to `ranges`, to its bins or to the most
/// rows.
fn keys(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<Vec<KeyEntry>> {
    let YamlValue::Map(entries) = &node.value else {
        let names = columns(node, what, findings)?;
        let key = |name| KeyEntry {
            name,
            bins: None,
            most: None,
            ranges: None,
        };
        return Some(names.into_iter().map(key).collect());
    };
    if entries.is_empty() {
        findings.error(node.place, format!("{what} are empty; name at least one"));
        return None;
    }
    let mut all: Vec<KeyEntry> = Vec::new();
    for entry in entries {
        let name = At {
            place: entry.place,
            value: entry.key.clone(),
        };
        let plain = KeyEntry {
            name,
            bins: None,
            most: None,
            ranges: None,
        };
        all.push(match &entry.value.value {
            YamlValue::Scalar { text, .. } if text == "values" => plain,
            YamlValue::Scalar { text, .. } if text == "ranges" => KeyEntry {
                ranges: Some(entry.value.place),
                ..plain
            },
            YamlValue::Map(_) => groups_of_values(&entry.value, plain, findings)?,
            YamlValue::Scalar { .. } | YamlValue::List(_) => {
                let message = format!(
                    "key \"{}\" must be `values`, `ranges` or `{{bins: [lowest, edge, highest]}}`",
                    entry.key
                );
                findings.error(entry.value.place, message);
                return None;
            }
        });
    }
    Some(all)
}

/// `{bins: [0, 20, 35, 100]}`, or `{max: 30}` for a number of rows; with `ranges: true` where
/// ranges of them are asked for.
fn groups_of_values(node: &YamlNode, plain: KeyEntry, findings: &mut Findings) -> Option<KeyEntry> {
    let key = plain.name.value.clone();
    let what = format!("key \"{key}\"");
    let mut fields = Fields::open(node, what.as_str(), findings)?;
    let ranges = match fields.optional("ranges") {
        Some(node) => {
            let is_so = read::truth(node, &format!("ranges of {what}"), findings)?;
            is_so.then_some(node.place)
        }
        None => None,
    };
    if let Some(most) = fields.optional("max") {
        let range = 1..=u64::from(KEY_STEPS_MAX);
        let value = read::count(most, &format!("max of {what}"), range, findings);
        fields.done(findings);
        let most = At {
            place: most.place,
            value: value?,
        };
        return Some(KeyEntry {
            most: Some(most),
            ranges,
            ..plain
        });
    }
    let edges = fields.require("bins", "bins: [lowest, edge, highest]", findings);
    fields.done(findings);
    let edges = edges?;
    let what = format!("an edge of {what}");
    let items = read::list(
        edges,
        &format!("bins of key \"{key}\""),
        "[0, 20, 100]",
        findings,
    )?;
    let edge = |item: &YamlNode| literal(item, &what, findings);
    let bins = At {
        place: edges.place,
        value: items.iter().map(edge).collect::<Option<_>>()?,
    };
    Some(KeyEntry {
        bins: Some(bins),
        ranges,
        ..plain
    })
}

/// A list of names, none twice.
fn columns(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<Vec<At<String>>> {
    let items = read::list(node, what, "[first, second]", findings)?;
    if items.is_empty() {
        findings.error(node.place, format!("{what} are empty; name at least one"));
        return None;
    }
    let mut all: Vec<At<String>> = Vec::new();
    for item in items {
        let (name, _) = read::scalar(item, what, "a list of names", findings)?;
        if all.iter().any(|known| known.value == name) {
            findings.error(item.place, format!("{what} name \"{name}\" twice"));
        } else {
            all.push(At {
                place: item.place,
                value: name.to_owned(),
            });
        }
    }
    Some(all)
}

fn marginals(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<At<Marginals>> {
    let what = format!("marginals of {what}");
    let value = match &node.value {
        YamlValue::Scalar { text, .. } if text == "auto" => Marginals::Auto,
        YamlValue::Scalar { text, .. } => {
            let size = text
                .strip_prefix("all ")
                .and_then(|size| size.trim().parse().ok());
            match size.filter(|size| *size > 0) {
                Some(size) => Marginals::All(size),
                None => {
                    let message = format!("{what} must be {MARGINALS}, not \"{text}\"");
                    findings.error(node.place, message);
                    return None;
                }
            }
        }
        YamlValue::List(_) => {
            let items = read::list(node, &what, "[[first, second], [third]]", findings)?;
            let set = |item: &YamlNode, findings: &mut Findings| {
                let names = columns(item, &what, findings)?;
                Some(names.into_iter().map(|name| name.value).collect())
            };
            let sets = items.iter().map(|item| set(item, findings));
            Marginals::Listed(sets.collect::<Option<Vec<Vec<String>>>>()?)
        }
        YamlValue::Map(_) => {
            findings.error(node.place, format!("{what} must be {MARGINALS}"));
            return None;
        }
    };
    if value == Marginals::Listed(Vec::new()) {
        findings.error(node.place, format!("{what} are empty; write {MARGINALS}"));
        return None;
    }
    Some(At {
        place: node.place,
        value,
    })
}
