//! Summaries with ranges: answers are PostgreSQL's own without noise, and as far off as they say
//! with it.

use std::sync::{Arc, Mutex};

use pgveil::engine::{Requester, SummaryQuestion};
use pgveil::mechanism::{CandidateRun, Exponential, Noise, SampleError, Sampler, SummedValues};
use pgveil::policy::{Reuse, SummaryKey};
use pgveil::release::ReleasedTable;
use pgveil::synthetic::{NoisyMarginals, Quantity};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::summaries::{make, session, with_reuse};
use crate::fixture::{Silent, Stream, Veil};
use crate::privacy::neighbour::random::{Random, seeds};

/// Numbers of values that are no power of two, NULL among them; bins, days, labels and plain
/// values.
const TABLE: &str = "CREATE SCHEMA h; CREATE TYPE h.mood AS ENUM ('low', 'it''s', 'high');
    CREATE TABLE h.people (id int PRIMARY KEY, year int, born date NOT NULL, hours float8,
        mood h.mood NOT NULL, race text NOT NULL, score int NOT NULL);
    INSERT INTO h.people SELECT g, nullif(1941 + (g * g + g / 3) % 14, 1950),
        date '1970-01-01' + (g * 11) % 45, (g * 7) % 100,
        (ARRAY['low', 'it''s', 'high'])[1 + g % 3]::h.mood, (ARRAY['a', 'b'])[1 + g / 5 % 2],
        g % 21 FROM generate_series(1, 6000) g;";

const POLICY: &str = "version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${PGVEIL_LEDGER}\"}
privacy:
  unit: person
  budget: {epsilon: 100, delta: 1e-6}
  per_query: {epsilon: 0.5, max_epsilon: 20}
previews: synthetic
roles:
  - {name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90, delta: 1e-7}}
tables:
  h.people:
    unit: id
    columns:
      year: {bounds: [1941, 1954]}
      born: {bounds: [1970-01-01, 1970-02-14]}
      hours: {bounds: [0, 100]}
      mood: {values: [low, \"it's\", high], complete: true}
      race: {values: [a, b], complete: true}
      score: {bounds: [0, 20]}
summaries:
  people:
    of: h.people
    keys:
      race: values
      year: ranges
      born: ranges
      hours: {bins: [0, 20, 35, 45, 60, 100], ranges: true}
      mood: ranges
    measures: [score]
    marginals: all 2
    epsilon: 2
";

async fn veil(edit: impl Fn(String) -> String, is_silent: bool) -> Veil {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(TABLE).await.unwrap();
    let sampler = if is_silent { Veil::silent() } else { None };
    Veil::over(fill, &edit(POLICY.to_owned()), sampler).await
}

fn question(veil: &Veil) -> SummaryQuestion {
    let policy = veil.engine.policy();
    SummaryQuestion::new(policy, &policy.summaries[0]).unwrap()
}

/// Answers from the summary, however large their errors, and buys nothing.
fn reading() -> Requester {
    with_reuse("analyst", Reuse::Summary)
}

/// A condition over one key.
fn atom(random: &mut Random, key: &str) -> String {
    let day = |random: &mut Random| format!("date '1970-01-01' + {}", random.below(46));
    match (key, random.below(6)) {
        ("year", 0) => {
            let ends = [random.below(16), random.below(16)];
            let [low, high] = [ends.iter().min(), ends.iter().max()].map(|end| 1940 + end.unwrap());
            format!("year BETWEEN {low} AND {high}")
        }
        ("year", 1) => format!("year < {}", 1940 + random.below(17)),
        ("year", 2) => format!("year >= {}", 1940 + random.below(17)),
        ("year", 3) => format!("year = {}", 1941 + random.below(14)),
        ("year", 4) => "year IS NULL".to_owned(),
        ("year", _) => "year / 5 = 389".to_owned(),
        ("born", 0 | 1) => format!("born < {}", day(random)),
        ("born", 2 | 3) => format!("born >= {}", day(random)),
        ("born", _) => format!("born BETWEEN {} AND {}", day(random), day(random)),
        ("hours", 0) => "hours < 20".to_owned(),
        ("hours", 1) => "hours >= 35".to_owned(),
        ("hours", 2 | 3) => "hours >= 20 AND hours < 60".to_owned(),
        ("hours", _) => "hours >= 60".to_owned(),
        ("mood", 0 | 1) => "mood IN ('it''s', 'high')".to_owned(),
        ("mood", 2 | 3) => "mood <> 'high'".to_owned(),
        ("mood", _) => "mood = 'low'".to_owned(),
        (_, at) => format!("race {} 'a'", if at < 3 { "=" } else { "<>" }),
    }
}

/// Whatever is asked over two keys: ranges, prefixes and single values, with NULL and the end of a
/// list, by groups of any width.
#[tokio::test(flavor = "multi_thread")]
async fn random_ranges_are_postgresqls_own() {
    let veil = veil(|yaml| yaml, true).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let keys = ["race", "year", "born", "hours", "mood"];
    let groups = [
        "year",
        "year / 5",
        "mood",
        "race",
        "CASE WHEN year < 1947 THEN 1 END",
    ];
    for seed in seeds() {
        let mut random = Random::new(seed);
        for _ in 0..60 {
            let (one, other) = (random.pick(&keys), random.pick(&keys));
            let (first, second) = (atom(&mut random, one), atom(&mut random, other));
            // Two conditions on one key may have no value in common, which is bought.
            let forms = if one == other { 1 } else { 4 };
            let both = match random.below(forms) {
                0 => first.clone(),
                1 => format!("({first}) AND ({second})"),
                2 => format!("({first}) OR ({second})"),
                _ => format!("NOT ({first})"),
            };
            let measured = random.pick(&["count(*)", "coalesce(sum(score), 0)"]);
            let key = random.pick(&groups);
            let sql = match random.below(5) {
                0 => format!("SELECT count(race) FROM h.people WHERE {first}"),
                1 | 2 => format!("SELECT {measured} FROM h.people WHERE {both}"),
                _ => format!(
                    "SELECT {key} AS k, {measured} FROM h.people WHERE {first} GROUP BY 1 HAVING \
                        count(*) > 0 ORDER BY 1"
                ),
            };
            veil.answers_as_postgresql(&reading(), &[&sql]).await;
        }
    }
    for sql in [
        "SELECT year, count(*) FROM h.people GROUP BY year HAVING count(*) > 0 ORDER BY year",
        "SELECT born, mood, count(*) FROM h.people GROUP BY 1, 2 HAVING count(*) > 0 ORDER BY 1, 2",
        "SELECT count(*) FILTER (WHERE year < 1947), count(*) FROM h.people WHERE mood = 'low'",
        "SELECT mood, round(avg(score), 6) FROM h.people WHERE year > 1944 GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM h.people",
    ] {
        veil.answers_as_postgresql(&reading(), &[sql]).await;
    }
    // Made-up rows have the years of the summary.
    let made_up = "SELECT year FROM h.people WHERE year BETWEEN 1941 AND 1954 LIMIT 500";
    let years = veil.rows_as(&session("analyst"), made_up).await;
    assert_eq!(years.unwrap().len(), 500);
}

fn numbers(rows: &[String]) -> Vec<f64> {
    let values = rows[0].split('|');
    values.map(|value| value.parse().unwrap()).collect()
}

/// Over many summaries with noise of one seed: the distance of answers from the truth is as their
/// standard errors say, and intervals of 95 % hold as often.
#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_as_far_off_as_they_say() {
    let veil = veil(|yaml| yaml, false).await;
    let mut noise = Stream(ChaCha20Rng::seed_from_u64(7));
    let conditions = [
        "year BETWEEN 1943 AND 1949",
        "year >= 1953",
        "year <= 1948 AND race = 'a'",
        "year = 1944",
        "year < 1946 OR year > 1951",
        "born BETWEEN date '1970-01-10' AND date '1970-02-12'",
        "hours < 45 AND mood IN ('it''s', 'high')",
        "true",
    ];
    let select = |measured: &str| {
        let of = |c: &&str| format!("(SELECT {measured} FROM h.people WHERE {c})");
        format!(
            "SELECT {}",
            conditions.iter().map(of).collect::<Vec<_>>().join(", ")
        )
    };
    let truth = numbers(&veil.direct(&select("count(*)")).await);
    let errors = {
        make(&veil, &veil.engine, &mut noise).await.unwrap();
        let errors = select("pgveil.stderr(count(*))");
        numbers(&veil.rows_as(&reading(), &errors).await.unwrap())
    };
    let (mut squares, mut within, rounds) = (vec![0.0; truth.len()], 0, 100);
    for _ in 0..rounds {
        make(&veil, &veil.engine, &mut noise).await.unwrap();
        let values = veil.rows_as(&reading(), &select("count(*)")).await;
        for (at, value) in numbers(&values.unwrap()).into_iter().enumerate() {
            let off = (value - truth[at]) / errors[at];
            squares[at] += off * off;
            within += u32::from(off.abs() <= 1.96);
        }
    }
    // A mean of 100 squares of a normal has standard error 0.14. Answers of one round share noise.
    let means = squares.iter().map(|sum| sum / f64::from(rounds));
    let all: Vec<f64> = means.collect();
    assert!(all.iter().all(|mean| (0.5..1.6).contains(mean)), "{all:?}");
    let share = f64::from(within) / f64::from(rounds) / truth.len() as f64;
    assert!((0.91..0.985).contains(&share), "{share}");
}

/// The stated error of a range is that of the effects, and the view has the means.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_ranges_are_stated() {
    let veil = veil(|yaml| yaml, true).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let question = question(&veil);
    let price = question.release().price().unwrap();
    let effects = &price.effects.as_ref().unwrap().effects;
    // In the order in which its sets first name them: race, year, born, hours, mood.
    assert_eq!(effects.sizes(), [2, 15, 45, 6, 3]);
    assert_eq!(effects.ranges(), [1, 2, 3, 4]);
    let of_year = |summed: SummedValues| effects.variance(&[1], |_| summed.clone()).sqrt();
    let errors = "SELECT (SELECT pgveil.stderr(count(*)) FROM h.people WHERE year BETWEEN 1943 AND \
        1949), (SELECT pgveil.stderr(count(*)) FROM h.people WHERE year = 1944), (SELECT \
        pgveil.stderr(count(*)) FROM h.people WHERE year IN (1942, 1953))";
    let shown = numbers(&veil.rows_as(&reading(), errors).await.unwrap());
    let places = |all: &[usize]| SummedValues::Places(all.to_vec());
    let wanted = [
        of_year(places(&[2, 3, 4, 5, 6, 7, 8])),
        of_year(places(&[3])),
        of_year(places(&[1, 12])),
    ];
    // What the deviation of 1 / weight is in answers.
    let sets = question.release().sets().iter();
    let year = sets.map(|set| set.numbers()).position(|set| set == [1]);
    let unit =
        question.errors_of(&SummedValues::Ranges)[year.unwrap()] / of_year(SummedValues::Ranges);
    for (shown, wanted) in shown.iter().zip(wanted) {
        assert!(
            (shown / wanted / unit - 1.0).abs() < 1e-3,
            "{shown} {wanted}"
        );
    }
    let view = "SELECT keys, standard_error, value_error, prefix_error FROM pgveil.summaries";
    let rows = veil.rows_as(&reading(), view).await.unwrap();
    let cells: Vec<&str> = rows[0].split('|').collect();
    assert_eq!(
        cells[0],
        "race, year by ranges, born by ranges, hours [0, 20, 35, 45, 60, 100] by ranges, mood by \
            ranges"
    );
    for (cell, summed) in cells[1..].iter().zip([
        SummedValues::Ranges,
        SummedValues::Number(1),
        SummedValues::Prefixes,
    ]) {
        let worst = question.errors_of(&summed).into_iter().fold(0.0, f64::max);
        let shown: f64 = cell.parse().unwrap();
        assert!((shown / worst - 1.0).abs() < 1e-6, "{shown} {worst}");
    }
    // A sum of values that are apart has more noise than a range of as many.
    let apart = of_year(places(&[0, 2, 4, 6, 8]));
    assert!(apart > 1.2 * of_year(places(&[2, 3, 4, 5, 6])));
}

/// Made-up rows take the noise of each group for what answers say that it is.
#[tokio::test(flavor = "multi_thread")]
async fn made_up_rows_count_the_stated_errors() {
    let veil = veil(|yaml| yaml, true).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let question = question(&veil);
    let ledger = veil.engine.ledger();
    let found = ledger.newest_of_owner(question.kept_as.digest).await;
    let table = ReleasedTable::read(&found.unwrap().unwrap().released).unwrap();
    let summary = &veil.engine.policy().summaries[0];
    let marginals = NoisyMarginals::read(summary, question.release(), &table).unwrap();
    // The place of each key among the summary's.
    for (keys, columns) in [
        (vec![1], "year"),
        (vec![0, 1], "race, year"),
        (vec![1, 4], "year, mood"),
    ] {
        let sql = format!(
            "SELECT {columns}, pgveil.stderr(count(*)) FROM h.people GROUP BY {columns} ORDER BY \
                {columns}"
        );
        let rows = veil.rows_as(&reading(), &sql).await.unwrap();
        let keys: Vec<SummaryKey> = keys.into_iter().map(SummaryKey).collect();
        let cells = marginals.estimate(&keys, Quantity::Rows).unwrap();
        let mut found: Vec<f64> = (0..cells.values.len())
            .map(|at| cells.deviation(at))
            .collect();
        let mut wanted: Vec<f64> = rows
            .iter()
            .map(|row| row.rsplit('|').next().unwrap().parse().unwrap())
            .collect();
        found.sort_by(f64::total_cmp);
        wanted.sort_by(f64::total_cmp);
        assert_eq!(found.len(), wanted.len(), "{sql}");
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!(
                (found / wanted - 1.0).abs() < 1e-3,
                "{sql}: {found} {wanted}"
            );
        }
        assert!(
            wanted[wanted.len() - 1] > 1.01 * wanted[0],
            "{sql}: {wanted:?}"
        );
    }
}

/// The price of a wanted error: the root of the mean square over all ranges, in the worst set.
#[tokio::test(flavor = "multi_thread")]
async fn a_wanted_error_of_ranges_has_its_price() {
    let wanting = |yaml: String| yaml.replace("    epsilon: 2\n", "    error: 30\n");
    let veil = veil(wanting, true).await;
    let sql = "SELECT standard_error <= 30, standard_error > 29.5, epsilon < 20 FROM \
        pgveil.summaries";
    let rows = veil.rows_as(&reading(), sql).await.unwrap();
    assert_eq!(rows, ["t|t|t"]);
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

/// One draw for each row of each level and coordinate, by the level's own noise. Noise on cells
/// would be drawn for each cell, before it is transformed.
#[tokio::test(flavor = "multi_thread")]
async fn each_row_of_a_level_has_its_own_draw() {
    let veil = veil(|yaml| yaml, true).await;
    let drawn = Arc::new(Mutex::new(Vec::new()));
    make(&veil, &veil.engine, &mut Counting(drawn.clone()))
        .await
        .unwrap();
    let question = question(&veil);
    let price = question.release().price().unwrap();
    let by = price.effects.as_ref().unwrap();
    let mut wanted = Vec::new();
    for at in 0..price.weights.len() {
        for (effect, noise) in by.measured_effects() {
            let integers = by.effects.integers_in(effect);
            wanted.extend(std::iter::repeat_n(noise[at].noise, integers));
        }
    }
    assert_eq!(*drawn.lock().unwrap(), wanted);
}

/// Days of a year by nine races, and six keys of as many days, each by itself.
const DAYS: &str = "CREATE SCHEMA h;
    CREATE TABLE h.people (id int PRIMARY KEY, day date NOT NULL, race text NOT NULL);
    INSERT INTO h.people SELECT g, date '2025-01-01' + g % 365, chr(97 + g / 7 % 9)
        FROM generate_series(1, 9000) g;
    CREATE TABLE h.wide (id int PRIMARY KEY, a date NOT NULL, b date NOT NULL, c date NOT NULL,
        d date NOT NULL, e date NOT NULL, f date NOT NULL);
    INSERT INTO h.wide SELECT g, d + g % 365, d + g * 3 % 365, d + g * 5 % 365,
        d + g * 7 % 365, d + g * 11 % 365, d + g * 13 % 365
        FROM (VALUES (date '2025-01-01')) AS first (d), generate_series(1, 2000) g;";

async fn veil_of_days() -> Veil {
    const DAY: &str = "{bounds: [2025-01-01, 2025-12-31]}";
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(DAYS).await.unwrap();
    let (head, _) = POLICY.split_once("tables:\n").unwrap();
    let columns = |names: &[&str]| {
        let column = |name: &&str| format!("{name}: {DAY}");
        let all: Vec<String> = names.iter().map(column).collect();
        all.join(", ")
    };
    let policy = format!(
        "{head}tables:
  h.people:
    unit: id
    columns: {{{}, race: {{values: [a, b, c, d, e, f, g, h, i], complete: true}}}}
  h.wide:
    unit: id
    columns: {{{}}}
summaries:
  people: {{of: h.people, keys: {{race: values, day: ranges}}, marginals: all 2, epsilon: 2}}
  wide: {{of: h.wide, keys: {{a: ranges, b: ranges, c: ranges, d: ranges, e: ranges, f: ranges}}, \
marginals: all 1, epsilon: 2}}
",
        columns(&["day"]),
        columns(&["a", "b", "c", "d", "e", "f"]),
    );
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    veil
}

/// A count of each day's rows and one of a filter's: each day has separate noise, which is known
/// in few steps.
#[tokio::test(flavor = "multi_thread")]
async fn filters_by_days_are_read_off() {
    let veil = veil_of_days().await;
    let sql = "SELECT day, count(*), count(*) FILTER (WHERE race = 'a') FROM h.people GROUP BY day \
        ORDER BY day";
    veil.answers_as_postgresql(&reading(), &[sql]).await;
    let errors = "SELECT pgveil.stderr(count(*)), pgveil.stderr(count(*) FILTER (WHERE race = \
        'a')), pgveil.stderr(count(*) FILTER (WHERE race <> 'a') - count(*)) FROM h.people GROUP \
        BY day ORDER BY day";
    let rows = veil.rows_as(&reading(), errors).await.unwrap();
    assert_eq!(rows.len(), 365);
    let question = question(&veil);
    let price = question.release().price().unwrap();
    let effects = &price.effects.as_ref().unwrap().effects;
    assert_eq!(effects.sizes(), [9, 365]);
    let set = [0, 1];
    let mut sets = question.release().sets().iter();
    let place = sets.position(|of| of.numbers() == set).unwrap();
    let of_set = effects.variance(&set, |_| SummedValues::Ranges).sqrt();
    let unit = question.errors_of(&SummedValues::Ranges)[place] / of_set;
    for day in [0, 1, 100, 255, 256, 363, 364] {
        let wanted = |races: std::ops::Range<usize>| {
            let mut w = vec![0.0; effects.groups_in(&set)];
            races.for_each(|race| w[race * 365 + day] = 1.0);
            effects.variance_of(&set, &w).sqrt() * unit
        };
        let shown = numbers(&rows[day..]);
        for (shown, wanted) in shown.iter().zip([wanted(0..9), wanted(0..1), wanted(0..1)]) {
            assert!(
                (shown / wanted - 1.0).abs() < 1e-3,
                "{day}: {shown} {wanted}"
            );
        }
    }
}

/// Six keys of a year's days, which no set has together.
#[tokio::test(flavor = "multi_thread")]
async fn many_keys_with_ranges_are_measured_apart() {
    let veil = veil_of_days().await;
    let policy = veil.engine.policy();
    let wide = SummaryQuestion::new(policy, &policy.summaries[1]).unwrap();
    let price = wide.release().price().unwrap();
    assert_eq!(price.effects.as_ref().unwrap().effects.ranges().len(), 6);
    for key in ["a", "f"] {
        let sql = format!(
            "SELECT count(*) FROM h.wide WHERE {key} BETWEEN date '2025-03-02' AND date \
                '2025-11-30'"
        );
        veil.answers_as_postgresql(&reading(), &[&sql]).await;
    }
}
