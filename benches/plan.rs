//! Time from a text to its emitted SQL, over the demo policy: six questions by criterion, and
//! every statement of the golden stories; then the time to find a cached plan. `cargo bench --bench
//! plan`
#![allow(dead_code)]

#[path = "../tests/it/fixture.rs"]
mod fixture;

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group};
use pgveil::mechanism::{AccountState, Cap, Fixed, Loss};
use pgveil::parse::{Query, Statement, parse};
use pgveil::policy::Policy;
use pgveil::resolve::Constants;
use pgveil::rewrite::Terms;

const QUESTIONS: [(&str, &str); 6] = [
    ("count", "SELECT count(*) FROM nls.women"),
    (
        "group",
        "SELECT race, count(*), avg(years_of_school) FROM nls.women GROUP BY race ORDER BY 2 DESC",
    ),
    (
        "average_by_year",
        "SELECT year, round(avg(hourly_wage), 2) FROM nls.interviews WHERE year > 1975 GROUP BY \
            year ORDER BY year",
    ),
    (
        "join",
        "SELECT w.race, avg(i.hourly_wage) FROM nls.interviews i JOIN nls.women w ON i.woman_id = \
            w.woman_id GROUP BY w.race HAVING count(*) > 100",
    ),
    (
        "cte",
        "WITH pay AS (SELECT year AS y, hourly_wage * hours_per_week AS weekly FROM \
            nls.interviews) \
            SELECT y, avg(weekly), count(*) FROM pay GROUP BY y",
    ),
    (
        "logregr",
        "SELECT (pgveil.logregr(married = 1, ARRAY[1, tenure_years])).coef FROM nls.interviews",
    ),
];

const ROUNDS: usize = 31;

/// The statements of the golden stories that are planned.
fn stories() -> Vec<String> {
    let files = std::fs::read_dir("tests/golden/plan").expect("the goldens");
    let files = files.map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "sql"))
        .collect();
    files.sort();
    let texts = files
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("a text"));
    let statements = texts.flat_map(|text| {
        let parts = text.split(";\n").map(str::trim).map(str::to_owned);
        parts.collect::<Vec<_>>()
    });
    statements.filter(|sql| !sql.is_empty()).collect()
}

fn query_of(sql: &str) -> Option<Query> {
    match parse(sql).ok()?.as_slice() {
        [Statement::Query(query)] => Some(query.clone()),
        _ => None,
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// Prints the median of each story's times, and the longest ones.
fn report(what: &str, mut times: Vec<(f64, String)>) {
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |part: usize| times[(times.len() - 1) * part / 10].0;
    let (count, middle, most) = (times.len(), at(5), at(9));
    println!("{what}: {count} statements, median {middle:.0} us, nine in ten {most:.0} us");
    for (time, sql) in times.iter().rev().take(5) {
        println!(
            "{time:9.0} us  {}",
            sql.chars().take(80).collect::<String>()
        );
    }
}

/// Every story: from its text to a query, from the query to a plan, and to the plan in an engine's
/// cache.
fn all_stories(runtime: &tokio::runtime::Runtime, veil: &fixture::Veil) {
    let (mut read, mut planned, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let policy = veil.engine.policy();
    let (terms, constants) = asked(policy);
    let (requester, path) = (fixture::Veil::requester(), PATH.map(str::to_owned));
    for sql in stories() {
        let Some(query) = query_of(&sql) else {
            continue;
        };
        let planning =
            timed(|| pgveil::engine::plan(&query, policy, &path, &constants, &terms).is_ok());
        let finding = timed(|| {
            let found = runtime.block_on(veil.engine.plan(&requester, &query));
            found.is_ok()
        });
        let reading = timed(|| query_of(&sql).is_some());
        read.extend(reading.map(|time| (time, sql.clone())));
        planned.extend(planning.map(|time| (time, sql.clone())));
        found.extend(finding.map(|time| (time, sql)));
    }
    report("text to query", read);
    report("query to plan", planned);
    report("query to a plan that is kept", found);
}

/// The median time of what succeeds each time, in microseconds.
fn timed(once: impl Fn() -> bool) -> Option<f64> {
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        once().then(|| start.elapsed())
    });
    rounds.collect::<Option<Vec<_>>>().map(median)
}

const PATH: [&str; 1] = ["public"];

fn asked(policy: &Policy) -> (Terms, Constants) {
    let privacy = &policy.privacy;
    let cap = Cap::new(
        Fixed::round_down(3.0),
        Fixed::round_down(1e-7),
        Fixed::round_down(privacy.threshold_share),
        privacy.accounting,
    )
    .expect("a cap");
    let accounts = vec![
        AccountState {
            cap,
            spent: Loss::ZERO
        };
        2
    ];
    let terms = Terms {
        epsilon: privacy.epsilon_default,
        delta: 1e-7,
        accounts,
        session_settings: pgveil::policy::SessionSettings::with_fixed_clips(),
        ranges: Vec::new(),
    };
    let constants = Constants {
        now: 0,
        is_utc: true,
        signs_each: true,
        prints_plainly: true,
        session: Default::default(),
        role: "analyst".to_owned(),
    };
    (terms, constants)
}

fn plan(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let veil = runtime.block_on(fixture::Veil::demo(|yaml| yaml, None));
    all_stories(&runtime, &veil);
    let policy = veil.engine.policy();
    let (terms, constants) = asked(policy);
    let path = PATH.map(str::to_owned);
    for (name, sql) in QUESTIONS {
        c.bench_function(&format!("plan/{name}"), |b| {
            b.iter(|| {
                let statements = parse(sql).expect("it parses");
                let [Statement::Query(query)] = statements.as_slice() else {
                    panic!("one query")
                };
                pgveil::engine::plan(query, policy, &path, &constants, &terms).expect("it plans")
            });
        });
    }
    drop(runtime.enter());
    drop(veil);
}

criterion_group!(benches, plan);

/// On a thread with the stack of a thread of `pgveil serve`, which never has to grow it.
fn main() {
    let thread = std::thread::Builder::new().stack_size(4 * pgveil::parse::STACK_BYTES);
    let planner = thread.spawn(|| {
        benches();
        Criterion::default().configure_from_args().final_summary();
    });
    planner.expect("a thread").join().expect("it plans");
}
