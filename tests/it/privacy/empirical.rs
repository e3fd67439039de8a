//! The empirical audit: canaries with extreme values, thousands of trials through the real wire,
//! and the attacker's largest provable gain, compared with the charge. Each group of an answer is
//! one trial: the group's canary is present or absent. A group's value depends on its own rows and
//! its own draws alone, so each is D or D' to its canary. A second group, which the attacker sees
//! next to it, audits that no draw is shared.

mod command;
mod mutants;
mod stage;

use pgveil::audit::{Gain, Trials, attack};
use pgveil::mechanism::Loss;

use stage::{Stage, cube_of, minus};

/// Probability of blaming sound answers, of each audit here. A dozen audits: one run in 80,000.
const ALARM: f64 = 1e-6;
/// Answers bought for an audit: each holds a hundred trials of each side.
const ANSWERS: usize = 40;

/// The attack's gain next to the charge of one trial.
#[derive(Debug)]
struct Audited {
    gain: Gain,
    epsilon: Option<f64>,
    mu: f64,
}

impl Audited {
    fn new(name: &str, trials: &Trials, charged: Loss) -> Self {
        let gain = attack(trials, charged.delta.to_f64(), ALARM);
        let audited = Self {
            gain,
            epsilon: charged.epsilon.map(|epsilon| epsilon.to_f64()),
            mu: charged.mu_squared.to_f64().sqrt(),
        };
        println!(
            "{name}: {} trials of each side judged, {audited:?}",
            gain.judged
        );
        audited
    }

    /// The gain as a share of the charge: in epsilon where the noise has one, else in mu. Above 1,
    /// the loss exceeded the charge.
    fn share(&self) -> f64 {
        self.epsilon.map_or(self.gain.mu / self.mu, |epsilon| {
            self.gain.epsilon / epsilon
        })
    }
}

const SCALAR: &str = "SELECT cell, count(*) FROM a.people GROUP BY cell";
/// A count is shown as a whole number, which hides a little of it; rounding takes nothing from a
/// sum of this range.
const SUM: &str = "SELECT cell, sum(x) FROM a.people GROUP BY cell";
const VECTORS: [&str; 3] = [
    "SELECT cell, count(*), sum(x) FROM a.people GROUP BY cell",
    "SELECT cell, avg(x) FROM a.people GROUP BY cell",
    "SELECT cell, count(*), sum(x) FROM a.visits GROUP BY cell",
];

#[tokio::test(flavor = "multi_thread")]
async fn laplace_scalars_lose_what_they_charge_and_no_more() {
    let stage = Stage::under("pure", 2.0).await;
    for (sql, least) in [(SCALAR, 0.25), (SUM, 0.5)] {
        let (trials, charged) = stage.trials(&[sql], ANSWERS).await;
        let audited = Audited::new(sql, &trials, charged);
        assert_eq!(audited.epsilon, Some(2.0));
        assert!(
            audited.share() <= 1.0 && audited.share() > least,
            "{sql}: {audited:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gaussian_vectors_lose_what_they_charge_and_no_more() {
    let stage = Stage::under("gdp", 10.0).await;
    for sql in VECTORS {
        let (trials, charged) = stage.trials(&[sql], ANSWERS).await;
        let audited = Audited::new(sql, &trials, charged);
        assert!(audited.epsilon.is_none() && audited.mu > 1.0, "{audited:?}");
        // Values of one unit beyond every bound, and ten times the rows that count. An average
        // reveals less than its sum and its count.
        let least = if sql.contains("avg") { 0.3 } else { 0.5 };
        assert!(
            audited.share() <= 1.0 && audited.share() > least,
            "{sql}: {audited:?}"
        );
        // The same as (epsilon, delta), as the role's budget is written.
        let at = attack(&trials, 1e-4, ALARM).epsilon;
        assert!(at <= 10.0, "{sql}: epsilon {at} at delta 1e-4");
    }
}

/// The look and the sums together. Each is a part of the charge, so one group's sums reveal less of
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn looks_lose_what_they_charge_and_no_more() {
    let stage = Stage::under("gdp", 10.0).await.looking();
    for sql in [
        VECTORS[2],
        "SELECT cell, sum(x) FROM a.visits GROUP BY cell",
    ] {
        let plan = stage.plan_in_session(sql).await;
        assert!(plan.releases()[0].look().is_some());
        let (trials, charged) = stage.trials(&[sql], ANSWERS).await;
        let audited = Audited::new(sql, &trials, charged);
        assert!(
            audited.share() <= 1.0 && audited.share() > 0.3,
            "{sql}: {audited:?}"
        );
    }
    stage.breaks(mutants::Fault::TooLittle(20));
    let (trials, charged) = stage.trials(&[VECTORS[2]], ANSWERS).await;
    let audited = Audited::new("too little noise", &trials, charged);
    assert!(audited.share() > 1.0, "{audited:?}");
}

/// Groups that a canary brings to the threshold; and a thousand groups with a canary alone, which
/// are never shown.
#[tokio::test(flavor = "multi_thread")]
async fn thresholds_lose_what_they_charge_and_no_more() {
    let stage = Stage::under("gdp", 10.0).await;
    let (trials, charged, alone) = stage.thresholded(ANSWERS).await;
    let audited = Audited::new("threshold", &trials, charged);
    assert!(
        charged.delta.to_f64() > 0.0 && audited.share() <= 1.0 && audited.share() > 0.3,
        "{audited:?}"
    );
    assert_eq!(alone.shown, 0, "of {} groups of one", alone.hidden);
    assert!(alone.hidden >= 4000, "{}", alone.hidden);
}

/// Two questions, one with the canaries and one without them, are two draws: together they reveal
/// as much as the two charges allow.
#[tokio::test(flavor = "multi_thread")]
async fn two_purchases_are_two_draws() {
    let stage = Stage::under("gdp", 10.0).await;
    let (trials, charged) = stage.trials(&mutants::TWICE, ANSWERS).await;
    let audited = Audited::new("two purchases", &trials, charged);
    assert!(
        audited.share() <= 1.0 && audited.share() > 0.3,
        "{audited:?}"
    );
    let one = stage.charge(SCALAR).await;
    assert_eq!(minus(charged, one).mu_squared, one.mu_squared);
}

/// A question is asked up to fifty times, until it is true: how many answers were false says
/// whether the canary is there. One charge covers all of them. The threshold is where that says the
/// most: nearer to the count without the canary than to that with it.
#[tokio::test(flavor = "multi_thread")]
async fn monitors_lose_what_they_charge_and_no_more() {
    let stage = Stage::under("pure", 8.0).await;
    let (trials, charged) = stage.monitored(400, 50, 0.3125).await;
    let asked = |seen: &Vec<Vec<f64>>| seen.iter().filter(|seen| seen[0] > 10.0).count();
    assert!(asked(&trials.without) > 30, "an epoch of many questions");
    let audited = Audited::new("monitor", &trials, charged);
    assert_eq!(audited.epsilon, Some(8.0));
    assert!(
        audited.share() <= 1.0 && audited.share() > 0.05,
        "{audited:?}"
    );
    let stage = Stage::under("pure", 1.0).await;
    stage.breaks(mutants::Fault::TooLittle(20));
    let (trials, charged) = stage.monitored(240, 2, 1.0).await;
    let audited = Audited::new("monitor of too little noise", &trials, charged);
    assert!(audited.share() > 1.0, "{audited:?}");
}

/// All sets of a cube are computed from the same noisy numbers, which one row moves together: the
/// attacker sees all of an answer's groups. A trial is one answer, so there are fewer of them.
#[tokio::test(flavor = "multi_thread")]
async fn cubes_lose_what_they_charge_and_no_more() {
    let stage = Stage::under("gdp", 10.0).await.looking();
    let plan = stage.plan_in_session(&cube_of(1)).await;
    let price = plan.releases()[0].price().unwrap();
    assert!(price.effects.is_some(), "the sets share noise");
    let (trials, charged) = stage.cubed(400).await;
    assert!(trials.with.iter().all(|seen| seen.len() == 12));
    let audited = Audited::new("cube", &trials, charged);
    assert!(audited.epsilon.is_none(), "{audited:?}");
    assert!(
        audited.share() <= 1.0 && audited.share() > 0.2,
        "{audited:?}"
    );
    // One draw for all numbers of all effects, and too little noise: far above a smaller price.
    let stage = Stage::under("gdp", 4.0).await.looking();
    for fault in [mutants::Fault::Shared, mutants::Fault::TooLittle(20)] {
        stage.breaks(fault);
        let (trials, charged) = stage.cubed(240).await;
        let audited = Audited::new(&format!("cube, {fault:?}"), &trials, charged);
        assert!(audited.share() > 1.0, "{audited:?}");
    }
}
