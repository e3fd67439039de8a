//! Sums of holdouts: one unit moves the integer whose distance from zero is compared by at most the
//! rows of a unit, whatever value they are compared with.

use num_bigint::BigInt;
use pgveil::mechanism::{Fixed, Noise};

use super::monitors::{integer, planned_query, query};
use super::random::{Random, seeds};
use super::world::World;
use pgveil::rewrite::MonitoredSum;

const AVERAGED: [&str; 16] = [
    "CASE WHEN b THEN 1 ELSE 0 END",
    "CASE WHEN kd = 'a' THEN 1 WHEN kd = 'b' THEN 0 END",
    "CAST(i4 > 10 AS int)",
    "CAST(i4 = j4 AS int)",
    "i4",
    "i4 / 50.0",
    "i8",
    "nb",
    "nn",
    "n2 / 99",
    "f8",
    "f8 * 0.01",
    "g8",
    "f4",
    "0.25",
    "CASE WHEN tx LIKE 'a%' THEN f8 ELSE n2 END",
];

const VALUES: [&str; 6] = ["0", "0.5", "0.83", "1", "0.1234567890123456", "1e-9"];

/// Tables with the most rows of a unit.
const TABLES: [&(&str, u32); 4] = [
    &("w.people", 1),
    &("w.visits", 5),
    &("w.rounds", 5),
    &("w.items", 6),
];

#[tokio::test(flavor = "multi_thread")]
async fn sums_of_holdouts_move_by_the_rows_of_a_unit() {
    let seed = seeds()[0];
    let mut random = Random::new(seed);
    let world = World::new().await;
    let (mut measured, mut attained) = (0, 0);
    for database in 0..6 {
        world.fill(&mut random, database % 3 == 2).await;
        let missing = world.lay_aside(&mut random).await;
        for averaged in AVERAGED {
            let (table, rows) = random.pick(&TABLES);
            let value = random.pick(&VALUES);
            let sql = format!("SELECT pgveil.holdout(avg({averaged}), {value}) FROM {table}");
            let asked = query(&sql).holdout().unwrap().unwrap();
            let Some(plan) = planned_query(&world, &asked.sum, 4.0) else {
                panic!("{sql}: not planned");
            };
            let Ok(sum) = MonitoredSum::of(&plan) else {
                panic!("{sql}: no holdout takes it");
            };
            let allowed = (BigInt::from(10), BigInt::from(1));
            let of_unit = (*rows, Fixed::round_down(0.5));
            let (question, noise) = sum.holdout_question(&allowed, of_unit).unwrap();
            // At epsilon 1/2: the sensitivity over it, and four times that for a question.
            for (drawn, times) in [(&noise.answer, 2), (&noise.question, 8)] {
                let Noise::Laplace { scale } = drawn else {
                    panic!("{drawn:?}")
                };
                assert_eq!(BigInt::from(*scale), &question.sensitivity * times, "{sql}");
            }
            // In rows it is the most of a unit, whatever the value; the plan's own clip may be
            // a little wider.
            let most: f64 = question.sensitivity.to_string().parse().unwrap();
            let most = sum.value(most as i128);
            let rows = f64::from(*rows);
            assert!((rows..rows * 1.001).contains(&most), "{sql}: {most}");
            let release = plan.release(sum.release());
            let statement = release.sql().unwrap();
            let compared = world
                .compare(statement, release.vector_keys())
                .await
                .unwrap();
            for (unit, rest) in missing.iter().zip(&compared.rest) {
                let moved = integer(&compared.whole, &sum) - integer(rest, &sum);
                let size = BigInt::from(moved.magnitude().clone());
                assert!(
                    size <= question.sensitivity,
                    "PGVEIL_SEED={seed}, database {database}, unit {unit}: {moved} past {}\n{sql}\n\
                        {statement}",
                    question.sensitivity
                );
                measured += 1;
                attained += u32::from(size * 2 >= question.sensitivity);
            }
        }
    }
    assert!(measured > 100 && attained > 10, "{measured} {attained}");
}
