//! `pgveil.summaries`: the policy's facts about the summaries that a role may receive.

use super::question::price_of_selected;
use super::{Declared, Engine};
use crate::engine::views::{ViewRow, number_cell};
use crate::error::Error;
use crate::ir::sql::scalar_text;
use crate::mechanism::SummedValues;
use crate::policy::{ColumnPosition, KeySet, Policy, Summary, SummaryColumn, SummaryKey};
use crate::shadow::Requester;

/// The standard errors of a count, each in the set where it is largest; `None` where the noise is
/// not known.
pub(super) struct LargestErrors {
    of_ranges: Option<f64>,
    of_values: Option<f64>,
    of_prefixes: Option<f64>,
}

type ErrorOf = fn(&LargestErrors) -> Option<f64>;

impl Declared {
    fn largest_errors(&self) -> &LargestErrors {
        let largest = |summed: SummedValues| {
            let errors = self.question.errors_of(&summed).into_iter();
            errors.reduce(f64::max)
        };
        self.largest_errors.get_or_init(|| LargestErrors {
            of_ranges: largest(SummedValues::Ranges),
            of_values: largest(SummedValues::Number(1)),
            of_prefixes: largest(SummedValues::Prefixes),
        })
    }
}

impl Engine {
    /// The rows of `pgveil.summaries`. `made` alone tells whether the owner has made one.
    ///
    /// # Guarantee
    /// For a role that has not paid for a summary's selection, its row depends on the policy and on
    /// `made` alone. There is a row whatever the summary's plan is.
    pub(in crate::engine) async fn summary_rows(
        &self,
        requester: &Requester,
    ) -> Result<Vec<ViewRow>, Error> {
        let mut rows = Vec::new();
        let both = self.policy.summaries.iter().zip(self.planned_summaries());
        for (at, (summary, declared)) in both.enumerate() {
            let declared = declared.as_ref();
            if !is_listed(summary, declared, &requester.role) {
                continue;
            }
            let newest = match declared {
                Some(declared) => self.newest(requester, declared).await?,
                None => None,
            };
            let is_known = self.is_summary_of(&requester.role, (at, summary));
            let is_held = is_known && newest.as_ref().is_some_and(|newest| newest.is_held);
            let mut row = facts(summary, declared, &self.policy);
            if !is_known {
                row[OF_SETS].fill(None);
            }
            row.extend([is_held, newest.is_some()].map(|known| Some(known.to_string())));
            rows.push(row);
        }
        Ok(rows)
    }

    /// The names of the summaries in `pgveil.summaries` that have the column as a key or as a
    /// measure; `None` where there is none.
    ///
    /// # Guarantee
    /// A function of the policy and of the role's name.
    pub(in crate::engine) fn summarized_by(
        &self,
        requester: &Requester,
        table: usize,
        column: ColumnPosition,
    ) -> Option<String> {
        let is_key = |key: &SummaryColumn| key.table == table && key.column() == Some(column);
        let has_column = |summary: &Summary| {
            let is_measure = summary.table == table && summary.measures.contains(&column);
            is_measure || summary.keys.iter().any(is_key)
        };
        let both = self.policy.summaries.iter().zip(self.planned_summaries());
        let named = both.filter(|(summary, declared)| {
            is_listed(summary, declared.as_ref(), &requester.role) && has_column(summary)
        });
        let names: Vec<&str> = named.map(|(summary, _)| summary.name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Whether `pgveil.summaries` has a row of the summary for a role.
fn is_listed(summary: &Summary, declared: Option<&Declared>, role: &str) -> bool {
    let is_of_role = summary.roles.iter().any(|own| own == role);
    is_of_role && (summary.is_auto || declared.is_some())
}

/// The columns that depend on the summary's sets.
const OF_SETS: std::ops::Range<usize> = 5..10;

fn facts(summary: &Summary, declared: Option<&Declared>, policy: &Policy) -> ViewRow {
    let table = &policy.tables[summary.table];
    let column = |at: &ColumnPosition| table.columns[at.0].name.as_str();
    let names = |all: &[ColumnPosition]| all.iter().map(column).collect::<Vec<_>>().join(", ");
    let keys = summary.key_names(policy);
    let set = |set: &KeySet| {
        let name = |key: SummaryKey| key.pick(&keys).as_str();
        format!("({})", set.keys().map(name).collect::<Vec<_>>().join(", "))
    };
    let described = keys.iter().zip(&summary.keys).map(describe);
    let sets: Vec<String> = summary.marginals.iter().map(set).collect();
    let question = declared.map(|declared| &declared.question);
    let errors = declared.map(Declared::largest_errors);
    let error = |of: ErrorOf| number_cell(of(errors?)?);
    let has_ranges = summary.keys.iter().any(|key| key.has_ranges);
    let of_ranges = |of: ErrorOf| has_ranges.then(|| error(of)).flatten();
    // What is due for selected sets is the same for all of them.
    let priced = match summary.is_auto {
        true => price_of_selected(policy, summary),
        false => question.map(|own| (own.epsilon, own.kept_as.loss)),
    };
    vec![
        Some(summary.name.clone()),
        Some(table.schema.clone()),
        Some(table.name.clone()),
        Some(described.collect::<Vec<_>>().join(", ")),
        (!summary.measures.is_empty()).then(|| names(&summary.measures)),
        (!sets.is_empty()).then(|| sets.join(", ")),
        question.map(|own| own.groups().to_string()),
        error(|errors| errors.of_ranges),
        of_ranges(|errors| errors.of_values),
        of_ranges(|errors| errors.of_prefixes),
        priced.and_then(|(epsilon, _)| number_cell(epsilon)),
        priced.and_then(|(_, loss)| number_cell(loss.mu_squared.to_f64().sqrt())),
    ]
}

/// A key's name, with the edges of its bins, and whether it has ranges.
fn describe((name, key): (&String, &SummaryColumn)) -> String {
    let edges: Vec<String> = key.edges.iter().map(scalar_text).collect();
    let ranges = match key.has_ranges {
        true => " by ranges",
        false => "",
    };
    match edges.is_empty() {
        true => format!("{name}{ranges}"),
        false => format!("{name} [{}]{ranges}", edges.join(", ")),
    }
}
