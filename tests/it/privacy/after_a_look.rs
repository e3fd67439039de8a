//! What follows a look depends on its noisy counts alone: over two databases whose rows have
//! nothing in common, with noise that makes these counts equal, a client, the ledger and the
//! database see the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use pgveil::analyze::KeyRule;
use pgveil::error::Error;
use pgveil::mechanism::{Noise, Sampler};
use pgveil::parse::{Query, Statement, parse};
use pgveil::policy::{ClipChoice, Notices, Reuse};
use pgveil::rewrite::{BinNumber, Block, CandidateId, Look, Plan, ReleasePlan};
use pgveil::shadow::Requester;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tokio_postgres::SimpleQueryMessage;

use crate::fixture::{Stream, Veil};
use crate::sql::look::scripted::Scripted;
use crate::sql::look::{POLICY, SCHEMA, requester};

/// Fewer households, of other lengths, in other weeks, who pay other amounts.
const OTHER_ROWS: &str = "
    DELETE FROM retail.line WHERE household_id % 7 <> 1 OR week IN (2, 5, 11);
    UPDATE retail.line SET amount = least(9.5 * amount + household_id % 83, 480), store = 30;
    INSERT INTO retail.line SELECT 1, 12, 30, 333 FROM generate_series(1, 4000)";

const QUESTIONS: [&str; 6] = [
    "SELECT sum(amount) FROM retail.line",
    "SELECT count(*) FROM retail.line",
    "SELECT week, sum(amount) FROM retail.line GROUP BY week ORDER BY week",
    "SELECT week, avg(amount), pgveil.ci_low(avg(amount)), pgveil.low_by(avg(amount)) \
        FROM retail.line GROUP BY week ORDER BY week",
    "SELECT week, count(*), sum(amount), avg(amount), stddev(amount), pgveil.ci_high(count(*)), \
        pgveil.low_by(sum(amount)) FROM retail.line GROUP BY week ORDER BY week",
    "SELECT count(*), sum(amount) FILTER (WHERE week = 3), count(*) FILTER (WHERE store = 30), \
        pgveil.stderr(count(*)), pgveil.ci_high(count(*) FILTER (WHERE store = 30)) \
        FROM retail.line",
];

/// The rows of one block: how many units are in each bin, and the sums of each key and bin.
struct Found {
    units: Vec<i128>,
    sums: BTreeMap<(Option<String>, usize), Vec<i128>>,
}

struct Side {
    veil: Veil,
    sampler: Scripted,
    marks: usize,
}

impl Side {
    async fn new() -> Self {
        let sampler = Scripted::default();
        let made = sampler.clone();
        let fill = async |client: &tokio_postgres::Client| {
            let logged = "SET log_statement = 'all'; SET log_min_messages = 'log'";
            let always = logged.replace("SET", "ALTER ROLE postgres SET");
            client.batch_execute(SCHEMA).await.unwrap();
            client.batch_execute(&always).await.unwrap();
            client.batch_execute(logged).await.unwrap();
        };
        // Some households are past the policy's limits.
        let policy = POLICY.replace("rows_per_unit: 5000", "rows_per_unit: 50");
        let veil = Veil::over(
            fill,
            &policy,
            Some(Arc::new(move || Box::new(made.clone()))),
        );
        Self {
            veil: veil.await,
            sampler,
            marks: 0,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.veil.server.directory().join("log")).unwrap()
    }

    /// What the release's statement returns, by block.
    async fn found(&self, release: &ReleasePlan, look: &Look) -> Vec<Found> {
        let messages = self.veil.client.simple_query(release.sql().unwrap()).await;
        let rows: Vec<Vec<Option<String>>> = messages
            .unwrap()
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            })
            .map(|row| (0..row.len()).map(|at| row.get(at).map(str::to_owned)))
            .map(Iterator::collect)
            .collect();
        let keys = release.key_columns();
        assert!(keys <= 1, "more than one key column");
        let of_block = |(at, block): (usize, &Block)| {
            let mut found = Found {
                units: vec![0; block.bins.numbers()],
                sums: BTreeMap::new(),
            };
            for row in &rows {
                let Some(number) = &row[keys + at] else {
                    continue;
                };
                let number: usize = number.parse().unwrap();
                let read = |text: &Option<String>| -> i128 {
                    text.as_ref().map_or(0, |text| text.parse().unwrap())
                };
                found.units[number] += read(&row[row.len() - 1]);
                let sums = row[keys + look.blocks.len()..row.len() - 1].iter();
                let key = row[..keys].first().cloned().flatten();
                let added = found.sums.entry((key, number));
                let added = added.or_insert_with(|| vec![0; sums.len()]);
                added
                    .iter_mut()
                    .zip(sums)
                    .for_each(|(sum, more)| *sum += read(more));
            }
            found
        };
        look.blocks.iter().enumerate().map(of_block).collect()
    }

    /// All that is seen of a question, but for the laws of noise.
    async fn ask(&mut self, asked: &Requester, sql: &str) -> Seen {
        self.marks += 1;
        let mark = format!("mark {}", self.marks);
        let client = &self.veil.client;
        client
            .simple_query(&format!("SELECT '{mark}'"))
            .await
            .unwrap();
        let before = self.veil.spent().await;
        let answer = self.veil.ask_as(asked, sql).await;
        let log = self.log();
        let (_, log) = log.rsplit_once(&mark).unwrap();
        let ledger = self.veil.engine.ledger();
        let entries = ledger.history("analyst", 1).await.unwrap();
        let debits = entries.iter().map(|entry| format!("{:?}", entry.loss));
        let (shape, values) = match answer {
            Ok(answer) => {
                let firsts = answer.rows.iter().map(|row| row[0].clone());
                let keys: Vec<_> = firsts.filter(|_| sql.contains("GROUP BY")).collect();
                (
                    format!("{:?} {} {keys:?}", answer.columns, answer.rows.len()),
                    format!(
                        "{:?} {:?} {:?}",
                        answer.rows, answer.notices, answer.warnings
                    ),
                )
            }
            Err(error) => (refused(&error), String::new()),
        };
        Seen {
            shape,
            values,
            debits: debits.collect(),
            spent: self.veil.spent().await - before,
            statements: entries_of(log),
        }
    }
}

/// The entries of a log, without their times and processes, and the numbers that the driver gives
/// to prepared statements.
fn entries_of(log: &str) -> Vec<String> {
    let log = log.replace(" DETAIL:  ", " LOG:  ");
    let entries = log.split(" LOG:  ").skip(1);
    let text = |entry: &str| {
        let (text, _time) = entry.rsplit_once('\n').unwrap_or_default();
        let unnumbered = text
            .strip_prefix("execute ")
            .and_then(|text| text.split_once(": "));
        unnumbered.map_or(text, |(_, text)| text).to_owned()
    };
    entries.map(text).collect()
}

fn refused(error: &Error) -> String {
    let report = error.report();
    let is_known = ["PV001", "PV002"].contains(&report.sqlstate.as_str());
    assert!(is_known, "{report:?}");
    format!("{report:?}")
}

#[derive(Debug, Clone, PartialEq)]
struct Seen {
    /// Columns, and the number of rows and keys; or the refusal.
    shape: String,
    /// Values, notices and warnings.
    values: String,
    debits: Vec<String>,
    spent: f64,
    /// All that the database was asked.
    statements: Vec<String>,
}

impl Seen {
    fn but_for_values(&self) -> Self {
        Self {
            values: String::new(),
            ..self.clone()
        }
    }
}

fn query(sql: &str) -> Query {
    match parse(sql).unwrap().as_slice() {
        [Statement::Query(query)] => query.clone(),
        other => panic!("{other:?}"),
    }
}

/// The noisy numbers of units that both databases are to show, of each block, in steps of the
/// noise: a few hundred in the middle, or nobody.
fn wanted(look: &Look, empty: &[usize], seed: u64) -> Vec<Vec<i128>> {
    let mut random = Stream(ChaCha20Rng::seed_from_u64(seed));
    let blocks = look.blocks.iter().enumerate();
    let blocks = blocks.filter(|(_, block)| block.bins.has_choice());
    let numbers = |(at, block): (usize, &Block)| -> Vec<i128> {
        let bins = block.bins.candidates().div_ceil(2);
        let middle = bins as f64 * 0.45;
        let units = |bin: usize| match empty.contains(&at) || bin == bins {
            true => 0.0,
            false => (700.0 * (-((bin as f64 - middle) / 2.0).powi(2)).exp()).round(),
        };
        (0..=bins)
            .map(|bin| ((units(bin) as i128) << look.counts.refine) + noise(look, &mut random))
            .collect()
    };
    blocks.map(numbers).collect()
}

fn noise(look: &Look, random: &mut Stream) -> i128 {
    random.sample(&look.counts.noise).unwrap()
}

/// The noise that makes these numbers the wanted ones.
fn of_look(look: &Look, found: &[Found], wanted: &[Vec<i128>]) -> Vec<i128> {
    let blocks = look.blocks.iter().zip(found);
    let blocks = blocks.filter(|(block, _)| block.bins.has_choice());
    let noise = |((block, found), wanted): ((&Block, &Found), &Vec<i128>)| -> Vec<i128> {
        let (within, beyond) = found.units[1..].split_at(block.bins.candidates());
        let exact = within
            .chunks(2)
            .chain([beyond])
            .map(|units| units.iter().sum::<i128>());
        let exact: Vec<i128> = exact.collect();
        assert_eq!(exact.len(), wanted.len());
        exact
            .iter()
            .zip(wanted)
            .map(|(exact, wanted)| wanted - (exact << look.counts.refine))
            .collect()
    };
    blocks.zip(wanted).flat_map(noise).collect()
}

/// The blocks that are drawn after the look, each with its candidate: the one whose noise was
/// drawn first.
fn chosen(look: &Look, empty: &[usize], laws: &[Noise]) -> Vec<Option<(Block, CandidateId)>> {
    let is_drawn: Vec<bool> = (0..look.blocks.len())
        .map(|at| !empty.contains(&at))
        .collect();
    let blocks = match empty {
        [] => look.blocks.clone(),
        _ => look.shared_out(&is_drawn),
    };
    let mut drawn: Vec<usize> = blocks
        .iter()
        .zip(&is_drawn)
        .filter(|(_, is_drawn)| **is_drawn)
        .flat_map(|(block, _)| block.coordinates.iter().map(|at| at.0))
        .collect();
    drawn.sort_unstable();
    let candidate = |block: &Block| {
        let mut candidates = block.bins.all_candidates();
        let found = candidates.find(|candidate| {
            let calibrated = block.calibrate(*candidate).unwrap();
            let mut places = block.coordinates.iter().zip(&calibrated);
            places.all(|(at, calibrated)| {
                let place = drawn.iter().position(|drawn| *drawn == at.0).unwrap();
                laws[place] == calibrated.noise
            })
        });
        found.unwrap_or_else(|| panic!("noise of no candidate: {laws:?}"))
    };
    let of = |(block, is_drawn): (Block, bool)| {
        is_drawn.then(|| {
            let candidate = candidate(&block);
            (block, candidate)
        })
    };
    blocks.into_iter().zip(is_drawn).map(of).collect()
}

/// The noise that makes the sums of each group the wanted ones: here 2^34, and more for each
/// coordinate and group.
fn of_sums(
    release: &ReleasePlan,
    found: &[Found],
    chosen: &[Option<(Block, CandidateId)>],
) -> Vec<i128> {
    let keys: Vec<Option<String>> = match release.keys() {
        [] => vec![None],
        [(_, KeyRule::Domain(values))] => {
            assert_eq!(values.len(), 12, "{values:?}");
            (1..=12).map(|week| Some(week.to_string())).collect()
        }
        other => panic!("{other:?}"),
    };
    let mut noise = Vec::new();
    for (group, key) in keys.iter().enumerate() {
        for coordinate in 0..release.coordinates().len() {
            for (chosen, found) in chosen.iter().zip(found) {
                let Some((block, candidate)) = chosen else {
                    continue;
                };
                let mut places = block.coordinates.iter();
                let Some(at) = places.position(|at| at.0 == coordinate) else {
                    continue;
                };
                let refine = block.calibrate(*candidate).unwrap()[at].refine;
                let factor = |number| block.bins.factor(*candidate, BinNumber(number), refine);
                let bins = found.sums.iter().filter(|((of, _), _)| of == key);
                let exact: i128 = bins
                    .map(|((_, number), sums)| sums[coordinate] * factor(*number))
                    .sum();
                let wanted = (1i128 << 34) + (coordinate * 12 + group) as i128;
                noise.push((wanted << refine) - exact);
            }
        }
    }
    noise
}

/// Asks both sides, each with its noise. The laws of all noise come with what is seen.
async fn both(
    sides: &mut [Side; 2],
    sql: &str,
    draws: impl IntoIterator<Item = Vec<i128>>,
) -> [(Seen, Vec<Noise>); 2] {
    both_as(sides, &asked(), sql, draws).await
}

async fn both_as(
    sides: &mut [Side; 2],
    asked: &Requester,
    sql: &str,
    draws: impl IntoIterator<Item = Vec<i128>>,
) -> [(Seen, Vec<Noise>); 2] {
    let mut seen = Vec::new();
    for (side, draws) in sides.iter_mut().zip(draws) {
        side.sampler.begin(draws);
        seen.push((side.ask(asked, sql).await, side.sampler.laws()));
    }
    seen.try_into().unwrap()
}

fn asked() -> Requester {
    let mut asked = requester(0.5, ClipChoice::Auto);
    asked.session_settings.notices = Notices::Full;
    asked
}

async fn planned(side: &Side, sql: &str) -> Plan {
    let planned = side.veil.engine.plan(&asked(), &query(sql)).await;
    let (plan, _) = planned.unwrap_or_else(|error| panic!("{sql}: {:?}", error.report()));
    Plan::clone(&plan)
}

/// Once with equal noisy counts, and exact sums after them: control flow, debits, statements and
/// the answer's shape are equal. Then with equal noisy sums too: every byte is.
async fn same(sides: &mut [Side; 2], sql: &str, empty: &[usize], seed: u64) {
    let context = format!("{sql}, too few in {empty:?}");
    let plan = planned(&sides[0], sql).await;
    let release = &plan.releases()[0];
    let look = release.look().unwrap();
    let wanted = wanted(look, empty, seed);
    let mut found = Vec::new();
    for side in sides.iter() {
        found.push(side.found(release, look).await);
    }
    let looks: Vec<_> = found
        .iter()
        .map(|found| of_look(look, found, &wanted))
        .collect();
    assert_ne!(looks[0], looks[1], "the same rows: {sql}");
    let [(one, laws), (two, other_laws)] = both(sides, sql, looks.clone()).await;
    for (one, two) in one.statements.iter().zip(&two.statements) {
        assert_eq!(one, two, "{context}");
    }
    assert_eq!(one.but_for_values(), two.but_for_values(), "{context}");
    assert_eq!(laws, other_laws, "{context}");
    let reads = |line: &&String| line.contains("\"retail\".\"line\"");
    assert!(one.statements.iter().any(|line| reads(&line)), "{context}");
    let is_refused = one.values.is_empty();
    assert_eq!(
        is_refused,
        empty.len() == look.blocks.len(),
        "{context}: {one:?}"
    );
    let (first, second) = (look.first.mu_squared, look.second.mu_squared);
    let second = if is_refused { 0.0 } else { second.to_f64() };
    let times = one.spent / (first.to_f64() + second);
    assert!((times - 1.0).abs() < 1e-9, "{context}: {times}");
    if is_refused {
        return;
    }
    assert_ne!(one.values, two.values, "{context}");
    let chosen = chosen(look, empty, &laws[looks[0].len()..]);
    let draws = found.iter().zip(&looks).map(|(found, look)| {
        let sums = of_sums(release, found, &chosen);
        look.iter().copied().chain(sums).collect()
    });
    let draws: Vec<Vec<i128>> = draws.collect();
    let [one, two] = both(sides, sql, draws).await;
    assert_eq!(one, two, "{context}");
    assert_eq!(one.1, laws, "{context}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_noisy_counts_decides_after_a_look() {
    let (one, two) = tokio::join!(Side::new(), Side::new());
    two.veil.client.batch_execute(OTHER_ROWS).await.unwrap();
    let mut sides = [one, two];
    for (number, sql) in (0..).zip(QUESTIONS) {
        let plan = planned(&sides[0], sql).await;
        let blocks = plan.releases()[0].look().unwrap().blocks.len();
        let all: Vec<usize> = (0..blocks).collect();
        same(&mut sides, sql, &[], number).await;
        same(&mut sides, sql, &all, 100 + number).await;
        // Some sums are left out, and the others become more accurate.
        if sql.contains("FILTER") {
            for empty in 0..blocks {
                same(&mut sides, sql, &[empty], 200 + empty as u64).await;
            }
        }
    }
}

/// Numbers of units that nearly show: a window of bins holds 3.75 standard deviations.
fn nearly_seen(look: &Look) -> Vec<Vec<i128>> {
    let [block] = look.blocks.as_slice() else {
        panic!("more than one block");
    };
    let bins = block.bins.candidates().div_ceil(2);
    let middle = bins as f64 * 0.45;
    let shape = (0..bins).map(|bin| (-((bin as f64 - middle) / 2.0).powi(2)).exp());
    let shape: Vec<f64> = shape.collect();
    let of_width = |width: usize| {
        let sums = shape
            .windows(width)
            .map(|window| window.iter().sum::<f64>());
        sums.fold(0.0, f64::max) / (width as f64).sqrt()
    };
    let strength = [1, 2, 4, 8].map(of_width).into_iter().fold(0.0, f64::max);
    let height = 3.75 * look.deviation() / strength * 2f64.powi(look.counts.refine as i32);
    let beyond = [0.0];
    let counts = shape.iter().chain(&beyond);
    vec![counts.map(|part| (height * part).round() as i128).collect()]
}

/// A look that saw too few, and the next one that counts together with it: equal noisy counts, and
/// everything else is equal.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_noisy_counts_decides_after_two_looks() {
    let (one, two) = tokio::join!(Side::new(), Side::new());
    two.veil.client.batch_execute(OTHER_ROWS).await.unwrap();
    let mut sides = [one, two];
    let sql = "SELECT sum(amount) FROM retail.line";
    let mut reusing = asked();
    reusing.session_settings.reuse = Reuse::On;
    let plan = planned(&sides[0], sql).await;
    let release = &plan.releases()[0];
    let look = release.look().unwrap();
    let wanted = nearly_seen(look);
    let mut draws = Vec::new();
    for side in &sides {
        draws.push(of_look(look, &side.found(release, look).await, &wanted));
    }
    let (first, second) = (
        look.first.mu_squared.to_f64(),
        look.second.mu_squared.to_f64(),
    );
    for paid in [first, first + second, 0.0] {
        let [(one, laws), (two, other_laws)] =
            both_as(&mut sides, &reusing, sql, draws.clone()).await;
        assert_eq!(one.but_for_values(), two.but_for_values());
        assert_eq!(laws, other_laws);
        assert!((one.spent - paid).abs() < 1e-9, "{one:?}");
        assert_eq!(one.values.is_empty(), paid == first, "{one:?}");
    }
}

/// Whether noise hides an answer is decided by the policy or by released values: equal noisy
/// numbers of households, of tables with 2,000 and 300 of them, refuse the same question with the
/// same words, and the database is asked nothing.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_released_counts_decides_what_is_useless() {
    let (one, two) = tokio::join!(Side::new(), Side::new());
    let fewer = "DELETE FROM retail.line WHERE household_id > 300; \
        DELETE FROM retail.household WHERE id > 300";
    two.veil.client.batch_execute(fewer).await.unwrap();
    let mut sides = [one, two];
    let count = "SELECT count(*) FROM retail.household";
    let plan = planned(&sides[0], count).await;
    let refine = plan.releases()[0].price().unwrap().calibrated[0].refine;
    let noise = [2_000, 300].map(|households| vec![(700 - households) << refine]);
    let [(one, _), (two, _)] = both(&mut sides, count, noise).await;
    assert_eq!(one.values, two.values);
    assert!(one.values.contains("700"), "{}", one.values);

    let correlation = "SELECT corr(amount, week) FROM retail.line";
    let mut asked = requester(0.05, ClipChoice::Fixed);
    asked.session_settings.reuse = Reuse::On;
    let mut seen = Vec::new();
    for side in &mut sides {
        seen.push(side.ask(&asked, correlation).await);
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].shape.contains("PV001"), "{}", seen[0].shape);
    assert_eq!(seen[0].spent, 0.0);
    let reads = |line: &String| line.contains("\"retail\".");
    assert!(
        !seen[0].statements.iter().any(reads),
        "{:?}",
        seen[0].statements
    );
}
