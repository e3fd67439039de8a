//! An attacker that learns from half of the answers, and guesses for each of the others whether the
//! unit is in the data.

use super::interval::{lower, upper};
use crate::mechanism::normal::quantile;

/// The numbers of one trial. Every trial shows the same kinds of numbers in the same order.
pub type TrialNumbers = Vec<f64>;

/// Independent trials on a database with the unit and on its neighbour without.
#[derive(Debug, Clone, Default)]
pub struct Trials {
    pub with: Vec<TrialNumbers>,
    pub without: Vec<TrialNumbers>,
}

/// An attacker's gain: lower bounds of the loss. Each is true except with the probability of a
/// false alarm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// Lower bound of epsilon, at the delta that [`attack`] was given.
    pub epsilon: f64,
    /// Lower bound of mu, in Gaussian differential privacy.
    pub mu: f64,
    /// Trials of each side that were judged. The same number was used for learning.
    pub judged: usize,
}

/// Cuts of the score that are tried while learning.
const CUTS: usize = 100;
/// Added to the variance of each direction, which is 1. Otherwise directions that cancel would make
/// the matrix singular.
const RIDGE: f64 = 1e-6;

/// Learns from every other trial which direction and cut separate the sides, and bounds on the rest
/// how well they do.
///
/// # Guarantee
/// If the answers are (epsilon, delta)-differentially private, the epsilon found exceeds epsilon
/// with probability at most `alarm`. If they are mu-GDP except for a mass `delta`, the same holds
/// for the mu found. The event is chosen on different trials from those that judge it.
///
/// # Requires
/// Trials are independent, given the two databases, and `alarm` is below 1/2.
///
/// # Reference
/// Jagielski, Ullman, Oprea 2020 (arXiv 2006.07709) for the bound by an event; Nasr et al. 2023
/// (arXiv 2302.07956) for mu by the trade-off of both errors (Dong, Roth, Su 2019, Theorem 2.7: mu
/// is at least the sum of the two errors' normal quantiles).
pub fn attack(trials: &Trials, delta: f64, alarm: f64) -> Gain {
    let half = |all: &[TrialNumbers], rest: usize| {
        all.iter()
            .skip(rest)
            .step_by(2)
            .cloned()
            .collect::<Vec<TrialNumbers>>()
    };
    let (known_with, known_without) = (half(&trials.with, 0), half(&trials.without, 0));
    let direction = direction(&known_with, &known_without);
    let scores = |all: &[TrialNumbers]| {
        all.iter()
            .map(|seen| score(&direction, seen))
            .collect::<Vec<f64>>()
    };
    let known = Scores {
        with: scores(&known_with),
        without: scores(&known_without),
    };
    let judged = Scores {
        with: scores(&half(&trials.with, 1)),
        without: scores(&half(&trials.without, 1)),
    };
    let worth = |measure: fn(Rates, f64) -> f64| {
        let worth = known
            .cuts()
            .into_iter()
            .map(|cut| (measure(known.rates(cut, alarm), delta), cut));
        worth
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            .map_or(0.0, |(_, cut)| {
                measure(judged.rates(cut, alarm), delta).max(0.0)
            })
    };
    Gain {
        epsilon: worth(Rates::epsilon),
        mu: worth(Rates::mu),
        judged: judged.with.len().min(judged.without.len()),
    }
}

/// The largest bound that this number of judged trials per side can show, if every guess is right.
pub fn provable(judged: usize, alarm: f64) -> Gain {
    let trials = judged as u64;
    let rates = Rates {
        likely: lower(trials, trials, 0.5 * alarm),
        unlikely: upper(0, trials, 0.5 * alarm),
    };
    Gain {
        epsilon: rates.epsilon(0.0).max(0.0),
        mu: rates.mu(0.0).max(0.0),
        judged,
    }
}

/// Scores past a cut, on this side of it or that.
#[derive(Debug, Clone, Copy)]
struct ScoreCut {
    at: f64,
    /// The event is a score above the cut; otherwise at or below it, with the sides swapped.
    above: bool,
}

struct Scores {
    with: Vec<f64>,
    without: Vec<f64>,
}

/// A lower bound of the event's probability on the side where it is likely, and an upper bound on
/// the other side.
#[derive(Debug, Clone, Copy)]
struct Rates {
    likely: f64,
    unlikely: f64,
}

impl Scores {
    fn cuts(&self) -> Vec<ScoreCut> {
        let mut all: Vec<f64> = self.with.iter().chain(&self.without).copied().collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let step = all.len().div_ceil(CUTS).max(1);
        all.iter()
            .step_by(step)
            .flat_map(|at| [true, false].map(|above| ScoreCut { at: *at, above }))
            .collect()
    }

    /// The two bounds share the probability of a false alarm.
    fn rates(&self, cut: ScoreCut, alarm: f64) -> Rates {
        let count = |scores: &[f64]| {
            scores
                .iter()
                .filter(|score| (**score > cut.at) == cut.above)
                .count() as u64
        };
        let (likely, unlikely) = if cut.above {
            (&self.with, &self.without)
        } else {
            (&self.without, &self.with)
        };
        Rates {
            likely: lower(count(likely), likely.len() as u64, 0.5 * alarm),
            unlikely: upper(count(unlikely), unlikely.len() as u64, 0.5 * alarm),
        }
    }
}

impl Rates {
    fn epsilon(self, delta: f64) -> f64 {
        ((self.likely - delta).max(0.0) / self.unlikely).ln()
    }

    /// A mass of `delta` may behave arbitrarily on either side.
    fn mu(self, delta: f64) -> f64 {
        let (likely, unlikely) = (
            (self.likely - delta).max(0.0),
            (self.unlikely / (1.0 - delta)).min(1.0),
        );
        quantile(likely) - quantile(unlikely)
    }
}

fn score(direction: &[f64], seen: &[f64]) -> f64 {
    direction
        .iter()
        .zip(seen)
        .map(|(weight, value)| weight * value)
        .sum()
}

/// Fisher's linear discriminant: optimal for a shift under Gaussian noise, also if the draws are
/// correlated.
fn direction(with: &[TrialNumbers], without: &[TrialNumbers]) -> Vec<f64> {
    let width = with.first().or(without.first()).map_or(0, Vec::len);
    let (here, there) = (means(with, width), means(without, width));
    let centred: Vec<TrialNumbers> = [(with, &here), (without, &there)]
        .iter()
        .flat_map(|(side, mean)| {
            side.iter().map(|seen| {
                seen.iter()
                    .zip(mean.iter())
                    .map(|(value, mean)| value - mean)
                    .collect()
            })
        })
        .collect();
    let count = centred.len().max(1) as f64;
    let covariance =
        |i: usize, j: usize| centred.iter().map(|seen| seen[i] * seen[j]).sum::<f64>() / count;
    // A number without variance is separated by its mean alone.
    let scales: Vec<f64> = (0..width)
        .map(|i| {
            covariance(i, i)
                .sqrt()
                .max(1e-9 * (here[i].abs() + there[i].abs() + 1e-9))
        })
        .collect();
    let matrix: Vec<Vec<f64>> = (0..width)
        .map(|i| {
            (0..width)
                .map(|j| {
                    covariance(i, j) / (scales[i] * scales[j]) + if i == j { RIDGE } else { 0.0 }
                })
                .collect()
        })
        .collect();
    let shift: Vec<f64> = (0..width)
        .map(|i| (here[i] - there[i]) / scales[i])
        .collect();
    solve(matrix, shift)
        .iter()
        .zip(&scales)
        .map(|(weight, scale)| weight / scale)
        .collect()
}

fn means(side: &[TrialNumbers], width: usize) -> Vec<f64> {
    let count = side.len().max(1) as f64;
    (0..width)
        .map(|i| side.iter().map(|seen| seen[i]).sum::<f64>() / count)
        .collect()
}

/// Gauss's elimination with the largest pivot.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let width = right.len();
    for column in 0..width {
        let pivot = (column..width)
            .max_by(|a, b| {
                matrix[*a][column]
                    .abs()
                    .total_cmp(&matrix[*b][column].abs())
            })
            .unwrap_or(column);
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        if matrix[column][column] == 0.0 {
            continue;
        }
        let (pivots, known) = (matrix[column].clone(), right[column]);
        for (_, (values, right)) in matrix
            .iter_mut()
            .zip(&mut right)
            .enumerate()
            .filter(|(row, _)| *row != column)
        {
            let factor = values[column] / pivots[column];
            values
                .iter_mut()
                .zip(&pivots)
                .for_each(|(value, pivot)| *value -= factor * pivot);
            *right -= factor * known;
        }
    }
    (0..width)
        .map(|at| {
            if matrix[at][at] == 0.0 {
                0.0
            } else {
                right[at] / matrix[at][at]
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::testing::Seeded;
    use crate::mechanism::{Noise, Randomness};

    const ALARM: f64 = 1e-4;

    /// Draws of one law, in units of its scale.
    fn draws(noise: Noise, scale: f64, count: usize, random: &mut dyn Randomness) -> Vec<f64> {
        (0..count)
            .map(|_| noise.sample(random).unwrap() as f64 / scale)
            .collect()
    }

    fn moved(draws: &[f64], by: f64) -> Vec<TrialNumbers> {
        draws.iter().map(|draw| vec![draw + by]).collect()
    }

    /// mu = 2: the bound found is below, and not far below.
    #[test]
    fn a_gaussians_mu_is_found_from_below() {
        let random = &mut Seeded::new(1);
        let (sigma, scale) = (Noise::Gaussian { sigma: 1 << 20 }, (1u64 << 20) as f64);
        let trials = Trials {
            with: moved(&draws(sigma, scale, 4000, random), 2.0),
            without: moved(&draws(sigma, scale, 4000, random), 0.0),
        };
        let gain = attack(&trials, 0.0, ALARM);
        assert!(gain.mu <= 2.0 && gain.mu > 1.6, "{gain:?}");
        assert_eq!(gain.judged, 2000);
    }

    #[test]
    fn laplaces_epsilon_is_found_from_below() {
        let random = &mut Seeded::new(2);
        let (law, scale) = (Noise::Laplace { scale: 1 << 20 }, (1u64 << 20) as f64);
        let trials = Trials {
            with: moved(&draws(law, scale, 6000, random), -2.0),
            without: moved(&draws(law, scale, 6000, random), 0.0),
        };
        let gain = attack(&trials, 0.0, ALARM);
        assert!(gain.epsilon <= 2.0 && gain.epsilon > 1.4, "{gain:?}");
    }

    #[test]
    fn where_nothing_differs_nothing_is_found() {
        let random = &mut Seeded::new(3);
        let (law, scale) = (Noise::Gaussian { sigma: 1 << 20 }, (1u64 << 20) as f64);
        let trials = Trials {
            with: moved(&draws(law, scale, 4000, random), 0.0),
            without: moved(&draws(law, scale, 4000, random), 0.0),
        };
        assert_eq!(attack(&trials, 0.0, ALARM).mu, 0.0);
        let constant = Trials {
            with: vec![vec![1.0, 5.0]; 100],
            without: vec![vec![1.0, 5.0]; 100],
        };
        assert_eq!(attack(&constant, 0.0, ALARM).epsilon, 0.0);
    }

    /// The second number repeats the noise of the first: their difference reveals everything.
    #[test]
    fn noise_that_is_seen_twice_hides_nothing() {
        let random = &mut Seeded::new(4);
        let (law, scale) = (Noise::Gaussian { sigma: 1 << 20 }, (1u64 << 20) as f64);
        let mut side = |by: f64| {
            draws(law, scale, 2000, random)
                .iter()
                .map(|draw| vec![draw + by, *draw])
                .collect::<Vec<TrialNumbers>>()
        };
        let trials = Trials {
            with: side(0.5),
            without: side(0.0),
        };
        let gain = attack(&trials, 0.0, ALARM);
        assert!(gain.mu > 4.0 && gain.epsilon > 4.0, "{gain:?}");
    }

    /// The number of trials and the mu that `pgveil audit` uses. Half of the noise is detected in
    /// each of twenty runs; the right noise never raises an alarm.
    #[test]
    fn few_trials_find_half_the_noise() {
        let random = &mut Seeded::new(5);
        let (law, scale) = (Noise::Gaussian { sigma: 1 << 20 }, (1u64 << 20) as f64);
        let (mu, alarm) = (1.9, 1e-4);
        for _ in 0..20 {
            let mut side = |by: f64| moved(&draws(law, scale, 300, random), by);
            let (sound, halved, without) = (side(mu), side(2.0 * mu), side(0.0));
            let found = |with: Vec<TrialNumbers>| {
                attack(
                    &Trials {
                        with,
                        without: without.clone(),
                    },
                    0.0,
                    alarm,
                )
                .mu
            };
            let (sound, halved) = (found(sound), found(halved));
            assert!(sound <= mu && halved > mu, "{sound} {halved}");
        }
        assert!(provable(150, alarm).mu > 3.0 && provable(150, alarm).mu < 3.2);
        assert_eq!(
            provable(0, alarm),
            Gain {
                epsilon: 0.0,
                mu: 0.0,
                judged: 0
            }
        );
    }

    /// An event of probability delta alone is worth nothing at that delta.
    #[test]
    fn delta_is_taken_off() {
        let side = |shown: usize| {
            (0..4000)
                .map(|at| vec![if at / 2 % 1000 < shown { 1.0 } else { 0.0 }])
                .collect::<Vec<TrialNumbers>>()
        };
        let trials = Trials {
            with: side(50),
            without: side(0),
        };
        assert!(attack(&trials, 0.0, ALARM).epsilon > 1.0);
        assert_eq!(attack(&trials, 0.05, ALARM).epsilon, 0.0);
    }
}
