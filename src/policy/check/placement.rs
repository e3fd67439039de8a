//! Checks how tables are distributed: the rows of a unit must be stored together, and a key of a
//! table holds only if it is enforced.

use super::Listed;
use crate::catalog;
use crate::catalog::{Catalog, Distribution, Hash, RelationKind};
use crate::policy::Unit;
use crate::policy::error::Findings;
use crate::policy::file::File;

/// Checks every table of the file; `units` is parallel to `listed`.
pub fn check(
    file: &File,
    catalog: &Catalog,
    listed: &[Listed<'_>],
    units: &[Option<Unit>],
    findings: &mut Findings,
) {
    let mut placed: Option<(&Listed<'_>, &Hash)> = None;
    for (table, unit) in listed.iter().zip(units) {
        parts(catalog, table, findings);
        let Some(unit) = unit else {
            public(table, findings);
            continue;
        };
        let Some(hash) = by_unit(file, table, unit, findings) else {
            continue;
        };
        match placed {
            Some((first, known)) if known.colocation != hash.colocation => {
                let (name, column) = (table.name(), &hash.column);
                let (shown, again, with) = (first.name(), regclass(table), regclass(first));
                findings.error(
                    table.entry.place,
                    format!(
                        "{name} and {shown} are not colocated, so that rows of one {} lie in two \
                            places that are read at two moments; without its foreign keys: \
                         SELECT undistribute_table({again}), then SELECT \
                         create_distributed_table({again}, '{column}', colocate_with => {with})",
                        file.privacy.unit
                    ),
                );
            }
            Some(_) => {}
            None => placed = Some((table, hash)),
        }
    }
    if let Some((distributed, _)) = placed {
        for (table, _) in listed.iter().zip(units).filter(|(table, unit)| {
            unit.is_some() && table.relation.distribution == Distribution::Local
        }) {
            let (name, distributed) = (table.name(), distributed.name());
            findings.warning(
                table.entry.place,
                format!(
                    "{name} is a local table and not distributed like {distributed}: joins of \
                    both bring rows to one server, which takes long"
                ),
            );
        }
    }
}

/// The hash distribution of a private table by its unit; `None` for tables that are not
/// distributed, and after an error.
fn by_unit<'a>(
    file: &File,
    table: &Listed<'a>,
    unit: &Unit,
    findings: &mut Findings,
) -> Option<&'a Hash> {
    let (name, word) = (table.name(), &file.privacy.unit);
    let again = regclass(table);
    let remedy = match holder(unit) {
        Some(column) => format!(
            "distribute it by the column that holds the {word}, without its foreign keys: SELECT \
                undistribute_table({again}), then SELECT create_distributed_table({again}, \
                '{column}')"
        ),
        None => {
            format!("give it a column that holds the {word} itself, and distribute it by that one")
        }
    };
    let wrong = match &table.relation.distribution {
        Distribution::Local => return None,
        Distribution::Hash(hash) if holder(unit) != Some(hash.column.as_str()) => {
            format!(
                "{name} is distributed by {}, so that rows of one {word} may lie in many shards, \
                    each read at a separate moment; {remedy}",
                hash.column
            )
        }
        Distribution::Hash(hash) if !hash.tiles => {
            format!(
                "the shards of {name} have gaps or overlap, so that no key holds for all rows; \
                    repair pg_dist_shard, or {remedy}"
            )
        }
        Distribution::Hash(hash) => return Some(hash),
        Distribution::Unenforced(method) => {
            format!(
                "{name} is distributed by {method}: Citus enforces no key of it, and rows of one \
                    {word} may lie in any shard; {remedy}"
            )
        }
        Distribution::Reference => {
            format!(
                "{name} is a reference table, of which every server has a copy, and private tables \
                    are read in shards; {remedy}"
            )
        }
        Distribution::Single => format!(
            "{name} lies in one shard, and private tables are read in separate shards; {remedy}"
        ),
    };
    findings.error(table.entry.place, wrong);
    None
}

/// A table as Citus's functions take it.
fn regclass(table: &Listed<'_>) -> String {
    let names = [&table.relation.schema, &table.relation.name];
    let [schema, name] = names.map(|name| name.replace('"', "\"\"").replace('\'', "''"));
    format!("'\"{schema}\".\"{name}\"'")
}

/// The column of the table itself whose values are units.
fn holder(unit: &Unit) -> Option<&str> {
    match unit.path.as_slice() {
        [] => Some(&unit.column),
        [step] if step.referenced == unit.column => Some(&step.column),
        _ => None,
    }
}

fn public(table: &Listed<'_>, findings: &mut Findings) {
    let placement = match &table.relation.distribution {
        Distribution::Local | Distribution::Reference | Distribution::Single => return,
        Distribution::Hash(hash) if hash.tiles => return,
        Distribution::Hash(_) => "its shards have gaps or overlap".to_owned(),
        Distribution::Unenforced(method) => {
            format!("it is distributed by {method}, so that Citus enforces none")
        }
    };
    if table.is_public() {
        findings.warning(
            table.entry.place,
            format!(
                "no key of {} is trusted: {placement}; a reference table keeps its keys",
                table.name()
            ),
        );
    }
}

/// The partitions of a private table must be distributed like the table itself.
fn parts(catalog: &Catalog, table: &Listed<'_>, findings: &mut Findings) {
    if table.is_public() {
        return;
    }
    let (name, place) = (table.name(), table.entry.place);
    let name_of = |part: &catalog::Table| format!("{}.{}", part.schema, part.name);
    let below = descendants(catalog, table.relation.oid);
    if let Some(part) = below.iter().find(|part| part.kind == RelationKind::Foreign) {
        findings.error(
            place,
            format!(
                "partition {} of {name} is a foreign table: PostgreSQL checks neither its keys nor \
                    that its rows belong there, so that one row may count twice; \
                 keep the partitions of a private table on this server",
                name_of(part)
            ),
        );
    }
    if let Some(part) = below.iter().find(|part| {
        part.kind != RelationKind::Foreign && part.distribution != table.relation.distribution
    }) {
        findings.error(
            place,
            format!(
                "partition {} of {name} is not distributed as {name} is; \
            distribute the whole table alike",
                name_of(part)
            ),
        );
    }
}

fn descendants(catalog: &Catalog, oid: u32) -> Vec<&catalog::Table> {
    let mut found: Vec<&catalog::Table> = Vec::new();
    let mut open = vec![oid];
    while let Some(parent) = open.pop() {
        for table in catalog
            .tables
            .iter()
            .filter(|table| table.parents.contains(&parent))
        {
            if found.iter().all(|known| known.oid != table.oid) {
                found.push(table);
                open.push(table.oid);
            }
        }
    }
    found
}
