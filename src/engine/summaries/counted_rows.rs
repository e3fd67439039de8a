//! Keys that are numbers of rows, as SQL: what an analyst would write to count a unit's rows in
//! another table.
//!
//! # Guarantee
//! Such a key changes neither how many rows a unit adds to the summary's groups, nor any other
//! unit's. The derived table has one row for each unit that has rows, computed from these alone, so
//! that the left join gives each row of the unit's table one number; a unit without rows has 0.
//! Take a unit out of the database, with all of its rows in all tables. Its one row of the
//! summary's table goes, from one group of each set, and every other unit's number is as it was. A
//! unit whose rows in the other table change, one or all, moves its one row from one group of each
//! set to another: both databases differ by at most that from the one without the unit. How many
//! rows are counted is not limited for that; the number is cut off so that the groups are known.
//!
//! This is not assumed. The statement is planned like any other: the planner proves that the
//! groups of the derived table lie within one unit, that the join is on the unit, and bounds what
//! a unit adds ([`crate::analyze`]).
//!
//! # Reference
//! McSherry: "Privacy Integrated Queries", SIGMOD 2009, section 3 (grouping by the unit is stable:
//! one unit changes its own group alone).

use crate::policy::{Policy, Protection, Summary, SummaryColumn, SummaryKey, path_to_unit};
use crate::postgres::{identifier, qualify};

/// The joins with the numbers of rows, for each key that is one.
pub(super) fn joins(policy: &Policy, summary: &Summary) -> String {
    let Protection::Private(unit) = &policy.tables[summary.table].protection else {
        return String::new();
    };
    let join = |at: SummaryKey| {
        let key = at.pick(&summary.keys);
        key.column().is_none().then(|| {
            let counted = count_statement(policy, key.table);
            let (name, unit) = (alias(at), identifier(&unit.column));
            format!(" LEFT JOIN ({counted}) AS {name} ON {name}.unit = t0.{unit}")
        })
    };
    SummaryKey::all(summary.keys.len())
        .filter_map(join)
        .collect()
}

/// The key as an expression over these joins: 0, 1 and so on, more than the most as the most; or
/// the number of its bin.
pub(super) fn text(at: SummaryKey, key: &SummaryColumn, most: u32) -> String {
    let limits: Vec<String> = match key.edges.as_slice() {
        [_, limits @ .., _] => limits.iter().map(crate::ir::sql::scalar_text).collect(),
        _ => (1..=most).map(|limit| limit.to_string()).collect(),
    };
    let limits = limits.join(", ");
    format!(
        "width_bucket(coalesce({}.n, 0), ARRAY[{limits}])",
        alias(at)
    )
}

fn alias(SummaryKey(at): SummaryKey) -> String {
    format!("c{at}")
}

/// How many rows of a table each unit has, along its path: `unit` and `n`.
fn count_statement(policy: &Policy, table: usize) -> String {
    let (of, steps) = (&policy.tables[table], path_to_unit(policy, table));
    let mut from = format!("{} AS s0", qualify(&of.schema, &of.name));
    let column = |at: usize, name: &str| format!("s{at}.{}", identifier(name));
    for (at, pair) in steps.windows(2).enumerate() {
        let to = qualify(&pair[0].schema, &pair[0].table);
        let (left, right) = (
            column(at, &pair[0].column),
            column(at + 1, &pair[0].referenced),
        );
        from += &format!(" JOIN {to} AS s{} ON {left} = {right}", at + 1);
    }
    // The last step's column is the unit: it refers to the summary's own table.
    let last = steps.len().saturating_sub(1);
    let unit = steps
        .last()
        .map_or_else(String::new, |step| column(last, &step.column));
    format!("SELECT {unit} AS unit, count(*) AS n FROM {from} GROUP BY 1")
}
