//! One statement under several of PostgreSQL's plans and physical orders: equal digits.

use super::bound::filled;
use super::choices;
use super::question::question;
use super::random::{Random, seeds};
use super::world::{Groups, World};

const PLANS: &[&str] = &[
    "SET enable_seqscan = off",
    "SET enable_hashagg = off; SET enable_hashjoin = off",
    "SET enable_sort = off; SET enable_mergejoin = off; SET enable_nestloop = off",
    "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = \
        0; SET debug_parallel_query = on",
    "SET work_mem = '64kB'",
];

#[tokio::test(flavor = "multi_thread")]
async fn plan_flip_same_partials() {
    let world = World::new().await;
    let seed = seeds()[0];
    let mut random = Random::new(seed ^ 1);
    let mut flipped = 0;
    // Its name since version 16.
    let parallel = match world.client.simple_query("SHOW debug_parallel_query").await {
        Ok(_) => "debug_parallel_query",
        Err(_) => "force_parallel_mode",
    };
    for heavy in [false, true] {
        world.fill(&mut random, heavy).await;
        world.lay_aside(&mut random).await;
        for _ in 0..50 {
            let sql = question(&mut random).sql;
            let Ok(plan) = world.plan(&sql, &mut random) else {
                continue;
            };
            for release in plan.releases() {
                // Behind the keys stand the bins, and behind the sums how many units have their
                // first row there, which is any of their rows.
                let blocks = release.look().map_or(0, |look| look.blocks.len());
                let of_parts = release.choices().iter().map(|part| {
                    let is_looked_at = part.look.is_some();
                    (part.sql(), choices::keys(release, part), is_looked_at)
                });
                let texts: Vec<(&str, usize, bool)> = release
                    .sql()
                    .map(|sql| (sql, release.vector_keys() + blocks, blocks > 0))
                    .into_iter()
                    .chain(of_parts)
                    .collect();
                if texts.is_empty() {
                    continue;
                }
                let at = random.below(texts.len());
                let (text, keys, is_looked_at) = texts[at];
                let text = &filled(&plan, release, text, &mut random);
                let kept = |mut groups: Groups| {
                    if is_looked_at {
                        groups.values_mut().for_each(|values| drop(values.pop()));
                    }
                    groups
                };
                let first = kept(world.run(text, keys).await.unwrap());
                for settings in PLANS {
                    world
                        .client
                        .batch_execute(&settings.replace("debug_parallel_query", parallel))
                        .await
                        .unwrap();
                    let again = kept(world.run(text, keys).await.unwrap());
                    world.client.batch_execute("RESET ALL").await.unwrap();
                    world.pin().await;
                    assert_eq!(first, again, "seed {seed}\n{sql}\n{settings}\n{text}");
                }
                let shuffled = kept(world.run_shuffled(text, keys).await.unwrap());
                assert_eq!(first, shuffled, "seed {seed}\n{sql}\nshuffled\n{text}");
                flipped += 1;
            }
        }
    }
    assert!(flipped > 60, "{flipped}");
}
