//! docs/security.md tells the truth about the tests that it names.

use std::path::Path;

/// The cells of every row of a table with a *closed* column, without the header rows.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| attack |"));
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
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
                    .all(|c| c.is_ascii_alphanumeric() || "_:/".contains(c))
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
        format!("src/{path}/mod.rs"),
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
    let page = std::fs::read_to_string("docs/security.md").unwrap();
    let closed: Vec<Vec<&str>> = rows(&page)
        .into_iter()
        .filter(|cells| cells.iter().any(|cell| matches!(*cell, "yes" | "counted")))
        .collect();
    assert!(closed.len() >= 50, "{} rows were found", closed.len());
    for cells in closed {
        assert!(
            !names(cells.last().unwrap()).is_empty(),
            "no test is named for {}",
            cells[0]
        );
    }
}
