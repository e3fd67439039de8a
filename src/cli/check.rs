//! `pgveil check` verifies a policy against its database and summarizes it.

use std::path::Path;

use super::arguments::SEARCH_EPSILON;
use super::{Failure, against_data, bounds, expected_errors, placement, start, summarize};
use crate::auto_bounds;
use crate::engine::{promises, summary};
use crate::mechanism::{AccountState, Loss};
use crate::policy::{File, Policy, Table, find_unlisted};
use crate::postgres::create_index;

/// What `check` reads of the rows, apart from the catalog.
#[derive(Debug, Clone, Copy)]
pub struct ReadsRows {
    pub against_data: bool,
    pub placement: bool,
}

pub async fn run(path: &Path, reads: ReadsRows) -> Result<(), Failure> {
    let file = start::read(path)?;
    let opened = start::open(&file, &start::database(&file)?).await?;
    let (owner, roles) = start::accounts(&opened.policy.privacy, &opened.policy.roles)?;
    let (searches, due) = searches(&file, &opened.policy).await?;
    let policy = start::as_found(&file, opened.policy).await?;
    let unlisted = find_unlisted(&file, &policy);
    let summary = summary(&policy, &unlisted, &owner, &roles);
    for line in summary
        .into_iter()
        .chain(searches)
        .chain(summaries(&policy, due)?)
        .chain(promises(&policy))
    {
        println!("{line}");
    }
    print_indexes(&policy);
    for line in expected_errors::lines(&policy)? {
        println!("{line}");
    }
    if reads.against_data {
        let lines = against_data::lines(&opened.connected.client, &policy).await?;
        for line in against_data::HEADING {
            println!("{line}");
        }
        lines.iter().for_each(|line| println!("{line}"));
    }
    if reads.placement {
        println!("Placement of rows:");
        let distribution = |table: &Table| {
            let mut tables = opened.catalog.tables.iter();
            let relation = tables.find(|relation| relation.oid == table.oid)?;
            Some(relation.distribution.clone())
        };
        for line in placement::check(&opened.connected.client, &policy, distribution).await? {
            println!("{line}");
        }
    }
    opened.connected.close().await;
    for warning in &opened.warnings {
        println!("warning: {warning}");
    }
    if due > 0 {
        let due = match due {
            1 => "1 search is".to_owned(),
            _ => format!("{due} searches are"),
        };
        println!(
            "warning: {due} due; run `pgveil bounds {}`, or pgveil serve will not \
                start",
            path.display()
        );
    }
    let warnings = opened.warnings.len() + usize::from(due > 0);
    let ending = match warnings {
        0 => String::new(),
        1 => ", with 1 warning".to_owned(),
        _ => format!(", with {warnings} warnings"),
    };
    println!(
        "{}: the policy holds for database {} (PostgreSQL {}){ending}",
        path.display(),
        opened.catalog.database,
        opened.catalog.server_version
    );
    Ok(())
}

fn print_indexes(policy: &Policy) {
    let indexes = policy.tables.iter().filter_map(Table::usual_index);
    for (at, index) in indexes.enumerate() {
        if at == 0 {
            println!("Indexes that would help (EXPLAIN names that of one question):");
        }
        println!("  {}", create_index(&index));
    }
}

/// Lists the summaries that the policy declares, with their errors and prices.
fn summaries(policy: &Policy, due: usize) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    if due > 0 && !policy.summaries.is_empty() {
        // Bounds that were not found yet have no price.
        lines.push("Summaries are listed once `pgveil bounds` has run.".to_owned());
        return Ok(lines);
    }
    for summary in &policy.summaries {
        if lines.is_empty() {
            lines.push("Summaries (`pgveil summarize` makes them):".to_owned());
        }
        let mut own = Vec::new();
        if summary.is_auto {
            let question = summarize::plan_sets(policy, summary)?;
            own.extend(summarize::lines_of_sets(summary, &question, policy));
        }
        if !summary.marginals.is_empty() {
            for (summary, question) in summarize::plan_all(policy, std::iter::once(summary))? {
                own.extend(summarize::lines(summary, &question, policy));
            }
        }
        lines.extend(own.iter().map(|line| format!("  {line}")));
    }
    Ok(lines)
}

/// Lists the searches that the policy leaves to `auto`, with their results or prices, and counts
/// those that have not run.
async fn searches(file: &File, policy: &Policy) -> Result<(Vec<String>, usize), Failure> {
    let known = match start::found_by(file, policy).await? {
        Some(ledger) => auto_bounds::stored_results(policy, &ledger)
            .await
            .map_err(Failure::new)?,
        None => policy.searches.iter().map(|_| None).collect(),
    };
    let (owner, roles) = start::accounts(&policy.privacy, &policy.roles)?;
    let accounts: Vec<AccountState> = roles
        .iter()
        .chain([&owner])
        .map(|account| AccountState {
            cap: account.cap,
            spent: Loss::ZERO,
        })
        .collect();
    let mut lines: Vec<String> = (!known.is_empty())
        .then(|| "Searches:".to_owned())
        .into_iter()
        .collect();
    for (search, found) in policy.searches.iter().zip(&known) {
        lines.push(match found {
            Some((kept, found)) => {
                format!(
                    "  {}; {} for each role",
                    bounds::read_out(policy, search, kept, "in the ledger"),
                    bounds::price(&found.loss)
                )
            }
            None => {
                let plan = auto_bounds::plan(policy, search, SEARCH_EPSILON, accounts.clone())
                    .map_err(Failure::new)?;
                format!(
                    "  {}: due; at epsilon {SEARCH_EPSILON} it costs {}",
                    auto_bounds::search_name(policy, search),
                    bounds::price(&plan.loss())
                )
            }
        });
    }
    Ok((lines, known.iter().filter(|found| found.is_none()).count()))
}
