//! Aggregates that are written out: neighbours differ within the bound of the written-out form, and
//! no row makes them fail.

use pgveil::mechanism::Accounting;

use super::bound::unit_within;
use super::named::{all_run, world};

#[tokio::test(flavor = "multi_thread")]
async fn geometric_means_are_bounded() {
    let world = world().await;
    for sql in [
        "SELECT pgveil.geomean(greatest(least(nn, 900), 0.5)) FROM people",
        "SELECT i4, pgveil.geomean(greatest(f8, j4, 1)) FILTER (WHERE b) FROM people WHERE \
            f8 BETWEEN -100 AND 100 AND j4 < 50 AND i4 IN (1, 2, 3) GROUP BY i4",
        "SELECT pgveil.geomean(i4) FROM people WHERE i4 BETWEEN 1 AND 9",
    ] {
        all_run(&world, sql).await;
        for accounting in [Accounting::Gdp, Accounting::Pure] {
            let plan = world
                .plan_under(sql, accounting, 1.0)
                .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
            let release = &plan.releases()[0];
            let text = release.sql().unwrap();
            let whole = world.run(text, release.vector_keys()).await.unwrap();
            for unit in 1..=30 {
                let within = unit_within(&world, release, text, &whole, unit).await;
                assert_eq!(within, Ok(()), "{sql}");
            }
        }
    }
}
