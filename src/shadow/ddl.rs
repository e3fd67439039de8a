//! The policy's tables as DDL: names, types, NOT NULL and keys of visible columns; no default, no check, no comment, no row.

use std::collections::{BTreeSet, HashMap};

use crate::catalog::Type;
use crate::policy::{Policy, Protection, Table, VIEW_SCHEMA, VIEWS};

/// A table as the shadow has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub schema: String,
    pub name: String,
    pub columns: Vec<String>,
    pub is_public: bool,
    unique_keys: Vec<Vec<String>>,
}

/// The statements that make the schema, what they make, and what had to be left out.
#[derive(Debug, Default)]
pub struct Schema {
    pub statements: Vec<String>,
    pub tables: Vec<Shape>,
    pub warnings: Vec<String>,
}

/// `builtin` names the types of pg_catalog in the shadow, by OID.
pub fn schema(policy: &Policy, builtin: &HashMap<u32, String>) -> Schema {
    let mut schema = Schema::default();
    let names: BTreeSet<&str> = policy.tables.iter().map(|table| table.schema.as_str()).collect();
    schema.statements.extend(names.iter().map(|name| format!("CREATE SCHEMA IF NOT EXISTS {}", identifier(name))));
    for table in &policy.tables {
        let (shape, statement) = create_table(table, builtin, &mut schema.warnings);
        schema.tables.push(shape);
        schema.statements.push(statement);
    }
    schema.statements.extend(own());
    let keys: BTreeSet<String> = policy.tables.iter().flat_map(|table| foreign_keys(table, &schema.tables)).collect();
    schema.statements.extend(keys);
    schema
}

/// pgveil's own views and functions, so that PostgreSQL knows their types: empty tables and functions that are never answered from here.
fn own() -> Vec<String> {
    let schema = identifier(VIEW_SCHEMA);
    let column = |(name, data_type): &(&str, Type)| format!("{} {data_type}", identifier(name));
    let tables = VIEWS.iter().map(|view| {
        let columns: Vec<String> = view.columns.iter().map(column).collect();
        format!("CREATE TABLE {} ({})", qualified(VIEW_SCHEMA, view.name), columns.join(", "))
    });
    let functions = ["stderr", "ci_low", "ci_high"].map(|name| {
        format!("CREATE FUNCTION {schema}.{name}(anyelement) RETURNS double precision LANGUAGE sql IMMUTABLE AS 'SELECT NULL::double precision'")
    });
    std::iter::once(format!("CREATE SCHEMA IF NOT EXISTS {schema}")).chain(tables).chain(functions).collect()
}

fn create_table(table: &Table, builtin: &HashMap<u32, String>, warnings: &mut Vec<String>) -> (Shape, String) {
    let mut parts = Vec::new();
    let mut columns = Vec::new();
    for column in &table.columns {
        match type_name(&column.data_type, builtin) {
            Ok(name) => {
                let not_null = if column.not_null { " NOT NULL" } else { "" };
                parts.push(format!("{} {name}{not_null}", identifier(&column.name)));
                columns.push(column.name.clone());
            }
            Err(name) => {
                let (schema, table, column) = (&table.schema, &table.name, &column.name);
                warnings.push(format!("column {schema}.{table}.{column} is left out: its type {name} is not built into PostgreSQL"));
            }
        }
    }
    let mut unique_keys = Vec::new();
    for key in table.unique_keys.iter().filter(|key| key.columns.iter().all(|column| columns.contains(column))) {
        let kind = if key.primary { "PRIMARY KEY" } else { "UNIQUE" };
        parts.push(format!("{kind} ({})", list(&key.columns)));
        unique_keys.push(key.columns.clone());
    }
    let statement = format!("CREATE TABLE {} ({})", qualified(&table.schema, &table.name), parts.join(", "));
    let is_public = matches!(table.protection, Protection::Public);
    (Shape { schema: table.schema.clone(), name: table.name.clone(), columns, is_public, unique_keys }, statement)
}

/// The path from a private table to its unit, step by step, where the shadow has both ends.
fn foreign_keys(table: &Table, shapes: &[Shape]) -> Vec<String> {
    let Protection::Private(unit) = &table.protection else { return Vec::new() };
    let find = |schema: &str, name: &str| shapes.iter().find(|shape| shape.schema == schema && shape.name == name);
    let mut statements = Vec::new();
    let mut from = find(&table.schema, &table.name);
    for step in &unit.path {
        let to = find(&step.schema, &step.table);
        if let (Some(from), Some(to)) = (from, to)
            && from.columns.contains(&step.column)
            && to.unique_keys.iter().any(|key| key.as_slice() == std::slice::from_ref(&step.referenced))
        {
            statements.push(format!(
                "ALTER TABLE {} ADD FOREIGN KEY ({}) REFERENCES {} ({})",
                qualified(&from.schema, &from.name),
                identifier(&step.column),
                qualified(&to.schema, &to.name),
                identifier(&step.referenced)
            ));
        }
        from = to;
    }
    statements
}

/// The type's SQL name; `Err` carries the name of a type that the shadow has not.
fn type_name<'a>(data_type: &'a Type, builtin: &HashMap<u32, String>) -> Result<String, &'a str> {
    let name = match data_type {
        Type::Bool => "boolean",
        Type::Int2 => "smallint",
        Type::Int4 => "integer",
        Type::Int8 => "bigint",
        Type::Numeric(None) => "numeric",
        Type::Numeric(Some((precision, scale))) => return Ok(format!("numeric({precision},{scale})")),
        Type::Float4 => "real",
        Type::Float8 => "double precision",
        Type::Text => "text",
        Type::Varchar(None) => "character varying",
        Type::Varchar(Some(length)) => return Ok(format!("character varying({length})")),
        Type::Char(length) => return Ok(format!("character({length})")),
        Type::Uuid => "uuid",
        Type::Date => "date",
        Type::Timestamp => "timestamp without time zone",
        Type::Timestamptz => "timestamp with time zone",
        Type::Interval => "interval",
        Type::Other { oid, name } => return builtin.get(oid).cloned().ok_or(name.as_str()),
    };
    Ok(name.to_owned())
}

/// A quoted identifier.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A quoted name with its schema.
pub fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", identifier(schema), identifier(name))
}

/// Quoted identifiers with commas.
pub fn list(names: &[String]) -> String {
    names.iter().map(|name| identifier(name)).collect::<Vec<_>>().join(", ")
}

/// A string literal that reads the same whatever `standard_conforming_strings` says.
pub fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    if value.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}
