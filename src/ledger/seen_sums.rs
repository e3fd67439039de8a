//! What each account had spent when this process last looked. In one ledger no sum ever falls: one
//! that did is that of an older copy, of which a part was put under a process that runs.

use std::collections::HashMap;

use super::error::Error;
use super::store::{Row, Store};
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

/// What an account had spent, at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    pub(super) lifetime: Loss,
    /// Of the period that the store has, and when that began. The owner's account has none.
    pub(super) period: Option<(i64, Loss)>,
}

impl Spent {
    /// From the columns after an account's number: the lifetime's sum, the period's start and sum.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`].
    pub(super) fn of(row: &Row) -> Result<Self, Error> {
        let period = match row.is_null(5) {
            true => None,
            false => Some((row.int(5)?, row.loss(6)?)),
        };
        Ok(Self {
            lifetime: row.loss(1)?,
            period,
        })
    }

    /// Whether `now` cannot come after this: a sum is less, or an ended period is back.
    fn fell(&self, now: &Self) -> bool {
        let is_less = |before: &Loss, now: &Loss| !beyond(before, now).is_zero();
        let of_period = match (self.period, now.period) {
            (Some((before, spent)), Some((start, now))) => {
                start < before || (start == before && is_less(&spent, &now))
            }
            (Some(_), None) => true,
            (None, _) => false,
        };
        of_period || is_less(&self.lifetime, &now.lifetime)
    }
}

/// The highest sums that were seen; of the total under no name.
#[derive(Debug, Default)]
pub(super) struct SeenSums {
    committed: HashMap<Option<String>, Spent>,
    /// By the transaction that is open.
    written: HashMap<Option<String>, Spent>,
    /// By the witnesses, over all time.
    noted: HashMap<Option<String>, Loss>,
}

impl SeenSums {
    /// Finds out whether a sum fell.
    ///
    /// # Guarantee
    ///
    /// Without an error, no component of a sum is less than any that this process read when it
    /// opened the ledger, or wrote and committed since, and than what a witness noted.
    ///
    /// # Errors
    ///
    /// [`Error::WentBack`].
    pub(super) fn compare(&self, payer: Payer<'_>, now: &Spent) -> Result<(), Error> {
        let key = payer.key();
        let fell = self
            .committed
            .get(&key)
            .is_some_and(|before| before.fell(now));
        let noted = self.noted.get(&key).map(|lifetime| Spent {
            lifetime: *lifetime,
            period: None,
        });
        if fell || noted.is_some_and(|noted| noted.fell(now)) {
            return Err(Error::WentBack {
                lacks: "an account has spent less than before".to_owned(),
            });
        }
        Ok(())
    }

    /// A sum that the open transaction wrote.
    pub(super) fn written(&mut self, payer: Payer<'_>, spent: Spent) {
        self.written.insert(payer.key(), spent);
    }

    /// Remembers what every account has spent.
    ///
    /// # Requires
    ///
    /// A transaction is open.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(super) fn find(&mut self, store: &mut dyn Store) -> Result<(), Error> {
        self.committed.extend(spent_by_all(store)?);
        Ok(())
    }

    /// Finds out whether any account's sum fell.
    ///
    /// # Requires
    ///
    /// As [`SeenSums::find`].
    ///
    /// # Errors
    ///
    /// As [`SeenSums::compare`]; those of the store.
    pub(super) fn compare_all(&self, store: &mut dyn Store) -> Result<(), Error> {
        for (role, now) in spent_by_all(store)? {
            let payer = role.as_deref().map_or(Payer::Total, Payer::Role);
            self.compare(payer, &now)?;
        }
        Ok(())
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

/// What each account has spent; the total under no name.
fn spent_by_all(store: &mut dyn Store) -> Result<Vec<(Option<String>, Spent)>, Error> {
    let sql = "SELECT a.id, a.spent_epsilon, a.spent_rho, a.spent_mu_squared, a.spent_delta, \
                 p.start, p.epsilon, p.rho, p.mu_squared, p.delta, a.kind, a.name \
               FROM account AS a LEFT JOIN period AS p ON p.account = a.id";
    let rows = store.query(sql, &[])?;
    let spent = rows.iter().map(|row| {
        let is_owner = row.text(10)? == "owner";
        let role = (!is_owner).then(|| row.text(11).map(str::to_owned));
        Ok((role.transpose()?, Spent::of(row)?))
    });
    spent.collect()
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

    fn spent(lifetime: u128) -> Spent {
        Spent {
            lifetime: delta(lifetime),
            period: None,
        }
    }

    #[test]
    fn a_sum_that_fell_is_noticed_once_it_was_committed() {
        let mut seen = SeenSums::default();
        let ann = Payer::Role("ann");
        seen.written(ann, spent(5));
        seen.ended(false);
        assert!(seen.compare(ann, &spent(0)).is_ok(), "it was undone");
        seen.written(ann, spent(5));
        seen.ended(true);
        for (sum, stands) in [(4, false), (5, true), (6, true)] {
            assert_eq!(seen.compare(ann, &spent(sum)).is_ok(), stands, "{sum}");
        }
        for other in [Payer::Role("bob"), Payer::Total] {
            assert!(seen.compare(other, &spent(0)).is_ok());
        }
        seen.noted(Some("bob".to_owned()), delta(2));
        seen.noted(Some("bob".to_owned()), delta(1));
        seen.noted(None, delta(9));
        assert!(seen.compare(Payer::Role("bob"), &spent(1)).is_err());
        assert!(seen.compare(Payer::Role("bob"), &spent(2)).is_ok());
        assert!(seen.compare(Payer::Total, &spent(8)).is_err());
        assert!(seen.compare(Payer::Total, &spent(9)).is_ok());
    }

    #[test]
    fn a_period_that_is_back_or_has_spent_less_is_noticed() {
        let mut seen = SeenSums::default();
        let at = |start, period| Spent {
            lifetime: delta(9),
            period: Some((start, delta(period))),
        };
        seen.written(Payer::Role("ann"), at(7, 3));
        seen.ended(true);
        let cases = [
            (at(7, 3), true),
            (at(7, 4), true),
            (at(8, 0), true),
            (at(7, 2), false),
            (at(6, 3), false),
            (spent(9), false),
        ];
        for (now, stands) in cases {
            let compared = seen.compare(Payer::Role("ann"), &now);
            assert_eq!(compared.is_ok(), stands, "{now:?}");
        }
    }
}
