//! `pgveil.logregr`: without noise NumPy's fit, with one debit for all steps, which a failure or a
//! cancel in the middle does not change.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pgveil::engine::{Format, Service};
use pgveil::error::Error;
use pgveil::mechanism::{CandidateRun, Exponential, Noise, SampleError, Sampler};
use pgveil::parse::{Statement, parse};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tokio_util::sync::CancellationToken;

use super::regression::{fields, people, requester};
use crate::fixture::{Stream, Veil};

/// NumPy's of the unit tests of the step: a hundred times the rows have the same coefficients, and
/// a tenth of the errors of sampling. Six releases are one debit; another field is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_logistic_regression_is_fitted_as_numpy_fits_it() {
    let veil = people(Veil::silent()).await;
    let analyst = requester(5000.0);
    let coef = [
        -2.1175551868385183,
        0.5514977330850331,
        0.16573859660713824,
        -0.08380817077214686,
    ];
    let errors = [
        0.9435670728677625,
        0.21321577172933637,
        0.13414849483595634,
        0.07571125245976588,
    ];
    let condition = "y - a + b - c / 2.0 > 6";
    let call = |y: &str| format!("(pgveil.logregr({y}, ARRAY[1, a, b, e]))");
    let sql = format!("SELECT {}.* FROM lab.people WHERE y < 25", call(condition));
    let answer = veil.ask_as(&analyst, &sql).await.unwrap();
    let columns = answer.columns.iter();
    let columns: Vec<(&str, u32)> = columns.map(|c| (c.name.as_str(), c.type_oid)).collect();
    assert_eq!(
        columns,
        [
            ("coef", 1022),
            ("std_err", 1022),
            ("noise_err", 1022),
            ("num_rows", 20),
            ("num_iterations", 23),
        ]
    );
    let spent = veil.spent().await;
    let number = format!("(CASE WHEN {condition} THEN 1 ELSE 0 END)");
    for y in [condition, &number] {
        let sql = format!("SELECT {}.* FROM lab.people WHERE y < 25", call(y));
        let row = veil.rows_as(&analyst, &sql).await.unwrap().remove(0);
        let found = fields(&row);
        for at in 0..4 {
            assert!((found[0][at] - coef[at]).abs() < 1e-6, "{row}");
            let of_rows = (found[1][at].powi(2) - found[2][at].powi(2)).sqrt();
            assert!((of_rows / errors[at] * 10.0 - 1.0).abs() < 1e-3, "{row}");
        }
        assert_eq!(found[3..].concat(), [4000.0, 6.0], "{row}");
        if y == condition {
            assert_eq!(veil.spent().await, spent);
        }
    }
    let spent = veil.spent().await;
    let of = call(condition);
    let sql = format!(
        "SELECT {of}.coef[2] > 0.5, cardinality({of}.std_err) FROM lab.people WHERE y < 25"
    );
    assert_eq!(veil.rows_as(&analyst, &sql).await.unwrap(), ["t|4"]);
    assert_eq!(veil.spent().await, spent);
}

/// Without a constant, and EXPLAIN: six releases with shares that double.
#[tokio::test(flavor = "multi_thread")]
async fn a_logistic_regression_is_six_releases() {
    let veil = people(Veil::silent()).await;
    let sql = "SELECT (pgveil.logregr(y - a + b - c / 2.0 > 6, ARRAY[a, b])).coef FROM lab.people \
        WHERE y < 25";
    let found = fields(&veil.rows_as(&requester(5000.0), sql).await.unwrap()[0]).concat();
    let wanted = [0.24201043881579595, -0.06614615461468264];
    for (found, wanted) in found.iter().zip(&wanted) {
        assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
    }
    let explain = format!("EXPLAIN {sql}");
    let plan = veil
        .explained(requester(5000.0).session_settings, &explain)
        .await;
    let releases = plan.iter().filter(|line| line.contains("Release"));
    assert_eq!(releases.count(), 6, "{plan:#?}");
}

/// Sixteen columns, of which the first is the constant.
const WIDE: usize = 16;

/// A column of whole numbers from 0 to 6, and a condition that all of them bear on.
fn wide_schema() -> String {
    let columns = (1..WIDE).map(|at| format!("(n * {} + n / {}) % 7 AS x{at}", 2 * at + 1, at + 2));
    let columns: Vec<String> = columns.collect();
    let terms = (1..WIDE).map(|at| format!("{} * x{at}", at as i32 % 5 - 2));
    let terms: Vec<String> = terms.collect();
    format!(
        "CREATE SCHEMA wide;
        CREATE TABLE wide.rows AS SELECT n AS id, {} FROM generate_series(1, 6000) AS n;
        ALTER TABLE wide.rows ADD PRIMARY KEY (id), ADD y bool;
        UPDATE wide.rows SET y = {} + (id * 7919 % 61) - 30 > 0;
        CREATE TABLE wide.visits AS SELECT id, y, {} FROM wide.rows, generate_series(1, 2);
        ALTER TABLE wide.visits ALTER id SET NOT NULL",
        columns.join(", "),
        terms.join(" + "),
        wide_columns().join(", ")
    )
}

fn wide_columns() -> Vec<String> {
    (1..WIDE).map(|at| format!("x{at}")).collect()
}

fn wide_policy() -> String {
    let bounds = wide_columns()
        .into_iter()
        .map(|x| format!("{x}: {{bounds: [0, 6]}}"));
    let bounds = bounds.collect::<Vec<_>>().join(", ");
    let (head, rest) = super::regression::POLICY.split_once("tables:").unwrap();
    let (_, limits) = rest.split_once("limits:").unwrap();
    format!(
        "{head}tables:
  wide.rows: {{unit: id, columns: {{y: visible, {bounds}}}}}
  wide.visits: {{unit: id, rows_per_unit: 2, columns: {{y: visible, {bounds}}}}}
limits:{limits}"
    )
}

/// The coefficients of the largest likelihood, by Newton's method without noise.
fn most_likely(rows: &[(f64, Vec<f64>)]) -> Vec<f64> {
    let size = rows[0].1.len();
    let mut coef = vec![0.0; size];
    for _ in 0..25 {
        let mut system = vec![vec![0.0; size + 1]; size];
        for (y, x) in rows {
            let sum: f64 = x.iter().zip(&coef).map(|(x, c)| x * c).sum();
            let chance = 1.0 / (1.0 + (-sum).exp());
            for (i, row) in system.iter_mut().enumerate() {
                for j in 0..size {
                    row[j] += chance * (1.0 - chance) * x[i] * x[j];
                }
                row[size] += (y - chance) * x[i];
            }
        }
        for (own, step) in coef.iter_mut().zip(solved(system)) {
            *own += step;
        }
    }
    coef
}

/// Gauss's elimination, of a symmetric matrix and a column after it.
fn solved(mut system: Vec<Vec<f64>>) -> Vec<f64> {
    let size = system.len();
    for at in 0..size {
        let pivot = system[at].clone();
        for (row, own) in system.iter_mut().enumerate() {
            if row != at {
                let times = own[at] / pivot[at];
                own.iter_mut()
                    .zip(&pivot)
                    .for_each(|(own, of)| *own -= times * of);
            }
        }
    }
    (0..size)
        .map(|at| system[at][size] / system[at][at])
        .collect()
}

/// Sixteen features of units with two rows each, for which a row takes longest, are fitted as
/// without pgveil.
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_features_are_fitted() {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(&wide_schema()).await.unwrap();
    };
    let veil = Veil::over(fill, &wide_policy(), Veil::silent()).await;
    let columns = wide_columns().join(", ");
    let rows = veil
        .direct(&format!(
            "SELECT CASE WHEN y THEN 1 ELSE 0 END, 1, {columns} FROM wide.rows"
        ))
        .await;
    let rows = rows.iter().map(|row| {
        let row: Vec<f64> = row.split('|').map(|text| text.parse().unwrap()).collect();
        (row[0], row[1..].to_vec())
    });
    let wanted = most_likely(&rows.collect::<Vec<_>>());
    let sql = format!("SELECT (pgveil.logregr(y, ARRAY[1, {columns}])).* FROM wide.visits");
    let rows = veil.rows_as(&requester(5000.0), &sql).await.unwrap();
    let found = fields(&rows[0]);
    assert_eq!(found[0].len(), WIDE);
    for (found, wanted) in found[0].iter().zip(&wanted) {
        assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
    }
    let more =
        format!("SELECT (pgveil.logregr(y, ARRAY[1, {columns}, x1 + x2])).coef FROM wide.rows");
    let refused = veil
        .rows_as(&requester(5000.0), &more)
        .await
        .unwrap_err()
        .report();
    assert!(
        refused
            .message
            .contains("takes 1 to 16 features, and not 17"),
        "{refused:?}"
    );
}

/// Three columns: this many draws a step.
const DRAWS: i64 = 1 + 3 + 6;
const FIT: &str = "SELECT (pgveil.logregr(y - a + b - c / 2.0 > 6, ARRAY[1, a, b])).coef FROM \
    lab.people WHERE y < 25";

/// Draws until the count is at zero. Then it fails, or somebody cancels.
struct Ended {
    noise: Stream,
    left: Arc<AtomicI64>,
    cancelled: Option<CancellationToken>,
}

impl Sampler for Ended {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            match &self.cancelled {
                Some(token) => token.cancel(),
                None => return Err(SampleError::Parameter),
            }
        }
        self.noise.sample(noise)
    }

    fn choose(
        &mut self,
        exponential: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        self.noise.choose(exponential, runs)
    }
}

/// Asks for the fit, which ends at this draw, and pays for all steps. Then asks again, which costs
/// what the steps from this one on do. A third time is free, and shows the same.
async fn ended_at(draw: i64, is_cancelled: bool, drawn: usize) {
    let left = Arc::new(AtomicI64::new(draw));
    let token = CancellationToken::new();
    let (counted, cancelled) = (Arc::clone(&left), is_cancelled.then(|| token.clone()));
    let veil = people(Some(Arc::new(move || {
        Box::new(Ended {
            noise: Stream(ChaCha20Rng::seed_from_u64(7)),
            left: Arc::clone(&counted),
            cancelled: cancelled.clone(),
        })
    })))
    .await;
    let analyst = requester(5000.0);
    let Statement::Query(query) = parse(FIT).unwrap().remove(0) else {
        panic!("{FIT}")
    };
    let plan = veil.engine.plan(&analyst, &query).await.unwrap().0;
    assert_eq!(plan.releases().len(), 6);
    let of_steps = |from: usize| {
        let steps = plan.releases()[from..].iter();
        let each = steps.map(|step| step.price().unwrap().loss.mu_squared.to_f64());
        each.sum::<f64>()
    };
    let mut spent = Vec::new();
    let formats = [Format::Text];
    let first = veil
        .engine
        .answer(&analyst, &query, &[], &[], &formats, token)
        .await;
    assert!(left.load(Ordering::Relaxed) < 0, "it came to that draw");
    match first {
        Err(Error::Cancelled) if is_cancelled => {}
        Err(_) if !is_cancelled => {}
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("an answer"),
    }
    spent.push(veil.spent().await);
    let second = veil.rows_as(&analyst, FIT).await.unwrap();
    spent.push(veil.spent().await);
    assert_eq!(veil.rows_as(&analyst, FIT).await.unwrap(), second);
    spent.push(veil.spent().await);
    let twice = of_steps(0) + of_steps(drawn);
    for (spent, wanted) in spent.iter().zip([of_steps(0), twice, twice]) {
        assert!((spent / wanted - 1.0).abs() < 1e-6, "{spent} {wanted}");
    }
}

/// All six steps are paid for before the first draws. Steps that were drawn before a failure are
/// kept and never drawn again; those after it are paid for once more, and then the answer stands.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_was_paid_for_with_all_others() {
    ended_at(0, false, 0).await;
    ended_at(3 * DRAWS + 2, false, 3).await;
}

/// The step in which the cancel comes is drawn to its end and kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_between_steps_keeps_those_that_are_drawn() {
    ended_at(3 * DRAWS, true, 4).await;
}
