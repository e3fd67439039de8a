//! Least squares from noisy moments: coefficients, and errors of sampling and of noise.
//! Post-processing: all of it is computed from what is released.

use super::lasso::{self, Sizes};
use super::solution::Solution;
use crate::aggregates::field_value::FieldValue;
use crate::aggregates::moments::{Moments, Noisy, Scale};
use crate::aggregates::symmetric_matrix::Symmetric;
use crate::policy::RegressionField as Field;

/// One column of the design.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Feature {
    /// A number that is equal in every row.
    Constant(f64),
    /// One of the values.
    Value(usize),
}

/// What is fitted: the first value by these features.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    pub features: Vec<Feature>,
    /// The penalty on the sum of the coefficients' sizes; 0 for least squares alone.
    pub l1: f64,
}

/// What is shown of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct RegressionFit {
    pub coef: Vec<f64>,
    /// Standard errors of sampling and noise together; `None` without more rows than features, and
    /// for LASSO.
    pub std_err: Option<Vec<f64>>,
    /// Standard errors of the noise alone.
    pub noise_err: Vec<f64>,
    /// `None` where y does not vary.
    pub r2: Option<f64>,
    /// The condition number of the matrix that is solved.
    pub condition: f64,
    /// What is added to the matrix's diagonal.
    pub penalty: f64,
}

impl RegressionFit {
    /// A field; `None` where it is NULL, and for the number of rows, which is a count.
    pub fn part(&self, field: Field) -> Option<FieldValue<'_>> {
        match field {
            Field::Coef => Some(FieldValue::Numbers(&self.coef)),
            Field::StdErr => self.std_err.as_deref().map(FieldValue::Numbers),
            Field::NoiseErr => Some(FieldValue::Numbers(&self.noise_err)),
            Field::R2 => self.r2.map(FieldValue::Number),
            Field::NumRows => None,
            Field::ConditionNo => Some(FieldValue::Number(self.condition)),
            Field::Penalty => Some(FieldValue::Number(self.penalty)),
        }
    }
}

/// A ratio of eigenvalues from which on the features are taken to depend on each other.
const SINGULAR: f64 = 1e-12;

/// `Σ (a . v)(b . v)` over rows, for v = (1, s) and sparse a and b.
fn product(moments: &Moments, a: &SquareTerms, b: &SquareTerms) -> Noisy {
    let mut sum = Noisy::zero();
    for (i, x) in a.0 {
        for (j, y) in b.0 {
            sum.add(x * y, moments.sum(i, j));
        }
    }
    sum
}

/// What a scaled column is in terms of 1 and of one scaled value: positions and factors.
struct SquareTerms([(usize, f64); 2]);

/// The columns that are solved for, each within [-1, 1], and how coefficients come back from them.
struct Design {
    y: SquareTerms,
    columns: Vec<SquareTerms>,
    /// Where the constant column stands. It is solved for as 1, and is not penalised.
    constant: Option<usize>,
    /// How many of y's units one unit of the scaled y is.
    of_y: f64,
    /// `coefficients = back * solution + offset`.
    back: Vec<Vec<f64>>,
    offset: Vec<f64>,
}

impl Design {
    /// With a constant, values are counted from the middles of their ranges: what that moves is in
    /// the constant's coefficient. Without one, columns are scaled alone.
    fn new(scales: &[Scale], y: usize, features: &[Feature]) -> Self {
        let size = features.len();
        let is_constant = |feature: &Feature| matches!(feature, Feature::Constant(_));
        let constant = features.iter().position(is_constant);
        let column = |value: usize| {
            let Scale { middle, half } = scales[value];
            let whole = middle.abs() + half;
            match constant {
                Some(_) => (SquareTerms([(0, 0.0), (value + 1, 1.0)]), half),
                None => {
                    let terms = [(0, middle / whole), (value + 1, half / whole)];
                    (SquareTerms(terms), whole)
                }
            }
        };
        let (y_terms, of_y) = column(y);
        let mut design = Self {
            y: y_terms,
            columns: Vec::new(),
            constant,
            of_y,
            back: vec![vec![0.0; size]; size],
            offset: vec![0.0; size],
        };
        for (at, feature) in features.iter().enumerate() {
            match feature {
                Feature::Constant(number) => {
                    design.columns.push(SquareTerms([(0, 1.0), (0, 0.0)]));
                    design.back[at][at] = of_y / number;
                    design.offset[at] = scales[y].middle / number;
                }
                Feature::Value(value) => {
                    let (terms, scale) = column(*value);
                    design.columns.push(terms);
                    design.back[at][at] = of_y / scale;
                }
            }
        }
        if let Some(constant) = constant
            && let Feature::Constant(number) = features[constant]
        {
            for (at, feature) in features.iter().enumerate() {
                if let Feature::Value(value) = feature {
                    design.back[constant][at] =
                        -design.back[at][at] * scales[*value].middle / number;
                }
            }
        }
        design
    }

    /// The greatest size of each column's gradient at which its coefficient may be zero, where the
    /// sum of the coefficients' sizes has this penalty. A row adds at most 1 to a gradient, and
    /// noise adds less than `MOST` for each row: larger penalties have the same solution.
    fn bounds(&self, l1: f64, rows: &Noisy) -> Vec<Noisy> {
        const MOST: f64 = (1u64 << 63) as f64;
        let of = |at: usize| match Some(at) == self.constant {
            true => Noisy::zero(),
            false => {
                let of_row = l1 / self.of_y * (self.back[at][at].abs() / self.of_y);
                rows.clone().scale(of_row.min(MOST))
            }
        };
        (0..self.columns.len()).map(of).collect()
    }
}

/// The least-squares fit of the first value by these features.
///
/// Noise may leave the matrix of the columns without a positive least eigenvalue. Then so much is
/// added to its diagonal that the least one is twice the size that a matrix of the noise alone has:
/// the coefficients shrink towards "no effect". All of it is computed from released sums.
///
/// With a penalty l1 it is the b that minimises `Σ (y - x . b)² / (2 n) + l1 Σ |b_j|` over the n
/// rows; the constant is not penalised.
///
/// `None` where there is no row, where the columns depend on each other, or where a number is too
/// large or too small for `f64`.
///
/// # Reference
/// Sheffet 2017, "Differentially private ordinary least squares" (arXiv 1507.02482), for least
/// squares from noisy moments. Wang 2018, "Revisiting differentially private linear regression"
/// (arXiv 1803.02596), for a penalty by the least eigenvalue; there it is released with noise for a
/// third of the budget, here it is that of the released matrix.
pub fn fit(moments: &Moments, regression: &Regression) -> Option<RegressionFit> {
    let Regression { features, l1 } = regression;
    let design = Design::new(&moments.scales, 0, features);
    let (size, rows) = (features.len(), moments.rows());
    if rows.value <= 0.0 {
        return None;
    }
    let products = products(moments, &design);
    let entry = |i: usize, j: usize| &products[i * (i + 1) / 2 + j];
    let matrix = Symmetric::new(size, |i, j| entry(i, j).value);
    let penalty = penalty(&design, size, &entry)?;
    let solved = Symmetric::new(size, |i, j| {
        let is_penalised = i == j && Some(i) != design.constant;
        entry(i, j).value + if is_penalised { penalty } else { 0.0 }
    });
    let eigenvalues = solved.eigenvalues()?;
    let condition = eigenvalues.last()? / eigenvalues.first()?;
    let right: Vec<Noisy> = (0..size)
        .map(|i| product(moments, &design.columns[i], &design.y))
        .collect();
    let entry = |i: usize, j: usize| entry(i.max(j), i.min(j));
    let least = match *l1 > 0.0 {
        false => Solution::new(&solved, &right, &entry)?,
        true => {
            let bounds = design.bounds(*l1, rows);
            lasso::solve(&solved, &right, &entry, Sizes(&bounds))?
        }
    };
    let squares = product(moments, &design.y, &design.y).value;
    let rest = rest(&matrix, &right, &least.at, squares)?;
    let mut fit = RegressionFit {
        coef: Vec::new(),
        std_err: None,
        noise_err: Vec::new(),
        r2: r2(moments, &design, squares, rest),
        condition,
        penalty,
    };
    for (back, offset) in design.back.iter().zip(&design.offset) {
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut of_noise = Noisy::zero();
        back.iter()
            .zip(&least.noise)
            .for_each(|(factor, noise)| of_noise.add(*factor, noise));
        fit.coef.push(product(back, &least.at) + offset);
        fit.noise_err.push(of_noise.variance().sqrt());
    }
    let freedom = rows.value - size as f64;
    if freedom > 0.0 && *l1 == 0.0 {
        let of_rows = rest / freedom;
        fit.std_err = Some(sampling(
            &design,
            &matrix,
            &solved,
            of_rows,
            &fit.noise_err,
        )?);
    }
    let of_each = fit.std_err.iter().flatten();
    let numbers = fit.coef.iter().chain(&fit.noise_err).chain(of_each);
    let is_finite = numbers
        .chain(&fit.r2)
        .chain([&fit.condition])
        .all(|x| x.is_finite());
    is_finite.then_some(fit)
}

/// The sum of squares that a solution leaves.
fn rest(matrix: &Symmetric, right: &[Noisy], solution: &[f64], squares: f64) -> Option<f64> {
    let explained: f64 = right.iter().zip(solution).map(|(b, x)| b.value * x).sum();
    let rest = squares - 2.0 * explained + matrix.form(solution, solution);
    rest.is_finite().then_some(rest.max(0.0))
}

/// The errors of sampling and noise together, where `of_rows` is the variance of a row about the
/// fit.
fn sampling(
    design: &Design,
    matrix: &Symmetric,
    solved: &Symmetric,
    of_rows: f64,
    noise: &[f64],
) -> Option<Vec<f64>> {
    let inverse = solved.inverse()?;
    let size = design.columns.len();
    let error = |(back, noise): (&Vec<f64>, &f64)| {
        let turned: Vec<f64> = (0..size)
            .map(|i| (0..size).map(|j| inverse.at(i, j) * back[j]).sum())
            .collect();
        let of_rows = matrix.form(&turned, &turned) * of_rows;
        // `max` would take what is no number for zero.
        let of_rows = if of_rows < 0.0 { 0.0 } else { of_rows };
        (of_rows + noise * noise).sqrt()
    };
    Some(design.back.iter().zip(noise).map(error).collect())
}

/// The lower half of the matrix of the columns' products, row by row.
fn products(moments: &Moments, design: &Design) -> Vec<Noisy> {
    let columns = design.columns.iter().enumerate();
    columns
        .flat_map(|(i, a)| design.columns[..=i].iter().map(move |b| (a, b)))
        .map(|(a, b)| product(moments, a, b))
        .collect()
}

/// What is added to the diagonal: as much as brings the least eigenvalue of the columns about their
/// means to `2 sigma sqrt(d + 1)`, where sigma is the noise of one entry and d their number. `None`
/// where the columns depend on each other and no noise hides that.
///
/// # Reference
/// Vershynin 2018, "High-dimensional probability", corollary 4.4.8: a symmetric matrix of d rows
/// with entries of deviation sigma has a norm of about `2 sigma sqrt(d)`.
fn penalty<'n>(
    design: &Design,
    size: usize,
    entry: &impl Fn(usize, usize) -> &'n Noisy,
) -> Option<f64> {
    let others: Vec<usize> = (0..size).filter(|i| Some(*i) != design.constant).collect();
    let about_means = |i: usize, j: usize| {
        let mut own = entry(i, j).clone();
        if let Some(constant) = design.constant {
            let with_one = |i: usize| entry(i.max(constant), i.min(constant));
            let rows = entry(constant, constant);
            let means = (
                with_one(i).value / rows.value,
                with_one(j).value / rows.value,
            );
            own.add(-means.1, with_one(i));
            own.add(-means.0, with_one(j));
            own.add(means.0 * means.1, rows);
        }
        own
    };
    let reduced: Vec<Vec<Noisy>> = others
        .iter()
        .enumerate()
        .map(|(at, i)| others[..=at].iter().map(|j| about_means(*i, *j)).collect())
        .collect();
    let count = others.len();
    if count == 0 {
        return Some(0.0);
    }
    let off = |at: usize| {
        reduced[at][..at]
            .iter()
            .map(|e| 2.0 * e.variance())
            .sum::<f64>()
    };
    let variances: f64 = (0..count)
        .map(|at| off(at) + reduced[at][at].variance())
        .sum();
    let deviation = variances.sqrt() / count as f64;
    let eigenvalues = Symmetric::new(count, |i, j| reduced[i][j].value).eigenvalues()?;
    let (least, greatest) = (eigenvalues.first()?, eigenvalues.last()?);
    let penalty = (2.0 * deviation * ((count + 1) as f64).sqrt() - least).max(0.0);
    (least + penalty > SINGULAR * (greatest + penalty)).then_some(penalty)
}

/// The part of y's squares about its mean that the fit explains.
fn r2(moments: &Moments, design: &Design, squares: f64, rest: f64) -> Option<f64> {
    let one = SquareTerms([(0, 1.0), (0, 0.0)]);
    let sum = product(moments, &design.y, &one).value;
    let about_mean = squares - sum * sum / moments.rows().value;
    let share = (about_mean > SINGULAR * squares).then(|| 1.0 - rest / about_mean)?;
    // Without a constant the mean may explain more than the fit.
    let least = if design.constant.is_some() {
        0.0
    } else {
        f64::NEG_INFINITY
    };
    Some(share.max(least))
}

#[cfg(test)]
mod tests;
