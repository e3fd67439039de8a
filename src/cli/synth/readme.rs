//! What was made up, and how, in words.

use super::MadeUp;
use crate::engine::three_digits;
use crate::policy::{Policy, SummaryKey};
use crate::synthetic::ColumnSource;

/// What made-up rows do not show, for their README.
pub const NOT_KEPT: &str = "\
No row is of a real person. Numbers of rows by the keys of a summary are as the summary has them,
with its noise. Give these files only to those whose role has received the newest making of the
summaries, or count what it costs to their budget by hand. What is not kept:

- how columns depend on each other beyond what is said above;
- how the rows of one person depend on each other, and how many rows a person has;
- values of columns that are in no summary: they are drawn from the policy's lists and bounds, or
  are NULL or one constant;
- the spread of a measure: its values are drawn around the summary's averages, as widely as the
  policy's bounds allow;
- conditions of the database (CHECK, triggers, generated columns), and keys that the rows happen to
  violate.

Load them into an empty database, in this directory: psql -d DATABASE -f load.sql
";

/// A line for each table, and lines that say where its columns come from.
pub(super) fn lines(policy: &Policy, made: &[MadeUp<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for of in made {
        let table = of.filler.table;
        let summary = of.modelled.summary;
        let errors = of.modelled.question.errors();
        let worst = errors.into_iter().fold(0.0, f64::max);
        lines.push(format!(
            "{}.{}: {} made-up rows from summary {} (standard error of a count up to {})",
            table.schema,
            table.name,
            of.rows,
            summary.name,
            three_digits(worst)
        ));
        let keys = summary.key_names(policy);
        let name = |key: &SummaryKey| key.pick(&keys).as_str();
        let names = |keys: &[SummaryKey]| keys.iter().map(name).collect::<Vec<_>>().join(", ");
        for step in &of.modelled.model.steps {
            lines.push(match step.given.as_slice() {
                [] => format!("  {}: drawn by itself", name(&step.key)),
                given => format!("  {}: drawn given {}", name(&step.key), names(given)),
            });
        }
        if !of.modelled.model.targets.is_empty() {
            let weighted = "  then chosen by weight, so that all measured pairs are kept closely";
            lines.push(weighted.to_owned());
        }
        for (key, of) in keys.iter().zip(&summary.keys) {
            if of.steps > 0 {
                lines.push(format!("  {key}: of another table, in no column here"));
            } else if of.bins().is_some() {
                lines.push(format!("  {key}: a value within its bin, each as often"));
            }
        }
        for (at, means) in summary.measures.iter().zip(&of.modelled.model.means) {
            let column = &table.columns[at.0].name;
            if !matches!(of.filler.sources[at.0], ColumnSource::Measure(_)) {
                continue;
            }
            lines.push(match means.given.as_slice() {
                [] => format!("  {column}: drawn around the average of all"),
                given => format!("  {column}: drawn around the averages by {}", names(given)),
            });
        }
        let others = table.columns.iter().zip(&of.filler.sources);
        lines.extend(others.filter_map(|(column, source)| {
            Some(format!("  {}: {}", column.name, describe(*source)?))
        }));
    }
    let is_empty = |table: &&crate::policy::Table| {
        matches!(table.protection, crate::policy::Protection::Private(_))
            && made.iter().all(|of| of.filler.table.oid != table.oid)
    };
    lines.extend(policy.tables.iter().filter(is_empty).map(|table| {
        format!(
            "{}.{}: empty, since no summary of it is used",
            table.schema, table.name
        )
    }));
    lines
}

/// Where a column's values come from; `None` for those of the summary.
fn describe(source: ColumnSource) -> Option<String> {
    Some(match source {
        ColumnSource::Key(_) | ColumnSource::Measure(_) => return None,
        ColumnSource::Number => "a number for each row".to_owned(),
        ColumnSource::Parent(rows) => format!("refers to one of {rows} made-up rows, at random"),
        ColumnSource::Listed => "in no summary: a value of its list, each as often".to_owned(),
        ColumnSource::Between => {
            "in no summary: a value within its bounds, each as often".to_owned()
        }
        ColumnSource::Null => "in no summary: NULL".to_owned(),
        ColumnSource::Constant => "in no summary: the same value in every row".to_owned(),
    })
}
