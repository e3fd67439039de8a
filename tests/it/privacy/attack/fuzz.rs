//! Real statements and broken ones, through parse() and plan(): whatever they are, they are
//! answered or refused, never a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pgveil::parse::{Statement, parse};
use pgveil::policy::Policy;
use pgveil::resolve::Constants;

use crate::fixture::Veil;
use crate::project::golden::terms;

/// Broken statements for each whole one.
const MUTANTS: usize = 4;

/// Where statements lie, next to our own.
pub const FOLDERS: [&str; 3] = ["../shared/client_queries", "../shared/queries", "tests"];

/// xorshift64*: the same throws on every machine.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % sides.max(1)
    }

    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// Pieces that a mutation puts in.
const SPLINTERS: [&str; 48] = [
    "(",
    ")",
    ",",
    ".",
    "*",
    "::",
    "'",
    "\"",
    "E'\\'",
    "$1",
    "$$",
    "--",
    "/*",
    ";",
    "NULL",
    "-",
    "NOT",
    "IS",
    "BETWEEN",
    "AND",
    "LIMIT 0",
    "WHERE false",
    "GROUP BY 1",
    "ORDER BY 9999999999999999999",
    "nls.women",
    "nls.interviews",
    "woman_id",
    "birth_year",
    "count(*)",
    "sum(birth_year)",
    "OVER ()",
    "FILTER (WHERE true)",
    "(SELECT count(*) FROM nls.women)",
    "UNION ALL",
    "JOIN nls.women USING (woman_id)",
    "LATERAL",
    "AS x(y, z)",
    "1e999",
    "-9223372036854775808",
    "'\\'",
    "''",
    "''''",
    "é",
    "\u{202e}",
    "extract(week FROM '2020-02-30'::date)",
    "timestamptz '2020-01-01 00:00:00+é'",
    "interval '1'",
    "ARRAY[1][",
];

pub fn statements(folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("skipped: there is no {}", folder.display());
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            statements(&path, found);
        } else if path.extension().is_some_and(|e| e == "sql")
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            found.extend(
                text.split(";\n")
                    .map(str::trim)
                    .filter(|sql| !sql.is_empty())
                    .map(str::to_owned),
            );
        }
    }
}

/// Deletes, doubles, swaps or replaces a few words.
pub fn mutated(sql: &str, dice: &mut Dice) -> String {
    let mut words: Vec<&str> = sql
        .split_inclusive(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(words.len());
        match dice.roll(4) {
            0 if words.len() > 1 => drop(words.remove(at)),
            1 => words.insert(at, words.get(at).copied().unwrap_or("(")),
            2 => {
                let other = dice.roll(words.len());
                if at < words.len() {
                    words.swap(at, other);
                }
            }
            _ => words.insert(at, dice.pick(&SPLINTERS)),
        }
    }
    words.concat()
}

/// Parses and plans, as Parse and Describe would; whether all of it is answered.
pub fn tried(sql: &str, policy: &Policy) -> bool {
    let Ok(statements) = parse(sql) else {
        return false;
    };
    statements.iter().all(|statement| {
        let (Statement::Query(query) | Statement::Explain(query, _)) = statement else {
            return true;
        };
        let constants = Constants {
            now: 848_880_000_000_000,
            role: "analyst".to_owned(),
            is_utc: true,
            signs_each: true,
            prints_plainly: true,
            session: Default::default(),
        };
        let path = ["nls".to_owned(), "public".to_owned()];
        pgveil::engine::plan(query, policy, &path, &constants, &terms(policy)).is_ok()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_stops_the_proxy() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let policy = veil.engine.policy();
    let mut all = Vec::new();
    FOLDERS
        .iter()
        .for_each(|folder| statements(Path::new(folder), &mut all));
    println!("{} statements", all.len());
    let mut dice = Dice(0x0bad_5eed);
    for sql in &all {
        let mutants: Vec<String> = (0..MUTANTS).map(|_| mutated(sql, &mut dice)).collect();
        for text in std::iter::once(sql).chain(&mutants) {
            assert!(
                catch_unwind(AssertUnwindSafe(|| tried(text, policy))).is_ok(),
                "panics: {text}"
            );
        }
    }
}
