//! Streams: rows that pgveil adds up are those that the database adds up.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt};
use pgveil::execute::fold::{FoldError, Folding};
use pgveil::mechanism::Accounting;
use pgveil::policy::SessionSettings;
use pgveil::rewrite::{FoldResult, Plan, ReleasePlan, RowStream};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{ToSql, Type};

use super::bound::filled;
use super::random::{self, Random};
use super::world::World;

type Rows = Vec<Vec<Option<String>>>;

/// What the tables may take: all units at once, or few.
const AMPLE: usize = 1 << 30;
const SCARCE: usize = 600;

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
                    return Err(format!("{memory}\n{sql}\n{rows}\n{wanted:#?}\n{found:#?}"));
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
    memory: usize,
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
                .add_row(row)
                .map_err(|error: FoldError| format!("{error:?}\n{sql}"))?;
            if folding.is_too_large() {
                folding.halve();
            }
        }
        if !folding.end_reading() {
            return Ok((folding.rows(), reading));
        }
    }
    unreachable!("parts of units end")
}

/// Columns of every type that may be a key, each with hostile values: several spellings of one
/// value, texts past the cap, ends of ranges.
const COLUMNS: &[(&str, &str, &[&str])] = &[
    ("i2", "smallint", &["0", "-32768", "7"]),
    (
        "i8",
        "bigint",
        &["9223372036854775807", "-9223372036854775808", "0"],
    ),
    (
        "tx",
        "text",
        &[
            "''",
            "'a'",
            "'a '",
            "'é'",
            "repeat('é', 600)",
            "repeat('x', 1001)",
        ],
    ),
    ("vc", "varchar(10)", &["''", "'a'", "'a  '"]),
    ("ch", "char(5)", &["''", "'a'", "'a '", "' a'"]),
    ("bp", "bpchar", &["''", "'a'", "'a  '"]),
    (
        "nu",
        "numeric",
        &["1", "1.0", "1.00", "100", "1e2", "'NaN'", "-0.0", "0"],
    ),
    (
        "f8",
        "float8",
        &["0", "'-0'", "'NaN'", "1e-300", "0.1", "'Infinity'"],
    ),
    ("f4", "float4", &["0", "'-0'", "'NaN'", "0.1"]),
    ("b", "bool", &["true", "false"]),
    (
        "d",
        "date",
        &["'2000-02-29'", "'infinity'", "'4713-01-01 BC'"],
    ),
    (
        "ts",
        "timestamp",
        &["'2000-02-29 00:00:00.000001'", "'-infinity'"],
    ),
    (
        "tz",
        "timestamptz",
        &["'2000-02-29 00:00+01'", "'2000-02-28 23:00+00'"],
    ),
    ("tm", "time", &["'24:00'", "'00:00'"]),
    ("uu", "uuid", &["'00000000-0000-0000-0000-000000000000'"]),
    ("en", "v.mood", &["'sad'", "'it''s'"]),
    ("dm", "v.score", &["2", "2.0"]),
    ("iv", "interval", &["'1 day'", "'24:00'"]),
];

/// Types of the unit, each as it is made of a number.
const UNITS: &[(&str, &str)] = &[
    ("int", "n"),
    ("bigint", "n * 3000000000"),
    ("text", "'unit ' || n"),
    ("uuid", "md5(n::text)::uuid"),
    ("date", "date '2000-01-01' + n"),
    ("char(3)", "n::text"),
];

const STREAM_POLICY: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
roles: [{name: ann, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 3, delta: 1e-7}}]
tables:
  v.many: {unit: id, rows_per_unit: 500, other_columns: visible, columns: {i2: {bounds: [-50, 50]}}}
";

/// Questions that group or count by a column.
const QUESTIONS: &[&str] = &[
    "SELECT {}, count(*), sum(i2) FILTER (WHERE b), count(nu) FROM v.many GROUP BY 1",
    "SELECT count(DISTINCT {}) FROM v.many",
    "SELECT i2, count(DISTINCT ({}, d)) FROM v.many WHERE i2 < 5 GROUP BY 1",
    "SELECT {}, percentile_cont(0.5) WITHIN GROUP (ORDER BY i2) FROM v.many GROUP BY 1",
];

/// Some rows of twelve units; one of them has a third of all.
async fn fill(world: &World, random: &mut Random, unit: &str) {
    let mut sql = String::new();
    for _ in 0..150 {
        let n = if random.once_in(3) {
            1
        } else {
            1 + random.below(12)
        };
        let values = COLUMNS.iter().map(|(_, _, values)| {
            if random.once_in(6) {
                "NULL"
            } else {
                random.pick(values)
            }
        });
        let values: Vec<&str> = values.collect();
        let values = values.join(", ");
        sql += &format!("INSERT INTO v.many SELECT {unit}, {values} FROM (SELECT {n} AS n) AS n;");
    }
    world.client.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn streams_agree_for_keys_and_units_of_every_type() {
    let mut random = Random::new(random::seeds()[0]);
    let columns = COLUMNS.iter().map(|(name, of, _)| format!(", {name} {of}"));
    let columns: String = columns.collect();
    let mut never: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (of, unit) in UNITS {
        let schema = format!(
            "CREATE SCHEMA v; CREATE TYPE v.mood AS ENUM ('sad', 'it''s'); \
             CREATE DOMAIN v.score AS numeric; CREATE TABLE v.many (id {of} NOT NULL{columns})"
        );
        let world = World::with(&schema, STREAM_POLICY).await;
        fill(&world, &mut random, unit).await;
        for (column, _, _) in COLUMNS {
            let mut streams = 0;
            for question in QUESTIONS {
                for groups_per_unit in [None, Some(2)] {
                    let settings = SessionSettings {
                        groups_per_unit,
                        ..SessionSettings::default()
                    };
                    let sql = question.replace("{}", column);
                    let plan = world.plan_with(&sql, Accounting::Gdp, 1.0, settings);
                    let Ok(plan) = plan else { continue };
                    let agreed = agree(&world, &plan, &random).await;
                    let agreed = agreed.unwrap_or_else(|fault| panic!("{of}: {sql}\n{fault}"));
                    streams += agreed.kinds.iter().sum::<usize>();
                }
            }
            if streams == 0 {
                never.insert((of, column));
            }
        }
    }
    // Four bytes of a float are no key; equal intervals have several texts.
    never.retain(|(_, column)| !["f4", "iv"].contains(column));
    assert!(never.is_empty(), "{never:?}");
}

/// Stored answers serve whoever adds rows up.
#[tokio::test]
async fn who_adds_rows_up_is_no_part_of_a_question() {
    let schema = "CREATE SCHEMA v; CREATE TABLE v.many (id int NOT NULL, i2 smallint, tx text)";
    let mut world = World::with(schema, STREAM_POLICY).await;
    let mut digests = Vec::new();
    for stream_rows in [true, false] {
        world.policy.limits.stream_rows = stream_rows;
        for sql in [
            "SELECT tx, count(*) FROM v.many GROUP BY tx",
            "SELECT count(DISTINCT tx), percentile_disc(0.5) WITHIN GROUP (ORDER BY i2) \
                FROM v.many",
        ] {
            let settings = SessionSettings::default();
            let plan = world
                .plan_with(sql, Accounting::Gdp, 1.0, settings)
                .unwrap();
            let release = &plan.releases()[0];
            let statements = release.statements();
            let streams = statements.iter().filter(|s| s.stream().is_some()).count();
            assert_eq!(streams > 0, stream_rows, "{sql}");
            digests.push((plan.digest(), release.question()));
        }
    }
    assert_eq!(digests[..2], digests[2..]);
}

/// Two texts of one hash: PostgreSQL's hash is no secret, and others are as easily found.
const ONE_HASH: [&str; 2] = ["xN1Ut9JXZWWxmmmmmmmmmmmm", "DDtRD0nyVvu3][_l`!4y`se1"];

/// A unit of two groups with one hash counts in the same one, whoever came first.
#[tokio::test]
async fn groups_of_one_hash_are_taken_by_their_own_texts() {
    let schema = "CREATE SCHEMA v; CREATE TABLE v.many (id int NOT NULL, i2 smallint, tx text)";
    let world = World::with(schema, STREAM_POLICY).await;
    let hashes = format!(
        "SELECT hashtextextended('{}', 0) = hashtextextended('{}', 0)",
        ONE_HASH[0], ONE_HASH[1]
    );
    let hashes = in_database(&world, &hashes).await.unwrap();
    assert_eq!(hashes, [[Some("t".to_owned())]]);
    let settings = SessionSettings {
        groups_per_unit: Some(1),
        ..SessionSettings::default()
    };
    let random = Random::new(1);
    let sql = "SELECT tx, count(*) FROM v.many GROUP BY tx";
    let plan = world
        .plan_with(sql, Accounting::Gdp, 1.0, settings)
        .unwrap();
    for first in [0, 1] {
        let rows = format!(
            "TRUNCATE v.many; INSERT INTO v.many VALUES (0, 1, '{}');
             INSERT INTO v.many SELECT n, 1, t FROM generate_series(1, 20) n,
                unnest(ARRAY['{}', '{}']) t",
            ONE_HASH[first], ONE_HASH[0], ONE_HASH[1]
        );
        world.client.batch_execute(&rows).await.unwrap();
        let agreed = agree(&world, &plan, &random).await.unwrap();
        assert_eq!(agreed.kinds, [1, 0, 0]);
    }
}
