//! What each account had spent when this process last looked. In one ledger no sum ever falls: one
//! that did is that of an older copy, of which a part was put under a process that runs.

use std::collections::HashMap;

use super::error::Error;
use crate::mechanism::{Fixed, Loss};

/// Whose sum it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payer<'a> {
    Role(&'a str),
    /// The owner's account, over every role.
    Total,
}

impl Payer<'_> {
    fn key(self) -> Option<String> {
        match self {
            Self::Role(name) => Some(name.to_owned()),
            Self::Total => None,
        }
    }
}

/// The highest sums that were seen; of the total under no name.
#[derive(Debug, Default)]
pub(super) struct SeenSums {
    committed: HashMap<Option<String>, Loss>,
    /// By the transaction that is open.
    written: HashMap<Option<String>, Loss>,
    /// By the witnesses.
    noted: HashMap<Option<String>, Loss>,
}

impl SeenSums {
    /// Finds out whether a sum fell.
    ///
    /// # Guarantee
    ///
    /// Without an error, no component is less than any that this process wrote and committed, and
    /// than what a witness noted.
    ///
    /// # Errors
    ///
    /// [`Error::WentBack`].
    pub(super) fn compare(&self, payer: Payer<'_>, now: &Loss) -> Result<(), Error> {
        let key = payer.key();
        let is_less = |seen: Option<&Loss>| seen.is_some_and(|seen| !beyond(seen, now).is_zero());
        if is_less(self.committed.get(&key)) || is_less(self.noted.get(&key)) {
            return Err(Error::WentBack {
                lacks: "an account has spent less than before".to_owned(),
            });
        }
        Ok(())
    }

    /// A sum that the open transaction wrote.
    pub(super) fn written(&mut self, payer: Payer<'_>, sum: Loss) {
        self.written.insert(payer.key(), sum);
    }

    /// The transaction ended.
    pub(super) fn ended(&mut self, is_committed: bool) {
        let written = std::mem::take(&mut self.written);
        if is_committed {
            self.committed.extend(written);
        }
    }

    /// What a witness knows: of the total under no name.
    pub(super) fn noted(&mut self, role: Option<String>, sum: Loss) {
        let known = self.noted.entry(role).or_insert(sum);
        if !beyond(&sum, known).is_zero() {
            *known = sum;
        }
    }
}

/// What has to be added to `spent` so that no component is below that of `wanted`.
pub(super) fn beyond(wanted: &Loss, spent: &Loss) -> Loss {
    let more = |wanted: Fixed, spent: Fixed| Fixed(wanted.0.saturating_sub(spent.0));
    Loss {
        epsilon: match (wanted.epsilon, spent.epsilon) {
            // An infinite sum stays infinite.
            (_, None) => Some(Fixed::ZERO),
            (None, Some(_)) => None,
            (Some(wanted), Some(spent)) => Some(more(wanted, spent)),
        },
        rho: more(wanted.rho, spent.rho),
        mu_squared: more(wanted.mu_squared, spent.mu_squared),
        delta: more(wanted.delta, spent.delta),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(units: u128) -> Loss {
        Loss {
            delta: Fixed(units),
            ..Loss::ZERO
        }
    }

    #[test]
    fn a_sum_that_fell_is_noticed_once_it_was_committed() {
        let mut seen = SeenSums::default();
        let ann = Payer::Role("ann");
        seen.written(ann, delta(5));
        seen.ended(false);
        assert!(seen.compare(ann, &delta(0)).is_ok(), "it was undone");
        seen.written(ann, delta(5));
        seen.ended(true);
        for (sum, stands) in [(4, false), (5, true), (6, true)] {
            assert_eq!(seen.compare(ann, &delta(sum)).is_ok(), stands, "{sum}");
        }
        for other in [Payer::Role("bob"), Payer::Total] {
            assert!(seen.compare(other, &delta(0)).is_ok());
        }
        seen.noted(Some("bob".to_owned()), delta(2));
        seen.noted(Some("bob".to_owned()), delta(1));
        seen.noted(None, delta(9));
        assert!(seen.compare(Payer::Role("bob"), &delta(1)).is_err());
        assert!(seen.compare(Payer::Role("bob"), &delta(2)).is_ok());
        assert!(seen.compare(Payer::Total, &delta(8)).is_err());
        assert!(seen.compare(Payer::Total, &delta(9)).is_ok());
    }
}
