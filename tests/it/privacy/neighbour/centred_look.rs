//! Values that a look counts from the middle of their range, in one block with the rows and the
//! squares: no unit moves that block by more than the clip, at any candidate.

use pgveil::mechanism::Accounting;
use pgveil::policy::{ClipChoice, SessionSettings};
use pgveil::rewrite::{Coordinate, Plan};

use super::bound::holds;
use super::look_mutants::caught;
use super::random::{Random, seeds};
use super::world::World;

/// A unit at each end of the range of `i4`, past both, NULLs, one with rows at both ends, and rows
/// of nobody. The heavy unit's many rows are at one end: their distances from the middle are as
/// long as their number. Those of unit 3 are in the middle, where squares lack as much.
const ROWS: &str = "BEGIN; SET LOCAL session_replication_role = replica;
    TRUNCATE w.people, w.visits, w.items, w.rounds;
    INSERT INTO w.people (id) SELECT generate_series(1, 9);
    INSERT INTO w.visits (id, person, i4, n2, kd, tx) SELECT g, 7, 50, 99,
        (ARRAY['a', 'b'])[1 + g % 2], 'k' || g % 30 FROM generate_series(1, 400) g;
    INSERT INTO w.visits (id, person, i4, n2, kd, tx) SELECT 4000 + g, 8, 50 * (g % 2), 0,
        (ARRAY['a', 'b'])[1 + g % 2], 'k' || g % 3 FROM generate_series(1, 50) g;
    INSERT INTO w.visits (id, person, i4, n2, kd, tx) SELECT 1000 + g, 3, 25, 50,
        (ARRAY['a', 'b', 'b'])[g], 'k1' FROM generate_series(1, 3) g;
    INSERT INTO w.visits (id, person, i4, n2, kd, tx) VALUES (2001, 1, 50, 0, 'a', 'k1'),
        (2002, 2, 0, 99.99, 'a', 'k2'), (2003, 4, 2147483647, -5, 'b', 'k1'),
        (2004, 5, -2147483648, NULL, 'b', 'k2'), (2005, 6, NULL, 7, 'a', NULL);
    INSERT INTO w.visits (id, person, i4, n2, kd, tx) SELECT 3000 + g, NULL, 40, 50, 'a', 'k2'
        FROM generate_series(1, 20) g; COMMIT";

/// `i4` is from 0 to 50 and `n2` to 99.99: 30 and 20 above, they are counted from the middle.
const QUERIES: [&str; 9] = [
    "SELECT avg(i4 + 30) FROM visits",
    "SELECT stddev(i4 + 30) FROM visits",
    "SELECT kd, variance(i4 + 30), avg(i4 + 30), count(*) FROM visits GROUP BY kd",
    "SELECT kd, avg(i4 + 30), avg(n2 + 20) FROM visits GROUP BY ROLLUP (kd)",
    "SELECT kd, stddev(n2 + 20) FROM visits GROUP BY CUBE (kd)",
    "SELECT tx, avg(i4 + 30), count(*) FROM visits GROUP BY tx",
    "SELECT avg(i4 + 30) FILTER (WHERE kd = 'a'), stddev(i4 + 30) FILTER (WHERE kd = 'b') \
        FROM visits",
    "SELECT avg(i4 - 90), stddev(i4 - 90), sum(i4 - 90) FROM visits",
    "SELECT v.kd, avg(v.i4 + p.i4 + 60) FROM visits v JOIN people p ON p.id = v.person \
        GROUP BY v.kd",
];

fn planned(world: &World, sql: &str) -> Plan {
    let settings = SessionSettings {
        clip: ClipChoice::Auto,
        ..SessionSettings::with_fixed_clips()
    };
    let plan = world.plan_with(sql, Accounting::Gdp, 1.0, settings);
    plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"))
}

fn is_centred(coordinate: &Coordinate) -> bool {
    matches!(coordinate, Coordinate::Values { centred: true, .. })
}

/// Over hostile rows and over those above.
#[tokio::test(flavor = "multi_thread")]
async fn no_unit_moves_centred_values_further_than_a_looked_at_bound() {
    let world = World::new().await;
    let mut random = Random::new(seeds()[0]);
    for database in 0..3 {
        match database {
            0 => world.client.batch_execute(ROWS).await.unwrap(),
            _ => world.fill(&mut random, database == 2).await,
        }
        let missing = world.lay_aside(&mut random).await;
        for sql in QUERIES {
            let plan = planned(&world, sql);
            let [release] = plan.releases() else {
                panic!("one release: {sql}")
            };
            let look = release.look().unwrap_or_else(|| panic!("no look: {sql}"));
            assert!(release.coordinates().iter().any(is_centred), "{sql}");
            assert!(look.blocks.iter().any(|block| block.bins.has_choice()));
            let found = holds(&world, missing, &plan, &mut random).await;
            assert_eq!(found, Ok(()), "database {database}: {sql}");
        }
    }
}

type Mutant = (&'static str, &'static str, fn(&str) -> String);

/// Leaves a column's square out of the squared length, in whichever arithmetic it is.
fn without_square(sql: &str, column: &str) -> String {
    let (wide, own) = (
        format!("CAST(\"{column}\" AS NUMERIC)"),
        format!("(\"{column}\" * \"{column}\")"),
    );
    sql.replace(&wide, &format!("0 * {wide}"))
        .replace(&own, &format!("(0 * \"{column}\")"))
}

const MUTANTS: &[Mutant] = &[
    ("a centred sum forgotten in the length", QUERIES[0], |sql| {
        without_square(sql, "v1")
    }),
    ("rows forgotten in the length", QUERIES[0], |sql| {
        without_square(sql, "v0")
    }),
    (
        "what squares lack forgotten in the length",
        QUERIES[1],
        |sql| without_square(sql, "v2"),
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_of_a_centred_look_is_caught() {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    for (name, query, mutate) in MUTANTS {
        let plan = planned(&world, query);
        let release = &plan.releases()[0];
        let look = release.look().unwrap();
        let sql = release.sql().unwrap();
        let is_caught = caught(&world, (release, look), sql).await;
        assert!(!is_caught, "the original is caught: {sql}");
        let mutant = mutate(sql);
        assert_ne!(mutant, sql, "{name}");
        let is_caught = caught(&world, (release, look), &mutant).await;
        assert!(is_caught, "{name} survives: {mutant}");
    }
}
