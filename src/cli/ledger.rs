//! `pgveil ledger` shows, checks, backs up and restores the ledger that a policy names. It connects
//! to no database.

use std::path::Path;

use super::arguments::LedgerQuestion;
use super::backups::Series;
use super::blocking::blocking;
use super::{Failure, backups, budget, start};
use crate::ledger::{Ledger, Restored, attest, back_up, restore};
use crate::policy::{File, WitnessPlace};

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
            let (owner, roles) = start::accounts(&file.privacy, &file.roles)?;
            let attested = blocking(move || attest(&address, (&owner, &roles))).await?;
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
                up to its cap"
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
    let height = open(file).await?.height().await.map_err(Failure::new)?;
    println!(
        "whole: {} debits, {} receipts, {} decisions, each sum that of its debits",
        height.debits, height.receipts, height.decisions
    );
    Ok(())
}

async fn show(file: &File) -> Result<(), Failure> {
    let address = start::ledger(file)?;
    let height = open(file).await?.height().await.map_err(Failure::new)?;
    let place = address.place();
    let witnesses = address
        .witnesses
        .iter()
        .map(|witness| match &witness.place {
            WitnessPlace::File(path) => path.display().to_string(),
            WitnessPlace::Server(_) => "schema pgveil_witness in PostgreSQL".to_owned(),
        });
    let witness = match address.witnesses.is_empty() {
        true => "none: an older copy of the ledger goes unnoticed".to_owned(),
        false => witnesses.collect::<Vec<_>>().join(", "),
    };
    let birth = format!("{:032x}", u128::from_be_bytes(height.birth));
    for (what, value) in [
        ("ledger", place),
        ("witness", witness),
        ("identity", birth),
        ("restored", format!("{} times", height.generation - 1)),
        ("debits", height.debits.to_string()),
        ("receipts", height.receipts.to_string()),
        ("decisions", height.decisions.to_string()),
        ("failed queries", height.failures.to_string()),
    ] {
        println!("{what:15} {value}");
    }
    Ok(())
}

/// Opens the ledger, which is verified whole.
async fn open(file: &File) -> Result<Ledger, Failure> {
    let address = start::ledger(file)?;
    let (owner, roles) = start::accounts(&file.privacy, &file.roles)?;
    Ledger::open_existing(address, owner, &roles)
        .await
        .map_err(Failure::new)
}
