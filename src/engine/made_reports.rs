//! The exact odds of reports that pgveil made itself, for EXPLAIN. They are public, and the same
//! for all roles.

use crate::policy::{Local, Policy};
use crate::rewrite::{Plan, ReleasePlan};

/// A line for each way in which reports were made of the tables that a plan estimates from.
pub(super) fn lines(plan: &Plan, policy: &Policy) -> Vec<String> {
    let Some(writing) = &policy.writing else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for release in plan.releases().iter().filter(|of| estimates(of)) {
        for table in release.relied_on() {
            let Some(written) = writing.table(&table.schema, &table.name) else {
                continue;
            };
            let local = written.columns.iter().filter_map(|column| {
                let local = column.local.as_ref()?;
                Some((format!("{}.{}", table.name, column.name), local))
            });
            for line in by_entries(local) {
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
    }
    lines
}

/// Whether a release estimates values from reports.
fn estimates(release: &ReleasePlan) -> bool {
    let mut outputs = release.outputs().iter();
    release.dictionary().is_some() || outputs.any(|(output, _)| output.estimator().is_some())
}

/// Columns that one entry of the policy declares have one line.
fn by_entries<'p>(columns: impl Iterator<Item = (String, &'p Local)>) -> Vec<String> {
    let mut entries: Vec<(Vec<String>, &Local)> = Vec::new();
    for (name, local) in columns {
        match entries
            .iter_mut()
            .find(|(_, known)| known.group == local.group)
        {
            Some((names, _)) => names.push(name),
            None => entries.push((vec![name], local)),
        }
    }
    let line = |(names, local): (Vec<String>, &Local)| {
        let (name, words) = (local.randomiser.name(), local.odds.in_words());
        let names = names.join(", ");
        format!("Reports: {names} by {name}, made by pgveil; of 2^64 random words, {words}")
    };
    entries.into_iter().map(line).collect()
}
