//! Any text as a statement that writes, any bytes as its parameters, in text and in binary, and any
//! lines of COPY in pieces of any lengths. What is accepted becomes reports of the column's own
//! set; what is refused, and what is printed, says nothing of a value that was marked; and rows do
//! not depend on the pieces they come in. Nothing is sent anywhere.
//!
//! An input is parts with the byte 0x1e between them: lengths of pieces, the statement, and then
//! each parameter, a byte for its type before it, or the lines of COPY.
#![no_main]

mod world;

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use pgveil::engine::{
    Argument, CopyRows, Format, MemoryShare, Requester, SentValue, TableWriter, WritePlan,
};
use pgveil::parse::{CopyFormat, Statement, Write, WrittenRows, parse_with_writes};
use pgveil::policy::SessionSettings;
use pgveil::refusal::Refusal;

const POLICY: &str = "version: 1
database: {url: 'postgres://nowhere/nls', write_url: 'postgres://writer@nowhere/nls'}
local: {secret: 0123456789abcdef0123456789abcdef}
privacy: {unit: person, budget: {epsilon: 1, delta: 1e-6}}
roles:
  - name: collector
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: none
    writes: [nls.answers]
tables:
  nls.answers:
    unit: person
    columns:
      smoked: {values: [no, yes], nullable: true, local: {mechanism: coin, truth: 1/2, yes: 1/2}}
      feels: {values: [sad, happy], local: {mechanism: krr, epsilon: 1}}
      tea: {visible: true, also: [coffee], local: {mechanism: unary, epsilon: 1}}
      income: {bounds: [0, 1000000], local: {mechanism: mean, epsilon: 1}}
      page_cohort: visible
      page: {values: [zqone, zqtwo, zqthree], local: {mechanism: rappor, bits: 16, hashes: 2,
        cohorts: 4, f: 1/2, p: 1/2, q: 3/4, cohort: page_cohort}}
";

/// The text of marked values: those of `page`, and whatever else an input makes of it.
const MARK: &str = "zq";

/// The types that parameters are declared as; the byte's highest bit says that it is in binary.
const OIDS: [u32; 16] = [
    0, 16, 20, 21, 23, 25, 700, 701, 1043, 1082, 1114, 1184, 1700, 2950, 1560, 20_000,
];

static WRITER: LazyLock<Arc<TableWriter>> = LazyLock::new(|| {
    let policy = world::checked(POLICY).unwrap_or_else(|errors| panic!("{errors:?}"));
    TableWriter::of(&policy).unwrap()
});

static REQUESTER: LazyLock<Requester> = LazyLock::new(|| Requester {
    role: "collector".to_owned(),
    session_settings: SessionSettings::default(),
    settings: Vec::new(),
    search_path: vec!["nls".to_owned()],
    process: 0,
    origin: Default::default(),
    given_up: Default::default(),
    share: MemoryShare::default(),
});

fn has_mark(text: &str) -> bool {
    text.contains(MARK)
}

/// Whether the mark may stand outside of a constant: as a name, which refusals show. Sure only of
/// plain texts.
fn may_name_the_mark(sql: &str) -> bool {
    let is_plain = !sql.contains(['"', '\\', '`'])
        && !sql.contains("--")
        && !sql.contains("/*")
        && sql
            .match_indices('$')
            .all(|(at, _)| sql[at + 1..].starts_with(|next: char| next.is_ascii_digit()));
    let outside = sql.split('\'').step_by(2);
    has_mark(sql) && (!is_plain || outside.into_iter().any(has_mark))
}

/// Nothing that a refusal shows repeats a marked value.
fn keeps_quiet(refusal: &Refusal) {
    assert!(!has_mark(&format!("{refusal:?}")), "{refusal:?}");
}

fn argument(part: &[u8]) -> Option<(u32, Argument)> {
    let (choice, bytes) = part.split_first()?;
    let oid = OIDS[usize::from(choice & 0x0f)];
    let argument = Argument {
        // One of eight is NULL.
        value: (choice & 0x70 != 0x70).then(|| Bytes::copy_from_slice(bytes)),
        format: match choice & 0x80 {
            0 => Format::Text,
            _ => Format::Binary,
        },
    };
    Some((oid, argument))
}

/// Whether a text is a report of the column, or a value that it takes as it is.
fn is_report(column: &str, text: Option<&str>) -> bool {
    let bits = |text: &str| text.bytes().all(|bit| matches!(bit, b'0' | b'1'));
    match (column, text) {
        ("smoked", None) => true,
        ("smoked", Some(text)) => ["no", "yes"].contains(&text),
        ("feels", Some(text)) => ["sad", "happy"].contains(&text),
        ("tea" | "coffee", Some(text)) => ["false", "true"].contains(&text),
        ("income", Some(text)) => ["0", "1"].contains(&text),
        ("page", Some(text)) => text.len() == 16 && bits(text),
        ("page_cohort", Some(text)) => ["0", "1", "2", "3"].contains(&text),
        ("note", _) => true,
        ("person", Some(text)) => text.parse::<i32>().is_ok_and(|n| n.to_string() == text),
        _ => false,
    }
}

/// The columns of what the database gets.
fn columns(write: &Write) -> Vec<&str> {
    let given = write.target.columns.iter().map(String::as_str);
    given.chain(["page_cohort"]).collect()
}

fn insert(plan: &WritePlan<'_>, write: &Write, arguments: &[(u32, Argument)]) {
    let declared: Vec<u32> = arguments.iter().map(|(oid, _)| *oid).collect();
    let arguments: Vec<Argument> = arguments.iter().map(|(_, given)| given.clone()).collect();
    let parameters = match WRITER.parameters(&REQUESTER, write, &declared) {
        Ok(parameters) => parameters,
        Err(refusal) => return keeps_quiet(&refusal),
    };
    let values = (parameters.as_slice(), arguments.as_slice());
    let share = MemoryShare::default();
    let made = futures::executor::block_on(WRITER.rows(plan, write, values, &share));
    let made = match made {
        Ok(made) => made,
        Err(refusal) => return keeps_quiet(&refusal),
    };
    let (sent, sql) = (made.values(), made.sql());
    assert!(!has_mark(&format!("{sent:?}")));
    let columns = columns(write);
    assert_eq!(sent.len() % columns.len(), 0);
    for (value, column) in sent.iter().zip(columns.iter().cycle()) {
        let is_good = match value {
            SentValue::Text(text, _) => is_report(column, Some(text)),
            SentValue::Null => is_report(column, None),
            SentValue::Default | SentValue::Binary(..) => *column == "note",
        };
        assert!(is_good, "{column}");
    }
    assert!(
        sql.starts_with("INSERT INTO \"nls\".\"answers\" (") && !has_mark(&sql),
        "{sql}"
    );
    let defaults = sent
        .iter()
        .filter(|value| matches!(value, SentValue::Default));
    assert_eq!(
        sql.matches('$').count(),
        sent.len() - defaults.count(),
        "{sql}"
    );
}

/// The rows of a stream that comes in these pieces, as the database gets them.
fn copied<'p>(
    plan: &WritePlan<'_>,
    format: &CopyFormat,
    pieces: impl Iterator<Item = &'p [u8]>,
) -> Result<Vec<u8>, Refusal> {
    let mut rows = CopyRows::new(format, &MemoryShare::default());
    let mut sent = Vec::new();
    for piece in pieces {
        rows.add(piece, false)?;
        while let Some(slice) = rows.take(&WRITER, plan)? {
            sent.extend(slice);
        }
    }
    rows.add(&[], true)?;
    while let Some(slice) = rows.take(&WRITER, plan)? {
        sent.extend(slice);
    }
    Ok(sent)
}

/// The values of rows, each of which is a report, but for the bits of a filter: they are drawn anew
/// each time.
fn values(sent: &[u8], columns: &[&str]) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    let Some(rows) = sent.strip_suffix(b"\n") else {
        assert!(sent.is_empty());
        return values;
    };
    for row in rows.split(|byte| *byte == b'\n') {
        let row: Vec<&[u8]> = row.split(|byte| *byte == b'\t').collect();
        assert_eq!(row.len(), columns.len());
        for (value, column) in row.into_iter().zip(columns) {
            let text = std::str::from_utf8(value).unwrap();
            let text = (text != "\\N").then_some(text);
            assert!(is_report(column, text), "{column}");
            assert!(*column == "note" || !text.is_some_and(has_mark), "{column}");
            if *column != "page" {
                values.push(value.to_vec());
            }
        }
    }
    values
}

fn copy(
    plan: &WritePlan<'_>,
    write: &Write,
    format: &CopyFormat,
    (lengths, lines): (&[u8], &[u8]),
) {
    let columns = columns(write);
    let whole = copied(plan, format, std::iter::once(lines));
    let mut rest = lines;
    let mut lengths = lengths.iter().cycle();
    let pieces = std::iter::from_fn(|| {
        let length = lengths
            .next()
            .map_or(1, |length| usize::from(*length % 32) + 1);
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    });
    match (whole, copied(plan, format, pieces)) {
        (Ok(whole), Ok(split)) => assert_eq!(values(&whole, &columns), values(&split, &columns)),
        (Err(whole), Err(split)) => {
            keeps_quiet(&whole);
            assert_eq!(whole.message, split.message);
        }
        (whole, split) => panic!("{:?} {:?}", whole.err(), split.err()),
    }
}

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |byte| *byte == 0x1e);
    let (lengths, sql) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let rest = parts.next().unwrap_or_default();
    let Ok(sql) = std::str::from_utf8(sql) else {
        return;
    };
    let statements = match parse_with_writes(sql) {
        Ok(statements) => statements,
        // Other statements than writes show what they quote.
        Err(refusal) => {
            let begins = sql.trim_start().get(..6).unwrap_or_default();
            if begins.eq_ignore_ascii_case("INSERT") && !may_name_the_mark(sql) {
                keeps_quiet(&refusal);
            }
            return;
        }
    };
    for statement in &statements {
        let Statement::Write(write) = statement else {
            continue;
        };
        if write
            .target
            .columns
            .iter()
            .chain(&write.target.table)
            .any(|name| has_mark(name))
        {
            continue;
        }
        assert!(!has_mark(&format!("{statement:?}")));
        let plan = match WRITER.plan(&REQUESTER, &write.target) {
            Ok(plan) => plan,
            Err(refusal) => {
                keeps_quiet(&refusal);
                continue;
            }
        };
        match &write.rows {
            WrittenRows::Values(_) => {
                let arguments: Vec<(u32, Argument)> = rest
                    .split(|byte| *byte == 0x1e)
                    .filter_map(argument)
                    .collect();
                insert(&plan, write, &arguments);
            }
            WrittenRows::Stream(format) => copy(&plan, write, format, (lengths, rest)),
        }
    }
});
