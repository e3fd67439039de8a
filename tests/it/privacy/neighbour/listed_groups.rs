//! Few listed groups as columns: the same sums as grouped by the keys, and one unit within the
//! bound.

use num_bigint::BigInt;
use pgveil::mechanism::Accounting;
use pgveil::rewrite::Coordinate;

use super::bound::{nobody, unit_within};
use super::named::world;
use super::world::World;

/// Rows of several units in every group, also in none that is listed.
async fn filled() -> World {
    let world = world().await;
    let rows = "BEGIN; SET LOCAL session_replication_role = replica;
         INSERT INTO w.visits (id, person, town, i4, kd, b, n2)
         SELECT 200 + g, 1 + g % 12, 'x', g % 60, (ARRAY['a', 'b', 'it''s', NULL, 'c'])[1 + g % 5],
             (ARRAY[true, false, NULL])[1 + g % 3], g FROM generate_series(0, 99) g; COMMIT;";
    world.client.batch_execute(rows).await.unwrap();
    world
}

fn is_pivoted(sql: &str) -> bool {
    sql.contains("AS \"x\" (\"g\")") && !sql.contains("PARTITION BY")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unit_is_within_the_bound() {
    let world = filled().await;
    for sql in [
        "SELECT kd, count(*), sum(n2) FROM visits GROUP BY kd",
        "SELECT kd, count(*) FILTER (WHERE i4 > 9), count(i4), count(DISTINCT person) FROM visits \
            GROUP BY kd",
        "SELECT b, avg(n2), sum(i4) FILTER (WHERE kd = 'a') FROM visits GROUP BY b",
        "SELECT kd, b, sum(n2) FROM visits WHERE kd IN ('a', 'b') AND b IS NOT NULL GROUP BY kd, b",
    ] {
        for accounting in [Accounting::Gdp, Accounting::Pure] {
            let plan = world.plan_under(sql, accounting, 1.0);
            let plan = plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
            let release = &plan.releases()[0];
            let text = release.sql().unwrap();
            assert!(is_pivoted(text), "{sql}\n{text}");
            let whole = world.run(text, release.key_columns()).await.unwrap();
            nobody(&world, release, text).await.unwrap();
            for unit in 1..=13 {
                let held = unit_within(&world, release, text, &whole, unit).await;
                held.unwrap_or_else(|fault| panic!("{sql}\n{fault}"));
            }
        }
    }
}

/// Nobody exceeds the clip here: each sum is PostgreSQL's, on the grid of its noise.
#[tokio::test(flavor = "multi_thread")]
async fn sums_are_those_of_a_group_by() {
    let world = filled().await;
    world
        .client
        .batch_execute("DELETE FROM w.visits WHERE (id - 200) / 12 > 3 OR id < 200")
        .await
        .unwrap();
    let sql = "SELECT kd, count(*), sum(i4) FROM visits GROUP BY kd";
    let plan = world.plan_under(sql, Accounting::Gdp, 1.0).unwrap();
    let release = &plan.releases()[0];
    let text = release.sql().unwrap();
    assert!(is_pivoted(text), "{text}");
    let found = world.run(text, release.key_columns()).await.unwrap();
    let exact = "SELECT kd, count(*), coalesce(sum(i4), 0) FROM w.visits
         WHERE kd IN ('a', 'b', 'it''s') OR kd IS NULL GROUP BY kd";
    let exact = world.client.query(exact, &[]).await.unwrap();
    assert_eq!(found.len(), 4);
    let coordinates = release.coordinates().iter().enumerate();
    let mut centred = coordinates.filter_map(|(at, coordinate)| match coordinate {
        Coordinate::Values { centred, .. } => Some((at, *centred)),
        _ => None,
    });
    let (values, is_centred) = centred.next().unwrap();
    let refine = release.price().unwrap().calibrated.iter();
    let steps: Vec<BigInt> = refine.map(|c| BigInt::from(1) << c.refine).collect();
    for row in &exact {
        let key = vec![row.get::<_, Option<String>>(0)];
        let sums = [row.get::<_, i64>(1), row.get::<_, i64>(2)];
        let sums: Vec<BigInt> = sums.into_iter().map(BigInt::from).collect();
        assert_eq!(found[&key][0], &sums[0] * &steps[0], "{key:?}");
        // A centred value counts as twice its distance from the middle of [0, 50].
        let sum = if is_centred {
            2 * &sums[1] - 50 * &sums[0]
        } else {
            sums[1].clone()
        };
        assert_eq!(found[&key][values], sum * &steps[values], "{key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_and_computed_keys_stay_rows() {
    let world = world().await;
    for sql in [
        "SELECT i4, count(*) FROM visits WHERE i4 BETWEEN 1 AND 9 GROUP BY i4",
        "SELECT kd, sum(n2), sum(i4), sum(ni), avg(nb), count(*) FROM visits GROUP BY kd",
        "SELECT date_trunc('month', d), count(*) FROM visits WHERE d BETWEEN '2000-01-01' AND \
            '2000-03-31' GROUP BY 1",
        "SELECT kd, count(*) FROM visits GROUP BY ROLLUP (kd)",
    ] {
        let plan = world.plan_under(sql, Accounting::Gdp, 1.0);
        let plan = plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let text = plan.releases()[0].sql().unwrap();
        assert!(!is_pivoted(text), "{sql}\n{text}");
    }
}
