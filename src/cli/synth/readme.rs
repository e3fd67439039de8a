//! What was made up, and how, in words.

use super::tables::MadeUp;
use crate::engine::three_digits;
use crate::mechanism::SummedValues;
use crate::policy::{Policy, SummaryKey};
use crate::synthetic::ColumnSource;

/// What made-up rows do not show, for their README.
pub const NOT_KEPT: &str = "\
No row is of a real person. Numbers of rows by the keys of a summary are as the summary has them,
with its noise. Give these files only to those whose role has received the newest making of the
summaries, or count what it costs to their budget by hand. What is not kept:

- how columns depend on each other beyond what is said above;
- how the rows of one person depend on each other, as over time;
- how many rows a person has, where the summary of the persons' table has no key rows(table) for
  it: all persons have the same number then, or all that agree in the joined keys of the summary;
- how tables depend on each other beyond joined keys, and on third tables;
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
        let errors = of.modelled.question.errors_of(&SummedValues::Number(1));
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
        lines.extend(
            of.shared_out
                .as_ref()
                .map(|shared| shared_out(&made[shared.parent], of)),
        );
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
        lines.extend(key_lines(of, &keys));
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
        lines.extend(lines_of_keys(of));
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

/// What is to be said of single keys, by their names.
fn key_lines(of: &MadeUp<'_>, names: &[String]) -> Vec<String> {
    let line = |(at, name): (SummaryKey, &String)| {
        let key = at.pick(&of.modelled.summary.keys);
        let mut known = of.modelled.model.given.iter();
        if known.any(|step| step.key == at) {
            Some(format!("  {name}: that of the row that it refers to"))
        } else if key.steps > 0 || key.column().is_none() {
            Some(format!("  {name}: of another table, in no column here"))
        } else {
            let has_bins = key.bins().is_some();
            has_bins.then(|| format!("  {name}: a value within its bin, each as often"))
        }
    };
    let all = SummaryKey::all(names.len()).zip(names);
    all.filter_map(line).collect()
}

/// How the rows of a table are shared out among those of another.
fn shared_out(parent: &MadeUp<'_>, of: &MadeUp<'_>) -> String {
    let table = parent.filler.table;
    let counted = of
        .shared_out
        .as_ref()
        .is_some_and(|shared| shared.is_counted);
    if counted {
        return format!(
            "  rows: as many for each unit as its row says by rows({}.{})",
            of.filler.table.schema, of.filler.table.name
        );
    }
    let known = match of.modelled.model.given.as_slice() {
        [] => "",
        _ => " that agree in the keys that it has",
    };
    format!(
        "  rows: the same number for all rows of {}.{}{known}, rounded down or up",
        table.schema, table.name
    )
}

/// What had to be done so that unique keys hold.
fn lines_of_keys(of: &MadeUp<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if of.copied > 0 {
        lines.push(format!(
            "  {} rows are copies of others of their kind, so that unique keys hold",
            of.copied
        ));
    }
    if of.dropped > 0 {
        let dropped = of.dropped;
        lines.push(format!(
            "  {dropped} rows were left out, so that unique keys hold"
        ));
    }
    lines
}

/// Where a column's values come from; `None` for those of the summary.
fn describe(source: ColumnSource) -> Option<String> {
    Some(match source {
        ColumnSource::Key(_) | ColumnSource::Measure(_) => return None,
        ColumnSource::Number => "a number for each row".to_owned(),
        ColumnSource::Parent(rows) => format!("refers to one of {rows} made-up rows"),
        ColumnSource::Turn => {
            "in no summary: another value in each row that refers to one row, as long as there \
                are enough, for a unique key"
                .to_owned()
        }
        ColumnSource::Listed => "in no summary: a value of its list, each as often".to_owned(),
        ColumnSource::Between => {
            "in no summary: a value within its bounds, each as often".to_owned()
        }
        ColumnSource::Null => "in no summary: NULL".to_owned(),
        ColumnSource::Constant => "in no summary: the same value in every row".to_owned(),
    })
}
