//! Totals of one unit's values, as the policy declares them: clips follow them, a unit beyond them
//! is clipped, and one within them is not.

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use pgveil::mechanism::Accounting;
use pgveil::policy::SessionSettings;
use pgveil::rewrite::{Coordinate, CoordinateId, ReleasePlan};

use super::bound::{nobody, unit_within};
use super::look;
use super::world::{HEAVY, World};

/// A unit of 400 visits and of three rounds, with values far past every total, and eight units
/// whose values add up to the totals: 4 for ni, 100 for n2.
const ROWS: &str = "BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE w.people, \
    w.visits, w.items, w.rounds;
     INSERT INTO w.people (id, ni) SELECT g, 3 FROM generate_series(1, 9) g;
     INSERT INTO w.visits (id, person, ni, n2, kd) SELECT g, 7, 3, 9999, CASE g % 2 WHEN 0 THEN \
     'a' ELSE 'b' END FROM generate_series(1, 400) g;
     INSERT INTO w.visits (id, person, ni, n2, kd) SELECT 1000 + 10 * g + n, g, \
     ('{-1,2,1}'::int[])[n], ('{60,20,20}'::int[])[n], ('{a,b,b}'::text[])[n] FROM \
     generate_series(1, 9) g, generate_series(1, 3) n WHERE g <> 7;
     INSERT INTO w.rounds (person, ni, kd) SELECT 7, 3, kd FROM unnest('{a,b,it''s}'::text[]) kd;
     INSERT INTO w.rounds (person, ni, kd) SELECT g, 2, kd FROM generate_series(1, 9) g, \
     unnest('{a,b}'::text[]) kd WHERE g <> 7;
     INSERT INTO w.items (visit, i4) SELECT 1 + g % 3, 3 FROM generate_series(1, 400) g; COMMIT";

/// Each statement, and the most that one unit adds to its last coordinate of values.
const TOTALS: &[(&str, f64)] = &[
    ("SELECT sum(ni) FROM visits", 4.0),
    (
        "SELECT sum(v.ni) FROM people p JOIN visits v ON v.person = p.id",
        4.0,
    ),
    ("SELECT kd, sum(ni) FROM rounds GROUP BY kd", 4.0),
    ("SELECT kd, sum(ni), count(*) FROM rounds GROUP BY kd", 4.0),
    ("SELECT kd, sum(ni) FROM visits GROUP BY kd", 4.0),
    ("SELECT sum(coalesce(ni, 0) * 2) FROM visits", 8.0),
    (
        "SELECT sum(CASE WHEN i4 > 2 THEN ni ELSE 0 END) FROM visits",
        4.0,
    ),
    (
        "SELECT sum(ni) FILTER (WHERE kd = 'a'), sum(ni) FILTER (WHERE kd = 'b') FROM visits",
        4.0,
    ),
    ("SELECT sum(n2), count(*) FROM visits", 100.0),
    ("SELECT sum(coalesce(n2, 0)) FROM visits", 100.0),
    (
        "SELECT sum(CASE WHEN i4 > 2 THEN n2 ELSE 0 END) FROM visits",
        100.0,
    ),
    (
        "SELECT sum(s) FROM (SELECT person, sum(ni) AS s FROM visits GROUP BY person) g",
        4.0,
    ),
    // Each visit has a row for each of its items.
    (
        "SELECT sum(v.ni) FROM visits v JOIN items i ON i.visit = v.id",
        18.0,
    ),
    // Squares have no total.
    ("SELECT sum(ni * ni) FROM visits", 45.0),
    ("SELECT sum(abs(i4)) FROM visits", 250.0),
];

fn last_sum(release: &ReleasePlan) -> (CoordinateId, f64) {
    let coordinates = release.coordinates().iter().enumerate();
    let of_values = coordinates
        .rev()
        .find_map(|(at, coordinate)| match coordinate {
            Coordinate::Values {
                fixed_point,
                centred: false,
                ..
            } => Some((CoordinateId(at), fixed_point.step.size())),
            _ => None,
        });
    of_values.expect("a sum from zero")
}

#[tokio::test(flavor = "multi_thread")]
async fn clips_follow_declared_totals_and_are_enforced() {
    let world = World::with_totals().await;
    world.client.batch_execute(ROWS).await.unwrap();
    for accounting in [Accounting::Gdp, Accounting::Pure] {
        for (sql, most) in TOTALS {
            let plan = world
                .plan_under(sql, accounting, 1.0)
                .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
            let release = &plan.releases()[0];
            let text = release.sql().unwrap();
            let whole = world.run(text, release.vector_keys()).await.unwrap();
            nobody(&world, release, text).await.unwrap();
            for unit in [HEAVY, 3] {
                unit_within(&world, release, text, &whole, unit)
                    .await
                    .unwrap();
            }
            let price = release.price().unwrap();
            let (at, step) = last_sum(release);
            let ratio = price.clip.to_f64().unwrap() / price.weights[at.0].to_f64().unwrap();
            let alone = price.weights.len() == 1;
            let clip = ratio * step;
            // Other coordinates of the vector have room in the clip too.
            let room = if alone { 1.01 } else { 3.0 };
            // Over several groups, sums of at most 3 each are shorter in L2 than in L1.
            let shortest = (*most * 3f64.min(*most)).sqrt().min(*most * 0.99);
            assert!(
                (shortest * 0.99..=*most * room + step).contains(&clip),
                "{sql} under {accounting:?}: {clip}, not {most}"
            );
        }
    }
}

/// For units within their totals a statement returns the sums of PostgreSQL.
#[tokio::test(flavor = "multi_thread")]
async fn a_unit_within_its_total_is_not_cut() {
    let world = World::with_totals().await;
    world.client.batch_execute(ROWS).await.unwrap();
    world
        .client
        .batch_execute(
            "SET session_replication_role = replica; DELETE FROM w.people WHERE id = 7; DELETE \
                FROM w.visits WHERE person = 7; DELETE FROM w.rounds WHERE person = 7; RESET \
                session_replication_role",
        )
        .await
        .unwrap();
    for accounting in [Accounting::Gdp, Accounting::Pure] {
        for sql in [
            "SELECT sum(ni) FROM visits",
            "SELECT kd, sum(ni) FROM rounds GROUP BY kd ORDER BY kd",
            "SELECT sum(ni), count(*) FROM visits",
            "SELECT sum(ni) FILTER (WHERE kd = 'a') FROM visits",
        ] {
            let plan = world.plan_under(sql, accounting, 1.0).unwrap();
            let release = &plan.releases()[0];
            let price = release.price().unwrap();
            let groups = world
                .run(release.sql().unwrap(), release.vector_keys())
                .await
                .unwrap();
            let (at, _) = last_sum(release);
            let refine = if release.is_refined() {
                price.calibrated[at.0].refine
            } else {
                0
            };
            let sums: Vec<BigInt> = groups.values().map(|values| values[at.0].clone()).collect();
            let place = if sql.contains("kd, ") { 1 } else { 0 };
            let exact = sql.replace("FROM ", "FROM w.");
            let exact = world.client.query(&exact, &[]);
            let exact: Vec<BigInt> = exact
                .await
                .unwrap()
                .iter()
                .map(|row| BigInt::from(row.get::<_, i64>(place)) << refine)
                .collect();
            let counted: Vec<BigInt> = sums
                .into_iter()
                .filter(|sum| *sum != BigInt::ZERO)
                .collect();
            assert_eq!(counted, exact, "{sql} under {accounting:?}");
        }
    }
}

/// The largest candidate of a look is the total, and what it bounds holds at every candidate.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_ends_at_the_total() {
    let world = World::with_totals().await;
    world.client.batch_execute(ROWS).await.unwrap();
    let settings = SessionSettings::default();
    for (sql, is_looked_at) in [
        ("SELECT kd, sum(i8), count(*) FROM visits GROUP BY kd", true),
        // The total is one row's largest value and a third: no look would be worth its price.
        ("SELECT sum(ni) FROM visits", false),
        ("SELECT sum(n2) FROM visits", false),
    ] {
        let plan = world
            .plan_with(sql, Accounting::Gdp, 1.0, settings)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        assert_eq!(release.look().is_some(), is_looked_at, "{sql}");
        let Some(found) = release.look() else {
            continue;
        };
        let (at, step) = last_sum(release);
        let of_values = found.blocks.iter().find(|b| b.coordinates.contains(&at));
        let block = of_values.unwrap();
        let ceiling = block.bins.ceiling().to_f64().unwrap() * step;
        let weight = block.weights[0].to_f64().unwrap();
        assert!(
            (2.0e10..=2.1e10).contains(&(ceiling / weight)),
            "{sql}: {ceiling} / {weight}"
        );
        let text = release.sql().unwrap();
        let columns = release.key_columns() + found.blocks.len();
        let whole = world.run(text, columns).await.unwrap();
        for unit in [HEAVY, 3] {
            world.without(unit).await;
            let rest = world.run(text, columns).await;
            world.back().await;
            look::within_blocks((release, found), &whole, &rest.unwrap())
                .unwrap_or_else(|fault| panic!("without {unit}: {fault}\n{text}"));
        }
    }
}
