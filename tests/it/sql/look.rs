//! `pgveil.clip = auto`: clips chosen for each question from a noisy look at the data.

use std::sync::{Arc, OnceLock, Weak};

use pgveil::engine::{Engine, MakeSampler};
use pgveil::ledger::{Act, Decision};
use pgveil::mechanism::{CandidateRun, Exponential, Noise, SampleError, Sampler};
use pgveil::policy::{ClipChoice, Notices, Reuse, SessionSettings};
use pgveil::shadow::Requester;
use tokio::runtime::Handle;

use crate::fixture::Veil;

mod again;
mod centred;
mod left_out;
mod low_by;
mod rows;
pub mod scripted;
mod whole;

/// Households with few lines and with thousands; what a line costs differs as much.
pub const SCHEMA: &str = "
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

pub const POLICY: &str = "\
version: 1
database:
  url: ${DATABASE_URL}
ledger:
  url: ${PGVEIL_LEDGER}
privacy: {unit: household, budget: {epsilon: 4000, delta: 1e-3}, per_query: {epsilon: 0.5, \
    max_epsilon: 200}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 4000, delta: 1e-3}},
    {name: other, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 4000, delta: 1e-3}}]
tables:
  retail.household:
    unit: id
    columns: {size: {bounds: [1, 9]}}
  retail.line:
    unit: {path: [household_id -> retail.household.id]}
    rows_per_unit: 5000
    columns:
      week: {values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], complete: true}
      store: visible
      amount: {bounds: [0, 500]}
";

pub(super) async fn veil(silent: bool) -> Veil {
    veil_of(silent, POLICY).await
}

async fn veil_of(silent: bool, policy: &str) -> Veil {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    Veil::over(fill, policy, Veil::silent().filter(|_| silent)).await
}

/// A stage over the tables of this file, with this noise.
pub async fn seeded_veil(sampler: MakeSampler) -> Veil {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    Veil::over(fill, POLICY, Some(sampler)).await
}

/// A stage over the tables of this file without noise, under another `privacy:` and budget.
pub(super) async fn silent_veil_of(edit: impl Fn(&str) -> String) -> Veil {
    veil_of(true, &edit(POLICY)).await
}

pub fn requester(epsilon: f64, clip: ClipChoice) -> Requester {
    Requester {
        session_settings: SessionSettings {
            epsilon: Some(epsilon),
            reuse: Reuse::Off,
            clip,
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    }
}

const QUESTIONS: [&str; 10] = [
    "SELECT sum(amount) FROM retail.line",
    "SELECT week, sum(amount) FROM retail.line GROUP BY week ORDER BY week",
    "SELECT count(*), sum(amount) FROM retail.line",
    "SELECT week, avg(amount) FROM retail.line GROUP BY week ORDER BY week",
    "SELECT sum(amount) FILTER (WHERE week = 3), count(*) FILTER (WHERE week = 4) FROM retail.line",
    "SELECT week, count(*) FROM retail.line WHERE amount > 5 GROUP BY ROLLUP (week) ORDER BY week",
    "SELECT stddev(amount) FROM retail.line",
    "SELECT week, variance(amount), avg(amount), count(amount) FROM retail.line GROUP BY week \
        ORDER BY week",
    // Many households are in more stores than the 20 that the policy allows by default.
    "SELECT store, sum(amount) FROM retail.line GROUP BY store ORDER BY store",
    "SELECT store, count(DISTINCT household_id) FROM retail.line GROUP BY store ORDER BY store",
];

/// The numbers of a row.
pub(super) fn numbers(row: &str) -> Vec<f64> {
    row.split('|')
        .filter_map(|value| value.parse().ok())
        .collect()
}

/// Without noise, and with so little noise expected that few are worth cutting, the answers are
/// PostgreSQL's, and never above them.
#[tokio::test(flavor = "multi_thread")]
async fn without_noise_the_answers_are_postgresqls_but_for_what_is_cut() {
    let veil = veil(true).await;
    for sql in QUESTIONS {
        let shown = veil.rows_as(&requester(200.0, ClipChoice::Auto), sql).await;
        let (shown, direct) = (shown.unwrap(), veil.direct(sql).await);
        assert_eq!(shown.len(), direct.len(), "{sql}");
        for (shown, direct) in shown.iter().zip(&direct) {
            let (shown, direct) = (numbers(shown), numbers(direct));
            assert_eq!(shown.len(), direct.len(), "{sql}");
            for (shown, direct) in shown.iter().zip(&direct) {
                let is_near = (0.99..1.01).contains(&(shown / direct));
                assert!(is_near, "{sql}: {shown}, {direct}");
                let is_sum = ["avg", "stddev"].iter().all(|name| !sql.contains(name));
                assert!(!is_sum || shown <= direct, "{sql}: {shown}, {direct}");
            }
        }
    }
}

/// The middle one. A look follows a lone far bin of noise in about 2 of 100,000 cases, and its
/// answer is worth little then: the median of three answers is such a one in less than one of 10^8.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Bounds of 500 on amounts of which nearly all are below 50 cost a standard deviation little: its
/// squares have a separate clip, from zero. About the middle of the bounds the noise of the
/// variance alone would be as large as the answer. At a tenth of this price an answer was off by
/// 8 % (root mean square), and noise falls with the price: 20 % are more than twenty standard
/// errors.
#[tokio::test(flavor = "multi_thread")]
async fn generous_bounds_leave_a_standard_deviation() {
    let veil = veil(false).await;
    let sql = "SELECT stddev(amount) FROM retail.line";
    let direct = numbers(&veil.direct(sql).await[0])[0];
    let mut off = Vec::new();
    for _ in 0..3 {
        let shown = veil.rows_as(&requester(20.0, ClipChoice::Auto), sql).await;
        off.push((numbers(&shown.unwrap()[0])[0] / direct - 1.0).abs());
    }
    let off = median(off);
    assert!(off < 0.2, "{off}");
}

/// The error of sums by week, at one price. Twelve errors of the declared limit are together less
/// than a hundredth of what is expected (a fiftieth of it would do) once in 10^18 cases.
#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_clip_is_worth_many_declared_ones() {
    let veil = veil(false).await;
    let sql = QUESTIONS[1];
    let direct = veil.direct(sql).await;
    let mut errors = Vec::new();
    for clip in [ClipChoice::Fixed, ClipChoice::Auto] {
        let mut of_clip = Vec::new();
        for _ in 0..3 {
            let before = veil.spent().await;
            let shown = veil.rows_as(&requester(0.5, clip), sql).await.unwrap();
            let paid = veil.spent().await - before;
            assert!((paid - 0.0470515).abs() < 1e-5, "{clip:?} costs {paid}");
            let squares = shown
                .iter()
                .zip(&direct)
                .map(|(shown, direct)| (numbers(shown)[1] - numbers(direct)[1]).powi(2));
            of_clip.push((squares.sum::<f64>() / 12.0).sqrt());
        }
        errors.push(median(of_clip));
    }
    // About 17,000,000 and 3,000, of sums of 25,000.
    assert!(errors[0] > 100.0 * errors[1], "{errors:?}");
    assert!(errors[1] < 25_000.0, "{errors:?}");
}

/// The look is paid, the answer is not. Without noise the number of units is exact, and too small
/// for what noise is planned.
#[tokio::test(flavor = "multi_thread")]
async fn where_too_few_units_are_seen_only_the_look_is_paid() {
    let veil = veil(true).await;
    let few = "SELECT sum(amount) FROM retail.line WHERE store = 30 AND week = 1";
    let asked = requester(0.5, ClipChoice::Auto);
    let error = veil.ask_as(&asked, few).await.unwrap_err().report();
    assert_eq!(error.sqlstate, "PV002", "{error:?}");
    assert!(
        error
            .message
            .starts_with("too few units to choose a clip (about ")
    );
    let detail = error.detail.unwrap();
    let charged = detail.starts_with("Only the look was charged for this answer (");
    assert!(
        charged && detail.contains("% of your budget is left"),
        "{detail}"
    );
    let paid = veil.spent().await;
    assert!((paid / 0.0470515 - 0.30).abs() < 1e-3, "{paid}");
    // A group by threshold that nobody is in: nothing is shown, and its sums are not bought.
    let none = "SELECT store, sum(amount) FROM retail.line WHERE store > 29 GROUP BY store";
    let error = veil.ask_as(&asked, none).await.unwrap_err().report();
    assert_eq!(error.message, "no group has enough units to be shown");
    let hint = error.hint.unwrap();
    assert!(hint.starts_with("A group is shown from about "), "{hint}");
    assert!(hint.ends_with("GROUP BY fewer or coarser keys, or raise pgveil.epsilon."));
    let paid = veil.spent().await - paid;
    assert!((paid / 0.0470515 - 0.50).abs() < 1e-3, "{paid}");
    // A clip by the policy's limits asks nothing first.
    let fixed = requester(0.5, ClipChoice::Fixed);
    assert!(veil.ask_as(&fixed, few).await.is_ok());
}

/// What a look saw is kept for the role that paid: the repeat is refused free, with the same
/// numbers, and so is a question with more noise, or with too little less. A fresh look and that of
/// another role are paid, and so is one that will show enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_saw_too_little_is_paid_once() {
    let veil = veil(true).await;
    let few = "SELECT sum(amount) FROM retail.line WHERE store = 30 AND week = 1";
    let asked = |epsilon, reuse, role: &str| Requester {
        role: role.to_owned(),
        session_settings: SessionSettings {
            reuse,
            ..requester(epsilon, ClipChoice::Auto).session_settings
        },
        ..Veil::requester()
    };
    let refused = async |asked: Requester| {
        let spent = async || {
            let balance = veil.engine.ledger().balance(&asked.role).await.unwrap();
            balance.spent.mu_squared.to_f64()
        };
        let before = spent().await;
        let error = veil.ask_as(&asked, few).await.unwrap_err().report();
        assert_eq!(error.sqlstate, "PV002", "{error:?}");
        (error, spent().await - before)
    };
    let (first, paid) = refused(asked(0.3, Reuse::On, "analyst")).await;
    assert!(paid > 0.0);
    for epsilon in [0.3, 0.2, 0.31] {
        let (again, paid) = refused(asked(epsilon, Reuse::On, "analyst")).await;
        assert_eq!((again.message, paid), (first.message.clone(), 0.0));
        let detail = again.detail.unwrap();
        assert!(detail.starts_with("Nothing was charged"), "{detail}");
    }
    for (epsilon, reuse, role) in [(0.3, Reuse::Off, "analyst"), (0.3, Reuse::On, "other")] {
        let (_, paid) = refused(asked(epsilon, reuse, role)).await;
        assert!(paid > 0.0, "{epsilon}, {reuse:?}, {role}");
    }
    let better = asked(200.0, Reuse::On, "analyst");
    assert!(veil.ask_as(&better, few).await.is_ok());
}

/// Both debits are one entry of the history, and the repeat is free: values, intervals and what
/// is said of the clip are those that were drawn.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_one_entry_and_its_repeat_none() {
    let veil = veil(false).await;
    let reused = Requester {
        session_settings: SessionSettings {
            clip: ClipChoice::Auto,
            notices: Notices::Full,
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    };
    let sql = "SELECT count(*), sum(amount), pgveil.stderr(sum(amount)), \
        pgveil.ci_low(sum(amount)), pgveil.ci_high(sum(amount)), pgveil.low_by(sum(amount)) \
        FROM retail.line";
    let heard = async || {
        let answer = veil.ask_as(&reused, sql).await.unwrap();
        let mut notices = answer.notices;
        notices.retain(|line| !line.starts_with("privacy cost"));
        assert!(
            notices
                .iter()
                .any(|line| line.starts_with("clip of aggregate 2: about "))
        );
        (answer.rows, notices)
    };
    let first = heard().await;
    let entries = veil.engine.ledger().history("analyst", 10).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert!((entries[0].loss.mu_squared.to_f64() / 0.0470515 - 1.0).abs() < 1e-3);
    let paid = veil.spent().await;
    assert_eq!(heard().await, first);
    assert_eq!(veil.spent().await, paid);
}

/// The cut is reported, and the interval reaches PostgreSQL's value.
#[tokio::test(flavor = "multi_thread")]
async fn intervals_reach_past_what_is_cut() {
    let veil = veil(true).await;
    let sql = "SELECT sum(amount), pgveil.ci_low(sum(amount)), pgveil.ci_high(sum(amount)), \
        pgveil.stderr(sum(amount)) FROM retail.line";
    let shown = veil
        .rows_as(&requester(0.5, ClipChoice::Auto), sql)
        .await
        .unwrap();
    let [value, low, high, error] = numbers(&shown[0])[..] else {
        panic!("{shown:?}")
    };
    let exact = numbers(&veil.direct(QUESTIONS[0]).await[0])[0];
    // No noise is drawn: whatever is missing was cut.
    assert!(value < 0.99 * exact, "{value} of {exact}");
    assert!(
        (value - low - 1.959_964 * error).abs() < 0.003 * error,
        "{shown:?}"
    );
    assert!(high - 1.959_964 * error > exact, "{shown:?}, {exact}");
}

/// An average of each unit's total: its range is a product of limits, which nobody reaches.
#[tokio::test(flavor = "multi_thread")]
async fn averages_of_totals_of_units_are_looked_at() {
    let veil = veil(false).await;
    let sql = "SELECT avg(total) FROM (SELECT household_id, sum(amount) AS total FROM retail.line \
        GROUP BY household_id) AS t";
    let exact = numbers(&veil.direct(sql).await[0])[0];
    let mut answers = Vec::new();
    for _ in 0..3 {
        let shown = veil.rows_as(&requester(0.5, ClipChoice::Auto), sql).await;
        answers.push(numbers(&shown.unwrap()[0])[0]);
    }
    let shown = median(answers);
    assert!((shown / exact - 1.0).abs() < 0.5, "{shown}, {exact}");
}

/// A coarser question costs nothing, also where a look chose the clip: its groups are sums of the
/// finer answer's groups, with their errors and cuts.
#[tokio::test(flavor = "multi_thread")]
async fn coarser_questions_are_sums_of_looked_at_answers() {
    let veil = veil(true).await;
    let reused = |clip| Requester {
        session_settings: SessionSettings {
            clip,
            epsilon: Some(0.5),
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    };
    let output = "count(*), sum(amount), pgveil.ci_low(sum(amount)), pgveil.ci_high(sum(amount)), \
        pgveil.stderr(sum(amount))";
    let auto = reused(ClipChoice::Auto);
    let finer = format!("SELECT week, {output} FROM retail.line GROUP BY week ORDER BY week");
    let finer = veil.rows_as(&auto, &finer).await.unwrap();
    let paid = veil.spent().await;
    for (coarser, weeks) in [
        (format!("SELECT {output} FROM retail.line"), 0..12),
        (
            format!("SELECT {output} FROM retail.line WHERE week > 3"),
            3..12,
        ),
    ] {
        let answer = veil.ask_as(&auto, &coarser).await.unwrap();
        let notices = format!("{:?}", answer.notices);
        assert!(
            notices.contains("each household is cut as in the finer answer"),
            "{notices}"
        );
        let answer = veil.rows_as(&auto, &coarser).await.unwrap();
        let [count, sum, low, high, error] = numbers(&answer[0])[..] else {
            panic!("{answer:?}")
        };
        let summed = |column: usize| -> f64 {
            finer[weeks.clone()]
                .iter()
                .map(|row| numbers(row)[column])
                .sum()
        };
        let exact = numbers(
            &veil
                .direct(&coarser.replace(output, "count(*), sum(amount)"))
                .await[0],
        )[1];
        assert!((count - summed(1)).abs() < 2.0, "{count}");
        assert!((sum - summed(2)).abs() < 1.0, "{sum}");
        let one = numbers(&finer[weeks.start])[5];
        let expected = one * (weeks.len() as f64).sqrt();
        assert!((error / expected - 1.0).abs() < 1e-3, "{error}, {expected}");
        // No noise is drawn: the stated cut alone must reach the exact sum.
        assert!(
            low < sum && sum < exact && exact < high - 1.959_964 * error,
            "{answer:?}, {exact}"
        );
        assert_eq!(veil.spent().await, paid, "{coarser} was bought");
    }
    // A session that asks for a clip known beforehand gets no other.
    let all = format!("SELECT {output} FROM retail.line");
    veil.rows_as(&reused(ClipChoice::Fixed), &all)
        .await
        .unwrap();
    assert!(veil.spent().await > paid, "it has a price");
}

/// A part of a finer answer in which units have little: its own clip would be far lower, so it is
/// bought.
#[tokio::test(flavor = "multi_thread")]
async fn small_parts_of_looked_at_answers_are_bought() {
    let schema = format!(
        "{SCHEMA}; ALTER TABLE retail.line ADD COLUMN kind text NOT NULL DEFAULT 'view'; UPDATE \
            retail.line SET kind = 'return' WHERE amount < 0.06; ANALYZE"
    );
    let policy = POLICY.replace(
        "      store: visible\n",
        "      store: visible\n      kind: {values: [view, return], complete: true}\n",
    );
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(&schema).await.unwrap();
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    let reused = Requester {
        session_settings: SessionSettings {
            clip: ClipChoice::Auto,
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    };
    let finer = "SELECT kind, count(*) FROM retail.line GROUP BY kind";
    veil.rows_as(&reused, finer).await.unwrap();
    let mut paid = veil.spent().await;
    for (kind, is_bought) in [("view", false), ("return", true)] {
        let part = format!("SELECT count(*) FROM retail.line WHERE kind = '{kind}'");
        // Few units return anything: the look's result does not matter here.
        let _ = veil.rows_as(&reused, &part).await;
        let spent = veil.spent().await;
        assert_eq!(spent > paid, is_bought, "{kind}: {paid}, {spent}");
        paid = spent;
    }
}

/// Freezes the account at the first draw, which is the look's.
struct Freezing(Arc<OnceLock<Weak<Engine>>>);

impl Sampler for Freezing {
    fn sample(&mut self, _: &Noise) -> Result<i128, SampleError> {
        if let Some(engine) = self.0.get().and_then(Weak::upgrade) {
            let freeze = Decision {
                who: "test".to_owned(),
                why: "an incident".to_owned(),
                act: Act::Freeze { role: None },
            };
            Handle::current()
                .block_on(engine.ledger().decide(freeze))
                .unwrap();
        }
        Ok(0)
    }

    fn choose(&mut self, _: &Exponential, _: &[CandidateRun]) -> Result<(usize, u64), SampleError> {
        Ok((0, 0))
    }
}

/// Where the budget ends between the look and the answer, the refusal states the charge, and other
/// paid releases are kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_whose_answer_cannot_be_paid_is_reported() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let engine = Arc::new(OnceLock::new());
    let sampler = {
        let engine = Arc::clone(&engine);
        move || Box::new(Freezing(Arc::clone(&engine))) as Box<dyn Sampler + Send>
    };
    let veil = Veil::over(fill, POLICY, Some(Arc::new(sampler))).await;
    assert!(engine.set(Arc::downgrade(&veil.engine)).is_ok());
    let reused = Requester {
        session_settings: SessionSettings {
            clip: ClipChoice::Auto,
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    };
    let both =
        "SELECT sum(amount) FROM retail.line UNION ALL SELECT count(*) FROM retail.household";
    let error = veil.ask_as(&reused, both).await.unwrap_err().report();
    assert_eq!(error.sqlstate, "53400");
    assert_eq!(error.message, "the privacy budget is frozen");
    let detail = error.detail.unwrap();
    assert!(detail.contains("Only the look was charged"), "{detail}");
    assert!(veil.spent().await > 0.0);
    // Frozen, so only kept answers are shown.
    let kept = veil.ask_as(&reused, "SELECT count(*) FROM retail.household");
    kept.await.unwrap();
}
