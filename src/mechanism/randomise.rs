//! The local model's other side: makes a report of a true value, with integers alone.
//!
//! A probability is a threshold below 2^64: an event happens where a uniform word is below it.

use super::exp::exp;
use super::local::Randomiser;
use super::random::{RandomError, Randomness};
use super::rappor::FilterThresholds;

/// 2^64, the number of words.
const WORDS: u128 = 1 << 64;
/// Binary digits of a fixed-point number here.
const DIGITS: u32 = 60;
/// By how much odds stay below the declared ones. It is far above what a double rounds off, so that
/// an epsilon computed in doubles is never below what a report costs.
const MARGIN: f64 = 1e-11;

/// The odds of a randomiser as integers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Odds {
    /// The second of two values is reported with these probabilities, where it is the true one and
    /// where the first is.
    Coin { hit: u64, miss: u64 },
    /// The true value of a list with probability `truth`, and each of the others with `other`.
    KRr { truth: u64, other: u64 },
    /// A bit is set with probability `one` where it is the true value's, and with `zero` elsewhere.
    Unary { one: u64, zero: u64 },
    /// A bit is set with probability `least` at the lower bound, and clear with `least` at the
    /// upper one.
    Mean { least: u64 },
    /// A permanent bit is not the value's with probability `lie`. A bit of a report is set with
    /// probability `set` where the permanent one is, and with `clear` elsewhere.
    Rappor { lie: u128, clear: u128, set: u128 },
}

impl Odds {
    /// The odds of a randomiser over a list of this many values. `None` where a report would
    /// exclude some true value, and where the list has fewer than two values.
    ///
    /// # Guarantee
    /// No report is more than `e^epsilon` times as likely under one true value as under another,
    /// with `epsilon` that of [`Randomiser::epsilon`]: `other = ceil(2^64 / (E + k - 1))` and
    /// `truth = 2^64 - (k - 1) other` give `truth / other <= E`, where `E` is below `e^epsilon`;
    /// `hit` and `one` are rounded down, `miss` and `zero` up. Of `Rappor`, all reports of one
    /// value together.
    ///
    /// # Reference
    /// Warner 1965; Kairouz, Oh, Viswanath 2014 (k-ary randomised response); Wang et al. 2017,
    /// section 4.3; Duchi, Jordan, Wainwright 2018, section 4.1.
    pub fn of(randomiser: &Randomiser, values: usize) -> Option<Self> {
        // Epsilons of coins and bits are computed, and may be off in the last digits.
        let is_private = randomiser.epsilon() <= EPSILON_MAX * (1.0 + MARGIN);
        if values < 2 || !is_private {
            return None;
        }
        let between = |likely: f64, rare: f64| {
            let down = (likely * (1.0 - MARGIN) * WORDS as f64).floor() as u64;
            let up = (rare * (1.0 + MARGIN) * WORDS as f64).ceil() as u64;
            (up >= 1 && up < down).then_some((down, up))
        };
        match *randomiser {
            Randomiser::Coin { truth, yes } => {
                let miss = (1.0 - truth) * yes;
                let (hit, miss) = between(truth + miss, miss)?;
                Some(Self::Coin { hit, miss })
            }
            Randomiser::KRr { epsilon } => {
                let other = least(epsilon, values)?;
                let truth = WORDS - (values as u128 - 1) * u128::from(other);
                let truth = u64::try_from(truth).ok()?;
                (truth > other).then_some(Self::KRr { truth, other })
            }
            Randomiser::Unary { one, zero } => {
                let (one, zero) = between(one, zero)?;
                Some(Self::Unary { one, zero })
            }
            Randomiser::Mean { epsilon } => Some(Self::Mean {
                least: least(epsilon, 2)?,
            }),
            Randomiser::Rappor(of) => {
                let FilterThresholds { lie, clear, set } = of.thresholds();
                (lie >= 1 && clear < set).then_some(Self::Rappor { lie, clear, set })
            }
        }
    }

    /// A report of the value at this place in a list, as a place in it. `values` is the length of
    /// the list. Filters are no places: of them, the first, whatever the value is.
    ///
    /// # Errors
    /// [`RandomError`] where there is no random word. Nothing may be stored then.
    pub fn place(
        &self,
        (place, values): (usize, usize),
        random: &mut dyn Randomness,
    ) -> Result<usize, RandomError> {
        let word = random.next_u64()?;
        Ok(self.place_of(word, (place, values)))
    }

    fn place_of(&self, word: u64, (place, values): (usize, usize)) -> usize {
        match *self {
            Self::Coin { hit, miss } => usize::from(word < if place == 1 { hit } else { miss }),
            Self::KRr { truth, other } if word >= truth => {
                // The words past `truth` are `values - 1` runs of `other` words.
                let another = usize::try_from((word - truth) / other).unwrap_or(0);
                let another = another.min(values.saturating_sub(2));
                another + usize::from(another >= place)
            }
            Self::KRr { .. } => place,
            Self::Unary { one, zero } => usize::from(word < if place == 1 { one } else { zero }),
            // Of the two ends of the bounds.
            Self::Mean { least } => {
                let threshold = if place == 1 {
                    least.wrapping_neg()
                } else {
                    least
                };
                usize::from(word < threshold)
            }
            Self::Rappor { .. } => 0,
        }
    }

    /// A report of a number, whose place between its bounds is `part`, from 0 to 1. Of lists, that
    /// of the first or of the last value.
    ///
    /// # Guarantee
    /// Whatever `part` is, the bit is set with a probability from `least / 2^64` to
    /// `1 - least / 2^64`.
    ///
    /// # Errors
    /// As [`Self::place`].
    pub fn number(&self, part: f64, random: &mut dyn Randomness) -> Result<bool, RandomError> {
        let word = random.next_u64()?;
        Ok(word < self.threshold(part))
    }

    /// The words for which a number's bit is set.
    fn threshold(&self, part: f64) -> u64 {
        let Self::Mean { least } = *self else {
            return 0;
        };
        let most = least.wrapping_neg();
        let above = (part.clamp(0.0, 1.0) * (most - least) as f64) as u64;
        least.saturating_add(above).min(most)
    }
}

impl Odds {
    /// The odds exactly: what each report is made for, of the 2^64 words.
    pub fn in_words(&self) -> String {
        match self {
            Self::Coin { hit, miss } => {
                format!("the second value for {hit} where it is true and {miss} where it is not")
            }
            Self::KRr { truth, other } => {
                format!("the true value for {truth} and each other for {other}")
            }
            Self::Unary { one, zero } => {
                format!("the true value's bit for {one} and each other for {zero}")
            }
            Self::Mean { least } => format!(
                "a set bit for {least} at the lower bound and at most {} at the upper one",
                least.wrapping_neg()
            ),
            Self::Rappor { lie, clear, set } => format!(
                "permanent bits set for {lie} and clear for as many, whatever the value is; bits \
                    of a report set for {set} where they are set and {clear} elsewhere"
            ),
        }
    }
}

/// The odds as shares of all words, with as many digits as a double has.
impl std::fmt::Display for Odds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = |words: u128| words as f64 / WORDS as f64;
        let share = |words: u64| part(u128::from(words));
        match *self {
            Self::Coin { hit, miss } => write!(
                f,
                "the second value with probability {} where it is true and {} where it is not",
                share(hit),
                share(miss)
            ),
            Self::KRr { truth, other } => write!(
                f,
                "the true value with probability {} and each other with {}",
                share(truth),
                share(other)
            ),
            Self::Unary { one, zero } => write!(
                f,
                "the true value's bit with probability {} and each other with {}",
                share(one),
                share(zero)
            ),
            Self::Mean { least } => write!(
                f,
                "a set bit with probability {} at the lower bound and {} at the upper one",
                share(least),
                share(least.wrapping_neg())
            ),
            Self::Rappor { lie, clear, set } => write!(
                f,
                "permanent bits that are not the value's with probability {}; bits of a report \
                    set with probability {} where they are set and {} elsewhere",
                part(lie),
                part(set),
                part(clear)
            ),
        }
    }
}

/// The words of the least likely report of `values`: `ceil(2^64 / (E + values - 1))`, with `E` a
/// bound below `e^epsilon`.
fn least(epsilon: f64, values: usize) -> Option<u64> {
    // Exact: a double times a power of two, of at most 2^(60 + 29).
    let e = (exp(epsilon) * (1.0 - MARGIN) * (1u64 << DIGITS) as f64).floor() as u128;
    let of_one = 1u128 << DIGITS;
    if e <= of_one || epsilon > EPSILON_MAX {
        return None;
    }
    let under = e + (values as u128 - 1) * of_one;
    let least = (WORDS << DIGITS).div_ceil(under);
    u64::try_from(least).ok()
}

/// The largest epsilon of a report that pgveil makes: beyond it, a report is the truth.
pub const EPSILON_MAX: f64 = 20.0;

/// Where a number is between bounds, from 0 to 1; `None` outside of them.
pub fn part_of(number: f64, (lower, upper): (f64, f64)) -> Option<f64> {
    let is_within = (lower..=upper).contains(&number);
    is_within.then(|| ((number - lower) / (upper - lower)).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
