//! Time of plan(): parse to price, for five questions over the demo policy.
//! `cargo bench --bench plan`
#![allow(dead_code)]

#[path = "../tests/it/fixture.rs"]
mod fixture;

use criterion::{Criterion, criterion_group, criterion_main};
use pgveil::mechanism::{AccountState, Cap, Fixed, Loss};
use pgveil::parse::{Statement, parse};
use pgveil::resolve::Constants;
use pgveil::rewrite::Terms;

const QUESTIONS: [(&str, &str); 5] = [
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
];

fn plan(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let veil = runtime.block_on(fixture::Veil::demo(|yaml| yaml, None));
    let policy = veil.engine.policy();
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
    };
    let constants = Constants {
        now: 0,
        is_utc: true,
        signs_each: true,
        prints_plainly: true,
        session: Default::default(),
        role: "analyst".to_owned(),
    };
    let path = ["public".to_owned()];
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
criterion_main!(benches);
