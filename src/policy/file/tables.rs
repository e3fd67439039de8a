//! Reads the `tables:` section: which tables are shown, whose rows they hold, and what is known of
//! their columns.

use super::columns::{ColumnEntry, columns, is_auto, names};
use super::holdout;
use super::periods;
use super::periods::PeriodsRule;
use crate::policy::error::{At, Findings, Location};
use crate::policy::holdouts::Holdout;
use crate::policy::views::SCHEMA as VIEW_SCHEMA;
use crate::policy::yaml::read;
use crate::policy::yaml::read::Fields;
use crate::policy::yaml::tree::{MapEntry, YamlNode, YamlValue};

/// One table as the file names it.
#[derive(Debug, Clone, PartialEq)]
pub struct TableEntry {
    pub place: Location,
    pub schema: String,
    pub name: String,
    pub rule: TableRule,
}

/// The owner's entry for a table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableRule {
    Public,
    Private {
        unit: UnitRule,
        rows_per_unit: Option<At<RowsRule>>,
        /// `other_columns: visible`.
        shows_other_columns: bool,
        columns: Vec<ColumnEntry>,
        periods: Option<Box<PeriodsRule>>,
        holdout: Option<Box<At<Holdout>>>,
        /// Columns that each identify a row, by the owner's word.
        unique: Vec<At<String>>,
        /// `append_only: true`: its rows are neither changed nor deleted.
        is_append_only: bool,
        /// `constraints: shown`: who writes it may learn from constraints which rows are there.
        shows_constraints: bool,
    },
}

/// The owner's limit on the rows of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsRule {
    Most(u32),
    /// `auto`: left to a search.
    Searched,
}

/// Where the unit of a row stands.
#[derive(Debug, Clone, PartialEq)]
pub enum UnitRule {
    Column(At<String>),
    Path {
        steps: Vec<At<PathStep>>,
        /// `trusted_path: true`: the steps need no foreign key, only a unique column at their end.
        trusted: bool,
    },
}

/// `column -> schema.table.referenced`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathStep {
    pub column: String,
    pub schema: String,
    pub table: String,
    pub referenced: String,
}

pub fn read(node: &YamlNode, findings: &mut Findings) -> Option<Vec<TableEntry>> {
    let YamlValue::Map(entries) = &node.value else {
        findings.error(
            node.place,
            format!(
                "tables must be a map from schema.table to what is known of it, not {}",
                node.value.shape()
            ),
        );
        return None;
    };
    if entries.is_empty() {
        findings.error(
            node.place,
            "tables is empty; a policy that shows nothing can answer nothing",
        );
    }
    let mut tables: Vec<TableEntry> = Vec::new();
    for entry in entries {
        let Some(table) = table(entry, findings) else {
            continue;
        };
        if tables
            .iter()
            .any(|t| (&t.schema, &t.name) == (&table.schema, &table.name))
        {
            findings.error(entry.place, format!("table {} is given twice", entry.key));
        } else {
            tables.push(table);
        }
    }
    Some(tables)
}

fn table(entry: &MapEntry, findings: &mut Findings) -> Option<TableEntry> {
    let name: Option<[String; 2]> = names(&entry.key).and_then(|n| n.try_into().ok());
    if name.is_none() {
        findings.error(
            entry.place,
            format!("\"{}\" must name a table as schema.table", entry.key),
        );
    }
    if name
        .as_ref()
        .is_some_and(|[schema, _]| schema == VIEW_SCHEMA)
    {
        findings.error(
            entry.place,
            format!(
                "the schema \"{VIEW_SCHEMA}\" is pgveil's own; name another table than \"{}\"",
                entry.key
            ),
        );
    }
    let rule = match &entry.value.value {
        YamlValue::Scalar { text, .. } if text == "public" => Some(TableRule::Public),
        YamlValue::Map(_) => private(&entry.value, &entry.key, findings),
        _ => {
            let wanted = "must be the word public, or a map with the unit of its rows: \
                `{unit: person_id, columns: …}`";
            findings.error(entry.value.place, format!("table {} {wanted}", entry.key));
            None
        }
    };
    let [schema, name] = name?;
    Some(TableEntry {
        place: entry.place,
        schema,
        name,
        rule: rule?,
    })
}

fn private(node: &YamlNode, table: &str, findings: &mut Findings) -> Option<TableRule> {
    let mut fields = Fields::open(node, format!("table {table}"), findings)?;
    let wanted = "unit: person_id` or `unit: {path: [person_id -> schema.people.person_id]}";
    let unit = fields
        .require("unit", wanted, findings)
        .and_then(|node| unit(node, table, findings));
    let rows_per_unit = fields.optional("rows_per_unit").and_then(|node| {
        let what = format!("rows_per_unit of table {table}");
        let value = if is_auto(node) {
            RowsRule::Searched
        } else {
            RowsRule::Most(read::count(node, &what, 1..=1_000_000, findings)?)
        };
        Some(At {
            place: node.place,
            value,
        })
    });
    let shows_other_columns = fields
        .optional("other_columns")
        .is_some_and(|node| other_columns(node, findings));
    let columns = match fields.optional("columns") {
        None => Vec::new(),
        Some(node) => columns(node, table, findings),
    };
    let periods = fields
        .optional("periods")
        .and_then(|node| periods::read(node, table, findings))
        .map(Box::new);
    let holdout = fields
        .optional("holdout")
        .and_then(|node| holdout::read(node, table, findings))
        .map(Box::new);
    let unique = fields
        .optional("unique")
        .map_or_else(Vec::new, |node| unique(node, table, findings));
    let is_append_only = fields.optional("append_only").is_some_and(|node| {
        let what = format!("append_only of table {table}");
        read::truth(node, &what, findings).unwrap_or(false)
    });
    let shows_constraints = fields
        .optional("constraints")
        .is_some_and(|node| constraints(node, findings));
    fields.not_offered(
        "trusted",
        "views and materialized views are refused",
        findings,
    );
    fields.done(findings);
    Some(TableRule::Private {
        unit: unit?,
        rows_per_unit,
        shows_other_columns,
        columns,
        periods,
        holdout,
        unique,
        is_append_only,
        shows_constraints,
    })
}

fn unique(node: &YamlNode, table: &str, findings: &mut Findings) -> Vec<At<String>> {
    let what = format!("unique of table {table}");
    let items = read::list(node, &what, "[order_id]", findings).unwrap_or_default();
    let column = |item: &YamlNode| {
        let (text, _) = read::scalar(item, &what, "a column", findings)?;
        let column: Option<[String; 1]> = names(text).and_then(|n| n.try_into().ok());
        let Some([value]) = column else {
            findings.error(
                item.place,
                format!("{what} lists columns of the table itself, not \"{text}\""),
            );
            return None;
        };
        Some(At {
            place: item.place,
            value,
        })
    };
    items.iter().filter_map(column).collect()
}

fn constraints(node: &YamlNode, findings: &mut Findings) -> bool {
    match read::scalar(node, "constraints", "shown or refused", findings) {
        Some(("shown", _)) => true,
        Some(("refused", _)) | None => false,
        Some((other, _)) => {
            findings.error(
                node.place,
                format!("constraints must be shown or refused, not \"{other}\""),
            );
            false
        }
    }
}

fn other_columns(node: &YamlNode, findings: &mut Findings) -> bool {
    match read::scalar(node, "other_columns", "visible or hidden", findings) {
        Some(("visible", _)) => true,
        Some(("hidden", _)) | None => false,
        Some((other, _)) => {
            findings.error(
                node.place,
                format!("other_columns must be visible or hidden, not \"{other}\""),
            );
            false
        }
    }
}

fn unit(node: &YamlNode, table: &str, findings: &mut Findings) -> Option<UnitRule> {
    let what = format!("the unit of table {table}");
    match &node.value {
        YamlValue::List(_) => {
            findings.error(
                node.place,
                format!("{what} must be one column or one path; a table has one unit"),
            );
            None
        }
        YamlValue::Scalar { .. } => {
            let (text, _) = read::scalar(node, &what, "a column", findings)?;
            let column: Option<[String; 1]> = names(text).and_then(|n| n.try_into().ok());
            let Some([value]) = column else {
                let wanted = "must be a column of the table itself; from another table write \
                    `{path: [column -> schema.table.column]}`";
                findings.error(node.place, format!("{what} {wanted}"));
                return None;
            };
            Some(UnitRule::Column(At {
                place: node.place,
                value,
            }))
        }
        YamlValue::Map(_) => {
            let mut fields = Fields::open(node, what.as_str(), findings)?;
            let path = fields.require(
                "path",
                "path: [person_id -> schema.people.person_id]",
                findings,
            );
            let trusted = fields
                .optional("trusted_path")
                .and_then(|node| read::truth(node, "trusted_path", findings))
                .unwrap_or(false);
            fields.done(findings);
            let items = read::list(
                path?,
                &format!("the path of table {table}"),
                "[person_id -> schema.people.person_id]",
                findings,
            )?;
            if items.is_empty() {
                findings.error(
                    path?.place,
                    format!(
                        "the path of table {table} is empty; a table \
                    that holds the unit itself says `unit: column`"
                    ),
                );
                return None;
            }
            let steps: Vec<_> = items
                .iter()
                .filter_map(|item| step(item, findings))
                .collect();
            (steps.len() == items.len()).then_some(UnitRule::Path { steps, trusted })
        }
    }
}

fn step(node: &YamlNode, findings: &mut Findings) -> Option<At<PathStep>> {
    const WANTED: &str = "column -> schema.table.column";
    let (text, _) = read::scalar(node, "a step of a path", WANTED, findings)?;
    let read = text.split_once("->").and_then(|(from, to)| {
        let [column]: [String; 1] = names(from)?.try_into().ok()?;
        let [schema, table, referenced]: [String; 3] = names(to)?.try_into().ok()?;
        Some(PathStep {
            column,
            schema,
            table,
            referenced,
        })
    });
    if read.is_none() {
        findings.error(
            node.place,
            format!("a step of a path must be {WANTED}, not \"{text}\""),
        );
    }
    Some(At {
        place: node.place,
        value: read?,
    })
}
