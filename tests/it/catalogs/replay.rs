//! The statements that real tools were seen to send, asked through pgveil and asked of PostgreSQL itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pgveil::engine::{Format, Service};
use pgveil::parse::{Query, Statement, parse};
use tokio_postgres::SimpleQueryMessage;
use tokio_util::sync::CancellationToken;

use super::shop::Shop;

/// How many statements about the catalogs are answered, and how many with equal rows, at least.
const FLOORS: [(&str, usize, usize); 10] = [
    ("psql", 0, 0),
    ("pgjdbc", 0, 0),
    ("psqlodbc", 0, 0),
    ("python_drivers", 0, 0),
    ("sqlalchemy", 0, 0),
    ("npgsql_ef", 0, 0),
    ("powerbi", 0, 0),
    ("metabase", 0, 0),
    ("dbeaver", 0, 0),
    ("grafana", 0, 0),
];

type Rows = Vec<Vec<Option<String>>>;

#[tokio::test(flavor = "multi_thread")]
async fn what_tools_ask_is_answered_as_postgres_does() {
    let Some(folder) = folder() else {
        println!("skipped: the recorded statements of clients are not here");
        return;
    };
    let shop = Shop::open().await;
    let mut short = Vec::new();
    for (client, answered_floor, equal_floor) in FLOORS {
        let text = std::fs::read_to_string(folder.join(format!("{client}.sql"))).unwrap();
        let (mut asked, mut answered, mut equal) = (0, 0, 0);
        let mut faults: BTreeMap<String, usize> = BTreeMap::new();
        for block in text.split("\n-- ;;").map(substituted) {
            for query in queries(&block, &mut faults) {
                // What PostgreSQL itself refuses here (an object of another schema) is not asked for.
                let Ok(direct) = directly(&shop, &query.to_sql()).await else { continue };
                asked += 1;
                match through(&shop, &query).await {
                    Ok(rows) => {
                        answered += 1;
                        let same = masked(rows) == masked(direct);
                        equal += usize::from(same);
                        if !same {
                            *faults.entry(format!("differs: {}", start(&query.to_sql()))).or_default() += 1;
                        }
                    }
                    Err(error) => *faults.entry(format!("{error}: {}", start(&query.to_sql()))).or_default() += 1,
                }
            }
        }
        println!("{client}: {asked} statements about the catalogs, {answered} answered, {equal} equal");
        for (fault, times) in faults {
            println!("  {times} × {fault}");
        }
        if answered < answered_floor || equal < equal_floor {
            short.push(client);
        }
    }
    assert!(short.is_empty(), "fewer than before: {short:?}");
}

fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/client_queries");
    folder.exists().then_some(folder)
}

/// Without the comment lines, and with the recorded parameters in place of `$1`, `$2`, …
fn substituted(block: &str) -> String {
    let mut text: String = block.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
    let header = block.lines().find_map(|line| line.split_once("parameters: ")).map_or("", |(_, parameters)| parameters);
    let parameters: Vec<(&str, &str)> = header.split(", $").filter_map(|one| one.trim_start_matches('$').split_once(" = ")).collect();
    for (number, value) in parameters.iter().rev() {
        text = text.replace(&format!("${number}"), value);
    }
    text
}

/// Those that read no table of the shop.
fn queries(block: &str, faults: &mut BTreeMap<String, usize>) -> Vec<Query> {
    let lower = block.to_ascii_lowercase().replace('"', "").split_whitespace().collect::<Vec<_>>().join(" ");
    if ["from sales.", "from orders", "from customers", "into ", "from named"].iter().any(|table| lower.contains(table)) || lower.contains('$') {
        return Vec::new();
    }
    match parse(block) {
        Ok(statements) => statements
            .into_iter()
            .filter_map(|statement| match statement {
                Statement::Query(query) => Some(query),
                Statement::Explain(..) | Statement::Session(_) => None,
            })
            .collect(),
        Err(refusal) if lower.starts_with("select") || lower.starts_with("with") => {
            *faults.entry(format!("not parsed: {refusal}: {}", start(block))).or_default() += 1;
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

async fn through(shop: &Shop, query: &Query) -> Result<Rows, String> {
    let answer = shop.engine.answer(&Shop::asker(), query, &[], &[], &[Format::Text], CancellationToken::new()).await;
    let answer = answer.map_err(|error| error.report().to_string())?;
    let text = |value: &Option<bytes::Bytes>| value.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Ok(answer.rows.iter().map(|row| row.iter().map(text).collect()).collect())
}

async fn directly(shop: &Shop, sql: &str) -> Result<Rows, tokio_postgres::Error> {
    let messages = shop.direct.simple_query(sql).await?;
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()),
        _ => None,
    };
    Ok(messages.iter().filter_map(row).collect())
}

/// OIDs of what users made, sizes and counts have five digits or more; the order among rows may hang on them.
fn masked(mut rows: Rows) -> Rows {
    for value in rows.iter_mut().flatten().flatten() {
        let mut text = String::new();
        for piece in value.split_inclusive(|c: char| !c.is_ascii_digit()) {
            let digits = piece.chars().take_while(char::is_ascii_digit).count();
            text.push_str(if digits >= 5 { "#" } else { &piece[..digits] });
            text.push_str(&piece[digits..]);
        }
        *value = text;
    }
    rows.sort();
    rows
}

fn start(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}
