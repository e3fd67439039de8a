//! `pgveil generate` writes files for packages from the command line's own grammar: completions of
//! shells, and man pages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Failure;
use super::arguments::{Arguments, Generated};

/// Writes into a directory that is there. Files of the same names are overwritten.
pub fn run(what: Generated, directory: &Path) -> Result<(), Failure> {
    let mut command = Arguments::command();
    match what {
        Generated::Completions => {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                clap_complete::generate_to(shell, &mut command, "pgveil", directory)
                    .map_err(Failure::new)?;
            }
            Ok(())
        }
        Generated::Man => clap_mangen::generate_to(command, directory).map_err(Failure::new),
    }
}
