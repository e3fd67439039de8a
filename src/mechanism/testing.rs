//! Test doubles of the random source. They exist in test builds alone.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::{RandomError, Randomness};

/// A reproducible source.
pub struct Seeded(ChaCha20Rng);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha20Rng::seed_from_u64(seed))
    }
}

impl Randomness for Seeded {
    fn next_u64(&mut self) -> Result<u64, RandomError> {
        Ok(self.0.next_u64())
    }
}

/// Gives the words of a script, then fails.
pub struct Script {
    words: Vec<u64>,
    next: usize,
}

impl Script {
    pub fn new(words: Vec<u64>) -> Self {
        Self { words, next: 0 }
    }
}

impl Randomness for Script {
    fn next_u64(&mut self) -> Result<u64, RandomError> {
        let word = self
            .words
            .get(self.next)
            .copied()
            .ok_or_else(|| RandomError {
                reason: "script at its end".into(),
            })?;
        self.next += 1;
        Ok(word)
    }
}
