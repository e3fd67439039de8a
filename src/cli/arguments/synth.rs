//! The arguments of `pgveil synth`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The files that the rows are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SynthFormat {
    /// One CSV file a table, and load.sql, which reads them with \copy
    Csv,
    /// INSERT statements, one file a table, and load.sql, which runs them with \i
    Sql,
}

#[derive(Debug, Args)]
pub struct SynthOptions {
    /// The policy file
    pub file: PathBuf,
    /// The summaries whose tables are made up; without it, all summaries that exist
    pub names: Vec<String>,
    /// An empty or new directory for the files
    #[arg(long, value_name = "DIRECTORY")]
    pub out: PathBuf,
    /// The rows of the largest made-up table, at most 1,000,000; the others get theirs in
    /// proportion. Without it, as many rows as the summaries count
    #[arg(long, value_name = "NUMBER", value_parser = read_rows)]
    pub rows: Option<u32>,
    /// The form of the files
    #[arg(long, value_enum, default_value = "csv")]
    pub format: SynthFormat,
}

fn read_rows(text: &str) -> Result<u32, String> {
    let rows = text.parse().ok();
    rows.filter(|rows| (1..=1_000_000).contains(rows))
        .ok_or_else(|| "a number from 1 to 1000000 is wanted".to_owned())
}
