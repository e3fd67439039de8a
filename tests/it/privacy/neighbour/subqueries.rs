//! Subqueries in conditions: random ones for the harness, and those that must be refused.

use pgveil::mechanism::Accounting;

use super::bound::{nobody, unit_within};
use super::random::Random;
use super::world::{HEAVY, World};

/// A condition with a subquery, over rows of `alias` whose unit is the column `unit`.
pub fn membership(random: &mut Random, alias: &str, unit: &str) -> String {
    let condition = random.pick(&[
        "{U} IN (SELECT x.person FROM visits x WHERE x.ni > 0)",
        "{U} NOT IN (SELECT x.person FROM visits x WHERE x.i4 > 3)",
        "EXISTS (SELECT 1 FROM visits x WHERE x.person = {U} AND x.ni < A.ni)",
        "NOT EXISTS (SELECT * FROM items x JOIN visits y ON x.visit = y.id WHERE y.person = {U} \
            AND \
            x.nn > A.nn)",
        "{U} = ANY (SELECT x.person FROM visits x GROUP BY x.person HAVING count(*) > 2)",
        "{U} <> ALL (SELECT x.id FROM people x WHERE x.b)",
        "A.kd IN (SELECT t.code FROM towns t)",
        "A.tx NOT IN (SELECT t.code FROM towns t WHERE t.weight > 1)",
        "EXISTS (SELECT 1 FROM notes n WHERE n.remark > A.ni AND n.code = A.vc)",
        "(SELECT count(*) FROM visits x WHERE x.person = {U}) > 2",
        "(SELECT max(x.ni) FROM visits x WHERE x.person = {U} AND x.kd = A.kd) >= A.ni",
        "(SELECT t.weight FROM towns t WHERE t.code = A.vc) > 0",
        "(SELECT sum(x.f8) FROM visits x WHERE {U} = x.person AND x.i4 > 2) > A.g8",
        "(SELECT coalesce(sum(n.remark), 7) FROM notes n WHERE n.code = A.kd) > A.i4",
        "NOT ({U} IN (SELECT x.person FROM visits x WHERE EXISTS (SELECT 1 FROM items y WHERE \
            y.visit = x.id AND y.i4 > A.i4)))",
        "EXISTS (SELECT 1 FROM visits x WHERE x.person = {U} AND x.nn > (SELECT avg(y.nn) FROM \
            visits y WHERE y.person = x.person))",
        "EXISTS (SELECT 1 FROM visits x WHERE x.person = {U} AND x.i4 > 1 GROUP BY x.kd, x.tx \
            HAVING count(*) > 1)",
        "A.ni NOT IN (SELECT count(*) FROM visits x WHERE x.person = {U} GROUP BY x.kd)",
        "({U}, A.ni) IN (SELECT x.person, x.ni FROM visits x)",
        "({U}, A.ni) NOT IN (SELECT x.person, x.ni FROM visits x WHERE x.b)",
        "A.ni < (SELECT count(*) FROM visits x WHERE x.kd = A.kd)",
        "A.ni < (SELECT count(*) FROM visits x WHERE x.kd = A.kd AND x.b) - 2",
        "A.i4 = ANY (SELECT t.weight FROM towns t WHERE t.weight > 1)",
        "CASE WHEN {U} IN (SELECT x.person FROM visits x WHERE x.b) THEN A.ni ELSE 0 END > 0",
    ]);
    condition
        .replace("{U}", unit)
        .replace("A.", &format!("{alias}."))
}

const UNTIED: &[&str] = &[
    "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.i4 = p.i4)",
    "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person = p.id OR \
        v.b)",
    "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person = p.id + 0)",
    "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person::bigint = \
        p.id)",
    "SELECT count(*) FROM people p WHERE p.i4 IN (SELECT v.i4 FROM visits v)",
    "SELECT count(*) FROM people p WHERE p.tx NOT IN (SELECT v.tx FROM visits v WHERE v.person = \
        p.id)",
    "SELECT count(*) FROM people p WHERE p.i4 > (SELECT max(v.i4) FROM visits v WHERE v.person < \
        p.id)",
    "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM towns t WHERE EXISTS (SELECT 1 FROM \
        visits v WHERE v.town = t.code))",
    "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits a JOIN visits b ON a.i4 = \
        b.i4 WHERE a.person = p.id)",
    // The person of a visit that may be missing is not the unit.
    "SELECT count(*) FROM people p LEFT JOIN visits v ON v.person = p.id WHERE EXISTS (SELECT 1 \
        FROM items i JOIN visits w ON i.visit = w.id WHERE w.person = v.person)",
];

#[tokio::test(flavor = "multi_thread")]
async fn subqueries_are_tied_to_the_unit() {
    let world = World::new().await;
    for sql in UNTIED {
        let planned = world.plan_under(sql, Accounting::Gdp, 1.0);
        assert!(planned.is_err(), "planned: {sql}");
        assert!(!planned.unwrap_err().contains("XX000"), "{sql}");
    }
}

/// Subqueries in derived columns, whose path's row the question reads itself further up.
const DERIVED: &[&str] = &[
    "SELECT count(*), sum(least(i.n, 5)) FROM (SELECT visit, CASE WHEN visit IN (SELECT id FROM \
        visits WHERE ni > 0) THEN i4 ELSE 1 END AS n FROM items) i JOIN visits v ON v.id = i.visit",
    "SELECT count(*), count(x.visit) FROM visits v LEFT JOIN (SELECT visit FROM items WHERE visit \
        IN (SELECT id FROM visits WHERE ni > 0)) x ON x.visit = v.id",
    "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM (SELECT visit, visit IN (SELECT id \
        FROM visits WHERE ni > 0) AS f FROM items) i WHERE i.visit = v.id AND f)",
    "SELECT count(*), count(x.visit) FROM visits v LEFT JOIN (SELECT visit, visit NOT IN (SELECT \
        id FROM visits WHERE ni > 0) AS f FROM items) x ON x.visit = v.id AND x.f",
];

#[tokio::test(flavor = "multi_thread")]
async fn derived_subqueries_read_rows_that_are_there() {
    let world = World::new().await;
    let mut random = Random::new(7);
    for _ in 0..3 {
        world.fill(&mut random, false).await;
        for sql in DERIVED {
            let plan = world
                .plan_under(sql, Accounting::Gdp, 1.0)
                .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
            let release = &plan.releases()[0];
            let text = release.sql().unwrap();
            let whole = world.run(text, 0).await.unwrap();
            nobody(&world, release, text).await.unwrap();
            for unit in [1, 3, HEAVY] {
                unit_within(&world, release, text, &whole, unit)
                    .await
                    .unwrap();
            }
        }
    }
}

/// A NULL on one person's row must not decide about everybody's.
#[tokio::test(flavor = "multi_thread")]
async fn not_in_reads_no_null() {
    let world = World::new().await;
    let rows =
        "BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO w.people (id, i4) \
        SELECT g, g FROM generate_series(1, 9) g;
         INSERT INTO w.visits (id, person, i4) SELECT g, g % 5, g FROM generate_series(1, 20) g; \
         INSERT INTO w.visits (id, person) VALUES (99, NULL); COMMIT";
    world.client.batch_execute(rows).await.unwrap();
    for (sql, expected) in [
        (
            "SELECT count(*) FROM people WHERE id NOT IN (SELECT person FROM visits)",
            "5",
        ),
        (
            "SELECT count(*) FROM people p WHERE p.id <> ALL (SELECT person FROM visits v WHERE \
                v.i4 > 17)",
            "7",
        ),
        (
            "SELECT count(*) FROM people p WHERE NOT p.id IN (SELECT person FROM visits GROUP BY \
                person HAVING count(*) > 90)",
            "9",
        ),
    ] {
        let plan = world
            .plan_under(sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        let text = release.sql().unwrap();
        let whole = world.run(text, 0).await.unwrap();
        assert_eq!(whole[&Vec::new()][0].to_string(), expected, "{sql}\n{text}");
        nobody(&world, release, text).await.unwrap();
        unit_within(&world, release, text, &whole, 3).await.unwrap();
    }
    for sql in [
        "SELECT count(*) FROM people p WHERE p.id NOT IN (SELECT v.person FROM people a LEFT JOIN \
            visits v ON a.id = v.person)",
        "SELECT count(*) FROM people p WHERE p.id NOT IN (SELECT CASE WHEN v.person = 4 THEN NULL \
            ELSE v.person END FROM visits v)",
    ] {
        assert!(
            world.plan_under(sql, Accounting::Gdp, 1.0).is_err(),
            "planned: {sql}"
        );
    }
}
