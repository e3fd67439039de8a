use std::collections::BTreeMap;

use num_bigint::BigUint;

use super::{CandidateRows, Part, Span};
use crate::mechanism::testing::Seeded;
use crate::mechanism::{CandidateRun, Exponential, SampleError, Sampler};
use crate::rewrite::{Halving, ratio_of};

fn halving(eta: f64, weight_max: u64) -> Halving {
    Halving {
        eta: Exponential::eta(eta).unwrap(),
        weight_max,
        pieces: Halving::PIECES,
    }
}

/// Without noise: the first of the best.
struct Best;

impl Sampler for Best {
    fn sample(&mut self, _: &crate::mechanism::Noise) -> Result<i128, SampleError> {
        Ok(0)
    }

    fn choose(
        &mut self,
        _: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        let found = runs
            .iter()
            .enumerate()
            .filter(|(_, run)| run.candidates > 0)
            .min_by_key(|(_, run)| run.penalty.clone());
        found.map(|(at, _)| (at, 0)).ok_or(SampleError::Parameter)
    }
}

fn tenths() -> Vec<u32> {
    (1..10).map(|i| i * 100_000).collect()
}

/// How far, in ranks, the wanted one is from those that a chosen candidate covers.
fn off(weights: &BTreeMap<u64, u128>, chosen: u64, fraction: u32) -> f64 {
    let total: u128 = weights.values().sum();
    let below: u128 = weights.range(..chosen).map(|(_, w)| w).sum();
    let upto = below + weights.get(&chosen).copied().unwrap_or(0);
    let wanted = f64::from(fraction) / 1e6 * total as f64;
    (below as f64 - wanted).max(wanted - upto as f64).max(0.0)
}

/// Also where one value holds at least half of the rows and lies off the middle of the range.
#[test]
fn without_noise_each_is_the_quantile() {
    let many = BTreeMap::from_iter((0..1000).map(|at| (at, 1 + u128::from(at % 3))));
    let mut peaked = many.clone();
    peaked.insert(700, 4000);
    let mut flat = BTreeMap::from([(0, 900u128)]);
    flat.insert(999, 100);
    for weights in [many, peaked, flat] {
        let halving = halving(1.0, 1);
        let chosen = CandidateRows {
            weights: &weights,
            candidates: 1000,
            halving: &halving,
        }
        .choose(&tenths(), &mut Best)
        .unwrap();
        assert!(chosen.is_sorted(), "{chosen:?}");
        let total: u128 = weights.values().sum();
        for (chosen, fraction) in chosen.iter().zip(tenths()) {
            assert!(
                off(&weights, *chosen, fraction) <= total as f64 * 1e-4 + 1.0,
                "{chosen} for {fraction}"
            );
        }
    }
}

#[test]
fn nothing_in_a_group_is_no_obstacle() {
    let weights = BTreeMap::new();
    let halving = halving(0.1, 1);
    for seed in 0..50 {
        let chosen = CandidateRows {
            weights: &weights,
            candidates: 3,
            halving: &halving,
        }
        .choose(&tenths(), &mut Seeded::new(seed))
        .unwrap();
        assert!(
            chosen.len() == 9 && chosen.iter().all(|c| *c < 3) && chosen.is_sorted(),
            "{chosen:?}"
        );
    }
    let fractions = [0, 1, 500_000, 999_999, 1_000_000];
    let weights = BTreeMap::from([(0, 1), (1, 1), (2, 1)]);
    let chosen = CandidateRows {
        weights: &weights,
        candidates: 3,
        halving: &halving,
    }
    .choose(&fractions, &mut Best)
    .unwrap();
    assert_eq!(chosen, [0, 0, 1, 2, 2]);
}

/// Penalties piece by piece, by their definition.
fn plainly(
    weights: &BTreeMap<u64, u128>,
    part: Part,
    halving: &Halving,
    (a, b): (u64, u64),
) -> Vec<BigUint> {
    let weight = |piece: u64| weights.get(&(piece / halving.pieces)).copied().unwrap_or(0);
    let goal = (part.from..part.upto).map(weight).sum::<u128>() * u128::from(a);
    let mut below = 0;
    let mut penalty = |piece: u64| {
        let upto = below + weight(piece) * u128::from(b);
        let distance = if goal < below {
            below - goal
        } else {
            goal.saturating_sub(upto)
        };
        below = upto;
        BigUint::from(distance)
    };
    (part.from..part.upto).map(&mut penalty).collect()
}

const CANDIDATES: u64 = 5;

/// How far one unit moves the penalties of a part's pieces apart, and the draw's width.
fn moved_apart(
    part: Part,
    fraction: u32,
    [before, after]: [&BTreeMap<u64, u128>; 2],
    halving: &Halving,
) -> (i128, i128) {
    let ratio = ratio_of(fraction - part.low, part.high - part.low);
    let penalties = |weights: &BTreeMap<u64, u128>| -> Vec<BigUint> {
        let spans = CandidateRows {
            weights,
            candidates: CANDIDATES,
            halving,
        }
        .spans(part, ratio);
        let of = |span: &Span| {
            (0..span.run.candidates)
                .map(|j| (span.piece(j), &span.run.penalty + &span.run.step * j))
                .collect::<Vec<_>>()
        };
        let all: BTreeMap<u64, BigUint> = spans.iter().flat_map(of).collect();
        assert!(
            all.keys().copied().eq(part.from..part.upto),
            "each piece once: {spans:?}"
        );
        assert_eq!(
            all.values().cloned().collect::<Vec<_>>(),
            plainly(weights, part, halving, ratio)
        );
        all.into_values().collect()
    };
    let signed = |p: &BigUint| i128::try_from(p.clone()).unwrap();
    let moves: Vec<i128> = penalties(before)
        .iter()
        .zip(penalties(after))
        .map(|(b, a)| signed(&a) - signed(b))
        .collect();
    let apart = moves.iter().max().unwrap() - moves.iter().min().unwrap();
    let width = i128::try_from(halving.draw(ratio).width).unwrap();
    (apart, width)
}

/// On one level, over any parts: a unit moves the penalties of each part apart by so much that the
/// shares of the widths add up to one at most.
#[test]
fn the_parts_of_a_level_share_one_width() {
    let mut state = 11u64;
    let mut next = |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let (candidates, weight_max) = (CANDIDATES, 3u64);
    let mut nearest = 0.0f64;
    for _ in 0..2000 {
        let halving = Halving {
            eta: 1 << 30,
            weight_max,
            pieces: 4,
        };
        let weights: BTreeMap<u64, u128> = (0..next(4))
            .map(|_| (next(candidates), u128::from(1 + next(30))))
            .collect();
        let mut more = weights.clone();
        (0..=next(weight_max)).for_each(|_| *more.entry(next(candidates)).or_default() += 1);
        let cut = 1 + next(candidates * 4 - 2);
        let share = 1 + next(999_998) as u32;
        let parts = [
            (
                Part {
                    from: 0,
                    upto: cut,
                    low: 0,
                    high: share,
                },
                next(u64::from(share) + 1) as u32,
            ),
            (
                Part {
                    from: cut,
                    upto: candidates * 4,
                    low: share,
                    high: 1_000_000,
                },
                share + next(u64::from(1_000_000 - share) + 1) as u32,
            ),
        ];
        let mut spent = 0.0;
        for (part, fraction) in parts {
            let (apart, width) = moved_apart(part, fraction, [&weights, &more], &halving);
            spent += apart as f64 / width as f64;
        }
        assert!(spent <= 1.0 + 1e-12, "{spent}");
        nearest = nearest.max(spent);
    }
    assert!(nearest > 0.8, "{nearest}");
}

/// Mean over draws of the largest rank error, as a share of all rows, at one rho in all: lognormal
/// values on 65,536 candidates.
fn errors(rows: u32, rho: f64, count: u32, draws: u64, together: bool) -> f64 {
    let candidates = 1u64 << 16;
    let value = |i: u32| {
        (crate::mechanism::normal::quantile((f64::from(i) + 0.5) / f64::from(rows)).exp() * 3000.0)
            as u64
    };
    let mut weights: BTreeMap<u64, u128> = BTreeMap::new();
    (0..rows).for_each(|i| *weights.entry(value(i).min(candidates - 1)).or_default() += 1);
    let fractions: Vec<u32> = (1..=count).map(|i| i * 1_000_000 / (count + 1)).collect();
    let steps = if together { count.ilog2() + 1 } else { count };
    let halving = Halving {
        pieces: if together { Halving::PIECES } else { 1 },
        ..halving((8.0 * rho / f64::from(steps)).sqrt(), 1)
    };
    let values = CandidateRows {
        weights: &weights,
        candidates,
        halving: &halving,
    };
    let worst = |seed: u64| {
        let random = &mut Seeded::new(seed);
        let chosen: Vec<u64> = match together {
            true => values.choose(&fractions, random).unwrap(),
            false => fractions
                .iter()
                .map(|f| values.choose(&[*f], random).unwrap()[0])
                .collect(),
        };
        chosen
            .iter()
            .zip(&fractions)
            .map(|(c, f)| off(&weights, *c, *f))
            .fold(0.0, f64::max)
    };
    (0..draws).map(worst).sum::<f64>() / draws as f64 / f64::from(rows)
}

/// The reference: largest rank errors .006 for one quantile, .078 and .034 for nine each for itself
/// and halving, .119 and .051 for nineteen. `cargo bench --bench quantiles` prints both.
#[test]
fn many_quantiles_err_less_together() {
    let (rows, rho, draws) = (1000, 0.005, 3);
    let one = errors(rows, rho, 1, draws, false);
    assert!(
        one < 0.02,
        "largest rank error at n = {rows}, rho = {rho}: {one}"
    );
    for (count, most) in [(9, 0.05), (19, 0.075)] {
        let (alone, together) = (
            errors(rows, rho, count, draws, false),
            errors(rows, rho, count, draws, true),
        );
        assert!(
            together < most && together < alone / 1.4,
            "{count}: {together} against {alone}"
        );
    }
}
