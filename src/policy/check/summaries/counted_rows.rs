//! Checks keys that are numbers of rows: `rows(nls.interviews)` in a summary of the units' own
//! table.

use crate::policy::error::{At, Findings};
use crate::policy::file::{KeyEntry, Literal, names};
use crate::policy::summaries::{KEY_STEPS_MAX, KeySource, SummaryColumn, path_to_unit};
use crate::policy::{AutoBound, Policy, Protection, Scalar, Table, Unit};

/// The table whose rows a key counts, by schema and name; `None` for a key that is a column.
pub(super) fn counted_table(key: &str) -> Option<(String, String)> {
    let inner = key.strip_prefix("rows(")?.strip_suffix(')')?;
    let [schema, table]: [String; 2] = names(inner)?.try_into().ok()?;
    Some((schema, table))
}

/// A key that is a number of rows, from 0 to its highest.
pub(super) fn key(
    summary: &str,
    (entry, named): (&KeyEntry, &(String, String)),
    (of, policy): (usize, &Policy),
    findings: &mut Findings,
) -> Option<SummaryColumn> {
    let edges = match &entry.bins {
        Some(bins) => edges(&entry.name.value, bins, findings)?,
        None => Vec::new(),
    };
    let found = place(named, (of, policy)).and_then(|counted| {
        let most = most((edges.last(), entry), (counted, policy))?;
        Ok((counted, most))
    });
    match found {
        Ok((table, most)) => Some(SummaryColumn {
            steps: 0,
            table,
            source: KeySource::Rows { most },
            edges,
            has_ranges: entry.ranges.is_some(),
        }),
        Err(fault) => {
            let name = &entry.name;
            let message = format!("key \"{}\" of summary \"{summary}\" {fault}", name.value);
            findings.error(name.place, message);
            None
        }
    }
}

/// The place of the table whose rows are counted, or why they cannot be.
fn place(
    (schema, table): &(String, String),
    (of, policy): (usize, &Policy),
) -> Result<usize, String> {
    let to = &policy.tables[of];
    let Some(column) = unit_column(to) else {
        return Err(
            "is a number of rows of a unit, so the summary must be of the table with one row a \
                unit"
                .to_owned(),
        );
    };
    let is_it = |known: &Table| (&known.schema, &known.name) == (schema, table);
    let counted = policy.tables.iter().position(is_it);
    let leads_here = |counted: &usize| {
        let last = path_to_unit(policy, *counted).last();
        last.is_some_and(|step| {
            (&step.schema, &step.table, &*step.referenced) == (&to.schema, &to.name, column)
        })
    };
    counted.filter(leads_here).ok_or_else(|| {
        format!(
            "counts rows of {schema}.{table}, which is no table with a path to {}.{}",
            to.schema, to.name
        )
    })
}

/// The highest number of rows, or why that is not known.
fn most(
    (last_edge, entry): (Option<&Scalar>, &KeyEntry),
    (counted, policy): (usize, &Policy),
) -> Result<u32, String> {
    if let Some(Scalar::Int(last)) = last_edge {
        return Ok(u32::try_from(*last).unwrap_or(u32::MAX));
    }
    if let Some(most) = &entry.most {
        return Ok(most.value);
    }
    match rows_per_unit(policy, counted) {
        Some(most) if most <= KEY_STEPS_MAX => Ok(most),
        Some(_) => Err(format!(
            "would have more than {KEY_STEPS_MAX} numbers; write `{{max: 30}}` or bins for it"
        )),
        None => Err("has no highest number that is known; write `{max: 30}` for it".to_owned()),
    }
}

/// The unit's column of a table with one row a unit.
fn unit_column(table: &Table) -> Option<&str> {
    let Protection::Private(unit) = &table.protection else {
        return None;
    };
    let Unit {
        path,
        column,
        is_primary_key,
        ..
    } = unit;
    let mut keys = table.unique_keys.iter();
    let is_key = *is_primary_key || keys.any(|key| key.names().eq([column.as_str()]));
    (path.is_empty() && is_key).then_some(column)
}

/// What the policy says of the rows of a unit; `None` where that is left to a search.
fn rows_per_unit(policy: &Policy, table: usize) -> Option<u32> {
    let mut searches = policy.searches.iter();
    let is_searched =
        searches.any(|search| search.table == table && matches!(search.sought, AutoBound::Rows));
    match &policy.tables[table].protection {
        Protection::Private(unit) if !is_searched => Some(unit.rows_per_unit),
        Protection::Private(_) | Protection::Public => None,
    }
}

/// The edges of the bins: whole numbers from 0 on, ascending.
fn edges(key: &str, bins: &At<Vec<At<Literal>>>, findings: &mut Findings) -> Option<Vec<Scalar>> {
    let edge = |edge: &At<Literal>| {
        let digits = edge.value.text.bytes().all(|b| b.is_ascii_digit());
        let number: Option<u32> = edge.value.text.parse().ok();
        number.filter(|_| digits).map(i64::from)
    };
    let found: Option<Vec<i64>> = bins.value.iter().map(edge).collect();
    let most = KEY_STEPS_MAX as usize + 1;
    let is_fit = |edges: &Vec<i64>| {
        (3..=most).contains(&edges.len())
            && edges.first() == Some(&0)
            && edges.windows(2).all(|pair| pair[0] < pair[1])
    };
    let Some(edges) = found.filter(is_fit) else {
        let message = format!(
            "bins of key \"{key}\" must be 2 to {KEY_STEPS_MAX}: write 0, where each further bin \
                begins, and the highest number, as whole numbers that ascend"
        );
        findings.error(bins.place, message);
        return None;
    };
    Some(edges.into_iter().map(Scalar::Int).collect())
}
