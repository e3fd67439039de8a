//! Estimates from reports: no unit moves the counts of reports by more than the bound.

use pgveil::mechanism::Accounting;
use pgveil::policy::{ClipChoice, SessionSettings};

use super::bound::holds;
use super::random::{Random, seeds};
use super::world::World;

const QUERIES: [&str; 12] = [
    "SELECT count(*) FROM people WHERE kd = 'a'",
    "SELECT kd, count(*) FROM people GROUP BY kd",
    "SELECT kd, count(*) FROM visits GROUP BY kd",
    "SELECT kd, count(*) FROM visits WHERE kd IN ('a', 'it''s') AND i4 > 3 GROUP BY kd",
    "SELECT kd, s2, count(*) FILTER (WHERE i4 > 3) FROM visits GROUP BY kd, s2",
    "SELECT count(*) FILTER (WHERE kd = 'a'), count(*), count(*) FILTER (WHERE b) FROM visits",
    "SELECT tx, count(*) FILTER (WHERE kd <> 'b') FROM visits GROUP BY tx",
    "SELECT b, count(*), count(*) FILTER (WHERE i4 < 9) FROM items GROUP BY b",
    "SELECT avg(ni), sum(ni), count(ni), avg(i4) FROM visits",
    "SELECT tx, avg(ni) FILTER (WHERE s2 > 0) FROM visits GROUP BY tx",
    "SELECT s2, sum(v.ni) FROM visits v JOIN (SELECT id AS own FROM people) p ON p.own = person \
        GROUP BY s2",
    "SELECT kd, count(*) FROM (SELECT kd, i4, person FROM visits WHERE i4 > 1) v GROUP BY kd",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_unit_moves_the_counts_of_reports_further_than_the_bound() {
    let world = World::with_reports().await;
    let mut random = Random::new(seeds()[0]);
    for database in 0..3 {
        world.fill(&mut random, database == 2).await;
        let missing = world.lay_aside(&mut random).await;
        for sql in QUERIES {
            for (accounting, clip) in [
                (Accounting::Gdp, ClipChoice::Fixed),
                (Accounting::Gdp, ClipChoice::Auto),
                (Accounting::Pure, ClipChoice::Fixed),
            ] {
                // Pure accounting has no thresholds.
                if accounting == Accounting::Pure && (sql.contains("tx,") || sql.contains("s2,")) {
                    continue;
                }
                let settings = SessionSettings {
                    clip,
                    ..SessionSettings::with_fixed_clips()
                };
                let plan = world
                    .plan_with(sql, accounting, 1.0, settings)
                    .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
                let found = holds(&world, missing, &plan, &mut random).await;
                assert_eq!(found, Ok(()), "{sql}");
            }
        }
    }
}

const OF_FILTERS: [&str; 6] = [
    "SELECT fi, count(*) FROM people GROUP BY fi",
    "SELECT fi, count(*) FROM visits GROUP BY fi",
    "SELECT fv, count(*) FROM visits WHERE i4 > 3 GROUP BY fv",
    "SELECT fi, count(fi), pgveil.stderr(count(*)) FROM items WHERE b GROUP BY fi ORDER BY 2",
    "SELECT fi, count(*) FROM (SELECT fi, i4, person FROM visits WHERE i4 > 1) v GROUP BY fi",
    "SELECT v.fi, count(*) FROM visits v JOIN (SELECT id AS own FROM people) p ON p.own = person \
        GROUP BY v.fi",
];

/// Each unit's bits of all its reports are within one bound, whatever its rows hold.
#[tokio::test(flavor = "multi_thread")]
async fn no_unit_moves_the_bits_of_reports_further_than_the_bound() {
    let world = World::with_filters().await;
    let mut random = Random::new(seeds()[0]);
    for database in 0..3 {
        world.fill(&mut random, database == 2).await;
        let missing = world.lay_aside(&mut random).await;
        for sql in OF_FILTERS {
            for (accounting, clip) in [
                (Accounting::Gdp, ClipChoice::Fixed),
                (Accounting::Gdp, ClipChoice::Auto),
                (Accounting::Pure, ClipChoice::Fixed),
            ] {
                let settings = SessionSettings {
                    clip,
                    ..SessionSettings::with_fixed_clips()
                };
                let plan = world
                    .plan_with(sql, accounting, 1.0, settings)
                    .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
                let found = holds(&world, missing, &plan, &mut random).await;
                assert_eq!(found, Ok(()), "{sql}");
            }
        }
    }
}
