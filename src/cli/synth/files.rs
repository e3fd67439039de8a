//! The files of made-up tables: the schema, the rows, and a script that loads both.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tokio_postgres::{Client, SimpleQueryMessage};

use super::readme;
use super::tables::{MadeUp, first_reference};
use crate::catalog::UniqueKey;
use crate::cli::Failure;
use crate::cli::arguments::SynthFormat;
use crate::cli::start;
use crate::policy::{Policy, Protection, Table};
use crate::postgres::{identifier, list, literal, qualify};
use crate::shadow::{Builtin, RowCondition, ShadowSchema, create_tables};
use crate::synthetic::ColumnSource;

/// How public tables are read, so that any PostgreSQL reads what is written.
const SETTINGS: &str = "SET datestyle = 'ISO, YMD'; SET timezone = 'UTC'; \
    SET intervalstyle = 'postgres'; SET extra_float_digits = 1; SET bytea_output = 'hex'";

/// How load.sql begins: the files are read as they were written, whatever the session's settings.
const LOADED: &str = "\\set ON_ERROR_STOP on\nSET client_encoding = 'UTF8';\n\
    SET datestyle = 'ISO, YMD';\nSET timezone = 'UTC';\nSET intervalstyle = 'postgres';\nBEGIN;";

/// The longest part of a file's name that is the table's.
const NAME_MAX: usize = 100;

/// How many rows one INSERT has.
const ROWS_INSERTED: usize = 500;

/// The directory that the files are written to, which has no others.
pub struct Folder {
    path: PathBuf,
    format: SynthFormat,
}

impl Folder {
    /// Makes the directory where it is missing, for this user alone.
    pub fn new(path: &Path, format: SynthFormat) -> Result<Self, Failure> {
        let failed = |e: std::io::Error| Failure::new(format_args!("{}: {e}", path.display()));
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(path);
        made.map_err(failed)?;
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
        let schema = create_tables(policy, builtin, &|condition| keeps(made, condition));
        let mut left_out = schema.warnings.clone();
        self.create("schema.sql", &(schema.statements.join(";\n") + ";\n"))?;
        let mut load = vec![LOADED.to_owned(), "\\ir schema.sql".to_owned()];
        database
            .batch_execute(SETTINGS)
            .await
            .map_err(start::database_failed)?;
        for (at, table) in in_order(policy).into_iter().enumerate() {
            let of = made.iter().find(|made| made.filler.table.oid == table.oid);
            let columns = columns_of(&schema, table);
            let rows = match (&table.protection, of) {
                (Protection::Private(_), Some(made)) => Some(made_rows(made, &columns)),
                (Protection::Private(_), None) => continue,
                (Protection::Public, _) => {
                    copy(table, &columns, database, policy.limits.mirror_rows).await?
                }
            };
            match rows {
                Some(rows) if !columns.is_empty() => {
                    load.push(self.write_rows(at + 1, table, &columns, &rows)?);
                }
                Some(_) => {}
                None => left_out.push(format!(
                    "{}.{} stays empty: it has more rows than limits.mirror_rows",
                    table.schema, table.name
                )),
            }
        }
        load.extend(schema.public_keys.iter().map(|key| format!("{key};")));
        load.extend(foreign_keys(made, &schema));
        load.push("COMMIT;\n".to_owned());
        self.create("load.sql", &load.join("\n"))?;
        let mut about = readme::lines(policy, made);
        about.extend(left_out.iter().cloned());
        self.create(
            "README",
            &format!("{}\n\n{}", about.join("\n"), readme::NOT_KEPT),
        )?;
        Ok(left_out)
    }

    /// A new file for this user alone.
    fn new_file(&self, name: &str) -> Result<BufWriter<File>, Failure> {
        let path = self.path.join(name);
        let failed = |e| Failure::new(format_args!("{}: {e}", path.display()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = OpenOptions::open(&options, &path);
        Ok(BufWriter::new(file.map_err(failed)?))
    }

    fn create(&self, name: &str, text: &str) -> Result<(), Failure> {
        let mut file = self.new_file(name)?;
        let all = file.write_all(text.as_bytes()).and_then(|()| file.flush());
        all.map_err(|e| Failure::new(format_args!("{name}: {e}")))
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
            .take(NAME_MAX)
            .collect();
        let into = format!(
            "{} ({})",
            qualify(&table.schema, &table.name),
            list(columns)
        );
        // psql's \copy takes one line, and ends where a line of the file is \. alone.
        let is_csv = self.format == SynthFormat::Csv
            && !into.contains('\n')
            && !rows
                .iter()
                .flatten()
                .flatten()
                .any(|text| text.lines().any(|l| l == "\\."));
        let extension = if is_csv { "csv" } else { "sql" };
        let name = format!("{number:02}-{plain}.{extension}");
        let mut file = self.new_file(&name)?;
        let written = match is_csv {
            true => rows
                .iter()
                .try_for_each(|row| writeln!(file, "{}", csv(row))),
            false => rows.chunks(ROWS_INSERTED).try_for_each(|rows| {
                let rows: Vec<String> = rows.iter().map(|row| values(row)).collect();
                writeln!(file, "INSERT INTO {into} VALUES\n{};", rows.join(",\n"))
            }),
        };
        let written = written.and_then(|()| file.flush());
        written.map_err(|e| Failure::new(format_args!("{name}: {e}")))?;
        Ok(match is_csv {
            true => format!("\\copy {into} FROM '{name}' WITH (FORMAT csv)"),
            false => format!("\\ir {name}"),
        })
    }
}

/// The tables in the order of their foreign keys along the paths: public ones first.
fn in_order(policy: &Policy) -> Vec<&Table> {
    let steps = |table: &&Table| match &table.protection {
        Protection::Public => 0,
        Protection::Private(unit) => 1 + unit.path.len(),
    };
    let mut tables: Vec<&Table> = policy.tables.iter().collect();
    tables.sort_by_key(steps);
    tables
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

/// Whether the made-up rows keep a condition of their table, and rows of other tables theirs.
fn keeps(made: &[MadeUp<'_>], condition: RowCondition<'_>) -> bool {
    let of = |table: &Table| made.iter().find(|made| made.filler.table.oid == table.oid);
    match condition {
        RowCondition::NotNull(table, column) => of(table).is_none_or(|made| {
            let at = table
                .columns
                .iter()
                .position(|other| other.name == column.name);
            at.is_some_and(|at| made.columns[at].iter().all(Option::is_some))
        }),
        RowCondition::Unique(table, key) => of(table).is_none_or(|made| is_unique(made, key)),
        // Made-up columns of it may have NULL.
        RowCondition::Domain(_) => false,
    }
}

fn is_unique(made: &MadeUp<'_>, key: &UniqueKey) -> bool {
    let columns = &made.filler.table.columns;
    let place = |name: &str| columns.iter().position(|column| column.name == name);
    let Some(places) = key.names().map(place).collect::<Option<Vec<_>>>() else {
        return false;
    };
    // Texts that differ may be equal in the index.
    let is_loose = |at: &usize| {
        let is_number = made.filler.sources[*at] == ColumnSource::Number;
        !columns[*at].deterministic_collation && !is_number
    };
    if places.iter().any(is_loose) {
        return false;
    }
    let mut seen = HashSet::with_capacity(made.rows);
    (0..made.rows).all(|row| {
        let value = |at: &usize| made.columns[*at][row].as_deref();
        match places.iter().map(value).collect::<Option<Vec<&str>>>() {
            Some(values) => seen.insert(values),
            // PostgreSQL counts no NULL as equal to another.
            None => !key.primary,
        }
    })
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

/// The foreign keys between made-up tables, along the paths to their units, where the column that
/// they lead to is a key.
fn foreign_keys(made: &[MadeUp<'_>], schema: &ShadowSchema) -> Vec<String> {
    let key = |of: &MadeUp<'_>| {
        let table = of.filler.table;
        let is_parent = |source: &ColumnSource| matches!(source, ColumnSource::Parent(_));
        let at = of.filler.sources.iter().position(is_parent)?;
        let (parent, name, column) = first_reference(table)?;
        let mut shapes = schema.tables.iter();
        let shape = shapes.find(|shape| (&*shape.schema, &*shape.name) == (parent, name))?;
        shape.is_key(column).then(|| {
            format!(
                "ALTER TABLE {} ADD FOREIGN KEY ({}) REFERENCES {} ({});",
                qualify(&table.schema, &table.name),
                identifier(&table.columns[at].name),
                qualify(parent, name),
                identifier(column)
            )
        })
    };
    made.iter().filter_map(key).collect()
}
