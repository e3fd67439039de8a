//! Checks of summaries: one unit moves the distance of a sum from a released value by no more than
//! the question's sensitivity, and either way, so that checks need the noise of both directions.

use num_bigint::BigInt;
use pgveil::mechanism::{Fixed, Noise};
use pgveil::release::Compared;
use pgveil::rewrite::MonitoredSum;

use super::monitors::{SUMS, integer, planned_query, query};
use super::random::{Random, seeds};
use super::world::World;

const PLACES: [&str; 4] = [
    "w.visits",
    "w.visits WHERE i4 > 10",
    "w.visits WHERE kd = 'a' OR b IS NULL",
    "w.rounds",
];

fn number(of: &BigInt) -> i128 {
    i128::try_from(of).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn distances_move_by_no_more_than_sums_do() {
    let seed = seeds()[0];
    let mut random = Random::new(seed);
    let world = World::new().await;
    // Distances that rise where a unit is added, that fall, and that move as far as they may.
    let (mut up, mut down, mut attained) = (0, 0, 0);
    for database in 0..4 {
        world.fill(&mut random, database % 3 == 2).await;
        let missing = world.lay_aside(&mut random).await;
        for (sum, _) in SUMS {
            let sql = format!("SELECT {sum} FROM {}", random.pick(&PLACES));
            let epsilon = *random.pick(&[&0.05, &0.5, &4.0]);
            let Some(plan) = planned_query(&world, &query(&sql), epsilon) else {
                continue;
            };
            let Ok(sum) = MonitoredSum::of(&plan) else {
                panic!("{sql}: no check takes it");
            };
            let release = plan.release(sum.release());
            let statement = release.sql().unwrap();
            let compared = world
                .compare(statement, release.vector_keys())
                .await
                .unwrap();
            let question = sum.question_of_distance(300.0);
            let sensitivity = number(&question.sensitivity);
            let Noise::Laplace { scale } = sum.noise().noise else {
                panic!("{sql}: {:?}", sum.noise().noise);
            };
            // At least the sensitivity over the epsilon of a question.
            let needed = &question.sensitivity << Fixed::BITS;
            let share = Fixed::round_down(epsilon);
            assert!(BigInt::from(scale) * share.0 >= needed, "{sql}: {scale}");
            let whole = number(&integer(&compared.whole, &sum));
            for (unit, rest) in missing.iter().zip(&compared.rest) {
                let rest = number(&integer(rest, &sum));
                let middle = (whole + rest).div_euclid(2);
                for value in [
                    sum.steps(0.0),
                    sum.steps(17.25),
                    whole,
                    rest,
                    middle,
                    whole.max(rest) + sensitivity,
                    whole.min(rest) - sensitivity,
                    i128::MAX,
                    i128::MIN,
                ] {
                    let distance = |sum: i128| Compared::DistanceFrom(value).of_sum(sum);
                    let (with, without) = (distance(whole), distance(rest));
                    assert!(with >= 0 && without >= 0, "{sql}: {value}");
                    let moved = with - without;
                    assert!(
                        moved.abs() <= sensitivity,
                        "PGVEIL_SEED={seed}, database {database}, unit {unit}: {moved} past \
                            {sensitivity}, from {value}\n{sql}\n{statement}"
                    );
                    up += u32::from(moved > 0);
                    down += u32::from(moved < 0);
                    attained += u32::from(moved.abs() * 2 >= sensitivity);
                }
            }
        }
    }
    assert!(
        up > 100 && down > 100 && attained > 50,
        "{up} {down} {attained}"
    );
}
