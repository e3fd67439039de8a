//! Laws by chi-square against exact probabilities at a false-alarm rate of 1e-6 a test (seeds are
//! fixed, so the outcome is too), by exact enumeration of words for tiny parameters, and by mutants
//! that the same tests must catch.

use std::collections::BTreeMap;

use num_bigint::BigUint;
use num_traits::{CheckedSub, ToPrimitive};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::mechanism::Noise;
use crate::mechanism::normal::{cdf, isf};
use crate::mechanism::samplers::*;
use crate::mechanism::testing::{Script, Seeded};

/// A scale off by 5 % needs 26,000 to be caught with power .99.
const DRAWS: usize = 100_000;
const FALSE_ALARM: f64 = 1e-6;

/// P(Z <= m).
fn at_most(noise: Noise, m: i128) -> f64 {
    match noise {
        Noise::Laplace { scale } => {
            let tail =
                |n: i128| (-(n as f64) / scale as f64).exp() / (1.0 + (-1.0 / scale as f64).exp());
            if m >= 0 { 1.0 - tail(m + 1) } else { tail(-m) }
        }
        Noise::Gaussian { sigma } => cdf((m as f64 + 0.5) / sigma as f64),
    }
}

fn scale_of(noise: Noise) -> u64 {
    match noise {
        Noise::Laplace { scale } => scale,
        Noise::Gaussian { sigma } => sigma,
    }
}

/// Upper ends of the cells: every integer for small scales, eighths of the scale for large ones;
/// each cell expects 20 draws or more.
fn edges(noise: Noise, draws: usize) -> Vec<i128> {
    let step = (scale_of(noise) / 8).max(1) as i128;
    let mut ends = Vec::new();
    let mut below = 0.0;
    for index in -120..=120 {
        let upto = at_most(noise, index * step);
        if (upto - below) * draws as f64 >= 20.0 && (1.0 - upto) * draws as f64 >= 20.0 {
            ends.push(index * step);
            below = upto;
        }
    }
    ends
}

/// The value that a chi-square variable passes with probability `FALSE_ALARM` (Wilson and Hilferty;
/// good to 1 % there).
fn critical(freedom: usize) -> f64 {
    let spread = 2.0 / (9.0 * freedom as f64);
    freedom as f64 * (1.0 - spread + isf(FALSE_ALARM) * spread.sqrt()).powi(3)
}

/// Pearson's statistic over its critical value: above 1, the law is rejected.
fn pearson(counts: &[usize], probabilities: &[f64]) -> f64 {
    let draws: usize = counts.iter().sum();
    let statistic: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(&count, &probability)| {
            let expected = probability * draws as f64;
            (count as f64 - expected).powi(2) / expected
        })
        .sum();
    statistic / critical(counts.len() - 1)
}

fn misfit(noise: Noise, draws: &[i128]) -> f64 {
    let ends = edges(noise, draws.len());
    let mut counts = vec![0; ends.len() + 1];
    for &draw in draws {
        counts[ends.partition_point(|&end| end < draw)] += 1;
    }
    let mut upto: Vec<f64> = ends.iter().map(|&end| at_most(noise, end)).collect();
    upto.push(1.0);
    let probabilities: Vec<f64> = upto
        .iter()
        .scan(0.0, |last, &p| Some(p - std::mem::replace(last, p)))
        .collect();
    pearson(&counts, &probabilities)
}

/// Whether pairs look like two independent draws: a 4 x 4 table of quartiles.
fn dependence(noise: Noise, pairs: &[(i128, i128)]) -> f64 {
    let scale = scale_of(noise) as f64;
    let quartile = match noise {
        Noise::Laplace { .. } => std::f64::consts::LN_2,
        Noise::Gaussian { .. } => isf(0.25),
    };
    let ends = [-(quartile * scale) as i128, 0, (quartile * scale) as i128];
    let upto: Vec<f64> = ends
        .iter()
        .map(|&end| at_most(noise, end))
        .chain([1.0])
        .collect();
    let each: Vec<f64> = (0..4)
        .map(|i| upto[i] - if i == 0 { 0.0 } else { upto[i - 1] })
        .collect();
    let cell = |draw: i128| ends.partition_point(|&end| end < draw);
    let mut counts = [0; 16];
    for &(a, b) in pairs {
        counts[4 * cell(a) + cell(b)] += 1;
    }
    let probabilities: Vec<f64> = (0..16).map(|i| each[i / 4] * each[i % 4]).collect();
    pearson(&counts, &probabilities)
}

fn draw(noise: Noise, count: usize, random: &mut Seeded) -> Vec<i128> {
    (0..count).map(|_| noise.sample(random).unwrap()).collect()
}

fn both(scale: u64) -> [Noise; 2] {
    [Noise::Laplace { scale }, Noise::Gaussian { sigma: scale }]
}

#[test]
fn small_and_large_scales_follow_their_laws() {
    for (seed, scale) in [1, 2, 10, 1000, 1 << 40, (1 << 60) - 1]
        .into_iter()
        .enumerate()
    {
        for noise in both(scale) {
            let fit = misfit(noise, &draw(noise, DRAWS, &mut Seeded::new(seed as u64)));
            assert!(fit < 1.0, "{noise:?}: {fit}");
        }
    }
}

#[test]
fn large_scales_follow_their_laws_by_kolmogorov() {
    for noise in both(1 << 50) {
        let mut draws = draw(noise, DRAWS, &mut Seeded::new(77));
        draws.sort_unstable();
        let distance = draws
            .iter()
            .enumerate()
            .map(|(i, &z)| {
                let p = at_most(noise, z);
                (p - i as f64 / DRAWS as f64)
                    .abs()
                    .max(((i + 1) as f64 / DRAWS as f64 - p).abs())
            })
            .fold(0.0, f64::max);
        // P(D > d) <= 2 exp(-2 n d^2).
        let limit = ((2.0 / FALSE_ALARM).ln() / (2.0 * DRAWS as f64)).sqrt();
        assert!(distance < limit, "{noise:?}: {distance} of {limit}");
    }
}

#[test]
fn moments_agree_with_the_declared_standard_deviation() {
    for noise in [1, 10, 1 << 30].into_iter().flat_map(both) {
        let draws = draw(noise, DRAWS, &mut Seeded::new(5));
        let variance = draws.iter().map(|&z| (z as f64).powi(2)).sum::<f64>() / DRAWS as f64;
        let ratio = variance / noise.standard_deviation().powi(2);
        // The fourth moment of a Laplace makes 0.5 % one standard deviation.
        assert!((ratio - 1.0).abs() < 0.03, "{noise:?}: {ratio}");
    }
}

#[test]
fn consecutive_draws_are_independent_and_a_shared_draw_is_caught() {
    for noise in both(1000) {
        let draws = draw(noise, DRAWS, &mut Seeded::new(6));
        let pairs: Vec<_> = draws
            .chunks_exact(2)
            .map(|pair| (pair[0], pair[1]))
            .collect();
        let fit = dependence(noise, &pairs);
        assert!(fit < 1.0, "{noise:?}: {fit}");
        let shared: Vec<_> = draws.iter().take(1000).map(|&z| (z, z)).collect();
        assert!(
            dependence(noise, &shared) > 1.0,
            "one draw shared by two groups"
        );
        let negated: Vec<_> = draws.iter().take(1000).map(|&z| (z, -z)).collect();
        assert!(
            dependence(noise, &negated) > 1.0,
            "the second draw is the first, negated"
        );
    }
}

#[test]
fn mutants_of_scale_and_sign_are_caught() {
    for (scale, wrong) in [(1000, 950), (1000, 1050), (1 << 40, 21 << 36), (20, 19)] {
        for (claimed, actual) in both(scale).into_iter().zip(both(wrong)) {
            let fit = misfit(claimed, &draw(actual, DRAWS, &mut Seeded::new(8)));
            assert!(fit > 1.0, "{actual:?} passes as {claimed:?}: {fit}");
        }
    }
    for noise in both(1000) {
        let mut random = Seeded::new(9);
        let mut draws = draw(noise, DRAWS, &mut random);
        for z in &mut draws {
            if *z > 0 && below(25, &mut random).unwrap() == 0 {
                *z = -*z;
            }
        }
        assert!(
            misfit(noise, &draws) > 1.0,
            "4 % of the positive draws made negative"
        );
    }
}

#[test]
fn mutants_of_zero_and_of_rounding_are_caught() {
    let mut random = Seeded::new(10);
    let doubled: Vec<i128> = (0..DRAWS)
        .map(|_| {
            let size = run_length(1, 1, &mut random).unwrap() as i128;
            if below(2, &mut random).unwrap() == 0 {
                size
            } else {
                -size
            }
        })
        .collect();
    assert!(
        misfit(Noise::Laplace { scale: 1 }, &doubled) > 1.0,
        "the negative zero kept"
    );
    let fine = draw(Noise::Gaussian { sigma: 2 << 30 }, DRAWS, &mut random);
    let truncated: Vec<i128> = fine.iter().map(|z| z / (1 << 30)).collect();
    assert!(
        misfit(Noise::Gaussian { sigma: 2 }, &truncated) > 1.0,
        "truncated in place of rounded"
    );
    let floored: Vec<i128> = fine.iter().map(|z| z >> 30).collect();
    assert!(
        misfit(Noise::Gaussian { sigma: 2 }, &floored) > 1.0,
        "floored in place of rounded"
    );
    let rounded: Vec<i128> = fine.iter().map(|z| (z + (1 << 29)) >> 30).collect();
    assert!(
        misfit(Noise::Gaussian { sigma: 2 }, &rounded) < 1.0,
        "and the right one passes"
    );
    let mixed: Vec<i128> = draw(Noise::Gaussian { sigma: 14 }, DRAWS, &mut random);
    assert!(
        misfit(Noise::Laplace { scale: 10 }, &mixed) > 1.0,
        "a Gaussian of the same deviation is no Laplace"
    );
}

/// Runs `draw` on every sequence of words below `branches`, to `depth` words: the mass of each
/// outcome, and the mass still undecided. Exact for draws that look at no more bits of a word than
/// `branches` has.
fn enumerate<T: Ord>(
    draw: &dyn Fn(&mut Script) -> Result<T, SampleError>,
    branches: u64,
    depth: usize,
) -> (BTreeMap<T, f64>, f64) {
    let mut masses = BTreeMap::new();
    let mut undecided = 0.0;
    let mut open = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let mass = (branches as f64).powi(-(words.len() as i32));
        match draw(&mut Script::new(words.clone())) {
            Ok(outcome) => *masses.entry(outcome).or_insert(0.0) += mass,
            Err(SampleError::Random(_)) if words.len() < depth => {
                open.extend(
                    (0..branches).map(|word| words.iter().copied().chain([word]).collect()),
                );
            }
            Err(SampleError::Random(_)) => undecided += mass,
            Err(other) => panic!("{other}"),
        }
    }
    (masses, undecided)
}

#[test]
fn bernoulli_exp_is_exact_by_enumeration() {
    // By the last word k is at most 7, so below() sees at most 7: three bits.
    for (a, b, depth) in [
        (0, 1, 3),
        (1, 1, 6),
        (0, 2, 4),
        (1, 2, 6),
        (2, 2, 6),
        (1, 3, 6),
        (2, 3, 6),
    ] {
        let (masses, undecided) = enumerate(&|random| bernoulli_exp1(a, b, random), 8, depth);
        let mass = masses.get(&true).copied().unwrap_or(0.0);
        let exact = (-(a as f64) / b as f64).exp();
        assert!(
            mass <= exact + 1e-12 && exact <= mass + undecided + 1e-12,
            "{a}/{b}: {mass} + {undecided} misses {exact}"
        );
        assert!(undecided < 0.1, "{a}/{b}: {undecided} undecided");
    }
    let (masses, undecided) = enumerate(&|random| bernoulli_exp(5, 2, random), 8, 6);
    let (mass, exact) = (masses[&true], (-2.5f64).exp());
    assert!(
        mass <= exact + 1e-12 && exact <= mass + undecided + 1e-12,
        "5/2: {mass} + {undecided} misses {exact}"
    );
}

#[test]
fn discrete_laplace_is_exact_by_enumeration() {
    // By the last word below() sees at most 7 (scale 1) or 8 (scale 2): three bits.
    for (scale, depth, most) in [(1, 6, 0.5), (2, 5, 0.8)] {
        let (masses, undecided) = enumerate(&|random| discrete_laplace(scale, random), 8, depth);
        assert!(undecided < most, "{undecided} undecided");
        for z in -4..=4 {
            let noise = Noise::Laplace { scale };
            let exact = at_most(noise, z) - at_most(noise, z - 1);
            let mass = masses.get(&z).copied().unwrap_or(0.0);
            assert!(
                mass <= exact + 1e-12 && exact <= mass + undecided + 1e-12,
                "{z}: {mass} + {undecided} misses {exact}"
            );
            assert_eq!(masses.get(&z), masses.get(&-z), "symmetric to the last bit");
        }
    }
}

#[test]
fn long_exponents_have_their_frequency() {
    let mut random = Seeded::new(11);
    for (a, b) in [
        (5u128, 2u128),
        (7, 7),
        (1, 1_000_000),
        (3_000_000, 1_000_000),
        (1 << 100, 1 << 101),
    ] {
        let hits = (0..50_000)
            .filter(|_| bernoulli_exp(a, b, &mut random).unwrap())
            .count() as f64;
        let p = (-(a as f64) / b as f64).exp();
        let limit = 5.0 * (50_000.0 * p * (1.0 - p)).sqrt() + 3.0;
        assert!((hits - 50_000.0 * p).abs() < limit, "exp(-{a}/{b}): {hits}");
    }
}

#[test]
fn below_is_uniform_also_past_one_word() {
    let mut random = Seeded::new(12);
    for n in [1u128, 2, 3, 10, 257, (1 << 64) + 1, 3 << 66, u128::MAX] {
        let cells = n.min(16);
        let mut counts = vec![0; cells as usize];
        for _ in 0..50_000 {
            let value = below(n, &mut random).unwrap();
            assert!(value < n);
            // The cell is floor(value * cells / n), without overflow.
            let cell = BigUint::from(value) * cells / n;
            counts[cell.to_usize().unwrap()] += 1;
        }
        if cells > 1 {
            let starts = |cell: u128| (BigUint::from(n) * cell + (cells - 1)) / cells;
            let each: Vec<f64> = (0..cells)
                .map(|c| (starts(c + 1) - starts(c)).to_f64().unwrap() / n as f64)
                .collect();
            assert!(pearson(&counts, &each) < 1.0, "below({n}): {counts:?}");
        }
    }
}

#[test]
fn parameters_out_of_range_and_a_dry_source_are_errors() {
    let mut random = Seeded::new(13);
    for scale in [0, SCALE_LIMIT, u64::MAX] {
        for noise in both(scale) {
            assert_eq!(noise.sample(&mut random), Err(SampleError::Parameter));
        }
    }
    assert_eq!(below(0, &mut random), Err(SampleError::Parameter));
    assert_eq!(
        bernoulli_exp1(2, 1, &mut random),
        Err(SampleError::Parameter)
    );
    assert_eq!(
        bernoulli_exp1(0, 0, &mut random),
        Err(SampleError::Parameter)
    );
    assert_eq!(
        bernoulli_exp(1, 0, &mut random),
        Err(SampleError::Parameter)
    );
    for noise in both(1000) {
        assert!(matches!(
            noise.sample(&mut Script::new(vec![])),
            Err(SampleError::Random(_))
        ));
    }
}

#[test]
fn a_comparison_that_never_ends_is_given_up() {
    let mut random = Script::new(vec![7; 64]);
    let (mut x, mut y) = (Uniform::default(), Uniform::default());
    assert_eq!(
        x.less_than(&mut y, &mut random),
        Err(SampleError::Exhausted)
    );
}

/// Whatever order digits are asked for in: groups for comparisons first, then whole words.
#[test]
fn digits_stay_as_they_were_drawn() {
    let mut random = Script::new(vec![0xab, 0x12, 0x00cd_ef01_2345_6789, u64::MAX, 5]);
    let (mut x, mut y) = (Uniform::default(), Uniform::default());
    assert_eq!(x.less_than(&mut y, &mut random), Ok(false));
    assert_eq!((x.words[0], y.words[0]), (0xab << 56, 0x12 << 56));
    assert_eq!(x.word(0, &mut random), Ok(0xabcd_ef01_2345_6789));
    assert_eq!(x.word(1, &mut random), Ok(u64::MAX));
    assert_eq!(x.group(0, &mut random), Ok(0xab));
    assert_eq!(x.group(7, &mut random), Ok(0x89));
    assert_eq!(x.group(15, &mut random), Ok(0xff));
    assert_eq!(x.group(16, &mut random), Ok(5));
    assert_eq!(x.known, 136);
}

/// sigma 3 and a first word that leaves 3 x + 1/2 one unit below 3: the second word decides at 2^64
/// / 3, and one below that the third.
#[test]
fn a_rounding_is_decided_by_the_word_that_decides_it() {
    let first = (((1u128 << 65) + (1 << 63) - 1) / 3) as u64;
    let reaching = ((1u128 << 64).div_ceil(3)) as u64;
    let rounded = |words: &[u64]| {
        let mut random = Script::new(words.to_vec());
        round_scaled(3, &mut Uniform::default(), &mut random)
    };
    assert_eq!(rounded(&[first, reaching]), Ok(3));
    assert_eq!(rounded(&[first, u64::MAX]), Ok(3));
    assert_eq!(rounded(&[first, 0]), Ok(2));
    assert!(
        matches!(rounded(&[first, reaching - 1]), Err(SampleError::Random(_))),
        "still open"
    );
    assert_eq!(rounded(&[first, reaching - 1, reaching]), Ok(3));
    assert_eq!(rounded(&[first, reaching - 1, 0]), Ok(2));
}

fn big_below(top: u32) -> impl Strategy<Value = u64> {
    (0..top).prop_flat_map(|bits| (1u64 << bits)..(2u64 << bits))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    /// Words set next to a rounding boundary, so that the first, second or third word is needed to
    /// decide.
    #[test]
    fn rounding_is_exact_next_to_its_boundaries(
        sigma in big_below(59),
        n in any::<u64>(),
        off in -3i64..=3,
        shift in 0u32..250,
    ) {
        let one = BigUint::from(1u8) << 256u32;
        // x = (n + 1/2) / sigma, off by a few units of 2^-(256 - shift).
        let boundary = (BigUint::from(2 * u128::from(n % sigma) + 1) << 255u32) / sigma;
        let distance = BigUint::from(off.unsigned_abs()) << shift;
        let moved = match off < 0 {
            true => boundary.clone().checked_sub(&distance).unwrap_or(boundary),
            false => boundary + distance,
        };
        let x = moved % &one;
        let digits = x.to_u64_digits();
        let word = |i: usize| digits.get(3 - i).copied().unwrap_or(0);
        let mut uniform = Uniform { words: [word(0), word(1), word(2), word(3)], known: 256 };
        let rounded = |x: &BigUint| (((x * sigma) << 1u32) + &one) >> 257u32;
        // All that is known of x: it lies in [x, x + 2^-256).
        let low = rounded(&x);
        let high = (((((&x + 1u8) * sigma) << 1u32) + &one) - 1u8) >> 257u32;
        match round_scaled(sigma, &mut uniform, &mut Script::new(vec![])) {
            Ok(value) => prop_assert_eq!(BigUint::from(value), low),
            Err(error) => {
                prop_assert_eq!(error, SampleError::Exhausted);
                prop_assert_ne!(low, high);
            }
        }
    }

    #[test]
    fn no_scale_in_range_fails(scale in big_below(59), seed in any::<u64>()) {
        for noise in both(scale) {
            let mut random = Seeded::new(seed);
            let z = noise.sample(&mut random).unwrap();
            prop_assert!(z.unsigned_abs() < 100 * u128::from(scale) + 100);
        }
    }
}
