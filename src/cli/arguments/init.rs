//! Arguments of `pgveil init`.

use std::path::PathBuf;

use clap::Args;

use crate::policy::Secret;

#[derive(Debug, Args)]
pub struct InitOptions {
    /// Where the data are; DATABASE_URL stands in for it
    pub database: Option<Secret>,
    /// The file to create; without it the draft goes to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only tables of this schema
    #[arg(long, value_name = "NAME")]
    pub schema: Vec<String>,
    /// Whom the policy protects
    #[arg(long, value_name = "SCHEMA.TABLE.COLUMN")]
    pub unit: Option<String>,
    /// The word for one unit in messages, such as person
    #[arg(long, value_name = "WORD")]
    pub unit_name: Option<String>,
    /// A link that you know to hold for every row
    #[arg(long, value_name = "COLUMN -> KEY")]
    pub link: Vec<String>,
    /// Vouch for every link that is guessed
    #[arg(long)]
    pub accept_links: bool,
    /// A table that has no row about any unit: shown exactly and free
    #[arg(long, value_name = "SCHEMA.TABLE")]
    pub public: Vec<String>,
    /// The most rows of one unit that count
    #[arg(long, value_name = "TABLE=NUMBER|auto")]
    pub rows: Vec<String>,
    /// Lowest and highest value of a column that count
    #[arg(long, value_name = "COLUMN=LOW..HIGH|auto")]
    pub bounds: Vec<String>,
    /// A column that analysts may group by and compare
    #[arg(long, value_name = "SCHEMA.TABLE.COLUMN")]
    pub group_by: Vec<String>,
    /// The most that all roles together may ever learn
    #[arg(long, value_name = "EPSILON,DELTA")]
    pub budget: Option<String>,
    /// A role and what it may spend; `analyst` with half of the budget without it
    #[arg(long, value_name = "NAME=EPSILON,DELTA")]
    pub role: Vec<String>,
    /// About how many units there are, by what is publicly known
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub units: Option<u64>,
    /// Name a shadow server, as SHADOW_URL, instead of having pgveil start one
    #[arg(long)]
    pub shadow: bool,
    /// Ask nothing, and print what is drafted and what is open as JSON
    #[arg(long)]
    pub json: bool,
}
