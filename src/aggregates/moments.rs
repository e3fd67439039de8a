//! First and second moments of several values, in one vector: the number of rows, the sum of each
//! value, of its squares, and of each product of two values. What is computed from them is
//! post-processing.

use super::measure_id::MeasureId;

/// A released number, and what each independent draw of noise adds to it (signed standard
/// deviations).
#[derive(Debug, Clone, PartialEq)]
pub struct Noisy {
    pub value: f64,
    pub noise: Vec<f64>,
}

impl Noisy {
    pub(super) fn zero() -> Self {
        Self {
            value: 0.0,
            noise: Vec::new(),
        }
    }

    pub fn scale(mut self, by: f64) -> Self {
        self.value *= by;
        self.noise.iter_mut().for_each(|noise| *noise *= by);
        self
    }

    /// Adds `factor * other`.
    pub(super) fn add(&mut self, factor: f64, other: &Self) {
        if factor == 0.0 {
            return;
        }
        self.value += factor * other.value;
        if self.noise.len() < other.noise.len() {
            self.noise.resize(other.noise.len(), 0.0);
        }
        let each = self.noise.iter_mut().zip(&other.noise);
        each.for_each(|(own, noise)| *own += factor * noise);
    }

    pub(super) fn variance(&self) -> f64 {
        // An empty sum of f64 is -0.0; adding 0.0 makes it 0.0.
        self.noise.iter().map(|noise| noise * noise).sum::<f64>() + 0.0
    }
}

/// A value that is summed: `middle + half * s`, for `s` in [-1, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub middle: f64,
    pub half: f64,
}

/// The measures of the moments of some values.
#[derive(Debug, Clone, PartialEq)]
pub struct MomentMeasures {
    /// The measure of the number of rows.
    pub count: MeasureId,
    pub values: Vec<Summed>,
    /// The measures of products of two values: of the second with the first, of the third with the
    /// first and the second, and so on.
    pub products: Vec<MeasureId>,
}

/// The measures of one value: the sum of its distances from the middle, and of their squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summed {
    pub sum: MeasureId,
    pub squares: MeasureId,
    pub scale: Scale,
}

/// Sums over rows of products of 1 and of scaled values.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    pub scales: Vec<Scale>,
    /// The lower half of the matrix, row by row; row 0 is of 1, row `i + 1` of value `i`.
    pub sums: Vec<Noisy>,
}

impl MomentMeasures {
    /// Every measure.
    pub(super) fn all(&self) -> Vec<MeasureId> {
        let of_values = self
            .values
            .iter()
            .flat_map(|value| [value.sum, value.squares]);
        let counted = std::iter::once(self.count).chain(of_values);
        counted.chain(self.products.iter().copied()).collect()
    }

    /// The moments of one group, of which `measure` gives the measures. `None` where one is not
    /// known.
    pub(super) fn of_group(&self, measure: &dyn Fn(MeasureId) -> Option<Noisy>) -> Option<Moments> {
        let mut sums = vec![measure(self.count)?];
        let mut products = self.products.iter();
        for (at, value) in self.values.iter().enumerate() {
            let half = value.scale.half;
            sums.push(measure(value.sum)?.scale(1.0 / half));
            for (other, product) in self.values[..at].iter().zip(&mut products) {
                sums.push(measure(*product)?.scale(1.0 / (half * other.scale.half)));
            }
            sums.push(measure(value.squares)?.scale(1.0 / (half * half)));
        }
        Some(Moments {
            scales: self.values.iter().map(|value| value.scale).collect(),
            sums,
        })
    }
}

impl Moments {
    pub(super) fn rows(&self) -> &Noisy {
        &self.sums[0]
    }

    /// The sum of products of columns `i` and `j`, of which 0 is 1.
    pub(super) fn sum(&self, i: usize, j: usize) -> &Noisy {
        let (row, column) = (i.max(j), i.min(j));
        &self.sums[row * (row + 1) / 2 + column]
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    pub fn scale((lo, hi): (f64, f64)) -> Scale {
        Scale {
            middle: (lo + hi) / 2.0,
            half: (hi - lo) / 2.0,
        }
    }

    /// Moments of rows as they are released: the squares' distances from their maximum are summed,
    /// not the squares. Each coordinate has noise of this deviation, of which `draw` gives one.
    pub fn moments(
        rows: &[Vec<f64>],
        ends: &[(f64, f64)],
        deviation: f64,
        mut draw: impl FnMut() -> f64,
    ) -> Moments {
        let scales: Vec<Scale> = ends.iter().copied().map(scale).collect();
        let size = scales.len();
        let draws = 1 + 2 * size + size * (size - 1) / 2;
        let mut first = 0;
        let mut coordinate = |sum: f64| {
            let mut noise = vec![0.0; draws];
            noise[first] = deviation;
            first += 1;
            Noisy {
                value: sum + deviation * draw(),
                noise,
            }
        };
        let count = coordinate(rows.len() as f64);
        let scaled = |row: &[f64], at: usize| (row[at] - scales[at].middle) / scales[at].half;
        let mut sums = vec![count.clone()];
        for i in 0..size {
            sums.push(coordinate(rows.iter().map(|row| scaled(row, i)).sum()));
            for j in 0..i {
                let product = |row: &Vec<f64>| scaled(row, i) * scaled(row, j);
                sums.push(coordinate(rows.iter().map(product).sum()));
            }
            let lack = |row: &Vec<f64>| 1.0 - scaled(row, i).powi(2);
            let mut squares = count.clone();
            squares.add(-1.0, &coordinate(rows.iter().map(lack).sum()));
            sums.push(squares);
        }
        Moments { scales, sums }
    }

    pub fn exact(rows: &[Vec<f64>], ends: &[(f64, f64)]) -> Moments {
        moments(rows, ends, 0.0, || 0.0)
    }

    /// Forty rows of y and five features.
    pub fn rows() -> Vec<Vec<f64>> {
        (0..40)
            .map(|i: i32| {
                let x = [
                    i % 7,
                    i * i % 11,
                    (3 * i + 1) % 5,
                    i.pow(3) % 13,
                    7 * i % 17 - 8,
                ];
                let x = x.map(f64::from);
                let y = 2.0 * x[0] - x[1] + x[2] / 2.0 + f64::from(5 * i % 9);
                std::iter::once(y).chain(x).collect()
            })
            .collect()
    }

    /// Ranges of their values.
    pub const ENDS: [(f64, f64); 6] = [
        (-20.0, 25.0),
        (0.0, 10.0),
        (-5.0, 20.0),
        (0.0, 4.0),
        (0.0, 12.0),
        (-8.0, 8.0),
    ];

    pub fn assert_near(found: &[f64], wanted: &[f64], what: &str) {
        assert_eq!(found.len(), wanted.len(), "{what}");
        for (found, wanted) in found.iter().zip(wanted) {
            let off = (found - wanted).abs() / wanted.abs().max(1.0);
            assert!(off < 1e-12, "{what}: {found}, {wanted}");
        }
    }
}
