//! `pgveil.target_error`: the epsilon at which every count and sum of a statement has at most the wanted standard error.
//!
//! Noise shrinks as mu (and a Laplace epsilon) grows, in proportion: one trial price tells how much more or less is needed. All of it is known
//! before any data is read. An average or another ratio has an error that depends on the data; for it the wish holds for the counts and sums it is made of.

use super::{Measure, ReleasePlan, Terms, measure_deviation};
use crate::mechanism::{Accounting, Fixed, epsilon_of_mu, mu_of};
use crate::policy::{Policy, TargetError};
use crate::refusal::{Refusal, sqlstate};

/// Scales are integers of at least 20 bits: a proportion is kept but for this much.
const MARGIN: f64 = 1.0 + 4e-6;

/// How many times the trial's noise is the wanted one, in the worst measure of a release. Above 1: more is needed.
///
/// # Errors
/// 0A000 where a measure's error depends on the data.
pub fn factor(trial: &ReleasePlan, target: TargetError) -> Result<f64, Refusal> {
    let mut worst: f64 = 0.0;
    for measure in trial.measures() {
        let deviation = measure_deviation(trial, measure).ok_or_else(|| {
            Refusal::unsupported("pgveil.target_error with an aggregate whose error depends on the data")
                .hint("RESET pgveil.target_error, and set pgveil.epsilon instead.")
        })?;
        let wanted = match target {
            TargetError::Absolute(value) => value,
            TargetError::Relative(share) => share * most_of_one_row(measure),
        };
        worst = worst.max(deviation / wanted);
    }
    Ok(worst * MARGIN)
}

/// What one row adds at most: 1 to a count, the width of its range to a sum.
fn most_of_one_row(measure: &Measure) -> f64 {
    match measure {
        Measure::Count(_) => 1.0,
        Measure::Sum { values: _, count: _, lattice } => lattice.bounds.hi - lattice.bounds.lo,
    }
}

/// Needs of the releases so far, towards the policy's ceiling for one statement.
#[derive(Debug, Default)]
pub struct Needs {
    mu_squared: f64,
    epsilon: f64,
}

impl Needs {
    /// The epsilon at which a release alone has `factor` times less noise than as one of `share` releases under `terms`; counted.
    ///
    /// # Errors
    /// 22023 where the statement would need more than the policy's ceiling: says how much.
    pub fn add(&mut self, factor: f64, terms: &Terms, share: usize, policy: &Policy) -> Result<f64, Refusal> {
        let fixed = |value: f64| Fixed::round_down(value.clamp(0.0, 1e6));
        let pure = terms.accounts.iter().any(|a| a.cap.accounting() == Accounting::Pure);
        let needs = |mu_squared: f64| {
            let up = Fixed::round_up(mu_squared.clamp(0.0, 1e9));
            epsilon_of_mu(up, fixed(terms.delta)).map_or(f64::INFINITY, Fixed::to_f64)
        };
        let (own, whole) = if pure {
            let own = terms.epsilon / share as f64 * factor;
            self.epsilon += own;
            (own, self.epsilon)
        } else {
            let trial = mu_of(fixed(terms.epsilon), fixed(terms.delta)).map_or(0.0, |mu| mu.to_f64());
            let mu_squared = (trial * factor).powi(2) / share as f64;
            self.mu_squared += mu_squared;
            (needs(mu_squared), needs(self.mu_squared))
        };
        let most = policy.privacy.epsilon_max;
        if whole > most {
            let need = if whole.is_finite() { format!("epsilon {whole:.3}") } else { "more epsilon than can be counted".to_owned() };
            return Err(Refusal::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("pgveil.target_error needs {need} for this query, and at most {most} may be spent on one"),
            )
            .detail("Nothing was charged. The data owner's policy sets the ceiling.")
            .hint("Wish for a larger error, or ask for fewer groups and aggregates."));
        }
        Ok(own)
    }
}
