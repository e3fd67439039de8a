//! RAPPOR: a text is reported as the bits of a Bloom filter, each of which is randomised twice. The
//! *permanent* bits are drawn once for a person and a value and kept, so that many reports of the
//! value tell no more than they do. The *instantaneous* bits are drawn from them for each report.
//!
//! A person is in one of several *cohorts*, which have different hash functions: two values that
//! share bits in one cohort differ in others.
//!
//! # Reference
//! Erlingsson, Pihur, Korolova 2014, "RAPPOR: Randomized Aggregatable Privacy-Preserving Ordinal
//! Response".

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::random::{RandomError, Randomness};

/// How reports are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rappor {
    /// The bits of a report.
    pub bits: u32,
    /// The bits that a value sets, of which some may be the same.
    pub hashes: u32,
    /// Cohorts have the numbers below this one.
    pub cohorts: u32,
    /// The probability that a permanent bit is a coin, and not the value's.
    pub f: f64,
    /// The probability that a bit of a report is set, where the permanent one is not.
    pub p: f64,
    /// The probability that a bit of a report is set, where the permanent one is.
    pub q: f64,
}

/// The most hash functions: each has its number in one byte of what is hashed.
pub const HASHES_MAX: u32 = 16;
/// The most bits of a report: each is a column of the statement that counts them.
pub const BITS_MAX: u32 = 256;
/// The most cohorts times bits.
pub const CELLS_MAX: u32 = 8_192;

/// 2^64: a word below `odds` has this probability times `odds`.
const WHOLE: f64 = 18_446_744_073_709_551_616.0;

/// The number of words of 64 bits for a probability. At least it where `up`, else at most.
fn words(probability: f64, up: bool) -> u128 {
    // A power of two changes no digit of a double.
    let words = probability * WHOLE;
    (if up { words.ceil() } else { words.floor() }) as u128
}

/// How many of the 2^64 words make each choice.
pub(super) struct FilterThresholds {
    /// A permanent bit is set, and again as many: it is clear, whatever the value is.
    pub lie: u128,
    /// A bit of a report is set, where the permanent one is clear.
    pub clear: u128,
    /// And where it is set.
    pub set: u128,
}

impl Rappor {
    /// The thresholds of both stages.
    ///
    /// # Guarantee
    /// `lie` is at least `f / 2` of all words, `clear` at least `p` and `set` at most `q`. Both
    /// epsilons fall as `f` and `p` rise and as `q` falls, so that neither is exceeded.
    pub(super) fn thresholds(&self) -> FilterThresholds {
        FilterThresholds {
            lie: words(self.f / 2.0, true),
            clear: words(self.p, true),
            set: words(self.q, false),
        }
    }

    /// The bits that a value sets in a cohort, in ascending order, each once: for each number `i`
    /// of a hash function, the first two bytes of SHA-256 over the cohort (four bytes), `i` (one
    /// byte) and the value's UTF-8, modulo the number of bits. Numbers are big-endian.
    pub fn places(&self, cohort: u32, value: &str) -> Vec<u32> {
        let place = |hash: u32| {
            let mut digest = Sha256::new();
            digest.update(cohort.to_be_bytes());
            digest.update([hash as u8]);
            digest.update(value.as_bytes());
            let digest = digest.finalize();
            u32::from(u16::from_be_bytes([digest[0], digest[1]])) % self.bits
        };
        let mut places: Vec<u32> = (0..self.hashes).map(place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The permanent bits of a value. `word` gives a uniform word for each bit, by its place: from
    /// a random source, if the bits are kept; or from a pseudorandom function of a secret, so that
    /// they are the same for ever. That function must also depend on the table and the column, the
    /// unit, the value, the cohort, `bits`, `hashes` and `f`, and on the place. Reports with the
    /// same words in another column, another cohort or under other numbers would show which bits
    /// are the value's, and no epsilon would bound what they tell together.
    ///
    /// # Guarantee
    /// Each bit is set with probability `f / 2`, clear with the same, and else the value's. All
    /// reports that are ever made from these bits, together, are at most
    /// [`Self::epsilon_of_all`] apart between two values. Probabilities are multiples of 2^-64, of
    /// which that of a coin is rounded up.
    ///
    /// # Requires
    /// Words are independent and uniform to everybody who does not know the secret. Another value,
    /// column or cohort of the same person has other words, as have other `bits`, `hashes` or `f`,
    /// and costs the person once more.
    ///
    /// The bits are overwritten when they are dropped, also where `word` fails amid them.
    ///
    /// # Errors
    /// Those of `word`.
    ///
    /// # Reference
    /// Erlingsson et al. 2014, section 2 (step 2) and Theorem 1.
    pub fn permanent<E>(
        &self,
        (cohort, value): (u32, &str),
        mut word: impl FnMut(u32) -> Result<u64, E>,
    ) -> Result<Zeroizing<Vec<bool>>, E> {
        let places = Zeroizing::new(self.places(cohort, value));
        let half = self.thresholds().lie;
        // Room for all: a vector that grows leaves bits behind.
        let mut kept = Zeroizing::new(Vec::with_capacity(self.bits as usize));
        for place in 0..self.bits {
            let drawn = u128::from(word(place)?);
            kept.push(if drawn < half {
                true
            } else if drawn < 2 * half {
                false
            } else {
                places.binary_search(&place).is_ok()
            });
        }
        Ok(kept)
    }

    /// One report from permanent bits. Always drawn anew: a report that is kept and sent again
    /// would mark its person.
    ///
    /// # Guarantee
    /// Each bit is set with probability `q` where the permanent one is and `p` elsewhere, of which
    /// `q` is rounded down to a multiple of 2^-64 and `p` up. A report whose permanent bits are not
    /// known is at most [`Self::epsilon_of_one`] apart between two values.
    ///
    /// # Errors
    /// Where the source has no bits.
    ///
    /// # Reference
    /// Erlingsson et al. 2014, section 2 (step 3) and Theorem 2.
    pub fn report(
        &self,
        permanent: &[bool],
        random: &mut dyn Randomness,
    ) -> Result<Vec<bool>, RandomError> {
        let FilterThresholds { lie: _, clear, set } = self.thresholds();
        let bit = |known: &bool| {
            let drawn = u128::from(random.next_u64()?);
            Ok(drawn < if *known { set } else { clear })
        };
        permanent.iter().map(bit).collect()
    }

    /// The share of bits that a value sets, on average over values.
    pub fn density(&self) -> f64 {
        1.0 - (1.0 - 1.0 / f64::from(self.bits)).powi(self.hashes as i32)
    }
}

#[cfg(test)]
mod tests;
