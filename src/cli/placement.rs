//! `pgveil check --placement`: whether each row of a Citus cluster lies in the shard of its unit.

use tokio_postgres::Client;

use super::Failure;
use crate::catalog::{Distribution, Hash};
use crate::policy::{Policy, Protection, Table};
use crate::postgres::{identifier, literal, qualify};

/// Counts the rows of private tables that lie in a wrong shard, and says so table by table.
///
/// A unit with such a row counts in two places, each read by itself, so that the guarantee does not
/// hold for it. Citus puts no row there; somebody who writes to a worker can. The check is of the
/// moment: it proves nothing about later.
///
/// # Errors
/// Where a row lies in a wrong shard, or a shard cannot be read.
pub async fn check(
    client: &Client,
    policy: &Policy,
    distribution: impl Fn(&Table) -> Option<Distribution>,
) -> Result<Vec<String>, Failure> {
    let (mut lines, mut wrong) = (Vec::new(), 0);
    for table in &policy.tables {
        let Protection::Private(_) = &table.protection else {
            continue;
        };
        let Some(Distribution::Hash(hash)) = distribution(table) else {
            continue;
        };
        let misplaced = count(client, table, &hash).await?;
        wrong += misplaced;
        let found = match misplaced {
            0 => "every row lies in the shard of its unit".to_owned(),
            1 => "1 row lies in a wrong shard".to_owned(),
            _ => format!("{misplaced} rows lie in a wrong shard"),
        };
        lines.push(format!("  {}.{}: {found}", table.schema, table.name));
    }
    if lines.is_empty() {
        return Ok(vec![
            "  no private table is distributed, so no row can lie in a wrong shard".to_owned(),
        ]);
    }
    if wrong == 0 {
        return Ok(lines);
    }
    Err(Failure::with_remedy(
        format_args!("rows lie in a wrong shard:\n{}", lines.join("\n")),
        "The guarantee does not hold for their units. Delete these rows where they lie, insert \
            them through the coordinator, and let nobody else write to workers.",
    ))
}

/// The number of rows that lie in a wrong shard.
async fn count(client: &Client, table: &Table, hash: &Hash) -> Result<i64, Failure> {
    let name = literal(&qualify(&table.schema, &table.name));
    let column = identifier(&hash.column).replace('%', "%%");
    // The command is a format: of each shard, its name is filled in. A row without a unit is
    // nobody's.
    let command = format!(
        "SELECT count(*) FROM %1$s WHERE CASE WHEN {column} IS NOT NULL THEN \
            pg_catalog.get_shard_id_for_distribution_column({}, {column}) IS DISTINCT FROM \
            pg_catalog.substring(%1$L, '([0-9]+)\"?$')::bigint ELSE false END",
        name.replace('%', "%%"),
    );
    // Every copy of every shard is read, and none may be missing: also those that Citus would not
    // read now.
    let sql = format!(
        "SELECT count(*) FILTER (WHERE NOT success) + (SELECT count(*) FROM \
                pg_catalog.pg_dist_shard s LEFT JOIN pg_catalog.pg_dist_placement p \
                USING (shardid) WHERE s.logicalrelid = {name}::pg_catalog.regclass) - count(*), \
            coalesce(sum(CASE WHEN success THEN result::bigint END), 0)::int8 \
        FROM pg_catalog.run_command_on_placements({name}, {})",
        literal(&command)
    );
    let unread = |code: &str| {
        Failure::with_remedy(
            format_args!(
                "the shards of {}.{} could not be read ({code})",
                table.schema, table.name
            ),
            "May the role of database.url log in from the coordinator to each worker and SELECT \
                the table there, does each worker have the metadata of the cluster, and is every \
                copy of a shard active?",
        )
    };
    let row = client.query_one(&sql, &[]).await;
    let row = row.map_err(|error| unread(error.code().map_or("no connection", |c| c.code())))?;
    let number = |at: usize| row.try_get::<_, i64>(at).map_err(|_| unread("no number"));
    match number(0)? {
        0 => number(1),
        failed => Err(unread(&format!("{failed} of their copies"))),
    }
}
