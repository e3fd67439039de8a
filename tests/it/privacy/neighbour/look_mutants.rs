//! Seeded bugs in the statements of looks and in their prices: each is caught by the harness.

use num_bigint::BigInt;
use pgveil::mechanism::{Accounting, Noise};
use pgveil::policy::{ClipChoice, SessionSettings};
use pgveil::rewrite::{BlockId, Look, Plan, ReleasePlan};

use super::look::{priced, within_blocks};
use super::world::{HEAVY, World};

/// The heavy unit has many rows of each kind and is in more groups than count; another one has one
/// row in one group and two in the next, so that its squared length, 5, is just past an edge, and
/// whose squares lack most. Rows of nobody.
const ROWS: &str = "BEGIN; SET LOCAL session_replication_role = replica;
    TRUNCATE w.people, w.visits, w.items, w.rounds;
    INSERT INTO w.people (id, i4) SELECT g, 100 * g FROM generate_series(1, 9) g;
    INSERT INTO w.visits (id, person, i4, j4, n2, kd, tx) SELECT g, 7, 1000 + g, g, 9999,
        (ARRAY['a', 'b'])[1 + g % 2], 'k' || g FROM generate_series(1, 1100) g;
    INSERT INTO w.visits (id, person, i4, j4, n2, kd, tx) SELECT 2000 + g, 3, 25, g, 1,
        (ARRAY['a', 'b', 'b'])[g], 'k1' FROM generate_series(1, 3) g;
    INSERT INTO w.visits (id, person, i4, kd, tx) SELECT 3000 + g, NULL, 40, 'a', 'k2'
        FROM generate_series(1, 20) g; COMMIT";

/// The unit whose length is just past an edge.
const AT_AN_EDGE: usize = 3;

type Mutant = (&'static str, &'static str, fn(&str) -> String);

const BY_KIND: &str = "SELECT kd, count(*) FROM visits GROUP BY kd";
const BY_SETS: &str = "SELECT kd, count(*), sum(i4) FROM visits GROUP BY ROLLUP (kd)";
const BY_TEXT: &str = "SELECT tx, count(*), sum(i4) FROM visits GROUP BY tx";

const MUTANTS: &[Mutant] = &[
    ("bins shifted by one", BY_KIND, |sql| {
        sql.replace("width_bucket(", "-1 + width_bucket(")
    }),
    ("edges one too far", BY_KIND, |sql| {
        let from = sql.find("ARRAY[1, ").unwrap() + "ARRAY[".len();
        let to = from + sql[from..].find(']').unwrap();
        let edges = sql[from..to].split(", ").map(|edge| {
            let edge: i64 = edge.parse().unwrap();
            (edge + 1).to_string()
        });
        let edges: Vec<String> = edges.collect();
        format!("{}{}{}", &sql[..from], edges.join(", "), &sql[to..])
    }),
    ("rows of nobody kept", BY_KIND, |sql| {
        sql.replace("\"person\" IS NOT NULL", "\"person\" IS NULL OR true")
    }),
    ("rows of nobody kept with sets", BY_SETS, |sql| {
        sql.replace("\"person\" IS NOT NULL", "\"person\" IS NULL OR true")
    }),
    ("a column forgotten in the length", BY_KIND, |sql| {
        sql.replace("(\"v0\" * \"v0\")", "(0 * \"v0\")")
    }),
    ("units counted in each column", BY_KIND, |sql| {
        sql.replace(
            "WHEN (\"x\".\"g\" = 0) THEN \"w\".\"c\"",
            "WHEN true THEN \"w\".\"c\"",
        )
    }),
    ("lengths by group", BY_SETS, |sql| {
        sql.replace(
            "OVER (PARTITION BY \"u\") AS \"n",
            "OVER (PARTITION BY \"u\", \"k0\") AS \"n",
        )
    }),
    ("lengths over all units", BY_SETS, |sql| {
        sql.replace("OVER (PARTITION BY \"u\") AS \"n", "OVER () AS \"n")
    }),
    ("units counted in each group", BY_SETS, |sql| {
        sql.replace("FILTER (WHERE (\"s\".\"r\" = 1))", "")
    }),
    (
        "a square forgotten in the length",
        "SELECT stddev(i4) FROM visits",
        |sql| {
            sql.replace("CAST(\"v2\" AS NUMERIC)", "0 * CAST(\"v2\" AS NUMERIC)")
                .replace("(\"v2\" * \"v2\")", "(0 * \"v2\")")
        },
    ),
    ("groups without limit", BY_TEXT, |sql| {
        sql.replace("(\"r\" <= ", "(0 * \"r\" <= ")
    }),
    ("a presence that is not shared", BY_TEXT, |sql| {
        sql.replace("least(\"t\", ", "least(0 * \"t\" + 1, ")
    }),
    ("one bin in the rows of each block", BY_TEXT, |sql| {
        let from = sql
            .find("CASE WHEN (\"s\".\"b")
            .or_else(|| sql.find("CASE WHEN \"s\".\"b"));
        let from = from.unwrap();
        let to = from + sql[from..].find("END").unwrap() + "END".len();
        format!("{}'1'{}", &sql[..from], &sql[to..])
    }),
];

type Fault<'f> = dyn Fn(&mut Look) + 'f;

fn planned(world: &World, sql: &str) -> Plan {
    let settings = SessionSettings {
        clip: ClipChoice::Auto,
        ..SessionSettings::with_fixed_clips()
    };
    let plan = world.plan_with(sql, Accounting::Gdp, 1.0, settings);
    plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"))
}

/// Whether the harness notices: rows of nobody count, or one of the units moves too much.
pub async fn caught(world: &World, (release, look): (&ReleasePlan, &Look), sql: &str) -> bool {
    let columns = release.key_columns() + look.blocks.len();
    let Ok(whole) = world.run(sql, columns).await else {
        return true;
    };
    world.without_anybody().await;
    let nobody = world.run(sql, columns).await;
    world.back().await;
    let is_silent = nobody.is_ok_and(|rows| rows.values().flatten().all(|v| *v == BigInt::ZERO));
    if !is_silent {
        return true;
    }
    for unit in [HEAVY, AT_AN_EDGE] {
        world.without(unit).await;
        let rest = world.run(sql, columns).await;
        world.back().await;
        let held = rest.and_then(|rest| within_blocks((release, look), &whole, &rest));
        if held.is_err() {
            return true;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_of_a_look_is_caught() {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    for (name, query, mutate) in MUTANTS {
        let plan = planned(&world, query);
        let [release] = plan.releases() else {
            panic!("one release: {query}")
        };
        let look = release.look().unwrap_or_else(|| panic!("no look: {query}"));
        let sql = release.sql().unwrap();
        let is_caught = caught(&world, (release, look), sql).await;
        assert!(!is_caught, "the original is caught: {sql}");
        let mutant = mutate(sql);
        assert_ne!(mutant, sql, "{name}: {sql}");
        let is_caught = caught(&world, (release, look), &mutant).await;
        assert!(is_caught, "{name} survives: {mutant}");
    }
}

/// Half the noise, half of either debit, a look that is not paid for, and a sum that is not.
#[tokio::test(flavor = "multi_thread")]
async fn cheap_looks_are_caught() {
    let world = World::new().await;
    for query in [BY_KIND, BY_SETS, BY_TEXT] {
        let plan = planned(&world, query);
        let look = plan.releases()[0].look().unwrap();
        assert_eq!(priced(look), Ok(()), "{query}");
        let Noise::Gaussian { sigma } = look.counts.noise else {
            panic!("Gaussian noise")
        };
        let half = |part: u128| part / 2;
        let faults: [(&str, &Fault); 5] = [
            ("half the look's noise", &|look| {
                look.counts.noise = Noise::Gaussian { sigma: sigma / 2 };
            }),
            ("half the first debit", &|look| {
                look.first.mu_squared.0 = half(look.first.mu_squared.0);
            }),
            ("half the second debit", &|look| {
                look.second.mu_squared.0 = half(look.second.mu_squared.0);
            }),
            ("no second debit", &|look| look.second.mu_squared.0 = 0),
            ("one block's sums for the price of none", &|look| {
                let of_block = look.blocks[0].mu.square().0;
                match look.shown {
                    Some(BlockId(0)) => look.first.mu_squared.0 -= of_block,
                    _ => look.second.mu_squared.0 -= of_block,
                }
            }),
        ];
        for (name, fault) in faults {
            let mut mutant = look.clone();
            fault(&mut mutant);
            assert!(priced(&mutant).is_err(), "{name} survives: {query}");
        }
    }
}
