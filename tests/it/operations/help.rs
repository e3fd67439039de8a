//! The help of every command fits a terminal of 80 columns.

use std::process::{Command, Stdio};

const PGVEIL: &str = env!("CARGO_BIN_EXE_pgveil");
const COLUMNS: usize = 80;

/// What a command line prints where standard output is no terminal, and the variable COLUMNS says
/// that there would be room for more.
fn printed(words: &[&str]) -> String {
    let mut command = Command::new(PGVEIL);
    command.args(words).env("COLUMNS", "300");
    let done = command.stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<&str> {
    let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = listed.lines().take_while(|line| !line.is_empty());
    let entries = lines.filter_map(|line| line.strip_prefix("  "));
    entries
        .filter(|entry| !entry.starts_with(' '))
        .filter_map(|entry| entry.split(' ').next())
        .collect()
}

/// The command's path and the paths of all commands below it.
fn paths_from(path: &[&str], found: &mut Vec<Vec<String>>) {
    found.push(path.iter().map(|word| (*word).to_owned()).collect());
    let help = printed(&[path, &["--help"]].concat());
    for command in commands(&help) {
        paths_from(&[path, &[command]].concat(), found);
    }
}

#[test]
fn no_line_of_help_is_wider_than_80_columns() {
    let mut paths = Vec::new();
    paths_from(&[], &mut paths);
    // The help of pgveil does not list it.
    paths.push(vec!["generate".to_owned()]);
    let has = |words: &str| paths.iter().any(|path| path.join(" ") == words);
    for words in ["demo", "budget grant", "ledger restore", "policy diff"] {
        assert!(has(words), "{words} is not in {paths:?}");
    }
    let mut asked: Vec<Vec<&str>> = vec![vec!["help", "noise"], vec!["help", "units"]];
    for path in &paths {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        asked.extend([
            [path.as_slice(), &["--help"]].concat(),
            [path.as_slice(), &["-h"]].concat(),
        ]);
        asked.push([&["help"], path.as_slice()].concat());
    }
    let mut wide = Vec::new();
    for words in asked {
        let help = printed(&words);
        assert!(!help.is_empty(), "{words:?}");
        let lines = help.lines().filter(|line| line.chars().count() > COLUMNS);
        wide.extend(lines.map(|line| format!("pgveil {}: {line}", words.join(" "))));
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}
