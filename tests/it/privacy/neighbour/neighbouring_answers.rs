//! Two random databases, one unit apart, hostile values and all, through the same random questions:
//! a client sees the same apart from released values.

use pgveil::analyze::KeyRule;
use pgveil::engine::{Answer, Format, Requester, Service};
use pgveil::error::Error;
use pgveil::parse::{Query, Statement, parse};
use pgveil::policy::{Notices, Reuse, SessionSettings};
use pgveil::refusal::sqlstate;
use tokio_util::sync::CancellationToken;

use super::proxy::{Proxy, requester};
use super::question::{Question, question};
use super::random::{Random, seeds};
use super::world::{HEAVY, UNITS, World};

/// Random questions of each seed; `PGVEIL_TWIN_QUERIES` asks for more.
fn queries() -> usize {
    std::env::var("PGVEIL_TWIN_QUERIES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(100)
}

const DATABASES: usize = 5;

/// Every answer is bought.
fn buyer(random: &mut Random) -> Requester {
    let notices = if random.once_in(3) {
        Notices::Full
    } else {
        Notices::Cost
    };
    Requester {
        session_settings: SessionSettings {
            reuse: Reuse::Off,
            notices,
            ..requester().session_settings
        },
        ..requester()
    }
}

async fn ask(proxy: &Proxy, requester: &Requester, query: &Query) -> Result<Answer, Error> {
    proxy
        .engine
        .answer(
            requester,
            query,
            &[],
            &[],
            &[Format::Text],
            CancellationToken::new(),
        )
        .await
}

/// Every key of every release is known without the data, so that each group is there.
async fn is_listed(proxy: &Proxy, requester: &Requester, query: &Query) -> bool {
    let Ok((plan, _)) = proxy.engine.plan(requester, query).await else {
        return false;
    };
    plan.middles().is_empty()
        && plan
            .releases()
            .iter()
            .flat_map(|r| r.keys())
            .all(|(_, rule)| !matches!(rule, KeyRule::Threshold))
}

/// Leaves out everything that depends on released values: rows, except for listed keys, and
/// PostgreSQL's own errors over those values.
async fn same(
    one: &Proxy,
    two: &Proxy,
    requester: &Requester,
    query: &Query,
    keys: Option<usize>,
) -> Result<bool, String> {
    let answers = (
        ask(one, requester, query).await,
        ask(two, requester, query).await,
    );
    let of_values = |answer: &Result<Answer, Error>| {
        answer
            .as_ref()
            .is_err_and(|error| error.report().sqlstate.starts_with("22"))
    };
    let bought = match &answers {
        (Ok(a), Ok(b)) => {
            // The interval of a deviation or a slope is computed from the released values.
            let reported = |answer: &Answer| {
                answer
                    .notices
                    .iter()
                    .filter(|line| !line.contains(": 95 % within"))
                    .cloned()
                    .collect::<Vec<_>>()
            };
            if (&a.columns, reported(a)) != (&b.columns, reported(b)) {
                return Err(format!(
                    "columns and notices: {:?} {:?}\n{:?} {:?}",
                    a.columns, a.notices, b.columns, b.notices
                ));
            }
            if let Some(keys) = keys
                && is_listed(one, requester, query).await
            {
                let shown = |answer: &Answer| {
                    let mut rows: Vec<_> =
                        answer.rows.iter().map(|row| row[..keys].to_vec()).collect();
                    rows.sort();
                    rows
                };
                let (a, b) = (shown(a), shown(b));
                if a != b {
                    return Err(format!("keys: {a:?}\n{b:?}"));
                }
            }
            true
        }
        (a, b) if of_values(a) || of_values(b) => true,
        (Err(a), Err(b)) => {
            let (a, b) = (a.report(), b.report());
            if format!("{a:?}") != format!("{b:?}") || a.sqlstate.starts_with("XX") {
                return Err(format!("errors: {a:?}\n{b:?}"));
            }
            false
        }
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => {
            return Err(format!(
                "one is answered, the other not: {:?}",
                error.report()
            ));
        }
    };
    let (a, b) = (spent(one).await, spent(two).await);
    if a == b {
        Ok(bought)
    } else {
        Err(format!("charges: {a}\n{b}"))
    }
}

async fn spent(proxy: &Proxy) -> String {
    format!(
        "{:?}",
        proxy.engine.ledger().balance("ann").await.unwrap().spent
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn random_neighbours_look_alike() {
    let runs: Vec<_> = seeds()
        .into_iter()
        .map(|seed| tokio::spawn(look_alike(seed ^ 3)))
        .collect();
    for run in runs {
        run.await.unwrap();
    }
}

async fn look_alike(seed: u64) {
    let (all, fewer) = (World::new().await, World::new().await);
    let (one, two) = (Proxy::over(&all).await, Proxy::over(&fewer).await);
    let mut random = Random::new(seed);
    let (mut asked, mut answered) = (0, 0);
    for database in 0..DATABASES {
        let heavy = database % 2 == 1;
        let mut again = random.clone();
        all.fill(&mut random, heavy).await;
        fewer.fill(&mut again, heavy).await;
        let unit = if heavy {
            HEAVY
        } else {
            1 + random.below(UNITS)
        };
        fewer.without(unit).await;
        fewer.client.batch_execute("COMMIT").await.unwrap();
        for _ in 0..queries() / DATABASES {
            let Question { sql, keys } = question(&mut random);
            let statements = match parse(&sql) {
                Ok(statements) => statements,
                Err(refusal) => {
                    assert_eq!(
                        refusal.sqlstate,
                        sqlstate::STATEMENT_TOO_COMPLEX.code,
                        "{refusal:?}\n{sql}"
                    );
                    continue;
                }
            };
            let [Statement::Query(query)] = statements.as_slice() else {
                panic!("seed {seed}: one query is wanted: {sql}")
            };
            match same(&one, &two, &buyer(&mut random), query, keys).await {
                Ok(bought) => answered += usize::from(bought),
                Err(fault) => panic!(
                    "PGVEIL_SEED={} database {database}, unit {unit}\n{sql}\n{fault}",
                    seed ^ 3
                ),
            }
            asked += 1;
        }
    }
    one.engine.stop().await;
    two.engine.stop().await;
    eprintln!(
        "PGVEIL_SEED={}: {asked} asked of twins, {answered} answered",
        seed ^ 3
    );
    assert!(answered * 2 > asked, "{answered} of {asked}");
}
