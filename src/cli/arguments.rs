//! The command line's grammar and its help.

mod budget;
mod init;
mod ledger;
mod serve;
mod synth;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::policy::Secret;
pub use budget::{AccountArgument, BudgetQuestion, DecisionReason};
pub use init::InitOptions;
pub use ledger::LedgerQuestion;
pub use serve::ServeOptions;
pub use synth::{SynthFormat, SynthOptions};

const EXAMPLES: &str = "\
Examples:
  pgveil demo                       a database of survey data, a proxy in front
                                    of it, and questions to ask
  pgveil demo --once 'SELECT count(*) FROM nls.women'
  pgveil init postgresql://me@db/shop -o shop.yaml
                                    a first policy for your database
  pgveil password                   the password line of a role in a policy
  pgveil policy diff old.yaml new.yaml
                                    what does a change loosen, tighten and cost?
  pgveil check shop.yaml            does the policy hold for its database?
  pgveil bounds shop.yaml           find what the policy leaves to `auto`, once
                                    and at a price
  pgveil summarize shop.yaml        make its summaries, which answer questions
                                    free
  pgveil synth shop.yaml --out made-up
                                    made-up tables with their statistics, as
                                    test data
  pgveil explain --policy shop.yaml 'SELECT avg(price) FROM shop.orders'
  pgveil audit shop.yaml            is more lost than is charged?
  pgveil serve --policy shop.yaml --listen 0.0.0.0:6432 \\
      --tls-cert cert.pem --tls-key key.pem

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the policy does not hold or is
undecided, 4 `policy diff` found that something loosens.";

/// The most columns of a line of help. Clap wraps the lines that it lays out itself; the examples
/// are laid out by hand.
const COLUMNS: usize = 80;

/// The epsilon of one search of `pgveil bounds`, unless a flag sets it.
pub const SEARCH_EPSILON: f64 = 0.1;

/// Answers SQL about private tables with differential privacy, as a proxy in front of PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "pgveil", version, after_help = EXAMPLES, disable_help_subcommand = true)]
#[command(max_term_width = COLUMNS)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a throw-away database with survey data, a proxy in front of it and a web page to ask
    /// from; nothing to install
    #[command(after_help = "\
Examples:
  pgveil demo              then paste the psql command that it prints
  pgveil demo --shell      asks at a prompt, without psql
  pgveil demo --listen 127.0.0.1:7000 --page 127.0.0.1:7001
  pgveil demo --once 'SELECT race, avg(hourly_wage) FROM nls.women
      JOIN nls.interviews USING (woman_id) GROUP BY race'
  pgveil demo --database postgresql://me@localhost/test
                           loads the data into schema nls of that database")]
    Demo(DemoOptions),
    /// Draft a policy from a database's catalog: the privacy unit, the path of each table to it,
    /// what columns may show; reads no row and no statistics
    #[command(after_help = "\
Examples:
  pgveil init postgresql://me@db/shop -o shop.yaml       asks, in a terminal
  pgveil init postgresql://me@db/shop -o shop.yaml \\
      --unit public.customers.id --budget 4,1e-6
  pgveil init postgresql://me@db/shop -o shop.yaml \\
      --unit retail.household.household_key --accept-links --budget 4,1e-6 \\
      --rows retail.basket=200 --bounds retail.basket.total=0..500 \\
      --group-by retail.household.age --public retail.store

Declared foreign keys are taken as they are. Links that are guessed from names
and keys count only once you confirm them, since a wrong one counts one person's
row as another's. Tables that do not lead to the unit are left out until
--public names them. What stays open is a comment with DECIDE; the word `decide`
in place of a value blocks `pgveil serve`. GRANTs and indexes are printed, never
run. No file is overwritten.

Exit codes: 0 drafted, 1 failed, 2 wrong usage, 3 undecided: without a terminal,
the unit must be named.")]
    Init(InitOptions),
    /// Serve clients under a policy until SIGTERM or Ctrl-C
    #[command(after_help = "\
Examples:
  DATABASE_URL=postgresql://reader@db/shop pgveil serve --policy shop.yaml
  pgveil serve --policy shop.yaml --listen 0.0.0.0:6432 \\
      --tls-cert cert.pem --tls-key key.pem

SIGHUP reloads the policy: one that does not hold changes nothing. Logs go to
stderr, as JSON with PGVEIL_LOG_FORMAT=json; PGVEIL_LOG=debug (or RUST_LOG)
shows more. They hold no SQL and no value.")]
    Serve(ServeOptions),
    /// Verify a policy file against its database, and say what it means
    #[command(after_help = "\
Examples:
  DATABASE_URL=postgresql://reader@db/shop pgveil check shop.yaml
  pgveil check shop.yaml --against-data
                    exact shares of rows outside bounds and lists
  pgveil check shop.yaml --placement
                    Citus: whether each row lies in the shard of its unit

--against-data is for the data's owner alone: its numbers are exact and private,
and no analyst may see them. They are printed and kept nowhere.

Every error is printed at once as file:line:column: message; the exit code is
then 3.")]
    Check {
        /// The policy file
        file: PathBuf,
        /// Also compare bounds, lists and rows_per_unit with the rows; the numbers are exact and
        /// private, not for analysts
        #[arg(long)]
        against_data: bool,
        /// Also look whether each row of a Citus cluster lies in the shard of its unit; not for
        /// analysts
        #[arg(long)]
        placement: bool,
    },
    /// Find privately what a policy leaves to `auto`: bounds of columns, rows of a unit; charged
    /// once and kept in the ledger
    #[command(after_help = "\
Examples:
  pgveil bounds shop.yaml                  makes the searches that are due
  pgveil bounds shop.yaml --epsilon 0.05   at less each, for tables of many
                                           units
  pgveil bounds shop.yaml --again          makes all of them again, after the
                                           data have changed a lot

Each search is charged to the owner's total and to the role it is made for;
every other role pays the same before its first question. What was found decides
clips and noise and is part of the policy from then on: restart or reload pgveil
serve.")]
    Bounds {
        /// The policy file
        file: PathBuf,
        /// What one search costs
        #[arg(long, value_name = "NUMBER", default_value_t = SEARCH_EPSILON)]
        epsilon: f64,
        /// Search again even where the ledger has a result; every role pays for the new result
        /// before its next question
        #[arg(long)]
        again: bool,
    },
    /// Make the summaries that a policy declares: counts and sums that are released once, charged
    /// once and kept in the ledger, and that answer questions from then on
    #[command(after_help = "\
Examples:
  pgveil summarize shop.yaml               says what those that are due cost,
                                           asks, and makes them
  pgveil summarize shop.yaml orders --yes  makes one of them, without asking
  pgveil summarize shop.yaml --again       makes all of them again, after the
                                           data have changed

A summary is charged to the owner's total and to the first of its roles that can
pay. Every other role pays the same once, at the first question that the summary
answers. A running pgveil serve uses it from the next question on. Without a
terminal nothing is asked.")]
    Summarize {
        /// The policy file
        file: PathBuf,
        /// One summary; all of them without it
        name: Option<String>,
        /// Make it again even where the ledger has it; every role that uses the new one pays again
        #[arg(long)]
        again: bool,
        /// Do not ask before it is charged
        #[arg(long)]
        yes: bool,
    },
    /// Write made-up tables that have the statistics of summaries: test data and previews; charges
    /// nothing and reads no private row
    #[command(after_help = "\
Examples:
  pgveil synth shop.yaml --out made-up      tables of all summaries that exist
  pgveil synth shop.yaml orders --out made-up --rows 10000
  pgveil synth shop.yaml --out made-up --format sql
                                            INSERT statements instead of CSV

Load them into an empty database: cd made-up && psql -d DATABASE -f load.sql
No row is of a real person. The README in the directory says what the rows keep
and what they do not.")]
    Synth(SynthOptions),
    /// Show how a query would be answered and what it would cost; spends nothing and reads no
    /// private row
    #[command(after_help = "\
Examples:
  pgveil explain --policy shop.yaml 'SELECT avg(price) FROM shop.orders'
  pgveil explain --policy shop.yaml --curve 'SELECT count(*) FROM shop.orders'
  pgveil explain --meaning shop.yaml
                              what the budgets mean to the people in the data

The cost is that of a role that has spent nothing yet; with --spent, of the role
as the ledger has it.")]
    Explain(ExplainOptions),
    /// Attack a policy's tables, filled with made-up rows: is more lost than is charged? Reads the
    /// schema and public tables, never a private row
    #[command(after_help = "\
Examples:
  DATABASE_URL=postgresql://reader@db/shop pgveil audit shop.yaml
  pgveil audit shop.yaml --trials 2000 --json > audit.json

A throw-away PostgreSQL gets the tables of the policy and rows that are made up,
within the bounds and beyond them. One unit, the canary, has extreme values and
more rows than count. Then each table is asked for a count, a sum, averages by a
key and keys by threshold, through a separate proxy with a separate budget, many
times with the canary and many times without. An attacker who sees the answers
guesses which; how often the guess is right bounds from below what was really
lost. That is compared with what was charged:

  found at least   the loss that the attack proves, at a confidence of 99.9 %
                   over all questions. Above the charge: a finding. Far below
                   the charge proves little: take more --trials. 300 find
                   Gaussian noise of half the scale, 2000 also Laplace noise.
  measured         how far leaving units moved the exact sums, of what is
                   declared, subtracted in integers. Above 100 %: a finding.

Noise is drawn as it is for analysts, at a larger epsilon, where few trials show
much. Nothing is spent of any budget, and nothing is left behind.

Exit codes: 0 no finding, 1 a finding or a failure, 2 wrong usage, 3 the policy
does not hold.")]
    Audit(AuditOptions),
    /// Show what has been spent, raise or freeze accounts, and export the record of statements; by
    /// the ledger alone, also while pgveil serves
    #[command(after_help = "\
Examples:
  pgveil budget --policy shop.yaml             what is left of each account
  pgveil budget history --policy shop.yaml     every debit and every decision of
                                               the owner, newest first
  pgveil budget grant --policy shop.yaml --role analyst --epsilon 0.5 \\
      --why 'quarterly report'
  pgveil budget freeze --policy shop.yaml --role analyst --why 'contract ended'
  pgveil budget freeze --policy shop.yaml --all --why 'incident 12'
  pgveil budget unfreeze --policy shop.yaml --all --why 'incident 12 is over'
  pgveil budget export --policy shop.yaml > statements.jsonl

Epsilon is a dash where Gaussian noise was used, which has no pure epsilon; mu
then counts. What is left is of the current period where a budget is renewed;
what was spent is of the account's whole life.

`show`, `history`, `export` and `digest` write nothing. A grant or a freeze is
written to the ledger alone: a role's account is opened when the policy comes
into force.")]
    Budget {
        #[command(subcommand)]
        question: Option<BudgetQuestion>,
        /// The policy file
        #[arg(long, value_name = "FILE", global = true)]
        policy: Option<PathBuf>,
    },
    /// Ask a running proxy whether it is ready, for health checks; exit code 0 or 1
    #[command(after_help = "\
Example:
  pgveil health 127.0.0.1:6433")]
    Health {
        /// The address of `pgveil serve --admin`
        #[arg(value_name = "ADDR", default_value = "127.0.0.1:6433")]
        admin: SocketAddr,
    },
    /// Say what is right and wrong with an installation, and its remedy; changes nothing
    #[command(after_help = "\
Examples:
  pgveil doctor                                        this machine alone
  pgveil doctor --policy shop.yaml --backups /srv/backup
  pgveil doctor --policy shop.yaml --listen 0.0.0.0:6432 \\
      --tls-cert cert.pem --tls-key key.pem

Each line: ok, warn or fail, the check, what was found, and after -> its remedy.
No value of a secret is printed.

Exit codes: 0 nothing fails, 1 something does.")]
    Doctor(DoctorOptions),
    /// Write completions of shells, or man pages, into a directory
    #[command(
        hide = true,
        after_help = "\
Examples:
  pgveil generate completions /usr/share/pgveil/completions
                                          for bash, zsh and fish
  pgveil generate man /usr/share/man/man1"
    )]
    Generate {
        what: Generated,
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
    /// Make the verifier of a password, for `password:` of a role or an operator in the policy
    #[command(after_help = "\
Examples:
  pgveil password                          asks twice, without echo
  pgveil password --operator               for an operator
  echo -n 'correct horse' | pgveil password")]
    Password {
        /// For an operator: refuse fewer than 12 characters
        #[arg(long)]
        operator: bool,
    },
    /// Show, check, back up or restore the ledger that a policy names; needs no database
    #[command(after_help = "\
Examples:
  pgveil ledger show --policy shop.yaml
  pgveil ledger backup /srv/backup/ledger.pgvb --policy shop.yaml
                                          while pgveil serves
  pgveil ledger restore /srv/backup/ledger.pgvb --policy shop.yaml \\
      --why 'disk failed'

A backup is no ledger: copying it into place gives nothing back. `restore`
charges what may have been spent since: with a witness (ledger.witness) what the
witness saw, without one the most that every budget can have paid for. It
freezes all accounts; `pgveil budget unfreeze --all` unfreezes them.")]
    Ledger {
        #[command(subcommand)]
        question: LedgerQuestion,
        /// Policy file whose ledger is meant
        #[arg(long, value_name = "FILE", global = true)]
        policy: Option<PathBuf>,
    },
    /// The keys of the policy file as a schema or in words, and what a change of it means; needs no
    /// database
    Policy {
        #[command(subcommand)]
        question: PolicyQuestion,
    },
    /// Print the help of a command, or a short page: `noise`, why answers are off; `units`, whom
    /// the noise hides
    Help {
        /// A command, `noise` or `units`
        about: Vec<String>,
    },
}

/// What `pgveil generate` writes.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Generated {
    Completions,
    Man,
}

#[derive(Debug, Subcommand)]
pub enum PolicyQuestion {
    /// Print the JSON Schema (draft-07) of the policy file, for editors
    #[command(after_help = "\
Example:
  pgveil policy schema > pgveil.schema.json

Then write `# yaml-language-server: $schema=pgveil.schema.json` as the first
line of the policy: editors complete its keys and show what they mean.")]
    Schema,
    /// Say what a key means, what it takes and what holds without it
    #[command(after_help = "\
Examples:
  pgveil policy explain limits.failures
  pgveil policy explain rows_per_unit")]
    Explain {
        /// The key, or the end of its path
        key: String,
    },
    /// Say what a change of the policy loosens, tightens and costs
    #[command(after_help = "\
Example:
  pgveil policy diff old.yaml new.yaml

What the files say is compared, not their layout. Secrets that are not set have
stand-ins. Exit codes: 0 nothing loosens, 1 failed, 3 a file does not hold,
4 something loosens.")]
    Diff {
        /// The policy in force
        old: PathBuf,
        /// The policy that would replace it
        new: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct DemoOptions {
    /// Where clients connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6432")]
    pub listen: SocketAddr,
    /// Use this server in place of a throw-away one; the data stay in its schema nls
    #[arg(long, value_name = "URL")]
    pub database: Option<Secret>,
    /// Answer this SQL as psql would, with its noise and cost, and exit
    #[arg(long, value_name = "SQL", conflicts_with_all = ["shell", "page", "no_page", "console"])]
    pub once: Option<String>,
    /// Ask at a prompt of this terminal, or statements from standard input; for people without psql
    #[arg(long)]
    pub shell: bool,
    /// Where the web page is served (default: 127.0.0.1:8432, unless that is taken)
    #[arg(long, value_name = "ADDR")]
    pub page: Option<SocketAddr>,
    /// Serve no web page
    #[arg(long, conflicts_with = "page")]
    pub no_page: bool,
    /// Serve the operators' console here too, on this machine alone; its password is printed
    #[arg(long, value_name = "ADDR")]
    pub console: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub struct ExplainOptions {
    /// The policy file
    #[arg(long, value_name = "FILE", required_unless_present = "meaning")]
    pub policy: Option<PathBuf>,
    /// Say what the budgets of a policy mean, for each role and for all together; needs no database
    /// and no secrets
    #[arg(long, value_name = "POLICY", exclusive = true)]
    pub meaning: Option<PathBuf>,
    /// The role that would ask; the policy's first without it
    #[arg(long, value_name = "NAME")]
    pub role: Option<String>,
    /// A table of the error against epsilon, from the least to the most that a query may spend
    #[arg(long)]
    pub curve: bool,
    /// Take the role's spending from the ledger, and say what would be left of its budget
    #[arg(long)]
    pub spent: bool,
    /// Also print the SQL that the database would run
    #[arg(long, conflicts_with = "curve")]
    pub verbose: bool,
    /// Print the curve as JSON
    #[arg(long, requires = "curve")]
    pub json: bool,
    /// One or more SELECT statements
    #[arg(required_unless_present = "meaning")]
    pub sql: Option<String>,
}

#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// The policy file; without it, only this machine is checked
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Where clients will connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6432")]
    pub listen: SocketAddr,
    /// The certificate chain that `pgveil serve` gets
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Where `pgveil ledger backup --every` keeps its series
    #[arg(long, value_name = "DIRECTORY")]
    pub backups: Option<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AuditOptions {
    /// The policy file
    pub file: PathBuf,
    /// Answers to buy for each question with the canary, and as many without; the attack learns
    /// from half of them and is judged on the rest
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(20..=1_000_000)
    )]
    pub trials: u32,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Also keep the verdict in the ledger of the policy, for `SHOW ACTS` and the console
    #[arg(long)]
    pub record: bool,
}
