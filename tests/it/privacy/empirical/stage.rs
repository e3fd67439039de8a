//! Tables of canaries, a pgveil over them behind a port, and trials bought through it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pgveil::audit::{TrialNumbers, Trials};
use pgveil::mechanism::{Fixed, Loss};
use pgveil::parse::{Statement, parse};
use pgveil::policy::SessionSettings;
use pgveil::rewrite::Plan;
use pgveil::shadow::Requester;

use super::mutants::{FAULTS, Fault, Faulty};
use crate::fixture::Veil;
use crate::privacy::attack::paths::Gate;
use crate::wire::socket::Socket;

/// Groups of an answer: every other is a trial, the one after it is seen next to it. Half of the
/// trials hold a canary.
const CELLS: usize = 400;
/// Units in each group apart from the canary.
const OTHERS: usize = 20;
/// Rows of a canary, of which five count.
const ROWS: usize = 50;

const POLICY: &str = r#"
version: 1
database: {url: "${DATABASE_URL}"}
ledger: {url: "${PGVEIL_LEDGER}"}
privacy:
  unit: person
  budget: {epsilon: 1000000, delta: 1e-3}
  per_query: {epsilon: EPSILON, max_epsilon: EPSILON}
  accounting: ACCOUNTING
  threshold_share: 0.5
  data_version: "1"
limits: {monitor_questions: 1000}
roles:
  - name: analyst
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: {epsilon: 900000, delta: 1e-4, renew: never}
tables:
  a.people: {unit: id, columns: {cell: {values: [CELLS]}, x: {bounds: [0, 100]}}}
  a.visits:
    unit: {path: [person -> a.people.id]}
    rows_per_unit: 5
    columns: {cell: {values: [CELLS]}, x: {bounds: [0, 100]}}
  a.homes: {unit: id, other_columns: visible}
  a.pairs:
    unit: id
    columns:
      side: {values: [1, 2], complete: true}
      h: {values: [0, 1, 2], complete: true}
      k: {values: [0, 1], complete: true}
      x: {bounds: [0, 100]}
"#;

/// A canary's number stands a million above its cell's.
fn rows() -> String {
    format!(
        "CREATE SCHEMA a;
         CREATE TABLE a.people (id int PRIMARY KEY, cell int, x int);
         CREATE TABLE a.visits (person int NOT NULL REFERENCES a.people, cell int, x int);
         CREATE TABLE a.homes (id int PRIMARY KEY, place text);
         CREATE TABLE a.pairs (id int PRIMARY KEY, side int NOT NULL, h int NOT NULL, k int NOT \
         NULL, x int);
         INSERT INTO a.pairs SELECT 1000 * s + g, s, g % 3, g / 3 % 2, g % 90 FROM \
         generate_series(1, 2) s, generate_series(1, 240) g;
         INSERT INTO a.pairs VALUES (1, 1, 2, 1, 2000000000);
         INSERT INTO a.people SELECT 100 * c + u, c, 20 + 3 * u FROM generate_series(1, {CELLS}) \
         c, \
         generate_series(1, {OTHERS}) u;
         INSERT INTO a.people SELECT 1000000 + c, c, 2000000000 FROM generate_series(1, {CELLS}, \
         4) \
         c;
         INSERT INTO a.visits SELECT id, cell, x FROM a.people WHERE id < 1000000;
         INSERT INTO a.visits SELECT id, cell, x FROM a.people, generate_series(1, {ROWS}) WHERE \
         id \
         >= 1000000;"
    )
}

pub struct Stage {
    gate: Gate,
    fault: Arc<AtomicUsize>,
    /// `pgveil.clip` of its sessions.
    clip: &'static str,
}

/// Groups of one unit each.
pub struct Alone {
    pub shown: usize,
    pub hidden: usize,
}

impl Stage {
    /// Sound, unless set otherwise.
    pub async fn under(accounting: &str, epsilon: f64) -> Self {
        let cells = (1..=CELLS)
            .map(|cell| cell.to_string())
            .collect::<Vec<_>>()
            .join(", ");
        let yaml = POLICY
            .replace("CELLS", &cells)
            .replace("EPSILON", &epsilon.to_string())
            .replace("ACCOUNTING", accounting);
        let fault = Arc::new(AtomicUsize::new(0));
        let chosen = Arc::clone(&fault);
        let sampler: pgveil::engine::MakeSampler =
            Arc::new(move || Box::new(Faulty::new(FAULTS[chosen.load(Ordering::Relaxed)])));
        let veil = Veil::over(
            async |client| client.batch_execute(&rows()).await.unwrap(),
            &yaml,
            Some(sampler),
        )
        .await;
        Self {
            gate: Gate::before(veil).await,
            fault,
            clip: "fixed",
        }
    }

    /// The stage with clips that a look chooses.
    pub fn looking(self) -> Self {
        Self {
            clip: "auto",
            ..self
        }
    }

    /// Sets the noise's fault from here on.
    pub fn breaks(&self, fault: Fault) {
        self.fault.store(
            FAULTS.iter().position(|f| *f == fault).unwrap(),
            Ordering::Relaxed,
        );
    }

    pub fn client(&self) -> &tokio_postgres::Client {
        &self.gate.veil.client
    }

    async fn session(&self) -> Socket {
        let mut socket = self.gate.log_in().await;
        socket.ask("SET pgveil.reuse = off").await;
        socket
            .ask(&format!("SET pgveil.clip = {}", self.clip))
            .await;
        socket
    }

    async fn spent(&self) -> Loss {
        self.gate
            .veil
            .engine
            .ledger()
            .balance("analyst")
            .await
            .unwrap()
            .spent
    }

    /// The cost of one purchase.
    pub async fn charge(&self, sql: &str) -> Loss {
        let before = self.spent().await;
        bought(&mut self.session().await, sql).await;
        minus(self.spent().await, before)
    }

    pub async fn plan(&self, sql: &str) -> Arc<Plan> {
        let statements = parse(sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("one query")
        };
        self.gate
            .veil
            .engine
            .plan(&Veil::requester(), query)
            .await
            .unwrap()
            .0
    }

    /// The plan with clips as in the sessions of a client that sets nothing.
    pub async fn plan_in_session(&self, sql: &str) -> Arc<Plan> {
        let statements = parse(sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("one query")
        };
        let requester = Requester {
            session_settings: SessionSettings::default(),
            ..Veil::requester()
        };
        let engine = &self.gate.veil.engine;
        engine.plan(&requester, query).await.unwrap().0
    }

    /// Buys every question this many times. For each trial the attacker sees its group and the next
    /// one, in all answers. Also returns the cost of one time.
    pub async fn trials(&self, questions: &[&str], answers: usize) -> (Trials, Loss) {
        let mut session = self.session().await;
        let mut trials = Trials::default();
        let mut charged = Vec::new();
        for _ in 0..answers {
            let before = self.spent().await;
            let mut seen = Vec::new();
            for sql in questions {
                seen.push(bought(&mut session, sql).await);
            }
            charged.push(minus(self.spent().await, before));
            sort_out(&seen, &mut trials);
        }
        charged.dedup();
        assert_eq!(
            charged.len(),
            1,
            "{questions:?} is charged differently: {charged:?}"
        );
        (trials, charged[0])
    }

    /// Groups without declared keys, of as many units as the threshold asks for, with a canary or
    /// without; and groups of a canary alone.
    pub async fn thresholded(&self, answers: usize) -> (Trials, Loss, Alone) {
        let sql = "SELECT place, count(*) FROM a.homes GROUP BY place";
        let plan = self.plan(sql).await;
        let price = plan.releases()[0].price().unwrap();
        let (presence, pass_at) = price.threshold.unwrap();
        let threshold = pass_at >> price.calibrated[presence.0].refine;
        let mut fill = format!(
            "INSERT INTO a.homes SELECT 1000 * c + u, 'p' || c FROM generate_series(1, {CELLS}) c, \
                generate_series(1, {threshold}) u;
             INSERT INTO a.homes SELECT 1000000 + c, 'p' || c FROM generate_series(1, {CELLS}, 2) \
             c;"
        );
        write!(
            fill,
            "INSERT INTO a.homes SELECT 2000000 + c, 'l' || c FROM generate_series(1, {CELLS}) c"
        )
        .unwrap();
        self.client().batch_execute(&fill).await.unwrap();
        let mut session = self.session().await;
        let (mut trials, mut alone) = (
            Trials::default(),
            Alone {
                shown: 0,
                hidden: 0,
            },
        );
        let before = self.spent().await;
        for _ in 0..answers / 2 {
            let shown = bought(&mut session, sql).await;
            for cell in 1..=CELLS {
                let seen = shown
                    .get(&format!("p{cell}"))
                    .map_or(vec![0.0, 0.0], |count| {
                        vec![1.0, count[0] - threshold as f64]
                    });
                if cell % 2 == 1 {
                    trials.with.push(seen)
                } else {
                    trials.without.push(seen)
                }
                if shown.contains_key(&format!("l{cell}")) {
                    alone.shown += 1
                } else {
                    alone.hidden += 1
                }
            }
        }
        (
            trials,
            each(minus(self.spent().await, before), answers / 2),
            alone,
        )
    }
}

/// All sums of one side of the pairs, of which the first has a canary.
pub fn cube_of(side: usize) -> String {
    format!(
        "SELECT grouping(h, k), h, k, sum(x) FROM a.pairs WHERE side = {side} GROUP BY CUBE (h, k) \
            ORDER BY 1, 2, 3"
    )
}

impl Stage {
    /// Buys a cube with its canary, and one without, this many times: a trial is a whole answer,
    /// since its groups share their noise. Also returns the cost of one trial.
    pub async fn cubed(&self, trials: usize) -> (Trials, Loss) {
        let before = self.spent().await;
        let side = async |side: usize| {
            let mut session = self.session().await;
            let mut seen: Vec<TrialNumbers> = Vec::new();
            for _ in 0..trials {
                let replies = session.ask(&cube_of(side)).await;
                let rows = replies.iter().filter(|reply| reply.kind == b'D');
                let sums = rows.map(|row| row.values()[3].as_ref().unwrap().parse().unwrap());
                seen.push(sums.collect());
            }
            seen
        };
        let (with, without) = tokio::join!(side(1), side(2));
        let charged = each(minus(self.spent().await, before), 2 * trials);
        (Trials { with, without }, charged)
    }

    /// Opens a monitor for each trial, `above` the count of a cell without its canary, and asks it
    /// until an answer is true, at most `questions` times: the attacker sees which one was. Also
    /// returns the cost of one trial.
    pub async fn monitored(&self, trials: usize, questions: usize, above: f64) -> (Trials, Loss) {
        let before = self.spent().await;
        let side = async |cell: usize| {
            let mut session = self.session().await;
            let mut seen = Vec::new();
            for trial in 0..trials {
                let sql = format!(
                    "SELECT 'a', pgveil.above(count(*), {}, '{cell} {trial}')::int FROM a.people \
                        WHERE cell = {cell}",
                    OTHERS as f64 + above
                );
                let mut asked = 0;
                while asked < questions && bought(&mut session, &sql).await["a"] == [0.0] {
                    asked += 1;
                }
                seen.push(vec![asked as f64]);
            }
            seen
        };
        // The first cell has a canary, and the second has none.
        let (with, without) = tokio::join!(side(1), side(2));
        let charged = each(minus(self.spent().await, before), 2 * trials);
        (Trials { with, without }, charged)
    }
}

/// An answer's numbers by its first column; NULL is zero.
async fn bought(session: &mut Socket, sql: &str) -> HashMap<String, TrialNumbers> {
    let replies = session.ask(sql).await;
    assert!(
        replies.iter().all(|reply| reply.kind != b'E'),
        "{sql}: {replies:?}"
    );
    let number = |value: &Option<String>| {
        value
            .as_deref()
            .map_or(0.0, |text| text.parse::<f64>().unwrap())
    };
    let rows = replies
        .iter()
        .filter(|reply| reply.kind == b'D')
        .map(|reply| reply.values());
    rows.map(|row| {
        (
            row[0].clone().unwrap_or_default(),
            row[1..].iter().map(number).collect(),
        )
    })
    .collect()
}

fn sort_out(seen: &[HashMap<String, TrialNumbers>], trials: &mut Trials) {
    for cell in (1..=CELLS).step_by(2) {
        let both: TrialNumbers = seen
            .iter()
            .flat_map(|answer| [cell, cell + 1].map(|at| answer[&at.to_string()].clone()))
            .flatten()
            .collect();
        if cell % 4 == 1 {
            trials.with.push(both)
        } else {
            trials.without.push(both)
        }
    }
}

/// The spending since then.
pub fn minus(after: Loss, before: Loss) -> Loss {
    let less = |a: Fixed, b: Fixed| Fixed(a.0 - b.0);
    Loss {
        epsilon: after.epsilon.zip(before.epsilon).map(|(a, b)| less(a, b)),
        rho: less(after.rho, before.rho),
        mu_squared: less(after.mu_squared, before.mu_squared),
        delta: less(after.delta, before.delta),
    }
}

fn each(all: Loss, count: usize) -> Loss {
    let part = |whole: Fixed| Fixed(whole.0 / count as u128);
    Loss {
        epsilon: all.epsilon.map(part),
        rho: part(all.rho),
        mu_squared: part(all.mu_squared),
        delta: part(all.delta),
    }
}
