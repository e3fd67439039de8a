//! `pgveil ledger` shows, checks, backs up and restores the ledger that a policy names. It connects
//! to no database.

use std::path::Path;

use super::arguments::LedgerQuestion;
use super::backups::Series;
use super::blocking::blocking;
use super::{Failure, backups, budget, start};
use crate::calendar;
use crate::ledger::{
    Address, LedgerStanding, Restored, WitnessStanding, attest, back_up, inspect, restore,
};
use crate::policy::File;

pub async fn run(path: Option<&Path>, question: LedgerQuestion) -> Result<(), Failure> {
    let Some(path) = path else {
        return Err(Failure::Usage(
            "name the policy whose ledger is meant: --policy FILE".to_owned(),
        ));
    };
    let file = start::read(path)?;
    match question {
        LedgerQuestion::Show => show(&file).await,
        LedgerQuestion::Verify => verify(&file).await,
        LedgerQuestion::Backup {
            file: directory,
            every,
            keep,
        } if every.is_some() || keep.is_some() => {
            let series = Series {
                directory,
                every,
                keep,
            };
            backups::run(start::ledger(&file)?, &series).await
        }
        LedgerQuestion::Backup { file: copy, .. } => {
            let address = start::ledger(&file)?;
            let path = copy.display().to_string();
            blocking(move || back_up(&address, &copy)).await?;
            println!("backed up to {path}");
            Ok(())
        }
        LedgerQuestion::Attest => {
            let address = start::ledger(&file)?;
            let attested = blocking(move || attest(&address)).await?;
            println!("{attested} witnesses say how far the ledger has come");
            Ok(())
        }
        LedgerQuestion::Restore { backup, reason } => {
            let address = start::ledger(&file)?;
            let (owner, roles) = start::accounts(&file.privacy, &file.roles)?;
            let (who, failures) = (budget::who(&reason), file.limits.failures);
            let restored = blocking(move || {
                restore(
                    &address,
                    backup.as_deref(),
                    (&who, &reason.why),
                    (&owner, &roles),
                    failures,
                )
            });
            print_restored(&restored.await?);
            Ok(())
        }
    }
}

fn print_restored(restored: &Restored) {
    match restored.is_witnessed {
        true => println!("restored; the witness said what had been spent since"),
        false => println!(
            "restored; no witness says what had been spent since, so every account is charged \
                the most that its budget can have paid for"
        ),
    }
    for account in &restored.charged {
        println!("charged: {account}");
    }
    println!(
        "all accounts are frozen: look at `pgveil budget`, then `pgveil budget unfreeze --all`"
    );
}

async fn verify(file: &File) -> Result<(), Failure> {
    let standing = standing(start::ledger(file)?).await?;
    if let Some(fault) = standing.fault() {
        return Err(Failure::new(fault));
    }
    let height = &standing.height;
    println!(
        "whole: {} debits, {} receipts, {} decisions, each sum that of its debits",
        height.debits, height.receipts, height.decisions
    );
    Ok(())
}

/// Prints what is known; fails where no proxy would open the ledger.
async fn show(file: &File) -> Result<(), Failure> {
    let address = start::ledger(file)?;
    let (place, is_file) = (
        address.place(),
        address.file().map_err(Failure::new)?.is_some(),
    );
    let standing = standing(address).await?;
    for (what, value) in lines(&standing, place, is_file) {
        println!("{what:15} {value}");
    }
    standing
        .fault()
        .map_or(Ok(()), |fault| Err(Failure::new(fault)))
}

fn lines(standing: &LedgerStanding, place: String, is_file: bool) -> Vec<(&'static str, String)> {
    let height = &standing.height;
    let identity = standing.identity().map_or_else(
        || "none in this format".to_owned(),
        |birth| format!("{:032x}", u128::from_be_bytes(birth)),
    );
    let backup = match (&standing.last_backup, is_file) {
        (Some(last), _) => format!("{}, {}", calendar::utc(last.microseconds), last.copy),
        (None, true) => "none is known".to_owned(),
        (None, false) => "not known: a ledger in PostgreSQL is backed up by pg_dump".to_owned(),
    };
    let mut lines = vec![("ledger", place), ("format", format_of(standing))];
    lines.extend(witnesses(standing).map(|line| ("witness", line)));
    let restored = height.generation.saturating_sub(1).max(0);
    lines.extend([
        ("identity", identity),
        ("restored", format!("{restored} times")),
        ("debits", height.debits.to_string()),
        ("receipts", height.receipts.to_string()),
        ("decisions", height.decisions.to_string()),
        ("failed queries", height.failures.to_string()),
        ("last backup", backup),
    ]);
    lines
}

fn format_of(standing: &LedgerStanding) -> String {
    let (found, newest) = (standing.format, LedgerStanding::NEWEST);
    match found < newest {
        false => found.to_string(),
        true => format!("{found}; `pgveil serve` of this version brings it to {newest}"),
    }
}

/// A line for each witness.
fn witnesses(standing: &LedgerStanding) -> impl Iterator<Item = String> {
    let none = "none: an older copy of the ledger goes unnoticed".to_owned();
    let none = standing.witnesses.is_empty().then_some(none);
    let lines = standing.witnesses.iter().map(|(name, standing)| {
        let found = match standing {
            WitnessStanding::Agrees => "the ledger lacks nothing that it saw".to_owned(),
            WitnessStanding::KnowsNothing(what) => format!("it {what}"),
            WitnessStanding::SawMore(lacks) => format!("it saw more: {lacks}"),
        };
        format!("{name}: {found}")
    });
    none.into_iter().chain(lines)
}

/// Reads the ledger, whole, and writes nothing.
async fn standing(address: Address) -> Result<LedgerStanding, Failure> {
    blocking(move || inspect(&address)).await
}
