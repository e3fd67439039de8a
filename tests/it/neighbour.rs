//! The exact-neighbour harness: the emitted SQL on D and on D without one unit, subtracted exactly; plans flipped; every expression total.

mod bound;
mod equal;
mod flip;
mod forms;
mod grammar;
mod mutants;
mod named;
mod parts;
mod random;
mod ranges;
mod steps;
mod subqueries;
mod total;
mod types;
mod world;

use random::Random;
use world::World;

/// Random queries a run; `PGVEIL_NEIGHBOUR_QUERIES` asks for more.
fn queries() -> usize {
    std::env::var("PGVEIL_NEIGHBOUR_QUERIES").ok().and_then(|n| n.parse().ok()).unwrap_or(240)
}

/// Random databases those queries are spread over.
const DATABASES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_differ_within_the_declared_bound() {
    let world = World::new().await;
    for seed in random::seeds() {
        let mut random = Random::new(seed);
        let (mut planned, mut refused) = (0, Vec::new());
        for database in 0..DATABASES {
            world.fill(&mut random, database % 3 == 2).await;
            let mut asked = 0;
            while asked < queries() / DATABASES {
                let sql = grammar::query(&mut random);
                match world.plan(&sql, &mut random) {
                    Ok(plan) => {
                        asked += 1;
                        planned += 1;
                        if let Err(fault) = bound::holds(&world, &plan, &mut random).await {
                            panic!("seed {seed}, database {database}\n{sql}\n{fault}");
                        }
                    }
                    Err(refusal) => {
                        assert!(!refusal.contains("XX000") && !refusal.contains("internal"), "seed {seed}\n{sql}\n{refusal}");
                        refused.push(format!("{refusal} <- {sql}"));
                    }
                }
                assert!(refused.len() < 40 * queries(), "the grammar plans too little: {:#?}", &refused[..5]);
            }
        }
        eprintln!("seed {seed}: {planned} queries planned, {} refused", refused.len());
        if std::env::var("PGVEIL_NEIGHBOUR_REFUSED").is_ok() {
            refused.iter().for_each(|r| eprintln!("  {r}"));
        }
    }
}
