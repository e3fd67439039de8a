//! Running totals over time: rows come, late ones too, and rows of totals are drawn in their order.
//! With the weights of the square root, what one unit adds to all rows of a horizon is within what
//! one price pays for.

use std::collections::BTreeMap;
use std::sync::Arc;

use num_bigint::{BigInt, BigUint};
use pgveil::analyze::PlanningEffort;
use pgveil::calendar::period::PeriodSet;
use pgveil::engine::plan_draw;
use pgveil::mechanism::Accounting;
use pgveil::rewrite::{Plan, ReleasePlan};

use super::prepaid::{POLICY, SCHEMA, UNITS, day, finest, form, insert, settings};
use super::random::{Random, seeds};
use super::world::{Groups, World};

const COUNTED: u32 = 3;

const QUESTIONS: [&str; 4] = [
    "SELECT date_trunc('day', seen), count(*) FROM visits WHERE seen >= '2024-03-01' AND seen < \
        '2024-04-01' GROUP BY 1",
    "SELECT seen::date, kind, count(amount), sum(amount) FROM visits WHERE seen IS NOT NULL AND \
        amount < 900 GROUP BY 1, 2",
    "SELECT seen::date, stays.kind, count(*) FILTER (WHERE amount > 3) FROM visits JOIN stays ON \
        visits.stay = stays.id JOIN people ON stays.person = people.id WHERE seen >= '2024-03-02' \
        AND visits.kind = 'a' AND region = 'n' GROUP BY 1, 2",
    "SELECT seen::date, sum(amount - 500), count(DISTINCT stays.person) FROM visits JOIN stays ON \
        visits.stay = stays.id WHERE seen IS NOT NULL GROUP BY 1",
];

fn policy() -> String {
    POLICY.replace(
        "append_only: true}\n",
        "append_only: true, answers: totals}\n",
    )
}

/// The plan that draws the rows from one day to before another.
fn draw(world: &World, form: &Plan, (since, first, end): (usize, usize, usize)) -> Plan {
    let terms = World::terms(Accounting::Gdp, 1.0, settings());
    let planned = plan_draw(
        form,
        (day(since), &PeriodSet::between(day(first), day(end))),
        (&world.policy, &terms),
        &Arc::new(PlanningEffort::default()),
    );
    planned.unwrap().expect("rows may be in each period")
}

/// What a unit adds to each day, by the other keys and the coordinates.
type OfDays = BTreeMap<(Vec<Option<String>>, usize), BTreeMap<usize, BigInt>>;

fn moved(whole: &Groups, rest: &Groups) -> OfDays {
    let mut of_days = OfDays::new();
    for (key, values) in whole {
        let Some(text) = &key[0] else { continue };
        let day: usize = text[8..10].parse().unwrap();
        for (at, value) in values.iter().enumerate() {
            let other = rest.get(key).map_or(BigInt::ZERO, |rest| rest[at].clone());
            let line = of_days.entry((key[1..].to_vec(), at)).or_default();
            line.insert(day, value - other);
        }
    }
    of_days
}

/// The squared, weighted length of what a unit adds to the rows of some days.
fn squares(release: &ReleasePlan, of_days: &OfDays, (first, end): (usize, usize)) -> BigUint {
    let price = release.price().unwrap();
    let root = &price.totals.as_ref().unwrap().root;
    let mut squares = BigUint::ZERO;
    for ((_, at), line) in of_days {
        for row in first..end {
            let parts = line.range(..=row);
            let sum: BigInt = parts.map(|(day, x)| x * root.entry(row - day)).sum();
            let weighted = sum.magnitude() * &price.weights[*at];
            let weighted = weighted << (finest(release) - price.calibrated[*at].refine);
            squares += &weighted * &weighted;
        }
    }
    squares
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// The first periods among those of the question's rows since the last draw.
    RankInDraw,
    LastPeriods,
    Deletion,
}

/// All draws of one horizon in their order; whether one price covers what each unit added.
async fn is_within(world: &World, random: &mut Random, sql: &str, broken: Broken) -> bool {
    let clear = "TRUNCATE w.visits; DELETE FROM w.stays WHERE id > 20;";
    world.client.batch_execute(clear).await.unwrap();
    let form = form(world, sql, 1.0);
    assert!(form.has_totals(), "{sql}");
    let (mut of_units, mut first) = (BTreeMap::<usize, BigUint>::new(), 1);
    let mut allowed = BigUint::ZERO;
    while first < 13 {
        for _ in 0..1 + random.below(3) {
            insert(world, random).await;
        }
        let other = format!(
            "UPDATE w.people SET region = (ARRAY['n', 's', 'zz'])[1 + (id + {}) % 3]",
            random.below(3)
        );
        world.client.batch_execute(&other).await.unwrap();
        if broken == Broken::Deletion {
            let delete = format!("DELETE FROM w.visits WHERE seen < '2024-03-{first:02}'");
            world.client.batch_execute(&delete).await.unwrap();
        }
        let end = (first + 1 + random.below(3)).min(13);
        let since = match broken {
            Broken::RankInDraw => first,
            _ => 1,
        };
        let plan = draw(world, &form, (since, first, end));
        assert_eq!(plan.loss(), form.loss(), "{sql}");
        let release = &plan.releases()[0];
        let mut sql = release.sql().unwrap().to_owned();
        if broken == Broken::LastPeriods {
            let (up, down) = (" ASC NULLS LAST) AS ", " DESC NULLS LAST) AS ");
            assert!(sql.contains(up), "{sql}");
            sql = sql.replacen(up, down, 1);
        }
        let keys = release.vector_keys();
        let whole = world.run(&sql, keys).await.unwrap();
        for unit in 1..=UNITS {
            let delete = format!(
                "BEGIN; DELETE FROM w.visits USING w.stays WHERE stays.id = visits.stay AND \
                    stays.person = {unit}; DELETE FROM w.stays WHERE person = {unit}; DELETE FROM \
                    w.people WHERE id = {unit};"
            );
            world.client.batch_execute(&delete).await.unwrap();
            let rest = world.run(&sql, keys).await;
            world.back().await;
            let of_days = moved(&whole, &rest.unwrap());
            *of_units.entry(unit).or_default() += squares(release, &of_days, (first, end));
        }
        let price = release.price().unwrap();
        let root = &price.totals.as_ref().unwrap().root;
        let length = &price.clip * root.sensitivity(COUNTED);
        allowed = (&length * &length) << (2 * finest(release));
        first = end;
    }
    of_units.values().all(|squares| *squares <= allowed)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_rows_of_a_horizon_stay_within_one_price() {
    let seed = seeds()[0];
    let mut random = Random::new(seed);
    let world = World::with(SCHEMA, &policy()).await;
    for round in 0..2 {
        for sql in QUESTIONS {
            let is_within = is_within(&world, &mut random, sql, Broken::Nothing).await;
            assert!(is_within, "PGVEIL_SEED={seed}, round {round}\n{sql}");
        }
    }
}

/// The harness finds a rank over the periods of a draw, one from the end, and rows that go.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_finds_what_the_proof_needs() {
    let mut random = Random::new(seeds()[0]);
    let world = World::with(SCHEMA, &policy()).await;
    for broken in [Broken::RankInDraw, Broken::LastPeriods, Broken::Deletion] {
        let mut is_missed = true;
        for _ in 0..8 {
            is_missed = is_missed && is_within(&world, &mut random, QUESTIONS[0], broken).await;
        }
        assert!(!is_missed, "{broken:?}");
    }
}

/// The noise of the rows, for the longest columns, is that of the price; and a period that is
/// computed from them has the stated one.
#[tokio::test(flavor = "multi_thread")]
async fn noise_covers_the_longest_columns() {
    let world = World::with(SCHEMA, &policy()).await;
    for sql in QUESTIONS {
        let form = form(&world, sql, 1.0);
        let mut drawn = Vec::new();
        for days in [(1, 1, 2), (1, 2, 12), (1, 1, 25)] {
            let plan = draw(&world, &form, days);
            let price = plan.releases()[0].price().unwrap();
            let totals = price.totals.as_ref().unwrap();
            assert_eq!(
                totals.root.entry(29) == 0,
                totals.root.entry(30) != 0,
                "30 rows"
            );
            let float = |value: &BigUint| value.to_string().parse::<f64>().unwrap();
            let length = float(&totals.root.sensitivity(COUNTED)) * float(&price.clip);
            let paid = plan.loss().mu_squared.to_f64();
            for (weight, calibrated) in price.weights.iter().zip(&totals.drawn) {
                let grid = f64::from(calibrated.refine).exp2();
                let moved = length / float(weight) * grid;
                let all = (moved / calibrated.noise.standard_deviation()).powi(2);
                assert!(all <= paid * (1.0 + 1e-6), "{sql}: {all} {paid}");
                assert!(all >= paid * 0.99, "{sql}: {all} {paid}");
            }
            drawn.push(totals.drawn.clone());
        }
        assert!(drawn.windows(2).all(|two| two[0] == two[1]), "{sql}");
    }
}
