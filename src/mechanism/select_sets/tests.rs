use super::super::testing::Seeded;
use super::super::{Noise, Randomness};
use super::*;

mod law;

/// Draws no noise, and selects the best.
struct Exact;

impl Sampler for Exact {
    fn sample(&mut self, _: &Noise) -> Result<i128, SampleError> {
        Ok(0)
    }

    fn choose(
        &mut self,
        _: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        let places = runs.iter().enumerate();
        let best = places.min_by_key(|(_, run)| run.penalty.clone());
        best.map(|(at, _)| (at, 0)).ok_or(SampleError::Parameter)
    }
}

fn mu(value: f64) -> SelectionBudget {
    SelectionBudget::Mu(Mu::round_down(value))
}

fn epsilon(value: f64) -> SelectionBudget {
    SelectionBudget::Epsilon(Fixed::round_down(value))
}

fn grid(sensitivity: u64, noise_per_cell: f64) -> CountGrid {
    CountGrid {
        sensitivity: BigUint::from(sensitivity),
        steps_per_row: 1.0,
        noise_per_cell,
    }
}

/// Three keys of two, two and three values; all sets of several of them.
fn small(sensitivity: u64, budget: SelectionBudget, rounds: usize, noise: f64) -> SetSelection {
    let candidates = vec![vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]];
    let shape = (vec![2, 2, 3], candidates);
    SetSelection::new(shape, grid(sensitivity, noise), budget, rounds).unwrap()
}

/// The counts of rows by a set of keys.
fn counts_by(sizes: &[usize], keys: &[usize], rows: &[Vec<usize>]) -> Zeroizing<Vec<i128>> {
    let cells = keys.iter().map(|key| sizes[*key]).product();
    let mut all = Zeroizing::new(vec![0; cells]);
    for row in rows {
        let place = |at, key: &usize| at * sizes[*key] + row[*key];
        all[keys.iter().fold(0, place)] += 1;
    }
    all
}

/// The counts of rows, each with a value of each key.
fn counts(selection: &SetSelection, rows: &[Vec<usize>]) -> [Vec<Zeroizing<Vec<i128>>>; 2] {
    let of = |keys: &[usize]| counts_by(&selection.sizes, keys, rows);
    let singles = (0..selection.sizes.len()).map(|key| of(&[key]));
    let candidates = selection.candidates.iter().map(|keys| of(keys));
    [singles.collect(), candidates.collect()]
}

fn select(selection: &SetSelection, rows: &[Vec<usize>], sampler: &mut dyn Sampler) -> Vec<usize> {
    let [singles, candidates] = counts(selection, rows);
    let exact = ExactCounts {
        singles: &singles,
        candidates: &candidates,
    };
    selection.select(&exact, sampler).unwrap()
}

fn row(random: &mut Seeded) -> Vec<usize> {
    let mut below = |limit: u64| (random.next_u64().unwrap() % limit) as usize;
    vec![below(2), below(2), below(3)]
}

/// What the steps cost, by the noise and the draws that they make: single keys, one round's
/// measurement of each candidate, and one round's pick.
fn costs(selection: &SetSelection, rows_per_unit: f64) -> (f64, Vec<f64>, f64) {
    let of = |calibrated: &Calibrated, tables: usize| {
        let Noise::Laplace { scale } = calibrated.noise else {
            panic!("Laplace noise is wanted")
        };
        let scale = scale as f64 * 2f64.powi(-(calibrated.refine as i32));
        tables as f64 * rows_per_unit / scale
    };
    let sets = selection.candidates.iter().zip(&selection.pairs);
    let measured = sets.map(|(keys, own)| of(own, keys.len() * (keys.len() - 1) / 2));
    (
        of(&selection.singles, selection.sizes.len()),
        measured.collect(),
        selection.draw.eta as f64 / (1u64 << 30) as f64,
    )
}

fn deviation(calibrated: &Calibrated) -> f64 {
    let Noise::Gaussian { sigma } = calibrated.noise else {
        panic!("Gaussian noise is wanted")
    };
    sigma as f64 * 2f64.powi(-(calibrated.refine as i32))
}

/// One unit moves the counts of each key by its rows, and those of each pair of a candidate's keys:
/// the joint noise covers all of them.
#[test]
fn noise_covers_all_tables_that_it_is_added_to() {
    let selection = small(3, mu(0.5), 2, 0.0);
    let found = deviation(&selection.singles);
    let wanted = 27f64.sqrt() / (0.5 * 0.1f64.sqrt());
    assert!(found >= wanted && found < 1.16 * wanted, "{found} {wanted}");
    // In each of two rounds a fifth of mu squared: for one pair, and for three.
    let of_round = 0.5 * 0.2f64.sqrt();
    for (at, pairs) in [(0, 1.0f64), (2, 1.0), (3, 3.0)] {
        let (found, wanted) = (
            deviation(&selection.pairs[at]),
            3.0 * pairs.sqrt() / of_round,
        );
        // The root of 27 is rounded up.
        assert!(found >= wanted && found < 1.16 * wanted, "{found} {wanted}");
    }
    let (of_singles, measured, _) = costs(&small(3, epsilon(0.5), 2, 0.0), 3.0);
    assert!((of_singles - 0.05).abs() < 1e-6);
    assert!(
        measured.iter().all(|own| (own - 0.1).abs() < 1e-6),
        "{measured:?}"
    );
}

#[test]
fn the_loss_is_within_the_budget_and_not_far_below_it() {
    for rounds in [1, 2, 7, 32] {
        let loss = small(1, mu(0.1), rounds, 0.0).loss();
        let whole = Mu::round_down(0.1).square();
        assert!(loss.mu_squared <= whole && loss.epsilon.is_none());
        assert!(
            loss.mu_squared.to_f64() > 0.9999 * whole.to_f64(),
            "{rounds}"
        );
        let whole = Fixed::round_down(0.3);
        let loss = small(1, SelectionBudget::Epsilon(whole), rounds, 0.0).loss();
        assert!(loss.epsilon <= Some(whole));
        assert!(loss.epsilon.unwrap().to_f64() > 0.9999 * 0.3, "{rounds}");
    }
}

/// In mu squared: what the Gaussian noise of all steps lets through, and the picks cost, is paid.
#[test]
fn every_measurement_is_charged() {
    let rounds = 5;
    let selection = small(2, mu(0.4), rounds, 0.0);
    let of = |calibrated: &Calibrated, tables: f64| {
        let one = 2.0 / deviation(calibrated);
        tables * one * one
    };
    let sets = selection.candidates.iter().zip(&selection.pairs);
    let measured = sets.map(|(keys, own)| of(own, [0.0, 0.0, 1.0, 3.0][keys.len()]));
    let most = measured.fold(0f64, f64::max);
    let pick = selection.draw.loss().mu_squared.to_f64();
    let whole = of(&selection.singles, 3.0) + rounds as f64 * (most + pick);
    let paid = selection.loss().mu_squared.to_f64();
    assert!(
        whole <= paid + 1e-12 && whole > 0.9 * paid,
        "{whole} {paid}"
    );
}

/// Rows of a chain of keys of three values, each mostly equal to the one before.
fn chain(random: &mut Seeded, keys: usize, rows: usize) -> Vec<Vec<usize>> {
    let mut below = |limit: u64| (random.next_u64().unwrap() % limit) as usize;
    let mut row = || {
        let mut row: Vec<usize> = vec![below(3)];
        for at in 1..keys {
            let free = below(100) >= 60;
            row.push(if free { below(3) } else { row[at - 1] });
        }
        row
    };
    (0..rows).map(|_| row()).collect()
}

/// All pairs of six keys of three values.
fn pairs_of_six(budget: SelectionBudget, noise: f64) -> SetSelection {
    let keys: Vec<usize> = (0..6).collect();
    let pairs = pairs_of(&keys).map(Vec::from).collect();
    SetSelection::new((vec![3; 6], pairs), grid(1, noise), budget, 12).unwrap()
}

/// The links of a chain are selected, and no pair that depends through them alone: neither of two
/// keys with one between them, nor any other.
#[test]
fn the_links_of_a_chain_are_selected_and_nothing_else() {
    let mut random = Seeded::new(7);
    let rows = chain(&mut random, 6, 20_000);
    let selection = pairs_of_six(mu(0.5), 0.8 * 6f64.sqrt() / 0.8);
    let links: Vec<Vec<usize>> = (0..5).map(|at| vec![at, at + 1]).collect();
    // Next to independent keys the others are far off: keys with one between them by a tenth.
    let [singles, candidates] = counts(&selection, &rows);
    let of_keys = singles
        .iter()
        .map(|counts| counts.iter().map(|c| *c as f64).collect());
    let of_keys: Vec<Vec<f64>> = of_keys.collect();
    let scores = selection.scores(&KeyTree::of(&of_keys), &candidates);
    let between = selection.candidates.iter().position(|set| *set == [0, 2]);
    assert!(scores[between.unwrap()] > 2_000, "{scores:?}");
    for _ in 0..5 {
        let selected = select(&selection, &rows, &mut random);
        let mut sets: Vec<&Vec<usize>> = selected
            .iter()
            .map(|at| &selection.candidates[*at])
            .collect();
        sets.sort();
        assert!(sets.iter().copied().eq(&links), "{sets:?}");
    }
}

/// Keys that are drawn independently differ from independent counts by their sampling. That selects
/// hardly ever: at most one pair of 15 in the mean, at what summaries of epsilon 0.5, 1 and 3 pay
/// for their selection.
#[test]
fn independent_keys_are_hardly_ever_selected() {
    let mut random = Seeded::new(11);
    let mut row = || {
        (0..6)
            .map(|_| (random.next_u64().unwrap() % 3) as usize)
            .collect()
    };
    let rows: Vec<Vec<usize>> = (0..20_000).map(|_| row()).collect();
    let mut random = Seeded::new(12);
    for price in [0.062, 0.118, 0.324] {
        let selection = pairs_of_six(mu(price), 0.8 * 6f64.sqrt() / (1.7 * price));
        let found = |_| select(&selection, &rows, &mut random).len();
        let all: Vec<usize> = (0..10).map(found).collect();
        assert!(all.iter().sum::<usize>() <= 10, "{price}: {all:?}");
    }
}

/// Independent keys have no set that is worth its noise, and no pair is measured twice.
#[test]
fn nothing_is_selected_where_keys_are_independent() {
    let selection = small(1, mu(5.0), 8, 4.0);
    let rows: Vec<Vec<usize>> = (0..1200)
        .map(|at| vec![at % 2, at / 2 % 2, at / 4 % 3])
        .collect();
    assert_eq!(select(&selection, &rows, &mut Exact), [0usize; 0]);
    // Equal keys: the pair, once, and no triple around it.
    let rows: Vec<Vec<usize>> = (0..1200)
        .map(|at| vec![at % 2, at % 2, at / 2 % 3])
        .collect();
    assert_eq!(select(&selection, &rows, &mut Exact), [0]);
    assert_eq!(selection.left_after(&[0]), [1, 2]);
    assert_eq!(selection.left_after(&[3]), [0usize; 0]);
}

#[test]
fn counts_by_two_keys_are_sums_of_the_candidates() {
    let selection = small(1, mu(1.0), 2, 1.0);
    let mut random = Seeded::new(3);
    let rows: Vec<Vec<usize>> = (0..200).map(|_| row(&mut random)).collect();
    let of_all = counts_by(&selection.sizes, &[0, 1, 2], &rows);
    for pair in [[0, 1], [0, 2], [1, 2]] {
        let summed = selection.sums_by(pair, &[0, 1, 2], &of_all);
        assert_eq!(summed, counts_by(&selection.sizes, &pair, &rows));
    }
}

#[test]
fn none_counts_as_the_root_of_the_candidates() {
    let found = runs(&[5, -3, 9, 0], &[0, 1, 2, 3]);
    let shown: Vec<(u64, u64)> = found
        .iter()
        .map(|run| (run.penalty.to_u64().unwrap(), run.candidates))
        .collect();
    assert_eq!(shown, [(4, 1), (12, 1), (0, 1), (9, 1), (9, 2)]);
    assert_eq!(runs(&[], &[]), [CandidateRun::one(BigUint::ZERO)]);
}

/// What was selected by one law is no answer to another: who changes what is pinned here gives the
/// law another number, and pins that.
#[test]
fn the_law_has_its_number() {
    let parts = (PARTS, OF_SINGLES, OF_PAIRS);
    let weights = (KEYS_WITHOUT_NOISE, OF_SAMPLING, tree::PASSES);
    let of_none = [1, 2, 15, 16, 84, 300].map(weight_of_none);
    assert_eq!(
        (SELECTION_LAW, parts, weights, of_none),
        (2, (20, 2, 8), (1.5, 0.75, 8), [1, 1, 3, 4, 9, 17])
    );
    // What is subtracted from the score of a pair and of a triple, in hundredths.
    let selection = small(1, mu(0.5), 2, 4.0);
    let known = KeyTree::of(&[
        vec![600.0, 400.0],
        vec![500.0; 2],
        vec![200.0, 300.0, 500.0],
    ]);
    let subtracted = |keys: &[usize]| {
        let estimated = known.counts(keys);
        (selection.no_dependence(keys, &estimated) * 100.0).round() as i128
    };
    assert_eq!(
        [subtracted(&[0, 1]), subtracted(&[0, 1, 2])],
        [8_603, 20_674]
    );
}

/// The mean of the absolute noise that is drawn.
#[test]
fn the_expected_noise_is_that_of_its_kind() {
    let mut random = Seeded::new(51);
    for budget in [mu(0.5), epsilon(0.5)] {
        let calibrated = noise(&BigUint::from(1u8), 3, budget).unwrap().0;
        let drawn = with_noise(&[0; 20_000], &calibrated, &mut random).unwrap();
        let mean = drawn.iter().map(|noise| noise.abs()).sum::<f64>() / 20_000.0;
        let by = mean / noise_per_count(&calibrated);
        assert!((by - 1.0).abs() < 0.03, "{by}");
    }
}

/// A grid that is refined by more bits than counts are shifted by is refused.
#[test]
fn noise_that_counts_cannot_be_shifted_to_is_refused() {
    let most = |bits: u32| {
        let budget = SelectionBudget::Epsilon(Fixed(1 << bits));
        noise(&BigUint::from(1u8), 1, budget).map(|(noise, _)| noise.refine)
    };
    let found: Vec<_> = (60..120).map(most).collect();
    assert!(found.contains(&Ok(REFINED_MAX)), "{found:?}");
    assert!(found.iter().flatten().all(|refine| *refine <= REFINED_MAX));
    assert_eq!(found.last(), Some(&Err(CalibrationError::TooNarrow)));
}

/// Counts that no table has stop nothing.
#[test]
fn extreme_counts_are_selected_from_too() {
    let selection = small(1, mu(1.0), 3, 1.0);
    let most = 1i128 << 104;
    let extreme = |size: usize| Zeroizing::new(vec![most; size]);
    let singles = [2, 2, 3].map(extreme);
    let candidates = [4, 6, 6, 12].map(extreme);
    let exact = ExactCounts {
        singles: &singles,
        candidates: &candidates,
    };
    selection.select(&exact, &mut Seeded::new(1)).unwrap();
}
