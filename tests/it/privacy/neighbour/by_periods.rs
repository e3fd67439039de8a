//! Questions by periods over time: rows come, periods are bought, more rows come. One unit moves
//! each statement that is bought by no more than it was charged for, whatever was bought before
//! and however late its rows come.

use std::sync::Arc;

use pgveil::analyze::{KeyRule, PlanningEffort};
use pgveil::calendar::iso::{Zone, timestamp};
use pgveil::calendar::period::{PeriodLength, PeriodSet};
use pgveil::engine::{Sql, describe_plan, plan_batch};
use pgveil::mechanism::{Accounting, Noise};
use pgveil::policy::SessionSettings;
use pgveil::rewrite::{Plan, ReleasePlan, Terms};

use super::bound::within;
use super::look::{priced, within_blocks};
use super::random::{Random, seeds};
use super::world::World;

/// Also rows that break the policy's declarations: more of a unit and day than it says, no moment,
/// and amounts out of bounds.
const SCHEMA: &str = "
CREATE SCHEMA w;
CREATE TABLE w.people (id int PRIMARY KEY, region text);
CREATE TABLE w.visits (id int PRIMARY KEY, person int NOT NULL REFERENCES w.people, seen \
timestamptz, kind text, amount int);
INSERT INTO w.people SELECT g, (ARRAY['n', 's', 'zz'])[1 + g % 3] FROM generate_series(1, 12) AS g;
CREATE SEQUENCE w.numbers;";

const POLICY: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
limits: {groups_per_unit: 6}
roles: [{name: ann, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 3, delta: 1e-7}}]
tables:
  w.people:
    unit: id
    columns: {region: {values: [n, s]}}
  w.visits:
    unit: {path: [person -> w.people.id]}
    rows_per_unit: 5
    periods: {column: seen, by: day, from: 2024-03-01, close_after: 2d}
    columns:
      seen: visible
      kind: {values: [a, b]}
      amount: {bounds: [0, 1000]}
";

/// Inserts some rows, of any day, as late as they may be. Most are of one person.
async fn insert(world: &World, random: &mut Random) {
    let mut rows = Vec::new();
    for _ in 0..1 + random.below(25) {
        let person = match random.once_in(2) {
            true => 1 + random.below(12),
            false => 7,
        };
        let moment = match random.below(12) {
            0 => "NULL".to_owned(),
            1 => "'infinity'".to_owned(),
            day => format!("'2024-03-{:02} {:02}:30+00'", day, random.below(24)),
        };
        let kind = random.pick(&["'a'", "'b'", "'c'", "NULL"]);
        let amount = random.pick(&["0", "17", "1000", "-5", "2147483647", "NULL"]);
        rows.push(format!(
            "(nextval('w.numbers'), {person}, {moment}, {kind}, {amount})"
        ));
    }
    let insert = format!("INSERT INTO w.visits VALUES {}", rows.join(", "));
    world.client.batch_execute(&insert).await.unwrap();
}

/// The plan that buys these periods of a question.
fn batch(world: &World, form: &Plan, periods: &PeriodSet, terms: &Terms) -> Plan {
    let effort = Arc::new(PlanningEffort::default());
    let planned = plan_batch(form, periods, (&world.policy, terms), &effort);
    planned.unwrap().expect("rows may be in each period")
}

/// A day of March 2024.
fn day(day: usize) -> PeriodSet {
    let text = format!("2024-03-{day:02}");
    let first = PeriodLength::Day.period_of(timestamp(&text, Zone::Refused).unwrap());
    PeriodSet::between(first, first.next())
}

/// Some of the days 2 to 11 of the month.
fn some_days(random: &mut Random) -> PeriodSet {
    let micros = |day: usize| {
        let text = format!("2024-03-{day:02}");
        PeriodLength::Day.period_of(timestamp(&text, Zone::Refused).unwrap())
    };
    let mut days = PeriodSet::default();
    for _ in 0..1 + random.below(4) {
        let first = 2 + random.below(10);
        days = days.or(&PeriodSet::between(
            micros(first),
            micros((first + 1 + random.below(4)).min(12)),
        ));
    }
    days
}

async fn holds(world: &World, release: &ReleasePlan) -> Result<(), String> {
    let sql = release.sql().unwrap();
    if let Some(look) = release.look() {
        priced(look)?;
    }
    let bins = release.look().map_or(0, |look| look.blocks.len());
    let columns = match release.look() {
        Some(_) => release.key_columns() + bins,
        None => release.vector_keys(),
    };
    let whole = world.run(sql, columns).await?;
    for unit in 1..=12 {
        leave(world, unit).await;
        let rest = world.run(sql, columns).await;
        world.back().await;
        let rest = rest?;
        match release.look() {
            Some(look) => within_blocks((release, look), &whole, &rest),
            None => within(release.price().unwrap(), release, &whole, &rest),
        }
        .map_err(|fault| format!("without {unit}: {fault}\n{sql}"))?;
    }
    Ok(())
}

/// A transaction in which one unit is gone.
async fn leave(world: &World, unit: usize) {
    let delete = format!(
        "BEGIN; DELETE FROM w.visits WHERE person = {unit}; DELETE FROM w.people WHERE id = {unit};"
    );
    world.client.batch_execute(&delete).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_bought_by_periods_stays_within_its_price() {
    let seed = seeds()[0];
    let mut random = Random::new(seed);
    let world = World::with(SCHEMA, POLICY).await;
    let questions = [
        "SELECT date_trunc('day', seen), count(*) FROM visits WHERE seen >= '2024-03-01' AND seen \
            < '2024-04-01' GROUP BY 1",
        "SELECT seen::date, sum(amount), avg(amount) FROM visits WHERE seen IS NOT NULL GROUP BY 1",
        "SELECT date_trunc('hour', seen), count(*) FROM visits WHERE seen < '2024-04-01' GROUP BY \
            1",
        "SELECT seen::date, kind, count(amount), count(DISTINCT person) FROM visits WHERE seen IS \
            NOT NULL AND amount < 900 GROUP BY 1, 2",
        "SELECT seen::date, region, count(*) FILTER (WHERE amount > 3), sum(amount) FROM visits \
            JOIN people ON visits.person = people.id WHERE seen >= '2024-03-02' AND kind = 'a' \
            GROUP BY 1, 2",
    ];
    let (mut measured, mut looked_at) = (0, 0);
    for round in 0..12 {
        insert(&world, &mut random).await;
        for sql in questions {
            let accounting = match random.once_in(3) {
                true => Accounting::Pure,
                false => Accounting::Gdp,
            };
            let epsilon = [0.1, 1.0][random.below(2)];
            let settings = match random.once_in(2) {
                true => SessionSettings::with_fixed_clips(),
                false => SessionSettings::default(),
            };
            // Under pure accounting, keys have to be listed by bounds on either side.
            let Ok(plan) = world.plan_with(sql, accounting, epsilon, settings) else {
                assert_eq!(accounting, Accounting::Pure, "{sql}");
                continue;
            };
            let terms = World::terms(accounting, epsilon, settings);
            let Some(form) = plan.by_periods() else {
                continue;
            };
            let bought = batch(&world, form, &some_days(&mut random), &terms);
            let release = &bought.releases()[0];
            assert_eq!(bought.loss(), release.loss().unwrap());
            if let Err(fault) = holds(&world, release).await {
                panic!("PGVEIL_SEED={seed}, round {round}\n{sql}\n{fault}");
            }
            measured += 1;
            looked_at += usize::from(release.look().is_some());
        }
    }
    assert!(measured >= 30, "{measured} statements were by periods");
    assert!(looked_at >= 5, "{looked_at} of them were looked at");
}

/// What docs/periods.md says of the noise of days that are bought together.
#[tokio::test(flavor = "multi_thread")]
async fn days_that_are_bought_together_have_the_noise_of_their_clip() {
    let world = World::with(SCHEMA, POLICY).await;
    let noise = |sql: &str, days: &[usize]| {
        let terms = World::terms(Accounting::Gdp, 1.0, SessionSettings::with_fixed_clips());
        let plan = world.plan_under(sql, Accounting::Gdp, 1.0).unwrap();
        let periods = days
            .iter()
            .fold(PeriodSet::default(), |all, at| all.or(&day(*at)));
        let form = plan.by_periods().unwrap();
        let bought = batch(&world, form, &periods, &terms);
        let sums = &bought.releases()[0].facts().sums;
        sums.iter().find_map(|sum| sum.standard_deviation).unwrap()
    };
    let of = |what: &str| {
        format!("SELECT seen::date, {what} FROM visits WHERE seen IS NOT NULL GROUP BY 1")
    };
    let (rows, units) = (of("count(*)"), of("count(DISTINCT person)"));
    assert!((noise(&rows, &[2, 3, 4, 5, 6]) / noise(&rows, &[2]) - 1.0).abs() < 1e-6);
    let (of_one, of_four) = (noise(&units, &[2]), noise(&units, &[2, 3, 4, 5]));
    assert!(of_four > 1.5 * of_one, "{of_one} {of_four}");
    // Days that are not bought do not count, wherever they lie.
    assert_eq!(noise(&units, &[2, 9]), noise(&units, &[2, 3]));
    assert_eq!(noise(&units, &[2, 4, 5, 11]), of_four);
}

const COUNTED: &str = "SELECT seen::date, count(*) FROM visits WHERE seen IS NOT NULL GROUP BY 1";

/// What one unit needs of mu^2 in a purchase with clips by declared bounds: the square of how far
/// it moves the sums, in standard deviations.
async fn needed(world: &World, release: &ReleasePlan, unit: usize) -> f64 {
    let (sql, keys) = (release.sql().unwrap(), release.vector_keys());
    let whole = world.run(sql, keys).await.unwrap();
    leave(world, unit).await;
    let rest = world.run(sql, keys).await.unwrap();
    world.back().await;
    let [calibrated] = release.price().unwrap().calibrated.as_slice() else {
        panic!("one count: {sql}");
    };
    let Noise::Gaussian { .. } = calibrated.noise else {
        panic!("Gaussian noise: {sql}");
    };
    let of = |value: &num_bigint::BigInt| -> f64 { value.to_string().parse().unwrap() };
    let moved = whole.iter().map(|(key, values)| {
        let other = rest.get(key).map_or(0.0, |values| of(&values[0]));
        ((of(&values[0]) - other) / calibrated.noise.standard_deviation()).powi(2)
    });
    moved.sum()
}

/// The rows of one unit may lie in every period, so that purchases add up: without the debit of the
/// second one, or with late rows answered anew under the first, a unit is in more than was paid.
#[tokio::test(flavor = "multi_thread")]
async fn each_purchase_of_periods_needs_its_own_debit() {
    let world = World::with(SCHEMA, POLICY).await;
    let rows = async |day: usize| {
        let insert = format!(
            "INSERT INTO w.visits SELECT nextval('w.numbers'), 7, '2024-03-{day:02} 12:00+00', \
                'a', 5 FROM generate_series(1, 9)"
        );
        world.client.batch_execute(&insert).await.unwrap();
    };
    rows(2).await;
    rows(5).await;
    let settings = SessionSettings::with_fixed_clips();
    let plan = world
        .plan_with(COUNTED, Accounting::Gdp, 1.0, settings)
        .unwrap();
    let terms = World::terms(Accounting::Gdp, 1.0, settings);
    let form = plan.by_periods().unwrap();
    let bought = [day(2), day(5)].map(|periods| batch(&world, form, &periods, &terms));
    let (mut paid, mut needs) = (0.0, 0.0);
    for plan in &bought {
        holds(&world, &plan.releases()[0]).await.unwrap();
        paid += plan.loss().mu_squared.to_f64();
        needs += needed(&world, &plan.releases()[0], 7).await;
    }
    let first = bought[0].loss().mu_squared.to_f64();
    assert!(needs <= paid * (1.0 + 1e-6), "{needs} {paid}");
    assert!(
        needs > 1.9 * first,
        "the second debit left out: {needs} {first}"
    );
    // The same day once more, after late rows.
    rows(2).await;
    let anew = batch(&world, form, &day(2), &terms);
    let anew = needed(&world, &anew.releases()[0], 7).await;
    let before = needed(&world, &bought[0].releases()[0], 7).await;
    assert!(
        before + anew > 1.9 * first,
        "late rows answered anew: {before} {anew}"
    );
    // Both days in one purchase have one clip, and one debit.
    let both = batch(&world, form, &day(2).or(&day(5)), &terms);
    holds(&world, &both.releases()[0]).await.unwrap();
    let needs = needed(&world, &both.releases()[0], 7).await;
    let price = both.loss().mu_squared.to_f64();
    assert!(needs <= price * (1.0 + 1e-6) && price <= first * (1.0 + 1e-6));
}

/// Plans of purchases, as they are: their keys, bounds, SQL and price.
#[tokio::test(flavor = "multi_thread")]
async fn purchases_of_periods_are_as_written() {
    let world = World::with(SCHEMA, POLICY).await;
    let days = |days: &[usize]| {
        let sets = days.iter().map(|at| day(*at));
        sets.fold(PeriodSet::default(), |all, one| all.or(&one))
    };
    let mut stories = Vec::new();
    for (sql, periods, settings) in [
        (COUNTED, days(&[4]), SessionSettings::with_fixed_clips()),
        (COUNTED, days(&[4, 5, 9]), SessionSettings::default()),
        (
            "SELECT seen::date, kind, count(DISTINCT person), sum(amount) FROM visits WHERE seen \
                >= '2024-03-01' AND seen < '2024-04-01' AND amount < 900 GROUP BY 1, 2",
            days(&[4, 9]),
            SessionSettings::with_fixed_clips(),
        ),
        (
            "SELECT date_trunc('hour', seen), avg(amount) FROM visits WHERE seen >= '2024-03-01' \
                AND seen < '2024-04-01' GROUP BY 1",
            days(&[4, 9]),
            SessionSettings::default(),
        ),
    ] {
        let plan = world
            .plan_with(sql, Accounting::Gdp, 1.0, settings)
            .unwrap();
        let terms = World::terms(Accounting::Gdp, 1.0, settings);
        let bought = batch(&world, plan.by_periods().unwrap(), &periods, &terms);
        let keys = bought.releases()[0]
            .keys()
            .iter()
            .map(|(_, rule)| match rule {
                KeyRule::Domain(values) => format!("{} values", values.len()),
                KeyRule::Threshold => "by threshold".to_owned(),
            });
        let keys: Vec<String> = keys.collect();
        let lines = describe_plan(&bought, terms.delta, Sql::Shown).join("\n");
        stories.push(format!(
            "{sql}\nclip = {}, days: {}\n\nKeys: {}\n{lines}\n",
            settings.clip.name(),
            periods.count(),
            keys.join(", ")
        ));
    }
    insta::with_settings!({
        snapshot_path => "../../../golden/emitted",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("periods", stories.join("\n────────\n\n"));
    });
}
