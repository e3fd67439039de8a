//! The accountant against two published ones, dp-accounting and autodp: equal where both are exact,
//! never below where ours is an upper bound.

use std::io::Write;
use std::process::{Command, Stdio};

use pgveil::mechanism::{
    Fixed, Loss, epsilon_of_mu, epsilon_of_rho, loss_gaussian, loss_laplace, mu_of,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::clients::install::{Python, python};

const PACKAGES: [&str; 2] = ["dp-accounting==0.6.0", "autodp==0.2.3.1"];
/// The privacy loss distribution is laid on steps of 1e-4, rounded up.
const PLD_SLACK: f64 = 2e-3;

/// Noise at sensitivity 1, and the delta to look at.
#[derive(Debug, Clone)]
struct Question {
    sigmas: Vec<f64>,
    scales: Vec<f64>,
    delta: f64,
}

fn questions() -> Vec<Question> {
    let delta = prop_oneof![Just(1e-5), Just(1e-6), Just(1e-9)];
    let gaussians = (prop::collection::vec(3.0..80.0f64, 1..6), delta.clone());
    let mixed = (
        prop::collection::vec(5.0..60.0f64, 0..5),
        prop::collection::vec(5.0..60.0f64, 1..8),
        delta,
    );
    // A fixed seed: the accountants are deterministic, and so are the questions.
    let mut runner = TestRunner::deterministic();
    let mut all: Vec<Question> = [4.5, 10.0, 50.0, 100.0]
        .into_iter()
        .map(|sigma| Question {
            sigmas: vec![sigma],
            scales: Vec::new(),
            delta: 1e-6,
        })
        .collect();
    for _ in 0..12 {
        let (sigmas, delta) = gaussians.new_tree(&mut runner).unwrap().current();
        all.push(Question {
            sigmas,
            scales: Vec::new(),
            delta,
        });
        let (sigmas, scales, delta) = mixed.new_tree(&mut runner).unwrap().current();
        all.push(Question {
            sigmas,
            scales,
            delta,
        });
    }
    all
}

fn ask(python: &std::path::Path, questions: &[Question]) -> Vec<serde_json::Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/accountants.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for Question {
        sigmas,
        scales,
        delta,
    } in questions
    {
        writeln!(
            input,
            "{}",
            serde_json::json!({ "sigmas": sigmas, "scales": scales, "delta": delta })
        )
        .unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Our ledger's loss for the same noise.
fn ours(question: &Question) -> Loss {
    let gaussians = question.sigmas.iter().map(|sigma| {
        let mu_squared = Fixed::round_up(1.0 / (sigma * sigma));
        Loss {
            mu_squared,
            rho: Fixed::round_up(0.5 / (sigma * sigma)),
            ..loss_gaussian(pgveil::mechanism::Mu::round_down(1.0 / sigma))
        }
    });
    let laplaces = question
        .scales
        .iter()
        .map(|scale| loss_laplace(Fixed::round_up(1.0 / scale)));
    gaussians
        .chain(laplaces)
        .fold(Loss::ZERO, |all, one| all.compose(one).unwrap())
}

#[tokio::test]
async fn the_accountant_agrees_with_published_ones() {
    let Some(Python(python)) = python("accountants", &PACKAGES).await else {
        return;
    };
    let questions = questions();
    let answers = ask(&python, &questions);
    assert_eq!(answers.len(), questions.len());
    let (mut exact, mut above) = (0, 0);
    for (question, answer) in questions.iter().zip(&answers) {
        let delta = Fixed::round_down(question.delta);
        let loss = ours(question);
        let gdp = epsilon_of_mu(loss.mu_squared, delta).unwrap().to_f64();
        let zcdp = epsilon_of_rho(loss.rho, delta).unwrap().to_f64();
        let theirs = |name: &str| answer[name].as_f64();
        let pld = theirs("pld").unwrap();
        let shown = format!("{question:?}: ours {gdp} (zCDP {zcdp}), theirs {answer}");
        // An account's loss is never less than the true loss of the whole composition.
        let pure = loss.epsilon.map_or(f64::INFINITY, Fixed::to_f64);
        assert!(gdp.min(pure) >= pld - PLD_SLACK, "{shown}");
        assert!(zcdp >= gdp - 1e-9 || !question.scales.is_empty(), "{shown}");
        if question.scales.is_empty() {
            assert!((gdp - pld).abs() <= PLD_SLACK, "{shown}");
            // The best of a short list of orders: never below ours, which takes the best of all.
            assert!(
                theirs("rdp").unwrap() >= zcdp - 1e-6 && theirs("rdp").unwrap() <= 1.1 * zcdp,
                "{shown}"
            );
            exact += 1;
        } else {
            above += 1;
        }
        for name in ["analytic", "autodp"] {
            if let Some(value) = theirs(name) {
                assert!(
                    (gdp - value).abs() <= 1e-6 * value.max(1.0),
                    "{name}: {shown}"
                );
                let back = mu_of(Fixed::round_up(value + 1e-6), delta)
                    .unwrap()
                    .to_f64();
                assert!(
                    (back * question.sigmas[0] - 1.0).abs() < 1e-4,
                    "{name}: {shown}"
                );
            }
        }
    }
    println!(
        "{exact} compositions of Gaussians equal, {above} with Laplace noise bounded from above"
    );
}
