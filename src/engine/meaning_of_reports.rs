//! What the epsilons of reports mean, in words: they bound what whoever reads the database learns,
//! and no budget counts them.

use super::expected_error::odds_text;
use super::views::up_to_three_digits;
use crate::mechanism::Randomiser;
use crate::policy::{Column, ColumnRule, File, Policy, Table, TableRule};

/// How a column's reports are made, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Way {
    randomiser: Randomiser,
    /// Whether the same value of a person has the same report for ever.
    is_memo: bool,
    /// Whether NULL is written as it is.
    may_be_null: bool,
}

/// A sentence for each way in which columns of a table were randomised. `columns`: the names, after
/// their tables, in the order of the policy.
fn lines(columns: impl Iterator<Item = (String, Way)>) -> Vec<String> {
    let mut ways: Vec<(Vec<String>, Way)> = Vec::new();
    for (name, way) in columns {
        match ways.iter_mut().find(|(_, known)| *known == way) {
            Some((names, _)) => names.push(name),
            None => ways.push((vec![name], way)),
        }
    }
    ways.into_iter()
        .map(|(names, way)| line(&names, way))
        .collect()
}

fn line(names: &[String], way: Way) -> String {
    let epsilon = way.randomiser.epsilon();
    let (each, of_each) = match names.len() {
        1 => ("", ""),
        _ => ("each ", "of each "),
    };
    let (names, name) = (names.join(", "), way.randomiser.name());
    if epsilon.is_infinite() {
        return format!("Reports: {names} by {name}: some report of it is the truth.");
    }
    let but = match way.is_memo {
        true => ", but can neither write nor has local.secret,",
        false => ", its owner too,",
    };
    let is_drawn_anew = matches!(way.randomiser, Randomiser::Rappor(_));
    let further = match (way.is_memo, is_drawn_anew) {
        (true, false) => {
            "Each other value of a person multiplies that, and another report shows that the value \
                changed. Whoever reads the database and may also write, or has local.secret, \
                learns the value, nearly always: no epsilon bounds it. No budget counts it."
        }
        (true, true) => {
            "Each other value of a person multiplies that. Whoever reads the database and may also \
                write, or has local.secret, may learn the value: no epsilon bounds it. No budget \
                counts it."
        }
        (false, _) => "Further reports of a person multiply that; no budget counts it.",
    };
    let null = match way.may_be_null {
        true => " NULL is not randomised: who gave no report is known.",
        false => "",
    };
    format!(
        "Reports: {names} by {name}, {each}epsilon {}. Whoever reads the database{but} sees \
            {of_each}what is at most {} times as likely under one true value as under another. \
            {further}{null}",
        up_to_three_digits(epsilon),
        odds_text(epsilon.exp())
    )
}

/// What the epsilons of a policy's reports mean.
pub(super) fn of_policy(policy: &Policy) -> Vec<String> {
    let writing = policy.writing.as_ref();
    let has_memo = writing.is_some_and(|writing| writing.secret.is_some());
    let of_table = |table: &Table| {
        let name = format!("{}.{}", table.schema, table.name);
        let written = writing.and_then(|writing| writing.table(&table.schema, &table.name));
        let local = |column: &Column| written?.column(&column.name)?.local.as_ref();
        let made = table.columns.iter().filter_map(|column| {
            let local = local(column);
            let way = Way {
                randomiser: column.collected.as_ref()?.randomiser,
                is_memo: has_memo && local.is_some(),
                may_be_null: local.is_some_and(|local| local.may_be_null),
            };
            Some((format!("{name}.{}", column.name), way))
        });
        made.collect::<Vec<_>>()
    };
    lines(policy.tables.iter().flat_map(of_table))
}

/// What the epsilons of a file's reports mean, without a database.
pub fn meaning_of_reports(file: &File) -> Vec<String> {
    let has_memo = file.local.as_ref().is_some_and(|of| of.secret.is_some());
    let mut made = Vec::new();
    for table in &file.tables {
        let TableRule::Private { columns, .. } = &table.rule else {
            continue;
        };
        for entry in columns {
            if let ColumnRule::Collected { randomiser, .. } = &entry.rule {
                let may_be_null = entry.nullable.as_ref().is_some_and(|of| of.value);
                let way = Way {
                    randomiser: *randomiser,
                    is_memo: entry.is_local && has_memo,
                    may_be_null: entry.is_local && may_be_null,
                };
                let name = format!("{}.{}.{}", table.schema, table.name, entry.name);
                made.push((name, way));
            }
        }
    }
    lines(made.into_iter())
}
