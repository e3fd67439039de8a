//! The command line: one subcommand for each task, and the start-up that they share.

mod against_data;
mod arguments;
mod audit;
mod backups;
mod blocking;
mod bounds;
mod budget;
mod check;
mod curve;
mod database_url;
pub mod demo;
mod doctor;
mod expected_errors;
mod explain;
mod failure;
mod generate;
mod health;
pub mod help;
mod init;
mod ledger;
mod listen;
mod local_secret;
mod log;
mod notify;
mod pages;
mod password;
mod placement;
mod policy;
mod process;
mod progress;
mod prove_writing;
pub mod record;
mod reload;
mod secrets;
mod serve;
mod signal;
pub mod start;
mod summarize;
mod synth;
mod table;
mod tls;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use listenfd::ListenFd;

use arguments::{Arguments, Command};
pub use failure::Failure;

/// How long the exit waits for threads that cannot be interrupted (those of the embedded engine).
const END_WAIT: Duration = Duration::from_secs(5);

/// `pgveil ledger help backup` as `pgveil help ledger backup`: `help` is a command of pgveil alone.
fn nested_help(mut words: Vec<OsString>) -> Vec<OsString> {
    let has_commands = |word: &OsString| word == "budget" || word == "ledger" || word == "policy";
    if words.get(2).is_some_and(|word| word == "help") && words.get(1).is_some_and(has_commands) {
        words.swap(1, 2);
    }
    words
}

/// Runs the command line of this process. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the policy
/// does not hold or is undecided, 4 a change of the policy loosens it.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse_from(nested_help(std::env::args_os().collect()));
    log::start(match arguments.command {
        // An audit asks thousands of questions, which are not logged.
        Command::Audit(_) => "warn",
        // The demo says what it does, not who asked what.
        Command::Demo(_) => "warn,pgveil::cli=info",
        _ => "info",
    });
    process::log_panics_by_place();
    if let Err(failure) = process::close() {
        failure.print();
        return failure.exit_code();
    }
    // Before any thread: it removes variables from the environment.
    let inherited = match arguments.command {
        Command::Serve(_) => ListenFd::from_env(),
        _ => ListenFd::empty(),
    };
    // Stacks are reserved address space: unused parts take no memory.
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(4 * crate::parse::STACK_BYTES)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the runtime did not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(run(arguments.command, inherited));
    runtime.shutdown_timeout(END_WAIT);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}

async fn run(command: Command, inherited: ListenFd) -> Result<(), Failure> {
    match command {
        Command::Demo(options) => demo::run(options).await,
        Command::Init(options) => init::run(options).await,
        Command::Serve(options) => serve::run(options, inherited).await,
        Command::Check {
            file,
            against_data,
            placement,
        } => {
            let reads = check::ReadsRows {
                against_data,
                placement,
            };
            check::run(&file, reads).await
        }
        Command::Bounds {
            file,
            epsilon,
            again,
        } => bounds::run(&file, epsilon, again).await,
        Command::Summarize {
            file,
            name,
            again,
            yes,
        } => {
            let name = name.as_deref();
            summarize::run(&file, summarize::SummarizeOptions { name, again, yes }).await
        }
        Command::Synth(options) => synth::run(options).await,
        Command::Audit(options) => audit::run(options).await,
        Command::Explain(options) => explain::run(options).await,
        Command::Budget { question, policy } => budget::run(policy.as_deref(), question).await,
        Command::Ledger { question, policy } => ledger::run(policy.as_deref(), question).await,
        Command::Health { admin } => health::run(admin).await,
        Command::Doctor(options) => doctor::run(options).await,
        Command::Generate { what, directory } => generate::run(what, &directory),
        Command::Password { operator } => password::run(operator),
        Command::Policy { question } => policy::run(question),
        Command::Help { about } => help::run(&about),
    }
}
