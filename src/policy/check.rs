//! Compares a policy file with the catalog of the database, and makes the checked policy from both.

mod collected;
mod columns;
mod dictionary;
mod domains;
mod holdouts;
mod periods;
mod placement;
mod relations;
mod searches;
mod summaries;
mod unique_claims;
mod units;
mod writing;

pub use domains::DomainReader;
pub use units::{family, unfit};
pub use writing::read_value;

use super::error::{At, Findings, PolicyError};
use super::file::{ColumnEntry, ColumnRule, File, TableEntry, TableRule};
use super::{Policy, Protection, Search, Table, Unit, version};
use crate::catalog;
use crate::catalog::Catalog;
use domains::Domains;

/// A valid policy, and the warnings for its owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    pub policy: Policy,
    pub warnings: Vec<PolicyError>,
}

/// One table of the file with what the catalog knows of it.
#[derive(Clone, Copy)]
struct Listed<'a> {
    entry: &'a TableEntry,
    relation: &'a catalog::Table,
}

impl Listed<'_> {
    fn name(&self) -> String {
        format!("{}.{}", self.entry.schema, self.entry.name)
    }

    fn is_public(&self) -> bool {
        self.entry.rule == TableRule::Public
    }
}

/// Checks every table, unit, path, column, bound and domain; reads the domains from their public
/// tables. All errors are reported at once.
pub async fn check(
    file: &File,
    catalog: &Catalog,
    reader: &dyn DomainReader,
) -> Result<Checked, Vec<PolicyError>> {
    let mut findings = Findings::new(&file.name);
    findings.warnings.clone_from(&file.warnings);
    encoding(file, catalog, &mut findings);
    let listed = relations::find(file, catalog, &mut findings);
    relations::check(file, catalog, &listed, &mut findings);
    let units = units::check(file, &listed, &mut findings);
    placement::check(file, catalog, &listed, &units, &mut findings);

    let (tables, searches) = check_tables(file, &listed, units, reader, &mut findings).await;
    let writing = writing::check(file, &tables, &listed, &mut findings);
    if !findings.errors.is_empty() {
        return Err(findings.into_errors());
    }
    let mut policy = Policy {
        version: String::new(),
        database_url: file.database_url.clone(),
        ledger_url: file.ledger_url.clone(),
        shadow_url: file.shadow_url.clone(),
        privacy: file.privacy.clone(),
        roles: file.roles.clone(),
        operators: file.operators.clone(),
        types: catalog
            .types
            .iter()
            .filter(|made| is_shown(made, &tables))
            .cloned()
            .collect(),
        tables,
        searches,
        summaries: Vec::new(),
        limits: file.limits.clone(),
        previews: file.previews,
        records_shape: file.records_shape,
        quantum: file.quantum,
        time_grain: file.time_grain,
        writing,
    };
    policy.version = version::digest(&policy);
    policy.summaries = summaries::check(file, &policy, &listed, &mut findings);
    for (role, place) in policy.roles.iter().zip(&file.role_places) {
        if let Err(refusal) = role.session_settings.within(&policy) {
            findings.error(
                *place,
                format!("the settings of role \"{}\": {refusal}", role.name),
            );
        }
    }
    if !findings.errors.is_empty() {
        return Err(findings.into_errors());
    }
    Ok(Checked {
        policy,
        warnings: findings.warnings,
    })
}

/// The tables with their columns, and the searches that they leave to `pgveil bounds`.
async fn check_tables(
    file: &File,
    listed: &[Listed<'_>],
    units: Vec<Option<Unit>>,
    reader: &dyn DomainReader,
    findings: &mut Findings,
) -> (Vec<Table>, Vec<Search>) {
    let mut domains = Domains::new(reader, listed, file);
    let (mut tables, mut searches) = (Vec::new(), Vec::new());
    for (table, unit) in listed.iter().zip(units) {
        // Before any list is read: what changes in between counts as changed.
        let content = if table.is_public() {
            domains
                .content(table.relation, file.limits.mirror_rows)
                .await
        } else {
            None
        };
        let columns =
            columns::check(table, listed, file.limits.groups, &mut domains, findings).await;
        searches.extend(searches::searches_of_table(
            table,
            tables.len(),
            unit.as_ref(),
            &columns,
            findings,
        ));
        let holdout = holdouts::check(file, table, unit.as_ref(), findings);
        let claimed_unique = unique_claims::check(table, &columns, findings);
        let protection = match (table.is_public(), unit) {
            (true, _) => Protection::Public,
            (false, Some(unit)) => Protection::Private(unit),
            // Without a unit there is an error already, so this table reaches no policy.
            (false, None) => continue,
        };
        let listing = match protection {
            Protection::Public => domains.listing(table.relation, &columns).await,
            Protection::Private(_) => None,
        };
        let periods = periods::check(table, listed, &columns, findings);
        tables.push(Table {
            oid: table.relation.oid,
            schema: table.relation.schema.clone(),
            name: table.relation.name.clone(),
            protection,
            columns,
            unique_keys: table.relation.unique_keys.clone(),
            foreign_keys: table.relation.foreign_keys.clone(),
            claimed_unique,
            indexes: table.relation.indexes.clone(),
            fingerprint: table.relation.fingerprint.clone(),
            listing,
            content,
            lists_from: lists_from(table),
            periods,
            holdout,
        });
    }
    (tables, searches)
}

fn encoding(file: &File, catalog: &Catalog, findings: &mut Findings) {
    let found = &catalog.server_encoding;
    if found != "UTF8" {
        findings.error(
            file.database_place,
            format!(
                "the database has the encoding {found}; pgveil needs UTF8, in which every text \
                can be read without an error"
            ),
        );
    }
}

/// The tables that `domain:` names.
fn lists_from(table: &Listed<'_>) -> Vec<(String, String)> {
    let TableRule::Private {
        columns,
        unit: _,
        rows_per_unit: _,
        shows_other_columns: _,
        periods: _,
        holdout: _,
        unique: _,
        is_append_only: _,
        shows_constraints: _,
    } = &table.entry.rule
    else {
        return Vec::new();
    };
    let source = |entry: &ColumnEntry| match entry.rule.of_values() {
        ColumnRule::Domain(At {
            place: _,
            value: (schema, name, _),
        }) => Some((schema.clone(), name.clone())),
        ColumnRule::Hidden
        | ColumnRule::Visible
        | ColumnRule::Values(_)
        | ColumnRule::Bounds { .. }
        | ColumnRule::Searched { .. }
        | ColumnRule::Collected { .. } => None,
    };
    columns.iter().filter_map(source).collect()
}

/// Whether a column that is shown has this type.
fn is_shown(made: &catalog::UserType, tables: &[Table]) -> bool {
    let of_it =
        |data_type: &catalog::Type| [made.oid, made.array].contains(&catalog::oid_of(data_type));
    tables
        .iter()
        .flat_map(|table| &table.columns)
        .any(|column| of_it(column.declared.as_ref().unwrap_or(&column.data_type)))
}

/// `a, b, c`, cut where a list gets long.
fn enumerate<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let names: Vec<&str> = names.collect();
    match names.get(..SHOWN) {
        Some(shown) if names.len() > SHOWN => {
            format!("{} and {} more", shown.join(", "), names.len() - SHOWN)
        }
        _ => names.join(", "),
    }
}

/// The column of this name, or an error that lists the columns there are.
fn find_column<'a>(
    relation: &'a catalog::Table,
    name: &At<&str>,
    findings: &mut Findings,
) -> Option<&'a catalog::Column> {
    let found = relation.column(name.value);
    if found.is_none() {
        let columns = enumerate(relation.columns.iter().map(|c| c.name.as_str()));
        // As other tools write "all columns".
        let remedy = if name.value == "*" {
            "; `other_columns: visible` shows every column that is not listed"
        } else {
            ""
        };
        findings.error(
            name.place,
            format!(
                "column \"{}\" does not exist in {}.{}; its columns are {columns}{remedy}",
                name.value, relation.schema, relation.name
            ),
        );
    }
    found
}

#[cfg(test)]
mod tests;
