//! The values of a list from the counts of bits in each cohort.
//!
//! The expected number of set bits, beyond those of chance, is linear in the numbers of the values:
//! a value adds its share of each cohort's reports to the bits that it sets there. Values outside
//! the list set bits too, about evenly: a *background* stands for them. First, the values are
//! fitted so that none is below zero. By these numbers, cells vary also by the chance of who is in
//! which cohort, and the values are fitted once more. Those that are above zero are then fitted
//! without that condition, which gives their errors. Values that are zero within their errors are
//! not shown.

use std::collections::HashMap;

use crate::mechanism::normal;
use crate::policy::{Dictionary, FITTED_MAX, ROUNDS_MAX};

/// The probability that some value which nobody has is shown.
const FALSE_ALARM: f64 = 0.05;
/// The share of shown intervals that do not hold their number.
const OUTSIDE: f64 = 0.05;
/// The change of a value, in standard errors, below which a round is the last one.
const CHANGE_MIN: f64 = 1e-3;
/// The least variance of a cell, as a part of its reports: where nothing was randomised and no
/// noise was added, cells are exact.
const VARIANCE_MIN: f64 = 1e-6;

/// The counts of one cohort.
#[derive(Debug, Clone, PartialEq)]
pub struct CohortCounts {
    pub number: u32,
    /// How many reports there are.
    pub reports: f64,
    /// For each bit, the estimated number of persons whose value sets it.
    pub cells: Vec<f64>,
    /// The variance of the noise in a cell.
    pub noise: f64,
}

/// What is shown.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decoded {
    pub shown: Vec<DecodedValue>,
    /// How many values the list has.
    pub listed: usize,
}

/// A value that some have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodedValue {
    /// Its place in the list.
    pub place: usize,
    /// About how many.
    pub count: f64,
    /// The standard error, of the noise and of the reports.
    pub error: f64,
    /// How many standard errors its interval reaches to each side.
    pub reach: f64,
}

/// The values of the list that some persons have, in its order.
///
/// # Guarantee
/// Where reports are as declared, some value that nobody has is shown with probability of about
/// [`FALSE_ALARM`]. Of the intervals that are shown, at most [`OUTSIDE`] do not hold their number,
/// on average: those of a number that chance made large enough to be shown are among them, so an
/// interval of `s` shown values of `m` listed ones reaches to the quantile `1 - OUTSIDE s / (2 m)`.
///
/// # Reference
/// Erlingsson, Pihur, Korolova 2014, section 4, with non-negative least squares in place of the
/// LASSO; Bonferroni's correction as there. Benjamini, Yekutieli 2005, "False discovery
/// rate-adjusted multiple confidence intervals for selected parameters", for the intervals.
pub fn decode(of: &Dictionary, cohorts: &[CohortCounts]) -> Decoded {
    let listed = of.values.len();
    let design = Design::new(of, cohorts);
    let fitted = design.non_negative();
    let design = design.with_chance_of_cohorts(&fitted);
    let fitted = design.non_negative();
    let mut chosen: Vec<usize> = (0..listed).filter(|at| fitted[*at] > 0.0).collect();
    if chosen.len() > FITTED_MAX {
        let size = |at: &usize| fitted[*at] * design.columns[*at].length();
        chosen.sort_by(|one, other| size(other).total_cmp(&size(one)));
        chosen.truncate(FITTED_MAX);
        chosen.sort_unstable();
    }
    let least = normal::isf(FALSE_ALARM / listed as f64);
    let values = design.least_squares(&chosen);
    let is_alike = design.alike();
    let mut shown: Vec<DecodedValue> = chosen
        .iter()
        .zip(values)
        .map(|(place, (count, error))| DecodedValue {
            place: *place,
            count,
            error,
            reach: 0.0,
        })
        .filter(|value| value.count > least * value.error && value.error.is_finite())
        // Reports of one are reports of the other.
        .filter(|value| !is_alike[value.place])
        .collect();
    let reach = normal::isf(OUTSIDE / 2.0 * shown.len() as f64 / listed as f64);
    for value in &mut shown {
        value.reach = reach;
    }
    Decoded { shown, listed }
}

/// One value: the cells whose bits it sets, and how much a person adds to each of them, in the
/// cell's standard deviations.
struct Column {
    cells: Vec<(u32, f64)>,
    squares: f64,
}

impl Column {
    fn new(cells: Vec<(u32, f64)>) -> Self {
        let squares = cells.iter().map(|(_, each)| each * each).sum();
        Self { cells, squares }
    }

    fn length(&self) -> f64 {
        self.squares.sqrt()
    }

    fn times(&self, cells: &[f64]) -> f64 {
        let each = self.cells.iter();
        each.map(|(at, each)| each * cells[*at as usize]).sum()
    }

    fn add_to(&self, cells: &mut [f64], times: f64) {
        for (at, each) in &self.cells {
            cells[*at as usize] += times * each;
        }
    }
}

/// The regression: cells, each divided by its standard deviation, on the columns of the values. The
/// last column is the background.
struct Design {
    cells: Vec<f64>,
    columns: Vec<Column>,
    /// The variance of each cell.
    variances: Vec<f64>,
    /// The share of the reports that each cohort has, and how many cells.
    shares: Vec<f64>,
    bits: usize,
}

impl Design {
    fn new(of: &Dictionary, cohorts: &[CohortCounts]) -> Self {
        let (channel, bits) = (of.rappor.channel(), of.rappor.bits as usize);
        let used: Vec<&CohortCounts> = cohorts
            .iter()
            .filter(|cohort| cohort.reports > 0.0 && cohort.cells.len() == bits)
            .collect();
        let all: f64 = used.iter().map(|cohort| cohort.reports).sum();
        // A person is in this cohort with the probability of its share of the reports. What a cell
        // varies by is at most what it does where nobody, or everybody, sets its bit.
        let weights: Vec<(f64, f64)> = used
            .iter()
            .map(|cohort| {
                let reports = cohort.reports;
                let [none, each] = [0.0, reports].map(|with| channel.variance(reports, with));
                let variance = cohort.noise + none.max(each).max(VARIANCE_MIN * reports);
                (reports / all, variance.sqrt())
            })
            .collect();
        let cells = used
            .iter()
            .zip(&weights)
            .flat_map(|(cohort, (_, deviation))| {
                let each = cohort.cells.iter();
                each.map(move |cell| cell / deviation)
            });
        let column = |value: &String| {
            let of_cohort = used.iter().zip(&weights).enumerate();
            let set = of_cohort.flat_map(|(row, (cohort, (share, deviation)))| {
                let places = of.rappor.places(cohort.number, value).into_iter();
                places.map(move |place| ((row * bits) as u32 + place, share / deviation))
            });
            Column::new(set.collect())
        };
        let density = of.rappor.density();
        let background = weights
            .iter()
            .enumerate()
            .flat_map(|(row, (share, deviation))| {
                let each = density * share / deviation;
                (0..bits).map(move |place| ((row * bits + place) as u32, each))
            });
        let mut columns: Vec<Column> = of.values.iter().map(column).collect();
        columns.push(Column::new(background.collect()));
        let variances = weights
            .iter()
            .flat_map(|(_, deviation)| std::iter::repeat_n(deviation * deviation, bits));
        Self {
            cells: cells.collect(),
            columns,
            variances: variances.collect(),
            shares: weights.iter().map(|(share, _)| *share).collect(),
            bits,
        }
    }

    /// The regression whose cells vary also by the chance of who is in which cohort, given about
    /// how many persons have each value: of `n` persons, a cohort with the share `s` has `n s`,
    /// with the variance `n s (1 - s)`. This takes cohorts as independent. In truth the persons
    /// whom one has too many the others have too few, so that errors of frequent values come out
    /// too large.
    fn with_chance_of_cohorts(self, numbers: &[f64]) -> Self {
        let mut variances = self.variances.clone();
        for (column, number) in self.columns.iter().zip(numbers) {
            for (at, each) in &column.cells {
                let at = *at as usize;
                let own = each * self.variances[at].sqrt();
                variances[at] += number.max(0.0) * own * (1.0 - self.shares[at / self.bits]);
            }
        }
        let both = self.variances.iter().zip(&variances);
        let times: Vec<f64> = both.map(|(old, new)| (old / new).sqrt()).collect();
        let scaled = |column: &Column| {
            let cells = column.cells.iter();
            let cells = cells.map(|(at, each)| (*at, each * times[*at as usize]));
            Column::new(cells.collect())
        };
        let cells = self.cells.iter().zip(&times);
        Self {
            cells: cells.map(|(cell, times)| cell * times).collect(),
            columns: self.columns.iter().map(scaled).collect(),
            variances,
            ..self
        }
    }

    /// Which columns set the same bits as another one, in all cohorts that have reports.
    fn alike(&self) -> Vec<bool> {
        let mut found: HashMap<Vec<u32>, usize> = HashMap::new();
        let cells = |column: &Column| column.cells.iter().map(|(at, _)| *at).collect::<Vec<_>>();
        for column in &self.columns {
            *found.entry(cells(column)).or_default() += 1;
        }
        let columns = self.columns.iter();
        columns.map(|column| found[&cells(column)] > 1).collect()
    }

    /// The numbers of all columns with the least squares, none below zero: one after the other is
    /// set to its best value, round by round.
    ///
    /// # Reference
    /// Franc, Hlaváč, Navara 2005, "Sequential coordinate-wise algorithm for the non-negative least
    /// squares problem".
    fn non_negative(&self) -> Vec<f64> {
        let mut numbers = vec![0.0; self.columns.len()];
        let mut rest = self.cells.clone();
        for _ in 0..ROUNDS_MAX {
            let mut largest = 0f64;
            for (column, number) in self.columns.iter().zip(&mut numbers) {
                if column.squares == 0.0 {
                    continue;
                }
                let step = (column.times(&rest) / column.squares).max(-*number);
                if step != 0.0 {
                    *number += step;
                    column.add_to(&mut rest, -step);
                    largest = largest.max(step.abs() * column.length());
                }
            }
            if largest < CHANGE_MIN {
                break;
            }
        }
        numbers
    }

    /// The numbers of these columns with the least squares, next to the background, each with its
    /// standard error. It is infinite where the number is not determined.
    fn least_squares(&self, chosen: &[usize]) -> Vec<(f64, f64)> {
        let background = self.columns.len() - 1;
        let all: Vec<&Column> = chosen
            .iter()
            .chain([&background])
            .map(|at| &self.columns[*at])
            .collect();
        let size = all.len();
        let factor = Factor::new(&all, self.cells.len());
        let wanted: Vec<f64> = all.iter().map(|column| column.times(&self.cells)).collect();
        let numbers = factor.solve(wanted);
        let mut rest = self.cells.clone();
        for (column, number) in all.iter().zip(&numbers) {
            column.add_to(&mut rest, -number);
        }
        // More than the errors explain: values outside the list that are frequent, or cohorts that
        // were not drawn by chance.
        let squares: f64 = rest.iter().map(|cell| cell * cell).sum();
        let free = self.cells.len().saturating_sub(size);
        let excess = match free {
            0 => f64::INFINITY,
            free => (squares / free as f64).max(1.0),
        };
        let errors = (0..size - 1).map(|at| (factor.variance(at) * excess).sqrt());
        numbers.iter().copied().zip(errors).collect()
    }
}

/// Cholesky's factor of the products of columns.
///
/// # Reference
/// Golub and Van Loan, "Matrix Computations", algorithm 4.2.1.
struct Factor {
    size: usize,
    /// The lower half, row by row.
    lower: Vec<f64>,
    /// The squared lengths of the inverse's columns: the diagonal of the inverse of the products.
    variances: Vec<f64>,
}

impl Factor {
    fn new(columns: &[&Column], cells: usize) -> Self {
        let size = columns.len();
        let mut factor = Self {
            size,
            lower: products(columns, cells),
            variances: Vec::new(),
        };
        factor.decompose();
        factor.variances = factor.inverse_lengths();
        factor
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.lower[row * self.size..][..self.size]
    }

    /// A column that depends on those before it has an infinite entry: its number is then 0, and
    /// is not determined.
    fn decompose(&mut self) {
        let size = self.size;
        for row in 0..size {
            let (before, own) = self.lower.split_at_mut(row * size);
            for column in 0..row {
                let other = &before[column * size..][..size];
                let known: f64 = (0..column).map(|k| own[k] * other[k]).sum();
                own[column] = (own[column] - known) / other[column];
            }
            let known: f64 = own[..row].iter().map(|entry| entry * entry).sum();
            let rest = own[row] - known;
            let least = own[row] * f64::EPSILON * size as f64;
            own[row] = match rest > least {
                true => rest.sqrt(),
                false => f64::INFINITY,
            };
        }
    }

    fn solve(&self, mut numbers: Vec<f64>) -> Vec<f64> {
        for row in 0..self.size {
            let own = self.row(row);
            let known: f64 = (0..row).map(|k| own[k] * numbers[k]).sum();
            numbers[row] = (numbers[row] - known) / own[row];
        }
        for row in (0..self.size).rev() {
            numbers[row] /= self.row(row)[row];
            for k in 0..row {
                numbers[k] -= self.row(row)[k] * numbers[row];
            }
        }
        numbers
    }

    fn variance(&self, at: usize) -> f64 {
        match self.row(at)[at].is_finite() {
            true => self.variances[at],
            false => f64::INFINITY,
        }
    }

    /// For each column of the inverse of the factor, its squared length.
    fn inverse_lengths(&self) -> Vec<f64> {
        let size = self.size;
        let mut inverse = vec![0.0; size];
        let of_column = |column: usize| {
            let mut squares = 0.0;
            for row in column..size {
                let own = self.row(row);
                let known: f64 = (column..row).map(|k| own[k] * inverse[k]).sum();
                let unit = if row == column { 1.0 } else { 0.0 };
                inverse[row] = (unit - known) / own[row];
                squares += inverse[row] * inverse[row];
            }
            squares
        };
        (0..size).map(of_column).collect()
    }
}

/// The products of all pairs of columns, of which the last one has all cells: the lower half, row
/// by row.
fn products(columns: &[&Column], cells: usize) -> Vec<f64> {
    let size = columns.len();
    let mut products = vec![0.0; size * size];
    let mut of_cell: Vec<Vec<(u32, f64)>> = vec![Vec::new(); cells];
    let Some((background, values)) = columns.split_last() else {
        return products;
    };
    for (row, column) in values.iter().enumerate() {
        for (cell, each) in &column.cells {
            let known = &mut of_cell[*cell as usize];
            for (other, its) in known.iter() {
                products[row * size + *other as usize] += each * its;
            }
            known.push((row as u32, *each));
        }
        products[row * size + row] = column.squares;
    }
    let mut dense = vec![0.0; cells];
    background.add_to(&mut dense, 1.0);
    let last = (size - 1) * size;
    for (row, column) in values.iter().enumerate() {
        products[last + row] = column.times(&dense);
    }
    products[last + size - 1] = background.squares;
    products
}

#[cfg(test)]
mod tests;
