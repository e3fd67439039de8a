//! Finds or opens the accounts of the policy in force.

use std::collections::HashMap;

use super::AccountSpec;
use super::clock::period_start;
use super::error::Error;
use super::store::{Store, Value, first, text};
use crate::mechanism::{Cap, Fixed};
use crate::policy::Renew;

/// An account of the policy in force: its row, and the policy's terms for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    pub(super) id: i64,
    pub(super) terms: AccountTerms,
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
    let mut accounts = HashMap::with_capacity(roles.len());
    for role in roles {
        let account = open_account(store, now, "role", role)?;
        keep_period(store, now, account)?;
        if accounts.insert(role.name.clone(), account).is_some() {
            return Err(Error::NamedTwice {
                name: role.name.clone(),
            });
        }
    }
    Ok((owner, accounts))
}

/// Finds the account, whose fixed terms must agree, or opens it. There is one owner's account,
/// whatever its name; a role's account is found by the role's name.
pub(super) fn open_account(
    store: &mut dyn Store,
    now: i64,
    kind: &str,
    spec: &AccountSpec,
) -> Result<Account, Error> {
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
    let found = store.query(sql, &[text(kind), text(name)])?;
    let Some(row) = found.first() else {
        let id = insert_account(store, now, kind, spec)?;
        return Ok(Account { id, terms });
    };
    let fixed = |what, fixed, wanted| {
        let account = if kind == "owner" {
            "the owner's account".to_owned()
        } else {
            format!("the account of role {name:?}")
        };
        Err(Error::Fixed {
            account,
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
    let id = row.int(0)?;
    let sql = "UPDATE account SET epsilon = $1, delta = $2 WHERE id = $3 AND (epsilon <> $1 OR \
        delta <> $2)";
    let [epsilon, delta] = [budget.epsilon, budget.delta].map(Value::Real);
    store.query(sql, &[epsilon, delta, Value::Int(id)])?;
    Ok(Account { id, terms })
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
    let zero = Value::Blob(vec![0; 16]);
    let made = store.query(
        sql,
        &[
            text(kind),
            text(name),
            text(cap.accounting().name()),
            Value::Real(*threshold_share),
            Value::Real(budget.epsilon),
            Value::Real(budget.delta),
            zero.clone(),
        ],
    )?;
    let id = first(&made)?.int(0)?;
    if kind == "role" {
        let start = period_start(*renew, now).unwrap_or(0);
        let sql = "INSERT INTO period (account, renew, start, epsilon, rho, mu_squared, delta, \
                     debits, receipts, decisions)
                   VALUES ($1, $2, $3, $4, $4, $4, $4, 0, 0, 0)";
        store.query(
            sql,
            &[Value::Int(id), text(renew.name()), Value::Int(start), zero],
        )?;
    }
    Ok(id)
}

/// Where the policy changes `renew`, the current period keeps everything that was spent in it, and
/// no grant of an ended period: a change of the policy grants nothing.
fn keep_period(store: &mut dyn Store, now: i64, account: Account) -> Result<(), Error> {
    let Account { id, terms } = account;
    let row = store.query(
        "SELECT renew, start FROM period WHERE account = $1",
        &[Value::Int(id)],
    )?;
    let row = first(&row)?;
    let before = [Renew::Never, Renew::Weekly, Renew::Monthly]
        .into_iter()
        .find(|renew| row.text(0).is_ok_and(|name| name == renew.name()));
    if before == Some(terms.renew) {
        return Ok(());
    }
    let last = row.int(1)?;
    if before
        .and_then(|renew| period_start(renew, now))
        .is_some_and(|start| start > last)
    {
        let sql = "UPDATE period SET decisions = (SELECT coalesce(max(id), 0) FROM decision) WHERE \
            account = $1";
        store.query(sql, &[Value::Int(id)])?;
    }
    let start = period_start(terms.renew, now).unwrap_or(0).max(last);
    let sql = "UPDATE period SET renew = $1, start = $2 WHERE account = $3";
    store.query(
        sql,
        &[text(terms.renew.name()), Value::Int(start), Value::Int(id)],
    )?;
    Ok(())
}
