//! Least squares with a penalty on the coefficients' sizes (LASSO), from noisy moments.

use super::solution::{Solution, shift_by_draws};
use crate::aggregates::moments::Noisy;
use crate::aggregates::symmetric_matrix::Symmetric;

/// For each column, the size of its gradient at which its coefficient leaves zero.
pub(super) struct Sizes<'s>(pub &'s [Noisy]);

/// Most steps for each column. Some two for each are enough, also of columns that are nearly the
/// same.
const STEPS_MAX: usize = 100;
/// A column whose gradient is nearer to its bound than this many standard errors may be one that
/// the exact sums would choose: its error is as if it were chosen.
const NEAR: f64 = 2.0;
/// What rounding may move a gradient by, as a share of what it is the difference of.
const ROUNDING: f64 = 1e-13;

/// The x that minimises `x' A x / 2 - b' x + Σ t_j |x_j|` for a positive definite A, and what each
/// draw of noise moves it by while the same columns are chosen. `None` where A is nearly singular.
///
/// Columns are chosen one by one, the one first whose gradient is furthest past its bound. The
/// equations of the chosen columns are solved exactly. Where a coefficient would change its sign on
/// the way there, the way ends at zero, and its column is left out again. Each step makes the sum
/// less, so no choice comes twice.
///
/// # Reference
/// Lee, Battle, Raina and Ng 2006, "Efficient sparse coding algorithms", Advances in Neural
/// Information Processing Systems 19, algorithm 1 (feature-sign search), with the step of Lawson
/// and Hanson 1974, "Solving least squares problems", chapter 23 (to the first change of sign).
pub(super) fn solve<'n>(
    matrix: &Symmetric,
    right: &[Noisy],
    entry: &impl Fn(usize, usize) -> &'n Noisy,
    sizes: Sizes<'_>,
) -> Option<Solution> {
    let is_free = |bound: &Noisy| i8::from(bound.value <= 0.0);
    let mut signs: Vec<i8> = sizes.0.iter().map(is_free).collect();
    let mut x = vec![0.0; right.len()];
    // Columns whose gradient is past its bound by rounding alone, as far as was tried here.
    let mut is_tried = vec![false; right.len()];
    for _ in 0..STEPS_MAX * right.len() {
        let chosen = Chosen::new(matrix, right, &sizes, &signs)?;
        let Some(left) = chosen.first_to_leave(&x, &sizes) else {
            if x != chosen.x {
                is_tried.fill(false);
                x.clone_from(&chosen.x);
            }
            let Some((next, sign)) = chosen.next(matrix, right, &sizes, &is_tried) else {
                return chosen.with_noise(matrix, right, entry, &sizes);
            };
            is_tried[next] = true;
            signs[next] = sign;
            continue;
        };
        let (column, share) = left;
        if share > 0.0 {
            is_tried.fill(false);
        }
        for (x, end) in x.iter_mut().zip(&chosen.x) {
            *x += share * (end - *x);
        }
        x[column] = 0.0;
        signs[column] = 0;
    }
    None
}

/// The solution for chosen columns of known signs.
struct Chosen<'s> {
    signs: &'s [i8],
    columns: Vec<usize>,
    inverse: Symmetric,
    x: Vec<f64>,
}

impl<'s> Chosen<'s> {
    fn new(
        matrix: &Symmetric,
        right: &[Noisy],
        sizes: &Sizes<'_>,
        signs: &'s [i8],
    ) -> Option<Self> {
        let columns: Vec<usize> = (0..signs.len()).filter(|j| signs[*j] != 0).collect();
        let part = |i: usize, j: usize| matrix.at(columns[i], columns[j]);
        let inverse = Symmetric::new(columns.len(), part).inverse()?;
        let wanted = |j: &usize| right[*j].value - f64::from(signs[*j]) * sizes.0[*j].value;
        let mut x = vec![0.0; signs.len()];
        for (at, j) in columns.iter().enumerate() {
            let of = |(k, other): (usize, &usize)| inverse.at(at, k) * wanted(other);
            x[*j] = columns.iter().enumerate().map(of).sum();
        }
        Some(Self {
            signs,
            columns,
            inverse,
            x,
        })
    }

    /// `b - A x`.
    fn gradient(&self, matrix: &Symmetric, right: &[Noisy], j: usize) -> f64 {
        let of_x: f64 = self
            .columns
            .iter()
            .map(|k| matrix.at(j, *k) * self.x[*k])
            .sum();
        right[j].value - of_x
    }

    /// The column whose coefficient changes its sign first on the way from x, and the share of the
    /// way to there.
    fn first_to_leave(&self, x: &[f64], sizes: &Sizes<'_>) -> Option<(usize, f64)> {
        let leaves = |j: &&usize| {
            let is_bounded = sizes.0[**j].value > 0.0;
            is_bounded && self.x[**j] * f64::from(self.signs[**j]) <= 0.0
        };
        let share = |j: &usize| match x[*j] == 0.0 {
            true => (*j, 0.0),
            false => (*j, x[*j] / (x[*j] - self.x[*j])),
        };
        let all = self.columns.iter().filter(leaves).map(share);
        all.min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// The column that is to be chosen next, with its sign: of those not yet tried, the one whose
    /// gradient is furthest past its bound. `None` where the choice is right.
    fn next(
        &self,
        matrix: &Symmetric,
        right: &[Noisy],
        sizes: &Sizes<'_>,
        is_tried: &[bool],
    ) -> Option<(usize, i8)> {
        let past = |j: usize| {
            let gradient = self.gradient(matrix, right, j);
            let parts = self.columns.iter().map(|k| matrix.at(j, *k) * self.x[*k]);
            let whole = right[j].value.abs() + parts.map(f64::abs).sum::<f64>();
            let past = gradient.abs() - sizes.0[j].value;
            (past > ROUNDING * whole).then_some((j, past, gradient))
        };
        let open = (0..self.x.len()).filter(|j| self.signs[*j] == 0 && !is_tried[*j]);
        let furthest = open
            .filter_map(past)
            .max_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
        furthest.map(|(j, _, gradient)| (j, if gradient < 0.0 { -1 } else { 1 }))
    }

    /// What each draw moves `b - A x - s t` by, at the chosen columns and others of these signs.
    fn shift_by_draws<'n>(
        &self,
        right: &[Noisy],
        entry: &impl Fn(usize, usize) -> &'n Noisy,
        sizes: &Sizes<'_>,
        signs: &[i8],
    ) -> Vec<Noisy> {
        let mut moved = shift_by_draws(right, &self.x, entry);
        for (j, moved) in moved.iter_mut().enumerate() {
            moved.add(-f64::from(signs[j]), &sizes.0[j]);
        }
        moved
    }

    /// The solution with its noise. A column near its bound counts as chosen: its coefficient is
    /// zero, and its error is not.
    fn with_noise<'n>(
        self,
        matrix: &Symmetric,
        right: &[Noisy],
        entry: &impl Fn(usize, usize) -> &'n Noisy,
        sizes: &Sizes<'_>,
    ) -> Option<Solution> {
        let gradients = (0..self.x.len()).map(|j| self.gradient(matrix, right, j));
        let gradients: Vec<f64> = gradients.collect();
        let toward: Vec<i8> = (self.signs.iter().zip(&gradients))
            .map(|(sign, gradient)| match sign {
                0 if *gradient < 0.0 => -1,
                0 => 1,
                sign => *sign,
            })
            .collect();
        let moved = self.shift_by_draws(right, entry, sizes, &toward);
        let part = |columns: &[usize]| -> Vec<Noisy> {
            columns.iter().map(|j| moved[*j].clone()).collect()
        };
        let of_chosen = self.inverse.times(&part(&self.columns));
        let is_near = |j: &usize| {
            let mut of_gradient = moved[*j].clone();
            for (k, noise) in self.columns.iter().zip(&of_chosen) {
                of_gradient.add(-matrix.at(*j, *k), noise);
            }
            let left = sizes.0[*j].value - gradients[*j].abs();
            left <= NEAR * of_gradient.variance().sqrt()
        };
        let near: Vec<usize> = (0..self.x.len())
            .filter(|j| self.signs[*j] != 0 || is_near(j))
            .collect();
        let inverse = Symmetric::new(near.len(), |i, j| matrix.at(near[i], near[j])).inverse()?;
        let mut noise = vec![Noisy::zero(); self.x.len()];
        for (j, of) in near.iter().zip(inverse.times(&part(&near))) {
            noise[*j] = of;
        }
        Some(Solution { at: self.x, noise })
    }
}
