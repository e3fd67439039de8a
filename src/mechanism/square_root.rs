//! Running totals of periods with less noise than sums of noisy periods have.
//!
//! A total is a row of the matrix A of ones on and below the diagonal. A has a square root L, which
//! is lower triangular and constant along diagonals: f_0 = 1, f_k = f_(k-1) (1 - 1 / (2 k)), as the
//! series of (1 - z)^(-1/2) squared is that of 1 / (1 - z). What is drawn is C x + noise, where x
//! has the sums of the periods and C = floor(2^20 L) has integers alone. Afterwards x is estimated
//! by C^-1, and totals by A C^-1, which is nearly L / 2^20. An entry of C falls with its age, so a
//! late period has few rows to show in, and an early one shows in many, but little.
//!
//! # Reference
//!
//! Fichtenberger, Henzinger, Upadhyay 2023 (arXiv 2202.11205); Henzinger, Upadhyay, Upadhyay 2023
//! (arXiv 2211.05006). The reference values of the tests were computed by an independent program.

use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_traits::{One, ToPrimitive};

use super::calibration::{Calibrated, CalibrationError};
use super::gaussian::gaussian_finer;
use super::loss::Mu;
use super::noise::Noise;

/// The integers of C are in steps of 2^-20.
const SCALE_BITS: u32 = 20;

/// Entries are computed with this many bits more.
const GUARD_BITS: u32 = 64;

/// The weights of totals are in steps of 2^-160. Each is within 2^-148 of its value.
const WEIGHT_BITS: u32 = 160;

/// The most periods of a horizon with running totals: undoing C takes their square in steps.
pub const TOTALS_MAX: u32 = 1_000;

/// The matrix C for a number of periods: its entry at a row and a column is that of their distance,
/// the age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SquareRoot {
    entries: Vec<u64>,
}

/// The noise of running totals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TotalsNoise {
    /// The noise that is drawn for a row of C x.
    pub drawn: Calibrated,
    /// The noise of the estimate of a period, at most.
    pub of_period: Calibrated,
}

/// Root mean squares over a horizon, in terms of the noise of a period that is bought alone: when
/// totals are drawn by the square root, and when periods are drawn and added up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TotalsErrors {
    pub totals: f64,
    pub totals_by_period: f64,
    pub periods: f64,
    pub periods_by_period: f64,
}

impl TotalsErrors {
    /// Whether totals have less noise by the square root.
    pub fn is_root_better(&self) -> bool {
        self.totals < self.totals_by_period
    }
}

impl SquareRoot {
    /// The matrix for this many periods.
    pub fn new(periods: u32) -> Self {
        let mut entry = 1u128 << (SCALE_BITS + GUARD_BITS);
        let mut entries = Vec::with_capacity(periods as usize);
        for age in 0..u128::from(periods) {
            if age > 0 {
                entry = entry * (2 * age - 1) / (2 * age);
            }
            // Below 2^21.
            entries.push((entry >> GUARD_BITS) as u64);
        }
        Self { entries }
    }

    /// The entry for a period that is this many periods old; zero past the last one.
    pub fn entry(&self, age: usize) -> u64 {
        self.entries.get(age).copied().unwrap_or(0)
    }

    /// The length of the sum of the first `counted` columns, rounded up.
    ///
    /// # Guarantee
    /// The sum of any `counted` columns is at most as long, and so is the vector of what one unit
    /// adds, at most 1 to each period that counts, under the rules of docs/periods.md. Entries are
    /// not negative and fall with age, so the inner product of two columns falls with the later of
    /// the two and with their distance: those of the first columns are the largest.
    pub fn sensitivity(&self, counted: u32) -> BigUint {
        let counted = counted as usize;
        let mut sum = 0u64;
        let mut squares = BigUint::ZERO;
        for row in 0..self.entries.len() {
            sum += self.entries[row];
            if row >= counted {
                sum -= self.entries[row - counted];
            }
            squares += BigUint::from(sum) * sum;
        }
        let root = squares.sqrt();
        match &root * &root == squares {
            true => root,
            false => root + 1u32,
        }
    }

    /// The weights of totals: the total up to period n is the sum over i from 0 to n of the weight
    /// of n - i times row i, shifted right by [`Self::shift`].
    pub fn weights_of_totals(&self) -> Vec<BigInt> {
        let of_periods = self.weights_of_periods();
        let add = |sum: &mut BigInt, weight: BigInt| {
            *sum += weight;
            Some(sum.clone())
        };
        of_periods.into_iter().scan(BigInt::ZERO, add).collect()
    }

    /// The series of 1 / C, in the same steps.
    fn weights_of_periods(&self) -> Vec<BigInt> {
        let mut weights: Vec<BigInt> = Vec::with_capacity(self.entries.len());
        for n in 0..self.entries.len() {
            let next = match n {
                0 => BigInt::one() << (WEIGHT_BITS - SCALE_BITS),
                _ => {
                    let terms = (1..=n).map(|age| &weights[n - age] * self.entries[age]);
                    let sum: BigInt = terms.sum();
                    -sum.div_floor(&(BigInt::one() << SCALE_BITS))
                }
            };
            weights.push(next);
        }
        weights
    }

    /// By how many bits sums with [`Self::weights_of_totals`] are shifted right.
    pub fn shift(&self) -> u32 {
        WEIGHT_BITS
    }

    /// The weights of totals as numbers: that of each age of a row.
    pub fn factors_of_totals(&self) -> Vec<f64> {
        let of_periods = self.factors_of_periods().into_iter();
        let add = |sum: &mut f64, factor: f64| {
            *sum += factor;
            Some(*sum)
        };
        of_periods.scan(0.0, add).collect()
    }

    /// The series of 1 / C as numbers.
    fn factors_of_periods(&self) -> Vec<f64> {
        let scale = f64::from(SCALE_BITS).exp2();
        let mut factors: Vec<f64> = Vec::with_capacity(self.entries.len());
        for n in 0..self.entries.len() {
            let terms = (1..=n).map(|age| factors[n - age] * (self.entries[age] as f64 / scale));
            let next = if n == 0 {
                1.0 / scale
            } else {
                -terms.sum::<f64>()
            };
            factors.push(next);
        }
        factors
    }

    /// The deviation of each total up to a period, in terms of that of a row's noise.
    pub fn deviations_of_totals(&self) -> Vec<f64> {
        lengths(&self.factors_of_totals())
    }

    /// The deviation of the estimate of each period, in terms of that of a row's noise.
    pub fn deviations_of_periods(&self) -> Vec<f64> {
        lengths(&self.factors_of_periods())
    }

    /// The errors with and without this matrix, where `counted` periods of a unit count.
    pub fn errors(&self, counted: u32) -> TotalsErrors {
        let periods = self.entries.len() as f64;
        let length = self.sensitivity(counted).to_f64().unwrap_or(f64::INFINITY);
        let mean = |of: Vec<f64>| {
            let squares: f64 = of.iter().map(|one| one * one).sum();
            length * (squares / periods).sqrt()
        };
        let counted = f64::from(counted);
        TotalsErrors {
            totals: mean(self.deviations_of_totals()),
            totals_by_period: (counted * (periods + 1.0) / 2.0).sqrt(),
            periods: mean(self.deviations_of_periods()),
            periods_by_period: counted.sqrt(),
        }
    }

    /// Gaussian noise for the rows of C x, where at most `counted` periods of a unit count, each
    /// within `clip`. `finer` is by how many bits the grid of x is refined where its periods are
    /// drawn apart.
    ///
    /// # Guarantee
    /// The noise is that of [`super::gaussian`] for the clip times [`Self::sensitivity`]. So the
    /// rows of C x of a horizon, each drawn once in the order of docs/periods.md, are mu-GDP
    /// together.
    ///
    /// # Requires
    /// The caller has proved the L2 bound `clip` for each period of a unit, and this coordinate's
    /// `weight`. Independent draws. Of each unit the same rule chooses the periods for all rows.
    ///
    /// # Errors
    /// [`CalibrationError`]; depends on the arguments alone, which are public.
    ///
    /// # Reference
    /// docs/periods.md; Dong, Roth, Su 2019 (arXiv 1905.02383), Theorem 2.7.
    pub fn noise(
        &self,
        (clip, weight): (&BigUint, &BigUint),
        mu: Mu,
        (counted, finer): (u32, u32),
    ) -> Result<TotalsNoise, CalibrationError> {
        let longest = clip * self.sensitivity(counted);
        let drawn = gaussian_finer(&longest, weight, mu, finer)?;
        let most = self.deviations_of_periods().into_iter().fold(0.0, f64::max);
        Ok(TotalsNoise {
            drawn,
            of_period: Calibrated::by_its_law(scale_noise(drawn.noise, most), drawn.refine),
        })
    }
}

/// The noise of a draw that is multiplied by a factor, for what is shown of it.
pub fn scale_noise(noise: Noise, factor: f64) -> Noise {
    let scale = |scale: u64| ((scale as f64 * factor).ceil() as u64).max(1);
    match noise {
        Noise::Gaussian { sigma } => Noise::Gaussian {
            sigma: scale(sigma),
        },
        Noise::Laplace { scale: of } => Noise::Laplace { scale: scale(of) },
    }
}

/// The lengths of the first factors, for each number of them.
fn lengths(factors: &[f64]) -> Vec<f64> {
    let add = |squares: &mut f64, factor: &f64| {
        *squares += factor * factor;
        Some(squares.sqrt())
    };
    factors.iter().scan(0.0, add).collect()
}

#[cfg(test)]
mod tests {
    use num_traits::Signed;

    use super::*;

    fn close(actual: f64, expected: f64, digits: i32) {
        let most = 0.5 * 10f64.powi(-digits) * (1.0 + 1e-9);
        assert!(
            (actual - expected).abs() <= most,
            "{actual} is not {expected}"
        );
    }

    /// The root in units of one, where C has integers.
    fn length(periods: u32, counted: u32) -> f64 {
        let length = SquareRoot::new(periods).sensitivity(counted);
        length.to_f64().unwrap() / f64::from(1 << SCALE_BITS)
    }

    /// Entries are the whole parts of 2^20 binomial(2 k, k) / 4^k.
    #[test]
    fn entries_are_rounded_down_and_fall_with_age() {
        let root = SquareRoot::new(TOTALS_MAX);
        let mut binomial = BigUint::one();
        for age in 0..TOTALS_MAX {
            if age > 0 {
                binomial = binomial * (2 * (2 * age - 1)) / age;
            }
            let exact = (&binomial << SCALE_BITS) >> (2 * age);
            assert_eq!(BigUint::from(root.entry(age as usize)), exact, "{age}");
        }
        assert!(root.entries.windows(2).all(|two| two[0] > two[1]));
        assert!(root.entry(TOTALS_MAX as usize - 1) > 0);
        assert_eq!(root.entry(TOTALS_MAX as usize), 0);
    }

    /// The longest total and the root mean square of all, with one period of a unit: (ln T + 0.5772
    /// + ln 16) / pi, nearly.
    #[test]
    fn errors_are_those_that_were_computed_elsewhere() {
        for (periods, most, rms, by_period) in [
            (12u32, 1.851, 1.709, 2.55),
            (52, 2.322, 2.162, 5.15),
            (90, 2.498, 2.337, 6.75),
            (365, 2.944, 2.782, 13.53),
        ] {
            let root = SquareRoot::new(periods);
            let scale = f64::from(1 << SCALE_BITS);
            let longest = *root.deviations_of_totals().last().unwrap() * scale;
            close(longest * length(periods, 1), most, 3);
            let errors = root.errors(1);
            close(errors.totals_by_period, by_period, 2);
            if periods != 52 {
                close(errors.totals, rms, 3);
            }
            assert!(errors.is_root_better());
            assert_eq!(errors.periods_by_period, 1.0);
        }
        for (periods, counted, by_root, by_period) in [
            (12u32, 5, 6.705, 5.701),
            (90, 5, 10.035, 15.083),
            (365, 5, 12.275, 30.249),
            (90, 30, 48.811, 36.946),
            (365, 30, 63.435, 74.095),
        ] {
            let errors = SquareRoot::new(periods).errors(counted);
            close(errors.totals, by_root, 2);
            close(errors.totals_by_period, by_period, 2);
            assert_eq!(errors.is_root_better(), by_root < by_period);
        }
    }

    #[test]
    fn the_first_columns_are_the_longest() {
        close(length(365, 5), 7.572, 3);
        close(length(365, 30), 39.131, 3);
        close(length(90, 1), 1.580, 3);
        close(length(90, 2), 2.951, 3);
        // Every set of three columns of twelve, exactly.
        let root = SquareRoot::new(12);
        let longest = root.sensitivity(3).pow(2);
        let mut seen = BigUint::ZERO;
        for a in 0..12usize {
            for b in a + 1..12 {
                for c in b + 1..12 {
                    let of_row = |row: usize| -> u64 {
                        let columns = [a, b, c].into_iter().filter(|at| *at <= row);
                        columns.map(|at| root.entry(row - at)).sum()
                    };
                    let squares = (0..12).map(|row| BigUint::from(of_row(row)).pow(2)).sum();
                    seen = seen.max(squares);
                }
            }
        }
        assert!(seen <= longest && &seen + root.sensitivity(3) * 2u32 > longest);
    }

    /// The weights undo C: of rows without noise they give the totals.
    #[test]
    fn totals_are_exact_without_noise() {
        let root = SquareRoot::new(400);
        let values: Vec<i64> = (0..400).map(|n| (n * 7_919) % 1_000 - 300).collect();
        let row = |t: usize| -> BigInt {
            let terms = (0..=t).map(|j| BigInt::from(values[j]) * root.entry(t - j));
            terms.sum()
        };
        let rows: Vec<BigInt> = (0..400).map(row).collect();
        let weights = root.weights_of_totals();
        let factors = root.factors_of_totals();
        for (weight, factor) in weights.iter().zip(&factors) {
            let weight = weight.to_f64().unwrap() / f64::from(WEIGHT_BITS).exp2();
            assert!((weight / factor - 1.0).abs() < 1e-10);
        }
        let half = BigInt::one() << (root.shift() - 1);
        for n in 0..400 {
            let sum: BigInt = (0..=n).map(|i| &weights[n - i] * &rows[i]).sum();
            let total: i64 = values[..=n].iter().sum();
            assert_eq!((sum.clone() + &half) >> root.shift(), BigInt::from(total));
            let off = sum - (BigInt::from(total) << root.shift());
            assert!(off.abs() < BigInt::one() << (root.shift() - 100));
        }
    }

    #[test]
    fn noise_is_for_the_clip_times_the_longest_columns() {
        let root = SquareRoot::new(365);
        let (clip, weight) = (BigUint::from(9u32), BigUint::from(1u32));
        let mu = Mu(1 << 28);
        let noise = root.noise((&clip, &weight), mu, (5, 30)).unwrap();
        let deviation = noise.drawn.noise.standard_deviation();
        let grid = f64::from(noise.drawn.refine).exp2();
        let wanted = 9.0 * 7.572_4 * f64::from(1 << SCALE_BITS) * 4.0;
        assert!((deviation / grid / wanted - 1.0).abs() < 1e-4);
        assert_eq!(noise.drawn.refine, noise.of_period.refine);
        let of_period = noise.of_period.noise.standard_deviation() / grid;
        assert!((of_period / (9.0 * 4.0 * root.errors(5).periods) - 1.0).abs() < 1e-3);
        let wide = BigUint::one() << 100u32;
        assert!(root.noise((&wide, &weight), mu, (5, 0)).is_err());
    }
}
