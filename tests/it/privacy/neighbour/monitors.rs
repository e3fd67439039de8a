//! Sums of monitors: adding one unit moves the integer that is compared with a threshold by at most
//! the question's sensitivity, and one way only where the epoch's noise relies on it.

use num_bigint::BigInt;
use pgveil::engine::plan;
use pgveil::mechanism::{AccountState, Accounting, Cap, Fixed, Loss, SumDirection};
use pgveil::parse::{Query, Statement, parse};
use pgveil::policy::{ClipChoice, SessionSettings};
use pgveil::resolve::Constants;
use pgveil::rewrite::{MonitoredSum, Plan, Terms};

use super::random::{Random, seeds};
use super::world::{Groups, World};

pub const SUMS: [(&str, SumDirection); 17] = [
    ("count(*)", SumDirection::Up),
    ("count(i4)", SumDirection::Up),
    ("count(*) FILTER (WHERE b)", SumDirection::Up),
    ("count(DISTINCT person)", SumDirection::Up),
    ("sum(i4)", SumDirection::Up),
    ("sum(- i4)", SumDirection::Down),
    ("sum(i4 + 5)", SumDirection::Up),
    ("sum(i8)", SumDirection::Either),
    ("sum(greatest(i8, 0))", SumDirection::Up),
    ("sum(n2)", SumDirection::Up),
    ("sum(n2) FILTER (WHERE i4 < 20)", SumDirection::Up),
    ("sum(nb)", SumDirection::Either),
    ("sum(f8)", SumDirection::Either),
    ("sum(greatest(f8, 0))", SumDirection::Up),
    ("sum(f4)", SumDirection::Up),
    ("sum(ni)", SumDirection::Either),
    ("sum(least(ni, 0))", SumDirection::Down),
];

const PLACES: [&str; 7] = [
    "w.visits",
    "w.visits WHERE i4 > 10",
    "w.visits WHERE kd = 'a' OR b IS NULL",
    "w.visits WHERE EXISTS (SELECT 1 FROM w.people AS p WHERE p.id = person AND p.i4 > 5)",
    "(SELECT person, i4, i8, n2, nb, f8, f4, ni, b FROM w.visits WHERE i4 IS NOT NULL) AS x",
    "w.rounds",
    "(SELECT person, max(i4) AS i4, max(i8) AS i8, max(n2) AS n2, max(nb) AS nb, max(f8) AS f8, \
        max(f4) AS f4, max(ni) AS ni, bool_or(b) AS b FROM w.visits GROUP BY person) AS x",
];

pub fn query(sql: &str) -> Query {
    let statements = parse(sql).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("{sql}")
    };
    query.clone()
}

/// The plan of a sum in an epoch.
pub fn planned_query(world: &World, query: &Query, epsilon: f64) -> Option<Plan> {
    let fixed = Fixed::round_down;
    let cap = Cap::new(fixed(8.0), Fixed::ZERO, fixed(0.5), Accounting::Pure).unwrap();
    let terms = Terms {
        epsilon,
        delta: 1e-6,
        accounts: vec![AccountState {
            cap,
            spent: Loss::ZERO,
        }],
        session_settings: SessionSettings {
            clip: ClipChoice::Fixed,
            ..SessionSettings::default()
        },
        ranges: Vec::new(),
    };
    let path = ["w".to_owned()];
    let constants = Constants {
        now: 847_000_000_000_000,
        is_utc: true,
        signs_each: true,
        prints_plainly: true,
        session: Default::default(),
        role: "ann".to_owned(),
    };
    plan(query, &world.policy, &path, &constants, &terms).ok()
}

/// The statement's only integer on its refined grid.
pub fn integer(groups: &Groups, sum: &MonitoredSum<'_>) -> BigInt {
    let refine = sum.noise().refine;
    let is_refined = sum.plan().release(sum.release()).is_refined();
    let found = groups
        .values()
        .next()
        .map_or(BigInt::ZERO, |row| row[0].clone());
    match is_refined {
        true => found,
        false => found << refine,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_of_monitors_move_as_they_say() {
    let seed = seeds()[0];
    let mut random = Random::new(seed);
    let world = World::new().await;
    let (mut measured, mut attained) = (0, 0);
    for database in 0..6 {
        world.fill(&mut random, database % 3 == 2).await;
        let missing = world.lay_aside(&mut random).await;
        for (sum, direction) in SUMS {
            let place = random.pick(&PLACES);
            let sql = format!("SELECT {sum} FROM {place}");
            let Some(plan) =
                planned_query(&world, &query(&sql), *random.pick(&[&0.05, &0.5, &4.0]))
            else {
                continue;
            };
            let Ok(sum) = MonitoredSum::of(&plan) else {
                panic!("{sql}: no monitor takes it");
            };
            assert_eq!(sum.direction, direction, "{sql}");
            let release = plan.release(sum.release());
            let statement = release.sql().unwrap();
            let compared = world
                .compare(statement, release.vector_keys())
                .await
                .unwrap();
            let question = sum.question(&(BigInt::ZERO, BigInt::from(1)));
            for (unit, rest) in missing.iter().zip(&compared.rest) {
                let moved = integer(&compared.whole, &sum) - integer(rest, &sum);
                let is_right = match sum.direction {
                    SumDirection::Up => moved >= BigInt::ZERO,
                    SumDirection::Down => moved <= BigInt::ZERO,
                    SumDirection::Either => true,
                };
                let size = BigInt::from(moved.magnitude().clone());
                assert!(
                    is_right && size <= question.sensitivity,
                    "PGVEIL_SEED={seed}, database {database}, unit {unit}: {moved} past {:?} {}\n\
                        {sql}\n{statement}",
                    sum.direction,
                    question.sensitivity
                );
                measured += 1;
                attained += u32::from(size * 2 >= question.sensitivity);
            }
        }
    }
    assert!(measured > 100 && attained > 10, "{measured} {attained}");
}
