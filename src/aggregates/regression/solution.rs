//! Solutions of noisy normal equations.

use crate::aggregates::moments::Noisy;
use crate::aggregates::symmetric_matrix::Symmetric;

/// The solution of the normal equations, and what each draw moves it by.
pub(super) struct Solution {
    pub at: Vec<f64>,
    pub noise: Vec<Noisy>,
}

impl Solution {
    pub fn new<'n>(
        solved: &Symmetric,
        right: &[Noisy],
        entry: &impl Fn(usize, usize) -> &'n Noisy,
    ) -> Option<Self> {
        let inverse = solved.inverse()?;
        let size = right.len();
        let at: Vec<f64> = (0..size)
            .map(|i| (0..size).map(|j| inverse.at(i, j) * right[j].value).sum())
            .collect();
        let moved = shift_by_draws(right, &at, entry);
        Some(Self {
            noise: inverse.times(&moved),
            at,
        })
    }
}

/// What each draw moves the normal equations by at a solution, to first order: `db - dA x`.
pub(super) fn shift_by_draws<'n>(
    right: &[Noisy],
    solution: &[f64],
    entry: &impl Fn(usize, usize) -> &'n Noisy,
) -> Vec<Noisy> {
    let size = solution.len();
    let of = |i: usize| {
        let mut moved = right[i].clone();
        (0..size).for_each(|j| moved.add(-solution[j], entry(i, j)));
        moved
    };
    (0..size).map(of).collect()
}
