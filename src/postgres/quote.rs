//! Names and texts within statements that pgveil writes.

use crate::policy::WantedIndex;

/// A quoted identifier.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A quoted name with its schema.
pub fn qualify(schema: &str, name: &str) -> String {
    format!("{}.{}", identifier(schema), identifier(name))
}

/// Quoted identifiers with commas.
pub fn list(names: &[String]) -> String {
    names
        .iter()
        .map(|name| identifier(name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The statement that makes an index.
pub fn create_index(index: &WantedIndex) -> String {
    let WantedIndex {
        schema,
        table,
        keys,
        included,
    } = index;
    let plain = format!(
        "CREATE INDEX ON {} ({})",
        qualify(schema, table),
        list(keys)
    );
    if included.is_empty() {
        plain
    } else {
        format!("{plain} INCLUDE ({})", list(included))
    }
}

/// A string literal that reads the same whatever `standard_conforming_strings` says.
pub fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    if value.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}
