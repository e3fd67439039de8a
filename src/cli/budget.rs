//! `pgveil budget`: what has been spent of every account, and by which queries. Reads the ledger alone; no database is asked, nothing is spent.

use std::path::Path;

use super::arguments::BudgetQuestion;
use super::{Failure, start};
use crate::ledger::{Balance, Entry, Ledger};
use crate::mechanism::Fixed;
use crate::policy::{File, Scalar};
use crate::rewrite::sql;

/// Most debits of a role that are listed.
const HISTORY_MAX: u32 = 10_000;

pub async fn run(path: &Path, question: BudgetQuestion) -> Result<(), Failure> {
    let file = start::read(path)?;
    let ledger = open(&file).await?;
    let lines = match question {
        BudgetQuestion::Show => balances(&file, &ledger).await?,
        BudgetQuestion::History => history(&file, &ledger).await?,
    };
    for line in aligned(&lines) {
        println!("{line}");
    }
    Ok(())
}

/// The ledger that the policy names, if there is one: a wrong name must not make a fresh one.
async fn open(file: &File) -> Result<Ledger, Failure> {
    let Some(url) = &file.ledger_url else {
        return Err(Failure::with_remedy(format_args!("{} names no ledger", file.name), "Add `ledger: {url: sqlite:///path}`."));
    };
    let path = url.strip_prefix("sqlite://").unwrap_or(url);
    if !Path::new(path).exists() {
        return Err(Failure::with_remedy(format_args!("there is no ledger at {path}"), "It is made when `pgveil serve` starts for the first time."));
    }
    let (owner, roles) = start::accounts(&file.privacy, &file.roles)?;
    Ledger::open(url, owner, &roles).await.map_err(Failure::new)
}

async fn balances(file: &File, ledger: &Ledger) -> Result<Vec<Vec<String>>, Failure> {
    let header = ["account", "left", "epsilon spent", "mu spent", "delta spent", "failed queries"].map(str::to_owned).to_vec();
    let mut lines = vec![header, balance("(owner)", &ledger.balance_owner().await.map_err(Failure::new)?, String::new())];
    for role in &file.roles {
        let failures = ledger.failures(&role.name).await.map_err(Failure::new)?;
        lines.push(balance(&role.name, &ledger.balance(&role.name).await.map_err(Failure::new)?, failures.to_string()));
    }
    Ok(lines)
}

fn balance(name: &str, balance: &Balance, failures: String) -> Vec<String> {
    let left = format!("{:.2} %", balance.fraction_left() * 100.0);
    let spent = &balance.spent;
    vec![name.to_owned(), left, epsilon(spent.epsilon), mu(spent.mu_squared), delta(spent.delta), failures]
}

async fn history(file: &File, ledger: &Ledger) -> Result<Vec<Vec<String>>, Failure> {
    let mut debits: Vec<(String, Entry)> = Vec::new();
    for role in &file.roles {
        let entries = ledger.history(&role.name, HISTORY_MAX).await.map_err(Failure::new)?;
        debits.extend(entries.into_iter().map(|entry| (role.name.clone(), entry)));
    }
    debits.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.microseconds));
    let header = ["time (UTC)", "role", "epsilon", "mu", "delta", "plan"].map(str::to_owned).to_vec();
    let line = |(role, Entry { loss, microseconds, fingerprint }): (String, Entry)| {
        let time = sql::scalar_text(&Scalar::Timestamp(microseconds - 946_684_800_000_000));
        let plan = fingerprint.as_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        vec![time, role, epsilon(loss.epsilon), mu(loss.mu_squared), delta(loss.delta), plan]
    };
    Ok(std::iter::once(header).chain(debits.into_iter().map(line)).collect())
}

/// Without a pure bound there is none to show.
fn epsilon(epsilon: Option<Fixed>) -> String {
    epsilon.map_or("-".to_owned(), |e| format!("{:.4}", e.to_f64()))
}

fn mu(mu_squared: Fixed) -> String {
    format!("{:.4}", mu_squared.to_f64().sqrt())
}

fn delta(delta: Fixed) -> String {
    if delta == Fixed::ZERO { "0".to_owned() } else { format!("{:.1e}", delta.to_f64()) }
}

/// Columns under each other, two blanks between.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let widths: Vec<usize> = (0..rows[0].len()).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &Vec<String>| row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}")).collect::<Vec<_>>().join("  ");
    rows.iter().map(|row| line(row).trim_end().to_owned()).collect()
}
