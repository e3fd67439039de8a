//! `cargo bench --bench quantiles`: the largest rank error of several quantiles of lognormal values
//! on 65,536 candidates, as a share of all rows, each drawn for itself and all together, next to
//! reference values (Kaplan, Schnapp, Stemmer 2022, as measured by others at the same n and rho).

use std::collections::BTreeMap;

use pgveil::mechanism::{Exponential, OsRandomness, normal};
use pgveil::release::CandidateRows;
use pgveil::rewrite::Halving;

const CANDIDATES: u64 = 1 << 16;

/// The distance in ranks from the wanted rank to those that the chosen candidate covers.
fn off(weights: &BTreeMap<u64, u128>, chosen: u64, fraction: u32) -> f64 {
    let total: u128 = weights.values().sum();
    let below: u128 = weights.range(..chosen).map(|(_, w)| w).sum();
    let upto = below + weights.get(&chosen).copied().unwrap_or(0);
    let wanted = f64::from(fraction) / 1e6 * total as f64;
    (below as f64 - wanted).max(wanted - upto as f64).max(0.0)
}

/// The mean over draws, at one rho in all.
fn error(rows: u32, rho: f64, count: u32, draws: u32, together: bool) -> f64 {
    let value =
        |i: u32| (normal::quantile((f64::from(i) + 0.5) / f64::from(rows)).exp() * 3000.0) as u64;
    let mut weights: BTreeMap<u64, u128> = BTreeMap::new();
    (0..rows).for_each(|i| *weights.entry(value(i).min(CANDIDATES - 1)).or_default() += 1);
    let fractions: Vec<u32> = (1..=count).map(|i| i * 1_000_000 / (count + 1)).collect();
    let steps = if together {
        Halving::levels(fractions.len())
    } else {
        count
    };
    let eta = Exponential::eta((8.0 * rho / f64::from(steps)).sqrt()).unwrap_or(1);
    let halving = Halving {
        eta,
        weight_max: 1,
        pieces: if together { Halving::PIECES } else { 1 },
    };
    let values = CandidateRows {
        weights: &weights,
        candidates: CANDIDATES,
        halving: &halving,
    };
    let mut random = OsRandomness::new();
    let mut sum = 0.0;
    for _ in 0..draws {
        let mut choose =
            |fractions: &[u32]| values.choose(fractions, &mut random).unwrap_or_default();
        let chosen = if together {
            choose(&fractions)
        } else {
            fractions.iter().flat_map(|f| choose(&[*f])).collect()
        };
        sum += chosen
            .iter()
            .zip(&fractions)
            .map(|(c, f)| off(&weights, *c, *f))
            .fold(0.0, f64::max);
    }
    sum / f64::from(draws) / f64::from(rows)
}

fn main() {
    let reference = [
        (1_000, 0.005, [0.006, 0.078, 0.034, 0.119, 0.051]),
        (10_000, 0.0005, [0.0012, 0.020, 0.011, 0.040, 0.016]),
    ];
    for (rows, rho, [one, nine, nine_together, nineteen, nineteen_together]) in reference {
        println!("n = {rows}, rho = {rho}: each for itself, together (reference)");
        println!("  m = 1: {:.4} ({one})", error(rows, rho, 1, 20, false));
        for (count, alone, all) in [(9, nine, nine_together), (19, nineteen, nineteen_together)] {
            println!(
                "  m = {count}: {:.4} ({alone}), {:.4} ({all})",
                error(rows, rho, count, 5, false),
                error(rows, rho, count, 5, true)
            );
        }
    }
}
