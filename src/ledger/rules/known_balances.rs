//! What was read of roles' accounts. Where nothing was written since, it is not read again.

use std::collections::HashMap;

use super::Rules;
use crate::ledger::balance::Balances;
use crate::ledger::error::Error;
use crate::ledger::store::Contents;

/// What was read, by role.
#[derive(Default)]
pub(super) struct KnownBalances(HashMap<String, BalancesRead>);

/// Both accounts of a role's debits, as they were read.
struct BalancesRead {
    balances: Balances,
    /// What the store held then.
    contents: Contents,
    /// When they were read.
    read: i64,
}

impl BalancesRead {
    /// Whether they would be read the same now: nothing was written, and the period is the same. A
    /// clock that goes back may be in an earlier one.
    fn stand(&self, contents: Contents, now: i64) -> bool {
        let ends = self.balances.role.renews_at;
        self.contents == contents && self.read <= now && ends.is_none_or(|end| now < end)
    }
}

impl Rules {
    /// Both accounts as they stand now.
    pub(in crate::ledger) fn balances(&mut self, name: &str) -> Result<Balances, Error> {
        let (now, contents) = (self.clock.now(), self.store.contents());
        if let (Some(known), Some(contents)) = (self.known.0.get(name), contents)
            && known.stand(contents, now)
        {
            return Ok(known.balances.clone());
        }
        let (role, owner) = self.standings(self.role(name)?, now)?;
        let balances = Balances {
            role: role.balance,
            owner: owner.balance,
        };
        if let Some(contents) = contents {
            let read = BalancesRead {
                balances: balances.clone(),
                contents,
                read: now,
            };
            self.known.0.insert(name.to_owned(), read);
        }
        Ok(balances)
    }
}
