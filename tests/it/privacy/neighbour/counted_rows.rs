//! Summaries by numbers of rows: a unit moves them by no more than its one row of the units'
//! table, however many rows of other tables it has.

use pgveil::engine::{Sql, SummaryQuestion, describe_plan};
use pgveil::policy::Policy;

use super::bound;
use super::random::{Random, seeds};
use super::world::World;

/// The standard error of the number of rows in each set of the summary.
fn errors(policy: &Policy, name: &str) -> Vec<f64> {
    let mut summaries = policy.summaries.iter();
    let summary = summaries.find(|summary| summary.name == name).unwrap();
    SummaryQuestion::new(policy, summary).unwrap().errors()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_rows_moves_a_summary_by_one_row() {
    let world = World::with_counted_rows().await;
    // The number costs what a column of as many values does.
    assert_eq!(
        errors(&world.policy, "visits"),
        errors(&world.policy, "alike")
    );
    for seed in seeds() {
        let mut random = Random::new(seed);
        for database in 0..6 {
            world.fill(&mut random, database % 3 == 2).await;
            let missing = world.lay_aside(&mut random).await;
            for summary in world.policy.summaries.iter().filter(|s| s.name != "alike") {
                let plan = SummaryQuestion::new(&world.policy, summary).unwrap().plan;
                let plan_text = describe_plan(&plan, 1e-7, Sql::Shown).join("\n");
                assert!(
                    plan_text.contains("Rows: at most 1 per person"),
                    "{plan_text}"
                );
                if let Err(fault) = bound::holds(&world, missing, &plan, &mut random).await {
                    panic!("PGVEIL_SEED={seed}, {}\n{fault}", summary.name);
                }
            }
        }
    }
}
