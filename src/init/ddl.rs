//! Statements for the database's administrator. They are printed and never run.

use super::catalog_view::{CatalogView, ColumnAt};
use super::draft::Draft;
use super::links::{Link, LinkBasis, LinkWithoutKey};
use super::possibly_private::LinkKind;
use super::unit_paths::UnitPath;
use crate::postgres::{identifier, qualify};

/// A remark and the statements that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DdlAdvice {
    pub why: String,
    pub statements: Vec<String>,
}

/// Advice for the administrator, the most urgent first.
pub fn advice(seen: &CatalogView, draft: &Draft, keyless: &[LinkWithoutKey]) -> Vec<DdlAdvice> {
    [
        rights(seen, draft),
        keys(seen, draft, keyless),
        facts(seen, draft),
        indexes(seen, draft),
    ]
    .into_iter()
    .filter(|advice| !advice.statements.is_empty())
    .collect()
}

fn name(seen: &CatalogView, table: usize) -> String {
    let table = seen.table(table);
    qualify(&table.schema, &table.name)
}

/// The rights that the role lacks; or a separate role, where this one may do more than read.
fn rights(seen: &CatalogView, draft: &Draft) -> DdlAdvice {
    let shown: Vec<usize> = draft
        .private
        .iter()
        .map(|private| private.table)
        .chain(draft.public.iter().copied())
        .collect();
    let may_write = shown.iter().any(|table| seen.table(*table).writable);
    let is_too_much = may_write || !seen.catalog.powers.is_empty();
    let lacking: Vec<usize> = shown
        .iter()
        .copied()
        .filter(|table| is_too_much || !seen.table(*table).selectable)
        .collect();
    let role = identifier(if is_too_much {
        "pgveil_reader"
    } else {
        &seen.user
    });
    let mut statements = Vec::new();
    if is_too_much {
        statements.push(format!(
            "CREATE ROLE {role} LOGIN;   -- then give it a password: \\password {role}"
        ));
    }
    let mut schemas: Vec<&str> = lacking
        .iter()
        .map(|table| seen.table(*table).schema.as_str())
        .collect();
    schemas.sort_unstable();
    schemas.dedup();
    for schema in schemas {
        statements.push(format!(
            "GRANT USAGE ON SCHEMA {} TO {role};",
            identifier(schema)
        ));
    }
    if !lacking.is_empty() {
        let tables: Vec<String> = lacking.iter().map(|table| name(seen, *table)).collect();
        statements.push(format!("GRANT SELECT ON {} TO {role};", tables.join(", ")));
    }
    let why = if is_too_much {
        format!(
            "{} may do more than read; give pgveil a separate role and name it in DATABASE_URL",
            seen.user
        )
    } else {
        format!("{} may not read these tables yet", seen.user)
    };
    DdlAdvice { why, statements }
}

/// Keys without which a table is left out.
fn keys(seen: &CatalogView, draft: &Draft, keyless: &[LinkWithoutKey]) -> DdlAdvice {
    let mut ends: Vec<ColumnAt> = keyless
        .iter()
        .filter(|link| {
            let clue = draft.made.suspects.get(&link.from.table);
            clue.is_some_and(|clue| matches!(&clue.by, LinkKind::Keyless(known) if known == *link))
        })
        .map(|link| link.to)
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let statements = ends
        .into_iter()
        .map(|at| {
            format!(
                "ALTER TABLE {} ADD UNIQUE ({});",
                name(seen, at.table),
                identifier(&seen.column(at).name)
            )
        })
        .collect();
    DdlAdvice {
        why: "tables are left out because the column that they lead to is not unique by a key; \
            with one, run pgveil init again"
            .to_owned(),
        statements,
    }
}

fn used_links(draft: &Draft) -> Vec<&Link> {
    let mut used: Vec<&Link> = Vec::new();
    for private in &draft.private {
        if let UnitPath::Path(links) = &private.way
            && let Some(first) = links.first()
        {
            used.push(first);
        }
    }
    used
}

/// Foreign keys that would turn the owner's word into a fact.
fn facts(seen: &CatalogView, draft: &Draft) -> DdlAdvice {
    let statements = used_links(draft)
        .into_iter()
        .filter(|link| link.basis != LinkBasis::Declared)
        .map(|link| {
            format!(
                "ALTER TABLE {} ADD FOREIGN KEY ({}) REFERENCES {} ({});",
                name(seen, link.from.table),
                identifier(&seen.column(link.from).name),
                name(seen, link.to.table),
                identifier(&seen.column(link.to).name)
            )
        })
        .collect();
    DdlAdvice {
        why: "these links rest on somebody's word; PostgreSQL can hold them".to_owned(),
        statements,
    }
}

fn indexes(seen: &CatalogView, draft: &Draft) -> DdlAdvice {
    let statements = used_links(draft)
        .into_iter()
        .map(|link| link.from)
        .chain([draft.made.unit])
        .filter(|at| !seen.is_indexed(*at))
        .map(|at| {
            format!(
                "CREATE INDEX ON {} ({});",
                name(seen, at.table),
                identifier(&seen.column(at).name)
            )
        })
        .collect();
    DdlAdvice {
        why: "without these indexes, bounding what one unit adds takes several times as long"
            .to_owned(),
        statements,
    }
}
