//! What the epsilons of reports mean, in words: they bound what whoever reads the database learns,
//! and no budget counts them.

use super::expected_error::odds_text;
use super::views::up_to_three_digits;
use crate::mechanism::Randomiser;
use crate::policy::{ColumnRule, File, Policy, Table, TableRule};

/// A sentence for each way in which columns of a table were randomised. `columns`: the names, after
/// their tables, in the order of the policy.
fn lines(columns: impl Iterator<Item = (String, Randomiser)>) -> Vec<String> {
    let mut ways: Vec<(Vec<String>, Randomiser)> = Vec::new();
    for (name, randomiser) in columns {
        match ways.iter_mut().find(|(_, known)| *known == randomiser) {
            Some((names, _)) => names.push(name),
            None => ways.push((vec![name], randomiser)),
        }
    }
    let line = |(names, randomiser): (Vec<String>, Randomiser)| {
        let epsilon = randomiser.epsilon();
        let (names, name) = (names.join(", "), randomiser.name());
        if epsilon.is_infinite() {
            return format!("Reports: {names} by {name}: some report of it is the truth.");
        }
        format!(
            "Reports: {names} by {name}, epsilon {}. Whoever reads the database, its owner too, \
                sees what is at most {} times as likely under one true value as under another. \
                Further reports of a person multiply that; no budget counts it.",
            up_to_three_digits(epsilon),
            odds_text(epsilon.exp())
        )
    };
    ways.into_iter().map(line).collect()
}

/// What the epsilons of a policy's reports mean.
pub(super) fn of_policy(policy: &Policy) -> Vec<String> {
    let of_table = |table: &Table| {
        let name = format!("{}.{}", table.schema, table.name);
        let columns = table.columns.iter();
        let made = columns.filter_map(|column| Some((&column.name, column.collected.as_ref()?)));
        let made = made.map(|(column, made)| (format!("{name}.{column}"), made.randomiser));
        made.collect::<Vec<_>>()
    };
    lines(policy.tables.iter().flat_map(of_table))
}

/// What the epsilons of a file's reports mean, without a database.
pub fn meaning_of_reports(file: &File) -> Vec<String> {
    let mut made = Vec::new();
    for table in &file.tables {
        let TableRule::Private { columns, .. } = &table.rule else {
            continue;
        };
        for entry in columns {
            if let ColumnRule::Collected { randomiser, .. } = &entry.rule {
                let name = format!("{}.{}.{}", table.schema, table.name, entry.name);
                made.push((name, *randomiser));
            }
        }
    }
    lines(made.into_iter())
}
