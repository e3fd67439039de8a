//! Few listed groups as columns: the same sums as grouped by the keys, and one unit within the
//! bound.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigInt;
use pgveil::mechanism::Accounting;
use pgveil::policy::{ClipChoice, SessionSettings};
use pgveil::rewrite::{Coordinate, CoordinateId, Plan, ReleasePlan};

use super::bound::{holds, nobody, unit_within};
use super::named::world;
use super::random::Random;
use super::world::World;

/// Keys of types with special comparison or printing, under names of mixed case.
const KINDS: &str = "CREATE SCHEMA w; CREATE TYPE w.mood AS ENUM ('sad', 'it''s', 'Happy');
    CREATE TABLE w.people (id int PRIMARY KEY);
    CREATE TABLE w.visits (id int PRIMARY KEY, person int REFERENCES w.people, i4 int, ch char(4),
        \"Mood\" w.mood, tz timestamptz, \"Kind\" text, loud bool NOT NULL);
    CREATE TABLE w.items (visit int REFERENCES w.visits);
    CREATE TABLE w.rounds (person int NOT NULL REFERENCES w.people);
    CREATE TABLE w.extras (id int NOT NULL);";
const POLICY: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
limits: {groups_per_unit: 4, rows_per_unit: 8}
roles: [{name: ann, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 3, delta: 1e-7}}]
tables:
  w.people: {unit: id, other_columns: visible}
  w.visits: {unit: {path: [person -> w.people.id]}, rows_per_unit: 5, other_columns: visible, \
  columns: {i4: {bounds: [0, 50]}, ch: {values: [a, \"b c\", \"\"]}, \
  Kind: {values: [Aa, aA, \"\"]}}}
";

/// Values of each key, some of which are in no list: the blanks at the end, the case and the zone
/// differ.
const FILLED: &str = "BEGIN; SET LOCAL session_replication_role = replica;
    INSERT INTO w.people SELECT generate_series(1, 12);
    INSERT INTO w.visits SELECT g, nullif(1 + g % 13, 13), (g * 7) % 60 - 5,
        (ARRAY['a', 'a  ', 'b c', 'A', '', NULL, 'b'])[1 + g % 7],
        (ARRAY['sad', 'it''s', 'Happy', NULL]::w.mood[])[1 + g % 4],
        (ARRAY['2000-02-01 12:34:56.5+00', '2000-02-01 13:34:56.5+01', '2000-03-01', NULL,
            'infinity', '2000-02-01 12:34:56']::timestamptz[])[1 + g % 6],
        (ARRAY['Aa', 'aA', 'aa', 'AA', '', 'Aa ', NULL])[1 + g % 7], g % 3 = 0
        FROM generate_series(0, 419) g; COMMIT;";

/// Each key, as PostgreSQL prints its groups, with those that are listed.
const KEYS: [(&str, &str, &[&str]); 3] = [
    ("ch", "ch::text", &["a", "b c", ""]),
    ("\"Mood\"", "\"Mood\"::text", &["sad", "it's", "Happy"]),
    ("\"Kind\"", "\"Kind\"", &["Aa", "aA", ""]),
];

/// Rows of several units in every group, also in none that is listed.
async fn filled() -> World {
    let world = world().await;
    let rows = "BEGIN; SET LOCAL session_replication_role = replica;
         INSERT INTO w.visits (id, person, town, i4, kd, b, n2)
         SELECT 200 + g, 1 + g % 12, 'x', g % 60, (ARRAY['a', 'b', 'it''s', NULL, 'c'])[1 + g % 5],
             (ARRAY[true, false, NULL])[1 + g % 3], g FROM generate_series(0, 99) g; COMMIT;";
    world.client.batch_execute(rows).await.unwrap();
    world
}

fn is_pivoted(sql: &str) -> bool {
    sql.contains("AS \"x\" (\"g\")") && !sql.contains("PARTITION BY")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unit_is_within_the_bound() {
    let world = filled().await;
    for sql in [
        "SELECT kd, count(*), sum(n2) FROM visits GROUP BY kd",
        "SELECT kd, count(*) FILTER (WHERE i4 > 9), count(i4), count(DISTINCT person) FROM visits \
            GROUP BY kd",
        "SELECT b, avg(n2), sum(i4) FILTER (WHERE kd = 'a') FROM visits GROUP BY b",
        "SELECT kd, b, sum(n2) FROM visits WHERE kd IN ('a', 'b') AND b IS NOT NULL GROUP BY kd, b",
    ] {
        for accounting in [Accounting::Gdp, Accounting::Pure] {
            let plan = world.plan_under(sql, accounting, 1.0);
            let plan = plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
            let release = &plan.releases()[0];
            let text = release.sql().unwrap();
            assert!(is_pivoted(text), "{sql}\n{text}");
            let whole = world.run(text, release.vector_keys()).await.unwrap();
            nobody(&world, release, text).await.unwrap();
            for unit in 1..=13 {
                let held = unit_within(&world, release, text, &whole, unit).await;
                held.unwrap_or_else(|fault| panic!("{sql}\n{fault}"));
            }
        }
    }
}

/// Moments are never listed.
const MOMENTS: &str = "SELECT tz, count(*), sum(i4) FROM visits GROUP BY 1";

fn planned(world: &World, sql: &str, clip: ClipChoice) -> Plan {
    let settings = SessionSettings {
        clip,
        ..SessionSettings::with_fixed_clips()
    };
    let plan = world.plan_with(sql, Accounting::Gdp, 1.0, settings);
    let plan = plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
    let release = &plan.releases()[0];
    let text = release.sql().unwrap();
    assert_eq!(is_pivoted(text), sql != MOMENTS, "{sql}\n{text}");
    // With one row a unit in one group there is no clip to choose.
    let is_chosen = clip == ClipChoice::Auto && !sql.contains("DISTINCT");
    assert_eq!(release.look().is_some(), is_chosen, "{sql}");
    plan
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_every_kind_are_within_the_bound() {
    let world = World::with_room(KINDS, POLICY).await;
    world.client.batch_execute(FILLED).await.unwrap();
    let heavy = "BEGIN; SET LOCAL session_replication_role = replica;
        INSERT INTO w.visits SELECT 1000 + g, 7, g % 50, 'a', 'sad', '2000-03-01', 'Aa', true
            FROM generate_series(1, 300) g; COMMIT;";
    world.client.batch_execute(heavy).await.unwrap();
    let mut random = Random::new(5);
    let missing = world.lay_aside(&mut random).await;
    let asked = |key: &str| {
        [
            format!("SELECT {key}, count(*), sum(i4) FROM visits GROUP BY 1"),
            format!("SELECT {key}, count(DISTINCT person) FROM visits GROUP BY 1"),
            format!("SELECT {key}, avg(i4) FROM visits WHERE loud GROUP BY 1"),
        ]
    };
    let all = KEYS.iter().flat_map(|(key, ..)| asked(key));
    for sql in all.chain([MOMENTS.to_owned()]) {
        for clip in [ClipChoice::Fixed, ClipChoice::Auto] {
            let plan = planned(&world, &sql, clip);
            let held = holds(&world, missing, &plan, &mut random).await;
            held.unwrap_or_else(|fault| panic!("{sql}\n{fault}"));
        }
    }
}

/// The number of rows and the sum of `i4` of each group, from the integers of a statement.
async fn sums(world: &World, release: &ReleasePlan) -> BTreeMap<Option<String>, [BigInt; 2]> {
    let blocks = release.look().map_or(0, |look| look.blocks.len());
    let found = world.run(release.sql().unwrap(), 1 + blocks).await.unwrap();
    let refine = release.price().unwrap().calibrated.iter();
    let steps: Vec<BigInt> = match release.look() {
        Some(_) => vec![BigInt::from(1); release.coordinates().len()],
        None => refine.map(|c| BigInt::from(1) << c.refine).collect(),
    };
    let place = |of: fn(&Coordinate) -> bool| release.coordinates().iter().position(of).unwrap();
    let rows = place(|c| matches!(c, Coordinate::Rows { .. }));
    let values = place(|c| matches!(c, Coordinate::Values { .. }));
    let Coordinate::Values { centred, .. } = &release.coordinates()[values] else {
        panic!("a sum")
    };
    let mut sums: BTreeMap<Option<String>, [BigInt; 2]> = BTreeMap::new();
    // Rows of each block have the whole sums of its coordinates.
    let block_of = |place: usize| {
        let blocks = release.look().map(|look| &look.blocks);
        blocks.map(|all| {
            all.iter()
                .position(|b| b.coordinates.contains(&CoordinateId(place)))
                .unwrap()
        })
    };
    for (key, integers) in &found {
        let added = sums.entry(key[0].clone()).or_default();
        for (sum, place) in added.iter_mut().zip([rows, values]) {
            if block_of(place).is_none_or(|block| key[1 + block].is_some()) {
                *sum += &integers[place] / &steps[place];
            }
        }
    }
    // A centred value counts as twice its distance from the middle of [0, 50].
    if *centred {
        for [rows, values] in sums.values_mut() {
            *values = (&*values + 50 * &*rows) / 2;
        }
    }
    sums
}

/// With a look nothing is cut before its end. Without, nobody has more rows than are declared.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_every_kind_have_the_groups_of_postgresql() {
    let world = World::with_room(KINDS, POLICY).await;
    world.client.batch_execute(FILLED).await.unwrap();
    for clip in [ClipChoice::Auto, ClipChoice::Fixed] {
        if clip == ClipChoice::Fixed {
            let few = "DELETE FROM w.visits WHERE id >= 39";
            world.client.batch_execute(few).await.unwrap();
        }
        for (key, printed, listed) in KEYS {
            let sql = format!("SELECT {key}, count(*), sum(i4) FROM visits GROUP BY 1");
            let plan = planned(&world, &sql, clip);
            let exact = format!(
                "SELECT {printed}, count(*), sum(least(greatest(i4, 0), 50)) FROM w.visits
                    WHERE person IS NOT NULL GROUP BY 1"
            );
            let exact = world.client.query(&exact, &[]).await.unwrap();
            let key_of = |row: &tokio_postgres::Row| row.get::<_, Option<String>>(0);
            let is_listed = |key: &Option<String>| {
                let is = |key: &String| listed.contains(&key.as_str());
                key.as_ref().is_none_or(is)
            };
            let exact: BTreeMap<_, _> = exact
                .iter()
                .filter(|row| is_listed(&key_of(row)))
                .map(|row| {
                    (
                        key_of(row),
                        [1, 2].map(|at| BigInt::from(row.get::<_, i64>(at))),
                    )
                })
                .collect();
            assert_eq!(exact.len(), listed.len() + 1, "{sql}");
            assert_eq!(sums(&world, &plan.releases()[0]).await, exact, "{sql}");
        }
    }
}

/// Nobody exceeds the clip here: each sum is PostgreSQL's, on the grid of its noise.
#[tokio::test(flavor = "multi_thread")]
async fn sums_are_those_of_a_group_by() {
    let world = filled().await;
    world
        .client
        .batch_execute("DELETE FROM w.visits WHERE (id - 200) / 12 > 3 OR id < 200")
        .await
        .unwrap();
    let sql = "SELECT kd, count(*), sum(i4) FROM visits GROUP BY kd";
    let plan = world.plan_under(sql, Accounting::Gdp, 1.0).unwrap();
    let release = &plan.releases()[0];
    let text = release.sql().unwrap();
    assert!(is_pivoted(text), "{text}");
    let found = world.run(text, release.vector_keys()).await.unwrap();
    let exact = "SELECT kd, count(*), coalesce(sum(i4), 0) FROM w.visits
         WHERE kd IN ('a', 'b', 'it''s') OR kd IS NULL GROUP BY kd";
    let exact = world.client.query(exact, &[]).await.unwrap();
    assert_eq!(found.len(), 4);
    let coordinates = release.coordinates().iter().enumerate();
    let mut centred = coordinates.filter_map(|(at, coordinate)| match coordinate {
        Coordinate::Values { centred, .. } => Some((at, *centred)),
        _ => None,
    });
    let (values, is_centred) = centred.next().unwrap();
    let refine = release.price().unwrap().calibrated.iter();
    let steps: Vec<BigInt> = refine.map(|c| BigInt::from(1) << c.refine).collect();
    for row in &exact {
        let key = vec![row.get::<_, Option<String>>(0)];
        let sums = [row.get::<_, i64>(1), row.get::<_, i64>(2)];
        let sums: Vec<BigInt> = sums.into_iter().map(BigInt::from).collect();
        assert_eq!(found[&key][0], &sums[0] * &steps[0], "{key:?}");
        // A centred value counts as twice its distance from the middle of [0, 50].
        let sum = if is_centred {
            2 * &sums[1] - 50 * &sums[0]
        } else {
            sums[1].clone()
        };
        assert_eq!(found[&key][values], sum * &steps[values], "{key:?}");
    }
}

/// The most columns of one row.
const COLUMNS_MAX: usize = 16;

/// A statement's totals of each unit and column made far larger than what they are clamped to.
fn huge(sql: &str) -> String {
    let clamped = ["count(*)", "coalesce(sum("].map(|total| format!("least(greatest({total}"));
    assert!(
        sql.contains(&clamped[0]) && sql.contains(&clamped[1]),
        "{sql}"
    );
    sql.replace(&clamped[0], "least(greatest(4000000000000 * count(*)")
        .replace(&clamped[1], "least(greatest(4000000000000 * coalesce(sum(")
}

/// What the totals of a column are clamped to.
fn limit(sql: &str, column: usize) -> i128 {
    let (before, _) = sql
        .split_once(&format!(") AS BIGINT) AS \"v{column}\""))
        .unwrap();
    let (_, limit) = before.rsplit_once(", ").unwrap();
    limit.parse().unwrap()
}

/// The statement with limits that are 16 times as large.
fn widened(sql: &str) -> String {
    let limits = sql.split("(-").skip(1).filter_map(|rest| {
        let (limit, rest) = rest.split_once(')')?;
        let is_limit = rest.starts_with(&format!("), {limit})"));
        limit.parse::<i64>().ok().filter(|_| is_limit)
    });
    let limits: BTreeSet<i64> = limits.collect();
    // From the largest, so that none is widened twice.
    limits.iter().rev().fold(sql.to_owned(), |sql, limit| {
        let of = |limit: i64| format!("(-{limit})), {limit})");
        sql.replace(&of(*limit), &of(16 * limit))
    })
}

/// Squares of all columns of a unit fit eight bytes together, whatever its rows add up to; with
/// 16 times the limits they do not.
#[tokio::test(flavor = "multi_thread")]
async fn squares_of_columns_fit_eight_bytes() {
    let world = filled().await;
    for sql in [
        "SELECT kd, count(*), sum(i4) FROM visits GROUP BY kd",
        "SELECT b, count(*), sum(i4), sum(n2) FROM visits GROUP BY b",
        "SELECT b, count(*), sum(i4) FROM visits WHERE b IS NOT NULL GROUP BY b",
    ] {
        let plan = planned(&world, sql, ClipChoice::Auto);
        let release = &plan.releases()[0];
        let blocks = &release.look().unwrap().blocks;
        let narrow = blocks.iter().filter(|block| block.bins.is_narrow()).count();
        assert_eq!(narrow, blocks.len(), "{sql}");
        let (text, width) = (release.sql().unwrap(), release.coordinates().len());
        for block in blocks {
            let places = block.coordinates.iter();
            let columns = places
                .flat_map(|at| (0..COLUMNS_MAX / width).map(move |group| group * width + at.0));
            let columns =
                columns.filter(|column| text.contains(&format!("AS BIGINT) AS \"v{column}\"")));
            let squares: i128 = columns.map(|column| limit(text, column).pow(2)).sum();
            let longest = BigInt::from(block.bins.longest().clone());
            assert!(BigInt::from(squares) <= longest.pow(2), "{sql}");
            assert!(longest.pow(2) < BigInt::from(i64::MAX), "{sql}");
        }
        let text = huge(text);
        let found = world.run(&text, 1 + blocks.len()).await;
        // Every unit with a row is past the ceiling.
        for key in found.unwrap().keys() {
            for (block, number) in blocks.iter().zip(&key[1..]) {
                let Some(number) = number.as_deref() else {
                    continue;
                };
                let number: usize = number.parse().unwrap();
                assert!(
                    number == 0 || number > block.bins.candidates(),
                    "{sql}: {key:?}"
                );
            }
        }
        let fault = world.run(&widened(&text), 1 + blocks.len()).await;
        assert!(fault.unwrap_err().contains("out of range"), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_and_computed_keys_stay_rows() {
    let world = world().await;
    for sql in [
        "SELECT i4, count(*) FROM visits WHERE i4 BETWEEN 1 AND 9 GROUP BY i4",
        "SELECT kd, sum(n2), sum(i4), sum(ni), avg(nb), count(*) FROM visits GROUP BY kd",
        "SELECT date_trunc('month', d), count(*) FROM visits WHERE d BETWEEN '2000-01-01' AND \
            '2000-03-31' GROUP BY 1",
        "SELECT kd, count(*) FROM visits GROUP BY ROLLUP (kd)",
    ] {
        let plan = world.plan_under(sql, Accounting::Gdp, 1.0);
        let plan = plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let text = plan.releases()[0].sql().unwrap();
        assert!(!is_pivoted(text), "{sql}\n{text}");
    }
}
