//! The law of a choice against the exact one, and the range of the scores by brute force.

use proptest::prelude::*;

use super::super::testing::Seeded;
use super::*;

fn histogram() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::btree_map(0..24u64, 1..40u64, 0..12).prop_map(|m| m.into_iter().collect())
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        (0..=8u32).prop_map(|numerator| Target::Fraction { numerator, denominator: 8 }),
        (0..60u64).prop_map(Target::FromBottom),
        (0..60u64).prop_map(Target::FromTop),
    ]
}

fn all_scores(scores: &Scores) -> Vec<i128> {
    (0..scores.size).map(|point| scores.score(point)).collect()
}

/// Where a unit adds its weight: points with weights of at most `weight` together.
fn added(histogram: &[(u64, u64)], unit: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all: std::collections::BTreeMap<u64, u64> = histogram.iter().copied().collect();
    unit.iter().for_each(|(at, w)| *all.entry(*at).or_default() += w);
    all.into_iter().filter(|(_, w)| *w > 0).collect()
}

proptest! {
    #[test]
    fn one_unit_moves_scores_within_the_range(
        histogram in histogram(),
        target in target(),
        unit in prop::collection::btree_map(0..24u64, 0..7u64, 1..5),
    ) {
        let unit: Vec<(u64, u64)> = unit.into_iter().collect();
        let weight = unit.iter().map(|(_, w)| w).sum::<u64>().max(1);
        let with = added(&histogram, &unit);
        for (a, b) in [
            (ranks(&histogram, 24, target, weight, Eta(1)).unwrap(), ranks(&with, 24, target, weight, Eta(1)).unwrap()),
            (frequencies(&histogram, 24, weight, Eta(1)).unwrap(), frequencies(&with, 24, weight, Eta(1)).unwrap()),
        ] {
            let moves: Vec<i128> = all_scores(&a).iter().zip(all_scores(&b)).map(|(x, y)| y - x).collect();
            let span = moves.iter().max().unwrap() - moves.iter().min().unwrap();
            prop_assert!(span <= a.range as i128, "{span} > {}: {moves:?}", a.range);
        }
    }

    #[test]
    fn the_best_point_has_the_wanted_rank(histogram in histogram(), numerator in 0..=8u32) {
        prop_assume!(!histogram.is_empty());
        let scores = ranks(&histogram, 24, Target::Fraction { numerator, denominator: 8 }, 1, Eta(1)).unwrap();
        let best = scores.best();
        let below: u64 = histogram.iter().filter(|(at, _)| *at < best).map(|(_, w)| w).sum();
        let up_to: u64 = histogram.iter().filter(|(at, _)| *at <= best).map(|(_, w)| w).sum();
        let total: u64 = histogram.iter().map(|(_, w)| w).sum();
        prop_assert!(8 * below <= u64::from(numerator) * total && u64::from(numerator) * total <= 8 * up_to);
    }

    #[test]
    fn the_top_mirrors_the_bottom(histogram in histogram(), rank in 0..60u64) {
        let top = all_scores(&ranks(&histogram, 24, Target::FromTop(rank), 3, Eta(1)).unwrap());
        let mut turned: Vec<(u64, u64)> = histogram.iter().map(|(at, w)| (23 - at, *w)).collect();
        turned.reverse();
        let mut bottom = all_scores(&ranks(&turned, 24, Target::FromBottom(rank), 3, Eta(1)).unwrap());
        bottom.reverse();
        prop_assert_eq!(top, bottom);
    }
}

/// A fixed target needs the range 2: with 1, a unit below it and a unit above it pull opposite ways.
#[test]
fn a_fixed_rank_has_range_two() {
    let histogram = [(2, 5), (8, 5), (20, 5)];
    let without = all_scores(&ranks(&histogram, 24, Target::FromBottom(7), 1, Eta(1)).unwrap());
    let with = all_scores(&ranks(&added(&histogram, &[(1, 1)]), 24, Target::FromBottom(7), 1, Eta(1)).unwrap());
    let moves: Vec<i128> = without.iter().zip(&with).map(|(a, b)| b - a).collect();
    assert_eq!(moves.iter().max().unwrap() - moves.iter().min().unwrap(), 2);
}

/// 40,000 choices against the exact law, by chi-square; a false alarm has probability below 1e-6 (and the seed is fixed).
#[test]
fn choices_follow_the_law() {
    let histogram = [(1u64, 3u64), (2, 9), (5, 2), (9, 14), (13, 1)];
    for (scores, name) in [
        (ranks(&histogram, 16, Target::Fraction { numerator: 1, denominator: 2 }, 2, Eta::round_down(1.3)).unwrap(), "median"),
        (ranks(&histogram, 16, Target::FromTop(4), 3, Eta::round_down(2.0)).unwrap(), "largest"),
        (frequencies(&histogram, 16, 2, Eta::round_down(0.4)).unwrap(), "mode"),
    ] {
        let rate = scores.eta.to_f64() / scores.range as f64;
        let best = scores.best_score();
        let masses: Vec<f64> = all_scores(&scores).iter().map(|s| (rate * (s - best) as f64).exp()).collect();
        let total: f64 = masses.iter().sum();
        let draws = 40_000;
        let mut random = Seeded::new(7);
        let mut counts = vec![0u32; masses.len()];
        for _ in 0..draws {
            counts[scores.choose(&mut random).unwrap() as usize] += 1;
        }
        let (mut chi, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
        for (mass, count) in masses.iter().zip(&counts) {
            let expected = f64::from(draws) * mass / total;
            if expected >= 20.0 {
                chi += (f64::from(*count) - expected).powi(2) / expected;
                cells += 1;
            } else {
                rest = (rest.0 + expected, rest.1 + f64::from(*count));
            }
        }
        if rest.0 > 0.0 {
            chi += (rest.1 - rest.0).powi(2) / rest.0.max(1.0);
            cells += 1;
        }
        // 1e-6 quantile of chi-square with at most 15 degrees of freedom is below 57.
        assert!(cells > 3 && chi < 57.0, "{name}: {chi} over {cells} cells");
    }
}

#[test]
fn what_a_choice_costs() {
    let shows = |actual: Fixed, expected: f64| assert!((actual.to_f64() / expected - 1.0).abs() < 1e-6, "{} is not {expected}", actual.to_f64());
    let one = loss_choices(Eta::round_down(0.5), 1);
    shows(one.epsilon.unwrap(), 0.5);
    shows(one.rho, 0.031_25);
    // mu = 2 Phi^-1(e^0.25 / (1 + e^0.25)).
    shows(one.mu_squared, 0.312_979_499_481_629_56f64.powi(2));
    // Below the line sqrt(pi / 8) eta, and close to it for small eta.
    let line = |eta: f64| std::f64::consts::PI / 8.0 * eta * eta;
    for eta in [0.01, 0.1, 1.0, 5.0] {
        let mu_squared = loss_choices(Eta::round_down(eta), 1).mu_squared.to_f64();
        assert!(mu_squared <= line(eta) * (1.0 + 1e-9), "{eta}");
    }
    let three = loss_choices(Eta::round_down(0.5), 3);
    assert_eq!(three.mu_squared.0, 3 * one.mu_squared.0);
    assert_eq!(three.epsilon.unwrap().0, 3 * one.epsilon.unwrap().0);
}

#[test]
fn parameters_out_of_range_are_refused() {
    let refused = |histogram: &[(u64, u64)], size, weight| ranks(histogram, size, Target::FromBottom(1), weight, Eta(1)).is_err();
    assert!(refused(&[(3, 1)], 3, 1));
    assert!(refused(&[(2, 1), (1, 1)], 3, 1));
    assert!(refused(&[], 0, 1));
    assert!(refused(&[], 3, 0));
    assert!(refused(&[(0, u64::MAX), (1, 1)], 3, 1));
    assert!(ranks(&[], 3, Target::Fraction { numerator: 2, denominator: 1 }, 1, Eta(1)).is_err());
    // Nobody there: every point alike.
    let empty = ranks(&[], 5, Target::Fraction { numerator: 1, denominator: 2 }, 1, Eta(1)).unwrap();
    assert_eq!(empty.best(), 2);
}
