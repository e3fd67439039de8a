//! Draws exactly from the laws of noise, in integers only: no floating point, hence no porous or
//! truncated outputs.
//!
//! Every function returns the stated law exactly, given uniform words. Where an unlucky run would
//! need more memory or larger integers than provided it fails with [`SampleError::Exhausted`]
//! instead of bending the law; each such event has probability below 2^-100. How long a draw takes
//! depends on the noise, never on private data.

use super::random::{RandomError, Randomness};

/// Scales and sigmas are below this (2^60), so that every product fits 128 bits.
pub const SCALE_LIMIT: u64 = 1 << 60;

/// No noise, hence no answer. The charge stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    #[error(transparent)]
    Random(#[from] RandomError),
    /// A parameter outside its documented range: a bug of the caller, not of the analyst.
    #[error("noise parameter out of range")]
    Parameter,
    /// The run outgrew its checked integers; probability below 2^-100.
    #[error("noise draw outgrew its integers")]
    Exhausted,
}

/// Uniform on 0, ..., `n` - 1, for `n` >= 1.
///
/// # Guarantee
///
/// Exactly uniform: as many bits as `n` - 1 has are drawn until they are below `n`; a modulus would
/// favour small values.
pub fn below<R: Randomness + ?Sized>(n: u128, random: &mut R) -> Result<u128, SampleError> {
    let top = n.checked_sub(1).ok_or(SampleError::Parameter)?;
    if top == 0 {
        return Ok(0);
    }
    let bits = u128::BITS - top.leading_zeros();
    loop {
        let candidate = match bits.checked_sub(u64::BITS) {
            None | Some(0) => u128::from(random.next_bits(bits)?),
            Some(high) => {
                let low = u128::from(random.next_u64()?);
                low | u128::from(random.next_bits(high)?) << u64::BITS
            }
        };
        if candidate < n {
            return Ok(candidate);
        }
    }
}

/// True with probability exp(-`a` / `b`), for 0 <= `a` <= `b`, 1 <= `b`.
///
/// # Guarantee
///
/// Exact. With g = a/b and K the first k at which an event of probability g/k fails, P(K > k) = g^k
/// / k!; so P(K odd) is the alternating series of exp(-g). The event is that two independent ones
/// happen, of probabilities 1/k and a/b: the first takes few bits, and the second is mostly left
/// out.
///
/// # Reference
///
/// Canonne, Kamath, Steinke 2020 (arXiv 2004.00010), Algorithm 1, first case.
pub fn bernoulli_exp1<R: Randomness + ?Sized>(
    a: u128,
    b: u128,
    random: &mut R,
) -> Result<bool, SampleError> {
    if b == 0 || a > b {
        return Err(SampleError::Parameter);
    }
    let mut k: u128 = 1;
    while below(k, random)? == 0 && (a == b || below(b, random)? < a) {
        k = k.checked_add(1).ok_or(SampleError::Exhausted)?;
    }
    Ok(k % 2 == 1)
}

/// True with probability exp(-`a` / `b`), for any `a`, and `b` >= 1.
///
/// # Guarantee
///
/// Exact: exp(-a/b) = exp(-1)^q exp(-r/b) with independent trials. Stops at the first failed one,
/// so it takes O(1) words on average whatever `a`.
///
/// # Reference
///
/// Canonne, Kamath, Steinke 2020, Algorithm 1, second case.
pub fn bernoulli_exp<R: Randomness + ?Sized>(
    a: u128,
    b: u128,
    random: &mut R,
) -> Result<bool, SampleError> {
    if b == 0 {
        return Err(SampleError::Parameter);
    }
    let mut rest = a;
    while rest > b {
        if !bernoulli_exp1(1, 1, random)? {
            return Ok(false);
        }
        rest -= b;
    }
    bernoulli_exp1(rest, b, random)
}

/// How many independent trials of probability exp(-`a` / `b`) succeed before the first failure.
fn run_length<R: Randomness + ?Sized>(
    a: u128,
    b: u128,
    random: &mut R,
) -> Result<u128, SampleError> {
    let mut length = 0;
    while bernoulli_exp1(a, b, random)? {
        length += 1;
    }
    Ok(length)
}

/// Discrete Laplace noise: P(x) = (1 - r) / (1 + r) * r^|x| with r = exp(-1 / `scale`), on all
/// integers.
///
/// # Guarantee
///
/// Exact law. Added to an integer that one privacy unit moves by at most d, the sum is (d /
/// scale)-differentially private.
///
/// # Requires
///
/// 1 <= `scale` < 2^60, in units of the grid that the integer lives on.
///
/// # Reference
///
/// Canonne, Kamath, Steinke 2020, Algorithm 2 with s = 1: U + scale * V is geometric with ratio r
/// (U the residue, accepted with exp(-U / scale), V the quotient, geometric with ratio exp(-1)); a
/// fair sign, the negative zero drawn anew, makes it two-sided.
pub fn discrete_laplace<R: Randomness + ?Sized>(
    scale: u64,
    random: &mut R,
) -> Result<i128, SampleError> {
    if scale == 0 || scale >= SCALE_LIMIT {
        return Err(SampleError::Parameter);
    }
    let scale = u128::from(scale);
    loop {
        let residue = below(scale, random)?;
        if !bernoulli_exp1(residue, scale, random)? {
            continue;
        }
        let quotient = run_length(1, 1, random)?;
        let size = quotient
            .checked_mul(scale)
            .and_then(|m| m.checked_add(residue))
            .ok_or(SampleError::Exhausted)?;
        let negative = below(2, random)? == 1;
        if !(negative && size == 0) {
            return with_sign(negative, size);
        }
    }
}

/// A Gaussian of standard deviation `sigma`, rounded to the nearest integer: P(z) = Phi((z + 1/2) /
/// sigma) - Phi((z - 1/2) / sigma).
///
/// # Guarantee
///
/// Exact law of the *rounded ideal* Gaussian. For an integer t, t + round(sigma N) = round(t +
/// sigma N): a function of the ideal Gaussian mechanism's output alone, so it keeps that
/// mechanism's mu (and rho = mu^2 / 2), in any dimension with independent draws.
///
/// # Requires
///
/// 1 <= `sigma` < 2^60, in units of the grid that the integer lives on.
///
/// # Reference
///
/// Karney 2016 (arXiv 1303.6257), Algorithm N: |N| = k + x with k integer, x in [0, 1), accepted
/// with probability exp(-k/2) * exp(-k (k - 1) / 2) * exp(-x (2k + x) / 2) = exp(-(k + x)^2 / 2).
/// The bits of x are drawn as they are needed, also by the rounding.
pub fn rounded_gaussian<R: Randomness + ?Sized>(
    sigma: u64,
    random: &mut R,
) -> Result<i128, SampleError> {
    if sigma == 0 || sigma >= SCALE_LIMIT {
        return Err(SampleError::Parameter);
    }
    loop {
        let k = run_length(1, 2, random)?;
        if !passes_square(k, random)? {
            continue;
        }
        let mut x = Uniform::default();
        if !passes_fraction(k, &mut x, random)? {
            continue;
        }
        let negative = below(2, random)? == 1;
        let whole = k
            .checked_mul(u128::from(sigma))
            .ok_or(SampleError::Exhausted)?;
        let size = whole
            .checked_add(round_scaled(sigma, &mut x, random)?)
            .ok_or(SampleError::Exhausted)?;
        return with_sign(negative, size);
    }
}

/// True with probability exp(-k (k - 1) / 2): step N2, this many trials of exp(-1/2).
fn passes_square<R: Randomness + ?Sized>(k: u128, random: &mut R) -> Result<bool, SampleError> {
    let trials = k
        .checked_mul(k.saturating_sub(1))
        .ok_or(SampleError::Exhausted)?;
    for _ in 0..trials {
        if !bernoulli_exp1(1, 2, random)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True with probability exp(-x (2k + x) / 2): step N4, k + 1 runs of Algorithm B.
fn passes_fraction<R: Randomness + ?Sized>(
    k: u128,
    x: &mut Uniform,
    random: &mut R,
) -> Result<bool, SampleError> {
    for _ in 0..=k {
        if !passes_decreasing_run(k, x, random)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True with probability exp(-x (2k + x) / (2k + 2)): Karney's Algorithm B.
///
/// A run x > z1 > z2 > ... of uniforms, each step thinned with probability (2k + x) / (2k + 2), is
/// longer than n with probability (x (2k + x) / (2k + 2))^n / n!; an even length thus has the
/// alternating series of the exponential.
fn passes_decreasing_run<R: Randomness + ?Sized>(
    k: u128,
    x: &mut Uniform,
    random: &mut R,
) -> Result<bool, SampleError> {
    let sides = k
        .checked_mul(2)
        .and_then(|m| m.checked_add(2))
        .ok_or(SampleError::Exhausted)?;
    let mut last: Option<Uniform> = None;
    let mut even = true;
    loop {
        let mut next = Uniform::default();
        let shorter = match &mut last {
            None => next.less_than(x, random)?,
            Some(last) => next.less_than(last, random)?,
        };
        if !shorter {
            return Ok(even);
        }
        // One side stops, one goes on with probability x, the other 2k go on: (2k + x) / (2k + 2).
        let goes_on = match below(sides, random)? {
            0 => false,
            1 => Uniform::default().less_than(x, random)?,
            _ => true,
        };
        if !goes_on {
            return Ok(even);
        }
        last = Some(next);
        even = !even;
    }
}

/// 256 bits are undecided with probability 2^-256 in a comparison, 2^-196 in a rounding.
const WORDS_MAX: usize = 4;

/// How many digits a comparison draws at once: two numbers agree in them once in 256 times.
const GROUP_BITS: u32 = 8;
const GROUPS: u32 = u64::BITS / GROUP_BITS;

/// A uniform real of [0, 1) of which as many binary digits are known as anybody asked for.
#[derive(Default)]
struct Uniform {
    /// Digits in groups of 64, most significant first; those that are not known are 0.
    words: [u64; WORDS_MAX],
    /// How many digits are known.
    known: u32,
}

impl Uniform {
    /// Draws digits until the first `wanted` ones are known.
    fn reveal<R: Randomness + ?Sized>(
        &mut self,
        wanted: u32,
        random: &mut R,
    ) -> Result<(), SampleError> {
        while self.known < wanted {
            let slot = self.words.get_mut((self.known / u64::BITS) as usize);
            let slot = slot.ok_or(SampleError::Exhausted)?;
            let room = u64::BITS - self.known % u64::BITS;
            let count = room.min(wanted - self.known);
            *slot |= random.next_bits(count)? << (room - count);
            self.known += count;
        }
        Ok(())
    }

    /// The digits of one word.
    fn word<R: Randomness + ?Sized>(
        &mut self,
        index: usize,
        random: &mut R,
    ) -> Result<u64, SampleError> {
        let word = u32::try_from(index).map_err(|_| SampleError::Exhausted)?;
        self.reveal((word + 1).saturating_mul(u64::BITS), random)?;
        self.words.get(index).copied().ok_or(SampleError::Exhausted)
    }

    /// The digits of one group.
    fn group<R: Randomness + ?Sized>(
        &mut self,
        index: u32,
        random: &mut R,
    ) -> Result<u64, SampleError> {
        self.reveal((index + 1) * GROUP_BITS, random)?;
        let word = self.words.get((index / GROUPS) as usize);
        let word = word.copied().ok_or(SampleError::Exhausted)?;
        let behind = u64::BITS - (index % GROUPS + 1) * GROUP_BITS;
        Ok(word >> behind & ((1 << GROUP_BITS) - 1))
    }

    /// Exact comparison: digits are drawn until they differ.
    fn less_than<R: Randomness + ?Sized>(
        &mut self,
        other: &mut Self,
        random: &mut R,
    ) -> Result<bool, SampleError> {
        for index in 0..WORDS_MAX as u32 * GROUPS {
            let (mine, theirs) = (self.group(index, random)?, other.group(index, random)?);
            if mine != theirs {
                return Ok(mine < theirs);
            }
        }
        Err(SampleError::Exhausted)
    }
}

/// floor(`sigma` * x + 1/2), drawing digits of x until it is decided.
///
/// After the first word, sigma x + 1/2 = whole + fraction + sigma * rest with rest in [0, 1), in
/// units of 2^-64. Only whether sigma * rest reaches the `gap` to the next integer is open; each
/// further word shrinks the unit by 2^64. All values stay below 2^125.
fn round_scaled<R: Randomness + ?Sized>(
    sigma: u64,
    x: &mut Uniform,
    random: &mut R,
) -> Result<u128, SampleError> {
    let sigma = u128::from(sigma);
    let first = sigma * u128::from(x.word(0, random)?) + (1 << 63);
    let whole = first >> 64;
    let mut gap = (1u128 << 64) - (first & u128::from(u64::MAX));
    for index in 1.. {
        if gap >= sigma {
            return Ok(whole);
        }
        let reached = sigma * u128::from(x.word(index, random)?);
        let needed = gap << 64;
        if reached >= needed {
            return Ok(whole + 1);
        }
        gap = needed - reached;
    }
    Err(SampleError::Exhausted)
}

fn with_sign(negative: bool, size: u128) -> Result<i128, SampleError> {
    let size = i128::try_from(size).map_err(|_| SampleError::Exhausted)?;
    Ok(if negative { -size } else { size })
}

#[cfg(test)]
mod tests;
