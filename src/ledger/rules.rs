//! The rules of the ledger: which debits it admits, and what it writes. One thread runs them, over
//! one store, in one transaction at a time.

mod admission;
mod known_balances;

use std::collections::HashMap;

use super::accounts::{Account, AccountTerms, NOT_OPENED, find_accounts, open_accounts};
use super::balance::Balance;
use super::charge::Fingerprint;
use super::clock::{Clock, period_end, period_start};
use super::error::{DebitError, Error};
use super::height::LedgerHeight;
use super::store::{Access, Row, Store, StoreValue, first_row, fixed_value, gone, loss as columns};
use super::witness::Witness;
use super::{AccountSpec, Buyer, Purchase, SeriesId};
use crate::mechanism::{Cap, Fixed, Loss};
use crate::policy::Renew;
pub(super) use admission::is_frozen;
use admission::{Uncovered, cover, is_closed, refuse_exhausted, standing_when_opened};
use known_balances::KnownBalances;

/// An account at one moment.
#[derive(Debug, Clone)]
pub(super) struct AccountStanding {
    pub(super) balance: Balance,
    /// What was spent since the period began, also where the budget is never renewed.
    period: Loss,
    /// The start of the current period, where the store still has an earlier one.
    begun: Option<i64>,
}

/// The store, and the accounts of the policy in force.
pub(super) struct Rules {
    pub(super) store: Box<dyn Store>,
    pub(super) clock: Clock,
    /// Marks this process's claims.
    pub(super) holder: [u8; 16],
    pub(super) owner: Account,
    roles: HashMap<String, Account>,
    /// Caps that grants have raised, by account and grant. Computing one needs a root search.
    raised: HashMap<(i64, Fixed, Fixed), Cap>,
    /// What was read of roles' accounts.
    known: KnownBalances,
    /// The highest that this process has seen.
    pub(super) seen: LedgerHeight,
    /// Each learns of every charge.
    pub(super) witnesses: Vec<Box<dyn Witness>>,
    /// Whether a witness lags behind the commits.
    pub(super) lags: bool,
}

impl Rules {
    /// Opens the accounts of the policy in a whole store, whatever a witness says.
    ///
    /// # Errors
    ///
    /// [`Error::Fixed`], [`Error::NamedTwice`]; those of the store.
    pub(super) fn open(
        mut store: Box<dyn Store>,
        clock: Clock,
        owner: &AccountSpec,
        roles: &[AccountSpec],
    ) -> Result<Self, Error> {
        store.begin(Access::Write)?;
        let accounts = open_accounts(&mut *store, clock.now(), owner, roles);
        store.end(accounts.as_ref().map(|_| ()).map_err(Clone::clone))?;
        Self::of(store, clock, accounts?)
    }

    /// Finds the accounts of a policy that is not in force, and opens none.
    ///
    /// # Errors
    ///
    /// [`Error::Fixed`], [`Error::NamedTwice`]; those of the store.
    pub(super) fn look(
        mut store: Box<dyn Store>,
        clock: Clock,
        owner: &AccountSpec,
        roles: &[AccountSpec],
    ) -> Result<Self, Error> {
        store.begin(Access::Read)?;
        let accounts = find_accounts(&mut *store, clock.now(), owner, roles);
        store.end(accounts.as_ref().map(|_| ()).map_err(Clone::clone))?;
        Self::of(store, clock, accounts?)
    }

    fn of(
        store: Box<dyn Store>,
        clock: Clock,
        (owner, roles): (Account, HashMap<String, Account>),
    ) -> Result<Self, Error> {
        let mut rules = Self {
            store,
            clock,
            holder: rand::random(),
            owner,
            roles,
            raised: HashMap::new(),
            known: KnownBalances::default(),
            seen: LedgerHeight::NONE,
            witnesses: Vec::new(),
            lags: false,
        };
        rules.seen = rules.reading(Self::height)?;
        Ok(rules)
    }

    /// Runs `work` in a transaction that reads.
    pub(super) fn reading<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.store.begin(Access::Read)?;
        let found = work(self);
        self.store
            .end(found.as_ref().map(|_| ()).map_err(Clone::clone))?;
        found
    }

    /// [`Self::debit`], and what it does to prepaid periods.
    pub(super) fn purchase(
        &mut self,
        role: &str,
        purchase: &Purchase,
    ) -> Result<Result<i64, DebitError>, Error> {
        match &purchase.prepaid {
            None => self.debit(role, purchase),
            Some(step) => self.step(role, (purchase, step)),
        }
    }

    /// Debits the role for everything and the owner for the fresh part, or neither. Claims the
    /// questions whose answers will be made. Returns the time that the history shows.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open, so that no other process debits between reading the sums and
    /// the commit.
    pub(super) fn debit(
        &mut self,
        role: &str,
        purchase: &Purchase,
    ) -> Result<Result<i64, DebitError>, Error> {
        let Purchase {
            buyer,
            fresh,
            later: _,
            offered,
            answers,
            fingerprint: _,
            bought,
            follows,
            questions,
            held_before: _,
            series_max,
            prepaid: _,
        } = purchase;
        let account = self.role(role)?;
        let now = self.clock.now();
        if !self.stands_as_decided(account.id, purchase, now)? {
            return Ok(Err(DebitError::Awaited));
        }
        let (mine, total) = self.standings(account, now)?;
        if mine.balance.frozen {
            return Ok(Err(DebitError::Frozen {
                role: role.to_owned(),
            }));
        }
        if *buyer == Buyer::Role && mine.balance.closed {
            return Ok(Err(DebitError::Closed {
                role: role.to_owned(),
            }));
        }
        if let Some(most) = *series_max
            && self.debits_of_series(role, SeriesId::of(bought))? >= i64::from(most)
        {
            return Ok(Err(DebitError::UsedUp { most }));
        }
        let (whole, of_owner, lifetime) = match cover(purchase, &mine, &total) {
            Ok(debited) => debited,
            Err(Uncovered::ByRole(loss)) => {
                return Ok(Err(refuse_exhausted(role, loss, mine.balance)));
            }
            Err(Uncovered::ByTotal) => {
                if *buyer == Buyer::Role {
                    self.close(account, now)?;
                }
                return Ok(Err(DebitError::TotalExhausted {
                    role: role.to_owned(),
                }));
            }
        };
        if !whole.is_zero() {
            self.set_role(account.id, &mine, &lifetime, &whole)?;
        }
        let (shown, bought) =
            follows.map_or((now, *bought), |entry| (entry.microseconds, entry.bought));
        if !fresh.is_zero() {
            self.set_spent(self.owner.id, &of_owner)?;
            self.append(DEBIT, account.id, shown, fresh, &bought)?;
        }
        if !offered.is_zero() {
            self.append(RECEIPT, account.id, shown, offered, &bought)?;
        }
        for answer in answers {
            self.hold(account.id, *answer)?;
        }
        self.claim(questions, now)?;
        Ok(Ok(shown))
    }

    /// Whether the answers that decided what to buy are as they were, and no other process makes
    /// one of those that are bought.
    fn stands_as_decided(
        &mut self,
        role: i64,
        purchase: &Purchase,
        now: i64,
    ) -> Result<bool, Error> {
        let Purchase {
            answers,
            questions,
            held_before,
            ..
        } = purchase;
        if self.is_awaited(role, questions, answers, now)? || !self.are_stored(answers)? {
            return Ok(false);
        }
        match held_before {
            Some((family, count)) => Ok(self.count_of_family(role, *family)?.0 == *count),
            None => Ok(true),
        }
    }

    /// Writes a role's sums, with `whole` added to its period. Begins the current period first,
    /// where the store still has an earlier one.
    pub(super) fn set_role(
        &mut self,
        id: i64,
        standing: &AccountStanding,
        lifetime: &Loss,
        whole: &Loss,
    ) -> Result<(), Error> {
        // This cannot overflow: the lifetime's sum is at least as large, and did not.
        let period = standing.period.compose(*whole).unwrap_or(*lifetime);
        let [epsilon, rho, mu_squared, delta] = columns(&period);
        if let Some(start) = standing.begun {
            let sql = "UPDATE period SET start = $1, \
                         debits = (SELECT coalesce(max(id), 0) FROM debit), \
                         receipts = (SELECT coalesce(max(id), 0) FROM receipt), \
                         decisions = (SELECT coalesce(max(id), 0) FROM decision), \
                         epsilon = $2, rho = $3, mu_squared = $4, delta = $5 \
                       WHERE account = $6";
            self.store.query(
                sql,
                &[
                    StoreValue::Int(start),
                    epsilon,
                    rho,
                    mu_squared,
                    delta,
                    StoreValue::Int(id),
                ],
            )?;
            return self.set_spent(id, lifetime);
        }
        self.set_spent(id, lifetime)?;
        let sql = "UPDATE period SET epsilon = $1, rho = $2, mu_squared = $3, delta = $4 WHERE \
            account = $5";
        self.store
            .query(sql, &[epsilon, rho, mu_squared, delta, StoreValue::Int(id)])?;
        Ok(())
    }

    /// Closes an account that the owner's total has refused.
    fn close(&mut self, account: Account, now: i64) -> Result<(), Error> {
        let sql = "INSERT INTO refusal (account, microseconds, epsilon, delta, decisions)
                   VALUES ($1, $2, $3, $4, (SELECT coalesce(max(id), 0) FROM decision))
                   ON CONFLICT (account) DO UPDATE SET microseconds = excluded.microseconds, \
                   epsilon = excluded.epsilon, delta = excluded.delta,
                     decisions = excluded.decisions";
        let AccountTerms { epsilon, delta, .. } = self.owner.terms;
        self.store.query(
            sql,
            &[
                StoreValue::Int(account.id),
                StoreValue::Int(now),
                fixed_value(epsilon),
                fixed_value(delta),
            ],
        )?;
        Ok(())
    }

    pub(super) fn set_spent(&mut self, id: i64, total: &Loss) -> Result<(), Error> {
        let [epsilon, rho, mu_squared, delta] = columns(total);
        let sql = "UPDATE account SET spent_epsilon = $1, spent_rho = $2, spent_mu_squared = $3, \
            spent_delta = $4 WHERE id = $5";
        self.store
            .query(sql, &[epsilon, rho, mu_squared, delta, StoreValue::Int(id)])?;
        Ok(())
    }

    pub(super) fn append(
        &mut self,
        sql: &'static str,
        role: i64,
        now: i64,
        loss: &Loss,
        fingerprint: &Fingerprint,
    ) -> Result<(), Error> {
        let [epsilon, rho, mu_squared, delta] = columns(loss);
        let fingerprint = StoreValue::Blob(fingerprint.as_bytes().to_vec());
        self.store.query(
            sql,
            &[
                StoreValue::Int(role),
                StoreValue::Int(now),
                epsilon,
                rho,
                mu_squared,
                delta,
                fingerprint,
            ],
        )?;
        Ok(())
    }

    /// Counts one failure of the role and returns how many there are.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn record_failure(&mut self, role: &str) -> Result<u32, Error> {
        let id = self.role(role)?.id;
        let sql =
            "UPDATE account SET failures = failures + 1 WHERE id = $1 AND failures < 4294967295";
        self.store.query(sql, &[StoreValue::Int(id)])?;
        self.failures(role)
    }

    pub(super) fn failures(&mut self, role: &str) -> Result<u32, Error> {
        let id = self.role(role)?.id;
        if id == NOT_OPENED {
            return Ok(0);
        }
        let rows = self.store.query(
            "SELECT failures FROM account WHERE id = $1",
            &[StoreValue::Int(id)],
        )?;
        Ok(u32::try_from(first_row(&rows)?.int(0)?).unwrap_or(u32::MAX))
    }

    pub(super) fn balance_owner(&mut self) -> Result<Balance, Error> {
        let owner = self.owner;
        self.standings(owner, self.clock.now())
            .map(|(owner, _)| owner.balance)
    }

    pub(super) fn role(&self, name: &str) -> Result<Account, Error> {
        self.roles
            .get(name)
            .copied()
            .ok_or_else(|| Error::UnknownRole {
                role: name.to_owned(),
            })
    }

    /// The standings of an account and of the owner's.
    pub(super) fn standings(
        &mut self,
        account: Account,
        now: i64,
    ) -> Result<(AccountStanding, AccountStanding), Error> {
        let owner = self.owner;
        let ids = [StoreValue::Int(account.id), StoreValue::Int(owner.id)];
        let sql = "SELECT a.id, a.spent_epsilon, a.spent_rho, a.spent_mu_squared, a.spent_delta, \
                     p.start, p.epsilon, p.rho, p.mu_squared, p.delta, p.decisions, \
                     r.epsilon, r.delta, r.decisions \
                   FROM account AS a LEFT JOIN period AS p ON p.account = a.id \
                     LEFT JOIN refusal AS r ON r.account = a.id \
                   WHERE a.id IN ($1, $2)";
        let rows = self.store.query(sql, &ids)?;
        let sql = "SELECT account, kind, epsilon, delta, id FROM decision \
                   WHERE account IN ($1, $2) ORDER BY id";
        let decisions = self.store.query(sql, &ids)?;
        let all_frozen = is_frozen(&decisions, owner.id)?;
        let mut standing = |account: Account| {
            let mut found = None;
            for row in &rows {
                if row.int(0)? == account.id {
                    found = Some(row);
                }
            }
            let Some(row) = found else {
                return match account.id {
                    NOT_OPENED => Ok(standing_when_opened(account, all_frozen, now)),
                    _ => Err(gone()),
                };
            };
            let mut standing = self.raised_standing(account, row, &decisions, now)?;
            standing.balance.closed = is_closed(&owner.terms, row, &decisions)?;
            standing.balance.frozen = all_frozen || is_frozen(&decisions, account.id)?;
            Ok::<_, Error>(standing)
        };
        Ok((standing(account)?, standing(owner)?))
    }

    fn raised_standing(
        &mut self,
        account: Account,
        row: &Row,
        decisions: &[Row],
        now: i64,
    ) -> Result<AccountStanding, Error> {
        let Account { id, terms, kept } = account;
        let lifetime = row.loss(1)?;
        let (mut period, mut since, mut begun) = (lifetime, 0, None);
        // The owner's account has no periods.
        if !row.is_null(5) {
            period = row.loss(6)?;
            let start = match kept {
                None => row.int(5)?,
                Some(kept) => kept.start,
            };
            since = match kept {
                None => row.int(10)?,
                Some(kept) => kept.decisions,
            };
            // A period never begins before the last one did, whatever the clock says.
            begun = period_start(terms.renew, now).filter(|of_now| *of_now > start);
            if begun.is_some() {
                (period, since) = (Loss::ZERO, i64::MAX);
            }
        }
        let spent = match terms.renew {
            Renew::Never => lifetime,
            Renew::Weekly | Renew::Monthly => period,
        };
        let mut granted = (Fixed::ZERO, Fixed::ZERO);
        for decision in decisions {
            let counts =
                decision.int(0)? == id && decision.text(1)? == "grant" && decision.int(4)? > since;
            if counts {
                let add = |sum: Fixed, at| {
                    Ok::<_, Error>(sum.checked_add(decision.read_fixed(at)?).unwrap_or(sum))
                };
                granted = (add(granted.0, 2)?, add(granted.1, 3)?);
            }
        }
        let renews_at = period_end(terms.renew, now);
        let cap = self.cap(account, granted);
        let balance = Balance {
            cap,
            spent,
            lifetime,
            renew: terms.renew,
            renews_at,
            granted,
            frozen: false,
            closed: false,
        };
        Ok(AccountStanding {
            balance,
            period,
            begun,
        })
    }

    /// The policy's cap, raised by the grants.
    pub(super) fn cap(&mut self, account: Account, granted: (Fixed, Fixed)) -> Cap {
        let Account { id, terms, kept: _ } = account;
        if granted == (Fixed::ZERO, Fixed::ZERO) {
            return terms.cap;
        }
        let made = || {
            let (epsilon, delta) = (
                terms.epsilon.checked_add(granted.0)?,
                terms.delta.checked_add(granted.1)?,
            );
            Cap::new(
                epsilon,
                delta,
                terms.threshold_share,
                terms.cap.accounting(),
            )
            .ok()
        };
        // Where no cap can be computed, the grant raises nothing.
        *self
            .raised
            .entry((id, granted.0, granted.1))
            .or_insert_with(|| made().unwrap_or(terms.cap))
    }
}

pub(super) const DEBIT: &str =
    "INSERT INTO debit (id, role, microseconds, epsilon, rho, mu_squared, delta, \
    fingerprint)
                     VALUES ((SELECT coalesce(max(id), 0) + 1 FROM debit), $1, $2, $3, $4, $5, $6, \
                     $7)";
pub(super) const RECEIPT: &str =
    "INSERT INTO receipt (id, role, microseconds, epsilon, rho, mu_squared, \
    delta, fingerprint)
                       VALUES ((SELECT coalesce(max(id), 0) + 1 FROM receipt), $1, $2, $3, $4, $5, \
                       $6, $7)";
