//! `pgveil policy`: the keys of the policy file as a schema and in words, and the meaning of a
//! change. No database is needed.

use std::path::Path;

use super::arguments::PolicyQuestion;
use super::{Failure, secrets};
use crate::policy::{Difference, File, explain_key, key_names, schema};

pub fn run(question: PolicyQuestion) -> Result<(), Failure> {
    match question {
        PolicyQuestion::Schema => println!("{:#}", schema()),
        PolicyQuestion::Explain { key } => {
            let lines = explain_key(&key);
            if lines.is_empty() {
                return Err(Failure::Usage(format!(
                    "no key of the policy file is called \"{key}\"; its keys are {}",
                    key_names().join(", ")
                )));
            }
            lines.iter().for_each(|line| println!("{line}"));
        }
        PolicyQuestion::Diff { old, new } => return diff(&old, &new),
    }
    Ok(())
}

fn diff(old: &Path, new: &Path) -> Result<(), Failure> {
    let difference = Difference::between(&read(old)?, &read(new)?);
    difference
        .lines()
        .for_each(|(what, line)| println!("{what:8}  {line}"));
    if difference.is_empty() {
        println!("nothing changes");
    }
    if difference.loosens.is_empty() {
        Ok(())
    } else {
        Err(Failure::Loosened)
    }
}

/// Reads a file where its secrets may be out of reach.
pub(super) fn read(path: &Path) -> Result<File, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format_args!("{}: {error}", path.display())))?;
    File::parse_without_secrets(&path.display().to_string(), &text, secrets::variable)
        .map_err(Failure::Policy)
}
