//! `pgveil synth` writes made-up rows that have the statistics of summaries, as files that load
//! into an empty database.

mod files;
mod readme;
mod tables;

use std::collections::HashMap;
use std::path::Path;

use self::files::Folder;
use self::tables::make_up;
use super::arguments::SynthOptions;
use super::progress::ProgressStep;
use super::{Failure, start, summarize};
use crate::engine::{SummaryQuestion, settle_sets};
use crate::ledger::{Error, LedgerReader};
use crate::policy::{Policy, Summary};
use crate::release::ReleasedTable;
use crate::shadow::builtin;
use crate::synthetic::{KeyModel, NoisyMarginals};

/// A summary that was made, with the model of its table.
struct Modelled<'p> {
    summary: &'p Summary,
    question: SummaryQuestion,
    marginals: NoisyMarginals,
    model: KeyModel,
}

pub async fn run(options: SynthOptions) -> Result<(), Failure> {
    let folder = Folder::new(&options.out, options.format)?;
    let file = start::read(&options.file)?;
    let database = start::database(&file)?;
    let opened = start::open(&file, &database).await?;
    let (owner, roles) = start::accounts(&opened.policy.privacy, &opened.policy.roles)?;
    let ledger = LedgerReader::open(start::ledger(&file)?, owner, &roles).await;
    let ledger = ledger.map_err(|error| match error {
        Error::Missing { .. } => refuse_unmade(error, &options.file),
        error => start::unread(error),
    })?;
    let (policy, _) = start::settle_searches(opened.policy, &ledger).await?;
    let (policy, _) = settle_sets(&policy, &ledger).await.map_err(Failure::new)?;
    let chosen = choose(&policy, &options.file, &options.names)?;
    let is_named = !options.names.is_empty();
    let modelled = read(&ledger, chosen, &policy, (&options.file, is_named)).await?;
    let made = make_up(&policy, modelled, options.rows.map(|rows| rows as usize))?;
    let builtin = builtin(&opened.connected.client)
        .await
        .map_err(start::database_failed)?;
    let writing = ProgressStep::begin("writing the files");
    let left_out = folder
        .write(&policy, &made, (&builtin, &opened.connected.client))
        .await?;
    drop(writing);
    opened.connected.close().await;
    for line in readme::lines(&policy, &made).iter().chain(&left_out) {
        println!("{line}");
    }
    println!(
        "Load it into an empty database: cd {} && psql -d DATABASE -f load.sql",
        options.out.display()
    );
    Ok(())
}

/// The summaries that are meant: at most one of each table.
fn choose<'p>(
    policy: &'p Policy,
    path: &Path,
    names: &[String],
) -> Result<Vec<&'p Summary>, Failure> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let meant = summarize::find(policy, path, &names)?;
    let mut tables = HashMap::new();
    for summary in &meant {
        if let Some(other) = tables.insert(summary.table, &summary.name) {
            return Err(Failure::with_remedy(
                format_args!("summaries {other} and {} are of one table", summary.name),
                "Name one of them: the rows of a table are made up from one summary.",
            ));
        }
    }
    Ok(meant)
}

/// Reads the summaries from the ledger, and models them.
async fn read<'p>(
    ledger: &LedgerReader,
    chosen: Vec<&'p Summary>,
    policy: &'p Policy,
    (path, is_named): (&Path, bool),
) -> Result<Vec<Modelled<'p>>, Failure> {
    let mut modelled = Vec::new();
    let mut due = Vec::new();
    for (summary, question) in summarize::plan_all(policy, chosen.into_iter())? {
        let found = ledger.newest_of_owner(question.kept_as.digest).await;
        let Some(found) = found.map_err(Failure::new)? else {
            due.push(summary.name.as_str());
            continue;
        };
        let table = ReleasedTable::read(&found.released).map_err(Failure::new)?;
        let marginals = NoisyMarginals::read(summary, question.release(), &table);
        let both = marginals.and_then(|marginals| Some((KeyModel::of(&marginals)?, marginals)));
        let (model, marginals) = both.ok_or_else(|| {
            Failure::new(format_args!(
                "summary {} as the ledger has it is not of this policy",
                summary.name
            ))
        })?;
        modelled.push(Modelled {
            summary,
            question,
            marginals,
            model,
        });
    }
    if modelled.is_empty() || (is_named && !due.is_empty()) {
        return Err(refuse_unmade(
            format_args!("not made yet: {}", due.join(", ")),
            path,
        ));
    }
    for name in due {
        println!("Summary {name} was not made yet: its table stays empty.");
    }
    Ok(modelled)
}

fn refuse_unmade(message: impl std::fmt::Display, path: &Path) -> Failure {
    Failure::with_remedy(
        message,
        format!(
            "`pgveil summarize {}` makes summaries, and says beforehand what they cost.",
            path.display()
        ),
    )
}
