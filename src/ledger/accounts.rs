//! Finds or opens the accounts of the policy in force.

use std::collections::HashMap;

use super::AccountSpec;
use super::clock::period_start;
use super::error::Error;
use super::store::{Store, StoreValue, first_row, text_value};
use crate::mechanism::{Cap, Fixed};
use crate::policy::Renew;

/// An account of the policy in force: its row, and the policy's terms for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    pub(super) id: i64,
    pub(super) terms: AccountTerms,
    /// Where the policy renews the account otherwise than the ledger does until the policy comes
    /// into force.
    pub(super) kept: Option<KeptPeriod>,
}

/// The id of an account that the ledger does not have.
pub(super) const NOT_OPENED: i64 = 0;

/// The current period of an account whose `renew` the policy changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeptPeriod {
    pub(super) start: i64,
    /// The last decision before it.
    pub(super) decisions: i64,
}

/// The policy's terms, before the owner's grants.
#[derive(Debug, Clone, Copy)]
pub(super) struct AccountTerms {
    pub(super) epsilon: Fixed,
    pub(super) delta: Fixed,
    pub(super) threshold_share: Fixed,
    pub(super) cap: Cap,
    pub(super) renew: Renew,
}

pub(super) fn open_accounts(
    store: &mut dyn Store,
    now: i64,
    owner: &AccountSpec,
    roles: &[AccountSpec],
) -> Result<(Account, HashMap<String, Account>), Error> {
    let owner = open_account(store, now, "owner", owner)?;
    let accounts = by_name(roles, |role| {
        let account = open_account(store, now, "role", role)?;
        keep_period(store, now, account)?;
        Ok(account)
    })?;
    Ok((owner, accounts))
}

/// Finds the accounts of a policy that is not in force, and writes nothing.
pub(super) fn find_accounts(
    store: &mut dyn Store,
    now: i64,
    owner: &AccountSpec,
    roles: &[AccountSpec],
) -> Result<(Account, HashMap<String, Account>), Error> {
    let owner = find_account(store, "owner", owner)?;
    let accounts = by_name(roles, |role| {
        let account = find_account(store, "role", role)?;
        let kept = match account.id {
            NOT_OPENED => None,
            _ => kept_period(store, now, account)?,
        };
        Ok(Account { kept, ..account })
    })?;
    Ok((owner, accounts))
}

fn by_name(
    roles: &[AccountSpec],
    mut account: impl FnMut(&AccountSpec) -> Result<Account, Error>,
) -> Result<HashMap<String, Account>, Error> {
    let mut accounts = HashMap::with_capacity(roles.len());
    for role in roles {
        if accounts.insert(role.name.clone(), account(role)?).is_some() {
            return Err(Error::NamedTwice {
                name: role.name.clone(),
            });
        }
    }
    Ok(accounts)
}

/// Finds the account or opens it, and writes what the policy says of its budget.
pub(super) fn open_account(
    store: &mut dyn Store,
    now: i64,
    kind: &str,
    spec: &AccountSpec,
) -> Result<Account, Error> {
    let found = find_account(store, kind, spec)?;
    if found.id == NOT_OPENED {
        let id = insert_account(store, now, kind, spec)?;
        return Ok(Account { id, ..found });
    }
    let sql = "UPDATE account SET epsilon = $1, delta = $2 WHERE id = $3 AND (epsilon <> $1 OR \
        delta <> $2)";
    let [epsilon, delta] = [spec.budget.epsilon, spec.budget.delta].map(StoreValue::Real);
    store.query(sql, &[epsilon, delta, StoreValue::Int(found.id)])?;
    Ok(found)
}

/// Finds the account, whose fixed terms must agree. There is one owner's account, whatever its
/// name; a role's account is found by the role's name.
fn find_account(store: &mut dyn Store, kind: &str, spec: &AccountSpec) -> Result<Account, Error> {
    let AccountSpec {
        name,
        budget,
        threshold_share,
        cap,
        renew,
    } = spec;
    let fixed = Fixed::round_down;
    let terms = AccountTerms {
        epsilon: fixed(budget.epsilon),
        delta: fixed(budget.delta),
        threshold_share: fixed(*threshold_share),
        cap: *cap,
        renew: *renew,
    };
    let accounting = cap.accounting().name();
    let sql = "SELECT id, accounting, threshold_share FROM account WHERE kind = $1 AND (kind = \
        'owner' OR name = $2)";
    let found = store.query(sql, &[text_value(kind), text_value(name)])?;
    let account = |id| Account {
        id,
        terms,
        kept: None,
    };
    let Some(row) = found.first() else {
        return Ok(account(NOT_OPENED));
    };
    let fixed = |what, fixed, wanted| {
        let whose = if kind == "owner" {
            "the owner's account".to_owned()
        } else {
            format!("the account of role {name:?}")
        };
        Err(Error::Fixed {
            account: whose,
            what,
            fixed,
            wanted,
        })
    };
    if row.text(1)? != accounting {
        return fixed("accounting", row.text(1)?.to_owned(), accounting.to_owned());
    }
    if row.real(2)? != *threshold_share {
        return fixed(
            "threshold_share",
            row.real(2)?.to_string(),
            threshold_share.to_string(),
        );
    }
    Ok(account(row.int(0)?))
}

/// A new account and, for a role, its first period.
fn insert_account(
    store: &mut dyn Store,
    now: i64,
    kind: &str,
    spec: &AccountSpec,
) -> Result<i64, Error> {
    let AccountSpec {
        name,
        budget,
        threshold_share,
        cap,
        renew,
    } = spec;
    let sql = "INSERT INTO account
                 (id, kind, name, accounting, threshold_share, epsilon, delta, spent_epsilon, \
                 spent_rho, spent_mu_squared, spent_delta, failures)
               VALUES ((SELECT coalesce(max(id), 0) + 1 FROM account), $1, $2, $3, $4, $5, $6, \
                 $7, $7, $7, $7, 0) RETURNING id";
    let zero = StoreValue::Blob(vec![0; 16]);
    let made = store.query(
        sql,
        &[
            text_value(kind),
            text_value(name),
            text_value(cap.accounting().name()),
            StoreValue::Real(*threshold_share),
            StoreValue::Real(budget.epsilon),
            StoreValue::Real(budget.delta),
            zero.clone(),
        ],
    )?;
    let id = first_row(&made)?.int(0)?;
    if kind == "role" {
        let start = period_start(*renew, now).unwrap_or(0);
        let sql = "INSERT INTO period (account, renew, start, epsilon, rho, mu_squared, delta, \
                     debits, receipts, decisions)
                   VALUES ($1, $2, $3, $4, $4, $4, $4, 0, 0, 0)";
        store.query(
            sql,
            &[
                StoreValue::Int(id),
                text_value(renew.name()),
                StoreValue::Int(start),
                zero,
            ],
        )?;
    }
    Ok(id)
}

/// Where the policy changes `renew`, the current period keeps everything that was spent in it, and
/// no grant of an ended period: a change of the policy grants nothing.
fn keep_period(store: &mut dyn Store, now: i64, account: Account) -> Result<(), Error> {
    let Some(KeptPeriod { start, decisions }) = kept_period(store, now, account)? else {
        return Ok(());
    };
    let sql = "UPDATE period SET renew = $1, start = $2, decisions = $3 WHERE account = $4";
    let values = [
        text_value(account.terms.renew.name()),
        StoreValue::Int(start),
        StoreValue::Int(decisions),
        StoreValue::Int(account.id),
    ];
    store.query(sql, &values)?;
    Ok(())
}

/// `None` where the policy does not change `renew`.
fn kept_period(
    store: &mut dyn Store,
    now: i64,
    account: Account,
) -> Result<Option<KeptPeriod>, Error> {
    let Account { id, terms, kept: _ } = account;
    let row = store.query(
        "SELECT renew, start, decisions, (SELECT coalesce(max(id), 0) FROM decision) FROM period \
            WHERE account = $1",
        &[StoreValue::Int(id)],
    )?;
    let row = first_row(&row)?;
    let before = [Renew::Never, Renew::Weekly, Renew::Monthly]
        .into_iter()
        .find(|renew| row.text(0).is_ok_and(|name| name == renew.name()));
    if before == Some(terms.renew) {
        return Ok(None);
    }
    let last = row.int(1)?;
    let has_ended = before
        .and_then(|renew| period_start(renew, now))
        .is_some_and(|start| start > last);
    Ok(Some(KeptPeriod {
        start: period_start(terms.renew, now).unwrap_or(0).max(last),
        decisions: row.int(if has_ended { 3 } else { 2 })?,
    }))
}
