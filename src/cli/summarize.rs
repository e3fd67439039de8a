//! `pgveil summarize` makes the summaries that a policy declares, and prints what they cost and how
//! far off they are.

use std::io::{IsTerminal, Write};
use std::path::Path;

use super::bounds::price;
use super::{Failure, signal, start};
use crate::engine::{SummaryMaker, SummaryQuestion, three_digits};
use crate::execute::Backend;
use crate::ledger::Ledger;
use crate::mechanism::{Loss, OsRandomness};
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
    let meant = find(&policy, path, wanted.name.as_slice())?;
    let chosen = plan_all(&policy, meant.into_iter())?;
    let backend = Backend::new(database, 1);
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
    announce(&due, &ledger).await?;
    if !(wanted.yes || !std::io::stdin().is_terminal() || ask_agreement()?) {
        println!("Nothing was made or charged.");
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
    Ok(())
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
    for (set, error) in summary.marginals.iter().zip(errors) {
        let name = |key: SummaryKey| key.pick(&names).as_str();
        let keys: Vec<&str> = set.keys().map(name).collect();
        lines.push(format!(
            "  ({}): standard error of a count {}",
            keys.join(", "),
            three_digits(error)
        ));
    }
    lines
}

/// Prints what will be charged.
async fn announce(due: &[(&Summary, &SummaryQuestion)], ledger: &Ledger) -> Result<(), Failure> {
    let sum = due.iter().try_fold(Loss::ZERO, |sum, (_, question)| {
        sum.compose(question.kept_as.loss)
    });
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
