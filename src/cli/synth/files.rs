//! The files of made-up tables: the schema, the rows, and a script that loads both.

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tokio_postgres::{Client, SimpleQueryMessage};

use super::{MadeUp, first_reference, readme};
use crate::cli::Failure;
use crate::cli::arguments::SynthFormat;
use crate::cli::start;
use crate::policy::{Policy, Protection, Table};
use crate::postgres::{identifier, list, literal, qualify};
use crate::shadow::{Builtin, Condition, ShadowSchema, create_tables};
use crate::synthetic::Source;

/// How public tables are read, so that any PostgreSQL reads what is written.
const SETTINGS: &str = "SET datestyle = 'ISO, YMD'; SET timezone = 'UTC'; \
    SET intervalstyle = 'postgres'; SET extra_float_digits = 1; SET bytea_output = 'hex'";

/// How many rows one INSERT has.
const ROWS_INSERTED: usize = 500;

/// The directory that the files are written to, which has no others.
pub struct Folder {
    path: PathBuf,
    format: SynthFormat,
}

impl Folder {
    /// Makes the directory where it is missing.
    pub fn new(path: &Path, format: SynthFormat) -> Result<Self, Failure> {
        let failed = |e: std::io::Error| Failure::new(format_args!("{}: {e}", path.display()));
        std::fs::create_dir_all(path).map_err(failed)?;
        if std::fs::read_dir(path).map_err(failed)?.next().is_some() {
            return Err(Failure::with_remedy(
                format_args!("{} has files in it", path.display()),
                "Name a new or empty directory: --out DIRECTORY.",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            format,
        })
    }

    /// Writes all files. Returns what had to be left out, in words.
    pub async fn write(
        &self,
        policy: &Policy,
        made: &[MadeUp<'_>],
        (builtin, database): (&Builtin, &Client),
    ) -> Result<Vec<String>, Failure> {
        let schema = create_tables(policy, builtin, &|table, condition| {
            let of = made.iter().find(|made| made.filler.table.oid == table.oid);
            of.is_none_or(|made| keeps(made, condition))
        });
        let mut left_out = schema.warnings.clone();
        self.create("schema.sql", &(schema.statements.join(";\n") + ";\n"))?;
        let mut load = vec![
            "\\set ON_ERROR_STOP on".to_owned(),
            "BEGIN;".to_owned(),
            "\\ir schema.sql".to_owned(),
        ];
        database
            .batch_execute(SETTINGS)
            .await
            .map_err(start::database_failed)?;
        for (at, table) in policy.tables.iter().enumerate() {
            let of = made.iter().find(|made| made.filler.table.oid == table.oid);
            let columns = columns_of(&schema, table);
            let rows = match (&table.protection, of) {
                (Protection::Private(_), Some(made)) => made_rows(made, &columns),
                (Protection::Private(_), None) => continue,
                (Protection::Public, _) => {
                    match copy(table, &columns, database, policy.limits.mirror_rows).await? {
                        Some(rows) => rows,
                        None => {
                            left_out.push(format!(
                                "{}.{} stays empty: it has more rows than limits.mirror_rows",
                                table.schema, table.name
                            ));
                            continue;
                        }
                    }
                }
            };
            load.push(self.write_rows(at + 1, table, &columns, &rows)?);
        }
        load.extend(schema.public_keys.iter().map(|key| format!("{key};")));
        load.extend(foreign_keys(made, policy));
        load.push("COMMIT;\n".to_owned());
        self.create("load.sql", &load.join("\n"))?;
        let about = readme::lines(policy, made).join("\n");
        self.create("README", &format!("{about}\n\n{}", readme::NOT_KEPT))?;
        Ok(left_out)
    }

    fn create(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        let failed = |e| Failure::new(format_args!("{}: {e}", path.display()));
        std::fs::write(&path, text).map_err(failed)
    }

    /// Writes the rows of one table. Returns the line of load.sql that loads them.
    fn write_rows(
        &self,
        number: usize,
        table: &Table,
        columns: &[String],
        rows: &[Vec<Option<String>>],
    ) -> Result<String, Failure> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ['_', '.', '-'].contains(&c);
        let whole = format!("{}.{}", table.schema, table.name);
        let plain: String = whole
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .collect();
        let (extension, into) = (
            match self.format {
                SynthFormat::Csv => "csv",
                SynthFormat::Sql => "sql",
            },
            format!(
                "{} ({})",
                qualify(&table.schema, &table.name),
                list(columns)
            ),
        );
        let name = format!("{number:02}-{plain}.{extension}");
        let path = self.path.join(&name);
        let failed = |e: std::io::Error| Failure::new(format_args!("{}: {e}", path.display()));
        let mut file = BufWriter::new(std::fs::File::create(&path).map_err(failed)?);
        match self.format {
            SynthFormat::Csv => {
                for row in rows {
                    writeln!(file, "{}", csv(row)).map_err(failed)?;
                }
            }
            SynthFormat::Sql => {
                for rows in rows.chunks(ROWS_INSERTED) {
                    let rows: Vec<String> = rows.iter().map(|row| values(row)).collect();
                    writeln!(file, "INSERT INTO {into} VALUES\n{};", rows.join(",\n"))
                        .map_err(failed)?;
                }
            }
        }
        file.flush().map_err(failed)?;
        Ok(match self.format {
            SynthFormat::Csv => format!("\\copy {into} FROM '{name}' WITH (FORMAT csv)"),
            SynthFormat::Sql => format!("\\ir {name}"),
        })
    }
}

/// A line that COPY reads in its format csv: NULL is an empty field, an empty text is quoted.
fn csv(row: &[Option<String>]) -> String {
    let field = |value: &Option<String>| match value {
        None => String::new(),
        Some(text) => format!("\"{}\"", text.replace('"', "\"\"")),
    };
    row.iter().map(field).collect::<Vec<_>>().join(",")
}

fn values(row: &[Option<String>]) -> String {
    let value = |value: &Option<String>| match value {
        None => "NULL".to_owned(),
        Some(text) => literal(text),
    };
    format!("({})", row.iter().map(value).collect::<Vec<_>>().join(", "))
}

/// The table's columns that the schema has.
fn columns_of(schema: &ShadowSchema, table: &Table) -> Vec<String> {
    let shape = schema
        .tables
        .iter()
        .find(|shape| (&shape.schema, &shape.name) == (&table.schema, &table.name));
    shape.map_or_else(Vec::new, |shape| shape.columns.clone())
}

/// Whether the made-up rows keep a condition of their table.
fn keeps(made: &MadeUp<'_>, condition: Condition<'_>) -> bool {
    let columns = &made.filler.table.columns;
    let place = |name: &str| columns.iter().position(|column| column.name == name);
    match condition {
        Condition::NotNull(column) => {
            place(&column.name).is_some_and(|at| made.columns[at].iter().all(Option::is_some))
        }
        Condition::Unique(key) => {
            let Some(places) = key.names().map(place).collect::<Option<Vec<_>>>() else {
                return false;
            };
            let mut seen = HashSet::with_capacity(made.rows);
            let value = |row: usize| -> Vec<Option<&str>> {
                places
                    .iter()
                    .map(|at| made.columns[*at][row].as_deref())
                    .collect()
            };
            let is_filled = !key.primary
                || places
                    .iter()
                    .all(|at| made.columns[*at].iter().all(Option::is_some));
            is_filled && (0..made.rows).all(|row| seen.insert(value(row)))
        }
    }
}

fn made_rows(made: &MadeUp<'_>, columns: &[String]) -> Vec<Vec<Option<String>>> {
    let names = &made.filler.table.columns;
    let places: Vec<usize> = columns
        .iter()
        .filter_map(|name| names.iter().position(|column| column.name == *name))
        .collect();
    let row = |row: usize| {
        places
            .iter()
            .map(|at| made.columns[*at][row].clone())
            .collect()
    };
    (0..made.rows).map(row).collect()
}

/// The rows of a public table; `None` where they are more than `most`.
async fn copy(
    table: &Table,
    columns: &[String],
    database: &Client,
    most: u64,
) -> Result<Option<Vec<Vec<Option<String>>>>, Failure> {
    let shown: Vec<String> = columns.iter().map(|name| identifier(name)).collect();
    let sql = format!(
        "SELECT {} FROM {} LIMIT {}",
        shown.join(", "),
        qualify(&table.schema, &table.name),
        most.saturating_add(1)
    );
    let answered = database
        .simple_query(&sql)
        .await
        .map_err(start::database_failed)?;
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(
            (0..row.len())
                .map(|at| row.get(at).map(str::to_owned))
                .collect(),
        ),
        _ => None,
    };
    let rows: Vec<Vec<Option<String>>> = answered.iter().filter_map(row).collect();
    Ok((rows.len() as u64 <= most).then_some(rows))
}

/// The foreign keys between made-up tables, along the paths to their units.
fn foreign_keys(made: &[MadeUp<'_>], policy: &Policy) -> Vec<String> {
    let key = |of: &MadeUp<'_>| {
        let table = of.filler.table;
        let at = of
            .filler
            .sources
            .iter()
            .position(|s| matches!(s, Source::Parent(_)))?;
        let (schema, name, column) = first_reference(table)?;
        let parent = policy.table(schema, name)?;
        let is_key = parent
            .unique_keys
            .iter()
            .any(|key| key.names().eq([column]));
        is_key.then(|| {
            format!(
                "ALTER TABLE {} ADD FOREIGN KEY ({}) REFERENCES {} ({});",
                qualify(&table.schema, &table.name),
                identifier(&table.columns[at].name),
                qualify(schema, name),
                identifier(column)
            )
        })
    };
    made.iter().filter_map(key).collect()
}
