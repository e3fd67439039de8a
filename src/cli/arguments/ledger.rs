//! Arguments of `pgveil ledger`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use super::DecisionReason;
use crate::policy::time_of;

#[derive(Debug, Subcommand)]
pub enum LedgerQuestion {
    /// Print where the ledger is, its format, how far it and its witnesses have come, and when it
    /// was last backed up; writes nothing
    Show,
    /// Check the whole ledger: its pages, its tables, each sum against its debits, its witnesses;
    /// writes nothing
    Verify,
    /// Copy a ledger in SQLite to a new file, while it is in use
    #[command(after_help = "\
Examples:
  pgveil ledger backup /srv/backup/before.pgvb --policy shop.yaml
  pgveil ledger backup /srv/backup --keep 48 --policy shop.yaml
                                          for a timer
  pgveil ledger backup /srv/backup --every 1h --keep 48 --policy shop.yaml
                                          until SIGTERM")]
    Backup {
        /// The copy, which must not be there yet; with --every or --keep, a directory
        #[arg(value_name = "FILE|DIRECTORY")]
        file: PathBuf,
        /// Make another backup each time this has passed
        #[arg(long, value_name = "TIME", value_parser = time)]
        every: Option<Duration>,
        /// Remove all but the newest backups of this series
        #[arg(long, value_name = "NUMBER", value_parser = at_least_one)]
        keep: Option<usize>,
    },
    /// Tell new or lost witnesses to trust the ledger as it is; you must know that it is the newest
    Attest,
    /// Turn a backup into a ledger; without one, charge what may be missing from an older ledger
    /// that is already in place
    Restore {
        /// What `pgveil ledger backup` made
        backup: Option<PathBuf>,
        #[command(flatten)]
        reason: DecisionReason,
    },
}

pub fn time(text: &str) -> Result<Duration, String> {
    time_of(text).ok_or_else(|| "write a time such as 60s, 5min or 1h, at most a day".to_owned())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "write a number above zero".to_owned())
}
