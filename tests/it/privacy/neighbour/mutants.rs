//! Seeded bugs: each mutation of an emitted statement, or of its price, is caught by the harness
//! itself.

use pgveil::mechanism::{Accounting, Fixed, Loss, Noise};
use pgveil::rewrite::{Price, ReleasePlan};

use super::bound::{nobody, scaled, scaled_by, unit_within};
use super::world::{HEAVY, World};

/// Units with many rows and groups, rows of nobody, values far out of bounds.
const ROWS: &str = "BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE w.people, \
    w.visits, w.items, w.rounds;
     INSERT INTO w.people (id, i4, n2, ni) SELECT g, 100 * g, 5000, 2 FROM generate_series(1, 9) g;
     INSERT INTO w.visits (id, person, i4, j4, n2, kd, tx) SELECT g, 7, 1000 + g, g, 9999, 'a', \
     'k' \
     || g % 40 FROM generate_series(1, 400) g;
     INSERT INTO w.visits (id, person, i4, j4, n2, kd, tx) SELECT 1000 + g, g, 3, g, 1, 'b', 'k1' \
     FROM generate_series(1, 9) g;
     INSERT INTO w.visits (id, person, i4, tx) SELECT 2000 + g, NULL, 40, 'k2' FROM \
     generate_series(1, 20) g; COMMIT;
     CREATE FUNCTION pg_temp.quotient(a numeric, b numeric) RETURNS numeric LANGUAGE sql AS \
     'SELECT \
     a / b'";

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(i4), sum(n2) FROM visits",
    "SELECT tx, count(*), sum(i4) FROM visits GROUP BY tx",
    "SELECT kd, sum(n2) FROM visits GROUP BY kd",
    "SELECT upper(kd), sum(n2) FROM visits GROUP BY 1",
    "SELECT sum(i4), count(*) FROM people",
    "SELECT sum(least(greatest(s, 0), 250)) FROM (SELECT sum(i4) OVER (PARTITION BY person) AS s \
        FROM visits) w",
    "SELECT sum(n) FROM (SELECT person, count(*)::int AS n FROM visits GROUP BY person) g",
    "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person = p.id AND \
        v.kd = 'a')",
    "SELECT b, count(*) FROM people GROUP BY ROLLUP (b)",
    "SELECT count(*), stddev(i4) FROM people",
    "SELECT count(*), sum(nb) FROM people",
];

/// Under pure accounting no key is released by threshold, and two groups that merge move no more in
/// L1 than apart.
const NOT_PURE: [&str; 3] = [
    "grouping set missing from the group",
    "group cap removed",
    "threshold on rows and not on units",
];

/// The value's clip, and its integer's distance from the middle without that.
const CLIP: &str =
    "CASE WHEN (\"t0\".\"i4\" < 0) THEN 0 WHEN (\"t0\".\"i4\" > 50) THEN 50 ELSE \"t0\".\"i4\" END";
const DISTANCE: &str = "((2 * CAST(\"t0\".\"i4\" AS INTEGER)) - 50)";

type Mutate = fn(&ReleasePlan, &str) -> String;

const MUTANTS: &[(&str, Mutate)] = &[
    ("clip removed", |_, sql| {
        sql.replace(" AS \"n\"", " * NULL AS \"n\"")
    }),
    ("division in place of div", |_, sql| {
        sql.replace("div(", "pg_temp.quotient(")
    }),
    ("weights halved in the norm", |_, sql| {
        sql.replace("abs(\"v", "0.5 * abs(\"v")
    }),
    ("group cap removed", |_, sql| {
        sql.replace("(\"r\" <= 4)", "(\"r\" <= 4000)")
    }),
    ("rows of nobody kept", |_, sql| {
        sql.replace("\"person\" IS NOT NULL", "\"person\" IS NULL OR true")
    }),
    ("partials clamped apart", apart),
    ("unit missing from a partition", |_, sql| {
        sql.replace("OVER (PARTITION BY \"t0\".\"person\")", "OVER ()")
    }),
    ("two rows of a unit's only group", |_, sql| {
        sql.replace(
            "GROUP BY 1) AS \"d0\"",
            "GROUP BY GROUPING SETS ((1), (1))) AS \"d0\"",
        )
    }),
    ("subquery not tied to the unit", |_, sql| {
        sql.replace("(\"t1\".\"person\" = \"t0\".\"id\")", "true")
    }),
    ("a group's column forgotten in the norm", |_, sql| {
        if sql.contains("AS \"x\" (\"g\")") {
            sql.replace("abs(\"v1\")", "(0 * abs(\"v1\"))")
        } else {
            sql.to_owned()
        }
    }),
    ("groups forgotten in the norm", |_, sql| {
        sql.replace(
            "OVER (PARTITION BY \"u\"), ",
            "OVER (PARTITION BY \"u\", \"k0\"), ",
        )
    }),
    ("threshold on rows and not on units", |_, sql| {
        sql.replace("greatest(1, ", "greatest(count(*), ")
    }),
    // A rolled-up key and a NULL of the column are one group then.
    ("grouping set missing from the group", |_, sql| {
        sql.replace("\"x\".\"s\" AS \"s\"", "0 AS \"s\"")
    }),
    ("raw squares", |_, sql| sql.replace("(2500 - (", "(0 + (")),
    (
        "rows with a value counted in place of those without",
        |_, sql| sql.replace("\"t0\".\"i4\" IS NULL", "\"t0\".\"i4\" IS NOT NULL"),
    ),
    ("NULL clipped to a bound", |_, sql| {
        sql.replace(
            "ELSE \"t0\".\"nb\" END",
            "ELSE coalesce(\"t0\".\"nb\", -5.5) END",
        )
    }),
    ("rows clamped after their sum", |_, sql| {
        let again = format!("least(greatest(coalesce({DISTANCE}, 0), (-50)), 50)");
        let bare = sql.replace(CLIP, "\"t0\".\"i4\"").replace(&again, DISTANCE);
        bare.replace(
            &format!("sum({DISTANCE})"),
            &format!("least(450 * 2, sum({DISTANCE}))"),
        )
    }),
];

/// Each coordinate clipped to `C / F_j` by itself, without a norm.
fn apart(release: &ReleasePlan, sql: &str) -> String {
    let price = release.price().unwrap();
    let mut sql = sql.replace(" AS \"n\"", " * NULL AS \"n\"");
    for (i, weight) in price.weights.iter().enumerate() {
        let limit = &price.clip / weight;
        let end = format!(") AS BIGINT) AS \"v{i}\"");
        let Some(to) = sql.find(&end) else { continue };
        let Some(from) = sql[..to].rfind(", (-") else {
            continue;
        };
        sql.replace_range(from..to, &format!(", (-{limit})), {limit}"));
    }
    sql
}

async fn caught(world: &World, release: &ReleasePlan, sql: &str) -> bool {
    let Ok(whole) = world.run(sql, release.vector_keys()).await else {
        return true;
    };
    nobody(world, release, sql).await.is_err()
        || unit_within(world, release, sql, &whole, HEAVY)
            .await
            .is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_is_caught() {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    for accounting in [Accounting::Gdp, Accounting::Pure] {
        let plans: Vec<_> = QUERIES
            .iter()
            .filter_map(|sql| world.plan_under(sql, accounting, 1.0).ok())
            .collect();
        let releases: Vec<&ReleasePlan> = plans.iter().flat_map(|p| p.releases()).collect();
        for release in &releases {
            let sql = release.sql().unwrap();
            assert!(
                !caught(&world, release, sql).await,
                "the original is caught: {sql}"
            );
        }
        for (name, mutate) in MUTANTS {
            let mut killed = 0;
            for release in &releases {
                let sql = release.sql().unwrap();
                let mutant = mutate(release, sql);
                killed += usize::from(mutant != sql && caught(&world, release, &mutant).await);
            }
            let is_exempt = accounting == Accounting::Pure && NOT_PURE.contains(name);
            assert!(killed > 0 || is_exempt, "{name} survives ({accounting:?})");
        }
        releases
            .iter()
            .filter_map(|r| r.price())
            .for_each(too_little_noise_is_caught);
    }
}

/// Half the noise (so the square root of four groups under Laplace noise), and half the charge.
fn too_little_noise_is_caught(price: &Price) {
    let Loss {
        epsilon,
        rho,
        mu_squared,
        delta,
    } = price.loss;
    let half = Loss {
        epsilon: epsilon.map(|e| Fixed(e.0 / 2)),
        rho,
        mu_squared: Fixed(mu_squared.0 / 2),
        delta,
    };
    for (weight, calibrated) in price.weights.iter().zip(&price.calibrated) {
        let halved = match calibrated.noise {
            Noise::Gaussian { sigma } => Noise::Gaussian { sigma: sigma / 2 },
            Noise::Laplace { scale } => Noise::Laplace { scale: scale / 2 },
        };
        assert!(scaled(price, weight, calibrated.noise, calibrated.refine).is_ok());
        assert!(
            scaled(price, weight, halved, calibrated.refine).is_err(),
            "half the noise survives"
        );
        assert!(
            scaled_by(
                &half,
                &price.clip,
                weight,
                calibrated.noise,
                calibrated.refine
            )
            .is_err(),
            "half the charge survives"
        );
    }
}

/// With the promises of the levels below removed: where no clip of units follows, each row's
/// integer stays in its range, and the release within its bound.
#[tokio::test(flavor = "multi_thread")]
async fn integers_are_clamped_once_more() {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    for accounting in [Accounting::Gdp, Accounting::Pure] {
        for sql in [
            "SELECT sum(i4), count(*) FROM people",
            "SELECT sum(i4) FROM people",
            "SELECT count(*), stddev(i4) FROM people",
            "SELECT corr(i4, n2) FROM people",
        ] {
            let plan = world.plan_under(sql, accounting, 1.0).unwrap();
            let release = &plan.releases()[0];
            let emitted = release.sql().unwrap();
            let bare = emitted.replace(CLIP, "\"t0\".\"i4\"");
            assert_ne!(bare, emitted, "{sql}");
            assert!(!caught(&world, release, &bare).await, "{bare}");
            let neither = bare
                .replace("least(", "coalesce(")
                .replace("greatest(", "coalesce(");
            assert!(caught(&world, release, &neither).await, "{neither}");
        }
    }
}
