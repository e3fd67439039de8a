//! `pgveil bounds` runs the searches for bounds that a policy leaves to `auto`, and prints their
//! results.

use std::io::{IsTerminal, Write};
use std::path::Path;

use super::{Failure, signal, start};
use crate::auto_bounds;
use crate::auto_bounds::{KeptSearch, Maker};
use crate::execute::Backend;
use crate::ledger::Ledger;
use crate::mechanism::{Fixed, Loss, OsRandomness};
use crate::policy::{Finding, Policy, Search};
use crate::release::OwnerError;

/// Width of the progress bar, in characters.
const BAR: usize = 20;

pub async fn run(path: &Path, epsilon: f64, again: bool) -> Result<(), Failure> {
    if !(epsilon > 0.0 && epsilon <= 100.0) {
        return Err(Failure::Usage(format!(
            "--epsilon must be a number above 0 and at most 100, such as 0.1, not {epsilon}"
        )));
    }
    let cancel = signal::token()?;
    let file = start::read(path)?;
    let (database, ledger) = (start::database(&file)?, start::ledger(&file)?);
    let opened = start::open(&file, &database).await?;
    opened.connected.close().await;
    let policy = opened.policy;
    if policy.searches.is_empty() {
        println!(
            "{}: nothing is left to a search; `bounds: auto` of a column or `rows_per_unit: auto` \
                of a table would be",
            path.display()
        );
        return Ok(());
    }
    let (owner, roles) = start::accounts(&policy.privacy, &policy.roles)?;
    let ledger = Ledger::open(ledger, owner, &roles)
        .await
        .map_err(Failure::new)?;
    let backend = Backend::new(database, 1);
    let maker = Maker {
        policy: &policy,
        backend: &backend,
        ledger: &ledger,
        epsilon,
    };
    let known = auto_bounds::stored_results(&policy, &ledger)
        .await
        .map_err(failure_of)?;
    let due: Vec<bool> = known.iter().map(|found| again || found.is_none()).collect();
    announce(&maker, &due).await?;
    let count = due.iter().filter(|due| **due).count();
    let mut done = 0;
    for ((search, found), due) in policy.searches.iter().zip(known).zip(due) {
        let (kept, state) = match found {
            Some((kept, _)) if !due => (kept, "known"),
            Some(_) | None => {
                progress(done, count, &auto_bounds::search_name(&policy, search));
                let kept = maker
                    .make(search, &mut OsRandomness::new(), &cancel)
                    .await
                    .map_err(failure_of)?;
                done += 1;
                (kept, "new")
            }
        };
        clear();
        println!("{}", read_out(&policy, search, &kept, state));
    }
    if count > 0 {
        println!("Restart pgveil serve, or send it SIGHUP, to answer by what was found.");
    }
    Ok(())
}

/// Prints the charges before they are made.
async fn announce(maker: &Maker<'_>, due: &[bool]) -> Result<(), Failure> {
    let mut sum = Loss::ZERO;
    for (search, _) in maker
        .policy
        .searches
        .iter()
        .zip(due)
        .filter(|(_, due)| **due)
    {
        let plan = maker.plan(search).await.map_err(failure_of)?;
        println!(
            "{}: will cost {}",
            auto_bounds::search_name(maker.policy, search),
            price(&plan.loss())
        );
        sum = sum
            .compose(plan.loss())
            .ok_or_else(|| Failure::new("the searches cost more than can be counted"))?;
    }
    if !sum.is_zero() {
        let cap = maker
            .ledger
            .balance_owner()
            .await
            .map_err(Failure::new)?
            .cap;
        let share = 100.0 * sum.mu_squared.to_f64() / cap.mu_squared().to_f64();
        let of_total = if cap.mu_squared() > Fixed::ZERO {
            format!(" ({share:.2} % of it in mu squared)")
        } else {
            String::new()
        };
        println!(
            "All of it is charged to the owner's total{of_total} and to the role that the search \
                is \
                made for; each other role pays the same once."
        );
    }
    Ok(())
}

/// The price of a search, in each currency in which it is finite.
pub fn price(loss: &Loss) -> String {
    let mu = format!("mu {:.4}", loss.mu_squared.to_f64().sqrt());
    loss.epsilon.map_or(mu.clone(), |epsilon| {
        format!("epsilon {:.4}, {mu}", epsilon.to_f64())
    })
}

/// The result of a search as a sentence.
pub fn read_out(policy: &Policy, search: &Search, kept: &KeptSearch, state: &str) -> String {
    let name = auto_bounds::search_name(policy, search);
    let unit = &policy.privacy.unit;
    let found = match &kept.finding {
        Finding::Rows(1) => format!("1 row a {unit}"),
        Finding::Rows(rows) => format!("{rows} rows a {unit}"),
        Finding::Bounds { lower, upper } => format!("from {lower} to {upper}"),
    };
    let unseen = match kept.unseen {
        0 => String::new(),
        _ => format!(
            "; too few {unit}s to see more: what was not seen stays as wide as it may be, so write \
                it in the policy or search at a larger epsilon"
        ),
    };
    format!(
        "{name}: {found} ({state}, searched at epsilon {}){unseen}",
        kept.epsilon
    )
}

fn failure_of(error: auto_bounds::Error) -> Failure {
    match error {
        auto_bounds::Error::Making(OwnerError::Awaited) => Failure::with_remedy(
            error,
            "Run the command again in a moment: what the other one found is used.",
        ),
        auto_bounds::Error::Making(OwnerError::Backend(_)) => Failure::with_remedy(
            error,
            "What was charged stays charged; run the command again once the database answers.",
        ),
        error => Failure::new(error),
    }
}

fn progress(done: usize, count: usize, name: &str) {
    if std::io::stderr().is_terminal() {
        let full = BAR * done / count.max(1);
        eprint!(
            "[{}{}] {}/{count} {name}",
            "#".repeat(full),
            ".".repeat(BAR - full),
            done + 1
        );
        // The search goes on if the bar cannot be printed.
        let _ = std::io::stderr().flush();
    }
}

fn clear() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
