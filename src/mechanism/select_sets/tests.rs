use super::super::testing::Seeded;
use super::super::{Noise, Randomness};
use super::*;

/// Draws no noise, and has the rounds' candidates written down.
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

/// Three keys of two, two and three values; all sets of several of them.
fn small(sensitivity: u64, budget: SelectionBudget, rounds: usize, noise: f64) -> SetSelection {
    let candidates = vec![vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]];
    let shape = (vec![2, 2, 3], candidates);
    SetSelection::new(shape, &BigUint::from(sensitivity), budget, (rounds, noise)).unwrap()
}

/// The counts of rows, each with a value of each key.
fn counts(selection: &SetSelection, rows: &[Vec<usize>]) -> [Vec<Zeroizing<Vec<i128>>>; 2] {
    let of = |keys: &Vec<usize>| {
        let cells = keys.iter().map(|key| selection.sizes[*key]).product();
        let mut all = Zeroizing::new(vec![0; cells]);
        for row in rows {
            let place = keys
                .iter()
                .fold(0, |at, key| at * selection.sizes[*key] + row[*key]);
            all[place] += 1;
        }
        all
    };
    let singles = (0..selection.sizes.len()).map(|key| of(&vec![key]));
    [
        singles.collect(),
        selection.candidates.iter().map(of).collect(),
    ]
}

fn row(random: &mut Seeded) -> Vec<usize> {
    let mut below = |limit: u64| (random.next_u64().unwrap() % limit) as usize;
    vec![below(2), below(2), below(3)]
}

/// The probability of each sequence of picks, in logarithms, given the noisy counts of the keys.
fn law(
    selection: &SetSelection,
    noisy: &[Vec<f64>],
    exact: &[Zeroizing<Vec<i128>>],
) -> Vec<(Vec<Option<usize>>, f64)> {
    let scores = selection.scores(noisy, exact);
    let eta = selection.draw.eta as f64 / (1u64 << 30) as f64;
    let width = selection.draw.width.to_f64().unwrap();
    let mut all: Vec<(Vec<Option<usize>>, f64)> = vec![(Vec::new(), 0.0)];
    for _ in 0..selection.rounds {
        let mut longer = Vec::new();
        for (picks, log) in &all {
            let selected: Vec<usize> = picks.iter().flatten().copied().collect();
            let offered = selection.left_after(&selected);
            let runs = runs(&scores, &offered);
            let weight = |run: &CandidateRun| -eta * run.penalty.to_f64().unwrap() / width;
            let total: f64 = runs.iter().map(|run| weight(run).exp()).sum();
            for (at, run) in runs.iter().enumerate() {
                let mut picks = picks.clone();
                picks.push(offered.get(at).copied());
                longer.push((picks, log + weight(run) - total.ln()));
            }
        }
        all = longer;
    }
    all
}

/// The largest log-ratio of the probabilities of one sequence of picks on neighbours.
fn worst(selection: &SetSelection, noisy: &[Vec<f64>], both: [&[Vec<usize>]; 2]) -> f64 {
    let [one, other] = both.map(|rows| {
        let [_, exact] = counts(selection, rows);
        law(selection, noisy, &exact)
    });
    let total: f64 = one.iter().map(|(_, log)| log.exp()).sum();
    assert!((total - 1.0).abs() < 1e-9);
    let pairs = one.iter().zip(&other);
    pairs.map(|(a, b)| (a.1 - b.1).abs()).fold(0.0, f64::max)
}

/// Neighbours differ in up to three rows of one unit. Whatever the noisy counts of the keys are,
/// no sequence of picks tells them apart by more than the rounds' eta; and some do by nearly
/// all of it, so no smaller width would do.
#[test]
fn no_sequence_of_picks_tells_neighbours_apart_by_more_than_its_loss() {
    let mut random = Seeded::new(20_261_130);
    let budget = SelectionBudget::Epsilon(Fixed::round_down(1.0));
    let selection = small(3, budget, 2, 2.5);
    let eta = 2.0 * selection.draw.eta as f64 / (1u64 << 30) as f64;
    let of_rounds = 0.8;
    assert!(eta <= of_rounds && eta > 0.999 * of_rounds, "{eta}");
    let mut largest = 0f64;
    for trial in 0..400 {
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
        let mut near = |size: usize| -> Vec<f64> {
            let mut value = || (random.next_u64().unwrap() % 9) as f64 - 2.0;
            (0..size).map(|_| value()).collect()
        };
        let noisy: Vec<Vec<f64>> = [2, 2, 3].map(&mut near).into();
        largest = largest.max(worst(&selection, &noisy, [&rows, &more]));
    }
    assert!(largest <= eta + 1e-9, "{largest} > {eta}");
    // One unit brings two candidates nearer to their estimates by all of its rows, and moves the
    // others, which are far from theirs and nearly always selected, as much farther away.
    let [first, second, third] = [[0, 0, 0], [0, 1, 1], [0, 1, 2]].map(|row| row.to_vec());
    let all = [(497, &first), (2250, &second), (2250, &third)];
    let rows = all
        .iter()
        .flat_map(|(times, row)| vec![(*row).clone(); *times]);
    let rows: Vec<Vec<usize>> = rows.collect();
    let more = [rows.clone(), vec![first.clone(); 3]].concat();
    let noisy = [
        vec![5000.0, 0.0],
        vec![500.0, 4500.0],
        vec![500.0, 2250.0, 2250.0],
    ];
    let apart = worst(&selection, &noisy, [&rows, &more]);
    assert!(apart <= eta + 1e-9, "{apart} > {eta}");
    assert!(
        apart > 0.99 * eta,
        "{apart} of {eta}: the test sees too little"
    );
}

/// One unit moves the counts of each key by its rows: the joint noise covers all keys.
#[test]
fn the_noise_of_single_keys_covers_all_of_them() {
    let selection = small(3, mu(0.5), 2, 0.0);
    let Noise::Gaussian { sigma } = selection.singles.noise else {
        panic!("Gaussian noise is wanted")
    };
    let deviation = sigma as f64 * 2f64.powi(-(selection.singles.refine as i32));
    let own = 0.5 / 5f64.sqrt();
    let wanted = 27f64.sqrt() / own;
    assert!(
        deviation >= wanted && deviation < 1.16 * wanted,
        "{deviation} {wanted}"
    );
    let budget = SelectionBudget::Epsilon(Fixed::round_down(0.5));
    let Noise::Laplace { scale } = small(3, budget, 2, 0.0).singles.noise else {
        panic!("Laplace noise is wanted")
    };
    let refine = small(3, budget, 2, 0.0).singles.refine;
    assert!(scale as f64 * 2f64.powi(-(refine as i32)) >= 9.0 / 0.1);
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

/// A chain of six keys, each mostly equal to the one before. At a moderate price its links are
/// selected, and hardly anything else.
#[test]
fn the_links_of_a_chain_are_selected() {
    let mut random = Seeded::new(7);
    let sizes = vec![3; 6];
    let pairs: Vec<Vec<usize>> = (0..6)
        .flat_map(|a| (a + 1..6).map(move |b| vec![a, b]))
        .collect();
    let shape = (sizes, pairs.clone());
    let noise = 0.8 * 6f64.sqrt() / 0.2;
    let selection = SetSelection::new(shape, &BigUint::from(1u8), mu(0.12), (12, noise)).unwrap();
    let mut rows = Vec::new();
    for _ in 0..20_000 {
        let mut row: Vec<usize> = Vec::new();
        for at in 0..6 {
            let free = random.next_u64().unwrap() % 100 >= 60;
            let own = match at {
                0 => (random.next_u64().unwrap() % 3) as usize,
                _ if free => (random.next_u64().unwrap() % 3) as usize,
                _ => row[at - 1],
            };
            row.push(own);
        }
        rows.push(row);
    }
    let [singles, candidates] = counts(&selection, &rows);
    let exact = ExactCounts {
        singles: &singles,
        candidates: &candidates,
    };
    let links: Vec<Vec<usize>> = (0..5).map(|at| vec![at, at + 1]).collect();
    for _ in 0..5 {
        let selected = selection.select(&exact, &mut random).unwrap();
        let sets: Vec<&Vec<usize>> = selected.iter().map(|at| &pairs[*at]).collect();
        let found = links.iter().filter(|link| sets.contains(link)).count();
        assert_eq!(found, 5, "{sets:?}");
        let first: Vec<&&Vec<usize>> = sets.iter().take(5).collect();
        assert!(first.iter().all(|set| links.contains(set)), "{sets:?}");
    }
}

/// Independent keys have no set that is worth its noise, and no pair is measured twice.
#[test]
fn nothing_is_selected_where_keys_are_independent() {
    let selection = small(1, mu(5.0), 8, 4.0);
    let rows: Vec<Vec<usize>> = (0..1200)
        .map(|at| vec![at % 2, at / 2 % 2, at / 4 % 3])
        .collect();
    let [singles, candidates] = counts(&selection, &rows);
    let exact = ExactCounts {
        singles: &singles,
        candidates: &candidates,
    };
    assert_eq!(selection.select(&exact, &mut Exact).unwrap(), [0usize; 0]);
    // Equal keys: the pair, once, and no triple around it.
    let rows: Vec<Vec<usize>> = (0..1200)
        .map(|at| vec![at % 2, at % 2, at / 2 % 3])
        .collect();
    let [singles, candidates] = counts(&selection, &rows);
    let exact = ExactCounts {
        singles: &singles,
        candidates: &candidates,
    };
    assert_eq!(selection.select(&exact, &mut Exact).unwrap(), [0]);
    assert_eq!(selection.left_after(&[0]), [1, 2]);
    assert_eq!(selection.left_after(&[3]), [0usize; 0]);
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
