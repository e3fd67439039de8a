//! Streams: rows that pgveil adds up are those that the database adds up.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};
use pgveil::execute::fold::{FoldError, FoldMemory, Folding};
use pgveil::rewrite::{FoldResult, Plan, ReleasePlan, RowStream};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{FromSql, ToSql, Type};

use super::bound::filled;
use super::random::Random;
use super::world::World;

type Rows = Vec<Vec<Option<String>>>;

const AMPLE: FoldMemory = FoldMemory {
    units: 1 << 30,
    groups: 1 << 30,
};

/// Few units at a time.
const SCARCE: FoldMemory = FoldMemory {
    units: 300,
    groups: 1 << 30,
};

/// How many streams of each kind agreed: bins, distinct values, bins of rows.
#[derive(Debug, Default, Clone, Copy)]
pub struct Agreed {
    pub kinds: [usize; 3],
    /// How many took more than one reading.
    pub parted: usize,
}

impl Agreed {
    pub fn add(&mut self, other: Self) {
        for (sum, kind) in self.kinds.iter_mut().zip(other.kinds) {
            *sum += kind;
        }
        self.parted += other.parted;
    }
}

/// Every stream of a plan gives the rows of its statement, also where it is read in parts.
pub async fn agree(world: &World, plan: &Plan, random: &Random) -> Result<Agreed, String> {
    let mut agreed = Agreed::default();
    for release in plan.releases() {
        for statement in release.statements() {
            let Some(stream) = statement.stream() else {
                continue;
            };
            let sql = filled(plan, release, statement.sql(), &mut random.clone());
            let rows = filled(plan, release, stream.statement.sql(), &mut random.clone());
            let wanted = by_bin(
                release,
                &stream.fold.result,
                in_database(world, &sql).await?,
            );
            for memory in [AMPLE, SCARCE] {
                let (found, readings) = streamed(world, stream, &rows, memory).await?;
                let found = by_bin(release, &stream.fold.result, found);
                if found != wanted {
                    return Err(format!(
                        "{memory:?}\n{sql}\n{rows}\n{wanted:#?}\n{found:#?}"
                    ));
                }
                agreed.parted += usize::from(readings > 1);
            }
            let kind = match stream.fold.result {
                FoldResult::Bins { .. } => 0,
                FoldResult::Distinct { .. } => 1,
                FoldResult::RowBins { .. } => 2,
            };
            agreed.kinds[kind] += 1;
        }
    }
    Ok(agreed)
}

/// Sorted rows, in which the numbers of units are added up over the groups of each bin: which of a
/// unit's groups counts it is open.
fn by_bin(release: &ReleasePlan, result: &FoldResult, mut rows: Rows) -> (Rows, Rows) {
    let (first, bins) = match result {
        FoldResult::Bins { blocks, .. } => (release.vector_keys(), blocks.len()),
        FoldResult::RowBins { .. } => (release.key_columns() + 1, 1),
        FoldResult::Distinct { .. } => {
            rows.sort();
            return (rows, Vec::new());
        }
    };
    let mut units: BTreeMap<Vec<Option<String>>, u64> = BTreeMap::new();
    for row in &mut rows {
        let number = row.pop().unwrap().unwrap();
        let bin = row[first..first + bins].to_vec();
        *units.entry(bin).or_default() += number.parse::<u64>().unwrap();
    }
    rows.sort();
    let units = units.into_iter().map(|(mut bin, number)| {
        bin.push(Some(number.to_string()));
        bin
    });
    (rows, units.collect())
}

async fn in_database(world: &World, sql: &str) -> Result<Rows, String> {
    let messages = world.client.simple_query(sql).await;
    let messages = messages.map_err(|e| format!("{e:?}\n{sql}"))?;
    let mut rows = Rows::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            let columns = 0..row.len();
            rows.push(columns.map(|at| row.get(at).map(str::to_owned)).collect());
        }
    }
    Ok(rows)
}

/// The rows that the fold makes, and how often the statement was read.
async fn streamed(
    world: &World,
    stream: &RowStream,
    sql: &str,
    memory: FoldMemory,
) -> Result<(Rows, usize), String> {
    let mut folding = Folding::new(stream.fold.clone(), memory);
    for reading in 1.. {
        let nothing = Vec::<(&(dyn ToSql + Sync), Type)>::new();
        let read = world.client.query_typed_raw(sql, nothing).await;
        let read = read.map_err(|e| format!("{e:?}\n{sql}"))?;
        let rows: Vec<_> = read
            .boxed()
            .try_collect()
            .await
            .map_err(|e| format!("{e:?}"))?;
        for row in &rows {
            folding
                .add(|at| row.try_get(at).ok().and_then(|Raw(bytes)| bytes))
                .map_err(|error: FoldError| format!("{error:?}\n{sql}"))?;
        }
        if !folding.end_reading() {
            return Ok((folding.rows(), reading));
        }
    }
    unreachable!("parts of units end")
}

struct Raw<'r>(Option<&'r [u8]>);

impl<'r> FromSql<'r> for Raw<'r> {
    fn from_sql(
        _: &Type,
        bytes: &'r [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(Some(bytes)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
