//! `pgveil summarize` makes the summaries that a policy declares, and prints what they cost and how
//! far off they are.

use std::io::{IsTerminal, Write};
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::bounds::price;
use super::{Failure, signal, start};
use crate::engine::{
    SetsQuestion, SummaryMaker, SummaryQuestion, sets_in_words, settle_sets, three_digits,
};
use crate::execute::Backend;
use crate::ledger::Ledger;
use crate::mechanism::{Loss, OsRandomness, SummedValues};
use crate::policy::{Policy, Summary, SummaryKey};
use crate::release::OwnerError;

/// What is made, and how.
pub struct SummarizeOptions<'a> {
    /// `None`: all that the policy declares.
    pub name: Option<&'a str>,
    /// Also those that the ledger has.
    pub again: bool,
    /// Without asking.
    pub yes: bool,
}

pub async fn run(path: &Path, wanted: SummarizeOptions<'_>) -> Result<(), Failure> {
    let cancel = signal::token()?;
    let file = start::read(path)?;
    let (database, ledger) = (start::database(&file)?, start::ledger(&file)?);
    let opened = start::open(&file, &database).await?;
    opened.connected.close().await;
    let (owner, roles) = start::accounts(&opened.policy.privacy, &opened.policy.roles)?;
    let ledger = Ledger::open(ledger, owner, &roles)
        .await
        .map_err(Failure::new)?;
    let (policy, _) = start::settle_searches(opened.policy, &ledger).await?;
    let backend = Backend::new(database, 1);
    let selecting = select_sets((&policy, path), &wanted, (&backend, &ledger), &cancel).await?;
    let Some(is_selected) = selecting else {
        println!("{}", decline_text(false));
        return Ok(());
    };
    let (policy, _) = settle_sets(&policy, &ledger).await.map_err(Failure::new)?;
    let meant = find(&policy, path, wanted.name.as_slice())?;
    let chosen = plan_all(&policy, meant.iter().copied())?;
    let maker = SummaryMaker {
        policy: &policy,
        backend: &backend,
        ledger: &ledger,
    };
    let mut due = Vec::new();
    for (summary, question) in &chosen {
        let known = maker.newest(summary, question).await.map_err(failure_of)?;
        let is_due = wanted.again || known.is_none();
        lines(summary, question, &policy)
            .iter()
            .for_each(|line| println!("{line}"));
        if is_due {
            due.push((*summary, question));
        } else {
            println!("  made before; --again makes it once more, and is charged once more");
        }
    }
    if due.is_empty() {
        return Ok(());
    }
    let losses = due.iter().map(|(_, question)| question.kept_as.loss);
    announce(losses.collect(), &ledger).await?;
    if !(wanted.yes || !std::io::stdin().is_terminal() || ask_agreement()?) {
        println!("{}", decline_text(is_selected));
        return Ok(());
    }
    for (summary, question) in due {
        let mut sampler = OsRandomness::new();
        let made = maker.make(summary, question, &mut sampler, &cancel).await;
        let role = made.map_err(failure_of)?;
        println!(
            "{}: made; role {role} has received it, and each other role does at the first question \
                that it answers",
            summary.name
        );
    }
    if meant.iter().any(|summary| summary.is_auto) {
        println!("{RESTART}");
    }
    Ok(())
}

/// Makes all summaries of a policy, without a word.
pub async fn make_all(
    policy: &Policy,
    (backend, ledger): (&Backend, &Ledger),
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let maker = SummaryMaker {
        policy,
        backend,
        ledger,
    };
    for (summary, question) in plan_all(policy, policy.summaries.iter())? {
        let mut sampler = OsRandomness::new();
        let made = maker.make(summary, &question, &mut sampler, cancel).await;
        made.map_err(failure_of)?;
    }
    Ok(())
}

const RESTART: &str = "Restart pgveil serve, or send it SIGHUP, to answer by the sets that were \
    selected.";

/// What is said where the owner does not agree to a price.
fn decline_text(is_selected: bool) -> String {
    match is_selected {
        false => "Nothing was made or charged.".to_owned(),
        true => format!(
            "No summary was made. The selection was charged, and is kept: run the command again \
                without --again to make the summary of these sets. {RESTART}"
        ),
    }
}

/// Selects the sets of those summaries that leave them to `auto`, where they are due. Says whether
/// any were; `None` where the owner did not agree.
async fn select_sets(
    (policy, path): (&Policy, &Path),
    wanted: &SummarizeOptions<'_>,
    (backend, ledger): (&Backend, &Ledger),
    cancel: &CancellationToken,
) -> Result<Option<bool>, Failure> {
    let maker = SummaryMaker {
        policy,
        backend,
        ledger,
    };
    let mut due = Vec::new();
    for summary in find(policy, path, wanted.name.as_slice())? {
        if !summary.is_auto {
            continue;
        }
        let question = plan_sets(policy, summary)?;
        if wanted.again || !maker.has_sets(&question).await.map_err(failure_of)? {
            let lines = lines_of_sets(summary, &question, policy);
            lines.iter().for_each(|line| println!("{line}"));
            due.push((summary, question));
        }
    }
    if due.is_empty() {
        return Ok(Some(false));
    }
    let losses = due.iter().map(|(_, question)| question.kept_as.loss);
    announce(losses.collect(), ledger).await?;
    if !(wanted.yes || !std::io::stdin().is_terminal() || ask_agreement()?) {
        return Ok(None);
    }
    for (summary, question) in due {
        let mut sampler = OsRandomness::new();
        let made = maker.select_sets(summary, &question, &mut sampler, cancel);
        let (role, selected) = made.await.map_err(failure_of)?;
        let sets = selected.key_sets(summary.keys.len()).unwrap_or_default();
        println!(
            "{}: selected {}; role {role} has received the selection",
            summary.name,
            sets_in_words(&sets, summary, policy)
        );
    }
    Ok(Some(true))
}

/// The selection of a summary's sets, planned.
pub fn plan_sets(policy: &Policy, summary: &Summary) -> Result<SetsQuestion, Failure> {
    SetsQuestion::new(policy, summary).map_err(|error| {
        let refusal = error.report();
        Failure::new(format_args!("summary {}: {refusal}", summary.name))
    })
}

/// From what the sets of a summary are selected, and what that costs.
pub fn lines_of_sets(summary: &Summary, question: &SetsQuestion, policy: &Policy) -> Vec<String> {
    let table = &policy.tables[summary.table];
    let selection = &question.selection;
    vec![
        format!(
            "{}: {}.{}, its sets are selected from {} of two or three keys, for {}",
            summary.name,
            table.schema,
            table.name,
            selection.candidates().len(),
            price(&selection.loss())
        ),
        format!(
            "  {} rounds; a set is seen if it differs from what those before it tell by some {} \
                rows more than its noise",
            selection.rounds(),
            three_digits(question.rows_seen())
        ),
    ]
}

/// The summaries of these names; all that the policy declares without names.
pub fn find<'p>(
    policy: &'p Policy,
    path: &Path,
    names: &[&str],
) -> Result<Vec<&'p Summary>, Failure> {
    let known: Vec<&str> = policy.summaries.iter().map(|s| s.name.as_str()).collect();
    if known.is_empty() {
        let message = format_args!("{} declares no summary", path.display());
        return Err(Failure::with_remedy(
            message,
            "Add `summaries:` to it; docs/summaries.md shows how.",
        ));
    }
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(Failure::with_remedy(
            format_args!("the policy declares no summary {name}"),
            format!("Its summaries are {}.", known.join(", ")),
        ));
    }
    let is_meant = |summary: &&Summary| names.is_empty() || names.contains(&&*summary.name);
    Ok(policy.summaries.iter().filter(is_meant).collect())
}

/// Each summary with its plan.
pub fn plan_all<'p>(
    policy: &'p Policy,
    summaries: impl Iterator<Item = &'p Summary>,
) -> Result<Vec<(&'p Summary, SummaryQuestion)>, Failure> {
    let planned = |summary: &'p Summary| {
        let question = SummaryQuestion::new(policy, summary).map_err(|error| {
            let refusal = error.report();
            Failure::new(format_args!("summary {}: {refusal}", summary.name))
        })?;
        Ok((summary, question))
    };
    summaries.map(planned).collect()
}

/// What a summary has, how far off it is, and what it costs.
pub fn lines(summary: &Summary, question: &SummaryQuestion, policy: &Policy) -> Vec<String> {
    let table = &policy.tables[summary.table];
    let names = summary.key_names(policy);
    let mut lines = vec![format!(
        "{}: {}.{}, {} noisy groups, epsilon {} ({})",
        summary.name,
        table.schema,
        table.name,
        question.groups(),
        question.epsilon,
        price(&question.kept_as.loss)
    )];
    let errors = question.errors();
    let of_values = question.errors_of(&SummedValues::Number(1));
    let of_prefixes = question.errors_of(&SummedValues::Prefixes);
    for (at, (set, error)) in summary.marginals.iter().zip(errors).enumerate() {
        let name = |key: SummaryKey| key.pick(&names).as_str();
        let keys: Vec<&str> = set.keys().map(name).collect();
        let ranges = set.keys().filter(|key| key.pick(&summary.keys).has_ranges);
        let ranges: Vec<&str> = ranges.map(name).collect();
        let of_ranges = match ranges.is_empty() {
            true => String::new(),
            false => format!(
                " over all ranges of {}; {} up to a value, {} of a single one",
                ranges.join(" and "),
                three_digits(of_prefixes[at]),
                three_digits(of_values[at])
            ),
        };
        lines.push(format!(
            "  ({}): standard error of a count {}{of_ranges}",
            keys.join(", "),
            three_digits(error)
        ));
    }
    lines
}

/// Prints what will be charged.
async fn announce(due: Vec<Loss>, ledger: &Ledger) -> Result<(), Failure> {
    let mut due = due.into_iter();
    let sum = due.try_fold(Loss::ZERO, Loss::compose);
    let sum = sum.ok_or_else(|| Failure::new("the summaries cost more than can be counted"))?;
    let balance = ledger.balance_owner().await.map_err(Failure::new)?;
    println!(
        "Will be charged: {}, to the owner's total ({:.2} % of it is left) and to the first role \
            that can pay. Each other role pays the same once.",
        price(&sum),
        balance.fraction_left() * 100.0
    );
    Ok(())
}

fn ask_agreement() -> Result<bool, Failure> {
    print!("Make it now? [y/N] ");
    std::io::stdout().flush().map_err(Failure::new)?;
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(Failure::new)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn failure_of(error: OwnerError) -> Failure {
    match error {
        OwnerError::Awaited => Failure::with_remedy(
            error,
            "Run the command again in a moment: what the other one made is used.",
        ),
        OwnerError::Backend(_) => Failure::with_remedy(
            error,
            "What was charged stays charged; run the command again once the database answers.",
        ),
        OwnerError::Refused(_) | OwnerError::Ledger(_) | OwnerError::Release(_) => {
            Failure::new(error)
        }
    }
}
