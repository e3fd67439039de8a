//! Words that a reader who knows PostgreSQL and differential privacy would not expect, and doc
//! comments that cannot be read alone.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use super::tidy::texts;

/// The folders whose sources are read.
const FOLDERS: [&str; 5] = ["src", "tests", "benches", "mutants", "fuzz/fuzz_targets"];

/// A word or phrase that is not used, and what to write instead.
const NOT: [(&str, &str); 14] = [
    ("asunder", "decorrelate"),
    ("beside", "next to, with, in addition to"),
    ("besides", "apart from, too"),
    ("lobby", "connections before login"),
    ("of its own", "separate, its own"),
    ("of their own", "separate, their own"),
    ("so many", "this many, at most n"),
    ("told", "shown, reported, known"),
    ("untold", "unknown"),
    ("who asks", "the role, the session, the requester"),
    ("whoever asks", "the role, the session, the requester"),
    ("wish", "setting"),
    ("wished", "asked for"),
    ("wishes", "settings"),
];

/// Places where a phrase has its plain meaning, or where users read it already.
const PLAIN: [(&str, &str); 3] = [
    ("tests/it/project/tidy.rs", "\"told\""),
    ("docs/privacy.md", "does not depend on who asks"),
    (
        "docs/sql.md",
        "of so many rows of one unit with each other that",
    ),
];

/// Beginnings of doc comments that are refused: words that stand for something outside the comment.
/// Editors and rustdoc show an item alone, and its reader then does not know what is meant.
const UNNAMED: [&str; 18] = [
    "All of it",
    "All of them",
    "As",
    "It",
    "Of",
    "One of them",
    "Such",
    "That",
    "The same",
    "These",
    "They",
    "This",
    "Those",
    "What it",
    "What they",
    "Where it",
    "Whether it",
    "Whose",
];

/// Beginnings that are allowed: the name of the item whose contract holds follows.
const NAMED: [&str; 2] = ["As [`", "As `"];

fn documents() -> Vec<(PathBuf, String)> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("docs")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    found.extend(["README.md", "SECURITY.md"].map(PathBuf::from));
    found
        .into_iter()
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

/// The words of a text, in lower case, each with the line it is on; identifiers are taken apart.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let mut word = String::new();
        let mut was_small = false;
        for c in text.chars().chain([' ']) {
            let begins = c.is_uppercase() && was_small;
            if (begins || !c.is_alphabetic()) && !word.is_empty() {
                found.push((line + 1, std::mem::take(&mut word)));
            }
            if c.is_alphabetic() {
                word.extend(c.to_lowercase());
            }
            was_small = c.is_lowercase();
        }
    }
    found
}

fn is_plain(path: &Path, line: &str) -> bool {
    PLAIN
        .iter()
        .any(|(place, text)| path == Path::new(place) && line.contains(text))
}

/// The style of CONTRIBUTING.md, as far as single words show it.
#[test]
fn plain_words_are_used() {
    let is_this_list = |(path, _): &(PathBuf, String)| path.ends_with("project/words.rs");
    let sources = FOLDERS
        .into_iter()
        .flat_map(texts)
        .filter(|source| !is_this_list(source));
    let mut found = Vec::new();
    for (path, text) in sources.chain(documents()) {
        let lines: Vec<&str> = text.lines().collect();
        let (small, words) = (text.to_lowercase(), LazyCell::new(|| words(&text)));
        for (phrase, instead) in NOT {
            let parts: Vec<&str> = phrase.split(' ').collect();
            if parts.iter().any(|part| !small.contains(part)) {
                continue;
            }
            let is_here = |window: &&[(usize, String)]| {
                window.iter().map(|(_, word)| word).eq(&parts) && {
                    let line = window[0].0;
                    !is_plain(&path, lines[line - 1])
                }
            };
            found.extend(
                words
                    .windows(parts.len())
                    .filter(is_here)
                    .map(|at| format!("{}:{}: {phrase} ({instead})", path.display(), at[0].0)),
            );
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A merge that was left half done.
#[test]
fn no_document_has_the_marks_of_a_merge() {
    let is_mark = |line: &&str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
    for (path, text) in documents() {
        let marks: Vec<&str> = text.lines().filter(is_mark).collect();
        assert!(marks.is_empty(), "{}: {marks:?}", path.display());
    }
}

/// Whether a line continues or is a doc comment of this kind (`/` or `!`), and its text.
fn doc_text(line: &str) -> Option<(char, &str)> {
    let rest = line.trim_start().strip_prefix("//")?;
    let kind = rest.chars().next().filter(|c| matches!(c, '/' | '!'))?;
    let text = &rest[1..];
    (text.is_empty() || text.starts_with(' ')).then(|| (kind, text.trim()))
}

fn is_unnamed(text: &str) -> bool {
    let begins_with = |opener: &str| {
        let rest = text.strip_prefix(opener);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',', '.', ':']))
    };
    UNNAMED.iter().any(|opener| begins_with(opener))
        && !NAMED.iter().any(|named| text.starts_with(named))
}

/// A `///` names its subject, in tests too.
#[test]
fn a_doc_comment_can_be_read_alone() {
    let mut found = Vec::new();
    for (path, text) in FOLDERS.into_iter().flat_map(texts) {
        let mut before = None;
        for (at, line) in text.lines().enumerate() {
            let doc = doc_text(line);
            let begins = doc.is_some_and(|(kind, _)| before != Some(kind));
            if let (true, Some((_, text))) = (begins, doc)
                && is_unnamed(text)
            {
                found.push(format!("{}:{}: {text}", path.display(), at + 1));
            }
            before = doc.map(|(kind, _)| kind);
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
