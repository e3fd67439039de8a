//! Questions by periods over time: rows come, periods are bought, more rows come. One unit moves
//! each statement that is bought by no more than it was charged for, whatever was bought before
//! and however late its rows come.

use std::sync::Arc;

use pgveil::analyze::{PlanningEffort, analyze};
use pgveil::calendar::iso::{Zone, timestamp};
use pgveil::calendar::period::{PeriodLength, PeriodSet};
use pgveil::mechanism::Accounting;
use pgveil::policy::SessionSettings;
use pgveil::rewrite::{Plan, ReleasePlan, Terms, rewrite};

use super::bound::within;
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

/// The release that buys these periods of a question.
fn batch(world: &World, form: &Plan, periods: &PeriodSet, terms: &Terms) -> Plan {
    let query = form.periods().unwrap().within(periods);
    let effort = Arc::new(PlanningEffort::default());
    let analyzed = analyze(query, &world.policy, &terms.session_settings, &effort).unwrap();
    rewrite(&analyzed, &world.policy, terms).unwrap()
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
    let whole = world.run(sql, release.vector_keys()).await?;
    for unit in 1..=12 {
        let delete = format!(
            "BEGIN; DELETE FROM w.visits WHERE person = {unit}; DELETE FROM w.people WHERE id = \
                {unit};"
        );
        world.client.batch_execute(&delete).await.unwrap();
        let rest = world.run(sql, release.vector_keys()).await;
        world.back().await;
        within(release.price().unwrap(), release, &whole, &rest?)
            .map_err(|fault| format!("without {unit}: {fault}\n{sql}"))?;
    }
    Ok(())
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
    let mut measured = 0;
    for round in 0..12 {
        insert(&world, &mut random).await;
        for sql in questions {
            let accounting = match random.once_in(3) {
                true => Accounting::Pure,
                false => Accounting::Gdp,
            };
            let epsilon = [0.1, 1.0][random.below(2)];
            // Under pure accounting, keys have to be listed by bounds on either side.
            let Ok(plan) = world.plan_under(sql, accounting, epsilon) else {
                assert_eq!(accounting, Accounting::Pure, "{sql}");
                continue;
            };
            let settings = SessionSettings::with_fixed_clips();
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
        }
    }
    assert!(measured >= 20, "{measured} statements were by periods");
}

/// What docs/periods.md says of the noise of days that are bought together.
#[tokio::test(flavor = "multi_thread")]
async fn days_that_are_bought_together_have_the_noise_of_their_clip() {
    let world = World::with(SCHEMA, POLICY).await;
    let day = |day: usize| {
        let text = format!("2024-03-{day:02}");
        let first = PeriodLength::Day.period_of(timestamp(&text, Zone::Refused).unwrap());
        PeriodSet::between(first, first.next())
    };
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
