//! Prepaid periods over time: rows come, late ones too, and periods are drawn in their order. All
//! draws of a horizon together move by no more than one price pays for.

use std::collections::BTreeMap;
use std::sync::Arc;

use num_bigint::{BigInt, BigUint};
use pgveil::analyze::PlanningEffort;
use pgveil::calendar::iso::{Zone, timestamp};
use pgveil::calendar::period::{Period, PeriodLength, PeriodSet};
use pgveil::engine::plan_draw;
use pgveil::mechanism::Accounting;
use pgveil::policy::SessionSettings;
use pgveil::rewrite::{Plan, ReleasePlan};

use super::random::{Random, seeds};
use super::world::{Groups, World};

/// A path over a table that is read, and rows that break the policy's declarations.
pub(super) const SCHEMA: &str = "
CREATE SCHEMA w;
CREATE TABLE w.people (id int PRIMARY KEY, region text);
CREATE TABLE w.stays (id int PRIMARY KEY, person int REFERENCES w.people, kind text);
CREATE TABLE w.visits (id int PRIMARY KEY, stay int NOT NULL, seen timestamptz, day date, kind \
text, amount int);
INSERT INTO w.people SELECT g, (ARRAY['n', 's', 'zz'])[1 + g % 3] FROM generate_series(1, 6) AS g;
INSERT INTO w.stays SELECT g, NULLIF(g % 7, 0), (ARRAY['in', 'out'])[1 + g % 2] FROM \
generate_series(1, 20) AS g;
CREATE SEQUENCE w.numbers;";

pub(super) const UNITS: usize = 6;
const COUNTED: u32 = 3;

pub(super) const POLICY: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
roles: [{name: ann, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 3, delta: 1e-7}}]
tables:
  w.people: {unit: id, columns: {region: {values: [n, s]}}}
  w.stays:
    unit: {path: [person -> w.people.id]}
    rows_per_unit: 8
    append_only: true
    columns: {kind: {values: [in, out]}}
  w.visits:
    unit: {path: [stay -> w.stays.id, person -> w.people.id], trusted_path: true}
    rows_per_unit: 12
    periods:
      {column: seen, by: day, from: 2024-03-01, close_after: 2d, per_unit: 3, horizon: 30, rows: 2,
      append_only: true}
    columns:
      seen: visible
      day: visible
      kind: {values: [a, b]}
      amount: {bounds: [0, 1000]}
";

pub(super) fn day(day: usize) -> Period {
    let text = format!("2024-03-{day:02}");
    PeriodLength::Day.period_of(timestamp(&text, Zone::Refused).unwrap())
}

/// Some rows of any day, most of one person; and sometimes the stay of rows that came before it.
pub(super) async fn insert(world: &World, random: &mut Random) {
    let mut rows = Vec::new();
    for _ in 0..1 + random.below(14) {
        let stay = match random.once_in(3) {
            true => 1 + random.below(24),
            // Three stays of person 2.
            false => [2, 9, 16][random.below(3)],
        };
        let moment = match random.below(14) {
            0 => "NULL".to_owned(),
            1 => "'infinity'".to_owned(),
            day => format!("'2024-03-{:02} {:02}:30+00'", day - 1, random.below(24)),
        };
        let kind = random.pick(&["'a'", "'b'", "'c'", "NULL"]);
        let amount = random.pick(&["0", "17", "1000", "-5", "2147483647", "NULL"]);
        rows.push(format!(
            "(nextval('w.numbers'), {stay}, {moment}, ({moment}::timestamptz AT TIME ZONE \
                'UTC')::date, {kind}, {amount})"
        ));
    }
    let mut insert = format!("INSERT INTO w.visits VALUES {};", rows.join(", "));
    if random.once_in(3) {
        insert += "INSERT INTO w.stays SELECT max(id) + 1, 2, 'in' FROM w.stays;";
    }
    world.client.batch_execute(&insert).await.unwrap();
}

/// The squares of what a unit adds to each period, weighted, in units of the finest grid.
fn squares(release: &ReleasePlan, whole: &Groups, rest: &Groups) -> BTreeMap<String, BigUint> {
    let price = release.price().unwrap();
    let finest = finest(release);
    let zeros = vec![BigInt::ZERO; price.weights.len()];
    let mut of_periods: BTreeMap<String, BigUint> = BTreeMap::new();
    for (key, values) in whole {
        let other = rest.get(key).unwrap_or(&zeros);
        // Hours of a day are of its period.
        let period = key[0]
            .clone()
            .map_or(String::new(), |text| text[..10].to_owned());
        for (at, weight) in price.weights.iter().enumerate() {
            let moved = (&values[at] - &other[at]).magnitude() * weight;
            let moved = moved << (finest - price.calibrated[at].refine);
            *of_periods.entry(period.clone()).or_default() += &moved * &moved;
        }
    }
    of_periods
}

pub(super) fn finest(release: &ReleasePlan) -> u32 {
    let calibrated = &release.price().unwrap().calibrated;
    calibrated.iter().map(|c| c.refine).max().unwrap()
}

/// What all draws of a horizon read, by unit: the squares of each period.
#[derive(Default)]
struct Read(BTreeMap<usize, Vec<BigUint>>);

impl Read {
    /// Runs the statement of a draw with and without each unit.
    async fn draw(&mut self, world: &World, release: &ReleasePlan, sql: &str) {
        let keys = release.vector_keys();
        let whole = world.run(sql, keys).await.unwrap();
        for unit in 1..=UNITS {
            let delete = format!(
                "BEGIN; DELETE FROM w.visits USING w.stays WHERE stays.id = visits.stay AND \
                    stays.person = {unit}; DELETE FROM w.stays WHERE person = {unit}; DELETE FROM \
                    w.people WHERE id = {unit};"
            );
            world.client.batch_execute(&delete).await.unwrap();
            let rest = world.run(sql, keys).await;
            world.back().await;
            let rest = rest.unwrap();
            assert!(rest.keys().all(|key| whole.contains_key(key)), "{sql}");
            let moved = squares(release, &whole, &rest).into_values();
            let moved = moved.filter(|square| *square > BigUint::ZERO);
            self.0.entry(unit).or_default().extend(moved);
        }
    }

    /// Why one price does not cover what was read; `None` where it does.
    fn fault(&self, release: &ReleasePlan) -> Option<String> {
        let price = release.price().unwrap();
        let of_one = (&price.clip * &price.clip) << (2 * finest(release));
        for (unit, squares) in &self.0 {
            if squares.len() > COUNTED as usize {
                return Some(format!("{unit} counts in {} periods", squares.len()));
            }
            if squares.iter().any(|square| *square > of_one) {
                return Some(format!("a period of {unit} is beyond the clip"));
            }
            if squares.iter().sum::<BigUint>() > &of_one * COUNTED {
                return Some(format!("{unit} adds more than was paid for"));
            }
        }
        None
    }
}

const QUESTIONS: [&str; 6] = [
    "SELECT date_trunc('day', seen), count(*) FROM visits WHERE seen >= '2024-03-01' AND seen < \
        '2024-04-01' GROUP BY 1",
    "SELECT seen::date, sum(amount), avg(amount), count(DISTINCT stays.person) FROM visits JOIN \
        stays ON visits.stay = stays.id WHERE seen IS NOT NULL GROUP BY 1",
    "SELECT date_trunc('hour', seen), count(*) FROM visits WHERE seen < '2024-04-01' GROUP BY 1",
    "SELECT seen::date, kind, count(amount), sum(amount) FROM visits WHERE seen IS NOT NULL AND \
        amount < 900 GROUP BY 1, 2",
    "SELECT seen::date, stays.kind, count(*) FILTER (WHERE amount > 3) FROM visits JOIN stays ON \
        visits.stay = stays.id JOIN people ON stays.person = people.id WHERE seen >= '2024-03-02' \
        AND visits.kind = 'a' AND region = 'n' GROUP BY 1, 2",
    "SELECT v.seen::date, count(*) FROM visits AS v JOIN stays AS s ON s.id = v.stay JOIN stays AS \
        o ON o.person = s.person WHERE v.seen IS NOT NULL GROUP BY 1",
];

pub(super) fn settings() -> SessionSettings {
    SessionSettings::default()
}

/// The form with prepaid periods of a question.
pub(super) fn form(world: &World, sql: &str, epsilon: f64) -> Plan {
    let plan = world
        .plan_with(sql, Accounting::Gdp, epsilon, settings())
        .unwrap();
    let form = plan.by_periods().unwrap_or_else(|| panic!("{sql}"));
    assert!(form.periods().unwrap().prepaid().is_some(), "{sql}");
    (**form).clone()
}

/// The plan that draws the days from one to before another of a horizon.
fn draw(world: &World, form: &Plan, (since, first, end): (usize, usize, usize)) -> Plan {
    let terms = World::terms(Accounting::Gdp, 1.0, settings());
    let periods = PeriodSet::between(day(first), day(end));
    let planned = plan_draw(
        form,
        (day(since), &periods),
        (&world.policy, &terms),
        &Arc::new(PlanningEffort::default()),
    );
    planned.unwrap().expect("rows may be in each period")
}

/// How draws may differ from what the proof asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    RankInDraw,
    LastPeriods,
    Deletion,
}

/// Some draws of one horizon in their order, with rows that come before each; and what one price
/// does not cover.
async fn horizon(world: &World, random: &mut Random, sql: &str, broken: Broken) -> Option<String> {
    world
        .client
        .batch_execute("TRUNCATE w.visits; DELETE FROM w.stays WHERE id > 20;")
        .await
        .unwrap();
    let form = form(world, sql, 1.0);
    let (mut read, mut first) = (Read::default(), 1);
    let mut last = None;
    while first < 13 {
        for _ in 0..1 + random.below(3) {
            insert(world, random).await;
        }
        // No promise holds for other columns of the unit: a condition on one may leave a row today
        // and not tomorrow.
        let moved = format!(
            "UPDATE w.people SET region = (ARRAY['n', 's', 'zz'])[1 + (id + {}) % 3]",
            random.below(3)
        );
        world.client.batch_execute(&moved).await.unwrap();
        if broken == Broken::Deletion {
            // Rows of days that were drawn.
            let delete = format!("DELETE FROM w.visits WHERE seen < '2024-03-{first:02}'");
            world.client.batch_execute(&delete).await.unwrap();
        }
        let end = (first + 1 + random.below(3)).min(13);
        let since = match broken {
            Broken::RankInDraw => first,
            _ => 1,
        };
        let plan = draw(world, &form, (since, first, end));
        let release = &plan.releases()[0];
        let mut sql = release.sql().unwrap().to_owned();
        if broken == Broken::LastPeriods {
            let (first, last) = (" ASC NULLS LAST) AS ", " DESC NULLS LAST) AS ");
            assert!(sql.contains(first), "{sql}");
            sql = sql.replacen(first, last, 1);
        }
        assert_eq!(plan.loss(), form.loss(), "{sql}");
        read.draw(world, release, &sql).await;
        first = end;
        last = Some(plan);
    }
    let last = last.unwrap();
    read.fault(&last.releases()[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn all_draws_of_a_horizon_stay_within_one_price() {
    let seed = seeds()[0];
    let mut random = Random::new(seed);
    let world = World::with(SCHEMA, POLICY).await;
    for round in 0..3 {
        for sql in QUESTIONS {
            let fault = horizon(&world, &mut random, sql, Broken::Nothing).await;
            assert_eq!(fault, None, "PGVEIL_SEED={seed}, round {round}\n{sql}");
        }
    }
}

/// The noise of one period, times the root of the periods that count, is that of the price.
#[tokio::test(flavor = "multi_thread")]
async fn noise_covers_as_many_periods_as_count() {
    let world = World::with(SCHEMA, POLICY).await;
    for sql in QUESTIONS {
        let form = form(&world, sql, 1.0);
        let mut deviations = Vec::new();
        for days in [(1, 1, 2), (1, 2, 12), (1, 1, 25)] {
            let plan = draw(&world, &form, days);
            let release = &plan.releases()[0];
            let price = release.price().unwrap();
            let float = |value: &BigUint| value.to_string().parse::<f64>().unwrap();
            let paid = plan.loss().mu_squared.to_f64();
            for (weight, calibrated) in price.weights.iter().zip(&price.calibrated) {
                let grid = f64::from(calibrated.refine).exp2();
                let clip = float(&price.clip) / float(weight) * grid;
                let one = (clip / calibrated.noise.standard_deviation()).powi(2);
                let all = one * f64::from(COUNTED);
                assert!(all <= paid * (1.0 + 1e-6), "{sql}: {all} {paid}");
                assert!(all >= paid * 0.99, "{sql}: {all} {paid}");
            }
            deviations.push(price.calibrated.clone());
        }
        // However many periods a draw takes, each has the same noise.
        assert!(deviations.windows(2).all(|two| two[0] == two[1]), "{sql}");
    }
}

/// The harness finds a rank over the periods of a draw, one from the end, and rows that go.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_finds_what_the_proof_needs() {
    let mut random = Random::new(seeds()[0]);
    let world = World::with(SCHEMA, POLICY).await;
    for broken in [Broken::RankInDraw, Broken::LastPeriods, Broken::Deletion] {
        let mut found = None;
        for _ in 0..6 {
            found = found.or(horizon(&world, &mut random, QUESTIONS[0], broken).await);
        }
        assert!(found.is_some(), "{broken:?}");
    }
}
