//! One unit's rows where joins, subqueries and windows multiply them: each side is bounded below
//! the join, and so is the time.

use pgveil::mechanism::Accounting;
use serde_json::Value;
use tokio_postgres::SimpleQueryMessage;

use super::bound::{nobody, unit_within};
use super::world::{HEAVY, World};

/// A unit of 400 visits and 400 items, of which the policy declares 5 and 6, and eight of one
/// each.
const ROWS: &str = "BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE w.people, \
    w.visits, w.items, w.rounds;
     INSERT INTO w.people (id, i4) SELECT g, g FROM generate_series(1, 9) g;
     INSERT INTO w.visits (id, person, i4, j4, ni, nn, tx, kd) SELECT g, 7, g % 50, g, g % 3, g / \
     7.0, 'k' || g % 40, 'a' FROM generate_series(1, 400) g;
     INSERT INTO w.visits (id, person, i4, j4, ni, nn, tx, kd) SELECT 1000 + g, g, 3, g, 1, 1.5, \
     'k', 'b' FROM generate_series(1, 9) g;
     INSERT INTO w.visits (id, person, i4, tx) SELECT 2000 + g, NULL, 40, 'k2' FROM \
     generate_series(1, 20) g;
     INSERT INTO w.items (visit, i4, j4) SELECT 1 + g % 3, 3, g FROM generate_series(1, 400) g; \
     COMMIT; ANALYZE";

/// Each statement, and the most rows of all units that its nodes above the bounds may make: 25 of
/// the heavy one and one of each other, say.
const MULTIPLYING: &[(&str, u64)] = &[
    (
        "SELECT count(*), sum(v.i4) FROM visits v JOIN visits w ON v.person = w.person",
        33,
    ),
    (
        "SELECT count(*) FROM visits v JOIN visits w ON v.person = w.person AND v.i4 < w.i4 JOIN \
        visits x ON x.person = w.person",
        133,
    ),
    (
        "SELECT count(w.id) FROM visits v LEFT JOIN visits w ON v.person = w.person AND w.ni > 0 \
            AND \
        v.j4 < w.j4 WHERE v.ni = 1",
        46,
    ),
    (
        "SELECT p.i4, count(*) FROM people p, visits v, visits w WHERE v.person = p.id AND \
            w.person \
            = \
        p.id GROUP BY p.i4",
        33,
    ),
    (
        "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.person = \
            v.person \
        AND w.nn + v.nn > 1000)",
        33,
    ),
    (
        "SELECT count(*) FROM visits v WHERE v.ni = 1 OR (v.person, v.i4 + 1000) IN (SELECT \
            w.person, \
        w.i4 FROM visits w)",
        33,
    ),
    (
        "SELECT count(*) FROM (SELECT person, i4 FROM visits UNION ALL SELECT person, j4 FROM \
            visits) v
            JOIN (SELECT person, j4 FROM visits UNION ALL SELECT person, i4 FROM visits) w ON \
            v.person = w.person",
        132,
    ),
    (
        "SELECT sum(least(n, 9)) FROM (SELECT v.person, count(*) AS n FROM visits v JOIN visits w \
            ON \
        v.person = w.person GROUP BY v.person) g",
        33,
    ),
    (
        "SELECT count(*) FROM people p WHERE (SELECT count(*) FROM visits v JOIN visits w ON \
            v.person \
        = w.person WHERE v.person = p.id) > 2",
        33,
    ),
    (
        "SELECT sum(least(r, 9)) FROM (SELECT row_number() OVER (PARTITION BY v.person ORDER BY \
            v.i4, w.i4) AS r FROM visits v JOIN visits w ON v.person = w.person) g",
        33,
    ),
    (
        "SELECT count(*) FROM items i JOIN visits v ON v.id = i.visit JOIN visits w ON w.person = \
        v.person",
        38,
    ),
    // A condition between b and a third table does not bound how many rows of b a row of a finds.
    (
        "SELECT count(*) FROM visits a, visits b, visits c WHERE a.person = b.person AND c.person \
            = \
        b.person AND b.id = c.j4 AND c.id = b.j4",
        70,
    ),
    (
        "SELECT sum(least(greatest(m, 0), 9)) FROM (SELECT max(j4) OVER (PARTITION BY person ORDER \
            BY i4 ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS m FROM visits) g",
        13,
    ),
];

/// The rows made by nodes above the bounded tables, by PostgreSQL's own count: the most of one
/// node, over all its loops.
async fn most_made(world: &World, sql: &str) -> u64 {
    let messages = world
        .client
        .simple_query(&format!("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}"))
        .await
        .unwrap();
    let text = messages.iter().find_map(|m| match m {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: Value = serde_json::from_str(text.unwrap()).unwrap();
    let mut most = 0;
    above_bounds(&plan[0]["Plan"], &mut most);
    most
}

/// Whether the node is a bound, or stands on one.
fn above_bounds(node: &Value, most: &mut u64) -> bool {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let text = |name: &str| node[name].as_str().unwrap_or("").to_owned();
    let is_bound = text("Node Type") == "Subquery Scan"
        && text("Alias").starts_with('d')
        && (text("Filter") + &text("Run Condition")).contains("place")
        || text("Run Condition").contains("row_number");
    let mut below = false;
    for child in node["Plans"].as_array().into_iter().flatten() {
        below |= above_bounds(child, most);
    }
    if is_bound || below {
        let removed = number("Rows Removed by Join Filter")
            + if is_bound {
                0.0
            } else {
                number("Rows Removed by Filter")
            };
        *most = (*most)
            .max(((number("Actual Rows") + removed) * number("Actual Loops")).round() as u64);
    }
    is_bound || below
}

#[tokio::test(flavor = "multi_thread")]
async fn each_side_of_what_multiplies_is_bounded() {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    for (sql, limit) in MULTIPLYING {
        let plan = world
            .plan_under(sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        let text = release.sql().unwrap();
        let whole = world.run(text, release.vector_keys()).await.unwrap();
        nobody(&world, release, text).await.unwrap();
        unit_within(&world, release, text, &whole, HEAVY)
            .await
            .unwrap();
        let made = most_made(&world, text).await;
        assert!(
            (1..=*limit).contains(&made),
            "{sql}: {made} rows made\n{text}"
        );
        let mutant = ["5", "6", "10"].iter().fold(text.to_owned(), |text, rows| {
            text.replace(&format!("\"place\" <= {rows})"), "\"place\" <= 4000)")
        });
        assert_ne!(mutant, text, "{sql}");
        let made = most_made(&world, &mutant).await;
        assert!(made > 300, "without its bound {sql} makes {made} rows");
    }
}

/// Joins along keys make no more rows than there are: no bound is added, and no query refused.
#[tokio::test(flavor = "multi_thread")]
async fn joins_along_keys_are_as_they_were() {
    let world = World::new().await;
    for (sql, rows) in [
        (
            "SELECT count(*) FROM people p JOIN visits v ON p.id = v.person",
            5,
        ),
        (
            "SELECT count(*) FROM people p JOIN visits v ON v.person = p.id JOIN items i ON \
                i.visit \
                = v.id",
            6,
        ),
        (
            "SELECT count(*) FROM visits v LEFT JOIN items i ON i.visit = v.id",
            11,
        ),
        (
            "SELECT count(*) FROM people p LEFT JOIN visits v ON v.person = p.id AND v.ni > 0",
            5,
        ),
        (
            "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person = \
                p.id AND v.i4 > p.i4)",
            1,
        ),
        (
            "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM items i WHERE i.visit = \
                v.id \
                AND i.i4 > v.i4)",
            5,
        ),
        (
            "SELECT count(*) FROM rounds a JOIN rounds b ON a.person = b.person AND a.kd = b.kd",
            5,
        ),
        (
            "SELECT count(*) FROM (SELECT person, max(i4) AS m FROM visits GROUP BY person) a JOIN \
                visits b ON a.person = b.person AND a.m = b.i4",
            5,
        ),
        (
            "SELECT count(*) FROM (SELECT min(i4) OVER (PARTITION BY person ORDER BY i4 ROWS 3 \
                PRECEDING) AS m FROM visits) q WHERE m > 1",
            5,
        ),
    ] {
        let plan = world
            .plan_under(sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        assert!(
            !release.sql().unwrap().contains("\"place\""),
            "{sql}\n{}",
            release.sql().unwrap()
        );
        let reported = release.description().join("\n");
        let expected = if rows == 1 {
            "Rows: one per person".to_owned()
        } else {
            format!("at most {rows} per person")
        };
        assert!(reported.contains(&expected), "{sql}\n{reported}");
    }
}

/// The cost of each joined row counts for all joined rows that a unit may have.
#[tokio::test(flavor = "multi_thread")]
async fn what_joins_make_of_a_unit_is_weighed() {
    let world = World::new().await;
    let tables = |count: usize| {
        (1..count)
            .map(|at| format!(" JOIN visits v{at} ON v{at}.person = v0.person"))
            .collect::<String>()
    };
    let refused = |sql: &str| world.plan_under(sql, Accounting::Gdp, 1.0).err();
    assert_eq!(
        refused(&format!("SELECT count(*) FROM visits v0{}", tables(3))),
        None
    );
    let expensive = "md5(lpad(v0.tx || v1.tx, 4000, 'x')) <> 'x'";
    for sql in [
        format!("SELECT count(*) FROM visits v0{}", tables(9)),
        format!(
            "SELECT count(*) FROM people p JOIN visits v0 ON v0.person = p.id{} WHERE p.i4 >= \
            20",
            tables(9)
        ),
        format!(
            "SELECT count(*) FROM visits v0{} WHERE {}",
            tables(3),
            vec![expensive; 30].join(" OR ")
        ),
        format!(
            "SELECT sum(least(n, 5)) FROM (SELECT v0.person, count(*) AS n FROM visits v0{} \
            GROUP BY v0.person) g",
            tables(9)
        ),
        format!(
            "SELECT count(*) FROM people p WHERE (SELECT count(*) FROM visits v0{} WHERE \
            v0.person = p.id) > 2",
            tables(9)
        ),
        format!(
            "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v0{} WHERE \
            v0.person = p.id AND v0.i4 > p.i4)",
            tables(9)
        ),
        format!(
            "SELECT count(*) FROM visits v0{} WHERE EXISTS (SELECT 1 FROM visits b WHERE b.person \
                = \
                v0.person AND b.i4 > v1.i4
                AND EXISTS (SELECT 1 FROM visits c WHERE c.person = b.person AND c.i4 > v2.i4 + \
                b.i4))",
            tables(5)
        ),
    ] {
        let refusal = refused(&sql).unwrap_or_else(|| panic!("planned: {sql}"));
        assert!(
            refusal.contains("54001")
                && refusal.contains(
                    "the rows of one person, joined with \
            each other"
                ),
            "{sql}\n{refusal}"
        );
    }
}

/// An equality in every arm of an OR finds public rows like one outside it; an equality in some
/// arms finds none.
#[tokio::test(flavor = "multi_thread")]
async fn equalities_of_every_arm_join() {
    let world = World::new().await;
    let found = |condition: &str, tables: &str| {
        let sql = format!("SELECT count(*) FROM {tables} WHERE {condition}");
        let plan = world
            .plan_under(&sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        (release.fan_outs().len(), release.facts().rows_per_unit)
    };
    let arms = "(t.code = v.town AND t.weight = 1 AND v.i4 > 3) OR (v.town = t.code AND (t.weight \
        = \
        3 OR v.i4 = 9))";
    assert_eq!(found(arms, "visits v, towns t"), (0, 5));
    assert_eq!(
        found(
            &format!("{arms} OR (v.ni = 1 AND v.town = t.code)"),
            "visits v, towns t"
        ),
        (0, 5)
    );
    assert_eq!(
        found(&format!("{arms} OR v.ni = 1"), "visits v, towns t"),
        (1, 8)
    );
    assert_eq!(
        found(
            &format!("EXISTS (SELECT 1 FROM towns t WHERE {arms})"),
            "visits v"
        ),
        (0, 5)
    );
    assert_eq!(
        found(
            &format!("EXISTS (SELECT 1 FROM towns t WHERE {arms} OR v.ni = 1)"),
            "visits v"
        ),
        (1, 5)
    );
}

/// A join is judged by the comparisons of its two sides, in an order that ties each table to
/// those before it.
#[tokio::test(flavor = "multi_thread")]
async fn columns_of_a_third_relation_find_no_rows() {
    let world = World::new().await;
    let of = |tables: &str, condition: &str| {
        let sql = format!("SELECT count(*) FROM {tables} WHERE {condition}");
        let plan = world
            .plan_under(&sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        (
            release
                .fan_outs()
                .iter()
                .map(|fanout| fanout.0.len())
                .sum::<usize>(),
            release.facts().rows_per_unit,
        )
    };
    assert_eq!(
        of(
            "people p, rounds a, rounds b",
            "a.person = p.id AND b.person = p.id AND a.kd = b.kd"
        ),
        (0, 5)
    );
    // Rows of a public table that only another public table picks meet all private ones.
    assert_eq!(of("visits v, towns t, towns u", "t.code = u.code"), (1, 8));
    assert_eq!(of("towns t, notes n, visits v", "t.code = v.town"), (1, 8));
    assert_eq!(
        of(
            "visits v JOIN (towns t CROSS JOIN notes n) ON t.code = v.town",
            "n.remark > 1"
        ),
        (1, 8)
    );
    assert_eq!(
        of(
            "(SELECT t.code AS c FROM towns t, notes n) d, visits v",
            "d.c = v.town"
        ),
        (1, 8)
    );
    assert_eq!(
        of(
            "visits v",
            "EXISTS (SELECT 1 FROM towns t, notes n WHERE t.code = v.town AND n.remark > v.i4)"
        ),
        (1, 5)
    );
    // Whichever is named first.
    assert_eq!(
        of(
            "visits v, towns t, towns u",
            "v.town = u.code AND u.region = t.code"
        ),
        (0, 5)
    );
    assert_eq!(
        of(
            "towns t, visits v, towns u",
            "v.town = u.code AND u.region = t.code"
        ),
        (0, 5)
    );
    assert_eq!(
        of(
            "people p, items i, visits v",
            "v.person = p.id AND i.visit = v.id"
        ),
        (0, 6)
    );
    // How many codes give one value is unknown, so all count.
    assert_eq!(
        of(
            "visits v JOIN (SELECT t.code || 'x' AS c FROM towns t) d ON d.c = v.town",
            "v.i4 > 1"
        ),
        (1, 8)
    );
    assert_eq!(
        of(
            "visits v",
            "EXISTS (SELECT 1 FROM towns t, notes n WHERE t.code = v.town AND n.code = t.region)"
        ),
        (1, 5)
    );
    // Equal numerics may be printed in two ways, and so find two rows by their texts.
    let by_text = |column: &str| {
        let read = format!(
            "SELECT a.person AS who, a.{column} AS x FROM visits a JOIN rounds b ON b.person = \
                a.person AND a.id = b.j4 AND b.kd = a.{column}::text"
        );
        of(
            &format!("people p JOIN ({read}) s ON s.who = p.id AND s.x = p.{column}"),
            "p.b",
        )
    };
    assert_eq!((by_text("i4"), by_text("nn")), ((0, 1), (0, 5)));
}
