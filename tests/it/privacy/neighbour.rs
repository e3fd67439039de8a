//! The exact-neighbour harness: the emitted SQL on D and on D without one unit, subtracted exactly;
//! plans flipped; every expression total.

mod bound;
mod by_periods;
mod centred_look;
mod checks;
mod choices;
mod counted_rows;
mod derived;
mod draws;
mod effects;
mod equal;
mod flip;
mod forms;
mod goldens;
mod grammar;
mod holdouts;
mod joins;
mod listed_groups;
mod look;
mod look_mutants;
mod monitors;
mod mutants;
mod named;
mod neighbouring_answers;
mod padded;
mod per_unit;
mod pivots;
mod prepaid;
mod prepaid_totals;
mod proxy;
mod question;
pub mod random;
mod ranges;
mod regression;
mod replay;
mod reports;
mod row_look;
mod searches;
mod streams;
mod subqueries;
mod total;
mod types;
mod unit_total;
mod widened;
mod world;
mod written;

use random::Random;
use world::World;

/// Random queries of each seed; `PGVEIL_NEIGHBOUR_QUERIES` asks for more.
fn queries() -> usize {
    std::env::var("PGVEIL_NEIGHBOUR_QUERIES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1000)
}

/// Random databases those queries are spread over.
const DATABASES: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_differ_within_the_declared_bound() {
    let runs: Vec<_> = random::seeds()
        .into_iter()
        .map(|seed| {
            tokio::spawn(async move {
                differ_within_the_bound(seed, World::new().await, queries()).await
            })
        })
        .collect();
    let mut planned = Vec::new();
    for run in runs {
        planned.extend(run.await.unwrap());
    }
    let missing: Vec<&&str> = question::CONSTRUCTS
        .iter()
        .filter(|word| !planned.iter().any(|sql| sql.contains(**word)))
        .collect();
    assert!(
        missing.is_empty() || planned.len() < 1000,
        "never planned: {missing:?}"
    );
}

/// An expression for which PostgreSQL derives no collation is refused beforehand, not revealed by
/// an error.
#[tokio::test(flavor = "multi_thread")]
async fn neighbours_differ_within_the_declared_bound_under_collations() {
    let seed = random::seeds()[0];
    let planned = differ_within_the_bound(seed, World::collated().await, queries() / 4).await;
    let ordered = planned
        .iter()
        .filter(|sql| {
            ["tx <", "tx >", "max(tx)", "min(tx)", "lower(", "LIKE"]
                .iter()
                .any(|word| sql.contains(word))
        })
        .count();
    assert!(ordered > 0, "{planned:#?}");
}

/// Measures every query of one seed, and gives back those that were planned.
async fn differ_within_the_bound(seed: u64, world: World, queries: usize) -> Vec<String> {
    let mut random = Random::new(seed);
    let (mut planned, mut refused) = (Vec::new(), Vec::new());
    let mut agreed = streams::Agreed::default();
    for database in 0..DATABASES {
        world.fill(&mut random, database % 3 == 2).await;
        let missing = world.lay_aside(&mut random).await;
        let wanted = (planned.len() + queries / DATABASES).min(queries);
        while planned.len() < wanted {
            let sql = question::question(&mut random).sql;
            match world.plan(&sql, &mut random) {
                Ok(plan) => {
                    if let Err(fault) = bound::holds(&world, missing, &plan, &mut random).await {
                        panic!("PGVEIL_SEED={seed}, database {database}\n{sql}\n{fault}");
                    }
                    match streams::agree(&world, &plan, &random).await {
                        Ok(more) => agreed.add(more),
                        Err(fault) => {
                            panic!(
                                "PGVEIL_SEED={seed}, stream, database {database}\n{sql}\n{fault}"
                            )
                        }
                    }
                    if let Some(wide) = plan.bought_instead()
                        && let Err(fault) =
                            bound::holds(&world, missing, &wide.plan, &mut random).await
                    {
                        panic!("PGVEIL_SEED={seed}, widened, database {database}\n{sql}\n{fault}");
                    }
                    planned.push(sql);
                }
                Err(refusal) => {
                    let faulty = ["XX000", "internal", "42601"]
                        .iter()
                        .any(|state| refusal.contains(state));
                    assert!(!faulty, "PGVEIL_SEED={seed}\n{sql}\n{refusal}");
                    refused.push(format!("{refusal} <- {sql}"));
                }
            }
            assert!(
                refused.len() < queries,
                "the grammar plans too little: {:#?}",
                &refused[..5]
            );
        }
    }
    eprintln!(
        "PGVEIL_SEED={seed}: {} queries planned, {} refused",
        planned.len(),
        refused.len()
    );
    eprintln!("  streams that agree: {agreed:?}");
    assert!(
        queries < 200 || (agreed.kinds.iter().all(|of_kind| *of_kind > 0) && agreed.parted > 0),
        "never streamed: {agreed:?}"
    );
    if std::env::var("PGVEIL_NEIGHBOUR_REFUSED").is_ok() {
        refused.iter().for_each(|r| eprintln!("  {r}"));
    }
    planned
}
