//! Arguments of `pgveil budget`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum BudgetQuestion {
    /// What is left of each account (the default)
    Show,
    /// Every debit and every decision of the owner, newest first
    History,
    /// Raise a role's budget: for good, or to the end of its period where it is renewed; never past
    /// the owner's total
    #[command(after_help = "\
Example:
  pgveil budget grant --policy shop.yaml --role analyst --epsilon 0.5 \\
      --delta 1e-8 --why 'quarterly report'

The owner's total (privacy.budget) stays as it is: it is raised in the policy
alone. The grant holds from the role's next question on.")]
    Grant {
        /// The role whose budget grows
        #[arg(long, value_name = "NAME")]
        role: String,
        /// By how much epsilon
        #[arg(long, value_name = "NUMBER", default_value_t = 0.0)]
        epsilon: f64,
        /// By how much delta
        #[arg(long, value_name = "NUMBER", default_value_t = 0.0)]
        delta: f64,
        #[command(flatten)]
        reason: DecisionReason,
    },
    /// Stop all charges to a role, or to every role; answers that were paid for are still shown
    Freeze {
        #[command(flatten)]
        whom: AccountArgument,
        #[command(flatten)]
        reason: DecisionReason,
    },
    /// Take a freeze back
    Unfreeze {
        #[command(flatten)]
        whom: AccountArgument,
        #[command(flatten)]
        reason: DecisionReason,
    },
    /// Print the record of statements, logins and acts as JSON lines, oldest first
    #[command(after_help = "\
Each line: format (2), number, time (whole seconds), kind (statement, login,
act), role, session, address, application, via and sqlstate.

A statement has its keyed digest (never the text), the digest of its plan, the
tables that it names, the verdict (answered, reused, explained, refused, failed)
and what was charged. Records are written within a second; the newest million
statements and 100,000 logins are kept, acts for ever. --after continues from a
line's number.")]
    Export {
        /// Only records after this number
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: i64,
    },
    /// Print the digest by which the record names a statement
    #[command(after_help = "\
Example:
  pgveil budget digest --policy shop.yaml 'SELECT count(*) FROM shop.people'

Digests are made with a key that only the ledger has: an exported record
confirms no guess of a statement. A statement that a client prepared has its
parameters as $1, $2, …")]
    Digest {
        /// The statement as it was asked
        sql: String,
    },
}

/// The account that is meant.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct AccountArgument {
    /// The account of this role
    #[arg(long, value_name = "NAME")]
    pub role: Option<String>,
    /// The accounts of all roles
    #[arg(long)]
    pub all: bool,
}

/// The reason that the ledger records with a decision.
#[derive(Debug, Args)]
pub struct DecisionReason {
    /// The reason, which the ledger records with the decision
    #[arg(long, value_name = "TEXT")]
    pub why: String,
    /// Who decides; the user of the operating system without it
    #[arg(long, value_name = "NAME")]
    pub who: Option<String>,
}
