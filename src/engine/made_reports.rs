//! The exact odds and the epsilons of reports that pgveil made itself, for EXPLAIN. They are
//! public, and the same for all roles.

use super::views::up_to_three_digits;
use crate::mechanism::Randomiser;
use crate::policy::{Local, Policy};
use crate::rewrite::{Plan, ReleasePlan};

/// One way in which reports were made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MadeReports {
    /// The columns that one entry of the policy declares, after their table.
    columns: Vec<String>,
    mechanism: &'static str,
    odds: String,
    /// Rounded up: of all reports of a value together, and of a single one where that is less.
    epsilon: String,
    epsilon_of_one: Option<String>,
}

impl MadeReports {
    fn of(columns: Vec<String>, local: &Local) -> Self {
        let one = match local.randomiser {
            Randomiser::Rappor(of) => Some(up_to_three_digits(of.epsilon_of_one())),
            Randomiser::Coin { .. }
            | Randomiser::KRr { .. }
            | Randomiser::Unary { .. }
            | Randomiser::Mean { .. } => None,
        };
        Self {
            columns,
            mechanism: local.randomiser.name(),
            odds: local.odds.in_words(),
            epsilon: up_to_three_digits(local.randomiser.epsilon()),
            epsilon_of_one: one,
        }
    }

    /// The line of EXPLAIN.
    pub(super) fn line(&self) -> String {
        let Self {
            columns,
            mechanism,
            odds,
            epsilon,
            epsilon_of_one,
        } = self;
        let names = columns.join(", ");
        let epsilon = match epsilon_of_one {
            Some(one) => format!("epsilon {epsilon} of all reports of a value, {one} of one"),
            None => format!("epsilon {epsilon}"),
        };
        format!(
            "Reports: {names} by {mechanism}, made by pgveil; of 2^64 random words, {odds}; \
                {epsilon}"
        )
    }

    /// The object of EXPLAIN (FORMAT JSON).
    pub(super) fn json(&self) -> serde_json::Value {
        let Self {
            columns,
            mechanism,
            odds,
            epsilon,
            epsilon_of_one,
        } = self;
        let number = |text: &String| text.parse::<f64>().ok();
        serde_json::json!({
            "columns": columns,
            "mechanism": mechanism,
            "odds": odds,
            "epsilon": number(epsilon),
            "epsilon_of_one": epsilon_of_one.as_ref().and_then(number),
        })
    }
}

/// The ways in which reports were made of the tables that a plan estimates from.
pub(super) fn of(plan: &Plan, policy: &Policy) -> Vec<MadeReports> {
    let Some(writing) = &policy.writing else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for release in plan.releases().iter().filter(|of| estimates(of)) {
        for table in release.relied_on() {
            let Some(written) = writing.table(&table.schema, &table.name) else {
                continue;
            };
            let local = written.columns.iter().filter_map(|column| {
                let local = column.local.as_ref()?;
                Some((format!("{}.{}", table.name, column.name), local))
            });
            for made in by_entries(local) {
                if !found.contains(&made) {
                    found.push(made);
                }
            }
        }
    }
    found
}

/// Whether a release estimates values from reports.
fn estimates(release: &ReleasePlan) -> bool {
    let mut outputs = release.outputs().iter();
    release.dictionary().is_some() || outputs.any(|(output, _)| output.estimator().is_some())
}

/// Columns that one entry of the policy declares stand together.
pub(super) fn by_entries<'p>(
    columns: impl Iterator<Item = (String, &'p Local)>,
) -> Vec<MadeReports> {
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
    let entries = entries.into_iter();
    entries
        .map(|(names, local)| MadeReports::of(names, local))
        .collect()
}
