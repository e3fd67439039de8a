//! Rules of the house that neither the compiler nor clippy checks: import arrows, file sizes,
//! forbidden calls, dependencies with a reason.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A module may import those that stand before it: nouns, stages in their order, error, engine,
/// edges.
const ORDER: [&str; 34] = [
    "visit",
    "refusal",
    "memory",
    "calendar",
    "mechanism",
    "catalog",
    "policy",
    "postgres",
    "ledger",
    "shadow",
    "parse",
    "ir",
    "aggregates",
    "resolve",
    "system_catalog",
    "analyze",
    "rewrite",
    "execute",
    "release",
    "finish",
    "error",
    "synthetic",
    "engine",
    "auto_bounds",
    "operator",
    "wire",
    "web",
    "audit",
    "init",
    "admin",
    "console",
    "desk",
    "demo",
    "cli",
];

/// Arrows that point the wrong way today: from, to, the only names that may pass, and why.
const EXCEPTIONS: [(&str, &str, &[&str], &str); 0] = [];

/// The stages that plan: no I/O, clock, randomness or globals, and nothing that has them.
const PURE: [&str; 7] = [
    "parse",
    "ir",
    "aggregates",
    "resolve",
    "system_catalog",
    "analyze",
    "rewrite",
];

const LINES_MAX: usize = 550;
/// Files past the limit today, with the most lines that they may have until they are split.
const LONG: [(&str, usize); 0] = [];

struct Source {
    path: PathBuf,
    /// Top-level module; `None` for lib.rs and main.rs.
    module: Option<String>,
    /// Without comments and the contents of strings; lines stay lines.
    code: String,
    lines: usize,
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// The module of this name: `folder.rs`, if there is one, and the files in the folder.
pub fn texts(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(folder).with_extension("rs");
    let mut found = Vec::from_iter(root.exists().then_some(root));
    files(Path::new(folder), "rs", &mut found);
    found.sort();
    assert!(!found.is_empty(), "no sources under {folder}");
    found
        .into_iter()
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

fn sources() -> Vec<Source> {
    let source = |(path, text): (PathBuf, String)| {
        let inside = path.strip_prefix("src").unwrap();
        let first = inside
            .iter()
            .next()
            .unwrap()
            .to_str()
            .unwrap()
            .trim_end_matches(".rs")
            .to_owned();
        let module = (!matches!(first.as_str(), "lib" | "main")).then_some(first);
        Source {
            module,
            code: code(&text),
            lines: text.lines().count(),
            path,
        }
    };
    texts("src").into_iter().map(source).collect()
}

/// The text with comments, strings and character literals blanked.
pub fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut out = String::new();
    let mut i = 0;
    while i < chars.len() {
        let end = match (at(i), at(i + 1)) {
            ('/', '/') => (i..chars.len())
                .find(|&j| chars[j] == '\n')
                .unwrap_or(chars.len()),
            ('/', '*') => (i + 2..chars.len())
                .find(|&j| at(j) == '*' && at(j + 1) == '/')
                .map_or(chars.len(), |j| j + 2),
            ('r', '"' | '#') if i == 0 || !(at(i - 1).is_alphanumeric() || at(i - 1) == '_') => {
                let hashes = (i + 1..chars.len())
                    .take_while(|&j| chars[j] == '#')
                    .count();
                if at(i + 1 + hashes) == '"' {
                    let closes = |j: usize| at(j) == '"' && (1..=hashes).all(|k| at(j + k) == '#');
                    (i + 2 + hashes..chars.len())
                        .find(|&j| closes(j))
                        .map_or(chars.len(), |j| j + 1 + hashes)
                } else {
                    i
                }
            }
            ('"', _) => {
                let mut j = i + 1;
                while j < chars.len() && chars[j] != '"' {
                    j += if chars[j] == '\\' { 2 } else { 1 };
                }
                (j + 1).min(chars.len())
            }
            ('\'', '\\') => (i + 3..chars.len())
                .find(|&j| chars[j] == '\'')
                .map_or(chars.len(), |j| j + 1),
            ('\'', _) if at(i + 2) == '\'' => i + 3,
            _ => i,
        };
        if end == i {
            out.push(chars[i]);
            i += 1;
        } else {
            out.extend(
                chars[i..end]
                    .iter()
                    .map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            i = end;
        }
    }
    out
}

/// The first identifier of `text`, and what follows it.
fn identifier(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    text.split_at(end)
}

/// The names that `rest`, the text after `crate::module`, takes from it.
fn taken(rest: &str) -> Vec<String> {
    let Some(rest) = rest.strip_prefix("::") else {
        return vec!["self".to_owned()];
    };
    match rest.strip_prefix('{') {
        Some(list) => list
            .split('}')
            .next()
            .unwrap()
            .split(',')
            .map(|n| identifier(n.trim()).0.to_owned())
            .filter(|n| !n.is_empty())
            .collect(),
        None => vec![identifier(rest).0.to_owned()],
    }
}

/// Every (module, names) that a source takes from the crate, by `crate::` or by `super::` up to the
/// root.
fn imports(source: &Source) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (at, word) in source.code.match_indices("crate::") {
        if source.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &source.code[at + word.len()..];
        assert!(
            !rest.starts_with(['{', '*']),
            "{}: name one module after crate::, so that the arrows can be read",
            source.path.display()
        );
        let (module, rest) = identifier(rest);
        found.push((module.to_owned(), taken(rest)));
    }
    let inside = source.path.strip_prefix("src").unwrap();
    let depth = inside.iter().count();
    for (at, _) in source.code.match_indices("super::") {
        if source.code[..at].ends_with("super::") {
            continue;
        }
        let (mut rest, mut climbs) = (&source.code[at..], 0);
        while let Some(after) = rest.strip_prefix("super::") {
            (rest, climbs) = (after, climbs + 1);
        }
        let (module, rest) = identifier(rest);
        if climbs >= depth && ORDER.contains(&module) {
            found.push((module.to_owned(), taken(rest)));
        }
    }
    found
}

#[test]
fn imports_point_one_way() {
    let rank = |module: &str| ORDER.iter().position(|m| *m == module);
    let mut wrong = Vec::new();
    let mut used: BTreeSet<(String, String, String)> = BTreeSet::new();
    for source in sources() {
        let Some(from) = &source.module else { continue };
        let Some(own) = rank(from) else {
            panic!(
                "{}: give the module {from} its place in ORDER",
                source.path.display()
            )
        };
        for (to, names) in imports(&source) {
            let Some(other) = rank(&to) else {
                panic!(
                    "{}: crate::{to} has no place in ORDER",
                    source.path.display()
                )
            };
            if other <= own {
                continue;
            }
            for name in names {
                let excepted = EXCEPTIONS
                    .iter()
                    .any(|(f, t, n, _)| f == from && *t == to && n.contains(&name.as_str()));
                if excepted {
                    used.insert((from.clone(), to.clone(), name));
                } else {
                    wrong.push(format!(
                        "{}: {from} may not import {to}::{name}",
                        source.path.display()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (from, to, names, _) in EXCEPTIONS {
        for name in names {
            let is_used = used.contains(&(from.to_owned(), to.to_owned(), (*name).to_owned()));
            assert!(
                is_used,
                "{from} takes {to}::{name} no more: strike it from EXCEPTIONS"
            );
        }
    }
}

#[test]
fn planning_stages_are_pure() {
    let forbidden = [
        "tokio",
        "std::fs",
        "std::env",
        "std::net",
        "std::time",
        "SystemTime",
        "Instant::",
        "rand::",
        "crate::ledger",
        "crate::postgres",
        "crate::shadow",
        "static mut",
        "OnceLock",
        "LazyLock",
        "Mutex",
    ];
    // A value parsed once from a constant text holds no state.
    let is_grammar = |source: &Source| source.path.ends_with("parse/grammar.rs");
    assert_nowhere(&forbidden, |source| {
        source.module.as_deref().is_some_and(|m| PURE.contains(&m)) && !is_grammar(source)
    });
    let others: Vec<&str> = forbidden
        .into_iter()
        .filter(|word| *word != "LazyLock")
        .collect();
    assert_nowhere(&others, is_grammar);
}

/// The most columns of a line.
const COLUMNS_MAX: usize = 100;
/// A word that is longer cannot be broken and excuses its line: a password's verifier, an address.
const WORD_MAX: usize = 80;

fn is_long(line: &str) -> bool {
    let has_long_word = line
        .split_whitespace()
        .any(|word| word.chars().count() > WORD_MAX);
    line.chars().count() > COLUMNS_MAX && !has_long_word
}

#[test]
fn lines_stay_short() {
    let folders = [
        "src",
        "tests/it",
        "tests/clients/sqlx/src",
        "benches",
        "fuzz/fuzz_targets",
        "mutants/src",
    ];
    let long = folders
        .into_iter()
        .flat_map(texts)
        .flat_map(|(path, text)| {
            let lines = text.lines().enumerate().filter(|(_, line)| is_long(line));
            lines.map(|(at, _)| place(&path, at)).collect::<Vec<_>>()
        });
    none_is_long(long.collect());
}

/// Folders with programs in other languages, and with what operators install.
const PROGRAMS: [&str; 7] = [
    "ops",
    "docker",
    "tests/clients",
    "tests/oracle",
    "tests/second_reader",
    "benches",
    "fuzz",
];
/// Folders inside them that are built, fetched or found.
const MADE: [&str; 5] = [
    "node_modules",
    "target",
    "__pycache__",
    "corpus",
    "artifacts",
];
/// The endings of their files that are read; those without one are scripts.
const ENDINGS: [&str; 13] = [
    "py", "sh", "js", "mjs", "java", "pl", "sql", "yml", "yaml", "service", "socket", "conf",
    "default",
];

fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !MADE.iter().any(|made| path.ends_with(made)) {
                programs(&path, found);
            }
        } else if path
            .extension()
            .is_none_or(|ending| ENDINGS.iter().any(|known| ending == *known))
        {
            found.push(path);
        }
    }
}

/// What owners and operators copy or read first, and programs in other languages.
#[test]
fn lines_of_policies_and_scripts_stay_short() {
    let single = [
        "Dockerfile",
        "docker-compose.yml",
        "Cargo.toml",
        "deny.toml",
    ]
    .map(PathBuf::from);
    let listed = ["policies", ".ci"].into_iter().flat_map(|folder| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path())
    });
    let mut found = Vec::from(single);
    found.extend(listed.filter(|path| path.is_file()));
    for folder in PROGRAMS {
        let before = found.len();
        programs(Path::new(folder), &mut found);
        assert!(found.len() > before, "no programs under {folder}");
    }
    let long = found.into_iter().flat_map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().enumerate().filter(|(_, line)| is_long(line));
        lines.map(|(at, _)| place(&path, at)).collect::<Vec<_>>()
    });
    none_is_long(long.collect());
}

/// The place of a line in a file.
fn place(path: &Path, at: usize) -> String {
    format!("{}:{}", path.display(), at + 1)
}

fn none_is_long(long: Vec<String>) {
    assert!(
        long.is_empty(),
        "more than {COLUMNS_MAX} columns: {long:#?}"
    );
}

/// The text of documents. Tables, pictures and code keep the width that they need.
#[test]
fn documents_stay_narrow() {
    let mut documents = Vec::new();
    for folder in ["docs", "data"] {
        files(Path::new(folder), "md", &mut documents);
    }
    let first_pages = ["README", "CHANGELOG", "CONTRIBUTING", "SECURITY"];
    documents.extend(first_pages.map(|name| PathBuf::from(name).with_extension("md")));
    let mut long = Vec::new();
    for path in documents {
        let mut is_code = false;
        for (at, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            let start = line.trim_start();
            is_code ^= start.starts_with("```");
            let is_exempt = is_code || start.starts_with('|') || start.starts_with("![");
            if !is_exempt && is_long(line) {
                long.push(place(&path, at));
            }
        }
    }
    none_is_long(long);
}

#[test]
fn files_stay_short() {
    let mut long = Vec::new();
    for source in sources() {
        let most = LONG
            .iter()
            .find(|(path, _)| source.path.ends_with(path))
            .map_or(LINES_MAX, |(_, most)| *most);
        if source.lines > most {
            long.push(format!(
                "{}: {} lines, at most {most}",
                source.path.display(),
                source.lines
            ));
        }
        assert!(
            most == LINES_MAX || source.lines > LINES_MAX,
            "{} is short again: strike it from LONG",
            source.path.display()
        );
    }
    assert!(long.is_empty(), "{long:#?}");
}

/// The most lines of the first page.
const FIRST_PAGE_MAX: usize = 149;

#[test]
fn the_first_page_stays_short() {
    let lines = std::fs::read_to_string("README.md")
        .unwrap()
        .lines()
        .count();
    assert!(lines <= FIRST_PAGE_MAX, "README.md has {lines} lines");
}

/// The most lines of unit tests at the end of their file; longer ones are in `x/tests.rs`.
const INLINE_TESTS_MAX: usize = 250;

#[test]
fn files_are_where_they_are_looked_for() {
    let mut elsewhere = Vec::new();
    for (path, text) in texts("src") {
        let inline = text
            .split_once("\nmod tests {")
            .map_or(0, |(_, tests)| tests.lines().count());
        let name = path.file_stem().unwrap().to_str().unwrap();
        if inline > INLINE_TESTS_MAX
            || name.ends_with("_tests")
            || name == "mod"
            || text.contains("#[path")
        {
            elsewhere.push(path);
        }
    }
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

#[test]
fn functions_stay_short() {
    // clippy counts; this holds it to the count.
    let rules = std::fs::read_to_string("clippy.toml").unwrap();
    assert!(rules.starts_with("too-many-lines-threshold = 70\n"));
    assert!(
        std::fs::read_to_string("Cargo.toml")
            .unwrap()
            .contains("too_many_lines = \"warn\"")
    );
}

/// Irregular participles; the regular ones end in `ed`.
const PARTICIPLES: [&str; 25] = [
    "begun", "bought", "built", "chosen", "drawn", "found", "given", "grown", "held", "hidden",
    "kept", "known", "left", "lost", "made", "met", "paid", "said", "seen", "sent", "shown",
    "spent", "taken", "told", "written",
];
/// Names that end in `ed`, and are verbs, nouns or adjectives.
const OTHERS_IN_ED: [&str; 7] = [
    "embed",
    "exceed",
    "feed",
    "need",
    "seed",
    "speed",
    "unsupported",
];

/// A function says what it does (`plan`) or what it returns (`shown_columns`): a participle alone
/// (`planned`) leaves open whether something is done or was done.
#[test]
fn functions_are_no_participles() {
    let mut found = Vec::new();
    for source in sources() {
        if source
            .path
            .iter()
            .any(|part| part == "tests" || part == "tests.rs")
        {
            continue;
        }
        let code = source.code.split("\nmod tests {").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            let Some((_, rest)) = line.split_once("fn ") else {
                continue;
            };
            let (name, _) = identifier(rest);
            let is_regular = name.ends_with("ed") && !name.contains('_');
            if (is_regular && !OTHERS_IN_ED.contains(&name)) || PARTICIPLES.contains(&name) {
                found.push(format!("{}: fn {name}", place(&source.path, number)));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// None of the words stands in the code of the sources that `within` picks.
fn assert_nowhere(words: &[&str], within: impl Fn(&Source) -> bool) {
    let mut found = Vec::new();
    for source in sources().iter().filter(|s| within(s)) {
        for (number, line) in source.code.lines().enumerate() {
            let is_own_word =
                |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            found.extend(
                words
                    .iter()
                    .filter(|w| {
                        line.match_indices(**w)
                            .any(|(at, _)| !w.starts_with(char::is_alphabetic) || is_own_word(at))
                    })
                    .map(|w| format!("{}:{}: {w}", source.path.display(), number + 1)),
            );
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn nothing_unfinished_and_nothing_printed() {
    assert_nowhere(&["todo!", "unimplemented!", "dbg!"], |_| true);
    assert_nowhere(&["println!", "print!", "eprintln!", "eprint!"], |s| {
        s.module.as_deref() != Some("cli") && !s.path.ends_with("main.rs")
    });
}

#[test]
fn sealed_rows_are_opened_by_release_alone() {
    // The ledger opens files and the shadow connections; neither sees a sealed row.
    assert_nowhere(&[".open(", "Sealed::open"], |s| {
        !matches!(s.module.as_deref(), Some("release" | "ledger" | "shadow"))
    });
    assert_nowhere(&["Sealed"], |s| {
        !matches!(s.module.as_deref(), Some("execute" | "release"))
    });
    assert_nowhere(&["Sealed::new", "Sealed("], |s| {
        s.module.as_deref() != Some("execute")
    });
    let sealed = sources()
        .into_iter()
        .find(|s| s.path.ends_with("execute/sealed.rs"))
        .unwrap()
        .code;
    let traits: Vec<&str> = sealed
        .lines()
        .filter(|l| l.starts_with("impl") && l.contains(" for "))
        .collect();
    assert_eq!(
        traits,
        ["impl<T: Zeroize> std::fmt::Debug for Sealed<T> {"],
        "sealed rows are neither printed, copied nor written out"
    );
    assert!(
        !sealed.contains("derive")
            && !sealed.contains("fn get")
            && !sealed.contains("&self) -> &T")
    );
    let opened: usize = sources()
        .iter()
        .filter(|s| s.module.as_deref() == Some("release"))
        .map(|s| s.code.matches(".open(&self.paid)").count())
        .sum();
    assert_eq!(opened, 1, "rows are opened in one place");
}

/// Every system can check the files out, and a shell needs no quotes for them.
#[test]
fn file_names_are_plain() {
    let is_plain = |name: &str| {
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    let mut open: Vec<PathBuf> = ["src", "tests", "docs", "benches"]
        .map(PathBuf::from)
        .into();
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !is_plain(&name) {
                found.push(path.display().to_string());
            }
            if path.is_dir() && name != "node_modules" {
                open.push(path);
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn aggregates_are_distinguished_in_their_own_folder() {
    assert_nowhere(&["Operation::", "BoundedOperation::"], |s| {
        !matches!(s.module.as_deref(), Some("aggregates" | "ir"))
    });
}

#[test]
fn charges_are_made_by_the_ledger_alone() {
    assert_nowhere(&["Charge::of_debit", "Charge { loss"], |s| {
        s.module.as_deref() != Some("ledger")
    });
    let made: usize = sources()
        .iter()
        .map(|s| s.code.matches("Charge::of_debit").count())
        .sum();
    assert_eq!(made, 1, "a charge is made in one place, after the commit");
    // Each question of an epoch runs under the epoch's debit, and shows a verdict alone.
    assert_nowhere(&["for_question("], |s| {
        !s.path.ends_with("src/release/epoch.rs") && !s.path.ends_with("src/ledger/charge.rs")
    });
    // A draw of prepaid periods is recorded with the snapshot that it reads.
    assert_nowhere(&["PrepaidStep {"], |s| {
        !s.path.ends_with("prepaid_standing.rs") && s.module.as_deref() != Some("ledger")
    });
}

#[test]
fn no_other_noise_is_ever_plugged_in() {
    assert_nowhere(&["with_sampler"], |s| !s.path.ends_with("src/engine.rs"));
    let engine = sources()
        .into_iter()
        .find(|s| s.path.ends_with("src/engine.rs"))
        .unwrap()
        .code;
    assert_eq!(
        engine.matches("with_sampler").count(),
        1,
        "its definition, and no call"
    );
    assert_eq!(engine.matches("impl Sampler").count(), 0);
}

#[test]
fn no_other_store_or_clock_is_ever_plugged_in() {
    assert_nowhere(&["Ledger::on(", "impl Store"], |s| {
        s.module.as_deref() != Some("ledger")
    });
    let made: usize = sources()
        .iter()
        .map(|s| s.code.matches("impl Store for").count())
        .sum();
    assert_eq!(made, 2, "SQLite and PostgreSQL");
}

/// What is locked, paid for and run is a part that was read back.
#[test]
fn what_is_sent_was_read_back() {
    assert_nowhere(&["ReadBackPart("], |s| !s.path.ends_with("plan/unpaid.rs"));
    assert_nowhere(&["LockedPart {"], |s| !s.path.ends_with("release/paid.rs"));
    assert_nowhere(&["backend.snapshot(", "Backend::snapshot"], |s| {
        !s.path.ends_with("release/paid.rs") && s.module.as_deref() != Some("execute")
    });
    let paid = sources()
        .into_iter()
        .find(|s| s.path.ends_with("release/paid.rs"))
        .unwrap()
        .code;
    assert_eq!(
        paid.matches("ReadBackPart<'p>").count(),
        1,
        "of LockedPart::new"
    );
    assert_eq!(paid.matches("Ok(Self { part, snapshot })").count(), 1);
    // Where else a statement's text is sent: the audit takes its releases from such a part.
    let sends = [
        ".simple_query(sql",
        "_query(release.sql",
        "batch_execute(sql",
    ];
    assert_nowhere(&sends, |s| {
        s.module.as_deref() == Some("audit") && !s.code.contains("ReadBackPart<'_>")
    });
}

#[test]
fn noise_and_accounting_read_no_switch() {
    let switches = [
        "std::env",
        "env::var",
        "env!",
        "option_env!",
        "cfg!",
        "cfg(feature",
        "cfg_attr",
        "cfg(debug_assertions",
    ];
    assert_nowhere(&switches, |s| {
        matches!(
            s.module.as_deref(),
            Some("mechanism" | "release" | "ledger" | "execute" | "engine" | "rewrite")
        )
    });
}

/// (section, name, line number) of every dependency.
fn dependencies(manifest: &str) -> Vec<(String, String, usize)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for (number, line) in manifest.lines().enumerate() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if section.ends_with("dependencies")
            && let Some((name, _)) = line.split_once(" = ")
            && !line.starts_with('#')
        {
            found.push((section.clone(), name.to_owned(), number));
        }
    }
    assert!(found.len() > 20);
    found
}

#[test]
fn every_dependency_says_why() {
    let manifest = std::fs::read_to_string("Cargo.toml").unwrap();
    let lines: Vec<&str> = manifest.lines().collect();
    for (section, name, number) in dependencies(&manifest) {
        let above = lines[..number]
            .iter()
            .rev()
            .find(|line| line.starts_with('#') || line.is_empty() || line.starts_with('['));
        assert!(
            above.is_some_and(|line| line.starts_with('#')),
            "[{section}] {name} has no reason above it or its group"
        );
    }
}

#[test]
fn every_dependency_is_used() {
    let manifest = std::fs::read_to_string("Cargo.toml").unwrap();
    let read = |folders: &[&str]| {
        folders
            .iter()
            .flat_map(|f| texts(f))
            .map(|(_, text)| code(&text))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let (shipped, tested) = (read(&["src"]), read(&["src", "tests", "benches"]));
    for (section, name, _) in dependencies(&manifest) {
        // Pinned for another crate's sake; the comment says so.
        if name == "virtual-net" {
            continue;
        }
        let path = name.replace('-', "_");
        let text = if section == "dev-dependencies" {
            &tested
        } else {
            &shipped
        };
        let used = text.match_indices(&path).any(|(at, _)| {
            let before = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let after = &text[at + path.len()..];
            before
                && (after.starts_with("::")
                    || (after.starts_with([';', ' ']) && text[..at].ends_with("use ")))
        });
        assert!(used, "[{section}] {name} is not used");
    }
}

#[test]
fn compose_runs_the_demo_policy() {
    let read = |name: &str| std::fs::read_to_string(format!("policies/{name}.yaml")).unwrap();
    let (demo, compose) = (read("demo"), read("compose"));
    let extra: Vec<&str> = compose
        .lines()
        .filter(|line| !demo.lines().any(|other| other == *line))
        .collect();
    assert!(
        extra
            .iter()
            .all(|l| l.starts_with('#') || l.starts_with("shadow:") || l.contains("${SHADOW_URL}")),
        "{extra:#?}"
    );
    assert!(
        demo.lines()
            .all(|line| compose.lines().any(|other| other == line)),
        "compose.yaml lacks a line of demo.yaml"
    );
    let ha = read("ha");
    let extra: Vec<&str> = ha
        .lines()
        .filter(|line| !compose.lines().any(|other| other == *line))
        .collect();
    assert!(
        extra
            .iter()
            .all(|l| l.starts_with('#') || l.contains("${PGVEIL_WITNESS}")),
        "{extra:#?}"
    );
    assert!(
        demo.lines()
            .all(|line| ha.lines().any(|other| other == line))
    );
    // Each composition sets the environment variables that its policy reads.
    for (policy, file) in [
        (&compose, "docker-compose.yml"),
        (&ha, "ops/compose.ha.yaml"),
    ] {
        let set = std::fs::read_to_string(file).unwrap();
        let names = policy
            .split("${")
            .skip(1)
            .filter_map(|rest| rest.split('}').next());
        for name in names {
            assert!(set.contains(&format!("      {name}: ")), "{file}: {name}");
        }
    }
}

/// The values that events print, and why they hold no statement, literal, row or secret. Everything
/// else in events is numbers, booleans and our own names.
const PRINTED: [(&str, &str, &str); 39] = [
    ("desk/login.rs", "%peer.address", "where a login comes from"),
    ("src/desk.rs", "%error", "an error of the ledger"),
    (
        "ledger/sqlite/backup.rs",
        "%error",
        "an error of the file system",
    ),
    (
        "console/login.rs",
        "%peer.address",
        "where a login comes from",
    ),
    (
        "console/login.rs",
        "%visitor.address",
        "where a session began",
    ),
    ("src/console.rs", "%error", "an error of the ledger"),
    (
        "cli/reload.rs",
        "{line}",
        "a column that is shown since the reload, by its name",
    ),
    (
        "cli/serve.rs",
        "{table}.{}.{}",
        "columns that are shown without being listed, by their names",
    ),
    (
        "cli/reload.rs",
        "{change}",
        "whether file and database say the same, in words of our own",
    ),
    (
        "cli/reload.rs",
        "{what}.{line}",
        "a change of the policy, in words of our own and of the owner; no secret",
    ),
    (
        "cli/progress.rs",
        "{what}",
        "a step of start-up, in words of our own",
    ),
    (
        "cli/progress.rs",
        "{schema}.{table}.{of}",
        "a public table and its size",
    ),
    (
        "cli/progress.rs",
        "{rows}.{}.{seconds:.1}",
        "numbers of public rows and tables, and a time",
    ),
    ("src/wire.rs", "?error.kind()", "a kind of I/O error"),
    (
        "src/wire.rs",
        "%from",
        "where a client connects from, for the operator",
    ),
    (
        "engine/stage_errors.rs",
        "%cause",
        "errors of stages, which keep no text of a database",
    ),
    ("ledger/record/log.rs", "%error", "an error of the ledger"),
    ("ledger/record/file.rs", "%error", "an I/O error"),
    ("operator/show.rs", "%error", "an error of the ledger"),
    ("ledger/claims.rs", "%error", "an error of the ledger"),
    ("ledger/batch.rs", "%error", "an error of the ledger"),
    ("ledger/worker.rs", "%error", "an error of the ledger"),
    ("ledger/server.rs", "%cause", "an error of the ledger"),
    ("shadow/pool.rs", "%error", "why no cancel was sent"),
    ("postgres/temporary_directory.rs", "%error", "an I/O error"),
    (
        "postgres/cluster_cache.rs",
        "?error.kind()",
        "a kind of I/O error",
    ),
    ("postgres/native.rs", "?error.kind()", "a kind of I/O error"),
    (
        "postgres/temporary_directory.rs",
        "%self.path.display()",
        "a directory of ours",
    ),
    (
        "postgres/embedded.rs",
        "%error",
        "an engine that could not be stopped",
    ),
    ("cli/serve.rs", "%address", "where pgveil listens"),
    (
        "cli/serve.rs",
        "{warning}",
        "a warning about the policy, which holds no secret",
    ),
    ("cli/serve.rs", "{}.{}", "a public table"),
    ("cli/reload.rs", "{warning}", "a warning about the policy"),
    (
        "cli/reload.rs",
        "{}",
        "errors of the policy, which hold no secret, and of starting",
    ),
    ("cli/backups.rs", "{}", "an error of the ledger or of files"),
    (
        "shadow/exclusive_lock.rs",
        "{error}",
        "why a lock was not taken; no statement of a session is near",
    ),
    (
        "src/cli/demo.rs",
        "{warning}",
        "a warning about the demo's policy",
    ),
    ("src/cli/demo.rs", "{what}", "a step of the demo"),
    (
        "shadow/build.rs",
        "{warning}",
        "what of the schema the shadow could not take",
    ),
];

/// The text of every event in a source.
fn events(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, word) in text.match_indices("tracing::") {
        let (level, rest) = identifier(&text[at + word.len()..]);
        let Some(rest) = rest
            .strip_prefix("!(")
            .filter(|_| ["trace", "debug", "info", "warn", "error", "event"].contains(&level))
        else {
            continue;
        };
        let end = [");", "),\n", ")\n"]
            .iter()
            .filter_map(|end| rest.find(end))
            .min()
            .unwrap();
        found.push(&rest[..end]);
    }
    found
}

/// The values that an event prints: `?x`, `%x`, and placeholders of its message.
fn printed(event: &str) -> Vec<String> {
    let message = event.split('"').nth(1).unwrap_or_default();
    let braces: Vec<&str> = message
        .split('{')
        .skip(1)
        .map(|rest| rest.split('}').next().unwrap())
        .collect();
    let braces = if braces.is_empty() {
        None
    } else {
        Some(format!("{{{}}}", braces.join("}.{")))
    };
    let values = event
        .split('"')
        .next()
        .unwrap()
        .split(',')
        .map(|argument| argument.split(" = ").last().unwrap().trim());
    values
        .filter(|value| value.starts_with(['?', '%']))
        .map(str::to_owned)
        .chain(braces)
        .collect()
}

/// A type with a derived Debug may hold a statement or a row; a task's error quotes a panic.
/// Neither gets into an event by one more `?`, `%` or `{}`.
#[test]
fn events_print_what_is_known_to_be_harmless() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (path, text) in texts("src") {
        for event in events(&text) {
            seen += 1;
            let is_known = |value: &String| {
                PRINTED
                    .iter()
                    .any(|(known, printed, _)| path.ends_with(known) && printed == value)
            };
            wrong.extend(
                printed(event)
                    .into_iter()
                    .filter(|value| !is_known(value))
                    .map(|value| format!("{}: {value}", path.display())),
            );
        }
        wrong.extend(
            ["#[instrument", "::instrument", "_span!("]
                .iter()
                .filter(|word| text.contains(**word))
                .map(|word| format!("{}: {word}", path.display())),
        );
    }
    assert!(seen > 30, "{seen} events were found");
    assert!(
        wrong.is_empty(),
        "give the reason in PRINTED, or print less: {wrong:#?}"
    );
}

/// The demo's page shows exact answers next to private ones. Nothing that serves a policy can: only
/// the demo's command imports the folder, and the exact side takes no address, policy or server.
#[test]
fn the_demo_is_imported_by_its_command_alone() {
    let outside = |s: &Source| {
        s.module.as_deref() != Some("demo")
            && !s.path.starts_with("src/cli/demo")
            && !s.path.ends_with("src/cli/demo.rs")
    };
    assert_nowhere(&["crate::demo", "demo::exact", "Exact::"], outside);
    // It asks over the wire, as any client: no way to rows, charges or noise.
    let inside = |s: &Source| s.module.as_deref() == Some("demo");
    for source in sources().into_iter().filter(|s| inside(s)) {
        for (module, names) in imports(&source) {
            assert!(
                matches!(module.as_str(), "demo" | "postgres" | "web"),
                "{}: the demo's clients may not import {module}::{names:?}",
                source.path.display()
            );
        }
    }
}

/// Asserts that no source of the folder imports one of the forbidden ones.
fn assert_not_imported(folder: &str, forbidden: &[&str]) {
    for source in sources() {
        if source.module.as_deref() != Some(folder) {
            continue;
        }
        for (module, names) in imports(&source) {
            assert!(
                !forbidden.contains(&module.as_str()),
                "{}: the {folder} may not import {module}::{names:?}",
                source.path.display()
            );
        }
    }
}

/// Operators see prices, budgets and the record. Nothing that runs statements, opens rows, draws
/// noise or charges is within the console's reach.
#[test]
fn the_console_has_no_way_to_rows() {
    let forbidden = [
        "execute", "release", "finish", "shadow", "postgres", "rewrite", "analyze",
    ];
    assert_not_imported("console", &forbidden);
    let inside = |s: &Source| s.module.as_deref() == Some("console");
    let calls = [
        ".answer(",
        ".describe(",
        ".debit(",
        ".purchase(",
        ".receive(",
        ".receive_newest(",
        ".values_held_by(",
        ".relatives(",
        "Act::Grant",
        "Act::Unfreeze",
    ];
    assert_nowhere(&calls, inside);
}

/// Analysts ask at the desk as on the wire. Nothing that opens rows, draws noise or charges is
/// within its reach, nor are the owner's or another role's affairs.
#[test]
fn the_desk_asks_as_the_wire_does() {
    let forbidden = [
        "execute", "release", "finish", "shadow", "postgres", "rewrite", "analyze", "operator",
        "console",
    ];
    assert_not_imported("desk", &forbidden);
    let inside = |s: &Source| s.module.as_deref() == Some("desk");
    let calls = [
        ".debit(",
        ".purchase(",
        ".receive(",
        ".receive_newest(",
        ".values_held_by(",
        ".relatives(",
        ".decide(",
        ".decide_from(",
        ".decisions(",
        ".balance_owner(",
        ".balances(",
        ".spent_since(",
        ".records(",
        ".recent_records(",
        ".acts(",
        ".explore(",
    ];
    assert_nowhere(&calls, inside);
}
