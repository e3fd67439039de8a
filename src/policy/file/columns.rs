//! Reads a policy's entries for the columns of a table.

use super::collected::{Collection, read_collection};
use crate::mechanism::Randomiser;
use crate::policy::error::{At, Findings, Location};
use crate::policy::yaml::read;
use crate::policy::yaml::read::Fields;
use crate::policy::yaml::tree::{MapEntry, YamlNode, YamlValue};

/// One column as the file names it.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnEntry {
    pub place: Location,
    pub name: String,
    pub rule: ColumnRule,
    /// `nullable: false` is compared with the catalog.
    pub nullable: Option<At<bool>>,
    /// `complete: true`: no value occurs but those listed.
    pub complete: Option<At<bool>>,
    /// The most that one unit's values add up to.
    pub unit_total: Option<At<f64>>,
    /// `local`: pgveil randomises the values on the way to the database.
    pub is_local: bool,
}

/// The owner's entry for a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnRule {
    Hidden,
    Visible,
    Bounds {
        place: Location,
        lower: At<Literal>,
        upper: At<Literal>,
    },
    /// `auto`, or `auto` in place of one bound: an end that is not written is left to a search.
    Searched {
        place: Location,
        lower: Option<At<Literal>>,
        upper: Option<At<Literal>>,
    },
    Values(Vec<At<Literal>>),
    Domain(At<(String, String, String)>),
    /// Values of this rule, each of which was randomised before it was stored.
    Collected {
        place: Location,
        randomiser: Randomiser,
        /// The column with the cohort of each report, where the randomiser has cohorts.
        cohort: Option<At<String>>,
        of: Box<ColumnRule>,
    },
}

impl ColumnRule {
    /// The rule of values that were randomised in this way, if they were. `None` where it cannot be
    /// read.
    fn randomised_by(self, collected: Option<(Location, Option<Collection>)>) -> Option<Self> {
        let Some((place, collection)) = collected else {
            return Some(self);
        };
        let Collection { randomiser, cohort } = collection?;
        Some(Self::Collected {
            place,
            randomiser,
            cohort,
            of: Box::new(self),
        })
    }

    /// The rule of the true values, where they were randomised; else itself.
    pub fn of_values(&self) -> &Self {
        match self {
            Self::Collected {
                place: _,
                randomiser: _,
                cohort: _,
                of,
            } => of,
            other => other,
        }
    }
}

/// The largest total of one unit's values.
const UNIT_TOTAL_MAX: f64 = 1e30;

/// A constant as written; its type comes from the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal {
    pub text: String,
    pub quoted: bool,
}

pub fn columns(node: &YamlNode, table: &str, findings: &mut Findings) -> Vec<ColumnEntry> {
    let YamlValue::Map(entries) = &node.value else {
        findings.error(
            node.place,
            format!(
                "columns of table {table} must be a map from a column to \
                what is known of it, not {}",
                node.value.shape()
            ),
        );
        return Vec::new();
    };
    let mut columns: Vec<ColumnEntry> = Vec::new();
    for entry in entries {
        for column in column(entry, findings) {
            if columns.iter().any(|known| known.name == column.name) {
                findings.error(
                    column.place,
                    format!("column \"{}\" of table {table} is given twice", column.name),
                );
            } else {
                columns.push(column);
            }
        }
    }
    columns
}

const COLUMN_FORMS: &str =
    "visible, hidden, {bounds: [0, 100]}, {values: [a, b]} or {domain: schema.table.column}";

/// One entry's rules: for its column, and for those that share them.
fn column(entry: &MapEntry, findings: &mut Findings) -> Vec<ColumnEntry> {
    let made = |rule| {
        vec![ColumnEntry {
            place: entry.place,
            name: entry.key.clone(),
            rule,
            nullable: None,
            complete: None,
            unit_total: None,
            is_local: false,
        }]
    };
    match &entry.value.value {
        YamlValue::Scalar { text, .. } => match text.as_str() {
            "visible" => made(ColumnRule::Visible),
            "hidden" => made(ColumnRule::Hidden),
            _ => {
                findings.error(
                    entry.value.place,
                    format!("column \"{}\" must be {COLUMN_FORMS}", entry.key),
                );
                Vec::new()
            }
        },
        YamlValue::Map(_) => column_map(entry, findings).unwrap_or_default(),
        YamlValue::List(_) => {
            findings.error(
                entry.value.place,
                format!(
                    "column \"{}\" must be {COLUMN_FORMS}; a list alone may mean either",
                    entry.key
                ),
            );
            Vec::new()
        }
    }
}

fn column_map(entry: &MapEntry, findings: &mut Findings) -> Option<Vec<ColumnEntry>> {
    let what = format!("column \"{}\"", entry.key);
    let mut fields = Fields::open(&entry.value, what.as_str(), findings)?;
    let bounds = fields
        .optional("bounds")
        .map(|node| bounds(node, &what, findings));
    let values = fields
        .optional("values")
        .map(|node| values(node, &what, findings));
    let domain = fields
        .optional("domain")
        .map(|node| domain(node, &what, findings));
    let visible = fields.optional("visible").map(|node| {
        match read::truth(node, &format!("visible of {what}"), findings)? {
            true => Some(ColumnRule::Visible),
            false => Some(ColumnRule::Hidden),
        }
    });
    let mut truth = |name: &'static str, findings: &mut Findings| {
        let node = fields.optional(name)?;
        let value = read::truth(node, &format!("{name} of {what}"), findings)?;
        Some(At {
            place: node.place,
            value,
        })
    };
    let (nullable, complete) = (truth("nullable", findings), truth("complete", findings));
    let unit_total = fields.optional("unit_total").and_then(|node| {
        let what = format!("unit_total of {what}");
        let value = read::positive(node, &what, UNIT_TOTAL_MAX, findings)?;
        Some(At {
            place: node.place,
            value,
        })
    });
    let (collected, is_local) = reports(&mut fields, &what, findings);
    let others = fields
        .optional("also")
        .map(|node| also(node, &what, findings))
        .unwrap_or_default();
    fields.not_offered(
        "missing",
        "NULL is left out of sums, as in PostgreSQL; write COALESCE in the query",
        findings,
    );
    fields.done(findings);
    let rule = only_rule([bounds, values, domain, visible], entry, findings)?;
    let rule = rule.randomised_by(collected)?;
    let own = At {
        place: entry.place,
        value: entry.key.clone(),
    };
    let made = |At { place, value }| ColumnEntry {
        place,
        name: value,
        rule: rule.clone(),
        nullable: nullable.clone(),
        complete: complete.clone(),
        unit_total: unit_total.clone(),
        is_local,
    };
    Some(std::iter::once(own).chain(others).map(made).collect())
}

/// How values are randomised, where they are: before they come to pgveil, or by pgveil on the way
/// to the database.
fn reports(
    fields: &mut Fields<'_>,
    what: &str,
    findings: &mut Findings,
) -> (Option<(Location, Option<Collection>)>, bool) {
    let (collected, local) = (fields.optional("collected"), fields.optional("local"));
    let mut read = |key: &str, node: Option<&YamlNode>| {
        let collection = read_collection(node?, &format!("{key} of {what}"), findings);
        Some((node?.place, collection))
    };
    let (collected, local) = (read("collected", collected), read("local", local));
    if let (Some(_), Some((place, _))) = (&collected, &local) {
        let message = format!(
            "{what} must not have both: collected says that values were randomised before they \
                came here, local that pgveil randomises them"
        );
        findings.error(*place, message);
    }
    let is_local = local.is_some();
    (local.or(collected), is_local)
}

/// The one rule that an entry gives.
fn only_rule(
    given: [Option<Option<ColumnRule>>; 4],
    entry: &MapEntry,
    findings: &mut Findings,
) -> Option<ColumnRule> {
    let given: Vec<_> = given.into_iter().flatten().collect();
    if given.len() != 1 {
        findings.error(
            entry.value.place,
            format!(
                "column \"{}\" must say exactly one of bounds, values, domain and visible",
                entry.key
            ),
        );
        return None;
    }
    given.into_iter().next().flatten()
}

/// Further columns for which the same holds.
fn also(node: &YamlNode, what: &str, findings: &mut Findings) -> Vec<At<String>> {
    let what = format!("also of {what}");
    let items = read::list(node, &what, "[first, second]", findings).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| {
            let (name, _) = read::scalar(item, &what, "a list of columns", findings)?;
            Some(At {
                place: item.place,
                value: name.to_owned(),
            })
        })
        .collect()
}

fn bounds(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<ColumnRule> {
    if is_auto(node) {
        return Some(ColumnRule::Searched {
            place: node.place,
            lower: None,
            upper: None,
        });
    }
    let items = read::list(node, &format!("bounds of {what}"), "[0, 100]", findings)?;
    let [lower, upper] = items else {
        findings.error(
            node.place,
            format!(
                "bounds of {what} must be two values, the lowest and the highest, not {}",
                items.len()
            ),
        );
        return None;
    };
    let mut end = |node: &YamlNode, which: &str| {
        if is_auto(node) {
            Some(None)
        } else {
            literal(node, &format!("the {which} bound of {what}"), findings).map(Some)
        }
    };
    let (lower, upper) = (end(lower, "lower"), end(upper, "upper"));
    let place = node.place;
    Some(match (lower?, upper?) {
        (Some(lower), Some(upper)) => ColumnRule::Bounds {
            place,
            lower,
            upper,
        },
        (lower, upper) => ColumnRule::Searched {
            place,
            lower,
            upper,
        },
    })
}

/// The word `auto`, not in quotes.
pub fn is_auto(node: &YamlNode) -> bool {
    matches!(&node.value, YamlValue::Scalar { text, quoted: false } if text == "auto")
}

fn values(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<ColumnRule> {
    let items = read::list(node, &format!("values of {what}"), "[a, b]", findings)?;
    if items.is_empty() {
        findings.error(
            node.place,
            format!("values of {what} is empty; to hide the column write hidden"),
        );
        return None;
    }
    let read: Vec<_> = items
        .iter()
        .filter_map(|item| literal(item, &format!("a value of {what}"), findings))
        .collect();
    (read.len() == items.len()).then_some(ColumnRule::Values(read))
}

pub(super) fn literal(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<At<Literal>> {
    let (text, quoted) = read::scalar(node, what, "a constant of the column's type", findings)?;
    if !quoted && matches!(text, "null" | "Null" | "NULL" | "~") {
        findings.error(
            node.place,
            format!(
                "{what} cannot be NULL; where the column is nullable, \
            NULL is always among its values"
            ),
        );
        return None;
    }
    Some(At {
        place: node.place,
        value: Literal {
            text: text.to_owned(),
            quoted,
        },
    })
}

fn domain(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<ColumnRule> {
    let (text, _) = read::scalar(
        node,
        &format!("domain of {what}"),
        "schema.table.column of a public table",
        findings,
    )?;
    let name: Option<[String; 3]> = names(text).and_then(|n| n.try_into().ok());
    let Some([schema, table, column]) = name else {
        findings.error(
            node.place,
            format!(
                "domain of {what} must be schema.table.column of a public table, not \"{text}\""
            ),
        );
        return None;
    };
    Some(ColumnRule::Domain(At {
        place: node.place,
        value: (schema, table, column),
    }))
}

/// The parts of `a.b.c`, as the catalog stores them: case is kept, and a part in double quotes may
/// hold dots.
pub fn names(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let part;
        if let Some(inner) = rest.strip_prefix('"') {
            let (quoted, tail) = inner.split_once('"')?;
            part = quoted;
            rest = tail;
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            (part, rest) = rest.split_at(end);
        }
        if part.is_empty() || part.contains(|c: char| c.is_control()) {
            return None;
        }
        parts.push(part.to_owned());
        match rest.strip_prefix('.') {
            Some(tail) => rest = tail,
            None if rest.is_empty() => return Some(parts),
            None => return None,
        }
    }
}
