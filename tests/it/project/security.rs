//! The documents name tests that exist; docs/security.md has one for each attack that is closed.

use std::path::Path;

/// One attack: what stands under a heading of the third level.
struct Entry<'a> {
    title: &'a str,
    /// The attack's outcome, in bold.
    verdict: &'a str,
    text: &'a str,
}

/// The entries of every section, except those that report measurements.
fn entries(page: &str) -> Vec<Entry<'_>> {
    let sections = page.split("\n### ").skip(1);
    let entries = sections.map(|rest| rest.split("\n## ").next().unwrap_or_default());
    entries
        .filter(|entry| !entry.starts_with("Measured: "))
        .map(|entry| {
            let (title, text) = entry.split_once("\n\n").unwrap_or((entry, ""));
            let verdict = text
                .split("\n\n**")
                .nth(1)
                .and_then(|rest| rest.split(".**").next())
                .unwrap_or_default();
            Entry {
                title,
                verdict,
                text,
            }
        })
        .collect()
}

/// The tests that the entry's paragraph of tests names.
fn tests_of<'a>(entry: &Entry<'a>) -> Vec<&'a str> {
    let paragraph = entry
        .text
        .split("\n\n")
        .find(|paragraph| paragraph.starts_with("Tests:"));
    paragraph.map_or(Vec::new(), names)
}

/// `path::name` in backquotes.
fn names(page: &str) -> Vec<&str> {
    page.split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| {
            code.contains("::")
                && *code != "file::name"
                && code
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_:/*".contains(c))
        })
        .collect()
}

/// Whether a file at this path below `tests/it` or `src`, or its sibling of tests, has a function
/// of this name.
fn exists(name: &str) -> bool {
    let (path, function) = name.rsplit_once("::").unwrap();
    let files = [
        format!("tests/it/{path}.rs"),
        format!("src/{path}.rs"),
        format!("src/{path}/tests.rs"),
    ];
    let source = files
        .iter()
        .filter(|file| Path::new(file).exists())
        .map(|file| std::fs::read_to_string(file).unwrap());
    source.into_iter().any(|text| {
        let listed = text
            .split("on_both_stores!(")
            .nth(1)
            .and_then(|rest| rest.split(')').next())
            .unwrap_or_default();
        if listed.split([',', ' ', '\n']).any(|name| name == function) {
            return true;
        }
        let mut before = text
            .split(&format!("fn {function}("))
            .next()
            .filter(|head| head.len() < text.len())
            .unwrap_or_default()
            .lines()
            .rev();
        before
            .find(|line| line.trim().starts_with("#["))
            .is_some_and(|line| line.contains("test"))
    })
}

/// As [`exists`], for the names of other documents too: a module of tests, a path as `cargo test
/// --lib` takes it, and names that begin alike, as in `sql/per_unit::groups_*`.
fn is_there(name: &str) -> bool {
    let (path, last) = name.rsplit_once("::").unwrap();
    let path = path.replace("::", "/");
    let own = path.strip_suffix("/tests").unwrap_or(&path);
    let has = |file: String, text: &str| {
        std::fs::read_to_string(file).is_ok_and(|source| source.contains(text))
    };
    let is_module = || {
        let folders = ["tests/it", "src"].map(|root| format!("{root}/{path}/{last}.rs"));
        folders.iter().any(|file| Path::new(file).exists())
            || has(format!("src/{path}.rs"), &format!("mod {last} {{"))
    };
    match last.strip_suffix('*') {
        Some(start) => has(format!("tests/it/{path}.rs"), &format!("fn {start}")),
        None => exists(&format!("{own}::{last}")) || is_module(),
    }
}

/// The names of tests are those in backquotes with a path of files, or within `tests`.
#[test]
fn every_test_that_a_document_names_exists() {
    let (mut gone, mut found) = (Vec::new(), 0);
    for entry in std::fs::read_dir("docs").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let page = std::fs::read_to_string(&path).unwrap();
        let is_test = |name: &&str| name.contains('/') || name.contains("::tests");
        let named: Vec<&str> = names(&page).into_iter().filter(is_test).collect();
        found += named.len();
        let missing = named.iter().filter(|name| !is_there(name));
        gone.extend(missing.map(|name| format!("{}: {name}", path.display())));
    }
    assert!(found > 500, "{found} names were found");
    assert!(gone.is_empty(), "tests that are not there: {gone:#?}");
}

#[test]
fn every_named_test_exists() {
    let page = std::fs::read_to_string("docs/security.md").unwrap();
    let named = names(&page);
    assert!(named.len() > 80, "{} names were found", named.len());
    let gone: Vec<&&str> = named.iter().filter(|name| !exists(name)).collect();
    assert!(
        gone.is_empty(),
        "docs/security.md names tests that are not there: {gone:?}"
    );
}

#[test]
fn what_is_called_closed_names_its_test() {
    const VERDICTS: [&str; 6] = [
        "Closed",
        "Counted",
        "Warned",
        "Open",
        "Not pgveil's",
        "Needs no answer",
    ];
    let page = std::fs::read_to_string("docs/security.md").unwrap();
    let entries = entries(&page);
    assert!(entries.len() >= 140, "{} entries were found", entries.len());
    let mut closed = 0;
    for entry in &entries {
        assert!(
            VERDICTS.contains(&entry.verdict),
            "\"{}\" has the verdict \"{}\"",
            entry.title,
            entry.verdict
        );
        if matches!(entry.verdict, "Closed" | "Counted" | "Warned") {
            closed += 1;
            assert!(
                !tests_of(entry).is_empty(),
                "no test is named for \"{}\"",
                entry.title
            );
        }
    }
    assert!(closed >= 130, "{closed} closed entries were found");
}

#[test]
fn each_attack_has_its_own_heading() {
    let page = std::fs::read_to_string("docs/security.md").unwrap();
    let mut titles: Vec<&str> = entries(&page).iter().map(|entry| entry.title).collect();
    let all = titles.len();
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), all, "two entries have one title");
}
