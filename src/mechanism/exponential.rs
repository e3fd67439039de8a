//! The exponential mechanism: one candidate out of many, the likelier the better it fits; drawn
//! exactly.

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};

use super::loss::{Fixed, Loss};
use super::random::Randomness;
use super::samplers::{SampleError, below};

/// Bits of the first enclosure; more are taken where they do not decide.
const BITS: u32 = 128;
/// Rounds of more bits; each is reached with probability below 2^-80 of the one before.
const ROUNDS: u32 = 8;
/// Further bits within a product of many.
const SPARE: u32 = 32;
/// Relative margin on rho and mu^2.
const MARGIN: f64 = 1e-11;

/// The strength of a draw: a candidate of penalty p has weight exp(-`eta` p / `width`).
///
/// `eta` is in units of 2^-30. `width` is the most by which one unit moves two candidates'
/// penalties apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exponential {
    pub eta: u64,
    pub width: BigUint,
}

/// Candidates that lie side by side: of one penalty, or each of `step` more than the one before;
/// then their number is a power of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateRun {
    pub penalty: BigUint,
    pub candidates: u64,
    pub step: BigUint,
}

impl CandidateRun {
    /// Candidates of one penalty.
    pub fn level(penalty: BigUint, candidates: u64) -> Self {
        Self {
            penalty,
            candidates,
            step: BigUint::ZERO,
        }
    }

    /// One candidate.
    pub fn one(penalty: BigUint) -> Self {
        Self::level(penalty, 1)
    }

    /// Binary digits of a place in it, where penalties rise.
    fn digits(&self) -> u32 {
        if self.step.is_zero() {
            0
        } else {
            self.candidates.max(1).ilog2()
        }
    }
}

impl Exponential {
    /// Largest eta not above `value`, at least one unit; `None` past 2^10, where nothing is hidden
    /// any more.
    pub fn eta(value: f64) -> Option<u64> {
        (value > 0.0 && value < 1024.0)
            .then(|| ((value * (1u64 << 30) as f64).floor() as u64).max(1))
    }

    /// What one draw costs, or one a group where one unit's influence over all groups together is
    /// within `width`.
    ///
    /// # Guarantee
    /// The draw is eta-bounded-range: pure epsilon eta, rho eta^2/8, mu = 2 `quantile`(e^(eta/2) /
    /// (1 + e^(eta/2))) <= sqrt(pi/8) eta, rounded up. With groups g in which one unit has shares
    /// w_g of the width, sum w_g <= 1: the etas w_g eta add up to at most eta, their squares to at
    /// most eta^2, so that the linear bound of mu holds for all groups together.
    ///
    /// # Requires
    /// Penalties of any two candidates move apart by at most `width` in all, in all groups
    /// together, when one unit comes or goes.
    ///
    /// # Reference
    /// Dong, Durfee, Rogers 2020 (arXiv 1909.13830), bounded range; Cesar, Rogers 2021 (arXiv
    /// 2004.07223) for rho. For mu: the losses' two-point law is the worst (a mean-preserving
    /// spread), and quantile(sigmoid) is steepest at 0, with slope sqrt(2 pi)/4.
    pub fn loss(&self) -> Loss {
        let eta = self.eta as f64 / (1u64 << 30) as f64;
        let squared = |factor: f64| Fixed::round_up(factor * eta * eta * (1.0 + MARGIN));
        Loss {
            epsilon: Some(Fixed(u128::from(self.eta) << 30)),
            rho: squared(0.125),
            mu_squared: squared(std::f64::consts::FRAC_PI_8),
            delta: Fixed::ZERO,
        }
    }

    /// What one draw in each group costs where the squares of one unit's shares of the width add up
    /// to at most one.
    ///
    /// # Guarantee
    /// A draw in which the unit has a share w of the width is (w eta)-bounded-range: rho (w eta)^2
    /// / 8, and mu at most sqrt(pi/8) w eta. Both add up over groups by their squares, to what
    /// [`Exponential::loss`] says. No pure epsilon is known: the shares may add up to more than
    /// one.
    ///
    /// # Requires
    /// With `width` times w_g, in each group g, penalties of any two candidates move apart by at
    /// most that when one unit comes or goes, and sum w_g^2 <= 1.
    ///
    /// # Reference
    /// As for [`Exponential::loss`]; composition: Bun, Steinke 2016 (arXiv 1605.02065), Lemma 1.7,
    /// and Dong, Roth, Su 2019 (arXiv 1905.02383), Corollary 3.3.
    pub fn loss_by_squares(&self) -> Loss {
        Loss {
            epsilon: None,
            ..self.loss()
        }
    }

    /// One candidate: the run, and the place in it.
    ///
    /// # Guarantee
    /// The exact law: a uniform number is compared with enclosures of the cumulated weights, and
    /// more bits are taken of both until they decide. In a run of 2^k rising penalties the weight
    /// of place j is the product, over the binary digits of j, of that of the digit alone: the
    /// run's whole weight is a product of sums of two, and the digits are drawn one by one.
    ///
    /// # Errors
    /// [`SampleError`]; nothing is released then.
    pub fn draw<R: Randomness + ?Sized>(
        &self,
        runs: &[CandidateRun],
        random: &mut R,
    ) -> Result<(usize, u64), SampleError> {
        let least = runs
            .iter()
            .filter(|r| r.candidates > 0)
            .map(|r| &r.penalty)
            .min()
            .ok_or(SampleError::Parameter)?;
        if self.width.is_zero()
            || runs
                .iter()
                .any(|r| !r.step.is_zero() && !r.candidates.is_power_of_two())
        {
            return Err(SampleError::Parameter);
        }
        let denominator = &self.width << 30u32;
        let mut uniform = BigUint::ZERO;
        for round in 1..=ROUNDS {
            let bits = BITS * round;
            for _ in 0..BITS / 64 {
                uniform = (uniform << 64u32) + random.next_u64()?;
            }
            let weights: Vec<Enclosure> = runs
                .iter()
                .map(|run| match run.candidates {
                    0 => Enclosure {
                        low: BigUint::ZERO,
                        high: BigUint::ZERO,
                    },
                    _ => self.weight(run, least, &denominator, bits),
                })
                .collect();
            if let Some(run) = decide(&weights, &uniform, bits) {
                return Ok((run, self.place(&runs[run], random)?));
            }
        }
        Err(SampleError::Exhausted)
    }

    fn weight(
        &self,
        run: &CandidateRun,
        least: &BigUint,
        denominator: &BigUint,
        bits: u32,
    ) -> Enclosure {
        let first = Enclosure::exp_minus(&((&run.penalty - least) * self.eta), denominator, bits);
        if run.step.is_zero() || first.low.is_zero() {
            return Enclosure {
                low: if run.step.is_zero() {
                    first.low * run.candidates
                } else {
                    BigUint::ZERO
                },
                high: first.high * run.candidates,
            };
        }
        // The digits' own weights are squares of one another.
        let working = bits + SPARE;
        let mut digit = Enclosure::exp_minus(&(&run.step * self.eta), denominator, working);
        let mut product = Enclosure {
            low: first.low << SPARE,
            high: first.high << SPARE,
        };
        for _ in 0..run.digits() {
            product = Enclosure {
                low: &product.low + ((&product.low * &digit.low) >> working),
                high: &product.high + ((&product.high * &digit.high) >> working) + 1u8,
            };
            digit = Enclosure {
                low: (&digit.low * &digit.low) >> working,
                high: ((&digit.high * &digit.high) >> working) + 1u8,
            };
        }
        Enclosure {
            low: product.low >> SPARE,
            high: (product.high >> SPARE) + 1u8,
        }
    }

    fn place<R: Randomness + ?Sized>(
        &self,
        run: &CandidateRun,
        random: &mut R,
    ) -> Result<u64, SampleError> {
        if run.step.is_zero() {
            return below(u128::from(run.candidates), random)?
                .to_u64()
                .ok_or(SampleError::Parameter);
        }
        let mut place = 0;
        for digit in 0..run.digits() {
            let (set, _) = self.draw(
                &[
                    CandidateRun::one(BigUint::ZERO),
                    CandidateRun::one(&run.step << digit),
                ],
                random,
            )?;
            place |= (set as u64) << digit;
        }
        Ok(place)
    }
}

/// The index whose share of the total holds `uniform / 2^bits` for certain, if the enclosures show
/// it.
fn decide(weights: &[Enclosure], uniform: &BigUint, bits: u32) -> Option<usize> {
    let total = weights.iter().fold(
        Enclosure {
            low: BigUint::ZERO,
            high: BigUint::ZERO,
        },
        |sum, w| sum.plus(w),
    );
    let (from, to) = (uniform * &total.low, (uniform + 1u8) * &total.high);
    let mut below = Enclosure {
        low: BigUint::ZERO,
        high: BigUint::ZERO,
    };
    let last = weights.iter().rposition(|w| !w.high.is_zero())?;
    for (at, weight) in weights.iter().enumerate() {
        let upto = below.plus(weight);
        let starts = (&below.high << bits) <= from;
        let ends = at == last || to <= (&upto.low << bits);
        if starts && ends && !weight.high.is_zero() {
            return Some(at);
        }
        below = upto;
    }
    None
}

/// Integers around a number times 2^bits.
#[derive(Debug, Clone)]
struct Enclosure {
    low: BigUint,
    high: BigUint,
}

impl Enclosure {
    fn plus(&self, other: &Self) -> Self {
        Self {
            low: &self.low + &other.low,
            high: &self.high + &other.high,
        }
    }

    /// Around 2^bits exp(-numerator / denominator).
    fn exp_minus(numerator: &BigUint, denominator: &BigUint, bits: u32) -> Self {
        let whole = numerator / denominator;
        if whole >= BigUint::from(bits) {
            // Below e^-bits, hence below 2^-bits.
            return Self {
                low: BigUint::ZERO,
                high: BigUint::one(),
            };
        }
        // Halved until below 1, then squared as often.
        let halvings = whole.bits() as u32;
        let working = bits + 2 * halvings + 32;
        let x = (numerator << working) / (denominator << halvings);
        let one = BigUint::one() << working;
        let mut power = Self {
            low: series(&(&x + 1u8).min(one.clone()), working, false),
            high: series(&x, working, true).min(one),
        };
        for _ in 0..halvings {
            let high = &power.high * &power.high;
            power = Self {
                low: (&power.low * &power.low) >> working,
                high: (high >> working) + 1u8,
            };
        }
        let excess = working - bits;
        Self {
            low: power.low >> excess,
            high: (power.high >> excess) + 1u8,
        }
    }
}

/// A bound of 2^working exp(-x / 2^working) for 0 <= x <= 2^working: from above if `above`, else
/// from below. Each term is rounded down from one that is, so it lacks less than 2; fewer than 250
/// terms differ from 0, the rest of the series is less than its first.
fn series(x: &BigUint, working: u32, above: bool) -> BigUint {
    let slack = BigUint::from(1000u32);
    let mut term = BigUint::one() << working;
    let (mut plus, mut minus) = (term.clone(), BigUint::ZERO);
    let mut n = 1u32;
    while !term.is_zero() {
        term = ((&term * x) >> working) / n;
        if n % 2 == 1 {
            minus += &term
        } else {
            plus += &term
        }
        n += 1;
    }
    if above {
        plus + slack - minus
    } else {
        let spent = minus + slack;
        if plus > spent {
            plus - spent
        } else {
            BigUint::ZERO
        }
    }
}

#[cfg(test)]
mod tests;
