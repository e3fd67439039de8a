//! The reference documents, compared with the code: everything that the code reads is described,
//! and everything described exists.

use std::collections::BTreeSet;

use pgveil::ir::functions::{AGGREGATES, entries};
use pgveil::policy::{File, KEYS, SESSION_SETTINGS, VIEWS};

use super::tidy::texts;

fn document(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Texts in backquotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The text constant with which `rest` begins, after blanks.
fn constant(rest: &str) -> Option<&str> {
    rest.trim_start().strip_prefix('"')?.split('"').next()
}

/// Every key that the readers of the policy file ask for.
fn policy_keys() -> BTreeSet<String> {
    let is_reader = |path: &std::path::Path| {
        let path = path.to_string_lossy().replace('\\', "/");
        (path == "src/policy/file.rs" || path.starts_with("src/policy/file/"))
            && !path.ends_with("tests.rs")
    };
    let mut keys = BTreeSet::new();
    for (_, text) in texts("src/policy")
        .into_iter()
        .filter(|(path, _)| is_reader(path))
    {
        for call in ["require(", "optional("] {
            keys.extend(
                text.split(call)
                    .skip(1)
                    .filter_map(constant)
                    .map(str::to_owned),
            );
        }
        // The limits and the truths of a column are read by their names in a list.
        keys.extend(
            text.split("\"limits.")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .map(str::to_owned),
        );
        keys.extend(
            text.split("truth(\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .map(str::to_owned),
        );
    }
    keys.retain(|key| !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    keys
}

#[test]
fn every_key_of_the_policy_file_is_described() {
    let keys = policy_keys();
    assert!(
        keys.len() > 35 && keys.contains("quantum") && keys.contains("complete"),
        "found {keys:?}"
    );
    let text = document("docs/policy.md");
    let words: BTreeSet<&str> = text
        .lines()
        .flat_map(quoted)
        .flat_map(|text| text.split(|c: char| !c.is_ascii_lowercase() && c != '_'))
        .collect();
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| !words.contains(key.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/policy.md does not describe {missing:?}"
    );
}

/// Each key in the first column of a table of the document is one that the code reads.
#[test]
fn every_described_key_of_the_policy_file_exists() {
    let keys = policy_keys();
    let text = document("docs/policy.md");
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cell = line.split('|').nth(1).unwrap_or_default();
        for key in quoted(cell).filter(|text| {
            text.chars()
                .all(|c| c.is_ascii_lowercase() || "_.".contains(c))
        }) {
            let last = key.rsplit('.').next().unwrap_or_default();
            // A column may be one word.
            assert!(
                keys.contains(last) || last == "hidden",
                "docs/policy.md describes `{key}`, which nothing reads"
            );
        }
    }
}

/// The table that the schema and `pgveil policy explain` are made from has the keys that the code
/// reads, each below its parent.
#[test]
fn the_table_of_keys_is_what_the_code_reads() {
    let is_place = |name: &str| ["*", "-"].contains(&name);
    let named: BTreeSet<String> = KEYS
        .iter()
        .map(|key| key.name().to_owned())
        .filter(|name| !is_place(name))
        .collect();
    assert_eq!(named, policy_keys());
    for (at, key) in KEYS.iter().enumerate() {
        let parent = key.path.rsplit_once('.').map(|(parent, _)| parent);
        assert!(
            parent.is_none_or(|parent| KEYS[..at].iter().any(|key| key.path == parent)),
            "{} has no parent",
            key.path
        );
        let is_reported = is_place(key.name()) || key.example.contains(key.name());
        assert!(is_reported && key.says.ends_with('.'), "{key:?}");
        assert_eq!(
            KEYS.iter().filter(|other| other.path == key.path).count(),
            1,
            "{}",
            key.path
        );
    }
}

/// The documented defaults of the limits hold for a policy that does not mention them.
#[test]
fn the_limits_defaults_are_as_described() {
    const POLICY: &str = "version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
roles:
  - name: analyst
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: {epsilon: 1, delta: 1e-7}
tables: {public.t: public}
";
    let limits = File::parse("policy", POLICY, |_| None)
        .expect("a whole policy")
        .limits;
    let text = document("docs/policy.md");
    for key in KEYS {
        let Some(name) = key.path.strip_prefix("limits.") else {
            continue;
        };
        let row = format!("| `{name}` | {} |", key.default);
        let quoted = format!("| `{name}` | `{}` |", key.default);
        assert!(text.contains(&row) || text.contains(&quoted), "{row}");
    }
    let default = |key: &str| {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| `{key}` |")))
            .unwrap_or_else(|| panic!("no row for {key}"));
        row.split('|')
            .nth(2)
            .unwrap_or_default()
            .trim()
            .trim_matches('`')
            .to_owned()
    };
    assert_eq!(
        default("groups_per_unit"),
        limits.groups_per_unit.to_string()
    );
    assert_eq!(default("groups"), limits.groups.to_string());
    assert_eq!(default("mirror_rows"), limits.mirror_rows.to_string());
    assert_eq!(default("failures"), limits.failures.to_string());
    assert_eq!(
        default("monitor_questions"),
        limits.monitor_questions.to_string()
    );
    assert_eq!(
        default("statement_timeout"),
        format!("{}s", limits.statement_timeout.as_secs())
    );
    assert_eq!(default("stream_rows"), limits.stream_rows.to_string());
    assert_eq!(default("connections"), limits.connections.to_string());
    assert_eq!(
        default("connections_per_role"),
        limits.connections_per_role.to_string()
    );
    assert_eq!(
        default("connections_per_address"),
        limits.connections_per_address.to_string()
    );
}

/// Names in the first column of the tables that follow a heading.
fn named_under<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let section = text
        .split(&format!("\n## {heading}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no heading {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| quoted(line.split('|').nth(1).unwrap_or_default()))
        .collect()
}

/// Keys of every object that the JSON of EXPLAIN is made of.
#[test]
fn the_keys_of_explain_are_described() {
    let source = [
        "src/engine/explain.rs",
        "src/engine/explain/of_summaries.rs",
        "src/engine/answer_errors.rs",
        "src/engine/monitor_words.rs",
        "src/engine/holdout_words.rs",
    ]
    .map(document)
    .concat();
    let keys: BTreeSet<&str> = source
        .match_indices("\": ")
        .filter_map(|(at, _)| source[..at].rsplit('"').next())
        .filter(|key| {
            !key.is_empty()
                && key
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        })
        .collect();
    assert!(
        keys.len() > 30 && keys.contains("budget_left_after"),
        "found {keys:?}"
    );
    let text = document("docs/operations.md");
    let words: BTreeSet<&str> = text.lines().flat_map(quoted).collect();
    let missing: Vec<_> = keys.iter().filter(|key| !words.contains(*key)).collect();
    assert!(
        missing.is_empty(),
        "docs/operations.md does not describe {missing:?}"
    );
    for key in named_under(&text, "EXPLAIN") {
        assert!(
            keys.contains(key),
            "docs/operations.md describes the key {key}, which EXPLAIN does not have"
        );
    }
}

#[test]
fn the_metrics_are_described() {
    let sources = [
        document("src/engine/metrics.rs"),
        document("src/admin/metrics.rs"),
    ]
    .concat();
    // The library writes the unit, and `_total` for a counter, behind the name.
    let made: BTreeSet<String> = sources
        .split("registry.register")
        .skip(1)
        .filter_map(|call| {
            let call = call.split(");").next()?;
            let name = constant(call.split_once('(')?.1)?;
            let ends = [
                ("Unit::Seconds", "_seconds"),
                ("\"ratio\"", "_ratio"),
                ("metrics.questions", "_total"),
                ("metrics.logins", "_total"),
                ("metrics.reloads", "_total"),
                ("ConstCounter::new", "_total"),
                ("Info::new", "_info"),
            ];
            let end = ends.iter().find(|(sign, _)| call.contains(sign));
            Some(format!("{name}{}", end.map_or("", |(_, end)| end)))
        })
        .filter(|name| name.starts_with("pgveil_"))
        .collect();
    let text = document("docs/operations.md");
    let described: BTreeSet<String> = named_under(&text, "Health and metrics")
        .into_iter()
        .filter(|name| name.starts_with("pgveil_"))
        .map(str::to_owned)
        .collect();
    assert!(made.len() > 5, "found {made:?}");
    assert_eq!(made, described);
}

/// The document has the commands of `--help`.
#[test]
fn the_commands_are_described() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_pgveil"))
        .arg("--help")
        .output()
        .expect("pgveil --help");
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let section = help
        .split("Commands:\n")
        .nth(1)
        .expect("a list of commands")
        .split("\n\n")
        .next()
        .unwrap_or_default();
    let commands: BTreeSet<String> = section
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(|word| format!("pgveil {word}"))
        .collect();
    let text = document("docs/operations.md");
    let described: BTreeSet<String> = named_under(&text, "Commands")
        .into_iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(commands, described);
}

/// The table of functions, as docs/sql.md has it.
fn functions() -> String {
    let mut rows: std::collections::BTreeMap<&str, Vec<String>> = std::collections::BTreeMap::new();
    for entry in entries() {
        let argument = |kind: &pgveil::ir::functions::ParameterType| {
            let name = kind.data_type().to_string();
            if kind.is_constant() {
                format!("*{name}*")
            } else {
                name
            }
        };
        let arguments: Vec<String> = entry.arguments.iter().map(argument).collect();
        let form = format!("({}) → {}", arguments.join(", "), entry.result.data_type());
        let forms = rows.entry(entry.name).or_default();
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    let mut table = "| name | arguments → result |\n|---|---|\n".to_owned();
    for (name, forms) in rows {
        table += &format!(
            "| `{}` | {} |\n",
            name.replace('|', "\\|"),
            forms.join("; ")
        );
    }
    table
}

/// The document has all functions of the table. `PGVEIL_WRITE=1` writes them.
#[test]
fn the_functions_are_listed() {
    const BEGIN: &str = "PGVEIL_WRITE=1 -->\n";
    const END: &str = "<!-- end -->";
    let text = document("docs/sql.md");
    let (before, rest) = text.split_once(BEGIN).expect("the beginning of the list");
    let (listed, after) = rest.split_once(END).expect("the end of the list");
    let wanted = functions();
    if std::env::var_os("PGVEIL_WRITE").is_some() {
        std::fs::write("docs/sql.md", [before, BEGIN, &wanted, END, after].concat())
            .expect("docs/sql.md");
    } else {
        assert!(
            listed == wanted,
            "docs/sql.md does not list the functions of today; run this test with PGVEIL_WRITE=1"
        );
    }
}

#[test]
fn aggregates_settings_and_views_are_described() {
    let text = document("docs/sql.md");
    let words: BTreeSet<String> = text
        .lines()
        .flat_map(quoted)
        .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .map(str::to_ascii_lowercase)
        .collect();
    let aggregates = named_under(&text, "Aggregates")
        .join(" ")
        .to_ascii_lowercase();
    let missing: Vec<_> = AGGREGATES
        .iter()
        .filter(|name| !aggregates.contains(*name) && !name.starts_with("json"))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/sql.md does not describe the aggregates {missing:?}"
    );
    let settings: BTreeSet<&str> = named_under(&text, "Settings").into_iter().collect();
    assert_eq!(
        settings,
        SESSION_SETTINGS
            .iter()
            .map(|setting| setting.name)
            .collect::<BTreeSet<_>>()
    );
    for view in &VIEWS {
        assert!(
            words.contains(view.name),
            "docs/sql.md does not describe pgveil.{}",
            view.name
        );
        for (column, _) in view.columns {
            assert!(
                words.contains(*column),
                "docs/sql.md does not describe the column {column} of pgveil.{}",
                view.name
            );
        }
    }
}

/// Each cell about another system names its source, each source is used, and each has an address.
#[test]
fn the_comparison_names_its_sources() {
    let text = document("docs/comparison.md");
    let (tables, sources) = text.split_once("\n## Sources\n").expect("the sources");
    let tags = |text: &str| -> BTreeSet<String> {
        let opened = text.split('[').skip(1);
        let words = opened.filter_map(|rest| rest.split_once(']').map(|(word, _)| word));
        let is_tag = |word: &&str| word.len() == 2 && word.as_bytes()[1].is_ascii_digit();
        words.filter(is_tag).map(str::to_owned).collect()
    };
    let rows = sources.lines().filter(|line| line.contains("https://"));
    let listed: BTreeSet<String> = rows
        .filter_map(|line| Some(line.split('|').nth(1)?.trim().to_owned()))
        .collect();
    assert!(listed.len() > 15, "found {listed:?}");
    assert_eq!(tags(tables), listed);
    let rows = tables.lines().filter(|line| line.starts_with("| **"));
    for row in rows.filter(|row| !row.starts_with("| **pgveil**")) {
        for cell in row.trim_matches('|').split('|').skip(1) {
            let is_sourced = cell.trim() == "–" || !tags(cell).is_empty();
            assert!(
                is_sourced,
                "docs/comparison.md gives no source: {cell} in {row}"
            );
        }
    }
}

/// The book has each page once, and no other.
#[test]
fn the_book_has_every_page() {
    let summary = document("docs/SUMMARY.md");
    let links = summary.split("](").skip(1);
    let mut listed: Vec<&str> = links.filter_map(|rest| rest.split(')').next()).collect();
    listed.sort_unstable();
    let pages = std::fs::read_dir("docs").expect("docs");
    let mut pages: Vec<String> = pages
        .map(|page| page.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect();
    pages.sort_unstable();
    assert_eq!(listed, pages);
}
