//! Small symmetric matrices: Cholesky's factors, and eigenvalues by Jacobi's rotations. Sums,
//! products, quotients and square roots alone, so that every machine computes the same digits.

use super::moments::Noisy;

/// A symmetric matrix of a few rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Symmetric {
    size: usize,
    entries: Vec<f64>,
}

/// Most rounds over all pairs of rows. Each round squares what is left off the diagonal; ten are
/// enough for 17 rows.
const ROUNDS_MAX: usize = 60;

impl Symmetric {
    /// `of(row, column)` is asked for the lower half, `column <= row`.
    pub fn new(size: usize, of: impl Fn(usize, usize) -> f64) -> Self {
        let at = |row: usize, column: usize| of(row.max(column), row.min(column));
        let entries = (0..size * size).map(|i| at(i / size, i % size)).collect();
        Self { size, entries }
    }

    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.entries[row * self.size + column]
    }

    /// `x' A y`.
    pub fn form(&self, x: &[f64], y: &[f64]) -> f64 {
        let row = |i: usize| (0..self.size).map(|j| self.at(i, j) * y[j]).sum::<f64>();
        (0..self.size).map(|i| x[i] * row(i)).sum()
    }

    /// `A x`, of numbers with noise.
    pub fn times(&self, x: &[Noisy]) -> Vec<Noisy> {
        let row = |i: usize| {
            let mut sum = Noisy::zero();
            (0..self.size).for_each(|j| sum.add(self.at(i, j), &x[j]));
            sum
        };
        (0..self.size).map(row).collect()
    }

    /// The inverse; `None` where the matrix is not positive definite, or nearly singular in its
    /// digits.
    ///
    /// # Reference
    /// Golub and Van Loan, "Matrix Computations", algorithm 4.2.1 (Cholesky).
    pub fn inverse(&self) -> Option<Self> {
        let n = self.size;
        let mut lower = vec![0.0; n * n];
        for column in 0..n {
            for row in column..n {
                let known: f64 = (0..column)
                    .map(|k| lower[row * n + k] * lower[column * n + k])
                    .sum();
                let rest = self.at(row, column) - known;
                lower[row * n + column] = if row > column {
                    rest / lower[column * n + column]
                } else if rest > self.at(row, row) * f64::EPSILON * n as f64 {
                    rest.sqrt()
                } else {
                    return None;
                };
            }
        }
        let columns: Vec<Vec<f64>> = (0..n).map(|at| inverse_column(&lower, n, at)).collect();
        let inverse = Self::new(n, |row, column| columns[column][row]);
        inverse
            .entries
            .iter()
            .all(|x| x.is_finite())
            .then_some(inverse)
    }

    /// The eigenvalues, the least first; `None` where an entry is not finite.
    pub fn eigenvalues(&self) -> Option<Vec<f64>> {
        Some(self.eigen()?.into_iter().map(|(value, _)| value).collect())
    }

    /// The eigenvalues, the least first, each with its eigenvector of length 1; `None` where an
    /// entry is not finite.
    ///
    /// # Reference
    /// Golub and Van Loan, "Matrix Computations", section 8.5.3 (cyclic Jacobi).
    pub fn eigen(&self) -> Option<Vec<(f64, Vec<f64>)>> {
        let (n, mut a) = (self.size, self.clone());
        let mut vectors: Vec<Vec<f64>> = (0..n).map(|i| unit(n, i)).collect();
        if !a.entries.iter().all(|x| x.is_finite()) {
            return None;
        }
        for _ in 0..ROUNDS_MAX {
            let mut is_done = true;
            for p in 0..n {
                for q in p + 1..n {
                    if a.is_negligible(p, q) {
                        continue;
                    }
                    let Some((cosine, sine)) = a.rotate(p, q) else {
                        continue;
                    };
                    is_done = false;
                    let (before, after) = vectors.split_at_mut(q);
                    for (x, y) in before[p].iter_mut().zip(&mut after[0]) {
                        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
                    }
                }
            }
            if is_done {
                break;
            }
        }
        let values = (0..n).map(|i| a.at(i, i));
        let mut pairs: Vec<(f64, Vec<f64>)> = values.zip(vectors).collect();
        pairs.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Some(pairs)
    }

    /// Whether the entry of rows `p` and `q` is below the last digit of both their eigenvalues. Not
    /// below that of the largest: small eigenvalues next to large ones would be wrong.
    ///
    /// # Reference
    /// Demmel and Veselić 1992, "Jacobi's method is more accurate than QR", SIAM Journal on Matrix
    /// Analysis and Applications 13(4), algorithm 3.1.
    fn is_negligible(&self, p: usize, q: usize) -> bool {
        let own = |i: usize| self.at(i, i).abs().sqrt();
        self.at(p, q).abs() <= f64::EPSILON * own(p) * own(q)
    }

    /// Turns rows and columns `p` and `q` so that their entry is zero: by which cosine and sine.
    /// `None` where it is zero already.
    fn rotate(&mut self, p: usize, q: usize) -> Option<(f64, f64)> {
        let off = self.at(p, q);
        if off == 0.0 {
            return None;
        }
        let apart = (self.at(q, q) - self.at(p, p)) / (2.0 * off);
        let tangent = apart.signum() / (apart.abs() + (1.0 + apart * apart).sqrt());
        let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
        let sine = tangent * cosine;
        let (first, second) = (self.at(p, p), self.at(q, q));
        for k in 0..self.size {
            let (x, y) = (self.at(k, p), self.at(k, q));
            self.set(k, p, cosine * x - sine * y);
            self.set(k, q, sine * x + cosine * y);
        }
        self.set(p, p, first - tangent * off);
        self.set(q, q, second + tangent * off);
        self.set(p, q, 0.0);
        Some((cosine, sine))
    }

    fn set(&mut self, row: usize, column: usize, value: f64) {
        self.entries[row * self.size + column] = value;
        self.entries[column * self.size + row] = value;
    }
}

/// The unit vector along axis `at`.
fn unit(n: usize, at: usize) -> Vec<f64> {
    let mut x = vec![0.0; n];
    x[at] = 1.0;
    x
}

/// Column `at` of the inverse of `L L'`.
fn inverse_column(lower: &[f64], n: usize, at: usize) -> Vec<f64> {
    let mut x = unit(n, at);
    for row in 0..n {
        let known: f64 = (0..row).map(|k| lower[row * n + k] * x[k]).sum();
        x[row] = (x[row] - known) / lower[row * n + row];
    }
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|k| lower[k * n + row] * x[k]).sum();
        x[row] = (x[row] - known) / lower[row * n + row];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::Symmetric;

    fn near(found: f64, wanted: f64) -> bool {
        (found - wanted).abs() <= 1e-13 * wanted.abs().max(1.0)
    }

    /// `numpy.linalg.eigh(A)` and `numpy.linalg.inv(A)`.
    #[test]
    fn eigenvalues_and_inverse_are_those_of_numpy() {
        let rows = [[4.0, 1.0, 2.0], [1.0, 3.0, 0.0], [2.0, 0.0, 5.0]];
        let matrix = Symmetric::new(3, |i, j| rows[i][j]);
        let wanted = [1.854897308799576, 3.4760236029181333, 6.669079088282287];
        let found = matrix.eigenvalues().unwrap();
        assert!(
            found.iter().zip(wanted).all(|(f, w)| near(*f, w)),
            "{found:?}"
        );
        let vectors: [[f64; 3]; 3] = [
            [-0.6793130619863363, 0.5932333119173852, 0.4319814827585529],
            [-0.374361954783072, -0.7864356987513781, 0.4912962635115686],
            [
                -0.6311789687764832,
                -0.1720265367929077,
                -0.7563200248659909,
            ],
        ];
        for ((_, found), wanted) in matrix.eigen().unwrap().iter().zip(vectors) {
            let sign = found[0].signum() * wanted[0].signum();
            let parts = found.iter().zip(wanted);
            assert!(parts.map(|(f, w)| (sign * f, w)).all(|(f, w)| near(f, w)));
        }
        let wanted = [
            [
                0.3488372093023256,
                -0.11627906976744187,
                -0.13953488372093023,
            ],
            [-0.11627906976744187, 0.372093023255814, 0.04651162790697675],
            [
                -0.13953488372093023,
                0.04651162790697675,
                0.2558139534883721,
            ],
        ];
        let inverse = matrix.inverse().unwrap();
        for (i, row) in wanted.iter().enumerate() {
            assert!(
                (0..3).all(|j| near(inverse.at(i, j), row[j])),
                "{inverse:?}"
            );
        }
        assert!(near(matrix.form(&[1.0, 2.0, -1.0], &[0.0, 1.0, 3.0]), -2.0));
    }

    /// Covariances of two shares and of an amount in cents, in both orders: `mpmath.eigsy` with 60
    /// digits.
    #[test]
    fn small_eigenvalues_next_to_large_ones_are_right() {
        let rows = [
            [0.04000000000000001, 0.018, 3000000.0],
            [0.018, 0.0225, -1350000.0],
            [3000000.0, -1350000.0, 900000000000000.0],
        ];
        let wanted = [0.002238991216820169, 0.04823600878317984, 9e14];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
            let matrix = Symmetric::new(3, |i, j| rows[order[i]][order[j]]);
            let found = matrix.eigenvalues().unwrap();
            for (found, wanted) in found.iter().zip(wanted) {
                assert!((found / wanted - 1.0).abs() < 1e-12, "{order:?}: {found}");
            }
            // Far from 1, too.
            for power in [2f64.powi(-700), 2f64.powi(300)] {
                let scaled = Symmetric::new(3, |i, j| rows[order[i]][order[j]] * power);
                let scaled = scaled.eigenvalues().unwrap();
                for (found, wanted) in scaled.iter().zip(wanted) {
                    let found = found / power;
                    assert!((found / wanted - 1.0).abs() < 1e-12, "{order:?}: {found}");
                }
            }
        }
    }

    /// Hilbert's matrix of 17 rows plus a diagonal: the trace and the determinant are kept, and the
    /// inverse undoes it.
    #[test]
    fn large_matrices_are_inverted() {
        let of = |i: usize, j: usize| 1.0 / (i + j + 1) as f64 + if i == j { 0.001 } else { 0.0 };
        let matrix = Symmetric::new(17, of);
        let values = matrix.eigenvalues().unwrap();
        let trace: f64 = (0..17).map(|i| of(i, i)).sum();
        assert!(near(values.iter().sum(), trace), "{values:?}");
        assert!(values[0] >= 0.001 * (1.0 - 1e-12), "{values:?}");
        let inverse = matrix.inverse().unwrap();
        let least = 1.0 / inverse.eigenvalues().unwrap()[16];
        assert!((least / values[0] - 1.0).abs() < 1e-9, "{least} {values:?}");
        for (i, j) in (0..17).flat_map(|i| (0..17).map(move |j| (i, j))) {
            let product: f64 = (0..17).map(|k| of(i, k) * inverse.at(k, j)).sum();
            assert!((product - f64::from(u8::from(i == j))).abs() < 1e-10);
        }
    }

    #[test]
    fn what_is_not_positive_definite_has_no_inverse() {
        let of = |rows: [[f64; 2]; 2]| Symmetric::new(2, |i, j| rows[i][j]);
        for rows in [
            [[1.0, 2.0], [2.0, 1.0]],
            [[1.0, 1.0], [1.0, 1.0]],
            [[0.0, 0.0], [0.0, 0.0]],
            [[-1.0, 0.0], [0.0, 1.0]],
            [[f64::NAN, 0.0], [0.0, 1.0]],
            [[f64::INFINITY, 0.0], [0.0, 1.0]],
        ] {
            assert_eq!(of(rows).inverse(), None, "{rows:?}");
        }
        assert_eq!(
            of([[1.0, 2.0], [2.0, 1.0]]).eigenvalues(),
            Some(vec![-1.0, 3.0])
        );
        assert_eq!(of([[f64::NAN, 0.0], [0.0, 1.0]]).eigenvalues(), None);
    }
}
