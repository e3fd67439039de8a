//! The yardstick of `benches/worth`: what the best single clip would cost.

#[path = "../../../benches/worth/oracle.rs"]
pub mod oracle;

use oracle::{Cell, Vectors, of_quotient, of_sum};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

const GROUPS: usize = 5;

fn vectors(units: &[[f64; GROUPS]]) -> Vectors {
    let cells = (0..).zip(units).flat_map(|(household, cells)| {
        (0..).zip(cells).map(move |(group, value)| Cell {
            household,
            group,
            value: *value,
        })
    });
    // In any order.
    let mut cells: Vec<Cell> = cells.collect();
    cells.reverse();
    Vectors::new(cells)
}

fn length(cells: &[f64; GROUPS]) -> f64 {
    cells.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The error under one clip, from its definition.
fn error(units: &[[f64; GROUPS]], weights: &[f64; GROUPS], clip: f64, mu: f64) -> f64 {
    let lost = |group: usize| -> f64 {
        let cut = units
            .iter()
            .map(|cells| cells[group] * (1.0 - (clip / length(cells)).min(1.0)));
        cut.sum()
    };
    let squares =
        (0..GROUPS).map(|group| weights[group] * (lost(group).powi(2) + (clip / mu).powi(2)));
    (squares.sum::<f64>() / weights.iter().sum::<f64>()).sqrt()
}

fn units(seed: u64) -> Vec<[f64; GROUPS]> {
    let mut dice = ChaCha20Rng::seed_from_u64(seed);
    (0..300)
        .map(|_| {
            let size = dice.random_range(0.0..6.0f64).exp();
            std::array::from_fn(|_| size * dice.random_range(-0.2..1.0f64))
        })
        .collect()
}

#[test]
fn no_clip_is_better_than_the_oracles() {
    let weights = [1.0, 0.5, 1.0, 2.0, 0.0];
    for (seed, mu) in [(1, 0.1), (2, 1.0), (3, 10.0)] {
        let units = units(seed);
        let found = of_sum(&vectors(&units), &weights, mu).unwrap();
        let least = (0..4_000)
            .map(|step| error(&units, &weights, (f64::from(step) / 400.0).exp(), mu))
            .fold(f64::INFINITY, f64::min);
        // Candidates are an eighth of an octave apart.
        assert!(
            (0.999 * least..=1.02 * least).contains(&found),
            "{found} {least}"
        );
    }
}

#[test]
fn counts_of_units_have_the_noise_alone() {
    let ones = vec![[1.0, 0.0, 0.0, 0.0, 0.0]; 10_000];
    let found = of_sum(&vectors(&ones), &[1.0, 0.0, 0.0, 0.0, 0.0], 0.1).unwrap();
    assert!((found - 10.0).abs() < 1e-9, "{found}");
    assert!(
        of_sum(&Vectors::new(Vec::new()), &[1.0; GROUPS], 0.1).is_none_or(|error| error >= 0.0)
    );
}

#[test]
fn quotients_share_the_price() {
    let ones = vec![[1.0; GROUPS]; 10_000];
    let twos = vec![[2.0; GROUPS]; 10_000];
    let found = of_quotient(&vectors(&twos), &vectors(&ones), &[1.0; GROUPS], 0.1).unwrap();
    // Each vector has length sqrt 5 times its cell, each part half of mu squared.
    let noise = 5f64.sqrt() * 2f64.sqrt() / 0.1;
    let wanted = ((2.0 * noise).powi(2) + (2.0 * noise).powi(2)).sqrt() / 10_000.0;
    assert!((found / wanted - 1.0).abs() < 1e-3, "{found} {wanted}");
}
