//! `pgveil help`: the help of commands, and short pages that teach.

use clap::CommandFactory;

use super::Failure;
use super::arguments::Arguments;

/// The pages, each by its name.
pub const PAGES: [(&str, &str); 2] = [
    ("noise", include_str!("teach/noise.txt")),
    ("units", include_str!("teach/units.txt")),
];

/// Prints a page, or the help of the command of these names; without a name, that of pgveil.
///
/// # Errors
/// Where there is no command and no page of the name.
pub fn run(names: &[String]) -> Result<(), Failure> {
    if let [name] = names
        && let Some((_, page)) = PAGES.iter().find(|(known, _)| known == name)
    {
        print!("{page}");
        return Ok(());
    }
    let mut all = Arguments::command();
    all.build();
    let mut command = &mut all;
    for name in names {
        command = command.find_subcommand_mut(name).ok_or_else(|| {
            let pages = PAGES.map(|(known, _)| known).join(" and ");
            Failure::Usage(format!(
                "there is no command {name:?}: `pgveil help` lists the commands, and {pages} are \
                    pages"
            ))
        })?;
    }
    command.print_long_help().map_err(Failure::new)
}
