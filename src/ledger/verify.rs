//! The check of a whole ledger at its opening: every sum against the history it stands for.

use std::collections::BTreeMap;

use super::error::Error;
use super::store::{Access, Row, Store, StoreValue};
use crate::mechanism::Loss;

/// Rows read at a time.
const PAGE: usize = 10_000;

/// What one account's rows must say.
struct Expected {
    kind: String,
    name: String,
    lifetime: Loss,
    /// For a role: its period's sums, and the last debit and receipt before it.
    period: Option<(Loss, i64, i64)>,
    summed: Option<Loss>,
    summed_period: Option<Loss>,
}

/// Reads everything in one snapshot and writes nothing.
///
/// # Guarantee
///
/// On success no debit and no receipt is missing from the middle, each account's sum is the exact
/// sum of its debits and receipts (the owner's: of all debits), and each period's of those since
/// its beginning. An older whole state of the ledger passes this check; its height tells it apart.
///
/// # Errors
///
/// [`Error::Damaged`]; those of the store.
pub(super) fn sums(store: &mut dyn Store, ledger: &str, format: i64) -> Result<(), Error> {
    store.begin(Access::Read)?;
    let found = fault(store, format);
    store.end(found.as_ref().map(|_| ()).map_err(Clone::clone))?;
    match found? {
        None => Ok(()),
        Some(reason) => Err(Error::Damaged {
            ledger: ledger.to_owned(),
            reason,
        }),
    }
}

fn fault(store: &mut dyn Store, format: i64) -> Result<Option<String>, Error> {
    let mut accounts = expected_sums(store, format)?;
    let Some(owner) = accounts
        .iter()
        .find(|(_, account)| account.kind == "owner")
        .map(|(id, _)| *id)
    else {
        let sql = "SELECT id, role, epsilon, rho, mu_squared, delta FROM debit WHERE id > $1 ORDER \
            BY id LIMIT $2";
        let any = store.query(sql, &[StoreValue::Int(0), StoreValue::Int(1)])?;
        return Ok((!any.is_empty()).then(|| "there are debits and no owner".to_owned()));
    };
    let debits = "SELECT id, role, epsilon, rho, mu_squared, delta FROM debit WHERE id > $1 ORDER \
        BY id LIMIT $2";
    let fault = add_up(store, debits, "debits", |row, id| {
        let (role, loss) = (row.int(1)?, row.loss(2)?);
        Ok(add(&mut accounts, owner, loss, |_| false)
            && add(&mut accounts, role, loss, |(_, debits, _)| id > debits))
    })?;
    if fault.is_some() {
        return Ok(fault);
    }
    if format >= 2 {
        // The owner had already paid for these answers.
        let receipts = "SELECT id, role, epsilon, rho, mu_squared, delta FROM receipt WHERE id > \
            $1 \
            ORDER BY id LIMIT $2";
        let fault = add_up(store, receipts, "receipts", |row, id| {
            let (role, loss) = (row.int(1)?, row.loss(2)?);
            Ok(role != owner && add(&mut accounts, role, loss, |(_, _, receipts)| id > receipts))
        })?;
        if fault.is_some() {
            return Ok(fault);
        }
    }
    if format >= 10
        && let Some(fault) = fault_of_draws(store)?
    {
        return Ok(Some(fault));
    }
    Ok(accounts.values().find_map(disagreement))
}

/// Whether each horizon was paid for by a debit, and its periods were drawn once, in their order,
/// each draw by a debit.
fn fault_of_draws(store: &mut dyn Store) -> Result<Option<String>, Error> {
    let sql = "SELECT p.id, p.epsilon, p.rho, p.mu_squared, p.delta, d.epsilon, d.rho, \
        d.mu_squared, d.delta FROM prepaid AS p JOIN debit AS d ON d.id = p.debit";
    for row in store.query(sql, &[])? {
        if row.loss(1)? != row.loss(5)? {
            let id = row.int(0)?;
            return Ok(Some(format!(
                "what was prepaid as number {id} was not debited"
            )));
        }
    }
    let sql = "SELECT w.prepaid, w.first, w.until, d.id FROM prepaid_draw AS w LEFT JOIN debit AS \
        d ON d.id = w.debit ORDER BY w.prepaid, w.first";
    let mut last = None;
    for row in store.query(sql, &[])? {
        let (prepaid, first, until) = (row.int(0)?, row.int(1)?, row.int(2)?);
        let follows = match last {
            Some((before, end)) if before == prepaid => end == first,
            Some(_) | None => true,
        };
        if !follows || row.is_null(3) || until <= first {
            return Ok(Some(format!(
                "the draws of what was prepaid as number {prepaid} do not follow each other"
            )));
        }
        last = Some((prepaid, until));
    }
    Ok(None)
}

fn disagreement(account: &Expected) -> Option<String> {
    let Expected {
        kind,
        name,
        lifetime,
        period,
        summed,
        summed_period,
    } = account;
    if *summed != Some(*lifetime) {
        return Some(format!(
            "the sum of {kind} {name:?} is not the sum of its debits"
        ));
    }
    match period {
        Some((period, _, _)) if *summed_period != Some(*period) => Some(format!(
            "the period of {kind} {name:?} is not the sum of its debits"
        )),
        Some(_) | None => None,
    }
}

fn expected_sums(store: &mut dyn Store, format: i64) -> Result<BTreeMap<i64, Expected>, Error> {
    let sql = "SELECT id, kind, name, spent_epsilon, spent_rho, spent_mu_squared, spent_delta FROM \
        account";
    let mut accounts = BTreeMap::new();
    for row in store.query(sql, &[])? {
        let account = Expected {
            kind: row.text(1)?.to_owned(),
            name: row.text(2)?.to_owned(),
            lifetime: row.loss(3)?,
            period: None,
            summed: Some(Loss::ZERO),
            summed_period: Some(Loss::ZERO),
        };
        accounts.insert(row.int(0)?, account);
    }
    if format >= 3 {
        for row in store.query(
            "SELECT account, debits, receipts, epsilon, rho, mu_squared, delta FROM period",
            &[],
        )? {
            if let Some(account) = accounts.get_mut(&row.int(0)?) {
                account.period = Some((row.loss(3)?, row.int(1)?, row.int(2)?));
            }
        }
    }
    Ok(accounts)
}

/// Adds a loss to an account, and to its period where it falls into that. Whether there is such an
/// account.
fn add(
    accounts: &mut BTreeMap<i64, Expected>,
    id: i64,
    loss: Loss,
    is_since: impl Fn((Loss, i64, i64)) -> bool,
) -> bool {
    let Some(account) = accounts.get_mut(&id) else {
        return false;
    };
    account.summed = account.summed.and_then(|sum| sum.compose(loss));
    if account.period.is_some_and(is_since) {
        account.summed_period = account.summed_period.and_then(|sum| sum.compose(loss));
    }
    true
}

/// Shows every row of a table to `one`, page by page; the ids are 1, 2, 3, …
fn add_up(
    store: &mut dyn Store,
    sql: &'static str,
    what: &str,
    mut one: impl FnMut(&Row, i64) -> Result<bool, Error>,
) -> Result<Option<String>, Error> {
    let mut last = 0;
    loop {
        let rows = store.query(sql, &[StoreValue::Int(last), StoreValue::Int(PAGE as i64)])?;
        for row in &rows {
            let id = row.int(0)?;
            if id != last + 1 {
                return Ok(Some(format!("{what} are missing after number {last}")));
            }
            if !one(row, id)? {
                return Ok(Some(format!("one of its {what} is of no role")));
            }
            last = id;
        }
        if rows.len() < PAGE {
            return Ok(None);
        }
    }
}
