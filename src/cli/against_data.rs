//! `pgveil check --against-data`: how well the policy's bounds, lists and rows of a unit fit the
//! present rows. Exact and private: for the owner, who could read the same with psql. Nothing of it
//! is logged, kept or shown to an analyst.

use std::time::Duration;

use tokio_postgres::Client;

use super::Failure;
use crate::catalog::{PRINTED, Type};
use crate::engine::three_digits;
use crate::policy::{AutoBound, Column, Policy, Protection, Scalar, Table, Unit};
use crate::postgres::{identifier, literal, qualify};
use crate::rewrite::emit::sql::scalar_text;

/// How long one table may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// The text above the numbers.
pub const HEADING: [&str; 4] = [
    "EXACT AND PRIVATE. The lines below are computed from the rows, without noise, by your own \
        rights.",
    "They are for you alone: show them to no analyst, and keep them in no file or ticket.",
    "Do not set bounds by them: bounds are public, and would reveal rows. Use them to find",
    "mistakes, such as a misspelt value or a bound in another unit of measure.",
];

/// The lines of all private tables.
///
/// # Errors
/// Where a table cannot be read. The database's own text is left out, since it may quote a row.
pub async fn lines(client: &Client, policy: &Policy) -> Result<Vec<String>, Failure> {
    let begin = format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {PRINTED}; SET LOCAL statement_timeout = \
            {}",
        PATIENCE.as_millis()
    );
    client.batch_execute(&begin).await.map_err(|e| unread(&e))?;
    let mut lines = Vec::new();
    for (at, table) in policy.tables.iter().enumerate() {
        let Protection::Private(unit) = &table.protection else {
            continue;
        };
        lines.push(format!("  {}.{}:", table.schema, table.name));
        let is_searched = policy
            .searches
            .iter()
            .any(|search| search.table == at && search.sought == AutoBound::Rows);
        let word = &policy.privacy.unit;
        lines.extend(of_units(client, table, unit, word, is_searched).await?);
        lines.extend(of_columns(client, table).await?);
        lines.extend(of_claims(client, table).await?);
    }
    client
        .batch_execute("ROLLBACK")
        .await
        .map_err(|e| unread(&e))?;
    Ok(lines)
}

fn unread(error: &tokio_postgres::Error) -> Failure {
    let code = error.code().map_or("no connection", |code| code.code());
    Failure::with_remedy(
        format_args!("the rows could not be read ({code})"),
        "May the role of database.url SELECT the tables, and do they answer within ten minutes?",
    )
}

/// The numbers of a query of one row.
async fn numbers(client: &Client, sql: &str) -> Result<Vec<i64>, Failure> {
    let row = client.query_one(sql, &[]).await.map_err(|e| unread(&e))?;
    (0..row.len())
        .map(|at| row.try_get(at).map_err(|e| unread(&e)))
        .collect()
}

/// Units with more rows than count, rows that are clipped, and rows that belong to no unit.
async fn of_units(
    client: &Client,
    table: &Table,
    unit: &Unit,
    word: &str,
    is_searched: bool,
) -> Result<Vec<String>, Failure> {
    let mut from = format!("{} AS t0", qualify(&table.schema, &table.name));
    for (at, step) in unit.path.iter().enumerate() {
        from += &format!(
            " LEFT JOIN {} AS t{} ON t{at}.{} = t{}.{}",
            qualify(&step.schema, &step.table),
            at + 1,
            identifier(&step.column),
            at + 1,
            identifier(&step.referenced)
        );
    }
    let (holder, column) = (unit.path.len(), identifier(&unit.column));
    let most = unit.rows_per_unit;
    let sql = format!(
        "SELECT count(u), count(u) FILTER (WHERE n > {most}), \
            coalesce(sum(n) FILTER (WHERE u IS NOT NULL), 0)::int8, \
            coalesce(sum(greatest(n - {most}, 0)) FILTER (WHERE u IS NOT NULL), 0)::int8, \
            coalesce(sum(n) FILTER (WHERE u IS NULL), 0)::int8 \
        FROM (SELECT t{holder}.{column} AS u, count(*) AS n FROM {from} GROUP BY 1) AS q"
    );
    let [units, above, rows, beyond, nobody] = numbers(client, &sql).await?[..] else {
        return Ok(Vec::new());
    };
    let mut lines = Vec::new();
    if !is_searched {
        lines.push(format!(
            "    rows_per_unit {most}: {word}s above it {}; rows beyond it {}",
            share(above, units),
            share(beyond, rows)
        ));
    }
    if nobody > 0 {
        lines.push(format!(
            "    rows of no {word}, which no answer counts: {}",
            share(nobody, rows + nobody)
        ));
    }
    Ok(lines)
}

/// Rows outside bounds and lists.
async fn of_columns(client: &Client, table: &Table) -> Result<Vec<String>, Failure> {
    let known: Vec<&Column> = table
        .columns
        .iter()
        .filter(|column| column.bounds.is_some() || is_listed(column))
        .collect();
    if known.is_empty() {
        return Ok(Vec::new());
    }
    let counts: Vec<String> = known.iter().flat_map(|column| counts(column)).collect();
    let sql = format!(
        "SELECT {} FROM {} AS t0",
        counts.join(", "),
        qualify(&table.schema, &table.name)
    );
    let numbers = numbers(client, &sql).await?;
    let lines = known.iter().zip(numbers.chunks_exact(3));
    Ok(lines
        .map(|(column, numbers)| line(column, numbers[0], numbers[1], numbers[2]))
        .collect())
}

/// Rows that share the value of a column that is claimed to identify a row.
async fn of_claims(client: &Client, table: &Table) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for at in &table.claimed_unique {
        let name = &table.columns[at.0].name;
        let column = identifier(name);
        let sql = format!(
            "SELECT coalesce(sum(n), 0)::int8, coalesce(sum(n) FILTER (WHERE n > 1), 0)::int8 \
            FROM (SELECT count(*) AS n FROM {} WHERE {column} IS NOT NULL \
                GROUP BY {column}) AS q",
            qualify(&table.schema, &table.name)
        );
        let [rows, shared] = numbers(client, &sql).await?[..] else {
            continue;
        };
        lines.push(match shared {
            0 => format!("    {name}: rows that share a value none, as `unique` says"),
            _ => format!(
                "    {name}: rows that share a value {}, though it is `unique`: WRONG",
                share(shared, rows)
            ),
        });
    }
    Ok(lines)
}

/// A list that somebody wrote; the labels of an enum are all there are.
fn is_listed(column: &Column) -> bool {
    column.domain.is_some() && !matches!(column.data_type, Type::Enum(_))
}

/// Rows with a value; below, and above or outside.
fn counts(column: &Column) -> [String; 3] {
    let name = format!("t0.{}", identifier(&column.name));
    let constant = |value: &Scalar| literal(&scalar_text(value));
    let filtered = |condition: String| format!("count(*) FILTER (WHERE {condition})");
    let (below, above) = match (&column.bounds, &column.domain) {
        (Some(bounds), _) => (
            filtered(format!("{name} < {}", constant(&bounds.lower))),
            filtered(format!("{name} > {}", constant(&bounds.upper))),
        ),
        (None, Some(values)) if !values.is_empty() => {
            let values: Vec<String> = values.iter().map(constant).collect();
            let outside = filtered(format!("{name} NOT IN ({})", values.join(", ")));
            ("0::int8".to_owned(), outside)
        }
        (None, _) => ("0::int8".to_owned(), "0::int8".to_owned()),
    };
    [format!("count({name})"), below, above]
}

fn line(column: &Column, values: i64, below: i64, above: i64) -> String {
    let name = &column.name;
    if let Some(bounds) = &column.bounds {
        let (lower, upper) = (scalar_text(&bounds.lower), scalar_text(&bounds.upper));
        return format!(
            "    {name}: below {lower} {}; above {upper} {}",
            share(below, values),
            share(above, values)
        );
    }
    let share = share(above, values);
    match (column.is_complete, above) {
        (true, 0) => format!("    {name}: outside the list {share}, as `complete` says"),
        (true, _) => {
            format!("    {name}: outside the list {share}, though it is `complete`: WRONG")
        }
        (false, _) => format!("    {name}: outside the list {share}"),
    }
}

/// A percentage, and the numbers it is of.
fn share(part: i64, whole: i64) -> String {
    if part == 0 {
        return "none".to_owned();
    }
    let percent = three_digits(100.0 * part as f64 / whole.max(1) as f64);
    format!("{percent} % ({part} of {whole})")
}
