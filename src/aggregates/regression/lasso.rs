//! Least squares with a penalty on the coefficients' sizes (LASSO), from noisy moments.

use super::solution::{Solution, moved};
use crate::aggregates::dense::Symmetric;
use crate::aggregates::moments::Noisy;

/// For each column, the size of its gradient at which its coefficient leaves zero.
pub(super) struct Sizes<'s>(pub &'s [Noisy]);

/// Most rounds over all columns. A few dozen settle which coefficients are zero, unless columns
/// are nearly the same.
const ROUNDS_MAX: usize = 20_000;
/// A column whose gradient is nearer to its bound than this many standard errors may be one that
/// the exact sums would choose: its error is as if it were chosen.
const NEAR: f64 = 2.0;
/// What rounding may move a gradient by, as a share of its bound.
const ROUNDING: f64 = 1e-9;

/// The x that minimises `x' A x / 2 - b' x + Σ t_j |x_j|` for a positive definite A, and what each
/// draw of noise moves it by while the same columns are chosen. `None` where A is nearly singular.
///
/// Rounds of coordinate descent find which columns are chosen and their signs. The rest is exact:
/// the equations of the chosen columns are solved, and the solution is the right one where signs
/// and the other columns' gradients agree.
///
/// # Reference
/// Friedman, Hastie and Tibshirani 2010, "Regularization paths for generalized linear models via
/// coordinate descent", Journal of Statistical Software 33(1), section 2.2 (updates from moments).
pub(super) fn solve<'n>(
    matrix: &Symmetric,
    right: &[Noisy],
    entry: &impl Fn(usize, usize) -> &'n Noisy,
    sizes: Sizes<'_>,
) -> Option<Solution> {
    let mut x = vec![0.0; right.len()];
    let mut tried: Option<Vec<i8>> = None;
    for _ in 0..ROUNDS_MAX {
        round(matrix, right, &sizes, &mut x);
        let signs = signs(&x, &sizes);
        if tried.as_ref() == Some(&signs) {
            continue;
        }
        if let Some(chosen) = Chosen::new(matrix, right, &sizes, &signs)
            && chosen.is_least(matrix, right, &sizes)
        {
            return chosen.with_noise(matrix, right, entry, &sizes);
        }
        tried = Some(signs);
    }
    None
}

/// One round of coordinate descent.
fn round(matrix: &Symmetric, right: &[Noisy], sizes: &Sizes<'_>, x: &mut [f64]) {
    for j in 0..x.len() {
        let others: f64 = (0..x.len())
            .filter(|k| *k != j)
            .map(|k| matrix.at(j, k) * x[k])
            .sum();
        let (rest, bound) = (right[j].value - others, sizes.0[j].value);
        let shrunk = (rest.abs() - bound).max(0.0);
        x[j] = shrunk.copysign(rest) / matrix.at(j, j);
    }
}

/// The sign of each coefficient; 0 where it is zero. A column without a bound is always chosen, and
/// its sign does not matter.
fn signs(x: &[f64], sizes: &Sizes<'_>) -> Vec<i8> {
    let sign = |(x, bound): (&f64, &Noisy)| match (bound.value > 0.0, *x) {
        (false, _) => 1,
        (true, x) if x > 0.0 => 1,
        (true, x) if x < 0.0 => -1,
        (true, _) => 0,
    };
    x.iter().zip(sizes.0).map(sign).collect()
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

    /// Whether no other choice of columns is better.
    fn is_least(&self, matrix: &Symmetric, right: &[Noisy], sizes: &Sizes<'_>) -> bool {
        (0..self.x.len()).all(|j| {
            let bound = sizes.0[j].value;
            match self.signs[j] {
                0 => self.gradient(matrix, right, j).abs() <= bound * (1.0 + ROUNDING),
                sign => bound <= 0.0 || self.x[j] * f64::from(sign) >= 0.0,
            }
        })
    }

    /// What each draw moves `b - A x - s t` by, at the chosen columns and others of these signs.
    fn moved<'n>(
        &self,
        right: &[Noisy],
        entry: &impl Fn(usize, usize) -> &'n Noisy,
        sizes: &Sizes<'_>,
        signs: &[i8],
    ) -> Vec<Noisy> {
        let mut moved = moved(right, &self.x, entry);
        for (j, moved) in moved.iter_mut().enumerate() {
            moved.add(-f64::from(signs[j]), &sizes.0[j]);
        }
        moved
    }

    /// The same with noise. A column near its bound counts as chosen: its coefficient is zero, and
    /// its error is not.
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
        let moved = self.moved(right, entry, sizes, &toward);
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
