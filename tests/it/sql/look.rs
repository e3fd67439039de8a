//! `pgveil.clip = auto`: clips chosen for each question from a noisy look at the data.

use pgveil::policy::{ClipChoice, Reuse, SessionSettings};
use pgveil::shadow::Requester;

use crate::fixture::Veil;

/// Households with few lines and with thousands; what a line costs differs as much.
const SCHEMA: &str = "
    CREATE SCHEMA retail;
    SELECT setseed(0.25);
    CREATE TABLE retail.household (id int PRIMARY KEY, size int NOT NULL);
    INSERT INTO retail.household SELECT g, 1 + g % 5 FROM generate_series(1, 2000) g;
    CREATE TABLE retail.line (
        household_id int NOT NULL REFERENCES retail.household, week int NOT NULL,
        store int NOT NULL, amount numeric(10, 2));
    INSERT INTO retail.line
    SELECT h.id, 1 + floor(random() * 12), 1 + floor(random() * random() * 30),
        CASE WHEN random() < 0.99 THEN round(exp(1 + sqrt(-2 * ln(random() + 1e-9)) *
            cos(6.2831853 * random()))::numeric, 2) END
    FROM (SELECT id, least(900, ceil(exp(3 + sqrt(-2 * ln(random() + 1e-9)) *
            cos(6.2831853 * random())))) AS n FROM retail.household) h,
        LATERAL generate_series(1, h.n::int) AS g";

const POLICY: &str = "\
version: 1
database:
  url: ${DATABASE_URL}
ledger:
  url: ${PGVEIL_LEDGER}
privacy: {unit: household, budget: {epsilon: 4000, delta: 1e-3}, per_query: {epsilon: 0.5, \
    max_epsilon: 200}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 4000, delta: 1e-3}}]
tables:
  retail.household:
    unit: id
    columns: {size: {bounds: [1, 9]}}
  retail.line:
    unit: {path: [household_id -> retail.household.id]}
    rows_per_unit: 5000
    columns:
      week: {values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
      store: visible
      amount: {bounds: [0, 500]}
";

async fn veil(silent: bool) -> Veil {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    Veil::over(fill, POLICY, Veil::silent().filter(|_| silent)).await
}

fn requester(epsilon: f64, clip: ClipChoice) -> Requester {
    Requester {
        session_settings: SessionSettings {
            epsilon: Some(epsilon),
            reuse: Reuse::Off,
            clip,
            ..SessionSettings::default()
        },
        ..Veil::requester()
    }
}

const QUESTIONS: [&str; 6] = [
    "SELECT sum(amount) FROM retail.line",
    "SELECT week, sum(amount) FROM retail.line GROUP BY week ORDER BY week",
    "SELECT count(*), sum(amount) FROM retail.line",
    "SELECT week, avg(amount) FROM retail.line GROUP BY week ORDER BY week",
    "SELECT sum(amount) FILTER (WHERE week = 3), count(*) FILTER (WHERE week = 4) FROM retail.line",
    "SELECT week, count(*) FROM retail.line WHERE amount > 5 GROUP BY ROLLUP (week) ORDER BY week",
];

/// Without noise, and with so small noise expected that nobody is worth cutting, the answer is
/// PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn without_noise_the_answers_are_postgresqls() {
    let veil = veil(true).await;
    for sql in QUESTIONS {
        let shown = veil.rows_as(&requester(200.0, ClipChoice::Auto), sql).await;
        let direct = veil.direct(sql).await;
        eprintln!("{sql}\n{shown:?}\n{direct:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_clip_is_worth_more_than_the_declared_one() {
    let veil = veil(false).await;
    for sql in QUESTIONS
        .iter()
        .chain(&["SELECT store, sum(amount) FROM retail.line GROUP BY store ORDER BY store"])
    {
        for clip in [ClipChoice::Fixed, ClipChoice::Auto] {
            let before = veil.spent().await;
            let shown = veil.rows_as(&requester(0.5, clip), sql).await;
            eprintln!("{clip:?} {} {sql}\n{shown:?}", veil.spent().await - before);
        }
        eprintln!("{:?}", veil.direct(sql).await);
    }
}
