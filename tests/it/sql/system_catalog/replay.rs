//! Recorded statements of real tools, asked through pgveil and directly.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pgveil::engine::{Format, Service};
use pgveil::parse::{Query, Statement, parse};
use tokio_postgres::SimpleQueryMessage;
use tokio_util::sync::CancellationToken;

use super::shop::Shop;

/// How many statements about the catalogs are answered, and how many with equal rows, at least.
/// psql's `\dconfig` shows fewer settings, its `\l+` no sizes.
const FLOORS: [(&str, usize, usize); 10] = [
    // Their other answers name the owners and the databases, and the policy shows only its own.
    ("psql", 69, 60),
    ("pgjdbc", 31, 29),
    ("psqlodbc", 17, 17),
    ("python_drivers", 38, 38),
    ("sqlalchemy", 144, 144),
    ("npgsql_ef", 7, 7),
    ("powerbi", 6, 6),
    ("metabase", 4, 4),
    ("dbeaver", 17, 17),
    ("grafana", 5, 5),
];

type Rows = Vec<Vec<Option<String>>>;

#[tokio::test(flavor = "multi_thread")]
async fn what_tools_ask_is_answered_as_postgres_does() {
    let Some(folder) = folder() else {
        println!("skipped: the recorded statements of clients are not here");
        return;
    };
    let shop = Shop::open().await;
    let orders = "SELECT 'sales.orders'::regclass::oid";
    let first =
        |(_, rows): (Vec<String>, Rows)| rows.into_iter().flatten().flatten().next().unwrap();
    let oids = (
        first(through(&shop, orders).await.unwrap()),
        first(directly(&shop, orders).await.unwrap()),
    );
    let mut short = Vec::new();
    for (client, answered_floor, equal_floor) in FLOORS {
        let text = std::fs::read_to_string(folder.join(format!("{client}.sql"))).unwrap();
        let (mut asked, mut answered, mut equal) = (0, 0, 0);
        let mut faults: BTreeMap<String, usize> = BTreeMap::new();
        for block in text.split("\n-- ;;").map(substituted) {
            for query in queries(&block, &mut faults) {
                // Statements that PostgreSQL itself refuses here (an object of another schema) do
                // not count.
                let Ok(direct) = directly(&shop, &with_oid(&query.to_sql(), &oids.1)).await else {
                    continue;
                };
                asked += 1;
                match through(&shop, &with_oid(&query.to_sql(), &oids.0)).await {
                    Ok(rows) => {
                        answered += 1;
                        let (ours, theirs) = (masked(rows), masked(direct));
                        let same = ours == theirs;
                        equal += usize::from(same);
                        if !same {
                            *faults
                                .entry(format!(
                                    "differs: {}: {}",
                                    start(&query.to_sql()),
                                    difference(&ours, &theirs)
                                ))
                                .or_default() += 1;
                        }
                    }
                    Err(error) => {
                        *faults
                            .entry(format!("{error}: {}", start(&query.to_sql())))
                            .or_default() += 1
                    }
                }
            }
        }
        println!(
            "{client}: {asked} statements about the catalogs, {answered} answered, {equal} equal"
        );
        for (fault, times) in faults {
            println!("  {times} × {fault}");
        }
        if answered < answered_floor || equal < equal_floor {
            short.push(client);
        }
    }
    assert!(short.is_empty(), "fewer than before: {short:?}");
}

/// Where the recorded statements lie, if they are on this machine.
pub fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/client_queries");
    folder.exists().then_some(folder)
}

/// Without the comment lines, and with the recorded parameters in place of `$1`, `$2`, …; a long
/// list was cut when it was recorded, and the rest is `'0'`.
pub fn substituted(block: &str) -> String {
    let mut text: String = block
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect::<Vec<_>>()
        .join("\n");
    let header = block
        .lines()
        .find_map(|line| line.split_once("parameters: "))
        .map_or("", |(_, parameters)| parameters);
    let recorded: Vec<&str> = header
        .split(", $")
        .filter_map(|one| Some(one.split_once(" = ")?.1.trim_end()))
        .collect();
    let whole = |value: &&&str| value.len() > 1 && value.starts_with('\'') && value.ends_with('\'');
    for number in (1..=99).rev() {
        let value = recorded
            .get(number - 1)
            .filter(whole)
            .copied()
            .unwrap_or("'0'");
        text = text.replace(&format!("${number}"), value);
    }
    text
}

/// OIDs of the recorded tables stand for the one of `sales.orders` on either side.
fn with_oid(sql: &str, oid: &str) -> String {
    let mut text = String::new();
    let mut rest = sql;
    while let Some(at) = rest.find("16").or_else(|| rest.find("17")) {
        let digits = rest[at..].chars().take_while(char::is_ascii_digit).count();
        let apart = !rest[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        text.push_str(&rest[..at]);
        text.push_str(if digits == 5 && apart {
            oid
        } else {
            &rest[at..at + digits]
        });
        rest = &rest[at + digits..];
    }
    text.push_str(rest);
    text
}

/// The queries that read no table of the shop; the wire answers `pg_advisory_unlock_all()` itself.
fn queries(block: &str, faults: &mut BTreeMap<String, usize>) -> Vec<Query> {
    let lower = block
        .to_ascii_lowercase()
        .replace('"', "")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    if [
        "from sales.",
        "from orders",
        "from customers",
        "into ",
        "from named",
        "select pg_advisory_unlock_all()",
    ]
    .iter()
    .any(|table| lower.contains(table))
        || lower.contains('$')
    {
        return Vec::new();
    }
    match parse(block) {
        Ok(statements) => statements
            .into_iter()
            .filter_map(|statement| {
                if let Statement::Query(query) = statement {
                    Some(query)
                } else {
                    None
                }
            })
            .collect(),
        Err(refusal) if lower.starts_with("select") || lower.starts_with("with") => {
            *faults
                .entry(format!("not parsed: {refusal}: {}", start(block)))
                .or_default() += 1;
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

async fn through(shop: &Shop, sql: &str) -> Result<(Vec<String>, Rows), String> {
    let statements = parse(sql).map_err(|refusal| refusal.to_string())?;
    let [Statement::Query(query)] = statements.as_slice() else {
        return Err("not one query".to_owned());
    };
    let answer = shop
        .engine
        .answer(
            &Shop::requester(),
            query,
            &[],
            &[],
            &[Format::Text],
            CancellationToken::new(),
        )
        .await;
    let answer = answer.map_err(|error| error.report().to_string())?;
    let text = |value: &Option<bytes::Bytes>| {
        value
            .as_ref()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let names = answer
        .columns
        .iter()
        .map(|column| column.name.clone())
        .collect();
    Ok((
        names,
        answer
            .rows
            .iter()
            .map(|row| row.iter().map(text).collect())
            .collect(),
    ))
}

async fn directly(shop: &Shop, sql: &str) -> Result<(Vec<String>, Rows), tokio_postgres::Error> {
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for message in shop.direct.simple_query(sql).await? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                names = columns
                    .iter()
                    .map(|column| column.name().to_owned())
                    .collect()
            }
            SimpleQueryMessage::Row(row) => rows.push(
                (0..row.len())
                    .map(|column| row.get(column).map(str::to_owned))
                    .collect(),
            ),
            _ => {}
        }
    }
    Ok((names, rows))
}

/// Without sizes and counts, by their columns' names, and without OIDs of what users made, which
/// have five digits or more; the order among rows may hang on them.
fn masked((names, mut rows): (Vec<String>, Rows)) -> (Vec<String>, Rows) {
    let counted = |name: &String| {
        ["size", "scans", "tup", "pages", "count"]
            .iter()
            .any(|word| name.to_ascii_lowercase().contains(word))
    };
    let counted: Vec<bool> = names.iter().map(counted).collect();
    for row in &mut rows {
        for (value, counted) in row
            .iter_mut()
            .zip(&counted)
            .filter_map(|(value, counted)| Some((value.as_mut()?, counted)))
        {
            let mut text = String::new();
            for piece in value.split_inclusive(|c: char| !c.is_ascii_digit()) {
                let digits = piece.chars().take_while(char::is_ascii_digit).count();
                text.push_str(if digits >= 5 || (*counted && digits > 0) {
                    "#"
                } else {
                    &piece[..digits]
                });
                text.push_str(&piece[digits..]);
            }
            *value = text;
        }
    }
    rows.sort();
    (names, rows)
}

/// The first row that is not in both, or the names.
fn difference(ours: &(Vec<String>, Rows), theirs: &(Vec<String>, Rows)) -> String {
    let ours_only = ours.1.iter().find(|row| !theirs.1.contains(row));
    let theirs_only = theirs.1.iter().find(|row| !ours.1.contains(row));
    format!(
        "{} and {} rows; {ours_only:?}, PostgreSQL {theirs_only:?}",
        ours.1.len(),
        theirs.1.len()
    )
}

fn start(sql: &str) -> String {
    sql.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(160)
        .collect()
}
