//! `pgveil budget` prints the balance of every account and its debits, and records the owner's
//! decisions. It reads the ledger alone; only what answers are worth comes from the database's
//! catalog.

use std::path::Path;
use std::time::Duration;

use super::arguments::{AccountArgument, BudgetQuestion, DecisionReason};
use super::{Failure, expected_errors, record, start};
use crate::auto_bounds;
use crate::calendar::FROM_1970_US;
use crate::ledger::{
    Act, Balance, Decided, Decision, Entry, Error, Ledger, LedgerReader, PolicyRecord,
};
use crate::mechanism::Fixed;
use crate::policy::{EPSILON_MAX, File, Scalar};
use crate::rewrite::emit::sql;

/// The largest number of debits listed for one role.
const HISTORY_MAX: u32 = 10_000;
/// How long the database may take to say what a policy is worth.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn run(path: Option<&Path>, question: Option<BudgetQuestion>) -> Result<(), Failure> {
    let Some(path) = path else {
        return Err(Failure::Usage(
            "name the policy whose ledger is meant: --policy FILE".to_owned(),
        ));
    };
    let file = start::read(path)?;
    match question.unwrap_or(BudgetQuestion::Show) {
        BudgetQuestion::Show => show(&file).await,
        BudgetQuestion::History => {
            let lines = history(&file, &open(&file).await?).await?;
            print(&lines);
            Ok(())
        }
        BudgetQuestion::Grant {
            role,
            epsilon,
            delta,
            reason,
        } => {
            let act = Act::Grant {
                role: require_role(&file, role)?,
                epsilon: read_grant("--epsilon", epsilon, EPSILON_MAX)?,
                delta: read_grant("--delta", delta, 1.0)?,
            };
            decide(&file, act, reason).await
        }
        BudgetQuestion::Freeze { whom, reason } => {
            let role = whose(&file, whom)?;
            decide(&file, Act::Freeze { role }, reason).await
        }
        BudgetQuestion::Unfreeze { whom, reason } => {
            let role = whose(&file, whom)?;
            decide(&file, Act::Unfreeze { role }, reason).await
        }
        BudgetQuestion::Export { after } => record::export(&open(&file).await?, after).await,
        BudgetQuestion::Digest { sql } => record::digests(&open(&file).await?, &sql),
    }
}

async fn show(file: &File) -> Result<(), Failure> {
    let ledger = open(file).await?;
    print(&balances(file, &ledger).await?);
    match worth(file, &ledger).await {
        Ok(lines) => lines.iter().for_each(|line| println!("{line}")),
        // The accounts need no database.
        Err(failure) => eprintln!(
            "What answers are worth needs the database: {}",
            failure.in_a_line()
        ),
    }
    Ok(())
}

fn print(lines: &[Vec<String>]) {
    for line in align(lines) {
        println!("{line}");
    }
}

/// What the first role's budget is worth, by the policy as its database has it.
async fn worth(file: &File, ledger: &LedgerReader) -> Result<Vec<String>, Failure> {
    let database = start::database(file)?;
    let opened = tokio::time::timeout(PATIENCE, start::open(file, &database)).await;
    let opened = opened.map_err(|_| Failure::new("it does not answer"))??;
    opened.connected.close().await;
    let settled = auto_bounds::settle(&opened.policy, ledger).await;
    let policy = match settled.map_err(Failure::new)? {
        Ok((settled, _)) => settled,
        Err(_) => opened.policy,
    };
    let Some(role) = policy.roles.first() else {
        return Ok(Vec::new());
    };
    let balances = ledger.balances(&role.name).await.map_err(Failure::new)?;
    expected_errors::lines_of(&policy, Some(&balances))
}

/// Opens the ledger that the policy names, to read it.
async fn open(file: &File) -> Result<LedgerReader, Failure> {
    let ledger = start::ledger(file)?;
    let (owner, roles) = start::accounts(&file.privacy, &file.roles)?;
    let opened = LedgerReader::open(ledger, owner, &roles).await;
    opened.map_err(failure_of)
}

fn failure_of(error: Error) -> Failure {
    match error {
        Error::OlderFormat { .. } | Error::HalfWritten { .. } => start::unread(error),
        Error::Missing { .. } => Failure::with_remedy(
            error,
            "It is made when `pgveil serve` starts for the first time.",
        ),
        Error::Decision(_) => Failure::with_remedy(
            error,
            "Nothing was changed. `pgveil budget show` shows what each account has.",
        ),
        error => Failure::new(error),
    }
}

fn require_role(file: &File, role: String) -> Result<String, Failure> {
    if file.roles.iter().any(|known| known.name == role) {
        return Ok(role);
    }
    let names: Vec<&str> = file.roles.iter().map(|role| role.name.as_str()).collect();
    Err(Failure::Usage(format!(
        "the policy has no role \"{role}\"; its roles are {}",
        names.join(", ")
    )))
}

fn whose(file: &File, whom: AccountArgument) -> Result<Option<String>, Failure> {
    whom.role.map(|role| require_role(file, role)).transpose()
}

/// Rounds down, as all budgets are rounded.
fn read_grant(what: &str, value: f64, most: f64) -> Result<Fixed, Failure> {
    if (0.0..=most).contains(&value) {
        return Ok(Fixed::round_down(value));
    }
    Err(Failure::Usage(format!(
        "{what} must be a number from 0 to {most}, such as 0.5, not {value}"
    )))
}

/// Who decides: as said, or the user of the operating system.
pub fn who(reason: &DecisionReason) -> String {
    reason.who.clone().unwrap_or_else(user)
}

/// The user of the operating system, by number where it has no name.
pub fn user() -> String {
    whoami::username().unwrap_or_else(|_| format!("uid {}", rustix::process::geteuid().as_raw()))
}

/// Records a decision. The policy's file names the account, and changes none: it may not be in
/// force yet.
async fn decide(file: &File, act: Act, reason: DecisionReason) -> Result<(), Failure> {
    let ledger = start::ledger(file)?;
    let (owner, roles) = start::accounts(&file.privacy, &file.roles)?;
    let decision = Decision {
        act,
        who: who(&reason),
        why: reason.why,
    };
    let text = decision.act.words();
    let decided = Ledger::decide_at(ledger, owner, &roles, decision).await;
    decided.map_err(failure_of)?;
    println!("recorded: {text}");
    Ok(())
}

async fn balances(file: &File, ledger: &LedgerReader) -> Result<Vec<Vec<String>>, Failure> {
    let header = [
        "account",
        "left",
        "epsilon spent",
        "mu spent",
        "delta spent",
        "failed queries",
        "renewed",
        "granted",
        "",
    ];
    let owner = ledger.balance_owner().await.map_err(Failure::new)?;
    let mut lines = vec![
        header.map(str::to_owned).to_vec(),
        balance("(owner)", &owner, String::new()),
    ];
    for role in &file.roles {
        let failures = ledger.failures(&role.name).await.map_err(Failure::new)?;
        let standing = ledger.balance(&role.name).await.map_err(Failure::new)?;
        let mut line = balance(&role.name, &standing, failures.to_string());
        let is_open = ledger.has_account(&role.name).await;
        if !is_open.map_err(Failure::new)? {
            line.pop();
            line.push("no account yet".to_owned());
        }
        lines.push(line);
    }
    Ok(lines)
}

fn balance(name: &str, balance: &Balance, failures: String) -> Vec<String> {
    let Balance {
        cap: _,
        spent: _,
        lifetime,
        renew,
        renews_at: _,
        granted: (granted, granted_delta),
        frozen,
        closed,
    } = balance;
    let left = format!("{:.2} %", balance.fraction_left() * 100.0);
    let renewed = renew.name();
    let granted = match (*granted, *granted_delta) {
        (Fixed::ZERO, Fixed::ZERO) => "-".to_owned(),
        (by_epsilon, by_delta) => format!("{} {}", epsilon(Some(by_epsilon)), delta(by_delta)),
    };
    let state = match (*frozen, *closed) {
        (true, _) => "frozen",
        (false, true) => "refused by the total",
        (false, false) => "",
    };
    let spent = [
        epsilon(lifetime.epsilon),
        mu(lifetime.mu_squared),
        delta(lifetime.delta),
    ];
    [
        vec![name.to_owned(), left],
        spent.to_vec(),
        vec![failures, renewed.to_owned(), granted, state.to_owned()],
    ]
    .concat()
}

async fn history(file: &File, ledger: &LedgerReader) -> Result<Vec<Vec<String>>, Failure> {
    let mut lines: Vec<(i64, Vec<String>)> = Vec::new();
    for role in &file.roles {
        let entries = ledger
            .history(&role.name, HISTORY_MAX)
            .await
            .map_err(Failure::new)?;
        lines.extend(entries.into_iter().map(
            |Entry {
                 loss,
                 microseconds,
                 fingerprint,
             }| {
                (
                    microseconds,
                    vec![
                        time(microseconds),
                        role.name.clone(),
                        epsilon(loss.epsilon),
                        mu(loss.mu_squared),
                        delta(loss.delta),
                        ledger.plan_digest(fingerprint).short(),
                    ],
                )
            },
        ));
    }
    for Decided {
        id: _,
        microseconds,
        decision: Decision { act, who, why },
    } in ledger.decisions().await.map_err(Failure::new)?
    {
        let what = format!("{} by {who}: {why}", act.words());
        lines.push((microseconds, of_owner(microseconds, what)));
    }
    for PolicyRecord {
        microseconds,
        digest,
        change,
    } in ledger.policies().await.map_err(Failure::new)?
    {
        let change = if change.is_empty() {
            "in force since a start".to_owned()
        } else {
            change.lines().collect::<Vec<_>>().join("; ")
        };
        let what = format!("policy {}: {change}", digest.short());
        lines.push((microseconds, of_owner(microseconds, what)));
    }
    lines.sort_by_key(|(microseconds, _)| std::cmp::Reverse(*microseconds));
    let header = ["time (UTC)", "role", "epsilon", "mu", "delta", "plan"]
        .map(str::to_owned)
        .to_vec();
    Ok(std::iter::once(header)
        .chain(lines.into_iter().map(|(_, line)| line))
        .collect())
}

/// A line of the history for what the owner did. It costs nothing.
fn of_owner(microseconds: i64, what: String) -> Vec<String> {
    let dash = || "-".to_owned();
    let (when, who) = (time(microseconds), "(owner)".to_owned());
    vec![when, who, dash(), dash(), dash(), what]
}

/// Formats microseconds since 1970 as a date and time.
fn time(microseconds: i64) -> String {
    sql::scalar_text(&Scalar::Timestamp(microseconds - FROM_1970_US))
}

/// Formats epsilon. It is empty if the loss has no pure bound.
fn epsilon(epsilon: Option<Fixed>) -> String {
    epsilon.map_or("-".to_owned(), |e| format!("{:.4}", e.to_f64()))
}

fn mu(mu_squared: Fixed) -> String {
    format!("{:.4}", mu_squared.to_f64().sqrt())
}

fn delta(delta: Fixed) -> String {
    if delta == Fixed::ZERO {
        "0".to_owned()
    } else {
        format!("{:.1e}", delta.to_f64())
    }
}

/// Aligns columns, with two blanks between them.
fn align(rows: &[Vec<String>]) -> Vec<String> {
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|at| {
            rows.iter()
                .map(|row| row[at].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let line = |row: &Vec<String>| {
        row.iter()
            .zip(&widths)
            .map(|(text, width)| format!("{text:<width$}"))
            .collect::<Vec<_>>()
            .join("  ")
    };
    rows.iter()
        .map(|row| line(row).trim_end().to_owned())
        .collect()
}
