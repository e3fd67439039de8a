use std::collections::VecDeque;

use super::super::testing::Seeded;
use super::super::{Noise, Randomness};
use super::*;

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

/// All that is drawn in one selection: the noisy counts, in steps of the refined grid, and the
/// picks. The noisy counts by a pair are the same whichever candidate it was measured for.
#[derive(Clone)]
struct Transcript {
    singles: Vec<Vec<i128>>,
    pairs: Vec<([usize; 2], Vec<i128>)>,
    picks: Vec<Option<usize>>,
}

/// Answers as one transcript has it, and writes down how likely that was.
struct Replay<'s> {
    selection: &'s SetSelection,
    /// What is left to be drawn.
    noise: VecDeque<i128>,
    picks: VecDeque<Option<usize>>,
    selected: Vec<usize>,
    of_noise: f64,
    of_picks: f64,
    /// In each round, how much better each offered candidate is than none.
    better: Vec<Vec<i128>>,
}

impl Sampler for Replay<'_> {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        let Noise::Laplace { scale } = noise else {
            panic!("Laplace noise is wanted")
        };
        let drawn = self.noise.pop_front().unwrap();
        self.of_noise -= drawn.unsigned_abs() as f64 / *scale as f64;
        Ok(drawn)
    }

    fn choose(
        &mut self,
        draw: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        let offered = self.selection.left_after(&self.selected);
        let pick = self.picks.pop_front().unwrap();
        let eta = draw.eta as f64 / (1u64 << 30) as f64;
        let weight = |run: &CandidateRun| {
            let by = eta * run.penalty.to_f64().unwrap() / draw.width.to_f64().unwrap();
            (run.candidates as f64).ln() - by
        };
        let total: f64 = runs.iter().map(|run| weight(run).exp()).sum();
        let place = match pick {
            Some(pick) => offered.iter().position(|at| *at == pick).unwrap(),
            None => offered.len(),
        };
        assert_eq!(runs.len(), offered.len() + 1);
        let penalty = |run: &CandidateRun| run.penalty.to_i128().unwrap();
        let than_none = |run: &CandidateRun| penalty(&runs[offered.len()]) - penalty(run);
        self.better.push(runs.iter().map(than_none).collect());
        self.selected.extend(pick);
        self.of_picks += weight(&runs[place]) - total.ln();
        Ok((place, 0))
    }
}

/// The selection from these rows in which all is drawn as the transcript says.
fn replayed<'s>(selection: &'s SetSelection, said: &Transcript, rows: &[Vec<usize>]) -> Replay<'s> {
    let exact = |keys: &[usize]| counts_by(&selection.sizes, keys, rows);
    let noise = |noisy: &[i128], keys: &[usize], refine: u32| -> Vec<i128> {
        let counts = exact(keys);
        let both = noisy.iter().zip(counts.iter());
        both.map(|(noisy, count)| noisy - (count << refine))
            .collect()
    };
    let mut all: VecDeque<i128> = VecDeque::new();
    for (key, noisy) in said.singles.iter().enumerate() {
        all.extend(noise(noisy, &[key], selection.singles.refine));
    }
    for pick in said.picks.iter().flatten() {
        for pair in pairs_of(&selection.candidates[*pick]) {
            let noisy = &said.pairs.iter().find(|(keys, _)| *keys == pair).unwrap().1;
            all.extend(noise(noisy, &pair, selection.pairs[*pick].refine));
        }
    }
    let mut replay = Replay {
        selection,
        noise: all,
        picks: said.picks.iter().copied().collect(),
        selected: Vec::new(),
        of_noise: 0.0,
        of_picks: 0.0,
        better: Vec::new(),
    };
    let selected = select(selection, rows, &mut replay);
    let picked: Vec<usize> = said.picks.iter().flatten().copied().collect();
    assert_eq!(selected, picked);
    assert!(replay.noise.is_empty() && replay.picks.is_empty());
    replay
}

/// The logarithm of the transcript's probability where the database has these rows, but for a
/// factor that does not depend on them: of its noise, and of its picks.
fn likelihood(selection: &SetSelection, said: &Transcript, rows: &[Vec<usize>]) -> [f64; 2] {
    let replay = replayed(selection, said, rows);
    [replay.of_noise, replay.of_picks]
}

/// All sequences of picks.
fn all_picks(selection: &SetSelection) -> Vec<Vec<Option<usize>>> {
    let mut all: Vec<Vec<Option<usize>>> = vec![Vec::new()];
    for _ in 0..selection.rounds {
        let longer = all.iter().flat_map(|picks| {
            let selected: Vec<usize> = picks.iter().flatten().copied().collect();
            let offered = selection.left_after(&selected).into_iter().map(Some);
            let next = offered.chain([None]);
            next.map(|pick| [picks.clone(), vec![pick]].concat())
        });
        all = longer.collect();
    }
    all
}

/// The largest ratio of likelihoods on neighbours, over all sequences of picks with these noisy
/// counts: of all that is drawn, and of the picks alone.
fn worst(selection: &SetSelection, said: &Transcript, both: [&[Vec<usize>]; 2]) -> [f64; 2] {
    let (mut largest, mut totals) = ([0f64; 2], [0.0; 2]);
    for picks in all_picks(selection) {
        let said = Transcript {
            picks,
            ..said.clone()
        };
        let [one, other] = both.map(|rows| likelihood(selection, &said, rows));
        totals[0] += one[1].exp();
        totals[1] += other[1].exp();
        let of_picks = one[1] - other[1];
        let all = one[0] - other[0] + of_picks;
        largest = [largest[0].max(all.abs()), largest[1].max(of_picks.abs())];
    }
    assert!(
        totals.iter().all(|total| (total - 1.0).abs() < 1e-9),
        "{totals:?}"
    );
    largest
}

/// A transcript of noisy counts, in rows.
fn said(selection: &SetSelection, singles: &[Vec<i128>], pairs: [Vec<i128>; 3]) -> Transcript {
    let fine = |counts: &[i128], refine: u32| counts.iter().map(|count| count << refine).collect();
    let refine = |keys: &[usize; 2]| {
        let is_in = |set: &&Vec<usize>| keys.iter().all(|key| set.contains(key));
        let at = selection.candidates.iter().position(|set| is_in(&set));
        selection.pairs[at.unwrap()].refine
    };
    let all = [[0, 1], [0, 2], [1, 2]].into_iter().zip(pairs);
    Transcript {
        singles: singles
            .iter()
            .map(|counts| fine(counts, selection.singles.refine))
            .collect(),
        pairs: all
            .map(|(keys, counts)| (keys, fine(&counts, refine(&keys))))
            .collect(),
        picks: Vec::new(),
    }
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

/// Neighbours differ in up to three rows of one unit. Whatever was drawn, noisy counts and picks
/// together do not tell them apart by more than the loss, nor the picks by more than their eta.
#[test]
fn nothing_that_is_drawn_tells_neighbours_apart_by_more_than_its_loss() {
    let mut random = Seeded::new(20_261_130);
    let selection = small(3, epsilon(1.0), 2, 2.5);
    let paid = selection.loss().epsilon.unwrap().to_f64();
    let (of_singles, measured, eta) = costs(&selection, 3.0);
    // All steps are paid, and hardly more.
    let most = measured.iter().fold(0f64, |most, own| most.max(*own));
    let whole = of_singles + 2.0 * (most + eta);
    assert!(
        whole <= paid + 1e-9 && whole > 0.999 * paid,
        "{whole} {paid}"
    );
    assert!((eta - 0.25).abs() < 0.001 && (most - 0.2).abs() < 0.001);
    let mut largest = [0f64; 2];
    for trial in 0..150 {
        let rows: Vec<Vec<usize>> = (0..trial % 9).map(|_| row(&mut random)).collect();
        let mut more = rows.clone();
        let own = row(&mut random);
        for at in 0..3 {
            more.push(if trial % 2 == 0 || at == 0 {
                own.clone()
            } else {
                row(&mut random)
            });
        }
        let mut near = |size: usize| -> Vec<i128> {
            let mut value = || i128::from(random.next_u64().unwrap() % 9) - 2;
            (0..size).map(|_| value()).collect()
        };
        let singles: Vec<Vec<i128>> = [2, 2, 3].map(&mut near).into();
        let said = said(&selection, &singles, [4, 6, 6].map(&mut near));
        let found = worst(&selection, &said, [&rows, &more]);
        largest = [largest[0].max(found[0]), largest[1].max(found[1])];
    }
    assert!(largest[0] <= paid + 1e-9, "{largest:?} > {paid}");
    assert!(largest[1] <= 2.0 * eta + 1e-9, "{largest:?} > {eta}");
    // Some rows are told apart by nearly all that noise may tell.
    assert!(
        largest[0] > of_singles + 2.0 * most,
        "{largest:?}: the test sees too little"
    );
}

/// One unit brings two candidates nearer to their estimates by all of its rows, and moves the
/// others, which are far from theirs and nearly always selected, as much farther away.
#[test]
fn no_smaller_width_would_do() {
    let selection = small(3, epsilon(1.0), 2, 2.5);
    let (_, _, eta) = costs(&selection, 3.0);
    let [first, second, third] = [[0, 0, 0], [0, 1, 1], [0, 1, 2]].map(|row| row.to_vec());
    let all = [(497, &first), (2250, &second), (2250, &third)];
    let rows = all
        .iter()
        .flat_map(|(times, row)| vec![(*row).clone(); *times]);
    let rows: Vec<Vec<usize>> = rows.collect();
    let more = [rows.clone(), vec![first.clone(); 3]].concat();
    let singles = [vec![5000, 0], vec![500, 4500], vec![500, 2250, 2250]];
    // The pairs are measured as independent keys would have them: nothing is learnt of them.
    let pairs = [
        vec![500, 4500, 0, 0],
        vec![500, 2250, 2250, 0, 0, 0],
        vec![50, 225, 225, 450, 2025, 2025],
    ];
    let said = said(&selection, &singles, pairs);
    let [_, apart] = worst(&selection, &said, [&rows, &more]);
    assert!(apart <= 2.0 * eta + 1e-9, "{apart} > 2 * {eta}");
    assert!(
        apart > 0.99 * 2.0 * eta,
        "{apart} of {eta} twice: the test sees too little"
    );
}

/// What a set is compared with depends on noisy counts alone: where it has the same counts, and the
/// same was drawn, it is as much better than none, whatever the exact counts of the sets are that
/// were measured before it.
#[test]
fn no_exact_count_of_another_set_moves_a_score() {
    let mut random = Seeded::new(5);
    let selection = small(1, epsilon(1.0), 3, 2.5);
    let rows: Vec<Vec<usize>> = (0..300).map(|_| row(&mut random)).collect();
    // The middle key is the first in one database, the last in part in another, and always 0.
    let middle = |of: &dyn Fn(&[usize]) -> usize| -> Vec<Vec<usize>> {
        let own = rows.iter().map(|row| vec![row[0], of(row), row[2]]);
        own.collect()
    };
    let databases = [
        middle(&|row| row[0]),
        middle(&|row| row[2] % 2),
        middle(&|_| 0),
    ];
    let singles = [vec![140, 160], vec![150, 150], vec![90, 110, 100]];
    let pairs = [
        vec![130, 10, 20, 140],
        vec![0; 6],
        vec![80, 40, 30, 10, 70, 70],
    ];
    let mut said = said(&selection, &singles, pairs);
    said.picks = vec![Some(0), Some(2), None];
    let better = databases.map(|rows| replayed(&selection, &said, &rows).better);
    // The first and the last key: the second candidate, and the only one in the end.
    let of_ends = |rounds: &Vec<Vec<i128>>| [rounds[0][1], rounds[1][0], rounds[2][0]];
    assert_eq!(of_ends(&better[0]), of_ends(&better[1]));
    assert_eq!(of_ends(&better[0]), of_ends(&better[2]));
    // What was measured in between did move it, and other counts do.
    let [before, _, after] = of_ends(&better[0]);
    assert!(before != after, "{better:?}");
    assert_ne!(better[0][0][0], better[1][0][0]);
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
