//! Grouping sets that are computed from effects: what one unit moves is measured on the effects
//! themselves, in integers.

use std::sync::{Arc, Mutex};

use num_bigint::{BigInt, BigUint};
use num_traits::ToPrimitive;
use pgveil::analyze::KeyRule;
use pgveil::engine::Requester;
use pgveil::mechanism::{
    Accounting, CandidateRun, Exponential, Mechanism, Noise, SampleError, Sampler, SummedValues,
};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{ClipChoice, SessionSettings};
use pgveil::rewrite::{ByEffects, Plan, Price, ReleasePlan, key_text, measure_deviation};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::bound::{nobody, scaled_by, unit_within};
use super::equal::{asked_by, plain};
use super::proxy::{Proxy, requester};
use super::world::{Groups, World};
use crate::fixture::Stream;

mod range_keys;

/// The cells of one coordinate, as the release orders them: the difference of two databases.
fn cells(release: &ReleasePlan, by: &ByEffects, at: usize, groups: &Groups) -> Vec<i128> {
    let places = |text: &Option<String>, key: usize| {
        let (data_type, rule) = &release.keys()[key];
        let KeyRule::Domain(values) = rule else {
            panic!("key {key} is not listed");
        };
        let is_it = |value: &Option<_>| value.as_ref().map(|v| key_text(v, data_type)) == *text;
        values.iter().position(is_it)
    };
    let mut cells = vec![0; by.effects.cells()];
    for (key, values) in groups {
        let place = key.iter().enumerate().fold(0, |place, (at, text)| {
            let value = places(text, at).unwrap_or_else(|| panic!("{key:?} is not listed"));
            place * by.effects.sizes()[at] + value
        });
        cells[place] = values[at].to_i128().unwrap();
    }
    cells
}

/// The groups of one set, as [`cells`].
fn groups_of(
    release: &ReleasePlan,
    by: &ByEffects,
    (at, source): (usize, usize),
    groups: &Groups,
) -> Vec<i128> {
    let set: Vec<usize> = release.sets()[source].keys().map(|key| key.0).collect();
    let mut all = vec![0; by.effects.groups_in(&set)];
    for (key, values) in groups {
        let (number, texts) = key.split_first().unwrap();
        if number.as_deref() != Some(source.to_string().as_str()) {
            continue;
        }
        let place = set.iter().fold(0, |place, key| {
            let (data_type, rule) = &release.keys()[*key];
            let KeyRule::Domain(values) = rule else {
                panic!("key {key} is not listed");
            };
            let text = |value: &Option<_>| value.as_ref().map(|v| key_text(v, data_type));
            let value = values.iter().position(|value| text(value) == texts[*key]);
            place * by.effects.sizes()[*key] + value.unwrap()
        });
        all[place] = values[at].to_i128().unwrap();
    }
    all
}

/// What moves between two databases, of all effects together, each times its weight, and squared:
/// with the limit that the price declares, in the same unit.
fn moved(
    price: &Price,
    by: &ByEffects,
    release: &ReleasePlan,
    (whole, rest): (&Groups, &Groups),
) -> (BigUint, BigUint) {
    let finest = by.refined.iter().copied().max().unwrap_or(0);
    let all: Vec<usize> = (0..by.effects.sizes().len()).collect();
    let mut squared = BigUint::ZERO;
    for (at, weight) in price.weights.iter().enumerate() {
        for (number, (effect, _)) in by.measured_effects().enumerate() {
            let source = by.sources.as_ref().map(|sources| sources[number]);
            let of_source = |source: usize| release.sets()[source].keys().map(|key| key.0);
            let set: Vec<usize> = match source {
                None => all.clone(),
                Some(source) => of_source(source).collect(),
            };
            let exact = |of: &Groups| match source {
                None => cells(release, by, at, of),
                Some(source) => groups_of(release, by, (at, source), of),
            };
            let (here, there) = (exact(whole), exact(rest));
            let moved: Vec<i128> = here.iter().zip(&there).map(|(a, b)| a - b).collect();
            let weight = weight * effect.weight();
            for value in by.effects.effect(effect, &set, &moved).iter() {
                let value = BigInt::from(*value).magnitude() * &weight;
                let value = value << (finest - by.refined[at]);
                squared += &value * &value;
            }
        }
    }
    (squared, (&by.clip * &by.clip) << (2 * finest))
}

/// All effects together against the bound that their noise hides.
pub fn within(
    price: &Price,
    by: &ByEffects,
    release: &ReleasePlan,
    databases: (&Groups, &Groups),
) -> Result<(), String> {
    let (moved, limit) = moved(price, by, release, databases);
    if moved > limit {
        return Err(format!("effects move by {moved} > {limit}, squared"));
    }
    Ok(())
}

/// The noise of each effect against what the loss claims, exactly.
pub fn calibrated(price: &Price, by: &ByEffects) -> Result<(), String> {
    for (effect, noise) in by.measured_effects() {
        for (at, (weight, noise)) in price.weights.iter().zip(noise).enumerate() {
            let weight = weight * effect.weight();
            scaled_by(&price.loss, &by.clip, &weight, noise.noise, noise.refine)?;
            if noise.refine < by.refined[at] {
                return Err(format!("{noise:?} is coarser than its integers"));
            }
        }
    }
    Ok(())
}

/// Keys that may be NULL, of types that compare or print in unusual ways.
const TABLES: &str = "CREATE SCHEMA w; CREATE TYPE w.mood AS ENUM ('sad', 'it''s', 'Happy');
    CREATE TABLE w.people (id int PRIMARY KEY, ch char(4), \"Mood\" w.mood, b bool, i4 int NOT NULL,
        n2 numeric(10,2), loud bool NOT NULL);
    CREATE TABLE w.visits (id int PRIMARY KEY, person int REFERENCES w.people, ch char(4),
        \"Mood\" w.mood, b bool, i4 int, n2 numeric(10,2), loud bool NOT NULL);
    CREATE TABLE w.items (visit int REFERENCES w.visits);
    CREATE TABLE w.rounds (person int NOT NULL REFERENCES w.people);
    CREATE TABLE w.extras (id int NOT NULL);";
const POLICY: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
limits: {groups_per_unit: 4, rows_per_unit: 8}
roles: [{name: ann, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 3, delta: 1e-7}}]
tables:
  w.people: {unit: id, other_columns: visible, columns: {i4: {bounds: [0, 50]}, \
  n2: {bounds: [0, 99.99]}, ch: {values: [a, \"b c\", \"\"]}}}
  w.visits: {unit: {path: [person -> w.people.id]}, rows_per_unit: 6, other_columns: visible, \
  columns: {i4: {bounds: [0, 50]}, n2: {bounds: [0, 99.99]}, ch: {values: [a, \"b c\", \"\"]}}}
";

/// Every combination of listed values, and values that are in no list. Unit 7 has many rows, and
/// rows of nobody are in the table.
const ROWS: &str = "BEGIN; SET LOCAL session_replication_role = replica;
    INSERT INTO w.people SELECT g, (ARRAY['a', 'a  ', 'b c', 'A', '', NULL])[1 + g % 6],
        (ARRAY['sad', 'it''s', 'Happy', NULL]::w.mood[])[1 + g / 6 % 4],
        (ARRAY[true, false, NULL])[1 + g / 24 % 3], g % 51, g % 100 + 0.25, g / 72 % 2 = 0
        FROM generate_series(1, 720) g;
    INSERT INTO w.visits SELECT g, nullif(1 + g % 13, 13),
        (ARRAY['a', 'a  ', 'b c', 'A', '', NULL])[1 + g % 6],
        (ARRAY['sad', 'it''s', 'Happy', NULL]::w.mood[])[1 + g / 6 % 4],
        (ARRAY[true, false, NULL])[1 + g / 24 % 3], (g * 7) % 60 - 5, g % 120, g / 72 % 2 = 0
        FROM generate_series(0, 719) g;
    INSERT INTO w.visits SELECT 1000 + g, 8, 'a', 'sad', true, 50, 99.99, true
        FROM generate_series(1, 300) g;
    DELETE FROM w.visits WHERE person = 8 AND id < 1000;
    COMMIT;";
/// The unit whose rows are all in one cell, far more than may count.
const HEAVY: usize = 8;

/// Over one row a unit, and over many.
const ASKED: [&str; 8] = [
    "SELECT ch, \"Mood\", count(*) FROM people GROUP BY CUBE (ch, \"Mood\")",
    "SELECT b, ch, count(*), sum(i4), avg(n2) FROM people WHERE loud GROUP BY ROLLUP (b, ch)",
    "SELECT b, ch, \"Mood\", count(DISTINCT id), stddev(i4), count(*) FILTER (WHERE i4 > 9) FROM \
        people GROUP BY GROUPING SETS ((b, ch), (\"Mood\"), (ch))",
    "SELECT b, loud, corr(i4, n2) FROM people GROUP BY CUBE (b, loud)",
    "SELECT ch, b, count(*) FROM visits GROUP BY CUBE (ch, b)",
    "SELECT \"Mood\", b, sum(i4) FROM visits GROUP BY ROLLUP (\"Mood\", b)",
    "SELECT \"Mood\", ch, b, count(*) FILTER (WHERE i4 > 9) FROM visits GROUP BY GROUPING SETS \
        ((\"Mood\", ch), (ch, b), (\"Mood\", b))",
    "SELECT ch, b, sum(n2) FROM visits WHERE loud GROUP BY CUBE (ch, b)",
];

async fn world() -> World {
    let world = World::with_room(TABLES, POLICY).await;
    world.client.batch_execute(ROWS).await.unwrap();
    world
}

/// A session in which nothing is looked at, since it limits the rows of a unit.
fn settings() -> SessionSettings {
    SessionSettings {
        clip: ClipChoice::Auto,
        rows_per_unit: Some(5),
        ..SessionSettings::with_fixed_clips()
    }
}

fn planned(world: &World, sql: &str) -> Plan {
    let plan = world.plan_with(sql, Accounting::Gdp, 1.0, settings());
    let plan = plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
    let price = plan.releases()[0].price().unwrap();
    assert!(price.effects.is_some(), "{sql}");
    assert_eq!(price.within_clip, sql.contains("FROM people"), "{sql}");
    plan
}

/// The largest share of the squared bound that one of these units moves.
async fn share(
    world: &World,
    (release, sql): (&ReleasePlan, &str),
    units: impl Iterator<Item = usize>,
) -> f64 {
    let price = release.price().unwrap();
    let by = price.effects.as_ref().unwrap();
    let whole = world.run(sql, release.vector_keys()).await.unwrap();
    let mut largest = 0.0f64;
    for unit in units {
        world.without(unit).await;
        let rest = world.run(sql, release.vector_keys()).await;
        world.back().await;
        let (moved, limit) = moved(price, by, release, (&whole, &rest.unwrap()));
        assert_eq!(
            limit,
            (&by.clip * &by.clip) << (2 * by.refined.iter().max().unwrap())
        );
        largest = largest.max(moved.to_f64().unwrap() / limit.to_f64().unwrap());
    }
    largest
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unit_moves_effects_within_their_bound() {
    let world = world().await;
    for sql in ASKED {
        let plan = planned(&world, sql);
        let release = &plan.releases()[0];
        let price = release.price().unwrap();
        calibrated(price, price.effects.as_ref().unwrap()).unwrap();
        let text = release.sql().unwrap();
        nobody(&world, release, text).await.unwrap();
        let whole = world.run(text, release.vector_keys()).await.unwrap();
        for unit in (1..=13).chain([720]) {
            let held = unit_within(&world, release, text, &whole, unit).await;
            held.unwrap_or_else(|fault| panic!("{sql}\n{fault}"));
        }
    }
}

/// Where all keys together have more combinations than an answer may have groups, effects are
/// computed from the groups of the sets. One row moves them as it would if there were cells.
#[tokio::test(flavor = "multi_thread")]
async fn effects_of_sets_move_within_their_bound() {
    let few = POLICY.replace("limits: {", "limits: {groups: 1000, ");
    let world = World::with_room(TABLES, &few).await;
    world.client.batch_execute(ROWS).await.unwrap();
    let asked = [
        "SELECT ch, \"Mood\", b, i4, count(*) FROM people GROUP BY GROUPING SETS ((ch, i4), \
            (\"Mood\", b), (b, i4), (ch), (i4), ())",
        "SELECT ch, \"Mood\", b, i4, count(*), sum(n2) FROM people GROUP BY GROUPING SETS ((ch, \
            i4), (\"Mood\", ch), (b, ch, \"Mood\"))",
    ];
    for (sql, least) in asked.into_iter().zip([0.998, 0.5]) {
        let plan = planned(&world, sql);
        let release = &plan.releases()[0];
        let price = release.price().unwrap();
        let by = price.effects.as_ref().unwrap();
        assert!(by.sources.is_some() && by.effects.cells() > 1000, "{sql}");
        calibrated(price, by).unwrap();
        let text = release.sql().unwrap();
        nobody(&world, release, text).await.unwrap();
        let whole = world.run(text, release.vector_keys()).await.unwrap();
        for unit in (1..=13).chain([720]) {
            let held = unit_within(&world, release, text, &whole, unit).await;
            held.unwrap_or_else(|fault| panic!("{sql}\n{fault}"));
        }
        let reached = share(&world, (release, text), (1..=8).chain([50])).await;
        assert!((least..=1.0).contains(&reached), "{sql}: {reached}");
    }
    // Many rows of one unit are bounded over cells alone.
    let sql = "SELECT ch, i4, \"Mood\", b, count(*) FROM visits GROUP BY GROUPING SETS ((ch, i4), \
        (\"Mood\", b), ())";
    let plan = world.plan_with(sql, Accounting::Gdp, 1.0, settings());
    assert!(
        plan.unwrap().releases()[0]
            .price()
            .unwrap()
            .effects
            .is_none()
    );
}

/// A row of a count moves its effects by the whole bound, and so do as many rows of one unit as
/// count: nothing smaller would be enough.
#[tokio::test(flavor = "multi_thread")]
async fn the_bound_is_reached() {
    let world = world().await;
    for (sql, unit) in [(ASKED[0], 2), (ASKED[4], HEAVY)] {
        let plan = planned(&world, sql);
        let release = &plan.releases()[0];
        let reached = share(
            &world,
            (release, release.sql().unwrap()),
            [unit].into_iter(),
        )
        .await;
        assert!((0.998..=1.0).contains(&reached), "{sql}: {reached}");
    }
}

/// Seeded bugs: each lets one unit move the effects by more than the bound.
#[tokio::test(flavor = "multi_thread")]
async fn mutants_of_effects_are_caught() {
    type Mutate = fn(&str) -> String;
    let mutants: [(&str, Mutate); 4] = [
        ("clip removed", |sql| {
            sql.replace(" AS \"n\"", " * NULL AS \"n\"")
        }),
        ("cells forgotten in the norm", |sql| {
            sql.replace(
                "OVER (PARTITION BY \"u\")",
                "OVER (PARTITION BY \"u\", \"k0\", \"k1\")",
            )
        }),
        ("weights halved in the norm", |sql| {
            sql.replace("abs(\"v", "0.5 * abs(\"v")
        }),
        ("rows of nobody kept", |sql| {
            sql.replace("\"person\" IS NOT NULL", "\"person\" IS NULL OR true")
        }),
    ];
    let world = world().await;
    // A unit with rows in every cell.
    let spread = "BEGIN; SET LOCAL session_replication_role = replica;
        UPDATE w.visits SET person = 9 WHERE id < 720 AND id % 2 = 0; COMMIT";
    world.client.batch_execute(spread).await.unwrap();
    for (name, mutate) in mutants {
        let mut caught = false;
        for sql in &ASKED[4..] {
            let plan = planned(&world, sql);
            let release = &plan.releases()[0];
            let mutant = mutate(release.sql().unwrap());
            if mutant == release.sql().unwrap() {
                continue;
            }
            let is_silent = nobody(&world, release, &mutant).await.is_ok();
            let units = [HEAVY, 9].into_iter();
            caught |= !is_silent || share(&world, (release, &mutant), units).await > 1.0;
        }
        assert!(caught, "{name} survives");
    }
}

/// Fewer effects' columns, or their lengths, in the bound: the noise is too small then.
#[tokio::test(flavor = "multi_thread")]
async fn less_noise_is_caught() {
    let world = world().await;
    for sql in ASKED {
        let plan = planned(&world, sql);
        let price = plan.releases()[0].price().unwrap();
        let by = price.effects.as_ref().unwrap();
        let larger = ByEffects {
            clip: &by.clip * 101u8 / 100u8,
            ..by.clone()
        };
        assert!(calibrated(price, by).is_ok(), "{sql}");
        assert!(calibrated(price, &larger).is_err(), "{sql}");
        for at in 0..by.calibrated.len() {
            let mut shared = by.clone();
            // The noise of the total, which is the least, in another effect.
            shared.calibrated[at] = by.calibrated[0].clone();
            let is_same = shared == *by;
            assert_eq!(calibrated(price, &shared).is_ok(), is_same, "{sql}: {at}");
        }
    }
}

/// Where a policy or a session asks for what effects cannot give, each set has its own noise.
#[tokio::test(flavor = "multi_thread")]
async fn other_sets_are_drawn_apart() {
    let world = world().await;
    let effects = |sql: &str, settings: SessionSettings, accounting: Accounting| {
        let plan = world.plan_with(sql, accounting, 1.0, settings);
        let plan = plan.unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        plan.releases()[0].price().unwrap().effects.is_some()
    };
    assert!(effects(ASKED[0], settings(), Accounting::Gdp));
    assert!(!effects(ASKED[0], settings(), Accounting::Pure));
    assert!(!effects(
        ASKED[0],
        SessionSettings::with_fixed_clips(),
        Accounting::Gdp
    ));
    for sql in [
        "SELECT ch, b, count(*) FROM people GROUP BY ch, b",
        "SELECT ch, b, count(*) FROM people GROUP BY GROUPING SETS ((ch, b))",
        "SELECT ch, b, count(DISTINCT person) FROM visits GROUP BY CUBE (ch, b)",
        "SELECT ch, n2, count(*) FROM people GROUP BY CUBE (ch, n2)",
    ] {
        assert!(!effects(sql, settings(), Accounting::Gdp), "{sql}");
    }
    // A look chooses the clip of many rows.
    let looked_at = SessionSettings {
        clip: ClipChoice::Auto,
        ..SessionSettings::with_fixed_clips()
    };
    let plan = world
        .plan_with(ASKED[4], Accounting::Gdp, 1.0, looked_at)
        .unwrap();
    let price = plan.releases()[0].price().unwrap();
    assert!(price.look.is_some() && price.effects.is_none());
}

fn asking() -> Requester {
    Requester {
        session_settings: SessionSettings {
            epsilon: Some(1.0),
            ..settings()
        },
        ..requester()
    }
}

/// The rows of listed values alone: others are in no group.
fn listed(sql: &str) -> String {
    let listed = "(ch IN ('a', 'b c', '') OR ch IS NULL)";
    if !sql.contains("ch, ") && !sql.contains(" ch") {
        return sql.to_owned();
    }
    match sql.split_once(" WHERE loud") {
        Some((before, after)) => format!("{before} WHERE loud AND {listed}{after}"),
        None => sql.replacen(" GROUP BY", &format!(" WHERE {listed} GROUP BY"), 1),
    }
}

/// Without noise, and within every bound: NULL keys and values outside the lists included.
#[tokio::test(flavor = "multi_thread")]
async fn sets_are_postgresqls_own_without_noise() {
    let world = world().await;
    let within = "BEGIN; SET LOCAL session_replication_role = replica;
        DELETE FROM w.visits WHERE person IS NULL OR id >= 1000;
        UPDATE w.visits SET person = 1 + id / 4, i4 = least(greatest(i4, 0), 50),
            n2 = least(n2, 99.99); COMMIT";
    world.client.batch_execute(within).await.unwrap();
    let proxy = Proxy::over(&world).await;
    for sql in ASKED {
        if sql.contains("corr(") || sql.contains("stddev(") {
            continue;
        }
        let sql = sql.replace("avg(n2)", "count(n2)");
        planned(&world, &sql);
        let ordered = |sql: &str| format!("SELECT * FROM ({sql}) q ORDER BY q::text COLLATE \"C\"");
        let ours = asked_by(&proxy.engine, &asking(), &ordered(&sql))
            .await
            .unwrap();
        let wanted = plain(&world, &ordered(&listed(&sql))).await.unwrap();
        assert_eq!(ours, wanted, "{sql}");
        assert!(wanted.len() > 10, "{sql}");
    }
}

/// With noise: finer groups add up to coarser ones, each set has its own error, the same question
/// and one that is read off it print the same again.
#[tokio::test(flavor = "multi_thread")]
async fn noisy_sets_agree_and_are_read_again() {
    let world = world().await;
    let seeded = || Box::new(Stream(ChaCha20Rng::seed_from_u64(4))) as Box<dyn Sampler + Send>;
    let proxy = Proxy::with(&world, Arc::new(seeded)).await;
    // What limits rows serves no other question.
    let mut asking = asking();
    asking.session_settings.rows_per_unit = None;
    let ask = async |sql: &str| asked_by(&proxy.engine, &asking, sql).await.unwrap();
    let of_sets = |by: &str| {
        format!(
            "SELECT grouping(b, loud), b, loud, sum(n2), pgveil.stderr(sum(n2)) FROM people \
                GROUP BY {by} ORDER BY 1, 2, 3"
        )
    };
    let cube = ask(&of_sets("CUBE (b, loud)")).await;
    let number = |text: &Option<String>| text.as_ref().unwrap().parse::<f64>().unwrap();
    let of = |set: &str| {
        cube.iter()
            .filter(|row| row[0].as_deref() == Some(set))
            .collect::<Vec<_>>()
    };
    let (finest, whole) = (of("0"), of("3"));
    assert_eq!((finest.len(), whole.len(), cube.len()), (6, 1, 12));
    let added: f64 = finest.iter().map(|row| number(&row[3])).sum();
    // Each is rounded to hundredths.
    assert!((added - number(&whole[0][3])).abs() < 0.04, "{cube:?}");
    for set in ["1", "2"] {
        let added: f64 = of(set).iter().map(|row| number(&row[3])).sum();
        assert!((added - number(&whole[0][3])).abs() < 0.04, "{cube:?}");
        for coarse in of(set) {
            let at = if set == "1" { 1 } else { 2 };
            let parts = finest.iter().filter(|row| row[at] == coarse[at]);
            let added: f64 = parts.map(|row| number(&row[3])).sum();
            assert!((added - number(&coarse[3])).abs() < 0.04, "{cube:?}");
        }
    }
    // The total's error is larger than that of a group of both keys, and both are smaller than with
    // separate noise.
    let (of_whole, of_finest) = (number(&whole[0][4]), number(&finest[0][4]));
    assert!(of_finest * 1.1 < of_whole, "{of_finest} {of_whole}");
    assert_eq!(ask(&of_sets("CUBE (b, loud)")).await, cube);
    let read_off = ask(&of_sets("b, loud")).await;
    let rows: Vec<_> = finest.into_iter().cloned().collect();
    assert_eq!(read_off, rows);
    // A sum of all groups of a key is the coarser set's own, and so is its error.
    let sums = ask(
        "SELECT b, sum(n2), pgveil.stderr(sum(n2)) FROM people WHERE loud IN (true, false) GROUP \
            BY b ORDER BY 1",
    )
    .await;
    for (sum, coarse) in sums.iter().zip(of("1")) {
        assert!(
            (number(&sum[1]) - number(&coarse[3])).abs() < 0.02,
            "{sums:?} {cube:?}"
        );
        let ratio = number(&sum[2]) / number(&coarse[4]);
        assert!((ratio - 1.0).abs() < 1e-6, "{sums:?} {cube:?}");
    }
}

/// Groups share effects, so that the error of their sum is not the root of the sum of squares: it
/// is computed from the effects, whether or not they are all combinations of some values.
#[tokio::test(flavor = "multi_thread")]
async fn sums_of_groups_have_the_error_of_their_effects() {
    let world = world().await;
    let cube =
        "SELECT b, loud, sum(n2), pgveil.stderr(sum(n2)) FROM people GROUP BY CUBE (b, loud)";
    let plan = planned(&world, cube);
    let effects = &plan.releases()[0]
        .price()
        .unwrap()
        .effects
        .as_ref()
        .unwrap()
        .effects;
    let seeded = || Box::new(Stream(ChaCha20Rng::seed_from_u64(4))) as Box<dyn Sampler + Send>;
    let proxy = Proxy::with(&world, Arc::new(seeded)).await;
    let mut asking = asking();
    asking.session_settings.rows_per_unit = None;
    let ask = async |sql: &str| asked_by(&proxy.engine, &asking, sql).await.unwrap();
    let number = |text: &Option<String>| text.as_ref().unwrap().parse::<f64>().unwrap();
    let shown = ask(&format!(
        "SELECT * FROM ({cube}) q WHERE b IS NOT NULL AND loud"
    ))
    .await;
    let [one, other] = shown.as_slice() else {
        panic!("{shown:?}");
    };
    let whole = "SELECT sum(n2), pgveil.stderr(sum(n2)) FROM people WHERE ";
    let sum = ask(&format!("{whole} loud AND b IN (true, false)")).await;
    assert!(
        (number(&sum[0][0]) - number(&one[2]) - number(&other[2])).abs() < 0.02,
        "{sum:?} {shown:?}"
    );
    let of = |values: usize| {
        effects.variance(&[0, 1], |at| {
            SummedValues::Number(if at == 0 { values } else { 1 })
        })
    };
    let wanted = number(&one[3]) * (of(2) / of(1)).sqrt();
    assert!(
        (number(&sum[0][1]) / wanted - 1.0).abs() < 1e-3,
        "{sum:?} {shown:?}"
    );
    // As independent groups it would have another.
    assert!((wanted / number(&one[3]) / 2f64.sqrt() - 1.0).abs() > 0.01);
    // Two groups that are not all combinations of any values.
    let apart = ask(&format!("{whole} (loud AND b) OR (b = false AND NOT loud)")).await;
    let mut picked = vec![0.0; effects.groups_in(&[0, 1])];
    picked[0] = 1.0;
    picked[effects.sizes()[1] + 1] = 1.0;
    let wanted = number(&one[3]) * (effects.variance_of(&[0, 1], &picked) / of(1)).sqrt();
    assert!(
        (number(&apart[0][1]) / wanted - 1.0).abs() < 1e-3,
        "{apart:?} {wanted}"
    );
    assert!((wanted / number(&sum[0][1]) - 1.0).abs() > 0.01);
}

/// Draws that are counted: the noise of each, in order.
struct Counting(Arc<Mutex<Vec<Noise>>>);

impl Sampler for Counting {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        self.0.lock().unwrap().push(*noise);
        Ok(0)
    }

    fn choose(&mut self, _: &Exponential, _: &[CandidateRun]) -> Result<(usize, u64), SampleError> {
        Err(SampleError::Parameter)
    }
}

/// One draw for each integer of each effect and coordinate, by the effect's own noise. Noise on
/// cells that is transformed would be drawn for each cell; noise that effects share, more rarely.
#[tokio::test(flavor = "multi_thread")]
async fn each_integer_of_an_effect_has_its_own_draw() {
    let world = world().await;
    for sql in [ASKED[0], ASKED[1], ASKED[4]] {
        let drawn = Arc::new(Mutex::new(Vec::new()));
        let (counted, making) = (drawn.clone(), drawn.clone());
        let sampler = move || Box::new(Counting(making.clone())) as Box<dyn Sampler + Send>;
        let proxy = Proxy::with(&world, Arc::new(sampler)).await;
        let statements = parse(sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("{sql}");
        };
        let (plan, _) = proxy.engine.plan(&asking(), query).await.unwrap();
        let price = plan.releases()[0].price().unwrap();
        let by = price.effects.as_ref().unwrap();
        let mut wanted = Vec::new();
        for at in 0..price.weights.len() {
            for (effect, noise) in by.measured_effects() {
                let values = vec![0; by.effects.cells()];
                let all: Vec<usize> = (0..by.effects.sizes().len()).collect();
                let integers = by.effects.effect(effect, &all, &values).len();
                wanted.extend(std::iter::repeat_n(noise[at].noise, integers));
            }
        }
        asked_by(&proxy.engine, &asking(), sql).await.unwrap();
        assert_eq!(*counted.lock().unwrap(), wanted, "{sql}");
    }
}

/// Under a target error no group of any set is further off, whatever noise the statement would
/// take by itself: effects need Gaussian noise.
#[tokio::test(flavor = "multi_thread")]
async fn each_set_is_within_a_target_error() {
    let world = world().await;
    for sql in [
        "SELECT b, count(*) FROM people GROUP BY ROLLUP (b)",
        "SELECT ch, \"Mood\", count(*) FROM people GROUP BY CUBE (ch, \"Mood\")",
        "SELECT ch, b, count(*) FROM visits GROUP BY CUBE (ch, b)",
    ] {
        let mut settings = settings();
        settings.set("pgveil.target_error", "40").unwrap();
        let plan = world
            .plan_with(sql, Accounting::Gdp, 1.0, settings)
            .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
        let release = &plan.releases()[0];
        let price = release.price().unwrap();
        assert!(price.effects.is_some(), "{sql}");
        assert_eq!(price.mechanism, Mechanism::Gaussian, "{sql}");
        let error = measure_deviation(release, &release.measures()[0]).unwrap();
        assert!((39.0..=40.0).contains(&error), "{sql}: {error}");
        calibrated(price, price.effects.as_ref().unwrap()).unwrap();
    }
}
