use crate::mechanism::exponential::*;
use crate::mechanism::loss_laplace;
use crate::mechanism::testing::Seeded;

fn run(penalty: u64, candidates: u64) -> CandidateRun {
    CandidateRun::level(BigUint::from(penalty), candidates)
}

#[test]
fn enclosures_hold_the_exponential_and_are_narrow() {
    for (numerator, denominator) in [
        (0u64, 1u64),
        (1, 1),
        (1, 1000),
        (7, 3),
        (100, 3),
        (127, 1),
        (128, 1),
        (10_000, 1),
    ] {
        let found =
            Enclosure::exp_minus(&BigUint::from(numerator), &BigUint::from(denominator), 128);
        assert!(found.low <= found.high);
        assert!(
            &found.high - &found.low <= BigUint::from(3u8),
            "{numerator}/{denominator}: {found:?}"
        );
        // The leading 64 bits against float8.
        let exact = (-(numerator as f64) / denominator as f64).exp();
        let seen = (&found.low >> 64u32).to_f64().unwrap() / 2f64.powi(64);
        assert!(
            (seen - exact).abs() <= 1e-13 * exact + 2f64.powi(-63),
            "{numerator}/{denominator}: {seen} is not {exact}"
        );
    }
}

#[test]
fn more_bits_lie_inside_fewer() {
    for numerator in [1u64, 5, 90, 333] {
        let (a, b) = (BigUint::from(numerator), BigUint::from(7u8));
        let (coarse, fine) = (
            Enclosure::exp_minus(&a, &b, 128),
            Enclosure::exp_minus(&a, &b, 512),
        );
        assert!(coarse.low <= (&fine.low >> 384u32) && (&fine.high >> 384u32) <= coarse.high);
    }
}

/// Chi-square of draws against the exact law; with 9 degrees of freedom a true sampler exceeds 47
/// once in four million runs.
#[test]
fn draws_follow_the_exact_law() {
    let mechanism = Exponential {
        eta: Exponential::eta(1.5).unwrap(),
        width: BigUint::from(4u8),
    };
    let runs = [
        run(9, 3),
        run(0, 1),
        run(2, 1),
        run(5, 2),
        run(1, 0),
        run(40, 3),
    ];
    let weight = |r: &CandidateRun| (-1.5 * r.penalty.to_f64().unwrap() / 4.0).exp();
    let candidates: Vec<(usize, u64, f64)> = runs
        .iter()
        .enumerate()
        .flat_map(|(at, r)| (0..r.candidates).map(move |place| (at, place, weight(r))))
        .collect();
    assert_eq!(candidates.len(), 10);
    let total: f64 = candidates.iter().map(|c| c.2).sum();
    let mut random = Seeded::new(20_261_121);
    let draws = 40_000;
    let mut counts = std::collections::HashMap::new();
    for _ in 0..draws {
        *counts
            .entry(mechanism.draw(&runs, &mut random).unwrap())
            .or_insert(0u32) += 1;
    }
    let mut statistic = 0.0;
    for (at, place, weight) in candidates {
        let expected = weight / total * f64::from(draws);
        let seen = f64::from(counts.get(&(at, place)).copied().unwrap_or(0));
        statistic += (seen - expected).powi(2) / expected;
    }
    assert!(statistic < 47.0, "{statistic}");
}

/// Rising penalties are drawn as if each candidate were a separate run; 14 degrees of freedom, 59
/// once in five million runs.
#[test]
fn draws_of_rising_penalties_follow_the_exact_law() {
    let mechanism = Exponential {
        eta: Exponential::eta(0.7).unwrap(),
        width: BigUint::from(3u8),
    };
    let rising = |penalty: u64, candidates: u64, step: u64| CandidateRun {
        step: BigUint::from(step),
        ..run(penalty, candidates)
    };
    let runs = [rising(2, 8, 1), run(3, 2), rising(0, 4, 5), rising(1, 1, 9)];
    let weight = |r: &CandidateRun, place: u64| {
        (-0.7 * (&r.penalty + &r.step * place).to_f64().unwrap() / 3.0).exp()
    };
    let candidates: Vec<(usize, u64, f64)> = runs
        .iter()
        .enumerate()
        .flat_map(|(at, r)| (0..r.candidates).map(move |place| (at, place, weight(r, place))))
        .collect();
    let total: f64 = candidates.iter().map(|c| c.2).sum();
    let mut random = Seeded::new(1_715);
    let draws = 10_000;
    let mut counts = std::collections::HashMap::new();
    for _ in 0..draws {
        *counts
            .entry(mechanism.draw(&runs, &mut random).unwrap())
            .or_insert(0u32) += 1;
    }
    let of = |(at, place, weight): &(usize, u64, f64)| {
        let expected = weight / total * f64::from(draws);
        (f64::from(counts.get(&(*at, *place)).copied().unwrap_or(0)) - expected).powi(2) / expected
    };
    let statistic: f64 = candidates.iter().map(of).sum();
    assert!(statistic < 59.0, "{statistic}");
    assert_eq!(
        mechanism.draw(&[rising(0, 3, 1)], &mut random),
        Err(SampleError::Parameter),
        "three are no power of two"
    );
}

#[test]
fn a_draw_of_nothing_fails() {
    let mechanism = Exponential {
        eta: 1 << 30,
        width: BigUint::from(1u8),
    };
    let mut random = Seeded::new(1);
    assert_eq!(
        mechanism.draw(&[], &mut random),
        Err(SampleError::Parameter)
    );
    assert_eq!(
        mechanism.draw(&[run(1, 0)], &mut random),
        Err(SampleError::Parameter)
    );
    assert_eq!(mechanism.draw(&[run(7, 1)], &mut random), Ok((0, 0)));
}

/// Brute force over neighbours' penalties: the log-ratio of probabilities stays within eta,
/// whatever moves by at most the width.
#[test]
fn losses_are_within_eta() {
    let law = |penalties: &[f64], eta: f64, width: f64| {
        let weights: Vec<f64> = penalties.iter().map(|p| (-eta * p / width).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect::<Vec<_>>()
    };
    let (eta, width) = (1.0, 2.0);
    for moves in 0..81u32 {
        let change = |at: u32| f64::from(moves / 3u32.pow(at) % 3) - 1.0;
        let before = [0.0, 1.0, 3.0, 2.5];
        let after: Vec<f64> = before
            .iter()
            .enumerate()
            .map(|(at, p)| p + change(at as u32))
            .collect();
        let (p, q) = (law(&before, eta, width), law(&after, eta, width));
        for (a, b) in p.iter().zip(&q) {
            assert!((a / b).ln().abs() <= eta + 1e-12, "{moves}");
        }
    }
}

/// No more than what is charged for a pure answer of the same epsilon, and exact in epsilon.
#[test]
fn losses_are_those_of_bounded_range() {
    for value in [0.01, 0.3, 1.0, 4.0] {
        let mechanism = Exponential {
            eta: Exponential::eta(value).unwrap(),
            width: BigUint::from(1u8),
        };
        let loss = mechanism.loss();
        let pure = loss_laplace(loss.epsilon.unwrap());
        assert!((loss.epsilon.unwrap().to_f64() - value).abs() < 1e-8);
        assert!(loss.rho.to_f64() >= value * value / 8.0 - 1e-8);
        if value <= 1.0 {
            assert!(
                loss.rho < pure.rho && loss.mu_squared < pure.mu_squared,
                "{value}"
            );
        }
    }
}
