//! The adversary's tests by name, for constructs that are accepted or must be refused.

use pgveil::mechanism::Accounting;
use pgveil::rewrite::{Coordinate, ReleasePlan};

use super::bound::{nobody, unit_within};
use super::choices;
use super::random::{Random, seeds};
use super::world::{Groups, World};

pub async fn world() -> World {
    let world = World::new().await;
    let rows = "BEGIN; SET LOCAL session_replication_role = replica;
         INSERT INTO w.people (id, s2, i4, j4, j8, nn, g8, tx, dd) SELECT g, g, g, g, g, 1.5, 0, \
         'abc', '2000-01-01' FROM generate_series(1, 30) g;
         UPDATE w.people SET nn = 1.50000000000, g8 = '-0', tx = 'abcd' WHERE id = 8;
         UPDATE w.people SET s2 = -32768, j4 = -2147483648, j8 = -9223372036854775808, nn = \
         '1e-400', dd = 'infinity', g8 = 1e-200 WHERE id = 9;
         INSERT INTO w.visits (id, person, town, i4, tx) SELECT g, 1 + g % 12, 'x', g, 'k' FROM \
         generate_series(1, 40) g; COMMIT;";
    world.client.batch_execute(rows).await.unwrap();
    world
}

/// The groups of the first release; no SQL error on the way.
async fn groups(world: &World, sql: &str) -> Groups {
    let plan = world
        .plan_under(sql, Accounting::Gdp, 1.0)
        .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
    let release = &plan.releases()[0];
    world
        .run(release.sql().unwrap(), release.vector_keys())
        .await
        .unwrap_or_else(|fault| panic!("{sql}\n{fault}"))
}

/// No statement of any release is an error, nor answers with anything but integers.
pub async fn all_run(world: &World, sql: &str) {
    let plan = world
        .plan_under(sql, Accounting::Gdp, 1.0)
        .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
    for release in plan.releases() {
        let parts = release
            .choices()
            .iter()
            .map(|part| (part.sql(), choices::keys(release, part)));
        for (text, keys) in parts.chain(release.sql().map(|text| (text, release.vector_keys()))) {
            let found = world.run(text, keys).await;
            assert!(found.is_ok(), "{sql}\n{found:?}");
        }
    }
}

fn refused(world: &World, sql: &str) {
    if let Ok(plan) = world.plan_under(sql, Accounting::Gdp, 1.0) {
        panic!(
            "planned: {sql}\n{:?}",
            plan.releases().iter().map(|r| r.sql()).collect::<Vec<_>>()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_spelling_is_canonical() {
    let world = world().await;
    for (column, spelling) in [("nn", "1.5"), ("g8", "0")] {
        let found = groups(
            &world,
            &format!("SELECT {column}, count(*) FROM people WHERE nn > 1 GROUP BY 1"),
        )
        .await;
        assert_eq!(
            found
                .keys()
                .flatten()
                .map(|k| k.as_deref())
                .collect::<Vec<_>>(),
            [Some(spelling)]
        );
    }
}

/// Every summand is an integer, whatever the row's value: a fraction would stand out from all other
/// answers.
#[tokio::test(flavor = "multi_thread")]
async fn integers_stay_integers() {
    let world = world().await;
    let excluded = |value: &str| {
        format!(
            "CASE WHEN {value} < CASE WHEN id = 3 THEN NULL ELSE 4.5 END THEN NULL ELSE {value} END"
        )
    };
    let divided = "CASE WHEN id = 3 THEN LEAST(GREATEST(9223372036854775807 / (i4::int8 * \
        100000000000000000), 0), 100) ELSE 5::int8 END"
        .to_owned();
    let halved =
        "LEAST(GREATEST((9223372036854775807 - j8 % 3) / (2 + abs(i4 % 2)), 0), 7)".to_owned();
    let turned =
        "CASE WHEN NOT (i4+0 >= CASE WHEN id = 3 THEN NULL ELSE 4.5 END) THEN 1 WHEN (i4+0 < \
            nullif(4.5, id + 1.5)) IS TRUE THEN 2 ELSE i4+0 END"
            .to_owned();
    for value in [
        excluded("i4+0"),
        excluded("i4::int8+0"),
        divided,
        halved,
        turned,
    ] {
        for aggregate in [
            "sum(*)",
            "avg(*)",
            "stddev(*)",
            "sum(DISTINCT *)",
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY *)",
        ] {
            let sql = format!("SELECT {} FROM people", aggregate.replace('*', &value));
            all_run(&world, &sql).await;
        }
    }
}

/// The grid of a float is coarse if a branch reaches far, even one that no row takes. Small
/// values on it become zero, so no row underflows.
#[tokio::test(flavor = "multi_thread")]
async fn sums_reach_no_end_of_float8() {
    let world = world().await;
    let small = format!("1::float8 * 0.{}1", "0".repeat(49));
    for (small, large) in [
        (small.as_str(), "exp(i4::float8 * 14)"),
        (small.as_str(), "power(10::float8, i4 * 6)"),
        (
            "1e-50::float8 * 1e-45::float8",
            "exp(i4::float8 * 7) * exp(i4::float8 * 6)",
        ),
    ] {
        for aggregate in [
            "sum(*)",
            "avg(*)",
            "variance(*)",
            "sum(DISTINCT *)",
            "max(*)",
        ] {
            let value =
                format!("CASE WHEN id = 3 THEN {small} WHEN id < 0 THEN {large} ELSE 0 END");
            let sql = format!("SELECT {} FROM people", aggregate.replace('*', &value));
            all_run(&world, &sql).await;
        }
    }
}

/// A value of many decimals is cut before it is computed with, also as the result of a step within
/// a unit.
#[tokio::test(flavor = "multi_thread")]
async fn long_numerics_are_cut() {
    let world = world().await;
    for (sql, cut) in [
        (
            "SELECT count(*) FILTER (WHERE ln(nn) > 1) FROM people",
            "round(\"t0\".\"nn\", 60)",
        ),
        (
            "SELECT count(*) FILTER (WHERE na[1] * na[2] > 1) FROM extras",
            "round((\"t0\".\"na\")[2], 60)",
        ),
        (
            "SELECT count(*) FILTER (WHERE dn * 3 > 1) FROM extras",
            "round(\"t0\".\"dn\", 60)",
        ),
        (
            "SELECT count(*) FILTER (WHERE y * y > 1) FROM (SELECT lag(nn) OVER (PARTITION BY id \
                ORDER BY s2) AS y FROM people) q",
            "round(\"d0\".\"c",
        ),
        (
            "SELECT count(*) FILTER (WHERE y * y > 1) FROM (SELECT id, max(nn * nn) AS y FROM \
                people GROUP BY id) q",
            "round(\"d0\".\"c",
        ),
        (
            "SELECT count(*) FILTER (WHERE p.id * q.y > 1) FROM people p LEFT JOIN (SELECT id, nn \
                * \
                nn AS y FROM people) q ON p.id = q.id",
            "round(\"d0\".\"c",
        ),
    ] {
        let plan = world
            .plan_under(sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let text = plan.releases()[0].sql().unwrap();
        assert!(text.contains(cut), "{sql}\n{text}");
        groups(&world, sql).await;
    }
    let factors = vec!["least(1, nn / 7000)"; 64].join(" * ");
    refused(
        &world,
        &format!(
            "SELECT count(*) FILTER (WHERE {} > 9) FROM people",
            vec![format!("log({factors})"); 20].join(" + ")
        ),
    );
    let letters: String = (0..200).filter_map(|n| char::from_u32(0x400 + n)).collect();
    refused(
        &world,
        &format!(
            "SELECT count(*) FILTER (WHERE tx ~ '{letters}|{}') FROM people",
            "\\w{0,99}".repeat(7)
        ),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_do_not_merge_units() {
    // person and id are bounded by 1 and 5 in the policy: clamped in a join, units 6 to 30 were
    // one.
    let world = world().await;
    for sql in [
        "SELECT count(*) FROM people p JOIN visits v ON p.id = v.person",
        "SELECT count(*) FROM visits v JOIN visits w ON v.person = w.person",
    ] {
        let plan = world.plan_under(sql, Accounting::Gdp, 1.0).unwrap();
        let release = &plan.releases()[0];
        let text = release.sql().unwrap();
        let whole = world.run(text, 0).await.unwrap();
        nobody(&world, release, text).await.unwrap();
        unit_within(&world, release, text, &whole, 7).await.unwrap();
    }
}

/// Under Laplace noise a sum and its count are distances from both ends: half the length, and as
/// exact a bound. One of them from the wrong end, or not clipped, is caught.
#[tokio::test(flavor = "multi_thread")]
async fn turned_pairs_are_half_as_long() {
    let world = world().await;
    world
        .client
        .batch_execute("UPDATE w.visits SET i4 = 1000 * (1 - 2 * (id % 2)) WHERE person = 8")
        .await
        .unwrap();
    let share = |release: &ReleasePlan| {
        release
            .coordinates()
            .iter()
            .filter(|c| matches!(c, Coordinate::DistanceFromEnd { .. }))
            .count()
    };
    for (sql, end) in [
        ("SELECT count(*), avg(ni) FROM people", "(3 - "),
        (
            "SELECT kd, sum(i4), avg(i4), avg(j4) FILTER (WHERE b) FROM visits WHERE j4 BETWEEN 1 \
                AND 9 GROUP BY kd",
            "(50 - ",
        ),
    ] {
        let plain = world.plan_under(sql, Accounting::Zcdp, 1.0).unwrap();
        let plan = world.plan_under(sql, Accounting::Pure, 1.0).unwrap();
        let release = &plan.releases()[0];
        assert!(
            share(release) >= 2 && share(release) % 2 == 0,
            "{sql}: {:?}",
            release.coordinates()
        );
        assert_eq!(
            plain.releases()[0].question(),
            release.question(),
            "the mechanism makes no new question"
        );
        let text = release.sql().unwrap();
        let whole = world.run(text, release.vector_keys()).await.unwrap();
        nobody(&world, release, text).await.unwrap();
        unit_within(&world, release, text, &whole, 7).await.unwrap();
        let mutant = text.replace(end, "(5000 - ");
        assert_ne!(mutant, text);
        if release.price().unwrap().within_clip {
            let moved = world.run(&mutant, release.vector_keys()).await.unwrap();
            assert!(
                unit_within(&world, release, &mutant, &moved, 7)
                    .await
                    .is_err(),
                "a wrong end survives"
            );
        }
    }
    let squares = world
        .plan_under(
            "SELECT count(*), avg(ni), stddev(ni) FROM people",
            Accounting::Pure,
            1.0,
        )
        .unwrap();
    assert_eq!(
        share(&squares.releases()[0]),
        0,
        "with squares a rotation would cost more"
    );
}

/// A unit of few rows in four groups: its presence is one, shared; a whole one in each of them, or
/// one that is shared by two, is caught.
#[tokio::test(flavor = "multi_thread")]
async fn presences_are_shared_among_groups() {
    let world = world().await;
    let rows = "DELETE FROM w.visits WHERE person = 7; INSERT INTO w.visits (id, person, i4, tx) \
        SELECT 900 + g, 7, 1, 'k' || g FROM generate_series(1, 4) g";
    world.client.batch_execute(rows).await.unwrap();
    for sql in [
        "SELECT tx, count(*) FROM visits GROUP BY tx",
        "SELECT tx, sum(i4) FROM visits GROUP BY ROLLUP (tx)",
    ] {
        let plan = world.plan_under(sql, Accounting::Zcdp, 0.1).unwrap();
        let release = &plan.releases()[0];
        let text = release.sql().unwrap();
        let caught = async |text: &str| {
            let whole = world.run(text, release.vector_keys()).await.unwrap();
            unit_within(&world, release, text, &whole, 7).await.is_err()
        };
        assert!(!caught(text).await, "the original is caught: {text}");
        for less in ["1", "2"] {
            let mutant = text.replace("least(\"t\", 4)", &format!("least(\"t\", {less})"));
            assert_ne!(mutant, text);
            assert!(
                caught(&mutant).await,
                "a presence shared by {less} survives: {mutant}"
            );
        }
    }
    // One that is shown counts a unit as one everywhere.
    let shown = world
        .plan_under(
            "SELECT tx, count(DISTINCT person) FROM visits GROUP BY tx",
            Accounting::Gdp,
            1.0,
        )
        .unwrap();
    assert!(
        !shown.releases()[0]
            .coordinates()
            .contains(&Coordinate::Presence)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn int_min_div() {
    let world = world().await;
    for expression in [
        "s2 / (-1)::smallint",
        "j4 / (-1)",
        "j8 / (-1)",
        "j4 % (-1)",
        "j8 % (0 - 1)",
        "- j8",
        "abs(j8)",
        "abs(j4)",
        "- s2",
        "j8 / (i4 - i4 - 1)",
        "j8 - 1",
    ] {
        groups(&world, &format!("SELECT count({expression}) FROM people")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn float_underflow() {
    let world = world().await;
    for expression in [
        "g8 * g8",
        "g8 / 1e50::float8",
        "nn::float8",
        "nn > 0.5::float8",
        "least(greatest(nn::float8, -1), 1)",
    ] {
        groups(
            &world,
            &format!("SELECT count(*) FROM people WHERE ({expression}) IS NOT NULL"),
        )
        .await;
    }
    groups(
        &world,
        "SELECT sum(least(greatest(g8, '-1e50'::float8), '1e50'::float8)) FROM people",
    )
    .await;
    // A divisor that is flushed to zero is no constant that cannot be zero.
    let tiny = format!("'0.{}1e-60'::float8", "0".repeat(58));
    for divided in [
        format!("g8 / {tiny}"),
        format!("f8 / {tiny}"),
        format!("1 / (g8 * {tiny})"),
    ] {
        all_run(
            &world,
            &format!(
                "SELECT count(*) FROM people WHERE CASE WHEN i4 = 1 THEN \
            {divided} \
            > 3 ELSE true END"
            ),
        )
        .await;
        all_run(
            &world,
            &format!("SELECT sum(least(greatest({divided}, -9), 9)) FROM people"),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn implicit_cast_is_a_node() {
    let world = world().await;
    let sql = "SELECT count(*) FROM people WHERE nn > 1.5::float8 OR nn = g8 OR j8 = nn OR dd >= \
        timestamp '2000-01-01 00:00:00'";
    groups(&world, sql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn like_trailing_escape() {
    let world = world().await;
    for pattern in ["E'abc\\\\'", "'abc\\'", "'abc' ESCAPE 'c'", "tx"] {
        refused(
            &world,
            &format!("SELECT count(*) FROM people WHERE tx LIKE {pattern}"),
        );
        refused(
            &world,
            &format!("SELECT count(*) FROM people WHERE tx ILIKE {pattern}"),
        );
    }
    groups(
        &world,
        "SELECT count(*) FROM people WHERE tx LIKE 'abc\\\\'",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_under_a_loose_collation() {
    let world = world().await;
    world
        .client
        .batch_execute("ALTER TABLE w.people ALTER tx TYPE text COLLATE w.loose")
        .await
        .unwrap();
    for condition in ["tx LIKE 'a%'", "tx ILIKE 'a%'", "position('b' IN tx) > 0"] {
        groups(
            &world,
            &format!("SELECT count(*) FROM people WHERE {condition}"),
        )
        .await;
    }
}

/// If a loose collation takes values for equal, a group would show the spelling of the first row:
/// public values too.
#[tokio::test(flavor = "multi_thread")]
async fn spellings_of_public_values() {
    let mut world = world().await;
    let towns = world
        .policy
        .tables
        .iter_mut()
        .find(|table| table.name == "towns")
        .unwrap();
    towns
        .columns
        .iter_mut()
        .find(|column| column.name == "region")
        .unwrap()
        .deterministic_collation = false;
    let joined = "FROM visits v JOIN towns t ON v.town = t.code";
    for key in [
        "t.region",
        "coalesce(t.region, 'none')",
        "left(t.region, 3)",
    ] {
        refused(
            &world,
            &format!("SELECT {key}, count(*) {joined} GROUP BY 1"),
        );
        refused(&world, &format!("SELECT count(DISTINCT {key}) {joined}"));
        refused(
            &world,
            &format!("SELECT mode() WITHIN GROUP (ORDER BY {key}) {joined}"),
        );
    }
    groups(
        &world,
        &format!(
            "SELECT CASE WHEN t.region = 'north' THEN 'n' ELSE 's' END, count(*) \
        {joined} GROUP BY 1"
        ),
    )
    .await;
}

/// A constant next to a column of a declared length has its own length.
#[tokio::test(flavor = "multi_thread")]
async fn long_constants_are_cut() {
    let world = world().await;
    let long = "x".repeat(300_000);
    for value in [
        format!("coalesce(vc, '{long}')"),
        format!("CASE WHEN id = 3 THEN varchar(3) '{long}' END"),
        format!("CASE WHEN b THEN vc ELSE '{long}' END"),
    ] {
        groups(
            &world,
            &format!(
                "SELECT count(*) FILTER (WHERE length(repeat(repeat(repeat(c, 16), 16), 16)) \
                > \
                5) FROM (SELECT {value} AS c FROM people) q"
            ),
        )
        .await;
    }
}

/// The claimed range of a value holds for PostgreSQL's result to the last bit: an operator that
/// trusts a range one too small would fail on a chosen row.
#[tokio::test(flavor = "multi_thread")]
async fn claimed_ranges_hold_to_the_last_bit() {
    let world = world().await;
    world
        .client
        .batch_execute("UPDATE w.people SET tt = 'infinity' WHERE id = 9")
        .await
        .unwrap();
    let days = "- date '2000-01-01') + 2144561708";
    for expression in [
        // Half a float is even as an integer.
        "2147483647 + (1 - greatest(g8, 0.5::float8)::int)".to_owned(),
        "2147483647 - least(g8, (-0.5)::float8)::int - 1".to_owned(),
        // The first instant of the year 10000.
        format!("((greatest(tt, timestamp '9999-12-31 00:00:00') + interval '1 day')::date {days}"),
        format!("(tt::date {days}"),
    ] {
        groups(
            &world,
            &format!(
                "SELECT count(*) FROM people WHERE CASE WHEN id >= 7 THEN \
            {expression} > 0 ELSE true END"
            ),
        )
        .await;
    }
}

/// A column that reads another twice doubles it: refused before anything is written out.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_do_not_grow_without_end() {
    let world = world().await;
    for (first, next) in [
        ("j4", "a * a"),
        ("(j4 = ni)::int", "(a IS NULL)::int + (a = 1)::int"),
        ("tx", "coalesce(a || a, a)"),
        ("num_nulls(tx)", "num_nulls(a, a) + a"),
    ] {
        let nested = |levels: usize| {
            (0..levels).fold(format!("SELECT id, {first} AS a FROM people"), |q, at| {
                format!("SELECT id, {next} AS a FROM ({q}) q{at}")
            })
        };
        for place in [
            "SELECT count(a)",
            "SELECT count(*) FILTER (WHERE a IS NOT NULL)",
            "SELECT a, count(*)",
        ] {
            let end = if place.ends_with("count(*)") {
                " GROUP BY 1"
            } else {
                ""
            };
            groups(&world, &format!("{place} FROM ({}) q{end}", nested(1))).await;
            let refusal = world
                .plan_under(
                    &format!("{place} FROM ({}) q{end}", nested(40)),
                    Accounting::Gdp,
                    1.0,
                )
                .unwrap_err();
            assert!(refusal.contains("54001"), "{refusal}");
        }
    }
}

/// PostgreSQL compiles every accepted pattern: another one would fail at the first row that meets
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn patterns_that_pass_compile() {
    const PIECES: &str = concat!(
        r"a b z - - [ [ ] ] ^ $ . * + ? ( ) | (?: {2} {1,} {0,3} { } \d \w \- \] ",
        r"[:alpha:] [[:digit:] [a-z 9 % _ \ : , é"
    );
    let pieces: Vec<&str> = PIECES.split(' ').collect();
    let world = world().await;
    let mut random = Random::new(seeds()[0]);
    let mut passed = 0;
    for at in 0..6000 {
        let pattern: String = (0..1 + random.below(8))
            .map(|_| random.pick(&pieces))
            .collect();
        let operator = ["~", "~*", "SIMILAR TO"][at % 3];
        let literal = pattern.replace('\\', "\\\\");
        if world
            .plan_under(
                &format!("SELECT count(*) FROM people WHERE tx {operator} E'{literal}'"),
                Accounting::Gdp,
                1.0,
            )
            .is_ok()
        {
            passed += 1;
            let test =
                format!("SELECT v {operator} E'{literal}' FROM (VALUES ('ab-'), ('z]')) t (v)");
            world
                .client
                .simple_query(&test)
                .await
                .unwrap_or_else(|fault| panic!("{operator} {pattern}: {fault:?}"));
        }
    }
    assert!(passed > 1000, "{passed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_subquery_label() {
    let world = world().await;
    refused(
        &world,
        "SELECT * FROM (VALUES ((SELECT i4 FROM people WHERE id = 7))) v(x)",
    );
    refused(
        &world,
        "SELECT region FROM towns LIMIT (SELECT i4 FROM people WHERE id = 7)",
    );
    refused(
        &world,
        "SELECT * FROM generate_series(1, (SELECT i4 FROM people WHERE id = 7)) g",
    );
    refused(
        &world,
        "SELECT (SELECT tx FROM people WHERE id = 7) FROM towns",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn outer_aggregate_refused() {
    let world = world().await;
    refused(
        &world,
        "SELECT (SELECT max(people.i4) FROM towns LIMIT 1) FROM people",
    );
    for aggregate in [
        "max(p.i4)",
        "sum(p.i4 + v.i4)",
        "count(*) FILTER (WHERE p.b)",
    ] {
        refused(
            &world,
            &format!(
                "SELECT count(*) FROM people p WHERE (SELECT {aggregate} FROM visits v WHERE \
                    v.person = p.id) > 3"
            ),
        );
    }
    // Planned over the listed keys alone; the shadow, which has no such row, then refuses the name.
    let listed = world.plan_under(
        "SELECT (SELECT sum(p.i4) FROM towns t LIMIT 1) FROM people p GROUP BY p.b",
        Accounting::Gdp,
        1.0,
    );
    assert!(
        listed
            .iter()
            .flat_map(|plan| plan.releases())
            .all(|release| release.sql().is_none())
    );
    refused(
        &world,
        "SELECT code, (SELECT count(*) FROM visits v WHERE v.i4 < t.weight) FROM towns t",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn left_join_nonstrict_aggregate() {
    let world = world().await;
    for aggregate in ["sum(coalesce(v.i4, 50))", "count(t.code)", "count(*)"] {
        refused(
            &world,
            &format!(
                "SELECT t.region, {aggregate} FROM towns t LEFT JOIN visits v ON v.town = t.code \
                    GROUP BY 1"
            ),
        );
        refused(
            &world,
            &format!(
                "SELECT t.region, {aggregate} FROM visits v RIGHT JOIN towns t ON v.town = t.code \
                    GROUP BY 1"
            ),
        );
        refused(
            &world,
            &format!(
                "SELECT t.region, {aggregate} FROM visits v FULL JOIN towns t ON v.town = t.code \
                    GROUP BY 1"
            ),
        );
    }
}

/// Grouped by the public side, with aggregates that count no row without a match: every town is
/// shown, and no unit makes or unmakes a row.
#[tokio::test(flavor = "multi_thread")]
async fn public_rows_are_kept_as_domain() {
    let world = world().await;
    for sql in [
        "SELECT t.code, count(v.id), sum(v.i4) FROM towns t LEFT JOIN visits v ON v.town = t.code \
            AND v.ni < 2 GROUP BY 1",
        "SELECT t.region, count(DISTINCT v.person) FROM visits v RIGHT JOIN towns t ON v.town = \
            t.code WHERE t.weight IS NOT NULL GROUP BY 1",
    ] {
        let plan = world
            .plan_under(sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        let text = release.sql().unwrap();
        assert!(release.price().unwrap().threshold.is_none(), "{sql}");
        let whole = world.run(text, 1).await.unwrap();
        nobody(&world, release, text).await.unwrap();
        for unit in [2, 7] {
            unit_within(&world, release, text, &whole, unit)
                .await
                .unwrap();
        }
    }
    for sql in [
        "SELECT t.code, count(v.id) FROM towns t LEFT JOIN visits v ON v.town = t.code WHERE v.i4 \
            > \
            0 GROUP BY 1",
        "SELECT v.kd, count(v.id) FROM towns t LEFT JOIN visits v ON v.town = t.code GROUP BY 1",
        "SELECT t.code, count(v.id) FROM towns t LEFT JOIN visits v ON v.town = t.code AND \
            t.weight \
            > 1 GROUP BY 1",
        "SELECT count(v.id) FROM towns t LEFT JOIN visits v ON v.town = t.code",
    ] {
        refused(&world, sql);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lossy_unit_equality() {
    let world = world().await;
    for on in [
        "p.id::text = v.person::text",
        "p.id::float8 = v.person::float8",
        "p.id = v.person + 0",
        "p.id <= v.person",
        "p.id = v.person OR v.b",
        "true",
    ] {
        refused(
            &world,
            &format!("SELECT count(*) FROM people p JOIN visits v ON {on}"),
        );
    }
    // Equal only after an outer join made it NULL.
    refused(
        &world,
        "SELECT count(*) FROM (SELECT v.person AS who, p.i4 FROM people p LEFT JOIN visits v ON \
            p.id = v.person) q JOIN visits w ON q.who = w.person",
    );
}

/// Groups by a key that only determines the unit, or after a join that multiplies it, are each one
/// unit's; removing a unit moves no other's group.
#[tokio::test(flavor = "multi_thread")]
async fn groups_lie_within_one_unit() {
    let world = world().await;
    for sql in [
        "SELECT sum(n) FROM (SELECT i.visit, count(*)::int AS n FROM items i GROUP BY i.visit) g \
            WHERE n < 9",
        "SELECT n, count(*) FROM (SELECT v.id, sum(v.ni)::int AS n FROM visits v JOIN notes o ON \
            o.code = v.town GROUP BY v.id) g GROUP BY n",
        "SELECT avg(i4) FROM (SELECT DISTINCT v.i4, p.id FROM people p LEFT JOIN visits v ON \
            v.person = p.id) d",
        "SELECT count(*) FROM (SELECT p.id, p.i4, count(*) FROM people p GROUP BY p.id HAVING p.i4 \
            > 0) g",
    ] {
        let plan = world
            .plan_under(sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        let text = release.sql().unwrap();
        let whole = world.run(text, release.keys().len()).await.unwrap();
        nobody(&world, release, text).await.unwrap();
        for unit in [7, 8, 9] {
            unit_within(&world, release, text, &whole, unit)
                .await
                .unwrap();
        }
    }
    // The null-extended side's person is no unit: everybody without a visit is in one group, so the
    // groups are a release.
    let sql = "SELECT sum(n) FROM (SELECT v.person, count(*)::int AS n FROM people p LEFT JOIN \
        visits v ON v.person = p.id GROUP BY v.person) g";
    assert_eq!(
        world
            .plan_under(sql, Accounting::Gdp, 1.0)
            .unwrap()
            .releases()[0]
            .keys()
            .len(),
        1
    );
    refused(
        &world,
        "SELECT person, count(*) FROM visits GROUP BY person",
    );
    refused(&world, "SELECT DISTINCT * FROM visits");
}

#[tokio::test(flavor = "multi_thread")]
async fn null_partition_after_left_join() {
    let world = world().await;
    refused(
        &world,
        "SELECT sum(s) FROM (SELECT sum(p.i4) OVER (PARTITION BY v.person) AS s FROM people p LEFT \
            JOIN visits v ON p.id = v.person) q",
    );
    refused(&world, "SELECT sum(i4) OVER (PARTITION BY id) FROM people");
    refused(
        &world,
        "SELECT sum(s) FROM (SELECT sum(i4) OVER (PARTITION BY kd) AS s FROM visits) q",
    );
    refused(
        &world,
        "SELECT sum(s) FROM (SELECT row_number() OVER (ORDER BY person) AS s FROM visits) q",
    );
    refused(
        &world,
        "SELECT sum(s) FROM (SELECT sum(i4) OVER w AS s FROM visits WINDOW w AS (ORDER BY person \
            ROWS 2 PRECEDING)) q",
    );
    refused(
        &world,
        "SELECT count(*) FROM (SELECT DISTINCT ON (p.kd) p.id, p.kd FROM people p) q",
    );
    refused(
        &world,
        "SELECT count(*) FROM (SELECT person, i4 FROM visits EXCEPT SELECT id, i4 FROM people) q",
    );
    refused(
        &world,
        "SELECT count(*) FROM (SELECT i4 FROM visits UNION SELECT i4 FROM people) q",
    );
    refused(
        &world,
        "SELECT count(*) FROM (SELECT code FROM towns UNION ALL SELECT tx FROM people) q",
    );
}

/// A key defined as a constant is 1 or NULL, depending on the join's condition for each row: rows
/// of one unit lie in several groups.
#[tokio::test(flavor = "multi_thread")]
async fn constants_of_an_outer_join_are_no_keys_of_the_unit() {
    let world = world().await;
    let rows = "BEGIN; SET LOCAL session_replication_role = replica;
         INSERT INTO w.visits (id, person, town, i4, tx) SELECT 100 + g, 7, 'x', g, 'k' FROM \
         generate_series(0, 79) g; COMMIT;";
    world.client.batch_execute(rows).await.unwrap();
    let person = |name: &str, least: u32| {
        format!(
            "LEFT JOIN (SELECT id, 1 AS one FROM people) {name} ON {name}.id = v.person AND v.i4 > \
                {least}"
        )
    };
    let town = "LEFT JOIN (SELECT code, 1 AS one FROM towns) c ON c.code = v.town AND v.i4 > 60";
    for sql in [
        format!(
            "SELECT a.one, b.one, count(*) FROM visits v {} {} GROUP BY 1, 2",
            person("a", 20),
            person("b", 40)
        ),
        format!(
            "SELECT a.one, c.one, sum(v.i4) FROM visits v {} {town} GROUP BY 1, 2",
            person("a", 20)
        ),
        format!(
            "SELECT a.one + 1, count(*), sum(v.i4) FROM visits v {} GROUP BY 1",
            person("a", 20)
        ),
    ] {
        let plan = world
            .plan_under(&sql, Accounting::Gdp, 1.0)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        let text = release.sql().unwrap();
        let whole = world.run(text, release.vector_keys()).await.unwrap();
        assert!(whole.len() > 1, "{sql}");
        nobody(&world, release, text).await.unwrap();
        unit_within(&world, release, text, &whole, 7).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn not_in_null_poison() {
    let world = world().await;
    let poisoned = "SELECT v.person FROM people a LEFT JOIN visits v ON a.id = v.person";
    refused(
        &world,
        &format!("SELECT count(*) FROM people WHERE id NOT IN ({poisoned})"),
    );
    refused(
        &world,
        &format!("SELECT count(*) FROM people WHERE id <> ALL ({poisoned})"),
    );
    refused(
        &world,
        &format!("SELECT count(*) FROM people p WHERE NOT (p.id IN ({poisoned}))"),
    );
    refused(
        &world,
        "SELECT count(*) FROM people WHERE id NOT IN (SELECT CASE WHEN person = 8 THEN NULL ELSE \
            person END FROM visits)",
    );
    refused(
        &world,
        "SELECT count(*) FROM people WHERE tx NOT IN (SELECT code FROM notes)",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scalar_subquery_two_rows() {
    let world = world().await;
    refused(
        &world,
        "SELECT count(*) FROM visits v WHERE (SELECT remark FROM notes n WHERE n.code = v.town) > \
            1",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn regclass_oracle() {
    let world = world().await;
    for constant in [
        "'w.people'::regclass",
        "'now'::timestamp",
        "timestamp 'now'",
        "'today'::date",
        "'w.secret'::regclass::text",
    ] {
        refused(
            &world,
            &format!("SELECT count(*) FROM people WHERE {constant} IS NOT NULL"),
        );
    }
}

/// A digit of another script matches `\\d` under ICU, and PostgreSQL's readers of numbers do not
/// take it: each cast's own guard must keep it out.
#[tokio::test(flavor = "multi_thread")]
async fn icu_digit_guard() {
    let world = world().await;
    let icu = "CREATE COLLATION w.digits (provider = icu, locale = 'und'); ALTER TABLE w.people \
        ALTER tx TYPE text COLLATE w.digits;
         UPDATE w.people SET tx = (ARRAY['٣', '7', E'\\u00a07', '٢٠٠٠-٠١-٠١', '2000-01-01', 't', \
         '①'])[1 + id % 7]";
    world.client.batch_execute(icu).await.unwrap();
    for (cast, read) in [
        ("int", "7"),
        ("bigint", "7"),
        ("numeric", "7"),
        ("float8", "7"),
        ("date", "2000-01-01"),
        ("timestamp", "2000-01-01 00:00:00"),
        ("boolean", "true"),
    ] {
        let asked = format!(
            "SELECT tx::{cast}, count(*) FROM people WHERE tx ~ '^\\d+' OR tx::{cast} IS NOT NULL \
                GROUP BY 1"
        );
        let found = groups(&world, &asked).await;
        assert!(
            found.contains_key(&vec![Some(read.to_owned())]),
            "{asked}: {found:?}"
        );
        assert!(
            found
                .keys()
                .flatten()
                .flatten()
                .all(|key| key == read || key == "false"),
            "{asked}: {found:?}"
        );
        groups(
            &world,
            &format!(
                "SELECT count(*) FROM (SELECT * FROM people WHERE tx ~ '^\\d+$') q \
            WHERE q.tx::{cast} IS NOT NULL"
            ),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn not_valid_check_not_trusted() {
    let world = world().await;
    world
        .client
        .batch_execute("ALTER TABLE w.people ADD CHECK (j4 > 0) NOT VALID")
        .await
        .unwrap();
    groups(
        &world,
        "SELECT count(100 / (j4 + 2147483647 + 1)) FROM people WHERE j4 > 0",
    )
    .await;
    groups(
        &world,
        "SELECT count(*) FROM (SELECT * FROM people WHERE i4 <> 0) p WHERE 100 / i4 > 3 \
        OR 5 % (i4 - 1) = 1",
    )
    .await;
}

/// Columns of two collations in one comparison fail on the first row that meets both.
#[tokio::test(flavor = "multi_thread")]
async fn two_collations_in_one_comparison() {
    let world = world().await;
    world
        .client
        .batch_execute(
            "ALTER TABLE w.people ALTER tx TYPE text COLLATE \"C\", ALTER vc TYPE varchar(10) \
                COLLATE \"POSIX\"; UPDATE w.people SET vc = 'a'",
        )
        .await
        .unwrap();
    for condition in [
        "tx = vc",
        "tx < vc",
        "greatest(tx, vc) = 'a'",
        "nullif(tx, vc) IS NULL",
        "lower(coalesce(tx, vc)) = 'a'",
    ] {
        groups(
            &world,
            &format!("SELECT count(*) FROM people WHERE {condition}"),
        )
        .await;
    }
}
