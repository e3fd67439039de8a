//! The filter that adds up losses, with items that are paid for before they are drawn: the proof in
//! docs/periods.md, checked by value iteration. An adversary buys, prepays and draws in whatever
//! order promises most, and each step may depend on all that was seen.
//!
//! # Reference
//! Smith and Thakurta 2022 (arXiv 2210.17520) for the filter under GDP; Dong, Roth and Su 2019
//! (arXiv 1905.02383), Corollary 2.13, for the divergence.

use std::collections::HashMap;

/// The budget in units, each of which is this many mu².
const UNITS: usize = 4;
const UNIT: f64 = 1.0 / 4.0;
const EPSILON: f64 = 1.0;

/// Logarithms of likelihood ratios, which the value of a state depends on.
const STEP: f64 = 0.02;
const LAST: f64 = 9.0;
const POINTS: usize = 901;

/// The share of the bound that the grid may add.
const ROUNDING: f64 = 0.002;

fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// The hockey-stick divergence of order e^epsilon of N(mu, 1) from N(0, 1).
fn divergence(squared: f64) -> f64 {
    let mu = squared.sqrt();
    normal(mu / 2.0 - EPSILON / mu) - EPSILON.exp() * normal(-mu / 2.0 - EPSILON / mu)
}

/// What the adversary may do that the ledger does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Rules {
    AsTheLedger,
    /// One item is drawn a second time after it was drawn.
    DrawnAgain,
    /// Items are debited when they are drawn, from a budget that other purchases have used up.
    PaidWhenDrawn,
    /// What was prepaid returns to the budget once it is drawn.
    GivenBack,
}

/// Units that are left to buy with; units that are paid and not drawn; and what a broken rule has
/// to remember: units that may be drawn again, or that it was used.
type State = (usize, usize, usize);

/// The advantage of the best adversary, at each point of the grid.
struct Game {
    rules: Rules,
    /// Points and weights of a standard normal.
    normal: Vec<(f64, f64)>,
    values: HashMap<State, Vec<f64>>,
}

impl Game {
    fn new(rules: Rules) -> Self {
        let points = (-60..=60).map(|at| f64::from(at) / 10.0);
        let weighed: Vec<(f64, f64)> = points.map(|z| (z, (-z * z / 2.0).exp())).collect();
        let all: f64 = weighed.iter().map(|(_, weight)| weight).sum();
        let normal = weighed.into_iter().map(|(z, weight)| (z, weight / all));
        Self {
            rules,
            normal: normal.collect(),
            values: HashMap::new(),
        }
    }

    /// The value at a logarithm of the ratio, read off the grid.
    fn read(values: &[f64], log_ratio: f64) -> f64 {
        if log_ratio >= LAST {
            return log_ratio.exp() - EPSILON.exp();
        }
        let place = ((log_ratio + LAST) / STEP).max(0.0);
        let below = (place as usize).min(POINTS - 2);
        let share = place - below as f64;
        values[below] * (1.0 - share) + values[below + 1] * share
    }

    /// The state's value at each point, after a step of some units: through Gaussian noise, or
    /// through the coin that is exactly as private at its own threshold.
    fn after(&mut self, units: usize, state: State) -> Vec<f64> {
        let squared = UNIT * units as f64;
        let deviation = squared.sqrt();
        let right = normal(deviation / 2.0);
        let coin = (right / (1.0 - right)).ln();
        let noise = self.normal.clone();
        let next = self.value(state);
        let at = |log_ratio: f64| {
            let through_noise: f64 = noise
                .iter()
                .map(|(z, weight)| {
                    weight * Self::read(next, log_ratio - squared / 2.0 + deviation * z)
                })
                .sum();
            let through_coin = (1.0 - right) * Self::read(next, log_ratio + coin)
                + right * Self::read(next, log_ratio - coin);
            through_noise.max(through_coin)
        };
        grid().map(at).collect()
    }

    fn value(&mut self, state: State) -> &[f64] {
        if !self.values.contains_key(&state) {
            let found = self.best(state);
            self.values.insert(state, found);
        }
        &self.values[&state]
    }

    fn best(&mut self, (left, paid, drawn): State) -> Vec<f64> {
        let now = |log_ratio: f64| (log_ratio.exp() - EPSILON.exp()).max(0.0);
        let mut best: Vec<f64> = grid().map(now).collect();
        let mut moves = Vec::new();
        for units in 1..=left {
            moves.push(self.after(units, (left - units, paid, drawn)));
            // To prepay shows nothing.
            let prepaid = (left - units, paid + units, drawn);
            moves.push(self.value(prepaid).to_vec());
            if self.rules == Rules::PaidWhenDrawn && paid + drawn == 0 {
                // An item that was promised when the budget still had these units.
                moves.push(self.after(units, (left, 0, units)));
            }
        }
        for units in 1..=paid {
            let next = match self.rules {
                Rules::AsTheLedger | Rules::PaidWhenDrawn => (left, paid - units, drawn),
                Rules::DrawnAgain => (left, paid - units, drawn + units),
                Rules::GivenBack if drawn == 0 => (left + units, paid - units, 1),
                Rules::GivenBack => (left, paid - units, drawn),
            };
            moves.push(self.after(units, next));
        }
        if self.rules == Rules::DrawnAgain {
            for units in 1..=drawn {
                moves.push(self.after(units, (left, paid, drawn - units)));
            }
        }
        for found in moves {
            for (best, found) in best.iter_mut().zip(found) {
                *best = best.max(found);
            }
        }
        best
    }

    /// The advantage at the start, where nothing was seen.
    fn advantage(rules: Rules) -> f64 {
        let mut game = Self::new(rules);
        let values = game.value((UNITS, 0, 0));
        Self::read(values, 0.0)
    }
}

fn grid() -> impl Iterator<Item = f64> {
    (0..POINTS).map(|at| at as f64 * STEP - LAST)
}

#[test]
fn prepaid_items_cost_what_the_filter_says() {
    let bound = divergence(UNIT * UNITS as f64);
    assert!((bound - 0.126_936_7).abs() < 1e-6, "{bound}");
    let found = Game::advantage(Rules::AsTheLedger);
    assert!((found / bound - 1.0).abs() < ROUNDING, "{found} of {bound}");
}

#[test]
fn what_the_ledger_forbids_costs_more() {
    let bound = divergence(UNIT * UNITS as f64);
    for rules in [Rules::DrawnAgain, Rules::PaidWhenDrawn, Rules::GivenBack] {
        let found = Game::advantage(rules);
        assert!(found > 2.0 * bound, "{rules:?}: {found} of {bound}");
    }
}
