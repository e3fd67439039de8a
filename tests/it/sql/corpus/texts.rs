//! The texts themselves, read where they lie. This repository keeps no copy of them.

use std::path::{Path, PathBuf};

/// One text, and the schema it speaks of.
pub struct Text {
    pub id: String,
    pub world: &'static str,
    pub sql: String,
}

fn read(file: &str) -> Option<String> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared")
        .join(file);
    std::fs::read_to_string(path).ok()
}

/// The active statements that Qrlew's own suite rewrites: one a line, under their heading.
pub fn census() -> Vec<Text> {
    let Some(file) = read("queries/qrlew/test_queries.sql") else {
        return Vec::new();
    };
    let under = file
        .split("-- == ")
        .find(|part| part.starts_with("pyqrlew/tests/queries/base_queries.sql"))
        .unwrap_or_default();
    let active = under
        .lines()
        .skip(1)
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("--"));
    active
        .enumerate()
        .map(|(at, sql)| Text {
            id: format!("B{:02}", at + 1),
            world: "census",
            sql: bare(sql),
        })
        .collect()
}

/// One statement a line, its number in the comment above.
pub fn probe() -> Vec<Text> {
    let Some(file) = read("queries/qrlew/probe.sql") else {
        return Vec::new();
    };
    let mut id = String::new();
    let mut found = Vec::new();
    for line in file.lines() {
        match line.strip_prefix("-- ") {
            Some(comment) => {
                id = comment
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            }
            None if line.trim().is_empty() => {}
            None => found.push(Text {
                id: id.clone(),
                world: "shop",
                sql: bare(&line.replace("shop_bench.", "shop.")),
            }),
        }
    }
    found
}

/// JSON lines. Statements without metadata use invented tables, which do not exist here either.
pub fn smartnoise() -> Vec<Text> {
    let Some(file) = read("queries/smartnoise/queries.jsonl") else {
        return Vec::new();
    };
    let text = |line: &str| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let world = if entry["metadata"] == "PUMS_row.yaml" {
            "pums"
        } else {
            "devices"
        };
        Text {
            id: entry["id"].as_str().unwrap().to_owned(),
            world,
            sql: bare(entry["sql"].as_str().unwrap()),
        }
    };
    file.lines()
        .filter(|line| !line.trim().is_empty())
        .map(text)
        .collect()
}

/// Statements between `-- ;;`, each under a comment that names the tool.
pub fn business_tools() -> Vec<Text> {
    let Some(file) = read("client_queries/bi_generated.sql") else {
        return Vec::new();
    };
    let text = |(at, part): (usize, &str)| {
        let name = part
            .trim()
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("-- "))
            .unwrap_or("as above")
            .to_owned();
        Text {
            id: format!("T{:02} {name}", at + 1),
            world: "sales",
            sql: bare(part),
        }
    };
    file.split("-- ;;").enumerate().map(text).collect()
}

fn bare(sql: &str) -> String {
    sql.trim().trim_end_matches(';').to_owned()
}
