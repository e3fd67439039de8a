use num_traits::ToPrimitive;

use super::*;

fn listed(count: u64) -> Candidates {
    Candidates::Listed((0..count).map(|at| at.to_string()).collect())
}

/// Penalties of the candidates; for an end of an interval also of the ranks past the rows.
fn penalties(
    weights: &BTreeMap<u64, u128>,
    candidates: u64,
    target: &Target,
    draw: &Exponential,
    weight_max: u64,
) -> Vec<BigUint> {
    let listed = listed(candidates);
    let spans = Choice {
        weights,
        candidates: &listed,
        target,
        draw,
        weight_max,
        row_weight: 1,
        lost_rows: 0.0,
    }
    .spans();
    let all: Vec<BigUint> = spans
        .iter()
        .flat_map(|(_, run)| vec![run.penalty.clone(); run.candidates as usize])
        .collect();
    assert_eq!(
        all.len() as u64,
        candidates + u64::from(matches!(target, Target::Beyond(..)))
    );
    all
}

/// No row distinguishes the candidates: each of them is drawn, but with probability 6 (5/6)^300.
#[test]
fn every_candidate_of_a_run_is_drawn() {
    let (weights, listed) = (BTreeMap::from([(2, 1u128)]), listed(6));
    let draw = Exponential {
        eta: 1,
        width: BigUint::from(1_000_000u32),
    };
    let target = Target::Fraction(500_000);
    let choice = Choice {
        weights: &weights,
        candidates: &listed,
        target: &target,
        draw: &draw,
        weight_max: 1,
        row_weight: 1,
        lost_rows: 0.0,
    };
    let mut sampler = crate::mechanism::OsRandomness::new();
    let drawn: std::collections::BTreeSet<String> = (0..300)
        .map(|_| choice.draw(&mut sampler).unwrap())
        .collect();
    assert_eq!(drawn.len(), 6, "{drawn:?}");
}

const TARGETS: [Target; 14] = [
    Target::Fraction(0),
    Target::Fraction(100_000),
    Target::Fraction(500_000),
    Target::Fraction(333_333),
    Target::Fraction(1_000_000),
    Target::End(End::Least),
    Target::End(End::Greatest),
    Target::MostFrequent,
    Target::Beyond(0, Side::High),
    Target::Beyond(250_000, Side::Low),
    Target::Beyond(250_000, Side::High),
    Target::Beyond(500_000, Side::Low),
    Target::Beyond(900_000, Side::High),
    Target::Beyond(1_000_000, Side::Low),
];

/// Over random weights and random units: no two candidates' penalties move apart by more than
/// the spread times the unit's weight, and for every target some unit comes so near that half
/// of it would be too little (but for the very ends of all ranks).
#[test]
fn penalties_move_apart_by_at_most_the_spread() {
    let mut state = 7u64;
    let mut next = |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let candidates = 6;
    for target in &TARGETS {
        let mut nearest = 0.0f64;
        for round in 0..3000 {
            let weights: BTreeMap<u64, u128> = (0..next(5))
                .map(|_| {
                    (
                        next(candidates),
                        u128::from(1 + next(if round % 2 == 0 { 4 } else { 400 })),
                    )
                })
                .collect();
            let weight_max = 3;
            // A strong draw has a margin of a few rows, so that both kinds of goal occur.
            let draw = Exponential {
                eta: (1 << 30) << next(7),
                width: BigUint::from(1u8),
            };
            let mut more = weights.clone();
            let unit: Vec<u64> = (0..=next(weight_max)).map(|_| next(candidates)).collect();
            unit.iter()
                .for_each(|at| *more.entry(*at).or_default() += 1);
            let before = penalties(&weights, candidates, target, &draw, weight_max);
            let after = penalties(&more, candidates, target, &draw, weight_max);
            let moves: Vec<i128> = before
                .iter()
                .zip(&after)
                .map(|(b, a)| {
                    i128::try_from(a.clone()).unwrap() - i128::try_from(b.clone()).unwrap()
                })
                .collect();
            let apart = moves.iter().max().unwrap() - moves.iter().min().unwrap();
            let limit = i128::from(target.spread()) * unit.len() as i128;
            assert!(
                apart <= limit,
                "{target:?}: {weights:?} and {unit:?} move {apart}, at most {limit}"
            );
            nearest = nearest.max(apart as f64 / limit as f64);
        }
        let is_end = matches!(target, Target::Beyond(0 | 1_000_000, _));
        assert!(
            if is_end {
                nearest >= 0.5
            } else {
                nearest > 0.5
            },
            "{target:?}: {nearest}"
        );
    }
}

/// Whatever the rows: past the rank of the quantile each candidate is so far from the goal, and
/// some candidate is at it, that such a one is drawn once in 40 times at most.
#[test]
fn ends_of_intervals_are_seldom_past_their_rank() {
    let candidates = 50;
    let draw = Exponential {
        eta: Exponential::eta(0.8).unwrap(),
        width: BigUint::from(4u8),
    };
    for (rows, target) in (0..60).flat_map(|rows| {
        [
            (0, Side::High),
            (300_000, Side::Low),
            (300_000, Side::High),
            (1_000_000, Side::Low),
        ]
        .map(|(q, s)| (rows * rows, Target::Beyond(q, s)))
    }) {
        let weights: BTreeMap<u64, u128> = BTreeMap::from_iter(
            (0..candidates)
                .map(|at| (at, u128::from(rows * (1 + at % 7) / 90)))
                .filter(|(_, w)| *w > 0),
        );
        let Target::Beyond(fraction, side) = target else {
            panic!("an end")
        };
        let total: u128 = weights.values().sum();
        let rank = f64::from(fraction) / 1e6 * total as f64;
        let penalties = penalties(&weights, candidates, &target, &draw, 1);
        let likely = |at: usize| (-0.8 * penalties[at].to_f64().unwrap() / 4.0).exp();
        let below = |at: u64| weights.range(..at).map(|(_, w)| *w).sum::<u128>() as f64;
        let is_past = |at: u64| match side {
            Side::Low => below(at) >= rank && total > 0,
            Side::High => below(at + 1) <= rank && total > 0,
        };
        let past: f64 = (0..candidates)
            .filter(|at| is_past(*at))
            .map(|at| likely(at as usize))
            .sum();
        let all: f64 = (0..penalties.len()).map(likely).sum();
        assert!(
            past / all <= 1.0 / 40.0,
            "{target:?} of {total}: {}",
            past / all
        );
    }
}

#[test]
fn chosen_candidates_have_no_penalty_where_the_rank_is() {
    let weights = BTreeMap::from([(2, 10u128), (5, 30)]);
    let draw = Exponential {
        eta: 1 << 30,
        width: BigUint::from(1u8),
    };
    let of = |target| {
        penalties(&weights, 8, &target, &draw, 1)
            .into_iter()
            .map(|p| u64::try_from(p).unwrap())
            .collect::<Vec<_>>()
    };
    // The rank 20 of 40, doubled: 2 covers up to 20, 5 from 20 to 80.
    assert_eq!(
        of(Target::Fraction(500_000)),
        [40, 40, 20, 20, 20, 0, 40, 40]
    );
    assert_eq!(of(Target::MostFrequent), [30, 30, 20, 30, 30, 0, 30, 30]);
    // Three quarters: the rank 30, times four.
    assert_eq!(
        of(Target::Fraction(750_000)),
        [120, 120, 80, 80, 80, 0, 40, 40]
    );
    // 21 half rows inside: 2 ln(20 * 8), doubled and rounded up.
    assert_eq!(of(Target::End(End::Least)), [21, 21, 1, 1, 1, 0, 59, 59]);
    assert_eq!(
        of(Target::End(End::Greatest)),
        [59, 59, 39, 39, 39, 0, 21, 21]
    );
    // Of units that weigh three: three times as many.
    let many = BTreeMap::from([(2, 100u128), (5, 300)]);
    assert_eq!(
        penalties(&many, 8, &Target::End(End::Least), &draw, 3)[0],
        BigUint::from(61u8)
    );
    // Two ranks of no row before the rows, or after them; the last number is theirs. Ten times the
    // rank 12.
    assert_eq!(
        of(Target::Beyond(300_000, Side::Low)),
        [100, 100, 0, 0, 0, 0, 300, 300, 100]
    );
    assert_eq!(
        of(Target::Beyond(300_000, Side::High)),
        [140, 140, 40, 40, 40, 0, 260, 260, 260]
    );
}

#[test]
fn ranks_of_nobody_are_at_the_end_of_the_range() {
    let (weights, candidates) = (BTreeMap::from([(2, 10u128)]), listed(8));
    let draw = Exponential {
        eta: 1 << 30,
        width: BigUint::from(1u8),
    };
    for (side, end) in [(Side::Low, 0), (Side::High, 7)] {
        let target = Target::Beyond(500_000, side);
        let choice = Choice {
            weights: &weights,
            candidates: &candidates,
            target: &target,
            draw: &draw,
            weight_max: 1,
            row_weight: 1,
            lost_rows: 0.0,
        };
        assert_eq!(
            choice.spans().last().map(|(at, run)| (*at, run.candidates)),
            Some((end, 1))
        );
    }
    assert_eq!(
        [333_333, 250_000, 0].map(|millionths| Target::Fraction(millionths).ratio()),
        [(333_333, 1_000_000), (1, 4), (0, 1)]
    );
}

#[test]
fn the_most_frequent_of_many_takes_as_many_runs_as_there_are_values() {
    let weights = BTreeMap::from([(0, 7u128), (40_000, 9), (40_001, 9)]);
    let spans = by_frequency(&weights, 50_000);
    assert!(spans.len() <= 7, "{}", spans.len());
    assert_eq!(
        spans.iter().map(|(_, run)| run.candidates).sum::<u64>(),
        50_000
    );
    assert!(
        spans
            .windows(2)
            .all(|two| two[0].0 + two[0].1.candidates == two[1].0)
    );
    assert_eq!(by_frequency(&BTreeMap::new(), 50_000).len(), 1);
}
