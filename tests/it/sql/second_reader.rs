//! PostgreSQL's own grammar (libpg_query, by pglast) as a second reader: our parser reads an
//! accepted text as PostgreSQL does, or refuses it.
//!
//! Each text that is accepted is printed from our tree. PostgreSQL's grammar reads the text and our
//! print of it; both trees must be equal. The texts are those of the goldens, of the attacks, of
//! the corpora, and broken ones made of them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use pgveil::parse::{Statement, parse};
use pgveil::policy::RECORD_AGGREGATES;

use crate::clients::install::{Python, python};
use crate::fixture::Veil;
use crate::privacy::attack::fuzz::{Dice, FOLDERS, mutated, statements, tried};

const PACKAGE: &str = "pglast==8.8";

/// Broken statements made of each whole one; `PGVEIL_SECOND_READER` sets another number.
const MUTANTS: usize = 3;

/// A call that the parser writes out as arithmetic over other aggregates, so that it is not printed
/// as it was read. The comparison uses the same text with a name that the parser does not know.
/// `sql::statistics` compares the answers with PostgreSQL's.
const WRITTEN_OUT: (&str, &str) = ("pgveil.geomean", "pgveil.as_read");

struct Pair {
    text: String,
    /// The text for both readers.
    read: String,
    printed: String,
}

/// The text with the fields in place of `*` in `(pgveil.linregr(…)).*` and the like: the parser
/// writes them out.
fn with_fields(text: &str) -> String {
    let Some(end) = text.find(")).*") else {
        return text.to_owned();
    };
    let calls = RECORD_AGGREGATES.iter().filter_map(|record| {
        let start = text[..end].rfind(&format!("(pgveil.{}(", record.name))?;
        Some((start, record))
    });
    let Some((start, record)) = calls.max_by_key(|(start, _)| *start) else {
        return text.to_owned();
    };
    let call = &text[start..end + 2];
    let fields = record.fields.iter();
    let fields: Vec<String> = fields
        .map(|field| format!("{call}.{}", field.name))
        .collect();
    let rest = with_fields(&text[end + 4..]);
    format!("{}{}{rest}", &text[..start], fields.join(", "))
}

/// The text and our print of its tree, if it is one accepted query.
fn pair(text: &str) -> Option<Pair> {
    let read = text.replace(WRITTEN_OUT.0, WRITTEN_OUT.1);
    let parsed = parse(&read).ok()?;
    let read = with_fields(&read);
    let [Statement::Query(query)] = parsed.as_slice() else {
        return None;
    };
    Some(Pair {
        text: text.to_owned(),
        printed: query.to_sql(),
        read,
    })
}

fn pairs() -> Vec<Pair> {
    let mut texts = Vec::new();
    for folder in FOLDERS {
        statements(Path::new(folder), &mut texts);
    }
    let mutants = std::env::var("PGVEIL_SECOND_READER")
        .ok()
        .and_then(|text| text.parse().ok());
    let mut dice = Dice(0x5eed_0fab);
    let mut pairs = Vec::new();
    for text in &texts {
        pairs.extend(pair(text));
        let broken = (0..mutants.unwrap_or(MUTANTS)).map(|_| mutated(text, &mut dice));
        pairs.extend(broken.filter_map(|text| pair(&text)));
    }
    pairs
}

/// The verdict of PostgreSQL's grammar on each pair.
fn compared(python: &Path, pairs: &[Pair]) -> Vec<serde_json::Value> {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/second_reader/compare.py"
    );
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: Vec<String> = pairs
        .iter()
        .map(|pair| serde_json::json!({ "text": pair.read, "printed": pair.printed }).to_string())
        .collect();
    let writing = std::thread::spawn(move || {
        lines
            .iter()
            .for_each(|line| writeln!(input, "{line}").unwrap());
    });
    let output = BufReader::new(child.stdout.take().unwrap());
    let verdicts = output
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    writing.join().unwrap();
    assert!(child.wait().unwrap().success());
    verdicts
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_accepted_is_read_as_by_postgresql() {
    let Some(Python(python)) = python("pglast", &[PACKAGE]).await else {
        return;
    };
    let pairs = pairs();
    let verdicts = compared(&python, &pairs);
    assert_eq!(verdicts.len(), pairs.len());
    let veil = Veil::demo(|yaml| yaml, None).await;
    let mut wrong = Vec::new();
    for (Pair { text, printed, .. }, verdict) in pairs.iter().zip(&verdicts) {
        let is_alike = matches!(verdict["verdict"].as_str(), Some("same" | "refused"));
        if !is_alike && tried(text, veil.engine.policy()) {
            wrong.push(format!("{verdict}\n  {text}\n  {printed}"));
        }
    }
    println!(
        "{} texts are accepted, {} read in another way",
        pairs.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The second reader's findings, with PostgreSQL's results.
#[test]
fn what_only_our_parser_reads_is_refused() {
    for (text, sqlstate, position) in [
        ("SELECT 1 == 1", "42883", 10),
        ("SELECT x.is NOT NULL FROM x", "42601", 13),
        ("SELECT a year FROM x", "42601", 10),
        ("TABLE s.x label", "42601", 11),
        ("SELECT sum(a) FILTER FROM x", "42601", 15),
        ("SELECT (sum(a) FILTER ( ) FROM x", "42601", 16),
    ] {
        let refusal = parse(text).expect_err(text);
        assert_eq!(
            (refusal.sqlstate.as_str(), refusal.position),
            (sqlstate, Some(position))
        );
    }
    for text in [
        "SELECT a AS year, interval '1' year, extract(day FROM b) FROM x",
        "SELECT count(*) FILTER (WHERE true) OVER (), x.year FROM x",
        "SELECT 1 FROM (SELECT 1) AS filter",
        "TABLE s.x ORDER BY 1",
        "SELECT NOT NULL, (NOT NULL)",
    ] {
        assert!(parse(text).is_ok(), "{text}");
    }
}
