//! The record of statements, for other programs: its lines, and the digest of a statement.

use std::io::Write;
use std::path::PathBuf;

use super::Failure;
use crate::ledger::{LedgerReader, record_line};
use crate::parse::{Query, Statement, parse};

/// Number of records that one read of the ledger returns.
const PAGE: u32 = 10_000;

/// Prints every record after a number, oldest first.
pub async fn export(ledger: &LedgerReader, mut after: i64) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    loop {
        let records = ledger.records(after, PAGE).await.map_err(Failure::new)?;
        let Some((last, _)) = records.last() else {
            break;
        };
        after = *last;
        for (number, record) in &records {
            let line = record_line(Some(*number), record);
            writeln!(out, "{line}").map_err(Failure::new)?;
        }
    }
    out.flush().map_err(Failure::new)
}

/// Prints the digest by which records name each statement of a text.
pub fn digests(ledger: &LedgerReader, sql: &str) -> Result<(), Failure> {
    let statements = parse(sql).map_err(|refusal| Failure::new(&refusal.message))?;
    let digest = |query: &Query| ledger.statement_digest(&query.to_sql()).to_string();
    let found: Vec<String> = statements
        .iter()
        .filter_map(Statement::query)
        .map(digest)
        .collect();
    if found.is_empty() {
        return Err(Failure::with_remedy(
            "the text has no statement that is recorded",
            "Records are of SELECT and EXPLAIN; SET, BEGIN and the like have none.",
        ));
    }
    found.iter().for_each(|digest| println!("{digest}"));
    Ok(())
}

/// Where `--record-to` writes: `jsonl:PATH`.
pub fn target(text: &str) -> Result<PathBuf, String> {
    match text.split_once(':') {
        Some(("jsonl", path)) if !path.is_empty() => Ok(PathBuf::from(path)),
        Some(_) | None => Err("write jsonl:PATH, such as jsonl:/var/log/pgveil.jsonl".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::target;
    use std::path::PathBuf;

    #[test]
    fn a_target_has_its_format() {
        assert_eq!(target("jsonl:/a:b"), Ok(PathBuf::from("/a:b")));
        for wrong in ["", "/a", "jsonl:", "csv:/a"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
