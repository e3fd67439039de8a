//! `pgveil synth` writes made-up rows that have the statistics of summaries, as files that load
//! into an empty database.

mod files;
mod readme;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use self::files::Folder;
use super::arguments::SynthOptions;
use super::progress::ProgressStep;
use super::{Failure, start, summarize};
use crate::engine::{SummaryQuestion, settle_sets};
use crate::ledger::{Error, LedgerReader};
use crate::policy::{Policy, Summary, Table};
use crate::release::ReleasedTable;
use crate::shadow::builtin;
use crate::synthetic::{
    ColumnSource, FillContext, Filler, KeyModel, NoisyMarginals, draw, first_step,
};

/// The most rows of one made-up table.
const ROWS_MAX: usize = 1_000_000;

/// A summary that was made, with the model of its table.
struct Modelled<'p> {
    summary: &'p Summary,
    question: SummaryQuestion,
    marginals: NoisyMarginals,
    model: KeyModel,
}

/// A table whose rows are made up.
pub(super) struct MadeUp<'p> {
    modelled: Modelled<'p>,
    filler: Filler<'p>,
    /// Column by column, parallel to the table's; `None` is NULL.
    columns: Vec<Vec<Option<String>>>,
    rows: usize,
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

/// Draws the rows of each table, those that others refer to first.
fn make_up<'p>(
    policy: &'p Policy,
    mut modelled: Vec<Modelled<'p>>,
    wanted: Option<usize>,
) -> Result<Vec<MadeUp<'p>>, Failure> {
    let drawing = ProgressStep::begin("making up rows");
    let largest = modelled.iter().map(|m| m.model.rows).fold(1.0, f64::max);
    let scale = wanted.map_or(1.0, |wanted| wanted as f64 / largest);
    modelled.sort_by_key(|m| steps_to_unit(&policy.tables[m.summary.table]));
    let referenced: HashSet<(&str, &str, &str)> =
        policy.tables.iter().filter_map(first_reference).collect();
    let mut random = rand::rng();
    let mut made: Vec<MadeUp<'p>> = Vec::new();
    for of in modelled {
        let table = &policy.tables[of.summary.table];
        let rows = (of.model.rows * scale).round() as usize;
        if rows > ROWS_MAX {
            return Err(Failure::with_remedy(
                format_args!("{}.{} would have {rows} rows", table.schema, table.name),
                format!("Say how many: --rows 10000, at most {ROWS_MAX}."),
            ));
        }
        let parents = first_reference(table).and_then(|reference| numbers(&made, reference));
        let of_table = referenced
            .iter()
            .filter(|(schema, name, _)| (*schema, *name) == (&*table.schema, &*table.name));
        let own = of_table.map(|(_, _, column)| *column).collect();
        let surroundings = FillContext {
            types: &policy.types,
            parents,
            referenced: &own,
        };
        let filler = Filler::new(table, of.summary, rows, &surroundings);
        let sizes: Vec<usize> = of.marginals.values.iter().map(Vec::len).collect();
        let sample = draw(&of.model, &sizes, rows, &mut random);
        let columns = filler.fill(&sample, &of.marginals, rows, &mut random);
        made.push(MadeUp {
            modelled: of,
            filler,
            rows: columns.iter().map(Vec::len).min().unwrap_or(0),
            columns,
        });
    }
    drop(drawing);
    Ok(made)
}

/// The values of a made-up column whose rows each have their own number.
fn numbers<'m>(
    made: &'m [MadeUp<'_>],
    (schema, name, column): (&str, &str, &str),
) -> Option<&'m [Option<String>]> {
    let is_it =
        |of: &&MadeUp<'_>| (&*of.filler.table.schema, &*of.filler.table.name) == (schema, name);
    let of = made.iter().find(is_it)?;
    let at = of
        .filler
        .table
        .columns
        .iter()
        .position(|c| c.name == column)?;
    (of.filler.sources[at] == ColumnSource::Number).then(|| of.columns[at].as_slice())
}

/// The table and column that the path to the unit leads to first.
fn first_reference(table: &Table) -> Option<(&str, &str, &str)> {
    let step = first_step(table)?;
    Some((&step.schema, &step.table, &step.referenced))
}

fn steps_to_unit(table: &Table) -> usize {
    match &table.protection {
        crate::policy::Protection::Private(unit) => unit.path.len(),
        crate::policy::Protection::Public => 0,
    }
}
