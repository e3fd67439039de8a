//! Every refusal that the source can make stands in a golden file, with all that a client sees.
//! Every reason of a refusal stands in docs/refusals.md.

use std::collections::BTreeSet;
use std::path::Path;

use pgveil::refusal::reason::{Reason, THEMES};

use super::tidy::texts;

/// Not shown by the golden files: why, or the tests that meet them; and the messages.
const ELSEWHERE: &[(&str, &[&str])] = &[
    (
        "a statement of a role that writes: parse::session::write, sql::writes",
        &["a value of INSERT must be a constant or a parameter, with one cast at most"],
    ),
    (
        "a question to a monitor, which has another plan: parse::monitor, sql::monitors",
        &[
            "the name of a monitor must be a constant of at most {NAME_BYTES_MAX} bytes of text",
            "the threshold of pgveil.above() must be a constant number",
            "this form of pgveil.above()",
            "this question to a monitor",
        ],
    ),
    (
        "a question to a holdout, which has another plan: parse::holdout, sql::holdouts",
        &[
            "the value of pgveil.holdout() must be a constant number from 0 to 1",
            "this form of pgveil.holdout()",
        ],
    ),
    (
        "the sets of a summary, which `pgveil summarize` selects: sql::selected_sets",
        &["this summary"],
    ),
    (
        "a catalog's path, which is taken before a plan is made: catalogs::reach",
        &[
            "FOR UPDATE and FOR SHARE are not allowed",
            "a statement over both {relation} and {table} is not supported",
            "the argument of current_setting() must be a simple value",
            "a column named \"{name}\" cannot be qualified with the name of its table",
            "permission denied for function {name}",
            "permission denied for table {}",
            "permission denied to examine \"{name}\"",
            "the argument of pg_get_userbyid() must be a simple value",
            "set_config() cannot be used together with the system catalogs",
            "{construct} is not supported over the system catalogs",
            "{name}() does not support these arguments",
        ],
    ),
    (
        "other settings or another policy than the golden files': settings, plans, \
            neighbour::named, collations, clients",
        &[
            "GROUP BY a column with a nondeterministic collation",
            "pure accounting requires declared values for GROUP BY columns",
            "the branches of this UNION identify the {unit} by columns of different types",
            "a query may group by at most {VALUES_MAX} values of a collected column",
            "{name} of a column with a nondeterministic collation",
            "a window over a column with a nondeterministic collation",
            "a search in a column with a nondeterministic collation",
            "an expression over texts of different collations",
            "cannot order or match released texts when columns have different collations",
            "cannot order or compare released texts of different collations",
            "cannot order released texts by a collation that is not built into PostgreSQL",
            "epsilon {whole} is too small for the {} parts of this query: each needs at \
                least epsilon {least} alone",
            "pgveil.target_error needs {need} for this query, more than the limit of \
                {most} per query",
            "pgveil.target_error cannot be used with an aggregate whose error is not known",
            "pgveil.target_error needs an aggregate, and this query shows only group keys",
            "pgveil.keys = domain requires GROUP BY values that are known without the data",
            "a timestamp with time zone must name its zone unless TimeZone is UTC",
            "{what} is supported only when TimeZone is UTC",
            "cannot print a value of type {} under the session's settings",
            "an interval constant with one sign before several numbers is ambiguous under \
                IntervalStyle sql_standard",
        ],
    ),
    (
        "columns of types that the demo has not: neighbour::types, neighbour::total, types",
        &[
            "ANY between {a} and an array of {b}",
            "UNION of values of type {a}",
            "a path into jsonb must be a constant",
            "an array subscript must be a constant",
            "cannot add an interval of unknown length to a time",
            "arithmetic on an interval of unknown length",
            "invalid input value for enum {}: \"{shown}\"",
        ],
    ),
    (
        "parameters of the extended protocol: clients, wire::prepared",
        &[
            "parameters of the type with OID {other} are not supported",
            "parameters of type {other} are not supported",
        ],
    ),
    (
        "too long for a file that is read: attack::fuzz, attack::growth, wire::limits, \
            benches/wire/denial_of_service.py",
        &[
            "an IN list holds at most {LIST_MAX} values",
            "an IN list of rows holds at most {} rows",
            "an expression over private rows is too complex",
            "listing the values of the group keys and of what is counted takes too long",
            "no noise of supported size fits this query at this epsilon",
            "statement is too long",
            "subqueries over private rows are nested too deeply, or are too many",
            "the answer would hold {} numbers, more than the limit of {most}",
            "the query costs more than can be counted",
            "too many statements in one text",
        ],
    ),
    (
        "bytes that no file of text holds",
        &["invalid byte sequence for encoding \"UTF8\""],
    ),
    (
        "clauses of other dialects that the parser refuses itself, named so that a new version of \
            it cannot let them in",
        &[
            "CASE without WHEN",
            "COUNT(DISTINCT …) of a value of this type within one group of rows",
            "GROUPING SETS, ROLLUP or CUBE within the rows of one unit",
            "INTERPOLATE is not valid in PostgreSQL",
            "ORDER BY ALL is not valid in PostgreSQL",
            "WITH FILL is not valid in PostgreSQL",
            "a cast from text to {to:?}",
            "a cast to {to:?}",
            "a comparison of empty rows",
            "a constant of type {}",
            "a name computed by a function",
            "a window is defined in parentheses",
            "an interval that is added to a date must be a constant",
            "identifiers are quoted with double quotes",
            "cannot read private rows here",
            "this form of DISTINCT",
            "this form of LIMIT is not valid in PostgreSQL",
            "this form of ORDER BY is not valid in PostgreSQL",
            "this form of WITH is not valid in PostgreSQL",
            "this form of alias is not valid in PostgreSQL",
            "this kind of SELECT item",
            "this kind of derived table",
            "this spelling of a name or constant is not supported",
            "the text argument of {}() must be a constant",
        ],
    ),
    (
        "our own mistakes, should there be any: earlier stages keep every text from here",
        &[
            "a collected column within the rows of one unit",
            "a window call without a window",
            "UNION of nothing",
            "a column is not in scope of its relation",
            "a function has no emission",
            "a list is no constant",
            "a query of private rows without an aggregate",
            "a release without a private table",
            "the range of this sum is too narrow for exact noise",
            "a thresholded release counts no units",
            "a window over rows of public tables in a query of private rows",
            "a window over rows with a column that has no order",
            "an empty row could not be made",
            "the emitted statement does not survive printing",
            "the parts of a query cost more than the whole",
            "the policy's path from {}.{} to its unit is incomplete",
            "this aggregate",
        ],
    ),
];

/// Where the refusals of SQL are made.
const SOURCES: [&str; 7] = [
    "src/aggregates",
    "src/parse",
    "src/ir",
    "src/resolve",
    "src/system_catalog",
    "src/analyze",
    "src/rewrite",
];

fn files(folder: &Path, extension: &str, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, extension, found),
            false if path.extension().is_some_and(|e| e == extension) => found.push(path),
            false => {}
        }
    }
}

/// The string literals of the arguments that follow, up to the closing parenthesis.
fn literals(source: &str) -> Vec<String> {
    let (mut found, mut depth, mut characters) = (Vec::new(), 1, source.chars());
    while let Some(c) = characters.next() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => break,
            ')' => depth -= 1,
            '"' => {
                let mut text = String::new();
                while let Some(c) = characters.next().filter(|c| *c != '"') {
                    match c {
                        '\\' => text.extend(escaped(&mut characters)),
                        c => text.push(c),
                    }
                }
                found.push(text);
            }
            _ => {}
        }
    }
    found
}

/// The character that a backslash and the next one stand for; nothing where the text goes on in the
/// next line.
fn escaped(characters: &mut std::str::Chars<'_>) -> Option<char> {
    let c = characters.next()?;
    if c == '\n' {
        while characters.clone().next().is_some_and(char::is_whitespace) {
            characters.next();
        }
        return None;
    }
    Some(c)
}

/// How the message of `Refusal::private_rows` begins.
const PRIVATE_ROWS: &str = "rows of a private table are not shown";

/// The message of each constructor of a refusal that is written out, as a template.
fn written() -> Vec<String> {
    let mut messages = Vec::new();
    for (path, text) in SOURCES.into_iter().flat_map(texts) {
        if path.ends_with("tests.rs") {
            continue;
        }
        let source = text.split("#[cfg(test)]").next().unwrap_or_default();
        for constructor in [
            "Refusal::new(",
            "Refusal::unsupported(",
            "Refusal::private_rows(",
        ] {
            let calls = source
                .match_indices(constructor)
                .map(|(at, _)| literals(&source[at + constructor.len()..]));
            let texts = calls.filter_map(|literals| literals.into_iter().next());
            let whole = |text: String| match (constructor, text.as_str()) {
                ("Refusal::private_rows(", "") => PRIVATE_ROWS.to_owned(),
                ("Refusal::private_rows(", advice) => format!("{PRIVATE_ROWS}; {advice}"),
                _ => text,
            };
            messages.extend(texts.map(whole));
        }
    }
    messages.sort();
    messages.dedup();
    messages
}

/// The messages that the golden files show.
fn shown() -> Vec<String> {
    let mut snapshots = Vec::new();
    files(Path::new("tests/golden"), "snap", &mut snapshots);
    let texts: Vec<String> = snapshots
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let errors = texts
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("ERROR ")?.split_once(": "));
    errors.map(|(_, message)| message.to_owned()).collect()
}

/// The fixed pieces of a template, in their order, from the start.
fn is_of(message: &str, template: &str) -> bool {
    let mut rest = message;
    for (at, piece) in template
        .split('{')
        .map(|piece| piece.split_once('}').map_or(piece, |(_, fixed)| fixed))
        .enumerate()
    {
        let Some(found) = rest.find(piece) else {
            return false;
        };
        if at == 0 && found > 0 {
            return false;
        }
        rest = &rest[found + piece.len()..];
    }
    true
}

/// Whether the golden files show the refusal that this message is of.
pub fn is_in_golden_files(message: &str) -> bool {
    let of_it: Vec<String> = written()
        .into_iter()
        .filter(|template| is_of(message, template))
        .collect();
    shown()
        .iter()
        .any(|shown| of_it.iter().any(|template| is_of(shown, template)))
}

#[test]
fn every_refusal_stands_in_a_golden_file() {
    let (written, shown) = (written(), shown());
    assert!(
        written.len() > 100 && shown.len() > 100,
        "{} written, {} shown",
        written.len(),
        shown.len()
    );
    let is_shown = |template: &String| shown.iter().any(|message| is_of(message, template));
    let is_elsewhere = |template: &String| {
        ELSEWHERE
            .iter()
            .any(|(_, messages)| messages.iter().any(|message| message == template))
    };
    let missing: Vec<&String> = written
        .iter()
        .filter(|template| !is_shown(template) && !is_elsewhere(template))
        .collect();
    assert!(
        missing.is_empty(),
        "add a statement to tests/golden/refuse for each of {missing:#?}"
    );
    let stale: Vec<&str> = ELSEWHERE
        .iter()
        .flat_map(|(_, messages)| messages.iter().copied())
        .filter(|message| !written.iter().any(|w| w == message))
        .collect();
    assert!(stale.is_empty(), "no longer in the source: {stale:?}");
}

/// All reasons, with the names of their constants.
fn reasons() -> Vec<(&'static str, Reason)> {
    THEMES
        .iter()
        .flat_map(|theme| theme.reasons)
        .copied()
        .collect()
}

#[test]
fn ids_are_unique_and_in_kebab_case() {
    let all = reasons();
    assert!(all.len() > 100, "{} reasons", all.len());
    for (name, reason) in &all {
        assert_eq!(reason.id(), name.to_lowercase().replace('_', "-"));
    }
    let ids: BTreeSet<&str> = all.iter().map(|(_, reason)| reason.id()).collect();
    assert_eq!(ids.len(), all.len(), "an id is given twice");
}

#[test]
fn every_reason_is_given_somewhere() {
    let mut given = BTreeSet::new();
    for (_, text) in texts("src") {
        let names = text.split("reason::").skip(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_');
            rest[..end.unwrap_or(rest.len())].to_owned()
        });
        given.extend(names);
    }
    let unused: Vec<&str> = reasons()
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !given.contains(*name))
        .collect();
    assert!(unused.is_empty(), "no refusal has the reason {unused:?}");
}

#[test]
fn every_golden_refusal_has_a_known_id() {
    let mut snapshots = Vec::new();
    files(Path::new("tests/golden"), "snap", &mut snapshots);
    let all = reasons();
    let mut refusals = 0;
    for path in snapshots {
        let text = std::fs::read_to_string(&path).unwrap();
        let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("ERROR "), count("ID: "), "{path:?}");
        refusals += count("ERROR ");
        for id in text.lines().filter_map(|line| line.strip_prefix("ID: ")) {
            let is_known = all.iter().any(|(_, reason)| reason.id() == id);
            assert!(is_known, "{path:?} has the id {id}");
        }
    }
    assert!(refusals > 400, "{refusals} refusals");
}

/// A paragraph in lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().unwrap();
        match line.is_empty() {
            true => line.push_str(word),
            false if line.chars().count() + 1 + word.chars().count() <= 100 => {
                line.push(' ');
                line.push_str(word);
            }
            false => lines.push(word.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

/// The list of reasons, as docs/refusals.md has it.
fn listed_reasons() -> String {
    let mut text = String::new();
    for theme in THEMES {
        text += &format!("\n## {}\n", theme.title);
        for (_, reason) in theme.reasons {
            let sqlstate = match reason.sqlstate() {
                "" => "SQLSTATE of PostgreSQL",
                state => &format!("SQLSTATE {state}"),
            };
            text += &format!("\n### `{}`\n\n", reason.id());
            text += &wrapped(&format!("{} ({sqlstate})", reason.why()));
            text += "\n";
            text += &wrapped(&format!("*Instead:* {}", reason.instead()));
        }
    }
    text + "\n"
}

/// `PGVEIL_WRITE=1` writes the document.
#[test]
fn the_references_list_every_reason() {
    const BEGIN: &str = "PGVEIL_WRITE=1 -->\n";
    const END: &str = "<!-- end -->";
    const PATH: &str = "docs/refusals.md";
    let text = std::fs::read_to_string(PATH).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the beginning of the list");
    let (listed, after) = rest.split_once(END).expect("the end of the list");
    let wanted = listed_reasons();
    if std::env::var_os("PGVEIL_WRITE").is_some() {
        std::fs::write(PATH, [before, BEGIN, &wanted, END, after].concat()).unwrap();
    } else {
        assert!(
            listed == wanted,
            "{PATH} does not list the reasons of today; run this test with PGVEIL_WRITE=1"
        );
    }
}
