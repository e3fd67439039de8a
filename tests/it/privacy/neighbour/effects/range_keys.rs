//! Summaries with ranges: one unit moves the effects of all levels together by no more than the
//! bound that their noise hides.

use pgveil::engine::SummaryQuestion;

use super::*;

/// The bins and the labels of two summaries are as many as a power of two; the other numbers of
/// values are none.
const SUMMARIES: &str = "
summaries:
  people: {of: w.people, keys: {i4: ranges, Mood: ranges, b: values}, measures: [n2], \
marginals: all 2, epsilon: 0.5}
  binned: {of: w.people, keys: {i4: {bins: [0, 10, 20, 30, 50], ranges: true}, Mood: ranges, \
b: values}, marginals: all 2, epsilon: 0.5}
  visits: {of: w.visits, keys: {i4: {bins: [0, 10, 20, 30, 50], ranges: true}, b: values}, \
marginals: all 2, epsilon: 0.5}
  moods: {of: w.visits, keys: {Mood: ranges, b: values}, marginals: all 2, epsilon: 0.5}
";

async fn world_with_summaries() -> World {
    let policy = format!("{POLICY}{SUMMARIES}");
    let world = World::with_room(TABLES, &policy).await;
    world.client.batch_execute(ROWS).await.unwrap();
    world
}

fn plan_of(world: &World, name: &str) -> Plan {
    let mut summaries = world.policy.summaries.iter();
    let summary = summaries.find(|summary| summary.name == name).unwrap();
    let plan = SummaryQuestion::new(&world.policy, summary).unwrap().plan;
    let by = plan.releases()[0].price().unwrap().effects.clone();
    assert!(!by.unwrap().effects.ranges().is_empty(), "{name}");
    plan
}

const NAMES: [&str; 4] = ["people", "binned", "visits", "moods"];

#[tokio::test(flavor = "multi_thread")]
async fn one_unit_moves_ranges_within_their_bound() {
    let world = world_with_summaries().await;
    for name in NAMES {
        let plan = plan_of(&world, name);
        let release = &plan.releases()[0];
        let price = release.price().unwrap();
        calibrated(price, price.effects.as_ref().unwrap()).unwrap();
        let text = release.sql().unwrap();
        nobody(&world, release, text).await.unwrap();
        let whole = world.run(text, release.vector_keys()).await.unwrap();
        for unit in (1..=13).chain([50, 51, 101, 720]) {
            let held = unit_within(&world, release, text, &whole, unit).await;
            held.unwrap_or_else(|fault| panic!("{name}\n{fault}"));
        }
        // Of 51 values the last run of some level is short, and few rows are as long as the bound.
        let units = (1..=13).chain([50, 101]);
        let reached = share(&world, (release, text), units).await;
        let least = match name {
            "binned" | "moods" => 0.998,
            _ => 0.4,
        };
        assert!((least..=1.0).contains(&reached), "{name}: {reached}");
    }
}

/// A level whose columns are left out of the bound, or whose noise is another one's; levels and
/// keys exchanged between two effects.
#[tokio::test(flavor = "multi_thread")]
async fn less_noise_of_ranges_is_caught() {
    let world = world_with_summaries().await;
    for name in NAMES {
        let plan = plan_of(&world, name);
        let price = plan.releases()[0].price().unwrap();
        let by = price.effects.as_ref().unwrap();
        let larger = ByEffects {
            clip: &by.clip * 101u8 / 100u8,
            ..by.clone()
        };
        assert!(calibrated(price, &larger).is_err(), "{name}");
        let (_, least) = by
            .measured_effects()
            .max_by_key(|(effect, _)| effect.weight())
            .unwrap();
        for (at, (effect, noise)) in by.measured_effects().enumerate() {
            let mut shared = by.clone();
            shared.calibrated[at] = least.to_vec();
            let is_same = noise == least;
            assert!(effect.weight() > 0);
            assert_eq!(calibrated(price, &shared).is_ok(), is_same, "{name}: {at}");
        }
    }
}

/// Seeded bugs in the statements: each lets one unit move the effects by more than the bound.
#[tokio::test(flavor = "multi_thread")]
async fn mutants_of_ranges_are_caught() {
    type Mutate = fn(&str) -> String;
    let mutants: [(&str, Mutate); 3] = [
        ("clip removed", |sql| {
            sql.replace(" AS \"n\"", " * NULL AS \"n\"")
        }),
        ("cells forgotten in the norm", |sql| {
            sql.replace(
                "OVER (PARTITION BY \"u\")",
                "OVER (PARTITION BY \"u\", \"k0\", \"k1\")",
            )
        }),
        ("rows of nobody kept", |sql| {
            sql.replace("\"person\" IS NOT NULL", "\"person\" IS NULL OR true")
        }),
    ];
    let world = world_with_summaries().await;
    let spread = "BEGIN; SET LOCAL session_replication_role = replica;
        UPDATE w.visits SET person = 9 WHERE id < 720 AND id % 2 = 0; COMMIT";
    world.client.batch_execute(spread).await.unwrap();
    for (name, mutate) in mutants {
        let mut caught = false;
        for summary in ["visits", "moods"] {
            let plan = plan_of(&world, summary);
            let release = &plan.releases()[0];
            let mutant = mutate(release.sql().unwrap());
            if mutant == release.sql().unwrap() {
                continue;
            }
            let is_silent = nobody(&world, release, &mutant).await.is_ok();
            let units = [HEAVY, 9].into_iter();
            caught |= !is_silent || share(&world, (release, &mutant), units).await > 1.0;
        }
        assert!(caught, "{name} survives");
    }
}
