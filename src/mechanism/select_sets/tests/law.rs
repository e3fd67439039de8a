//! The law of all that a selection draws, on neighbours.

use std::collections::VecDeque;

use super::*;

/// All that is drawn in one selection: the noisy counts, in rows, and the picks. The noisy counts
/// by a pair are the same whichever candidate it was measured for.
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
        both.map(|(noisy, count)| (noisy - count) << refine)
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

/// A transcript of noisy counts.
fn said(singles: &[Vec<i128>], pairs: [Vec<i128>; 3]) -> Transcript {
    Transcript {
        singles: singles.to_vec(),
        pairs: [[0, 1], [0, 2], [1, 2]].into_iter().zip(pairs).collect(),
        picks: Vec::new(),
    }
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
        let said = said(&singles, [4, 6, 6].map(&mut near));
        let found = worst(&selection, &said, [&rows, &more]);
        largest = [largest[0].max(found[0]), largest[1].max(found[1])];
    }
    assert!(largest[0] <= paid + 1e-9, "{largest:?} > {paid}");
    assert!(largest[1] <= 2.0 * eta + 1e-9, "{largest:?} > {eta}");
    // Of some rows noise tells nearly all that it may.
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
    let said = said(&singles, pairs);
    let [_, apart] = worst(&selection, &said, [&rows, &more]);
    assert!(apart <= 2.0 * eta + 1e-9, "{apart} > 2 * {eta}");
    assert!(
        apart > 0.99 * 2.0 * eta,
        "{apart} of {eta} twice: the test sees too little"
    );
}

/// How far each score moves when one unit comes, given what is known.
fn moves(selection: &SetSelection, known: &KeyTree, both: [&[Vec<usize>]; 2]) -> Vec<i128> {
    let [one, other] = both.map(|rows| {
        let [_, candidates] = counts(selection, rows);
        selection.scores(known, &candidates)
    });
    let both = one.iter().zip(other.iter());
    both.map(|(one, other)| other - one).collect()
}

/// Two scores move apart by no more than the width, to the step: also where a unit brings the first
/// rows of a combination, of which the root grows most.
#[test]
fn scores_of_neighbours_are_within_the_width_to_the_step() {
    let selection = small(3, epsilon(1.0), 2, 2.5);
    // Two candidates have more rows of the unit's combination than their estimates, and two none.
    let one = [[0, 0, 1], [0, 1, 0]].map(|row| vec![row.to_vec(); 1000]);
    let rows = one.concat();
    let more = [rows.clone(), vec![vec![0; 3]; 3]].concat();
    let even = [vec![1000.0; 2], vec![1000.0; 2], vec![600.0, 700.0, 700.0]];
    let found = moves(&selection, &KeyTree::of(&even), [&rows, &more]);
    assert_eq!(found, [3, 3, -3, -3]);
    assert_eq!(selection.draw.width, BigUint::from(6u8));
    let mut random = Seeded::new(41);
    for trial in 0..400 {
        let rows: Vec<Vec<usize>> = (0..trial % 12).map(|_| row(&mut random)).collect();
        let own: Vec<Vec<usize>> = match trial % 2 {
            0 => vec![row(&mut random); 3],
            _ => (0..3).map(|_| row(&mut random)).collect(),
        };
        let more = [rows.clone(), own].concat();
        let mut near = |size: usize| -> Vec<f64> {
            let mut value = || (random.next_u64().unwrap() % 90) as f64 / 10.0 - 2.0;
            (0..size).map(|_| value()).collect()
        };
        let mut known = KeyTree::of(&[2, 2, 3].map(&mut near));
        let pair = NoisyPair {
            keys: [0, 2],
            counts: near(6),
            noise: 1.0,
        };
        known.add(vec![pair]);
        // The score of none does not move.
        let found = [moves(&selection, &known, [&rows, &more]), vec![0]].concat();
        let apart = found.iter().max().unwrap() - found.iter().min().unwrap();
        assert!(apart <= 6, "{found:?}");
    }
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
    let mut said = said(&singles, pairs);
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
