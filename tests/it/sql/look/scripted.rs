//! Noise that a test writes down beforehand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use pgveil::mechanism::{CandidateRun, Exponential, Noise, SampleError, Sampler};

use crate::fixture::Silent;

/// What a sampler is to draw, in order, and the laws of what it drew.
#[derive(Default)]
struct Script {
    draws: VecDeque<i128>,
    laws: Vec<Noise>,
}

/// Draws what the script says, and zeros after that. Clones share the script.
#[derive(Clone, Default)]
pub struct Scripted(Arc<Mutex<Script>>);

impl Scripted {
    pub fn begin(&self, draws: impl IntoIterator<Item = i128>) {
        *self.0.lock().unwrap() = Script {
            draws: draws.into_iter().collect(),
            laws: Vec::new(),
        };
    }

    /// The laws of all draws since the sampler began.
    pub fn laws(&self) -> Vec<Noise> {
        self.0.lock().unwrap().laws.clone()
    }
}

impl Sampler for Scripted {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        let mut script = self.0.lock().unwrap();
        script.laws.push(*noise);
        Ok(script.draws.pop_front().unwrap_or(0))
    }

    fn choose(
        &mut self,
        law: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        Silent.choose(law, runs)
    }
}
