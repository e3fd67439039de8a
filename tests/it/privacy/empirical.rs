//! The empirical audit: canaries with extreme values, thousands of trials through the real wire,
//! and the most that an attacker can be shown to gain, held up against what was charged. In each
//! group of an answer stands one trial: the group's canary is there, or is not. A group shows what
//! its own rows and its own draws make, so each is D or D' to its canary; that no draw is shared is
//! audited too, by a second group that the attacker sees next to it.

mod command;
mod mutants;
mod stage;

use pgveil::audit::{Gain, Trials, attack};
use pgveil::mechanism::Loss;

use stage::{Stage, minus};

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

    /// What was found of the charge: of epsilon where the noise has one, else of mu. Above 1, more
    /// was lost than was paid for.
    fn share(&self) -> f64 {
        self.epsilon.map_or(self.gain.mu / self.mu, |epsilon| {
            self.gain.epsilon / epsilon
        })
    }
}

const SCALAR: &str = "SELECT cell, count(*) FROM a.people GROUP BY cell";
/// A count is shown as a whole number, which hides a little of it; of a sum of this range nothing
/// is lost.
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
        // tells less than the sum and the count it is made of.
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

/// The look and the sums together. Each is a part of the charge, so that one group's sums tell less
/// of it.
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

/// Groups that a canary brings to the threshold; and, of each of a thousand, a canary alone in it,
/// which is never shown.
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

/// Two questions, one with the canaries and one without them, are two draws: together they tell
/// what the two charges say.
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
