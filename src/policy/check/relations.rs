//! Which relations a policy may name, and with which rights.

use std::collections::BTreeMap;

use super::{Listed, enumerate};
use crate::catalog::{Catalog, RelationKind, UnneededRight};
use crate::policy::error::Findings;
use crate::policy::file::{File, TableEntry};

/// The tables of the file that the catalog has.
pub fn find<'a>(file: &'a File, catalog: &'a Catalog, findings: &mut Findings) -> Vec<Listed<'a>> {
    file.tables
        .iter()
        .filter_map(|entry| find_one(entry, catalog, findings))
        .collect()
}

fn find_one<'a>(
    entry: &'a TableEntry,
    catalog: &'a Catalog,
    findings: &mut Findings,
) -> Option<Listed<'a>> {
    let name = format!("{}.{}", entry.schema, entry.name);
    if entry.schema == "pgveil" {
        findings.error(
            entry.place,
            format!("table {name}: the schema pgveil belongs to the proxy's own views"),
        );
        return None;
    }
    if let Some(relation) = catalog.table(&entry.schema, &entry.name) {
        return Some(Listed { entry, relation });
    }
    let others = enumerate(
        catalog
            .tables
            .iter()
            .filter(|t| t.schema == entry.schema)
            .map(|t| t.name.as_str()),
    );
    findings.error(
        entry.place,
        if others.is_empty() {
            format!(
                "table {name} does not exist; schema {} has no tables in database {}",
                entry.schema, catalog.database
            )
        } else {
            format!(
                "table {name} does not exist; the tables of schema {} are {others}",
                entry.schema
            )
        },
    );
    None
}

pub fn check(file: &File, catalog: &Catalog, listed: &[Listed<'_>], findings: &mut Findings) {
    for table in listed {
        kind(table, findings);
        if !table.relation.selectable {
            findings.error(
                table.entry.place,
                format!(
                    "the database role may not SELECT {}; grant it SELECT on the table and \
                    USAGE on its schema",
                    table.name()
                ),
            );
        }
    }
    families(catalog, listed, findings);
    public_references(listed, findings);
    rights(file, catalog, listed, findings);
}

fn kind(table: &Listed<'_>, findings: &mut Findings) {
    let (relation, place, name) = (table.relation, table.entry.place, table.name());
    match relation.kind {
        RelationKind::Ordinary | RelationKind::Partitioned => {}
        RelationKind::Foreign if table.is_public() => {
            findings.warning(
                place,
                format!(
                    "{name} is a foreign table: PostgreSQL enforces none \
                of \
                its constraints, so no key of it is trusted"
                ),
            );
        }
        RelationKind::Foreign => findings.error(
            place,
            format!(
                "{name} is a foreign table; a private table must be an ordinary \
                or partitioned one, whose rows this server holds"
            ),
        ),
        RelationKind::View => findings.error(
            place,
            format!(
                "{name} is a view; name the tables it reads \
            instead: a row of a view may belong to many units"
            ),
        ),
        RelationKind::MaterializedView => {
            findings.error(
                place,
                format!(
                    "{name} is a materialized view; name the tables it was made \
                    from instead: nobody knows whose rows it holds"
                ),
            );
        }
        RelationKind::Other => findings.error(place, format!("{name} is not a table")),
    }
    if relation.row_security {
        findings.error(
            place,
            format!(
                "{name} has row security, so that its rows depend on the role \
            that reads them; let the proxy's role read a table without it"
            ),
        );
    }
    if relation.has_rules
        && matches!(
            relation.kind,
            RelationKind::Ordinary | RelationKind::Partitioned | RelationKind::Foreign
        )
    {
        findings.error(
            place,
            format!("{name} has rules, which rewrite queries behind the proxy; drop them"),
        );
    }
    if relation.inherits {
        findings.error(
            place,
            format!(
                "{name} takes part in table inheritance, so that its keys prove nothing; use \
                declarative partitions or name a table without it"
            ),
        );
    }
}

/// A public table must share no inheritance or partition tree with a private one: its rows would be
/// the private rows.
fn families(catalog: &Catalog, listed: &[Listed<'_>], findings: &mut Findings) {
    let mut family: BTreeMap<u32, u32> = BTreeMap::new();
    for table in &catalog.tables {
        for parent in &table.parents {
            let (from, to) = (root(&family, table.oid), root(&family, *parent));
            if from != to {
                family.insert(from, to);
            }
        }
    }
    for public in listed.iter().filter(|t| t.is_public()) {
        let kin = |t: &&Listed<'_>| {
            !t.is_public() && root(&family, t.relation.oid) == root(&family, public.relation.oid)
        };
        if let Some(private) = listed.iter().find(kin) {
            let (name, private) = (public.name(), private.name());
            findings.error(
                public.entry.place,
                format!(
                    "{name} cannot be public: it shares partitions \
                    or inheritance with the private table {private}"
                ),
            );
        }
    }
}

fn root(family: &BTreeMap<u32, u32>, mut oid: u32) -> u32 {
    while let Some(up) = family.get(&oid) {
        oid = *up;
    }
    oid
}

fn public_references(listed: &[Listed<'_>], findings: &mut Findings) {
    for public in listed.iter().filter(|t| t.is_public()) {
        for key in &public.relation.foreign_keys {
            let to_private = |t: &&Listed<'_>| {
                !t.is_public()
                    && (&t.relation.schema, &t.relation.name) == (&key.schema, &key.table)
            };
            if let Some(private) = listed.iter().find(to_private) {
                let (name, private) = (public.name(), private.name());
                findings.warning(
                    public.entry.place,
                    format!(
                        "public table {name} refers to the private table {private}: its rows \
                        may tell who is in there"
                    ),
                );
            }
        }
    }
}

/// A right beyond reading, as named in a warning.
fn power_text(power: &UnneededRight) -> String {
    match power {
        UnneededRight::Superuser => "do everything: it is a superuser".to_owned(),
        UnneededRight::PassRowSecurity => "pass row security (BYPASSRLS)".to_owned(),
        UnneededRight::MakeRoles => "create roles".to_owned(),
        UnneededRight::MakeDatabases => "create databases".to_owned(),
        UnneededRight::Replicate => "replicate the server".to_owned(),
        UnneededRight::Predefined(role) => format!("do what {role} may"),
        UnneededRight::Become(role) => format!("become {role}"),
        UnneededRight::MakeSchemas => "create schemas".to_owned(),
        UnneededRight::MakeObjects(schema) => format!("create objects in schema {schema}"),
    }
}

/// The role of the proxy should be able to read what the policy shows, and nothing else.
fn rights(file: &File, catalog: &Catalog, listed: &[Listed<'_>], findings: &mut Findings) {
    let writable: Vec<String> = listed
        .iter()
        .filter(|t| t.relation.writable)
        .map(Listed::name)
        .collect();
    if !writable.is_empty() {
        let names = enumerate(writable.iter().map(String::as_str));
        findings.warning(
            file.database_place,
            format!(
                "the database role may do more than SELECT on {names}; give the proxy a \
                separate role that cannot write"
            ),
        );
    }
    let is_listed = |oid| listed.iter().any(|t| t.relation.oid == oid);
    let beyond: Vec<String> = catalog
        .tables
        .iter()
        .filter(|t| t.selectable && !is_listed(t.oid))
        .map(|t| format!("{}.{}", t.schema, t.name))
        .collect();
    if !beyond.is_empty() {
        let names = enumerate(beyond.iter().map(String::as_str));
        findings.warning(
            file.database_place,
            format!("the database role may also SELECT {names}, which the policy does not show"),
        );
    }
    if !catalog.powers.is_empty() {
        let powers: Vec<String> = catalog.powers.iter().map(power_text).collect();
        findings.warning(
            file.database_place,
            format!(
                "the database role may {}; give the proxy a separate role that can SELECT \
                and \
                nothing else",
                powers.join(", ")
            ),
        );
    }
}
