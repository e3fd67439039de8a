//! Regressions: no unit moves the moments by more than the bound, which rows at the corners reach.

use num_bigint::BigUint;
use num_traits::ToPrimitive;
use pgveil::mechanism::Accounting;
use pgveil::policy::{ClipChoice, SessionSettings};
use pgveil::rewrite::ReleasePlan;

use super::bound::{holds, nobody, unit_within};
use super::random::{Random, seeds};
use super::world::World;

/// People at the corners of all ranges, in the middle, past the ends, with values that are no
/// numbers, and NULLs; one with 400 visits, and visits of nobody.
const ROWS: &str = "BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE w.people, \
    w.visits, w.items, w.rounds;
     INSERT INTO w.people (id, i4, n2, f8, ni, nb, f4, b) VALUES (1, 50, 99.99, 100.25, 3, 7.25, \
     0.1, true), (2, 0, 0, -1.5, -3, -5.5, 0, true), (3, 50, 0, 100.25, -3, 7.25, 0.1, \
     false), (4, 25, 50, 49, 0, 1, 0, NULL), (5, 2147483647, 99999999, 'NaN', 1000, 1e200, 1, \
     true), (6, -2147483648, -5, '-Infinity', -1000, -1e200, 2, false), (7, 50, 99.99, 100.25, 3, \
     7.25, 3, true), (8, NULL, 4, 4, 3, NULL, 4, true), (9, 4, 4, NULL, 3, 4, NULL, NULL);
     INSERT INTO w.visits (id, person, i4, n2, f8, ni, nb, s2, kd, tx) SELECT g, 7, 50, 99.99, \
     100.25, 3, 7.25, 32767, CASE WHEN g % 2 = 0 THEN 'a' ELSE 'b' END, 'k' || g % 40 FROM \
     generate_series(1, 400) g;
     INSERT INTO w.visits (id, person, i4, n2, f8, ni, nb, s2, kd, tx) SELECT 1000 + g, 1 + g % 9, \
     CASE g % 5 WHEN 0 THEN NULL ELSE g END, g, 1e300, 3, CASE g % 3 WHEN 0 THEN NULL ELSE -g END, \
     g, 'b', 'k1' FROM generate_series(1, 60) g;
     INSERT INTO w.visits (id, person, i4, n2, tx) SELECT 2000 + g, NULL, 40, 50, 'k2' FROM \
     generate_series(1, 20) g; COMMIT;";

const QUERIES: [&str; 15] = [
    "SELECT (pgveil.linregr(i4, ARRAY[1, n2])).* FROM people",
    "SELECT (pgveil.linregr(i4, ARRAY[1, n2, f8])).coef FROM people",
    "SELECT (pgveil.linregr(i4, ARRAY[1, n2, f8, ni, nb, f4])).r2 FROM people",
    "SELECT count(*), (pgveil.linregr(n2, ARRAY[i4, n2])).coef, avg(i4) FROM people",
    "SELECT b, (pgveil.linregr(i4, ARRAY[1, n2])).* FROM people GROUP BY ROLLUP (b)",
    "SELECT (pgveil.linregr(ni, ARRAY[1])).coef FROM people",
    "SELECT (pgveil.linregr(i4, ARRAY[1, n2, f8])).* FROM visits",
    "SELECT kd, (pgveil.linregr(i4, ARRAY[1, n2, nb])).* FROM visits GROUP BY kd",
    "SELECT tx, (pgveil.linregr(i4, ARRAY[1, n2]) FILTER (WHERE s2 > 0)).coef FROM visits GROUP BY \
        tx",
    "SELECT (pgveil.linregr(i4, ARRAY[1, n2])).r2, (pgveil.linregr(i4, ARRAY[n2, CASE WHEN kd = \
        'a' THEN 1 ELSE 0 END])).coef FROM visits",
    "SELECT (pgveil.linregr(i4, ARRAY[1, n2, f8], 0.5)).*, (pgveil.linregr(i4, ARRAY[1, n2])).r2 \
        FROM people",
    "SELECT (pgveil.pca(ARRAY[i4, n2, f8, ni], 2)).* FROM people",
    "SELECT count(*), (pgveil.pca(ARRAY[ni])).variance, avg(i4) FROM people",
    "SELECT kd, (pgveil.pca(ARRAY[i4, n2, nb])).* FROM visits GROUP BY kd",
    "SELECT tx, (pgveil.pca(ARRAY[i4, n2]) FILTER (WHERE s2 > 0)).loadings FROM visits GROUP BY tx",
];

async fn world() -> World {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    world
}

async fn first_fault(world: &World, release: &ReleasePlan, sql: &str) -> Result<(), String> {
    let whole = world.run(sql, release.key_columns()).await?;
    nobody(world, release, sql).await?;
    for unit in 1..=9 {
        unit_within(world, release, sql, &whole, unit).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_unit_moves_the_moments_further_than_the_bound() {
    let world = world().await;
    for accounting in [Accounting::Gdp, Accounting::Pure] {
        for sql in QUERIES {
            // Pure accounting has no thresholds.
            if accounting == Accounting::Pure && sql.contains("tx,") {
                continue;
            }
            let plan = world
                .plan_under(sql, accounting, 1.0)
                .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
            let [release] = plan.releases() else {
                panic!("{sql}")
            };
            let found = first_fault(&world, release, release.sql().unwrap()).await;
            assert_eq!(found, Ok(()), "{sql}");
        }
    }
}

/// The bound of a step holds where a look chooses the clip, too.
#[tokio::test(flavor = "multi_thread")]
async fn no_unit_moves_the_moments_further_than_a_looked_at_bound() {
    let world = world().await;
    let mut random = Random::new(seeds()[0]);
    let missing = world.lay_aside(&mut random).await;
    for sql in QUERIES {
        let settings = SessionSettings {
            clip: ClipChoice::Auto,
            ..SessionSettings::with_fixed_clips()
        };
        let plan = world
            .plan_with(sql, Accounting::Gdp, 1.0, settings)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let is_of_visits = sql.contains("FROM visits");
        assert_eq!(plan.releases()[0].look().is_some(), is_of_visits, "{sql}");
        let found = holds(&world, missing, &plan, &mut random).await;
        assert_eq!(found, Ok(()), "{sql}");
    }
}

/// One row is as long as `sqrt(1 + q + q (q - 1) / 2)` for q values, y among them, and a row at a
/// corner is no shorter. Squares in place of their distances from the maximum pass the bound.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_at_a_corner_reaches_the_bound() {
    let world = world().await;
    for (record, squared) in [
        ("linregr(i4, ARRAY[1, n2])", 4.0),
        ("linregr(i4, ARRAY[1, n2, f8], 0.1)", 7.0),
        ("linregr(i4, ARRAY[1, n2, f8, ni, nb, f4])", 22.0),
        ("pca(ARRAY[i4, n2, f8, ni, nb, f4], 1)", 22.0),
    ] {
        let sql = format!("SELECT (pgveil.{record}).* FROM people");
        let plan = world.plan_under(&sql, Accounting::Gdp, 1.0).unwrap();
        let release = &plan.releases()[0];
        let (price, emitted) = (release.price().unwrap(), release.sql().unwrap());
        let ratio = |a: &BigUint, b: &BigUint| a.to_f64().unwrap() / b.to_f64().unwrap();
        let declared = ratio(&price.clip, &price.weights[0]).powi(2);
        assert!((declared / squared - 1.0).abs() < 1e-5, "{sql}: {declared}");
        let whole = world.run(emitted, 0).await.unwrap();
        world.without(1).await;
        let rest = world.run(emitted, 0).await.unwrap();
        world.back().await;
        let (whole, rest) = (
            whole.values().next().unwrap(),
            rest.values().next().unwrap(),
        );
        let moved = whole
            .iter()
            .zip(rest)
            .map(|(a, b)| (a - b).magnitude().clone());
        let weighed = moved
            .zip(&price.weights)
            .map(|(moved, weight)| moved * weight);
        let norm: BigUint = weighed.map(|one| &one * &one).sum();
        let reached = ratio(&norm, &(&price.weights[0] * &price.weights[0]));
        assert!((reached / squared - 1.0).abs() < 1e-3, "{sql}: {reached}");
        let raw = emitted.replace("(2500 - (", "(0 + (");
        assert_ne!(raw, emitted, "{sql}");
        assert!(first_fault(&world, release, &raw).await.is_err(), "{raw}");
    }
}

/// Each step of a logistic regression, whatever coefficients it has.
#[tokio::test(flavor = "multi_thread")]
async fn no_unit_moves_a_step_further_than_the_bound() {
    let world = world().await;
    let mut random = Random::new(seeds()[0]);
    let missing = world.lay_aside(&mut random).await;
    for sql in [
        "SELECT (pgveil.logregr(b, ARRAY[1, n2])).* FROM people",
        "SELECT (pgveil.logregr(b, ARRAY[1, n2, f8, ni, nb])).* FROM people",
        "SELECT (pgveil.logregr(i4 > 7, ARRAY[n2, f8])).* FROM visits",
        "SELECT (pgveil.logregr(CASE WHEN kd = 'a' THEN 1 ELSE 0 END, ARRAY[1, nb]) FILTER (WHERE \
            s2 > 0)).* FROM visits",
    ] {
        for accounting in [Accounting::Gdp, Accounting::Pure] {
            let plan = world.plan_under(sql, accounting, 1.0).unwrap();
            assert_eq!(plan.releases().len(), 6, "{sql}");
            let found = holds(&world, missing, &plan, &mut random).await;
            assert_eq!(found, Ok(()), "{sql}");
        }
    }
}

/// A step's row is as long as `sqrt(k + k (k + 1) / 32 + 1 / 16)` of the gradient's parts, for k
/// features; squares of the curvature lie on one side of zero, and are counted from the middle of
/// their range. The six together cost what one statement may.
#[tokio::test(flavor = "multi_thread")]
async fn the_steps_share_the_price_of_one_statement() {
    let world = world().await;
    let sql = "SELECT (pgveil.logregr(b, ARRAY[1, n2, f8])).* FROM people";
    let plan = world.plan_under(sql, Accounting::Gdp, 1.0).unwrap();
    let alone = world
        .plan_under("SELECT count(*) FROM people", Accounting::Gdp, 1.0)
        .unwrap();
    let mu = |release: &ReleasePlan| release.price().unwrap().accuracy;
    let whole = mu(&alone.releases()[0]).powi(2);
    let shares: Vec<f64> = plan
        .releases()
        .iter()
        .map(|r| mu(r).powi(2) / whole)
        .collect();
    for (at, share) in shares.iter().enumerate() {
        let wanted = f64::from(1u32 << at) / 63.0;
        assert!((share / wanted - 1.0).abs() < 1e-3, "{shares:?}");
    }
    assert!(shares.iter().sum::<f64>() <= 1.0, "{shares:?}");
    for release in plan.releases() {
        let price = release.price().unwrap();
        let ratio = |a: &BigUint, b: &BigUint| a.to_f64().unwrap() / b.to_f64().unwrap();
        // The number of rows weighs a quarter of a part of the gradient.
        let squared = (ratio(&price.clip, &price.weights[0]) / 4.0).powi(2);
        let wanted = 3.0 + 12.0 / 32.0 + 1.0 / 16.0;
        assert!((squared / wanted - 1.0).abs() < 1e-5, "{squared}");
    }
}
