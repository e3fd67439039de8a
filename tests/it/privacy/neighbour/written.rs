//! Emitted SQL: each expression is written once and computed once, in one zone, with values that
//! its types hold.

use pgveil::mechanism::Accounting;

use super::named::{all_run, world};

/// A row meets a branch's expression once, however often PostgreSQL copies an expression that is
/// written once.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_once_is_computed_once() {
    let world = world().await;
    let emitted = |sql: &str| {
        let plan = world
            .plan_under(sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        plan.releases()[0].sql().unwrap().to_owned()
    };
    // For items that are not constants, IN becomes one comparison for each, with a copy of the
    // subject.
    for listed in [
        "lower(tx) IN (kd, 'a')",
        "lower(tx) NOT IN (vc, kd)",
        "i4 = ANY (ARRAY[j4, 1])",
        "(i4 = 1) IN (j4 = 2, b)",
    ] {
        let sql = emitted(&format!("SELECT count(*) FROM people WHERE {listed}"));
        assert!(
            sql.contains("= ANY(ARRAY[") && !sql.contains(" IN ("),
            "{sql}"
        );
    }
    assert!(emitted("SELECT count(*) FROM people WHERE i4 IN (1, 2, 3)").contains(" IN ("));
    // Computed columns of the other side, of an arm, and next to a window that nothing reads.
    let heavy = "(SELECT id AS w, lower(tx) || 'x' AS h FROM people) d";
    let fenced = emitted(&format!(
        "SELECT count(*) FROM people a LEFT JOIN {heavy} ON d.w = a.id WHERE greatest(d.h, d.h) = \
            'x' OR d.h IS NULL"
    ));
    assert!(fenced.contains(" OFFSET 0) AS \"d"), "{fenced}");
    let arms = emitted(
        "SELECT count(*) FROM (SELECT id, lower(tx) || 'x' AS h FROM people UNION ALL SELECT id, \
            kd \
            FROM people) d WHERE greatest(h, h) = 'x'",
    );
    assert!(arms.contains(" OFFSET 0) UNION ALL SELECT "), "{arms}");
    // Conditions on keys of a group, and on what a window partitions by, are pushed below them.
    let key = "SELECT id, lower(tx) || 'x' AS k";
    for held in [
        format!(
            "SELECT count(*) FROM ({key}, count(*) AS n FROM people GROUP BY 1, 2) d WHERE k = 'a' \
                OR k = 'b'"
        ),
        format!(
            "SELECT count(*) FROM (SELECT DISTINCT id, k FROM ({key} FROM people) e) d WHERE k = \
                'a' OR k = 'b'"
        ),
        format!(
            "SELECT count(*) FROM (SELECT id, k, count(*) OVER (PARTITION BY id, k) AS n FROM \
                ({key} FROM people) e) d WHERE (k = 'a' OR k = 'b') AND n < 5"
        ),
    ] {
        let sql = emitted(&held);
        assert!(sql.contains(" OFFSET 0) AS \"d"), "{sql}");
    }
    // A large float under a guard, which mentions it three times; a small one is written where it
    // stands.
    let guarded = |value: &str| {
        emitted(&format!(
            "SELECT sum(least(greatest({value}, 0), 1)) FROM people"
        ))
    };
    let (large, small) = (
        guarded("(g8 * (f8 / (g8 + 0)) / (g8 * (g8 / f8)))"),
        guarded("f8"),
    );
    assert!(large.contains(" AS \"x\" OFFSET 0) AS \"once\""), "{large}");
    assert!(!small.contains("OFFSET"), "{small}");
    let plain = emitted(
        "SELECT count(*) FROM people a LEFT JOIN (SELECT id AS w, tx AS h FROM people) d ON d.w = \
            a.id WHERE d.h IS NULL",
    );
    assert!(!plain.contains(" OFFSET 0) AS \"d"), "{plain}");
}

/// Private rows are read in UTC.
#[tokio::test(flavor = "multi_thread")]
async fn zones_meet_in_utc_alone() {
    let world = world().await;
    for asked in [
        "SELECT count(*) FROM people WHERE tt = tz",
        "SELECT count(*) FROM people p WHERE tt IN (SELECT q.tz FROM people q WHERE q.id = p.id)",
        "SELECT count(*) FROM people p WHERE tt = ANY (SELECT q.tz FROM people q WHERE q.id = \
            p.id)",
        "SELECT count(*) FROM (SELECT id, tt AS x FROM people) a JOIN (SELECT id, tz AS x FROM \
            people) b USING (id, x)",
        "SELECT count(*) FROM (SELECT id, tt AS x FROM people) a NATURAL JOIN (SELECT id, tz AS x \
            FROM people) b",
        "SELECT count(*) FROM (SELECT tt AS x FROM people UNION ALL SELECT tz FROM people) u WHERE \
            x > '2000-01-03 00:00Z'",
        "SELECT count(*) FROM people WHERE coalesce(tt, tz) IS NULL",
    ] {
        all_run(&world, asked).await;
        let refusal = world.plan_elsewhere(asked).map(|_| ()).unwrap_err();
        assert!(refusal.contains("TimeZone is UTC"), "{asked}: {refusal}");
    }
}

/// Every scale of a numeric has a largest value.
#[tokio::test(flavor = "multi_thread")]
async fn numerics_of_any_scale_hold_what_they_are_clamped_to() {
    let world = world().await;
    for (precision, scale) in [(3, 0), (3, 3), (1, 1), (5, 2), (30, 30), (38, 20)] {
        for value in ["nn", "g8", "(nn * 1e30)", "(-g8 * 1e50::float8)"] {
            all_run(
                &world,
                &format!(
                    "SELECT count(*) FROM people WHERE \
                ({value})::numeric({precision}, {scale}) IS NULL"
                ),
            )
            .await;
        }
    }
}
