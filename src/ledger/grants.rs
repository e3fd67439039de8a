//! The owner's decisions about accounts while a policy is in force: grants and freezes, each
//! recorded with who made it, why and when.

use super::AccountSpec;
use super::accounts::{Account, NOT_OPENED};
use super::error::Error;
use super::record::{Event, Origin, Record, Via};
use super::rules::{Rules, is_frozen};
use super::store::{Row, StoreValue, fixed_value, text_value};
use crate::mechanism::{Cap, CapError, Fixed, Loss};
use crate::policy;
use crate::policy::{Budget, Privacy, Renew};

/// What the owner decides.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Raises the role's budget by epsilon and delta, to the end of its period; for good where it
    /// is never renewed.
    Grant {
        role: String,
        epsilon: Fixed,
        delta: Fixed,
    },
    /// Nothing more is charged to the role; `None`: to any role.
    Freeze { role: Option<String> },
    /// Takes back the last freeze of the role, or for `None` the last freeze of all roles.
    Unfreeze { role: Option<String> },
}

impl Act {
    /// The act in words, with its account.
    pub fn words(&self) -> String {
        let whom = |role: &Option<String>| role.clone().unwrap_or_else(|| "(all)".to_owned());
        match self {
            Self::Grant {
                role,
                epsilon,
                delta,
            } => format!(
                "grant {role} epsilon {} delta {}",
                epsilon.to_f64(),
                delta.to_f64()
            ),
            Self::Freeze { role } => format!("freeze {}", whom(role)),
            Self::Unfreeze { role } => format!("unfreeze {}", whom(role)),
        }
    }
}

/// A decision to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub act: Act,
    pub who: String,
    pub why: String,
}

impl Decision {
    /// What the record of acts says of it.
    fn record(&self, origin: Origin, now: i64) -> Record {
        let Self { act, who, why } = self;
        let target = |role: &Option<String>| match role {
            Some(role) => format!("role {role}"),
            None => "every role".to_owned(),
        };
        let (act, target) = match act {
            Act::Grant {
                role,
                epsilon,
                delta,
            } => {
                let more = format!("epsilon {}, delta {:e}", epsilon.to_f64(), delta.to_f64());
                ("grant", format!("{more} to role {role}"))
            }
            Act::Freeze { role } => ("freeze", target(role)),
            Act::Unfreeze { role } => ("unfreeze", target(role)),
        };
        let event = Event::Act {
            act: act.to_owned(),
            target,
            why: why.clone(),
        };
        Record::at(now, who, 0, origin, event)
    }
}

/// A decision as the ledger has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    pub id: i64,
    pub microseconds: i64,
    pub decision: Decision,
}

impl AccountSpec {
    /// The account of a policy's budget.
    ///
    /// # Errors
    ///
    /// Where the budget leaves nothing to spend.
    pub fn of(
        name: &str,
        budget: Budget,
        renew: Renew,
        privacy: &Privacy,
    ) -> Result<Self, CapError> {
        let threshold_share = privacy.threshold_share;
        Ok(Self {
            name: name.to_owned(),
            budget,
            threshold_share,
            cap: policy::cap(budget, threshold_share, privacy.accounting)?,
            renew,
        })
    }
}

impl Rules {
    /// Records a decision; it holds from the next debit on, in every process. Returns what stands
    /// in the record of acts.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn decide(
        &mut self,
        decision: &Decision,
        origin: Origin,
    ) -> Result<Result<Vec<(i64, Record)>, Error>, Error> {
        let Decision { act, who, why } = decision;
        let now = self.clock.now();
        let (account, kind, epsilon, delta) = match act {
            Act::Grant {
                role,
                epsilon,
                delta,
            } => match self.grant(role, *epsilon, *delta, now)? {
                Ok(account) => (account, "grant", *epsilon, *delta),
                Err(refused) => return Ok(Err(refused)),
            },
            Act::Freeze { role } => {
                let account = self.account_of(role.as_deref())?;
                if origin.via == Via::Console && self.is_frozen_already(account)? {
                    let why = "the account is frozen already".to_owned();
                    return Ok(Err(Error::Decision(why)));
                }
                (account, "freeze", Fixed::ZERO, Fixed::ZERO)
            }
            Act::Unfreeze { role } => (
                self.account_of(role.as_deref())?,
                "unfreeze",
                Fixed::ZERO,
                Fixed::ZERO,
            ),
        };
        let sql = "INSERT INTO decision (id, account, microseconds, kind, epsilon, delta, who, why)
                   VALUES ((SELECT coalesce(max(id), 0) + 1 FROM decision), $1, $2, $3, $4, $5, \
                   $6, \
                   $7)";
        let values = [
            StoreValue::Int(account),
            StoreValue::Int(now),
            text_value(kind),
            fixed_value(epsilon),
            fixed_value(delta),
            text_value(who),
            text_value(why),
        ];
        self.store.query(sql, &values)?;
        let records = vec![decision.record(origin, now)];
        let numbers = self.record(&records)?;
        Ok(Ok(numbers.into_iter().zip(records).collect()))
    }

    /// Checks a grant and returns the account it is for.
    fn grant(
        &mut self,
        role: &str,
        epsilon: Fixed,
        delta: Fixed,
        now: i64,
    ) -> Result<Result<i64, Error>, Error> {
        let account = self.open_account(role)?;
        if account.kept.is_some() {
            let why = format!(
                "the policy's file changes how the budget of role {role:?} is renewed, and is not \
                    in force: have pgveil take it first, by SIGHUP or a start"
            );
            return Ok(Err(Error::Decision(why)));
        }
        let (mine, total) = self.standings(account, now)?;
        let balance = &mine.balance;
        let sum = |policy: Fixed, granted: Fixed, more: Fixed| {
            policy
                .checked_add(granted)
                .and_then(|sum| sum.checked_add(more))
        };
        let granted = sum(balance.granted.0, epsilon, Fixed::ZERO).zip(sum(
            balance.granted.1,
            delta,
            Fixed::ZERO,
        ));
        let raised = sum(account.terms.epsilon, balance.granted.0, epsilon).zip(sum(
            account.terms.delta,
            balance.granted.1,
            delta,
        ));
        let owner = &self.owner.terms;
        let of_owner = (
            owner.epsilon.checked_add(total.balance.granted.0),
            owner.delta.checked_add(total.balance.granted.1),
        );
        let fits = raised.is_some_and(|(epsilon, delta)| {
            Some(epsilon) <= of_owner.0 && Some(delta) <= of_owner.1
        });
        let (Some(granted), true) = (granted, fits) else {
            let why = format!(
                "role {role:?} would have more than the owner's whole budget, which covers \
                    every role together: grant less"
            );
            return Ok(Err(Error::Decision(why)));
        };
        if !grows(&balance.cap, &self.cap(account, granted)) {
            return Ok(Err(Error::Decision(
                "that epsilon and delta raise nothing: grant more of one of them".to_owned(),
            )));
        }
        // A grant belongs to the period in which it is made, so that period must have begun.
        self.set_role(account.id, &mine, &balance.lifetime, &Loss::ZERO)?;
        Ok(Ok(account.id))
    }

    /// Whether the last decision on freezing this account, not on all, froze it.
    fn is_frozen_already(&mut self, account: i64) -> Result<bool, Error> {
        let sql = "SELECT account, kind FROM decision WHERE account = $1 ORDER BY id";
        let decisions = self.store.query(sql, &[StoreValue::Int(account)])?;
        is_frozen(&decisions, account)
    }

    fn account_of(&self, role: Option<&str>) -> Result<i64, Error> {
        match role {
            Some(role) => self.open_account(role).map(|account| account.id),
            None if self.owner.id == NOT_OPENED => Err(not_opened("the owner")),
            None => Ok(self.owner.id),
        }
    }

    /// The account of a role, which is opened when a policy with the role comes into force.
    fn open_account(&self, role: &str) -> Result<Account, Error> {
        let account = self.role(role)?;
        match account.id {
            NOT_OPENED => Err(not_opened(&format!("role {role:?}"))),
            _ => Ok(account),
        }
    }

    /// Every decision, oldest first.
    pub(super) fn decisions(&mut self) -> Result<Vec<Decided>, Error> {
        let sql =
            "SELECT d.id, d.microseconds, d.kind, d.epsilon, d.delta, d.who, d.why, a.kind, a.name
                   FROM decision AS d JOIN account AS a ON a.id = d.account ORDER BY d.id";
        self.store
            .query(sql, &[])?
            .iter()
            .map(read_decision)
            .collect()
    }
}

fn not_opened(whose: &str) -> Error {
    Error::Decision(format!(
        "the ledger has no account of {whose} yet: have pgveil take the policy's file first, by \
            SIGHUP or a start"
    ))
}

fn read_decision(row: &Row) -> Result<Decided, Error> {
    let role = if row.text(7)? == "owner" {
        None
    } else {
        Some(row.text(8)?.to_owned())
    };
    let act = match row.text(2)? {
        "grant" => Act::Grant {
            role: role.unwrap_or_default(),
            epsilon: row.read_fixed(3)?,
            delta: row.read_fixed(4)?,
        },
        "freeze" => Act::Freeze { role },
        _ => Act::Unfreeze { role },
    };
    let decision = Decision {
        act,
        who: row.text(5)?.to_owned(),
        why: row.text(6)?.to_owned(),
    };
    Ok(Decided {
        id: row.int(0)?,
        microseconds: row.int(1)?,
        decision,
    })
}

/// Whether a cap admits more in some currency than before, and less in none.
fn grows(before: &Cap, after: &Cap) -> bool {
    let parts = |cap: &Cap| [cap.epsilon(), cap.rho(), cap.mu_squared(), cap.delta()];
    let (before, after) = (parts(before), parts(after));
    before != after
        && before
            .iter()
            .zip(&after)
            .all(|(before, after)| before <= after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{Accounting, Fixed};

    #[test]
    fn a_grant_takes_nothing_away() {
        let cap = |epsilon: f64, delta: f64| {
            Cap::new(
                Fixed::round_down(epsilon),
                Fixed::round_down(delta),
                Fixed::round_down(0.005),
                Accounting::Gdp,
            )
            .unwrap()
        };
        let before = cap(1.0, 1e-6);
        assert!(grows(&before, &cap(2.0, 1e-6)) && grows(&before, &cap(2.0, 2e-6)));
        assert!(
            !grows(&before, &before)
                && !grows(&before, &cap(2.0, 1e-7))
                && !grows(&before, &cap(0.5, 1e-6))
        );
    }
}
