//! Time of the emitted SQL against the exact query on the backing PostgreSQL, interleaved in one
//! run, medians of 41. `cargo bench --bench emitted`
#![allow(dead_code)]

#[path = "../tests/it/fixture.rs"]
mod fixture;

use std::time::{Duration, Instant};

use pgveil::parse::{Statement, parse};

const QUESTIONS: [&str; 5] = [
    "SELECT count(*) FROM nls.women",
    "SELECT race, count(*), avg(years_of_school) FROM nls.women GROUP BY race",
    "SELECT avg(hourly_wage) FROM nls.interviews",
    "SELECT year, avg(hourly_wage) FROM nls.interviews GROUP BY year",
    "SELECT w.race, avg(i.hourly_wage) FROM nls.interviews i JOIN nls.women w ON i.woman_id = \
        w.woman_id GROUP BY w.race",
];
const ROUNDS: usize = 41;

async fn timed(client: &tokio_postgres::Client, sql: &str) -> Duration {
    let start = Instant::now();
    client.simple_query(sql).await.expect("it runs");
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

#[tokio::main]
async fn main() {
    let veil = fixture::Veil::demo(|yaml| yaml, None).await;
    println!(
        "{:>9} {:>9} {:>6}  question",
        "exact ms", "ours ms", "ratio"
    );
    for sql in QUESTIONS {
        let statements = parse(sql).expect("it parses");
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("one query")
        };
        let (plan, _) = veil
            .engine
            .plan(&fixture::Veil::requester(), query)
            .await
            .expect("it plans");
        let emitted = plan.releases()[0]
            .sql()
            .expect("it asks the data")
            .to_owned();
        let (mut exact, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            exact.push(timed(&veil.client, sql).await);
            ours.push(timed(&veil.client, &emitted).await);
        }
        let (exact, ours) = (median(exact), median(ours));
        println!("{exact:9.2} {ours:9.2} {:6.2}  {sql}", ours / exact);
    }
}
